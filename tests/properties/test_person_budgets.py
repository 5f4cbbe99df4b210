"""An adversary who chooses samples, scales, policies, loads, crashes and key changes cannot overspend a person or a household.

The machine drives a real census node: admission, charge, ledgers, journal. Its own book knows neither ledger nor units of
charge: it notes in exact fractions, for each answer, which people were counted, and follows them through loads as sets of
answers, so that what is inherited twice counts once and what is forgotten is missed. Whenever an answer counts somebody, all
that has ever counted them, or their household where it has the budget, is within ln(param) of the policy in force.
"""

from __future__ import annotations

import shutil
import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np
from fakes import logs
from fakes.world import charge_and_answer, make_policy, make_pseudonyms
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from properties.small_census import Row, SmallCensus

from broker_common.crypto.linkage import LinkageKey
from broker_common.errors import RefusedError
from broker_common.privacy.accounting import UNITS_PER_NAT
from broker_common.privacy.policy import Policy
from broker_common.tlog.entries import Shutdown
from census_node.ledger import book as book_module

# ln(p / (1 - p)), rounded up in the last digit; from a table of logarithms, not from the product.
NATS = {"0.7": Fraction("0.8472978604"), "0.8": Fraction("1.3862943612"), "0.9": Fraction("2.1972245774")}
SCALES = (2, 3, 7)
KINDS = (("per_person", "person"), ("per_person", "household"), ("strict", "person"))
CARDS = 6
Answer = tuple[int, int]
"""An answer's number and a person whom it counted."""
EVERYBODY = -1

homes = st.lists(st.integers(0, 3), min_size=6, max_size=6)
owners = st.lists(st.none() | st.integers(0, 5), min_size=CARDS, max_size=CARDS).filter(any)
samples = st.sets(st.integers(0, CARDS - 1), min_size=1) | st.just(set(range(CARDS)))


def rules(max_belief: str, accounting: str, subject: str) -> Policy:
    """A policy with few scales, so that few answers fit."""
    return make_policy(max_belief=max_belief, scales=SCALES, accounting=accounting, subject=subject)


class Overspending(RuleBasedStateMachine):
    """Asks, moves people, changes policies, kills the node; keeps who was counted by what."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.prices: list[Fraction] = []
        # Answers that have counted a number's people or cards, by number.
        self.of_person: dict[int, set[Answer]] = {}
        self.of_household: dict[int, set[Answer]] = {}
        # The last person and household of each card, the last household of each person.
        self.last: dict[int, tuple[int, int]] = {}
        self.lived: dict[int, int] = {}

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.close()
        shutil.rmtree(self.folder)

    @initialize(owners=owners, homes=homes, max_belief=st.sampled_from(sorted(NATS)), kind=st.sampled_from(KINDS))
    def open(self, owners: list[int | None], homes: list[int], max_belief: str, kind: tuple[str, str]) -> None:
        people = make_pseudonyms(CARDS)
        rows = self._rows(owners, homes)
        cards = [people[place].tobytes() for place in range(CARDS)]
        self.world = SmallCensus(self.folder, rules(max_belief, *kind), cards, rows)
        self._settle(rows)

    @staticmethod
    def _rows(owners: list[int | None], homes: list[int]) -> list[Row]:
        return [None if owner is None else (owner, homes[owner]) for owner in owners]

    def _settle(self, rows: list[Row]) -> None:
        """The holder of a card or an id takes over what is known of its earlier holders, all as it was before."""
        persons, households = dict(self.of_person), dict(self.of_household)
        for card, row in enumerate(rows):
            if row is None:
                continue
            person, household = row
            before = {self.last[card]} if card in self.last else set()
            for was, _ in before:
                self.of_person[person] = self.of_person.get(person, set()) | persons.get(was, set())
            for home in {home for _, home in before} | ({self.lived[person]} if person in self.lived else set()):
                self.of_household[household] = self.of_household.get(household, set()) | households.get(home, set())
        for card, row in enumerate(rows):
            if row is not None:
                self.last[card] = row
                self.lived[row[0]] = row[1]

    # --- what the adversary does -----------------------------------------------------------------------------------

    @rule(chosen=samples, scale=st.sampled_from(SCALES), times=st.sampled_from([1, 1, 4]))
    def ask(self, chosen: set[int], scale: int, times: int) -> None:
        for _ in range(times):
            self._ask(chosen, scale)

    def _ask(self, chosen: set[int], scale: int) -> None:
        world = self.world
        order = world.order(scale=scale)
        people = np.frombuffer(b"".join(world.cards[card] for card in chosen), np.uint8).reshape(-1, 16)
        sample = world.sample(order, people)
        try:
            admitted = world.admit(world.messages(sample))
            proof = charge_and_answer(world.census, admitted)
        except RefusedError as error:
            # For want of everybody's budget, never of anybody's.
            if error.code not in {"BUDGET_EXHAUSTED", "SERVICE_SHUT_DOWN"}:
                raise
            return
        # Handed in again, it is not charged again.
        assert charge_and_answer(world.census, world.admit(world.messages(sample))).index == proof.index
        active = world.active(order.hash)
        self._counted({card for card in chosen if (row := world.rows[card]) is not None and active[row[0]]}, scale)

    def _counted(self, cards: set[int], scale: int) -> None:
        answer, policy = len(self.prices), self.world.policy
        self.prices.append(Fraction(1, scale))
        rows = {row for card in cards if (row := self.world.rows[card]) is not None}
        for person, household in rows:
            # Strict charges belong to nobody in particular: people who turn out to be one had one budget each before.
            counted = (answer, EVERYBODY if policy.accounting == "strict" else person)
            self.of_person.setdefault(person, set()).add(counted)
            self.of_household.setdefault(household, set()).add(counted)
        for person, household in rows:
            known = self.of_person[person]
            if policy.accounting == "strict":
                # It charges an answer once, also for two who turned out to be one: each of them is within the cap, not both.
                known = {(answer, EVERYBODY) for answer, _ in known}
            assert self._spent(known) <= NATS[policy.max_belief]
            if policy.subject == "household":
                assert self._spent(self.of_household[household]) <= NATS[policy.max_belief]

    def _spent(self, answers: set[Answer]) -> Fraction:
        return sum((self.prices[answer] for answer, _ in answers), Fraction(0))

    @rule(owners=owners, homes=homes)
    def load(self, owners: list[int | None], homes: list[int]) -> None:
        rows = self._rows(owners, homes)
        self.world.replace_load(rows)
        self._settle(rows)

    @rule(max_belief=st.sampled_from(sorted(NATS)), kind=st.sampled_from(KINDS))
    def adopt(self, max_belief: str, kind: tuple[str, str]) -> None:
        policy, secrets = rules(max_belief, *kind), self.world.secrets
        with self.world.census.journal.transaction() as transaction:
            state = transaction.state
            if state.subject not in {None, policy.subject}:
                # SUBJECT_FIXED, and the end of this process; `unit/tlog` sees to it.
                return
            assert state.policy is not None
            event = logs.adopted(policy, secrets.policy)
            if policy.weakens(state.policy):
                order = state.order("adopt", "a drill", adopting=policy)
                signed = secrets.operator.sign_text(order.document)
                event = logs.adopted(
                    policy,
                    secrets.policy,
                    note="a drill",
                    confirmation=signed,
                    confirmation_key_id=secrets.operator.key_id,
                )
            transaction.append(event)
            if state.must_shut_down:
                transaction.append(Shutdown(reason="budget", note=""))
        self.world.policy = policy

    @rule()
    def stop_and_go(self) -> None:
        state = self.world.census.journal.state
        if not state.shut_down:
            self.world.shut_down()
        if state.anything_fits:
            self.world.reopen()

    @rule()
    def crash(self) -> None:
        self.world.crash_census().recover()

    @rule()
    def compact(self) -> None:
        most, book_module._MOST_CHARGES = book_module._MOST_CHARGES, 1
        self.world.census.book.maintain(self.world.census.journal.now())
        book_module._MOST_CHARGES = most

    @precondition(lambda self: len(self.world.secrets.linkage.keys) < 3)
    @rule()
    def relink(self) -> None:
        key = LinkageKey(bytes([len(self.world.secrets.linkage.keys)]) * 32)
        self.world.follow(key)

    # --- what must hold --------------------------------------------------------------------------------------------

    @invariant()
    def what_counted_somebody_is_charged_to_them(self) -> None:
        """The ledger holds at least the sum of the answers under per-person accounting, no matter who inherited from whom."""
        if not hasattr(self, "world"):
            return
        state, charges = self.world.census.journal.state, self.world.census.book.charges()
        if charges is None or state.subject is None:
            # Strict accounting alone has charged so far; or nobody has, and nobody is a subject.
            return
        known_of = self.of_household if state.subject == "household" else self.of_person
        for number, known in known_of.items():
            charged = int(charges.subjects[number]) if len(charges.subjects) else 0
            assert self._spent(known) * UNITS_PER_NAT <= charged + charges.floor


TestOverspending = Overspending.TestCase
TestOverspending.settings = settings(max_examples=60, stateful_step_count=15)
