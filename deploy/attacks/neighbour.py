"""`neighbour`: the optimal test for one person's language, over a whole budget, and on beyond it.

Adversary HR. The attackers single a person out by criteria, know whether everybody else would be counted, and add up what each
answer says for "French" against "not French", as a count and as a table of both. People are French or not by the toss of a fair coin, so that attackers begin at
even odds. Two ways of spending: `boldly`, a few precise answers, of many people; and `evenly`, the paper's way, of a few.
Then they go on asking of people whose budget is spent: under per-person accounting they are answered and learn nothing.

No answer is about two of these people, so guesses about them are right or wrong independently of one another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from broker_common.privacy.belief import belief_from_log_odds, log_likelihood_ratio
from deploy.attacks.arena import Arena, Ask
from deploy.attacks.chances import magnitude_law
from deploy.attacks.findings import Curve, Finding, Guesses, Noise, Report, Within
from deploy.attacks.people import FRENCH, Person
from deploy.attacks.spending import best_guess, boldly, ceiling, chance_above, evenly, hardly_above
from deploy.attacks.tables import spend_on_tables, value_findings

# People whose budget is spent the paper's way: one for so many that it is spent of boldly.
_BOLD_PEOPLE_FOR_EVEN = 15
_EVEN_SURE = 0.7
_BOLD_SURE = 0.75
# Answers about somebody whose budget is spent: an odd number, so that they lean one way.
_BEYOND = 5


@dataclass(frozen=True, slots=True)
class Known:
    """A person under attack: whether questions count them, and what was answered about them alone."""

    truth: bool
    answers: tuple[int, ...]


async def attack_neighbour(arena: Arena, rounds: int) -> Report:
    """Spend whole budgets on known people, then go on."""
    cap, scales = arena.policy.cap, arena.policy.scales
    bold, even = boldly(cap, scales), evenly(cap, arena.policy.usual_scale)
    beyond = (scales[0],) * _BEYOND
    # Under strict accounting one budget is everybody's: one person, the paper's way.
    bold_people = arena.people.toss(0 if arena.is_strict else rounds)
    even_people = arena.people.toss(1 if arena.is_strict else max(1, rounds // _BOLD_PEOPLE_FOR_EVEN))
    boldly_known = await _spend(arena, bold_people, (*bold, *beyond))
    evenly_known = await _spend(arena, even_people, even)
    findings = neighbour_findings(bold, beyond, boldly_known, even, evenly_known)
    table_people = arena.people.toss(len(bold_people))
    if table_people:
        findings += value_findings(bold, beyond, await spend_on_tables(arena, table_people, (*bold, *beyond)))
    counted = arena.counted_units([{person.where} for person in (*bold_people, *even_people, *table_people)])
    if counted is not None:
        findings = (*findings, Within("counted_units", counted, cap))
    return Report(
        "neighbour",
        findings,
        len(arena.asked),
        curves=_curves(even, evenly_known),
        axes=("answers about the person", "belief in the truth"),
    )


async def _spend(arena: Arena, people: Sequence[Person], scales: Sequence[int]) -> list[Known]:
    answers = await arena.answers_in_turn([_asks(person, scales) for person in people])
    return [Known(person.is_french, tuple(of)) for person, of in zip(people, answers, strict=True)]


def neighbour_findings(
    bold: Sequence[int],
    beyond: Sequence[int],
    boldly_known: Sequence[Known],
    even: Sequence[int],
    evenly_known: Sequence[Known],
) -> tuple[Finding, ...]:
    """The verdicts on what came of it. If a budget was spent boldly, the answers beyond it are the last."""
    within = [Known(of.truth, of.answers[: len(bold)]) for of in boldly_known]
    after = [Known(of.truth, of.answers[len(bold) :]) for of in boldly_known]
    spent = [*((bold, of) for of in within), *((even, of) for of in evenly_known)]
    findings: list[Finding] = []
    if within:
        findings += [
            Guesses("whole_budget", _right(bold, within), len(within), best_guess(bold)),
            Guesses("bold_sure", _sure(bold, within, _BOLD_SURE), len(within), chance_above(bold, _BOLD_SURE)),
            Guesses("beyond_budget", _right(beyond, after), len(after), 0.5),
        ]
    return (
        *findings,
        Guesses("paper_guess", _right(even, evenly_known), len(evenly_known), best_guess(even)),
        Guesses("paper_sure", _sure(even, evenly_known, _EVEN_SURE), len(evenly_known), chance_above(even, _EVEN_SURE)),
        Within(
            "highest_belief",
            max(belief_from_log_odds(abs(log_odds(scales, of.answers))) for scales, of in spent),
            max(ceiling(scales) for scales, _ in spent),
        ),
        *noise_findings([(scales, [answer - of.truth for answer in of.answers]) for scales, of in spent]),
    )


def _right(scales: Sequence[int], known: Sequence[Known]) -> int:
    return sum(guessed_right(log_odds(scales, of.answers), of.truth) for of in known)


def _sure(scales: Sequence[int], known: Sequence[Known], belief: float) -> int:
    """Number of people of whom the attackers believe the truth more than this."""
    return sum(_belief_in_truth(scales, of) > belief for of in known)


def _belief_in_truth(scales: Sequence[int], known: Known) -> float:
    odds = log_odds(scales, known.answers[: len(scales)])
    return belief_from_log_odds(odds if known.truth else -odds)


def _asks(person: Person, scales: Sequence[int], count: str = FRENCH) -> list[Ask]:
    return [Ask(person.where, scale, count) for scale in scales]


def log_odds(scales: Sequence[int], answers: Sequence[int]) -> Fraction:
    """Evidence of answers about a single person for "counted" against "not counted"."""
    return sum(
        (log_likelihood_ratio(scale, answer, 1, 0) for scale, answer in zip(scales, answers, strict=True)), Fraction(0)
    )


def guessed_right(odds: Fraction, truth: bool) -> bool:
    """Whether the best guess is right; without evidence it is "not counted"."""
    return (odds > 0) == truth


def noise_findings(asked: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[Noise]:
    """How far answers were from the truth, against the noise that was charged for, at each scale; of (scales, errors)."""
    sizes: dict[int, list[int]] = {}
    for scales, errors in asked:
        for scale, error in zip(scales, errors, strict=True):
            sizes.setdefault(scale, []).append(abs(error))
    return [Noise("noise", (magnitude_law(scale),) * len(of), sum(of), (scale,)) for scale, of in sorted(sizes.items())]


def _curves(even: Sequence[int], known: Sequence[Known]) -> tuple[Curve, ...]:
    numbers = list(range(len(even) + 1))
    people = [Curve("person", numbers, [_belief_in_truth(even[:count], of) for count in numbers]) for of in known]
    return (
        Curve("ceiling", numbers, [ceiling(even[:count]) for count in numbers], limit=True),
        Curve("hardly_above", numbers, [hardly_above(even[:count]) for count in numbers]),
        Curve("typical", numbers, [best_guess(even[:count]) for count in numbers]),
        *people,
    )
