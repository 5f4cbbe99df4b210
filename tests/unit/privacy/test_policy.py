"""Policies: one document, one hash, and no rule that contradicts itself."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import pytest
from fakes.logs import POLICY_KEY, policy
from hypothesis import given
from hypothesis import strategies as st

from broker_common.crypto.signing import Purpose, SigningKey
from broker_common.errors import InvalidRequestError
from broker_common.privacy.accounting import UNITS_PER_NAT
from broker_common.privacy.policy import (
    MAX_POLICY_BYTES,
    Policy,
    parse_policy,
    parse_signed_policy,
    verify_linkage,
    verify_policy,
)
from broker_common.values import Linkage

DOCUMENT = policy().document


def problem(document: bytes) -> str:
    """Error about a document."""
    with pytest.raises(InvalidRequestError) as caught:
        parse_policy(document)
    assert caught.value.code == "INVALID_VALUE"
    return caught.value.details["problem"]


def respelled(change: Callable[[dict[str, Any]], Any], **options: Any) -> bytes:
    """The document with its JSON tree changed, written canonically unless told otherwise."""
    tree = json.loads(DOCUMENT)
    change(tree)
    canonical: dict[str, Any] = {"sort_keys": True, "separators": (",", ":")}
    return json.dumps(tree, **canonical | options).encode()


def with_fields(**changes: Any) -> bytes:
    """The document with other values."""
    return respelled(lambda tree: tree.update(changes))


policies = st.builds(
    lambda digits, **fields: policy(max_belief=f"0.{digits}", **fields),
    digits=st.integers(60, 99),
    scales=st.sets(st.integers(3, 1000), min_size=1, max_size=20).map(lambda scales: tuple(sorted(scales))),
    forward_delay_ms=st.integers(0, 86_400_000),
    open_quotes=st.integers(1, 10_000),
    release_tick_ms=st.integers(0, 86_400_000),
)


@given(rules=policies)
def test_a_policy_survives_its_document(rules: Policy) -> None:
    """Every node reads what the agency wrote, and the bytes name it."""
    assert parse_policy(rules.document) == rules
    assert rules.hash == hashlib.sha256(rules.document).digest()


@given(rules=policies)
def test_the_document_is_what_any_canonical_json_writer_makes(rules: Policy) -> None:
    """Sorted keys, no white space: an auditor needs no library of ours."""
    written = json.dumps(json.loads(rules.document), sort_keys=True, separators=(",", ":")).encode()
    assert written == rules.document


@given(one=policies, other=policies)
def test_different_policies_have_different_hashes(one: Policy, other: Policy) -> None:
    """A hash names one set of rules."""
    assert (one.hash == other.hash) == (one == other)


def test_the_paper_s_cap() -> None:
    """At 80 % the odds may move by 4, so the budget is floor(ln 4 * 2^24) units, recomputed with decimals."""
    with localcontext() as context:
        context.prec = 60
        expected = math.floor(Decimal(4).ln() * UNITS_PER_NAT)
    assert policy().param == Fraction(4)
    assert policy().cap == expected == 23_258_159
    assert policy(max_belief="0.800").cap == expected
    assert policy(max_belief="0.8").hash != policy(max_belief="0.80").hash


OTHER_SPELLINGS = {
    "spaces": respelled(lambda _: None, separators=(", ", ": ")),
    "keys in another order": respelled(lambda tree: tree.update(accounting=tree.pop("accounting")), sort_keys=False),
    "newline at the end": DOCUMENT + b"\n",
    "duplicate key": DOCUMENT.replace(b'"format":6', b'"format":6,"format":6'),
    "default left out": respelled(lambda tree: tree.pop("format")),
    "escaped letter": DOCUMENT.replace(b'"strict"', b'"\\u0073trict"'),
}


@pytest.mark.parametrize("document", OTHER_SPELLINGS.values(), ids=list(OTHER_SPELLINGS))
def test_another_spelling_is_refused(document: bytes) -> None:
    """The same rules under two hashes would be two policies."""
    assert document != DOCUMENT
    assert problem(document) == "is not in canonical form"


WRONG = {
    "float": DOCUMENT.replace(b'"format":6', b'"format":6.0'),
    "exponent": DOCUMENT.replace(b'"format":6', b'"format":6e0'),
    "nothing": b"",
    "not JSON": b"\xff",
    "a list": b"[]",
    "half": DOCUMENT[:-9],
    "deep nesting": b"[" * 30_000,
    "broken UTF-8": DOCUMENT.replace(b"strict", b"str\xffct"),
    "unknown field": with_fields(extra=1),
    "missing field": respelled(lambda tree: tree.pop("max_belief")),
    "the format before": with_fields(format=4),
    "a format to come": with_fields(format=7),
    "another linkage": with_fields(linkage="by name"),
    "more than everybody declared": with_fields(declared_linked_percent=101),
    "less than nobody declared": with_fields(declared_linked_percent=-1),
    "another accounting": with_fields(accounting="none"),
    "another subject": with_fields(subject="province"),
    "number as text": with_fields(open_quotes="4"),
    "no scales": with_fields(scales=[]),
    "scale 0": with_fields(scales=[0, 30]),
    "negative scale": with_fields(scales=[-30]),
    "scale that is no integer": with_fields(scales=[30.5]),
    "scale beyond its limit": with_fields(scales=[1_000_001]),
    "too many scales": with_fields(scales=list(range(2, 1003))),
    "negative delay": with_fields(release_tick_ms=-1),
    "delay beyond a day": with_fields(forward_delay_ms=86_400_001),
    "quote of no length": with_fields(quote_lifetime_ms=999),
    "no open quotes": with_fields(open_quotes=0),
    "a field of the format before": with_fields(answer_delay_ms=0),
    "another one": with_fields(max_sample=1_000_000),
    "answers gone at once": with_fields(answer_retention_ms=59_999),
    "negative number of answers": with_fields(max_answers=-1),
    "answers beyond 32 bits": with_fields(max_answers=2**32),
    "negative quota": with_fields(researcher_answers=-1),
    "quota beyond 32 bits": with_fields(researcher_answers=2**32),
    "samples kept for ever": with_fields(sample_retention_ms=10 * 366 * 86_400_000 + 1),
    "samples gone before they came": with_fields(sample_retention_ms=-1),
}


@pytest.mark.parametrize("document", WRONG.values(), ids=list(WRONG))
def test_a_document_with_a_wrong_field_is_refused(document: bytes) -> None:
    """Unknown, missing or out of its limits: nothing is guessed."""
    assert problem(document).startswith("cannot be read (")


@pytest.mark.parametrize(
    "max_belief", ["0.5", "1", "1.0", "0.4", "0.50", ".8", "80%", "8e-1", "-0.8", " 0.8", "0.8\n", "", "0,8", "4/5"]
)
def test_a_limit_on_belief_that_is_no_limit_is_refused(max_belief: str) -> None:
    """Only an exact decimal strictly between 1/2 and 1 limits anything."""
    assert "decimal above 0.5 and below 1" in problem(with_fields(max_belief=max_belief))


def test_a_limit_that_a_ledger_could_not_count_is_refused() -> None:
    """Budgets near 128 nat would wrap 32-bit ledgers."""
    assert "budget reaches 127 nat" in problem(with_fields(max_belief="0." + "9" * 62))


@pytest.mark.parametrize("scales", [[30, 2], [2, 2], [1, 30, 2], [30, 30]])
def test_unsorted_or_repeated_scales_are_refused(scales: list[int]) -> None:
    """One list of scales has one spelling."""
    assert problem(with_fields(scales=scales)) == "lists scales that are not ascending and distinct"


def test_scales_that_the_cap_cannot_pay_are_refused() -> None:
    """A policy under which no answer can ever be given is a mistake, not a policy; one that pays once is allowed."""
    # ln(0.51 / 0.49) is 0.0400: scale 25 costs 0.04 nat, rounded up; scale 24 does not fit.
    assert problem(with_fields(max_belief="0.51", scales=[1, 24])) == "admits no scale that its own cap pays for"
    assert parse_policy(with_fields(max_belief="0.51", scales=[1, 25])).scales == (1, 25)


def test_a_unit_is_named_where_it_means_something() -> None:
    """Strict accounting charges everyone alike: a policy that promised households more would promise nothing."""
    assert "strict accounting charges everyone alike" in problem(with_fields(subject="household"))
    for subject in ("person", "household"):
        assert parse_policy(with_fields(accounting="per_person", subject=subject)).subject == subject


def test_an_endless_document_is_refused_unread() -> None:
    """The limit counts before anything is parsed."""
    assert problem(DOCUMENT + b" " * (MAX_POLICY_BYTES - len(DOCUMENT) + 1)) == "is too long"
    assert problem(DOCUMENT + b" " * (MAX_POLICY_BYTES - len(DOCUMENT))) == "is not in canonical form"


def test_a_policy_made_in_code_is_held_to_the_same_rules() -> None:
    """Constructing checks nothing; verifying does."""
    verify_policy(policy())
    for rules in (policy(scales=(30, 1)), policy(max_belief="1.5")):
        with pytest.raises(InvalidRequestError):
            verify_policy(rules)


@pytest.mark.parametrize(
    ("rules", "options"),
    [
        ({"linkage": "household", "subject": "person"}, ("--subject household", "--linkage")),
        ({"linkage": "household", "subject": "household", "accounting": "strict"}, ("--accounting per_person",)),
    ],
)
def test_choices_that_exclude_each_other_are_named_as_options(rules: dict[str, Any], options: tuple[str, ...]) -> None:
    """Options of 'init', 'create' and 'policy propose' alike: there may be no policy yet."""
    with pytest.raises(InvalidRequestError) as caught:
        verify_policy(policy(**rules))
    assert all(option in caught.value.hint for option in options)


def test_a_signed_policy_is_read_only_under_its_agencys_key() -> None:
    """An altered document, another key, or a good signature of something that is no policy: refused each."""
    key, stranger = POLICY_KEY.verify_key, SigningKey(Purpose.POLICY, bytes(32))
    signature = POLICY_KEY.sign_text(DOCUMENT)
    assert parse_signed_policy(DOCUMENT, signature, key) == policy()
    altered = with_fields(open_quotes=5)
    for document, signed, verify in ((altered, signature, key), (DOCUMENT, signature, stranger.verify_key)):
        with pytest.raises(InvalidRequestError, match="BAD_SIGNATURE"):
            parse_signed_policy(document, signed, verify)
    with pytest.raises(InvalidRequestError, match="INVALID_VALUE"):
        parse_signed_policy(b"{}", POLICY_KEY.sign_text(b"{}"), key)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"max_belief": "0.80"},
        {"max_belief": "0.79"},
        {"scales": (2, 30)},
        {"scales": (1, 2, 3, 30, 500)},
        {"release_tick_ms": 1000},
        {"forward_delay_ms": 1, "release_tick_ms": 1},
        {"forward_delay_ms": 20_000, "release_tick_ms": 10_000},
        {"open_quotes": 1},
        {"open_quotes": 10_000},
        {"max_answers": 1},
        {"scales": (30,)},
        {"quote_lifetime_ms": 30_000},
        {"quote_lifetime_ms": 86_400_000},
        {"answer_retention_ms": 366 * 86_400_000},
    ],
)
def test_what_the_policy_key_may_change_alone(changes: dict[str, Any]) -> None:
    """Whatever lets people learn less or as much as before, keeps what was promised and refuses nobody for nothing."""
    assert policy(**changes).weakens(policy()) == ()


SERVES_LESS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("RETENTION_SHORTENED", {}, {"sample_retention_ms": 0}),
    ("RETENTION_SHORTENED", {"sample_retention_ms": 60_000}, {"sample_retention_ms": 59_999}),
    ("RETENTION_LENGTHENED", {"sample_retention_ms": 60_000}, {"sample_retention_ms": 60_001}),
    ("RETENTION_SHORTENED", {}, {"answer_retention_ms": 86_399_999}),
    ("QUOTA_LOWERED", {}, {"researcher_answers": 999}),
    ("QUOTA_LOWERED", {"researcher_answers": 0}, {"researcher_answers": 2**32 - 1}),
    ("QUOTA_RAISED", {}, {"researcher_answers": 1001}),
    ("QUOTA_RAISED", {}, {"researcher_answers": 0}),
    ("QUOTE_SHORTENED", {}, {"quote_lifetime_ms": 29_999}),
    ("QUOTE_SHORTENED", {}, {"forward_delay_ms": 30_001}),
    ("QUOTE_SHORTENED", {}, {"release_tick_ms": 60_000}),
    ("QUOTE_SHORTENED", {"quote_lifetime_ms": 1_001}, {"quote_lifetime_ms": 1_000}),
    (
        "DELAY_LENGTHENED",
        {"release_tick_ms": 400_000},
        {"release_tick_ms": 86_400_000, "quote_lifetime_ms": 86_400_000},
    ),
    ("DELAY_LENGTHENED", {"quote_lifetime_ms": 86_400_000}, {"forward_delay_ms": 300_001}),
    ("DELAY_LENGTHENED", {"quote_lifetime_ms": 86_400_000}, {"release_tick_ms": 300_001}),
]


@pytest.mark.parametrize(("code", "before", "changes"), SERVES_LESS)
def test_what_ends_proof_or_refuses_everybody_weakens(
    code: str, before: dict[str, Any], changes: dict[str, Any]
) -> None:
    """A stolen policy key could otherwise end the check on site within seconds, or the service without anybody's order."""
    rules = policy(**before)
    ((found, sentence),) = policy(**before | changes).weakens(rules)
    assert found == code
    assert sentence.startswith("it ")
    # Coming back may be refused for another reason, never for this one.
    assert code not in {weakness.code for weakness in rules.weakens(policy(**before | changes))}
    assert rules.weakens(rules) == ()


def test_the_quota_means_something_where_samples_are_kept() -> None:
    """Under strict accounting they are wiped with the answer; 0 is no quota."""
    assert (policy().quota, PERSONS.quota, policy(accounting="per_person", researcher_answers=0).quota) == (0, 1000, 0)


def test_a_higher_cap_weakens_and_says_by_how_much() -> None:
    """One sentence with the units and limits before and after; by one unit is enough."""
    ((code, sentence),) = policy(max_belief="0.9").weakens(policy())
    assert code == "CAP_RAISED"
    assert sentence == "it raises the cap from 23258159 to 36863311 units (max_belief from 0.8 to 0.9)"
    least = policy(max_belief="0.80000001")
    assert least.raises_cap(policy())
    assert len(least.weakens(policy())) == 1
    assert policy().weakens(least) == ()


PERSONS = policy(accounting="per_person")
HOUSEHOLDS = policy(accounting="per_person", subject="household")


@pytest.mark.parametrize("fewer", [PERSONS, HOUSEHOLDS])
def test_charging_fewer_people_weakens(fewer: Policy) -> None:
    """Leaving `strict`, where an answer charges everybody, lowers charges for both kinds of subject."""
    ((code, sentence),) = fewer.weakens(policy())
    assert code == "CHARGE_LOWERED"
    assert "'per_person' charges fewer people than 'strict'" in sentence
    higher = policy(accounting="per_person", subject=fewer.subject, max_belief="0.9")
    assert [weakness.code for weakness in higher.weakens(policy())] == ["CAP_RAISED", "CHARGE_LOWERED"]


def test_charging_everybody_weakens_nothing_that_was_promised_to_a_person() -> None:
    """Coming back to `strict` takes no confirmation."""
    assert policy().weakens(PERSONS) == ()


@pytest.mark.parametrize("after", [PERSONS, policy()])
def test_a_budget_per_person_after_one_per_household_weakens(after: Policy) -> None:
    """An answer about four people of one household was charged four times; now it is charged once, also by `strict`."""
    ((code, sentence),) = after.weakens(HOUSEHOLDS)
    assert code == "CHARGE_LOWERED"
    assert "a budget per person instead of one per household" in sentence
    assert HOUSEHOLDS.weakens(PERSONS) == ()


@pytest.mark.parametrize(("before", "after"), [(100, 101), (100, 0), (1, 2**32 - 1)])
def test_allowing_more_answers_weakens(before: int, after: int) -> None:
    """One more is enough, and no limit at all is the largest; fewer answers weaken nothing."""
    fewer, more = policy(max_answers=before), policy(max_answers=after)
    ((code, sentence),) = more.weakens(fewer)
    assert code == "ANSWERS_RAISED"
    assert sentence == f"it allows {after or 'any number of'} answers instead of {before}"
    assert fewer.weakens(more) == fewer.weakens(fewer) == ()


@pytest.mark.parametrize("name", ["forward_delay_ms", "release_tick_ms"])
def test_a_shorter_delay_weakens(name: str) -> None:
    """A millisecond is enough, and so is none at all; longer ones elsewhere make up for nothing."""
    delays = {"forward_delay_ms": 500, "release_tick_ms": 500}
    before = policy(**delays)
    for shorter in (499, 0):
        others = {other: 600 for other in delays if other != name}
        ((code, sentence),) = policy(**others, **{name: shorter}).weakens(before)
        assert code == "DELAY_SHORTENED"
        assert sentence.startswith(f"it shortens {name} from 500 to {shorter}: ")
    assert policy(**delays | {name: 501}).weakens(before) == ()
    codes = [weakness.code for weakness in policy(max_belief="0.9", **dict.fromkeys(delays, 0)).weakens(before)]
    assert codes == ["CAP_RAISED", *["DELAY_SHORTENED"] * 2]


@pytest.mark.parametrize(("scales", "usual"), [((1, 30, 50), 30), ((1, 29), 29), ((31, 40), 40)])
def test_the_usual_scale_is_the_papers_where_it_is_admitted(scales: tuple[int, ...], usual: int) -> None:
    """30, or else the cheapest that may be asked for."""
    assert policy(scales=scales).usual_scale == usual


# `policy(format=5)`, as logs of before hold it.
BEFORE_LINKAGE = "c8151888ad0d4d2fc2059dca03dd8749cc798bf1f6fba4e7b7db05de6dbbc9d1"


def test_a_policy_of_before_linkage_keeps_its_bytes_and_reads_as_complementary() -> None:
    """Logs, tickets and answers name it by a hash that was given before there were the new fields."""
    before = policy(format=5)
    assert before.hash.hex() == BEFORE_LINKAGE
    assert set(json.loads(DOCUMENT)) - set(json.loads(before.document)) == {"linkage", "declared_linked_percent"}
    read = parse_policy(before.document)
    assert (read, read.linkage, read.declared_linked_percent) == (before, "complementary", 0)


@pytest.mark.parametrize("changes", [{"linkage": "nominative"}, {"declared_linked_percent": 90}])
def test_a_policy_of_before_linkage_says_nothing_of_it(changes: dict[str, Any]) -> None:
    """A policy whose document leaves out what it means has no hash of its own."""
    with pytest.raises(InvalidRequestError, match="needs format 6"):
        verify_policy(policy(format=5, **changes))
    spelled = json.loads(policy(format=5).document) | {"linkage": "complementary"}
    assert problem(json.dumps(spelled, sort_keys=True, separators=(",", ":")).encode()) == "is not in canonical form"


def test_who_links_households_charges_households() -> None:
    """A link to an address brings a whole household into a sample: no smaller subject is protected as promised."""
    per_household = {"accounting": "per_person", "subject": "household"}
    verify_policy(policy(linkage="household", **per_household))
    for changes in ({}, {"accounting": "per_person"}):
        with pytest.raises(InvalidRequestError, match="its subject must be the household"):
            verify_policy(policy(linkage="household", **changes))


@pytest.mark.parametrize("linkage", ["household", "nominative"])
def test_a_load_of_another_linkage_is_refused(linkage: Linkage) -> None:
    """Both say which one, so that the operator knows what to change."""
    verify_linkage(policy(), "complementary")
    with pytest.raises(InvalidRequestError) as caught:
        verify_linkage(policy(), linkage)
    assert caught.value.code == "LOAD_REFUSED"
    assert linkage in caught.value.text
    assert "complementary" in caught.value.text
