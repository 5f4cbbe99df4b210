"""The cost of a query does not grow with the age of the service: no history is read for it, on either node.

Counted is what SQLite does, never how long it takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fakes.world import RESEARCHER, Order, World, charge_and_answer, make_policy

from broker_common.storage.journal import Journal
from census_node.node import CensusNode
from health_node.node import HealthNode
from health_node.query.forwarding import VerifiedCharge, make_manifest

# Tables of the log or of the ledgers' history: one row and more for every answer there ever was.
HISTORY = ("entries", "ledger_steps", "answers", "questions")
YOUNG, OLD = 4, 40


@dataclass
class Work:
    """SQLite's work for one query."""

    statements: list[str] = field(default_factory=list)
    steps: int = 0


@contextmanager
def counted(*journals: Journal[Any]) -> Iterator[Work]:
    """Every statement of the block, and how many steps of its machine SQLite took for them."""
    work = Work()

    def step() -> int:
        work.steps += 1
        return 0

    for journal in journals:
        journal.db.conn.set_trace_callback(work.statements.append)
        journal.db.conn.set_progress_handler(step, 1)
    try:
        yield work
    finally:
        for journal in journals:
            journal.db.conn.set_trace_callback(None)
            journal.db.conn.set_progress_handler(None, 1)


def plans(journal: Journal[Any], statements: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Every line of the plan of every statement that has one, with its statement."""
    for statement in statements:
        if statement.split()[0].lower() in {"select", "insert", "update", "delete"}:
            for row in journal.db.conn.execute(f"explain query plan {statement}"):
                yield str(row[3]), statement


@pytest.fixture
def aged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A world whose answers charge persons, and whose budgets outlast the test."""
    # Charges since the newest snapshot are counted; they are never many, and here few.
    monkeypatch.setattr("census_node.ledger.book._MOST_CHARGES", YOUNG)
    made = World(tmp_path / "aged", make_policy(accounting="per_person", max_belief="0.99", scales=(30, 10_000)))
    yield made
    made.close()


def ask_census(world: World, order: Order) -> None:
    """One query at the census node, from its head to its collected answer, and the look that follows every second."""
    census = world.census
    charge_and_answer(census, world.admit(world.messages(world.sample(order))))
    world.cosign()
    world.release(order)
    answer = census.released.released_answer(order.body.query_id.hex(), RESEARCHER)
    assert answer is not None
    census.released.delivered(answer.ticket_hash, "collect")
    census.released.undelivered([RESEARCHER])
    census.forget_expired()


def ask_health(world: World, node: HealthNode, order: Order) -> None:
    """One question at the health node, from its submission to its end."""
    ticket = order.hash.hex()
    accepted = node.accept(order.submission, node.verify(order.submission, RESEARCHER, world.policy))
    node.log_forwarded(make_manifest(node.sample(accepted)), world.secrets.manifest, people=1)
    assert node.handed_over(ticket).manifest
    node.log_charge(ticket, VerifiedCharge(1, world.census.journal.checkpoint()))
    node.log_settled(ticket)


def answer_many(world: World, node: HealthNode, number: int) -> None:
    """So many queries, from their quotes to their ends, at both nodes."""
    for _ in range(number):
        order = world.order(scale=10_000)
        ask_census(world, order)
        ask_health(world, node, order)


def cost(world: World, node: CensusNode, health: HealthNode) -> tuple[Work, Work]:
    """SQLite's work for one query at the census node and at the health node."""
    order = world.order(scale=10_000)
    with counted(node.journal) as at_census:
        ask_census(world, order)
    with counted(health.journal) as at_health:
        ask_health(world, health, order)
    return at_census, at_health


def test_no_statement_of_a_query_reads_a_history(aged: World) -> None:
    """After a million questions rows are found by an index, and no table is read from its beginning."""
    health = aged.open_health()
    answer_many(aged, health, YOUNG)
    at_census, at_health = cost(aged, aged.census, health)
    for journal, work in ((aged.census.journal, at_census), (health.journal, at_health)):
        assert len(work.statements) > 10, "nothing was seen of the query"
        scans = [
            (plan, statement)
            for plan, statement in plans(journal, work.statements)
            if any(plan.startswith(f"SCAN {table}") for table in HISTORY)
        ]
        assert not scans


def test_what_sqlite_does_for_a_query_does_not_grow_with_the_log(aged: World) -> None:
    """Ten times the history, and the same number of steps of SQLite's machine."""
    health = aged.open_health()
    answer_many(aged, health, YOUNG)
    young = [work.steps for work in cost(aged, aged.census, health)]
    answer_many(aged, health, OLD)
    old = [work.steps for work in cost(aged, aged.census, health)]
    assert all(work > 100 for work in young), "nothing was counted"
    assert [after <= 1.05 * before for before, after in zip(young, old, strict=True)] == [True, True], (young, old)
