"""`race`: many clients at once, for the last of somebody's budget.

Any researcher with several machines. Tickets for a sample of one person, several times what the budget pays for, are signed
beforehand and then submitted by several processes in the same instant, each ticket by two of them. How many of the answers really
counted the person is read with the overseer's key: their prices may never pass the cap, and every ticket must have been charged as
often as it was answered, once.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence

from broker_common.errors import InternalError
from broker_common.privacy.accounting import answers_left
from deploy.attacks.arena import Arena, Ask
from deploy.attacks.findings import Curve, Finding, Report, Same, Within

_ALL = "all"
_RACERS = 4
# So many answers, or a few more, are all that the budget pays for.
_FIT = 4
_REFUSALS = frozenset({"BUDGET_EXHAUSTED", "SERVICE_SHUT_DOWN"})


async def attack_race(arena: Arena, rounds: int) -> Report:
    """Race with so many tickets."""
    policy = arena.policy
    scale = next((scale for scale in policy.scales if answers_left(policy.cap, 0, scale) >= _FIT), policy.scales[-1])
    person = arena.people.take(1)[0]
    ask = Ask(person.where, scale, _ALL)
    tickets = [await arena.prepare(ask) for _ in range(rounds)]
    queries = [ticket.query for ticket in tickets]
    # Each ticket goes to two of the racers.
    hands = [[query for at, query in enumerate(queries) if racer in _owners(at)] for racer in range(_RACERS)]
    ends = await _race(arena, hands)
    answered = {query for end in ends for query, became in end.items() if became == "answered"}
    arena.asked += [(ask, ticket) for ticket in tickets if ticket.query in answered]
    status = await arena.status()
    findings = race_findings(
        queries,
        ends,
        Counter(charge.query for charge in arena.charges()),
        may_refuse=arena.is_strict,
    )
    counted = arena.counted_units([{person.where}])
    if counted is not None:
        findings = (*findings, Within("raced_units", counted, policy.cap))
    return Report(
        "race",
        (*findings, Within("raced_charge", status["worst_charged"], policy.cap)),
        len(arena.asked),
        curves=_curves(arena, queries),
        axes=("answers, in the order of their charges", "units of answers that counted the person"),
    )


def _owners(at: int) -> tuple[int, int]:
    return at % _RACERS, (at + 1) % _RACERS


async def _race(arena: Arena, hands: Sequence[Sequence[str]]) -> list[dict[str, str]]:
    command = (sys.executable, "-m", "deploy.attacks.racer", str(arena.directory / "researcher"))
    pipe = asyncio.subprocess.PIPE
    racers = [await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe) for _ in hands]
    try:
        for racer, hand in zip(racers, hands, strict=True):
            await _tell(racer, "".join(f"{query}\n" for query in hand) + "\n")
        for racer in racers:
            await _line(racer)
        for racer in racers:
            await _tell(racer, "go\n")
        return [json.loads(await _line(racer)) for racer in racers]
    finally:
        for racer in racers:
            if racer.returncode is None and racer.stdin is not None:
                racer.stdin.close()
            await racer.wait()


async def _tell(racer: asyncio.subprocess.Process, text: str) -> None:
    assert racer.stdin is not None  # noqa: S101 - it is a pipe
    racer.stdin.write(text.encode())
    await racer.stdin.drain()


async def _line(racer: asyncio.subprocess.Process) -> str:
    assert racer.stdout is not None  # noqa: S101 - it is a pipe
    line = await racer.stdout.readline()
    if not line:
        # It has said why on stderr.
        raise InternalError("INTERNAL")
    return line.decode()


def race_findings(
    queries: Sequence[str], ends: Sequence[Mapping[str, str]], charges: Mapping[str, int], *, may_refuse: bool
) -> tuple[Finding, ...]:
    """Outcome of each ticket, compared with how often it was charged."""
    wrong = []
    for query in queries:
        became = sorted({end[query] for end in ends if query in end})
        is_answered = became == ["answered"] and charges.get(query, 0) == 1
        is_refused = may_refuse and became and set(became) <= _REFUSALS and charges.get(query, 0) == 0
        if not is_answered and not is_refused:
            wrong.append(f"{query}: {' and '.join(became)}, charged {charges.get(query, 0)} times")
    return (Same("raced_tickets", len(queries), tuple(wrong)),)


def _curves(arena: Arena, queries: Sequence[str]) -> tuple[Curve, ...]:
    counts = arena.exact_counts()
    if counts is None:
        return ()
    units, drawn = 0, [0]
    for charge in arena.charges():
        if charge.query in queries:
            units += charge.units * counts.get(charge.query, 0)
            drawn.append(units)
    numbers = list(range(len(drawn)))
    return (
        Curve("cap", numbers, [arena.policy.cap] * len(drawn), limit=True),
        Curve("counted", numbers, drawn),
    )
