"""How often a table's share misleads: the law of the noise, carried over to the share."""

from __future__ import annotations

import pytest

from broker_common.privacy.table_laplace import probability
from deploy.share_errors import share_errors


@pytest.fixture(scope="module")
def chances() -> dict[tuple[int, int], float]:
    """The probability of every two noises that count, at scale 1."""
    reach = range(-25, 26)
    return {(first, second): float(probability(1, (first, second))) for first in reach for second in reach}


@pytest.mark.parametrize(("part", "rest"), [(3, 9), (0, 5), (2, 0)])
def test_it_is_the_law_of_the_table_added_up_noise_by_noise(
    part: int, rest: int, chances: dict[tuple[int, int], float]
) -> None:
    """At scale 1, against the exact probabilities."""
    found = share_errors(1, part, rest)
    true = part / (part + rest)
    for size in (0.05, 0.2, 0.5):
        beyond = 0.0
        for (first, second), chance in chances.items():
            whole = part + rest + first + second
            shown = min(max((part + first) / whole, 0.0), 1.0) if whole > 0 else 0.0
            if abs(shown - true) > size:
                beyond += chance
        assert found.beyond(size) == pytest.approx(beyond, abs=1e-9)


def test_what_is_within_leaves_the_rest_beyond() -> None:
    """The smallest such error: a little less of it is passed more often."""
    found = share_errors(10, 200, 3500)
    assert found.share == 200 / 3700
    assert found.beyond(found.within(0.95)) <= 0.05 < found.beyond(found.within(0.95) * 0.99)


def test_a_negative_count_is_a_group_of_nobody() -> None:
    """The share of a group that may be empty misleads often."""
    assert share_errors(10, -30, -5).beyond(0.02) > 0.3
