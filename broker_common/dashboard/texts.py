"""What the command says."""

from __future__ import annotations

AT = "dashboard on {address}"
