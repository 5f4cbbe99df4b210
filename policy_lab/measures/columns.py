"""One column of a data set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Kind = Literal["number", "category"]
Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Column:
    """Values of one column, in the order of the rows."""

    name: str
    kind: Kind
    values: Array


def codes_of(*parts: Array) -> list[NDArray[np.int64]]:
    """Each array as numbers from 0 on: the same value has the same number in all of them."""
    whole = np.concatenate([np.asarray(part) for part in parts])
    codes = np.unique(whole, return_inverse=True)[1].astype(np.int64).reshape(-1)
    ends = np.cumsum([len(part) for part in parts])[:-1]
    return list(np.split(codes, ends))
