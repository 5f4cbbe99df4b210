"""A server whose own work beside the calls fails: what ends it is what is said."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from fakes.patience import PATIENCE_SECONDS
from fakes.world import CENSUS, HEALTH

from broker_common.crypto.certificates import PeerCertificate, TlsCredentials, make_certificate
from broker_common.errors import BrokerError, InternalError, RefusedError
from broker_common.rpc.server import Handshakes, NodeServer, StopSignal, every
from broker_common.storage.clock import system_clock


def server(address: str) -> NodeServer:
    """A server that knows nobody."""
    own = make_certificate(CENSUS, now_ms=system_clock(), days=1)
    return NodeServer(
        address=address, tls=lambda: own, peers=lambda: (), service="tripartite.v1.CensusService", clock=system_clock
    )


@pytest.mark.parametrize("error", [ValueError("a bug"), InternalError("STORE_FAILED")], ids=["bug", "store"])
async def test_work_that_fails_ends_the_server_with_an_error_of_ours(error: Exception) -> None:
    """A bug is INTERNAL, with its place in the log; a store that failed is said as it is."""

    async def work() -> None:
        raise error

    code = error.code if isinstance(error, BrokerError) else "INTERNAL"
    with pytest.raises(InternalError, match=code):
        await server("127.0.0.1:0").run(lambda _: None, stop=StopSignal(), on_ready=lambda _: None, while_serving=work)


async def test_work_that_fails_while_it_is_stopped_does_not_hide_why() -> None:
    """The reason why the node stopped matters more than a failure while stopping."""
    stop = StopSignal()

    async def work() -> None:
        try:
            stop.stop(InternalError("STORE_FAILED"))
            await asyncio.Event().wait()
        finally:
            raise ValueError("on the way out")

    with pytest.raises(InternalError, match="STORE_FAILED"):
        await server("127.0.0.1:0").run(lambda _: None, stop=stop, on_ready=lambda _: None, while_serving=work)


async def test_what_is_done_again_and_again_is_not_left_half_way() -> None:
    """Stopped in the middle: its stopper goes on, and closes what it uses, only when that piece is done."""
    begun, go_on, done = threading.Event(), threading.Event(), []

    def work() -> None:
        begun.set()
        assert go_on.wait(PATIENCE_SECONDS)
        done.append(True)

    doing = asyncio.create_task(every(0, work))
    assert await asyncio.to_thread(begun.wait, PATIENCE_SECONDS)
    doing.cancel()
    await asyncio.wait({doing}, timeout=0.1)
    assert not doing.done()
    go_on.set()
    with contextlib.suppress(asyncio.CancelledError):
        await doing
    assert done == [True]


async def test_failure_of_what_was_stopped_in_the_middle_is_nobodys_surprise() -> None:
    """The store broke and the node is stopping for it: the same error a second time is not reported as a bug."""
    begun, go_on = threading.Event(), threading.Event()
    unhandled: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))

    def work() -> None:
        begun.set()
        assert go_on.wait(60)
        raise InternalError("STORE_FAILED")

    doing = asyncio.create_task(every(0, work))
    assert await asyncio.to_thread(begun.wait, 60)
    doing.cancel()
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.wait({doing})
    assert doing.cancelled()
    # An error that nobody has looked at is reported when its task is forgotten.
    del doing
    gc.collect()
    await asyncio.sleep(0)
    assert unhandled == []


async def test_address_that_cannot_be_listened_on_is_logged_with_its_cause(capsys: pytest.CaptureFixture[str]) -> None:
    """The library has one error for a port that is taken and for certificates that it cannot load."""
    with pytest.raises(RefusedError, match="PORT_TAKEN"):
        await server("192.0.2.1:1").run(lambda _: None, stop=StopSignal(), on_ready=lambda _: None)
    assert "cause=" in "".join(capsys.readouterr())


def own_and_peer() -> tuple[TlsCredentials, PeerCertificate]:
    """Two certificates."""
    own, other = (make_certificate(party, now_ms=system_clock(), days=1) for party in (CENSUS, HEALTH))
    return own, PeerCertificate.parse_pem(other.certificate)


def test_handshakes_are_given_certificates_only_when_they_change() -> None:
    """The library frees what it has as soon as it is given something: a peer that is new or gone is a change, nothing else is one."""
    own, peer = own_and_peer()
    peers: list[PeerCertificate] = []
    handshakes = Handshakes(lambda: own, lambda: peers)
    assert handshakes.first() is not None
    assert [handshakes.changed() for _ in range(3)] == [None] * 3
    peers.append(peer)
    assert handshakes.changed() is not None
    assert handshakes.changed() is None
    peers.clear()
    assert handshakes.changed() is not None
    assert handshakes.changed() is None


def test_a_change_is_given_to_one_of_many_handshakes_at_once() -> None:
    """Asked in many threads, one of them is given the change; the others go on with what that one brought."""
    own, peer = own_and_peer()
    peers: list[PeerCertificate] = []
    handshakes = Handshakes(lambda: own, lambda: peers)
    handshakes.first()
    peers.append(peer)
    with ThreadPoolExecutor(8) as threads:
        given = list(threads.map(lambda _: handshakes.changed(), range(32)))
    assert sum(each is not None for each in given) == 1


def test_certificates_that_cannot_be_read_leave_the_last_good_ones() -> None:
    """A file that vanished ends no service: the next handshakes are made as before, and a change is still found later."""
    own, peer = own_and_peer()
    peers: list[PeerCertificate] = []
    readable = [True]

    def tls() -> TlsCredentials:
        if not readable[0]:
            raise InternalError("INTERNAL")
        return own

    handshakes = Handshakes(tls, lambda: peers)
    handshakes.first()
    peers.append(peer)
    readable[0] = False
    assert handshakes.changed() is None
    readable[0] = True
    assert handshakes.changed() is not None
