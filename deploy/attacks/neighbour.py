"""`neighbour`: the optimal test for one person's language, over a whole budget, and on beyond it.

Adversary HR. The attackers single a person out by criteria, know whether everybody else would be counted, and add up what each
answer says for "French" against "not French". People are French or not by the toss of a fair coin, so that attackers begin at
even odds. Two ways of spending: `boldly`, a few precise answers, of many people; and `evenly`, the paper's way, of a few.
Then they go on asking of people whose budget is spent: under per-person accounting they are answered and learn nothing.

No answer is about two of these people, so guesses about them are right or wrong independently of one another.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from broker_common.privacy.belief import belief_from_log_odds, log_likelihood_ratio
from deploy.attacks.arena import Arena, Ask
from deploy.attacks.chances import magnitude_law
from deploy.attacks.findings import Curve, Finding, Guesses, Noise, Report, Within
from deploy.attacks.people import FRENCH, Person
from deploy.attacks.spending import best_guess, boldly, ceiling, chance_above, evenly

__all__ = ["attack_neighbour", "guessed_right", "log_odds", "noise_findings"]

# People whose budget is spent the paper's way: one for so many that it is spent of boldly.
_BOLD_PEOPLE_FOR_EVEN = 15
_SURE = 0.7
# Answers about somebody whose budget is spent.
_BEYOND = 2


async def attack_neighbour(arena: Arena, rounds: int) -> Report:
    """Spend whole budgets on known people, then go on."""
    cap, scales = arena.policy.cap, arena.policy.scales
    even = evenly(cap, arena.policy.usual_scale)
    findings: list[Finding] = []
    bold, beyond = boldly(cap, scales), (scales[0],) * _BEYOND
    # Under strict accounting one budget is everybody's: one person, the paper's way.
    bold_people = arena.people.toss(0 if arena.is_strict else rounds)
    even_people = arena.people.toss(1 if arena.is_strict else max(1, rounds // _BOLD_PEOPLE_FOR_EVEN))
    bold_answers = await arena.answers_in_turn([_asks(person, (*bold, *beyond)) for person in bold_people])
    even_answers = await arena.answers_in_turn([_asks(person, even) for person in even_people])

    within = [answers[: len(bold)] for answers in bold_answers]
    after = [answers[len(bold) :] for answers in bold_answers]
    if bold_people:
        findings += [
            Guesses("whole_budget", _right(bold_people, bold, within), len(bold_people), best_guess(bold)),
            Guesses("beyond_budget", _right(bold_people, beyond, after), len(bold_people), 0.5),
        ]
    sure = [
        (person, odds)
        for person, answers in zip(even_people, even_answers, strict=True)
        if belief_from_log_odds(abs(odds := log_odds(even, answers))) > _SURE
    ]
    right = sum((odds > 0) == person.is_french for person, odds in sure)
    everybody = [*zip(bold_people, [bold] * len(within), within, strict=True)]
    everybody += zip(even_people, [even] * len(even_answers), even_answers, strict=True)
    if (counted := arena.counted_units([{person.where} for person in (*bold_people, *even_people)])) is not None:
        findings.append(Within("counted_units", counted, cap))
    findings += [
        Guesses("paper_guess", _right(even_people, even, even_answers), len(even_people), best_guess(even)),
        Guesses("paper_sure", right, len(even_people), chance_above(even, _SURE)),
        Within(
            "highest_belief",
            max(belief_from_log_odds(abs(log_odds(scales, answers))) for _, scales, answers in everybody),
            max(ceiling(scales) for _, scales, _ in everybody),
        ),
        *noise_findings(
            [(scales, [answer - person.is_french for answer in answers]) for person, scales, answers in everybody]
        ),
    ]
    return Report(
        "neighbour",
        tuple(findings),
        len(arena.asked),
        curves=_curves(even, even_people, even_answers),
        axes=("answers about the person", "belief in the truth"),
    )


def _asks(person: Person, scales: Sequence[int], count: str = FRENCH) -> list[Ask]:
    return [Ask(person.where, scale, count) for scale in scales]


def log_odds(scales: Sequence[int], answers: Sequence[int]) -> Fraction:
    """What answers about somebody alone say for "counted" against "not counted"."""
    return sum(
        (log_likelihood_ratio(scale, answer, 1, 0) for scale, answer in zip(scales, answers, strict=True)), Fraction(0)
    )


def guessed_right(odds: Fraction, truth: bool) -> bool:
    """Whether the best guess is right; without evidence it is "not counted"."""
    return (odds > 0) == truth


def _right(people: Sequence[Person], scales: Sequence[int], answers: Sequence[Sequence[int]]) -> int:
    return sum(
        guessed_right(log_odds(scales, of), person.is_french) for person, of in zip(people, answers, strict=True)
    )


def noise_findings(asked: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[Noise]:
    """How far answers were from the truth, against the noise that was charged for, at each scale; of (scales, errors)."""
    sizes: dict[int, list[int]] = {}
    for scales, errors in asked:
        for scale, error in zip(scales, errors, strict=True):
            sizes.setdefault(scale, []).append(abs(error))
    return [Noise("noise", (magnitude_law(scale),) * len(of), sum(of), (scale,)) for scale, of in sorted(sizes.items())]


def _curves(even: Sequence[int], people: Sequence[Person], answers: Sequence[Sequence[int]]) -> tuple[Curve, ...]:
    numbers = list(range(len(even) + 1))
    drawn = [Curve("ceiling", numbers, [ceiling(even[:count]) for count in numbers], limit=True)]
    drawn.append(Curve("typical", numbers, [best_guess(even[:count]) for count in numbers]))
    for person, of in zip(people, answers, strict=True):
        sign = 1 if person.is_french else -1
        beliefs = [belief_from_log_odds(sign * log_odds(even[:count], of[:count])) for count in numbers]
        drawn.append(Curve("person", numbers, beliefs))
    return tuple(drawn)
