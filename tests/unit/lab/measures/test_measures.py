"""How much two data sets differ: every measure against values by hand, a slow obvious way, or scipy's own."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from policy_lab.measures.baseline import permuted
from policy_lab.measures.columns import Column, codes_of
from policy_lab.measures.correlations import (
    association,
    correlation_ratio,
    cramers_v,
    spearman,
)
from policy_lab.measures.mixture import mixed, totals
from policy_lab.measures.shapes import ks_complement, shape, total_variation_complement

RANDOM = np.random.default_rng(20)
LETTERS = RANDOM.choice(list("abcd"), 400, p=[0.5, 0.3, 0.15, 0.05])
OTHERS = RANDOM.choice(list("bcde"), 300)
NUMBERS = np.round(RANDOM.normal(size=400), 1)
MORE_NUMBERS = np.round(RANDOM.normal(0.4, 2, size=300), 1)


def shares(values: np.ndarray) -> dict[str, Fraction]:
    """The share of each value, slowly."""
    return {value: Fraction(count, len(values)) for value, count in Counter(values.tolist()).items()}


def test_total_variation_by_hand() -> None:
    """Two thirds and one third, against one third and two thirds."""
    assert total_variation_complement(np.array(["x", "x", "y"]), np.array(["x", "y", "y"])) == pytest.approx(2 / 3)
    assert total_variation_complement(np.array(["x"]), np.array(["x"] * 7)) == 1
    assert total_variation_complement(np.array(["x"]), np.array(["y"])) == 0


def test_total_variation_is_that_of_the_shares() -> None:
    """As exact fractions have it."""
    one, other = shares(LETTERS), shares(OTHERS)
    slow = 1 - sum(abs(one.get(value, Fraction(0)) - other.get(value, Fraction(0))) for value in one | other) / 2
    assert total_variation_complement(LETTERS, OTHERS) == pytest.approx(float(slow), abs=1e-12)


def test_ks_by_hand_and_as_scipy_has_it() -> None:
    """With ties, too."""
    assert ks_complement(np.array([1.0, 2.0]), np.array([1.0, 3.0])) == pytest.approx(0.5)
    assert ks_complement(np.array([1.0, 2.0]), np.array([3.0, 4.0])) == 0
    found = ks_complement(NUMBERS, MORE_NUMBERS)
    assert found == pytest.approx(1 - stats.ks_2samp(NUMBERS, MORE_NUMBERS).statistic, abs=1e-12)


def test_the_shape_fits_the_kind() -> None:
    """Total variation for categories, Kolmogorov and Smirnov for numbers."""
    category = Column("letter", "category", LETTERS), Column("letter", "category", OTHERS)
    number = Column("size", "number", NUMBERS), Column("size", "number", MORE_NUMBERS)
    assert shape(*category) == total_variation_complement(LETTERS, OTHERS)
    assert shape(*number) == ks_complement(NUMBERS, MORE_NUMBERS)


def test_cramers_v_by_hand() -> None:
    """A table of 30, 10, 10, 30: chi-square is 20, V is its root over 80."""
    a = np.repeat(["x", "x", "y", "y"], [30, 10, 10, 30])
    b = np.repeat(["u", "v", "u", "v"], [30, 10, 10, 30])
    assert cramers_v(a, b) == pytest.approx(0.5)
    assert cramers_v(a, a) == pytest.approx(1)
    assert cramers_v(a, np.full(80, "u")) == 0


def test_spearman_is_of_ranks() -> None:
    """As scipy has it; what keeps the order changes nothing."""
    assert spearman(NUMBERS[:300], MORE_NUMBERS) == pytest.approx(
        stats.spearmanr(NUMBERS[:300], MORE_NUMBERS).statistic, abs=1e-12
    )
    assert spearman(NUMBERS, np.exp(NUMBERS)) == pytest.approx(1)
    assert spearman(NUMBERS, -(NUMBERS**3)) == pytest.approx(-1)
    assert spearman(NUMBERS, np.zeros(400)) == 0


def test_correlation_ratio_by_hand() -> None:
    """Ranks 1, 2 and 3, 4: means 1.5 and 3.5 about 2.5; 4 of 5 of the spread lies between."""
    assert correlation_ratio(np.array(["x", "x", "y", "y"]), np.array([1.0, 5.0, 6.0, 90.0])) == pytest.approx(0.8**0.5)
    assert correlation_ratio(np.array(["x", "y"]), np.array([1.0, 1.0])) == 0


def test_the_association_fits_the_kinds() -> None:
    """Ranks for numbers, V for categories, the correlation ratio for one of each, whichever comes first."""
    size, cube = Column("size", "number", NUMBERS), Column("cube", "number", NUMBERS**3)
    letter, group = Column("letter", "category", LETTERS), Column("group", "category", np.char.add(LETTERS, "!"))
    assert association(size, cube) == pytest.approx(1)
    assert association(letter, group) == pytest.approx(1)
    assert association(letter, size) == association(size, letter) == correlation_ratio(LETTERS, NUMBERS)


def test_permuted_columns_keep_their_values_and_lose_the_others() -> None:
    """Correlations of 20,000 independent pairs stay within 6 standard deviations; one in a billion does not."""
    values = np.arange(20_000.0)
    table = [Column("one", "number", values), Column("other", "number", values * 2)]
    baseline = permuted(table, np.random.default_rng(1))
    assert [sorted(column.values.tolist()) for column in baseline] == [values.tolist(), (values * 2).tolist()]
    assert abs(association(*baseline)) < 6 / np.sqrt(20_000)


def test_codes_agree_over_arrays() -> None:
    """In the order of the values."""
    one, other = codes_of(np.array(["b", "a"]), np.array(["c", "b"]))
    assert (one.tolist(), other.tolist()) == ([1, 0], [2, 1])


def test_a_mixture_takes_each_row_from_one_side() -> None:
    """The share is within 6 standard deviations."""
    plain, noisy = np.zeros(50_000, np.int64), np.ones(50_000, np.int64)
    mixture = mixed(plain, noisy, 0.3, np.random.default_rng(2))
    assert (mixture.values == np.where(mixture.is_plain, 0, 1)).all()
    assert abs(mixture.is_plain.mean() - 0.3) < 6 * np.sqrt(0.21 / 50_000)
    assert mixed(plain, noisy, 0, np.random.default_rng(2)).is_plain.sum() == 0


def test_totals_of_a_mixture_estimate_only_the_noisy_part() -> None:
    """Plain answers are counted as they are."""
    mixture = mixed(np.array([0, 1, 1]), np.array([1, 1, 1]), 1.0, np.random.default_rng(3))
    weights = np.array([1.0, 2.0, 4.0])
    assert totals(mixture, weights, 2, lambda reported: reported * 100).tolist() == [1, 6]
    noisy = mixed(np.array([0, 1, 1]), np.array([1, 1, 1]), 0.0, np.random.default_rng(3))
    assert totals(noisy, weights, 2, lambda reported: reported * 100).tolist() == [0, 700]
