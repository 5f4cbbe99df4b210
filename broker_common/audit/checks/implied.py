"""Which `cosigned` and `witnessed` have to be there, and of how long a log, by what is handed in beside them.

Left out, or replaced by an older one, such a note would hide what it proves. The parts are exported at different times,
each as of one instant, in any order. So a note is asked for only if its own part shows something that came after it:

1. A census node keeps a cosigned checkpoint before it names it in an entry, or in a quote that a charge uses.
2. A health node keeps a checkpoint that it has cosigned before anybody hears of it: before a ticket quotes it, and before
   an answer that waits for it is released. It learns of that release, or of a longer log, later.
3. A health node says what it has cosigned in a call that shows its own log as it is, and the census node cosigns that first.
4. A health node hears what was cosigned of its log before it cosigns what the same response shows.
5. If the census part shows more of what the health agency has cosigned than the health part does, it was exported later.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

from broker_common.audit.export.writing import COSIGNED, WITNESSED
from broker_common.audit.findings import Findings
from broker_common.audit.logs.census_log import CensusLog
from broker_common.audit.logs.health_log import HealthLog
from broker_common.audit.logs.signers import CheckedNote
from broker_common.tlog.census_state import ChargedTicket
from broker_common.tlog.entries import Entry, Forwarded, Settled, Submitted


class Steps:
    """Where the health log says that tickets were accepted and sent, and which releases it has heard of."""

    def __init__(
        self, census: CensusLog, submitted_at: MutableMapping[str, int], sent_at: MutableMapping[str, int]
    ) -> None:
        """The mappings, both empty, are where to keep what grows with the log: entries, by ticket."""
        self.submitted_at = submitted_at
        # The sending of the sample that the census log charges for.
        self.sent_at = sent_at
        # How long the census log was when the health node last heard that an answer is out.
        self.settled_size = 0
        self._census = census

    def take(self, entry: Entry) -> None:
        match entry.event:
            case Submitted(ticket=ticket):
                self.submitted_at[ticket] = entry.sequence
            case Forwarded(ticket=ticket, manifest=manifest):
                charged = self._census.audit.state.tickets.get(ticket)
                if charged is not None and charged.charge.manifest == manifest:
                    self.sent_at[ticket] = entry.sequence
            case Settled(ticket=ticket):
                self.settled_size = max(self.settled_size, self._census.released_at.get(ticket, -1) + 1)
            case _:
                pass


class Quotes:
    """The largest checkpoints that tickets name."""

    def __init__(self, agency: str, steps: Steps, health_seen: int) -> None:
        """`agency` is whose health log it is; `health_seen` is how much of it the census node shows to have cosigned."""
        self.agency = agency
        # Notes that the census node had quoted before its export: to any agency, and to this one.
        self.known = self.known_theirs = 0
        # Notes that this agency has cosigned and accepted a ticket under.
        self.accepted = 0
        self._steps = steps
        self._health_seen = health_seen

    def take(self, quote: CheckedNote, ticket: str, *, is_charged: bool) -> None:
        size, is_theirs = quote.checkpoint.size, self.agency in quote.times
        submitted_at = self._steps.submitted_at.get(ticket)
        if is_charged or (submitted_at is not None and submitted_at < self._health_seen):
            self.known = max(self.known, size)
            self.known_theirs = max(self.known_theirs, size if is_theirs else 0)
        if is_theirs and submitted_at is not None:
            self.accepted = max(self.accepted, size)


class ImpliedNotes:
    """The least sizes that the four notes must have; told of every charge for a sample of the health agency's."""

    def __init__(
        self,
        census: CensusLog,
        health: HealthLog | None,
        steps: Steps,
        seen: Mapping[str, CheckedNote],
        quotes: Quotes,
        findings: Findings,
    ) -> None:
        """`seen` has, by log, the newest checkpoint that the other agency shows to have cosigned."""
        self._findings = findings
        self._health = health
        self._steps = steps
        agency, shown = quotes.agency, census.audit.shown
        # None: there is one that does not hold, which is said elsewhere. 0: there is none.
        self._sizes: dict[str, int | None] = {}
        for role, log in (("census", census.audit), ("health", None if health is None else health.audit)):
            if log is not None:
                other = seen.get("health" if role == "census" else "census")
                for name, note in ((COSIGNED, log.shown), (WITNESSED, other)):
                    there = None if log.files.has(name) else 0
                    self._sizes[f"{role}/{name}"] = there if note is None else note.checkpoint.size
        # 1
        self._quoted = max(quotes.known, census.released_size())
        own = shown.checkpoint.size if shown is not None and agency in shown.times else 0
        # How much of the census log this agency had cosigned: as the census node was told; as the health agency says; as it
        # says that the census node has told it.
        self._told = max(own, quotes.known_theirs, census.released_size(agency))
        # 2
        self._cosigned = self._told_of_settled = 0
        if health is not None:
            self._cosigned = max(quotes.accepted, census.released_size(agency, before=health.seen_size))
            self._told_of_settled = max(self._cosigned, census.released_size(agency, before=steps.settled_size))
        # 4: the last checkpoint that it has cosigned, and the newest that it had cosigned before.
        self._last = max(self._told_of_settled, self._sizes.get(f"health/{WITNESSED}") or 0)
        self._before_last = max(own if own < self._last else 0, census.released_size(agency, below=self._last))
        # How much of the health log there was when all that is charged below a checkpoint had been sent.
        self._sent_when_told = self._sent_before_last = 0
        has_one_card_each = health is not None and census.audit.parties.own.cards == health.audit.parties.own.cards == 1
        # While a new card is under way, the health node cannot verify what it is told.
        self._is_heard = has_one_card_each

    def take(self, ticket: str, charged: ChargedTicket) -> None:
        sent_size = self._steps.sent_at.get(ticket, -1) + 1
        if charged.index < self._told:
            self._sent_when_told = max(self._sent_when_told, sent_size)
        if charged.index < self._before_last:
            self._sent_before_last = max(self._sent_before_last, sent_size)

    def compare(self) -> None:
        """Hold every note against the least size that it must have; every charge was taken in."""
        self._require(f"census/{COSIGNED}", self._quoted, "census")
        # 3
        least = max(self._sent_when_told, int(self._told > 0))
        witnessed = self._sizes.get(f"health/{WITNESSED}")
        if witnessed is not None and witnessed < self._told:
            # 5
            least = max(least, self._sizes.get(f"health/{COSIGNED}") or 0)
        self._require(f"census/{WITNESSED}", least, "")
        if self._health is None:
            return
        # SECURITY: that an answer is out, a lying census node may say too early. The rest the health agency has signed itself.
        self._require(
            f"health/{WITNESSED}", self._told_of_settled, "health" if (witnessed or 0) < self._cosigned else ""
        )
        if self._is_heard:
            self._require(f"health/{COSIGNED}", max(self._sent_before_last, int(self._last > 0)), "")

    def _require(self, name: str, least: int, log: str) -> None:
        size = self._sizes[name]
        if size is not None and size < least:
            there = f"is of {size} entries" if size else "is missing"
            self._findings.problem("NOTE_WITHHELD", log, None, f"{name} {there}, and must be of {least} at least")
