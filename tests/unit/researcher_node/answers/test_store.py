"""The researcher's store: several processes at once, failures that are said, files of other versions, and wiped keys."""

from __future__ import annotations

import dataclasses
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from fakes.connections import at, watch
from fakes.patience import NEVER_SECONDS, PATIENCE_SECONDS
from fakes.world import Order, World
from tripartite.v1 import answer_pb2
from unit.researcher_node.shown_log import ShownLog

from broker_common.crypto.commitments import commit_answer
from broker_common.crypto.signing import Purpose
from broker_common.errors import BrokerError, ExitCode, InternalError, InvalidRequestError, PeerUnavailableError
from broker_common.query.dictionary import AskedOf
from broker_common.tlog.note import Checkpoint
from broker_common.values import NoisyCounts
from researcher_node.answers import store as answers_module
from researcher_node.answers.store import Answers


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Where orders and answers come from."""
    made = World(tmp_path)
    yield made
    made.close()


def sealed_answer(world: World, order: Order) -> answer_pb2.SealedAnswer:
    """The answer to an order, as it arrives."""
    return answer_pb2.SealedAnswer(query_id=order.body.query_id, sealed=world.answer(order))


def stored_bytes(world: World) -> bytes:
    """Everything that the store's files hold."""
    return b"".join(path.read_bytes() for path in sorted(world.directory.glob("answers.db*")))


def code_of(error: pytest.ExceptionInfo[BrokerError]) -> str:
    """Code of the error."""
    return error.value.code


# --- modes -----------------------------------------------------------------------------------------------------------


def test_what_stands_beside_the_store_is_for_its_owner_alone_from_the_first_open(world: World) -> None:
    """Whatever the umask: write-ahead log and index take the store's mode over when it is opened, and keep it."""
    before = os.umask(0)
    try:
        answers = world.open_answers()
        world.remember(answers, world.order())
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in world.directory.glob("answers.db*")}
    assert modes == dict.fromkeys(("answers.db", "answers.db-wal", "answers.db-shm"), 0o600)


# --- keys ------------------------------------------------------------------------------------------------------------

HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("select count(*) from questions").fetchall()
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def second_process(world: World) -> Iterator[None]:
    """Another process that has the store open, as an inbox has: SQLite does not start its log over by itself."""
    path = world.directory / "answers.db"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        yield
        holder.stdin.close()


@pytest.fixture
def answers(world: World) -> Answers:
    """The store."""
    return world.open_answers()


@pytest.mark.usefixtures("answers", "second_process")
def test_key_of_an_answer_that_was_read_is_in_no_file(world: World, answers: Answers) -> None:
    """Not in the database, not in its write-ahead log; those of open questions are, and of nothing else."""
    orders = [world.order() for _ in range(8)]
    for order in orders:
        world.remember(answers, order)
    keys = [order.unsealing_key.to_text().split()[-1].encode() for order in orders]
    assert all(len(key) > 40 and key in stored_bytes(world) for key in keys)
    for order in orders[:5]:
        answers.receive(sealed_answer(world, order))
    answers.expire(orders[5].body.query_id.hex())
    assert [key in stored_bytes(world) for key in keys] == [False] * 6 + [True] * 2


def test_key_is_wiped_although_others_are_reading(world: World, answers: Answers) -> None:
    """A reader that takes its time delays the wiping, and nobody's writing."""
    order = world.order()
    world.remember(answers, order)
    key = order.unsealing_key.to_text().split()[-1].encode()
    sealed = sealed_answer(world, order)
    reader = sqlite3.connect(world.directory / "answers.db", isolation_level=None, check_same_thread=False)
    reader.execute("begin")
    reader.execute("select count(*) from questions").fetchall()
    ending = threading.Timer(0.1, lambda: reader.execute("rollback"))
    ending.start()
    answers.receive(sealed)
    ending.join()
    assert key not in stored_bytes(world)
    reader.close()


def test_reader_that_never_ends_keeps_nobody_from_their_answer(
    world: World, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is kept all the same, others can write, and the next answer wipes both keys."""
    monkeypatch.setattr(answers_module, "_WIPE_TRIES", 50)
    orders = [world.order(), world.order()]
    for order in orders:
        world.remember(answers, order)
    reader = sqlite3.connect(world.directory / "answers.db", isolation_level=None)
    reader.execute("begin")
    reader.execute("select count(*) from questions").fetchall()
    other, sealed = world.open_answers(), sealed_answer(world, orders[0])
    # If it were tried to wipe the key inside SQLite, nobody else could write for as long as this.
    answers._db.execute(f"pragma busy_timeout={int(1000 * NEVER_SECONDS)}")
    other._db.execute(f"pragma busy_timeout={int(1000 * PATIENCE_SECONDS)}")
    receiving = threading.Thread(target=lambda: answers.receive(sealed))
    receiving.start()
    try:
        while other.get(sealed.query_id.hex()).state != "answered":
            pass
        other.refuse(orders[1].body.query_id.hex(), "BUSY")
        receiving.join(PATIENCE_SECONDS)
        assert not receiving.is_alive()
    finally:
        # Also ends who waits for the reader.
        reader.execute("rollback")
    other.receive(sealed_answer(world, orders[1]))
    for order in orders:
        assert order.unsealing_key.to_text().split()[-1].encode() not in stored_bytes(world)
    reader.close()


# --- failures --------------------------------------------------------------------------------------------------------


def ask_many(world: World, answers: Answers) -> None:
    """More questions than the little room left can hold."""
    for _ in range(9):
        world.remember(answers, world.order())


def test_full_disk_is_said_and_keeps_nothing(world: World) -> None:
    """STORE_FAILED, so that the census node keeps the answer; with room again it is received."""
    # The space left on the last page of a row is less than a receipt then, and more than a row of nothing.
    with closing(sqlite3.connect(world.directory / "answers.db")) as db:
        db.execute("pragma page_size=512")
        db.execute("create table filler (data blob)")
    answers, order = world.open_answers(), world.order()
    query = world.remember(answers, order)
    sealed = sealed_answer(world, order)
    pages = answers._db.execute("pragma page_count").fetchone()[0]
    answers._db.execute(f"pragma max_page_count={pages}")
    with pytest.raises(BrokerError) as caught:
        ask_many(world, answers)
    assert code_of(caught) == "STORE_FAILED"
    with pytest.raises(BrokerError) as caught:
        answers.receive(sealed)
    assert code_of(caught) == "STORE_FAILED"
    assert answers.get(query).state == "pending"
    answers._db.execute("pragma max_page_count=100000")
    assert answers.receive(sealed).state == "answered"


def test_store_that_another_process_holds_is_busy_not_broken(
    world: World, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock passes: an inbox says BUSY, and does not stop for it."""
    order = world.order()
    query = world.remember(answers, order)
    answers._db.execute("pragma busy_timeout=0")
    monkeypatch.setattr(answers_module, "_BUSY_TIMEOUT_SECONDS", 0)
    holder = sqlite3.connect(world.directory / "answers.db", isolation_level=None)
    holder.execute("begin immediate")
    with pytest.raises(BrokerError) as caught:
        answers.receive(sealed_answer(world, order))
    assert (code_of(caught), caught.value.stops_node) == ("BUSY", False)
    holder.execute("rollback")
    holder.close()
    assert answers.get(query).state == "pending"


def test_file_that_is_no_store_is_said_to_be_none(world: World) -> None:
    """A damaged file ends in an error with a code, not in a traceback."""
    (world.directory / "answers.db").write_bytes(b"not a database" * 1000)
    with pytest.raises(BrokerError) as caught:
        world.open_answers()
    assert code_of(caught) == "INTEGRITY"


# --- receipts --------------------------------------------------------------------------------------------------------


def test_receipts_are_what_an_auditor_may_see_of_every_question(tmp_path: Path) -> None:
    """Ticket and receipt as they were signed, and what became of it; no count, no salt, no criteria, whatever state it has."""
    log = ShownLog()
    salt, noisy_count = b"\x07salt" * 6 + b"\x01\x02", 1_234_567_890_123
    with closing(log.open_answers(tmp_path / "answers.db")) as answers:
        answered, pending, refused, expired = (log.ask(answers) for _ in range(4))
        sealed = log.answer(answered, noisy_count, salt)
        assert answers.receive(sealed).noisy_count == noisy_count
        answers.refuse(refused.query, "SERVICE_SHUT_DOWN")
        answers.expire(expired.query)
        receipts = answers.receipts()
    assert [(each.query, each.state) for each in receipts] == [
        (answered.query, "answered"),
        (pending.query, "pending"),
        (refused.query, "refused"),
        (expired.query, "expired"),
    ]
    assert [each.signed_ticket for each in receipts] == [
        asked.row.signed_ticket for asked in (answered, pending, refused, expired)
    ]
    signed = answer_pb2.SignedReceipt.FromString(receipts[0].signed_receipt)
    body = answer_pb2.Receipt.FromString(signed.receipt)
    log.census.signing(Purpose.ANSWER).verify_key.verify_signature(signed.receipt, signed.signature)
    assert (body.query_id.hex(), body.ticket_hash) == (answered.query, answered.hash)
    assert receipts[0].promised == Checkpoint(log.signer.name, body.log_index + 1, log.tree.root(body.log_index + 1))
    assert [each.signed_receipt for each in receipts[1:]] == [b""] * 3
    shown = b"".join(each.signed_ticket + each.signed_receipt + repr(each).encode() for each in receipts)
    varint = answer_pb2.SignedAnswer(noisy_counts=[noisy_count]).SerializeToString()[2:]
    for secret in (salt, str(noisy_count).encode(), varint, b"age >= 65", b"I21", b"n" * 32):
        assert secret not in shown


def test_receipts_of_the_same_count_differ(tmp_path: Path) -> None:
    """Each has a salt of its own: equal answers do not show, and a table of hashes opens none."""
    log = ShownLog()
    with closing(log.open_answers(tmp_path / "answers.db")) as answers:
        for _ in range(4):
            answers.receive(log.answer(log.ask(answers), 17))
        receipts = answers.receipts()
    hashes = {
        answer_pb2.Receipt.FromString(answer_pb2.SignedReceipt.FromString(each.signed_receipt).receipt).answer_hash
        for each in receipts
    }
    assert len(hashes) == 4


def test_salt_is_kept_so_that_a_receipt_can_be_opened(tmp_path: Path) -> None:
    """The researcher, who alone has salt and count, can open it."""
    log = ShownLog()
    with closing(log.open_answers(tmp_path / "answers.db")) as answers:
        asked = log.ask(answers)
        answers.receive(log.answer(asked, -5))
        row = answers._row(asked.query)
    receipt = answer_pb2.Receipt.FromString(answer_pb2.SignedReceipt.FromString(row["signed_receipt"]).receipt)
    assert receipt.answer_hash == commit_answer(row["answer_salt"], asked.hash, NoisyCounts((-5,)))


def test_receipt_for_another_slot_than_the_tickets_is_refused(tmp_path: Path) -> None:
    """A charge that used another slot's noise is not the one that was ordered; nothing is kept of it."""
    log = ShownLog()
    with closing(log.open_answers(tmp_path / "answers.db")) as answers:
        asked = log.ask(answers)
        charged = log.answer(asked, slot=asked.body.noise_slot.number + 1)
        with pytest.raises(PeerUnavailableError) as caught:
            answers.receive(charged)
        assert code_of(caught) == "PEER_MISBEHAVED"
        assert "slot" in str(caught.value.__cause__)
        assert [each.signed_receipt for each in answers.receipts()] == [b""]
        assert answers.receive(log.answer(asked)).state == "answered"


@pytest.mark.parametrize("found", [0, 2], ids=["of before", "of a later version"])
def test_store_of_another_version_is_refused_and_left_as_it_is(tmp_path: Path, found: int) -> None:
    """One sentence says which format it has; the version that made it still finds everything."""
    path = tmp_path / "answers.db"
    log = ShownLog()
    with closing(log.open_answers(path)) as answers:
        asked = log.ask(answers)
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version={found}")
        db.execute("alter table questions rename column noisy_counts to noisy_count")
    for _ in range(2):
        with pytest.raises(InternalError) as caught:
            log.open_answers(path)
        assert (caught.value.code, caught.value.exit_code) == ("FORMAT_UNKNOWN", ExitCode.STOPPED)
        assert f"{tmp_path} was made by another version of this program: format {found}, " in caught.value.text
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("select query, noisy_count from questions").fetchall() == [(asked.query, None)]


# --- labels --------------------------------------------------------------------------------------------------------------


def test_a_store_that_knows_no_labels_is_carried_on_as_it_is(tmp_path: Path) -> None:
    """One of before has every question still, and takes labels from now on; a program of before reads it as it did."""
    path = tmp_path / "answers.db"
    log = ShownLog()
    with closing(log.open_answers(path)) as answers:
        asked, other = log.ask(answers), log.ask(answers)
        answers.receive(log.answer(asked, 17))
    with closing(sqlite3.connect(path)) as db:
        db.execute("drop table labels")
        before = db.execute("select * from questions").fetchall()
    with closing(log.open_answers(path)) as answers:
        assert [(each.query, each.noisy, each.label) for each in answers.all()] == [
            (asked.query, NoisyCounts((17,)), ""),
            (other.query, None, ""),
        ]
        answers.label(asked.query, "pilot")
        answers.label(asked.query, "pilot, women")
    with closing(log.open_answers(path)) as answers:
        assert [each.label for each in answers.all()] == ["pilot, women", ""]
        assert answers.get(asked.query).label == "pilot, women"
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("select * from questions").fetchall() == before
        assert db.execute("PRAGMA user_version").fetchone() == (1,)


def test_a_label_is_kept_with_its_question_and_shown_to_no_auditor(tmp_path: Path) -> None:
    """From the moment it is asked; receipts, which others see, do not have it."""
    log = ShownLog()
    with closing(log.open_answers(tmp_path / "answers.db")) as answers:
        asked = log.ask(answers)
        answers.put(dataclasses.replace(asked.row, query="cd" * 16, label="mine alone"), asked.unsealing_key)
        assert answers.get("cd" * 16).label == "mine alone"
        assert "mine alone" not in repr(answers.receipts())


# --- who was asked ----------------------------------------------------------------------------------------------------


def test_what_the_dictionary_said_is_kept_with_its_question(tmp_path: Path) -> None:
    """Whatever it says later; a store of before has questions about everybody."""
    path, log = tmp_path / "answers.db", ShownLog()
    part = AskedOf(not_asked="not asked", one_in=5, design_effect_hundredths=280)
    with closing(log.open_answers(path)) as answers:
        asked = log.ask(answers)
        answers.put(dataclasses.replace(asked.row, query="cd" * 16, asked_of=part), asked.unsealing_key)
    with closing(log.open_answers(path)) as answers:
        assert [each.asked_of for each in answers.all()] == [None, part]
        assert answers.get("cd" * 16).asked_of == part
        like = answers.newest_like(
            asked.row.criteria, asked.row.question, asked.row.scale, asked.row.fraction_millionths
        )
        assert like is not None
        assert (like.query, like.asked_of) == ("cd" * 16, part)
    with closing(sqlite3.connect(path)) as db:
        db.execute("drop table parts")
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
    with closing(log.open_answers(path)) as answers:
        assert [each.asked_of for each in answers.all()] == [None, None]


# --- several cells ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("others", [(), (5,), (5, 0, -7)])
def test_a_table_is_kept_with_a_number_for_each_cell(tmp_path: Path, others: tuple[int, ...]) -> None:
    """In the order of the question; after a start of the program as before."""
    values = ("French", "English", "Other", "English and French")
    question = f"mother_tongue by {', '.join(map(repr, values[: len(others)]))}, rest" if others else "all"
    log = ShownLog()
    with closing(log.open_answers(tmp_path / "answers.db")) as answers:
        asked = log.ask(answers, question)
        received = answers.receive(log.answer(asked, 17, others=others))
    with closing(log.open_answers(tmp_path / "answers.db")) as answers:
        assert answers.get(asked.query) == received
    assert received.noisy == NoisyCounts((17, *others))
    assert [cell.values for cell in received.cells] == [(value,) for value in values[: len(others)]] + [()]


def test_an_answer_of_more_cells_than_were_asked_for_is_not_kept(tmp_path: Path) -> None:
    """It answers another question, no matter who signed it."""
    log = ShownLog()
    with closing(log.open_answers(tmp_path / "answers.db")) as answers:
        asked = log.ask(answers, "mother_tongue by 'French', rest")
        with pytest.raises(PeerUnavailableError):
            answers.receive(log.answer(asked, 17, others=(5, 6)))
        assert answers.get(asked.query).state == "pending"
        assert answers.receive(log.answer(asked, 17, others=(5,))).noisy == NoisyCounts((17, 5))


# --- what becomes of a question --------------------------------------------------------------------------------------


def test_question_knows_its_study_its_ticket_s_end_and_when_it_was_answered(world: World, answers: Answers) -> None:
    """From the signed ticket itself, and from the clock at the receipt."""
    order = world.order()
    asked = answers.get(world.remember(answers, order))
    assert (asked.project, asked.ticket_expires_ms) == (order.body.project_id, order.body.expires_ms)
    assert asked.answered_ms is None
    world.clock.advance(5000)
    assert answers.receive(sealed_answer(world, order)).answered_ms == asked.asked_ms + 5000


def test_two_processes_that_receive_the_same_answer_keep_it_once(world: World) -> None:
    """The second writer, with the key still in memory, changes nothing: not even the instant of the receipt."""
    first, second, order = world.open_answers(), world.open_answers(), world.order()
    query = world.remember(first, order)
    sealed = sealed_answer(world, order)

    def after_the_other() -> None:
        first.receive(sealed)
        world.clock.advance(1000)

    watch(second._db, before=at("update questions", after_the_other))
    kept = second.receive(sealed)
    assert kept == first.get(query)
    assert kept.answered_ms == world.clock() - 1000


def test_answer_is_never_unlearned(world: World, answers: Answers) -> None:
    """A refusal or an expiry that is heard of after the answer came does not take it away."""
    order = world.order()
    query = world.remember(answers, order)
    kept = answers.receive(sealed_answer(world, order))
    answers.refuse(query, "TICKET_EXPIRED")
    answers.expire(query)
    assert answers.get(query) == kept


def test_expired_question_stays_expired(world: World, answers: Answers) -> None:
    """Its key is gone: whatever comes later is not an answer any more, and is refused as such."""
    order = world.order()
    query = world.remember(answers, order)
    answers.refuse(query, "TICKET_EXPIRED")
    answers.expire(query)
    assert answers.get(query).state == "expired"
    with pytest.raises(PeerUnavailableError):
        answers.receive(sealed_answer(world, order))
    assert world.open_answers().get(query).state == "expired"


def test_unknown_question_is_named(answers: Answers) -> None:
    """As the error says it: which one."""
    with pytest.raises(InvalidRequestError) as caught:
        answers.get("00" * 16)
    assert (caught.value.code, caught.value.details) == ("UNKNOWN_QUERY", {"query": "00" * 16})
