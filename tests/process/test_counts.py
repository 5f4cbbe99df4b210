"""The counts are the right ones: criteria, linkage and language question together, against plain Python on the sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from math import sqrt

import pytest
from fakes.deployment import FRENCH, Deployment, make, persons

from broker_common.privacy.table_laplace import margin
from researcher_node.answers.store import AskedQuestion

pytestmark = pytest.mark.process

MAX_BELIEF = "0." + "9" * 26
"""Some 59 nat: 59 answers at scale 1, whose noise is so small that a wrong join or criterion shows."""
FALSE_ALARM_RATE = Fraction(1, 10**6)
Person = dict[str, str]

CASES: list[tuple[str, Callable[[Person], bool]]] = [
    ("age >= 0", lambda _: True),
    ("age >= 65", lambda p: int(p["age"]) >= 65),
    ("not age >= 65", lambda p: int(p["age"]) < 65),
    ("age between 18 and 64 and sex = 'female'", lambda p: 18 <= int(p["age"]) <= 64 and p["sex"] == "female"),
    ("procedure = 'angioplasty'", lambda p: "angioplasty" in p["procedure"].split(";")),
    ("procedure <> 'colonoscopy'", lambda p: "colonoscopy" not in p["procedure"].split(";")),
    (
        "diagnosis in ('asthma', 'copd') or hospital_visits > 1",
        lambda p: bool({"asthma", "copd"} & set(p["diagnosis"].split(";"))) or int(p["hospital_visits"]) > 1,
    ),
    (
        "age < 40 and (census_division = 'Ottawa' or census_division = 'Toronto')",
        lambda p: int(p["age"]) < 40 and p["census_division"] in {"Ottawa", "Toronto"},
    ),
    (
        "last_admission_date >= '2011-01-01'",
        lambda p: p["last_admission_date"] >= "2011-01-01",
    ),
    ("not last_admission_date >= '2011-01-01'", lambda p: p["last_admission_date"] < "2011-01-01"),
    (
        "emergency_visits = 0 and birth_year <= 1960",
        lambda p: p["emergency_visits"] == "0" and p["birth_year"] <= "1960",
    ),
]
QUESTIONS: list[tuple[str, Callable[[Person], bool]]] = [
    ("all", lambda _: True),
    ("mother_tongue in ('French', 'Other')", lambda p: p["mother_tongue"] in {"French", "Other"}),
    (
        "knowledge_of_official_languages = 'English and French'",
        lambda p: p["knowledge_of_official_languages"] == "English and French",
    ),
    ("home_language = 'English'", lambda p: p["home_language"] == "English"),
]
FARTHEST = margin(1, 1, 1 - FALSE_ALARM_RATE / (len(CASES) * len(QUESTIONS) + 8))
"""No noise at scale 1 is farther out, in all the answers of this file together, but once in a million runs."""


@pytest.fixture(scope="module")
def precise(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A deployment with a budget that no agency would give."""
    deployment = make(tmp_path_factory.mktemp("precise") / "deployment", "--max-belief", MAX_BELIEF)
    with deployment.nodes():
        yield deployment


def counts(deployment: Deployment, questions: list[tuple[str, str]]) -> list[int]:
    """The noisy counts at scale 1."""
    asked = deployment.ask_all(questions, scale=1, at_once=4)
    return [
        answer.noisy_count for answer in asked if isinstance(answer, AskedQuestion) and answer.noisy_count is not None
    ]


def test_every_count_is_the_true_one_but_for_the_noise(precise: Deployment) -> None:
    """44 combinations of criteria and question, each within the noise of the count over both source files."""
    people = precise.people()
    assert len(people) > 1500
    asked = [(where, count) for where, _ in CASES for count, _ in QUESTIONS]
    true = [persons(p for p in people if cased(p) and counted(p)) for _, cased in CASES for _, counted in QUESTIONS]
    assert sum(count > 3 * FARTHEST for count in true) > len(true) / 2, "most counts must be large enough to tell"
    noisy = counts(precise, asked)
    far = [(*q, t, n) for q, t, n in zip(asked, true, noisy, strict=True) if abs(n - t) > FARTHEST]
    assert not far


def test_a_fraction_takes_each_person_with_its_probability_and_always_the_same(precise: Deployment) -> None:
    """Half of everyone is half within six standard deviations; asked again, it is the same half."""
    size = persons(precise.people())
    words = ("--scale", "1", "--fraction", "0.5")
    halves = [precise.ask("age >= 0", "all", *words).result["noisy_count"] for _ in range(2)]
    assert abs(halves[0] - size / 2) <= 6 * sqrt(size / 4) + FARTHEST
    assert abs(halves[0] - halves[1]) <= 2 * FARTHEST


def test_nobody_is_found_among_nobody_and_it_is_answered_all_the_same(precise: Deployment) -> None:
    """An empty sample is charged and answered like any other: refusing it would tell that it is empty."""
    before = precise.json("census", "status")["answers"]
    (noisy,) = counts(precise, [("age >= 130", FRENCH)])
    assert abs(noisy) <= FARTHEST
    assert precise.json("census", "status")["answers"] == before + 1
