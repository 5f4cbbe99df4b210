"""Tables of every language variable, asked for as researchers do, against plain Python on the source files."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import sqrt
from typing import Any

import pytest
from fakes.deployment import Deployment, make, persons
from fakes.dictionaries import CENSUS_DICTIONARY

from broker_common.privacy.table_laplace import margin
from broker_common.query.question import REST, read_question
from researcher_node.answers.store import AskedQuestion
from researcher_node.asking.proposal import Precision, Wanted
from researcher_node.asking.session import Session

pytestmark = pytest.mark.process

MAX_BELIEF = "0." + "9" * 26
"""Some 59 nat: 59 answers at scale 1, whose noise is so small that a wrong value shows."""
FALSE_ALARM_RATE = Fraction(1, 10**6)
"""Of all comparisons of this file together."""
Person = dict[str, str]

SENIORS = "age >= 65"
# Criteria, counts, and whether they are of everybody.
TABLES: list[tuple[str, tuple[str, ...], bool]] = [
    *(("age >= 0", (name,), True) for name in CENSUS_DICTIONARY.names),
    # French, and not English.
    (SENIORS, ("mother_tongue in ('French', 'French and other')",), True),
    (SENIORS, ("home_language = 'French'", "home_language = 'English'"), True),
    ("sex = 'female'", ("francophone = 'Yes'",), True),
    ("sex = 'male'", ("work_language by 'No work', rest",), False),
    ("sex = 'male'", ("home_language", "home_language = 'not asked'"), False),
]
MOST_COMPARISONS = 16 * len(TABLES)


@pytest.fixture(scope="module")
def precise(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A deployment with a budget that no agency would give."""
    deployment = make(tmp_path_factory.mktemp("precise") / "deployment", "--max-belief", MAX_BELIEF)
    with deployment.nodes():
        yield deployment


def farthest(cells: int) -> int:
    """No noise of such a table at scale 1 is farther out, in all comparisons of this file together, but once in a million runs."""
    return margin(1, cells, 1 - FALSE_ALARM_RATE / MOST_COMPARISONS)


def matches(where: str, person: Person) -> bool:
    """Whether a person meets one of the criteria above."""
    name, sign, value = where.split(" ", 2)
    return int(person[name]) >= int(value) if sign == ">=" else person[name] == value.strip("'")


def true_counts(people: list[Person], where: str, question: str) -> list[int]:
    """How many people there are in each cell of a question, as its one text says."""
    read = read_question(question)
    assert read.variable is not None
    named = {value for cell in read.cells for value in cell.values}
    matching = [person for person in people if matches(where, person)]
    return [
        persons(
            person
            for person in matching
            if (person[read.variable] not in named if cell == REST else person[read.variable] in cell.values)
        )
        for cell in read.cells
    ]


async def ask_tables(session: Session) -> list[AskedQuestion]:
    """Each of the tables at scale 1."""
    answered = []
    for where, counts, of_all in TABLES:
        question = await session.question(counts, of_all=of_all)
        wanted = Wanted(where, question.text, Precision(1), 1_000_000, "official-languages")
        asked = await session.prepare(wanted)
        answered.append(await session.ask(asked, wait_seconds=60, on_stage=lambda _: None))
    return answered


def test_every_cell_of_every_variable_is_the_true_count_but_for_the_noise(precise: Deployment) -> None:
    """All nine variables, cell by cell; those of the long form leave out who was not asked, unless that is asked for."""
    people = precise.people()
    answered: list[AskedQuestion] = precise.in_session(ask_tables)
    far: list[Any] = []
    for (where, counts, _), asked in zip(TABLES, answered, strict=True):
        assert asked.noisy is not None
        true = true_counts(people, where, asked.question)
        assert max(true) > farthest(len(true)), "some cell must be large enough to tell"
        far += [
            (where, counts, cell.label, t, n)
            for cell, t, n in zip(asked.cells, true, asked.noisy.values, strict=True)
            if abs(n - t) > farthest(len(true))
        ]
    assert not far
    for (_, counts, _), asked in zip(TABLES, answered, strict=True):
        variable = read_question(asked.question).variable or ""
        column = CENSUS_DICTIONARY.column(variable)
        named = {value for cell in asked.cells for value in cell.values}
        counts_not_asked = column.not_asked in named
        assert counts_not_asked == any("not asked" in count for count in counts)
        assert asked.asked_of == (None if counts_not_asked else column.asked_of)
        assert (REST in asked.cells) == (variable == "mother_tongue")


def test_those_who_were_asked_stand_for_everybody(precise: Deployment) -> None:
    """Their number times the weight is that of everybody, within six standard errors of a sample of households."""
    people = precise.people()
    answer = precise.ask("age >= 0", "francophone", "--of", "all", "--scale", "1").result
    assert [cell["values"] for cell in answer["cells"]] == [["Yes"], ["No"]]
    assert answer["asked_of"] == {"share": 0.2, "weight": 5, "design_effect": 2.8}
    asked = sum(cell["noisy_count"] for cell in answer["cells"])
    everybody, share, household = persons(people), answer["asked_of"]["share"], 6
    error = sqrt(everybody * share * (1 - share) * household) + 2 * farthest(2)
    assert abs(asked - everybody * share) < 6 * error
    assert abs(asked - persons(p for p in people if p["francophone"] != "not asked")) <= 2 * farthest(2)


def test_people_are_told_whom_an_answer_is_about(precise: Deployment) -> None:
    """On a variable of the long form; on that of the short form there is nothing to say."""
    words = ("--where", SENIORS, "--of", "all", "--scale", "1")
    told = precise.run("researcher", "ask", "--count", "home_language = 'French'", *words).stdout
    assert "of whom   everybody who was asked, one household in 5: times 5 for everybody" in told
    assert "design effect 2.8" in told
    told = precise.run("researcher", "ask", "--count", "mother_tongue = 'French'", *words).stdout
    assert "one household in" not in told
