"""What is done for a sample is done for all of it, whoever is linked and whoever is dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_common.privacy.policy import Unit
from census_node.ledgers import Decision, Ledgers, Room
from census_node.linked import NOBODY, Linked
from census_node.unit_ledger import UnitLedger, Wanted, _by_household, _nobodies

PEOPLE = 4096
WORLDS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], int]] = {
    "none linked": (lambda places: places < 0, 0),
    "half linked": (lambda places: places % 2 == 0, 0),
    "all linked": (lambda places: places >= 0, 0),
    "all linked, all dropped": (lambda places: places >= 0, 10),
}


def sample_of(linked: np.ndarray) -> Linked:
    """Four thousand people, two to a household, in no order."""
    generator = np.random.default_rng(5)
    pseudonyms = np.sort(generator.integers(0, 2**64, (PEOPLE, 2), np.uint64), axis=0).astype(">u8").view(np.uint8)
    persons = generator.permutation(PEOPLE).astype(np.uint32)
    nobody = np.uint32(NOBODY)
    return Linked(pseudonyms, np.where(linked, persons, nobody), np.where(linked, persons // 2, nobody))


@pytest.mark.parametrize("unit", ["person", "household"])
def test_sorting_and_looking_up_are_of_the_whole_sample(monkeypatch: pytest.MonkeyPatch, unit: Unit) -> None:
    """In a charge that decides, counts households and applies: the same operations on as many numbers in every world."""
    steps: dict[str, list[tuple[str, int]]] = {}
    doing: list[tuple[str, int]] = []
    for name in ("take", "minimum", "cumsum", "not_equal"):
        original = getattr(np, name)

        def counted(*arguments: Any, _name: str = name, _original: Any = original, **named: Any) -> Any:
            doing.append((_name, max(np.size(each) for each in arguments[-2:])))
            return _original(*arguments, **named)

        monkeypatch.setattr(np, name, counted)
    for world, (linked, charged) in WORLDS.items():
        ledgers = Ledgers(
            units=UnitLedger(np.full(PEOPLE, charged, np.uint32), np.full(PEOPLE // 2, charged, np.uint32))
        )
        sample = sample_of(linked(np.arange(PEOPLE)))
        doing.clear()
        decision = ledgers.decide(sample, Room(1, 10, unit))
        assert decision.active.all() == (charged == 0)
        ledgers.apply(sample, decision, price=1, organisation="health", digest=b"")
        steps[world] = list(doing)
    first = steps["none linked"]
    # Of sorted cards, which is as many as were sorted.
    assert ("cumsum", PEOPLE) in first
    assert all(seen == first for seen in steps.values()), steps


@given(size=st.integers(0, 3000), chosen=st.randoms(use_true_random=False))
def test_whoever_is_not_chosen_shares_a_unit_with_nobody(size: int, chosen: Any) -> None:
    """The numbers that stand for nobody are all different, and no census unit's; they are sorted with the others."""
    pick = np.array([chosen.random() < 0.5 for _ in range(size)], np.bool_)
    persons = np.arange(size, dtype=np.uint32)
    homes = _by_household(Wanted(persons, persons // 2, pick))
    assert len(homes.households) == size
    known = homes.households < size
    assert homes.households[known].tolist() == (persons[pick] // 2).tolist()
    assert (homes.members[~known] == 1).all()
    nobody = _nobodies(size)
    assert len(set(nobody.tolist())) == size
    assert (nobody >= NOBODY - 2 * size).all()
    assert set(homes.households[~known].tolist()) == set(nobody[~pick].tolist())


def test_the_last_unit_is_not_charged_for_strangers() -> None:
    """What is done for those whom nobody has is done to nobody."""
    ledgers = Ledgers(units=UnitLedger(np.zeros(PEOPLE, np.uint32), np.zeros(PEOPLE // 2, np.uint32)))
    sample = sample_of(np.zeros(PEOPLE, np.bool_))
    decision = ledgers.decide(sample, Room(1, 10, "household"))
    assert isinstance(decision, Decision)
    ledgers.apply(sample, decision, price=1, organisation="health", digest=b"")
    assert not ledgers.units.persons.any()
    assert not ledgers.units.households.any()
