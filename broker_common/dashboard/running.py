"""Running the dashboard of one home: where it listens, whom it lets in, and what stands behind its pages."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import secrets
import ssl
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

import structlog

from broker_common.agency.config import DashboardConfig
from broker_common.dashboard.access import COOKIE, Access, ranks
from broker_common.dashboard.serving import TlsFiles, serve_site, tls_context
from broker_common.dashboard.site import Action, Health, Page, Site
from broker_common.dashboard.web import LOCAL_HOSTS
from broker_common.errors import BrokerError, InvalidRequestError
from broker_common.interrupts import watch_lifeline
from broker_common.logs import LogFormat, log_as, log_unforeseen
from broker_common.storage.clock import system_clock
from broker_common.storage.home import Home
from broker_common.values import Clock

_log = structlog.get_logger()
# Between looks for problems, for changed ranks, and for work that is due.
_LOOK_SECONDS = 5.0
_LOOPBACK = "127.0.0.1"
# TCP has no larger one.
_MAX_PORT = 65_535
# 128 bits in hex.
_LEAST_SECRET_CHARACTERS = 32


def say_changes(known: set[str], found: set[str]) -> set[str]:
    """Log the problems that are new, and those that are over; gives what was found."""
    for problem in sorted(found - known):
        _log.error("problem", problem=problem)
    for problem in sorted(known - found):
        _log.info("problem over", problem=problem)
    return found


class _News(Protocol):
    def on_news(self, tell: Callable[[], object]) -> None: ...

    @property
    def version(self) -> int: ...


class Dashboard(Protocol):
    """A node's part of a dashboard."""

    @property
    def home(self) -> Home: ...
    @property
    def organisation(self) -> str: ...
    @property
    def config(self) -> DashboardConfig:
        """As it stands in config.toml now."""

    @property
    def log_format(self) -> LogFormat: ...
    @property
    def news(self) -> _News: ...
    @property
    def pages(self) -> Sequence[Page]: ...
    @property
    def actions(self) -> Sequence[Action]: ...
    @property
    def templates(self) -> str: ...
    def health(self) -> Health: ...
    def metrics(self) -> bytes: ...
    def problems(self) -> list[str]: ...
    def work(self) -> None: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...


def run_dashboard(shown: Dashboard, *, port: int, configured: bool, lifeline: bool, say: Callable[[str], None]) -> None:
    """Serve a dashboard until a signal; `say` is told where it can be opened.

    Raises:
        InvalidRequestError: CONFIG_INVALID.
        RefusedError: PORT_TAKEN.
    """
    log_as(shown.log_format)
    log_libraries()
    host, number, tls = _configured(shown) if configured else (_LOOPBACK, port, None)
    key = secrets.token_urlsafe(24)
    site = site_of(shown, _access(shown, key), system_clock)
    shown.news.on_news(site.tell)

    def ready(address: str) -> None:
        opened_at = f"{address}/" if configured else f"{address}/?key={key}"
        say(opened_at)
        if lifeline:
            watch_lifeline()

    stopping = threading.Event()
    # Each by itself: a failure of one, or figures that take a while over a long log, keep nobody from the others.
    duties = {
        "ranks": lambda: take_ranks(shown.config, site.access),
        "watch": _looking(shown, site),
        "work": shown.work,
    }
    threads = [
        threading.Thread(target=repeat, args=(do, stopping), name=name, daemon=True) for name, do in duties.items()
    ]
    shown.start()
    for thread in threads:
        thread.start()
    try:
        # A signal is how it ends: the web server raises it again once everything is closed.
        with suppress(KeyboardInterrupt):
            asyncio.run(serve_site(site, host, number, ready, tls))
    finally:
        stopping.set()
        # Not for figures that are being computed: they are kept whole or not at all.
        for thread in threads[:2]:
            thread.join()
        shown.stop()


def site_of(shown: Dashboard, access: Access, clock: Clock) -> Site:
    """Everything that a node's dashboard shows, to whom `access` lets see it."""
    return Site(
        name=shown.organisation,
        clock=clock,
        access=access,
        pages=shown.pages,
        actions=shown.actions,
        health=shown.health,
        metrics=shown.metrics,
        version=lambda: shown.news.version,
        templates=(shown.templates,),
        hosts=LOCAL_HOSTS | frozenset(name.lower() for name in shown.config.hosts),
    )


def log_libraries() -> None:
    """Write what the web server and the event loop complain of as lines of the operator log."""
    logging.getLogger().addHandler(_Libraries(logging.WARNING))


class _Libraries(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            log_unforeseen(error)
        else:
            _log.warning("the web server complains", text=record.getMessage())


def _looking(shown: Dashboard, site: Site) -> Callable[[], None]:
    """A look for problems: logs each when it comes and when it goes, and tells open pages."""
    known: set[str] = set()

    def look() -> None:
        nonlocal known
        found = say_changes(known, set(shown.problems()))
        if found != known:
            site.tell()
        known = found

    return look


def repeat(do: Callable[[], object], stopping: threading.Event) -> None:
    """Do something every few seconds; a failure is logged, and the next time comes all the same."""
    while not stopping.wait(_LOOK_SECONDS):
        try:
            do()
        except BrokerError as error:
            _log.warning("the dashboard could not look", code=error.code, text=error.text)
        except OSError as error:
            # A full disk takes no figures. This thread goes on: it is what tells of the disk.
            _log.warning("the dashboard could not look", code="STORE_FAILED", text=error.strerror)
        except Exception as error:  # noqa: BLE001 - or problems and revoked ranks would go unseen from here on
            log_unforeseen(error)


def take_ranks(config: DashboardConfig, access: Access) -> None:
    """Obey the ranks of a configuration from the next request on."""
    # SECURITY: a person removed from config.toml loses the rank on open connections too.
    access.certificates, access.users = ranks(dict(config.certificates)), ranks(dict(config.users))


def _access(shown: Dashboard, key: str) -> Access:
    config, secret = shown.config, ""
    if bool(config.proxy_user_header) != bool(config.proxy_secret):
        raise _invalid(shown, "proxy_user_header and proxy_secret go together")
    if config.proxy_secret:
        secret = shown.home.read(config.proxy_secret).decode("ascii", "replace").strip()
        if len(secret) < _LEAST_SECRET_CHARACTERS:
            raise _invalid(shown, f"the proxy's secret has fewer than {_LEAST_SECRET_CHARACTERS} characters")
    access = Access(
        clock=system_clock,
        randomness=os.urandom,
        key=key,
        user_header=config.proxy_user_header,
        proxy_secret=secret,
        cookie=f"{COOKIE}-{shown.home.role}",
    )
    take_ranks(config, access)
    return access


def _configured(shown: Dashboard) -> tuple[str, int, ssl.SSLContext | None]:
    """Host, port and TLS as config.toml has them.

    Raises:
        InvalidRequestError: CONFIG_INVALID, also for an address that others reach in the clear.
    """
    config, path = shown.config, shown.home.path
    host, _, port = config.address.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isdecimal() or int(port) > _MAX_PORT:
        raise _invalid(shown, "the dashboard's address is not HOST:PORT")
    named = [config.certificate, config.certificate_key, config.operator_certificates]
    if any(named):
        if not all(named):
            raise _invalid(shown, "certificate, certificate_key and operator_certificates go together")
        try:
            return host, int(port), tls_context(TlsFiles(*(path / name for name in named)))
        except (OSError, ValueError) as error:
            raise _invalid(shown, f"the dashboard's certificates cannot be used: {error}") from error
    try:
        is_local = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_local = False
    if not is_local:
        raise _invalid(shown, "the dashboard's address is not on this machine, and it has no certificate")
    return host, int(port), None


def _invalid(shown: Dashboard, problem: str) -> InvalidRequestError:
    return InvalidRequestError("CONFIG_INVALID", file=str(shown.home.path / "config.toml"), problem=problem)
