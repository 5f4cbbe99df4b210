"""One small world per test, and its nodes on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from fakes.loopback import Loopback
from fakes.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Three parties with keys, people and empty logs, under a policy without waiting."""
    made = World(tmp_path)
    yield made
    made.close()


@pytest.fixture
async def loopback(world: World) -> AsyncIterator[Loopback]:
    """The world's nodes, serving."""
    async with Loopback(world) as nodes:
        yield nodes
