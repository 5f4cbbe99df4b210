"""`tripartite study`: plan, run, report and rehearse a study file."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import click

from broker_common.cli import (
    CommandInterrupted,
    Progress,
    Whole,
    emit,
    emit_failing,
    home_option,
    json_option,
    say,
)
from broker_common.errors import BrokerError, InvalidRequestError, RefusedError
from broker_common.language import phrase, said
from broker_common.privacy.policy import Policy
from broker_common.storage.clock import system_clock
from broker_common.storage.durable import replace_file
from researcher_node.asking import Precision, Session
from researcher_node.opening import ResearcherHome
from researcher_node.study import texts
from researcher_node.study.design import Study, design
from researcher_node.study.file import parse_study_file
from researcher_node.study.page import report_page
from researcher_node.study.plan import make_plan
from researcher_node.study.plan_texts import plan_json, plan_text
from researcher_node.study.record import Published, Record, Round
from researcher_node.study.rehearsal import made_up_deployment, true_counts
from researcher_node.study.rehearsal_texts import rehearsal_json, rehearsal_text
from researcher_node.study.report import rendered, report_json, report_text, run_json, run_text
from researcher_node.study.results import Results, results
from researcher_node.study.running import Books, StudyRun

# For all questions of a study: a day.
_MOST_SECONDS = 86_400
FORMATS = ("text", "csv", "parquet", "json", "html", "md")
ResultT = TypeVar("ResultT")

_file_argument = click.argument("file", type=click.Path(path_type=Path, dir_okay=False))


@click.group()
def study() -> None:
    """Plan, run and report a study: many questions from one small file."""


@dataclass(frozen=True, slots=True)
class _Opened:
    """A study that the published dictionaries admit, and where its answers are kept."""

    study: Study
    published: Published
    books: Books

    @property
    def latest(self) -> Round | None:
        return self.books.record.latest(self.study.key)

    def scale(self) -> int:
        """The scale of the latest round; before the first one, that of the next."""
        latest = self.latest
        return self.next_scale() if latest is None else latest.scale

    def next_scale(self) -> int:
        file = self.study.file
        return Precision(file.scale, file.margin).choose(self.published.policy) if file.scale is None else file.scale

    def results(self, round_: Round) -> Results:
        return results(self.study, round_.scale, self.books.standing(self.study, round_))


@contextmanager
def _books(home: ResearcherHome) -> Iterator[Books]:
    with closing(home.open_answers()) as answers, closing(Record(home.home.path)) as record:
        yield Books(record, answers)


def _offline(path: Path, home: Path, work: Callable[[_Opened], ResultT]) -> ResultT:
    """What `work` gives with the study of a file, read with what the nodes published when they were last asked."""
    text = _text_of(path)
    opened = ResearcherHome(home)
    with _books(opened) as books:
        published = books.record.published()
        if published is None:
            raise InvalidRequestError("STUDY_NOT_RUN", file=str(path))
        return work(_Opened(_designed(path, text, published, opened), published, books))


def _online(
    path: Path, home: Path, work: Callable[[_Opened, Session], Awaitable[ResultT]], *, is_rehearsed: bool = False
) -> ResultT:
    """The same with what the nodes publish now, and a session with them."""
    text = _text_of(path)
    # What needs no dictionary is found before a node is asked.
    parse_study_file(text, str(path))
    opened = ResearcherHome(home)

    async def connected(books: Books) -> ResultT:
        async with opened.session(books.answers) as session:
            dictionaries, policy = await session.dictionaries(), await session.policy()
            published = Published(dictionaries.health, dictionaries.census, policy)
            books.record.keep_published(published)
            made = _designed(path, text, published, opened, is_rehearsed=is_rehearsed)
            return await work(_Opened(made, published, books), session)

    with _books(opened) as books:
        return asyncio.run(connected(books))


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InvalidRequestError("FILE_UNUSABLE", file=str(path), problem="it is not text in UTF-8") from None


def _designed(
    path: Path, text: str, published: Published, home: ResearcherHome, *, is_rehearsed: bool = False
) -> Study:
    file = parse_study_file(text, str(path))
    if is_rehearsed:
        # The file's project is registered with the agencies that it is meant for.
        file = replace(file, project=None)
    return design(file, published.health, published.census, home.config.project)


@study.command()
@_file_argument
@home_option
@json_option
@click.option("--offline", is_flag=True, help=texts.OFFLINE_HELP)
def plan(file: Path, home: Path, as_json: bool, offline: bool) -> None:
    """What the study will cost, how long it takes, and whether it can find anything. Asks for nothing about people."""

    def work(opened: _Opened) -> None:
        latest = opened.latest
        standing = [] if latest is None else opened.books.standing(opened.study, latest)
        made = make_plan(
            opened.study,
            opened.scale(),
            opened.published.policy,
            opened.published.health,
            answered=sum(each.is_answered for each in standing),
        )
        emit(as_json, plan_json(made), plan_text(made))

    async def work_online(opened: _Opened, session: Session) -> None:
        del session
        work(opened)

    if offline:
        _offline(file, home, work)
    else:
        _online(file, home, work_online)


@study.command()
@_file_argument
@home_option
@json_option
@click.option("--wait", type=Whole(0, _MOST_SECONDS), default=600, show_default=True, help=texts.WAIT_HELP)
@click.option("--again", is_flag=True, help=texts.AGAIN_HELP)
def run(file: Path, home: Path, as_json: bool, wait: int, again: bool) -> int | None:
    """Ask what has no answer yet, several questions at once. Run it again at any time: nothing is charged twice."""

    async def work(opened: _Opened, session: Session) -> int | None:
        found, failure = await _run(opened, session, file, wait, again=again)
        result, text = run_json(found), run_text(found, str(file))
        if failure is not None:
            return emit_failing(as_json, result, text, failure)
        emit(as_json, result, text)
        return None

    return _online(file, home, work)


async def _run(
    opened: _Opened, session: Session, file: Path, wait: int, *, again: bool
) -> tuple[Results, BrokerError | None]:
    """What a round has come to, and what kept it from its end."""
    with opened.books.record.running() as is_ours:
        if not is_ours:
            raise RefusedError("STUDY_RUNNING")
        round_ = _round(opened, file, again=again)
        failure = await _finish(opened, session, round_, wait)
    return opened.results(round_), failure


async def _finish(opened: _Opened, session: Session, round_: Round, wait: int) -> BrokerError | None:
    """Ask what is missing in a round; gives what kept it from its end."""
    running = StudyRun(
        opened.study,
        round_,
        session,
        opened.books,
        randomness=os.urandom,
        on_progress=Progress(texts.ASKING),
        on_busy=lambda seconds: say(said(texts.BUSY, seconds=round(seconds))),
    )
    try:
        await running.finish(opened.published.policy, wait)
    except BrokerError as error:
        if error.stops_node:
            raise
        return error
    except asyncio.CancelledError:
        raise CommandInterrupted(phrase(texts.INTERRUPTED)) from None
    return None


def _round(opened: _Opened, file: Path, *, again: bool) -> Round:
    """The round to go on with, or the next one."""
    latest = opened.latest
    if latest is not None and not again:
        return latest
    if latest is not None and not all(each.is_over for each in opened.books.standing(opened.study, latest)):
        raise RefusedError("STUDY_UNFINISHED", file=str(file))
    return opened.books.record.begin(opened.study.key, opened.study.title, opened.next_scale(), system_clock())


@study.command()
@_file_argument
@home_option
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True, help=texts.FORMAT_HELP)
@click.option("--to", "to", type=click.Path(path_type=Path, dir_okay=False), help=texts.TO_HELP)
@json_option
def report(file: Path, home: Path, form: str, to: Path | None, as_json: bool) -> None:
    """Shares, ratios and differences with both intervals, from answers that are here. Asks for nothing, costs nothing."""
    if form == "parquet" and to is None and sys.stdout.isatty():
        raise click.UsageError(texts.NOT_TO_A_TERMINAL)

    def work(opened: _Opened) -> None:
        latest = opened.latest
        if latest is None:
            raise InvalidRequestError("STUDY_NOT_RUN", file=str(file))
        chosen = "json" if as_json else form
        content = _rendered(opened.results(latest), chosen)
        if to is None:
            click.echo(content if chosen == "parquet" else content.decode(), nl=False)
        else:
            replace_file(to, content)

    _offline(file, home, work)


def _rendered(found: Results, form: str) -> bytes:
    match form:
        case "text":
            return f"{report_text(found)}\n".encode()
        case "json":
            return f"{json.dumps(report_json(found), ensure_ascii=False)}\n".encode()
        case "html":
            return report_page(found).encode()
        case _:
            return rendered(found, form)


@study.command()
@_file_argument
@click.option("--home", "home", type=click.Path(path_type=Path, file_okay=False), help=texts.REHEARSAL_HOME_HELP)
@json_option
@click.option("--population", type=Whole(10, 1_000_000), default=20_000, show_default=True, help=texts.POPULATION_HELP)
@click.option("--seed", type=Whole(0, 2**32 - 1), default=1, show_default=True, help=texts.SEED_HELP)
def rehearse(file: Path, home: Path | None, as_json: bool, population: int, seed: int) -> None:
    """Run the study on made-up people in a throw-away deployment, and compare its report with the truth about them."""
    policy = None if home is None else _published_policy(home)
    # What needs no dictionary is found before anything is made.
    parse_study_file(_text_of(file), str(file))
    with (
        tempfile.TemporaryDirectory(prefix="rehearsal-") as folder,
        made_up_deployment(Path(folder, "deployment"), population, seed, policy) as researcher,
    ):

        async def work(opened: _Opened, session: Session) -> tuple[Results, list[tuple[int, ...]]]:
            found, failure = await _run(opened, session, file, _MOST_SECONDS, again=False)
            if failure is not None:
                raise failure
            return found, true_counts(opened.study, researcher.parent, opened.published.health)

        found, truth = _online(file, researcher, work, is_rehearsed=True)
    emit(as_json, rehearsal_json(found, truth), rehearsal_text(found, truth))


def _published_policy(home: Path) -> Policy | None:
    """The policy that a home's census agency published when it was last asked."""
    with closing(Record(ResearcherHome(home).home.path)) as record:
        published = record.published()
    return None if published is None else published.policy
