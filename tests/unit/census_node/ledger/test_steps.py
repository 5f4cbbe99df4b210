"""The ledger's history: rows in order, what is due, what is superfluous, and what is left of a charge."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace

import pytest
from fakes.logs import hash_of

from broker_common.errors import InternalError
from broker_common.storage.database import Database
from census_node.ledger.steps import EMPTY_DIGEST, LedgerSteps, Step, charge_digest, digest_after
from census_node.release.outbox import Outbox, Pending


@pytest.fixture
def db() -> Iterator[Database]:
    """The tables of a census journal that the ledger knows."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    made = Database(connection)
    LedgerSteps.create_tables(made)
    LedgerSteps.create_tables(made)
    Outbox.create_tables(made)
    yield made
    connection.close()


@pytest.fixture
def steps(db: Database) -> LedgerSteps:
    """A history in which nothing happened yet."""
    return LedgerSteps(db)


def charge(number: int, kept_until_ms: int = 1000) -> Step:
    """The charge of ticket `number`."""
    return Step(
        kind="charge",
        digest=bytes([number]) * 32,
        file=f"{number}:key",
        content=bytes([100 + number]) * 32,
        ticket=hash_of(number),
        price=number,
        kept_until_ms=kept_until_ms,
    )


def load(number: int) -> Step:
    """A load."""
    return Step("load", bytes([number]) * 32, f"{number}.carry", b"c" * 32)


def snapshot(number: int, covers: int) -> Step:
    """A snapshot of everything up to a step."""
    return Step("snapshot", bytes([number]) * 32, f"{number}.ledgers", b"s" * 32, covers=covers)


def put(steps: LedgerSteps, *history: Step) -> None:
    """Everything that happened, in order."""
    assert [steps.put(step) for step in history] == list(range(steps.newest - len(history) + 1, steps.newest + 1))


def pend(db: Database, number: int) -> None:
    """The answer of a charge is still to be made."""
    pending = Pending(hash_of(number), b"", "load1", 1, f"{number}:key", number, b"")
    Outbox(db).put_pending(pending)


def test_steps_are_read_back_in_order(steps: LedgerSteps) -> None:
    """Each with its place, whole; by ticket and from any place on."""
    assert (steps.newest, steps.covered, steps.first_kept) == (0, 0, None)
    assert steps.digest_at(0) == EMPTY_DIGEST
    history = [load(1), charge(2), snapshot(3, 2), charge(4)]
    put(steps, *history)
    assert list(steps.after(0)) == [replace(step, place=place) for place, step in enumerate(history, start=1)]
    assert [step.place for step in steps.after(2)] == [3, 4]
    assert steps.of_ticket(hash_of(4)) == replace(charge(4), place=4)
    assert steps.of_ticket(hash_of(9)) is None
    assert (steps.newest, steps.covered, steps.first_kept) == (4, 2, 2)
    assert [steps.digest_at(place) for place in range(1, 5)] == [step.digest for step in history]
    assert steps.files() == {step.file for step in history}
    assert [(link.place, link.kind, link.price) for link in steps.links()] == [
        (place, step.kind, step.price) for place, step in enumerate(history, start=1)
    ]
    assert [link.place for link in steps.links(after=2)] == [3, 4]
    assert [steps.charges_after(place) for place in range(5)] == [2, 2, 1, 1, 0]


def test_a_step_that_is_not_there_has_no_digest(steps: LedgerSteps) -> None:
    """Rows that name it are damaged."""
    put(steps, load(1))
    for place in (2, -1):
        with pytest.raises(InternalError, match="INTEGRITY"):
            steps.digest_at(place)


@pytest.mark.parametrize("value", ["null", "1.5", "x'00'", "'x'"])
@pytest.mark.parametrize("column", ["kind", "digest", "file", "content", "ticket", "price", "kept_until_ms"])
def test_a_column_of_another_type_is_damage(db: Database, steps: LedgerSteps, column: str, value: str) -> None:
    """SQLite keeps whatever it is given; who reads it does not."""
    put(steps, charge(1))
    db.execute(f"update ledger_steps set {column} = {value}")  # noqa: S608 - our own text
    # A column of text turns a number into text.
    good = {"x'00'": {"digest", "content"}, "'x'": {"file", "ticket"}, "1.5": {"file", "ticket"}}
    if column in good.get(value, ()):
        assert len(list(steps.after(0))) == len(list(steps.links())) == 1
        return
    with pytest.raises(InternalError, match="INTEGRITY"):
        list(steps.after(0))
    if column in {"kind", "digest", "content", "ticket", "price"}:
        with pytest.raises(InternalError, match="INTEGRITY"):
            list(steps.links())


def test_the_digest_names_the_whole_history() -> None:
    """Another charge, price, sample or active set, another order: another digest."""
    ticket, submitted, active = bytes(32), b"s" * 32, b"d" * 32
    digest = charge_digest(EMPTY_DIGEST, ticket, 7, submitted, active)
    others = {
        charge_digest(b"x" * 32, ticket, 7, submitted, active),
        charge_digest(EMPTY_DIGEST, b"t" * 32, 7, submitted, active),
        charge_digest(EMPTY_DIGEST, ticket, 8, submitted, active),
        charge_digest(EMPTY_DIGEST, ticket, 7, b"x" * 32, active),
        charge_digest(EMPTY_DIGEST, ticket, 7, submitted, b"x" * 32),
        charge_digest(EMPTY_DIGEST, ticket, 7, active, submitted),
        digest_after(EMPTY_DIGEST, "load", active),
        digest_after(EMPTY_DIGEST, "snapshot", bytes(8), active),
        digest_after(EMPTY_DIGEST, "snapshot", active, bytes(8)),
        digest_after(EMPTY_DIGEST, "load", active[:16], active[16:]),
    }
    assert len(others | {digest}) == 11


@pytest.mark.parametrize(("now_ms", "due"), [(999, []), (1000, [1]), (1999, [1]), (2000, [1, 3])])
def test_membership_is_due_when_it_was_kept_long_enough(
    db: Database, steps: LedgerSteps, now_ms: int, due: list[int]
) -> None:
    """Unless its answer waits; once it is erased it is due no more."""
    put(steps, charge(1), charge(2), charge(3, kept_until_ms=2000), load(4))
    pend(db, 2)
    assert [step.place for step in steps.due(now_ms)] == due
    for step in steps.due(now_ms):
        steps.erase(step)
    assert steps.due(now_ms) == []
    db.execute("delete from pending where ticket = ?", [hash_of(2)])
    assert [step.place for step in steps.due(now_ms)] == ([2] if due else [])


def test_what_is_left_of_an_erased_charge_names_nobody(steps: LedgerSteps) -> None:
    """Its ticket, price and digest, which stand in the log, and a commitment that nothing opens any more."""
    put(steps, charge(1))
    (step,) = steps.after(0)
    steps.erase(step)
    (left,) = steps.after(0)
    assert left == replace(step, file="")
    assert (steps.files(), steps.first_kept) == (set(), None)


def test_the_newest_snapshot_is_never_superfluous(steps: LedgerSteps) -> None:
    """Nor what comes after it; the ones before it are, and the carries that it covers."""
    put(steps, load(1), snapshot(2, 1), load(3), snapshot(4, 3), load(5))
    assert [step.place for step in steps.superfluous()] == [1, 2, 3]
    for step in steps.superfluous():
        steps.erase(step)
    assert steps.superfluous() == []
    assert steps.files() == {"4.ledgers", "5.carry"}


def test_what_checks_a_kept_membership_is_kept_with_it(steps: LedgerSteps) -> None:
    """An audit on site begins from the snapshot before the oldest charge whose sample is kept."""
    put(steps, load(1), snapshot(2, 1), charge(3), load(4), snapshot(5, 4), charge(6), snapshot(7, 6))
    assert [step.place for step in steps.superfluous()] == [1, 5]
    steps.erase(next(steps.after(2)))
    assert [step.place for step in steps.superfluous()] == [1, 2, 4]


def test_nothing_is_superfluous_where_no_snapshot_comes_before_what_is_kept(steps: LedgerSteps) -> None:
    """The audit begins from nothing then."""
    put(steps, load(1), charge(2), load(3), snapshot(4, 3))
    assert steps.superfluous() == []
