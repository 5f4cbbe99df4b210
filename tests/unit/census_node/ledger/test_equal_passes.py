"""Work at the desk tells nothing: the same calls on as many numbers no matter who is in a sample, linked or dropped.

Calls are counted, not timed; `tests/benchmarks/instructions.py` counts the instructions of the processor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pytest
from fakes.desk_arrays import bits_of, question_of
from fakes.planted_passes import Compressing, EarlyExit, IndexList, Skipping, SparseWrite, Where
from fakes.watched_arrays import Notes, notes_of, watched, watching

from census_node.ledger.passes import (
    JOINED,
    CardPlaces,
    Homes,
    HouseholdCharges,
    Numbers,
    Passes,
    PersonCharges,
)

PEOPLE, DECLARED, BLOCK = 1000, 2048, 128
CAP, PRICE = 100, 7
HOMES = 300
SAMPLES: dict[str, range] = {
    "nobody": range(0),
    "everybody": range(DECLARED),
    "half": range(0, DECLARED, 2),
    "one": range(700, 701),
    "clustered": range(300, 420),
}
SHARES = {"nobody": 0.0, "half": 0.5, "everybody": 1.0}
MakePasses: TypeAlias = Callable[..., Passes]
MakeCharges: TypeAlias = Callable[[Passes, Numbers], PersonCharges | HouseholdCharges]


def chosen(share: float) -> np.ndarray:
    """Always the same people, so many of a thousand."""
    return np.random.default_rng(7).random(PEOPLE) < share


def homes() -> Homes:
    """Three people to a household."""
    return Homes(np.random.default_rng(5).integers(0, HOMES, PEOPLE).astype(np.uint32), HOMES)


def of_persons(passes: Passes, charged: Numbers) -> PersonCharges:
    """Subject person."""
    return PersonCharges(passes, charged)


def of_households(passes: Passes, charged: Numbers) -> HouseholdCharges:
    """Subject household."""
    return HouseholdCharges(passes, charged, homes())


def work(make_passes: MakePasses, make: MakeCharges, sample: range, linked: float = 0.5, dropped: float = 0.5) -> Notes:
    """All that the desk does for one sample."""
    generator = np.random.default_rng(3)
    places = generator.permutation(DECLARED)[:PEOPLE].astype(np.uint32) | (chosen(linked) * np.uint32(JOINED))
    further = np.arange(0, PEOPLE, 10, dtype=np.uint32), np.arange(0, DECLARED, 20, dtype=np.uint32)[: PEOPLE // 10]
    charged = (chosen(dropped) * np.uint32(CAP)).astype(np.uint32)[: HOMES if make is of_households else PEOPLE]
    values = watched(generator.integers(0, 12, PEOPLE).astype(np.uint8))
    question = question_of(values, [{0}, {1, 2}, None])
    with watching(), make_passes(people_in_block=BLOCK) as passes:
        cards = CardPlaces.of(watched(places), watched(further[0]), watched(further[1]), DECLARED)
        charges = make(passes, watched(charged))
        here, active = passes.bits(PEOPLE), passes.bits(PEOPLE)
        bits = watched(bits_of(sample, DECLARED))

        def step() -> None:
            passes.find(bits, cards, here)
            charges.fit(here, active, price=PRICE, most=CAP)
            charges.charge(active, PRICE)
            passes.count(active, question)

        return notes_of(step)


def verify_equal_work(make_passes: MakePasses, make: MakeCharges) -> None:
    """Return only if the work is the same for every sample, share of linked people and share of dropped ones."""
    usual = work(make_passes, make, SAMPLES["half"])
    for sample in SAMPLES.values():
        assert work(make_passes, make, sample) == usual
    for share in SHARES.values():
        assert work(make_passes, make, SAMPLES["half"], linked=share) == usual
        assert work(make_passes, make, SAMPLES["half"], dropped=share) == usual


@pytest.mark.parametrize("make", [of_persons, of_households])
def test_work_is_the_same_whoever_is_in_the_sample(make: MakeCharges) -> None:
    """NumPy's calls, their shapes and types, and what memory they make: equal for all samples, linkage and drops."""
    verify_equal_work(Passes, make)


@pytest.mark.parametrize("make", [Where, IndexList, SparseWrite, EarlyExit])
def test_a_charge_that_tells_who_is_active_is_found(make: MakeCharges) -> None:
    """A planted `where=`, index list, sparse write and early exit each fail: the test above is no formality."""
    with pytest.raises(AssertionError):
        verify_equal_work(Passes, make)


@pytest.mark.parametrize("make_passes", [Skipping, Compressing])
def test_a_pass_over_some_of_the_people_is_found(make_passes: MakePasses) -> None:
    """A partial lookup of linked people, or a partial count of active ones, fails too."""
    with pytest.raises(AssertionError):
        verify_equal_work(make_passes, of_persons)
