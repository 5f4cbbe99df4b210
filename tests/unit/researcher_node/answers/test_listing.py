"""Questions and answers as they are shown: everything to programs, one in full or several in columns to people."""

from __future__ import annotations

import math
from typing import Any

import pytest
from fakes.world import make_policy
from unit.researcher_node.asked import ANSWERED, NOW_MS, question

from broker_common.privacy.policy import Policy
from broker_common.privacy.table_laplace import margin, sum_margin
from broker_common.query.dictionary import AskedOf
from broker_common.values import NoisyCounts
from researcher_node.answers import counts, listing
from researcher_node.answers.own_use import OwnUse
from researcher_node.answers.store import AskedQuestion

OVERDUE = "its ticket has expired; if it was charged the answer still comes: 'ask --again' finds out"


PER_PERSON = make_policy(accounting="per_person")


ONE_IN_FIVE = AskedOf(not_asked="not asked", one_in=5, design_effect_hundredths=280)


def uses_of(
    questions: list[AskedQuestion], units: int = 559241, policy: Policy | None = PER_PERSON
) -> dict[str, OwnUse]:
    """So much had been used when each answer came."""
    return {asked.query: OwnUse(units, policy) for asked in questions if asked.state == "answered"}


def question_json(asked: AskedQuestion) -> dict[str, Any]:
    """As `answers` gives it."""
    return listing.question_json(asked, uses_of([asked]))


def answer_json(asked: AskedQuestion) -> dict[str, Any]:
    """As `ask` gives it."""
    return listing.answer_json(asked, uses_of([asked]))


def answer_text(asked: AskedQuestion) -> str:
    """As `ask` tells it."""
    return listing.answer_text(asked, uses_of([asked]))


def questions_text(questions: list[AskedQuestion], now_ms: int) -> str:
    """As `answers` tells them."""
    return listing.questions_text(questions, now_ms, uses_of(questions))


def test_programs_are_told_everything() -> None:
    """One object a question; what is not there yet is null, never left out."""
    pending = question_json(question(fraction_millionths=250_000))
    assert pending == {
        "query_id": f"{1:032x}",
        "asked": "2026-03-31T09:30:00+00:00",
        "state": "pending",
        "where": "age >= 65",
        "question": "mother_tongue = 'French'",
        "fraction": "0.25",
        "scale": 30,
        "epsilon": "1/30",
        "margin_95": 90,
        "policy_hash": "ab" * 32,
        "noisy_count": None,
        "cells": [
            {
                "label": "French",
                "values": ["French"],
                "noisy_count": None,
                "margin_95": 90,
                "scaled_count": None,
                "scaled_margin_95": 360,
            }
        ],
        "charged": None,
        "checkpoint": None,
        "refused": None,
        "project": "study",
        "label": None,
        "answered": None,
        "ticket_expires": "2026-03-31T09:40:00+00:00",
        "quoted_again": 0,
        "asked_of": None,
        "share_of_budget": None,
        "answers_per_budget": None,
        "own_use": None,
        "leaves_out_used_up": None,
        "linked": None,
    }
    of_a_part = question_json(question(fraction_millionths=250_000, asked_of=ONE_IN_FIVE))
    assert of_a_part == pending | {"asked_of": {"share": 0.2, "weight": 5, "design_effect": 2.8}}
    answered = question_json(question(fraction_millionths=250_000, **ANSWERED))
    assert answered == pending | {
        "state": "answered",
        "noisy_count": -12,
        "cells": [pending["cells"][0] | {"noisy_count": -12, "scaled_count": -48}],
        "charged": 559241,
        "share_of_budget": 0.0241,
        "answers_per_budget": 41,
        "own_use": {"units": 559241, "share_of_budget": 0.0241, "can_leave_out": False},
        "leaves_out_used_up": True,
        "linked": {"linkage": "complementary", "declared_percent": None},
        "checkpoint": "note",
        "answered": "2026-03-31T09:30:01+00:00",
    }


def test_everyone_is_one_cell_without_values() -> None:
    """The denominator is a cell as well, of no value: programs read one list, whatever was asked."""
    everyone = answer_json(question(question="all", **ANSWERED))
    assert everyone["cells"] == [{"label": "all", "values": None, "noisy_count": -12, "margin_95": 90}]
    assert (everyone["noisy_count"], everyone["margin_95"]) == (-12, 90)


def test_an_answer_of_several_cells_has_a_number_for_each() -> None:
    """In the order that was asked for, and none of them stands for all at the top."""
    share = question(
        question="mother_tongue by ('English', 'French'), rest", **ANSWERED | {"noisy": NoisyCounts((5, -1))}
    )
    table = answer_json(share)
    assert [(cell["label"], cell["values"], cell["noisy_count"]) for cell in table["cells"]] == [
        ("English, French", ["English", "French"], 5),
        ("rest", None, -1),
    ]
    assert {cell["margin_95"] for cell in table["cells"]} == {margin(30, 2)}
    assert table["sum"] == {"noisy_count": 4, "margin_95": sum_margin(30, 2)}
    assert not {"noisy_count", "margin_95"} & table.keys()
    reach = margin(30, 2)
    assert answer_text(share).splitlines()[:5] == [
        "Noisy counts: mother_tongue by ('English', 'French'), rest",
        "  among those with: age >= 65",
        f"    English, French          5 ± {reach}",
        f"    everybody else          -1 ± {reach}",
        f"    sum: all linked people   4 ± {reach}",
    ]


def test_a_table_without_the_rest_has_a_sum_of_its_cells_alone() -> None:
    """It is not said to be everybody."""
    two = question(question="mother_tongue by 'English', 'French'", **ANSWERED | {"noisy": NoisyCounts((5, -1))})
    (line,) = [line for line in answer_text(two).splitlines() if "sum" in line]
    assert line == f"    sum       4 ± {margin(30, 2)}"


@pytest.mark.parametrize("columns", [40, 60, 100])
def test_a_table_fits_the_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """Long labels are cut; counts and margins never are, and stand under each other."""
    monkeypatch.setattr(counts, "terminal_width", lambda: columns)
    values = ["a value of the census with many words in it", "another one"]
    noisy = NoisyCounts((1_234_567, -3))
    long = question(question=f"tongue by '{values[0]}', '{values[1]}'", **ANSWERED | {"noisy": noisy})
    lines = answer_text(long).splitlines()[2:5]
    assert max(map(len, lines)) <= columns
    assert {len(line) for line in lines} == {len(lines[0])}
    assert ("…" in lines[0]) == (len(values[0]) + 25 > columns)
    assert [line.split("±")[0].split()[-1] for line in lines] == ["1234567", "-3", "1234564"]


def test_counts_and_margins_of_a_part_are_scaled_up_and_said_to_be() -> None:
    """People are shown what the count says of everybody who matches; programs have the noisy count beside it, untouched."""
    part = question(
        question="mother_tongue by 'French', rest",
        fraction_millionths=300_000,
        **ANSWERED | {"noisy": NoisyCounts((10, 25))},
    )
    reach = math.ceil(margin(30, 2) / 0.3)
    cells = answer_json(part)["cells"]
    assert [(cell["noisy_count"], cell["scaled_count"]) for cell in cells] == [(10, 33), (25, 83)]
    assert {(cell["margin_95"], cell["scaled_margin_95"]) for cell in cells} == {(margin(30, 2), reach)}
    # Scaled once: 35 / 0.3, not 33 + 83.
    assert answer_json(part)["sum"]["scaled_count"] == 117
    text = answer_text(part)
    assert text.startswith("Estimated counts: ")
    for words in (
        f" 33 ± {reach}",
        f" 83 ± {reach}",
        f" 117 ± {reach}",
        f"within {reach} either way",
        "0.3 of those who match",
    ):
        assert words in text
    assert "scaled" not in str(answer_json(question(**ANSWERED)))


@pytest.mark.parametrize(
    ("units", "policy", "words"),
    [
        (
            559_241,
            PER_PERSON,
            "people whose budget is used up; your own questions can have used at most 2.5 % of anybody's",
        ),
        (PER_PERSON.cap, PER_PERSON, "at most 100.0 % of anybody's"),
        (
            PER_PERSON.cap + 1,
            PER_PERSON,
            "perhaps everybody: your own questions can have used 100.1 % of somebody's budget",
        ),
        (
            559_241,
            make_policy(),
            "nobody: everybody is charged for every answer, and your own questions have used 2.5 %",
        ),
        (559_241, make_policy(accounting="per_person", subject="household"), "from 42 members on"),
        (559_241, None, "the policy of this answer is not known here"),
    ],
)
def test_an_answer_says_who_is_left_out(units: int, policy: Policy | None, words: str) -> None:
    """And how much of anybody's budget own questions can have used: a bound, which is never rounded down."""
    asked = question(**ANSWERED)
    text = " ".join(listing.answer_text(asked, uses_of([asked], units, policy)).split())
    assert f"left out {words}" in text or words in text


def test_answers_that_may_leave_out_everybody_are_marked_in_a_list() -> None:
    """The others are not; that people are left out at all is said below."""
    asked = [question(1, **ANSWERED), question(2, **ANSWERED)]
    uses = {asked[0].query: OwnUse(1, PER_PERSON), asked[1].query: OwnUse(PER_PERSON.cap + 1, PER_PERSON)}
    _, first, second, *remarks = listing.questions_text(asked, NOW_MS, uses).splitlines()
    assert ("-12 ± 90 !" in first, "-12 ± 90 !" in second) == (False, True)
    assert [remark[:2] for remark in remarks] == ["! ", "Pe"]
    strict = {each.query: OwnUse(1, make_policy()) for each in asked}
    assert "left out" not in listing.questions_text(asked, NOW_MS, strict)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ["pending: mother_tongue = 'French'"]),
        ({"question": "all"}, ["pending: all linked people"]),
        (
            {"refused": "BUDGET_EXHAUSTED"},
            ["BUDGET_EXHAUSTED: mother_tongue = 'French'", "at scale 30.", "A larger scale costs less"],
        ),
        ({"expired": True}, ["expired: mother_tongue = 'French'", "has removed it"]),
        ({"quoted_again": 1}, ["1 before this one, which the census node no longer held"]),
        (
            ANSWERED | {"asked_of": ONE_IN_FIVE},
            ["of whom   everybody who was asked, one household in 5: times 5 for everybody", "(design effect 2.8)"],
        ),
        (ANSWERED | {"quoted_again": 2}, ["2 before this one, which the census node no longer held"]),
        (ANSWERED, ["Noisy count -12: mother_tongue = 'French'", "within 90 either way", "few or none"]),
    ],
)
def test_one_question_is_told_in_full(changes: dict[str, Any], said: list[str]) -> None:
    """With its criteria, however long, and its id."""
    where = "age in (" + ", ".join(map(str, range(50))) + ")"
    text = questions_text([question(where=where, **changes)], NOW_MS)
    for words in [*said, where, "1, everyone who matches", "study", "2026-03-31T09:30:00+00:00", f"query     {1:032x}"]:
        assert words in text
    assert OVERDUE not in text


def test_a_label_is_shown_wherever_its_question_is() -> None:
    """In full, in a table in which some have one, and to programs."""
    labelled = question(label="pilot", **ANSWERED)
    for text in (questions_text([labelled], NOW_MS), questions_text([question(label="pilot")], NOW_MS)):
        assert "\n  label     pilot" in text
    table = questions_text([labelled, question(2)], NOW_MS).split("\n")
    assert table[0].split()[-2:] == ["label", "query"]
    assert (table[1].split()[-2], table[2].split()[-2]) == ("pilot", "65")
    assert "label" not in questions_text([question(1), question(2)], NOW_MS)
    assert question_json(labelled)["label"] == answer_json(labelled)["label"] == "pilot"


@pytest.mark.parametrize(("expires_ms", "overdue"), [(NOW_MS, True), (NOW_MS + 1, False)])
def test_pending_question_whose_ticket_has_expired_says_so(expires_ms: int, overdue: bool) -> None:
    """It is pending all the same; alone or among others it has the remark, and nothing that has ended has it."""
    asked = question(expires_ms=expires_ms)
    assert (OVERDUE in questions_text([asked], NOW_MS)) == overdue
    ended = [
        question(2, expires_ms=0, **ANSWERED),
        question(3, expires_ms=0, refused="BUSY"),
        question(4, expired=True),
    ]
    table = questions_text([asked, *ended], NOW_MS)
    assert (OVERDUE in table, "pending*" in table) == (overdue, overdue)
    assert "answered*" not in table


def test_an_answer_says_of_whom_it_is() -> None:
    """A count of a quarter of the people with these criteria, for one study, is not read as something else."""
    asked = question(fraction_millionths=250_000, **ANSWERED)
    result = answer_json(asked)
    assert {key: result[key] for key in ("question", "where", "fraction", "project", "asked")} == {
        "question": "mother_tongue = 'French'",
        "where": "age >= 65",
        "fraction": "0.25",
        "project": "study",
        "asked": "2026-03-31T09:30:00+00:00",
    }
    assert result.items() <= question_json(asked).items()
    for line in (
        "among those with: age >= 65",
        "project   study",
        "asked     2026-03-31T09:30:00+00:00",
    ):
        assert f"  {line}\n" in answer_text(asked)


def test_table_names_the_fractions_where_somebody_was_left_out() -> None:
    """And not where every line counts everyone who matches."""
    table = questions_text([question(1), question(2, fraction_millionths=250_000)], NOW_MS).splitlines()
    assert [line.split()[-2] for line in table] == ["fraction", "1", "0.25"]
    assert "fraction" not in questions_text([question(1), question(2)], NOW_MS)


def test_several_questions_are_a_line_each_in_columns() -> None:
    """Time, state, count with its margin, question, criteria, id; long ones are cut, columns stand under each other."""
    table = questions_text(
        [
            question(1, **ANSWERED),
            question(2, question="all", where="procedure = 'angioplasty' and age >= 65 and sex = 'female'"),
            question(3, refused="BUDGET_EXHAUSTED"),
            question(4, expired=True),
        ],
        NOW_MS,
    )
    time = "2026-03-31T09:30:00+00:00"
    cut = "procedure = 'angioplasty' and age >= 65…"
    french = "mother_tongue = 'French'"
    assert table.splitlines() == [
        f"asked                      state     count             question                  among those with{' ' * 26}query",
        f"{time}  answered  -12 ± 90          {french}  age >= 65                                 {1:032x}",
        f"{time}  pending                     all linked people         {cut}  {2:032x}",
        f"{time}  refused   BUDGET_EXHAUSTED  {french}  age >= 65                                 {3:032x}",
        f"{time}  expired                     {french}  age >= 65                                 {4:032x}",
        "People whose budget is used up are left out of a count; its margin is of the noise alone.",
    ]


def test_table_names_the_studies_where_there_are_several() -> None:
    """And not where every line would say the same."""
    table = questions_text([question(1), question(2, project="another")], NOW_MS).splitlines()
    assert [line.split()[-2] for line in table] == ["project", "study", "another"]
    assert "project" not in questions_text([question(1), question(2)], NOW_MS)
