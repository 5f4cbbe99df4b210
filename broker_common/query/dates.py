"""Calendar dates as everybody here writes them: YYYY-MM-DD, no other form."""

from __future__ import annotations

import re
from datetime import date

__all__ = ["parse_date"]

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def parse_date(text: str) -> date:
    """The date that `text` writes.

    Raises:
        ValueError: it is not YYYY-MM-DD, or the calendar has no such day.
    """
    # `fromisoformat` alone would admit week dates and other spellings.
    if not _DATE.fullmatch(text):
        raise ValueError("not written YYYY-MM-DD")
    return date.fromisoformat(text)
