"""The commands that play every part on one machine: `init`, `up`, `demo`."""

from __future__ import annotations

import asyncio
import importlib
from pathlib import Path
from typing import get_args

import click

from broker_common.cli import Progress, called, emit, say
from broker_common.commands.options import Whole, json_option
from broker_common.errors import ExitCode
from broker_common.language import language_of_environment, said
from broker_common.privacy.policy import Accounting, Subject
from broker_common.values import Linkage
from deploy import texts

_SMALLEST = 10
_LARGEST = 20_000_000
_SMALLEST_DEMO = 10_000
_LARGEST_SEED = 2**32 - 1


@click.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--population",
    type=Whole(_SMALLEST, _LARGEST),
    default=100_000,
    show_default=True,
    help="People in the health data.",
)
@click.option("--seed", type=Whole(0, _LARGEST_SEED), default=1, show_default=True, help="Which made-up people.")
@click.option(
    "--accounting",
    type=click.Choice(get_args(Accounting)),
    default="per_person",
    show_default=True,
    help="Who is charged for an answer: everyone, or the people in its sample.",
)
@click.option(
    "--subject",
    type=click.Choice(get_args(Subject)),
    help="Whose language one budget protects; by default a person's, and the household's where households are linked.",
)
@click.option(
    "--linkage",
    type=click.Choice(get_args(Linkage)),
    default="complementary",
    show_default=True,
    help="By what records are linked; 'household' makes up addresses instead of cards.",
)
@click.option(
    "--max-belief",
    default="0.8",
    show_default=True,
    help="No belief about one person may pass this; an exact decimal between 0.5 and 1.",
)
@click.option(
    "--release-tick-ms",
    type=Whole(0, 60_000),
    help="Answers leave on multiples of this; by default 250, or more for many people; 0 means at once and is for tests.",
)
@click.option("--with-registers", is_flag=True, help=texts.WITH_REGISTERS_HELP)
@json_option
def init(
    directory: Path,
    population: int,
    seed: int,
    accounting: Accounting,
    subject: Subject | None,
    linkage: Linkage,
    max_belief: str,
    release_tick_ms: int | None,
    with_registers: bool,
    as_json: bool,
) -> None:
    """Make a local deployment with synthetic people.

    DIRECTORY, new or empty, gets four homes with keys and configurations, the sources as CSV, and both nodes loaded.
    """
    # A command imports what it needs when it runs (see PLC0415 in pyproject.toml): `up` waits for none of it.
    from broker_common.storage.durable import make_folder
    from deploy.local import PROJECT, RESEARCHER_ID, Plan, lay_out
    from deploy.synthetic.registers import REGISTERS_FOLDER, write_registers

    plan = Plan(
        population=population,
        seed=seed,
        accounting=accounting,
        subject=subject or ("household" if linkage == "household" else "person"),
        linkage=linkage,
        max_belief=max_belief,
        release_tick_ms=release_tick_ms,
    )
    policy = lay_out(directory, plan, Progress)
    if with_registers:
        registers = directory / REGISTERS_FOLDER
        make_folder(registers)
        write_registers(registers, population=population, seed=seed, progress=Progress(texts.MAKING_REGISTERS))
    result = {
        "directory": str(directory),
        "population": population,
        "seed": seed,
        "accounting": accounting,
        "subject": policy.subject,
        "linkage": linkage,
        "max_belief": max_belief,
        "policy_hash": policy.hash.hex(),
        "researcher_id": RESEARCHER_ID,
        "project": PROJECT,
    }
    emit(
        as_json,
        result,
        said(
            texts.INIT_DONE,
            **(result | {"program": called(), "population": language_of_environment().number(population)}),
        ),
    )


@click.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False, exists=True))
def up(directory: Path) -> int:
    """Run the nodes of DIRECTORY as separate processes until Ctrl-C or SIGTERM."""
    from deploy.supervise import ROLES, ChildFailedError, Nodes, told_to_stop

    for role in ROLES:
        # Said here, of all three, before any of them is started.
        importlib.import_module(f"{role}_node")

    async def run() -> None:
        # Before the first node is ready: a reader of that line may stop us at once.
        told = told_to_stop()
        async with Nodes(directory, say=click.echo):
            await told.wait()

    try:
        asyncio.run(run())
    except ChildFailedError as error:
        say(said(texts.NODE_FAILED, role=said(error.role)))
        return error.child_code
    return ExitCode.OK


@click.command()
@click.option(
    "--population",
    type=Whole(_SMALLEST_DEMO, _LARGEST),
    default=300_000,
    show_default=True,
    help="People in the health data.",
)
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("demo"),
    show_default=True,
    help="Where the demo's deployment is made; an earlier demo there gives way.",
)
@json_option
def demo(population: int, directory: Path, as_json: bool) -> None:
    """Two studies on synthetic people, then an attack that drives the service to its cap. About half a minute."""
    from deploy.demo import run_demo

    result = asyncio.run(run_demo(directory, population, say=say if as_json else click.echo, report=Progress))
    if as_json:
        emit(as_json, result, "")
