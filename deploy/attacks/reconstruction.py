"""`reconstruction`: everybody's language at once, by least squares over random cohorts.

Adversary HR, who knows who is in each cohort and nobody's language. People in a group are each in half of the cohorts, as many as
their budgets pay for. The least-squares estimate from the answers is rounded to "French" or not. Guessing by the base rate is
right in half of the cases here. The people of a group share the noise of their cohorts, so the number right is compared with the
ceiling: whatever the answers and everybody else's language were, no single guess is right more often.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from broker_common.privacy.accounting import price
from deploy.attacks.arena import Arena, Ask, side_by_side
from deploy.attacks.findings import Curve, Finding, Guesses, Report
from deploy.attacks.neighbour import noise_findings
from deploy.attacks.people import Person, among
from deploy.attacks.spending import best_guess, ceiling

Cohorts = npt.NDArray[np.bool_]

_GROUP = 16
# Rather precise, and still several cohorts for each person.
_SCALE = 5


async def attack_reconstruction(arena: Arena, rounds: int) -> Report:
    """Reconstruct group after group."""
    scale = arena.policy.usual_scale if arena.is_strict else _SCALE
    each = arena.policy.cap // price(scale)
    groups = [arena.people.toss(_GROUP) for _ in range(1 if arena.is_strict else rounds)]
    cohorts = [_random_cohorts(arena.people.dice, each if arena.is_strict else 2 * each, each) for _ in groups]

    async def one(of: tuple[Sequence[Person], Cohorts]) -> list[int]:
        group, chosen = of
        return [await arena.answer(Ask(_where(group, row), scale)) for row in chosen]

    answers = await side_by_side(list(zip(groups, cohorts, strict=True)), one)
    truths = [np.array([person.is_french for person in group]) for group in groups]
    return Report(
        "reconstruction",
        reconstruction_findings(scale, each, cohorts, answers, truths),
        len(arena.asked),
        curves=_curves(scale, cohorts[0], answers, cohorts, truths),
        axes=("cohorts asked", "share of languages reconstructed"),
    )


def _random_cohorts(dice: np.random.Generator, cohorts: int, each: int) -> Cohorts:
    """Which people are in which cohort: everybody in `each` of them, but under strict accounting in half of all."""
    if cohorts == each:
        return dice.integers(0, 2, (cohorts, _GROUP)).astype(bool)
    chosen = np.zeros((cohorts, _GROUP), dtype=bool)
    for person in range(_GROUP):
        chosen[dice.permutation(cohorts)[:each], person] = True
    return chosen


def _where(group: Sequence[Person], row: npt.NDArray[np.bool_]) -> str:
    members = [person for person, is_in in zip(group, row, strict=True) if is_in]
    # Nobody is 0 and 130 years old.
    return among(members) if members else "age = 0 and age = 130"


def reconstructed(cohorts: Cohorts, answers: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Who speaks French, by the shortest least-squares solution around even odds."""
    design = cohorts.astype(np.float64)
    beyond_half = np.array(answers, dtype=np.float64) - design.sum(axis=1) / 2
    solution, *_ = np.linalg.lstsq(design, beyond_half, rcond=None)
    french: npt.NDArray[np.bool_] = solution > 0
    return french


def reconstruction_findings(
    scale: int,
    each: int,
    cohorts: Sequence[Cohorts],
    answers: Sequence[Sequence[int]],
    truths: Sequence[npt.NDArray[np.bool_]],
) -> tuple[Finding, ...]:
    """The verdicts on what came of it."""
    right = sum(
        int((reconstructed(chosen, of) == truth).sum())
        for chosen, of, truth in zip(cohorts, answers, truths, strict=True)
    )
    people = sum(len(truth) for truth in truths)
    errors = [
        ((scale,) * len(of), (np.array(of) - chosen @ truth.astype(np.int64)).tolist())
        for chosen, of, truth in zip(cohorts, answers, truths, strict=True)
    ]
    return (
        Guesses("reconstructed", right, people, ceiling((scale,) * each)),
        *noise_findings(errors),
    )


def _curves(
    scale: int,
    first: Cohorts,
    answers: Sequence[Sequence[int]],
    cohorts: Sequence[Cohorts],
    truths: Sequence[npt.NDArray[np.bool_]],
) -> tuple[Curve, ...]:
    numbers = list(range(1, len(first) + 1))
    people = sum(len(truth) for truth in truths)
    shares = [
        sum(
            int((reconstructed(chosen[:count], of[:count]) == truth).sum())
            for chosen, of, truth in zip(cohorts, answers, truths, strict=True)
        )
        / people
        for count in numbers
    ]
    # The person who was in the most cohorts by then.
    most = [int(max(chosen[:count].sum(axis=0).max() for chosen in cohorts)) for count in numbers]
    return (
        Curve("ceiling", numbers, [ceiling((scale,) * count) for count in most], limit=True),
        Curve("typical", numbers, [best_guess((scale,) * count) for count in most]),
        Curve("attackers", numbers, shares),
        Curve("base_rate", numbers, [0.5] * len(numbers)),
    )
