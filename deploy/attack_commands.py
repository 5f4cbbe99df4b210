"""`attack`: attacks on a live deployment, each beside the curve that it may not beat."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from broker_common.cli import emit, say
from broker_common.commands.options import Whole, json_option
from broker_common.errors import ExitCode
from deploy.attacks import texts
from deploy.attacks.arena import Accounting, Wish
from deploy.attacks.catalogue import ATTACKS
from deploy.attacks.findings import FALSE_ALARM, ByChance, Report
from deploy.attacks.running import run, run_all

_ALL = "all"
_POPULATION = 5_000
_LEAST, _MOST = 500, 1_000_000
_MOST_ROUNDS = 10_000
_LARGEST_SEED = 2**32 - 1
# A deployment that stands has its own.
_OF_A_NEW_ONE = ("population", "accounting")


@click.command()
@click.argument("name", type=click.Choice([*ATTACKS, _ALL]), metavar="NAME")
@click.option(
    "--deployment",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Attack this one, whose nodes are up; what is asked is spent for good. Otherwise: a new one, removed afterwards.",
)
@click.option(
    "--population",
    type=Whole(_LEAST, _MOST),
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
    type=Whole(1, _MOST_ROUNDS),
    help="How often the attack is made; usually what takes half a minute.",
)
@click.option("--seed", type=Whole(0, _LARGEST_SEED), default=1, show_default=True, help="Which people are attacked.")
@click.option("--plot", type=click.Path(path_type=Path, dir_okay=False), help="Also draw it, into this PNG file.")
@json_option
@click.pass_context
def attack(
    context: click.Context,
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
    for option in _OF_A_NEW_ONE:
        if deployment is not None and context.get_parameter_source(option) is not ParameterSource.DEFAULT:
            raise click.UsageError(texts.NOT_WITH_DEPLOYMENT.format(option=option), context)
    if plot is not None:
        _verify_writable(plot)
    wish = Wish(deployment, population, seed, accounting)
    reports = run_all(rounds, wish, say) if name == _ALL else [asyncio.run(run(name, rounds, wish, say))]
    lines = [_row(report) for report in reports] if name == _ALL else [reports[0].text()]
    text = "\n".join([*lines, texts.ERROR_RATE.format(often=round(1 / FALSE_ALARM))])
    result = _result(name, reports, wish, rounds, plot)
    # The verdict is said before it is drawn: whatever becomes of the plot, it is not asked for a second time.
    if as_json:
        say(text)
    else:
        emit(as_json, result, text)
    if plot is not None:
        # Imported here: the plotting library takes a second that no other command has to spend.
        from deploy.attacks.plots import plot_reports  # noqa: PLC0415

        plot_reports(reports, plot)
    if as_json:
        emit(as_json, result, text)
    return ExitCode.OK if all(report.held for report in reports) else ExitCode.AUDIT_FAILED


def _verify_writable(file: Path) -> None:
    """Return only if this file can be written: an attack takes long, and what it asks may be spent for good."""
    was_there = file.exists()
    with file.open("ab"):
        pass
    if not was_there:
        file.unlink()


def _result(name: str, reports: list[Report], wish: Wish, rounds: int | None, plot: Path | None) -> dict[str, Any]:
    is_new = wish.directory is None
    result: dict[str, Any] = {
        "attack": name,
        "held": all(report.held for report in reports),
        "seed": wish.seed,
        "deployment": None if is_new else str(wish.directory),
        "population": wish.population if is_new else None,
        "accounting": wish.accounting if is_new else None,
        "rounds": rounds,
        "false_alarm": FALSE_ALARM,
        "plot": None if plot is None else str(plot),
    }
    if name == _ALL:
        return result | {"attacks": [report.as_json() for report in reports]}
    return reports[0].as_json() | result


def _row(report: Report) -> str:
    """An attack in one line: what broke, or the finding that chance came nearest to accusing."""
    by_chance = [finding for finding in report.findings if isinstance(finding, ByChance)]
    nearest = min(by_chance, key=lambda finding: finding.p_value, default=report.findings[0])
    shown = next((finding for finding in report.findings if not finding.held), nearest)
    return texts.TABLE_ROW.format(
        attack=report.attack,
        verdict=texts.VERDICT[report.held],
        answers=report.answers,
        worst=shown.line().split("\n")[0],
    )
