"""Running a dashboard: on a local address in the clear, or over TLS with operator certificates.

TLS lets in who has a certificate of the operators' file; its fingerprint then decides the rank, at every request. All three
files are read again at every connection, so that a renewed or removed certificate needs no restart.
"""

from __future__ import annotations

import asyncio
import hashlib
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from broker_common.dashboard.site import CERTIFICATE, Site, make_app
from broker_common.errors import RefusedError
from broker_common.values import Clock

_log = structlog.get_logger()
# Connections at the same time: open pages and monitoring tools.
_MOST_CONNECTIONS = 256
_BACKLOG = 128


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The dashboard's certificate and key, and the certificates that operators come with, all in PEM."""

    certificate: Path
    key: Path
    operators: Path


class _LoggedHandshake(ssl.SSLObject):
    """Logs why a handshake failed: asyncio keeps that to itself."""

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            detail = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else ""
            _log.warning("connection refused", reason=error.reason or type(error).__name__, detail=detail)
            raise


class _CurrentFiles(ssl.SSLContext):
    """Makes every connection with what is in the files now; while they cannot be used, with what was there before."""

    _files: TlsFiles
    _content: tuple[bytes, ...] = ()
    _context: ssl.SSLContext

    def read(self) -> None:
        """Use what is in the files now. OSError or ValueError if that cannot be."""
        files = self._files
        content = tuple(path.read_bytes() for path in (files.certificate, files.key, files.operators))
        if content == self._content:
            return
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.sslobject_class = _LoggedHandshake
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        # SECURITY: a session taken up again would skip the check of its certificate.
        context.num_tickets = 0
        context.load_verify_locations(cadata=content[2].decode("ascii"))
        # Without a password the library would ask for one at the terminal.
        context.load_cert_chain(files.certificate, files.key, password="")
        self._context, self._content = context, content

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        try:
            self.read()
        except (OSError, ValueError) as error:
            _log.error("the dashboard's certificates cannot be read", problem=str(error))
        return self._context.wrap_bio(*args, **kwargs)


def tls_context(files: TlsFiles) -> ssl.SSLContext:
    """TLS context of new connections, following the files. OSError or ValueError if they cannot be used."""
    context = _CurrentFiles(ssl.PROTOCOL_TLS_SERVER)
    context._files = files  # noqa: SLF001 - the library's constructor takes nothing of ours
    context.read()
    return context


def _protocol(site: Site) -> type[H11Protocol]:
    """HTTP that tells the site which certificate a connection came with."""

    class WithCertificate(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            encrypted = transport.get_extra_info("ssl_object")
            if encrypted is None:
                return
            fingerprint = hashlib.sha256(encrypted.getpeercert(binary_form=True)).hexdigest()
            if fingerprint not in site.access.certificates:
                _log.warning("a certificate without a rank", fingerprint=fingerprint)
            ends_ms = 1000 * ssl.cert_time_to_seconds(encrypted.getpeercert()["notAfter"])
            self.app = certificate_told(self.app, fingerprint, ends_ms, site.clock)

    return WithCertificate


def certificate_told(app: ASGIApp, fingerprint: str, ends_ms: int, clock: Clock) -> ASGIApp:
    """The application, told at every request of the connection's certificate until that has ended.

    TLS looks at the end in the handshake only, and a connection may stay for days.
    """

    async def told(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, CERTIFICATE: fingerprint} if clock() < ends_ms else scope, receive, send)

    return told


class _Server(uvicorn.Server):
    """Ends streams before it waits for what is open: they never end by themselves."""

    def __init__(self, config: uvicorn.Config, end_streams: Callable[[], None]) -> None:
        super().__init__(config)
        self._end_streams = end_streams

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._end_streams()
        await super().shutdown(sockets)


async def serve_site(
    site: Site, host: str, port: int, on_ready: Callable[[str], None], tls: ssl.SSLContext | None = None
) -> None:
    """Serve until a signal. `on_ready` is told the address as a browser takes it.

    Raises:
        RefusedError: PORT_TAKEN.
    """
    site.begin()
    await serve_app(make_app(site), host, port, on_ready, tls=tls, http=_protocol(site), end_streams=site.end_streams)


async def serve_app(
    app: ASGIApp,
    host: str,
    port: int,
    on_ready: Callable[[str], None],
    *,
    tls: ssl.SSLContext | None = None,
    http: type[H11Protocol] = H11Protocol,
    end_streams: Callable[[], None] = lambda: None,
) -> None:
    """The same for any application.

    Raises:
        RefusedError: PORT_TAKEN.
    """
    listener = _listen(host, port)
    with listener:
        config = uvicorn.Config(
            app,
            http=http,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_graceful_shutdown=1,
        )
        config.load()
        config.ssl = tls
        server = _Server(config, end_streams)
        shown = f"[{host}]" if ":" in host else host
        on_ready(f"{'http' if tls is None else 'https'}://{shown}:{listener.getsockname()[1]}")
        await server.serve(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise RefusedError("PORT_TAKEN", address=f"{host}:{port}") from error
    return listener
