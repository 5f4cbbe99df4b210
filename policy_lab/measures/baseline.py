"""The remainder of associations when nothing goes together: the floor that other figures are compared with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from policy_lab.measures.columns import Column


def permuted(table: Sequence[Column], random: np.random.Generator) -> list[Column]:
    """Each column in an order of its own: its distribution stays, what it says about the others goes."""
    return [Column(column.name, column.kind, random.permutation(column.values)) for column in table]
