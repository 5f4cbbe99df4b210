"""A look at a journal: at once while nobody holds it, and never at the price of holding up the loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.patience import PATIENCE_SECONDS, linger
from fakes.world import World

from broker_common.storage.journal import Journal
from broker_common.tlog.census_state import CensusState


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal[CensusState]]:
    """A census node's."""
    world = World(tmp_path / "world")
    yield world.census.journal
    world.close()


def test_a_look_at_a_free_journal_takes_no_thread(journal: Journal[CensusState]) -> None:
    """Handing it over would take longer than it does."""
    assert asyncio.run(journal.glance(threading.get_ident)) == threading.get_ident()


def test_a_look_at_a_held_journal_does_not_hold_up_the_loop(journal: Journal[CensusState]) -> None:
    """However long it is held, everybody else is served meanwhile; the look waits for its turn."""
    held, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        with journal.reading():
            held.set()
            assert let_go.wait(PATIENCE_SECONDS)

    def size() -> int:
        with journal.reading() as state:
            return state.size

    async def look() -> int:
        holding = asyncio.create_task(asyncio.to_thread(hold))
        assert await asyncio.to_thread(held.wait, PATIENCE_SECONDS)
        looking = asyncio.create_task(journal.glance(size))
        # The loop goes round all the same: the look is not done, and this is.
        await linger()
        assert not looking.done()
        let_go.set()
        await holding
        return await looking

    assert asyncio.run(look()) == journal.state.size


def test_a_look_that_fails_lets_go_of_the_journal(journal: Journal[CensusState]) -> None:
    """Its error is raised, and the next one finds the journal free."""

    def fail() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        asyncio.run(journal.glance(fail))
    assert asyncio.run(asyncio.to_thread(journal.now)) >= 0
    assert asyncio.run(journal.glance(threading.get_ident)) == threading.get_ident()
