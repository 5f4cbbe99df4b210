"""A study at work: read with what the nodes publish, beside its record, its answers, and a session where one is needed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from broker_common.cli import CommandInterrupted, Progress, say
from broker_common.errors import BrokerError, InvalidRequestError, RefusedError
from broker_common.language import phrase, said
from broker_common.privacy.policy import Policy
from broker_common.query.dictionary import Dictionary
from broker_common.storage.clock import system_clock
from broker_common.storage.dictionary.file import FILE_NAME, read_dictionary
from researcher_node.asking.proposal import Precision
from researcher_node.asking.session import Session
from researcher_node.assembly import ResearcherHome
from researcher_node.study import texts
from researcher_node.study.design import Study, design
from researcher_node.study.file import parse_study_file
from researcher_node.study.record import Published, Record, Round
from researcher_node.study.results import Results, results
from researcher_node.study.running import Books, StudyRun

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class OpenedStudy:
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
        """The scale that the file asks for, or that its margin needs under the policy in force."""
        file = self.study.file
        if file.scale is not None:
            return file.scale
        return Precision(margin=file.margin).choose(self.published.policy, len(self.study.cells))

    def answered(self) -> int:
        """Questions of the latest round that have their answers."""
        latest = self.latest
        return 0 if latest is None else sum(each.is_answered for each in self.books.standing(self.study, latest))

    def results(self, round_: Round) -> Results:
        found = results(self.study, round_.scale, self.books.standing(self.study, round_))
        return replace(found, policy=self.published.policy)


@contextmanager
def _books(home: ResearcherHome) -> Iterator[Books]:
    with closing(home.open_answers()) as answers, closing(Record(home.home.path)) as record:
        yield Books(record, answers)


def offline(path: Path, home: Path, work: Callable[[OpenedStudy], ResultT]) -> ResultT:
    """The result of `work` on the study of a file, read with what the nodes published when they were last asked."""
    text = _text_of(path)
    opened = ResearcherHome(home)
    with _books(opened) as books:
        published = books.record.published()
        if published is None:
            raise InvalidRequestError("STUDY_NOT_RUN", file=str(path))
        made = _designed(path, text, published.health, published.census, opened)
        return work(OpenedStudy(made, published, books))


def online(
    path: Path, home: Path, work: Callable[[OpenedStudy, Session], Awaitable[ResultT]], *, is_rehearsed: bool = False
) -> ResultT:
    """The same with what the nodes publish now, and a session with them."""
    text = checked_text(path)
    opened = ResearcherHome(home)

    async def connected(books: Books) -> ResultT:
        async with opened.session(books.answers) as session:
            dictionaries, policy = await session.dictionaries(), await session.policy()
            published = Published(dictionaries.health, dictionaries.census, policy)
            books.record.keep_published(published)
            made = _designed(path, text, published.health, published.census, opened, is_rehearsed=is_rehearsed)
            return await work(OpenedStudy(made, published, books), session)

    with _books(opened) as books:
        return asyncio.run(connected(books))


def verify_rehearsed(path: Path, home: Path) -> None:
    """Return only if the agencies that were made up beside a researcher's home publish what the study of a file asks for."""
    health, census = (read_dictionary(home.with_name(role) / FILE_NAME) for role in ("health", "census"))
    _designed(path, checked_text(path), health, census, ResearcherHome(home), is_rehearsed=True)


def checked_text(path: Path) -> str:
    """The file's text, if all that needs no dictionary is right: before anything is asked or made."""
    text = _text_of(path)
    parse_study_file(text, str(path))
    return text


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InvalidRequestError("FILE_UNUSABLE", file=str(path), problem="it is not text in UTF-8") from None


def _designed(
    path: Path,
    text: str,
    health: Dictionary,
    census: Dictionary,
    home: ResearcherHome,
    *,
    is_rehearsed: bool = False,
) -> Study:
    file = parse_study_file(text, str(path))
    if is_rehearsed:
        # The file's project is registered with the agencies that it is meant for.
        file = replace(file, project=None)
    try:
        return design(file, health, census, home.config.project)
    except InvalidRequestError as error:
        cause = error.__cause__
        if not is_rehearsed or not isinstance(cause, BrokerError) or not cause.code.startswith("UNKNOWN_"):
            raise
        raise InvalidRequestError(error.code, **{**error.details, "remedy": texts.OTHER_COLUMNS}) from None


async def run_round(
    opened: OpenedStudy, session: Session, file: Path, wait: int, *, again: bool
) -> tuple[Results, BrokerError | None]:
    """Result of a round, and what kept it from its end."""
    with opened.books.record.running() as is_ours:
        if not is_ours:
            raise RefusedError("STUDY_RUNNING")
        round_ = _round(opened, file, again=again)
        failure = await _finish(opened, session, round_, wait)
    return opened.results(round_), failure


async def _finish(opened: OpenedStudy, session: Session, round_: Round, wait: int) -> BrokerError | None:
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


def _round(opened: OpenedStudy, file: Path, *, again: bool) -> Round:
    """The round to go on with, or the next one."""
    latest = opened.latest
    if latest is not None and not again:
        return latest
    if latest is not None and not all(each.is_over for each in opened.books.standing(opened.study, latest)):
        raise RefusedError("STUDY_UNFINISHED", file=str(file))
    return opened.books.record.begin(opened.study.key, opened.study.title, opened.next_scale(), system_clock())


def published_policy(home: Path) -> Policy | None:
    """The policy that a home's census agency published when it was last asked."""
    with closing(Record(ResearcherHome(home).home.path)) as record:
        published = record.published()
    return None if published is None else published.policy
