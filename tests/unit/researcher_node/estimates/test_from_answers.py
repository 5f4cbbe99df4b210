"""Estimates from stored answers: the right cells, both intervals with their methods, and a sentence for what does not go together."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes.invoking import invoke
from fakes.world import make_policy

from broker_common.errors import InvalidRequestError
from broker_common.privacy.policy import Policy
from broker_common.query.dictionary import AskedOf
from broker_common.values import NoisyCounts
from researcher_node import assembly as opening
from researcher_node.answers.store import AskedQuestion
from researcher_node.estimates.commands import estimate
from researcher_node.estimates.from_answers import Estimated, counts_of, estimate_json, estimate_text, estimated
from researcher_node.estimates.tables import Counts, Design, Group, rate_ratio, share

FRENCH = "mother_tongue by 'French', rest"
WHOLE = 1_000_000


def answer(number: int, *noisy: int, question: str = FRENCH, **changes: Any) -> AskedQuestion:
    """A stored answer; without numbers a question that waits for one."""
    fields: dict[str, Any] = {
        "query": f"{number:032x}",
        "asked_ms": 0,
        "where": f"age >= {number}",
        "question": question,
        "scale": 30,
        "fraction_millionths": WHOLE,
        "policy_hash": "",
        "signed_quote": b"",
        "signed_ticket": b"",
        "criteria": b"",
        "criteria_nonce": b"",
        "noisy": NoisyCounts(noisy) if noisy else None,
    }
    return AskedQuestion(**fields | changes)


def shown_json(found: Estimated, policy: Policy | None = None) -> dict[str, Any]:
    """As a program is told it."""
    return estimate_json(found, [policy] * len(found.answers))


def shown_text(found: Estimated, policy: Policy | None = None) -> str:
    """As people are told it."""
    return estimate_text(found, [policy] * len(found.answers))


def test_a_share_of_a_stored_answer_is_that_of_its_numbers() -> None:
    """The cells are found by their labels, whatever their order."""
    found = estimated("share", [answer(1, 1400, 600, question="mother_tongue by 'English', 'French'")], ["French"])
    assert found.estimate == share(Group(Counts((1400, 600), 30), (1,), (0, 1)))
    assert (found.part, found.against) == (("French",), ("English",))


def test_programs_are_told_both_intervals_with_their_methods() -> None:
    """A missing figure is null, and says so."""
    shown = shown_json(estimated("share", [answer(1, 600, 1400)], ["French"]))
    assert shown["estimate"] == "share"
    assert shown["value"] == pytest.approx(0.3)
    assert shown["with_sampling"]["low"] < shown["noise_only"]["low"] < 0.3 < shown["noise_only"]["high"]
    assert "Fieller" in shown["noise_only"]["method"]
    assert shown["answers"][0] == {
        "query_id": f"{1:032x}",
        "role": "group",
        "where": "age >= 1",
        "question": FRENCH,
        "fraction": "1.0",
        "scale": 30,
        "linked": None,
    }
    untold = shown_json(estimated("share", [answer(1, 6, 14)], ["French"]))["noise_only"]
    assert untold == {"told": False, "low": None, "high": None, "method": shown["noise_only"]["method"]}
    open_above = shown_json(estimated("ratio", [answer(1, 6000, 4000), answer(2, 30, 9970)], ["French"]))
    assert open_above["noise_only"]["told"]
    assert open_above["noise_only"]["high"] is None
    json.dumps(open_above, allow_nan=False)


def test_people_read_which_interval_is_about_whom() -> None:
    """Number, intervals, methods, who is left out, and the question of each answer."""
    text = shown_text(estimated("difference", [answer(1, 600, 1400), answer(2, 400, 1600)], ["French"]))
    assert text.startswith("Difference of the shares of French: +10.00 points\n")
    for part in (
        "about exactly the people counted; from the interval of each share (MOVER)",
        "about a population that they are like a random draw from",
        "whose budget is not used up",
        "group 1        age >= 1",
        f"query {2:032x}, scale 30",
    ):
        assert part in text
    assert "fraction" not in text
    assert "cannot be told" in shown_text(estimated("share", [answer(1, 6, 14)], ["French"]))
    assert "or more" in shown_text(estimated("ratio", [answer(1, 6000, 4000), answer(2, 30, 9970)], ["French"]))
    assert "no value" in shown_text(estimated("share", [answer(1, -60, 14)], ["French"]))


def test_a_part_of_the_people_says_how_it_was_drawn() -> None:
    """Fraction and design effect come from the answer itself, and both are said."""
    long_form = AskedOf(not_asked="not asked", one_in=5, design_effect_hundredths=180)
    asked = answer(1, 600, 1400, fraction_millionths=250_000, asked_of=long_form)
    assert counts_of(asked).design == Design(5, 1.8)
    found = estimated("share", [asked], ["French"])
    plain = estimated("share", [answer(1, 600, 1400)], ["French"])
    assert found.estimate.with_sampling.low < plain.estimate.with_sampling.low
    text = shown_text(found)
    assert "1 household in 5; the variance of sampling is that of persons times 1.8" in text
    assert "fraction       0.25" in text


def test_a_rate_ratio_finds_the_same_cells_in_another_order() -> None:
    """Inside and outside are matched by their cells."""
    inside = answer(1, 2_000, 10_000, question="mother_tongue by 'French', 'English'")
    outside = answer(2, 190_000, 18_000, question="mother_tongue by 'English', 'French'")
    found = estimated("rate_ratio", [inside, outside], ["French"])
    assert found.estimate == rate_ratio(Counts((2_000, 10_000), 30), Counts((18_000, 190_000), 30), (0,), (1,))
    assert shown_text(found).startswith("Rate ratio, French against English: 2.00\n")


THREE = "mother_tongue by 'English', 'French', 'Inuktitut'"


@pytest.mark.parametrize(
    ("kind", "answers", "options", "sentence"),
    [
        ("share", [answer(1)], {}, "has no answer yet"),
        ("share", [answer(1, 5, question="mother_tongue = 'French'")], {}, "counts in one cell, 'French'"),
        ("share", [answer(1, 5, question="all")], {}, "counts in one cell, 'rest'"),
        ("share", [answer(1, 5, 6, question="mother_tongue by 'English', rest")], {}, "is no cell of query"),
        ("share", [answer(1, 5, 6, 7, question=THREE)], {"among": ["English", "Inuktitut"]}, "leaves out a cell"),
        ("share", [answer(1, 5, 6, 7, question=THREE)], {"among": ["French"]}, "names every cell"),
        (
            "ratio",
            [answer(1, 5, 6), answer(2, 5, 6, question="home_language by 'French', rest")],
            {},
            "counts home_language",
        ),
        ("difference", [answer(1, 5, 6), answer(1, 5, 6)], {}, "is named twice"),
        ("rate_ratio", [answer(1, 5, 6), answer(2, 5, 6, 7, question=THREE)], {}, "has other cells"),
        ("rate_ratio", [answer(1, 5, 6), answer(2, 5, 6, fraction_millionths=500_000)], {}, "asked with fraction 0.5"),
        ("rate_ratio", [answer(1, 5, 6), answer(2, 5, 6)], {"against": ["French"]}, "names a cell of --part"),
    ],
)
def test_answers_that_do_not_go_together_are_said(
    kind: Any, answers: list[AskedQuestion], options: dict[str, Any], sentence: str
) -> None:
    """Which of them, what is wrong with it, and what to do."""
    with pytest.raises(InvalidRequestError) as caught:
        estimated(kind, answers, ["French"], **options)
    assert sentence in caught.value.text
    assert caught.value.hint


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> dict[str, AskedQuestion]:
    """A home whose store holds these answers."""
    stored: dict[str, AskedQuestion] = {}
    store = SimpleNamespace(get=stored.__getitem__, close=lambda: None)
    opened = SimpleNamespace(open_answers=lambda: store, policies=SimpleNamespace(get=lambda _: None))
    monkeypatch.setattr(opening, "ResearcherHome", lambda _: opened)
    for number, french in enumerate((1_000, 2_000, 3_000), start=1):
        stored[str(number)] = answer(number, french, 10_000 - french)
    return stored


def run(tmp_path: Path, *words: str) -> Any:
    """A command's JSON, or its error."""
    given = [*words[:1], "--home", str(tmp_path), "--json", "--part", "French", *words[1:]]
    done = invoke(estimate, given, standalone_mode=False)
    return json.loads(done.output) if done.exception is None else done.exception


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("words", "value"),
    [
        (("share", "1"), 0.1),
        (("difference", "2", "1"), 0.1),
        (("ratio", "2", "1"), 2.0),
        (("rate-ratio", "1", "3"), (1_000 / 4_000) / (9_000 / 16_000)),
        (("standardise", "--weights", "1,3", "1", "2"), 0.175),
        (("trend", "1", "2", "3"), 0.1),
        (("trend", "--scores", "40,50,60", "1", "2", "3"), 0.01),
    ],
)
def test_every_estimate_has_its_command(tmp_path: Path, words: tuple[str, ...], value: float) -> None:
    """From the ids of stored answers to a number."""
    assert run(tmp_path, *words)["value"] == pytest.approx(value)


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    "words",
    [
        ("standardise", "--weights", "1", "1", "2"),
        ("standardise", "--weights", "1,x", "1", "2"),
        ("standardise", "--weights", "1,-1", "1", "2"),
        ("standardise", "--weights", "0,0", "1", "2"),
        ("trend", "--scores", "5,5", "1", "2"),
        ("trend", "--scores", "5,inf", "1", "2"),
        ("trend", "1"),
    ],
)
def test_numbers_that_do_not_fit_are_said(tmp_path: Path, words: tuple[str, ...]) -> None:
    """One for each answer, and enough of them."""
    error = run(tmp_path, *words)
    assert isinstance(error, InvalidRequestError)
    assert error.code == "INVALID_VALUE"


def test_an_estimate_says_who_is_linked() -> None:
    """Nobody else is counted, and no interval knows of it: how they are linked, and the share that the agency declares."""
    found = estimated("difference", [answer(1, 600, 1400), answer(2, 400, 1600)], ["French"])
    declared, not_declared = make_policy(declared_linked_percent=93), make_policy()
    assert [each["linked"] for each in shown_json(found, declared)["answers"]] == 2 * [
        {"linkage": "complementary", "declared_percent": 93}
    ]
    assert shown_json(found)["answers"][0]["linked"] is None
    assert (
        shown_text(found, declared).count("93 % of the census, as its agency declares; missed links bias shares.") == 1
    )
    assert "its agency does not say" in shown_text(found, not_declared)
    assert "the policy of this answer is not known here" in shown_text(found)
    both = estimate_text(found, [declared, not_declared])
    assert "93 % of the census" in both
    assert "does not say" in both
