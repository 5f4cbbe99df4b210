"""A dashboard as a web application: pages, live news, actions, probes and metrics, behind one set of headers.

A node brings pages (what they show is its business) and gets everything else: languages, access, security headers, static
files, server-sent events that say only "there is something newer", and actions that no other site can trigger.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

import structlog
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from broker_common.dashboard.access import Access, Rank, Visitor
from broker_common.dashboard.web import PACKAGE, Guard, language_chosen, language_of, templates
from broker_common.errors import BrokerError
from broker_common.language import Language, phrase
from broker_common.values import Clock

CERTIFICATE = "tripartite.certificate"
"""Where a request's scope holds the fingerprint of the certificate that its connection came with."""

_log = structlog.get_logger()
# Open pages that are told of news at the same time.
_MOST_STREAMS = 64
# A form with the longest reason that a log takes.
_MAX_FORM_BYTES = 16_384
# A silent stream says that it is still there, or something on the way may close it.
_HEARTBEAT_SECONDS = 15.0
# In the address of the request that follows a key, and nowhere else.
_CAME_WITH_KEY = "signed-in"


@dataclass(frozen=True, slots=True)
class Page:
    """One page: where it is, who may see it, and what its template is filled with."""

    path: str
    template: str
    # In English; the navigation and the window's title show it in the reader's language.
    title: str
    rank: Rank
    values: Callable[[Language], Mapping[str, Any]]
    # Further values for the agency's own staff.
    for_staff: Callable[[Language], Mapping[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class Action:
    """Something that an operator may do: gets the form's fields, gives a sentence; errors are shown as they are."""

    path: str
    page: str
    perform: Callable[[Mapping[str, str]], str]


@dataclass(frozen=True, slots=True)
class Health:
    """Whether the node can serve; `problems` are words for the operator on call, and hold nothing about any person."""

    is_ready: bool
    problems: tuple[str, ...] = ()


@dataclass(slots=True)
class Site:
    """Everything that one dashboard is made of."""

    # The organisation whose node it shows.
    name: str
    clock: Clock
    access: Access
    pages: Sequence[Page]
    actions: Sequence[Action]
    health: Callable[[], Health]
    metrics: Callable[[], bytes]
    # The number of the newest state; pages are drawn anew when it has changed.
    version: Callable[[], int]
    # Packages that hold further templates.
    templates: Sequence[str] = ()
    # Hosts by which the dashboard may be addressed.
    hosts: frozenset[str] = frozenset()
    _news: set[asyncio.Event] = field(default_factory=set)
    _is_ending: bool = False
    _loop: asyncio.AbstractEventLoop | None = None

    def begin(self) -> None:
        """Call once, in the event loop that serves the site."""
        self._loop = asyncio.get_running_loop()

    def tell(self) -> None:
        """There is something newer. May be called from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._tell_all)

    def end_streams(self) -> None:
        """The server stops: open pages ask again when it is back. Call in its event loop."""
        self._is_ending = True
        self._tell_all()

    def _tell_all(self) -> None:
        for event in self._news:
            event.set()


def make_app(site: Site) -> ASGIApp:
    """The application."""
    handlers = _Handlers(site)
    routes = [Route(page.path, handlers.page(page), methods=["GET"]) for page in site.pages]
    routes += [Route(action.path, handlers.action(action), methods=["POST"]) for action in site.actions]
    app = Starlette(
        routes=[
            *routes,
            Route("/events", handlers.events, methods=["GET"]),
            Route("/leave", handlers.leave, methods=["POST"]),
            Route("/healthz", handlers.healthz, methods=["GET"]),
            Route("/readyz", handlers.readyz, methods=["GET"]),
            Route("/metrics", handlers.metrics, methods=["GET"]),
            Mount("/static", StaticFiles(packages=[(PACKAGE, "static")])),
        ],
        exception_handlers={404: handlers.not_found},
    )
    return Guard(app, site.hosts)


class _Handlers:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._jinja = templates(site.templates)

    # --- pages -----------------------------------------------------------------------------------------------------

    def page(self, page: Page) -> Callable[[Request], Awaitable[Response]]:
        async def show(request: Request) -> Response:
            entered = self._entered(request) or language_chosen(request)
            if entered is not None:
                return entered
            visitor = self._visitor(request)
            if _CAME_WITH_KEY in request.query_params:
                if visitor.token:
                    return RedirectResponse(page.path, 303)
                return self._rendered(request, visitor, "no_session.html", phrase("Not signed in"), {}, status=403)
            if visitor.rank < page.rank:
                _log.warning("a page was refused at the dashboard", path=page.path, by=visitor.name)
                return self._rendered(request, visitor, "refused.html", page.title, {}, status=403)
            values = await asyncio.to_thread(page.values, language_of(request))
            # SECURITY: not even computed for a reader, so that no template can show it by mistake.
            if page.for_staff is not None and visitor.rank >= Rank.STAFF:
                values = {**values, **await asyncio.to_thread(page.for_staff, language_of(request))}
            return self._rendered(request, visitor, page.template, page.title, values)

        return show

    async def not_found(self, request: Request, error: Exception) -> Response:
        del error
        return self._rendered(request, self._visitor(request), "missing.html", phrase("Not found"), {}, status=404)

    def _rendered(
        self,
        request: Request,
        visitor: Visitor,
        template: str,
        title: str,
        values: Mapping[str, Any],
        *,
        status: int = 200,
    ) -> Response:
        tongue = language_of(request)
        text = self._jinja.get_template(template).render(
            t=tongue,
            site=self._site,
            pages=[page for page in self._site.pages if page.rank <= visitor.rank],
            path=request.url.path,
            title=title,
            visitor=visitor,
            Rank=Rank,
            version=self._site.version(),
            now_ms=self._site.clock(),
            **values,
        )
        return Response(text, status, media_type="text/html")

    # --- who it is -------------------------------------------------------------------------------------------------

    def _visitor(self, request: Request) -> Visitor:
        return self._site.access.visitor(
            session_id=request.cookies.get(self._site.access.cookie, ""),
            fingerprint=request.scope.get(CERTIFICATE, ""),
            headers=request.headers,
        )

    def _entered(self, request: Request) -> Response | None:
        """A visitor with the key gets a session; the key leaves the address at once."""
        key = request.query_params.get("key")
        if key is None:
            return None
        # Whether the browser keeps the cookie is seen at its next request.
        response = RedirectResponse(f"{request.url.path}?{_CAME_WITH_KEY}=yes", 303)
        session_id = self._site.access.enter(key)
        if session_id is None:
            _log.warning("a wrong key was tried at the dashboard")
        else:
            response.set_cookie(self._site.access.cookie, session_id, httponly=True, secure=True, samesite="strict")
        return response

    async def leave(self, request: Request) -> Response:
        visitor = self._visitor(request)
        if await self._verified_form(request, visitor) is not None:
            self._site.access.leave(request.cookies.get(self._site.access.cookie, ""))
        response = RedirectResponse("/", 303)
        response.delete_cookie(self._site.access.cookie, httponly=True, secure=True, samesite="strict")
        return response

    # --- actions ---------------------------------------------------------------------------------------------------

    def action(self, action: Action) -> Callable[[Request], Awaitable[Response]]:
        async def act(request: Request) -> Response:
            visitor = self._visitor(request)
            form = await self._verified_form(request, visitor)
            if visitor.rank < Rank.OPERATOR or form is None:
                _log.warning("an action was refused at the dashboard", path=action.path, by=visitor.name)
                template = "refused.html" if visitor.rank < Rank.OPERATOR else "stale.html"
                return self._rendered(request, visitor, template, phrase("Refused"), {"back": action.page}, status=403)
            tongue = language_of(request)
            try:
                done, failed = tongue(await asyncio.to_thread(action.perform, form)), None
            except BrokerError as error:
                done, failed = "", error
            _log.info(
                "an action at the dashboard",
                path=action.path,
                by=visitor.name,
                outcome="done" if failed is None else failed.code,
            )
            text, hint = ("", "") if failed is None else failed.said(tongue)
            values = {"done": done, "text": text, "hint": hint, "back": action.page}
            return self._rendered(
                request,
                visitor,
                "acted.html",
                phrase("Done") if failed is None else phrase("Not done"),
                values,
                status=200 if done else 409,
            )

        return act

    async def _verified_form(self, request: Request, visitor: Visitor) -> Mapping[str, str] | None:
        """The fields of a form that our own page sent for this visitor; None for anything else."""
        if not visitor.token or request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return None
        origin = request.headers.get("origin")
        if origin is not None and origin.partition("://")[2] != request.headers.get("host"):
            return None
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > _MAX_FORM_BYTES:
                return None
        fields = {name: values[-1] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}
        if not hmac.compare_digest(fields.get("token", "").encode(), visitor.token.encode()):
            return None
        return fields

    # --- news ------------------------------------------------------------------------------------------------------

    async def events(self, request: Request) -> Response:
        """One line for every newer state: its number. The page itself asks again for the content."""
        del request
        site = self._site
        if len(site._news) >= _MOST_STREAMS:  # noqa: SLF001 - the site's own streams
            return PlainTextResponse("too many pages are open", 503)

        async def stream() -> AsyncIterator[str]:
            event = asyncio.Event()
            site._news.add(event)  # noqa: SLF001 - the site's own streams
            try:
                while not site._is_ending:  # noqa: SLF001 - the site's own streams
                    event.clear()
                    yield f"retry: 2000\nevent: state\ndata: {site.version()}\n\n"
                    try:
                        await asyncio.wait_for(event.wait(), _HEARTBEAT_SECONDS)
                    except TimeoutError:
                        yield ": still here\n\n"
            finally:
                site._news.discard(event)  # noqa: SLF001 - the site's own streams

        return StreamingResponse(stream(), media_type="text/event-stream")

    # --- probes ----------------------------------------------------------------------------------------------------

    async def healthz(self, request: Request) -> Response:
        del request
        return PlainTextResponse("ok\n")

    async def readyz(self, request: Request) -> Response:
        del request
        health = await asyncio.to_thread(self._site.health)
        return JSONResponse(
            {"ready": health.is_ready, "problems": list(health.problems)}, 200 if health.is_ready else 503
        )

    async def metrics(self, request: Request) -> Response:
        del request
        text = await asyncio.to_thread(self._site.metrics)
        return Response(text, media_type="text/plain; version=0.0.4")
