"""Names for the array types of this package: one entry per person, household or table cell."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Booleans = NDArray[np.bool_]
Digits = NDArray[np.uint8]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Words = NDArray[np.uint64]
