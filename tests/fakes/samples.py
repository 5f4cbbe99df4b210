"""Samples in tests: whom bits name, by the pseudonyms of the roster, and samples of whom a test names."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from broker_common.crypto.sample_bits import PLACES_IN_PART, Bound, SampleBits
from broker_common.query.condition import Condition
from health_node.people.store import PEOPLE_IN_BLOCK, PeopleStore
from health_node.query.forwarding import Sample


def whom(bits: npt.NDArray[np.uint8], pseudonyms: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """The rows of a roster's (n, 16) array whose places have a bit."""
    rows: npt.NDArray[np.uint8] = pseudonyms[np.unpackbits(bits, count=len(pseudonyms)).astype(bool)]
    return rows


def selected(store: PeopleStore, condition: Condition, *, block: int = PEOPLE_IN_BLOCK) -> npt.NDArray[np.uint8]:
    """Everyone for whom the condition is true."""
    return whom(store.mark(condition, lambda _people, _marks: None, block=block), store.pseudonyms)


def sample_of(
    places: Iterable[int], bound: Bound, *, declared: int = PLACES_IN_PART, roster: int = 1, salt: bytes = bytes(32)
) -> Sample:
    """The sample that has a bit at these places."""
    marks = np.zeros(declared, np.uint8)
    marks[list(places)] = 1
    return Sample(SampleBits(np.packbits(marks), salt), bound, roster)
