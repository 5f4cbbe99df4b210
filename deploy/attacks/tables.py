"""Tables under attack: questions of several cells, each of which costs what one count costs.

Adversary HR. `neighbour` asks of one known person whether they are in the first of two cells or in the other, which is one step of
the noise's norm: the best guess may be no better than about a count. `average` adds up the cells of a table, and asks for it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from broker_common.privacy.belief import belief_from_log_odds
from broker_common.privacy.table_laplace import norm
from deploy.attacks.arena import Arena, Ask, side_by_side
from deploy.attacks.chances import cell_law, norm_law
from deploy.attacks.findings import Finding, Guesses, Noise, Within
from deploy.attacks.people import FRENCH_CODE, Person
from deploy.attacks.spending import best_guess, ceiling

ONE_OR_OTHER = f"mother_tongue by '{FRENCH_CODE}', rest"
_FRENCH_CELL, _OTHER_CELL = (1, 0), (0, 1)

Numbers = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tabled:
    """A person under attack: whether they are in the first cell or in the other, and what tables said of them alone."""

    truth: bool
    answers: tuple[Numbers, ...]


async def spend_on_tables(arena: Arena, people: Sequence[Person], scales: Sequence[int]) -> list[Tabled]:
    """Tables about each of these people alone."""

    async def one(person: Person) -> Tabled:
        answers = [await arena.numbers(Ask(person.where, scale, ONE_OR_OTHER)) for scale in scales]
        return Tabled(person.is_french, tuple(answers))

    return await side_by_side(people, one)


def value_findings(bold: Sequence[int], beyond: Sequence[int], known: Sequence[Tabled]) -> tuple[Finding, ...]:
    """The verdicts on people of whom tables were asked, first for a whole budget, and then beyond it."""
    within = [(of.truth, _log_odds(bold, of.answers[: len(bold)])) for of in known]
    after = [(of.truth, _log_odds(beyond, of.answers[len(bold) :])) for of in known]
    errors: dict[int, list[Numbers]] = {}
    for of in known:
        for scale, answer in zip(bold, of.answers, strict=False):
            errors.setdefault(scale, []).append(_less(answer, _FRENCH_CELL if of.truth else _OTHER_CELL))
    return (
        Guesses("table_guess", sum((odds > 0) == truth for truth, odds in within), len(known), best_guess(bold)),
        Guesses("table_beyond", sum((odds > 0) == truth for truth, odds in after), len(known), 0.5),
        Within("table_belief", max(belief_from_log_odds(abs(odds)) for _, odds in within), ceiling(bold)),
        *(_noise(scale, of) for scale, of in sorted(errors.items())),
    )


def sum_findings(scale: int, errors: Sequence[Numbers]) -> tuple[Finding, ...]:
    """The verdicts on tables whose cells are added up: the sum has the noise of one cell, and no less."""
    law = cell_law(scale, len(errors[0]))
    return (
        Noise("table_sum", (law,) * len(errors), sum(abs(sum(error)) for error in errors), (scale,)),
        _noise(scale, errors),
    )


def _log_odds(scales: Sequence[int], answers: Sequence[Numbers]) -> Fraction:
    """Evidence of tables about a single person for the first cell against the other."""
    return sum(
        (
            Fraction(norm(_less(answer, _OTHER_CELL)) - norm(_less(answer, _FRENCH_CELL)), scale)
            for scale, answer in zip(scales, answers, strict=True)
        ),
        Fraction(0),
    )


def _noise(scale: int, errors: Sequence[Numbers]) -> Noise:
    law = norm_law(scale, len(errors[0]))
    return Noise("table_noise", (law,) * len(errors), sum(map(norm, errors)), (scale,))


def _less(numbers: Numbers, others: Numbers) -> Numbers:
    return tuple(one - other for one, other in zip(numbers, others, strict=True))
