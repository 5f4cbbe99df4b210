"""The figures that a quote may have: they follow from the census log at the instant at which the quote was made.

A quote carries an instant and no size of the log. The log that it was read from held at least what the checkpoint of its slot
covers, and nothing later than its instant or after its ticket's charge. Any size between is a possible one; what holds at none
of them is a problem.

How many answers are left counts the answers that are out, and no entry says when one is let out: its release carries the tick
before, and a round that takes too long moves by whole ticks. So two bounds are kept:

- Certainly out is a release after which another answer was released that was charged after it. An outcome leaves with the
  others of its round, and the second answer's release waits for that.
- Possibly out is every release; and what was charged before the last start of the node, which counts an answer that it can
  no longer make.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TypeVar

from tripartite.v1 import quote_pb2

from broker_common.audit.logs.disk_backed import DiskBackedTimes
from broker_common.audit.logs.log_audit import LogAudit
from broker_common.privacy.accounting import answers_left, price
from broker_common.privacy.policy import Policy
from broker_common.privacy.table_laplace import margin
from broker_common.query.question import spelled_question
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import Adopted, Entry, Loaded, Released, Relinked, Slots

ValueT = TypeVar("ValueT")


class _Out:
    """Answers that are out, and their units, after each entry that changes it."""

    def __init__(self) -> None:
        self._entries, self._answers, self._units = DiskBackedTimes(), DiskBackedTimes(), DiskBackedTimes()
        self.answers = self.units = 0

    def set(self, entry: int, answers: int, units: int) -> None:
        self.answers, self.units = answers, units
        for values, value in ((self._entries, entry), (self._answers, answers), (self._units, units)):
            values.append(value)

    def left(self, policy: Policy, scale: int, size: int) -> int:
        """How many answers at this scale are left if these are out in the log of this size."""
        place = bisect_left(self._entries, size) - 1
        answers, units = (self._answers[place], self._units[place]) if place >= 0 else (0, 0)
        left = answers_left(policy.cap, units, scale)
        return min(left, policy.max_answers - answers) if policy.max_answers else left

    def close(self) -> None:
        for values in (self._entries, self._answers, self._units):
            values.close()


class QuotedLog:
    """Notes on the census log that quotes are held against, taken while it is read."""

    def __init__(self, audit: LogAudit[CensusState]) -> None:
        self._audit = audit
        # With the entry that put each in force.
        self._policies: list[tuple[int, Policy]] = []
        self._releases: list[tuple[int, str]] = []
        self._certain, self._possible = _Out(), _Out()
        # Released and not certainly out: the entry, and the units.
        self._recent: list[tuple[int, int]] = []
        # The last start of the node.
        self._started = -1

    def close(self) -> None:
        self._certain.close()
        self._possible.close()

    def take(self, entry: Entry) -> None:
        """Take in an entry that keeps the rules of the log."""
        state = self._audit.state
        match entry.event:
            case Adopted():
                assert state.policy is not None  # noqa: S101 - this entry has adopted it
                self._policies.append((entry.sequence, state.policy))
            case Loaded() | Relinked():
                self._releases.append((entry.sequence, state.release))
            case Slots(first=first, void_below=void_below) if void_below == first:
                self._started = entry.sequence
                self._possible.set(entry.sequence, state.answers, state.charged_units)
            case Released(ticket=ticket):
                charged = state.tickets[ticket]
                self._release(entry.sequence, charged.index, charged.charge.units)
            case _:
                pass

    def _release(self, entry: int, charged_at: int, units: int) -> None:
        if charged_at > self._started:
            self._possible.set(entry, self._possible.answers + 1, self._possible.units + units)
        out = [each for released_at, each in self._recent if released_at < charged_at]
        if out:
            self._certain.set(entry, self._certain.answers + len(out), self._certain.units + sum(out))
            self._recent = [each for each in self._recent if each[0] > charged_at]
        self._recent.append((entry, units))

    def problems(self, body: quote_pb2.Quote, *, covered: int, charged_at: int | None) -> list[tuple[str, str]] | None:
        """Codes, with what does not follow; None if the quote is newer than the log that was handed in.

        `covered` is the size of the checkpoint that the quote names; `charged_at` the entry of its ticket's charge.
        """
        # 1. sizes of the log that it may have been read from
        times = self._audit.times
        most = bisect_right(times, body.told_ms)
        is_reached = charged_at is not None or most < len(times)
        if covered > most:
            return [("QUOTE_WRONG", "instant")]
        most = most if charged_at is None else min(most, charged_at)
        # 2. the policy that was in force
        policy = self._policy(body.policy_hash, covered, most)
        if policy is None:
            return [("QUOTE_WRONG", "policy")] if is_reached else None
        # 3. what follows from policy, question and scale
        wrong = [name for name, is_right in self._figures(body, policy, covered, most) if not is_right]
        if "release" in wrong and not is_reached:
            return None
        found = [("QUOTE_WRONG", ", ".join(wrong))] if wrong else []
        # 4. how many answers are left
        if body.HasField("remaining") and body.scale in policy.scales:
            # If the log ends before the quote, nobody can say what is out.
            least = max(1, self._possible.left(policy, body.scale, most)) if is_reached else 1
            highest = self._certain.left(policy, body.scale, covered)
            if not least <= body.remaining <= highest:
                found.append(("QUOTE_BUDGET", f"{body.remaining}, must be {least} to {highest}"))
        return found

    def _figures(self, body: quote_pb2.Quote, policy: Policy, covered: int, most: int) -> list[tuple[str, bool]]:
        cells = len(spelled_question(body.question).cells)
        releases = {release for _, release in _in_force(self._releases, covered, most)}
        quota = body.quota if body.HasField("quota") else 0
        # SECURITY: what the researcher has in hand at this instant stands in no log.
        is_quota_kept = 1 <= body.quota_left <= quota if body.HasField("quota_left") else quota == 0
        return [
            ("scale", body.scale in policy.scales),
            ("price", body.charged == price(body.scale, cells=cells)),
            ("margin", body.scale not in policy.scales or body.margin_95 == margin(body.scale, cells)),
            ("release", body.census_release in releases),
            ("expiry", body.expires_ms == body.told_ms + policy.quote_lifetime_ms),
            ("quota", quota == policy.quota and is_quota_kept),
            ("remaining", body.HasField("remaining") == (policy.accounting == "strict")),
        ]

    def _policy(self, wanted: bytes, covered: int, most: int) -> Policy | None:
        return next((policy for _, policy in _in_force(self._policies, covered, most) if policy.hash == wanted), None)


def _in_force(changes: list[tuple[int, ValueT]], covered: int, most: int) -> list[tuple[int, ValueT]]:
    """Those that were in force in the log of some size from `covered` to `most`."""
    ends = [entry for entry, _ in changes[1:]] + [most]
    return [each for each, end in zip(changes, ends, strict=True) if each[0] < most and end >= covered]
