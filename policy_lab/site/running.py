"""Running the lab's pages on this machine, and writing the one that needs no server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from broker_common.dashboard.running import log_libraries
from broker_common.dashboard.serving import serve_app
from broker_common.interrupts import watch_lifeline
from broker_common.language import LANGUAGES, language
from broker_common.logs import log_as
from broker_common.storage.durable import SHARED_FILE, make_shared_folder, replace_file
from policy_lab.site.explainer import explainer_file, file_name
from policy_lab.site.pages import make_app

_LOOPBACK = "127.0.0.1"


def run_lab(port: int, *, lifeline: bool, say: Callable[[str], None]) -> None:
    """Serve until a signal; `say` is told the address.

    Raises:
        RefusedError: PORT_TAKEN.
    """
    log_as("text")
    log_libraries()

    def ready(address: str) -> None:
        say(address)
        if lifeline:
            watch_lifeline()

    # A signal is how it ends: the web server raises it again once everything is closed.
    with suppress(KeyboardInterrupt):
        asyncio.run(serve_app(make_app(), _LOOPBACK, port, ready))


def save_explainer(folder: Path) -> list[Path]:
    """Write the explainer of local noise in every language, to be handed on."""
    make_shared_folder(folder)
    written = []
    for code in LANGUAGES:
        path = folder / file_name(code)
        replace_file(path, explainer_file(language(code)).encode(), mode=SHARED_FILE)
        written.append(path)
    return written
