"""A researcher at work: synchronous, from a script or a notebook, over the same session that the commands use.

A question that was asked before (the same criteria, question, scale, fraction and project) is not asked again but read from the
researcher's own store, so that running a cell of a notebook again charges nothing. `again=True` asks, and charges, anew.
"""

from __future__ import annotations

import asyncio
import warnings
import weakref
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from broker_common.errors import BrokerError, InvalidRequestError
from broker_common.language import phrase
from broker_common.query.canonical import describe
from broker_common.query.condition import Condition
from broker_common.query.criteria import parse_condition
from broker_common.query.dictionary import ColumnType, Dictionary
from broker_common.query.normal_form import all_of, equal
from broker_common.storage.home import usual_home
from researcher_node.answers.listing import answer_json, question_json
from researcher_node.answers.own_use import own_uses
from researcher_node.answers.selection import Selection, parse_since, parse_until
from researcher_node.answers.store import Answers, AskedQuestion
from researcher_node.asking.proposal import Precision, Proposal, Wanted, Wish, parse_fraction
from researcher_node.asking.quoting import quote_json, warnings_json
from researcher_node.asking.session import Session
from researcher_node.asking.warnings import Considered, Warned, consider
from researcher_node.assembly import ResearcherHome
from researcher_node.client.background import Background
from researcher_node.client.results import Answer, AnswerList, Published, Quote, Table

# Questions in hand at a time: as many as a health node lets one researcher have in line, unless its operator says otherwise.
_MOST_AT_ONCE = 32
# SECURITY: each further quote is another draw of the noise for a census node that refuses what it does not like.
_MOST_QUOTES_AGAIN = 1
# Groups of a table: each is a question of its own, charged by itself.
_MOST_GROUPS = 200
_WAIT_SECONDS = 600.0
# As for `ask --label`: it stands in tables.
_MAX_LABEL_CHARACTERS = 64
ResultT = TypeVar("ResultT")


class QuestionWarning(UserWarning):
    """Something that a researcher would regret having paid for; said before the question is asked."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """A question, and the one like it that is read from the home instead."""

    considered: Considered
    before: AskedQuestion | None
    # `again=True` says that it is known to have been asked before.
    again: bool

    @property
    def warnings(self) -> Sequence[Warned]:
        """Warnings about a question that is charged."""
        found = self.considered.warnings if self.before is None else ()
        return [warned for warned in found if not (self.again and warned.code == "ASKED_BEFORE")]


class Researcher:
    """A researcher's home, opened. Close it, or use it in a `with` block; one that is forgotten closes by itself.

    >>> with connect("DIR/researcher") as r:
    ...     print(r.ask("age >= 65", "mother_tongue = 'French'"))
    """

    def __init__(self, home: str | Path | None = None) -> None:
        """Open a home; without one, the usual one.

        Raises:
            InvalidRequestError: HOME_INVALID, CONFIG_INVALID.
        """
        found = usual_home("researcher") or Path() if home is None else Path(home)
        self._home = ResearcherHome(found)
        self._answers = self._home.open_answers()
        self._background = Background()
        self._close = weakref.finalize(self, _close, self._background, self._answers)

    def close(self) -> None:
        """End what is under way and close the store; questions that were taken go on, and `answers` finds them."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "open" if self._close.alive else "closed"
        return f"<researcher {self._home.config.researcher_id} at {self._home.home.path}, {state}>"

    def ask(
        self,
        where: str,
        count: str | Sequence[str] = (),
        *,
        of: Literal["all"] | None = None,
        scale: int | None = None,
        margin: int | None = None,
        fraction: str | float = 1,
        project: str | None = None,
        label: str = "",
        again: bool = False,
        wait: float = _WAIT_SECONDS,
    ) -> Answer:
        """One question and its answer; the arguments are those of `tripartite researcher ask`.

        >>> r.ask("age >= 65 and procedure = 'angioplasty'", "mother_tongue = 'French'", of="all")

        Raises:
            BrokerError: as the command; `code`, `text` and `hint` say what and why.
        """
        wish = self._wish(where, count, of, Precision(scale, margin), fraction, project, label)
        (answer,) = self._asked([wish], again, wait)
        return answer

    def table(
        self,
        *,
        where: str | None = None,
        by: str | Mapping[str, str],
        count: str | Sequence[str] = (),
        of: Literal["all"] | None = None,
        scale: int | None = None,
        margin: int | None = None,
        fraction: str | float = 1,
        project: str | None = None,
        label: str = "",
        again: bool = False,
        wait: float = _WAIT_SECONDS,
    ) -> Table:
        """The same question about every group of `by`: a column with published codes, or names with a condition each.

        Every group is a question of its own and is charged by itself. Nothing is asked before all of them have been read.

        >>> r.table(by={"under 65": "age < 65", "65 and over": "age >= 65"}, count="mother_tongue = 'French'")

        Raises:
            BrokerError: the first failure; groups that were under way are answered all the same, and are not asked again.
        """
        criteria = self._run(self._criteria(where, by))
        wishes = [
            self._wish(text, count, of, Precision(scale, margin), fraction, project, label)
            for text in criteria.values()
        ]
        answers = dict(zip(criteria, self._asked(wishes, again, wait), strict=True))
        return Table(by if isinstance(by, str) else "group", answers)

    def quote(
        self,
        count: str | Sequence[str] = "all",
        *,
        of: Literal["all"] | None = None,
        scale: int | None = None,
        margin: int | None = None,
    ) -> Quote:
        """Price and margin of an answer. Charges nothing.

        >>> r.quote("mother_tongue", margin=150).scale
        """

        async def quoted() -> Quote:
            async with self._home.session(self._answers) as session:
                question = await session.question(_texts(count), of_all=of is not None)
                found = await session.quote(question.text, Precision(scale, margin))
                return Quote(quote_json(found, await session.policy_named(found.offer.body.policy_hash)))

        return self._run(quoted())

    def dictionary(self) -> Published:
        """The published columns, language variables and their codes.

        >>> r.dictionary().codes("procedure")
        """

        async def fetched() -> Published:
            async with self._home.session(self._answers) as session:
                found = await session.dictionaries()
                return Published(found.health, found.census, found.census_release)

        return self._run(fetched())

    def answers(
        self,
        *,
        state: str | None = None,
        project: str | None = None,
        label: str | None = None,
        since: str | None = None,
        until: str | None = None,
        last: int | None = None,
    ) -> AnswerList:
        """Questions and their answers, oldest first; the filters are those of `tripartite researcher answers`.

        >>> r.answers(label="pilot").to_pandas()
        """
        selection = Selection(
            states=() if state is None else (state,),
            project=project,
            label=label,
            since_ms=None if since is None else parse_since(since),
            until_ms=None if until is None else parse_until(until),
            last=last,
        )
        chosen = selection.choose(self._answers.all())
        uses = own_uses(chosen, self._answers.charges(), self._home.policies.get)
        return AnswerList(chosen, [question_json(asked, uses) for asked in chosen])

    # --- inside ----------------------------------------------------------------------------------------------------------

    def _run(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        try:
            return self._background.run(work)
        except BrokerError as error:
            # A traceback shows it: what to do about it stands below what is wrong.
            error.add_note(error.hint)
            raise

    def _asked(self, wishes: Sequence[Wish], again: bool, wait: float) -> list[Answer]:
        considered = self._run(self._consider(wishes))
        plans = [_Plan(each, None if again else self._asked_before(each.proposal), again) for each in considered]
        for plan in plans:
            for warned in plan.warnings:
                # Here, in the thread of who asks: a filter that makes errors of warnings ends it before anything is charged.
                warnings.warn(warned.text, QuestionWarning, stacklevel=3)
        # Groups of one meaning are one question, and charged once.
        distinct = {_meaning(plan.considered.proposal): plan for plan in plans}
        asked = dict(zip(distinct, self._run(self._ask_all(list(distinct.values()), wait)), strict=True))
        return [self._answer(asked[_meaning(plan.considered.proposal)], plan) for plan in plans]

    def _answer(self, asked: AskedQuestion, plan: _Plan) -> Answer:
        uses = own_uses([asked], self._answers.charges(), self._home.policies.get)
        return Answer(asked, {**answer_json(asked, uses), "warnings": warnings_json(plan.warnings)})

    def _wish(
        self,
        where: str,
        count: str | Sequence[str],
        of: Literal["all"] | None,
        precision: Precision,
        fraction: str | float,
        project: str | None,
        label: str,
    ) -> Wish:
        if len(label) > _MAX_LABEL_CHARACTERS or not label.isprintable():
            raise ValueError(f"a label is one line of at most {_MAX_LABEL_CHARACTERS} characters")
        study = self._home.config.project if project is None else project
        millionths = parse_fraction(str(fraction))
        return Wish(where, _texts(count), of is not None, precision, millionths, study, label)

    async def _criteria(self, where: str | None, by: str | Mapping[str, str]) -> dict[str, str]:
        async with self._home.session(self._answers) as session:
            return _criteria_of(where, by, (await session.dictionaries()).health)

    async def _consider(self, wishes: Sequence[Wish]) -> list[Considered]:
        # All are read before the first is asked: a mistake in the last one charges nothing.
        async with self._home.session(self._answers) as session:
            return [await consider(session, self._answers, wish) for wish in wishes]

    async def _ask_all(self, plans: Sequence[_Plan], wait: float) -> list[AskedQuestion]:
        places = asyncio.Semaphore(min(_MOST_AT_ONCE, plans[0].considered.proposal.policy.open_quotes))
        failures: list[BrokerError] = []

        async def one(session: Session, plan: _Plan) -> AskedQuestion | None:
            async with places:
                if failures:
                    return None
                try:
                    return await self._ask(session, plan, wait)
                except BrokerError as error:
                    failures.append(error)
                    return None

        async with self._home.session(self._answers) as session:
            asked = await asyncio.gather(*(one(session, plan) for plan in plans))
        if failures:
            raise failures[0]
        return [each for each in asked if each is not None]

    async def _ask(self, session: Session, plan: _Plan, wait: float) -> AskedQuestion:
        if plan.before is not None:
            try:
                return await session.ask(plan.before, wait_seconds=wait, on_stage=_silent)
            except BrokerError as error:
                # A ticket that ended uncharged: the question has no answer, so that it is asked anew.
                if not error.ends_ticket:
                    raise
        return await _ask_anew(session, plan.considered.proposal.wanted, wait)

    def _asked_before(self, proposal: Proposal) -> AskedQuestion | None:
        """The newest question like this one that is answered, or may still be."""
        meaning = _meaning(proposal)
        for asked in reversed(self._answers.all()):
            same = (asked.criteria, asked.question, asked.scale, asked.fraction_millionths, asked.project) == meaning
            if same and asked.state in {"answered", "pending"}:
                return asked
        return None


def _meaning(proposal: Proposal) -> tuple[bytes, str, int, int, str]:
    """Key that is equal for equal questions."""
    wanted = proposal.wanted
    return proposal.criteria, wanted.count, proposal.scale, wanted.fraction_millionths, wanted.project


async def _ask_anew(session: Session, wanted: Wanted, wait: float) -> AskedQuestion:
    deadline = asyncio.get_running_loop().time() + wait
    for quoted_again in range(_MOST_QUOTES_AGAIN + 1):
        asked = await session.prepare(wanted, quoted_again=quoted_again, wait_seconds=wait)
        left = max(0.0, deadline - asyncio.get_running_loop().time())
        try:
            return await session.ask(asked, wait_seconds=left, on_stage=_silent)
        except InvalidRequestError as error:
            # Usually the census node was restarted between quote and sample. Nothing was charged.
            if error.code != "SLOT_UNUSABLE" or quoted_again == _MOST_QUOTES_AGAIN:
                raise
    raise AssertionError("the last quote is answered or refused")


def _silent(stage: object) -> None:
    del stage


def _texts(count: str | Sequence[str]) -> tuple[str, ...]:
    return (count,) if isinstance(count, str) else tuple(count)


def _close(background: Background, answers: Answers) -> None:
    # Not of the Researcher itself, which is gone when this runs.
    background.close()
    answers.close()


def _criteria_of(where: str | None, by: str | Mapping[str, str], dictionary: Dictionary) -> dict[str, str]:
    """The criteria of each group, by its name, in the order given or published.

    Raises:
        InvalidRequestError: what is wrong with the criteria, the column or the number of groups.
    """
    groups = _of_column(by, dictionary) if isinstance(by, str) else _named(by, dictionary)
    if not 1 <= len(groups) <= _MOST_GROUPS:
        raise InvalidRequestError(
            "INVALID_VALUE",
            name="by",
            problem=phrase("makes {count} groups", count=len(groups)),
            remedy=phrase("Name 1 to {most} groups; each is charged as a separate question.", most=_MOST_GROUPS),
        )
    if where is None:
        return {name: describe(group) for name, group in groups.items()}
    common = parse_condition(where, dictionary)
    return {name: describe(all_of([common, group])) for name, group in groups.items()}


def _of_column(name: str, dictionary: Dictionary) -> dict[str, Condition]:
    column = dictionary.column(name)
    if column.type is not ColumnType.CODE:
        raise InvalidRequestError(
            "INVALID_VALUE",
            name="by",
            problem=phrase("names {column}, which holds {kind}", column=column.name, kind=column.type.value),
            remedy=phrase(
                "Give names instead, each with a condition, such as dict(old='age >= 75', young='age < 30')."
            ),
        )
    return {code: equal(column, [code]) for code in column.values}


def _named(groups: Mapping[str, str], dictionary: Dictionary) -> dict[str, Condition]:
    return {name: parse_condition(text, dictionary) for name, text in groups.items()}
