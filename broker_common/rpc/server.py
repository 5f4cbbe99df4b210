"""A node's server: mutual TLS, start and stop. What stands before every handler is in `interceptor`.

An error that stops the node (a store that failed, a write whose outcome is unknown) ends `NodeServer.run` with that error:
the process exits and says why, and starts again from its log.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import resource
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

import grpc
import structlog
import uvloop
from grpc import aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from broker_common.crypto.certificates import PeerCertificate, TlsCredentials
from broker_common.errors import BrokerError, InternalError, RefusedError
from broker_common.logs import log_unforeseen
from broker_common.monitoring import Monitor
from broker_common.rpc.callers import by_fingerprint
from broker_common.rpc.channel import KEEPALIVE_MS, KEEPALIVE_TIMEOUT_MS, MAX_MESSAGE_BYTES
from broker_common.rpc.interceptor import CallerInterceptor, Glance
from broker_common.values import Clock

_log = structlog.get_logger()
# Calls under way when the node stops may go on for this long.
_GRACE_SECONDS = 5.0
# Calls of one connection at the same time; a client's others wait on its side. Above what one researcher or agency needs.
MAX_STREAMS = 256
# Calls that have come and wait to be taken up, of as many connections as one researcher may reasonably have. Beyond it, a thousand
# as gRPC has it, the library drops any of them by chance, and so also those of a peer that floods nobody.
_MAX_PENDING = 64 * MAX_STREAMS
# Connections at the same time, of everybody, handshakes included; fewer where descriptors are scarce.
_MAX_CONNECTIONS = 4096
_HANDSHAKE_MS = 10_000
# Longer than it takes to begin a handshake, and to make what the next ones begin with.
_SETTLING_SECONDS = 0.05
# A connection without a call is closed after this; its client makes another one when it needs one.
_IDLE_MS = 600_000
_CARD_SERVICE = "tripartite.v1.CardService"


def most_connections() -> int:
    """How many connections may be open at once: however many connect, half the descriptors are left for the stores."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MAX_CONNECTIONS if descriptors == resource.RLIM_INFINITY else min(_MAX_CONNECTIONS, descriptors // 2)


class StopSignal:
    """Set once, by a signal or by an error that stops the node."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._listeners: list[Callable[[], object]] = []
        self.error: BrokerError | None = None

    def stop(self, error: BrokerError | None = None) -> None:
        self.error = self.error or error
        self._event.set()
        for tell in self._listeners:
            tell()

    def on_stop(self, tell: Callable[[], object]) -> None:
        """Call `tell` at the stop: a handler that holds a call open ends it then, instead of having it cut off."""
        self._listeners.append(tell)

    @property
    def is_set(self) -> bool:
        return self._event.is_set()

    async def wait(self) -> None:
        await self._event.wait()


@dataclass(frozen=True, slots=True)
class NodeServer:
    """Everything a node's server needs besides its handlers.

    Own certificate and peers are asked for at every handshake and every call: a new peer may connect at once, and one that
    is revoked is refused at its next call, on whatever connection.
    """

    address: str
    tls: Callable[[], TlsCredentials]
    # Every peer that may connect.
    peers: Callable[[], Sequence[PeerCertificate]]
    service: str
    clock: Clock
    # Calls `peers` and gives what it gives, without holding up the loop.
    glance: Glance = asyncio.to_thread
    # True: every peer that may connect may also list the services and their messages.
    reflection: bool = False
    # False for an inbox, which is told cards by the calls that it makes.
    exchanges_cards: bool = True
    # Where calls are counted; None: nowhere.
    monitor: Monitor | None = None

    async def run(
        self,
        add_services: Callable[[aio.Server], None],
        *,
        stop: StopSignal,
        on_ready: Callable[[str], None],
        before_serving: Callable[[], Awaitable[None]] | None = None,
        while_serving: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Serve until `stop`, then drain; raise the error that stopped the node, if one did.

        `before_serving` is done when nothing more can keep the node from being reached, and before the first call is taken.
        """
        server = aio.server(
            interceptors=[CallerInterceptor(self.peers, self.glance, self.clock, stop.stop, self.monitor)],
            options=[
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
                ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
                ("grpc.keepalive_time_ms", KEEPALIVE_MS),
                ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
                # Our own clients ping this often; a server takes much less for an attack unless it is told.
                ("grpc.http2.min_recv_ping_interval_without_data_ms", KEEPALIVE_MS // 2),
                # Limits on what one connection may hold open, and on the time to show a certificate.
                ("grpc.max_concurrent_streams", MAX_STREAMS),
                ("grpc.server.max_pending_requests", _MAX_PENDING),
                ("grpc.server.max_pending_requests_hard_limit", 2 * _MAX_PENDING),
                ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MS),
                ("grpc.max_allowed_incoming_connections", most_connections()),
                ("grpc.max_connection_idle_ms", _IDLE_MS),
            ],
        )
        add_services(server)
        probe = _Probe("", self.service)
        health_pb2_grpc.add_HealthServicer_to_server(probe, server)
        if self.reflection:
            names = [self.service, health.SERVICE_NAME, reflection.SERVICE_NAME]
            names += [_CARD_SERVICE] if self.exchanges_cards else []
            reflection.enable_server_reflection(names, server)
        # Said here, once: from inside a handshake nobody would hear it.
        by_fingerprint(self.peers())
        handshakes = Handshakes(self.tls, self.peers)
        credentials = grpc.dynamic_ssl_server_credentials(
            handshakes.first(),
            handshakes.changed,  # type: ignore[arg-type]  # None keeps the last, as its documentation says
            require_client_authentication=True,
        )
        try:
            port = server.add_secure_port(self.address, credentials)
        except RuntimeError as error:
            # The library has one error for all; the certificates may be at fault, too.
            _log.error("cannot listen", address=self.address, cause=str(error))
            raise RefusedError("PORT_TAKEN", address=self.address) from error
        if before_serving is not None:
            await before_serving()
        # The state of a start stays: the collector need not walk through a whole log's state while the node serves.
        gc.collect()
        gc.freeze()
        await server.start()
        await probe.begin()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.stop)
        on_ready(f"{self.address.rpartition(':')[0]}:{port}")
        work = asyncio.ensure_future(while_serving()) if while_serving is not None else None
        if work is not None:
            work.add_done_callback(lambda done: _stop_on_failure(done, stop))
        try:
            await stop.wait()
        finally:
            gc.unfreeze()
            await probe.enter_graceful_shutdown()
            await server.stop(_GRACE_SECONDS)
            if work is not None:
                work.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    # Its error, if it had one, is already the reason to stop, or came of stopping.
                    await work
        if stop.error is not None:
            raise stop.error


def run_node(serving: Coroutine[Any, Any, None]) -> None:
    """Run a node to its end. In libuv's event loop: asyncio's own is written in Python."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serving)


class Handshakes:
    """Certificates of TLS handshakes: ours and those of every peer, read at each handshake. Thread-safe.

    SECURITY: gRPC asks in several of its threads at once, and frees what it had as soon as it is given something, while
    another thread may be making a handshake with it. That ends the process, and anybody can bring it about who opens sockets
    without being registered. So nothing is given unless it has changed; before a change those who have asked are let
    through, and after it those who ask wait.
    """

    def __init__(self, tls: Callable[[], TlsCredentials], peers: Callable[[], Sequence[PeerCertificate]]) -> None:
        self._tls = tls
        self._peers = peers
        self._lock = threading.Lock()
        self._given: _Certificates | None = None
        self._settled = 0.0

    def first(self) -> grpc.ServerCertificateConfiguration:
        self._given = self._now()
        return self._given.configuration()

    def changed(self) -> grpc.ServerCertificateConfiguration | None:
        """Certificates of the next handshakes; None if they have not changed."""
        with self._lock:
            time.sleep(max(0.0, self._settled - time.monotonic()))
            try:
                now = self._now()
                if now == self._given:
                    return None
                configuration = now.configuration()
            except BrokerError as error:
                # The last good one stays; who calls is checked at every call all the same.
                _log.error("certificates cannot be read", code=error.code, text=error.text)
                return None
            time.sleep(_SETTLING_SECONDS)
            self._given = now
            self._settled = time.monotonic() + _SETTLING_SECONDS
            return configuration

    def _now(self) -> _Certificates:
        return _Certificates(self._tls(), b"".join(peer.pem for peer in self._peers()))


@dataclass(frozen=True, slots=True)
class _Certificates:
    tls: TlsCredentials
    peers: bytes

    def configuration(self) -> grpc.ServerCertificateConfiguration:
        # With nobody registered, only we could connect, and would be refused: TLS needs some certificate here.
        roots = self.peers or self.tls.certificate
        return grpc.ssl_server_certificate_configuration([(self.tls.private_key, self.tls.certificate)], roots)


class _Probe(health.aio.HealthServicer):
    """The standard probe, with the list that the library's own leaves out."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self._names = names

    async def begin(self) -> None:
        for name in self._names:
            await self.set(name, health_pb2.HealthCheckResponse.SERVING)

    async def List(self, request: Any, context: Any) -> Any:  # noqa: N802 - the name that the standard gives it
        del request
        statuses = {
            name: await self.Check(health_pb2.HealthCheckRequest(service=name), context) for name in self._names
        }
        return health_pb2.HealthListResponse(statuses=statuses)  # type: ignore[attr-defined]  # younger than its stubs


async def together(*work: Coroutine[Any, Any, None]) -> None:
    """Do everything at once; the first that fails ends the others, and its error is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            for each in work:
                group.create_task(each)
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from errors


async def every(seconds: float, work: Callable[[], None]) -> None:
    """Do the work in a thread, again and again. Ends when cancelled, and not before what it was at is done."""
    while True:
        await asyncio.sleep(seconds)
        doing = asyncio.ensure_future(asyncio.to_thread(work))
        try:
            await asyncio.shield(doing)
        finally:
            # It uses what is closed next.
            await asyncio.wait({doing})
            if not doing.cancelled():
                # Marks an error as seen: the caller that cancelled us is stopping for a reason of its own.
                doing.exception()


def _stop_on_failure(done: asyncio.Future[None], stop: StopSignal) -> None:
    if done.cancelled():
        return
    error = done.exception()
    if isinstance(error, BrokerError):
        stop.stop(error)
    elif error is not None:
        log_unforeseen(error)
        stop.stop(InternalError("INTERNAL"))
