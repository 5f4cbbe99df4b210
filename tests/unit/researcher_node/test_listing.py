"""Questions and answers as they are shown: everything to programs, one in full or several in columns to people."""

from __future__ import annotations

from typing import Any

import pytest
from tripartite.v1 import ticket_pb2

from broker_common.query.dictionary import AskedOf
from broker_common.values import NoisyCounts
from researcher_node.answers import AskedQuestion
from researcher_node.listing import answer_json, answer_text, question_json, questions_text

NOW_MS = 1_774_949_400_000  # 2026-03-31T09:30:00Z
LATER_MS = NOW_MS + 600_000
OVERDUE = "its ticket has expired; if it was charged the answer still comes: 'ask --again' finds out"


def question(number: int = 1, *, expires_ms: int = LATER_MS, project: str = "study", **changes: Any) -> AskedQuestion:
    """A question asked just now; pending, until told otherwise."""
    ticket = ticket_pb2.Ticket(project_id=project, expires_ms=expires_ms).SerializeToString()
    fields: dict[str, Any] = {
        "query": f"{number:032x}",
        "asked_ms": NOW_MS,
        "where": "age >= 65",
        "question": "mother_tongue = 'French'",
        "scale": 30,
        "fraction_millionths": 1_000_000,
        "policy_hash": "ab" * 32,
        "signed_quote": b"",
        "signed_ticket": ticket_pb2.SignedTicket(ticket=ticket).SerializeToString(),
        "criteria": b"",
        "criteria_nonce": b"",
    }
    return AskedQuestion(**fields | changes)


ONE_IN_FIVE = AskedOf(not_asked="not asked", one_in=5, design_effect_hundredths=280)
ANSWERED: dict[str, Any] = {
    "noisy": NoisyCounts((-12,)),
    "charged": 559241,
    "checkpoint": "note",
    "answered_ms": NOW_MS + 1000,
}


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
        "cells": [{"label": "French", "values": ["French"], "noisy_count": None, "margin_95": 90}],
        "charged": None,
        "checkpoint": None,
        "refused": None,
        "project": "study",
        "label": None,
        "answered": None,
        "ticket_expires": "2026-03-31T09:40:00+00:00",
        "quoted_again": 0,
        "asked_of": None,
    }
    of_a_part = question_json(question(fraction_millionths=250_000, asked_of=ONE_IN_FIVE))
    assert of_a_part == pending | {"asked_of": {"share": 0.2, "weight": 5, "design_effect": 2.8}}
    answered = question_json(question(fraction_millionths=250_000, **ANSWERED))
    assert answered == pending | {
        "state": "answered",
        "noisy_count": -12,
        "cells": [{"label": "French", "values": ["French"], "noisy_count": -12, "margin_95": 90}],
        "charged": 559241,
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
    assert not {"noisy_count", "margin_95"} & table.keys()
    assert "5, -1" in answer_text(share)


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
        ({"quoted_again": 1}, ["1 before this one that the census node did not hold any more"]),
        (
            ANSWERED | {"asked_of": ONE_IN_FIVE},
            ["of whom   everybody who was asked, one household in 5: times 5 for everybody", "(design effect 2.8)"],
        ),
        (ANSWERED | {"quoted_again": 2}, ["2 before this one that the census node did not hold any more"]),
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
        "fraction  0.25",
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
    ]


def test_table_names_the_studies_where_there_are_several() -> None:
    """And not where every line would say the same."""
    table = questions_text([question(1), question(2, project="another")], NOW_MS).splitlines()
    assert [line.split()[-2] for line in table] == ["project", "study", "another"]
    assert "project" not in questions_text([question(1), question(2)], NOW_MS)
