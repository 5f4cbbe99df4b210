"""`equality`: are two cohorts the same people?

Adversary R-only, for whom that would tell about health records. After a first question about a cohort comes a second, by the
toss of a coin about the same people in other words, or about others, or about many more. The pair is then looked at in every
way: messages, sizes, entries of the log, whether the answers are equal (as from a cache), and how long everything took, with
release ticks on. A clock's threshold is learned on the first half of the pairs and judged on the second, so that it cannot fit luck.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deploy.attacks.arena import Arena, Ask, side_by_side
from deploy.attacks.chances import sum_law
from deploy.attacks.findings import Curve, Finding, Guesses, Report
from deploy.attacks.people import Person, among
from deploy.attacks.spending import units_of
from deploy.attacks.worlds import told_apart, watch

_GROUP = 3
_KINDS = ("same", "others", "many")
# Nearly everybody.
_MANY = "age >= 1"


@dataclass(frozen=True, slots=True)
class Pair:
    """Observations of the second of two questions."""

    kind: str
    lines: tuple[str, ...]
    seconds: float
    answers_equal: bool


async def attack_equality(arena: Arena, rounds: int) -> Report:
    """Ask pair after pair."""
    scale = arena.policy.scales[-1]
    rounds = arena.rounds_within(units_of((scale,) * 2), rounds)
    # Half of the second questions are about the same people.
    kinds = [("same", "same", "others", "many")[coin] for coin in arena.people.dice.integers(0, 4, rounds)]
    groups = [(arena.people.take(_GROUP), arena.people.take(_GROUP)) for _ in kinds]

    async def one(of: tuple[str, tuple[Sequence[Person], Sequence[Person]]]) -> Pair:
        kind, (group, others) = of
        return await _pair(arena, kind, group, others, scale)

    pairs = await side_by_side(list(zip(kinds, groups, strict=True)), one)
    return Report(
        "equality",
        equality_findings(scale, pairs, in_ticks=arena.policy.release_tick_ms > 0),
        len(arena.asked),
        curves=_curves(pairs),
        axes=("pairs, from the fastest", "seconds until the answer was out"),
    )


async def _pair(arena: Arena, kind: str, group: Sequence[Person], others: Sequence[Person], scale: int) -> Pair:
    second = {"same": f"age >= 0 and ({among(group[::-1])})", "others": among(others), "many": _MANY}[kind]
    first_seen, second_seen = await watch(arena, [Ask(among(group), scale), Ask(second, scale)])
    return Pair(kind, second_seen.lines, second_seen.seconds, first_seen.count == second_seen.count)


def equality_findings(scale: int, pairs: Sequence[Pair], *, in_ticks: bool) -> tuple[Finding, ...]:
    """The verdicts on what was seen; without release ticks, which are for tests, time promises nothing."""
    same = [pair for pair in pairs if pair.kind == "same"]
    # Everything is compared with the first pair.
    alike = told_apart("equal_seen", [pairs[0].lines] * (len(pairs) - 1), [pair.lines for pair in pairs[1:]])
    # Independent noise makes two answers equal with at most this chance.
    by_luck = float(sum_law((scale, scale))[0])
    learned, judged = pairs[: len(pairs) // 2], pairs[len(pairs) // 2 :]
    findings = (alike, Guesses("equal_answers", sum(pair.answers_equal for pair in same), len(same), by_luck))
    return (
        (*findings, Guesses("equal_by_time", _right_by_time(learned, judged), len(judged), 0.5))
        if in_ticks
        else findings
    )


def _right_by_time(learned: Sequence[Pair], judged: Sequence[Pair]) -> int:
    """How many of the judged pairs the threshold tells that tells most of the learned ones."""
    best, rule = -1, (0.0, True)
    for threshold in sorted({pair.seconds for pair in learned} | {0.0}):
        for fast_is_same in (True, False):
            right = sum(((pair.seconds <= threshold) == fast_is_same) == (pair.kind == "same") for pair in learned)
            if right > best:
                best, rule = right, (threshold, fast_is_same)
    return sum(((pair.seconds <= rule[0]) == rule[1]) == (pair.kind == "same") for pair in judged)


def _curves(pairs: Sequence[Pair]) -> tuple[Curve, ...]:
    drawn = []
    for name in _KINDS:
        seconds = sorted(pair.seconds for pair in pairs if pair.kind == name)
        drawn.append(Curve(f"time_{name}", [(place + 1) / len(seconds) for place in range(len(seconds))], seconds))
    return tuple(drawn)
