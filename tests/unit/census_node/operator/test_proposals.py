"""Proposals: a signed policy in a file, which nobody can alter, and what adopting it would mean."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fakes.logs import (
    POLICY_KEY,
    adopted,
    beginning,
    census_state,
    charged,
    confirmed,
    hash_of,
    loaded,
    policy,
    rostered,
    shut_down,
    slots,
)
from msgspec.structs import replace

from broker_common.crypto.signing import Purpose, SigningKey
from broker_common.errors import InvalidRequestError, RefusedError
from broker_common.privacy.accounting import price
from broker_common.privacy.policy import Policy
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import Entry, Event, Shutdown
from census_node.operator.proposals import (
    Change,
    Proposal,
    ProposalFolder,
    consequences,
    draft,
    make_proposal,
    verify_subject,
)

RULES = policy(max_belief="0.7")
KEY = POLICY_KEY.verify_key
PROPOSAL = make_proposal(RULES, POLICY_KEY)
NAME = RULES.hash.hex()


@pytest.fixture
def folder(tmp_path: Path) -> ProposalFolder:
    """A folder with one proposal in it."""
    made = ProposalFolder(tmp_path / "proposals")
    made.write(RULES, PROPOSAL)
    return made


def refusal(folder: ProposalFolder, named: str | Path) -> InvalidRequestError:
    """Error of looking for this."""
    with pytest.raises(InvalidRequestError) as caught:
        folder.find(str(named), [KEY])
    return caught.value


def take(state: CensusState, *events: Event) -> CensusState:
    """The state after some more events."""
    for event in events:
        state.apply(Entry(sequence=state.size, time_ms=0, policy=state.policy_hash, event=event))
    return state


# --- files -----------------------------------------------------------------------------------------------------------


def test_a_proposal_is_found_by_hash_by_its_beginning_and_by_file(folder: ProposalFolder) -> None:
    """All three mean the same signed policy, and writing it again changes nothing."""
    file = folder.write(RULES, PROPOSAL)
    assert [path.name for path in folder.path.iterdir()] == [f"{NAME}.json"]
    for named in (NAME, NAME[:8], NAME[:20], str(file)):
        assert folder.find(named, [KEY]) == PROPOSAL
    assert PROPOSAL.verify([KEY]) == RULES


def test_a_name_that_means_nothing_or_several_is_refused(folder: ProposalFolder) -> None:
    """Nothing is guessed, and the hint says what to give."""
    assert "too short" in refusal(folder, NAME[:7]).text
    assert "means no proposal" in refusal(folder, "0" * 64).text
    (folder.path / f"{NAME[:8]}{'0' * 56}.json").write_bytes(PROPOSAL.to_bytes())
    assert "means several proposals" in refusal(folder, NAME[:8]).text
    assert "no file that can be read" in refusal(folder, "no/such/file").text
    assert "no file that can be read" in refusal(folder, folder.path).text


def altered(**changes: Any) -> bytes:
    """The proposal's file with other values."""
    tree = json.loads(PROPOSAL.to_bytes()) | changes
    return json.dumps(tree, sort_keys=True, separators=(",", ":")).encode()


STRANGER = SigningKey(Purpose.POLICY, bytes(32))
FORGED: dict[str, tuple[bytes, str]] = {
    "another document": (altered(document=policy(max_belief="0.9").document.decode()), "BAD_SIGNATURE"),
    "another signature": (altered(signature=POLICY_KEY.sign_text(b"x")), "BAD_SIGNATURE"),
    "another spelling of the signature": (altered(signature=PROPOSAL.signature + "\n"), "BAD_SIGNATURE"),
    "signed by another key": (make_proposal(RULES, STRANGER).to_bytes(), "INVALID_VALUE"),
    "signed by another key under our name": (
        altered(signature=make_proposal(RULES, STRANGER).signature),
        "BAD_SIGNATURE",
    ),
    "our document under another name": (altered(key_id=STRANGER.key_id), "INVALID_VALUE"),
    "signed, and no policy": (altered(document="{}", signature=POLICY_KEY.sign_text(b"{}")), "INVALID_VALUE"),
    "signed, and not canonical": (
        altered(document=RULES.document.decode() + " ", signature=POLICY_KEY.sign_text(RULES.document + b" ")),
        "INVALID_VALUE",
    ),
    "other white space": (PROPOSAL.to_bytes() + b"\n", "INVALID_VALUE"),
    "unknown field": (altered(extra=1), "INVALID_VALUE"),
    "half": (PROPOSAL.to_bytes()[:-9], "INVALID_VALUE"),
    "nothing": (b"", "INVALID_VALUE"),
    "not text": (b"\xff\xfe", "INVALID_VALUE"),
    "endless": (PROPOSAL.to_bytes() + b" " * 100_000, "INVALID_VALUE"),
}


@pytest.mark.parametrize("case", FORGED)
def test_an_altered_proposal_is_refused(folder: ProposalFolder, tmp_path: Path, case: str) -> None:
    """It is refused by hash and by file alike, before the log is touched."""
    data, code = FORGED[case]
    assert data != PROPOSAL.to_bytes()
    (folder.path / f"{NAME}.json").write_bytes(data)
    (tmp_path / "proposal.json").write_bytes(data)
    assert refusal(folder, NAME).code == code
    assert refusal(folder, tmp_path / "proposal.json").code == code


def test_a_hash_never_stands_for_another_signed_policy(folder: ProposalFolder) -> None:
    """An older proposal of the same agency, put in the place of a newer one, is noticed."""
    other = make_proposal(policy(max_belief="0.75"), POLICY_KEY)
    (folder.path / f"{NAME}.json").write_bytes(other.to_bytes())
    assert "holds another policy than its name says" in refusal(folder, NAME).text


def test_a_proposal_survives_its_file(folder: ProposalFolder) -> None:
    """A policy of the greatest length is read back as well."""
    rules = policy(scales=tuple(range(999_001, 1_000_001)))
    proposal = make_proposal(rules, POLICY_KEY)
    folder.write(rules, proposal)
    assert folder.find(rules.hash.hex(), [KEY]) == proposal
    assert Proposal(**json.loads(proposal.to_bytes())) == proposal


# --- drafts ----------------------------------------------------------------------------------------------------------


def test_a_draft_differs_in_what_was_asked_for() -> None:
    """From the policy in force or from a document in any spelling, and from nothing else."""
    spelled = json.dumps(json.loads(policy().document), indent=2).encode()
    for base in (policy(), spelled):
        assert draft(base, {}) == policy()
        assert draft(base, {"max_belief": "0.7"}) == RULES
        assert draft(base, {"scales": (10, 20), "open_quotes": 7}) == policy(scales=(10, 20), open_quotes=7)


@pytest.mark.parametrize(
    "changes",
    [
        {"max_belief": "1"},
        {"scales": ()},
        {"scales": (30, 1)},
        {"open_quotes": 0},
        {"max_answers": -1},
        {"accounting": "strict", "subject": "household"},
        {"max_belief": "0.51", "scales": (1,)},
    ],
)
def test_a_draft_that_is_no_policy_is_refused(changes: dict[str, Any]) -> None:
    """Before anything is signed."""
    with pytest.raises(InvalidRequestError, match="INVALID_VALUE"):
        draft(policy(), changes)


@pytest.mark.parametrize("base", [b"", b"[]", b"\xff", b"{}", policy().document[:-1] + b',"extra":1}'])
def test_a_draft_from_something_else_is_refused(base: bytes) -> None:
    """The file is named, and what is wrong with it."""
    with pytest.raises(InvalidRequestError) as caught:
        draft(base, {})
    assert "--from does not hold a policy" in caught.value.text


# --- consequences ----------------------------------------------------------------------------------------------------


def ready(answers: int = 0) -> CensusState:
    """A service that has charged so many answers at scale 30."""
    charges = [charged(number, before=number * price(30)) for number in range(answers)]
    return take(census_state(), *beginning(), adopted(), loaded(), rostered(), slots(), *charges)


def test_changes_are_listed_as_they_were_and_as_they_would_be() -> None:
    """In the policy's own order; what stays is not named."""
    meaning = consequences(policy(max_belief="0.7", open_quotes=9), ready())
    assert meaning.changes == [Change("max_belief", "0.8", "0.7"), Change("open_quotes", 4, 9)]
    assert (meaning.weaker, meaning.fits, meaning.is_shut, meaning.shuts_down) == ((), True, False, False)


def test_the_first_policy_changes_everything_and_weakens_nothing() -> None:
    """Without one in force there is nothing to compare with."""
    meaning = consequences(policy(), take(census_state(), *beginning()))
    assert {change.old for change in meaning.changes} == {None}
    assert [change.setting for change in meaning.changes] == list(policy().__struct_fields__)
    assert meaning.weaker == ()


@pytest.mark.parametrize(
    ("answers", "left", "shuts_down"), [(0, 25, False), (24, 1, False), (25, 0, True), (40, 0, True)]
)
def test_what_is_left_counts_what_was_charged(answers: int, left: int, shuts_down: bool) -> None:
    """ln(0.7/0.3) pays for 25 answers at scale 30; when they are charged, adopting shuts the service down."""
    meaning = consequences(policy(max_belief="0.7", scales=(30,)), ready(answers))
    assert (meaning.answers_left, meaning.shuts_down) == (left, shuts_down)
    assert meaning.charged_units == answers * price(30)


def test_a_service_that_is_shut_is_not_shut_down_again() -> None:
    """It is said whether it could be reopened."""
    state = ready(40)
    take(state, shut_down(state))
    for rules, fits in ((policy(max_belief="0.7"), False), (policy(max_belief="0.9"), True)):
        meaning = consequences(rules, state)
        assert (meaning.is_shut, meaning.fits, meaning.shuts_down) == (True, fits, False)


def test_what_weakens_is_said() -> None:
    """Against the policy in force, not against the first one."""
    state = ready()
    assert len(consequences(policy(max_belief="0.9"), state).weaker) == 1
    take(state, confirmed(state, policy(max_belief="0.9")))
    assert consequences(policy(max_belief="0.85"), state).weaker == ()


PERSONS = policy(accounting="per_person")


def after_persons(answers: int) -> CensusState:
    """A service that has charged so many answers at scale 1 to the people of their samples."""
    state = take(census_state(), *beginning(), adopted(PERSONS), loaded(), rostered(), slots())
    for number in range(answers):
        take(state, charged(number, before=state.charged_units, scale=1, ledger=hash_of(5)))
    return state


def test_per_person_accounting_has_no_number_of_answers_left() -> None:
    """It differs from person to person. The charges of strict accounting are shown: everybody starts from them."""
    meaning = consequences(PERSONS, ready(7))
    assert (meaning.answers_left, meaning.charged_units, meaning.fits) == (None, 7 * price(30), True)
    assert len(meaning.weaker) == 1
    other = consequences(policy(accounting="per_person", open_quotes=9), after_persons(3))
    assert (other.answers_left, other.charged_units) == (None, 0)


def test_strict_accounting_after_persons_is_told_to_count_everything() -> None:
    """Its proposer sees that it would shut the service down, before it does."""
    meaning = consequences(policy(), after_persons(2))
    assert (meaning.charged_units, meaning.answers_left) == (2 * price(1), 0)
    assert (meaning.fits, meaning.shuts_down, meaning.weaker) == (False, True, ())
    assert meaning.warnings[0].startswith("what has been charged passes this cap already")


@pytest.mark.parametrize(
    ("accounting", "most", "left", "shuts_down"),
    [
        ("strict", 5, 2, False),
        ("strict", 3, 0, True),
        ("strict", 99, 38, False),
        ("per_person", 4, None, False),
        ("per_person", 2, None, True),
    ],
)
def test_a_number_of_answers_counts_those_that_were_given(
    accounting: str, most: int, left: int | None, shuts_down: bool
) -> None:
    """Under both ways of accounting; what the budget pays for is no more than what is allowed."""
    meaning = consequences(policy(accounting=accounting, scales=(30,), max_answers=most), ready(3))
    assert (meaning.answers_left, meaning.shuts_down) == (left, shuts_down)


def test_samples_that_no_audit_can_see_are_warned_of() -> None:
    """Where persons are charged, an audit on site takes the samples; strict accounting needs none."""
    brief: dict[str, Any] = {"sample_retention_ms": 3_600_000}
    for rules, count in ((policy(accounting="per_person", **brief), 1), (policy(**brief), 0), (PERSONS, 0)):
        warnings = consequences(rules, ready()).warnings
        assert sum("who was in a sample is erased 3600 s after its charge" in warning for warning in warnings) == count


HOUSEHOLDS = policy(accounting="per_person", subject="household", scales=(1, 2, 3, 30))


@pytest.mark.parametrize("state", [ready(1), after_persons(3)], ids=["strict", "persons"])
def test_another_subject_after_the_first_answer_is_refused_before_it_is_signed(state: CensusState) -> None:
    """The log's rules would never let it be adopted; before that answer they do."""
    with pytest.raises(RefusedError) as caught:
        verify_subject(HOUSEHOLDS, state)
    assert (caught.value.code, caught.value.details) == ("SUBJECT_FIXED", {"subject": "person"})
    for rules, begun in ((PERSONS, state), (HOUSEHOLDS, ready())):
        verify_subject(rules, begun)
        take(begun, confirmed(begun, rules) if consequences(rules, begun).weaker else adopted(rules))


def test_a_household_budget_under_strict_accounting_is_told_what_to_add() -> None:
    """Not the command that is being run."""
    with pytest.raises(InvalidRequestError) as caught:
        draft(policy(), {"subject": "household"})
    assert caught.value.text[0].isupper()
    assert "--accounting per_person" in caught.value.hint
    assert draft(policy(), {"subject": "household", "accounting": "per_person"}).subject == "household"


@pytest.mark.parametrize(
    ("rules", "state", "warned"),
    [
        (HOUSEHOLDS, ready(), ["2 or more people, up to scale 1; 3 or more people, up to scale 2; 5 or"]),
        (replace(HOUSEHOLDS, scales=(4, 30)), ready(), ["holds 6 or more people, up to scale 4"]),
        (replace(HOUSEHOLDS, scales=(30,)), ready(), []),
        (PERSONS, after_persons(1), []),
    ],
)
def test_a_household_budget_says_whom_it_does_not_protect_and_who_is_never_counted(
    rules: Policy, state: CensusState, warned: list[str]
) -> None:
    """The cap pays for one answer at scale 1, two at scale 2, four at scale 3; a household is charged for all its people."""
    warnings = [warning for warning in consequences(rules, state).warnings if "household" in warning]
    if rules.subject == "household":
        assert "about somebody who moves" in warnings.pop(0)
    assert len(warnings) == len(warned)
    assert all(part in warning for part, warning in zip(warned, warnings, strict=True))


def test_an_exhausted_service_counts_nothing_left() -> None:
    """Charges beyond a lowered cap leave nothing, and no negative number."""
    state = take(ready(30), adopted(policy(max_belief="0.6", scales=(30,))), Shutdown(reason="budget", note=""))
    meaning = consequences(policy(max_belief="0.55", scales=(30,)), state)
    assert meaning.answers_left == 0
    assert meaning.warnings[0].startswith("what has been charged passes this cap already")


SLOW = {"release_tick_ms": 250, "forward_delay_ms": 250}


@pytest.mark.parametrize(
    ("changes", "warned"),
    [
        ({}, []),
        ({"release_tick_ms": 500, "forward_delay_ms": 300}, []),
        ({"release_tick_ms": 0}, ["release tick 0"]),
    ],
)
def test_what_timing_could_tell_is_warned_of(changes: dict[str, Any], warned: list[str]) -> None:
    """Tick 0 voids whatever else is set: it is not passed over in silence."""
    state = take(census_state(), *beginning(), adopted(policy(**SLOW)))
    warnings = consequences(policy(**SLOW | changes), state).warnings
    assert [next(word for word in warned if word in sentence) for sentence in warnings] == warned


@pytest.mark.parametrize(
    ("changes", "weaker"),
    [
        ({}, []),
        ({"release_tick_ms": 500, "forward_delay_ms": 300}, []),
        ({"release_tick_ms": 249}, ["release_tick_ms from 250 to 249"]),
        (
            {"forward_delay_ms": 100, "release_tick_ms": 200},
            ["forward_delay_ms from 250 to 100", "release_tick_ms from 250 to 200"],
        ),
        ({"release_tick_ms": 0}, ["release_tick_ms from 250 to 0"]),
        # Longer times elsewhere make up for nothing.
        ({"release_tick_ms": 249, "forward_delay_ms": 9000}, ["release_tick_ms from 250 to 249"]),
    ],
)
def test_shorter_delays_weaken(changes: dict[str, Any], weaker: list[str]) -> None:
    """Each by name, with what it was and would be."""
    state = take(census_state(), *beginning(), adopted(policy(**SLOW)))
    found = consequences(policy(**SLOW | changes), state).weaker
    assert [sentence.removeprefix("it shortens ").partition(":")[0] for sentence in found] == weaker
