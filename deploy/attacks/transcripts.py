"""Everything that a researcher can see of a question, written down so that two worlds can be compared.

A spy speaks with the nodes directly, without the researcher's program between: it sees each message, each status with its
details, how long sealed answers are, and when everything came. Values that are random by design (names of queries, keys, the
noise, noise slots, places in the log) are left out; the rest may depend on the submission and on nothing else.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Self

from grpc.aio import AioRpcError
from tripartite.v1 import (
    answer_pb2,
    census_service_pb2,
    census_service_pb2_grpc,
    condition_pb2,
    health_service_pb2,
    health_service_pb2_grpc,
    quote_pb2,
)

from broker_common.crypto.certificates import Role
from broker_common.errors import BrokerError
from broker_common.query.messages import parse_message
from broker_common.query.question import Question
from broker_common.rpc.channel import Peer, open_channel
from broker_common.rpc.status import broker_error
from broker_common.storage.clock import system_clock
from broker_common.tlog.entries import Charged, Delivered, Entry, Released
from researcher_node.answers.store import Answers, AskedQuestion
from researcher_node.assembly import ResearcherHome

_CALL_SECONDS = 60.0
_HOLD_MS = 10_000
_TRIES = 6


@dataclass(slots=True)
class Seen:
    """Observations of one question, in order."""

    events: list[str] = field(default_factory=list)
    # Seconds after the submission at which each stage was told.
    stage_seconds: dict[str, float] = field(default_factory=dict)
    # The same of the answer, and of a refusal; None where there was none.
    answer_seconds: float | None = None
    refused_seconds: float | None = None
    # As it came; empty when the question was refused.
    sealed: bytes = b""
    answered: AskedQuestion | None = None


class Spy:
    """A researcher's own connections to both nodes. Use as an async context."""

    def __init__(self, home: ResearcherHome, answers: Answers) -> None:
        self._home = home
        self._answers = answers
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        addresses: dict[Role, str] = {
            "health": self._home.config.health.address,
            "census": self._home.config.census.address,
        }
        now_ms = system_clock()
        tls = self._home.keyring.tls(self._home.own_card(), now_ms)
        channels = {}
        for role, address in addresses.items():
            peer = Peer(role, address, tuple(self._home.trust.card(role).certificates(now_ms)))
            channels[role] = await self._stack.enter_async_context(open_channel(peer, tls, system_clock))
        self._health = health_service_pb2_grpc.HealthServiceStub(channels["health"])
        self._census = census_service_pb2_grpc.CensusServiceStub(channels["census"])
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def quote(self, question: Question, scale: int) -> list[str]:
        """Everything that a quote says, but the slot and the instant that it reserves."""
        request = census_service_pb2.QuoteRequest(question=question.to_wire(), scale=scale)
        while True:
            try:
                said = await self._census.Quote(request, timeout=_CALL_SECONDS)
            except AioRpcError as error:
                refusal = broker_error(error, "census")
                if refusal.code != "TOO_MANY_QUOTES":
                    return [f"quote {_said(error, 'census')}"]
                # It follows from this spy's own calls.
                await asyncio.sleep(float(refusal.details["retry_seconds"]))
            else:
                return [_quoted(parse_message(quote_pb2.Quote, said.quote.quote))]

    async def submit(self, asked: AskedQuestion) -> Seen:
        """Submit a ticket, for the first time or again, follow it to its end, and fetch its answer."""
        seen, began = Seen(), _now()
        await self._follow(asked, seen, began)
        refused = seen.refused_seconds is not None
        await self._collect(asked, seen, began, tries=1 if refused else _TRIES, hold_ms=0 if refused else _HOLD_MS)
        return seen

    async def submit_holding(self, asked: AskedQuestion) -> Seen:
        """The same, with the call for the answer held open from the beginning: the answer comes when it is out."""
        seen, fetched, began = Seen(), Seen(), _now()
        collecting = asyncio.create_task(self._collect(asked, fetched, began, tries=_TRIES, hold_ms=_HOLD_MS))
        try:
            await self._follow(asked, seen, began)
            if seen.refused_seconds is None:
                await collecting
        finally:
            collecting.cancel()
            await asyncio.wait({collecting})
        seen.events += fetched.events
        seen.sealed, seen.answered, seen.answer_seconds = fetched.sealed, fetched.answered, fetched.answer_seconds
        return seen

    async def _follow(self, asked: AskedQuestion, seen: Seen, began: float) -> None:
        request = health_service_pb2.SubmitRequest(
            ticket=asked.ticket_message,
            criteria=parse_message(condition_pb2.Condition, asked.criteria),
            criteria_nonce=asked.criteria_nonce,
        )
        call = self._health.Submit(request, timeout=_CALL_SECONDS)
        try:
            async for response in call:
                stage = health_service_pb2.Stage.Name(response.stage)
                seen.stage_seconds[stage] = _now() - began
                seen.events.append(f"{stage} {response.ByteSize()} bytes")
        except AioRpcError as error:
            seen.refused_seconds = _now() - began
            seen.events.append(f"submit {_said(error, 'health')}")

    async def _collect(self, asked: AskedQuestion, seen: Seen, began: float, *, tries: int, hold_ms: int) -> None:
        request = census_service_pb2.CollectRequest(query_id=bytes.fromhex(asked.query), wait_ms=hold_ms)
        for _ in range(tries):
            try:
                response = await self._census.Collect(request, timeout=_CALL_SECONDS)
            except AioRpcError as error:
                seen.events.append(f"collect {_said(error, 'census')}")
                return
            if response.HasField("answer"):
                break
        else:
            seen.events.append("no answer")
            return
        seen.answer_seconds = _now() - began
        answer: answer_pb2.SealedAnswer = response.answer
        seen.sealed = answer.sealed
        seen.events.append(f"sealed {len(answer.sealed)} bytes")
        try:
            seen.answered = await asyncio.to_thread(self._answers.receive, answer)
        except BrokerError as error:
            # An answer of another length, or another form, is something to be told apart by.
            seen.events.append(f"answer {error.code}")
            return
        seen.events.append(f"answered charged={seen.answered.charged} scale={seen.answered.scale}")


def _now() -> float:
    return asyncio.get_running_loop().time()


def logged(entries: Iterable[Entry], asked: AskedQuestion) -> list[str]:
    """The census log's entries about one question: how many of which kind, and their fields that are no hash."""
    said: list[str] = []
    ticket = ""
    for entry in entries:
        event = entry.event
        if isinstance(event, Charged) and event.query == asked.query:
            ticket = event.ticket
            shape = {
                "scale": event.scale,
                "units": event.units,
                "question": event.question,
                "lengths": [len(each) for each in (event.manifest, event.submitted, event.active, event.ledger)],
            }
            said.append(f"logged charged {json.dumps(shape, sort_keys=True)}")
        elif isinstance(event, Released) and event.ticket == ticket:
            said.append(f"logged released {len(event.answer)}")
        elif isinstance(event, Delivered) and event.ticket == ticket:
            said.append("logged delivered")
    return said


def differences(one: Iterable[str], other: Iterable[str]) -> list[str]:
    """Where two transcripts are not the same."""
    first, second = list(one), list(other)
    found = [f"{a!r} against {b!r}" for a, b in zip(first, second, strict=False) if a != b]
    if len(first) != len(second):
        found.append(f"{len(first)} lines against {len(second)}")
    return found


def _quoted(said: quote_pb2.Quote) -> str:
    remaining = said.remaining if said.HasField("remaining") else None
    # The rest of the quota tells how many questions this spy has asked itself.
    price = (
        f"scale={said.scale} charged={said.charged} margin={said.margin_95} remaining={remaining} quota={said.quota}"
    )
    return f"quote {price} policy={said.policy_hash.hex()} release={said.census_release}"


def _said(error: AioRpcError, peer: Role) -> str:
    """A refusal with everything in it that a caller can read."""
    told = broker_error(error, peer)
    return f"{error.code().name} {told.code} {told.text!r} {told.hint!r} {sorted(told.details.items())}"
