"""A registered researcher who sends byte by byte, reads nothing, or opens and resets streams keeps nobody else waiting."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fakes.patience import PATIENCE_SECONDS, until
from fakes.world import OTHER, OWNER, World
from integration.loopback import Loopback
from tripartite.v1 import health_service_pb2, health_service_pb2_grpc

from broker_common.crypto.certificates import Role, server_name
from broker_common.rpc.server import MAX_STREAMS, most_connections

CONNECTIONS = 6
STREAMS = 2000
MOST = 20
CALLS = 50
# The most that a hostile client may cost: each connection has its buffers, and so many calls. Unbounded it would be ten times that.
MEMORY_MIB = 150
STAGES = 4
ANSWERS = 3


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """One HTTP/2 frame (RFC 9113, 4.1)."""
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def header_block(path: bytes) -> bytes:
    """Literal header fields of one call (RFC 7541, 6.2.2)."""
    fields = (
        (b":method", b"POST"),
        (b":scheme", b"https"),
        (b":path", path),
        (b":authority", b"node.tripartite.internal"),
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
    )
    return b"".join(b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value for name, value in fields)


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"")
SUBMIT = b"/tripartite.v1.HealthService/Submit"
GET_DICTIONARY = b"/tripartite.v1.HealthService/GetDictionary"


def opened(stream: int, path: bytes) -> bytes:
    """A call that goes on."""
    return frame(1, 0x4, stream, header_block(path))


def whole(stream: int, path: bytes) -> bytes:
    """A call with an empty message, ended."""
    return opened(stream, path) + frame(0, 0x1, stream, bytes(5))


class Hostile:
    """Connections of one registered researcher to the health node, spoken to by hand."""

    def __init__(self, nodes: Loopback, folder: Path, role: Role = "health") -> None:
        self._peer, own = nodes.peers[role], nodes.tls[OTHER]
        certificate, key = folder / "client.crt", folder / "client.key"
        certificate.write_bytes(own.certificate)
        key.write_bytes(own.private_key)
        self._context = ssl.create_default_context(cadata=self._peer.certificates[0].pem.decode())
        self._context.load_cert_chain(certificate, key)
        self._context.set_alpn_protocols(["h2"])

    def plain(self) -> socket.socket:
        """A connection without a handshake."""
        host, _, port = self._peer.address.rpartition(":")
        return socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS)

    @contextlib.contextmanager
    def connections(self, number: int = CONNECTIONS) -> Iterator[list[ssl.SSLSocket]]:
        """So many, handshakes done."""
        with contextlib.ExitStack() as stack:
            yield [
                stack.enter_context(
                    self._context.wrap_socket(
                        stack.enter_context(self.plain()), server_hostname=server_name(self._peer.role)
                    )
                )
                for _ in range(number)
            ]


def push(connection: ssl.SSLSocket, content: bytes) -> None:
    """Send as much as the other side takes within a moment; it may hang up, or stop reading."""
    connection.settimeout(2.0)
    with contextlib.suppress(OSError):
        connection.sendall(content)


def open_and_say_nothing(connection: ssl.SSLSocket) -> None:
    """Thousands of calls that never say what they want."""
    push(connection, PREFACE + b"".join(opened(2 * number + 1, SUBMIT) for number in range(STREAMS)))


def reset_at_once(connection: ssl.SSLSocket) -> None:
    """Thousands of calls, each taken back as soon as it is made."""
    push(
        connection,
        PREFACE
        + b"".join(
            whole(2 * number + 1, GET_DICTIONARY) + frame(3, 0, 2 * number + 1, (8).to_bytes(4, "big"))
            for number in range(STREAMS)
        ),
    )


def ask_and_never_read(connection: ssl.SSLSocket) -> None:
    """Thousands of questions whose answers nobody takes."""
    push(connection, PREFACE + b"".join(whole(2 * number + 1, GET_DICTIONARY) for number in range(STREAMS)))


def promise_a_message(connection: ssl.SSLSocket) -> None:
    """Calls that announce a message of a megabyte and send all of it but the end."""
    beginning = bytes(1) + (2**20 - 5).to_bytes(4, "big") + bytes(11)
    calls = (opened(2 * number + 1, SUBMIT) + frame(0, 0, 2 * number + 1, beginning) for number in range(MAX_STREAMS))
    push(connection, PREFACE + b"".join(calls))


def memory_mib() -> float:
    """Memory of this process, which all three nodes share."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise OSError("this system does not say how much memory a process has")


async def answered(nodes: Loopback) -> int:
    """The stages that the other researcher hears of one question."""
    async with nodes.channel(OWNER, "health") as channel:
        stub: health_service_pb2_grpc.HealthServiceAsyncStub = health_service_pb2_grpc.HealthServiceStub(channel)
        # A node that has just lost a crowd of connections may still count them, and refuse the first try.
        call = stub.Submit(nodes.world.order().submission, timeout=PATIENCE_SECONDS, wait_for_ready=True)
        return len([_ async for _ in call])


async def looked_up(nodes: Loopback, times: int) -> int:
    """How many of so many calls at once bring the other researcher the dictionary."""
    async with nodes.channel(OWNER, "health") as channel:
        stub: health_service_pb2_grpc.HealthServiceAsyncStub = health_service_pb2_grpc.HealthServiceStub(channel)
        request = health_service_pb2.HealthServiceGetDictionaryRequest()
        calls = [stub.GetDictionary(request, timeout=PATIENCE_SECONDS) for _ in range(times)]
        return len([await call.read() for call in calls])


@pytest.mark.parametrize(
    "attack",
    [open_and_say_nothing, reset_at_once, ask_and_never_read, promise_a_message],
    ids=lambda each: each.__name__,
)
async def test_flood_of_calls_keeps_nobody_waiting(
    loopback: Loopback, tmp_path: Path, attack: Callable[[ssl.SSLSocket], None]
) -> None:
    """While one researcher floods the node over several connections, another's questions are answered; memory stays bounded."""
    assert await answered(loopback) == STAGES
    before = memory_mib()
    with Hostile(loopback, tmp_path).connections() as connections:
        attacks = [asyncio.create_task(asyncio.to_thread(attack, connection)) for connection in connections]
        assert await answered(loopback) == STAGES
        # None of them is dropped for what others have piled up.
        assert await looked_up(loopback, CALLS) == CALLS
        await asyncio.gather(*attacks)
        assert [await answered(loopback) for _ in range(3)] == [STAGES] * 3
        assert memory_mib() - before < MEMORY_MIB
    assert await answered(loopback) == STAGES
    assert loopback.stops["health"].error is None


async def test_calls_of_one_connection_are_limited(loopback: Loopback, tmp_path: Path) -> None:
    """The node says how many calls a connection may hold open at once: SETTINGS_MAX_CONCURRENT_STREAMS (RFC 9113, 6.5.2)."""

    def settings(connection: ssl.SSLSocket) -> bytes:
        connection.sendall(PREFACE)
        return connection.recv(4096)

    with Hostile(loopback, tmp_path).connections(1) as (connection,):
        heard = await asyncio.to_thread(settings, connection)
    assert heard[3] == 4, "the first frame is not its settings"
    payload = heard[9 : 9 + int.from_bytes(heard[:3], "big")]
    said = {
        int.from_bytes(payload[at : at + 2], "big"): int.from_bytes(payload[at + 2 : at + 6], "big")
        for at in range(0, len(payload), 6)
    }
    assert said[3] == MAX_STREAMS


async def test_client_that_sends_byte_by_byte_is_served_like_anybody(loopback: Loopback, tmp_path: Path) -> None:
    """Slowness is no refusal: the call is heard to its end, and others do not wait for it."""
    go_on = threading.Event()

    def drip(connection: ssl.SSLSocket) -> bytes:
        *most, last = PREFACE + whole(1, GET_DICTIONARY)
        for byte in most:
            connection.sendall(bytes([byte]))
            time.sleep(0.001)
        assert go_on.wait(PATIENCE_SECONDS)
        connection.sendall(bytes([last]))
        connection.settimeout(PATIENCE_SECONDS)
        heard = b""
        while b"grpc-status" not in heard:
            chunk = connection.recv(65536)
            assert chunk, "hung up"
            heard += chunk
        return heard

    with Hostile(loopback, tmp_path).connections(1) as (connection,):
        dripping = asyncio.create_task(asyncio.to_thread(drip, connection))
        # Not until it is done: so many answers may be more than the policy allows.
        for _ in range(ANSWERS):
            assert await answered(loopback) == STAGES
        go_on.set()
        assert b"age" in await dripping


async def test_connections_without_a_handshake_keep_nobody_out(loopback: Loopback, tmp_path: Path) -> None:
    """Anybody at all can open sockets; those who are registered get through beside them."""
    hostile = Hostile(loopback, tmp_path)
    for _ in range(ANSWERS):
        with contextlib.ExitStack() as stack:
            for _ in range(200):
                stack.enter_context(hostile.plain())
            assert await answered(loopback) == STAGES
    assert loopback.stops["health"].error is None


async def test_connections_beyond_the_most_are_refused_and_those_there_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many sockets anybody opens, the node takes so many and no more: descriptors are left for its stores."""
    monkeypatch.setattr("broker_common.rpc.server.most_connections", lambda: MOST)
    world = World(tmp_path / "world")
    async with Loopback(world) as nodes, nodes.channel(OWNER, "health") as channel:
        stub: health_service_pb2_grpc.HealthServiceAsyncStub = health_service_pb2_grpc.HealthServiceStub(channel)
        request = health_service_pb2.HealthServiceGetDictionaryRequest()
        await stub.GetDictionary(request, timeout=PATIENCE_SECONDS).read()
        hostile = Hostile(nodes, tmp_path)
        with contextlib.ExitStack() as stack:
            sockets = [stack.enter_context(hostile.plain()) for _ in range(2 * MOST)]
            await until(lambda: sum(map(is_closed, sockets)) >= MOST)
            assert len([part async for part in stub.GetDictionary(request, timeout=PATIENCE_SECONDS)]) > 1
            assert not all(map(is_closed, sockets))
        assert await answered(nodes) == STAGES
    world.close()


def is_closed(connection: socket.socket) -> bool:
    """Whether the other side has hung up by now."""
    connection.setblocking(False)
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


@pytest.mark.parametrize(("descriptors", "most"), [(1024, 512), (1_000_000, 4096), (resource.RLIM_INFINITY, 4096)])
def test_half_the_descriptors_are_left_for_stores(monkeypatch: pytest.MonkeyPatch, descriptors: int, most: int) -> None:
    """The limit of connections follows from what the system gives the process."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (descriptors, descriptors))
    assert most_connections() == most
