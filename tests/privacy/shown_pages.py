"""Everything that a dashboard shows, to everybody that it may show it to."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from fakes.patience import PATIENCE_SECONDS
from fakes.randomness import SeededRandomness

from broker_common.dashboard.access import Access, Rank
from broker_common.dashboard.running import site_of
from broker_common.dashboard.site import make_app
from broker_common.language import LANGUAGES
from broker_common.values import Clock

# Pages shown without a name or a certificate, besides the first page.
PUBLIC = ("/events", "/healthz", "/metrics", "/readyz")
_SECRET = "the proxy's secret"  # noqa: S105 - of no proxy


def everything_shown(shown: Any, clock: Clock) -> dict[str, bytes]:
    """Every answer of a dashboard whose follower runs: by rank, language and path, status and headers included."""
    wait_for_log(shown)
    access = Access(
        clock=clock,
        randomness=SeededRandomness(),
        key="the key",
        users={rank.name.lower(): rank for rank in Rank},
        user_header="x-user",
        proxy_secret=_SECRET,
    )
    app = make_app(site_of(shown, access, clock))
    paths = [page.path for page in shown.pages]
    asked = [
        (rank.name.lower(), tongue, path) for rank in Rank for tongue in LANGUAGES for path in (*paths, "/nowhere")
    ]
    asked += [("", "en", path) for path in PUBLIC]

    async def ask() -> dict[str, bytes]:
        return {
            " ".join(filter(None, (rank, tongue, path))): await _first_of(
                app, path, {"accept-language": tongue, "x-user": rank, "x-tripartite-proxy": _SECRET}
            )
            for rank, tongue, path in asked
        }

    return asyncio.run(ask())


def wait_for_log(shown: Any) -> None:
    """Return when the follower has read the log: figures can be computed then."""
    followed = shown.follower.followed
    while followed.view is None and not followed.problem:
        followed = shown.follower.wait_beyond(followed.version, PATIENCE_SECONDS)


class _Enough(Exception):  # noqa: N818 - it ends a stream that would not end
    pass


async def _first_of(app: Any, path: str, headers: Mapping[str, str]) -> bytes:
    """Status, headers and body of an answer; of one that goes on for ever the first piece."""
    said = bytearray()

    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            lines = [b"%d" % message["status"], *(b"%s: %s" % each for each in message["headers"])]
            said.extend(b"\n".join(lines) + b"\n\n")
        elif message.get("body"):
            said.extend(message["body"])
            if path == "/events":
                raise _Enough

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1"), *((name.encode(), text.encode()) for name, text in headers.items())],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }
    with suppress(_Enough):
        await _unwrapped(app(scope, receive, send))
    return bytes(said)


async def _unwrapped(answer: Any) -> None:
    """Streams send from a group of tasks, which wraps what ends them."""
    try:
        await answer
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
