"""One small world per test, and its nodes on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from fakes.patience import NEVER_SECONDS
from fakes.world import World
from integration.loopback import Loopback


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No call is given up: on a busy machine that would fail a test, and no test may pass because a call was given up."""
    for limit in (
        "broker_common.parties.exchange._TIMEOUT_SECONDS",
        "census_node.release.delivery._TIMEOUT_SECONDS",
        "census_node.release.delivery._VISIT_SECONDS",
        "health_node.census_link._POLICY_TIMEOUT_SECONDS",
        "health_node.witness._CALL_SECONDS",
        "researcher_node.asking.contact.CALL_SECONDS",
        "researcher_node.asking.session.CALL_SECONDS",
    ):
        monkeypatch.setattr(limit, NEVER_SECONDS)


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
