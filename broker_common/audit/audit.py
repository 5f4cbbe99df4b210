"""The whole of an audit, offline: three parts that were handed in, and the auditor's own home.

1. the census log, 2. the health log, each by itself (`log_audit`), 3. what each agency saw of the other's log, 4. receipts;
on replay: 5. opened criteria and openings, 6. both logs ticket by ticket (`reconciling`), and the notes beside them (`implied`), 7. on site: an
agency's private stores, by a check that the caller brings (`on_site`), 8. leakage, from the fold or as it was proved on site.
Nothing that is handed in is believed; everything that it says is signed, recomputed, or a problem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import msgspec

from broker_common.audit import texts
from broker_common.audit.checks.implied import ImpliedNotes, Quotes, Steps
from broker_common.audit.checks.openings import OpenedOnSite, check_criteria, check_openings, is_criteria
from broker_common.audit.checks.quoted import QuotedLog
from broker_common.audit.checks.receipts import ReceiptForms, Receipts
from broker_common.audit.checks.reconciling import Reconciling
from broker_common.audit.export.documents import check_dictionaries, is_dictionary
from broker_common.audit.export.reading import Part
from broker_common.audit.export.writing import COSIGNED, WITNESSED
from broker_common.audit.findings import Findings, Report
from broker_common.audit.home import AuditorHome
from broker_common.audit.logs.census_log import CensusLog, Leakage, leakage_of
from broker_common.audit.logs.disk_backed import DiskBackedMapping, DiskSpace
from broker_common.audit.logs.health_log import HealthLog, Uncharged
from broker_common.audit.logs.log_audit import ANYBODY, LogAudit
from broker_common.audit.logs.signers import CheckedNote, NoteError
from broker_common.audit.on_site.visit import AuditedLog, OnSite, SiteCheck
from broker_common.crypto.certificates import Role
from broker_common.crypto.commitments import hash_bytes
from broker_common.crypto.signing import VerifyKey
from broker_common.tlog.census_state import CensusState, ChargedTicket
from broker_common.tlog.entries import Adopted, DictionaryAdopted, Entry, Event, parse_entry
from broker_common.tlog.health_state import AcceptedTicket, HealthState
from broker_common.tlog.history import History
from broker_common.tlog.replay import Adoptions, LogState
from broker_common.values import ExactCounts


class KeyState(LogState):
    """Places, times, policies by name, and parties of a log of either agency."""

    def __init__(self, role: Role, identity_key: VerifyKey) -> None:
        super().__init__(identity_key)
        self.role = role
        self.adoptions: Adoptions = {}

    def _take(self, entry: Entry, event: Event) -> None:
        if isinstance(event, DictionaryAdopted):
            self.adoptions[event.document] = (entry.sequence, event)
        if isinstance(event, Adopted):
            self.policy_hash = hash_bytes(event.document.encode()).hex()


@dataclass(frozen=True, slots=True)
class Audited:
    """Result of an audit."""

    findings: Findings
    # The number of entries that hold, for each role.
    entries: Mapping[str, int]
    # None where nothing was replayed, or no policy was ever in force.
    leakage: Leakage | None = None
    # Charged tickets that researchers handed in, and commitments to criteria that were opened.
    tickets: int = 0
    criteria: int = 0
    # Answers whose noise was computed again; None where no openings were looked at.
    noise: int | None = None
    # Tickets that were forwarded and never charged; None where that cannot be told.
    uncharged: Uncharged | None = None
    # Findings of the private stores; None where nobody looked into any.
    on_site: OnSite | None = None
    # The history of each log, for people who read it.
    histories: Mapping[str, History] = field(default_factory=dict)


def verify_parts(parts: Mapping[str, Part], home: AuditorHome, report: Callable[[str], Report]) -> Audited:
    """Files, hashes, signatures and canonical forms."""
    findings = Findings()
    _require(parts, findings)
    trust = home.trust()
    with ExitStack() as stack:
        logs: dict[str, LogAudit[Any]] = {}
        for role in ("census", "health"):
            if role in parts:
                log = LogAudit(role, parts[role], KeyState(role, home.root(role)), trust, findings)
                stack.callback(log.close)
                log.read(report, others=_beside(role))
                log.verify_signed(home)
                check_dictionaries(role, parts[role], log.state.adoptions, log.is_complete, findings)
                logs[role] = log
        _verify_seen(logs, home, findings)
        if "researcher" in parts and "census" in logs:
            ReceiptForms(logs["census"], findings).read(parts["researcher"], report(texts.READING_RECEIPTS))
        findings.skip(texts.NOT_REPLAYED)
        return Audited(findings, {role: log.state.size for role, log in logs.items()})


def replay_parts(
    parts: Mapping[str, Part],
    home: AuditorHome,
    report: Callable[[str], Report],
    opened: OpenedOnSite | None = None,
    site: tuple[SiteCheck, int] | None = None,
) -> Audited:
    """Everything that can be said without looking at anybody's records; with openings also of the noise.

    `site` is a check of the census agency's private stores, and the auditor's clock.
    """
    findings = Findings()
    _require(parts, findings)
    if "census" not in parts:
        return Audited(findings, {})
    with ExitStack() as stack:
        return _replay(parts, home, report, opened, site, findings, stack)


def _replay(
    parts: Mapping[str, Part],
    home: AuditorHome,
    report: Callable[[str], Report],
    opened: OpenedOnSite | None,
    site: tuple[SiteCheck, int] | None,
    findings: Findings,
    stack: ExitStack,
) -> Audited:
    space = stack.enter_context(DiskSpace())
    trust = home.trust()
    charged: DiskBackedMapping[ChargedTicket] = space.mapping(msgspec.msgpack.encode, _decoder(ChargedTicket))
    # 1
    census_audit = LogAudit(
        "census",
        parts["census"],
        CensusState(home.root("census"), tickets=charged, ticket_of_query=space.mapping(str.encode, bytes.decode)),
        trust,
        findings,
    )
    released_at, delivered_at, submitted_at, sent_at = (
        space.mapping(msgspec.msgpack.encode, _decoder(int)) for _ in range(4)
    )
    census = CensusLog(census_audit, released_at, delivered_at, findings)
    stack.callback(census.close)
    quoted = QuotedLog(census_audit)
    stack.callback(quoted.close)
    histories = {"census": History(), "health": History()}
    census_audit.read(
        report,
        others=_beside("census"),
        take=_each(census.take, quoted.take, partial(histories["census"].take, census_audit.state)),
    )
    census_audit.verify_signed(home)
    linkages = check_dictionaries(
        "census", parts["census"], census_audit.state.adoptions, census_audit.is_complete, findings
    )
    census.verify_linkages(linkages)
    logs: dict[str, LogAudit[Any]] = {"census": census_audit}
    steps = Steps(census, submitted_at, sent_at)
    # 2
    health: HealthLog | None = None
    if "health" in parts:
        accepted: DiskBackedMapping[AcceptedTicket] = space.mapping(msgspec.msgpack.encode, _decoder(AcceptedTicket))
        health_audit = LogAudit(
            "health",
            parts["health"],
            HealthState(home.root("health"), tickets=accepted, ticket_of_query=space.mapping(str.encode, bytes.decode)),
            trust,
            findings,
        )
        stack.callback(health_audit.close)
        health = HealthLog(health_audit, space.mapping(msgspec.msgpack.encode, _decoder(int)), census, findings)
        told = partial(histories["health"].take, health_audit.state)
        health_audit.read(report, others=_beside("health"), take=_each(steps.take, health.take, told))
        health_audit.verify_signed(home)
        check_dictionaries("health", parts["health"], health_audit.state.adoptions, health_audit.is_complete, findings)
        logs["health"] = health_audit
    # 3
    seen = _verify_seen(logs, home, findings)
    if health is not None and "census" in seen:
        health.cosigned_size = seen["census"].checkpoint.size
        health.seen_size = max(health.seen_size, health.cosigned_size)
    if "health" in seen:
        # A witness that cosigns is at work.
        census.was_at_work(1000 * max(seen["health"].times.values()))
    # 4
    witnessed_size = seen["health"].checkpoint.size if "health" in seen else 0
    quotes = Quotes(home.agency("health"), steps, witnessed_size)
    receipts = Receipts(census, health, space.mapping(str.encode, bytes.decode), quotes, quoted, findings)
    if "researcher" in parts:
        receipts.read(parts["researcher"], report(texts.READING_RECEIPTS))
        receipts.finish()
    # 5
    criteria = 0 if health is None else check_criteria(parts["health"], health.audit.state, findings)
    noise = None if opened is None else check_openings(opened, census, receipts.answers, findings)
    # 6
    if health is not None and census_audit.is_complete and not health.refusals.is_empty:
        _judge_refusals(health, census_audit, home, space, witnessed_size, findings)
    Reconciling(
        census,
        health,
        agency=home.agency("health"),
        witnessed_size=witnessed_size,
        implied=ImpliedNotes(census, health, steps, seen, quotes, findings),
        findings=findings,
    ).compare(charged, report(texts.RECONCILING))
    if census_audit.ahead_at is not None:
        findings.skip(texts.CLOCK_AHEAD, entry=census_audit.ahead_at)
    # 7
    on_site = None if site is None else _check_site(site, census_audit, opened, findings, report)
    _say_not_checked(
        findings, charged=len(charged), tickets=receipts.charged, criteria=criteria, noise=noise, on_site=on_site
    )
    # 8
    leakage = _leakage(census, on_site, findings)
    return Audited(
        findings,
        {role: log.state.size for role, log in logs.items()},
        leakage,
        receipts.charged,
        criteria,
        noise,
        None if health is None else health.uncharged,
        on_site,
        histories,
    )


def _leakage(census: CensusLog, on_site: OnSite | None, findings: Findings) -> Leakage | None:
    """The leakage that the log allows; figures counted on site replace claims."""
    leakage = leakage_of(census.audit.state, census.ceiling)
    if leakage is None:
        return None
    if on_site is not None and on_site.worst_charged is not None:
        is_claimed = leakage.claimed and not on_site.is_proved
        return replace(leakage, worst_units=on_site.worst_charged, claimed=is_claimed)
    if leakage.claimed:
        findings.skip(texts.LEDGERS_NOT_CHECKED)
    return leakage


def _judge_refusals(
    health: HealthLog,
    census: LogAudit[CensusState],
    home: AuditorHome,
    space: DiskSpace,
    witnessed_size: int,
    findings: Findings,
) -> None:
    """Every refusal of a sample, held against the census log, which is folded once more."""
    again = CensusState(
        home.root("census"),
        tickets=space.mapping(msgspec.msgpack.encode, _decoder(ChargedTicket)),
        ticket_of_query=space.mapping(str.encode, bytes.decode),
    )
    entries = _entries(census, findings)
    health.judged = health.refusals.judge(entries, census.times.__getitem__, again, witnessed_size)
    for code, count in sorted(health.judged.untold.items()):
        findings.skip(texts.REFUSAL_NOT_RECOMPUTED, count=count, code=code)


def _check_site(
    site: tuple[SiteCheck, int],
    census: LogAudit[CensusState],
    opened: OpenedOnSite | None,
    findings: Findings,
    report: Callable[[str], Report],
) -> OnSite:
    def is_opened_count(ticket: str, exact: ExactCounts) -> bool | None:
        return None if opened is None else opened.states(ticket, exact)

    check, now_ms = site
    return check(AuditedLog(lambda: _entries(census, findings), is_opened_count, now_ms), findings, report)


def _entries(log: LogAudit[CensusState], findings: Findings) -> Iterator[Entry]:
    """The folded entries, read again."""
    for index in range(log.state.size):
        data = log.files.entry(index)
        if not data:
            # It could be read a moment ago.
            findings.problem("ENTRY_DAMAGED", log.role, index)
            return
        yield parse_entry(data)


def _require(parts: Mapping[str, Part], findings: Findings) -> None:
    for role in ("census", "health"):
        if role not in parts:
            findings.problem("EXPORT_MISSING", role)
    if "researcher" not in parts:
        findings.skip(texts.NO_RECEIPTS)


def _verify_seen(logs: Mapping[str, LogAudit[Any]], home: AuditorHome, findings: Findings) -> dict[str, CheckedNote]:
    """Step 3; gives, by log, the newest checkpoint that the other agency says itself that it has cosigned."""
    seen: dict[str, CheckedNote] = {}
    for role, log in logs.items():
        other = logs.get("health" if role == "census" else "census")
        _take_cosigned(role, log, findings)
        if other is None or not other.files.has(WITNESSED):
            continue
        if not other.is_complete:
            findings.skip(texts.WITNESS_UNKNOWN, role=role)
            continue
        note = other.files.read_note(WITNESSED)
        if note is None:
            continue
        try:
            seen[role] = log.verify_past(
                note,
                cosigned_by=home.agency(other.role),
                witness=other.parties.own_witness(0),
            )
        except NoteError as error:
            log.report(error, other.role, None, WITNESSED)
        else:
            log.note_cosigned(seen[role])
    for role, log in logs.items():
        findings.wait("ENTRIES", role, max(0, log.state.size - log.cosigned_size))
    return seen


def _take_cosigned(role: str, log: LogAudit[Any], findings: Findings) -> None:
    """The newest checkpoint that the log's own node says that the other agency has cosigned."""
    if not log.files.has(COSIGNED):
        findings.skip(texts.NOT_COSIGNED, role=role)
        return
    note = log.files.read_note(COSIGNED)
    if note is None:
        return
    try:
        checked = log.verify_past(note, cosigned_by=ANYBODY)
    except NoteError as error:
        log.report(error, role, None, COSIGNED)
    else:
        log.note_cosigned(checked)
        log.shown = checked


def _say_not_checked(
    findings: Findings, *, charged: int, tickets: int, criteria: int, noise: int | None, on_site: OnSite | None
) -> None:
    if noise is None:
        findings.skip(texts.NOISE_NOT_CHECKED)
    elif noise < charged:
        findings.skip(texts.NOISE_OF_SOME_NOT_CHECKED, count=charged - noise, all=charged)
    if on_site is None:
        findings.skip(texts.PERSONS_NOT_CHECKED)
    if noise is not None:
        counts = 0 if on_site is None else on_site.counts_checked
        if not counts:
            findings.skip(texts.COUNTS_NOT_CHECKED)
        elif counts < charged:
            findings.skip(texts.COUNTS_OF_SOME_NOT_CHECKED, count=charged - counts, all=charged)
    if tickets < charged:
        findings.skip(texts.TICKETS_NOT_CHECKED, count=charged - tickets, all=charged)
    if criteria < charged:
        findings.skip(texts.CRITERIA_NOT_CHECKED, count=charged - criteria, all=charged)


def _decoder(kind: type[Any]) -> Callable[[bytes], Any]:
    return msgspec.msgpack.Decoder(kind).decode


def _each(*listeners: Callable[[Entry], None]) -> Callable[[Entry], None]:
    def take(entry: Entry) -> None:
        for listener in listeners:
            listener(entry)

    return take


def _beside(role: str) -> Callable[[str], bool]:
    """Which further files stand beside a log."""
    return lambda name: is_dictionary(name) or (role == "health" and is_criteria(name))
