"""A hierarchy of codes, laid out so that a branch is found without walking it.

Codes stand depth first, each beneath the first of those that it stands under, so that a branch is one range. A code that stands
under more than one is met again from each of the others.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray


class Branches:
    """Branches of one list of codes. A code is named by its place in the list."""

    def __init__(self, above: Sequence[Sequence[int]]) -> None:
        """`above` says of each code under which it stands; there is no circle."""
        below: list[list[int]] = [[] for _ in above]
        for code, parents in enumerate(above):
            if parents:
                below[parents[0]].append(code)
        order: list[int] = []
        waiting = [code for code in reversed(range(len(above))) if not above[code]]
        while waiting:
            order.append(waiting.pop())
            waiting += reversed(below[order[-1]])
        self._begins, self._sizes = [0] * len(above), [1] * len(above)
        for number, code in enumerate(order):
            self._begins[code] = number
        for code in reversed(order):
            if above[code]:
                self._sizes[above[code][0]] += self._sizes[code]
        self._order = np.array(order, np.int64)
        # Where a parent of such a code stands in the order, ascending, and the code.
        crossings = sorted((self._begins[parent], code) for code, parents in enumerate(above) for parent in parents[1:])
        self._parents, self._crossing = [parent for parent, _ in crossings], [code for _, code in crossings]

    def most_beneath(self, codes: Collection[int]) -> int:
        """At least as many as `beneath` looks at: known without looking."""
        if self._crossing:
            return len(codes) + len(self._order) + len(self._crossing)
        return len(codes) + min(len(self._order), sum(self._sizes[code] for code in codes))

    def beneath(self, codes: Collection[int]) -> NDArray[np.int64]:
        """These codes and all that stand under one of them, directly or not: each once, ascending."""
        ranges: list[tuple[int, int]] = []
        for begin, end in sorted(self._ranges(codes)):
            # Two ranges are disjoint, or one lies in the other.
            if not ranges or begin >= ranges[-1][1]:
                ranges.append((begin, end))
        return np.sort(np.concatenate([self._order[begin:end] for begin, end in ranges]))

    def _ranges(self, codes: Collection[int]) -> Iterator[tuple[int, int]]:
        waiting, met = list(codes), bytearray(len(self._crossing))
        while waiting:
            code = waiting.pop()
            begin, end = self._begins[code], self._begins[code] + self._sizes[code]
            yield begin, end
            first, last = bisect.bisect_left(self._parents, begin), bisect.bisect_left(self._parents, end)
            while (first := met.find(0, first, last)) >= 0:
                met[first] = 1
                waiting.append(self._crossing[first])
