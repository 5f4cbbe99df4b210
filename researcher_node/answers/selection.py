"""Which questions to list: by state, study, label and the time they were asked. Filters combine; times are UTC."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from broker_common.errors import InvalidRequestError

if TYPE_CHECKING:
    # The commands name states and filters in their help, which waits for no store.
    from researcher_node.answers.store import AskedQuestion

STATES = ("answered", "pending", "refused", "expired")
# Formats that answers may be written in, see `formats`.
FORMATS = ("csv", "jsonl", "md", "parquet")
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(Z|[+-]\d\d:\d\d)?", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Selection:
    """The filter; a None or empty field excludes nothing."""

    states: Sequence[str] = ()
    project: str | None = None
    label: str | None = None
    # Asked at or after the first, and before the second; milliseconds since 1970 UTC.
    since_ms: int | None = None
    until_ms: int | None = None
    # The newest so many of what the others leave.
    last: int | None = None

    def choose(self, questions: Iterable[AskedQuestion]) -> list[AskedQuestion]:
        """Those that are wanted, in the order given, which is oldest first."""
        wanted = [asked for asked in questions if self._wants(asked)]
        return wanted if self.last is None else wanted[-self.last :]

    def _wants(self, asked: AskedQuestion) -> bool:
        return (
            (not self.states or asked.state in self.states)
            and self.project in {None, asked.project}
            and self.label in {None, asked.label}
            and (self.since_ms is None or asked.asked_ms >= self.since_ms)
            and (self.until_ms is None or asked.asked_ms < self.until_ms)
        )


def parse_since(text: str) -> int:
    """The beginning of a day, or an instant, in milliseconds since 1970 UTC.

    Raises:
        InvalidRequestError: INVALID_VALUE.
    """
    return _milliseconds(_parse("--since", text))


def parse_until(text: str) -> int:
    """The end of a day, or of the second that an instant names, in milliseconds since 1970 UTC.

    Raises:
        InvalidRequestError: INVALID_VALUE.
    """
    length = timedelta(days=1) if _DATE.fullmatch(text) else timedelta(seconds=1)
    return _milliseconds(_parse("--until", text)) + _milliseconds(_EPOCH + length)


def _parse(name: str, text: str) -> datetime:
    if _DATE.fullmatch(text) or _INSTANT.fullmatch(text):
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            # There is no such day or hour.
            pass
        else:
            return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    raise InvalidRequestError(
        "INVALID_VALUE",
        name=name,
        problem="is not a date or an instant",
        remedy="Write 2026-03-31, or 2026-03-31T09:30:00; times are UTC unless they end in an offset like -05:00.",
    )


def _milliseconds(instant: datetime) -> int:
    return (instant - _EPOCH) // timedelta(milliseconds=1)
