"""Asking what has no answer yet: several questions at once, killed and run again at any moment, nothing charged twice.

The order of steps of one question, and what a kill between two of them leaves:

    write its query id into the record        an id without a ticket: the next run prepares under it
    quote, sign, put the ticket in the store  a ticket that nobody has: the next run submits it
    submit, wait                              a ticket that may be charged: the next run submits it again, one ticket, one charge
    receive and verify the answer             an answer: the next run reads it
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from broker_common.errors import BrokerError, InvalidRequestError
from broker_common.privacy.policy import Policy
from broker_common.query.canonical import describe
from broker_common.values import QUERY_ID_BYTES, Randomness
from researcher_node.answers.store import Answers, AskedQuestion
from researcher_node.asking.proposal import Precision, Wanted
from researcher_node.asking.session import BusyHandler, Session
from researcher_node.study.design import Ask, Study
from researcher_node.study.record import Attempt, Record, Round

# Questions in hand at a time: as many as a health node lets one researcher have in line, unless its operator says otherwise.
MOST_AT_ONCE = 32
# The reasons for which a ticket is refused uncharged that a new ticket mends.
_RENEWED = frozenset({"POLICY_MISMATCH", "RELEASE_MISMATCH", "ROSTER_NOT_IN_FORCE", "SLOT_UNUSABLE", "TICKET_EXPIRED"})
# SECURITY: each further quote is another draw of the noise for a census node that refuses what it does not like.
_MOST_NEW_TICKETS = 1


@dataclass(frozen=True, slots=True)
class Standing:
    """How one question of a study stands: its query, and what the store of answers has of it."""

    ask: Ask
    attempt: Attempt | None
    asked: AskedQuestion | None

    @property
    def is_answered(self) -> bool:
        return self.asked is not None and self.asked.state == "answered"

    @property
    def is_over(self) -> bool:
        """Nothing more can come of it: answered, or charged and lost."""
        return self.asked is not None and self.asked.state in {"answered", "expired"}


@dataclass(frozen=True, slots=True)
class Books:
    """Where a study is remembered: the record of its queries, and the store of all tickets and answers."""

    record: Record
    answers: Answers

    def standing(self, study: Study, round_: Round) -> list[Standing]:
        """How each question of the study stands in a round, in the study's order."""
        return [self._standing(ask, self._last(round_, study.question_key(ask, round_.scale))) for ask in study.asks]

    def _last(self, round_: Round, question: str) -> Attempt | None:
        attempts = self.record.attempts(round_, question)
        return attempts[-1] if attempts else None

    def _standing(self, ask: Ask, attempt: Attempt | None) -> Standing:
        return Standing(ask, attempt, None if attempt is None else self.find(attempt.query))

    def find(self, query: str) -> AskedQuestion | None:
        """A question by its query id, if its ticket was ever made."""
        try:
            return self.answers.get(query)
        except InvalidRequestError as error:
            if error.code != "UNKNOWN_QUERY":
                raise
            return None


class StudyRun:
    """One run of a study: to its end, to its first failure, or to the end of the time that is given."""

    def __init__(
        self,
        study: Study,
        round_: Round,
        session: Session,
        books: Books,
        *,
        randomness: Randomness,
        on_progress: Callable[[int, int], None],
        on_busy: BusyHandler,
    ) -> None:
        self._study = study
        self._round = round_
        self._session = session
        self._books = books
        self._randomness = randomness
        self._on_progress = on_progress
        self._on_busy = on_busy
        self._done = 0
        self._failures: list[BrokerError] = []

    async def finish(self, policy: Policy, wait_seconds: float) -> None:
        """Return when every question has its answer.

        Raises:
            BrokerError: the first failure. Nothing new is asked after it; what is under way comes to its end first.
        """
        deadline = asyncio.get_running_loop().time() + wait_seconds
        places = asyncio.Semaphore(min(MOST_AT_ONCE, policy.open_quotes))
        self._on_progress(0, len(self._study.asks))
        await asyncio.gather(*(self._bring_to_end(ask, places, deadline) for ask in self._study.asks))
        if self._failures:
            raise self._failures[0]

    async def _bring_to_end(self, ask: Ask, places: asyncio.Semaphore, deadline: float) -> None:
        async with places:
            if self._failures:
                return
            try:
                await self._answered(ask, deadline)
            except BrokerError as error:
                self._failures.append(error)
                return
        self._done += 1
        self._on_progress(self._done, len(self._study.asks))

    async def _answered(self, ask: Ask, deadline: float) -> AskedQuestion:
        attempt = await self._attempt(ask)
        for _ in range(_MOST_NEW_TICKETS):
            try:
                return await self._ask(ask, attempt, deadline)
            except BrokerError as error:
                if error.code not in _RENEWED or not self._is_refused(attempt):
                    raise
            attempt = self._assign(ask)
        return await self._ask(ask, attempt, deadline)

    async def _attempt(self, ask: Ask) -> Attempt:
        """The attempt to go on with; a new one where there is none, or where the last one was refused uncharged."""
        attempts = self._attempts(ask)
        if attempts and not (self._is_refused(attempts[-1]) and await self._is_without_answer(attempts[-1])):
            return attempts[-1]
        # Asking again on purpose means new answers.
        query = self._lent(ask) if not attempts and self._round.number == 1 else None
        return self._assign(ask) if query is None else self._assign(ask, query)

    def _lent(self, ask: Ask) -> str | None:
        """The query of an equal question that was asked for another study and can still be answered."""
        for query in self._books.record.equal(self._key(ask)):
            asked = self._books.find(query)
            if asked is not None and asked.state in {"answered", "pending"}:
                return query
        return None

    def _assign(self, ask: Ask, lent: str | None = None) -> Attempt:
        query = self._randomness(QUERY_ID_BYTES).hex() if lent is None else lent
        return self._books.record.assign(self._round, self._key(ask), query, reused=lent is not None)

    def _is_refused(self, attempt: Attempt) -> bool:
        asked = self._books.find(attempt.query)
        return asked is not None and asked.state == "refused"

    async def _is_without_answer(self, attempt: Attempt) -> bool:
        """Whether the census node has no answer to it, either: an agency that was set back may refuse what was charged before."""
        try:
            await self._session.collect_now(attempt.query)
        except BrokerError as error:
            if error.code != "ANSWER_PENDING":
                raise
            return True
        return False

    async def _ask(self, ask: Ask, attempt: Attempt, deadline: float) -> AskedQuestion:
        asked = self._books.find(attempt.query)
        if asked is None:
            asked = await self._session.prepare(
                self._wanted(ask),
                query_id=bytes.fromhex(attempt.query),
                quoted_again=self._quoted_before(ask, attempt),
                wait_seconds=self._left(deadline),
                on_busy=self._on_busy,
            )
        return await self._session.ask(asked, wait_seconds=self._left(deadline), on_stage=lambda _: None)

    def _wanted(self, ask: Ask) -> Wanted:
        study = self._study
        return Wanted(
            describe(ask.where),
            study.question.text,
            Precision(self._round.scale),
            study.file.fraction_millionths,
            study.project,
        )

    def _quoted_before(self, ask: Ask, attempt: Attempt) -> int:
        before = [self._books.find(each.query) for each in self._attempts(ask) if each.number < attempt.number]
        return sum(asked is not None and asked.refused == "SLOT_UNUSABLE" for asked in before)

    def _attempts(self, ask: Ask) -> Sequence[Attempt]:
        return self._books.record.attempts(self._round, self._key(ask))

    def _key(self, ask: Ask) -> str:
        return self._study.question_key(ask, self._round.scale)

    @staticmethod
    def _left(deadline: float) -> float:
        return max(0.0, deadline - asyncio.get_running_loop().time())
