"""`attack`: attacks on a live deployment, each beside the curve that it may not beat."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click

from broker_common.cli import emit, json_option, say
from broker_common.errors import ExitCode
from deploy.attacks import texts
from deploy.attacks.arena import Accounting, Wish, opened
from deploy.attacks.catalogue import ATTACKS, Attack
from deploy.attacks.findings import FALSE_ALARM, Guesses, Noise, Report
from deploy.attacks.plots import plot_reports

__all__ = ["attack"]

_ALL = "all"
_POPULATION = 5_000
_LEAST, _MOST = 500, 1_000_000
_MOST_ROUNDS = 10_000


@click.command()
@click.argument("name", type=click.Choice([*ATTACKS, _ALL]), metavar="NAME")
@click.option(
    "--deployment",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Attack this one, whose nodes are up; what is asked is spent for good. Otherwise: a new one, removed afterwards.",
)
@click.option(
    "--population",
    type=click.IntRange(_LEAST, _MOST),
    default=_POPULATION,
    show_default=True,
    help="People in the health data of a new deployment.",
)
@click.option(
    "--accounting",
    type=click.Choice(["per_person", "strict"]),
    default="per_person",
    show_default=True,
    help="Of a new deployment.",
)
@click.option(
    "--rounds",
    type=click.IntRange(1, _MOST_ROUNDS),
    help="How often the attack is made; usually what takes half a minute.",
)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Which people are attacked.")
@click.option("--plot", type=click.Path(path_type=Path, dir_okay=False), help="Also draw it, into this PNG file.")
@json_option
def attack(
    name: str,
    deployment: Path | None,
    population: int,
    accounting: Accounting,
    rounds: int | None,
    seed: int,
    plot: Path | None,
    as_json: bool,
) -> int:
    """Attack a live deployment as its adversaries would.

    NAME is an attack, or 'all' for one after the other. Shown beside each success is the curve that it may not beat. Exit code 1
    when a promise did not hold.
    """
    wish = Wish(deployment, population, seed, accounting)
    names = list(ATTACKS) if name == _ALL else [name]
    reports = []
    for each in names:
        reports.append(asyncio.run(_run(ATTACKS[each], rounds, wish)))
        if name == _ALL:
            say(_row(reports[-1]))
    if plot is not None:
        plot_reports(reports, plot)
    result = _result(name, reports, wish, plot)
    shown = "\n".join([*(report.text() for report in reports), texts.ERROR_RATE.format(often=round(1 / FALSE_ALARM))])
    emit(as_json, result, shown)
    return ExitCode.OK if all(report.held for report in reports) else ExitCode.AUDIT_FAILED


async def _run(attack: Attack, rounds: int | None, wish: Wish) -> Report:
    async with opened(wish, attack.terrain, say) as arena:
        return await attack.run(arena, rounds or attack.rounds)


def _result(name: str, reports: list[Report], wish: Wish, plot: Path | None) -> dict[str, Any]:
    result: dict[str, Any] = {
        "attack": name,
        "held": all(report.held for report in reports),
        "seed": wish.seed,
        "deployment": None if wish.directory is None else str(wish.directory),
        "false_alarm": FALSE_ALARM,
        "plot": None if plot is None else str(plot),
    }
    if name == _ALL:
        return result | {"attacks": [report.as_json() for report in reports]}
    return reports[0].as_json() | result


def _row(report: Report) -> str:
    """An attack in one line: what broke, or the finding that chance came nearest to accusing."""
    by_chance = [finding for finding in report.findings if isinstance(finding, Guesses | Noise)]
    nearest = min(by_chance, key=lambda finding: finding.p_value, default=report.findings[0])
    shown = next((finding for finding in report.findings if not finding.held), nearest)
    return texts.TABLE_ROW.format(
        attack=report.attack,
        verdict=texts.VERDICT[report.held],
        answers=report.answers,
        worst=shown.line().split("\n")[0],
    )
