"""Shuffling: the theorem's range and bound, against the exact promise of binary randomised response."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from broker_common.errors import InvalidRequestError
from policy_lab.mechanisms.randomised_response import RandomisedResponse
from policy_lab.mechanisms.shuffling import Promise, Why, amplified, largest_local_epsilon, promise, shuffle

DELTA = 1e-6
ROUNDING = 1e-15


def law_of_ones(truth: NDArray[np.int64], epsilon: float) -> NDArray[np.float64]:
    """After shuffling only the number of ones is left: its law, exactly, for respondents with these true bits."""
    keep = RandomisedResponse(2, epsilon).keep
    ones, zeros = int(truth.sum()), int(len(truth) - truth.sum())
    kept = binom.pmf(np.arange(ones + 1), ones, keep)
    flipped = binom.pmf(np.arange(zeros + 1), zeros, 1 - keep)
    return np.convolve(kept, flipped)


def exact_delta(messages: int, local: float, epsilon: float) -> float:
    """The delta that shuffled binary randomised response really has at `epsilon`; others' bits as bad as any of three."""
    worst = 0.0
    for ones in (0, messages // 2, messages - 1):
        others = np.asarray([1] * ones + [0] * (messages - 1 - ones))
        one, other = (law_of_ones(np.append(others, bit), local) for bit in (0, 1))
        for likely, unlikely in ((one, other), (other, one)):
            worst = max(worst, float(np.maximum(likely - math.exp(epsilon) * unlikely, 0).sum()))
    return worst


@pytest.mark.parametrize("messages", [1000, 5000, 20_000])
@pytest.mark.parametrize("local", [0.1, 0.5, 1.0, 2.0])
def test_the_bound_holds_of_what_can_be_computed_exactly(messages: int, local: float) -> None:
    """Shuffled binary randomised response: at the printed epsilon its delta is no larger than printed."""
    printed = promise(local, messages, DELTA)
    assert exact_delta(messages, local, printed.epsilon) <= printed.delta + ROUNDING
    if printed.is_amplified:
        # The comparison can fail: a tenth of what is printed would not hold.
        assert exact_delta(messages, local, printed.epsilon / 10) > DELTA


def test_the_bound_is_that_of_the_theorem() -> None:
    """Written a second time, in the theorem's own form; and below its corollary, whose two terms are one."""
    for local, messages, delta in ((0.6, 1000, 1e-6), (1.0, 113_290, 1e-8), (5.99, 113_290, 1e-5), (0.0, 10_000, 1e-6)):
        odds = math.exp(local)
        hidden = 8 * math.sqrt(odds * math.log(4 / delta)) / math.sqrt(messages) + 8 * odds / messages
        stated = math.log(1 + (odds - 1) / (odds + 1) * hidden)
        found = amplified(local, messages, delta)
        assert found == pytest.approx(stated, rel=1e-12, abs=1e-15)
        root = math.sqrt(odds * math.log(4 / delta) / messages)
        assert stated <= math.log(1 + 16 * (odds - 1) / (odds + 1) * root)


def test_outside_its_range_the_theorem_says_nothing() -> None:
    """Up to ln(n / (16 ln(2/delta))) and no further; the local epsilon is printed then, without a delta."""
    edge = largest_local_epsilon(10_000, DELTA)
    assert edge == pytest.approx(math.log(10_000 / (16 * math.log(2 / DELTA))))
    assert amplified(edge, 10_000, DELTA) is not None
    assert amplified(math.nextafter(edge, 99), 10_000, DELTA) is None
    assert promise(edge + 0.01, 10_000, DELTA) == Promise(edge + 0.01, 0.0, Why.OUT_OF_RANGE, 10_000)
    assert promise(1e308, 10_000, DELTA).why is Why.OUT_OF_RANGE
    assert promise(math.inf, 10_000, DELTA).why is Why.OUT_OF_RANGE
    assert promise(0.1, 200, DELTA).why is Why.OUT_OF_RANGE


def test_an_id_that_travels_along_leaves_nobody_to_hide_among() -> None:
    """One message with the same unshuffled columns is the respondent's own."""
    assert promise(1.0, 1, DELTA) == Promise(1.0, 0.0, Why.ALONE, 1)


def test_where_the_theorem_gives_more_the_local_epsilon_is_printed() -> None:
    """Both hold; the smaller one is said, without a delta."""
    theorem = amplified(0.001, 233, DELTA)
    assert theorem is not None
    assert theorem > 0.001
    assert promise(0.001, 233, DELTA) == Promise(0.001, 0.0, Why.NO_GAIN, 233)
    assert promise(1.0, 113_290, DELTA).epsilon < 0.07


def test_more_messages_hide_better_and_never_promise_more_than_the_message_did() -> None:
    """Epsilon falls with the number of messages, and is never above the local one."""
    found = [promise(1.0, messages, DELTA).epsilon for messages in (1, 10, 100, 1000, 10_000, 100_000, 10**9)]
    assert found == sorted(found, reverse=True)
    assert found[0] == 1.0


@pytest.mark.parametrize(
    ("messages", "delta", "has_caution"), [(10**6, 1e-6, True), (10**6, 1e-5, True), (10**5, 1e-6, False)]
)
def test_a_delta_that_allows_publishing_somebody_is_remarked_on(messages: int, delta: float, has_caution: bool) -> None:
    """With a delta of 1 in n, one of n respondents drawn at random could be published outright."""
    assert bool(promise(1.0, messages, delta).caution) is has_caution


@pytest.mark.parametrize("local", [-0.1, math.nan, -math.inf])
def test_a_negative_local_epsilon_is_refused(local: float) -> None:
    """So is none at all."""
    with pytest.raises(InvalidRequestError, match="at least 0"):
        amplified(local, 1000, DELTA)


def test_no_messages_and_no_delta_are_refused() -> None:
    """A delta is required: without one the theorem promises nothing."""
    with pytest.raises(InvalidRequestError, match="at least 1"):
        promise(1.0, 0, DELTA)
    for delta in (0.0, 1.0):
        with pytest.raises(InvalidRequestError, match="delta"):
            promise(1.0, 1000, delta)


def test_a_shuffle_is_a_permutation_of_whole_messages() -> None:
    """Nothing is lost, nothing is new, the columns of a message stay together, and the input stays as it is."""
    messages = np.column_stack([np.arange(1000), np.arange(1000) * 3])
    before = messages.copy()
    shuffled = shuffle(messages, np.random.default_rng(5))
    assert (messages == before).all()
    assert (shuffled[:, 1] == 3 * shuffled[:, 0]).all()
    assert sorted(shuffled[:, 0]) == list(range(1000))
    assert (shuffled != messages).any()
    assert shuffle(messages[:0], np.random.default_rng(5)).shape == (0, 2)
