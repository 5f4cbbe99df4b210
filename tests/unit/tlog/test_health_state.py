"""The health log's rules: for each one, an entry that breaks exactly it is refused and changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pytest
from fakes.logs import (
    ALICE,
    CENSUS,
    DICTIONARY,
    HEALTH,
    adopted,
    beginning,
    chain_of,
    charged,
    contents,
    cosigned_note,
    dictionary_adopted,
    hash_of,
    loaded,
    opened,
    relinked,
    revoked,
    root,
    rostered,
    signed_refusal,
    slots,
    submitted,
)

from broker_common.tlog.entries import (
    Delivered,
    Entry,
    Event,
    Forwarded,
    Refused,
    Released,
    ReportedCharge,
    Settled,
    Shutdown,
)
from broker_common.tlog.health_state import HealthState
from broker_common.tlog.replay import FIRST_FORMAT, FORMAT_VERSION, ReplayError, StoreState

TICKET = hash_of(1)
FORWARD = Forwarded(ticket=TICKET, roster=1, manifest=hash_of(8))
CHARGE = ReportedCharge(ticket=TICKET, log_index=3, checkpoint="a note")
SETTLED = Settled(ticket=TICKET)
# Refusals by the health agency itself, before anything was handed over; and by the census agency.
WITHDRAWN = Refused(ticket=TICKET, code="ROSTER_NOT_IN_FORCE")
REFUSED = signed_refusal(FORWARD, "SERVICE_SHUT_DOWN")
# A refusal's fields about another ticket or sample.
OTHERWISE: tuple[dict[str, Any], ...] = (
    {"ticket": hash_of(2)},
    {"manifest": hash_of(2)},
    {"roster": 2},
    {"researcher": "bob"},
    {"project": "other"},
    {"health": "health-x"},
)

BEGINNING = beginning("health")
READY: tuple[Event, ...] = (*BEGINNING, loaded())
# A log of the first format, before any dictionary is adopted.
OLD: tuple[Event, ...] = (opened("health", format=FIRST_FORMAT), *BEGINNING[1:-1])
NEXT = replace(DICTIONARY, version=2, id_form="digits")
RELINKED: tuple[Event, ...] = (*READY, relinked())
ACCEPTED: tuple[Event, ...] = (*READY, rostered(), submitted(1))
FORWARDED: tuple[Event, ...] = (*ACCEPTED, FORWARD)
CHARGED: tuple[Event, ...] = (*FORWARDED, CHARGE)


def state_after(*events: Event) -> HealthState:
    """The state that the events lead to."""
    state = HealthState(root(HEALTH))
    for event in events:
        state.apply(entry_after(state, event))
    return state


def entry_after(state: HealthState, event: Event, **changes: Any) -> Entry:
    """The next entry of a log in this state."""
    fields: dict[str, Any] = {"sequence": state.size, "time_ms": state.time_ms, "policy": ""}
    return Entry(**fields | changes, event=event)


def refusal(state: HealthState, entry: Entry) -> str:
    """The code of the rule that the entry breaks; the state must be as before."""
    before = contents(state)
    with pytest.raises(ReplayError) as caught:
        state.apply(entry)
    assert contents(state) == before
    return caught.value.code


@dataclass(frozen=True)
class Breach:
    """After these events, this one breaks the rule of this code, and no rule checked before it."""

    code: str
    after: Sequence[Event]
    event: Event


CLOSINGS: tuple[tuple[Event, ...], ...] = ((*CHARGED, SETTLED), (*FORWARDED, REFUSED), (*ACCEPTED, WITHDRAWN))
BREACHES = [
    Breach("OPENING", (), submitted(1)),
    Breach("OPENING", READY, opened("health")),
    Breach("OTHER_LOG", (), opened("census")),
    *(
        Breach("OTHER_LOG", CHARGED, event)
        for event in (
            adopted(),
            charged(1),
            Released(ticket=TICKET, answer=hash_of(2), checkpoint=cosigned_note(1)),
            slots(),
            Delivered(ticket=TICKET, by="inbox"),
            Shutdown(reason="operator", note=""),
        )
    ),
    Breach("FORMAT", (), opened("health", format=FIRST_FORMAT - 1)),
    Breach("FORMAT", (), opened("health", format=FORMAT_VERSION + 1)),
    Breach("LOAD_REPEATED", READY, loaded()),
    Breach("LOAD_REPEATED", (*READY, loaded("load2")), loaded()),
    Breach("LOAD_REPEATED", RELINKED, loaded(linkage=chain_of(2))),
    Breach("LOAD_REPEATED", RELINKED, relinked(previous=chain_of(2), linkage=chain_of(3))),
    Breach("LINKAGE", READY, loaded("load2", linkage=chain_of(2))),
    # A load that began before the key was changed and ended afterwards.
    Breach("LINKAGE", RELINKED, loaded("load3")),
    Breach("LINKAGE_PREVIOUS", (opened("health"),), relinked()),
    Breach("LINKAGE_PREVIOUS", READY, relinked(previous=chain_of(3))),
    Breach("DICTIONARY_UNSIGNED", BEGINNING, dictionary_adopted(own=CENSUS)),
    Breach("DICTIONARY_UNSIGNED", BEGINNING, dictionary_adopted(own=HEALTH, version=2)),
    Breach("DICTIONARY_NOT_ADOPTED", BEGINNING, loaded(dictionary=hash_of(3))),
    Breach("DICTIONARY_NOT_ADOPTED", (*BEGINNING, dictionary_adopted(NEXT, own=HEALTH)), loaded()),
    Breach("DICTIONARY_NOT_ADOPTED", (*OLD, loaded()), dictionary_adopted(NEXT, own=HEALTH)),
    Breach("FORMAT", BEGINNING, dictionary_adopted(NEXT, own=HEALTH, format=7)),
    Breach("FORMAT", BEGINNING, dictionary_adopted(NEXT, own=HEALTH, format=9)),
    Breach("DICTIONARY_UNSIGNED", BEGINNING, dictionary_adopted(own=HEALTH, document=hash_of(3))),
    Breach("DICTIONARY_UNSIGNED", BEGINNING, dictionary_adopted(own=HEALTH, signature="")),
    Breach(
        "DICTIONARY_OLD",
        (*BEGINNING, dictionary_adopted(replace(DICTIONARY, version=2), own=HEALTH)),
        dictionary_adopted(own=HEALTH),
    ),
    Breach(
        "DICTIONARY_OLD",
        (*BEGINNING, dictionary_adopted(own=HEALTH)),
        dictionary_adopted(replace(DICTIONARY, id_form="digits"), own=HEALTH),
    ),
    Breach("LINKAGE_PREVIOUS", RELINKED, relinked("load3", linkage=chain_of(3))),
    Breach("LINKAGE_REPEATED", READY, relinked(linkage=chain_of(1))),
    Breach("LINKAGE_REPEATED", RELINKED, relinked("load3", previous=chain_of(2), linkage=chain_of(1))),
    Breach("ROSTER_NUMBER", (*READY, rostered(2)), rostered(2)),
    Breach("ROSTER_NUMBER", (*READY, rostered(2)), rostered(1)),
    Breach("ROSTER_LINKAGE", BEGINNING, rostered()),
    Breach("ROSTER_LINKAGE", RELINKED, rostered()),
    Breach("NOT_REGISTERED", READY, rostered(health="health-qc")),
    Breach("LOAD", RELINKED, submitted(1)),
    Breach("LOAD", READY, submitted(1, load="load2")),
    Breach("LOAD", BEGINNING, submitted(1, load="")),
    Breach("NOT_REGISTERED", READY, submitted(1, researcher="mallory")),
    # A name of the other role's is nobody's.
    Breach("NOT_REGISTERED", READY, submitted(1, researcher="census-ca")),
    Breach("NOT_REGISTERED", (*READY, revoked(ALICE)), submitted(1)),
    Breach("TICKET_REPEATED", ACCEPTED, submitted(2, ticket=TICKET)),
    Breach("TICKET_REPEATED", (*ACCEPTED, WITHDRAWN), submitted(2, ticket=TICKET)),
    Breach("QUERY_REUSED", ACCEPTED, submitted(2, query=f"{1:032x}")),
    *(Breach("UNKNOWN_TICKET", READY, event) for event in (FORWARD, CHARGE, SETTLED, REFUSED)),
    *(Breach("TICKET_CLOSED", after, event) for after in CLOSINGS for event in (FORWARD, CHARGE, SETTLED, REFUSED)),
    Breach("FORWARDED_TWICE", FORWARDED, FORWARD),
    Breach("FORWARDED_TWICE", CHARGED, FORWARD),
    Breach("FORWARDED_ROSTER", (*READY, submitted(1)), FORWARD),
    Breach("FORWARDED_ROSTER", ACCEPTED, Forwarded(ticket=TICKET, roster=2, manifest=hash_of(8))),
    Breach("CHARGE_WITHOUT_SAMPLE", ACCEPTED, CHARGE),
    Breach("SETTLED_WITHOUT_CHARGE", FORWARDED, SETTLED),
    Breach("REFUSED_AFTER_CHARGE", CHARGED, REFUSED),
    Breach("REFUSAL_UNSIGNED", FORWARDED, WITHDRAWN),
    Breach("REFUSAL_UNSIGNED", FORWARDED, msgspec.structs.replace(REFUSED, signature="", key_id="", refusal="")),
    Breach("REFUSAL_UNSIGNED", ACCEPTED, REFUSED),
    Breach("REFUSAL_DIFFERS", FORWARDED, msgspec.structs.replace(REFUSED, refusal="{}")),
    Breach("REFUSAL_DIFFERS", FORWARDED, msgspec.structs.replace(REFUSED, refusal=REFUSED.refusal + " ")),
    Breach("REFUSAL_DIFFERS", FORWARDED, msgspec.structs.replace(REFUSED, code="BUDGET_EXHAUSTED")),
    *(
        Breach("REFUSAL_DIFFERS", FORWARDED, signed_refusal(FORWARD, "SERVICE_SHUT_DOWN", **other))
        for other in OTHERWISE
    ),
]


def test_an_entry_that_breaks_a_rule_is_refused_and_changes_nothing() -> None:
    """Each rule of the health log, broken alone, is named by its own code."""
    wrong = []
    for breach in BREACHES:
        state = state_after(*breach.after)
        if (found := refusal(state, entry_after(state, breach.event))) != breach.code:
            wrong.append((breach, found))
    assert wrong == []


def test_every_rule_has_a_breach() -> None:
    """The table above names every code that the health log's own source can raise."""
    codes = {
        constant
        for method in (*vars(HealthState).values(), *vars(StoreState).values())
        if hasattr(method, "__code__")
        for constant in method.__code__.co_consts
        if isinstance(constant, str) and constant.isupper()
    }
    assert codes <= {breach.code for breach in BREACHES}
    assert len(codes) == 24


def test_a_health_log_names_no_policy() -> None:
    """Policies are the census agency's; an entry that claims one is refused."""
    state = state_after(*READY)
    assert refusal(state, entry_after(state, submitted(1), policy=hash_of(3))) == "POLICY"
    assert refusal(state, entry_after(state, submitted(1), sequence=7)) == "SEQUENCE"


def test_time_never_runs_backwards() -> None:
    """As in every log."""
    state = state_after(*READY)
    state.apply(entry_after(state, submitted(1), time_ms=50))
    assert refusal(state, entry_after(state, FORWARD, time_ms=49)) == "TIME_BACKWARDS"


def test_the_life_of_a_ticket() -> None:
    """Accepted, forwarded, charged, settled: open until the end, and known for ever."""
    state = state_after(*FORWARDED)
    assert (state.tickets[TICKET].manifest, state.tickets[TICKET].roster) == (FORWARD.manifest, 1)
    assert state.tickets[TICKET].is_open
    assert list(state.open_tickets) == [TICKET]
    assert state.ticket_of_query(f"{1:032x}") == TICKET
    assert state.ticket_of_query(f"{2:032x}") is None
    state.apply(entry_after(state, CHARGE))
    assert state.tickets[TICKET].charged
    state.apply(entry_after(state, SETTLED))
    assert state.tickets[TICKET].settled
    assert not state.tickets[TICKET].is_open
    assert not state.open_tickets


@pytest.mark.parametrize(("before", "refused"), [(ACCEPTED, WITHDRAWN), (FORWARDED, REFUSED)])
def test_a_ticket_may_end_without_an_answer(before: Sequence[Event], refused: Refused) -> None:
    """The health agency's own word ends it before a sample was sent, the census agency's signed one after that."""
    state = state_after(*before, refused)
    ticket = state.tickets[TICKET]
    assert (ticket.refused, ticket.is_open) == (refused.code, False)
    assert not state.open_tickets


def test_a_sample_may_be_of_an_older_roster_that_was_numbered() -> None:
    """A question of an earlier load, whose roster is still in force at the census agency."""
    state = state_after(*ACCEPTED, rostered(2))
    state.apply(entry_after(state, FORWARD))
    assert state.tickets[TICKET].roster == 1


def test_a_charged_ticket_stays_open_until_its_answer_is_out() -> None:
    """It was paid for: no expiry, no reload and no later refusal closes it."""
    state = state_after(*CHARGED, loaded("load2"))
    assert refusal(state, entry_after(state, REFUSED)) == "REFUSED_AFTER_CHARGE"
    assert list(state.open_tickets) == [TICKET]
    state.apply(entry_after(state, SETTLED))
    assert not state.open_tickets


def test_every_load_is_remembered() -> None:
    """Open tickets may need an older one; no id of a load ever serves twice, in force or not."""
    state = state_after(*READY, loaded("load2", release="2026", commitment=hash_of(2)))
    assert state.commitments == {"load1": hash_of(1), "load2": hash_of(2)}
    assert (state.load, state.release) == ("load2", "2026")
    assert refusal(state, entry_after(state, loaded("load1"))) == "LOAD_REPEATED"


def test_the_summary_says_what_start_up_compares() -> None:
    """Size, time, load and tickets."""
    state = state_after(*CHARGED)
    assert state.summary() == {"size": 10, "time_ms": 0, "policy": "", "load": "load1", "tickets": 1}
    assert (state.release, state.commitments) == ("2021", {"load1": hash_of(1)})


def test_a_ticket_keeps_the_chain_that_it_was_accepted_under() -> None:
    """The log says of every load, old ones included, which chain its pseudonyms come from; the release stays."""
    state = state_after(*ACCEPTED, relinked())
    assert (state.load, state.linkage, state.release) == ("load2", chain_of(2), "2021")
    assert state.linkages[state.tickets[TICKET].submission.load] == chain_of(1)
    assert state.commitments == {"load1": hash_of(1), "load2": hash_of(6)}


def test_the_next_load_comes_under_the_new_chain() -> None:
    """A load after a change of the key carries the new chain, and keys may change again."""
    state = state_after(*RELINKED, loaded("load3", linkage=chain_of(2)))
    assert (state.load, state.linkage) == ("load3", chain_of(2))
    state.apply(entry_after(state, relinked("load4", previous=chain_of(2), linkage=chain_of(3))))
    assert state.linkage == chain_of(3)
