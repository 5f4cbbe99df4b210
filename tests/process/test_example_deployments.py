"""The examples in deploy/examples, by commands alone: two agencies are made of their files, load what they have, and answer.

People are made up here, in the agencies' own words, as the example's source.toml describes them. The expected counts of a question come
from the same rows by a few lines of Python.
"""

from __future__ import annotations

import csv
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random  # noqa: TID251 - made-up people, the same ones every time
from typing import Any, TypeAlias

import duckdb
import pytest
from fakes.deployment import Deployment, run_here
from fakes.homes import free_addresses

from broker_common.query.dictionary import Dictionary
from broker_common.storage.dictionary.file import read_dictionary

pytestmark = pytest.mark.process

EXAMPLES = Path(__file__).parents[2] / "deploy" / "examples"
PEOPLE = 4000
# Laplace noise at this scale is larger than the slack once in 20,000 answers.
SCALE, SLACK = 10, 100
Row: TypeAlias = dict[str, str]


@dataclass(frozen=True, slots=True)
class Person:
    """Both agencies' facts about a person, in published words; events by table."""

    id: str
    health: Mapping[str, Any]
    events: Mapping[str, Sequence[Mapping[str, Any]]]
    language: Mapping[str, str]


def below(dictionary: Dictionary, column: str, code: str) -> frozenset[str]:
    """The codes that `under` finds."""
    table, _, name = column.rpartition(".")
    found = dictionary.find_events(table)
    return (dictionary.column(name) if found is None else found.column(name)).descendants(code)


def write(path: Path, rows: Sequence[Mapping[str, str]], delimiter: str = ",", encoding: str = "utf-8") -> None:
    """Rows as a CSV file of an agency."""
    with path.open("w", encoding=encoding, newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)


def compact(day: str) -> str:
    """A date as the agency writes it."""
    return day.replace("-", "")


def day(dice: Random) -> str:
    """Some day, often of 2010."""
    return f"{dice.choice([2009, 2010, 2010, 2016])}-{dice.randint(1, 12):02}-{dice.randint(1, 28):02}"


def some(dice: Random, codes: Sequence[str], often: Sequence[str]) -> str:
    """One of the codes, every other time one that questions are about."""
    return dice.choice(often if dice.random() < 1 / 2 else codes)


# --- claims in ICD-10 ------------------------------------------------------------------------------------------------


ASKED = ("I21", "I21.0", "I21.4", "I25", "E10-E14", "E11", "E14", "J45", "J45")


def claims_people(dice: Random) -> list[Person]:
    """People with claims and stays; causes are of any level of the list."""
    causes = [
        code.value for code in read_dictionary(EXAMPLES / "icd10_claims/health/dictionary.toml").column("chronic").codes
    ]
    tongues = ["English"] * 4 + ["French"] * 4 + ["English and French", "Mi'kmaq", "Wolastoqewi", "Other"]
    return [
        Person(
            f"NB-{number:07}",
            {
                "birth_year": dice.choice(["", str(dice.randint(1920, 2010))]),
                "sex": dice.choice(["female", "male"]),
                "health_zone": dice.choice("1234567"),
                "chronic": sorted({some(dice, causes, ASKED) for _ in range(dice.randint(0, 3))}),
            },
            {
                "claim": [
                    {
                        "service_date": day(dice),
                        "diagnosis": some(dice, causes, ASKED),
                        "setting": dice.choice(["office", "emergency"]),
                    }
                    for _ in range(dice.randint(0, 12))
                ],
                "hospitalisation": [
                    {"admitted": day(dice), "cause": some(dice, causes, ASKED), "days": dice.randint(0, 20)}
                    for _ in range(dice.randint(0, 3))
                ],
            },
            {
                "mother_tongue": dice.choice(tongues),
                "official_languages": dice.choice(["English only", "English and French"]),
            },
        )
        for number in range(PEOPLE)
    ]


def claims_files(home: Path, people: Sequence[Person]) -> None:
    """As the example's source.toml says, in two files where it names several."""
    sexes, settings = {"female": "F", "male": "M"}, {"office": "C", "emergency": "U", "inpatient": "H"}
    insured = [
        {
            "NO_ASSURE": person.id,
            "NOM": "Lœuil",
            "AN_NAISSANCE": person.health["birth_year"] or "9999",
            "SEXE": sexes[person.health["sex"]],
            "ZONE": person.health["health_zone"],
        }
        for person in people
    ]
    write(home / "insured-1.csv", insured[: PEOPLE // 2], ";", "cp1252")
    write(home / "insured-2.csv", insured[PEOPLE // 2 :], ";", "cp1252")
    followed = [{"NO_ASSURE": person.id, "DX": code} for person in people for code in person.health["chronic"]]
    write(home / "followed.csv", followed, ";")
    claims = [
        {
            "NO_ASSURE": person.id,
            "DATE_SERV": compact(claim["service_date"]),
            "DX": claim["diagnosis"],
            "LIEU": settings[claim["setting"]],
        }
        for person in people
        for claim in person.events["claim"]
    ]
    write(home / "claims-2010.csv", claims, ";")
    stays = [
        {
            "NO_ASSURE": person.id,
            "DATE_ADM": compact(stay["admitted"]),
            "DX_PRINC": stay["cause"],
            "DUREE": str(stay["days"]),
        }
        for person in people
        for stay in person.events["hospitalisation"]
    ]
    write(home / "stays.csv", stays, ";")


def claims_census(home: Path, people: Sequence[Person]) -> None:
    """Languages as numbers."""
    tongues = ["English", "French", "English and French", "Mi'kmaq", "Wolastoqewi", "Other"]
    official = ["English only", "French only", "English and French", "Neither"]
    rows = [
        {
            "PERSON_ID": f"p{number}",
            "HOUSEHOLD_ID": f"h{number // 3}",
            "INSURANCE_NO": person.id.lower(),
            "MTNNO": str(1 + tongues.index(person.language["mother_tongue"])),
            "OLN": str(1 + official.index(person.language["official_languages"])),
        }
        for number, person in enumerate(people)
    ]
    write(home / "census.csv", rows)


# Counts of each question of the README, in Python: with a person and the codes under a code.
CLAIMS: dict[str, Callable[[Person, Callable[[str, str], frozenset[str]]], bool]] = {
    "chronic under 'I20-I25'": lambda person, under: bool(under("chronic", "I20-I25") & set(person.health["chronic"])),
    "any(hospitalisation where cause under 'I21' and admitted between '2010-01-01' and '2010-12-31')": lambda person, under: (
        any(
            stay["cause"] in under("hospitalisation.cause", "I21") and stay["admitted"].startswith("2010")
            for stay in person.events["hospitalisation"]
        )
    ),
    "count(claim where diagnosis under 'E10-E14') >= 3": lambda person, under: (
        sum(claim["diagnosis"] in under("claim.diagnosis", "E10-E14") for claim in person.events["claim"]) >= 3
    ),
    "any(hospitalisation where days >= 7) and chronic = 'J45'": lambda person, _: (
        any(stay["days"] >= 7 for stay in person.events["hospitalisation"]) and "J45" in person.health["chronic"]
    ),
}


# --- an extract of an OMOP common data model -------------------------------------------------------------------------


def omop_people(dice: Random) -> list[Person]:
    """People with conditions, drugs and visits."""
    dictionary = read_dictionary(EXAMPLES / "omop_cdm/health/dictionary.toml")
    codes = {f"{table.name}.{each.name}": list(each.values) for table in dictionary.events for each in table.columns}
    drugs = [code for code in codes["drug_exposure.drug"] if code.isdecimal()]
    return [
        Person(
            f"{number:08}",
            {"year_of_birth": str(dice.randint(1920, 2010)), "gender": dice.choice(["female", "male"])},
            {
                "condition_occurrence": [
                    {
                        "condition_start_date": day(dice),
                        "condition": some(dice, codes["condition_occurrence.condition"], ["201826"]),
                    }
                    for _ in range(dice.randint(0, 4))
                ],
                "drug_exposure": [
                    {
                        "drug_exposure_start_date": day(dice),
                        "drug": some(dice, drugs, ["1503297"]),
                        "days_supply": dice.choice([30, 90, 180]),
                    }
                    for _ in range(dice.randint(0, 4))
                ],
                "visit_occurrence": [
                    {"visit_start_date": day(dice), "visit": dice.choice(codes["visit_occurrence.visit"])}
                    for _ in range(dice.randint(0, 9))
                ],
            },
            {"mother_tongue": dice.choice(["English", "French", "Other"]), "home_language": "English"},
        )
        for number in range(PEOPLE)
    ]


def omop_files(home: Path, people: Sequence[Person]) -> None:
    """The tables of the CDM in a DuckDB file; products stand below ingredients."""
    genders = {"female": "8532", "male": "8507"}
    concepts = {"condition": "condition_concept_id", "drug": "drug_concept_id", "visit": "visit_concept_id"}
    signs = {"drug": "-"}
    ingredients = sorted({drug["drug"] for person in people for drug in person.events["drug_exposure"]})
    tables: dict[str, list[Row]] = {
        "person": [
            {
                "person_id": str(number),
                "person_source_value": person.id,
                "year_of_birth": person.health["year_of_birth"],
                "gender_concept_id": genders[person.health["gender"]],
            }
            for number, person in enumerate(people)
        ],
        # A product stands below its ingredient, and its number is one that nobody published.
        "concept": [{"concept_id": each, "concept_class_id": "Ingredient"} for each in ingredients],
        "concept_ancestor": [{"ancestor_concept_id": e, "descendant_concept_id": f"-{e}"} for e in ingredients],
    }
    for name in ("condition_occurrence", "drug_exposure", "visit_occurrence"):
        tables[name] = [
            {"person_id": str(number)}
            | {concepts.get(key, key): signs.get(key, "") + str(value) for key, value in event.items()}
            for number, person in enumerate(people)
            for event in person.events[name]
        ]
    with duckdb.connect(str(home / "cdm.duckdb")) as database:
        for name, rows in tables.items():
            write(home / f"{name}.csv", rows)
            types = "types = {'person_source_value': 'varchar'}" if name == "person" else "header = true"
            database.execute(f"create table {name} as from read_csv('{home / name}.csv', {types})")


def omop_census(home: Path, people: Sequence[Person]) -> None:
    """Under published names: this census has no source.toml."""
    rows = [
        {"person_id": f"p{number}", "household_id": f"h{number // 3}", "health_card": person.id, **person.language}
        for number, person in enumerate(people)
    ]
    write(home / "people.csv", rows)


OMOP: dict[str, Callable[[Person, Callable[[str, str], frozenset[str]]], bool]] = {
    "any(condition_occurrence where condition = '201826') and any(drug_exposure where drug = '1503297')": lambda person, _: (
        any(each["condition"] == "201826" for each in person.events["condition_occurrence"])
        and any(each["drug"] == "1503297" for each in person.events["drug_exposure"])
    ),
    "any(drug_exposure where drug under 'B01A' and days_supply >= 90)": lambda person, under: any(
        each["drug"] in under("drug_exposure.drug", "B01A") and each["days_supply"] >= 90
        for each in person.events["drug_exposure"]
    ),
    "any(condition_occurrence where condition under '134057' and condition_start_date >= '2015-01-01')": lambda person, under: (
        any(
            each["condition"] in under("condition_occurrence.condition", "134057")
            and each["condition_start_date"] >= "2015-01-01"
            for each in person.events["condition_occurrence"]
        )
    ),
    "count(visit_occurrence where visit under '9203') >= 3": lambda person, under: (
        sum(each["visit"] in under("visit_occurrence.visit", "9203") for each in person.events["visit_occurrence"]) >= 3
    ),
}


# --- two agencies ----------------------------------------------------------------------------------------------------


def said(*words: str | Path) -> dict[str, Any]:
    """Output of a command that succeeds."""
    return run_here(*words, "--json").result


def create(directory: Path, example: Path) -> Deployment:
    """Three homes that know each other, each agency's with the example's dictionary and, if there is one, its source.toml."""
    deployment = Deployment(directory)
    homes = {role: deployment.home(role) for role in ("census", "health", "researcher")}
    census, health, inbox = free_addresses(3)
    said(
        *(
            "census",
            "create",
            "--home",
            homes["census"],
            "--organisation",
            "statistics",
            "--origin",
            "census.example/log",
        ),
        *("--address", census, "--people", "1000", "--release-tick-ms", "0"),
        *("--dictionary", example / "census" / "dictionary.toml"),
    )
    said(
        *(
            "health",
            "create",
            "--home",
            homes["health"],
            "--organisation",
            "ministry",
            "--origin",
            "health.example/log",
        ),
        *("--address", health, "--places", "1000", "--census", census, "--census-organisation", "statistics"),
        *("--linkage-file", homes["census"] / "keys" / "linkage.key"),
        *("--dictionary", example / "health" / "dictionary.toml"),
    )
    said(
        *("researcher", "create", "--home", homes["researcher"], "--id", "r1", "--organisation", "college"),
        *("--project", "study", "--health", health, "--census", census, "--address", inbox),
    )
    for role, home in homes.items():
        said("keys", "card", "--home", home, "--to", directory / f"{role}.card")
        source = example / role / "source.toml"
        if source.exists():
            shutil.copy(source, home / "source.toml")
            (home / "source.toml").chmod(0o600)
    for role, home in homes.items():
        for other in homes.keys() - {role}:
            project = ("--project", "study") if other == "researcher" else ()
            said(role, "register", "--home", home, directory / f"{other}.card", *project)
    return deployment


@dataclass(frozen=True, slots=True)
class Example:
    """One folder of examples, with people for it."""

    people: Callable[[Random], list[Person]]
    health: Callable[[Path, Sequence[Person]], None]
    census: Callable[[Path, Sequence[Person]], None]
    questions: Mapping[str, Callable[[Person, Callable[[str, str], frozenset[str]]], bool]]


WHOLE = {
    "icd10_claims": Example(claims_people, claims_files, claims_census, CLAIMS),
    "omop_cdm": Example(omop_people, omop_files, omop_census, OMOP),
}


def questions_of(readme: str) -> list[str]:
    """The conditions that the README of an example proposes."""
    _, _, rows = readme.partition("| people | `--where` |")
    return re.findall(r"^\| .* \| `(.*)` \|$", rows, re.MULTILINE)


@pytest.mark.parametrize("name", WHOLE)
def test_an_example_is_loaded_and_asked_by_commands_alone(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every question of its README is answered as the rows say, within the noise; what a researcher reads is what was written."""
    example, folder = WHOLE[name], EXAMPLES / name
    assert questions_of((folder / "README.md").read_text("utf-8")) == list(example.questions)
    people = example.people(Random(name))
    deployment = create(tmp_path, folder)
    example.health(deployment.home("health"), people)
    example.census(deployment.home("census"), people)
    assert deployment.json("census", "load")["linked"] == PEOPLE
    loaded = deployment.json("health", "load")
    assert (loaded["loaded"], loaded["rejected"]) == (PEOPLE, 0)
    dictionary = read_dictionary(folder / "health" / "dictionary.toml")
    with deployment.node("census"), deployment.node("health"):
        deployment.wait_until_still()
        published = deployment.json("researcher", "dictionary")
        assert published["health"]["hash"] == dictionary.hash.hex()
        for where, holds in example.questions.items():
            answer = deployment.ask(where, "mother_tongue in ('French', 'English')", "--scale", str(SCALE)).result
            truth = sum(
                person.language["mother_tongue"] in {"French", "English"}
                for person in people
                if holds(person, lambda column, code: below(dictionary, column, code))
            )
            # Neither nobody nor everybody would pass.
            assert 2 * SLACK < truth < PEOPLE * 2 // 3 - 2 * SLACK, (where, truth)
            assert abs(answer["noisy_count"] - truth) < SLACK, (where, truth)
        monkeypatch.setenv("TRIPARTITE_LANG", "fr")
        page = run_here("researcher", "dictionary", "--home", deployment.home("researcher")).stdout
        assert_is_french(page, dictionary)


def assert_is_french(page: str, dictionary: Dictionary) -> None:
    """Every description, every event table, and every code of the columns that a page has room for, below what it stands under."""
    for table in dictionary.events:
        assert f"{table.name}  (événements, en nombre quelconque par personne)\n    {table.description_fr}\n" in page
    for column in (*dictionary.columns, *(column for table in dictionary.events for column in table.columns)):
        assert column.description_fr in page
        for code in column.codes:
            assert f"{'  ' * bool(code.under)}'{code.value}'  {code.label_fr}\n" in page
