"""What all tests have in common."""

from __future__ import annotations

import os
from collections.abc import Iterator

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


# Commands speak the language of the environment, and tests compare English.
os.environ["TRIPARTITE_LANG"] = "en"
