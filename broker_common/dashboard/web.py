"""Common parts of all web pages of the product: the hosts that they answer for, headers, the reader's language, templates."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlencode

import jinja2
import structlog
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from broker_common.language import LANGUAGES, Language, language

_log = structlog.get_logger()
LOCAL_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})
PACKAGE = "broker_common.dashboard"
_POLICY = "content-security-policy"
_HEADERS = {
    _POLICY: "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "x-content-type-options": "nosniff",
    # With "no-referrer" a browser does not say where a form of ours comes from either.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
# A name in the domain name system has no more.
_MAX_HOST_CHARACTERS = 253
_LANGUAGE_COOKIE = "tripartite-language"
_CHOSEN = "lang"
# How long the choice of a language is kept.
_YEAR_SECONDS = 31_536_000


class Guard:
    """Refuses requests that name another host, and puts the headers on every response."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str]) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        host = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")
        is_page = not scope["path"].startswith("/static/")

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name.decode("latin-1").lower() for name, _ in message["headers"]}
                extra = _HEADERS | {"cache-control": "no-store" if is_page else "max-age=3600"}
                # A page that allows itself less than the others has brought its own.
                added = [(name.encode(), value.encode()) for name, value in extra.items() if name not in own]
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        # SECURITY: a page of another site whose name was made to lead here sends that name along.
        if self._hosts and _without_port(host) not in self._hosts:
            _log.warning("a request for another host was refused", host=host[:_MAX_HOST_CHARACTERS])
            await PlainTextResponse("unknown host", 421)(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0].lower()


def templates(packages: Collection[str]) -> jinja2.Environment:
    """The templates of all pages, and those of these packages."""
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(package) for package in (PACKAGE, *packages)]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


def language_of(request: Request) -> Language:
    """The language that the reader has chosen, or else that of their browser."""
    chosen = request.cookies.get(_LANGUAGE_COOKIE, "")
    if chosen in LANGUAGES:
        return language(chosen)
    for part in request.headers.get("accept-language", "").split(","):
        code = part.partition(";")[0].strip().partition("-")[0].lower()
        if code in LANGUAGES:
            return language(code)
    return language("en")


def language_chosen(request: Request) -> Response | None:
    """The same page again, with the language in a cookie, for a reader who has just chosen one."""
    code = request.query_params.get(_CHOSEN, "")
    if code not in LANGUAGES:
        return None
    # A figure stays as its sliders stand.
    others = urlencode([(name, value) for name, value in request.query_params.multi_items() if name != _CHOSEN])
    response = RedirectResponse(request.url.path + (f"?{others}" if others else ""), 303)
    response.set_cookie(_LANGUAGE_COOKIE, code, max_age=_YEAR_SECONDS, httponly=True, secure=True, samesite="strict")
    return response
