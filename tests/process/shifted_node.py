"""A node on a machine whose wall clock somebody sets: `shifted_node.py FILE census serve --home ...`.

FILE holds the shift in milliseconds and may be replaced while the node runs. The monotone clocks are the machine's own;
everything else is the product as it is.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from broker_common.cli import main


def _shifted(true_time: Callable[[], int], shift: Path) -> Callable[[], int]:
    return lambda: true_time() + int(shift.read_text()) * 1_000_000


if __name__ == "__main__":
    time.time_ns = _shifted(time.time_ns, Path(sys.argv[1]))
    main(sys.argv[2:])
