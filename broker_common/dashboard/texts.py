"""What the command says."""

from __future__ import annotations

__all__ = ["AT"]

AT = "dashboard on {address}"
