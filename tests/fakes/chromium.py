"""The browser that pages are looked at with: Debian's Chromium."""

from __future__ import annotations

import shutil

__all__ = ["ARGUMENTS", "CHROMIUM"]

CHROMIUM = shutil.which("chromium")
# Without these the browser calls home, which nobody needs and no machine of tests can.
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
)
