"""The census log's rules: for each one, an entry that breaks exactly it is refused and changes nothing."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from fakes.logs import (
    ALICE,
    CENSUS,
    HEALTH,
    POLICY_KEY,
    adopted,
    announced,
    beginning,
    charged,
    contents,
    hash_of,
    loaded,
    opened,
    policy,
    registered,
    revoked,
    root,
    submitted,
)

from broker_common.crypto.signing import Purpose, SigningKey
from broker_common.privacy.accounting import UNITS_PER_NAT, price_units
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import Delivered, Entry, Event, Released, Settled, Shutdown
from broker_common.tlog.replay import LogState, ReplayError, replay

PRICE_30 = price_units(30)
PRICE_1 = price_units(1)
# One answer at scale 1 and one at scale 2 empty this cap but for less than any admissible price.
TIGHT = policy(scales=(1, 2))
OTHER_AGENCY = SigningKey(Purpose.POLICY, bytes(32))


def entry_after(state: LogState, event: Event, **changes: Any) -> Entry:
    """The next entry of a log in this state."""
    fields: dict[str, Any] = {"sequence": state.size, "time_ms": state.time_ms, "policy": state.policy_hash}
    return Entry(**fields | changes, event=event)


def state_after(*events: Event) -> CensusState:
    """The state that the events lead to."""
    state = CensusState(root(CENSUS))
    for event in events:
        state.apply(entry_after(state, event))
    return state


def refusal(state: LogState, entry: Entry) -> str:
    """The code of the rule that the entry breaks; the state must be as before."""
    before = contents(state)
    with pytest.raises(ReplayError) as caught:
        state.apply(entry)
    assert contents(state) == before
    assert caught.value.sequence == entry.sequence
    assert str(caught.value) == f"entry {entry.sequence}: {caught.value.code}: {caught.value.text}"
    return caught.value.code


BEGINNING = beginning()
READY: tuple[Event, ...] = (*BEGINNING, adopted(), loaded())
CHARGED: tuple[Event, ...] = (*READY, charged(1))
RELEASE = Released(ticket=hash_of(1), answer=hash_of(77))
RELEASED: tuple[Event, ...] = (*CHARGED, RELEASE)
DELIVERY = Delivered(ticket=hash_of(1), by="inbox")
BY_BUDGET = Shutdown(reason="budget", note="")
BY_OPERATOR = Shutdown(reason="operator", note="audit")
# Scale 1 leaves 0.386 nat, so nothing of scales 1 and 2 fits.
EXHAUSTED: tuple[Event, ...] = (*BEGINNING, adopted(TIGHT), loaded(), charged(1, scale=1))
SHUT: tuple[Event, ...] = (*CHARGED, BY_OPERATOR)

# Other base64 texts of the very same 64 bytes; the last letter before the padding has four bits to spare.
SIGNATURE = adopted().signature
RESPELLED = (
    SIGNATURE[:-3] + chr(ord(SIGNATURE[-3]) + 1) + "==",
    SIGNATURE[:-2],
    SIGNATURE[:-1],
    SIGNATURE + "\n",
    " " + SIGNATURE,
    SIGNATURE + "====",
)


@dataclass(frozen=True)
class Breach:
    """After these events, this one breaks the rule of this code, and no rule checked before it."""

    code: str
    after: Sequence[Event]
    event: Event


BREACHES = [
    Breach("OPENING", (), adopted()),
    Breach("OPENING", READY, opened()),
    Breach("OTHER_LOG", (), opened("health")),
    Breach("OTHER_LOG", READY, submitted(1)),
    Breach("OTHER_LOG", READY, Settled(ticket=hash_of(1))),
    Breach("FORMAT", (), opened(format=0)),
    Breach("FORMAT", (), opened(format=2)),
    Breach("POLICY_INVALID", BEGINNING, adopted(key=OTHER_AGENCY)),
    Breach("POLICY_INVALID", BEGINNING, adopted(policy(), document=policy(max_belief="0.9").document.decode())),
    Breach("POLICY_INVALID", BEGINNING, adopted(signature="")),
    Breach("POLICY_INVALID", BEGINNING, adopted(signature="not base64")),
    Breach("POLICY_INVALID", BEGINNING, adopted(signature="\u00e9\u00e9\u00e9\u00e9")),
    Breach("POLICY_INVALID", BEGINNING, adopted(policy(scales=(30, 1)))),
    *(Breach("POLICY_INVALID", BEGINNING, adopted(key_id=name)) for name in ("x", "", OTHER_AGENCY.key_id)),
    *(Breach("POLICY_INVALID", BEGINNING, adopted(signature=spelling)) for spelling in RESPELLED),
    Breach("POLICY_AFTER_SHUTDOWN", SHUT, adopted(policy(max_belief="0.7"))),
    Breach("CAP_RAISED", READY, adopted(policy(max_belief="0.81"))),
    Breach("LOAD_REPEATED", READY, loaded()),
    Breach("LOAD_REPEATED", (*READY, loaded("load2")), loaded()),
    Breach("LOAD_REPEATED", (*READY, loaded("load2")), loaded(commitment=hash_of(9))),
    Breach("CHARGE_WITHOUT_POLICY", (*BEGINNING, loaded()), charged(1)),
    Breach("CHARGE_AFTER_SHUTDOWN", SHUT, charged(2, before=PRICE_30)),
    Breach("NOT_REGISTERED", READY, charged(1, researcher="mallory")),
    Breach("NOT_REGISTERED", READY, charged(1, health="health-qc")),
    # A name of the other role's is nobody's.
    Breach("NOT_REGISTERED", READY, charged(1, researcher="health-on")),
    Breach("NOT_REGISTERED", READY, charged(1, health="alice")),
    Breach("NOT_REGISTERED", (*READY, revoked(ALICE)), charged(1)),
    Breach("NOT_REGISTERED", (*READY, revoked(HEALTH)), charged(1)),
    Breach("NOT_REGISTERED", READY, revoked(ALICE, name="mallory")),
    Breach("CARD_INVALID", BEGINNING, announced()),
    Breach("CARD_INVALID", BEGINNING, registered(CENSUS)),
    Breach("CHARGE_LOAD", (*BEGINNING, adopted()), charged(1)),
    Breach("CHARGE_LOAD", (*BEGINNING, adopted()), charged(1, load="")),
    Breach("CHARGE_LOAD", (*READY, loaded("load2")), charged(1)),
    Breach("SCALE", READY, charged(1, scale=29)),
    Breach("CHARGE_WRONG", READY, charged(1, units=PRICE_30 - 1, total=PRICE_30 - 1)),
    Breach("CHARGE_WRONG", READY, charged(1, units=0, total=0)),
    Breach("CAP_PASSED", (*READY, charged(1, scale=1)), charged(2, before=PRICE_1, scale=1)),
    Breach("TOTAL_WRONG", CHARGED, charged(2, before=0)),
    Breach("TOTAL_WRONG", READY, charged(1, before=1)),
    Breach("TICKET_CHARGED_TWICE", CHARGED, charged(2, before=PRICE_30, ticket=hash_of(1))),
    Breach("QUERY_REUSED", CHARGED, charged(2, before=PRICE_30, query=f"{1:032x}")),
    Breach("SLOT_REUSED", CHARGED, charged(2, before=PRICE_30, slot=1)),
    Breach("RELEASE_WITHOUT_CHARGE", READY, RELEASE),
    Breach("RELEASED_TWICE", RELEASED, RELEASE),
    Breach("RELEASED_TWICE", RELEASED, Released(ticket=hash_of(1), answer=hash_of(78))),
    Breach("RELEASED_TWICE", (*RELEASED, DELIVERY), RELEASE),
    Breach("DELIVERY_WITHOUT_RELEASE", READY, DELIVERY),
    Breach("DELIVERY_WITHOUT_RELEASE", CHARGED, DELIVERY),
    Breach("DELIVERED_TWICE", (*RELEASED, DELIVERY), DELIVERY),
    Breach("SHUTDOWN_MISSING", EXHAUSTED, RELEASE),
    Breach("SHUTDOWN_MISSING", EXHAUSTED, charged(2, before=PRICE_1, scale=2)),
    Breach("SHUTDOWN_MISSING", EXHAUSTED, loaded("load2")),
    Breach("SHUTDOWN_MISSING", (*CHARGED, adopted(policy(max_belief="0.51", scales=(30,)))), RELEASE),
    Breach("SHUTDOWN_REPEATED", SHUT, BY_OPERATOR),
    Breach("SHUTDOWN_REPEATED", (*EXHAUSTED, BY_BUDGET), BY_BUDGET),
    Breach("SHUTDOWN_REASON", CHARGED, BY_BUDGET),
    Breach("SHUTDOWN_REASON", EXHAUSTED, BY_OPERATOR),
]


@pytest.mark.parametrize("breach", BREACHES, ids=lambda breach: breach.code)
def test_an_entry_that_breaks_a_rule_is_refused_and_changes_nothing(breach: Breach) -> None:
    """Each rule of the census log, broken alone, is named by its own code."""
    state = state_after(*breach.after)
    assert refusal(state, entry_after(state, breach.event)) == breach.code


def test_every_rule_has_a_breach() -> None:
    """The table above names every code that the product's source can raise."""
    codes = {
        constant
        for method in (*vars(CensusState).values(), *vars(LogState).values())
        if hasattr(method, "__code__")
        for constant in method.__code__.co_consts
        if isinstance(constant, str) and constant.isupper()
    }
    assert codes - {"SEQUENCE", "TIME_BACKWARDS", "POLICY"} == {breach.code for breach in BREACHES}


@pytest.mark.parametrize("sequence", [0, 5, 7, 2**52])
def test_an_entry_out_of_sequence_is_refused(sequence: int) -> None:
    """No entry is left out, repeated or moved."""
    state = state_after(*READY)
    assert refusal(state, entry_after(state, charged(1), sequence=sequence)) == "SEQUENCE"


def test_time_never_runs_backwards() -> None:
    """An entry before its predecessor is refused; one at the same millisecond is not."""
    state = state_after(*READY)
    state.apply(entry_after(state, charged(1), time_ms=1000))
    assert refusal(state, entry_after(state, RELEASE, time_ms=999)) == "TIME_BACKWARDS"
    state.apply(entry_after(state, RELEASE, time_ms=1000))
    assert state.time_ms == 1000


@pytest.mark.parametrize("named", ["", hash_of(3)])
def test_an_entry_names_the_policy_in_force(named: str) -> None:
    """Nobody can move a charge under another policy afterwards."""
    state = state_after(*READY)
    assert refusal(state, entry_after(state, charged(1), policy=named)) == "POLICY"


def test_an_adoption_stands_under_the_policy_before_it() -> None:
    """The first policy is adopted under none, and is in force from the next entry on."""
    state = state_after(*BEGINNING)
    assert state.policy_hash == ""
    assert refusal(state, entry_after(state, adopted(), policy=policy().hash.hex())) == "POLICY"
    state.apply(entry_after(state, adopted()))
    assert state.policy_hash == policy().hash.hex()
    assert state.policy == policy()
    assert state.adopted == adopted()


def test_a_lower_cap_may_be_adopted() -> None:
    """The agency may become stricter at any time, and stay as it is."""
    state = state_after(*CHARGED, adopted(policy(max_belief="0.7")), adopted(policy(max_belief="0.7", open_quotes=5)))
    assert state.policy == policy(max_belief="0.7", open_quotes=5)
    assert not state.shut_down


def test_an_adoption_has_one_spelling() -> None:
    """Texts that decode to a good signature are refused, so that one adoption is one entry, one hash."""
    decoded = [text for text in RESPELLED if b64_or_none(text) == base64.b64decode(SIGNATURE)]
    assert len(decoded) >= 1
    state = state_after(*BEGINNING)
    for text in decoded:
        assert refusal(state, entry_after(state, adopted(signature=text))) == "POLICY_INVALID"
    state.apply(entry_after(state, adopted()))
    assert state.adopted == adopted()


def b64_or_none(text: str) -> bytes | None:
    """What Python's strict decoder makes of the text."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return None


def test_every_load_is_remembered() -> None:
    """Pending answers may need an older one; a charge is on the newest."""
    state = state_after(*CHARGED, loaded("load2", release="2026", commitment=hash_of(2)))
    assert state.commitments == {"load1": hash_of(1), "load2": hash_of(2)}
    assert (state.load, state.release) == ("load2", "2026")
    state.apply(entry_after(state, charged(2, before=PRICE_30, load="load2")))
    assert [ticket.charge.load for ticket in state.tickets.values()] == ["load1", "load2"]


def test_a_shutdown_that_must_follow_is_said() -> None:
    """By a charge or by a policy after which nothing fits, until it has followed."""
    for after in (EXHAUSTED, (*CHARGED, adopted(policy(max_belief="0.51", scales=(30,))))):
        assert not state_after(*after[:-1]).must_shut_down
        state = state_after(*after)
        assert (state.must_shut_down, state.shut_down) == (True, False)
        state.apply(entry_after(state, BY_BUDGET))
        assert (state.must_shut_down, state.shut_down) == (False, True)
    assert not state_after(*SHUT).must_shut_down


def test_what_is_out_is_told_from_what_was_charged() -> None:
    """Charges count as released one by one, each at its own price, in whatever order their answers go out."""
    before = (
        *READY,
        charged(1, scale=2),
        charged(2, before=price_units(2)),
        charged(3, before=price_units(2) + PRICE_30),
    )
    state = state_after(*before)
    released = 0
    for number, units in ((2, PRICE_30), (1, price_units(2)), (3, PRICE_30)):
        assert state.released_units == released
        state.apply(entry_after(state, Released(ticket=hash_of(number), answer=hash_of(77))))
        released += units
    assert state.released_units == state.charged_units == released


def test_a_shutdown_keeps_its_reason() -> None:
    """An operator's is told at once, one by the budget when the last answer is out."""
    assert state_after(*READY).shutdown_reason == ""
    assert state_after(*EXHAUSTED).shutdown_reason == ""
    assert state_after(*EXHAUSTED, BY_BUDGET).shutdown_reason == "budget"
    assert state_after(*SHUT, RELEASE, DELIVERY).shutdown_reason == "operator"


def test_the_paper_s_41_answers_and_then_the_shutdown() -> None:
    """At 80 % and scale 30, exactly 41 answers fit; the shutdown is then the only possible entry."""
    rules = policy(scales=(30,))
    state = state_after(*BEGINNING, adopted(rules), loaded())
    for number in range(41):
        assert not state.shut_down
        state.apply(entry_after(state, charged(number, before=number * PRICE_30)))
    assert state.answers == 41
    assert state.charged_units == 41 * PRICE_30 <= rules.cap < 42 * PRICE_30
    assert refusal(state, entry_after(state, charged(41, before=41 * PRICE_30))) == "SHUTDOWN_MISSING"
    state.apply(entry_after(state, BY_BUDGET))
    assert state.shut_down
    assert refusal(state, entry_after(state, charged(41, before=41 * PRICE_30))) == "CHARGE_AFTER_SHUTDOWN"


def test_answers_charged_before_a_shutdown_still_go_out() -> None:
    """Shutting down takes nothing away that was paid for."""
    state = state_after(*EXHAUSTED, BY_BUDGET, RELEASE, DELIVERY, loaded("load2"))
    assert state.shut_down
    assert state.tickets[hash_of(1)].delivered
    assert not state.unreleased
    assert not state.undelivered


def test_the_last_affordable_answer_may_be_cheaper_than_others() -> None:
    """As long as some admissible scale fits, the service stays open, and the dear one is refused."""
    state = state_after(*READY, charged(1, scale=1))
    assert refusal(state, entry_after(state, charged(2, before=PRICE_1, scale=2))) == "CAP_PASSED"
    state.apply(entry_after(state, charged(2, before=PRICE_1)))
    assert state.charged_units == UNITS_PER_NAT + PRICE_30


def test_the_life_of_a_ticket() -> None:
    """Charged, released, delivered: the state says at each point what is still owed."""
    state = state_after(*READY)
    assert (state.answers, state.next_slot, state.ticket_of_query(f"{1:032x}")) == (0, 0, None)
    state.apply(entry_after(state, charged(1)))
    ticket = state.tickets[hash_of(1)]
    assert (ticket.index, ticket.policy_hash, ticket.answer, ticket.delivered) == (6, policy().hash.hex(), "", False)
    assert ticket.charge == charged(1)
    assert (list(state.unreleased), list(state.undelivered)) == ([hash_of(1)], [])
    assert (state.charged_units, state.released_units) == (PRICE_30, 0)
    assert (state.next_slot, state.slot_is_used(1), state.slot_is_used(0)) == (2, True, False)
    assert state.ticket_of_query(f"{1:032x}") == hash_of(1)
    state.apply(entry_after(state, RELEASE))
    assert state.tickets[hash_of(1)].answer == hash_of(77)
    assert (list(state.unreleased), list(state.undelivered)) == ([], [hash_of(1)])
    assert (state.charged_units, state.released_units) == (PRICE_30, PRICE_30)
    state.apply(entry_after(state, DELIVERY))
    assert (list(state.unreleased), list(state.undelivered)) == ([], [])


def test_the_summary_says_what_start_up_compares() -> None:
    """Small and complete: size, time, policy, answers, charges, load, shutdown."""
    state = state_after(*SHUT)
    assert state.summary() == {
        "size": 8,
        "time_ms": 0,
        "policy": policy().hash.hex(),
        "answers": 1,
        "charged_units": PRICE_30,
        "load": "load1",
        "shut_down": 1,
    }
    assert (state.load, state.release, state.commitments) == ("load1", "2021", {"load1": hash_of(1)})


def test_replay_is_the_fold_of_apply() -> None:
    """`replay` stops at the first entry that breaks a rule and names it."""
    log: list[Entry] = []
    state = CensusState(root(CENSUS))
    for event in RELEASED:
        log.append(entry_after(state, event))
        state.apply(log[-1])
    again = replay(log, CensusState(root(CENSUS)))
    assert contents(again) == contents(state)
    with pytest.raises(ReplayError) as caught:
        replay([*log, log[-1]], CensusState(root(CENSUS)))
    assert (caught.value.code, caught.value.sequence) == ("SEQUENCE", 7)


def test_a_state_without_rules_of_its_own_cannot_be_made() -> None:
    """A log whose kind of event nobody judges is not replayed at all."""
    with pytest.raises(TypeError, match="_take"):
        type("Ruleless", (LogState,), {})()
