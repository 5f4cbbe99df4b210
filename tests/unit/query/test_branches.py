"""Branches of a hierarchy: found in its layout as they would be by walking it."""

from __future__ import annotations

import random  # noqa: TID251 - seeded, for graphs that nobody keeps

import pytest

from broker_common.query.branches import Branches


def walked(above: list[list[int]], codes: list[int]) -> list[int]:
    """These codes and all beneath them, code by code."""
    found = set(codes)
    grown = True
    while grown:
        more = {code for code, parents in enumerate(above) if not found.isdisjoint(parents)} - found
        grown = bool(more)
        found |= more
    return sorted(found)


@pytest.mark.parametrize("most_parents", [1, 2, 4])
@pytest.mark.parametrize("seed", range(20))
def test_branches_are_those_that_a_walk_finds(most_parents: int, seed: int) -> None:
    """Branches of trees and of graphs, in whatever order codes are published; no more is looked at than was said before."""
    chosen = random.Random(seed)
    published = chosen.sample(range(60), 60)
    above: list[list[int]] = [[] for _ in published]
    for number, code in enumerate(published[1:], 1):
        parents = chosen.sample(published[:number], min(number, chosen.randint(0, most_parents)))
        above[code] = sorted(parents)
    branches = Branches(above)
    for size in (1, 1, 2, 5, 60):
        codes = chosen.sample(range(60), size)
        found = branches.beneath(codes)
        assert found.tolist() == walked(above, codes)
        assert len(found) <= branches.most_beneath(codes)
        assert len(list(branches._ranges(codes))) <= branches.most_beneath(codes)


def test_a_deep_branch_is_found_without_recursion() -> None:
    """As many codes as a list may have, each beneath the one before."""
    branches = Branches([[]] + [[code] for code in range(99_999)])
    assert branches.beneath([99_000, 50_000]).tolist() == list(range(50_000, 100_000))
    assert branches.most_beneath([99_999]) == 2
