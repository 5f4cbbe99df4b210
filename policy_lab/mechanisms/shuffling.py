"""A permutation of messages, and the promise that it adds to theirs.

Feldman, McMillan and Talwar, "Hiding Among the Clones" (arXiv 2012.12803), Theorem 3.1: n messages, each by one randomiser
with local epsilon e0 <= ln(n / (16 ln(2/delta))), are after a uniform permutation (epsilon, delta) private with

    epsilon = ln(1 + (e**e0 - 1)/(e**e0 + 1) * (8 sqrt(e**e0 ln(4/delta)) / sqrt(n) + 8 e**e0 / n))

for the replacement of one respondent's message. n counts messages that nothing else tells apart: those with identical
unshuffled columns, 1 if an id or a weight travels along. Columns of one respondent compose before they are shuffled.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from broker_common.language import phrase
from policy_lab.mechanisms.limits import checked_delta, refused

_Value = TypeVar("_Value", bound=np.generic)


class Why(Enum):
    """Which argument a promise rests on."""

    THEOREM = "theorem"
    ALONE = "alone"
    OUT_OF_RANGE = "out_of_range"
    NO_GAIN = "no_gain"

    @property
    def words(self) -> str:
        """The argument as a sentence for documents."""
        return _WORDS[self]


_WORDS = {
    Why.THEOREM: phrase("Theorem 3.1 of Feldman, McMillan and Talwar (arXiv 2012.12803)."),
    Why.ALONE: phrase(
        "No other message has the same unshuffled columns: shuffling hides nobody, and the local epsilon is what holds."
    ),
    Why.OUT_OF_RANGE: phrase(
        "Too few messages for this epsilon and delta: the theorem says nothing, and the local epsilon is what holds."
    ),
    Why.NO_GAIN: phrase("The theorem gives no less than the local epsilon, which holds in any case."),
}
_LARGE_DELTA = phrase(
    "Delta is not below 1 divided by the number of messages: publishing one message outright, drawn at random, would keep "
    "such a promise. Use a much smaller one."
)


@dataclass(frozen=True, slots=True)
class Promise:
    """The promise after shuffling: the theorem's pair, or the local epsilon with a delta of 0."""

    epsilon: float
    delta: float
    why: Why
    messages: int

    @property
    def is_amplified(self) -> bool:
        """Whether shuffling promises more than the messages did already."""
        return self.why is Why.THEOREM

    @property
    def caution(self) -> str:
        """A warning about this delta; empty if there is none."""
        return _LARGE_DELTA if self.delta * self.messages >= 1 else ""


def shuffle(values: NDArray[_Value], random: np.random.Generator) -> NDArray[_Value]:
    """The messages (rows) in a uniformly random order."""
    return values[random.permutation(len(values))]


def largest_local_epsilon(messages: int, delta: float) -> float:
    """Up to which local epsilon the theorem speaks; below 0 if it does for none."""
    checked_delta(delta)
    if messages < 1:
        raise refused("messages", phrase("must be at least 1"), phrase("Leave out strata that nobody is in."))
    return math.log(messages / (16 * math.log(2 / delta)))


def amplified(local_epsilon: float, messages: int, delta: float) -> float | None:
    """The theorem's epsilon; None outside its range. `promise` says what holds then."""
    if not local_epsilon >= 0:
        raise refused(
            "epsilon", phrase("must be at least 0"), phrase("Give the sum of the epsilons of a respondent's columns.")
        )
    # Compared first: the exponential of a larger one would overflow.
    if not local_epsilon <= largest_local_epsilon(messages, delta):
        return None
    odds = math.exp(local_epsilon)
    hidden = 8 * math.sqrt(odds * math.log(4 / delta) / messages) + 8 * odds / messages
    return math.log1p(math.tanh(local_epsilon / 2) * hidden)


def promise(local_epsilon: float, messages: int, delta: float) -> Promise:
    """The promise to a respondent whose columns spend `local_epsilon` before they are shuffled together."""
    epsilon = amplified(local_epsilon, messages, delta)
    if messages == 1:
        return Promise(local_epsilon, 0.0, Why.ALONE, messages)
    if epsilon is None:
        return Promise(local_epsilon, 0.0, Why.OUT_OF_RANGE, messages)
    if epsilon >= local_epsilon:
        return Promise(local_epsilon, 0.0, Why.NO_GAIN, messages)
    return Promise(epsilon, delta, Why.THEOREM, messages)
