"""How long a test waits for what must happen. No test may depend on how busy the machine is.

Waits end with an event; the limit is there only to end a test that hangs. To show that something does not wait for a call
or a pause, a test makes that call or pause `NEVER_SECONDS` long.
"""

from __future__ import annotations

__all__ = ["NEVER_SECONDS", "PATIENCE_SECONDS"]

# Nothing that works takes as long, even where many processes share one processor.
PATIENCE_SECONDS = 300.0
# Longer than any test may run (`timeout` in pyproject.toml).
NEVER_SECONDS = 3600.0
