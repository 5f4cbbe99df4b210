"""A server whose own work beside the calls fails: what ends it is what is said."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from fakes.world import CENSUS

from broker_common.crypto.certificates import PeerCertificate, make_certificate
from broker_common.errors import BrokerError, InternalError, RefusedError
from broker_common.rpc.server import NodeServer, StopSignal
from broker_common.storage.clock import system_clock


def server(address: str) -> NodeServer:
    """A server that knows nobody."""
    own = make_certificate(CENSUS, now_ms=system_clock(), days=1)
    return NodeServer(
        address=address, tls=lambda: own, peers=lambda: (), service="tripartite.v1.CensusService", clock=system_clock
    )


async def test_handshakes_are_handed_nothing_new_where_nothing_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library may let go of certificates that another handshake is about to use: a change of peers is the only reason."""
    handed: list[Callable[[], grpc.ServerCertificateConfiguration | None]] = []
    make = grpc.dynamic_ssl_server_credentials

    def spied(first: Any, changed: Any, **named: Any) -> Any:
        handed.append(changed)
        return make(first, changed, **named)

    monkeypatch.setattr(grpc, "dynamic_ssl_server_credentials", spied)
    own, peers, stop = make_certificate(CENSUS, now_ms=system_clock(), days=1), list[PeerCertificate](), StopSignal()
    node = NodeServer("127.0.0.1:0", lambda: own, lambda: peers, "tripartite.v1.CensusService", system_clock)
    await node.run(lambda _: None, stop=stop, on_ready=lambda _: stop.stop())
    (changed,) = handed
    assert [changed() for _ in range(3)] == [None] * 3
    peers.append(PeerCertificate.parse_pem(own.certificate))
    own = make_certificate(CENSUS, now_ms=system_clock(), days=1)
    assert isinstance(changed(), grpc.ServerCertificateConfiguration)
    assert changed() is None
    peers.clear()
    assert isinstance(changed(), grpc.ServerCertificateConfiguration)


@pytest.mark.parametrize("error", [ValueError("a bug"), InternalError("STORE_FAILED")], ids=["bug", "store"])
async def test_work_that_fails_ends_the_server_with_an_error_of_ours(error: Exception) -> None:
    """A bug is INTERNAL, with its place in the log; a store that failed is said as it is."""

    async def work() -> None:
        raise error

    code = error.code if isinstance(error, BrokerError) else "INTERNAL"
    with pytest.raises(InternalError, match=code):
        await server("127.0.0.1:0").run(lambda _: None, stop=StopSignal(), on_ready=lambda _: None, while_serving=work)


async def test_work_that_fails_while_it_is_stopped_does_not_hide_why() -> None:
    """What stopped the node is more than what came of stopping it."""
    stop = StopSignal()

    async def work() -> None:
        try:
            stop.stop(InternalError("STORE_FAILED"))
            await asyncio.Event().wait()
        finally:
            raise ValueError("on the way out")

    with pytest.raises(InternalError, match="STORE_FAILED"):
        await server("127.0.0.1:0").run(lambda _: None, stop=stop, on_ready=lambda _: None, while_serving=work)


async def test_address_that_cannot_be_listened_on_is_logged_with_its_cause(capsys: pytest.CaptureFixture[str]) -> None:
    """The library has one error for a port that is taken and for certificates that it cannot load."""
    with pytest.raises(RefusedError, match="PORT_TAKEN"):
        await server("192.0.2.1:1").run(lambda _: None, stop=StopSignal(), on_ready=lambda _: None)
    assert "cause=" in "".join(capsys.readouterr())
