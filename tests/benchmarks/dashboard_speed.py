"""The census dashboard before a long log: `make bench-dashboard`, or `python -m benchmarks.dashboard_speed [ENTRIES]`.

A log of so many entries is made by the product's own journal, or `--folder FOLDER` holds one from before. Its dashboard is
started as its command starts it, and asked for its pages: while it folds, which shows progress, and after. Printed are ratios
to a floor that the same run measures: reading and parsing the same entries and nothing else, and the same page over a log of a
few entries. With a browser here, its own account of the first paint comes too. Nothing is asserted: times depend on the machine.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from benchmarks.long_log import LONG_LOG_SCALE, lengthen
from benchmarks.machine import usage_of
from fakes.dashboards import Dashboard, dashboard
from fakes.deployment import make

from broker_common.dashboard.access import COOKIE
from broker_common.tlog.entries import parse_entry

_ENTRIES = 1_000_000
_PAGES = ("/", "/people", "/activity", "/orders")
_ROUNDS = 20
_LOOK_SECONDS = 0.5
# The pages forbid evaluating text later, which waiting for a function does; a promise is awaited by the browser itself.
_FIRST_PAINT = """() => new Promise((resolve) => new PerformanceObserver((list) => {
    for (const paint of list.getEntriesByName("first-contentful-paint")) resolve(paint.startTime);
}).observe({ type: "paint", buffered: true }))"""
_PROGRESS = re.compile(rb'<progress id="fold" max="(\d+)" value="(\d+)">')


def _get(shown: Dashboard, path: str, cookie: str = "") -> tuple[float, bytes, str]:
    """Seconds, page and cookie."""
    started = time.perf_counter()
    with closing(HTTPConnection(shown.address.removeprefix("http://"))) as connection:
        connection.request("GET", path, headers={"cookie": cookie})
        answer = connection.getresponse()
        text = answer.read()
    return time.perf_counter() - started, text, answer.getheader("set-cookie", "")


def _session(shown: Dashboard) -> str:
    found = re.search(rf"{COOKIE}[^=;]*=[0-9a-f]+", _get(shown, f"/?key={shown.key}")[2])
    assert found is not None
    return found[0]


@contextmanager
def _folded(home: Path) -> Iterator[tuple[Dashboard, float, list[float]]]:
    """A dashboard that has read its log, how long that took, and how long each page took that it served meanwhile."""
    with dashboard(home, "census", is_forked=False) as shown:
        started, waits = time.perf_counter(), []
        while True:
            wait, text, _ = _get(shown, "/")
            found = _PROGRESS.search(text)
            if found is None:
                break
            waits.append(wait)
            time.sleep(_LOOK_SECONDS)
        yield shown, time.perf_counter() - started, waits


def _pages(shown: Dashboard, times: int) -> dict[str, tuple[float, int]]:
    """Median seconds and bytes of each page."""
    cookie, found = _session(shown), {}
    for path in _PAGES:
        rounds = [_get(shown, path, cookie) for _ in range(times)]
        found[path] = statistics.median(wait for wait, _, _ in rounds), len(rounds[0][1])
    return found


def _parsing(home: Path) -> tuple[float, int]:
    """Seconds and entries: the least that anybody does who folds the log."""
    started, count = time.perf_counter(), 0
    with closing(sqlite3.connect(home / "journal.db")) as connection:
        for (data,) in connection.execute("select entry from entries order by sequence"):
            parse_entry(data)
            count += 1
    return time.perf_counter() - started, count


def _painted(address: str) -> str:
    """A browser's report of its first visit; empty without one."""
    chromium = shutil.which("chromium")
    if chromium is None:
        return ""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - not everywhere

    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.goto(address)
        painted: Any = page.evaluate(_FIRST_PAINT)
        received: Any = page.evaluate(
            "[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]"
            ".reduce((sum, each) => sum + each.transferSize, 0)"
        )
        browser.close()
    return f"browser: first contentful paint after {painted:.0f} ms, {received / 1000:.1f} kB for a first visit"


def _made(folder: Path, entries: int) -> tuple[Path, Path]:
    """Two homes: with a short log, and with a long one."""
    deployment = make(folder / "deployment", population=10)
    policy = deployment.json("census", "policy", "show")
    deployment.order_policy(scales=(*policy["scales"], LONG_LOG_SCALE))
    short, long = folder / "short", deployment.home("census")
    shutil.copytree(long, short)
    print(f"made {lengthen(long, entries):,} entries", flush=True)  # noqa: T201
    return short, long


def _report(short: Path, long: Path, times: int) -> None:
    with _folded(short) as (shown, _, _):
        empty = usage_of(shown.process.pid).resident
        few = _pages(shown, times)
    parsing, entries = _parsing(long)
    with _folded(long) as (shown, folding, waits):
        memory = usage_of(shown.process.pid)
        many = _pages(shown, times)
        painted = _painted(shown.address)
    print(  # noqa: T201
        f"{entries:,} entries: folded in {folding:.1f} s, bare parsing {parsing:.1f} s, ratio {folding / parsing:.2f}; "
        f"resident {memory.resident / 2**20:.0f} MiB, {(memory.resident - empty) / entries:.0f} B an entry"
    )
    if waits:
        print(f"pages while folding: {len(waits)}, median {statistics.median(waits):.3f} s, worst {max(waits):.3f} s")  # noqa: T201
    for path, (wait, size) in many.items():
        before, small = few[path]
        print(  # noqa: T201
            f"{path:<10} {1000 * wait:6.1f} ms, {wait / before:.2f} of a short log's; {size:,} bytes, {size / small:.2f}"
        )
    print(painted)  # noqa: T201


def main(given: Sequence[str] | None = None) -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("entries", nargs="?", type=int, default=_ENTRIES)
    parser.add_argument("--folder", type=Path, help="keeps what was made; used again where it is there")
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help="of each page")
    words = parser.parse_args(given)
    if words.folder is not None and (words.folder / "short").is_dir():
        _report(words.folder / "short", words.folder / "deployment" / "census", words.rounds)
        return
    with tempfile.TemporaryDirectory(prefix="tripartite-bench-") as temporary:
        folder = Path(temporary) if words.folder is None else words.folder
        folder.mkdir(parents=True, exist_ok=True)
        _report(*_made(folder, words.entries), words.rounds)


if __name__ == "__main__":
    main()
