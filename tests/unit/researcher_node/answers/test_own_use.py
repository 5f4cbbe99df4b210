"""How much of anybody's budget own questions can have used: everything that was asked before an answer came, and nothing after."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes.world import make_policy
from hypothesis import given
from hypothesis import strategies as st
from unit.researcher_node.asked import ANSWERED, question

from broker_common.errors import InvalidRequestError
from broker_common.privacy.accounting import price
from researcher_node.answers.own_use import own_uses, price_json, price_text, use_with
from researcher_node.answers.store import AskedQuestion, Charge
from researcher_node.asking.kept import Policies

PER_PERSON = make_policy(accounting="per_person")


def answered(number: int, asked_ms: int, answered_ms: int) -> AskedQuestion:
    """A question that was answered then."""
    return question(number, **ANSWERED | {"asked_ms": asked_ms, "answered_ms": answered_ms})


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.integers(1, 50)), min_size=1))
def test_what_was_asked_before_an_answer_came_may_have_been_charged_before_it(
    asked: list[tuple[int, int, int]],
) -> None:
    """Whatever the order in which questions and answers are listed."""
    questions = [answered(number, at, at + later) for number, (at, later, _) in enumerate(asked)]
    charges = [Charge(at, units) for at, _, units in asked]
    uses = own_uses(questions, charges, lambda _: PER_PERSON)
    for one in questions:
        assert one.answered_ms is not None
        assert uses[one.query].units == sum(units for at, _, units in asked if at <= one.answered_ms)


def test_a_question_without_an_answer_has_no_use_yet() -> None:
    """It counts for the answers that come after it."""
    pending, later = question(1, asked_ms=1), answered(2, 5, 6)
    uses = own_uses([pending, later], [Charge(1, 3), Charge(5, 4)], lambda _: PER_PERSON)
    assert {query: use.units for query, use in uses.items()} == {later.query: 7}


@pytest.mark.parametrize(
    ("accounting", "more", "can"),
    [("per_person", 0, False), ("per_person", 1, True), ("strict", 0, False), ("strict", 1, False)],
)
def test_own_questions_can_leave_somebody_out_beyond_one_budget(accounting: str, more: int, can: bool) -> None:
    """And not before; under strict accounting nobody is left out."""
    policy = make_policy(accounting=accounting)
    use = use_with([Charge(1, policy.cap - price(30) + more)], price(30), policy)
    assert (use.can_leave_out, use.leaves_out) == (can, accounting == "per_person")


def test_a_use_without_its_policy_has_no_share() -> None:
    """Nothing is made up: an answer from before policies were kept."""
    (use,) = own_uses([answered(1, 1, 2)], [Charge(1, 7)], lambda _: None).values()
    assert use.as_json() == {"units": 7, "share_of_budget": None, "can_leave_out": None}
    assert price_text(30, None) == ""


def test_a_price_is_a_share_of_a_budget_and_a_number_of_answers() -> None:
    """41 answers at scale 30 for a cap of ln 4, as the paper's formula has it; the share is rounded up."""
    assert price_json(30, PER_PERSON) == {"share_of_budget": 0.0241, "answers_per_budget": 41}
    assert price_text(30, PER_PERSON) == ": 2.5 % of a budget, 41 such answers a person"
    assert price_text(30, make_policy()) == ": 2.5 % of the budget, 41 such answers in all"


def test_policies_are_kept_by_their_hash(tmp_path: Path) -> None:
    """Also for the next process; one that was never met is not known."""
    first, second = make_policy(), PER_PERSON
    kept = Policies(tmp_path / "policies")
    kept.put(first)
    kept.put(first)
    assert Policies(tmp_path / "policies").get(first.hash.hex()) == first
    assert kept.get(second.hash.hex()) is None


@pytest.mark.parametrize("content", [b"", b"{}", PER_PERSON.document])
def test_a_policy_that_is_not_what_its_name_says_is_refused(tmp_path: Path, content: bytes) -> None:
    """A share of another budget would be told."""
    kept = Policies(tmp_path)
    kept.put(make_policy())
    (file,) = tmp_path.iterdir()
    file.write_bytes(content)
    with pytest.raises(InvalidRequestError) as caught:
        Policies(tmp_path).get(make_policy().hash.hex())
    assert (caught.value.code, caught.value.details["file"]) == ("FILE_UNUSABLE", str(file))
