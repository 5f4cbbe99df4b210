"""No mechanism's epsilon, measured from below on neighbouring worlds, exceeds what is printed; broken mechanisms are caught.

Error rate: each measurement of a correct mechanism exceeds its epsilon with probability 1e-9 at most (`ERROR_RATE`), and there are
fewer than 100. Seeds are fixed. A measurement must also come near what is printed, so that one that finds nothing is no proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from policy_lab.mechanisms.bounded import KINDS, BoundedLaplace, Kind
from policy_lab.mechanisms.central import Laplace, NoisyMean, contributions, sensitivity
from policy_lab.mechanisms.composition import Spent, sequential
from policy_lab.mechanisms.distinguisher import epsilon_from_below
from policy_lab.mechanisms.neighbours import Neighbours
from policy_lab.mechanisms.randomised_response import RandomisedResponse
from policy_lab.mechanisms.shuffling import promise, shuffle

pytestmark = pytest.mark.statistical

DRAWS = 400_000
NEAR = 0.15

Samples = NDArray[np.float64]


def published_response(
    codes: NDArray[np.int64], categories: int, epsilon: float, random: np.random.Generator
) -> NDArray[np.int64]:
    """The broken one: kept with e**eps / (1 + e**eps), whatever the number of categories."""
    is_kept = random.random(codes.shape) < math.exp(epsilon) / (1 + math.exp(epsilon))
    return np.where(is_kept, codes, (codes + random.integers(1, categories, codes.shape)) % categories)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("categories", [2, 4, 11])
def test_randomised_response_spends_what_is_printed(categories: int, epsilon: float) -> None:
    """Two respondents of different categories are told apart that well, and no better."""
    response, random = RandomisedResponse(categories, epsilon), np.random.default_rng(21)
    found = epsilon_from_below(*(response.apply(np.full(DRAWS, code), random) for code in (0, 1)))
    assert found.epsilon <= response.real_epsilon
    assert found.epsilon >= response.real_epsilon * (1 - NEAR) - 0.05


@pytest.mark.parametrize("categories", [4, 11])
def test_keeping_a_category_as_published_is_caught(categories: int) -> None:
    """Printed 1.0; found above it, and at most 1 + ln(k - 1), which it really is."""
    random = np.random.default_rng(22)
    found = epsilon_from_below(*(published_response(np.full(DRAWS, code), categories, 1.0, random) for code in (0, 1)))
    assert 1.0 < found.epsilon <= 1.0 + math.log(categories - 1)
    assert found.epsilon > 0.9 * (1.0 + math.log(categories - 1))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", [1.0, 3.0, 6.0])
def test_bounded_numbers_spend_what_is_printed(kind: Kind, epsilon: float) -> None:
    """The two values that are hardest to hide: both bounds, or on a circle opposite points."""
    mechanism, random = BoundedLaplace(1.2, 2.1, epsilon, kind), np.random.default_rng(23)
    pair = (1.2, 1.65) if kind.startswith("wrapped") else (1.2, 2.1)
    found = epsilon_from_below(*(mechanism.apply(np.full(2 * DRAWS, value), random) for value in pair))
    assert found.epsilon <= mechanism.real_epsilon
    # The largest ratio may be reached at one point only; stretches around it show less.
    assert found.epsilon >= mechanism.real_epsilon * (1 - 2 * NEAR) - 0.05


def test_truncating_with_too_little_noise_is_caught() -> None:
    """Noise for half of the range, as if two respondents never differed by more: the printed epsilon does not hold."""
    random = np.random.default_rng(24)
    found = epsilon_from_below(
        *(BoundedLaplace(0, 1, 2.0, "truncated").apply(np.full(DRAWS, value), random) for value in (0, 1))
    )
    assert found.epsilon > 1.0


def weighted_count(weights: Samples, noise: Laplace, random: np.random.Generator) -> Samples:
    """Many noisy answers to one weighted count."""
    return noise.apply(np.full(DRAWS, contributions(weights, weight_cap=5, multiplier=2).sum()), random)


def test_a_weighted_count_spends_what_is_printed_and_sensitivity_1_is_caught() -> None:
    """A respondent of the largest weight comes or goes; as published, with sensitivity 1, that is ten times epsilon."""
    others, random = np.asarray([1.0, 2.0, 4.0]), np.random.default_rng(25)
    worlds = others, np.append(others, 700.0)
    moved = sensitivity("count", neighbours=Neighbours.ADDED, weight_cap=5, multiplier=2)
    found = epsilon_from_below(*(weighted_count(world, Laplace(moved, 1.0), random) for world in worlds))
    assert 1 - NEAR < found.epsilon <= 1.0
    broken = epsilon_from_below(*(weighted_count(world, Laplace(1, 1.0), random) for world in worlds))
    assert broken.epsilon > 5


@pytest.mark.parametrize("total", [1, 20])
def test_a_mean_with_noise_in_both_parts_spends_no_more_than_is_printed(total: int) -> None:
    """A row of the largest contribution moves from one bound to the other, or is added, among few and among more."""
    random = np.random.default_rng(26)
    for neighbours, before, after in (
        (Neighbours.REPLACED_WITHIN, (0.0, total), (1.0 / total, total)),
        (Neighbours.ADDED, (0.0, total), (1.0 / (total + 1), total + 1)),
    ):
        mean = NoisyMean((0, 1), 1.0, neighbours)
        worlds = (mean.apply(np.full(DRAWS, value), np.full(DRAWS, size), random) for value, size in (before, after))
        found = epsilon_from_below(*worlds)
        assert 0 < found.epsilon <= 1.0


def test_columns_of_one_respondent_add_up() -> None:
    """Three columns of 0.5 each are told apart like one of 1.5: more than one column's epsilon is found, no more than the sum."""
    response, random = RandomisedResponse(2, 0.5), np.random.default_rng(27)
    spent = sequential("columns", [Spent("column", 0.5, Neighbours.REPLACED_WITHIN)] * 3)
    place = np.asarray([1, 2, 4])
    found = epsilon_from_below(*(response.apply(np.full((DRAWS, 3), code), random) @ place for code in (0, 1)))
    assert 0.5 < found.epsilon <= spent.epsilon
    assert found.epsilon > (1 - NEAR) * spent.epsilon


MESSAGES, LOCAL, DELTA = 1000, 1.0, 1e-3


def shuffled_worlds(order: Callable[[NDArray[np.int64], np.random.Generator], NDArray[np.int64]]) -> list[Samples]:
    """The view of 1,000 messages, many times: how many ones there are, and what the first message is."""
    response, random = RandomisedResponse(2, LOCAL), np.random.default_rng(28)
    worlds = []
    for bit in (0, 1):
        seen = []
        truth = np.zeros(MESSAGES, np.int64)
        truth[0] = bit
        for _ in range(20_000):
            messages = order(response.apply(truth, random), random)
            seen.append(2 * messages.sum() + messages[0])
        worlds.append(np.asarray(seen, np.float64))
    return worlds


def test_shuffled_messages_keep_their_promise_and_a_shuffle_that_does_nothing_is_caught() -> None:
    """With the same events and the same delta: below the theorem's epsilon if shuffled, above it if not."""
    printed = promise(LOCAL, MESSAGES, DELTA)
    assert printed.is_amplified
    shuffled = epsilon_from_below(*shuffled_worlds(shuffle), delta=printed.delta)
    assert shuffled.epsilon <= printed.epsilon
    unshuffled = epsilon_from_below(*shuffled_worlds(lambda messages, _: messages), delta=printed.delta)
    assert printed.epsilon < unshuffled.epsilon <= LOCAL
