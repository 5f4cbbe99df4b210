"""gRPC without sockets: what the product's servers and channels meet in place of the network.

The product's own interceptor, stubs, serialised messages and rich statuses are used as they are; what is made up is TLS (who
shows which certificate to whom, decided by the same pinned lists) and HTTP/2 (messages in order, each a little later, lost
when the link is cut or an end of it dies). A test may watch every message pass, and cut links while it does.
"""

from __future__ import annotations

import asyncio
import contextlib
import random  # noqa: TID251 - seeded delays, no secret
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final, NoReturn, Self

import grpc
import pytest
from fakes.virtual_time import Process, current_process, in_process
from grpc import StatusCode, aio
from grpc.aio import AioRpcError, Metadata

_LONGEST_DELAY_SECONDS = 0.002
_END: Final = object()


@dataclass(frozen=True)
class _ClientTls:
    pinned: bytes
    key: bytes
    certificate: bytes


@dataclass(frozen=True)
class _ServerTls:
    configure: Callable[[], Any]


@dataclass(frozen=True)
class _ServerConfiguration:
    certificate: bytes
    roots: bytes


class Network:
    """Every link between the parties of one simulation."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._servers: dict[str, _Server] = {}
        self._calls: set[_Call] = set()
        # Pairs of parties that cannot reach each other.
        self._cut: set[frozenset[str]] = set()
        # Told of every message just before it arrives: sender, receiver.
        self.passing: Callable[[str, str], None] = lambda _sender, _receiver: None
        # Exceptions that left a handler, which no handler of the product lets happen.
        self.escaped: list[BaseException] = []

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Put this network in the place of gRPC's, until `patch` is undone."""
        patch.setattr(aio, "server", lambda interceptors, **_: _Server(self, interceptors))
        patch.setattr(aio, "secure_channel", lambda target, credentials, *_: _Channel(self, target, credentials))
        patch.setattr(grpc, "ssl_channel_credentials", _ClientTls)
        patch.setattr(
            grpc,
            "ssl_server_certificate_configuration",
            lambda pairs, roots: _ServerConfiguration(pairs[0][1], roots),
        )

        def dynamic(first: _ServerConfiguration, fetch: Callable[[], Any], **_: object) -> _ServerTls:
            last = first

            def configure() -> _ServerConfiguration:
                nonlocal last
                last = fetch() or last
                return last

            return _ServerTls(configure)

        patch.setattr(grpc, "dynamic_ssl_server_credentials", dynamic)

    # --- what a test may do ----------------------------------------------------------------------------------------

    def cut(self, one: str, other: str) -> None:
        """Nothing passes between two parties from here on, and what is under way is lost."""
        self._cut.add(frozenset({one, other}))
        for call in list(self._calls):
            if {call.client.party, call.server_party} == {one, other}:
                call.fail(StatusCode.UNAVAILABLE)

    def mend(self) -> None:
        """Every link is whole again."""
        self._cut.clear()

    def drop(self, process: Process) -> None:
        """A process is gone: its peers notice."""
        for call in list(self._calls):
            if process in {call.client, call.server_process}:
                call.fail(StatusCode.UNAVAILABLE)
        self._servers = {where: server for where, server in self._servers.items() if server.process is not process}

    def reset(self) -> None:
        """Every connection is lost once."""
        for call in list(self._calls):
            call.fail(StatusCode.UNAVAILABLE)

    # --- what servers and calls need -------------------------------------------------------------------------------

    def listen(self, server: _Server, address: str) -> None:
        if address in self._servers and self._servers[address].process.is_alive:
            raise RuntimeError(f"{address} is taken")
        self._servers[address] = server

    def leave(self, server: _Server) -> None:
        self._servers = {where: each for where, each in self._servers.items() if each is not server}

    def server_at(self, address: str, client: Process) -> _Server | None:
        server = self._servers.get(address)
        if server is None or not server.process.is_alive or not client.is_alive:
            return None
        return None if frozenset({client.party, server.process.party}) in self._cut else server

    async def delay(self, sender: str, receiver: str) -> None:
        """A message on its way."""
        await asyncio.sleep(self._chance.uniform(0, _LONGEST_DELAY_SECONDS))
        self.passing(sender, receiver)

    def begin(self, call: _Call) -> None:
        self._calls.add(call)

    def finish(self, call: _Call) -> None:
        self._calls.discard(call)


class _Server:
    """Stand-in for a `grpc.aio.server`."""

    def __init__(self, network: Network, interceptors: Sequence[aio.ServerInterceptor]) -> None:
        process = current_process()
        assert process is not None, "servers belong to processes"
        self.process = process
        self._network = network
        self._interceptors = interceptors
        self._handlers: list[grpc.GenericRpcHandler] = []
        self._address = ""
        self._tls: _ServerTls
        self._is_open = False
        self.handling: set[asyncio.Task[None]] = set()

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        self._handlers += handlers

    def add_registered_method_handlers(self, service: str, handlers: object) -> None:
        """The same handlers again, for a faster way to them."""

    def add_secure_port(self, address: str, tls: _ServerTls) -> int:
        self._address, self._tls = address, tls
        self._network.listen(self, address)
        return int(address.rpartition(":")[2])

    async def start(self) -> None:
        self._is_open = True

    async def stop(self, grace: float) -> None:
        """Take no more calls; give those that are under way `grace` seconds."""
        self._is_open = False
        self._network.leave(self)
        if self.handling and self.process.is_alive:
            await asyncio.wait(self.handling, timeout=grace)
        for task in self.handling:
            task.cancel()

    def shakes_hands(self, tls: _ClientTls) -> bool:
        """Whether a connection comes about, as mutual TLS decides it."""
        if not self._is_open:
            return False
        own = in_process(self.process).run(self._tls.configure)
        return _holds(tls.pinned, own.certificate) and _holds(own.roots, tls.certificate)

    async def handler(self, path: str) -> Any:
        """The guarded handler of a method."""
        details = SimpleNamespace(method=path, invocation_metadata=())

        async def found(of: Any) -> Any:
            return next((found for each in self._handlers if (found := each.service(of)) is not None), None)

        continuation: Any = found
        (interceptor,) = self._interceptors
        return await interceptor.intercept_service(continuation, details)


def _holds(pems: bytes, pem: bytes) -> bool:
    # Every certificate has one spelling here: the one on its card.
    return pem.strip() in pems


class _Context:
    """The part of a servicer context that handlers and the interceptor use."""

    def __init__(
        self, certificate: bytes, begin: Callable[[Sequence[tuple[str, str]]], Coroutine[Any, Any, None]]
    ) -> None:
        self._certificate = certificate
        self.send_initial_metadata = begin
        self.error: AioRpcError | None = None

    def auth_context(self) -> dict[str, list[bytes]]:
        return {
            "transport_security_type": [b"ssl"],
            "security_level": [b"TSI_PRIVACY_AND_INTEGRITY"],
            "ssl_tls_version": [b"TLSv1.3"],
            "x509_pem_cert": [self._certificate],
        }

    async def abort(self, code: StatusCode, details: str, trailing: Sequence[tuple[str, bytes]]) -> NoReturn:
        self.error = AioRpcError(code, Metadata(), Metadata(*trailing), details=details)
        raise aio.AbortError("aborted")


class _Channel:
    """Stand-in for a `grpc.aio.secure_channel`."""

    def __init__(self, network: Network, target: str, tls: _ClientTls) -> None:
        process = current_process()
        assert process is not None, "channels belong to processes"
        self.process = process
        self.network = network
        self.target = target
        self.tls = tls
        self.connected: _Server | None = None
        self._calls: set[_Call] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self, grace: float | None = None) -> None:
        del grace
        for call in list(self._calls):
            call.fail(StatusCode.CANCELLED)

    def reach(self) -> _Server | None:
        """The server, over the connection there is or a new one."""
        server = self.network.server_at(self.target, self.process)
        if server is None or (self.connected is not server and not server.shakes_hands(self.tls)):
            self.connected = None
            return None
        self.connected = server
        return server

    def unary_unary(self, path: str, **coders: Any) -> Callable[..., _UnaryCall]:
        # There is nobody to wait for: a peer is there or not.
        return lambda request, timeout=None, wait_for_ready=False: _UnaryCall(  # noqa: ARG005 - as stubs have it
            self._call(path, timeout, coders), request
        )

    def unary_stream(self, path: str, **coders: Any) -> Callable[..., _Call]:
        def start(request: Any, timeout: float | None = None) -> _Call:
            call = self._call(path, timeout, coders)
            call.say(request)
            return call

        return start

    def stream_stream(self, path: str, **coders: Any) -> Callable[..., _Call]:
        return lambda timeout=None: self._call(path, timeout, coders)

    def stream_unary(self, path: str, **coders: Any) -> Callable[..., _SendingCall]:
        return lambda timeout=None: _SendingCall(self._call(path, timeout, coders))

    def _call(self, path: str, timeout: float | None, coders: dict[str, Any]) -> _Call:
        call = _Call(self, path, timeout, coders["request_serializer"], coders["response_deserializer"])
        self._calls.add(call)
        call.over.add_done_callback(lambda _: self._calls.discard(call))
        return call


class _UnaryCall:
    """A call of one request and one response: to be awaited."""

    def __init__(self, call: _Call, request: Any) -> None:
        self._call = call
        call.say(request)

    def __await__(self) -> Generator[Any, None, Any]:
        return self._response().__await__()

    async def _response(self) -> Any:
        try:
            response = await self._call.read()
            if response is not aio.EOF:
                await self._call.read()
        finally:
            self._call.cancel()
        assert response is not aio.EOF, "a call that ended well without its response"
        return response


class _SendingCall:
    """A call of many requests and one response: written to, then awaited."""

    def __init__(self, call: _Call) -> None:
        self._call = call
        self.write = call.write
        self.done_writing = call.done_writing
        self.cancel = call.cancel

    async def initial_metadata(self) -> Metadata:
        """Metadata that the server sent before its response: nothing, if the call is over first."""
        either: set[asyncio.Future[Any]] = {self._call.beginning, self._call.over}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        return Metadata(*self._call.beginning.result()) if self._call.beginning.done() else Metadata()

    def __await__(self) -> Generator[Any, None, Any]:
        return self._response().__await__()

    async def _response(self) -> Any:
        response = await self._call.read()
        if response is not aio.EOF:
            await self._call.read()
        assert response is not aio.EOF, "a call that ended well without its response"
        return response


class _Call:
    """A client's end of one call; the server's end runs in a task of the server's process."""

    def __init__(
        self,
        channel: _Channel,
        path: str,
        timeout: float | None,
        write: Callable[[Any], bytes],
        read: Callable[[bytes], Any],
    ) -> None:
        self.client = channel.process
        self.server_process: Process | None = None
        # Set when the call is over: to its error, or to None when it ended well.
        self.over: asyncio.Future[AioRpcError | None] = asyncio.get_running_loop().create_future()
        # The server's initial metadata, once they have come.
        self.beginning: asyncio.Future[Sequence[tuple[str, str]]] = asyncio.get_running_loop().create_future()
        self._channel = channel
        self._network = channel.network
        self._path = path
        self._write = write
        self._read = read
        self._requests: asyncio.Queue[bytes | object] = asyncio.Queue()
        self._responses: asyncio.Queue[bytes | object] = asyncio.Queue()
        self._handling: asyncio.Task[None] | None = None
        self._writing = True
        self._network.begin(self)
        loop = asyncio.get_running_loop()
        # The network's own: neither end's death stops it.
        self._carrying = loop.create_task(self._carry(), context=in_process(None))
        self._deadline = None
        if timeout is not None:
            self._deadline = loop.call_later(max(0.0, timeout), self.fail, StatusCode.DEADLINE_EXCEEDED)

    @property
    def server_party(self) -> str:
        return "" if self.server_process is None else self.server_process.party

    # --- what a client does ----------------------------------------------------------------------------------------

    def say(self, request: Any) -> None:
        """The only request."""
        self._requests.put_nowait(self._write(request))
        self._requests.put_nowait(_END)

    async def write(self, request: Any) -> None:
        """Send one request; as in gRPC, an error once the call is over."""
        if self.over.done() or not self._writing:
            raise asyncio.InvalidStateError("the call is over, or closed for writing")
        data = self._write(request)
        await asyncio.sleep(0)
        if self.over.done():
            error = self.over.result()
            raise error if error is not None else asyncio.InvalidStateError("the call is over")
        self._requests.put_nowait(data)

    async def done_writing(self) -> None:
        self._writing = False
        self._requests.put_nowait(_END)

    async def __aiter__(self) -> AsyncIterator[Any]:
        while (response := await self.read()) is not aio.EOF:
            yield response

    async def read(self) -> Any:
        """The next response, or the end, or the error that ended the call."""
        response = await self._responses.get()
        if response is not _END:
            assert isinstance(response, bytes)
            return self._read(response)
        self._responses.put_nowait(_END)
        error = self.over.result()
        if error is not None:
            raise error
        return aio.EOF

    def cancel(self) -> bool:
        """Hang up."""
        was_over = self.over.done()
        self.fail(StatusCode.CANCELLED)
        return not was_over

    # --- what becomes of it ----------------------------------------------------------------------------------------

    def fail(self, code: StatusCode) -> None:
        """The call ends here, for both sides; what is on its way is lost."""
        if self.over.done():
            return
        while not self._responses.empty():
            self._responses.get_nowait()
        self._end(AioRpcError(code, Metadata(), Metadata(), details="the link"))
        self._requests.put_nowait(_END)
        self._carrying.cancel()
        if self._handling is not None:
            self._handling.cancel()

    def _end(self, error: AioRpcError | None) -> None:
        if self.over.done():
            return
        self.over.set_result(error)
        self._responses.put_nowait(_END)
        self._network.finish(self)
        if self._deadline is not None:
            self._deadline.cancel()

    async def _carry(self) -> None:
        """From here to the server and to the end of its handler."""
        await self._network.delay(self.client.party, "")
        server = self._channel.reach()
        if server is None:
            self.fail(StatusCode.UNAVAILABLE)
            return
        self.server_process = server.process
        context = _Context(self._channel.tls.certificate, self._begin)
        self._handling = asyncio.get_running_loop().create_task(
            self._handle(server, context), context=in_process(server.process)
        )
        server.handling.add(self._handling)
        self._handling.add_done_callback(server.handling.discard)
        await asyncio.wait({self._handling})
        if self._handling.cancelled():
            self.fail(StatusCode.UNAVAILABLE)
            return
        failure = self._handling.exception()
        if failure is not None and context.error is None:
            self._network.escaped.append(failure)
            self.fail(StatusCode.UNKNOWN)
            return
        with contextlib.suppress(asyncio.CancelledError):
            await self._network.delay(server.process.party, self.client.party)
        self._end(context.error)

    async def _handle(self, server: _Server, context: _Context) -> None:
        handler = await server.handler(self._path)
        if handler is None:
            context.error = AioRpcError(StatusCode.UNIMPLEMENTED, Metadata(), Metadata(), details=self._path)
            return
        if handler.stream_stream is not None:
            async for response in handler.stream_stream(self._received(), context):
                await self._respond(handler, response)
            return
        if handler.stream_unary is not None:
            await self._respond(handler, await handler.stream_unary(self._received(), context))
            return
        request = await anext(self._received(), None)
        if request is None:
            # The client was gone before its request came.
            return
        if handler.unary_unary is not None:
            await self._respond(handler, await handler.unary_unary(request, context))
        else:
            async for response in handler.unary_stream(request, context):
                await self._respond(handler, response)

    async def _received(self) -> AsyncIterator[bytes]:
        while True:
            request = await self._requests.get()
            if request is _END:
                self._requests.put_nowait(_END)
                return
            await self._network.delay(self.client.party, self.server_party)
            if self.over.done():
                return
            assert isinstance(request, bytes)
            yield request

    async def _begin(self, metadata: Sequence[tuple[str, str]]) -> None:
        await self._network.delay(self.server_party, self.client.party)
        if not self.over.done():
            self.beginning.set_result(metadata)

    async def _respond(self, handler: Any, response: Any) -> None:
        data = handler.response_serializer(response)
        await self._network.delay(self.server_party, self.client.party)
        if not self.over.done():
            self._responses.put_nowait(data)
