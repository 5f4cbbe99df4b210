"""`average`: get rid of the noise by asking the same thing again.

Any researcher can try. A ticket is submitted again and again; the same criteria are asked once more under a new ticket;
rephrased, so that the sample is the same; and added up from its parts, or from the cells of a table, so that noise might cancel. A retry must give the same bytes
for no charge, and every other answer must be charged and have noise of its own. Averages of k charged answers are allowed: they
are what k charges pay for.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import sub

from deploy.attacks.arena import Arena, Ask, side_by_side
from deploy.attacks.chances import magnitude_law, sum_law
from deploy.attacks.findings import Curve, Finding, Guesses, Noise, Report, Same
from deploy.attacks.people import Person, among
from deploy.attacks.spending import units_of
from deploy.attacks.tables import sum_findings

_GROUP = 3
_RETRIES = 2
_ALL = "all"
_CODES = ("English", "French", "English and French", "Other")
_TABLE = f"mother_tongue by {', '.join(f'{code!r}' for code in _CODES)}"
_TABLES = 2


@dataclass(frozen=True, slots=True)
class Averaged:
    """Errors of one group's answers, and how its retries differed from the first."""

    # Answers to the same question about the same sample, in several wordings.
    same: tuple[int, ...]
    # Answers about a question's parts, and last about the whole.
    parts: tuple[int, ...]
    retries: int
    different: tuple[str, ...]
    # The cells of the same table, asked for again, all together.
    tables: tuple[tuple[int, ...], ...]


async def attack_average(arena: Arena, rounds: int) -> Report:
    """Ask about groups of three, in every way that gives the same sample."""
    scale = arena.policy.usual_scale
    rounds = arena.rounds_within(units_of((scale,) * (len(_wordings([])) + len(_CODES) + 1 + _TABLES)), rounds)
    groups = [arena.people.take(_GROUP) for _ in range(rounds)]

    async def one(group: Sequence[Person]) -> Averaged:
        return await _average(arena, group, scale)

    averaged = await side_by_side(groups, one)
    charged = Counter(charge.query for charge in arena.charges())
    return Report(
        "average",
        average_findings(scale, averaged, [charged[asked.query] for _, asked in arena.asked]),
        len(arena.asked),
        curves=_curves(scale, averaged),
        axes=("answers averaged", "error of the average (root of the mean square)"),
    )


async def _average(arena: Arena, group: Sequence[Person], scale: int) -> Averaged:
    french = sum(person.is_french for person in group)
    first, *others = _wordings(group)
    watched = await arena.watch(Ask(first, scale))
    assert watched.ticket is not None  # noqa: S101 - the budget was looked at before
    different: list[str] = []
    for number in range(1, _RETRIES + 1):
        again = await arena.spy.submit(watched.ticket)
        if again.sealed != watched.seen.sealed:
            different.append(f"retry {number} of {watched.ticket.query}: other bytes")
    answered = watched.seen.answered
    same = [answered.noisy_count or 0 if answered else 0]
    same += [await arena.answer(Ask(where, scale)) for where in others]
    errors = [
        await arena.answer(Ask(first, scale, f"mother_tongue = '{code}'"))
        - sum(person.speaks(code) for person in group)
        for code in _CODES
    ]
    errors.append(await arena.answer(Ask(first, scale, _ALL)) - sum(person.is_linked for person in group))
    true = [sum(person.speaks(code) for person in group) for code in _CODES]
    tables = [await arena.numbers(Ask(first, scale, _TABLE)) for _ in range(_TABLES)]
    return Averaged(
        tuple(answer - french for answer in same),
        tuple(errors),
        _RETRIES,
        tuple(different),
        tuple(tuple(map(sub, table, true)) for table in tables),
    )


def _wordings(group: Sequence[Person]) -> list[str]:
    """The same sample in several words: as it is, once more, in another order, and by more than is needed."""
    where = among(group)
    return [where, where, among(group[::-1]), f"({where}) and age >= 0"]


def average_findings(scale: int, averaged: Sequence[Averaged], charges: Sequence[int]) -> tuple[Finding, ...]:
    """The verdicts on what came of it; `charges` says how often each answer was charged."""
    different = tuple(difference for each in averaged for difference in each.different)
    uncharged = tuple(f"answer {at}: charged {times} times" for at, times in enumerate(charges) if times != 1)
    draws = len(averaged[0].same)
    # Two draws are equal with at most this chance, whatever came before them; two of a table with less.
    by_luck = float(sum_law((scale, scale))[0])
    pairs = [pair for each in averaged for answers in (each.same, each.tables) for pair in pairwise(answers)]
    together = sum_law((scale,) * draws)
    cancelled = sum_law((scale,) * len(averaged[0].parts))
    return (
        Same("retry", sum(each.retries for each in averaged), different),
        Same("charged_each", len(charges), uncharged),
        Guesses("answer_repeated", sum(one == other for one, other in pairs), len(pairs), by_luck),
        Noise(
            "average_error",
            (together,) * len(averaged),
            sum(abs(sum(each.same)) for each in averaged),
            (scale,) * draws,
        ),
        Noise(
            "parts_error",
            (cancelled,) * len(averaged),
            sum(abs(sum(each.parts[:-1]) - each.parts[-1]) for each in averaged),
            (scale,) * len(averaged[0].parts),
        ),
        _all_noise(scale, [error for each in averaged for error in (*each.same, *each.parts)]),
        *sum_findings(scale, [table for each in averaged for table in each.tables]),
    )


def _all_noise(scale: int, errors: Sequence[int]) -> Noise:
    return Noise("noise", (magnitude_law(scale),) * len(errors), sum(map(abs, errors)), (scale,))


def _curves(scale: int, averaged: Sequence[Averaged]) -> tuple[Curve, ...]:
    numbers = list(range(1, len(averaged[0].same) + 1))
    # The law's own standard deviation, nearly the square root of 2 scales.
    deviation = math.sqrt(sum(chance * size**2 for size, chance in enumerate(magnitude_law(scale))))
    errors = [
        math.sqrt(sum((sum(each.same[:count]) / count) ** 2 for each in averaged) / len(averaged)) for count in numbers
    ]
    return (
        Curve("paid_for", numbers, [deviation / math.sqrt(count) for count in numbers], limit=True),
        Curve("attackers", numbers, errors),
    )
