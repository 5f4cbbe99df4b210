"""How far the share that a table shows is from the true one: the exact law of the noise, carried over to the share.

For a group with as many people in each cell as the answer says. The law of two cells is that of `table_laplace`; it is added up over
noise of up to forty scales in each, beyond which less than e**-35 of it lies. Floats: the result is shown, not accounted with.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

# How far noise is added up, in scales.
_REACH = 40


@dataclass(frozen=True, slots=True)
class ShareErrors:
    """The law of |shown share - true share|."""

    share: float
    # Ascending, each with the probability that the error is no larger.
    sizes: npt.NDArray[np.float64]
    cumulated: npt.NDArray[np.float64]

    def within(self, probability: float) -> float:
        """The smallest error that is not passed with this probability."""
        return float(self.sizes[np.searchsorted(self.cumulated, probability)])

    def beyond(self, size: float) -> float:
        """The probability of a larger error than this."""
        at = int(np.searchsorted(self.sizes, size, side="right"))
        return float(1 - self.cumulated[at - 1]) if at else 1.0


def share_errors(scale: int, part: int, rest: int) -> ShareErrors:
    """The errors of the share of `part` in `part + rest`, when both are answered together at this scale."""
    part, rest = max(0, part), max(0, rest)
    noise = np.arange(-_REACH * scale, _REACH * scale + 1, dtype=np.float64)
    first, second = noise[:, None], noise[None, :]
    reached = np.maximum(np.maximum(first, 0) + np.maximum(second, 0), np.maximum(-first, 0) + np.maximum(-second, 0))
    weight = np.exp(-reached / scale)
    true = _share(np.float64(part), np.float64(part + rest))
    errors = np.abs(_share(part + first, part + rest + first + second) - true).ravel()
    order = np.argsort(errors)
    return ShareErrors(float(true), errors[order], np.cumsum(weight.ravel()[order]) / weight.sum())


def _share(
    part: npt.NDArray[np.float64] | np.float64, whole: npt.NDArray[np.float64] | np.float64
) -> npt.NDArray[np.float64]:
    """Between 0 and 1, as it is shown; of nobody 0."""
    return np.clip(
        np.divide(part, whole, out=np.zeros(np.broadcast(part, whole).shape), where=np.asarray(whole > 0)), 0, 1
    )
