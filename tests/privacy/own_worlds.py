"""Two agencies with dictionaries, words and ids of their own, and worlds that differ in the events of one person.

The health agency has ids that are no health cards, a long list of codes below one another, and events; the census agency has
its own language variables. Both write what they have in own words, which `source.toml` maps to the published ones.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from fakes.dictionaries import STAYS
from privacy.canaries import Exhibit, Place
from privacy.evidence import Snapshots, on_the_wire
from privacy.marked_people import Row, write_csv
from privacy.neighbours import CHEAP, EVERYONE, Instants, Life, World, Worlds
from privacy.recorded import Watched
from privacy.wiretap import Call, Wiretap

from broker_common.privacy.delays import declared_for
from broker_common.query.dictionary import Code, Column, ColumnType, Dictionary, EventTable
from broker_common.storage.dictionary.file import dictionary_toml
from deploy.local import Plan, _make_homes

_ID_FORM = "text"
_CODES: Final = (
    *STAYS.column("diagnosis").codes,
    Code("Q00-Q79", "A long chapter"),
    *(Code(f"Q{number:02}", f"Condition {number}", under=("Q00-Q79",)) for number in range(80)),
)
HEALTH: Final = Dictionary(
    (
        Column(name="age", type=ColumnType.INTEGER, description="Age.", maximum=130),
        Column(name="sex", type=ColumnType.CODE, description="Sex.", codes=(Code("female", "F"), Code("male", "M"))),
        Column(name="diagnosis", type=ColumnType.CODE, description="Ever had.", multi_valued=True, codes=_CODES),
    ),
    (
        EventTable(
            "stay",
            "Stays in hospital.",
            (
                Column(name="cause", type=ColumnType.CODE, description="Main cause.", codes=_CODES),
                Column(name="admitted", type=ColumnType.DATE, description="Day of admission."),
                Column(name="days", type=ColumnType.INTEGER, description="Length.", maximum=99_999),
            ),
        ),
    ),
    agency="health-agency",
    id_form=_ID_FORM,
)
CENSUS: Final = replace(
    Dictionary(
        (
            Column(
                name="langue_apprise",
                type=ColumnType.CODE,
                description="Language first learned.",
                codes=(Code("fra", "French"), Code("eng", "English"), Code("mic", "Mi'kmaq")),
            ),
            Column(
                name="langue_parlee",
                type=ColumnType.CODE,
                description="Language spoken at home.",
                codes=(Code("fra", "French"), Code("autre", "Another")),
            ),
        )
    ),
    agency="census-agency",
    id_form=_ID_FORM,
)
# Own words, which nobody else is ever told.
CAUSES: Final = {"OWNQX-77120": "I21.0", "OWNQX-77121": "I21", "OWNQX-77125": "J45"}
TONGUES: Final = {"PARLQX-3301": "fra", "PARLQX-3302": "eng", "PARLQX-3303": "mic"}
HEALTH_SOURCE = f"""
[people]
files = ["people.csv"]
id = "NO_QX"
id_form = "{_ID_FORM}"
[people.columns]
age = "AGE_QX"
sex = "SEXE_QX"
diagnosis = "DX_QX"
[people.codes.sex]
1 = "male"
2 = "female"
[events.stay]
files = ["stay.csv"]
id = "NO_QX"
dates = "yyyymmdd"
[events.stay.columns]
cause = "CAUSE_QX"
admitted = "ADM_QX"
days = "DUREE_QX"
[events.stay.codes.cause]
""" + "".join(f'"{own}" = "{published}"\n' for own, published in CAUSES.items())
CENSUS_SOURCE = f"""
[people]
files = ["people.csv"]
id = "NO_QX"
id_form = "{_ID_FORM}"
person = "PERSONNE"
household = "MENAGE"
[people.columns]
langue_apprise = "APPRISE"
langue_parlee = "PARLEE"
[people.codes.langue_apprise]
""" + "".join(f'"{own}" = "{published}"\n' for own, published in TONGUES.items())

PEOPLE, IN_CENSUS, FRENCH_SPEAKERS = 16_001, 12_611, 10_703
"""In this order: who speaks French, who else is in the census, who is not. Sizes as in `privacy.marked_people`."""
STAYED, DIAGNOSED = 14_387, 13_457
"""Everybody from the second on, and from the third on."""
X_ID = "NBQX-5521-MARKED"
DAYS, ADMITTED = 86_413, "2010-11-23"
# Code of a stay that no criteria name.
OTHER_DAYS, OTHER_ADMITTED = 79_301, "2009-04-17"
_DAYS_OF_NOBODY = 93_187
_MANY, _MANY_DAYS = 100_000, 95
FRENCH = "langue_apprise = 'fra'"
ONE = f"any(stay where days = {DAYS} and admitted = '{ADMITTED}')"
NOBODY = f"any(stay where days = {_DAYS_OF_NOBODY})"
LARGE = "any(stay where cause under 'I20-I25' and admitted between '2007-01-01' and '2007-12-31')"
ASKED = (
    ONE,
    "any(stay where cause under 'I21' and days > 10000)",
    f"count(stay where days = {_MANY_DAYS}) >= 1000",
    NOBODY,
    LARGE,
    "diagnosis under 'I20-I25'",
    EVERYONE,
)
_WRONG = (
    ("any(stay where cause under 'I2l')", FRENCH),
    ("any(visit where days > 3)", FRENCH),
    ("diagnosis under 'I20-I25", FRENCH),
    (ONE, "langue_apprise = 'Klingon'"),
)


class OwnWorlds(Worlds):
    """Makes worlds by name; each lives once in a run, under per-person accounting, which keeps whom it charged."""

    def _make(self, base: Path) -> None:
        plan = Plan(PEOPLE, 1, "per_person", "0.99", release_tick_ms=0, forward_delay_ms=0)
        files = []
        base.mkdir(parents=True)
        for role, dictionary in (("census", CENSUS), ("health", HEALTH)):
            file = base.with_name(f"{role}.toml")
            file.write_text(dictionary_toml(dictionary), "utf-8")
            files.append(file)
        assert plan.places == declared_for(PEOPLE)
        _make_homes(base, plan, plan.policy(), (files[0], files[1]))

    def _fill(self, directory: Path, name: str) -> None:
        health, stays, census = _people(name)
        for role, rows, source in (("health", health, HEALTH_SOURCE), ("census", census, CENSUS_SOURCE)):
            write_csv(directory / role / "people.csv", rows)
            file = directory / role / "source.toml"
            file.touch(0o600)
            file.write_text(source, "utf-8")
        write_csv(directory / "health" / "stay.csv", stays)

    def _life(self, deployment: Watched, tap: Wiretap, world: World) -> Life:
        return OwnLife(deployment, tap, world)

    def evidence(self, name: str) -> OwnLife:
        """The life of a world, with all that was held and told in it."""
        life = self.life(name)
        assert isinstance(life, OwnLife)
        return life


class OwnLife(Life):
    """Every question at once, some with mistakes, and every page that a researcher reads."""

    def live(self) -> None:
        self._deployment.start("census")
        self._deployment.start("health")
        self._deployment.wait_until_still()
        self._say("dictionary")
        self._say("quote", "--count", FRENCH)
        for where in ASKED:
            self._ask(where, FRENCH, scale=CHEAP)
        for where, count in _WRONG:
            self._say("ask", "--where", where, "--count", count)
        self._say("answers", "--collect")
        self._say("answers", self._order[0])
        self._world.health_status = self._status()
        self._deployment.run_here("census", "status")
        self._count_samples()

    def _instants(self, questions: dict[str, list[Call]], rounds: list[Call]) -> Iterator[Instants]:
        del questions, rounds
        return iter(())

    def calls(self, number: int) -> list[Call]:
        """Calls of one of the questions."""
        return [call for call in self._traffic.calls() if call.query == self._order[number]]

    def exhibits(self) -> list[Exhibit]:
        """Everything that anybody held or was told."""
        snapshots = Snapshots(self._deployment.directory, HEALTH)
        snapshots.take("at the end")
        logs = [
            Exhibit(Place(role, "log"), "standard error", self._deployment.log(role)) for role in ("health", "census")
        ]
        return [*snapshots.exhibits, *self._deployment.said, *logs, *on_the_wire(self._traffic)]

    def key(self) -> bytes:
        """Key of everybody's pseudonyms."""
        return (self._deployment.home("health") / "keys" / "linkage.key").read_bytes()

    def noisy_counts(self) -> set[int]:
        """Counts that the researcher was told."""
        file = self._deployment.home("researcher") / "answers.db"
        with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as db:
            rows = db.execute("select noisy_counts from questions where noisy_counts is not null").fetchall()
        assert len(rows) == len(ASKED)
        return {int(row["noisy_count"]) for row in self._rows()}

    def stored(self) -> list[Any]:
        """Criteria as the researcher's store has them."""
        file = self._deployment.home("researcher") / "answers.db"
        with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as db:
            return [row[0] for row in db.execute("select criteria from questions where refused = '' order by rowid")]


def _people(name: str) -> tuple[list[Row], list[Row], list[Row]]:
    """People, stays and census of a world; the first person is x."""
    health, stays, census = [], [], []
    for number in range(PEOPLE):
        own_id = f"NB-{number:07}" if number else X_ID
        ill = "I21.0;Q05" if 2 <= number < 2 + DIAGNOSED else "Q07"
        health.append({"NO_QX": own_id, "AGE_QX": str(number % 97), "SEXE_QX": str(1 + number % 2), "DX_QX": ill})
        if 1 <= number <= STAYED:
            stays.append(_stay(own_id, "OWNQX-77121", f"2007-{1 + number % 12:02}-15", number % 90))
        if number < IN_CENSUS:
            tongue = "PARLQX-3301" if number < FRENCH_SPEAKERS else "PARLQX-3302"
            census.append(
                {
                    "NO_QX": own_id.lower(),
                    "PERSONNE": f"p{number}x",
                    "MENAGE": f"h{number}x",
                    "APPRISE": tongue,
                    "PARLEE": "autre",
                }
            )
    of_x = [
        _stay(X_ID, "OWNQX-77120", ADMITTED, DAYS),
        _stay(X_ID, "OWNQX-77121", OTHER_ADMITTED, OTHER_DAYS),
        _stay(X_ID, "OWNQX-77125", "2008-08-08", 3),
    ]
    match name:
        case "x has stays":
            pass
        case "x has no stay":
            of_x = []
        case "x's stays have another cause":
            of_x = [stay | {"CAUSE_QX": "OWNQX-77125"} for stay in of_x]
        case "x has very many stays":
            of_x += [_stay(X_ID, "OWNQX-77125", "2008-08-08", _MANY_DAYS)] * _MANY
        case "x speaks another language":
            census[0]["APPRISE"] = "PARLQX-3303"
        case _:
            raise AssertionError(name)
    return health, [*stays, *of_x], census


def _stay(own_id: str, cause: str, admitted: str, days: int) -> Row:
    return {"NO_QX": own_id, "CAUSE_QX": cause, "ADM_QX": admitted.replace("-", ""), "DUREE_QX": str(days)}
