"""The noise of two sums of cells, and how far any combination of the two may lie from 0.

An answer of d cells has noise P(z) = c q**g(z), q = e**(-1/scale), g(z) = max(sum of positive parts, sum of negative parts).
Now max(u, v) = (u + v + |u - v|)/2, so with p = sqrt(q)

    P(z) = c p**|z_1| ... p**|z_d| p**|z_1 + ... + z_d|

which is the law of d + 1 independent two-sided geometric values with base p, given that their sum is 0. With a_k, the k-fold
convolution of p**|x|, the sums S and R of two disjoint sets of cells (s_cells and r_cells of them) therefore have exactly

    P(S = x, R = y) = a_s(x) a_r(y) a_m(x + y) / a_(d+1)(0),   m = d + 1 - s_cells - r_cells.

`CriticalValues` turns that into the 95 % quantile of |cos(t) S - sin(t) R + sigma N|, N normal, for every angle t.

Accuracy. Up to scale 8 the law is summed over all integer points but 1e-6 of its mass, and quantiles are rounded up by at most
scale/48 (a step of the grid). Above 8 the law at scale 8 is stretched and its points are spread evenly over their squares: a
standard deviation is then off by less than 0.1 %, a probability near the quantile by less than 0.0005. Between two tabulated
angles the larger value counts, so coverage may be above 95 %, not below. tests/unit/researcher_node/estimates holds these.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
Integers = NDArray[np.int64]

CONFIDENCE = 0.95
LOST_MASS = 1e-6
MOST_EXACT_SCALE = 8
"""Above this the law is a stretched copy of the law here."""

_NORMAL_QUANTILE = 1.959963984540054
# Points of the lattice that a_k is computed on: its tails fall as e**(-|x| / (2 scale)), to e**-128 at the ends.
_LATTICE = 4096
_ANGLES = 128
_STEPS_PER_SCALE = 48
# How much of the variance is sampling; from the last on a normal quantile is right to four digits.
_SAMPLING_PARTS = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class PairLaw:
    """A symmetric law of two integers (s, r), times `stretch`; points that carry next to no mass are left out."""

    s: Reals
    r: Reals
    mass: Reals
    scale: float
    stretch: float

    @property
    def variances(self) -> tuple[float, float, float]:
        """Variances of s and of r, and their covariance."""
        square = self.stretch**2
        return (
            square * float(self.mass @ self.s**2),
            square * float(self.mass @ self.r**2),
            square * float(self.mass @ (self.s * self.r)),
        )


@functools.lru_cache(256)
def _convolved(scale: float, times: int) -> Reals:
    """a_k on the lattice, 0 first, negative numbers at the end. ln a_k falls slowly: no value is lost in the sum."""
    base = math.exp(-0.5 / scale)
    angle = 2 * np.pi * np.arange(_LATTICE) / _LATTICE
    once = (1 - base**2) / (1 - 2 * base * np.cos(angle) + base**2)
    convolved: Reals = np.maximum(np.fft.ifft(once**times).real, 0.0)
    return convolved


def _stretched(scale: int) -> tuple[float, float]:
    return (float(scale), 1.0) if scale <= MOST_EXACT_SCALE else (float(MOST_EXACT_SCALE), scale / MOST_EXACT_SCALE)


def _sum_law(scale: float, cells: int, summed: int) -> Reals:
    """The law of a sum of `summed` of an answer's cells, on the lattice."""
    mass = _convolved(scale, summed) * _convolved(scale, cells + 1 - summed)
    law: Reals = mass / mass.sum()
    return law


def _reach(law: Reals) -> int:
    """The largest absolute value that matters."""
    beyond = 2 * np.cumsum(law[1 : _LATTICE // 2][::-1])[::-1]
    return int(np.count_nonzero(beyond > LOST_MASS / 4))


def _thinned(x: Integers, y: Integers, mass: Reals, scale: float, stretch: float) -> PairLaw:
    """Without the points that together carry less than the mass that may be lost."""
    flat = np.sort(mass, axis=None)
    least = flat[np.searchsorted(np.cumsum(flat), LOST_MASS / 2)]
    kept = mass >= least
    s, r = (np.broadcast_to(axis, mass.shape)[kept].astype(np.float64) for axis in (x[:, None], y[None, :]))
    return PairLaw(s, r, mass[kept] / mass[kept].sum(), scale, stretch)


def _whole_numbers(reach: int) -> Integers:
    return np.arange(-reach, reach + 1)


@functools.lru_cache(64)
def one_table(scale: int, cells: int, s_cells: int, r_cells: int) -> PairLaw:
    """The noises of two disjoint sums of cells of one answer."""
    near, stretch = _stretched(scale)
    x = _whole_numbers(_reach(_sum_law(near, cells, s_cells)))
    y = _whole_numbers(_reach(_sum_law(near, cells, r_cells)))
    others = _convolved(near, cells + 1 - s_cells - r_cells)
    mass = _convolved(near, s_cells)[x][:, None] * _convolved(near, r_cells)[y][None, :] * others[x[:, None] + y]
    return _thinned(x, y, mass / mass.sum(), near, stretch)


@functools.lru_cache(64)
def two_tables(s_scale: int, s_table: int, s_cells: int, r_scale: int, r_table: int, r_cells: int) -> PairLaw:
    """The noises of a sum of cells of one answer and a sum of cells of another: independent."""
    near, stretch = _stretched(max(s_scale, r_scale))
    s_law = _sum_law(s_scale / stretch, s_table, s_cells)
    r_law = _sum_law(r_scale / stretch, r_table, r_cells)
    x, y = _whole_numbers(_reach(s_law)), _whole_numbers(_reach(r_law))
    return _thinned(x, y, s_law[x][:, None] * r_law[y][None, :], near, stretch)


class CriticalValues:
    """The 95 % quantile of |cos(t) S - sin(t) R + sigma N| for a law of (S, R), tabulated."""

    def __init__(self, law: PairLaw) -> None:
        self._variances = law.variances
        self._parts = np.array([*_SAMPLING_PARTS, 1.0])
        angles = np.pi * np.arange(_ANGLES) / _ANGLES
        rows = [[*_quantiles(law, float(angle), float(self.variance(angle))), _NORMAL_QUANTILE] for angle in angles]
        # The law is symmetric: after half a turn everything repeats.
        self._table = np.array([*rows, rows[0]])

    def variance(self, angle: Reals) -> Reals:
        """Variance of cos(t) S - sin(t) R."""
        s, r, both = self._variances
        cosine, sine = np.cos(angle), np.sin(angle)
        variance: Reals = s * cosine**2 + r * sine**2 - 2 * both * sine * cosine
        return variance

    def at(self, angle: Reals, sampling_variance: Reals) -> Reals:
        """The critical values for these angles."""
        noise = self.variance(angle)
        total = noise + sampling_variance
        part = sampling_variance / total
        column = np.clip(np.searchsorted(self._parts, part, side="right") - 1, 0, len(self._parts) - 2)
        weight = (part - self._parts[column]) / (self._parts[column + 1] - self._parts[column])
        row = np.minimum(np.floor(np.mod(angle, np.pi) / np.pi * _ANGLES + _ROUNDING), _ANGLES - 1).astype(np.int64)
        near = (1 - weight) * self._table[row, column] + weight * self._table[row, column + 1]
        far = (1 - weight) * self._table[row + 1, column] + weight * self._table[row + 1, column + 1]
        values: Reals = np.maximum(near, far) * np.sqrt(total) * (1 + _ROUNDING)
        return values


def _quantiles(law: PairLaw, angle: float, variance: float) -> list[float]:
    """For each part of sampling, the 95 % quantile in standard deviations of noise and sampling together."""
    step = law.scale / _STEPS_PER_SCALE
    cosine, sine = math.cos(angle), math.sin(angle)
    distance = np.abs(cosine * law.s - sine * law.r) / step
    is_exact = law.stretch == 1.0
    # Exact points are moved outwards, never inwards: a quantile that misses a point by a hair would lose its whole mass.
    places = (np.ceil(distance - _ROUNDING) if is_exact else np.rint(distance)).astype(np.int64)
    one_side = np.bincount(places, law.mass)
    deviation = math.sqrt(variance) / law.stretch / step
    widest = deviation / math.sqrt(1 - _SAMPLING_PARTS[-1])
    length = 2 ** math.ceil(math.log2(2 * (len(one_side) + 7 * widest)))
    line = np.zeros(length)
    line[: len(one_side)] += one_side / 2
    line[-np.arange(len(one_side))] += one_side / 2
    frequency = 2 * np.pi * np.fft.rfftfreq(length)
    spectrum = np.fft.rfft(line)
    if not is_exact:
        spectrum = (
            spectrum * np.sinc(cosine / step * np.fft.rfftfreq(length)) * np.sinc(sine / step * np.fft.rfftfreq(length))
        )
    parts = np.array(_SAMPLING_PARTS)[:, None]
    blurred = np.fft.irfft(spectrum * np.exp(-0.5 * (frequency * deviation) ** 2 * parts / (1 - parts)), length)
    folded = blurred[:, : length // 2].copy()
    folded[:, 1:] *= 2
    first = np.argmax(np.cumsum(folded, axis=1) >= CONFIDENCE - _ROUNDING, axis=1)
    quantiles: list[float] = (first / deviation * np.sqrt(1 - parts[:, 0])).tolist()
    return quantiles


@functools.lru_cache(64)
def critical_values(law_of: tuple[int, ...]) -> CriticalValues:
    """Those of `one_table` (four numbers) or of `two_tables` (six)."""
    return CriticalValues(one_table(*law_of) if len(law_of) == 4 else two_tables(*law_of))  # noqa: PLR2004 - one table's law has four parts
