"""The linkage attack: who is found again by unchanged columns, and by true answers on top of them."""

from __future__ import annotations

import numpy as np
import pytest

from policy_lab.measures.linkage import Known, category_law, groups_of, laplace_law, reidentified

EVERYBODY = np.arange(6)
# Three groups: one person alone, two people, three people.
PROVINCE = np.array(["PE", "ON", "ON", "QC", "QC", "QC"])
SEX = np.array([1, 1, 1, 2, 2, 2])
GROUPS = groups_of([PROVINCE, SEX])


def test_rows_that_agree_are_one_group() -> None:
    """In every column, whatever the values are."""
    assert [sorted(np.flatnonzero(group == GROUPS).tolist()) for group in np.unique(GROUPS)] == [[1, 2], [0], [3, 4, 5]]
    assert len(np.unique(groups_of([PROVINCE, np.array([1, 1, 2, 1, 1, 2])]))) == 5


def test_without_answers_the_attacker_guesses_among_the_group() -> None:
    """One of one, one of two, one of three."""
    found = reidentified(GROUPS, EVERYBODY)
    assert (found.people, found.by_answers) == (6, None)
    assert found.alone == pytest.approx(1 / 6)
    assert found.by_unchanged == pytest.approx((1 + 2 / 2 + 3 / 3) / 6)


def test_answers_sent_as_they_are_give_everybody_away() -> None:
    """Nobody in a group has the answer of another."""
    answers = np.array([0, 0, 1, 0, 1, 2])
    exact = Known(answers, answers, category_law(np.eye(3)))
    assert reidentified(GROUPS, EVERYBODY, [exact]).by_answers == 1


def test_answers_that_say_nothing_leave_the_guess() -> None:
    """Every report is equally likely from everybody."""
    answers = np.array([0, 0, 1, 0, 1, 2])
    nothing = Known(answers, np.zeros(6, np.int64), category_law(np.full((3, 3), 1 / 3)))
    found = reidentified(GROUPS, EVERYBODY, [nothing])
    assert found.by_answers == pytest.approx(found.by_unchanged)


def test_randomised_response_is_as_telling_as_its_law() -> None:
    """Two people with different answers, one group: by enumeration, the likelier match is right with keep^2 and half of the ties."""
    keep, pairs = 0.8, 20_000
    random = np.random.default_rng(5)
    truth = np.tile([0, 1], pairs)
    reported = np.where(random.random(2 * pairs) < keep, truth, 1 - truth)
    law = category_law(np.array([[keep, 1 - keep], [1 - keep, keep]]))
    groups = np.repeat(np.arange(pairs), 2)
    found = reidentified(groups, np.arange(0, 2 * pairs, 2), [Known(truth, reported, law)])
    # One person's report is right and the other's wrong or right: 1 if only (0, 1) was sent, 1/2 if both sent the same.
    expected = keep**2 + (2 * keep * (1 - keep)) / 2
    assert abs((found.by_answers or 0) - expected) < 6 * 0.5 / np.sqrt(pairs)


def test_the_nearest_number_is_the_likeliest() -> None:
    """Computed by hand, with noise that is written down here."""
    truth = np.array([1.0, 5.0, 2.0, 1.0, 2.0, 3.0])
    reported = np.array([1.0, 5.2, 2.1, 2.9, 1.8, 1.2])
    found = reidentified(GROUPS, EVERYBODY, [Known(truth, reported, laplace_law(1.0))])
    # The first and the last of three sent what is nearer to the other's height; the middle one is found.
    assert found.by_answers == pytest.approx(4 / 6)


def test_columns_add_up() -> None:
    """Two columns find whom one of them leaves in doubt."""
    answers = np.array([0, 0, 0, 0, 0, 1])
    sizes = np.array([0.0, 1.0, 9.0, 1.0, 9.0, 9.0])
    both = [Known(answers, answers, category_law(np.eye(2))), Known(sizes, sizes, laplace_law(0.1))]
    assert reidentified(GROUPS, EVERYBODY, both).by_answers == 1
    assert reidentified(GROUPS, EVERYBODY, both[:1]).by_answers == pytest.approx((1 + 1 + 2) / 6)
