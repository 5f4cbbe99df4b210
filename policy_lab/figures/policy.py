"""The settings that several figures have, and what they mean in the product's own units."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from broker_common.language import phrase
from broker_common.privacy.accounting import USUAL_SCALE, answers_left, cap_units, param_of, price
from broker_common.privacy.belief import belief_of_units, posterior
from policy_lab.figures.setting import Values, percent, share_of, whole

CAP = percent("cap", phrase("Limit on belief, for somebody who begins at even odds"), "51", "99", "80")
SCALE = whole("scale", phrase("Noise scale of an answer"), 1, 200, USUAL_SCALE)
PRIOR = percent("prior", phrase("Belief before the first answer"), "1", "99", "50")

_PLACES = 5
# A percentage in a sentence, by the places of its share: with one decimal if that says enough.
_PERCENTAGES = ((phrase("{share:.1f}%"), 3), (phrase("{share:.3f}%"), 5))
_EVEN = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit on belief: the factor by which odds may move, and the budget in units of 2**-24 nat."""

    belief: Fraction
    param: Fraction
    units: int

    def answers(self, scale: int) -> int:
        """How many answers at this scale it pays for."""
        return answers_left(self.units, 0, scale)

    def highest(self, prior: Fraction = _EVEN) -> Fraction:
        """The most that it lets anybody make of `prior`, rounded up."""
        return up(posterior(self.param, prior))

    def lowest(self, prior: Fraction = _EVEN) -> Fraction:
        """The least that it lets anybody make of `prior`, rounded down."""
        return 1 - self.highest(1 - prior)


def limit_of(values: Values) -> Limit:
    """The limit that the setting `cap` names."""
    return limit_at(share_of(values, CAP.key))


def limit_at(belief: Fraction) -> Limit:
    """The limit at this belief."""
    param = param_of(belief)
    return Limit(belief, param, cap_units(param))


def highest_after(answers: int, scale: int, prior: Fraction = _EVEN) -> Fraction:
    """The most that so many answers can make of `prior`, whatever the limit, rounded up."""
    return Fraction(belief_of_units(answers * price(scale), prior))


def lowest_after(answers: int, scale: int, prior: Fraction = _EVEN) -> Fraction:
    """The least that so many answers can make of `prior`, rounded down."""
    return 1 - highest_after(answers, scale, 1 - prior)


def up(value: Fraction, places: int = _PLACES) -> Fraction:
    """Rounded up to so many places."""
    return Fraction(math.ceil(value * 10**places), 10**places)


def down(value: Fraction, places: int = _PLACES) -> Fraction:
    """Rounded down to so many places."""
    return -up(-value, places)


def at_most(share: Fraction | Decimal) -> str:
    """A share as a percentage, rounded up: for a sentence. A share below 100% is not shown as 100%."""
    for text, places in _PERCENTAGES:
        shown = up(Fraction(share), places)
        if shown < 1:
            return phrase(text, share=float(100 * shown))
    return phrase("almost 100%")


def at_least(share: Fraction | Decimal) -> str:
    """A share as a percentage, rounded down: for a sentence. A share above 0% is not shown as 0%."""
    for text, places in _PERCENTAGES:
        shown = down(Fraction(share), places)
        if shown > 0:
            return phrase(text, share=float(100 * shown))
    return phrase("almost 0%")


def so_many_answers(number: int) -> str:
    """A number of answers, in words that agree with it."""
    if number == 0:
        return phrase("no answer")
    return phrase("1 answer") if number == 1 else phrase("{n:,} answers", n=number)


def so_many_questions(number: int) -> str:
    """A number of questions, in words that agree with it."""
    return phrase("1 question") if number == 1 else phrase("{n:,} questions", n=number)
