"""Local noise on a short health form, as plain arithmetic: the explainer in the browser computes the same numbers.

A number gets Laplace noise of scale (high - low) / epsilon, is brought back to the nearer bound, and is rounded. A choice is kept with
probability e**epsilon / (e**epsilon + k - 1), and otherwise each other one is as likely. Every field spends the same epsilon, and the
form the sum.

Invariants. `sent` depends on one uniform number, (j + 1/2) / 2**32 for a whole j, and nothing else. With so many steps no chance of a
message is off by more than 2**-31, which at the epsilons allowed here is far below what is shown. For evaluation, never for release.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from broker_common.language import phrase

STEPS = 1 << 32


@dataclass(frozen=True, slots=True)
class Number:
    """A field with a whole number between public bounds."""

    key: str
    label: str
    unit: str
    low: int
    high: int
    usual: int

    @property
    def sensitivity(self) -> int:
        """How far two people's values may be apart."""
        return self.high - self.low

    def scale(self, epsilon: float) -> float:
        """Scale of the Laplace noise."""
        return self.sensitivity / epsilon

    def sent(self, value: int, epsilon: float, uniform: float) -> int:
        """The message for a uniform number between 0 and 1, both excluded."""
        noisy = value + laplace(self.scale(epsilon), uniform)
        return math.floor(min(max(noisy, self.low), self.high) + 0.5)

    def chances(self, value: int, epsilon: float) -> list[float]:
        """The chance of every message, from `low` to `high`."""
        edges = [laplace_below(self.scale(epsilon), edge + 0.5 - value) for edge in range(self.low, self.high)]
        return [after - before for before, after in zip([0.0, *edges], [*edges, 1.0], strict=True)]


@dataclass(frozen=True, slots=True)
class Choice:
    """A field with one of a few choices."""

    key: str
    label: str
    # (key, label) of each; the first is usual.
    choices: tuple[tuple[str, str], ...]

    def keep(self, epsilon: float) -> float:
        """The chance that the true one is sent."""
        return math.exp(epsilon) / (math.exp(epsilon) + len(self.choices) - 1)

    def sent(self, value: int, epsilon: float, uniform: float) -> int:
        """The place of the choice that is sent, for a uniform number between 0 and 1, both excluded."""
        keep = self.keep(epsilon)
        if uniform < keep:
            return value
        others = [place for place in range(len(self.choices)) if place != value]
        return others[min(math.floor((uniform - keep) / (1 - keep) * len(others)), len(others) - 1)]

    def chances(self, value: int, epsilon: float) -> list[float]:
        """The chance of every choice."""
        keep = self.keep(epsilon)
        other = (1 - keep) / (len(self.choices) - 1)
        return [keep if place == value else other for place in range(len(self.choices))]


Field = Number | Choice

AGE = Number("age", phrase("Age"), phrase("years"), 18, 100, 47)
HEIGHT = Number("height", phrase("Height"), phrase("cm"), 120, 220, 171)
WEIGHT = Number("weight", phrase("Weight"), phrase("kg"), 35, 185, 74)
SMOKING = Choice(
    "smoking",
    phrase("Smoking"),
    (("never", phrase("not at all")), ("sometimes", phrase("occasionally")), ("daily", phrase("every day"))),
)
LANGUAGE = Choice(
    "language",
    phrase("Mother tongue"),
    (("french", phrase("French")), ("english", phrase("English")), ("other", phrase("another one"))),
)
FIELDS: tuple[Field, ...] = (AGE, HEIGHT, WEIGHT, SMOKING, LANGUAGE)


def laplace(scale: float, uniform: float) -> float:
    """Laplace noise by inversion."""
    centred = uniform - 0.5
    return math.copysign(scale, centred) * -math.log(1 - 2 * abs(centred))


def laplace_below(scale: float, x: float) -> float:
    """The chance that Laplace noise is at most x."""
    tail = math.exp(-abs(x) / scale) / 2
    return tail if x < 0 else 1 - tail


def uniform_of(step: int) -> float:
    """The uniform number of a whole one below 2**32."""
    return (step + 0.5) / STEPS


def sent_form(values: Sequence[int], epsilon: float, uniforms: Sequence[float]) -> list[int]:
    """All messages; `epsilon` is the whole form's."""
    each = epsilon / len(FIELDS)
    return [field.sent(value, each, uniform) for field, value, uniform in zip(FIELDS, values, uniforms, strict=True)]
