"""Expected answers of the published methods and their scatter, in closed form: no run is needed.

Answers are sums over many respondents, so that the error of one run is taken as normal about the shift.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from policy_lab.arrays import Reals
from policy_lab.survey import pipeline


@dataclass(frozen=True, slots=True)
class Error:
    """The error of one answer: where its mean lies, its standard deviation in one run, and its mean absolute value."""

    shift: float
    deviation: float
    absolute: float

    @property
    def absolute_deviation(self) -> float:
        """The standard deviation of the absolute error in one run."""
        return math.sqrt(max(0.0, self.shift**2 + self.deviation**2 - self.absolute**2))


def local_count(of: Reals, others: Reals, categories: int, epsilon: float) -> Error:
    """`of` are the weights of those who have the category, `others` the weights of those who do not."""
    keep = pipeline.keep_probability(epsilon)
    arrive = (1 - keep) / (categories - 1)
    return _replaced_count(of, others, keep, arrive)


def shuffled_count(of: Reals, others: Reals, categories: int, keep: float) -> Error:
    """A category that is not the last one."""
    arrive = (1 - keep) / (categories - 1)
    return _replaced_count(of, others, keep + arrive, arrive)


def local_mean(values: Reals, weights: Reals, width: float, epsilon: float) -> Error:
    """Folding adds scale * exp(-value / scale) to every value: E|v + noise| for a positive v."""
    scale = width / epsilon
    folded = scale * np.exp(-values / scale)
    means = values + folded
    squares = values**2 + 2 * scale**2
    return _mean(folded, squares - means**2, weights)


def shuffled_mean(values: Reals, weights: Reals, top: float, keep: float) -> Error:
    """A uniform value replaces nearly every value, so that the answer is its mean."""
    middle, spread = (1 + top) / 2, (top - 1) ** 2 / 12
    shifts = (1 - keep) * (middle - values)
    variances = keep * values**2 + (1 - keep) * (middle**2 + spread) - (values + shifts) ** 2
    return _mean(shifts, variances, weights)


def global_error(sensitivity: float, epsilon: float) -> Error:
    """Laplace noise."""
    scale = sensitivity / epsilon
    return Error(0.0, math.sqrt(2) * scale, scale)


def _replaced_count(of: Reals, others: Reals, stay: float, arrive: float) -> Error:
    shift = arrive * float(others.sum()) - (1 - stay) * float(of.sum())
    variance = stay * (1 - stay) * float((of**2).sum()) + arrive * (1 - arrive) * float((others**2).sum())
    return _normal(shift, math.sqrt(variance))


def _mean(shifts: Reals, variances: Reals, weights: Reals) -> Error:
    shares = weights / weights.sum()
    return _normal(float(shares @ shifts), math.sqrt(float(shares**2 @ variances)))


def _normal(shift: float, deviation: float) -> Error:
    """The mean absolute value of a normal variable."""
    if deviation == 0:
        return Error(shift, 0.0, abs(shift))
    ratio = shift / deviation
    absolute = deviation * math.sqrt(2 / math.pi) * math.exp(-(ratio**2) / 2) + shift * math.erf(ratio / math.sqrt(2))
    return Error(shift, deviation, absolute)
