"""Common to all tests."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import structlog
from hypothesis import HealthCheck, settings

# Both are measured with the machine's clock: a busy machine would fail a test that is right.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


@pytest.fixture(autouse=True)
def _log_as_before() -> Iterator[None]:
    """Where the log goes is set for a whole process: no test inherits it from the one before."""
    yield
    structlog.reset_defaults()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Everything that is collected stays until the end: nobody walks through it in search of garbage, neither now nor later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        # DuckDB's library counts what is left when the process ends, and writes of it.
        atexit.register(gc.unfreeze)


@pytest.fixture(scope="session", autouse=True)
def _quick_starts() -> Iterator[None]:
    """A node that ends in this process does not bring back all that pytest has collected for the next walk."""
    nothing = SimpleNamespace(collect=lambda: 0, freeze=lambda: None, unfreeze=lambda: None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("broker_common.rpc.server.gc", nothing)
        yield


# `make test-fast` does without them: each took more than 0.3 seconds of a processor, all its cases together.
_SLOW_TESTS = frozenset((Path(__file__).parent / "slow.txt").read_text(encoding="utf-8").split())


def pytest_itemcollected(item: pytest.Item) -> None:
    """Folders move and names stay, so that a test is known by its file and its name."""
    if f"{item.path.name}::{getattr(item, 'originalname', item.name)}" in _SLOW_TESTS:
        item.add_marker(pytest.mark.slow)


# Tests that wait for minutes come first, then those with long fixtures, then those that take a second each, then the rest: a
# worker without tests takes over another one's last ones, which are short then.
_WAITING = ("tests/process/test_watching",)
_LONG = (
    "tests/privacy/test_canaries",
    "tests/privacy/test_wire",
    "tests/statistical/",
    "tests/process/test_load.py",
    "tests/process/test_benchmarks",
)
_SLOW = ("tests/faults/", "tests/privacy/", "tests/process/")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests first; among them the order stays random."""

    def place(item: pytest.Item) -> int:
        groups = enumerate((_WAITING, _LONG, _SLOW))
        return next((place for place, names in groups if item.nodeid.startswith(names)), 3)

    items.sort(key=place)


# Files in memory where there is room: no test is about a disk that loses power, and flushing to one takes half the time.
_MEMORY = Path("/dev/shm")  # noqa: S108 - pytest makes a private folder in it
_NEEDED_BYTES = 4 * 2**30
if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _NEEDED_BYTES:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))

# A run in a shell's background ignores interrupts, and so would every process that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Commands speak the language of the environment, and tests compare English.
os.environ["TRIPARTITE_LANG"] = "en"
