"""One question from a researcher's text to a verified answer.

    parse -> quote -> verify quote and noise slot -> sign a ticket -> submit to the health node -> wait for the census node's sealed answer

The text of the criteria stays on this machine: a typed tree travels, to the health node only. The census node sees a
hiding commitment to it.

An answer comes by one of two ways, and the caller watches both: our own store, where an inbox may have put it, and the
census node. Neither hides what the other one brings.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from grpc.aio import AioRpcError
from tripartite.v1 import (
    census_service_pb2,
    condition_pb2,
    health_service_pb2,
    quote_pb2,
    ticket_pb2,
)

from broker_common.crypto.cards import VerifiedCard
from broker_common.crypto.certificates import TlsCredentials
from broker_common.crypto.commitments import SALT_BYTES, commit_criteria
from broker_common.crypto.sealing import UnsealingKey
from broker_common.crypto.signing import Purpose, SigningKey
from broker_common.errors import BrokerError, InvalidRequestError, PeerUnavailableError, RefusedError
from broker_common.privacy.accounting import price
from broker_common.privacy.table_laplace import margin
from broker_common.query.canonical import canonical_bytes, describe
from broker_common.query.certainty import Certainty, certainty
from broker_common.query.condition import Condition
from broker_common.query.criteria import parse_condition
from broker_common.query.dictionary import AskedOf, Dictionary
from broker_common.query.messages import parse_message
from broker_common.query.question import Question, parse_question
from broker_common.query.quote import VerifiedQuote, verify_quote
from broker_common.query.ticket import sign_ticket
from broker_common.rpc.status import broker_error, calling
from broker_common.values import QUERY_ID_BYTES, Clock, Randomness
from researcher_node.answers.counted import part_of
from researcher_node.answers.store import Answers, AskedQuestion
from researcher_node.asking.composing import compose_question
from researcher_node.asking.contact import CALL_SECONDS, Contact, DictionaryHandler, Party
from researcher_node.asking.kept import KeptDictionaries, Policies
from researcher_node.asking.proposal import Precision, Proposal, Wanted, Wish
from researcher_node.trust.cards import Trust
from researcher_node.trust.census_log import lie, verify_slot

# The census node may hold a call for an answer that is not out yet.
_COLLECT_HOLD_MS = 10_000
# Between looks into our own store: twice as long every time, up to the longest.
_LOOK_SECONDS = 0.1
_MAX_LOOK_SECONDS = 1.0
# Between calls to a census node that is away, or does not hold them.
_PAUSE_SECONDS = 0.25
# For the health node to say that a question is done whose answer is here already.
_LAST_WORD_SECONDS = 1.0
# The shortest and longest pause that a busy health node may ask for.
_BUSY_SECONDS = (1.0, 30.0)
_STAGES = (
    health_service_pb2.STAGE_ACCEPTED,
    health_service_pb2.STAGE_FORWARDED,
    health_service_pb2.STAGE_CHARGED,
    health_service_pb2.STAGE_RELEASED,
)

ResultT = TypeVar("ResultT")
StageHandler = Callable[[health_service_pb2.Stage.ValueType], None]
# Told how many seconds pass until a busy node is asked again.
BusyHandler = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Quoted:
    """The census node's signed offer for one question, and what is to prove its noise slot."""

    question: Question
    offer: VerifiedQuote
    shown: census_service_pb2.QuoteResponse
    # The part of the people that the question is about; None: everybody.
    asked_of: AskedOf | None = None


@dataclass(slots=True)
class _Pauses:
    """The pause between two tries of one call."""

    on_busy: BusyHandler
    on_away: Callable[[], None] = lambda: None
    # Errors that may pass by themselves; anything else ends the call.
    passing: frozenset[str] = frozenset({"BUSY", "PEER_UNAVAILABLE"})
    said_away: bool = False

    def after(self, error: BrokerError) -> float | None:
        """How long to wait after a try that failed; None where another would be no better."""
        if error.code not in self.passing:
            return None
        return _PAUSE_SECONDS if error.code == "PEER_UNAVAILABLE" else _busy_seconds(error)

    def tell(self, error: BrokerError, pause: float) -> None:
        """Say why somebody waits; that a node is away, once."""
        if error.code != "PEER_UNAVAILABLE":
            self.on_busy(pause)
        elif not self.said_away:
            self.said_away = True
            self.on_away()


class Session(Contact):
    """One command's question, from its text to its answer."""

    def __init__(
        self,
        *,
        researcher_id: str,
        ticket_key: Callable[[], SigningKey],
        health: Party,
        census: Party,
        own_card: Callable[[], VerifiedCard],
        trust: Trust,
        tls: Callable[[], TlsCredentials],
        answers: Answers,
        policies: Policies,
        dictionaries: KeptDictionaries,
        clock: Clock,
        randomness: Randomness,
        on_dictionary: DictionaryHandler = lambda _role, _version: None,
    ) -> None:
        super().__init__(
            health=health,
            census=census,
            own_card=own_card,
            trust=trust,
            tls=tls,
            policies=policies,
            dictionaries=dictionaries,
            clock=clock,
            on_dictionary=on_dictionary,
        )
        self._researcher_id = researcher_id
        self._ticket_key = ticket_key
        self._answers = answers
        self._randomness = randomness

    # --- before a question -----------------------------------------------------------------------------------------

    async def question(self, counts: Sequence[str], *, of_all: bool) -> Question:
        """The question that these counts ask together, read with the census node's dictionary."""
        return await self._read(
            "census", " and ".join(counts), lambda _, dictionary: compose_question(counts, of_all, dictionary)
        )

    async def propose(self, wish: Wish) -> Proposal:
        """Everything about a question that can be said before it is quoted.

        Raises:
            InvalidRequestError: what is wrong with the question.
        """
        condition, certain = await self._read("health", wish.where, _judged)
        question = await self.question(wish.counts, of_all=wish.of_all)
        policy = await self.policy()
        scale = wish.precision.scale or wish.precision.choose(policy, len(question.cells))
        return Proposal(wish, condition, certain, question, scale, policy)

    async def quote(self, count: str, precision: Precision) -> Quoted:
        """Quote an answer's cost and the reach of its noise, signed by the census agency. Charges nothing.

        Raises:
            PeerUnavailableError: PEER_MISBEHAVED, the quote is not signed, or not of what was asked.
        """
        question, asked_of = await self._read("census", count, _question_and_part)
        scale = (
            precision.choose(await self.policy(), len(question.cells)) if precision.scale is None else precision.scale
        )
        request = census_service_pb2.QuoteRequest(question=question.to_wire(), scale=scale)
        response = await calling("census", (await self._census()).Quote(request, timeout=CALL_SECONDS))
        return Quoted(question, self._verified(response.quote, question, scale), response, asked_of)

    def _verified(self, signed: quote_pb2.SignedQuote, question: Question, scale: int) -> VerifiedQuote:
        """SECURITY: a ticket repeats what is quoted, and is compared with it by the auditor: nothing else is signed for."""
        try:
            keys = self._trust.card("census").verify_keys(Purpose.ANSWER, self._clock())
            offer = verify_quote(signed, census_keys=keys)
        except InvalidRequestError as error:
            raise lie("a quote that its agency did not sign") from error
        body = offer.body
        asked = (self._researcher_id, question.to_wire(), scale)
        if asked != (body.researcher_id, body.question, body.scale):
            raise lie("a quote for something else")
        cells = len(question.cells)
        if (body.charged, body.margin_95) != (price(scale, cells=cells), margin(scale, cells)):
            raise lie("a quote with another price or margin than its scale has")
        return offer

    # --- a question ------------------------------------------------------------------------------------------------

    async def prepare(
        self,
        wanted: Wanted,
        *,
        query_id: bytes | None = None,
        quoted_again: int = 0,
        wait_seconds: float = 0.0,
        on_busy: BusyHandler = lambda _: None,
    ) -> AskedQuestion:
        """Read, quote, sign and remember a question; nothing has been sent to the health node yet.

        `query_id` is given by a caller that has written it down before; otherwise it is a new one. `quoted_again` is how many
        quotes for the same question the census node refused before. While it gives us no more quotes it is asked again, for at
        most `wait_seconds`.

        Raises:
            InvalidRequestError, RefusedError: what is wrong with the question, or with asking it now.
            PeerUnavailableError: PEER_MISBEHAVED, among others a noise slot that nobody has committed to.
        """
        condition = await self._read("health", wanted.where, parse_condition)
        read_with = self._read_with["health"].hash
        deadline = asyncio.get_running_loop().time() + wait_seconds
        pauses = _Pauses(on_busy, passing=frozenset({"TOO_MANY_QUOTES"}))
        quoted = await _patiently(lambda: self.quote(wanted.count, wanted.precision), deadline, pauses)
        offered = quoted.offer.body
        verify_slot(offered.noise_slot, quoted.shown, self.census_log())
        # Kept: what the answer was charged is a share of its budget.
        await self.policy_named(offered.policy_hash)
        nonce = self._randomness(SALT_BYTES)
        unsealing_key = UnsealingKey.generate(self._randomness)
        body = ticket_pb2.Ticket(
            query_id=self._randomness(QUERY_ID_BYTES) if query_id is None else query_id,
            researcher_id=self._researcher_id,
            project_id=wanted.project,
            question=offered.question,
            census_release=offered.census_release,
            scale=offered.scale,
            fraction_millionths=wanted.fraction_millionths,
            criteria_commitment=commit_criteria(nonce, canonical_bytes(condition)),
            answer_key=unsealing_key.sealing_key.raw,
            policy_hash=offered.policy_hash,
            noise_slot=offered.noise_slot,
            expires_ms=offered.expires_ms,
            health_dictionary=read_with,
            census_dictionary=self._read_with["census"].hash,
        )
        asked = AskedQuestion(
            query=body.query_id.hex(),
            asked_ms=self._clock(),
            where=describe(condition),
            question=quoted.question.text,
            scale=body.scale,
            fraction_millionths=body.fraction_millionths,
            policy_hash=body.policy_hash.hex(),
            signed_quote=quoted.offer.signed.SerializeToString(deterministic=True),
            signed_ticket=sign_ticket(body, self._ticket_key()).SerializeToString(deterministic=True),
            criteria=condition.to_wire().SerializeToString(deterministic=True),
            criteria_nonce=nonce,
            quoted_again=quoted_again,
            label=wanted.label,
            asked_of=quoted.asked_of,
        )
        self._answers.put(asked, unsealing_key)
        return asked

    async def ask(
        self,
        asked: AskedQuestion,
        *,
        wait_seconds: float,
        on_stage: StageHandler,
        on_busy: BusyHandler = lambda _: None,
        on_away: Callable[[], None] = lambda: None,
    ) -> AskedQuestion:
        """Submit a prepared question, for the first time or again, and wait for its answer.

        A health node that is busy or away is asked again as long as there is time. SECURITY: one ticket is charged once,
        however often it is submitted.

        Raises:
            RefusedError, InvalidRequestError: it was refused; nothing was charged.
            PeerUnavailableError: ANSWER_PENDING, or a node that cannot be reached.
        """
        if asked.state == "answered":
            return asked
        if asked.state == "expired":
            raise InvalidRequestError("ANSWER_EXPIRED", query=asked.query)
        told: set[health_service_pb2.Stage.ValueType] = set()

        def tell(stage: health_service_pb2.Stage.ValueType) -> None:
            if stage not in told:
                told.add(stage)
                on_stage(stage)

        answered = await self._submit_and_collect(asked, wait_seconds, tell, _Pauses(on_busy, on_away))
        for stage in _STAGES:
            # The answer was faster than the word of it.
            tell(stage)
        return answered

    async def _submit_and_collect(
        self, asked: AskedQuestion, wait_seconds: float, on_stage: StageHandler, pauses: _Pauses
    ) -> AskedQuestion:
        deadline = asyncio.get_running_loop().time() + wait_seconds
        # Both from the start: the answer may be out already, and the health node may fall silent on the way.
        async with (
            _beside(self._submit_patiently(asked, deadline, on_stage, pauses)) as submitting,
            _beside(self.collect(asked.query, wait_seconds=wait_seconds)) as collecting,
        ):
            await asyncio.wait({submitting, collecting}, return_when=asyncio.FIRST_COMPLETED)
            if collecting.done() and _is_final(collecting):
                answered = collecting.result()
                # Usually the health node is about to say so too. One that has fallen silent is not waited for.
                await asyncio.wait({submitting}, timeout=_LAST_WORD_SECONDS)
                return answered
            try:
                await submitting
            except BrokerError as error:
                return await self._answered_or_failed(asked.query, error)
            if not collecting.done():
                return await collecting
        return await self.collect(asked.query, wait_seconds=deadline - asyncio.get_running_loop().time())

    async def _answered_or_failed(self, query: str, failure: BrokerError) -> AskedQuestion:
        """A ticket that was charged at an earlier try has its answer, whatever became of this try."""
        try:
            return await self.collect(query, wait_seconds=0)
        except PeerUnavailableError:
            # Whatever else went wrong, here or between the agencies: the question may still be answered.
            if failure.ends_ticket:
                self._answers.refuse(query, failure.code)
            raise failure from None

    async def _submit_patiently(
        self, asked: AskedQuestion, deadline: float, on_stage: StageHandler, pauses: _Pauses
    ) -> None:
        """Submit; while the health node has too much in hand, or is away, again, as long as there is time."""
        await _patiently(lambda: self._submit(asked, deadline, on_stage), deadline, pauses)

    async def submit_again(self, asked: AskedQuestion) -> None:
        """Have the health node take a question that it may never have heard of. It goes on alone; the answer comes later.

        Raises:
            RefusedError, InvalidRequestError: it was refused, or the node is busy.
            PeerUnavailableError: the node is away; the question is as it was.
        """
        try:
            await self._submit(asked, asyncio.get_running_loop().time(), lambda _: None)
        except BrokerError as error:
            if error.ends_ticket:
                self._answers.refuse(asked.query, error.code)
            raise

    async def is_shut_down(self, asked: AskedQuestion) -> bool:
        """Whether a new question like this one would be told that the service is shut down."""
        try:
            await self.quote(asked.question, Precision(asked.scale))
        except BrokerError as error:
            # Whatever else a new question would be told is not about this one.
            return error.code == "SERVICE_SHUT_DOWN"
        return False

    def has_taken(self, query: str) -> bool:
        """Whether the health node has said that it took the question."""
        return self._answers.get(query).accepted

    async def _submit(self, asked: AskedQuestion, deadline: float, on_stage: StageHandler) -> None:
        """Follow the question through its stages until it is released or `deadline` passes.

        However short the wait, the health node gets the time to take the question: from then on it goes on alone.
        """
        request = health_service_pb2.SubmitRequest(
            ticket=asked.ticket_message,
            criteria=parse_message(condition_pb2.Condition, asked.criteria),
            criteria_nonce=asked.criteria_nonce,
        )
        accepted = False
        call = (await self._health()).Submit(request)
        until = max(deadline, asyncio.get_running_loop().time() + CALL_SECONDS)
        failure: BrokerError
        try:
            while True:
                async with asyncio.timeout_at(until):
                    response = await call.read()
                if not isinstance(response, health_service_pb2.SubmitResponse):
                    return
                if not accepted:
                    await asyncio.to_thread(self._answers.accept, asked.query)
                accepted, until = True, deadline
                on_stage(response.stage)
        except TimeoutError:
            failure = PeerUnavailableError("PEER_UNAVAILABLE", peer="health")
        except AioRpcError as error:
            failure = broker_error(error, "health")
        finally:
            call.cancel()
        if failure.code == "DICTIONARY_CHANGED":
            # The next question is read with what is in force by now.
            self._read_with.clear()
        # Once the health node has taken the question, losing sight of it is no failure: the answer may still come.
        if not accepted or failure.code != "PEER_UNAVAILABLE":
            raise failure

    async def collect(self, query: str, *, wait_seconds: float) -> AskedQuestion:
        """The answer to one of our queries: from our own inbox, or from the census node.

        Raises:
            PeerUnavailableError: ANSWER_PENDING.
            InvalidRequestError: ANSWER_EXPIRED.
        """
        async with _beside(self._arrival(query)) as arriving, _beside(self._fetch(query, wait_seconds)) as fetching:
            # A node that is frozen does not keep anybody much longer than they wanted to wait.
            patience = max(wait_seconds, CALL_SECONDS)
            await asyncio.wait({arriving, fetching}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            asked = self._answers.get(query)
            if asked.state == "answered":
                return asked
            if arriving.done():
                # Raises what our own store said.
                arriving.result()
            if fetching.done():
                return fetching.result()
        raise PeerUnavailableError("ANSWER_PENDING", query=query)

    async def _arrival(self, query: str) -> None:
        """Return when the answer is in our own store; an inbox may have put it there."""
        pause = _LOOK_SECONDS
        while self._answers.get(query).state != "answered":
            # No event comes from another process.
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MAX_LOOK_SECONDS)

    async def _fetch(self, query: str, wait_seconds: float) -> AskedQuestion:
        """Ask the census node until it has the answer, or until the time has passed."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_seconds
        while True:
            left = deadline - loop.time()
            try:
                return await self.collect_now(query, hold_seconds=max(0.0, left))
            except PeerUnavailableError as error:
                # Not out yet, or the census node is away for a moment: both pass.
                if error.code not in {"ANSWER_PENDING", "PEER_UNAVAILABLE"}:
                    raise
            if left <= 0:
                raise PeerUnavailableError("ANSWER_PENDING", query=query)
            await asyncio.sleep(min(_PAUSE_SECONDS, left))

    async def collect_now(self, query: str, *, hold_seconds: float = 0.0) -> AskedQuestion:
        """One look for an answer; the census node may hold the call for a while.

        Raises:
            PeerUnavailableError: ANSWER_PENDING, it is not out; PEER_UNAVAILABLE, the census node does not say.
            InvalidRequestError: ANSWER_EXPIRED, it was out and has been removed; remembered.
        """
        asked = self._answers.get(query)
        if asked.state == "answered":
            return asked
        hold_ms = min(_COLLECT_HOLD_MS, int(hold_seconds * 1000))
        request = census_service_pb2.CollectRequest(query_id=bytes.fromhex(query), wait_ms=hold_ms)
        timeout = hold_ms / 1000 + CALL_SECONDS
        try:
            response = await calling("census", (await self._census()).Collect(request, timeout=timeout))
        except InvalidRequestError as error:
            if error.code == "ANSWER_EXPIRED":
                await asyncio.to_thread(self._answers.expire, query)
            raise
        if not response.HasField("answer"):
            raise PeerUnavailableError("ANSWER_PENDING", query=query)
        return await asyncio.to_thread(self._answers.receive, response.answer)


@asynccontextmanager
async def _beside(work: Coroutine[Any, Any, ResultT]) -> AsyncIterator[asyncio.Task[ResultT]]:
    """Work that goes on during the block, and not beyond it."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            # Marks an error as seen: its caller has it.
            task.exception()


def _question_and_part(count: str, dictionary: Dictionary) -> tuple[Question, AskedOf | None]:
    question = parse_question(count, dictionary)
    return question, part_of(question, dictionary)


async def _patiently(call: Callable[[], Awaitable[ResultT]], deadline: float, pauses: _Pauses) -> ResultT:
    """The result of a call; while a node refuses it for now, it is made again, as long as there is time."""
    while True:
        try:
            return await call()
        except (RefusedError, PeerUnavailableError) as error:
            pause = pauses.after(error)
            if pause is None or asyncio.get_running_loop().time() + pause > deadline:
                raise
            pauses.tell(error, pause)
        await asyncio.sleep(pause)


def _judged(where: str, dictionary: Dictionary) -> tuple[Condition, Certainty | None]:
    condition = parse_condition(where, dictionary)
    return condition, certainty(condition, dictionary)


def _busy_seconds(error: BrokerError) -> float:
    """How long to leave a busy node alone: what it says, within reason."""
    shortest, longest = _BUSY_SECONDS
    said = error.details.get("retry_seconds", "")
    return min(max(float(said), shortest), longest) if said.isascii() and said.isdecimal() else shortest


def _is_final(collecting: asyncio.Task[AskedQuestion]) -> bool:
    """Whether there is an answer, or will never be one, whatever else happens to the question."""
    error = collecting.exception()
    return error is None or (isinstance(error, BrokerError) and error.code == "ANSWER_EXPIRED")
