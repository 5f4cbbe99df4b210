"""However the steps of two questions, crashes, starts, restored copies and a shutdown fall between each other, the ledger holds.

Every reachable state of a small model is visited (`privacy.interleavings`), and each invariant of DESIGN 5 is looked at in each
of them. The model is tied to the product: paths that take every kind of step in every stage of a question are walked on a
real node, its journal, ledgers and witness store, and after each step everything the model knows is compared with what
lies on the disk. A model with one rule left out breaks an invariant.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from fakes.connections import break_statements
from fakes.world import HEALTH, HEALTH_ORIGIN, Order, OrderedSample, World, make_policy
from privacy.interleavings import QUESTIONS, Found, Limits, Rules, State, Step, explore, problems, steps, way_to

from broker_common.errors import BrokerError, StateUnknownError
from broker_common.privacy.accounting import price
from broker_common.storage.witnessing import WitnessStore
from broker_common.tlog.entries import Charged, Delivered, Released, Rostered, Shutdown, Slots
from broker_common.tlog.note import parse_note
from census_node.ledger import book as book_module
from census_node.ledger.samples import SampleFolder
from census_node.ledger.steps import LedgerSteps
from census_node.node import CensusNode
from census_node.query.admission import SampleAttempt
from census_node.query.charging import Kept
from census_node.query.flow import Charge

# Copies that are put back, and the end of the service, are looked at apart: together they make too many states.
CRASHES_AND_COPIES = Limits(crashes=1, backups=True)
CRASHES_AND_AN_END = Limits(crashes=1, shutdown=True)
TWO_CRASHES = Limits(crashes=2)
EVERYTHING = (CRASHES_AND_COPIES, CRASHES_AND_AN_END, TWO_CRASHES)

Kind: TypeAlias = tuple[Any, ...]
# Packed bits whose first person is x.
_FIRST_PERSON = 0x80
# How many steps on a path looks for one of a kind that is not taken.
_NEAR = 4


@cache
def reachable(limits: Limits) -> Found:
    """Every state, with a shortest way to each."""
    return explore(limits)


def charges(state: State) -> list[str]:
    """The charges in the log."""
    return [entry for entry in state.disk.log if entry[0] == "c"]


@pytest.mark.parametrize("limits", EVERYTHING, ids=str)
def test_every_reachable_state_keeps_the_invariants(limits: Limits) -> None:
    """Charged before released; nobody over the cap; one charge and one answer a ticket; no older copy; nothing while shut."""
    found = reachable(limits)
    assert len(found) > 5_000
    for state in found:
        assert list(problems(state)) == []


def test_what_was_charged_before_the_end_still_goes_out() -> None:
    """Invariant 5: after a shutdown no step charges, and from every state there is a way on to the release of every charge."""
    found = reachable(CRASHES_AND_AN_END)
    nexts = {state: [after for _, after in steps(state, CRASHES_AND_AN_END)] for state in found}
    before: dict[State, list[State]] = {}
    for state, after in ((state, after) for state, afters in nexts.items() for after in afters):
        before.setdefault(after, []).append(state)
        if state.disk.is_shut:
            assert charges(state) == charges(after)
    done = [state for state in found if all(f"r{entry[1]}" in state.disk.log for entry in charges(state))]
    reached = set(done)
    while done:
        for state in before.get(done.pop(), ()):
            if state not in reached:
                reached.add(state)
                done.append(state)
    assert reached == set(found)


@pytest.mark.parametrize(
    ("broken", "limits", "invariants"),
    [
        ("compares_with_witness", CRASHES_AND_COPIES, "26"),
        ("witness_before_showing", CRASHES_AND_COPIES, "26"),
        ("releases_when_cosigned", Limits(), "1"),
        ("answers_after_charging", Limits(), "1"),
        ("charges_once", Limits(), "4"),
        ("charges_while_open", CRASHES_AND_AN_END, "5"),
        ("sees_other_charges", Limits(), "3"),
    ],
)
def test_a_rule_left_out_breaks_an_invariant(broken: str, limits: Limits, invariants: str) -> None:
    """The model can fail: none of its rules is there for nothing."""
    found = explore(limits, replace(Rules(), **{broken: False}), until=lambda state: any(problems(state)))
    assert any(problem[0] in invariants for problem in problems(list(found)[-1]))


# --- the model and the product ---------------------------------------------------------------------------------------


def stage(state: State, question: int | None) -> Kind:
    """How far a question has come."""
    if question is None:
        return ()
    disk, place = state.disk, state.disk.place(f"c{question}")
    is_charged = place >= 0
    return (
        question in state.kept,
        question in state.tickets,
        is_charged,
        question in disk.counting,
        question in disk.answered,
        is_charged and place < disk.cosigned,
        is_charged and place < state.shown,
        f"r{question}" in disk.log,
        f"d{question}" in disk.log,
    )


def kind(state: State, step: Step, after: State) -> Kind:
    """Kind of a step, when, and whether it is refused."""
    when = state.restored, state.disk.is_shut, state.is_broken
    return (step[0], *stage(state, step[1]), *when, after.disk == state.disk and after.is_up == state.is_up)


class Walk:
    """Ways through the states within some limits, and which kinds of steps they take."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        # Every next step in each state: its kind, the step, and the state after it.
        self.nexts = {
            state: [(kind(state, step, after), step, after) for step, after in steps(state, limits)]
            for state in reachable(limits)
        }

    def first_ways(self) -> dict[Kind, list[Step]]:
        """A shortest way that ends with a step of each kind."""
        first: dict[Kind, tuple[State, Step]] = {}
        for state, nexts in self.nexts.items():
            for this, step, _ in nexts:
                first.setdefault(this, (state, step))
        return {this: [*way_to(reachable(self.limits), state), step] for this, (state, step) in first.items()}

    def extended(self, path: list[Step], taken: set[Kind]) -> list[Step]:
        """The path, and on from its end as long as a step of a kind that is not taken lies near; takes all of them."""
        state, extended = State(), []
        ahead = list(path)
        while ahead:
            for wanted in ahead:
                this, step, state = next(each for each in self.nexts[state] if each[1] == wanted)
                taken.add(this)
                extended.append(step)
            ahead = self._to_another_kind(state, taken)
        return extended

    def _to_another_kind(self, start: State, taken: set[Kind]) -> list[Step]:
        ways: deque[tuple[State, list[Step]]] = deque([(start, [])])
        seen = {start}
        while ways:
            state, way = ways.popleft()
            for this, step, after in self.nexts[state]:
                if this not in taken:
                    return [*way, step]
                if len(way) + 1 < _NEAR and after not in seen:
                    seen.add(after)
                    ways.append((after, [*way, step]))
        return []


def paths(*everything: Limits) -> list[tuple[Limits, list[Step]]]:
    """Few paths that take every kind of step within any of the limits."""
    chosen: list[tuple[Limits, list[Step]]] = []
    taken: set[Kind] = set()
    for limits in everything:
        walk = Walk(limits)
        first = walk.first_ways()
        # The longest are the deepest, and take others' steps on their way.
        for wanted, path in sorted(first.items(), key=lambda item: -len(item[1])):
            if wanted not in taken:
                chosen.append((limits, walk.extended(path, taken)))
        assert taken >= set(first)
    return chosen


@dataclass
class Real:
    """A real census node that takes the model's steps."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch
    orders: dict[int, list[Order]] = field(default_factory=dict)
    kept: dict[int, tuple[SampleAttempt, Kept]] = field(default_factory=dict)
    # Numbers in the answers to each ticket.
    said: dict[bytes, set[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        store = self.folder / "witness"
        store.mkdir(parents=True)
        self.store = WitnessStore(store)
        # Pays for one answer.
        policy = make_policy(accounting="per_person", max_belief="0.7311", scales=(1,))
        self.world = World(self.folder / "world", policy, people=4, witness_store=self.store)
        self.world.cosigning = False
        # The model's first entry stands for everything up to both agencies' rosters.
        self.offset = len(self.world.entries()) - 1
        # x, who is in both samples, is the first person of the census; the others are everyone else, known to it or not.
        self.people = self.world.people
        self.x = self.world.in_census[0]
        self.samples: dict[bytes, OrderedSample] = {}
        self.backup: Path | None = None
        for question in QUESTIONS:
            self.do("quote", question, State())

    @property
    def node(self) -> CensusNode:
        return self.world.census

    def ticket(self, question: int) -> str:
        return self.orders[question][-1].hash.hex()

    def charged_ticket(self, question: int) -> str:
        """The newest of a question's tickets that the log knows as charged."""
        tickets = {event.ticket for event in self.world.charges()}
        return next(order.hash.hex() for order in reversed(self.orders[question]) if order.hash.hex() in tickets)

    def charge_of(self, question: int) -> Charge:
        """The charge that the log has of a question."""
        ticket = self.charged_ticket(question)
        return Charge(HEALTH.organisation, ticket, self.node.journal.state.tickets[ticket].index)

    def order_in_hand(self, question: int) -> Order:
        """The charged one, which is handed in again, or the newest."""
        tickets = {event.ticket for event in self.world.charges()}
        orders = self.orders[question]
        return next((order for order in reversed(orders) if order.hash.hex() in tickets), orders[-1])

    def do(self, name: str, question: int | None, state: State) -> None:
        """Take one step; where the model stays where it is, the product has to refuse."""
        if question is None:
            getattr(self, f"_{name}")(state)
        else:
            getattr(self, f"_{name.replace(' ', '_')}")(question, state)

    def _quote(self, question: int, _state: State) -> None:
        order = self.world.order(scale=1)
        self.orders.setdefault(question, []).append(order)
        others = self.people[question + 1 :: 2]
        chosen = np.unique(np.concatenate([self.x[None], others]), axis=0)
        self.samples[order.hash] = self.world.sample(order, chosen)

    def _keep(self, question: int, state: State) -> None:
        order = self.order_in_hand(question)
        attempt = self.world.admit(self.world.messages(self.samples[order.hash]))
        charge = self.node.charging.charge_of(attempt.verify_claim())
        if f"c{question}" in state.disk.log:
            assert charge == self.charge_of(question)
        else:
            assert charge is None
            self.kept[question] = attempt, self.node.keeping.keep(attempt)

    def _charge(self, question: int, state: State) -> None:
        _, kept = self.kept[question]
        if state.disk.is_shut:
            refused(lambda: self._charged(question), "SERVICE_SHUT_DOWN")
            self.node.keeping.forget(kept)
        else:
            self._charged(question)
        del self.kept[question]
        assert self._file(kept).exists() != state.disk.is_shut

    def _charged(self, question: int) -> Charge:
        attempt, kept = self.kept[question]
        return self.node.charging.charge(attempt, kept, at_ms=self.node.clock())

    def _file(self, kept: Kept) -> Path:
        return self.world.census_folder / "samples" / f"{kept.file.partition(':')[0]}.sample"

    def _charge_that_fails(self, question: int, _state: State) -> None:
        self._fail(question, happens=False)

    def _charge_that_seems_to_fail(self, question: int, _state: State) -> None:
        self._fail(question, happens=True)

    def _fail(self, question: int, *, happens: bool) -> None:
        break_statements(self.node.journal.db, happens=happens)
        with pytest.raises(StateUnknownError):
            self._charged(question)
        # If the charge stands, this is what it will be answered from.
        assert self._file(self.kept[question][1]).exists()
        # Nothing more of this process: not even what it had in hand.
        refused(lambda: self._charged(question), "STATE_UNKNOWN")

    def _answer(self, question: int, _state: State) -> None:
        charge = self.charge_of(question)
        self.node.answers.make(charge, self.node.journal.prove(charge.index))

    def _entrust(self, question: int, _state: State) -> None:
        self.node.publication.entrust(self.charge_of(question).index + 1)

    def _show(self, question: int, _state: State) -> None:
        self.node.publication.show(self.charge_of(question).index + 1)

    def _cosign(self, _state: State) -> None:
        self.world.cosign()

    def _release(self, question: int, state: State) -> None:
        charge = self.charge_of(question)
        cosigned = self.node.cosigned(charge)
        if state.disk.place(f"c{question}") >= state.disk.cosigned:
            assert cosigned is None
            return
        assert cosigned is not None
        self.node.answers.release(charge, cosigned, at_ms=self.node.clock())
        self.node.answers.let_out(charge)
        order = self.order_in_hand(question)
        said = self.said.setdefault(order.hash, set())
        said.add(self.world.open(order, self.world.sealed(order)).noisy_count)
        assert len(said) == 1

    def _deliver(self, question: int, _state: State) -> None:
        self.node.released.delivered(self.charged_ticket(question), "inbox")

    def _shutdown(self, _state: State) -> None:
        self.world.shut_down()

    def _crash(self, _state: State) -> None:
        self.world.census_folder = self.world.copy_census()
        self.kept.clear()

    def _backup(self, _state: State) -> None:
        self.backup = self.world.copy_census()

    def _restore(self, _state: State) -> None:
        assert self.backup is not None
        self.world.census_folder = self.backup

    def _start(self, state: State) -> None:
        def start() -> None:
            self.world.open_census()
            self.world.census.recover()

        if state.witnessed > len(state.disk.log):
            refused(start, "ROLLED_BACK")
            return
        start()
        kept = {path.name for path in (self.world.census_folder / "samples").glob("*")}
        # Files that no charge names are gone.
        assert len(kept) == len(charges(state))

    def compact(self) -> None:
        """Put the ledgers into a snapshot, as it happens now and then; it is no step of the model, since nothing shows it."""
        self.monkeypatch.setattr(book_module, "_MOST_CHARGES", 1)
        self.node.book.maintain(self.node.journal.now())

    # --- what is compared ------------------------------------------------------------------------------------------

    def verify(self, state: State) -> None:
        """The disk, and what is outside of it, are as the model says."""
        entries = self.world.entries()[self.offset :]
        assert [self._letter(entry.event) for entry in entries] == list(state.disk.log)
        pending = {row[0] for row in self._rows("select ticket from pending")}
        charged = {question for question in QUESTIONS if f"c{question}" in state.disk.log}
        assert {question for question in charged if self.charged_ticket(question) not in pending} == state.disk.answered
        notes = [
            parse_note(row[0])[0].size
            for row in self._rows("select note from cosigned where witness = ?", HEALTH_ORIGIN)
        ]
        assert max(notes, default=0) - self.offset == state.disk.cosigned
        seen = self.store.read()
        assert seen is not None
        assert parse_note(seen)[0].size - self.offset == state.witnessed
        if not state.is_up or state.is_broken:
            return
        shown = self.node.publication.newer_than(0)
        assert shown is not None
        assert shown[0] - self.offset == state.shown
        self._verify_ledger(state, charged)

    def _verify_ledger(self, state: State, charged: set[int]) -> None:
        """X is active in the first of both charges alone, and charged for it, and no more."""
        cost, node, samples = price(1), self.node, SampleFolder(self.world.census_folder / "samples")
        with node.journal.reading() as log:
            tickets = {question: self.charged_ticket(question) for question in charged}
            rows = {question: LedgerSteps(node.journal.db).of_ticket(ticket) for question, ticket in tickets.items()}
            logged = {question: log.tickets[ticket].charge.ledger for question, ticket in tickets.items()}
        for question, step in rows.items():
            assert step is not None
            assert logged[question] == step.digest.hex()
            assert bool(samples.read(step.file).active[0] & _FIRST_PERSON) == (question in state.disk.counting)
        charges, counted = node.book.charges(), sum((question in state.disk.counting) for question in charged)
        assert charges is not None
        assert (charges.subjects[0] if len(charges.subjects) else 0) == counted * cost
        assert counted * cost <= self.world.policy.cap

    def _letter(self, event: Any) -> str:
        match event:
            case Slots() | Rostered():
                return "S"
            case Shutdown():
                return "X"
            case Charged() | Released() | Delivered():
                question = next(
                    question
                    for question, orders in self.orders.items()
                    if event.ticket in {order.hash.hex() for order in orders}
                )
                return f"{type(event).__name__[0].lower()}{question}"
        raise AssertionError(event)

    def _rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        path = self.world.census_folder / "journal.db"
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            return connection.execute(statement, values).fetchall()


def refused(do: Callable[[], object], code: str) -> None:
    """It fails with this code."""
    with pytest.raises(BrokerError) as caught:
        do()
    assert caught.value.code == code


def test_the_product_takes_the_models_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kind of step in every stage of a question, on a real node: same log, same ledgers, same refusals, same memory."""
    walked = paths(CRASHES_AND_COPIES, CRASHES_AND_AN_END)
    assert len(walked) > 20
    for number, (limits, path) in enumerate(walked):
        real, state = Real(tmp_path / str(number), monkeypatch), State()
        real.verify(state)
        for place, (name, question) in enumerate(path):
            real.do(name, question, state)
            state = dict(steps(state, limits))[name, question]
            # Between any two steps, in one path or another.
            if place % 2 == number % 2 and state.is_up and not state.is_broken:
                real.compact()
            real.verify(state)
        real.world.close()
