"""What all tests have in common."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

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


# Files in memory where there is room: no test is about a disk that loses power, and flushing to one takes half the time.
_MEMORY = Path("/dev/shm")  # noqa: S108 - pytest makes a private folder in it
_NEEDED_BYTES = 4 * 2**30
if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _NEEDED_BYTES:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))

# Commands speak the language of the environment, and tests compare English.
os.environ["TRIPARTITE_LANG"] = "en"
