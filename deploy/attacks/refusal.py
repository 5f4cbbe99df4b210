"""`refusal`: does anything show that somebody's budget is spent?

Adversary R-only and HR. Somebody in the census and somebody who is not are asked about until their budgets are spent, and on.
It compares everything visible then (stages, texts, codes, sizes, prices, entries of the log), also with questions about people
never asked about, about samples of nobody, and about samples of spent people only. Under strict accounting the refusal is
public, and must be the same for every person asked about.
"""

from __future__ import annotations

from collections.abc import Sequence

from deploy.attacks.arena import Arena, Ask
from deploy.attacks.findings import Finding, Report
from deploy.attacks.people import FRENCH, Person, among
from deploy.attacks.spending import boldly
from deploy.attacks.worlds import told_apart, watched

_ALL = "all"
_NOBODY = "age = 0 and age = 130"


async def attack_refusal(arena: Arena, rounds: int) -> Report:
    """Spend, go on asking, and compare."""
    bold = boldly(arena.policy.cap, arena.policy.scales)
    count = 1 if arena.is_strict else rounds
    spent, absent = arena.people.take(count), arena.people.take(count, linked=False)
    fresh = arena.people.take(count)
    while_spending = [[await _watch(arena, [person.where], bold) for person in people] for people in (spent, absent)]
    scales = (arena.policy.scales[0], arena.policy.usual_scale, arena.policy.scales[-1])
    afterwards = [[await _after(arena, person, scales) for person in people] for people in (spent, absent, fresh)]
    of_many = await _watch(arena, [among(spent)], scales)
    findings: list[Finding] = [
        told_apart("spent_or_absent", afterwards[0], afterwards[1]),
        told_apart("spent_or_fresh", afterwards[0], afterwards[2]),
        told_apart("spent_or_nobody", [of_many], [await _watch(arena, [_NOBODY], scales)]),
    ]
    if not arena.is_strict:
        # Under strict accounting the second to be asked about meets a service that has shut down.
        findings.insert(0, told_apart("while_spending", while_spending[0], while_spending[1]))
    return Report("refusal", tuple(findings), len(arena.asked))


async def _after(arena: Arena, person: Person, scales: Sequence[int]) -> list[str]:
    return await _watch(arena, [person.where], scales)


async def _watch(arena: Arena, wheres: Sequence[str], scales: Sequence[int]) -> list[str]:
    return await watched(
        arena, [Ask(where, scale, what) for where in wheres for scale in scales for what in (FRENCH, _ALL)]
    )
