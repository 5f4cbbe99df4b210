"""The fast lookup agrees with the obvious one: one ascending list found in another, against plain Python, no matter who chose the pseudonyms.

Pseudonyms come in clusters that share a prefix, a first half or neither, as the adversary may choose them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from census_node.ledger import subjects
from census_node.ledger.subjects import find_ascending, halves_of

# First halves: of one prefix, the same one, the ends of the range. Second halves: near one another, and the ends.
highs = st.sampled_from([0, 1, 2**40 - 1, 2**40, 7 * 2**40 + 3, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1)
lows = st.integers(0, 40) | st.sampled_from([2**63, 2**64 - 1])
names = st.tuples(highs, lows)
Name = tuple[int, int]


def array_of(chosen: list[Name]) -> npt.NDArray[np.uint8]:
    """As they come in frames."""
    return np.array(chosen, np.uint64).reshape(-1, 2).astype(">u8").view(np.uint8).reshape(-1, 16)


def found_places(wanted: list[Name], world: list[Name]) -> list[int | None]:
    """Where each of the wanted stands."""
    places: list[int | None] = []
    for part, at, found in find_ascending(halves_of(array_of(wanted)), *halves_of(array_of(world))):
        assert part == slice(len(places), len(places) + len(found))
        places += [place if is_there else None for place, is_there in zip(at.tolist(), found.tolist(), strict=True)]
    return places


@settings(max_examples=200)
@given(
    world=st.lists(names, unique=True, max_size=200),
    strangers=st.lists(names, unique=True, max_size=60),
    chooser=st.randoms(use_true_random=False),
    at_once=st.sampled_from([1, 2, 7, 1 << 14]),
)
def test_a_lookup_says_what_a_dictionary_says(
    world: list[Name], strangers: list[Name], chooser: Any, at_once: int
) -> None:
    """Lookups of all, of none, of some; with long runs of one first half; in pieces that end anywhere."""
    world = sorted(world)
    place = {name: row for row, name in enumerate(world)}
    some = chooser.sample(world, chooser.randint(0, len(world)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subjects, "_MOST_AT_ONCE", at_once)
        for asked in (some, strangers, [*some, *strangers], world, []):
            wanted = sorted(set(asked))
            assert found_places(wanted, world) == [place.get(name) for name in wanted]


def test_a_strided_list_is_read_like_a_packed_one() -> None:
    """Rows that are not contiguous in memory are the same people."""
    world = [(number, number) for number in range(20)]
    high, low = halves_of(array_of(world)[::3])
    assert list(zip(high.tolist(), low.tolist(), strict=True)) == world[::3]


def test_as_many_as_there_are_with_one_first_half_are_told_apart() -> None:
    """In the registry as in what is asked for."""
    world = [(5, 2 * number) for number in range(300)]
    wanted = [(5, number) for number in range(601)]
    assert found_places(wanted, world) == [low // 2 if low % 2 == 0 and low < 600 else None for _, low in wanted]
