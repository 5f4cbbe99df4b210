"""Laplace noise on one respondent's bounded number, kept inside the bounds in four ways, each with its law and its bias.

With R = high - low, all four add noise of scale R / epsilon to the value x, which lies between the public bounds.

truncated             draw again until the result is inside: the density is divided by its mass inside the bounds
clamped               results outside become the nearer bound
wrapped               ((x - low + noise) mod R) + low: the range is bent into a circle, low and high are one point
wrapped_as_proposed   ((x + noise) mod R) + low: the same, turned by low mod R; without noise x would not come back

Real epsilons, for any two values of one respondent. Truncated and clamped: epsilon, from one bound to the other (for
truncated because both ends lose the same mass). Wrapped: no two points of a circle are further apart than half of it, so

    ln( (1 + e**-epsilon) / (2 e**(-epsilon/2)) ) = ln cosh(epsilon/2).

Everything is computed on u = (x - low) / R in 0 .. 1, with noise of scale 1 / epsilon.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammainc

from broker_common.language import phrase
from policy_lab.arrays import Reals
from policy_lab.mechanisms.limits import checked_bounds, checked_epsilon, refused

Kind = Literal["truncated", "clamped", "wrapped", "wrapped_as_proposed"]

KINDS: tuple[Kind, ...] = ("truncated", "clamped", "wrapped", "wrapped_as_proposed")


@dataclass(frozen=True, slots=True)
class BoundedLaplace:
    """Noise of scale (high - low) / epsilon, kept inside the bounds. `epsilon` is the noise's; `real_epsilon` is what holds."""

    low: float
    high: float
    epsilon: float
    kind: Kind

    def __post_init__(self) -> None:
        checked_epsilon(self.epsilon)
        checked_bounds(self.low, self.high)
        if self.kind not in KINDS:
            raise ValueError(f"{self.kind} is none of {KINDS}")

    @property
    def range(self) -> float:
        """From bound to bound."""
        return self.high - self.low

    @property
    def real_epsilon(self) -> float:
        """The largest log ratio of the chances of one message from two respondents: what the mechanism spends."""
        if self._is_wrapped:
            # ln cosh without an overflow, and without losing digits near 0.
            return math.log1p(2 * math.sinh(self.epsilon / 4) ** 2)
        return self.epsilon

    def apply(self, values: ArrayLike, random: np.random.Generator) -> Reals:
        """The message of each respondent. Values outside the bounds, and missing ones, are refused: clip first."""
        u = self._unit(values)
        if self.kind == "truncated":
            sent = self._draw_inside(u, random)
        else:
            noisy = u + random.laplace(0.0, 1 / self.epsilon, u.shape)
            sent = np.mod(noisy + self._turn, 1.0) if self._is_wrapped else np.clip(noisy, 0, 1)
        return np.clip(self.low + self.range * sent, self.low, self.high)

    def mean(self, values: ArrayLike) -> Reals:
        """The exact expectation of what a respondent with this value sends."""
        return self._unit_mean(self._unit(values)) * self.range + self.low

    def bias(self, values: ArrayLike) -> Reals:
        """How far the expectation is from the value."""
        u = self._unit(values)
        return (self._unit_mean(u) - u) * self.range

    def cdf(self, value: float, x: ArrayLike) -> Reals:
        """The probability that a respondent with this value sends at most x. Clamped messages have a mass at each bound."""
        u = self._unit(value)
        z = np.clip((np.asarray(x, np.float64) - self.low) / self.range, -1, 2)
        inside = np.clip(z, 0, 1)
        if self._is_wrapped:
            law = self._wrapped_cdf(self._turned(u), inside)
        elif self.kind == "truncated":
            law = (self._mass(u, inside)) / (self._side(u) + self._side(1 - u))
        else:
            tail = np.exp(-self.epsilon * np.abs(inside - u)) / 2
            law = np.where(inside >= u, 1 - tail, tail)
        return np.where(z >= 1, 1.0, np.where(z < 0, 0.0, law))

    @property
    def _is_wrapped(self) -> bool:
        return self.kind in {"wrapped", "wrapped_as_proposed"}

    @property
    def _turn(self) -> float:
        """How far the form as proposed turns the circle."""
        return math.fmod(self.low, self.range) / self.range % 1.0 if self.kind == "wrapped_as_proposed" else 0.0

    def _turned(self, u: Reals) -> Reals:
        return np.mod(u + self._turn, 1.0)

    def _unit(self, values: ArrayLike) -> Reals:
        numbers = np.asarray(values, np.float64)
        if not np.all((numbers >= self.low) & (numbers <= self.high)):
            raise refused(
                "data",
                phrase("hold a value outside the public bounds, or none"),
                phrase("Clip values to the bounds and leave out rows without a value, before noise is added."),
            )
        return (numbers - self.low) / self.range

    def _unit_mean(self, u: Reals) -> Reals:
        e = self.epsilon
        if self.kind == "truncated":
            # The first moment of the distance, to the right less to the left.
            moments = (gammainc(2, e * (1 - u)) - gammainc(2, e * u)) / e**2
            shifted: Reals = u + moments / (self._side(u) + self._side(1 - u))
            return shifted
        if self.kind == "clamped":
            return u + math.exp(-e / 2) * np.sinh(e * (0.5 - u)) / e
        turned = self._turned(u)
        # The distance around the circle is symmetric; those who pass the end lose one whole turn.
        return turned - 0.5 + self._around(1 - turned)

    def _side(self, length: Reals) -> Reals:
        """The mass of e**(-epsilon * distance) for distances up to `length`."""
        return -np.expm1(-self.epsilon * length) / self.epsilon

    def _mass(self, u: Reals, z: Reals) -> Reals:
        """The mass of e**(-epsilon * |t - u|) for t from 0 to z."""
        return self._side(u) + np.sign(z - u) * self._side(np.abs(z - u))

    def _draw_inside(self, u: Reals, random: np.random.Generator) -> Reals:
        """First on which side of the value, then how far, with the law cut off at the bound."""
        is_left = random.random(u.shape) * (self._side(u) + self._side(1 - u)) < self._side(u)
        length = np.where(is_left, u, 1 - u)
        distance = -np.log1p(random.random(u.shape) * np.expm1(-self.epsilon * length)) / self.epsilon
        return np.clip(np.where(is_left, u - distance, u + distance), 0, 1)

    def _around(self, distance: Reals) -> Reals:
        """The probability that the noise goes at most so far forward around the circle (0 .. 1)."""
        e = self.epsilon
        forward = -np.expm1(-e * distance) + math.exp(-e) * np.expm1(e * distance)
        return forward / (-2 * math.expm1(-e))

    def _wrapped_cdf(self, u: Reals, z: Reals) -> Reals:
        """From 0 forward to z: past u, what goes at most z - u on, and what comes back round from u to 0 and on."""
        before = self._around(1 - u)
        return np.where(z >= u, self._around(np.abs(z - u)) + 1 - before, self._around(np.mod(z - u, 1.0)) - before)
