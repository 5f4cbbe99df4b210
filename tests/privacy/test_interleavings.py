"""However the steps of two questions, crashes, starts, restored copies and a shutdown fall between each other, the ledger holds.

Every reachable state of a small model is visited (`fakes.interleavings`), and each invariant of DESIGN 5 is looked at in each
of them. The model is tied to the product: paths that take every kind of step in every stage of a question are walked on a
real node, its journal, ledgers and witness store, and after each step everything the model knows is compared with what
lies on the disk. A model with one rule left out breaks an invariant.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from fakes.disk import FailingCommit
from fakes.interleavings import QUESTIONS, Limits, Rules, State, Step, explore, problems, steps, way_to
from fakes.registries import linked
from fakes.world import HEALTH_ORIGIN, Order, OrderedSample, World, make_policy

from broker_common.errors import BrokerError, StateUnknownError
from broker_common.privacy.accounting import price_units
from broker_common.storage.witness_store import WitnessStore
from broker_common.tlog.entries import Charged, Delivered, Released, Shutdown, Slots
from broker_common.tlog.note import parse_note
from census_node import ledger_book
from census_node.admission import AdmittedSample
from census_node.charging import Kept
from census_node.ledger_steps import LedgerSteps
from census_node.ledgers import Decision

# Copies that are put back, and the end of the service, are looked at apart: together they make too many states.
CRASHES_AND_COPIES = Limits(crashes=1, backups=True)
CRASHES_AND_AN_END = Limits(crashes=1, shutdown=True)
TWO_CRASHES = Limits(crashes=2)
EVERYTHING = (CRASHES_AND_COPIES, CRASHES_AND_AN_END, TWO_CRASHES)

Kind: TypeAlias = tuple[Any, ...]


def charges(state: State) -> list[str]:
    """The charges in the log."""
    return [entry for entry in state.disk.log if entry[0] == "c"]


@pytest.mark.parametrize("limits", EVERYTHING, ids=str)
def test_every_reachable_state_keeps_the_invariants(limits: Limits) -> None:
    """Charged before released; nobody over the cap; one charge and one answer a ticket; no older copy; nothing while shut."""
    found = explore(limits)
    assert len(found) > 10_000
    for state in found:
        assert list(problems(state)) == []


def test_what_was_charged_before_the_end_still_goes_out() -> None:
    """Invariant 5: after a shutdown no step charges, and from every state there is a way on to the release of every charge."""
    found = explore(CRASHES_AND_AN_END)
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
    """What kind of step it is, when, and whether it is refused."""
    when = state.restored, state.disk.is_shut, state.is_broken
    return (step[0], *stage(state, step[1]), *when, after.disk == state.disk and after.is_up == state.is_up)


def paths(limits: Limits) -> list[list[Step]]:
    """Few paths that take every kind of step."""
    found = explore(limits)
    first: dict[Kind, list[Step]] = {}
    for state in found:
        for step, after in steps(state, limits):
            if (this := kind(state, step, after)) not in first:
                first[this] = [*way_to(found, state), step]
    chosen: list[list[Step]] = []
    taken: set[Kind] = set()
    # The longest are the deepest, and take others' steps on their way.
    for wanted, path in sorted(first.items(), key=lambda item: -len(item[1])):
        if wanted not in taken:
            chosen.append(path)
            taken.update(kinds_of(path, limits))
    assert taken == set(first)
    return chosen


def kinds_of(path: list[Step], limits: Limits) -> list[Kind]:
    """What kinds of steps a path takes."""
    kinds, state = [], State()
    for step in path:
        after = dict(steps(state, limits))[step]
        kinds.append(kind(state, step, after))
        state = after
    return kinds


@dataclass
class Real:
    """A real census node that takes the model's steps."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch
    orders: dict[int, list[Order]] = field(default_factory=dict)
    kept: dict[int, tuple[AdmittedSample, Kept]] = field(default_factory=dict)
    # By ticket, the numbers that answers to it have said.
    said: dict[bytes, set[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        store = self.folder / "witness"
        store.mkdir(parents=True)
        self.store = WitnessStore(store)
        # Pays for one answer.
        policy = make_policy(accounting="per_person", max_belief="0.7311", scales=(1,))
        self.world = World(self.folder / "world", policy, people=4, witness_store=self.store)
        self.world.cosigning = False
        self.offset = next(place for place, entry in enumerate(self.world.entries()) if isinstance(entry.event, Slots))
        # x, who is in both samples, is the first; the others are whoever else there is, known to the census or not.
        self.people = self.world.people
        self.x = self.world.in_census[0]
        self.samples: dict[bytes, OrderedSample] = {}
        self.backup: Path | None = None
        for question in QUESTIONS:
            self.do("quote", question, State())

    @property
    def node(self) -> Any:
        return self.world.census

    def ticket(self, question: int) -> str:
        return self.orders[question][-1].hash.hex()

    def charged_ticket(self, question: int) -> str:
        """The newest of a question's tickets that the log knows as charged."""
        tickets = {event.ticket for event in self.world.charges()}
        return next(order.hash.hex() for order in reversed(self.orders[question]) if order.hash.hex() in tickets)

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

    def _keep(self, question: int, _state: State) -> None:
        order = self.order_in_hand(question)
        admitted = self.world.admit(self.world.messages(self.samples[order.hash]))
        self.kept[question] = admitted, self.node.keep(self.node.link(admitted))

    def _charge(self, question: int, state: State) -> None:
        admitted, kept = self.kept.pop(question)
        if state.disk.is_shut and f"c{question}" not in state.disk.log:
            refused(lambda: self.node._charge(admitted, kept, None), "SERVICE_SHUT_DOWN")
        else:
            self.node._charge(admitted, kept, None)
            self.node.slots.spend(admitted.ticket.body.noise_slot.number)
        assert not (self.world.census_folder / "samples" / kept.file).exists() or f"c{question}" not in state.disk.log

    def _charge_that_fails(self, question: int, _state: State) -> None:
        self._fail(question, happens=False)

    def _charge_that_seems_to_fail(self, question: int, _state: State) -> None:
        self._fail(question, happens=True)

    def _fail(self, question: int, *, happens: bool) -> None:
        journal = self.node.journal
        journal.db.conn = FailingCommit(journal.db.conn, happens=happens)
        with pytest.raises(StateUnknownError):
            self.node._charge(*self.kept[question], None)
        # If the charge stands, this is what it will be answered from.
        assert (self.world.census_folder / "samples" / self.kept[question][1].file).exists()
        # Nothing more of this process: not even what it had in hand.
        refused(lambda: self.node._charge(*self.kept[question], None), "STATE_UNKNOWN")

    def _answer(self, question: int, _state: State) -> None:
        self.node.answer(self.charged_ticket(question))

    def _publish(self, question: int, _state: State) -> None:
        self.node.publish_charge(self.charged_ticket(question))

    def _cosign(self, _state: State) -> None:
        self.world.cosign()

    def _release(self, question: int, state: State) -> None:
        ticket = self.charged_ticket(question)
        if state.disk.place(f"c{question}") >= state.disk.cosigned:
            refused(lambda: self.node.release(ticket), "NOT_WITNESSED")
            return
        self.node.release(ticket)
        order = self.order_in_hand(question)
        said = self.said.setdefault(order.hash, set())
        said.add(self.world.open(order, self.world.sealed(order)).noisy_count)
        assert len(said) == 1

    def _deliver(self, question: int, _state: State) -> None:
        self.node.delivered(self.charged_ticket(question), "inbox")

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
        # What no charge names is gone.
        assert len(kept) == len(charges(state))

    def compact(self) -> None:
        """Put the ledgers into a snapshot, as it happens now and then; it is no step of the model, since nothing shows it."""
        self.monkeypatch.setattr(ledger_book, "_MOST_CHARGES", 1)
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
        assert self.node.publication._size - self.offset == state.shown
        self._verify_ledgers(state, charged)

    def _verify_ledgers(self, state: State, charged: set[int]) -> None:
        """Of both charges x is active in the first alone, and charged for it, by pseudonym and by person, and no more."""
        price, node = price_units(1), self.node
        with node.book.charging(), node.journal.reading() as log:
            ledgers = node.book.current(node.journal.db, log)
            for question in charged:
                ticket = self.charged_ticket(question)
                step = LedgerSteps(node.journal.db).of_ticket(ticket)
                assert step is not None
                assert log.tickets[ticket].charge.ledger == step.digest.hex()
                people = self.samples[bytes.fromhex(ticket)].people
                place = int(np.flatnonzero((people == self.x).all(axis=1))[0])
                decision = Decision.of_bits(step.fits, step.active, len(people))
                assert decision.active[place] == decision.fits[place] == (question in state.disk.counting)
            person = int(linked(node._registry_of(log.load, log.commitments), self.x[None]).persons[0])
            counted = sum((question in state.disk.counting) for question in charged)
            assert ledgers.units.persons[person] == ledgers.submitted.units_of(self.x[None])[0] == counted * price
            assert counted * price <= self.world.policy.cap

    def _letter(self, event: Any) -> str:
        match event:
            case Slots():
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


@pytest.mark.parametrize("limits", [CRASHES_AND_COPIES, CRASHES_AND_AN_END], ids=str)
def test_the_product_takes_the_models_steps(limits: Limits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kind of step in every stage of a question, on a real node: same log, same ledgers, same refusals, same memory."""
    walked = paths(limits)
    assert len(walked) > 20
    for number, path in enumerate(walked):
        real, state = Real(tmp_path / str(number), monkeypatch), State()
        real.verify(state)
        for place, (name, question) in enumerate(path):
            real.do(name, question, state)
            state = dict(steps(state, limits))[name, question]
            # Between any two steps, in one path or another.
            if place % 4 == number % 4 and state.is_up and not state.is_broken:
                real.compact()
            real.verify(state)
        real.world.close()
