"""`tracker`: cohorts that overlap in all but one person, and padding around them.

Adversary R-only and HR. With G a group around x and P others as padding, four questions: G, G without x, G and P, G and P without
x. The classical tracker, who knows nobody's language, takes differences; somebody who knows everybody's but x's weighs each
answer that x was in. Both may learn what the answers with x in them were charged, and nothing from the others: if two answers
shared noise, a difference would show x.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from broker_common.privacy.belief import log_likelihood_ratio
from deploy.attacks.arena import Arena, Ask
from deploy.attacks.chances import sum_law
from deploy.attacks.findings import Curve, Finding, Guesses, Noise, Report
from deploy.attacks.neighbour import guessed_right, noise_findings
from deploy.attacks.people import Person, among
from deploy.attacks.spending import best_guess, units_of

_GROUP = 3
_PADDING = 3
_QUESTIONS = 4
# Everybody in the group is in at most four of the questions: one budget of 80 % pays for that.
_SCALE = 3


@dataclass(frozen=True, slots=True)
class Tracked:
    """One target, what the four answers were, and what they would have been without noise."""

    is_french: bool
    answers: tuple[int, ...]
    # The counts of the group and of the padding, without x.
    others: int
    padding: int
    # The guess of a tracker who cannot tell.
    coin: bool

    @property
    def errors(self) -> tuple[int, ...]:
        x = self.is_french
        whole = self.others + self.padding
        truths = (self.others + x, self.others, whole + x, whole)
        return tuple(answer - truth for answer, truth in zip(self.answers, truths, strict=True))

    def by_difference(self) -> bool:
        """The classical tracker's guess."""
        with_x, without, padded, padded_without = self.answers
        both = (with_x - without) + (padded - padded_without)
        return self.coin if both == 1 else both > 1

    def by_weight(self, scale: int) -> Fraction:
        """Guesses of an attacker who knows everybody but x."""
        others, whole = self.others, self.others + self.padding
        return log_likelihood_ratio(scale, self.answers[0], others + 1, others) + log_likelihood_ratio(
            scale, self.answers[2], whole + 1, whole
        )


async def attack_tracker(arena: Arena, rounds: int) -> Report:
    """Track one person after the other."""
    scale = arena.policy.usual_scale if arena.is_strict else _SCALE
    rounds = arena.rounds_within(units_of((scale,) * _QUESTIONS), rounds)
    targets = arena.people.toss(rounds)
    groups = [arena.people.take(_GROUP) for _ in targets]
    padding = [arena.people.take(_PADDING) for _ in targets]
    answers = await arena.answers_in_turn(
        [_asks(*around, scale) for around in zip(targets, groups, padding, strict=True)]
    )
    coins = arena.people.dice.integers(0, 2, rounds)
    tracked = [
        Tracked(x.is_french, tuple(of), _french(group), _french(pad), bool(coin))
        for x, group, pad, of, coin in zip(targets, groups, padding, answers, coins, strict=True)
    ]
    return Report(
        "tracker",
        tracker_findings(scale, tracked),
        len(arena.asked),
        curves=_curves(scale, tracked),
        axes=("people tracked", "share of right guesses so far"),
    )


def _asks(x: Person, group: Sequence[Person], padding: Sequence[Person], scale: int) -> list[Ask]:
    whole = [*group, *padding]
    return [Ask(among(people), scale) for people in ([x, *group], group, [x, *whole], whole)]


def _french(people: Sequence[Person]) -> int:
    return sum(person.is_french for person in people)


def tracker_findings(scale: int, tracked: Sequence[Tracked]) -> tuple[Finding, ...]:
    """The verdicts on what came of it."""
    curve = best_guess((scale, scale))
    pair = sum_law((scale, scale))
    gaps = [abs(of.errors[at] - of.errors[at + 1]) for of in tracked for at in (0, 2)]
    return (
        Guesses("by_difference", sum(of.by_difference() == of.is_french for of in tracked), len(tracked), curve),
        Guesses(
            "by_weight",
            sum(guessed_right(of.by_weight(scale), of.is_french) for of in tracked),
            len(tracked),
            curve,
        ),
        Noise("difference_error", (pair,) * len(gaps), sum(gaps), (scale, scale)),
        *noise_findings([((scale,) * _QUESTIONS, of.errors) for of in tracked]),
    )


def _curves(scale: int, tracked: Sequence[Tracked]) -> tuple[Curve, ...]:
    numbers = list(range(1, len(tracked) + 1))
    right = [of.by_difference() == of.is_french for of in tracked]
    return (
        Curve("allowed", numbers, [best_guess((scale, scale))] * len(numbers), limit=True),
        Curve("attackers", numbers, [sum(right[:count]) / count for count in numbers]),
    )
