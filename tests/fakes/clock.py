"""Clocks that tests set by hand. They may jump either way, as the wall clock may."""

from __future__ import annotations


class FakeClock:
    """Milliseconds since 1970; stands still until told otherwise."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms

    def advance(self, milliseconds: int) -> None:
        """Let time pass; a negative number sets the clock back."""
        self.now_ms += milliseconds
