"""Checks of the census log beyond its rules: was every release cosigned in time, and when could each have been?

The fold says that a release names a checkpoint of this log that covers its charge; here that checkpoint is held against the
tree, the log's own key, and the witness key of the agency whose sample it was, as the log had registered it by then.

Whether an answer is held back is told in two ways. Only working time counts: time between entries that only a serving node
writes, and not between the last of one start and the next start. An answer that is overtaken again and again is held back,
however short the time: with its cosignature it leaves at the first tick a full period later, so no question charged later
can be answered two ticks before it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Final

from broker_common.audit.findings import Findings
from broker_common.audit.logs.disk_backed import DiskBackedTimes
from broker_common.audit.logs.log_audit import LogAudit
from broker_common.audit.logs.signers import NoteError
from broker_common.tlog.census_state import CensusState, ChargedTicket
from broker_common.tlog.cosignature import MOST_SKEW_MS
from broker_common.tlog.entries import (
    Adopted,
    Charged,
    Delivered,
    Entry,
    Expired,
    Loaded,
    Released,
    Relinked,
    Rostered,
    Slots,
    parse_entry,
)
from broker_common.tlog.history import Ceiling
from broker_common.values import Linkage

# A cosigned answer goes out within two ticks, and a tick is a minute at most; after a start of the node as well.
SUPPRESSED_AFTER_MS: Final = 600_000
# Rounds of questions, each charged after an answer of the round before was released. An answer that was cosigned before the
# first of them is out before the last.
_SUPPRESSED_AFTER_ROUNDS: Final = 3


class _WorkClock:
    """How long the node had been at work at every instant, all its starts taken together, by its own clock."""

    def __init__(self) -> None:
        # For every entry of a serving node: its time, and how long the node had worked by then.
        self._times = DiskBackedTimes()
        self._worked = DiskBackedTimes()
        # Since the last of them.
        self._tail_ms = 0

    def take(self, entry: Entry) -> None:
        """Take in an entry of the log. Entries that an operator may write while nothing serves prove no work."""
        match entry.event:
            case Slots(first=first, void_below=void_below):
                # Every start of a node begins so.
                self._append(entry.time_ms, worked=void_below != first)
            case Charged() | Released() | Delivered() | Expired():
                self._append(entry.time_ms, worked=True)
            case _:
                pass

    def _append(self, time_ms: int, *, worked: bool) -> None:
        before_ms = self._worked[len(self._worked) - 1] if len(self._worked) else 0
        since_ms = time_ms - self._times[len(self._times) - 1] if worked and len(self._times) else 0
        self._times.append(time_ms)
        self._worked.append(before_ms + since_ms)

    def extend(self, time_ms: int) -> None:
        """It was at work at this time as well, which no entry says."""
        if len(self._times):
            self._tail_ms = max(self._tail_ms, time_ms - self._times[len(self._times) - 1])

    def total_ms(self) -> int:
        return self._worked[len(self._worked) - 1] + self._tail_ms if len(self._worked) else 0

    def until_ms(self, time_ms: int) -> int:
        place = bisect_right(self._times, time_ms)
        if place == 0:
            return 0
        last = place == len(self._times)
        next_ms = self._tail_ms if last else self._worked[place] - self._worked[place - 1]
        return self._worked[place - 1] + min(time_ms - self._times[place - 1], next_ms)

    def close(self) -> None:
        self._times.close()
        self._worked.close()


@dataclass(slots=True)
class _Cosignatures:
    """One agency's cosignatures in the log: the latest time at which the node can have had each."""

    # Sizes of the checkpoints that releases name, each larger than the ones before; of the first release that names one of at
    # least this size, the entry, its time, and how many rounds there had been by then.
    sizes: array[int] = field(default_factory=lambda: array("Q"))
    entries: array[int] = field(default_factory=lambda: array("Q"))
    times: array[int] = field(default_factory=lambda: array("Q"))
    rounds_by_then: array[int] = field(default_factory=lambda: array("Q"))
    rounds: int = 0
    # The first of those under the policy in force.
    _first_round: int = 0
    # The entry that ended the last one.
    _round_entry: int = -1

    def take(self, entry: Entry, *, charged_at: int, size: int) -> None:
        """Take in the release of what was charged at an entry, under a checkpoint of this size."""
        if charged_at > self._round_entry:
            self.rounds, self._round_entry = self.rounds + 1, entry.sequence
        if not self.sizes or size > self.sizes[-1]:
            self.sizes.append(size)
            self.entries.append(entry.sequence)
            self.times.append(entry.time_ms)
            self.rounds_by_then.append(self.rounds)

    def begin_policy(self) -> None:
        """Ticks may be shorter from now on, and what waits for one of before is not held back by what overtakes it."""
        self.rounds += 1
        self._first_round = self.rounds

    def is_overtaken(self, place: int) -> bool:
        """Whether rounds have passed by an answer whose cosignature stands at this place."""
        by_then = self.rounds_by_then[place]
        return by_then >= self._first_round and self.rounds - by_then >= _SUPPRESSED_AFTER_ROUNDS


class CensusLog:
    """Notes on a census log, taken while it is read."""

    def __init__(
        self,
        audit: LogAudit[CensusState],
        released_at: MutableMapping[str, int],
        delivered_at: MutableMapping[str, int],
        findings: Findings,
    ) -> None:
        self.audit = audit
        # For each ticket: the entries that say that the answer is out, and that the researcher has it.
        self.released_at = released_at
        self.delivered_at = delivered_at
        # Every roster that came into force, with its entry: one for each load of a health agency.
        self.rosters: list[tuple[int, Rostered]] = []
        self._findings = findings
        # For every commitment to noise slots: the first slot, and the entry.
        self._first_slots = array("Q")
        self._slot_entries = array("Q")
        self._work = _WorkClock()
        self.ceiling = Ceiling()
        # The commitments that were looked at last, with their entry.
        self._slots: tuple[int, tuple[str, ...]] = (-1, ())
        # The census release of each load.
        self._releases: dict[str, str] = {}
        # The first entry that puts a load under this dictionary and a policy of this linkage in force together.
        self._linked_at: dict[tuple[str, Linkage], int] = {}
        self._cosigned: dict[str, _Cosignatures] = {}

    def close(self) -> None:
        self.audit.close()
        self._work.close()

    def take(self, entry: Entry) -> None:
        self._work.take(entry)
        match entry.event:
            case Slots(first=first):
                self._first_slots.append(first)
                self._slot_entries.append(entry.sequence)
            case Charged(health=agency):
                policy = self.audit.state.policy
                assert policy is not None  # noqa: S101 - the log's rules admit no charge without one
                self.ceiling.take(entry.event, policy)
                if agency not in self.audit.trusted:
                    # SECURITY: of its own making, it cosigns whatever it is shown.
                    self._findings.problem("AGENCY_UNTRUSTED", "census", entry.sequence, agency)
            case Adopted():
                for theirs in self._cosigned.values():
                    theirs.begin_policy()
                self._take_linkage(entry)
            case Loaded() | Relinked():
                self._releases[entry.event.load] = self.audit.state.release
                self._take_linkage(entry)
            case Rostered():
                self.rosters.append((entry.sequence, entry.event))
            case Released():
                self._take_release(entry, entry.event)
            case Delivered(ticket=ticket):
                self.delivered_at[ticket] = entry.sequence
            case _:
                pass

    def _take_linkage(self, entry: Entry) -> None:
        state = self.audit.state
        if state.load and state.policy is not None:
            self._linked_at.setdefault((state.dictionaries[state.load], state.policy.linkage), entry.sequence)

    def verify_linkages(self, linkages: Mapping[str, Linkage]) -> None:
        """Report every load that was in force under a policy of another linkage; `linkages` are those of dictionaries."""
        for (dictionary, linkage), entry in self._linked_at.items():
            found = linkages.get(dictionary, linkage)
            if found != linkage:
                self._findings.problem("LINKAGE_MIXED", "census", entry, f"{found} under {linkage}")

    def release_of(self, load: str) -> str:
        return self._releases.get(load, "")

    def slot(self, number: int) -> tuple[int, str] | None:
        """The entry that commits to a noise slot, and the commitment; None if there is none."""
        place = bisect_right(self._first_slots, number) - 1
        if place < 0:
            return None
        index = self._slot_entries[place]
        if self._slots[0] != index:
            self._slots = (index, self._commitments(index))
        first, commitments = self._first_slots[place], self._slots[1]
        return (index, commitments[number - first]) if number - first < len(commitments) else None

    def _commitments(self, index: int) -> tuple[str, ...]:
        try:
            event = parse_entry(self.audit.files.entry(index)).event
        except ValueError:
            return ()
        return event.commitments if isinstance(event, Slots) else ()

    def released_size(self, agency: str = "", *, before: int | None = None, below: int | None = None) -> int:
        """The largest checkpoint that a release names and that the agency, or any, has cosigned as it should; 0 if none.

        `before` counts releases before this entry alone, `below` checkpoints of fewer entries than this.
        """
        largest = 0
        for theirs in self._cosigned.values() if not agency else [self._cosigned.get(agency, _Cosignatures())]:
            count = len(theirs.sizes) if before is None else bisect_left(theirs.entries, before)
            count = count if below is None else bisect_left(theirs.sizes, below, 0, count)
            largest = max(largest, theirs.sizes[count - 1] if count else 0)
        return largest

    def was_at_work(self, time_ms: int) -> None:
        """The node did something at this time, by its own clock, that no entry says."""
        self._work.extend(time_ms)

    def is_told(self, ticket: ChargedTicket) -> bool:
        """Whether the census agency itself shows to have had the cosignature that a charged answer waits for."""
        return self._told_ms(ticket) is not None

    def is_suppressed(self, ticket: ChargedTicket) -> bool:
        """Whether a charged answer that is not released should have been long ago."""
        told_ms = self._told_ms(ticket)
        if told_ms is None:
            return False
        theirs = self._cosigned.get(ticket.charge.health, _Cosignatures())
        place = bisect_right(theirs.sizes, ticket.index)
        if place < len(theirs.sizes) and theirs.is_overtaken(place):
            return True
        return self._judged_ms(theirs) - self._work.until_ms(told_ms) > SUPPRESSED_AFTER_MS

    def _told_ms(self, ticket: ChargedTicket) -> int | None:
        """When the census node had the cosignature, at the latest, by its own clock; None if it shows none."""
        agency, shown = ticket.charge.health, self.audit.shown
        theirs = self._cosigned.get(agency, _Cosignatures())
        place = bisect_right(theirs.sizes, ticket.index)
        if place < len(theirs.sizes):
            return theirs.times[place]
        if shown is None or agency not in shown.times or ticket.index >= shown.checkpoint.size:
            return None
        # The witness's clock says when, and may be behind. If it is by more, ages are not judged by it, see `_judged_ms`.
        return 1000 * shown.times[agency] + MOST_SKEW_MS

    def _judged_ms(self, theirs: _Cosignatures) -> int:
        """How long the node had worked when last its clock is known to have been right."""
        ahead_at = self.audit.ahead_at
        if ahead_at is None:
            return self._work.total_ms()
        place = bisect_left(theirs.sizes, ahead_at + 1)
        return self._work.until_ms(self.audit.times[theirs.sizes[place - 1] - 1]) if place else 0

    def _take_release(self, entry: Entry, event: Released) -> None:
        charged = self.audit.state.tickets[event.ticket]
        agency = charged.charge.health
        try:
            checked = self.audit.verify_past(event.checkpoint, cosigned_by=agency)
        except NoteError as error:
            if error.code == "NOT_COSIGNED":
                error = NoteError("RELEASE_NOT_COSIGNED", f"not {error.detail}")
            self.audit.report(error, "census", entry.sequence)
            return
        self.released_at[event.ticket] = entry.sequence
        if 1000 * checked.times[agency] > entry.time_ms + MOST_SKEW_MS:
            self._findings.problem("COSIGNED_LATER", "census", entry.sequence)
        theirs = self._cosigned.setdefault(agency, _Cosignatures())
        theirs.take(entry, charged_at=charged.index, size=checked.checkpoint.size)


@dataclass(frozen=True, slots=True)
class Leakage:
    """Charges, recomputed from the entries and nothing else."""

    accounting: str
    subject: str
    max_belief: str
    cap: int
    # Units of all answers, and the most that can have fallen on one person.
    charged_units: int
    worst_units: int
    # Whether that is true only if the ledger of persons, which nobody hands in, was kept by the rules.
    claimed: bool
    answers: int
    released: int
    is_shut_down: bool


def leakage_of(state: CensusState, ceiling: Ceiling) -> Leakage | None:
    """The figures of a log that was replayed; None if no policy was ever in force.

    Under strict accounting every charge falls on everybody, and the sum is proved. Under per-person accounting it is a ceiling:
    what somebody was charged who was in every sample that still fitted. That the ledger keeps it is the census agency's claim.
    """
    policy = state.policy
    if policy is None:
        return None
    return Leakage(
        accounting=policy.accounting,
        subject=policy.subject,
        max_belief=policy.max_belief,
        cap=policy.cap,
        charged_units=state.charged_units,
        worst_units=ceiling.units,
        claimed=state.charged_units > state.common_units,
        answers=state.answers,
        released=state.answers - len(state.unreleased),
        is_shut_down=state.shut_down,
    )
