"""How tests wait. No test may depend on how busy the machine is.

A test waits for what must happen until it has happened; the limit only ends a test that hangs. To show that something does not
wait for a call or a pause, a test makes that call or pause `NEVER_SECONDS` long.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

# Nothing that works takes as long, even where many processes share one processor.
PATIENCE_SECONDS = 300.0
# Longer than any test may run (`timeout` in pyproject.toml).
NEVER_SECONDS = 3600.0
_LOOK_SECONDS = 0.005
_LINGER_SECONDS = 0.05


async def until(holds: Callable[[], object]) -> None:
    """Return when `holds`, or fail. For what no event tells of."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not holds():  # noqa: ASYNC110 - see above
            await asyncio.sleep(_LOOK_SECONDS)


async def linger(seconds: float = _LINGER_SECONDS) -> None:
    """Give something that must not happen the time to happen. On a busy machine a fault may need longer, and stay unseen."""
    await asyncio.sleep(seconds)


def linger_here(seconds: float = _LINGER_SECONDS) -> None:
    """The same in a thread."""
    time.sleep(seconds)
