"""The outbox: what waits survives a restart, holds no sample and no secret, and expires only after it was released."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
from fakes.logs import hash_of

from broker_common.storage.database import Database
from census_node.release.outbox import Outbox, Pending, WaitingAnswer


def pending(number: int = 1, load: str = "load1") -> Pending:
    """A charge to be answered."""
    return Pending(
        ticket_hash=hash_of(number),
        signed_ticket=b"ticket",
        load=load,
        roster=7,
        sample=f"{number:032x}:{number:064x}",
        slot=100 + number,
        slot_commitment=b"c" * 32,
    )


def waiting(number: int = 1) -> WaitingAnswer:
    """A sealed answer."""
    return WaitingAnswer(f"{number:032x}", hash_of(number), "alice", b"sealed")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A database that wipes what it deletes, as the journal's does."""
    path = tmp_path / "journal.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA secure_delete=ON")
    Outbox.create_tables(Database(connection))
    Outbox.create_tables(Database(connection))
    connection.close()
    return path


@pytest.fixture
def outbox(file: Path) -> Iterator[Outbox]:
    """The outbox of the file."""
    connection, made = opened(file)
    yield made
    connection.close()


def opened(path: Path) -> tuple[sqlite3.Connection, Outbox]:
    """The outbox of a file."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA secure_delete=ON")
    return connection, Outbox(Database(connection))


def test_a_pending_charge_survives_a_restart(file: Path) -> None:
    """Everything that making its answer needs is read back as it was written."""
    connection, outbox = opened(file)
    outbox.put_pending(pending())
    connection.close()
    connection, outbox = opened(file)
    found = outbox.pending(hash_of(1))
    connection.close()
    assert found == pending()


def test_a_pending_charge_has_one_size_whatever_its_sample(file: Path) -> None:
    """A row names its sample and holds none of it: every field is text or bytes of a fixed length, but for the ticket."""
    names = {"signed_ticket", "load", "roster", "sample", "slot", "slot_commitment"}
    assert {field.name for field in fields(Pending)} == {"ticket_hash", *names}
    connection = sqlite3.connect(file)
    columns = {row[1] for row in connection.execute("pragma table_info(pending)")}
    connection.close()
    assert columns == {"ticket", *names}


def test_pending_charges_are_listed_in_the_order_of_their_charges(outbox: Outbox) -> None:
    """Recovery answers first what was charged first, on the loads they were charged on, from the samples and slots they name."""
    assert (outbox.all_pending(), outbox.loads_needed()) == ([], set())
    for number, load in ((9, "b"), (1, "a"), (5, "b")):
        outbox.put_pending(pending(number, load))
    assert outbox.all_pending() == [
        (hash_of(number), f"{number:032x}:{number:064x}", 100 + number) for number in (9, 1, 5)
    ]
    assert outbox.loads_needed() == {"a", "b"}
    assert outbox.pending(hash_of(2)) is None
    outbox.put_answer(waiting(1))
    assert outbox.all_pending() == [
        (hash_of(number), f"{number:032x}:{number:064x}", 100 + number) for number in (9, 5)
    ]
    assert outbox.loads_needed() == {"b"}


def test_one_ticket_is_pending_once(outbox: Outbox) -> None:
    """A second charge of the same ticket cannot even be written."""
    outbox.put_pending(pending())
    with pytest.raises(sqlite3.IntegrityError):
        outbox.put_pending(pending(load="load2"))


def test_a_sealed_answer_takes_the_place_of_what_was_pending(file: Path) -> None:
    """The row goes: neither the name of its sample nor the key is left in the file."""
    connection, outbox = opened(file)
    outbox.put_pending(pending())
    connection.close()
    private = pending().sample.encode()
    assert private in file.read_bytes()
    connection, outbox = opened(file)
    outbox.put_answer(waiting())
    assert outbox.pending(hash_of(1)) is None
    assert outbox.answer(waiting().query) == waiting()
    connection.close()
    assert private not in file.read_bytes()


def test_one_query_has_one_answer(outbox: Outbox) -> None:
    """A second answer, with fresh noise, cannot be stored over or beside the first."""
    outbox.put_pending(pending())
    outbox.put_answer(waiting())
    with pytest.raises(sqlite3.IntegrityError):
        outbox.put_answer(WaitingAnswer(waiting().query, hash_of(1), "alice", b"other"))
    assert outbox.answer(waiting().query) == waiting()
    assert outbox.answer("0" * 32) is None


@pytest.mark.parametrize(("now_ms", "left"), [(999, True), (1000, False), (1001, False)])
def test_an_expired_answer_is_forgotten(outbox: Outbox, now_ms: int, left: bool) -> None:
    """To the millisecond, and named before; others stay."""
    for number, expires_ms in ((1, 1000), (2, 5000)):
        outbox.put_pending(pending(number))
        outbox.put_answer(waiting(number))
        outbox.start_retention(waiting(number).query, expires_ms)
    assert outbox.expired(now_ms) == ([] if left else [hash_of(1)])
    outbox.forget_expired(now_ms)
    assert outbox.answer(waiting(1).query) == (waiting(1) if left else None)
    assert outbox.answer(waiting(2).query) == waiting(2)


def test_an_answer_that_is_not_released_never_expires(outbox: Outbox) -> None:
    """It was paid for; its retention begins with its release, however long that takes."""
    for number in (1, 2):
        outbox.put_pending(pending(number))
        outbox.put_answer(waiting(number))
    outbox.start_retention(waiting(2).query, 1000)
    outbox.forget_expired(2**62)
    assert outbox.answer(waiting(1).query) == waiting(1)
    assert outbox.answer(waiting(2).query) is None
    outbox.start_retention(waiting(1).query, 2**62)
    outbox.forget_expired(2**62)
    assert outbox.answer(waiting(1).query) is None


def test_there_is_no_retention_of_what_is_not_there(outbox: Outbox) -> None:
    """Starting it for an answer that was never stored is a bug, and makes none."""
    with pytest.raises(LookupError):
        outbox.start_retention("0" * 32, 1000)
    assert outbox.answer("0" * 32) is None
