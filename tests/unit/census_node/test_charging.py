"""What researchers are told of the budget follows from the answers that are out; what is charged, from the charges."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest
from fakes.logs import (
    adopted,
    beginning,
    census_state,
    charged,
    confirmed,
    loaded,
    policy,
    released,
    reopened,
    shut_down,
    slots,
)

from broker_common.errors import RefusedError
from broker_common.privacy.accounting import answers_left, price_units
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import Entry, Event, Shutdown
from census_node.charging import quotable_answers, verify_affordable
from census_node.reservations import Reserved

RULES = policy(scales=(30,))
PRICE = price_units(30)
BY_BUDGET = Shutdown(reason="budget", note="")


# What comes next in a log; a release names how long the log is.
Step: TypeAlias = Event | Callable[[CensusState], Event]


def take(state: CensusState, *steps: Step) -> CensusState:
    """The state after some more events."""
    for step in steps:
        event = step(state) if callable(step) else step
        state.apply(Entry(sequence=state.size, time_ms=0, policy=state.policy_hash, event=event))
    return state


def ready() -> CensusState:
    """A service that has answered nothing."""
    return take(census_state(), *beginning(), adopted(RULES), loaded(), slots())


def charge(number: int) -> Event:
    """The charge of the answer of this number, at scale 30."""
    return charged(number, before=number * PRICE)


def release(number: int) -> Step:
    """The release of the answer of this number."""
    return lambda state: released(state, number)


def refusal(state: CensusState) -> str:
    """The code with which a quote is refused."""
    with pytest.raises(RefusedError) as caught:
        quotable_answers(state, RULES, 30)
    return caught.value.code


def test_a_charge_shows_when_its_answer_is_out_and_not_before() -> None:
    """Whoever keeps asking for quotes sees no charge happen, only answers leave."""
    state = ready()
    for number in range(5):
        told = quotable_answers(state, RULES, 30)
        assert told == 41 - number
        take(state, charge(number))
        assert quotable_answers(state, RULES, 30) == told
        assert answers_left(RULES.cap, state.charged_units, 30) == told - 1
        take(state, release(number))
        assert quotable_answers(state, RULES, 30) == told - 1


def test_the_last_charge_and_its_shutdown_show_with_the_last_answer() -> None:
    """Nothing can be charged any more from the charge on; nobody is told so before its answer is out."""
    state = ready()
    for number in range(41):
        take(state, charge(number))
    take(state, BY_BUDGET, *(release(number) for number in range(40)))
    with pytest.raises(RefusedError) as caught:
        verify_affordable(state, 30)
    # Which of the two is said may depend on what is out, never on what has just been charged.
    assert caught.value.code == "BUDGET_EXHAUSTED"
    assert quotable_answers(state, RULES, 30) == 1
    take(state, release(40))
    assert refusal(state) == "SERVICE_SHUT_DOWN"


def test_what_others_have_reserved_is_not_there_to_be_charged() -> None:
    """The last of the budget goes to the header that came first, before anybody has drawn a sample."""
    state = ready()
    for number in range(40):
        take(state, charge(number), release(number))
    verify_affordable(state, 30)
    with pytest.raises(RefusedError) as caught:
        verify_affordable(state, 30, reserved=Reserved(1, price_units(30)))
    assert caught.value.code == "BUDGET_EXHAUSTED"


def test_a_lost_answer_does_not_keep_the_end_from_being_told() -> None:
    """A charge whose answer can never be made is spent, and is not waited for."""
    state = ready()
    for number in range(41):
        take(state, charge(number))
    take(state, BY_BUDGET, *(release(number) for number in range(40)))
    (lost,) = state.unreleased
    with pytest.raises(RefusedError) as caught:
        quotable_answers(state, RULES, 30, lost={lost})
    assert caught.value.code == "SERVICE_SHUT_DOWN"


def test_an_operators_shutdown_shows_at_once() -> None:
    """It follows from nobody's question; and what is not released still goes out."""
    state = take(ready(), charge(0))
    take(state, shut_down(state))
    assert refusal(state) == "SERVICE_SHUT_DOWN"
    assert refusal(take(state, release(0))) == "SERVICE_SHUT_DOWN"


def test_a_reopening_shows_at_once_and_gives_nothing_back() -> None:
    """After it a quote counts the answers that are out, those from before the shutdown included."""
    state = take(ready(), charge(0), release(0), charge(1))
    take(state, shut_down(state))
    take(state, reopened(state))
    assert quotable_answers(state, RULES, 30) == 40
    take(state, release(1))
    assert quotable_answers(state, RULES, 30) == 39
    verify_affordable(state, 30)


def test_a_raised_cap_tells_no_charge_before_its_answer() -> None:
    """Adopted while the budget's shutdown is untold: a quote follows from what is out, and no header is accepted."""
    state = ready()
    for number in range(41):
        take(state, charge(number))
    take(state, BY_BUDGET, *(release(number) for number in range(40)))
    higher = policy(max_belief="0.9", scales=(30,))
    take(state, confirmed(state, higher))
    assert quotable_answers(state, higher, 30) == answers_left(higher.cap, 40 * PRICE, 30)
    with pytest.raises(RefusedError) as caught:
        verify_affordable(state, 30)
    assert caught.value.code == "BUDGET_EXHAUSTED"
    take(state, release(40))
    with pytest.raises(RefusedError) as caught:
        quotable_answers(state, higher, 30)
    assert caught.value.code == "SERVICE_SHUT_DOWN"
    with pytest.raises(RefusedError) as caught:
        verify_affordable(state, 30)
    assert caught.value.code == "SERVICE_SHUT_DOWN"
    take(state, reopened(state))
    verify_affordable(state, 30)
    assert quotable_answers(state, higher, 30) == answers_left(higher.cap, 41 * PRICE, 30)


def test_a_lowered_cap_that_charges_pass_leaves_nothing() -> None:
    """More is charged than the policy in force would admit: nothing is quoted, and no number is negative."""
    state = ready()
    for number in range(30):
        take(state, charge(number), release(number))
    lower = policy(max_belief="0.6", scales=(30,))
    take(state, adopted(lower), BY_BUDGET)
    with pytest.raises(RefusedError) as caught:
        quotable_answers(state, lower, 30)
    assert caught.value.code == "SERVICE_SHUT_DOWN"


def test_a_scale_that_the_rest_does_not_pay_for_is_refused() -> None:
    """By what is out; a dearer scale may be refused while a cheaper one is quoted."""
    rules = policy()
    state = take(census_state(), *beginning(), adopted(rules), loaded(), slots(), charged(0, scale=1))
    assert quotable_answers(state, rules, 1) == 1
    take(state, release(0))
    with pytest.raises(RefusedError) as caught:
        quotable_answers(state, rules, 1)
    assert (caught.value.code, caught.value.details) == ("BUDGET_EXHAUSTED", {"scale": "1"})
    assert quotable_answers(state, rules, 30) == 11
