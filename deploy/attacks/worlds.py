"""Two worlds that differ in one person, and whether a researcher can tell them apart.

It compares everything that a spy writes down and the census log's entries about a question. People stand for worlds: one is
linked and another is not, one has nothing left and another everything. The questions about each have the same shape, so any
difference would come from who they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from broker_common.query.question import parse_question
from broker_common.tlog.entries import Delivered
from deploy.attacks.arena import Arena, Ask
from deploy.attacks.findings import Same
from deploy.attacks.transcripts import differences, logged
from deploy.synthetic.dictionaries import CENSUS_DICTIONARY

_LOOKS = 100
_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Transcript:
    """Everything visible of one question."""

    lines: tuple[str, ...]
    # From the submission until the answer was out; 0 when it was refused.
    seconds: float
    # The noisy answer, which no comparison looks at; None when it was refused.
    count: int | None


async def watch(arena: Arena, asks: Sequence[Ask]) -> list[Transcript]:
    """These questions, asked one after the other."""
    seen = [await arena.watch(ask) for ask in asks]
    answered = sum(each.seen.answered is not None for each in seen)
    queries = {each.ticket.query for each in seen if each.ticket is not None}
    for _ in range(_LOOKS):
        entries = arena.log()
        charged = {charge.ticket for charge in arena.charges() if charge.query in queries}
        if sum(isinstance(entry.event, Delivered) and entry.event.ticket in charged for entry in entries) >= answered:
            break
        # A delivery is logged after the answer has been seen.
        await asyncio.sleep(_LOOK_SECONDS)
    return [
        Transcript(
            lines=(*each.seen.events, *(logged(entries, each.ticket) if each.ticket is not None else ())),
            seconds=max(each.seen.stage_seconds.values(), default=0.0),
            count=None if each.seen.answered is None else each.seen.answered.noisy_count,
        )
        for each in seen
    ]


async def watched(arena: Arena, asks: Sequence[Ask]) -> list[str]:
    """The lines of all these questions."""
    return [line for transcript in await watch(arena, asks) for line in transcript.lines]


async def quotes(arena: Arena, scales: Sequence[int], counts: Sequence[str]) -> list[str]:
    """The census node's quote for every such question."""
    questions = [parse_question(count, CENSUS_DICTIONARY) for count in counts]
    return [line for question in questions for scale in scales for line in await arena.spy.quote(question, scale)]


def told_apart(name: str, one: Sequence[Sequence[str]], other: Sequence[Sequence[str]]) -> Same:
    """The finding that each transcript of one world is the same as its counterpart in the other."""
    found = [difference for a, b in zip(one, other, strict=True) for difference in differences(a, b)]
    return Same(name, sum(len(lines) for lines in one), tuple(found))
