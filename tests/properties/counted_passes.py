"""How many passes a compiled condition makes over a block, counted by what it calls of NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from unittest.mock import patch

import numpy as np

from health_node.people import cohort
from health_node.people.cohort import Predicate, Scratch
from health_node.people.encoding import Stored

_ROWS = 8


class _CountedPasses:
    """NumPy as `cohort` calls it; counts what goes over a whole block."""

    PASSES: Final = dict.fromkeys(
        (
            *("equal", "not_equal", "less_equal", "greater_equal", "subtract"),
            *("bitwise_and", "logical_or", "logical_and", "logical_not", "unpackbits", "copyto"),
        ),
        1,
    ) | {"take": cohort._LOOKUP_PASSES}

    def __init__(self) -> None:
        self.counted = 0

    def __getattr__(self, name: str) -> Any:
        # Array constructors are called when a table or a scratch is made, and go over no block.
        if name not in self.PASSES:
            assert name in {"dtype", "empty", "zeros", "bool_", "uint8", "logical_xor"}, (
                f"np.{name} goes over people and has no price"
            )
            return getattr(np, name)
        self.counted += self.PASSES[name]
        return getattr(np, name)


def passes_made(predicate: Predicate, columns: Mapping[str, Stored]) -> int:
    """Over eight people, or rows, of these columns; what was to be counted before was true of nobody."""
    bits = {counting.name: np.zeros(_ROWS // 8, np.uint8) for counting in predicate.countings}
    counting = _CountedPasses()
    with patch.object(cohort, "np", counting):
        predicate.mark({**columns, **bits}, np.empty(_ROWS, dtype=np.bool_), Scratch(_ROWS))
    return counting.counted
