"""The researcher's store: several processes at once, failures that are said, files of earlier versions, and wiped keys."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes.world import Order, World
from tripartite.v1 import answer_pb2

from broker_common.errors import BrokerError, InvalidRequestError, PeerUnavailableError
from researcher_node import answers as answers_module
from researcher_node.answers import Answers


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
    """What went wrong."""
    return error.value.code


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
    keys = [order.opening_key.to_text().split()[-1].encode() for order in orders]
    assert all(len(key) > 40 and key in stored_bytes(world) for key in keys)
    for order in orders[:5]:
        answers.receive(sealed_answer(world, order))
    answers.expire(orders[5].body.query_id.hex())
    assert [key in stored_bytes(world) for key in keys] == [False] * 6 + [True] * 2


def test_key_is_wiped_although_others_are_reading(world: World, answers: Answers) -> None:
    """A reader that takes its time delays the wiping, and nobody's writing."""
    order = world.order()
    world.remember(answers, order)
    key = order.opening_key.to_text().split()[-1].encode()
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
    # A tenth of the time for which the key is tried to be wiped, and for which nobody else may be kept waiting.
    other._db.execute("pragma busy_timeout=100")
    receiving = threading.Thread(target=lambda: answers.receive(sealed))
    receiving.start()
    while other.get(sealed.query_id.hex()).state != "answered":
        pass
    other.refuse(orders[1].body.query_id.hex(), "BUSY")
    receiving.join()
    reader.execute("rollback")
    other.receive(sealed_answer(world, orders[1]))
    for order in orders:
        assert order.opening_key.to_text().split()[-1].encode() not in stored_bytes(world)
    reader.close()


# --- failures --------------------------------------------------------------------------------------------------------


def ask_many(world: World, answers: Answers) -> None:
    """More questions than the little room left can hold."""
    for _ in range(9):
        world.remember(answers, world.order())


def test_full_disk_is_said_and_keeps_nothing(world: World, answers: Answers) -> None:
    """STORE_FAILED, so that the census node keeps the answer; with room again it is received."""
    order = world.order()
    query = world.remember(answers, order)
    sealed = sealed_answer(world, order)
    pages = answers._db.execute("pragma page_count").fetchone()[0]
    answers._db.execute("create table filler (data blob)")
    answers._db.execute(f"pragma max_page_count={pages + 1}")
    # What is stored of an answer is more than the wiped key leaves room for.
    answers._db.execute("insert into filler select zeroblob(100)")
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
    assert code_of(caught) == "STORE_FAILED"


def test_file_of_an_earlier_version_is_read_and_goes_on(world: World) -> None:
    """What it did not record is empty; what it did is there, and new answers are received."""
    answers, order = world.open_answers(), world.order()
    query = world.remember(answers, order)
    answers.close()
    db = sqlite3.connect(world.directory / "answers.db")
    for column in ("answered_ms", "expired"):
        db.execute(f"alter table questions drop column {column}")
    db.commit()
    db.close()
    answers = world.open_answers()
    asked = answers.get(query)
    assert (asked.state, asked.answered_ms, asked.expired) == ("pending", None, False)
    assert answers.receive(sealed_answer(world, order)).answered_ms == world.clock()
    assert world.open_answers().get(query).state == "answered"


# --- what becomes of a question --------------------------------------------------------------------------------------


def test_question_knows_its_study_its_ticket_s_end_and_when_it_was_answered(world: World, answers: Answers) -> None:
    """From the signed ticket itself, and from the clock at the receipt."""
    order = world.order()
    asked = answers.get(world.remember(answers, order))
    assert (asked.project, asked.ticket_expires_ms) == (order.body.project_id, order.body.expires_ms)
    assert asked.answered_ms is None
    world.clock.advance(5000)
    assert answers.receive(sealed_answer(world, order)).answered_ms == asked.asked_ms + 5000


def test_two_processes_that_receive_the_same_answer_keep_it_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever writes second, with the key still in memory, changes nothing: not even the instant of the receipt."""
    first, second, order = world.open_answers(), world.open_answers(), world.order()
    query = world.remember(first, order)
    sealed = sealed_answer(world, order)
    real = second._settle

    def after_the_other(name: str, changes: dict[str, Any]) -> None:
        first.receive(sealed)
        world.clock.advance(1000)
        real(name, changes)

    monkeypatch.setattr(second, "_settle", after_the_other)
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
