"""Hierarchies and events from the files of an agency to the answer: real nodes, commands alone, against plain Python on the files.

The health agency of a made-up deployment takes a dictionary of its own into force, with events, and loads what it has made of
its people: the cards are those of the deployment, all else is drawn here.
"""

from __future__ import annotations

import csv
import random  # noqa: TID251 - made-up records, no secret
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path

import pytest
from fakes.deployment import Deployment, make, persons, run
from fakes.dictionaries import STAYS
from fakes.obvious_criteria import ObviousPerson, Value, meets

from broker_common.privacy.table_laplace import margin
from broker_common.query.criteria import parse_condition
from broker_common.storage.dictionary.file import dictionary_toml
from researcher_node.answers.store import AskedQuestion

pytestmark = pytest.mark.process

MAX_BELIEF = "0." + "9" * 26
SEED = 20_050_101
DICTIONARY = replace(STAYS, agency="health-agency", version=2)
HEART = DICTIONARY.column("diagnosis").values
CASES = [
    "diagnosis under 'I20-I25'",
    "diagnosis not under ('I21', 'I42')",
    "diagnosis like 'I21%' and age >= 40",
    "any(hospitalisation)",
    "any(hospitalisation where cause under 'I21' and admitted between '2005-01-01' and '2005-12-31')",
    "not any(hospitalisation where cause under 'I42' or cause is null)",
    "any(hospitalisation where cause under 'I21') and any(hospitalisation where days > 10)",
    "count(hospitalisation where cause not under 'I20-I25') >= 2",
    "count(hospitalisation) = 1 and count(prescription where drug = 'C07') between 1 and 2",
    "count(prescription) = 0 or sex = 'male'",
]
FARTHEST = margin(1, 1, 1 - Fraction(1, 10**6) / (2 * len(CASES)))
"""No noise at scale 1 is farther out, in all the answers of this file together, but once in a million runs."""


def _drawn(chance: random.Random) -> ObviousPerson:
    def some(value: Value) -> Value | None:
        return None if chance.random() < 0.15 else value

    def day() -> date:
        return date(2004, 1, 1) + timedelta(days=chance.randrange(1_000))

    def stay() -> dict[str, Value | None]:
        admitted = day()
        days = chance.randrange(1, 30)
        return {
            "cause": some(chance.choice(HEART)),
            "admitted": some(admitted),
            "days": some(days),
            "day": some(admitted + timedelta(days=days)),
        }

    values = {"age": some(chance.randrange(100)), "sex": some(chance.choice(["female", "male"])), "day": some(day())}
    known = {name: () if value is None else (value,) for name, value in values.items()}
    ill = set(chance.sample(HEART, chance.randrange(3)))
    drugs: list[dict[str, Value | None]] = [
        {"drug": chance.choice(["C07", "C10"]), "day": some(day())} for _ in range(chance.randrange(4))
    ]
    return ObviousPerson(
        {**known, "diagnosis": ill},
        {"hospitalisation": [stay() for _ in range(chance.randrange(4))], "prescription": drugs},
    )


def _write(path: Path, names: Sequence[str], rows: Iterator[Sequence[object]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["health_card", *names], *rows])


def _cell(values: object) -> str:
    if values is None:
        return ""
    return ";".join(map(str, values)) if isinstance(values, set | tuple) else str(values)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Deployment, dict[str, ObviousPerson]]]:
    """Both nodes serving, and who there is, by card."""
    directory = tmp_path_factory.mktemp("events") / "d"
    deployment = make(directory, "--max-belief", MAX_BELIEF, population=600, accounting="per_person")
    home = deployment.home("health")
    chance = random.Random(SEED)
    with (home / "people.csv").open(encoding="utf-8", newline="") as file:
        people = {row["health_card"]: _drawn(chance) for row in csv.DictReader(file) if row["health_card"]}
    names = DICTIONARY.names
    _write(
        home / "people.csv",
        names,
        ([card, *(_cell(person.values[name]) for name in names)] for card, person in people.items()),
    )
    for table in DICTIONARY.events:
        rows = [(card, row) for card, person in people.items() for row in person.events[table.name]]
        # Nobody's file is in the order of its people.
        chance.shuffle(rows)
        _write(
            home / f"{table.name}.csv",
            table.names,
            ([card, *(_cell(row[name]) for name in table.names)] for card, row in rows),
        )
    (directory / "own.toml").write_text(dictionary_toml(DICTIONARY), "utf-8")
    adopted = run("dictionary", "adopt", "--home", home, directory / "own.toml")
    assert adopted.code == 0, adopted.stderr
    loaded = run("health", "load", "--home", home)
    assert loaded.code == 0, loaded.stderr
    with deployment.node("census"), deployment.node("health"):
        deployment.wait_until_still()
        yield deployment, people


def test_answers_are_those_of_the_files(asked: tuple[Deployment, dict[str, ObviousPerson]]) -> None:
    """Every kind of condition, counted among linked people, up to noise that is small."""
    deployment, people = asked
    linked = [person for person in deployment.people() if person["health_card"] in people]
    answers = deployment.ask_all([(where, "all") for where in CASES], scale=1)
    for where, answer in zip(CASES, answers, strict=True):
        assert isinstance(answer, AskedQuestion), answer
        condition = parse_condition(where, DICTIONARY)
        true = persons(row for row in linked if meets(condition, people[row["health_card"]], DICTIONARY))
        assert abs((answer.noisy_count or 0) - true) <= FARTHEST, where
        # Neither nobody nor everybody: something was told.
        assert FARTHEST < true < persons(linked) - FARTHEST


def test_commands_take_and_tell_them(asked: tuple[Deployment, dict[str, ObviousPerson]], tmp_path: Path) -> None:
    """A dry run, a study, and what is said to a mistake."""
    deployment, _ = asked
    where = "any(hospitalisation where days > 3 and cause under 'I21')"
    dry = deployment.ask(where, "all", "--dry-run")
    assert dry.code == 0, dry.stderr
    certain = deployment.ask("any(hospitalisation where days > 3000)", "all", "--dry-run")
    assert [each["code"] for each in certain.result["warnings"]] == ["MATCHES_NOBODY"]
    mistake = deployment.ask("cause under 'I21'", "all")
    assert mistake.error["code"] == "UNKNOWN_COLUMN"
    assert "Type: any(hospitalisation where cause under 'I21')" in mistake.error["hint"]
    assert deployment.ask("any(stays)", "all").error["code"] == "UNKNOWN_EVENTS"
    file = tmp_path / "study.yaml"
    file.write_text(
        "where: diagnosis not under 'J45'\nscale: 30\ncount: mother_tongue = 'French'\nof: all\nby:\n  stays:\n"
        "    none: count(hospitalisation) = 0\n    some: any(hospitalisation)\n"
    )
    for command in ("plan", "run", "report"):
        done = run("study", command, file, "--home", deployment.home("researcher"))
        assert done.code == 0, done.stderr
    assert "some" in done.stdout
