"""`times`: does any instant tell who is asked about?

Adversaries R-only and HR. In an order drawn by lot, questions of one form are about nobody, a few, half of everybody and everybody,
about people who are not in the census, and about people whose budget is spent, while another researcher asks something else. For
each of them is noted by how many milliseconds after its due instant on the grid of ticks every stage was told and the answer came,
and how long a quote took meanwhile; and when a ticket about nobody or everybody was refused with its sample. Large samples and small
ones, empty ones, linked people and others, spent ones and others are compared event by event, by two exact tests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from broker_common.privacy.policy import Policy
from broker_common.query.question import parse_question
from broker_common.storage.clock import system_clock
from deploy.attacks.arena import Arena, Ask
from deploy.attacks.findings import Curve, Finding, Instants, Report
from deploy.attacks.people import FRENCH, Person, among
from deploy.attacks.spending import boldly, units_of
from deploy.attacks.transcripts import Seen
from deploy.attacks.worlds import told_apart
from deploy.synthetic.dictionaries import CENSUS_DICTIONARY

_GROUP = 3
# Every question takes other spent people: their criteria are as long as anybody's.
_SPENT = 12
_NOBODY, _FEW, _HALF, _EVERYBODY, _UNLINKED, _SPENT_KIND = "nobody", "few", "half", "everybody", "unlinked", "spent"
# Additions to criteria about a few people.
_WIDENED = {_NOBODY: "and age > 130", _HALF: "or sex = 'female'", _EVERYBODY: "or age >= 0"}
_QUOTE, _ANSWER, _REFUSAL = "quote", "answer", "refusal"
_REFUSED = (_NOBODY, _EVERYBODY)
# The contrasts: sizes, emptiness, linkage, and drops.
_CONTRASTS = (
    ((_NOBODY, _FEW, _UNLINKED, _SPENT_KIND), (_HALF, _EVERYBODY)),
    ((_HALF,), (_EVERYBODY,)),
    ((_NOBODY,), (_FEW, _UNLINKED, _SPENT_KIND)),
    ((_FEW,), (_UNLINKED,)),
    ((_FEW,), (_SPENT_KIND,)),
)
_REFUSAL_CONTRAST = (((f"{_NOBODY} {_REFUSAL}",), (f"{_EVERYBODY} {_REFUSAL}",)),)
_STAGES = {"STAGE_FORWARDED": "forwarded", "STAGE_CHARGED": "charged", "STAGE_RELEASED": "released"}
# Ticks after the one at which a sample leaves: taken at the next, told at the one after; cosigned, and the same again.
_TICKS = {"forwarded": 0, "charged": 2, _REFUSAL: 2, "released": 4, _ANSWER: 4}
# Quotes while a question is under way: with many more, an attacker's newest ones would take the slot of their own ticket.
_QUOTES = 16
_QUOTE_SECONDS = 0.02
# Share of a tick at which a question is submitted: never at the edge, where it may fall on either side.
_PHASE = 0.3


@dataclass(frozen=True, slots=True)
class Timed:
    """Observations of one question."""

    kind: str
    # For each event: milliseconds after its due instant; for a quote, its duration.
    late: Mapping[str, int]
    lines: tuple[str, ...]


async def attack_times(arena: Arena, rounds: int) -> Report:
    """Ask so often about each kind of people."""
    scale = arena.policy.scales[-1]
    kinds = [_NOBODY, _FEW, _HALF, _EVERYBODY, _UNLINKED]
    if not arena.is_strict:
        # Under strict accounting one budget is everybody's.
        kinds.append(_SPENT_KIND)
    rounds = arena.rounds_within(units_of((scale,) * len(kinds)), rounds)
    spent = [] if arena.is_strict else await _spend(arena)
    load = Ask(among(arena.people.take(_GROUP)), scale, FRENCH)
    order = [kinds[int(place)] for place in arena.people.dice.permutation([*range(len(kinds))] * rounds)]
    if arena.is_strict:
        timed = [each for kind in order for each in await _ask(arena, kind, spent, scale)]
    else:
        async with arena.another_asks(load):
            timed = [each for kind in order for each in await _ask(arena, kind, spent, scale)]
    return Report(
        "times",
        times_findings(timed, in_ticks=arena.policy.release_tick_ms > 0),
        len(arena.asked),
        curves=_curves(timed),
        axes=("questions, from the earliest", "milliseconds after the answer is due"),
    )


async def _spend(arena: Arena) -> list[Person]:
    people = arena.people.take(_SPENT)
    bold = boldly(arena.policy.cap, arena.policy.scales)
    await arena.answers_in_turn([[Ask(person.where, scale) for scale in bold] for person in people])
    return people


async def _ask(arena: Arena, kind: str, spent: Sequence[Person], scale: int) -> list[Timed]:
    """One question of this kind; and for some kinds another ticket about the same people, which is refused."""
    if kind == _SPENT_KIND:
        group = [spent[place] for place in arena.people.dice.permutation(len(spent))[:_GROUP]]
    else:
        group = arena.people.take(_GROUP, linked=kind != _UNLINKED)
    ticket = await arena.prepare(Ask(f"({among(group)}) {_WIDENED.get(kind, 'and age >= 0')}", scale))
    submitted_ms = await _mid_tick(arena.policy)
    async with _Quoting(arena, scale) as quoting:
        seen = await arena.spy.submit_holding(ticket)
    if seen.answered is not None:
        arena.asked.append((Ask(ticket.where, scale), seen.answered))
    late = _late(arena.policy, submitted_ms, seen)
    timed = [Timed(kind, {**late, _QUOTE: quoting.longest_ms}, tuple(sorted(seen.events)))]
    if kind in _REFUSED:
        again = arena.again_with_its_slot(ticket)
        submitted_ms = await _mid_tick(arena.policy)
        refused = await arena.spy.submit_holding(again)
        timed.append(Timed(f"{kind} {_REFUSAL}", _late(arena.policy, submitted_ms, refused), tuple(refused.events)))
    return timed


async def _mid_tick(policy: Policy) -> int:
    """Return at an instant within a tick; gives it."""
    if policy.release_tick_ms:
        past_ms = system_clock() % policy.release_tick_ms
        await asyncio.sleep((policy.release_tick_ms * (1 + _PHASE) - past_ms) / 1000)
    return system_clock()


def _late(policy: Policy, submitted_ms: int, seen: Seen) -> dict[str, int]:
    instants = {_STAGES[stage]: at for stage, at in seen.stage_seconds.items() if stage in _STAGES}
    ends = {_ANSWER: seen.answer_seconds, _REFUSAL: seen.refused_seconds}
    instants |= {event: at for event, at in ends.items() if at is not None}
    return {
        event: submitted_ms + round(1000 * at) - due_ms(policy, submitted_ms, event) for event, at in instants.items()
    }


def due_ms(policy: Policy, submitted_ms: int, event: str) -> int:
    """When an event of a question is due; without ticks, nothing is due at any time."""
    tick_ms = policy.release_tick_ms
    if not tick_ms:
        return submitted_ms
    return (-(-(submitted_ms + policy.forward_delay_ms) // tick_ms) + _TICKS[event]) * tick_ms


class _Quoting:
    """Quotes, one after the other, while something is under way: how long the longest took."""

    def __init__(self, arena: Arena, scale: int) -> None:
        self._arena, self._scale = arena, scale
        self._question = parse_question(FRENCH, CENSUS_DICTIONARY)
        self.longest_ms = 0

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._quote_on())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})
        if not self._task.cancelled():
            self._task.result()

    async def _quote_on(self) -> None:
        clock = asyncio.get_running_loop().time
        for _ in range(_QUOTES):
            began = clock()
            await self._arena.spy.quote(self._question, self._scale)
            self.longest_ms = max(self.longest_ms, round(1000 * (clock() - began)))
            await asyncio.sleep(_QUOTE_SECONDS)


def times_findings(timed: Sequence[Timed], *, in_ticks: bool) -> tuple[Finding, ...]:
    """The verdicts on what was seen and when; without release ticks, which are for tests, time promises nothing."""
    asked = [each for each in timed if _REFUSAL not in each.kind]
    refused = [each for each in timed if _REFUSAL in each.kind]
    findings: list[Finding] = [
        told_apart(name, [of[0].lines] * (len(of) - 1), [each.lines for each in of[1:]])
        for name, of in (("times_seen", asked), ("times_refused_seen", refused))
    ]
    if not in_ticks:
        return tuple(findings)
    events = (*_STAGES.values(), _ANSWER, _QUOTE)
    told = [Instants(f"times_{event}", _by_kind(asked, event), _CONTRASTS) for event in events]
    return (*findings, *told, Instants(f"times_{_REFUSAL}", _by_kind(refused, _REFUSAL), _REFUSAL_CONTRAST))


def _by_kind(timed: Sequence[Timed], event: str) -> dict[str, tuple[int, ...]]:
    kinds = dict.fromkeys(each.kind for each in timed)
    return {
        kind: tuple(each.late[event] for each in timed if each.kind == kind and event in each.late) for kind in kinds
    }


def _curves(timed: Sequence[Timed]) -> tuple[Curve, ...]:
    drawn = []
    for kind, late in _by_kind([each for each in timed if _REFUSAL not in each.kind], _ANSWER).items():
        drawn.append(Curve(f"times_{kind}", [(place + 1) / len(late) for place in range(len(late))], sorted(late)))
    return tuple(drawn)
