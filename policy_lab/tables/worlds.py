"""Two neighbouring files, told apart by their noisy answers: what that shows epsilon to be at least.

A holder of an answer who knows both files compares how likely it is under either. The logarithm of that ratio is all that the
answer tells, so the distinguisher is given nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from policy_lab.mechanisms.distinguisher import FromBelow, epsilon_from_below
from policy_lab.tables.plan import Noisy, moving_cells

# Ratios that are equal but for rounding are one value to the distinguisher.
_DECIMALS = 9
# A ratio's logarithm where one file is impossible.
_CERTAIN = 1e9


def moved(noisy: Sequence[Noisy], samples: int, random: np.random.Generator) -> FromBelow:
    """A row moves between the two cells that tell most: it leaves one, and one as large as any enters the other."""
    pair = moving_cells(noisy)
    steps = [
        (float(each.change.across[cell]) * sign, float(each.scales[cell]))
        for each in noisy
        for cell, sign in zip(pair, (-1, 1), strict=False)
    ]
    return _told_apart(steps, samples, random)


def alone(noisy: Noisy, cell: int, samples: int, random: np.random.Generator) -> FromBelow:
    """Only this cell is published, and its largest row is there or is not."""
    return _told_apart([(float(noisy.change.alone[cell]), float(noisy.scales[cell]))], samples, random)


def stayed(noisy: Sequence[Noisy], samples: int, random: np.random.Generator) -> FromBelow:
    """A row changes its value, not its cell, where that tells most."""
    # A cell without noise has no change that this may be measured by.
    losses = [
        sum((float(each.change.within[cell] / each.scales[cell]) for each in noisy if each.scales[cell]), 0.0)
        for cell in range(len(noisy[0].scales))
    ]
    cell = int(np.argmax(losses))
    return _told_apart([(float(each.change.within[cell]), float(each.scales[cell])) for each in noisy], samples, random)


def _told_apart(steps: Sequence[tuple[float, float]], samples: int, random: np.random.Generator) -> FromBelow:
    here, there = (_ratios(steps, samples, random, is_moved=is_moved) for is_moved in (False, True))
    return epsilon_from_below(here, there)


def _ratios(
    steps: Sequence[tuple[float, float]], samples: int, random: np.random.Generator, *, is_moved: bool
) -> NDArray[np.float64]:
    ratios = np.zeros(samples)
    for step, scale in steps:
        if scale == 0:
            # Without noise both files are recognised, unless they agree.
            ratios += _CERTAIN if step and is_moved else 0.0
            continue
        noise = random.laplace(step if is_moved else 0.0, scale, samples)
        ratios += (np.abs(noise) - np.abs(noise - step)) / scale
    return np.round(ratios, _DECIMALS)
