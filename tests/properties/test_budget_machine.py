"""An adversary who chooses scales, policies, repetitions and shutdowns cannot make the log hold more than its cap.

The machine keeps its own ledger in exact fractions of a nat, by the paper's formula, and shares no accounting with the
product. Whatever it offers, what the log accepts stays within ln(param).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from fakes.logs import CENSUS, adopted, beginning, charged, hash_of, loaded, policy, root
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker_common.privacy.policy import Policy
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import Entry, Event, Released, Shutdown, encode_entry, parse_entry
from broker_common.tlog.replay import ReplayError, replay

# ln(p / (1 - p)) of each limit, rounded up in the last digit; from a table of logarithms, not from the product.
NATS = {"0.6": Fraction("0.4054651082"), "0.7": Fraction("0.8472978604"), "0.8": Fraction("1.3862943612")}
SCALES = (1, 2, 3, 7, 30, 50)
ADMISSIBLE = {"0.6": (3, 7, 30, 50), "0.7": (2, 3, 30), "0.8": SCALES}


def rules(max_belief: str) -> Policy:
    """A policy with this limit."""
    return policy(max_belief=max_belief, scales=ADMISSIBLE[max_belief])


class Overspending(RuleBasedStateMachine):
    """Offers entries, sound or not; keeps what was accepted."""

    def __init__(self) -> None:
        super().__init__()
        self.state = CensusState(root(CENSUS))
        self.log: list[Entry] = []
        self.spent = Fraction(0)
        # The limit in force, and the budget of the first one.
        self.limit = ""
        self.highest = Fraction(0)
        self.next_number = 0

    def offer(self, event: Event) -> bool:
        """Whether the log takes the event as its next entry."""
        entry = Entry(sequence=self.state.size, time_ms=self.state.time_ms, policy=self.state.policy_hash, event=event)
        summary = self.state.summary()
        try:
            self.state.apply(entry)
        except ReplayError:
            assert self.state.summary() == summary
            return False
        self.log.append(entry)
        return True

    @initialize(max_belief=st.sampled_from(sorted(NATS)))
    def open(self, max_belief: str) -> None:
        for event in beginning():
            assert self.offer(event)
        assert self.offer(adopted(rules(max_belief)))
        assert self.offer(loaded())
        self.limit, self.highest = max_belief, NATS[max_belief]

    @rule(scale=st.sampled_from(SCALES))
    def charge(self, scale: int) -> None:
        number, self.next_number = self.next_number, self.next_number + 1
        if self.offer(charged(number, before=self.state.charged_units, scale=scale)):
            self.spent += Fraction(1, scale)

    @rule(scale=st.sampled_from(SCALES), times=st.sampled_from([2, 5, 60]))
    def charge_until_refused(self, scale: int, times: int) -> None:
        for _ in range(times):
            self.charge(scale)

    @rule(
        scale=st.sampled_from(SCALES), units=st.integers(0, 2**25), change=st.sampled_from(["units", "total", "both"])
    )
    def charge_too_little(self, scale: int, units: int, change: str) -> None:
        before = self.state.charged_units
        honest = charged(self.next_number, before=before, scale=scale)
        lies: dict[str, Any] = {"units": units} if change != "total" else {}
        lies |= {"total": before + units} if change != "units" else {}
        self.next_number += 1
        if self.offer(charged(self.next_number - 1, before=before, scale=scale, **lies)):
            assert units == honest.units
            self.spent += Fraction(1, scale)

    @precondition(lambda self: self.state.tickets)
    @rule(number=st.integers(0, 50), part=st.sampled_from(["ticket", "query", "slot"]))
    def charge_again(self, number: int, part: str) -> None:
        old = list(self.state.tickets.values())[number % len(self.state.tickets)].charge
        fresh = charged(10**6 + self.next_number, before=self.state.charged_units)
        again = charged(10**6 + self.next_number, before=self.state.charged_units, **{part: getattr(old, part)})
        assert fresh != again
        assert not self.offer(again)

    @rule(max_belief=st.sampled_from(sorted(NATS)))
    def adopt(self, max_belief: str) -> None:
        if self.offer(adopted(rules(max_belief))):
            assert NATS[max_belief] <= NATS[self.limit]
            self.limit = max_belief

    @rule(number=st.integers(0, 10))
    def release(self, number: int) -> None:
        answers_before = sum(bool(ticket.answer) for ticket in self.state.tickets.values())
        if self.offer(Released(ticket=hash_of(number), answer=hash_of(99))):
            assert hash_of(number) in self.state.tickets
            assert sum(bool(ticket.answer) for ticket in self.state.tickets.values()) == answers_before + 1

    @rule(reason=st.sampled_from(["budget", "operator", "operator"]), mood=st.integers(0, 3))
    def shut_down(self, reason: str, mood: int) -> None:
        if reason == "operator" and mood:
            return
        was_shut = self.state.shut_down
        if self.offer(Shutdown(reason=reason, note="")):
            assert not was_shut

    @invariant()
    def never_more_than_the_cap(self) -> None:
        """The promise, in exact nats; the machine keeps the very charges that the state holds."""
        if self.log:
            assert self.spent <= self.highest
            assert self.spent == sum(
                (Fraction(1, ticket.charge.scale) for ticket in self.state.tickets.values()), Fraction(0)
            )

    @invariant()
    def a_lowered_cap_admits_nothing_beyond_it(self) -> None:
        """A charge that does not fit the limit in force is never taken, whatever an older limit allowed."""
        if self.log and isinstance(self.log[-1].event, type(charged(0))):
            assert self.spent <= NATS[self.limit]

    @invariant()
    def the_log_replays_to_the_same_state(self) -> None:
        """What was accepted one by one is accepted again from its bytes."""
        again = replay(map(parse_entry, map(encode_entry, self.log)), CensusState(root(CENSUS)))
        assert again.summary() == self.state.summary()
        assert again.tickets == self.state.tickets

    @invariant()
    def what_is_out_is_part_of_what_was_charged(self) -> None:
        """What researchers are told of follows from the answers that are out, and from nothing else."""
        out = [ticket.charge.units for ticket in self.state.tickets.values() if ticket.answer]
        assert self.state.released_units == sum(out) <= self.state.charged_units
        assert len(out) + len(self.state.unreleased) == len(self.state.tickets)

    @invariant()
    def nothing_is_charged_after_the_shutdown(self) -> None:
        """Once shut, the number of answers stands still."""
        ends = [place for place, entry in enumerate(self.log) if isinstance(entry.event, Shutdown)]
        assert len(ends) <= 1
        for place in ends:
            assert not any(isinstance(entry.event, type(charged(0))) for entry in self.log[place:])


TestOverspending = Overspending.TestCase
TestOverspending.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
