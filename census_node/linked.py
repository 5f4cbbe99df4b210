"""A sample as the census agency sees it: pseudonyms, and the census units of those whom the registry has."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from broker_common.crypto.commitments import hash_set

__all__ = ["NOBODY", "Linked"]

# The number of no unit: of a pseudonym that nobody in the registry has.
NOBODY = 2**32 - 1


@dataclass(frozen=True, slots=True, eq=False)
class Linked:
    """A sample and the census units of its pseudonyms on one load; `NOBODY` where nobody in the registry has one."""

    pseudonyms: npt.NDArray[np.uint8]
    persons: npt.NDArray[np.uint32]
    households: npt.NDArray[np.uint32]

    @property
    def set_hash(self) -> bytes:
        # Flat, because memory of no rows cannot be cast.
        return hash_set(np.ascontiguousarray(self.pseudonyms).reshape(-1).data)

    @property
    def units_hash(self) -> bytes:
        digest = hashlib.sha256(b"tripartite/sample-units/v1\0")
        digest.update(np.ascontiguousarray(self.persons, dtype="<u4").data)
        digest.update(np.ascontiguousarray(self.households, dtype="<u4").data)
        return digest.digest()
