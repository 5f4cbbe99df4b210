"""Researchers' view of the budget follows from the answers that are out; charges follow from the charges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
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
    rostered,
    shut_down,
    slots,
)

from broker_common.errors import RefusedError
from broker_common.privacy.accounting import answers_left, price
from broker_common.privacy.policy import Policy
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import Entry, Event, Shutdown
from census_node.query.budget import Unfinished, quotable_answers, verify_affordable
from census_node.query.reservations import NOTHING_RESERVED, Reserved

RULES = policy(scales=(30,))
PRICE = price(30)
PERSONS = policy(accounting="per_person", scales=(1, 30))
BY_BUDGET = Shutdown(reason="budget", note="")


# Next entry of a log; a release names how long the log is.
Step: TypeAlias = Event | Callable[[CensusState], Event]


def take(state: CensusState, *steps: Step) -> CensusState:
    """The state after some more events."""
    for step in steps:
        event = step(state) if callable(step) else step
        state.apply(Entry(sequence=state.size, time_ms=0, policy=state.policy_hash, event=event))
    return state


def ready() -> CensusState:
    """A service that has answered nothing."""
    return take(census_state(), *beginning(), adopted(RULES), loaded(), rostered(), slots())


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
    """A researcher who keeps asking for quotes sees no charge happen, only answers leave."""
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
        verify_affordable(state, 30, reserved=Reserved(1, price(30)))
    assert caught.value.code == "BUDGET_EXHAUSTED"


def test_a_lost_answer_does_not_keep_the_end_from_being_told() -> None:
    """A charge whose answer can never be made is spent, and is not waited for."""
    state = ready()
    for number in range(41):
        take(state, charge(number))
    take(state, BY_BUDGET, *(release(number) for number in range(40)))
    (lost,) = state.unreleased
    with pytest.raises(RefusedError) as caught:
        quotable_answers(state, RULES, 30, unfinished=Unfinished(lost={lost}))
    assert caught.value.code == "SERVICE_SHUT_DOWN"


def test_a_release_shows_when_its_answer_is_let_out_and_not_before() -> None:
    """An entry in the log already is shown at its instant: before it a quote says what it said."""
    state = take(ready(), charge(0))
    ticket = next(iter(state.unreleased))
    take(state, release(0))
    assert quotable_answers(state, RULES, 30, unfinished=Unfinished(held_back={ticket})) == 41
    assert quotable_answers(state, RULES, 30) == 40


def test_a_release_that_is_about_to_be_logged_is_held_back_once() -> None:
    """It is held back before its entry stands: nothing is told of it, and nothing is told to be left that is not."""
    state = take(ready(), charge(0), release(0), charge(1))
    (ticket,) = state.unreleased
    assert quotable_answers(state, RULES, 30, unfinished=Unfinished(held_back={ticket})) == 40


def test_the_end_of_the_service_shows_when_its_last_answer_is_let_out() -> None:
    """Not when its release is logged."""
    state = ready()
    for number in range(41):
        take(state, charge(number))
    take(state, BY_BUDGET, *(release(number) for number in range(40)))
    (last,) = state.unreleased
    take(state, release(40))
    with pytest.raises(RefusedError) as caught:
        quotable_answers(state, RULES, 30)
    assert caught.value.code == "SERVICE_SHUT_DOWN"
    assert quotable_answers(state, RULES, 30, unfinished=Unfinished(held_back={last})) == 1


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
    """The answers that are out decide; a dearer scale may be refused while a cheaper one is quoted."""
    rules = policy()
    state = take(census_state(), *beginning(), adopted(rules), loaded(), rostered(), slots(), charged(0, scale=1))
    assert quotable_answers(state, rules, 1) == 1
    take(state, release(0))
    with pytest.raises(RefusedError) as caught:
        quotable_answers(state, rules, 1)
    assert (caught.value.code, caught.value.details) == ("BUDGET_EXHAUSTED", {"scale": "1"})
    assert quotable_answers(state, rules, 30) == 11


# --- per-person accounting -------------------------------------------------------------------------------------------


def by_person(**changes: Any) -> CensusState:
    """A service that charges the people of its samples, and has answered nothing."""
    rules = policy(**{"accounting": "per_person", "scales": (1, 30)} | changes)
    return take(census_state(), *beginning(), adopted(rules), loaded(), rostered(), slots())


def to_persons(number: int, scale: int = 30) -> Step:
    """The charge of the answer of this number to the people of its sample."""
    return lambda state: charged(number, before=state.charged_units, scale=scale, ledger=hash_of(5))


def rules_of(state: CensusState) -> Policy:
    """The policy in force."""
    assert state.policy is not None
    return state.policy


def told(state: CensusState, scale: int = 30) -> int | str | None:
    """The remaining answers in a quote, or the code with which it is refused."""
    try:
        return quotable_answers(state, rules_of(state), scale)
    except RefusedError as refusal:
        return refusal.code


def admission(state: CensusState, scale: int = 30, reserved: Reserved = NOTHING_RESERVED) -> str:
    """The code with which a header is refused; empty when it is accepted."""
    try:
        verify_affordable(state, scale, reserved=reserved)
    except RefusedError as refusal:
        return refusal.code
    return ""


def test_what_persons_were_charged_is_told_to_nobody() -> None:
    """However much was charged to persons, quotes and headers are as on the first day."""
    state = by_person()
    for number in range(50):
        assert (told(state), told(state, 1), admission(state), admission(state, 1)) == (None, None, "", "")
        take(state, to_persons(number, 1), release(number))
    assert state.charged_units > 10 * PERSONS.cap


def test_what_others_have_reserved_is_the_business_of_their_people() -> None:
    """Their price falls on the people of their samples, who are dropped where it does not fit."""
    assert admission(by_person(), reserved=Reserved(41, 41 * PRICE)) == ""


def test_strict_charges_stay_everybodys_and_show_with_their_answers() -> None:
    """Beside them a dear scale fits nobody: refused for all alike, and not before the answers that spent it are out."""
    state = take(
        census_state(),
        *beginning(),
        adopted(policy(scales=(1, 30))),
        loaded(),
        rostered(),
        slots(),
        charged(0, scale=1),
    )
    take(state, lambda state: confirmed(state, PERSONS))
    assert (told(state, 1), told(state)) == (None, None)
    assert admission(state, 1) == "BUDGET_EXHAUSTED"
    take(state, to_persons(1), release(1))
    assert told(state, 1) is None
    lost = set(state.unreleased)
    with pytest.raises(RefusedError, match="BUDGET_EXHAUSTED"):
        quotable_answers(state, PERSONS, 1, unfinished=Unfinished(lost=lost))
    take(state, release(0))
    assert (told(state, 1), told(state)) == ("BUDGET_EXHAUSTED", None)


@pytest.mark.parametrize("accounting", ["strict", "per_person"])
def test_the_last_allowed_answer_goes_to_the_first_sample_and_shows_when_it_is_out(accounting: str) -> None:
    """All three samples are admitted and charged; shown are the answers that are out."""
    state = by_person(accounting=accounting, max_answers=3)

    def charge(number: int) -> Step:
        ledger = "" if accounting == "strict" else hash_of(5)
        return lambda state: charged(number, before=state.charged_units, ledger=ledger)

    def left(count: int) -> int | None:
        return count if accounting == "strict" else None

    assert told(state) == left(3)
    assert admission(state, reserved=Reserved(2, 2 * PRICE)) == ""
    assert admission(state, reserved=Reserved(3, 3 * PRICE)) == "BUDGET_EXHAUSTED"
    take(state, charge(0), charge(1))
    assert told(state) == left(3)
    assert admission(state, reserved=Reserved(1, PRICE)) == "BUDGET_EXHAUSTED"
    take(state, charge(2), BY_BUDGET, release(0), release(2))
    assert told(state) == left(1)
    assert admission(state) == "BUDGET_EXHAUSTED"
    take(state, release(1))
    assert (told(state), admission(state)) == ("SERVICE_SHUT_DOWN", "SERVICE_SHUT_DOWN")


def test_strict_quotes_count_what_persons_were_charged() -> None:
    """Everybody might have been in every sample: the answers that are out are counted, no matter who was charged for them."""
    state = take(by_person(), to_persons(0), release(0), to_persons(1), adopted(RULES))
    assert told(state) == 40
    take(state, release(1))
    assert told(state) == 39
