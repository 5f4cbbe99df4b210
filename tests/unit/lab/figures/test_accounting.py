"""Strict against per person: a ledger kept person by person, with the product's own rule, gives the same."""

from __future__ import annotations

from fractions import Fraction
from itertools import islice

import numpy as np
import pytest

from broker_common.privacy.accounting import fits, price
from census_node.ledger.passes import Passes, PersonCharges
from policy_lab.document.model import Lines, Paragraph, Table
from policy_lab.figures.accounting import course_of
from policy_lab.figures.figure import FIGURES
from policy_lab.figures.policy import limit_at
from policy_lab.figures.workloads import PEOPLE, WORKLOADS

LIMIT = limit_at(Fraction(4, 5))


@pytest.mark.parametrize("key", WORKLOADS)
def test_course_is_that_of_a_ledger_kept_person_by_person(key: str) -> None:
    """At a scale so small that people run out within a few questions."""
    questions, scale = 40, 4
    course = course_of(WORKLOADS[key], LIMIT, scale, questions, seed=2)
    groups = list(islice(WORKLOADS[key].groups(np.random.default_rng(2)), questions))
    charges = [0] * PEOPLE
    for number, group in enumerate(groups, 1):
        dropped = 0
        for person in np.flatnonzero(group):
            if fits(LIMIT.units, charges[person], scale):
                charges[person] += price(scale)
            else:
                dropped += 1
        assert course.dropped[number] - course.dropped[number - 1] == dropped
        assert course.asked[number] - course.asked[number - 1] == np.count_nonzero(group)
        if number % 10 == 0:
            assert course.exhausted[number] == sum(not fits(LIMIT.units, charge, scale) for charge in charges)
    assert max(charges) <= LIMIT.units


def test_one_disease_is_used_up_when_the_strict_service_shuts_down() -> None:
    """After 41 answers at scale 30; from then on nobody of the group is counted, and nobody else was touched."""
    course = course_of(WORKLOADS["disease"], LIMIT, 30, 60, seed=1)
    ill = course.asked[1]
    assert course.dropped[41] == 0
    assert course.exhausted[40] == 0
    assert course.exhausted[41] == course.exhausted[60] == ill
    assert course.left_out(41, 60) == 1.0


@pytest.mark.parametrize("key", WORKLOADS)
def test_nothing_comes_back(key: str) -> None:
    """Exhausted people stay so, and everyone left out was asked about."""
    course = course_of(WORKLOADS[key], LIMIT, 10, 200, seed=7)
    assert list(course.exhausted) == sorted(course.exhausted)
    assert course.exhausted[-1] <= PEOPLE
    assert all(0 <= dropped <= asked for dropped, asked in zip(course.dropped, course.asked, strict=True))


@pytest.mark.parametrize(
    ("key", "low", "high"),
    [
        ("different", 0.008, 0.012),
        ("patients", 0.025, 0.035),
        ("disease", 0.045, 0.055),
        ("everybody", 0.5, 0.51),
        ("mixed", 0.07, 0.14),
    ],
)
def test_groups_are_as_large_as_the_sentence_says(key: str, low: float, high: float) -> None:
    """On average over two hundred questions; seeds are fixed."""
    course = course_of(WORKLOADS[key], LIMIT, 30, 200, seed=1)
    assert low < course.asked[-1] / 200 / PEOPLE < high


def test_figure_says_when_strict_shuts_down() -> None:
    """41 answers, and then none; a cap that pays for none answers nothing at all."""
    table, plot, words = drawn(workload="different", questions="400")
    assert "gives 41 answers in all and shuts down" in words[1]
    assert [row[1] for row in table.rows] == [min(41, int(str(row[0]))) for row in table.rows]
    assert 41 in [row[0] for row in table.rows]
    assert list(plot.lines[2].points) == [(0, 0.0), (41, 0.0), (41, 1.0), (400, 1.0)]
    _, plot, words = drawn(questions="30")
    assert "it would shut down after 41 answers" in words[1]
    assert list(plot.lines[2].points) == [(0, 0.0), (30, 0.0)]
    table, _, words = drawn(cap="51", scale="1", questions="50")
    assert "gives no answer in all" in words[1]
    assert [row[1] for row in table.rows] == [0] * len(table.rows)
    assert table.rows[-1][3] == 100.0


def drawn(**given: str) -> tuple[Table, Lines, list[str]]:
    """Table, plot and sentences."""
    section = FIGURES["accounting"].draw(FIGURES["accounting"].values(given))
    table = next(block for block in section.blocks if isinstance(block, Table))
    plot = next(block for block in section.blocks if isinstance(block, Lines))
    return table, plot, [block.words for block in section.blocks if isinstance(block, Paragraph)]


@pytest.mark.parametrize("key", WORKLOADS)
def test_course_is_that_of_the_census_node_s_own_ledger(key: str) -> None:
    """The same groups, on the arrays that a serving node charges."""
    questions, scale = 300, 30
    course = course_of(WORKLOADS[key], LIMIT, scale, questions, seed=3)
    with Passes() as passes:
        ledger, active = PersonCharges(passes, np.zeros(PEOPLE, np.uint32)), passes.bits(PEOPLE)
        for number, group in enumerate(islice(WORKLOADS[key].groups(np.random.default_rng(3)), questions), 1):
            ledger.fit(np.packbits(group), active, price=price(scale), most=LIMIT.units)
            ledger.charge(active, price(scale))
            dropped = np.count_nonzero(group) - np.count_nonzero(np.unpackbits(active, count=PEOPLE))
            assert course.dropped[number] - course.dropped[number - 1] == dropped
            exhausted = np.count_nonzero(ledger.charged.astype(np.int64) + price(scale) > LIMIT.units)
            assert course.exhausted[number] == exhausted
