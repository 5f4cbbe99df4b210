"""The published listing that estimates a sensitivity, and its exact law. Its answers are not differentially private.

    three times out of four     estimate = real                                       + u * generated
    otherwise                   estimate = generated + (real - generated) * (z + 3)   + u * generated

with z standard normal and u uniform on [0.015, 0.06]. An estimate of zero or less is refused. `real` is computed from the
data themselves, so that the estimate, and the noise that is scaled to it, tell something of them that no epsilon bounds.
"""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist
from typing import Final

import numpy as np

from policy_lab.arrays import Reals

REAL_SHARE: Final = Fraction(3, 4)
"""How often the real sensitivity is taken as it is."""
SHIFT: Final = 3
ADDED_LOW: Final = Fraction(15, 1000)
ADDED_HIGH: Final = Fraction(60, 1000)

_NORMAL = NormalDist()
TAIL: Final = _NORMAL.cdf(1 - SHIFT)
"""How often normal + 3 is below 1, which makes the estimate smaller than a real sensitivity above the generated one."""
ROUNDED_TAIL: Final = Fraction(23, 1000)
"""The same as the rule of 68, 95.4 and 99.7 percent has it: (100 - 95.4) / 2, in percent."""
ARGUED: Final = (1 - REAL_SHARE) * ROUNDED_TAIL
"""What the listing's own argument allows: 0.575 percent."""
ARGUED_EXACTLY: Final = float(1 - REAL_SHARE) * TAIL
WORST: Final = float(1 - REAL_SHARE) * (1 - TAIL)
"""Where the generated sensitivity is far above the real one, the difference is negative and the same step turns round."""

# Below this slope the mean of the normal's law over u is its value in the middle, to 16 digits.
_SMALLEST_SLOPE = 1e-7


def estimates(real: float, generated: float, count: int, random: np.random.Generator) -> Reals:
    """So many estimates, drawn one by one as the listing does; those of zero or less are still among them."""
    takes_real = random.random(count) < float(REAL_SHARE)
    drawn = generated + (real - generated) * (random.standard_normal(count) + SHIFT)
    added = random.uniform(float(ADDED_LOW), float(ADDED_HIGH), count) * generated
    return np.where(takes_real, real, drawn) + added


def law(real: float, generated: float, at: float) -> float:
    """The exact probability that an estimate is at most `at`."""
    share = float(REAL_SHARE)
    return share * _law_of_real(real, generated, at) + (1 - share) * _law_of_drawn(real, generated, at)


def refused(real: float, generated: float) -> float:
    """How often an estimate is zero or less, and nothing is answered."""
    return law(real, generated, 0.0)


def too_small(real: float, generated: float) -> float:
    """How often an answer is given with less noise than the real sensitivity asks for."""
    below = law(real, generated, math.nextafter(real, -math.inf))
    return max(0.0, below - refused(real, generated))


def _law_of_real(real: float, generated: float, at: float) -> float:
    if generated == 0:
        return 1.0 if at >= real else 0.0
    low, high = sorted((float(ADDED_LOW) * generated, float(ADDED_HIGH) * generated))
    return min(1.0, max(0.0, (at - real - low) / (high - low)))


def _law_of_drawn(real: float, generated: float, at: float) -> float:
    """`at` is reached where the normal is at most (at - generated - u generated) / difference - 3, averaged over u."""
    difference = real - generated
    if difference == 0:
        return _law_of_real(real, generated, at)
    mean = _mean_law((at - generated) / difference - SHIFT, -generated / difference)
    return mean if difference > 0 else 1 - mean


def _mean_law(start: float, slope: float) -> float:
    """The mean of the normal's law at start + slope u."""
    low, high = float(ADDED_LOW), float(ADDED_HIGH)
    if abs(slope) < _SMALLEST_SLOPE:
        return _NORMAL.cdf(start + slope * (low + high) / 2)
    rise = _integral(start + slope * high) - _integral(start + slope * low)
    return min(1.0, max(0.0, rise / (slope * (high - low))))


def _integral(x: float) -> float:
    """The integral of the normal's law up to x."""
    return x * _NORMAL.cdf(x) + math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
