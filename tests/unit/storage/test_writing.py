"""Steps that come together are durable together; one that fails takes nothing of the others with it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from fakes.connections import break_statements
from fakes.patience import PATIENCE_SECONDS, linger
from fakes.world import World

from broker_common.errors import RefusedError, StateUnknownError
from broker_common.storage.journal import Journal
from broker_common.storage.writing import Writer
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import Slots


@dataclass
class Notes:
    """Steps that write an entry and a row, and how many transactions they were."""

    journal: Journal[CensusState]
    commits: int = 0
    tried: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.journal.db.execute("create table noted (name text)")
        self.before = self.journal.state.size
        self.journal.db.conn.set_trace_callback(self._count)

    def _count(self, statement: str) -> None:
        self.commits += statement == "COMMIT"

    def note(self, name: str, *, fails: Exception | None = None) -> str:
        """An entry and a row, in a transaction; then it fails, if it is to."""
        self.tried.append(name)
        with self.journal.transaction() as transaction:
            first = transaction.state.next_slot
            transaction.append(Slots(first=first, void_below=first, commitments=("00" * 32,)))
            transaction.db.execute("insert into noted (name) values (?)", [name])
            if fails is not None:
                raise fails
        return name

    def stand(self) -> list[str]:
        """Names of the rows; there are as many entries."""
        names = [name for (name,) in self.journal.db.execute("select name from noted order by rowid")]
        with self.journal.reading() as state:
            assert state.size - self.before == len(names)
        return names


@pytest.fixture
def notes(tmp_path: Path) -> Iterator[Notes]:
    """At a census node's journal."""
    world = World(tmp_path / "world")
    yield Notes(world.census.journal)
    world.close()


def test_steps_that_come_while_one_is_written_are_the_next_transaction(notes: Notes) -> None:
    """The first waits for nobody; each is told what its own step gives, when it is durable."""
    begun, go_on = threading.Event(), threading.Event()

    def slow() -> str:
        begun.set()
        assert go_on.wait(PATIENCE_SECONDS)
        return notes.note("first")

    async def write_all() -> list[str]:
        writer = Writer(notes.journal)
        first = asyncio.create_task(writer.write(slow))
        assert await asyncio.to_thread(begun.wait, PATIENCE_SECONDS)
        others = [asyncio.create_task(writer.write(notes.note, str(number))) for number in range(5)]
        await linger()
        go_on.set()
        return await asyncio.gather(first, *others)

    assert asyncio.run(write_all()) == ["first", *"01234"]
    assert notes.stand() == ["first", *"01234"]
    assert notes.commits == 2


def test_step_that_fails_fails_alone(notes: Notes) -> None:
    """Nothing of it stands, although it came last; the others are done again, each by itself."""

    async def write_all() -> list[str | BaseException]:
        writer = Writer(notes.journal)
        mistakes = [writer.write(notes.note, "wrong", fails=error) for error in (LookupError(), RefusedError("BUSY"))]
        return await asyncio.gather(
            writer.write(notes.note, "before"), *mistakes, writer.write(notes.note, "after"), return_exceptions=True
        )

    before, lookup, refused, after = asyncio.run(write_all())
    assert (before, after) == ("before", "after")
    assert isinstance(lookup, LookupError)
    assert isinstance(refused, RefusedError)
    assert notes.stand() == ["before", "after"]


@pytest.mark.parametrize("happens", [True, False], ids=["stored", "lost"])
def test_commit_that_fails_is_unknown_to_all_of_it(notes: Notes, *, happens: bool) -> None:
    """No step is done again, and nothing is written any more."""
    journal = notes.journal
    connection = journal.db.conn

    async def write_all() -> list[str | BaseException]:
        writer = Writer(journal)
        break_statements(journal.db, happens=happens)
        writes = (writer.write(notes.note, name) for name in ("one", "two"))
        told = await asyncio.gather(*writes, return_exceptions=True)
        return [*told, *await asyncio.gather(writer.write(notes.note, "later"), return_exceptions=True)]

    told = asyncio.run(write_all())
    assert [type(each) for each in told] == [StateUnknownError] * 3
    assert notes.tried == ["one", "two"]
    connection.rollback()


def test_step_whose_writer_has_gone_is_done_all_the_same(notes: Notes) -> None:
    """Like a thread that nobody waits for; the next one is written as ever."""

    async def write_all() -> str:
        writer = Writer(notes.journal)
        gone = asyncio.create_task(writer.write(notes.note, "gone"))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        return await writer.write(notes.note, "next")

    assert asyncio.run(write_all()) == "next"
    assert notes.stand() == ["gone", "next"]


def test_transaction_inside_another_one_stands_or_falls_with_it(notes: Notes) -> None:
    """Also when the inner one ended well."""

    def fail_at_last() -> None:
        with notes.journal.transaction():
            notes.note("inner")
            raise RefusedError("BUSY")

    with pytest.raises(RefusedError):
        fail_at_last()
    assert notes.stand() == []
    with notes.journal.transaction():
        notes.note("one")
        notes.note("two")
    assert notes.stand() == ["one", "two"]
    assert notes.commits == 1
