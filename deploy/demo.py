"""`demo`: a real session on this machine, end to end, the attack that drives the service to its cap, and its audit.

Everything that happens here happens between the real node processes; the demo is a researcher with a script. Only the
attackers' arithmetic reads the made-up census file: it stands for all that they are assumed to know already.
"""

from __future__ import annotations

import asyncio
import csv
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from broker_common.cli import called
from broker_common.errors import InternalError, InvalidRequestError, RefusedError
from broker_common.language import language_of_environment, phrase, said
from broker_common.privacy.accounting import answers_left, price
from broker_common.privacy.belief import belief_from_log_odds, belief_of_units, log_likelihood_ratio
from broker_common.privacy.table_laplace import margin
from census_node.assembly import CensusHome
from deploy import texts
from deploy.audited import audit_deployment
from deploy.local import PROJECT, Plan, lay_out
from deploy.share_errors import share_errors
from deploy.supervise import Nodes, node_log
from researcher_node.answers.store import AskedQuestion
from researcher_node.asking.proposal import Precision, Wanted
from researcher_node.asking.session import Session
from researcher_node.assembly import ResearcherHome

_MARKER = ".tripartite-demo"
# The paper's scale, under attack; the studies pay three times as much for shares that tell something about so few people.
_SCALE = 30
_STUDY_SCALE = 10
_HOUSEHOLD = 4
# A share that is off by more percentage points than this misleads.
_MISLEADING = 2.0
_MAX_BELIEF = "0.8"
# Faster than usual, where a desk with so few people keeps up.
_TICK_MS = 100
_FEW = 1_000_000
_WAIT_SECONDS = 60.0
_FRENCH = "mother_tongue = 'French'"
_FRENCH_OF_ALL = "mother_tongue by 'French', rest"
_ONTARIO = 12_851_821
_SENIORS = "age >= 65 and diagnosis = 'type_2_diabetes'"
_BANDS = (
    (phrase("no stay"), "hospital_visits = 0"),
    (phrase("1 or 2 stays"), "hospital_visits between 1 and 2"),
    (phrase("3 or more"), "hospital_visits >= 3"),
)

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Target:
    """The made-up person under attack, and what the attackers know of the group around them."""

    language: str
    where: str
    others: int

    @property
    def is_francophone(self) -> bool:
        return self.language == "French"


async def run_demo(directory: Path, population: int, *, say: Say, report: Any) -> dict[str, Any]:
    """The whole demo in `directory`; gives what `--json` prints."""
    _make_room(directory)
    say(said(texts.DEMO_TITLE, population=population))
    # The paper's accounting, because this is the paper's attack: driven to its cap, only `strict` stops answering.
    plan = Plan(
        population=population,
        seed=2011,
        accounting="strict",
        max_belief=_MAX_BELIEF,
        release_tick_ms=_TICK_MS if population <= _FEW else None,
    )
    deployment = directory / "deployment"
    policy = lay_out(deployment, plan, report)
    say(said(texts.DEMO_NODES))
    with node_log(directory / "nodes.log", say) as log:
        async with Nodes(deployment, say=lambda line: say(f"  {line}"), log=log):
            home = ResearcherHome(deployment / "researcher")
            answers = home.open_answers()
            async with home.session(answers) as session:
                show = _Show(session, say, policy.cap)
                studies = await show.studies(population)
                attack = await show.attack(_choose_target(deployment))
            answers.close()
    status = _status(deployment)
    say(
        said(
            texts.DEMO_STATUS,
            **(status | {"state": said(status["state"]), "max_belief": language_of_environment().exact(_MAX_BELIEF)}),
        )
    )
    audit = await asyncio.to_thread(audit_deployment, deployment, directory, say=say)
    say(said(texts.DEMO_KEPT, program=called(), directory=deployment))
    return {"population": population, "studies": studies, "attack": attack, "status": status, "audit": audit}


class _Show:
    """Asks, and tells what came back."""

    def __init__(self, session: Session, say: Say, cap: int) -> None:
        self._session = session
        self._say = say
        self._cap = cap
        self._answers = 0
        self._units = 0

    async def _ask(self, where: str, count: str, scale: int) -> AskedQuestion:
        wanted = Wanted(where, count, Precision(scale), 1_000_000, PROJECT)
        asked = await self._session.prepare(wanted)
        answered = await self._session.ask(asked, wait_seconds=_WAIT_SECONDS, on_stage=lambda _: None)
        self._answers += 1
        self._units += answered.charged or 0
        return answered

    async def _ask_or_refusal(self, where: str, count: str) -> AskedQuestion | RefusedError:
        try:
            return await self._ask(where, count, _SCALE)
        except RefusedError as refusal:
            return refusal

    async def studies(self, population: int) -> list[dict[str, Any]]:
        """The paper's two example questions, each group a table of French and everybody else."""
        self._say(said(texts.DEMO_STUDIES, margin=margin(_STUDY_SCALE, 2), scale=_STUDY_SCALE, usual=_SCALE))
        self._say(said(texts.DEMO_STUDY_1))
        rows = [await self._share(phrase("angioplasty"), "procedure = 'angioplasty'")]
        self._say(said(texts.DEMO_STUDY_2))
        rows += [await self._share(label, f"{_SENIORS} and {band}") for label, band in _BANDS]
        point = rows[0]["points_95"] * population / _ONTARIO
        self._say(said(texts.DEMO_COARSE, misleading=_MISLEADING, population=population, point=point))
        self._say(said(texts.DEMO_CHARGED, answers=self._answers, units=self._units, cap=self._cap))
        self._say(
            said(
                texts.DEMO_HOUSEHOLD,
                program=called(),
                scale=_SCALE,
                members=_HOUSEHOLD,
                one=answers_left(self._cap, 0, _SCALE),
                several=self._cap // (_HOUSEHOLD * price(_SCALE)),
            )
        )
        return rows

    async def _share(self, label: str, where: str) -> dict[str, Any]:
        answer = await self._ask(where, _FRENCH_OF_ALL, _STUDY_SCALE)
        if answer.noisy is None:
            raise InternalError("INTERNAL")
        french, rest = answer.noisy.values
        errors = share_errors(_STUDY_SCALE, french, rest)
        points, misleading = 100 * errors.within(0.95), 100 * errors.beyond(_MISLEADING / 100)
        self._say(
            said(
                texts.DEMO_BAND,
                label=said(label),
                count=french,
                total=french + rest,
                share=said("{share:.1f} %", share=100 * errors.share),
                points=points,
                misleads=said("{share:.1f} %", share=misleading),
            )
        )
        return {
            "label": label,
            "where": where,
            "count": french,
            "total": french + rest,
            "margin_95": margin(_STUDY_SCALE, 2),
            "share": round(errors.share, 4),
            "points_95": round(points, 2),
            "misleads": round(misleading / 100, 6),
        }

    async def attack(self, target: _Target) -> dict[str, Any]:
        """Ask about the target's group until the service refuses."""
        cap_percent = 100 * float(_MAX_BELIEF)
        self._say(said(texts.DEMO_ATTACK, cap=cap_percent))
        log_odds, belief, ceiling = Fraction(0), 50.0, 50.0
        beliefs: list[float] = []
        while not isinstance(answer := await self._ask_or_refusal(target.where, _FRENCH), RefusedError):
            log_odds += log_likelihood_ratio(_SCALE, answer.noisy_count or 0, target.others + 1, target.others)
            belief = 100 * belief_from_log_odds(log_odds)
            ceiling = 100 * float(belief_of_units(self._units))
            beliefs.append(belief)
            self._say(
                said(
                    texts.DEMO_ATTACK_ROW,
                    number=self._answers,
                    noisy=answer.noisy_count,
                    belief=belief,
                    ceiling=ceiling,
                )
            )
        self._say(
            said(
                texts.DEMO_ATTACK_TRUTH,
                language=said(target.language),
                answers=len(beliefs),
                before=self._answers - len(beliefs),
                belief=belief,
                ceiling=ceiling,
            )
        )
        text, hint = answer.said(said)
        self._say(said(texts.DEMO_REFUSED, number=self._answers + 1, text=text, hint=hint))
        return {
            "where": target.where,
            "francophone": target.is_francophone,
            "beliefs": [round(value / 100, 5) for value in beliefs],
            "ceiling": round(ceiling / 100, 5),
            "answers": self._answers,
            "refused": answer.as_json()["error"],
        }


def _choose_target(deployment: Path) -> _Target:
    """Somebody francophone whose group the attackers can single out, and the francophones around them."""
    with (deployment / "census" / "people.csv").open(encoding="utf-8", newline="") as file:
        language = {row["health_card"]: row["mother_tongue"] for row in csv.DictReader(file) if row["health_card"]}
    with (deployment / "health" / "people.csv").open(encoding="utf-8", newline="") as file:
        groups: dict[tuple[str, str], list[str]] = {}
        for row in csv.DictReader(file):
            tongue = language.get(row["health_card"])
            if tongue is not None and "angioplasty" in row["procedure"].split(";"):
                groups.setdefault((row["census_division"], row["age"]), []).append(tongue)
    for (division, age), tongues in sorted(groups.items()):
        if "French" in tongues:
            quoted = division.replace("'", "''")
            where = f"procedure = 'angioplasty' and census_division = '{quoted}' and age = {age}"
            return _Target("French", where, tongues.count("French") - 1)
    raise InvalidRequestError(
        "INVALID_VALUE",
        name="--population",
        problem="is so small that nobody francophone had an angioplasty",
        remedy="Use at least 10,000.",
    )


def _status(deployment: Path) -> dict[str, Any]:
    with CensusHome(deployment / "census").journal() as journal, journal.reading() as state:
        return {
            "state": "shutdown" if state.shut_down else "serving",
            "answers": state.answers,
            "worst_belief": float(min(belief_of_units(state.charged_units), Decimal(_MAX_BELIEF))),
            "max_belief": _MAX_BELIEF,
            "log_size": state.size,
        }


def _make_room(directory: Path) -> None:
    """An earlier demo gives way; anything else in the way is left alone."""
    if directory.exists():
        if not (directory / _MARKER).is_file():
            raise InvalidRequestError(
                "HOME_INVALID",
                home=str(directory),
                role="demo",
                problem="it exists and is not an earlier demo",
                remedy=texts.NOT_A_DEMO,
            )
        shutil.rmtree(directory)
    directory.mkdir(parents=True)
    (directory / _MARKER).touch()
