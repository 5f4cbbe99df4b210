"""Types of the lab's arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
Codes = NDArray[np.int64]
