"""The browser that pages are looked at with: Debian's Chromium."""

from __future__ import annotations

import shutil

__all__ = ["ARGUMENTS", "CHROMIUM", "RULES"]

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
# The rules of WCAG 2.2, levels A and AA, as axe is asked for them.
RULES = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}}
