"""Libraries of `requirements-bench.lock`: rivals, and parts of the floor. Nothing else may need them.

They are looked up by name, so that everything else can be checked and tested without them.
"""

from __future__ import annotations

import importlib
from typing import Any


def extra(name: str) -> Any:
    """The module, or None where its library is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None
