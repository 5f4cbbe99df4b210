"""A node on a machine that does not keep up: `late_node.py MILLISECONDS health serve --home ...`.

Every cohort is drawn, and every charge decided, so much later than it could be. Everything else is the product as it is.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from broker_common.cli import main
from census_node.ledger.book import LedgerBook
from health_node.node import HealthNode


def _later(method: Callable[..., Any], seconds: float) -> Callable[..., Any]:
    def later(*arguments: Any) -> Any:
        time.sleep(seconds)
        return method(*arguments)

    return later


if __name__ == "__main__":
    late_seconds = int(sys.argv[1]) / 1000
    HealthNode.sample = _later(HealthNode.sample, late_seconds)  # type: ignore[method-assign]
    LedgerBook.decide = _later(LedgerBook.decide, late_seconds)  # type: ignore[method-assign]
    main(sys.argv[2:])
