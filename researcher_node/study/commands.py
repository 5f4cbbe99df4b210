"""`tripartite study`: plan, run, report and rehearse a study file."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from broker_common.cli import emit, emit_failing
from broker_common.commands.options import Whole, home_option_of, json_option
from broker_common.errors import InvalidRequestError
from broker_common.storage.durable import replace_file
from researcher_node.study import texts

if TYPE_CHECKING:
    # A command imports what it needs when it runs (see PLC0415 in pyproject.toml): --help waits for none of it.
    from researcher_node.asking.session import Session
    from researcher_node.study.opened import OpenedStudy
    from researcher_node.study.results import Results

# For all questions of a study: a day.
_MOST_SECONDS = 86_400
# Limits of a rehearsal's made-up people and of its seed.
_LEAST_PEOPLE = 10
_MOST_PEOPLE = 1_000_000
_LARGEST_SEED = 2**32 - 1
_FORMATS = ("text", "csv", "parquet", "json", "html", "md")

_file_argument = click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
_home_option = home_option_of("researcher")


@click.group()
def study() -> None:
    """Plan, run and report a study: many questions from one small file."""


@study.command()
@_file_argument
@_home_option
@json_option
@click.option("--offline", is_flag=True, help=texts.OFFLINE_HELP)
def plan(file: Path, home: Path, as_json: bool, offline: bool) -> None:
    """Show what the study will cost, how long it takes, and whether it can find anything. Asks for nothing about people."""
    from researcher_node.study import opened
    from researcher_node.study.plan import make_plan
    from researcher_node.study.plan_texts import plan_json, plan_text

    def work(found: OpenedStudy) -> None:
        published = found.published
        made = make_plan(found.study, found.scale(), published.policy, published.health, answered=found.answered())
        emit(as_json, plan_json(made), plan_text(made))

    async def work_online(found: OpenedStudy, session: Session) -> None:
        del session
        work(found)

    if offline:
        opened.offline(file, home, work)
    else:
        opened.online(file, home, work_online)


@study.command()
@_file_argument
@_home_option
@json_option
@click.option("--wait", type=Whole(0, _MOST_SECONDS), default=600, show_default=True, help=texts.WAIT_HELP)
@click.option("--again", is_flag=True, help=texts.AGAIN_HELP)
def run(file: Path, home: Path, as_json: bool, wait: int, again: bool) -> int | None:
    """Ask what has no answer yet, several questions at once. Run it again at any time: nothing is charged twice."""
    from researcher_node.study import opened
    from researcher_node.study.report import run_json, run_text

    async def work(study_opened: OpenedStudy, session: Session) -> int | None:
        found, failure = await opened.run_round(study_opened, session, file, wait, again=again)
        result, text = run_json(found), run_text(found, str(file))
        if failure is not None:
            return emit_failing(as_json, result, text, failure)
        emit(as_json, result, text)
        return None

    return opened.online(file, home, work)


@study.command()
@_file_argument
@_home_option
@click.option(
    "--format", "form", type=click.Choice(_FORMATS), default="text", show_default=True, help=texts.FORMAT_HELP
)
@click.option("--to", "to", type=click.Path(path_type=Path, dir_okay=False), help=texts.TO_HELP)
@json_option
def report(file: Path, home: Path, form: str, to: Path | None, as_json: bool) -> None:
    """Shares, ratios and differences with both intervals, from answers that are here. Asks for nothing, costs nothing."""
    from researcher_node.study import opened
    from researcher_node.study.formats import rendered

    chosen = "json" if as_json else form
    if chosen == "parquet" and to is None and sys.stdout.isatty():
        raise click.UsageError(texts.NOT_TO_A_TERMINAL)

    def work(found: OpenedStudy) -> None:
        latest = found.latest
        if latest is None:
            raise InvalidRequestError("STUDY_NOT_RUN", file=str(file))
        content = rendered(found.results(latest), chosen)
        if to is None:
            click.echo(content if chosen == "parquet" else content.decode(), nl=False)
        else:
            replace_file(to, content)

    opened.offline(file, home, work)


@study.command()
@_file_argument
@click.option("--home", "home", type=click.Path(path_type=Path, file_okay=False), help=texts.REHEARSAL_HOME_HELP)
@json_option
@click.option(
    "--population",
    type=Whole(_LEAST_PEOPLE, _MOST_PEOPLE),
    default=20_000,
    show_default=True,
    help=texts.POPULATION_HELP,
)
@click.option("--seed", type=Whole(0, _LARGEST_SEED), default=1, show_default=True, help=texts.SEED_HELP)
def rehearse(file: Path, home: Path | None, as_json: bool, population: int, seed: int) -> None:
    """Run the study on made-up people in a throw-away deployment, and compare its report with the truth about them."""
    from researcher_node.study import opened
    from researcher_node.study.rehearsal import make_deployment, served, true_counts
    from researcher_node.study.rehearsal_texts import rehearsal_json, rehearsal_text

    opened.checked_text(file)
    policy = None if home is None else opened.published_policy(home)
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as folder:
        researcher = make_deployment(Path(folder, "deployment"), population, seed, policy)
        # Before nodes are started for nothing.
        opened.verify_rehearsed(file, researcher)

        async def work(study_opened: OpenedStudy, session: Session) -> tuple[Results, list[tuple[int, ...]]]:
            found, failure = await opened.run_round(study_opened, session, file, _MOST_SECONDS, again=False)
            if failure is not None:
                raise failure
            return found, true_counts(study_opened.study, researcher.parent, study_opened.published.health)

        with served(researcher.parent):
            found, truth = opened.online(file, researcher, work, is_rehearsed=True)
    emit(as_json, rehearsal_json(found, truth), rehearsal_text(found, truth))
