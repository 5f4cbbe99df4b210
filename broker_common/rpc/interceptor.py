"""The checks before every handler: who calls, whether they may, whether the message is whole; and errors as rich statuses."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, ParamSpec, Protocol, TypeVar

import grpc
import structlog
from google.protobuf.message import DecodeError, Message
from grpc import aio

from broker_common.crypto.certificates import PeerCertificate
from broker_common.errors import BrokerError, InternalError, InvalidRequestError
from broker_common.logs import log_unforeseen
from broker_common.monitoring import Monitor
from broker_common.query.messages import refuse_unknown_fields
from broker_common.rpc.callers import by_fingerprint, set_caller, verify_caller, verify_role
from broker_common.rpc.status import trailing_metadata
from broker_common.values import Clock

_log = structlog.get_logger()
_REQUEST_ID_BYTES = 4
ParametersT = ParamSpec("ParametersT")
ResultT = TypeVar("ResultT")


class Glance(Protocol):
    """Calls what reads a little and waits for next to nothing, without holding up the loop: a journal's, or in a thread."""

    async def __call__(
        self, look: Callable[ParametersT, ResultT], /, *args: ParametersT.args, **kwargs: ParametersT.kwargs
    ) -> ResultT: ...


class CallerInterceptor(aio.ServerInterceptor):
    """Wraps every handler: who is calling, may they, is the message whole; and how a failure is said."""

    def __init__(
        self,
        peers: Callable[[], Sequence[PeerCertificate]],
        glance: Glance,
        clock: Clock,
        stop: Callable[[BrokerError], None],
        monitor: Monitor | None,
    ) -> None:
        self._peers = peers
        self._glance = glance
        self._clock = clock
        self._stop = stop
        self._monitor = monitor
        # The certificates recognised at the last call, and the same by fingerprint.
        self._known: Sequence[PeerCertificate] = ()
        self._registered: Mapping[bytes, PeerCertificate] = {}

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        return self._guard(handler, handler_call_details.method)

    def _guard(self, handler: Any, method: str) -> grpc.RpcMethodHandler[Any, Any]:
        read: Callable[[bytes], Message] = handler.request_deserializer

        async def unary(data: bytes, context: Any) -> Any:
            async with self._answering(context, method):
                return await handler.unary_unary(_verified(read, data), context)

        async def server_stream(data: bytes, context: Any) -> AsyncIterator[Any]:
            async with self._answering(context, method):
                async for response in handler.unary_stream(_verified(read, data), context):
                    yield response

        async def both_streams(stream: AsyncIterator[bytes], context: Any) -> AsyncIterator[Any]:
            async with self._answering(context, method):
                async for response in handler.stream_stream(_each_verified(read, stream), context):
                    yield response

        # Requests come as bytes: read in here, and not before the caller is known, they are refused like anything else.
        coders = {"request_deserializer": None, "response_serializer": handler.response_serializer}
        if handler.unary_unary is not None:
            return grpc.unary_unary_rpc_method_handler(unary, **coders)
        if handler.stream_unary is not None:
            return self._guard_client_stream(handler, method, coders)
        if handler.stream_stream is not None:
            return grpc.stream_stream_rpc_method_handler(both_streams, **coders)
        if _is_foreign(method):
            # The standard Health.Watch writes to its context instead of yielding.
            return self._guard_watch(handler, method, coders)
        return grpc.unary_stream_rpc_method_handler(server_stream, **coders)

    def _guard_client_stream(
        self, handler: Any, method: str, coders: dict[str, Any]
    ) -> grpc.RpcMethodHandler[Any, Any]:
        async def client_stream(stream: AsyncIterator[bytes], context: Any) -> Any:
            async with self._answering(context, method):
                return await handler.stream_unary(_each_verified(handler.request_deserializer, stream), context)

        return grpc.stream_unary_rpc_method_handler(client_stream, **coders)

    def _guard_watch(self, handler: Any, method: str, coders: dict[str, Any]) -> grpc.RpcMethodHandler[Any, Any]:
        async def watch(data: bytes, context: Any) -> None:
            async with self._answering(context, method):
                await handler.unary_stream(_verified(handler.request_deserializer, data), context)

        return grpc.unary_stream_rpc_method_handler(watch, **coders)

    @contextlib.asynccontextmanager
    async def _answering(self, context: Any, method: str) -> AsyncIterator[None]:
        # This id finds all log lines of one call, here and in the work that it causes.
        structlog.contextvars.bind_contextvars(request=secrets.token_hex(_REQUEST_ID_BYTES))
        outcome = "ok"
        try:
            await self._know_caller(context, method)
            yield
        except BrokerError as error:
            outcome = error.code
            if error.for_operator:
                _log.error("refused", rpc=method, code=error.code, text=error.text, remedy=error.hint)
            else:
                # Codes only: details may name what a researcher asked for.
                _log.info("refused", rpc=method, code=error.code)
            if error.stops_node:
                self._stop(error)
            # A fault of our store or our keys is for our operator alone.
            public = InternalError("INTERNAL") if error.for_operator else error
            await context.abort(*trailing_metadata(public))
        except (aio.AbortError, asyncio.CancelledError, GeneratorExit):
            outcome = "CANCELLED"
            raise
        except Exception as error:  # noqa: BLE001 - the caller gets INTERNAL, the operator the place
            outcome = "INTERNAL"
            log_unforeseen(error, rpc=method)
            await context.abort(*trailing_metadata(InternalError("INTERNAL")))
        finally:
            if self._monitor is not None:
                self._monitor.called(method.rpartition("/")[2], outcome)

    async def _know_caller(self, context: Any, method: str) -> None:
        try:
            known = await self._glance(self._peers)
            if known is not self._known:
                self._registered, self._known = by_fingerprint(known), known
            identity = verify_caller(context.auth_context(), self._registered, self._clock)
            verify_role(identity, method)
        except BrokerError as error:
            if self._monitor is not None:
                self._monitor.refused(error.code)
            raise
        if self._monitor is not None and identity.role != "researcher":
            self._monitor.heard_of_peer()
        set_caller(identity)


def _is_foreign(method: str) -> bool:
    return method.startswith("/grpc.")


async def _each_verified(read: Callable[[bytes], Message], stream: AsyncIterator[bytes]) -> AsyncIterator[Message]:
    async for data in stream:
        yield _verified(read, data)


def _verified(read: Callable[[bytes], Message], data: bytes) -> Message:
    try:
        request = read(data)
    except DecodeError:
        raise InvalidRequestError("MALFORMED_MESSAGE", problem="its bytes are not the request of this call") from None
    refuse_unknown_fields(request)
    return request
