"""The keyed bijection: one to one, undone by its inverse, and without visible order."""

from __future__ import annotations

import numpy as np
import pytest

from deploy.synthetic.dice import Stream
from deploy.synthetic.permutation import LARGEST_SIZE, Permutation

ORDER_FALSE_ALARM_SIGMAS = 6.0  # about 2 in 10^9 for a fair shuffle


@pytest.mark.parametrize("size", [1, 2, 3, 17, 256, 1000, 65_537])
def test_it_is_a_bijection_with_an_inverse(size: int) -> None:
    """Every element is hit exactly once, and `backward` undoes `forward`."""
    permutation = Permutation(size, 5, Stream.HEALTH_ORDER)
    everything = np.arange(size)
    image = permutation.forward(everything)
    assert np.array_equal(np.sort(image), everything)
    assert np.array_equal(permutation.backward(image), everything)


def test_it_works_on_sizes_too_large_for_a_table() -> None:
    """On the largest size a few elements go to distinct places in range and come back."""
    permutation = Permutation(LARGEST_SIZE, 5, Stream.HEALTH_ORDER)
    some = np.linspace(0, LARGEST_SIZE - 1, 1001).astype(np.int64).clip(0, LARGEST_SIZE - 1)
    image = permutation.forward(some)
    assert len(np.unique(image)) == len(some)
    assert image.min() >= 0
    assert image.max() < LARGEST_SIZE
    assert np.array_equal(permutation.backward(image), some)


def test_seed_and_stream_change_the_order() -> None:
    """Other seeds and other streams give other orders."""
    everything = np.arange(1000)
    base = Permutation(1000, 5, Stream.HEALTH_ORDER).forward(everything)
    for other in (Permutation(1000, 6, Stream.HEALTH_ORDER), Permutation(1000, 5, Stream.CARD_NUMBER)):
        assert not np.array_equal(base, other.forward(everything))


def test_the_order_is_unrelated_to_the_natural_one() -> None:
    """Place and image, and neighbours' images, are uncorrelated."""
    size = 50_000
    image = Permutation(size, 5, Stream.HEALTH_ORDER).forward(np.arange(size))
    limit = ORDER_FALSE_ALARM_SIGMAS / np.sqrt(size)
    assert abs(np.corrcoef(np.arange(size), image)[0, 1]) < limit
    assert abs(np.corrcoef(image[:-1], image[1:])[0, 1]) < limit


@pytest.mark.parametrize("size", [0, -1, LARGEST_SIZE + 1])
def test_an_impossible_size_is_refused(size: int) -> None:
    """Sizes outside the documented range raise at once."""
    with pytest.raises(ValueError, match="a permutation needs"):
        Permutation(size, 5, Stream.HEALTH_ORDER)
