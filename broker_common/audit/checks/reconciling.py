"""Query by query, and roster by roster: do the census log and the health log say the same, and did every answer go out?

An entry missing in one log is a problem only if that log was handed in late enough to have it. That is decided without
clocks: the health agency logs a submission before it sends a sample, so that an agency that shows a census checkpoint of n
entries must know every charge before entry n; and the same the other way round. Newer entries are pending.
"""

from __future__ import annotations

from collections import Counter

from broker_common.audit import texts
from broker_common.audit.checks.implied import ImpliedNotes
from broker_common.audit.findings import Findings, Report
from broker_common.audit.logs.census_log import CensusLog
from broker_common.audit.logs.disk_backed import DiskBackedMapping
from broker_common.audit.logs.health_log import HealthLog
from broker_common.tlog.census_state import ChargedTicket
from broker_common.tlog.health_state import AcceptedTicket


class Reconciling:
    """Both logs, ticket by ticket."""

    def __init__(
        self,
        census: CensusLog,
        health: HealthLog | None,
        *,
        agency: str,
        witnessed_size: int,
        implied: ImpliedNotes,
        findings: Findings,
    ) -> None:
        """`agency` is whose health log it is; `witnessed_size` is how long that was when the census agency last saw it."""
        self._census = census
        self._health = health
        self._agency = agency
        self._witnessed_size = witnessed_size
        self._implied = implied
        self._findings = findings
        self._others: Counter[str] = Counter()

    def compare(self, tickets: DiskBackedMapping[ChargedTicket], report: Report) -> None:
        for done, (ticket, charged) in enumerate(tickets.pairs()):
            if done % 256 == 0:
                report(done, len(tickets))
            self._compare_release(ticket, charged)
            is_theirs = charged.charge.health == self._agency
            if is_theirs:
                self._implied.take(ticket, charged)
            else:
                self._others[charged.charge.health] += 1
            # SECURITY: the word of the ticket's own agency counts, even if the charge names another.
            if self._health is not None and (is_theirs or ticket in self._health.audit.state.tickets):
                self._compare_sample(self._health, ticket, charged)
        report(1, 1)
        self._implied.compare()
        if self._health is not None:
            self._compare_rosters(self._health)
        for agency, count in sorted(self._others.items()):
            self._findings.skip(texts.OTHER_AGENCY, count=count, agency=agency)
        if self._health is not None:
            self._findings.wait("OPEN", "health", len(self._health.audit.state.open_tickets))

    def _compare_release(self, ticket: str, charged: ChargedTicket) -> None:
        if charged.answer:
            if not charged.delivered and not charged.expired:
                self._findings.wait("RELEASED", "census")
        elif not self._census.audit.is_complete:
            pass
        elif self._census.is_suppressed(charged):
            self._findings.problem("ANSWER_SUPPRESSED", "census", charged.index, f"query {charged.charge.query}")
        elif self._is_cosigned(charged) and not self._census.is_told(charged):
            # A cosignature that the health agency alone shows does not prove that the census agency was told.
            self._findings.wait("WITNESSED", "census")
        else:
            self._findings.wait("CHARGED", "census")
        settled_at = None if self._health is None else self._health.settled_at.get(ticket)
        if settled_at is not None and not charged.answer and self._census.audit.is_complete:
            if settled_at < self._witnessed_size:
                # One of them lies, and nothing here says which: a settlement names no proof of the release.
                detail = f"{_where(charged)}, entry {settled_at} of the health log"
                self._findings.problem("SETTLED_NOT_RELEASED", "", None, detail)
            else:
                self._findings.wait("UNSETTLED", "health")

    def _is_cosigned(self, charged: ChargedTicket) -> bool:
        """Whether the health agency says that it has cosigned a charge of its own."""
        health, charge = self._health, charged.charge
        return health is not None and charge.health == self._agency and charged.index < health.cosigned_size

    def _compare_sample(self, health: HealthLog, ticket: str, charged: ChargedTicket) -> None:
        accepted = health.audit.state.tickets.get(ticket)
        charge = charged.charge
        if accepted is None or (accepted.manifest, accepted.roster) != (charge.manifest, charge.roster):
            if charged.index >= health.seen_size:
                self._findings.wait("UNSEEN", "health")
            elif health.audit.is_complete:
                if accepted is None:
                    self._findings.problem("CHARGE_NOT_SUBMITTED", "census", charged.index, f"query {charge.query}")
                else:
                    self._findings.problem("MANIFEST_DIFFERS", "", None, _where(charged))
        if accepted is not None:
            self._compare_question(health, accepted, charged)

    def _compare_rosters(self, health: HealthLog) -> None:
        """Every roster of this agency that came into force was sent before, as the health log has it."""
        sent = health.audit.state.rosters_sent
        for index, roster in self._census.rosters:
            if roster.health != self._agency:
                continue
            theirs = sent.get(roster.number)
            if theirs is not None and theirs != roster:
                self._findings.problem("ROSTER_DIFFERS", "census", index, f"roster {roster.number}")
            elif theirs is None and index >= health.seen_size:
                self._findings.wait("ROSTER_UNSEEN", "health")
            elif theirs is None and health.audit.is_complete:
                self._findings.problem("ROSTER_NOT_SENT", "census", index, f"roster {roster.number}")

    def _compare_question(self, health: HealthLog, accepted: AcceptedTicket, charged: ChargedTicket) -> None:
        submission, charge = accepted.submission, charged.charge
        if (submission.query, submission.researcher, self._agency) != (charge.query, charge.researcher, charge.health):
            self._findings.problem("CHARGE_DIFFERS", "census", charged.index, f"query {charge.query}")
        theirs = health.audit.state.linkages.get(submission.load)
        if theirs != self._census.audit.state.linkages.get(charge.load):
            self._findings.problem("LINKAGE_DIFFERS", "census", charged.index, f"query {charge.query}")


def _where(charged: ChargedTicket) -> str:
    return f"query {charged.charge.query}, entry {charged.index} of the census log"
