"""A wiretap on a deployment: every byte between its nodes, with TLS taken off by the test, which holds all their keys.

For each link (who calls whom) a proxy on loopback answers with the server's own certificate and calls on with the client's, mutual TLS 1.3 on both sides, so that neither end can tell; certificates are those of the present
cards at every handshake. Configurations, and where the census agency has the inbox registered, are changed to call the proxies. Traffic is recorded as it came, then read as HTTP/2 (RFC 9113: DATA frames to gRPC messages,
header blocks as raw bytes) and typed by the generated messages. Which RPC a call is stands in the clear in its header block the first time that a connection has it; later it follows from the messages, which of the RPCs that
the caller may call only one reads without a rest, and makes sense of.

Nothing is delayed, reordered or changed. `cut` ends a link in the middle, as a network would.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import threading
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from fakes.homes import address_of, home_exists, register_inbox, rewire, role_of
from fakes.patience import PATIENCE_SECONDS
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2
from privacy.handshakes import server_name_of, tls_context
from tripartite.v1 import (
    card_service_pb2,
    census_service_pb2,
    health_service_pb2,
    inbox_service_pb2,
    log_service_pb2,
    sample_pb2,
    ticket_pb2,
)

from broker_common.rpc.callers import ALLOWED_ROLES
from broker_common.storage.clock import system_clock
from broker_common.values import HASH_BYTES, QUERY_ID_BYTES

# Not a guard: somebody who does not listen any more is not waited for.
_CLOSE_SECONDS = 1.0
_LOOPBACK = "127.0.0.1"
_READ_BYTES = 1 << 16
# RFC 9113, sections 3.4, 4.1 and 6.
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_FRAME_HEADER = 9
_DATA, _HEADERS, _CONTINUATION = 0x0, 0x1, 0x9
_PADDED, _PRIORITY = 0x8, 0x20
# gRPC over HTTP/2: one byte whether compressed, four bytes of length.
_MESSAGE_HEADER = 5


class Link(NamedTuple):
    """Who calls whom."""

    client: str
    server: str


LINKS = (
    Link("researcher", "health"),
    Link("researcher", "census"),
    Link("health", "census"),
    Link("census", "researcher"),
    Link("colleague", "health"),
    Link("colleague", "census"),
)
_SERVICES = {
    "health": [health_service_pb2.DESCRIPTOR.services_by_name["HealthService"]],
    "census": [
        census_service_pb2.DESCRIPTOR.services_by_name["CensusService"],
        log_service_pb2.DESCRIPTOR.services_by_name["LogService"],
    ],
    "researcher": [inbox_service_pb2.DESCRIPTOR.services_by_name["InboxService"]],
}
_EXCHANGE: Any = card_service_pb2.DESCRIPTOR.services_by_name["CardService"].methods_by_name["Exchange"]
_PROBE: Any = health_pb2.DESCRIPTOR.services_by_name["Health"].methods_by_name["Check"]


# --- what was recorded -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Stream:
    """Bytes of one side of a connection, and when each piece of it came."""

    pieces: list[bytes] = field(default_factory=list)
    instants_ms: list[int] = field(default_factory=list)

    def add(self, data: bytes) -> None:
        self.instants_ms.append(system_clock())
        self.pieces.append(data)


@dataclass(slots=True)
class Connection:
    """One connection on a link, recorded both ways."""

    link: Link
    number: int
    sent: dict[bool, _Stream] = field(default_factory=lambda: {True: _Stream(), False: _Stream()})

    def said(self, *, by_client: bool) -> bytes:
        """Every byte that one side said."""
        return b"".join(self.sent[by_client].pieces)

    def frames(self, *, by_client: bool) -> Iterator[tuple[int, int, int, bytes]]:
        """(instant, type, stream, payload) of every whole HTTP/2 frame, padding and priority taken off."""
        stream = self.sent[by_client]
        data, ends = self.said(by_client=by_client), list(accumulate(map(len, stream.pieces)))
        at = len(_PREFACE) if by_client else 0
        assert not by_client or _PREFACE.startswith(data[:at])
        while at + _FRAME_HEADER <= len(data):
            length, kind, flags = int.from_bytes(data[at : at + 3], "big"), data[at + 3], data[at + 4]
            number = int.from_bytes(data[at + 5 : at + _FRAME_HEADER], "big") & 0x7FFFFFFF
            end = at + _FRAME_HEADER + length
            payload = data[at + _FRAME_HEADER : end]
            # Cut in the middle, what arrived counts.
            end = min(end, len(data))
            yield stream.instants_ms[bisect_left(ends, end)], kind, number, _stripped(kind, flags, payload)
            at = end


def _stripped(kind: int, flags: int, payload: bytes) -> bytes:
    if kind in {_DATA, _HEADERS} and flags & _PADDED:
        payload = payload[1 : len(payload) - payload[0]]
    if kind == _HEADERS and flags & _PRIORITY:
        payload = payload[5:]
    return payload


@dataclass(frozen=True, slots=True)
class Part:
    """One gRPC message, or one header block, and the instant at which the last of it passed."""

    at_ms: int
    data: bytes


@dataclass(slots=True)
class _Side:
    """Bytes of one side on one HTTP/2 stream."""

    messages: list[Part] = field(default_factory=list)
    headers: list[Part] = field(default_factory=list)
    unfinished: bytes = b""

    def add(self, instant_ms: int, kind: int, payload: bytes) -> None:
        if kind == _HEADERS:
            self.headers.append(Part(instant_ms, payload))
        elif kind == _CONTINUATION:
            self.headers[-1] = Part(instant_ms, self.headers[-1].data + payload)
        elif kind == _DATA:
            self.unfinished += payload
            self._take(instant_ms)

    def _take(self, instant_ms: int) -> None:
        while len(self.unfinished) >= _MESSAGE_HEADER:
            assert self.unfinished[0] == 0, "a compressed message"
            end = _MESSAGE_HEADER + int.from_bytes(self.unfinished[1:_MESSAGE_HEADER], "big")
            if len(self.unfinished) < end:
                return
            self.messages.append(Part(instant_ms, self.unfinished[_MESSAGE_HEADER:end]))
            self.unfinished = self.unfinished[end:]


@dataclass(frozen=True)
class Call:
    """One RPC as it passed."""

    link: Link
    connection: int
    opened_ms: int
    client: _Side
    server: _Side

    @property
    def unfinished(self) -> bytes:
        """The beginning of a request that was cut off."""
        return self.client.unfinished

    @cached_property
    def method(self) -> str:
        """Name of the RPC; empty for one that asks with nothing and got nothing, so that nothing tells which it is."""
        named = [name for name, _ in self._readings]
        assert len(named) == 1 or not any(part.data for part in self.client.messages + self.server.messages), named
        return named[0] if len(named) == 1 else ""

    @property
    def requests(self) -> list[Message]:
        return self._readings[0][1][0]

    @property
    def responses(self) -> list[Message]:
        return self._readings[0][1][1]

    @cached_property
    def _readings(self) -> list[tuple[str, tuple[list[Message], list[Message]]]]:
        readings = []
        asked = self.client.headers[0].data
        own = [method for service in _SERVICES[self.link.server] for method in service.methods]
        methods = {_path(method): method for method in (*own, _EXCHANGE, _PROBE)}
        named = [method for path, method in methods.items() if path.encode() in asked]
        allowed = [method for path, method in methods.items() if role_of(self.link.client) in ALLOWED_ROLES[path]]
        for method in named or allowed:
            try:
                reading = _read(method, self.client.messages, self.server.messages)
            except DecodeError:
                continue
            if all(map(_has_its_lengths, reading[0])):
                readings.append((method.name, reading))
        assert readings, f"a call on {self.link} that is no RPC of ours"
        return readings

    @property
    def query(self) -> str:
        """Id of the query that the call is about; empty for one that is about none."""
        for request in self.requests[:1] if self.method else []:
            match request:
                case health_service_pb2.SubmitRequest():
                    return _query_of(request.ticket)
                case census_service_pb2.CountRequest():
                    return _query_of(request.head.ticket)
                case census_service_pb2.CollectRequest():
                    return request.query_id.hex()
                case inbox_service_pb2.DeliverRequest():
                    return request.answer.query_id.hex()
        return ""

    @property
    def form(self) -> tuple[str, list[int], list[int]]:
        """The visible form of a call without reading it: which it is, and the lengths of all messages in order."""
        asked, said = ([len(part.data) for part in side.messages] for side in (self.client, self.server))
        return self.method, asked, said


def _path(method: MethodDescriptor) -> str:
    return f"/{method.containing_service.full_name}/{method.name}"


def _query_of(ticket: ticket_pb2.SignedTicket) -> str:
    return ticket_pb2.Ticket.FromString(ticket.ticket).query_id.hex()


def _has_its_lengths(request: Message) -> bool:
    """Whether ids and hashes are as long as they are: two requests have the same form and differ in these."""
    match request:
        case census_service_pb2.CollectRequest():
            return len(request.query_id) == QUERY_ID_BYTES
        case census_service_pb2.CensusServiceGetDictionaryRequest():
            return len(request.known) in {0, HASH_BYTES}
    return True


def _read(method: MethodDescriptor, asked: Sequence[Part], said: Sequence[Part]) -> tuple[list[Message], list[Message]]:
    return (
        [parse_exactly(GetMessageClass(method.input_type), part.data) for part in asked],
        [parse_exactly(GetMessageClass(method.output_type), part.data) for part in said],
    )


def parse_exactly(kind: type[Message], data: bytes) -> Message:
    """The message that `data` is; DecodeError when something in it is not of this type."""
    message = kind.FromString(data)
    size = message.ByteSize()
    message.DiscardUnknownFields()
    if not size == message.ByteSize() == len(data):
        raise DecodeError("bytes that this message does not have")
    if not _makes_sense(message):
        raise DecodeError("content that this message does not have")
    return message


def _makes_sense(message: Message) -> bool:
    """Whether what stands in it can be meant: a card and the id of a query are both bytes in the first field."""
    match message:
        case card_service_pb2.ExchangeRequest() | card_service_pb2.ExchangeResponse():
            return message.card.startswith(b"{")
        case census_service_pb2.CollectRequest():
            return len(message.query_id) == QUERY_ID_BYTES
        case census_service_pb2.CountRequest() if message.HasField("head") and not message.head.sealed_head:
            raise DecodeError("the header of a roster")
        case log_service_pb2.WitnessRequest() | log_service_pb2.WitnessResponse():
            return all(map(_is_note, (message.checkpoint, message.cosigned)))
        case log_service_pb2.GetCheckpointResponse():
            return _is_note(message.checkpoint)
        case log_service_pb2.GetConsistencyProofRequest():
            return message.size > 0
        case _:
            # Nobody asks for these; a consistency proof is asked for with the same two numbers.
            return not isinstance(message, log_service_pb2.GetInclusionProofRequest)


def _is_note(text: str) -> bool:
    return not text or "\n\n\N{EM DASH} " in text


def message_form(message: Message) -> Any:
    """A message by the lengths of its parts; numbers count for nothing, texts are read as what they are."""
    if isinstance(message, sample_pb2.Charged):
        entry = json.loads(message.entry, parse_int=lambda _: 0)
        lines = [line for line in message.checkpoint.split("\n") if not line.isdecimal()]
        # The proof of the newest entry has a hash for every complete subtree before it.
        assert len(message.inclusion_proof) == message.log_index.bit_count()
        return ("Charged", len(json.dumps(entry)), [len(line) for line in lines])
    parts: list[tuple[str, Any]] = []
    for described, value in message.ListFields():
        match value:
            case Message():
                parts.append((described.name, message_form(value)))
            case bytes() | str():
                parts.append((described.name, len(value)))
            case _:
                parts.append((described.name, type(value).__name__))
    return (message.DESCRIPTOR.name, parts)


class Traffic:
    """Everything that passed, to be read when nothing passes any more."""

    def __init__(self) -> None:
        self.connections: list[Connection] = []

    def __getstate__(self) -> dict[str, Any]:
        # Calls are read again from the bytes.
        return {"connections": self.connections}

    def calls(self, *links: Link) -> list[Call]:
        """Every call on these links (by default all), in the order in which they were opened."""
        return [call for call in self._calls if not links or call.link in links]

    @cached_property
    def _calls(self) -> list[Call]:
        calls = [call for connection in self.connections for call in _calls(connection)]
        return sorted(calls, key=lambda call: (call.opened_ms, call.connection))


# --- recording ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Cut:
    """A cut that is armed: how many more bytes may pass from the client."""

    left: int
    done: threading.Event = field(default_factory=threading.Event)


class Wiretap:
    """Proxies on every link of a deployment. Enter before its nodes start; they and the commands then call the proxies."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.traffic = Traffic()
        self._addresses: dict[Link, str] = {}
        self._cuts: dict[Link, _Cut] = {}
        self._loop = asyncio.new_event_loop()
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._ends: set[asyncio.WriteTransport] = set()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        servers = {role: address_of(self._directory / role) for role in _SERVICES}
        with contextlib.ExitStack() as held:
            # No node runs yet: without this a proxy might be given the port of one.
            for address in servers.values():
                host, _, port = address.rpartition(":")
                held.enter_context(socket.create_server((host, int(port))))
            for link in LINKS:
                opening = asyncio.run_coroutine_threadsafe(self._listen(link, servers[link.server]), self._loop)
                self._addresses[link] = f"{_LOOPBACK}:{opening.result(PATIENCE_SECONDS)}"
        for link, address in self._addresses.items():
            if link.server == "researcher":
                register_inbox(self._directory, address)
            elif home_exists(self._directory / link.client):
                rewire(self._directory / link.client, link.server, address)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(PATIENCE_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_SECONDS)
        self._loop.close()

    def address(self, link: Link) -> str:
        """Where the proxy of a link listens."""
        return self._addresses[link]

    def cut(self, link: Link, *, after_bytes: int) -> threading.Event:
        """End the connection on which the client, from now on, says that many bytes; set when that has happened."""
        cut = self._cuts[link] = _Cut(after_bytes)
        return cut.done

    # --- in the proxies' thread ------------------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def _listen(self, link: Link, server: str) -> int:
        async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            self._ends.add(writer.transport)
            try:
                await self._pass_on(link, server, reader, writer)
            finally:
                self._ends.discard(writer.transport)
                self._tasks.discard(task)

        def certify(handshake: ssl.SSLObject, _name: str | None, _initial: ssl.SSLContext) -> None:
            handshake.context = tls_context(
                self._directory / link.server, self._directory / link.client, ssl.PROTOCOL_TLS_SERVER
            )

        as_server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        as_server.minimum_version = ssl.TLSVersion.TLSv1_3
        as_server.verify_mode = ssl.CERT_REQUIRED
        as_server.sni_callback = certify
        listening = await asyncio.start_server(pass_on, _LOOPBACK, 0, ssl=as_server)
        self._servers.append(listening)
        port: int = listening.sockets[0].getsockname()[1]
        return port

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for end in self._ends:
            end.abort()
        await asyncio.gather(*self._tasks)

    async def _pass_on(
        self, link: Link, server: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        host, _, port = server.rpartition(":")
        as_client = tls_context(self._directory / link.client, self._directory / link.server, ssl.PROTOCOL_TLS_CLIENT)
        try:
            onward = await asyncio.open_connection(
                host, int(port), ssl=as_client, server_hostname=server_name_of(link.server)
            )
        except OSError:
            # Nobody is there; the client hears of it as it would.
            writer.transport.abort()
            return
        connection = Connection(link, len(self.traffic.connections))
        self.traffic.connections.append(connection)
        pumps = [
            asyncio.create_task(self._pump(connection, reader, onward[1], by_client=True)),
            asyncio.create_task(self._pump(connection, onward[0], writer, by_client=False)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            for end in (writer, onward[1]):
                # The last words still go out; a peer that no longer listens is not waited for.
                end.close()
                with contextlib.suppress(OSError, TimeoutError):
                    await asyncio.wait_for(end.wait_closed(), _CLOSE_SECONDS)
                end.transport.abort()
            await asyncio.sleep(0)

    async def _pump(
        self, connection: Connection, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, by_client: bool
    ) -> None:
        try:
            while data := await source.read(_READ_BYTES):
                cut = self._cuts.get(connection.link) if by_client else None
                if cut is not None and len(data) > cut.left:
                    data = data[: cut.left]
                connection.sent[by_client].add(data)
                sink.write(data)
                await sink.drain()
                if cut is not None:
                    cut.left -= len(data)
                    if cut.left <= 0:
                        del self._cuts[connection.link]
                        cut.done.set()
                        return
        except OSError:
            # One end is gone; the other is told by the one who waits for us.
            return


def _calls(connection: Connection) -> list[Call]:
    sides: dict[int, dict[bool, _Side]] = {}
    opened: dict[int, int] = {}
    for by_client in (True, False):
        for instant_ms, kind, number, payload in connection.frames(by_client=by_client):
            if number:
                opened.setdefault(number, instant_ms)
                both = sides.setdefault(number, {True: _Side(), False: _Side()})
                both[by_client].add(instant_ms, kind, payload)
    return [
        Call(connection.link, connection.number, opened[number], both[True], both[False])
        for number, both in sides.items()
    ]
