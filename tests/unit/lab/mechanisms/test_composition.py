"""Epsilon that several answers spend on one respondent."""

from __future__ import annotations

import math

import pytest

from policy_lab.mechanisms.composition import Spent, parallel, sequential
from policy_lab.mechanisms.neighbours import Neighbours


def parts(neighbours: Neighbours) -> list[Spent]:
    """Three answers."""
    spent = ((0.5, 1e-6), (2.0, 0.0), (1.0, 1e-5))
    return [Spent(f"answer {epsilon}", epsilon, neighbours, delta) for epsilon, delta in spent]


@pytest.mark.parametrize("neighbours", Neighbours)
def test_answers_about_the_same_respondent_add_up(neighbours: Neighbours) -> None:
    """Epsilons and deltas both."""
    spent = sequential("all columns", parts(neighbours))
    assert spent.epsilon == 3.5
    assert spent.delta == pytest.approx(1.1e-5)
    assert spent.neighbours is neighbours


def test_disjoint_strata_spend_the_largest_part_of_who_stays_in_one() -> None:
    """A row that comes, goes, or is replaced within its stratum is in one answer only."""
    for neighbours in (Neighbours.ADDED, Neighbours.REPLACED_WITHIN, Neighbours.ANSWERS_REPLACED):
        spent = parallel("all strata", parts(neighbours))
        assert (spent.epsilon, spent.delta) == (2.0, 1e-5)


def test_a_row_that_may_change_stratum_is_in_two_answers() -> None:
    """It leaves one stratum and joins another: the two largest parts add up."""
    spent = parallel("all strata", parts(Neighbours.REPLACED))
    assert spent.epsilon == 3.0
    assert spent.delta == pytest.approx(1.1e-5)
    assert parallel("one stratum", parts(Neighbours.REPLACED)[:1]).epsilon == 0.5


def test_a_record_names_what_it_is_made_of() -> None:
    """Strata in parallel, within each the columns in sequence."""
    strata = [sequential(f"stratum {n}", parts(Neighbours.REPLACED_WITHIN)[n:]) for n in range(2)]
    survey = parallel("survey", strata)
    assert survey.epsilon == 3.5
    assert [(part.what, part.epsilon, len(part.parts)) for part in survey.parts] == [
        ("stratum 0", 3.5, 3),
        ("stratum 1", 3.0, 2),
    ]


def test_promises_about_different_neighbours_do_not_add_up() -> None:
    """An epsilon for rows added is not one for rows replaced."""
    mixed = [Spent("a", 1.0, Neighbours.ADDED), Spent("b", 1.0, Neighbours.REPLACED)]
    for compose in (sequential, parallel):
        with pytest.raises(ValueError, match="one neighbour relation"):
            compose("both", mixed)
        with pytest.raises(ValueError, match="one neighbour relation"):
            compose("nothing", [])


@pytest.mark.parametrize(("epsilon", "delta"), [(-1, 0), (math.nan, 0), (1, -0.1), (1, 1.1), (1, math.nan)])
def test_nothing_negative_is_spent(epsilon: float, delta: float) -> None:
    """Neither is something that is no number; a delta never passes 1."""
    with pytest.raises(ValueError, match="spent"):
        Spent("a", epsilon, Neighbours.ADDED, delta)
    certain = [Spent("a", 1.0, Neighbours.ADDED, 0.7)] * 2
    assert sequential("both", certain).delta == 1.0
