"""PLACEHOLDER."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True, eq=False)
class Carry:
    person_to: Numbers
    person_from: Numbers
    household_to: Numbers
    household_from: Numbers
    person_count: int
    household_count: int

    def write(self, path: Path) -> None:
        with path.open("wb") as file:
            np.savez(file, pt=self.person_to, pf=self.person_from, ht=self.household_to, hf=self.household_from, c=np.array([self.person_count, self.household_count]))

    @classmethod
    def read(cls, path: Path) -> Carry:
        with np.load(path) as z:
            return cls(z["pt"], z["pf"], z["ht"], z["hf"], int(z["c"][0]), int(z["c"][1]))
