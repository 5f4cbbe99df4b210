"""Randomised response: each respondent sends the true category with one probability and each other with a smaller one."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from broker_common.language import phrase
from policy_lab.arrays import Codes, Reals
from policy_lab.mechanisms.limits import checked_epsilon, refused


@dataclass(frozen=True, slots=True)
class RandomisedResponse:
    """The true one of `categories` is kept with probability e**epsilon / (e**epsilon + categories - 1).

    Categories are numbered from 0. Its promise is about one respondent's value, whatever anybody else sends.
    """

    categories: int
    epsilon: float

    def __post_init__(self) -> None:
        checked_epsilon(self.epsilon)
        if self.categories < 1:
            raise refused(
                "categories", phrase("must be at least 1"), phrase("Name every value that a respondent may have.")
            )

    @property
    def real_epsilon(self) -> float:
        """The epsilon that holds: 0 if there is one category only, since all messages are then alike."""
        return self.epsilon if self.categories > 1 else 0.0

    @property
    def keep(self) -> float:
        """The probability of the true category."""
        return 1 / (1 + (self.categories - 1) * math.exp(-self.epsilon))

    @property
    def other(self) -> float:
        """The probability of each category that is not the true one."""
        return self.keep * math.exp(-self.epsilon) if self.categories > 1 else 0.0

    @property
    def _edge(self) -> float:
        """The difference of `keep` and `other`, to the last digit."""
        return -math.expm1(-self.epsilon) * self.keep if self.categories > 1 else 1.0

    def law(self, code: int) -> Reals:
        """The probability of each message, for a respondent of this category."""
        _verify_codes(np.asarray([code]), self.categories)
        law = np.full(self.categories, self.other)
        law[code] = self.keep
        return law

    def apply(self, codes: Codes, random: np.random.Generator) -> Codes:
        """The message of each respondent."""
        _verify_codes(codes, self.categories)
        if self.categories == 1:
            return codes.copy()
        is_kept = random.random(codes.shape) < self.keep
        steps = random.integers(1, self.categories, codes.shape)
        return np.where(is_kept, codes, (codes + steps) % self.categories)

    def estimate(self, reported: ArrayLike) -> Reals:
        """Unbiased (weighted) totals by category, from the (weighted) totals of messages; they may be negative.

        The last axis is the categories. From totals of squared weights it gives unbiased totals of squared weights.
        """
        totals = self._by_category(reported)
        estimates: Reals = (totals - totals.sum(-1, keepdims=True) * self.other) / self._edge
        return estimates

    def standard_error(self, squares: ArrayLike) -> Reals:
        """The exact standard error of `estimate`, from the true totals of squared weights by category (without weights: counts).

        The weights are taken as fixed: the error is that of the noise alone.
        """
        true = self._by_category(squares)
        others = true.sum(-1, keepdims=True) - true
        variance = true * self.keep * (1 - self.keep) + others * self.other * (1 - self.other)
        errors: Reals = np.sqrt(np.maximum(variance, 0.0)) / self._edge
        return errors

    def _by_category(self, totals: ArrayLike) -> Reals:
        values = np.asarray(totals, np.float64)
        if values.ndim == 0 or values.shape[-1] != self.categories:
            raise ValueError("there is one total for each category")
        return values


def real_epsilon(keep: float, categories: int) -> float:
    """The epsilon of keeping a category with this probability and else sending any other, all alike.

    Infinite if something is never sent. For keep = e**e / (1 + e**e), as published, it is e + ln(categories - 1).
    """
    if not 0 <= keep <= 1 or categories < 1:
        raise ValueError("a probability lies between 0 and 1, and there is a category")
    if categories == 1:
        return 0.0
    if keep in {0.0, 1.0}:
        return math.inf
    return abs(math.log(keep) - math.log1p(-keep) + math.log(categories - 1))


def _verify_codes(codes: NDArray[np.int64], categories: int) -> None:
    if codes.size and (codes.min() < 0 or codes.max() >= categories):
        raise refused(
            "data",
            phrase("hold a category that was not declared"),
            phrase("Name every value that a respondent may have, also those for 'not stated'."),
        )
