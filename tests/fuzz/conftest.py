"""One small world per test, for its nodes on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Three parties with keys, people and empty logs, under a policy without waiting."""
    made = World(tmp_path)
    yield made
    made.close()
