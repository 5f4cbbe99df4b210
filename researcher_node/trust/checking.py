"""Whether the census agency keeps what its receipts promise: that the log of today goes on from the checkpoint of each.

    newest cosigned checkpoint <- goes on from - checkpoint of a receipt      every charge that was paid for is still there
                               <- goes on from - what was seen at an earlier check

A receipt's checkpoint was verified when the answer was received, and so was the charge in it. It is compared here with a log
that the census agency signed and the health agency cosigned, so that all researchers are shown the same log, by an RFC 6962
consistency proof. `broken` is said only of a log that contradicts itself: one that got shorter, another root, a proof that
does not lead from one to the other. Whatever keeps us from knowing (a node that does not answer, a checkpoint without its
signatures) leaves promises `unchecked`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

from broker_common.errors import BrokerError, PeerUnavailableError
from broker_common.language import phrase, phrase_of, said
from broker_common.tlog.merkle import verify_consistency
from broker_common.tlog.note import Checkpoint
from researcher_node import texts
from researcher_node.answers.listing import question_json
from researcher_node.answers.own_use import OwnUses
from researcher_node.answers.store import AskedQuestion, KeptReceipt
from researcher_node.trust.census_log import CensusLog, RememberedCheckpoint


class LogSession(Protocol):
    """A session in which the census node shows its log."""

    def census_log(self) -> CensusLog: ...
    async def cosigned_checkpoint(self) -> str: ...
    async def consistency_proof(self, old_size: int, size: int) -> Sequence[bytes]: ...


class Outcome(Enum):
    """Outcome of a promise."""

    HELD = "held"
    BROKEN = "broken"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True)
class Finding:
    """Outcome of one promise, and why it is not known or not kept; an empty problem means none."""

    outcome: Outcome
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """All findings of one check."""

    # The finding for each receipt that was to be checked, by query id.
    receipts: Mapping[str, Finding]
    # Whether the log goes on from what was seen at earlier checks.
    log: Finding
    # The newest cosigned checkpoint with its signatures, once they are verified, and its size; empty and 0 otherwise.
    checkpoint: str
    size: int
    # The error that kept something from being checked.
    failure: BrokerError | None

    def count(self, outcome: Outcome) -> int:
        return sum(finding.outcome is outcome for finding in self.receipts.values())

    @property
    def error(self) -> BrokerError | None:
        """The check's error after everything was printed; None if nothing is broken and nothing hindered it."""
        broken = self.count(Outcome.BROKEN)
        if broken:
            problem = phrase(texts.BROKEN_RECEIPTS, broken=broken, all=len(self.receipts))
            return PeerUnavailableError("PROMISE_BROKEN", problem=problem)
        if self.log.outcome is Outcome.BROKEN:
            return PeerUnavailableError("PROMISE_BROKEN", problem=self.log.problem)
        return self.failure


async def check_receipts(session: LogSession, seen: RememberedCheckpoint, receipts: Iterable[KeptReceipt]) -> Report:
    """Compare every receipt, and what was seen before, with the log as its node shows it now; remember what it shows.

    Raises:
        InvalidRequestError: FILE_UNUSABLE, what was seen before cannot be read.
    """
    before = seen.read()
    try:
        note = await session.cosigned_checkpoint()
        newest = session.census_log().verify_cosigned(note) if note else None
    except BrokerError as error:
        unknown = Finding(Outcome.UNCHECKED, phrase_of(error))
        return Report({receipt.query: unknown for receipt in receipts}, unknown, "", 0, error)
    comparing = _Comparing(session, newest)
    of_log = Finding(Outcome.HELD) if before is None else await comparing.with_older(before)
    if of_log.outcome is Outcome.HELD and newest is not None and newest != before:
        seen.replace(before, note)
    found = {receipt.query: await _check(receipt, comparing) for receipt in receipts}
    return Report(found, of_log, note, 0 if newest is None else newest.size, comparing.failure)


async def _check(receipt: KeptReceipt, comparing: _Comparing) -> Finding:
    if not receipt.signed_receipt:
        return Finding(Outcome.UNCHECKED, texts.NO_RECEIPT_YET)
    return await comparing.with_older(receipt.promised)


class _Comparing:
    """Older checkpoints with the newest one."""

    def __init__(self, session: LogSession, newest: Checkpoint | None) -> None:
        self._session = session
        self._newest = newest
        # The node's error instead of a proof. It is asked no more.
        self.failure: BrokerError | None = None

    async def with_older(self, older: Checkpoint) -> Finding:
        newest = self._newest
        if newest is None or newest.size < older.size:
            size = 0 if newest is None else newest.size
            return Finding(Outcome.BROKEN, phrase(texts.LOG_SHORTER, promised=older.size, size=size))
        if newest.size == older.size:
            is_same = newest == older
            return (
                Finding(Outcome.HELD) if is_same else Finding(Outcome.BROKEN, phrase(texts.LOG_OTHER, size=older.size))
            )
        if self.failure is not None:
            return Finding(Outcome.UNCHECKED, phrase_of(self.failure))
        try:
            proof = await self._session.consistency_proof(older.size, newest.size)
        except BrokerError as error:
            self.failure = error
            return Finding(Outcome.UNCHECKED, phrase_of(error))
        try:
            verify_consistency(older.size, older.root, newest.size, newest.root, proof)
        except ValueError as error:
            problem = phrase(texts.LOG_NOT_CONTINUED, promised=older.size, size=newest.size, problem=str(error))
            return Finding(Outcome.BROKEN, problem)
        return Finding(Outcome.HELD)


def checked_json(asked: AskedQuestion, report: Report, uses: OwnUses) -> dict[str, Any]:
    """A question with what became of the promise of its receipt."""
    finding = report.receipts[asked.query]
    return {**question_json(asked, uses), "check": finding.outcome.value, "problem": finding.problem or None}


def log_json(report: Report) -> dict[str, Any]:
    """Outcome for the log itself; `checkpoint` is the note that everything was compared with."""
    return {
        "check": report.log.outcome.value,
        "problem": report.log.problem or None,
        "size": report.size,
        "checkpoint": report.checkpoint or None,
    }


def report_text(questions: Sequence[AskedQuestion], report: Report, seen: Path) -> str:
    """A line for each question, then how many were held and what became of the log; `seen` is where its past is kept."""
    findings = [(asked.query, report.receipts[asked.query]) for asked in questions]
    lines = [
        said(texts.CHECKED, outcome=said(finding.outcome.value), query=query, problem=said(finding.problem)).rstrip()
        for query, finding in findings
    ]
    if lines:
        lines.append(said(texts.CHECKED_SUMMARY, **({outcome.value: report.count(outcome) for outcome in Outcome})))
    return "\n".join([*lines, _log_text(report, seen)])


def _log_text(report: Report, seen: Path) -> str:
    if report.log.outcome is Outcome.BROKEN:
        return said(texts.LOG_BROKEN, file=seen, problem=said(report.log.problem))
    if report.log.outcome is Outcome.UNCHECKED:
        return said(texts.LOG_UNCHECKED, problem=said(report.log.problem))
    return said(texts.LOG_HELD, size=report.size) if report.checkpoint else said(texts.LOG_EMPTY)
