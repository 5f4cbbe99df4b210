"""An adversary who chooses scales, policies, repetitions, shutdowns and reopenings cannot pass what was confirmed.

The machine keeps its own ledger in exact fractions of a nat, by the paper's formula, and shares no accounting with the
product. It changes between strict and per-person accounting, and between numbers of answers. Whatever it offers, what the log
accepts for everybody stays within ln(param) of the highest limit that the operator confirmed, the first policy's included:
under strict accounting that is every answer there ever was, under per-person accounting what strict accounting has charged.
Nothing is charged while the service is shut, and no answer beyond those that the policy in force allows. Orders signed at one
place are kept and offered again at others. Every charge takes a noise slot that was committed to before, that is not void, and
that no other charge has taken.
"""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any, NamedTuple

from fakes import ledger_rules
from fakes.logs import (
    adopted,
    beginning,
    census_state,
    charged,
    confirmed,
    hash_of,
    loaded,
    policy,
    released,
    reopened,
    shut_down,
    slots,
)
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec import structs

from broker_common.privacy.accounting import UNITS_PER_NAT
from broker_common.privacy.policy import Policy
from broker_common.tlog.entries import (
    Charged,
    Entry,
    Event,
    Released,
    Reopened,
    Shutdown,
    Slots,
    encode_entry,
    parse_entry,
)
from broker_common.tlog.replay import ReplayError, replay

# ln(p / (1 - p)) of each limit, rounded up in the last digit; from a table of logarithms, not from the product.
NATS = {"0.6": Fraction("0.4054651082"), "0.7": Fraction("0.8472978604"), "0.8": Fraction("1.3862943612")}
SCALES = (1, 2, 3, 7, 30, 50)
ADMISSIBLE = {"0.6": (3, 7, 30, 50), "0.7": (2, 3, 30), "0.8": SCALES}
# 0: no end.
ANSWERS = (0, 3, 8)
# Quota of one researcher; 0: none.
QUOTAS = (0, 0, 6)
KEPT_MS = 1000


class Rules(NamedTuple):
    """Settings of a policy that the adversary chooses."""

    limit: str
    accounting: str
    subject: str
    answers: int
    quota: int

    @property
    def policy(self) -> Policy:
        """The same as a policy."""
        return policy(
            max_belief=self.limit,
            scales=ADMISSIBLE[self.limit],
            accounting=self.accounting,
            subject=self.subject,
            max_answers=self.answers,
            researcher_answers=self.quota,
            sample_retention_ms=KEPT_MS,
        )

    @property
    def is_strict(self) -> bool:
        return self.accounting == "strict"

    def weakens(self, before: Rules) -> bool:
        """Whether more may be learned under it than under the rules before, or the quota is another one."""
        households = before.subject == "household" and self.subject == "person"
        more = before.answers > 0 and (self.answers == 0 or self.answers > before.answers)
        persons = before.is_strict and not self.is_strict
        other_quota = self.quota != before.quota
        return NATS[self.limit] > NATS[before.limit] or persons or households or more or other_quota


# Strict accounting knows no households.
CHOICES = st.builds(
    lambda limit, kind, answers, quota: Rules(limit, kind[0], kind[1], answers, quota),
    st.sampled_from(sorted(NATS)),
    st.sampled_from([("strict", "person"), ("per_person", "person"), ("per_person", "household")]),
    st.sampled_from(ANSWERS),
    st.sampled_from(QUOTAS),
)


class Overspending(RuleBasedStateMachine):
    """Offers entries, sound or not; keeps what was accepted."""

    def __init__(self) -> None:
        super().__init__()
        self.state = census_state()
        self.log: list[Entry] = []
        # On all answers, and on those that were charged to everybody.
        self.spent = Fraction(0)
        self.spent_by_all = Fraction(0)
        # Acts that the operator signed, and for which entry.
        self.orders: list[tuple[int, Event]] = []
        # Rules in force, and the highest budget that was ever confirmed.
        self.in_force = Rules("", "strict", "person", 0, 0)
        self.highest = Fraction(0)
        self.next_number = 0
        self.now_ms = 0
        # Time until which each ticket counts against the quota of its researcher; None before it is released.
        self.counting: dict[str, int | None] = {}
        # Noise slots that may still be charged, and how many were ever committed to.
        self.open_slots: set[int] = set()
        self.committed = 0

    def offer(self, event: Event) -> bool:
        """Whether the log takes the event as its next entry."""
        entry = Entry(sequence=self.state.size, time_ms=self.now_ms, policy=self.state.policy_hash, event=event)
        summary = self.state.summary()
        try:
            self.state.apply(entry)
        except ReplayError:
            assert self.state.summary() == summary
            return False
        self.log.append(entry)
        match event:
            case Slots():
                assert event.first == self.committed
                self.committed += len(event.commitments)
                self.open_slots.update(range(event.first, self.committed))
                self.open_slots.difference_update(range(event.void_below))
            case Charged():
                # KeyError: it was never open, or is no longer.
                self.open_slots.remove(event.slot)
                assert bool(event.ledger) != self.in_force.is_strict
                self.spent += Fraction(1, event.scale)
                self.spent_by_all += Fraction(1, event.scale) if self.in_force.is_strict else 0
                if self.in_force.quota and not self.in_force.is_strict:
                    self.counting[event.ticket] = None
                    assert self.counted <= self.in_force.quota
            case Released() if event.ticket in self.counting:
                self.counting[event.ticket] = self.now_ms + KEPT_MS
        return True

    @property
    def counted(self) -> int:
        """How many answers count now."""
        return sum(until is None or until > self.now_ms for until in self.counting.values())

    def next_charge(self, scale: int = 30, **changes: Any) -> Charged:
        """A sound charge on the next open slot, but for the changes."""
        if not self.open_slots:
            self.offer(slots(self.committed))
        number, self.next_number = self.next_number, self.next_number + 1
        fields = {"slot": min(self.open_slots, default=self.committed), "ledger": self.ledger}
        return charged(number, before=self.state.charged_units, scale=scale, **fields | changes)

    @property
    def ledger(self) -> str:
        """The ledger digest of an honest charge."""
        return "" if self.in_force.is_strict else hash_of(5)

    @property
    def spent_for(self) -> Fraction:
        """Sum that counts for everybody under the rules in force."""
        return self.spent if self.in_force.is_strict else self.spent_by_all

    @initialize(rules=CHOICES)
    def open(self, rules: Rules) -> None:
        for event in beginning():
            assert self.offer(event)
        assert self.offer(adopted(rules.policy))
        assert self.offer(loaded())
        assert self.offer(slots())
        self.in_force, self.highest = rules, NATS[rules.limit]

    @rule(scale=st.sampled_from(SCALES))
    def charge(self, scale: int) -> None:
        self.offer(self.next_charge(scale))

    @rule()
    def charge_the_others(self) -> None:
        assert not self.offer(self.next_charge(ledger=hash_of(5) if self.in_force.is_strict else ""))

    @rule(scale=st.sampled_from(SCALES), times=st.sampled_from([2, 5, 60]))
    def charge_until_refused(self, scale: int, times: int) -> None:
        for _ in range(times):
            self.charge(scale)

    @rule(
        scale=st.sampled_from(SCALES), units=st.integers(0, 2**25), change=st.sampled_from(["units", "total", "both"])
    )
    def charge_too_little(self, scale: int, units: int, change: str) -> None:
        before, honest = self.state.charged_units, self.next_charge(scale)
        lies: dict[str, Any] = {"units": units} if change != "total" else {}
        lies |= {"total": before + units} if change != "units" else {}
        if self.offer(structs.replace(honest, **lies)):
            assert units == honest.units

    @precondition(lambda self: self.state.tickets)
    @rule(number=st.integers(0, 50), part=st.sampled_from(["ticket", "query", "slot"]))
    def charge_again(self, number: int, part: str) -> None:
        old = list(self.state.tickets.values())[number % len(self.state.tickets)].charge
        fresh = self.next_charge()
        again = structs.replace(fresh, **{part: getattr(old, part)})
        assert fresh != again
        assert not self.offer(again)

    @rule(number=st.integers(0, 200))
    def charge_any_slot(self, number: int) -> None:
        self.offer(self.next_charge(slot=number))

    @rule(ahead=st.integers(-2, 2), void=st.integers(-70, 2), count=st.integers(1, 40))
    def commit_to_slots(self, ahead: int, void: int, count: int) -> None:
        first, void_below = max(0, self.committed + ahead), max(0, self.committed + void)
        if self.offer(slots(first, count=count, void_below=void_below)):
            assert void_below <= first

    @rule(rules=CHOICES)
    def adopt(self, rules: Rules) -> None:
        if self.offer(adopted(rules.policy)):
            assert not rules.weakens(self.in_force)
            self.in_force = rules

    @rule(rules=CHOICES)
    def confirm(self, rules: Rules) -> None:
        event = confirmed(self.state, rules.policy)
        self.orders.append((self.state.size, event))
        if self.offer(event):
            assert rules.weakens(self.in_force)
            self.in_force, self.highest = rules, max(self.highest, NATS[rules.limit])

    @rule(scale=st.sampled_from(SCALES), times=st.sampled_from([1, 2, 5]))
    def go_to_persons_and_back(self, scale: int, times: int) -> None:
        """Charges to persons in between are not forgotten when everybody is charged again."""
        strict = self.in_force._replace(accounting="strict", subject="person")
        persons = strict._replace(accounting="per_person")
        for rules in (strict, persons, strict):
            self.adopt(rules)
            self.confirm(rules)
            self.reopen()
            self.charge_until_refused(scale, times)

    @rule()
    def reopen(self) -> None:
        event = reopened(self.state)
        self.orders.append((self.state.size, event))
        was_shut = self.state.shut_down
        if self.offer(event):
            assert was_shut
            limit = NATS[self.in_force.limit]
            assert any(self.spent_for + Fraction(1, scale) <= limit for scale in ADMISSIBLE[self.in_force.limit])
            assert not 0 < self.in_force.answers <= len(self.state.tickets)

    @rule(passed=st.sampled_from([1, KEPT_MS // 2, KEPT_MS]))
    def wait(self, passed: int) -> None:
        self.now_ms += passed

    @rule()
    def pause(self) -> None:
        self.shut_down("operator", 0)
        self.reopen()

    @precondition(lambda self: self.orders)
    @rule(number=st.integers(0, 50))
    def replay_an_order(self, number: int) -> None:
        place, order = self.orders[number % len(self.orders)]
        if place != self.state.size:
            assert not self.offer(order)

    @rule(number=st.integers(0, 10))
    def release(self, number: int) -> None:
        answers_before = sum(bool(ticket.answer) for ticket in self.state.tickets.values())
        if self.offer(released(self.state, number)):
            assert hash_of(number) in self.state.tickets
            assert sum(bool(ticket.answer) for ticket in self.state.tickets.values()) == answers_before + 1

    @rule(reason=st.sampled_from(["budget", "operator", "operator", "nobody"]), mood=st.integers(0, 3))
    def shut_down(self, reason: str, mood: int) -> None:
        if reason == "operator" and mood:
            return
        event = shut_down(self.state) if reason == "operator" else Shutdown(reason="budget", note="")
        if reason == "nobody":
            event = Shutdown(reason="operator", note="unsigned")
        if reason == "operator":
            self.orders.append((self.state.size, event))
        was_shut = self.state.shut_down
        if self.offer(event):
            assert not was_shut
            assert reason != "nobody"

    @invariant()
    def never_more_than_the_largest_confirmed_cap(self) -> None:
        """The promise, in exact nats; the machine keeps the very charges that the state holds."""
        if self.log:
            assert self.spent_by_all <= self.highest
            assert self.spent_by_all <= Fraction(self.state.common_units, UNITS_PER_NAT)
            assert self.spent <= Fraction(self.state.charged_units, UNITS_PER_NAT)
            assert self.spent == sum(
                (Fraction(1, ticket.charge.scale) for ticket in self.state.tickets.values()), Fraction(0)
            )

    @invariant()
    def a_lowered_cap_admits_nothing_beyond_it(self) -> None:
        """A charge that does not fit the limit in force is never taken, whatever an older limit allowed."""
        if self.log and isinstance(self.log[-1].event, Charged):
            # Beside what was everybody's before, a charge to persons has to fit even for who was in no sample yet.
            own = 0 if self.in_force.is_strict else Fraction(1, self.log[-1].event.scale)
            assert self.spent_for + own <= NATS[self.in_force.limit]
            assert not 0 < self.in_force.answers < len(self.state.tickets)

    @invariant()
    def the_quota_is_of_what_counts(self) -> None:
        """As the log says it, and the list above."""
        assert self.state.quota.counted("alice", self.now_ms) == self.counted

    @invariant()
    def the_last_allowed_answer_ends_the_service(self) -> None:
        """Nothing but the shutdown can follow on it, and it stays shut until more answers are allowed."""
        if self.log and 0 < self.in_force.answers <= len(self.state.tickets):
            assert self.state.shut_down or self.state.must_shut_down

    @invariant()
    def the_log_replays_to_the_same_state(self) -> None:
        """Entries accepted one by one are accepted again from their bytes."""
        again = replay(map(parse_entry, map(encode_entry, self.log)), census_state())
        assert again.summary() == self.state.summary()
        assert again.tickets == self.state.tickets
        assert set(again.open_slots) == set(self.state.open_slots) == self.open_slots

    def teardown(self) -> None:
        """Plain Python over the JSON accepts the same entries as the product, and adds up to the same two sums."""
        if self.log and not self.state.must_shut_down:
            ledger = ledger_rules.read_census([json.loads(encode_entry(entry)) for entry in self.log])
            assert ledger.charged == self.state.charged_units
            assert ledger.common == self.state.common_units
            assert (ledger.is_shut, ledger.anything_fits) == (self.state.shut_down, self.state.anything_fits)

    @invariant()
    def what_is_out_is_part_of_what_was_charged(self) -> None:
        """Researchers' figures follow from the answers that are out, and from nothing else."""
        out = [ticket.charge.units for ticket in self.state.tickets.values() if ticket.answer]
        waiting = [self.state.tickets[ticket].charge.units for ticket in self.state.unreleased]
        assert sum(out) + sum(waiting) == self.state.charged_units
        assert len(out) + len(waiting) == len(self.state.tickets)

    @invariant()
    def nothing_is_charged_while_shut(self) -> None:
        """Between a shutdown and the next reopening the number of answers stands still."""
        is_shut = False
        for entry in self.log:
            match entry.event:
                case Shutdown():
                    assert not is_shut
                    is_shut = True
                case Reopened():
                    assert is_shut
                    is_shut = False
                case Charged():
                    assert not is_shut
        assert is_shut == self.state.shut_down


TestOverspending = Overspending.TestCase
TestOverspending.settings = settings(max_examples=40, stateful_step_count=30)
