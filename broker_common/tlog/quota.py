"""How many answers of each researcher count against the policy's `researcher_answers`.

An answer counts from its charge until `sample_retention_ms` after its release, which is at least as long as its sample is kept.
SECURITY: the end follows from the release and not from the charge. Releases are instants that everybody sees; when a charge
was made depends on work, and must show in nobody's refusal.

Answers that were charged while there was no quota do not count. So no more are remembered than the largest quota there was,
for each researcher. An answer that can never be made is never out, and counts for ever.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass, field

__all__ = ["AnswerQuota"]


@dataclass(slots=True)
class AnswerQuota:
    """The answers that count, by researcher."""

    # Charged and not out: by ticket, its researcher and the retention that was in force at the charge.
    _not_out: dict[str, tuple[str, int]] = field(default_factory=dict)
    # Released: by researcher, until when each answer counts, ascending.
    _until: dict[str, list[int]] = field(default_factory=dict)

    def charge(self, ticket: str, researcher: str, retention_ms: int) -> None:
        """One more answer counts."""
        self._not_out[ticket] = (researcher, retention_ms)

    def release(self, ticket: str, time_ms: int) -> None:
        """The answer is out: it counts for its retention from now on. Nothing happens if it does not count at all."""
        held = self._not_out.pop(ticket, None)
        if held is None:
            return
        researcher, retention_ms = held
        until = self._until.setdefault(researcher, [])
        del until[: bisect_right(until, time_ms)]
        insort(until, time_ms + retention_ms)

    def counted(self, researcher: str, time_ms: int) -> int:
        """How many of a researcher's answers count at this time."""
        return self._waiting(researcher) + len(self._later(researcher, time_ms))

    def free_at(self, researcher: str, time_ms: int, most: int) -> int | None:
        """When fewer than `most` count if nothing more is asked; None where that depends on answers that are not out."""
        later = self._later(researcher, time_ms)
        surplus = self._waiting(researcher) + len(later) - most + 1
        if surplus <= 0:
            return time_ms
        return later[surplus - 1] if surplus <= len(later) else None

    def _waiting(self, researcher: str) -> int:
        return sum(each == researcher for each, _ in self._not_out.values())

    def _later(self, researcher: str, time_ms: int) -> list[int]:
        until = self._until.get(researcher, [])
        return until[bisect_right(until, time_ms) :]
