"""Every durable write of a journal fails in turn, lost or stored; the file is tampered with; the disk is full.

The oracle is always the same: the file opens again, which replays every entry and compares checkpoint and summary, and
holds either all of the transaction or nothing of it. A node that cannot know says so and stops.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fakes.clock import FakeClock
from fakes.connections import WatchedConnection, break_statements, disk_error, watch
from fakes.logs import (
    CENSUS,
    LOG_KEY,
    ORIGIN,
    SIGNER,
    adopted,
    beginning,
    census_state,
    charged,
    hash_of,
    loaded,
    released,
    root,
    rostered,
    shut_down,
    slots,
)

from broker_common.crypto.signing import Purpose, SigningKey
from broker_common.errors import BrokerError, InternalError, InvalidRequestError, RefusedError, StateUnknownError
from broker_common.privacy.accounting import price
from broker_common.storage.database import Database
from broker_common.storage.journal import Journal, Transaction
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import Delivered, Opened, parse_entry
from broker_common.tlog.merkle import MerkleTree, root_from_inclusion
from broker_common.tlog.note import NoteSigner
from broker_common.tlog.replay import replay

PRICE = price(30)
READY = 10
"""Entries in the journal of the fixture: opened, announced, two registered, adopted, loaded, a roster, slots, one charge."""


def create_tables(db: Database) -> None:
    """One table beside the log, as a node has."""
    db.make_table("pending", {"ticket": str, "secret": bytes}, key="ticket")


def put_row(transaction: Transaction[CensusState], number: int, secret: bytes = b"") -> None:
    """A row beside the log."""
    transaction.db.execute("insert into pending (ticket, secret) values (?, ?)", [hash_of(number), secret])


def open_journal(path: Path, clock: FakeClock | None = None, signer: NoteSigner = SIGNER) -> Journal[CensusState]:
    """Open the journal as a node does."""
    return Journal(
        path,
        fresh_state=census_state,
        signer=lambda _: signer,
        clock=clock or FakeClock(),
        tables=create_tables,
    )


def create_journal(path: Path) -> Journal[CensusState]:
    """Make a new journal."""
    return Journal.create(
        path,
        fresh_state=census_state,
        signer=lambda _: SIGNER,
        clock=FakeClock(),
        tables=create_tables,
    )


def charge(transaction: Transaction[CensusState], number: int) -> None:
    """A charge with its row, as the ledger writes them."""
    transaction.append(charged(number, before=transaction.state.charged_units))
    put_row(transaction, number, b"secret")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed journal with one charge in it."""
    file = tmp_path / "journal.db"
    journal = create_journal(file)
    with journal.transaction() as transaction:
        for event in (*beginning()[1:], adopted(), loaded(), rostered(), slots()):
            transaction.append(event)
    with journal.transaction() as transaction:
        charge(transaction, 0)
    journal.close()
    return file


@contextlib.contextmanager
def opened_journal(path: Path, clock: FakeClock | None = None) -> Iterator[Journal[CensusState]]:
    """A journal that is closed at the end."""
    journal = open_journal(path, clock)
    try:
        yield journal
    finally:
        journal.close()


def stored(path: Path) -> tuple[int, set[str]]:
    """Content of the file, read without the product: number of entries that replay, tickets with a row."""
    connection = sqlite3.connect(path)
    try:
        entries = [bytes(row[0]) for row in connection.execute("select entry from entries order by sequence")]
        rows = {row[0] for row in connection.execute("select ticket from pending")}
    finally:
        connection.close()
    state = replay(map(parse_entry, entries), census_state())
    # One transaction wrote both, so the charges and the rows are the same tickets.
    assert set(state.tickets) == rows
    return state.size, rows


def sound(path: Path) -> int:
    """The number of entries, after the file has opened again and agreed with itself."""
    with opened_journal(path) as journal, journal.reading() as state:
        size = state.size
    assert stored(path)[0] == size
    return size


def code_of(action: Callable[[], object]) -> str:
    """The code of the error that the action raises."""
    with pytest.raises(BrokerError) as caught:
        action()
    return caught.value.code


def enter_transaction(journal: Journal[CensusState]) -> None:
    """An empty transaction."""
    with journal.transaction():
        pass


def enter_reading(journal: Journal[CensusState]) -> None:
    """An empty reading."""
    with journal.reading():
        pass


def assert_closed_for_good(journal: Journal[CensusState], code: str) -> None:
    """Nothing is written, read, signed or proved any more, and the reason stays."""
    assert journal.is_broken
    assert code_of(lambda: enter_transaction(journal)) == code
    assert code_of(lambda: enter_reading(journal)) == code
    assert code_of(journal.checkpoint) == code
    assert code_of(lambda: journal.prove(0)) == code


# --- making and opening -------------------------------------------------------------------------------------------------


def test_a_new_journal_opens_its_log(tmp_path: Path) -> None:
    """The first entry says whose log it is, and the file is its owner's alone."""
    journal = create_journal(tmp_path / "journal.db")
    with journal.reading() as state:
        assert (state.size, state.origin) == (1, ORIGIN)
    journal.close()
    assert sound(tmp_path / "journal.db") == 1
    assert (tmp_path / "journal.db").stat().st_mode & 0o777 == 0o600


def test_an_existing_journal_is_never_made_anew(path: Path) -> None:
    """Creating over a ledger would forget every charge."""
    before = path.read_bytes()
    assert code_of(lambda: create_journal(path)) == "HOME_INVALID"
    assert path.read_bytes() == before
    assert sound(path) == READY


def test_a_missing_journal_is_never_replaced_by_an_empty_one(tmp_path: Path) -> None:
    """A lost ledger keeps the node shut."""
    with pytest.raises(InvalidRequestError) as caught:
        open_journal(tmp_path / "journal.db")
    assert caught.value.code == "HOME_INVALID"
    assert caught.value.details["role"] == "census"
    assert not (tmp_path / "journal.db").exists()


def test_an_emptied_journal_is_not_taken_for_a_new_one(path: Path) -> None:
    """A file truncated to nothing, or to a database without rows, is a lost ledger too."""
    tamper(path, "delete from entries", "delete from head")
    assert code_of(lambda: open_journal(path)) == "INTEGRITY"
    path.unlink()
    path.touch()
    assert code_of(lambda: open_journal(path)) == "INTEGRITY"
    assert code_of(lambda: create_journal(path)) == "HOME_INVALID"


def test_a_file_that_is_no_database_stops_the_node(path: Path) -> None:
    """Garbage where the ledger should be is a damaged ledger, and no full disk."""
    path.write_bytes(b"not a database" * 1000)
    assert code_of(lambda: open_journal(path)) == "INTEGRITY"


# --- one transaction ----------------------------------------------------------------------------------------------------


def test_entry_row_and_head_become_durable_together(path: Path) -> None:
    """After a transaction, another process finds all of it."""
    with opened_journal(path) as journal:
        with journal.transaction() as transaction:
            charge(transaction, 1)
            assert transaction.state.answers == 2
            assert stored(path)[0] == READY
        assert stored(path) == (READY + 1, {hash_of(0), hash_of(1)})
    assert sound(path) == READY + 1


class Interrupted(Exception):  # noqa: N818 - not an error of the product
    """Somebody's own exception."""


@pytest.mark.parametrize(
    "error",
    [
        Interrupted(),
        RefusedError("SERVICE_SHUT_DOWN"),
        InternalError("INTERNAL"),
        KeyboardInterrupt(),
        asyncio.CancelledError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_exception_in_the_block_leaves_file_and_memory_as_they_were(path: Path, error: BaseException) -> None:
    """Whatever was appended before it is gone from both, and the journal goes on."""
    with opened_journal(path) as journal:
        note = journal.checkpoint()
        with pytest.raises(type(error)), journal.transaction() as transaction:  # noqa: PT012 - fails half way
            charge(transaction, 1)
            charge(transaction, 2)
            raise error
        assert stored(path) == (READY, {hash_of(0)})
        assert journal.checkpoint() == note
        with journal.reading() as state:
            assert (state.size, state.answers, state.charged_units) == (READY, 1, PRICE)
        with journal.transaction() as transaction:
            charge(transaction, 1)
    assert sound(path) == READY + 1


def test_a_row_alone_is_rolled_back_as_well(path: Path) -> None:
    """Rows without an entry obey the same rule."""
    with opened_journal(path) as journal:
        with pytest.raises(Interrupted), journal.transaction() as transaction:  # noqa: PT012 - fails half way
            put_row(transaction, 9)
            raise Interrupted
        with journal.transaction() as transaction:
            put_row(transaction, 8)
            transaction.db.execute("delete from pending where ticket = ?", [hash_of(8)])
    assert sound(path) == READY


def test_what_breaks_a_rule_of_the_log_cannot_be_written(path: Path) -> None:
    """A bug that charges twice is stopped by the fold, durably nowhere, and the node stops."""
    with opened_journal(path) as journal:
        with pytest.raises(InternalError) as caught, journal.transaction() as transaction:
            transaction.append(charged(0, before=PRICE))
        assert caught.value.code == "INTEGRITY"
        assert "TICKET_CHARGED_TWICE" in caught.value.text
        assert_closed_for_good(journal, "INTEGRITY")
    assert sound(path) == READY


def test_an_entry_that_could_not_be_read_back_is_not_written(path: Path) -> None:
    """An operator's endless remark must not keep the node from ever starting again."""
    with opened_journal(path) as journal:
        with pytest.raises(InternalError) as caught, journal.transaction() as transaction:
            transaction.append(shut_down(transaction.state, "x" * 5000))
        assert caught.value.code == "INTERNAL"
        with journal.transaction() as transaction:
            charge(transaction, 1)
    assert sound(path) == READY + 1


def test_time_in_the_log_never_runs_backwards_although_the_clock_does(path: Path) -> None:
    """An entry takes the later of the clock and the log; after a restart too."""
    clock = FakeClock()
    times = []
    for jump in (5000, -86_400_000, -1, 86_500_000):
        clock.advance(jump)
        with opened_journal(path, clock) as journal, journal.transaction() as transaction:
            charge(transaction, transaction.state.answers)
            times.append(transaction.state.time_ms)
    start = FakeClock()()
    assert times == [start + 5000, start + 5000, start + 5000, start + 104_999]
    assert sound(path) == READY + 4


def test_a_proof_leads_from_the_entry_to_the_signed_checkpoint(path: Path) -> None:
    """The census node's proof to the health node holds against its public key alone."""
    with opened_journal(path) as journal:
        for index in range(READY):
            proved = journal.prove(index)
            checkpoint = SIGNER.verifier.verify_checkpoint(proved.note)
            assert (proved.index, checkpoint.size) == (index, index + 1)
            assert root_from_inclusion(proved.entry, index, index + 1, proved.proof) == checkpoint.root
            assert parse_entry(proved.entry).sequence == index


def test_a_proof_does_not_show_how_far_the_log_has_grown(path: Path) -> None:
    """Made at once, after later appends of this process and another, or after a restart: the same bytes."""
    with opened_journal(path) as journal:
        at_once = []
        for number in range(1, 6):
            with journal.transaction() as transaction:
                charge(transaction, number)
            at_once.append(journal.prove(READY - 1 + number))
        with opened_journal(path) as other, other.transaction() as transaction:
            transaction.append(shut_down(transaction.state))
        enter_reading(journal)
        assert [journal.prove(READY + number) for number in range(5)] == at_once
    with opened_journal(path) as journal:
        assert [journal.prove(READY + number) for number in range(5)] == at_once
        assert SIGNER.verifier.verify_checkpoint(journal.checkpoint()).size == READY + 6


def test_an_entry_that_is_not_there_is_not_proved(path: Path) -> None:
    """Nor one that was rolled back."""
    with opened_journal(path) as journal:
        with pytest.raises(Interrupted), journal.transaction() as transaction:  # noqa: PT012 - fails half way
            charge(transaction, 1)
            raise Interrupted
        for index in (READY, -1, 10**6):
            with pytest.raises(ValueError, match="not enough values"):
                journal.prove(index)
        enter_transaction(journal)


def test_now_is_never_earlier_than_the_log(path: Path) -> None:
    """A clock that is set back revives no ticket, quote or answer that has expired; before and after a restart."""
    start = FakeClock()()
    clock = FakeClock()
    with opened_journal(path, clock) as journal:
        assert journal.now() == start
        clock.advance(5000)
        assert journal.now() == start + 5000
        with journal.transaction() as transaction:
            charge(transaction, 1)
        clock.advance(-86_400_000)
        assert journal.now() == start + 5000
    with opened_journal(path, clock) as journal:
        assert journal.now() == start + 5000
        clock.advance(86_400_001)
        assert journal.now() == start + 5001


# --- two processes ------------------------------------------------------------------------------------------------------


def test_what_another_process_appended_is_folded_in_before_deciding(path: Path) -> None:
    """Two openings of one file never decide on stale state: a shutdown by the operator stops the node's next charge."""
    with opened_journal(path) as node, opened_journal(path) as operator:
        with node.transaction() as transaction:
            charge(transaction, 1)
        with operator.transaction() as transaction:
            assert transaction.state.answers == 2
            transaction.append(shut_down(transaction.state))
        with node.transaction() as transaction:
            assert transaction.state.shut_down
        with operator.transaction() as transaction:
            transaction.append(released(transaction.state, 0))
        with node.reading() as state:
            assert state.tickets[hash_of(0)].answer == hash_of(77)
        assert node.checkpoint() == operator.checkpoint()
    assert sound(path) == READY + 3


def between_statements(journal: Journal[CensusState], fragment: str, action: Callable[[], None]) -> None:
    """Run `action` once, just before the journal's connection runs a statement that contains the fragment."""
    waiting = [action]

    def trace(statement: str) -> None:
        if fragment in statement and waiting:
            waiting.pop()()

    journal.db.conn.set_trace_callback(trace)


def test_an_append_by_another_process_during_a_reading_is_no_contradiction(path: Path) -> None:
    """A log that grows between two queries is not mistaken for one that shrank, which would stop the node."""
    with opened_journal(path) as node, opened_journal(path) as operator:

        def append() -> None:
            with operator.transaction() as transaction:
                charge(transaction, operator.state.answers + 1)

        # Only what others have written makes a reading look for entries.
        append()
        between_statements(node, "max(sequence)", append)
        with node.reading() as state:
            assert state.size == READY + 1
        with node.reading() as state:
            assert state.size == READY + 2


def test_an_append_by_another_process_during_opening_is_no_contradiction(path: Path) -> None:
    """Entries and head are compared as of one instant, so that a command beside a busy node never cries wolf."""
    with opened_journal(path) as node:

        class Busy(CensusState):
            """Another process appends as soon as the first entry has been folded."""

            def apply(self, entry: Any) -> None:
                super().apply(entry)
                if entry.sequence == 0 and stored(path)[0] == READY:
                    with node.transaction() as transaction:
                        charge(transaction, 1)

        beside: Journal[CensusState] = Journal(
            path,
            fresh_state=lambda: Busy(root(CENSUS)),
            signer=lambda _: SIGNER,
            clock=FakeClock(),
            tables=create_tables,
        )
        with beside.reading() as state:
            assert state.size == READY + 1
        beside.close()


# --- tampering with the file --------------------------------------------------------------------------------------------


def tamper(path: Path, *statements: str) -> None:
    """Change the closed file with plain SQL."""
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def other_note(size: int, key: SigningKey = LOG_KEY, origin: str = ORIGIN) -> str:
    """A signed checkpoint of a made-up log."""
    return NoteSigner(origin, (key,)).sign_checkpoint(size, bytes(32))


OTHER_KEY = SigningKey(Purpose.LOG, bytes(32))
TAMPERINGS = {
    "last entry deleted": ["delete from entries where sequence = 9"],
    "first entry deleted": ["delete from entries where sequence = 0"],
    "middle entry deleted": ["delete from entries where sequence = 1"],
    "all entries deleted": ["delete from entries"],
    "entry moved to the end": ["update entries set sequence = 19 where sequence = 2"],
    "last entry moved": ["update entries set sequence = 19 where sequence = 9"],
    "entries swapped": [
        "update entries set sequence = -1 where sequence = 1",
        "update entries set sequence = 1 where sequence = 2",
        "update entries set sequence = 2 where sequence = -1",
    ],
    "entry edited": [
        """update entries set entry = cast(replace(cast(entry as text), '"alice"', '"mallo"') as blob) where sequence = 9"""
    ],
    "time edited": [
        """update entries set entry = cast(replace(cast(entry as text), '"time_ms":1700', '"time_ms":1600') as blob)"""
    ],
    "entry emptied": ["update entries set entry = x'' where sequence = 2"],
    "entry cut": ["update entries set entry = substr(entry, 1, 50) where sequence = 2"],
    "entry respelled": [
        """update entries set entry = cast(replace(cast(entry as text), '"alice"', ' "alice"') as blob)"""
    ],
    "entry repeated at the end": ["insert into entries select 10, entry from entries where sequence = 9"],
    "rubbish appended": ["insert into entries values (10, x'7b7d')"],
    "head deleted": ["delete from head"],
    "checkpoint emptied": ["update head set checkpoint = ''"],
    "checkpoint altered": ["update head set checkpoint = replace(checkpoint, char(10) || '10', char(10) || '5')"],
    "summary altered": ["update head set state = replace(state, '\"answers\":1', '\"answers\":0')"],
    "summary emptied": ["update head set state = ''"],
}


@pytest.mark.parametrize("statements", TAMPERINGS.values(), ids=list(TAMPERINGS))
def test_a_file_that_was_tampered_with_keeps_the_node_shut(path: Path, statements: list[str]) -> None:
    """Deleted, edited, moved or added entries, and any other head, are found at start-up."""
    before = path.read_bytes()
    tamper(path, *statements)
    assert path.read_bytes() != before
    assert code_of(lambda: open_journal(path)) == "INTEGRITY"


def head_of(path: Path) -> tuple[str, str]:
    """Checkpoint and summary as they are stored."""
    connection = sqlite3.connect(path)
    row: tuple[str, str] = connection.execute("select checkpoint, state from head").fetchone()
    connection.close()
    return row


def set_head(path: Path, checkpoint: str, state: str) -> None:
    """Replace checkpoint and summary in the closed file."""
    connection = sqlite3.connect(path)
    connection.execute("update head set checkpoint = ?, state = ?", (checkpoint, state))
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    "note",
    [other_note(READY), other_note(READY, OTHER_KEY), other_note(READY, origin="x.test")],
    ids=["another log", "another key", "another origin"],
)
def test_a_foreign_checkpoint_keeps_the_node_shut(path: Path, note: str) -> None:
    """A well-formed checkpoint of the right size that is not over these entries, or not by this key."""
    set_head(path, note, head_of(path)[1])
    assert code_of(lambda: open_journal(path)) == "INTEGRITY"


def test_an_older_head_keeps_the_node_shut(path: Path) -> None:
    """A genuine checkpoint and summary from before the last entries do not match them."""
    old_checkpoint, old_state = head_of(path)
    with opened_journal(path) as journal, journal.transaction() as transaction:
        charge(transaction, 1)
    new_checkpoint, new_state = head_of(path)
    for checkpoint, state in ((old_checkpoint, old_state), (old_checkpoint, new_state), (new_checkpoint, old_state)):
        set_head(path, checkpoint, state)
        assert code_of(lambda: open_journal(path)) == "INTEGRITY"
    set_head(path, new_checkpoint, new_state)
    assert sound(path) == READY + 1


def test_a_log_of_another_key_is_not_ours(path: Path) -> None:
    """Opening with the wrong log key does not sign on under a new one."""
    assert code_of(lambda: open_journal(path, signer=NoteSigner(ORIGIN, (OTHER_KEY,)))) == "INTEGRITY"


def test_a_log_that_shrinks_under_a_running_node_stops_it(path: Path) -> None:
    """Entries deleted behind the node's back are noticed at the next transaction or reading."""
    with opened_journal(path) as journal:
        tamper(path, "delete from entries where sequence = 9")
        assert code_of(lambda: enter_reading(journal)) == "INTEGRITY"
        assert code_of(lambda: enter_transaction(journal)) == "INTEGRITY"
        assert_closed_for_good(journal, "INTEGRITY")


@pytest.mark.parametrize(
    "statement",
    [
        "insert into entries values (10, x'7b7d')",
        "insert into entries values (11, x'7b7d')",
        "insert into entries select 10, entry from entries where sequence = 9",
    ],
)
def test_entries_forged_under_a_running_node_stop_it(path: Path, statement: str) -> None:
    """Entries of another writer must obey the same rules."""
    with opened_journal(path) as journal:
        tamper(path, statement)
        assert code_of(lambda: enter_transaction(journal)) == "INTEGRITY"
        assert_closed_for_good(journal, "INTEGRITY")


# --- every statement fails in turn --------------------------------------------------------------------------------------


def break_connection(
    journal: Journal[CensusState], fails: Callable[[int, str], bool], *, runs_first: bool
) -> WatchedConnection:
    """Make the statements fail for which `fails` is true, by number and text, before or after they run."""
    return break_statements(
        journal.db,
        lambda watched, statement: fails(len(watched.statements) - 1, statement),
        happens=runs_first,
    )


def one_life(journal: Journal[CensusState]) -> None:
    """A transaction with several entries and rows."""
    with journal.transaction() as transaction:
        charge(transaction, 1)
        transaction.append(released(transaction.state, 0))
        transaction.append(Delivered(ticket=hash_of(0), by="inbox"))


def is_among(broken: Sequence[int], number: int, _statement: str) -> bool:
    """The chosen statements fail."""
    return number in broken


def never(_number: int, _statement: str) -> bool:
    """No statement fails."""
    return False


def outcome(journal: Journal[CensusState]) -> str:
    """The code with which one life fails; empty if it does not."""
    try:
        one_life(journal)
    except BrokerError as error:
        return error.code
    return ""


def statements_of_one_life(path: Path) -> list[str]:
    """Statements of a sound transaction; the file holds it afterwards."""
    with opened_journal(path) as journal:
        faulty = break_connection(journal, never, runs_first=False)
        one_life(journal)
    return faulty.statements


@pytest.mark.parametrize("runs_first", [False, True], ids=["lost", "stored but reported failed"])
@pytest.mark.parametrize("dead", [False, True], ids=["once", "from then on"])
def test_whichever_statement_fails_the_file_holds_all_or_nothing(path: Path, runs_first: bool, dead: bool) -> None:
    """Each statement in turn, alone or with all after it; only a commit that did happen leaves anything."""
    original = path.read_bytes()
    statements = statements_of_one_life(path)
    assert sound(path) == READY + 3
    assert (statements[0], statements[-1]) == ("BEGIN IMMEDIATE", "COMMIT")
    assert len(statements) >= 8
    tolerated = 0
    for failing, statement in enumerate(statements):
        path.write_bytes(original)
        journal = open_journal(path)
        broken = range(failing, len(statements)) if dead else [failing]
        break_connection(journal, partial(is_among, broken), runs_first=runs_first)
        code = outcome(journal)
        if code:
            assert code == ("STATE_UNKNOWN" if statement == "COMMIT" else "STORE_FAILED")
            assert_closed_for_good(journal, code)
        else:
            # The library below tries a failed RELEASE a second time.
            assert statement.startswith("RELEASE")
            tolerated += 1
        journal.db.conn.close()
        happened = not code or (statement == "COMMIT" and runs_first)
        assert sound(path) == (READY + 3 if happened else READY), statement
    assert tolerated < len(statements) / 2


@pytest.mark.parametrize(("runs_first", "size"), [(False, READY), (True, READY + 1)])
def test_after_an_uncertain_commit_the_node_never_guesses(path: Path, runs_first: bool, size: int) -> None:
    """The error says that the outcome is unknown; only a restart tells, from the file."""
    journal = open_journal(path)
    break_connection(journal, lambda _, statement: statement == "COMMIT", runs_first=runs_first)
    with pytest.raises(StateUnknownError) as caught, journal.transaction() as transaction:
        charge(transaction, 1)
    assert caught.value.stops_node
    assert_closed_for_good(journal, "STATE_UNKNOWN")
    journal.db.conn.close()
    assert sound(path) == size


def test_a_failed_rollback_closes_the_journal_for_good(path: Path) -> None:
    """Else this process would go on to read, and sign, what no file will ever hold."""
    journal = open_journal(path)
    break_connection(journal, lambda _, statement: statement == "ROLLBACK", runs_first=False)
    with pytest.raises(Interrupted), journal.transaction() as transaction:  # noqa: PT012 - fails half way
        charge(transaction, 1)
        raise Interrupted
    # A transaction would notice by itself; reading and signing would not.
    assert code_of(journal.checkpoint) == "STORE_FAILED"
    assert code_of(lambda: enter_reading(journal)) == "STORE_FAILED"
    assert_closed_for_good(journal, "STORE_FAILED")
    journal.db.conn.close()
    assert sound(path) == READY


@pytest.mark.parametrize("fragment", ["data_version", "max(sequence)", "sequence >= "])
def test_a_reading_that_fails_says_so(path: Path, fragment: str) -> None:
    """A disk error while catching up is a failure of the store, not an empty state."""
    with opened_journal(path) as journal:
        with opened_journal(path) as other, other.transaction() as transaction:
            charge(transaction, 1)
        break_connection(journal, lambda _, statement: fragment in statement, runs_first=False)
        assert code_of(lambda: enter_reading(journal)) == "STORE_FAILED"


def test_a_proof_that_cannot_be_read_says_so(path: Path) -> None:
    """The same for proofs."""
    with opened_journal(path) as journal:
        break_connection(journal, lambda _, statement: "where sequence =" in statement, runs_first=False)
        assert code_of(lambda: journal.prove(0)) == "STORE_FAILED"


def test_a_full_disk_stops_the_node_and_loses_nothing(path: Path) -> None:
    """The charge that did not fit is not there, the ones before are, and with space again the node goes on."""
    charges = 0
    with opened_journal(path) as journal:
        pages = next(iter(journal.db.query("PRAGMA page_count")))["page_count"]
        journal.db.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(InternalError) as caught:  # noqa: PT012 - until the disk is full
            for number in range(1, 40):
                with journal.transaction() as transaction:
                    charge(transaction, number)
                    transaction.db.execute(
                        "update pending set secret = ? where ticket = ?", [bytes(2000), hash_of(number)]
                    )
                charges = number
        assert caught.value.code == "STORE_FAILED"
        assert "disk" in caught.value.hint
        assert_closed_for_good(journal, "STORE_FAILED")
    assert 0 < charges < 39
    assert sound(path) == READY + charges
    with opened_journal(path) as journal, journal.transaction() as transaction:
        charge(transaction, charges + 1)
    assert sound(path) == READY + charges + 1


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another process holds the write lock, as a backup does."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


def test_a_locked_file_is_busy_and_the_journal_stays_usable(path: Path) -> None:
    """Another process that holds the write lock for long hangs the node not for ever, and does not stop it either."""
    with opened_journal(path) as journal:
        journal.db.execute("PRAGMA busy_timeout = 1")
        with locked(path):
            for _ in range(2):
                with pytest.raises(RefusedError) as caught:
                    one_life(journal)
                assert caught.value.code == "BUSY"
                assert not caught.value.stops_node
                assert not journal.is_broken
            # Existing entries can still be read, signed and proved.
            with journal.reading() as state:
                assert state.size == READY
            assert SIGNER.verifier.verify_checkpoint(journal.checkpoint()).size == READY
            assert parse_entry(journal.prove(READY - 1).entry).sequence == READY - 1
        assert stored(path)[0] == READY
        one_life(journal)
    assert sound(path) == READY + 3


def test_a_lock_that_is_let_go_in_time_is_waited_for(path: Path) -> None:
    """The transaction happens after it, on the state that the other process left."""
    with opened_journal(path) as journal, opened_journal(path) as operator:
        holding, done = threading.Event(), threading.Event()

        def hold() -> None:
            with operator.transaction() as transaction:
                holding.set()
                done.wait(0.2)
                transaction.append(shut_down(transaction.state))

        holder = threading.Thread(target=hold)
        holder.start()
        holding.wait()
        with journal.transaction() as transaction:
            assert transaction.state.shut_down
        holder.join()
    assert sound(path) == READY + 1


def test_a_disk_that_fails_while_something_is_read_closes_the_journal_for_good(path: Path) -> None:
    """A lookup in a reading must not go on serving from a file that cannot be read."""
    journal = open_journal(path)
    break_connection(journal, lambda _, statement: "pending" in statement, runs_first=False)
    with pytest.raises(InternalError, match="STORE_FAILED"), journal.reading():
        journal.db.execute("select * from pending")
    assert_closed_for_good(journal, "STORE_FAILED")
    journal.db.conn.close()
    assert sound(path) == READY


def test_what_else_fails_while_something_is_read_is_no_fault_of_the_journal(path: Path) -> None:
    """A bug or a refusal in the block is passed on, and the journal goes on."""
    with opened_journal(path) as journal:
        for error in (InternalError("INTERNAL"), RefusedError("NOT_SHUT_DOWN"), Interrupted()):
            with pytest.raises(type(error)), journal.reading():
                raise error
        enter_reading(journal)


def test_a_fold_that_cannot_be_made_again_closes_the_journal_for_good(path: Path) -> None:
    """After a block that failed the memory is empty, and the disk that should fill it fails: nothing is decided on it."""
    journal = open_journal(path)
    rolled_back: list[str] = []

    def fails(_number: int, statement: str) -> bool:
        rolled_back.extend([statement] if statement == "ROLLBACK" else [])
        return bool(rolled_back) and "from entries" in statement and len(rolled_back) == 1

    break_connection(journal, fails, runs_first=False)
    with pytest.raises(InternalError, match="STORE_FAILED"), journal.transaction() as transaction:  # noqa: PT012 - fails half way
        charge(transaction, 1)
        raise Interrupted
    # The disk is well again; the memory is not.
    rolled_back.append("again")
    assert_closed_for_good(journal, "STORE_FAILED")
    journal.db.conn.close()
    assert sound(path) == READY


class FailingToBegin:
    """A journal whose transactions fail to begin with a code of SQLite's, until told otherwise."""

    def __init__(self, journal: Journal[CensusState], code: int) -> None:
        self.code = code
        watch(journal.db, before=self._fail)

    def _fail(self, _: WatchedConnection, statement: str) -> None:
        if statement == "BEGIN IMMEDIATE" and self.code != sqlite3.SQLITE_OK:
            raise disk_error(self.code)


@pytest.mark.parametrize("code", [sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY])
def test_any_other_failure_to_begin_closes_the_journal_for_good(path: Path, code: int) -> None:
    """Only a lock is known to have changed nothing."""
    with opened_journal(path) as journal:
        failing = FailingToBegin(journal, code)
        assert not journal.is_broken
        assert code_of(lambda: enter_transaction(journal)) == "STORE_FAILED"
        failing.code = sqlite3.SQLITE_OK
        assert_closed_for_good(journal, "STORE_FAILED")
    assert sound(path) == READY


@pytest.mark.parametrize(
    "code",
    [
        sqlite3.SQLITE_BUSY,
        # The code that Python gives is the extended one; its last byte says that it is a lock.
        sqlite3.SQLITE_BUSY_RECOVERY,
        sqlite3.SQLITE_BUSY_TIMEOUT,
    ],
)
def test_a_lock_of_any_kind_is_busy(path: Path, code: int) -> None:
    """Another process that recovers the file after a crash is waited for like one that writes."""
    with opened_journal(path) as journal:
        failing = FailingToBegin(journal, code)
        assert code_of(lambda: enter_transaction(journal)) == "BUSY"
        assert not journal.is_broken
        failing.code = sqlite3.SQLITE_OK
        one_life(journal)
    assert sound(path) == READY + 3


@pytest.mark.parametrize("damage", ["damaged file", "closed connection"])
def test_no_failure_to_begin_is_left_unexplained(path: Path, damage: str) -> None:
    """A file that is overwritten under a running node, and a connection that is gone, are failures of the store."""
    journal = open_journal(path)
    if damage == "damaged file":
        path.write_bytes(b"not a database" * 1000)
    else:
        journal.close()
    assert code_of(lambda: enter_transaction(journal)) == "STORE_FAILED"
    assert_closed_for_good(journal, "STORE_FAILED")


def test_a_process_that_dies_before_its_commit_leaves_nothing(path: Path) -> None:
    """A connection that vanishes in the middle of a transaction is a crash; the next start finds the state before."""
    journal = open_journal(path)
    with pytest.raises(BrokerError), journal.transaction() as transaction:  # noqa: PT012 - dies half way
        charge(transaction, 1)
        journal.db.conn.close()
        transaction.append(released(transaction.state, 1))
    assert sound(path) == READY


def test_the_stored_head_is_the_tree_of_the_entries(path: Path) -> None:
    """Recomputed by hand: the signed checkpoint is over exactly the bytes in the file."""
    connection = sqlite3.connect(path)
    tree = MerkleTree()
    for (entry,) in connection.execute("select entry from entries order by sequence"):
        tree.append(entry)
    connection.close()
    checkpoint = SIGNER.verifier.verify_checkpoint(head_of(path)[0])
    assert (checkpoint.origin, checkpoint.size, checkpoint.root) == (ORIGIN, READY, tree.root())
    assert isinstance(parse_entry(bytes(stored_entry(path, 0))).event, Opened)


def stored_entry(path: Path, sequence: int) -> bytes:
    """The bytes of one entry."""
    connection = sqlite3.connect(path)
    (entry,) = connection.execute("select entry from entries where sequence = ?", [sequence]).fetchone()
    connection.close()
    return bytes(entry)
