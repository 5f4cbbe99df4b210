"""On-site replay: the census agency's private stores, person by person, against the log that it handed in.

The ledger's history is walked from its first row to its last, beside the log:

1. every charge to persons and every load has its row, and no row is without its entry,
2. the digest of each row follows from the row before it; a charge's is the one that the log states,
3. a sample that is kept is the one that the log commits to, and so is who is active,
4. everybody here is found from the sample's roster and the load that it was charged on; who is active is decided again (`accounts`)
   and compared,
5. a count that was opened is counted again, and nobody is told but whether it is right,
6. whatever snapshot is there holds what was worked out, and the newest one is there.

If the roster or load of a charge is gone, only the active persons are known: they are charged, and nobody counts as checked.

Membership is erased when its time has come. Beyond a charge that is erased the walk goes on from the next snapshot, whose hash
stands in the chain of digests: back from it, charge by charge, to what was charged before the first that is kept. How much
that was is the agency's word, and is said; that nobody was skipped since is not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt

from broker_common.audit import texts
from broker_common.audit.findings import Findings, Report
from broker_common.audit.on_site.accounts import Accounts, Chosen, Members, Numbers
from broker_common.audit.on_site.files import DamagedError, KeptSample, Load, Roster
from broker_common.audit.on_site.store import SiteStore, Step, opened_store
from broker_common.audit.on_site.visit import AuditedLog, OnSite
from broker_common.crypto.commitments import commit_active, commit_sample
from broker_common.errors import InvalidRequestError
from broker_common.privacy.policy import Policy, Subject, parse_policy
from broker_common.query.question import parse_question
from broker_common.tlog.cosignature import MOST_SKEW_MS
from broker_common.tlog.entries import Adopted, Charged, Entry, Loaded, Relinked, Rostered
from broker_common.values import ExactCounts

ReadT = TypeVar("ReadT")
_ROLE = "census"


def check(home: Path, log: AuditedLog, findings: Findings, report: Callable[[str], Report]) -> OnSite:
    """Hold the private stores of a census home against a log; works with its node up or down.

    Raises:
        InvalidRequestError: HOME_INVALID, CONFIG_INVALID; INVALID_VALUE, it is the home of another log.
        InternalError: STORE_FAILED, INTEGRITY; the database cannot be read.
        RefusedError: BUSY.
    """
    with opened_store(home) as store:
        first, own = next(log.entries(), None), next(store.log_entries(), None)
        if first is None or first != own:
            raise InvalidRequestError(
                "INVALID_VALUE", name=str(home), problem=texts.OTHER_HOME, remedy=texts.OTHER_HOME_REMEDY
            )
        return _LedgerWalk(store, log, findings, report(texts.CHECKING_ON_SITE)).run()


@dataclass(frozen=True, slots=True)
class _Event:
    """An entry that has a row in the ledger's history, or changes the linkage key, which has none."""

    kind: Literal["charge", "load", "relink"]
    entry: int
    event: Charged | Loaded | Relinked
    # False: newer than what was handed in.
    audited: bool = True
    # For a charge: the time until which membership is kept.
    kept_until_ms: int = 0
    # For a charge: the policy that decided it, and the charge of everybody by then.
    policy: Policy | None = None
    floor: int = 0


class _LedgerWalk:
    def __init__(self, store: SiteStore, log: AuditedLog, findings: Findings, report: Report) -> None:
        self._store, self._log, self._findings, self._report = store, log, findings, report
        # None where it is not known what everybody was charged.
        self._accounts: Accounts | None = Accounts()
        self._digest = bytes(32)
        # Snapshots that are there, by the last step that they hold.
        self._snapshots: dict[int, list[Step]] = {}
        self._newest: Step | None = None
        # The entry of the last step; of the log: the time of its last entry, its rules, and what everybody was charged.
        self._entry: int | None = None
        self._time_ms = 0
        self._policy: Policy | None = None
        self._floor = 0
        # The subject of the first charge.
        self._subject: Subject | None = None
        # For each load: the entry that puts it in force, its commitment, and the hash of its dictionary.
        self._loads: dict[str, tuple[int, str, str]] = {}
        self._load: tuple[str, Load | None] = ("", None)
        # Every roster that was in force and its entry, by health agency and number.
        self._rosters: dict[tuple[str, int], tuple[int, Rostered]] = {}
        self._roster: tuple[int, Roster | None] = (-1, None)
        # Erased charges that, by the auditor's clock, should not have been: entry, and until when they are to be kept.
        self._early: list[tuple[int, int]] = []
        # The row of the snapshot that the walk went on from without having worked out what it says; 0 for none.
        self._taken_up = 0
        self._committed = 0
        self._told: set[tuple[str, int | None]] = set()
        self._tally: Counter[str] = Counter()
        self._compared: set[int] = set()

    def run(self) -> OnSite:
        self._find_snapshots()
        self._compare(0)
        size = self._store.size
        for done, (event, step) in enumerate(self._pairs()):
            self._report(done, size + 1)
            if event is not None and not event.audited:
                self._tally["newer"] += 1
            elif self._tally["newer"]:
                # A snapshot among what is newer.
                continue
            elif event is None:
                assert step is not None  # noqa: S101 - a pair is never empty
                self._take_snapshot(step)
            elif step is None:
                self._take_without_row(event)
            else:
                self._take(event, step)
            if step is not None and not self._tally["newer"]:
                self._compare(step.place)
        self._report(1, 1)
        return self._finish()

    # --- the log beside the history --------------------------------------------------------------------------------

    def _events(self) -> Iterator[_Event]:
        """Events that the history must have rows for; then those of the home's own log beyond the hand-in."""
        size, dictionary = 0, ""
        for entry in self._log.entries():
            size, self._time_ms = entry.sequence + 1, entry.time_ms
            match entry.event:
                case Adopted(document=document):
                    self._policy = parse_policy(document.encode())
                case Charged(ledger="", units=units):
                    self._floor += units
                case Charged():
                    assert self._policy is not None  # noqa: S101 - the log's rules admit no charge without one
                    kept_until_ms = entry.time_ms + self._policy.sample_retention_ms
                    yield _Event(
                        "charge",
                        entry.sequence,
                        entry.event,
                        kept_until_ms=kept_until_ms,
                        policy=self._policy,
                        floor=self._floor,
                    )
                case Loaded() | Relinked():
                    if isinstance(entry.event, Loaded):
                        dictionary = entry.event.dictionary
                    self._loads[entry.event.load] = (entry.sequence, entry.event.commitment, dictionary)
                    yield _Event(_kind(entry.event), entry.sequence, entry.event)
                case Rostered(health=health, number=number):
                    self._rosters[health, number] = (entry.sequence, entry.event)
                case _:
                    pass
        for entry in self._store.log_entries(size):
            if _is_followed(entry):
                assert isinstance(entry.event, Charged | Loaded | Relinked)  # noqa: S101 - see _is_followed
                yield _Event(_kind(entry.event), entry.sequence, entry.event, audited=False)

    def _pairs(self) -> Iterator[tuple[_Event | None, Step | None]]:
        """Every event with its row, and snapshots in between; what has no partner is reported or stands alone."""
        events = self._events()
        event = next(events, None)
        for step in self._store.steps():
            if step is None:
                self._problem("LEDGER_STEP_WRONG", self._entry)
                continue
            while event is not None and not _is_of(event, step) and not self._comes_later(event, step):
                yield event, None
                event = next(events, None)
            if step.kind == "snapshot":
                yield None, step
                continue
            if event is None or not _is_of(event, step):
                self._problem("LEDGER_STEP_WRONG", self._entry, texts.ROW.format(place=step.place))
                continue
            yield event, step
            event = next(events, None)
        while event is not None:
            yield event, None
            event = next(events, None)

    def _comes_later(self, event: _Event, step: Step) -> bool:
        if isinstance(event.event, Charged):
            return self._store.charged_after(step.place, event.event.ticket)
        return event.kind == "load" and self._store.has_after(step.place, "load")

    def _find_snapshots(self) -> None:
        for step in self._store.snapshots():
            self._newest = step
            if step.file:
                self._snapshots.setdefault(step.covers, []).append(step)

    def _is_covered(self, step: Step) -> bool:
        """Whether a snapshot that is there holds this step."""
        return step.place <= max(self._snapshots, default=0)

    # --- one step --------------------------------------------------------------------------------------------------

    def _take_without_row(self, event: _Event) -> None:
        self._entry = event.entry
        if isinstance(event.event, Relinked):
            self._take_relink(event.event)
            return
        self._problem("LEDGER_STEP_MISSING", event.entry)
        self._accounts = None
        if isinstance(event.event, Charged):
            self._digest = bytes.fromhex(event.event.ledger)
            self._subject = None if event.policy is None else event.policy.subject

    def _take(self, event: _Event, step: Step) -> None:
        self._entry = event.entry
        match event.event:
            case Charged():
                self._take_charge(event, event.event, step)
            case Loaded():
                self._chain(_digest(self._digest, "load", step.content), step)
                self._take_load(event.event, step)
            case Relinked():
                raise AssertionError("a change of the linkage key has no row")

    def _chain(self, expected: bytes, step: Step) -> None:
        if step.digest != expected:
            self._problem("LEDGER_DIGEST", self._entry)
        # The next step is compared with the expected digest: one change is reported once.
        self._digest = expected

    def _take_snapshot(self, step: Step) -> None:
        if not 0 <= step.covers < step.place:
            self._problem("LEDGER_STEP_WRONG", self._entry, texts.ROW.format(place=step.place))
            return
        self._chain(_digest(self._digest, "snapshot", step.covers.to_bytes(8, "big"), step.content), step)

    def _take_load(self, event: Loaded, step: Step) -> None:
        accounts = self._accounts
        if accounts is None:
            self._believe_carry()
            return
        self._accounts = None
        if not step.file and self._is_covered(step):
            self._believe_carry()
            return
        try:
            carry = self._read(step, self._store.carry)
            if carry is None:
                self._believe_carry()
                return
            accounts.grow(carry.person_count, carry.household_count, self._subject)
        except (DamagedError, ValueError):
            self._problem("CARRY_WRONG", self._entry)
            return
        load = self._load_of(event.load)
        taken = ((carry.person_to, carry.person_from), (carry.household_to, carry.household_from))
        if load is None:
            accounts.forget_names()
        else:
            moved = accounts.see(*load.link(accounts.names), load.homes())
            is_whole = all(_holds(pairs, *columns) for pairs, columns in zip(moved, taken, strict=True))
            if not is_whole or (carry.person_count, carry.household_count) != (load.person_count, load.household_count):
                self._problem("CARRY_WRONG", self._entry)
        if not accounts.is_followed:
            self._believe_carry()
        accounts.inherit(*taken[0 if self._subject == "person" else 1])
        self._accounts = accounts

    def _believe_carry(self) -> None:
        # Before the first charge there is nothing to take over.
        if self._committed:
            self._tally["carries"] += 1

    def _take_relink(self, event: Relinked) -> None:
        accounts = self._accounts
        if accounts is None:
            return
        keys = self._store.linkage_steps(event.previous, event.linkage)
        if keys is None and not accounts.people_charged:
            # A whole other chain took its place: nobody has a charge that could have become somebody else's.
            accounts.forget_names()
            return
        if keys is None:
            self._tally["blind"] += 1
            self._findings.skip(texts.LINKAGE_KEYS_NOT_THERE, entry=str(self._entry))
            accounts.forget_names()
            return
        accounts.step([key.step for key in keys])
        load = self._load_of(event.load)
        # SECURITY: another key makes nobody another subject, whose charge would be somebody else's.
        if load is not None and any(len(pairs) for pairs in accounts.see(*load.link(accounts.names), load.homes())):
            self._problem("CARRY_WRONG", self._entry)

    def _take_charge(self, event: _Event, charge: Charged, step: Step) -> None:
        expected = _digest(
            self._digest,
            "charge",
            bytes.fromhex(charge.ticket),
            charge.units.to_bytes(8, "big"),
            bytes.fromhex(charge.submitted),
            bytes.fromhex(charge.active),
        )
        stated = (charge.ledger, charge.active)
        if expected != step.digest or (step.digest.hex(), step.content.hex()) != stated:
            self._problem("LEDGER_DIGEST", event.entry)
        self._digest = bytes.fromhex(charge.ledger)
        self._committed = step.place
        self._subject = None if event.policy is None else event.policy.subject
        if step.price != charge.units:
            self._problem("LEDGER_STEP_WRONG", event.entry, texts.ROW.format(place=step.place))
        if not step.file:
            if not self._is_covered(step):
                self._problem("ERASED_EARLY", event.entry)
            elif event.kept_until_ms > self._log.now_ms + MOST_SKEW_MS:
                self._early.append((event.entry, event.kept_until_ms))
            self._erased()
            return
        try:
            kept = self._read(step, self._store.sample)
        except DamagedError:
            self._problem("SAMPLE_WRONG", event.entry)
            self._accounts = None
            return
        if kept is None:
            self._tally["gone"] += 1
            self._erased()
        else:
            self._take_sample(event, charge, step, kept)

    def _erased(self) -> None:
        self._tally["erased"] += 1
        self._accounts = None

    def _take_sample(self, event: _Event, charge: Charged, step: Step, kept: KeptSample) -> None:
        entry, ticket_hash = event.entry, bytes.fromhex(charge.ticket)
        # 3
        logged = self._rosters[charge.health, charge.roster][1]
        submitted = commit_sample(kept.salt, ticket_hash, bytes.fromhex(logged.manifest), kept.bits)
        if submitted.hex() != charge.submitted:
            self._problem("SAMPLE_WRONG", entry)
            self._accounts = None
            return
        is_committed = commit_active(kept.active_salt, ticket_hash, kept.active).hex() == charge.active
        if not is_committed:
            self._problem("ACTIVE_WRONG", entry)
        # 4
        if self._accounts is None:
            self._accounts = self._rewound(charge, step)
        load, active = self._load_of(charge.load), kept.chosen
        counts = {load.person_count if load is not None else kept.persons}
        if self._accounts is not None:
            counts.add(self._accounts.persons)
        if counts != {kept.persons}:
            self._problem("ACTIVE_WRONG", entry)
            self._accounts = None
            return
        try:
            sample = self._members(charge, kept, load)
        except DamagedError:
            self._problem("SAMPLE_WRONG", entry)
            self._accounts = None
            return
        self._decide(event, charge, sample, active)
        # 5
        if load is not None and is_committed:
            self._count(charge, load, active, entry)

    def _members(self, charge: Charged, kept: KeptSample, load: Load | None) -> Members | None:
        """Who is in a sample; None if its roster or its load is gone."""
        roster = self._roster_of(charge)
        if roster is None:
            return None
        names = roster.chosen(kept.bits)
        return None if load is None else load.members(names)

    def _decide(self, event: _Event, charge: Charged, sample: Members | None, active: Chosen) -> None:
        accounts, policy = self._accounts, event.policy
        assert policy is not None  # noqa: S101 - a charge that was audited has one
        homes = self._homes_of(charge, policy.subject)
        if sample is None:
            self._tally["unlinked"] += 1
        if accounts is None or homes is None:
            self._tally["undecided"] += sample is not None
            self._accounts = None
            return
        here = active if sample is None else sample.here(accounts.persons)
        room, subject = policy.cap - event.floor, policy.subject
        should = accounts.decide(here, homes, price=charge.units, room=room, subject=subject)
        if (should & ~active).any():
            self._problem("CHARGE_SKIPPED", event.entry)
        if (active & ~should).any():
            self._problem("PERSON_CAP_PASSED", event.entry)
        # SECURITY: those who were counted have been spent, those who were left out should have been.
        accounts.charge(should | active, homes, price=charge.units, subject=subject)
        if sample is None:
            # Nobody knows by which cards.
            accounts.is_followed = False
        else:
            accounts.meet(sample)
            self._tally["checked"] += 1

    def _homes_of(self, charge: Charged, subject: Subject) -> Numbers | None:
        """The household that a charge falls on, by person; empty if it falls on persons, None if it is not known."""
        if subject == "person":
            return np.empty(0, np.uint32)
        load = self._load_of(charge.load)
        return None if load is None else load.homes()

    def _count(self, charge: Charged, load: Load, active: Chosen, entry: int) -> None:
        counted = None
        # SECURITY: by the load's own dictionary; read under another one the agency would stand accused.
        with suppress(InvalidRequestError):
            counted = load.count(active, parse_question(charge.question, load.dictionary))
        is_right = self._log.is_opened_count(charge.ticket, ExactCounts([0]) if counted is None else counted)
        if is_right is None:
            return
        self._tally["counts"] += 1
        # No count of something that the dictionary does not have is right.
        if counted is None or not is_right:
            self._problem("COUNT_WRONG", entry)

    # --- snapshots -------------------------------------------------------------------------------------------------

    def _compare(self, place: int) -> None:
        """Hold every snapshot of everything up to this step against what was worked out."""
        for step in self._snapshots.get(place, []):
            self._compared.add(step.place)
            try:
                snapshot = self._table_of(step)
            except DamagedError:
                self._problem("SNAPSHOT_WRONG", self._entry)
                continue
            if snapshot is None:
                continue
            if self._accounts is None:
                self._taken_up, self._accounts = step.place, snapshot
            elif not self._accounts.is_same(snapshot):
                self._problem("SNAPSHOT_WRONG", self._entry)

    def _rewound(self, charge: Charged, first: Step) -> Accounts | None:
        """Everybody's charges before a step, from the next snapshot; None if other steps than charges lead to it."""
        covers = min((place for place in self._snapshots if place >= first.place), default=0)
        if not covers or not self._store.is_kept(first.place, covers) or self._subject is None:
            return None
        snapshot = self._snapshots[covers][0]
        # No load came between.
        homes = self._homes_of(charge, self._subject)
        try:
            accounts = self._table_of(snapshot)
            for step in self._store.steps(first.place, covers):
                if accounts is None or homes is None or step is None:
                    return None
                if step.kind == "charge":
                    kept = self._store.sample(step)
                    if kept.persons != accounts.persons:
                        return None
                    accounts.take_back(kept.chosen, homes, price=step.price, subject=self._subject)
        except DamagedError:
            # It is told where the walk comes by.
            return None
        except ValueError:
            self._problem("SNAPSHOT_WRONG", self._entry)
            return None
        self._taken_up = snapshot.place
        return accounts

    def _table_of(self, step: Step) -> Accounts | None:
        """Content of a snapshot; DamagedError if it has none, or has charges of others than are charged."""
        snapshot = self._read(step, self._store.snapshot)
        if snapshot is not None and not snapshot.is_of(self._subject):
            raise DamagedError
        return snapshot

    # --- files -----------------------------------------------------------------------------------------------------

    def _load_of(self, load: str) -> Load | None:
        if self._load[0] != load:
            entry, commitment, dictionary = self._loads[load]
            found: Load | None = None
            try:
                found = self._store.load(load, commitment, dictionary)
            except DamagedError:
                self._problem("REGISTRY_WRONG", entry)
            self._load = (load, found)
        return self._load[1]

    def _roster_of(self, charge: Charged) -> Roster | None:
        entry, logged = self._rosters[charge.health, charge.roster]
        if self._roster[0] != entry:
            found: Roster | None = None
            try:
                found = self._store.roster(logged)
            except DamagedError:
                self._problem("ROSTER_WRONG", entry)
            self._roster = (entry, found)
        return self._roster[1]

    def _read(self, step: Step, read: Callable[[Step], ReadT]) -> ReadT | None:
        """A step's file; None if it was erased while we were at it."""
        try:
            return read(step)
        except DamagedError:
            if step.file and not self._store.names_still(step):
                return None
            raise

    # --- what is said ----------------------------------------------------------------------------------------------

    def _problem(self, code: str, entry: int | None, detail: str = "") -> None:
        if (code, entry) not in self._told:
            self._told.add((code, entry))
            self._findings.problem(code, _ROLE, entry, detail)

    def _finish(self) -> OnSite:
        tally, newest = self._tally, self._newest
        for entry, kept_until_ms in self._early:
            # The home goes by its log's time where that is ahead of its clock.
            if kept_until_ms > self._time_ms:
                self._problem("ERASED_EARLY", entry)
        if newest is not None and not newest.file:
            self._problem("SNAPSHOT_WRONG", self._entry)
        elif newest is not None and newest.place not in self._compared:
            self._findings.skip(texts.SNAPSHOT_NOT_CHECKED)
        for what, text in (
            ("erased", texts.MEMBERSHIP_ERASED),
            ("gone", texts.MEMBERSHIP_GONE),
            ("undecided", texts.CHARGES_NOT_DECIDED),
            ("unlinked", texts.SUBJECTS_NOT_CHECKED),
            ("carries", texts.CARRIES_NOT_CHECKED),
            ("newer", texts.STEPS_NEWER),
        ):
            if tally[what]:
                self._findings.skip(text, count=tally[what])
        if self._taken_up > self._committed:
            self._findings.skip(texts.SNAPSHOT_NOT_COMMITTED)
        self._findings.skip(texts.REGISTRY_NOT_CHECKED)
        people = worst = None
        if self._accounts is not None:
            people = self._accounts.people_charged
            worst = self._floor + self._accounts.most_charged
        is_open = any(tally[what] for what in ("erased", "undecided", "unlinked", "carries", "blind"))
        is_proved = worst is not None and not is_open and not self._told
        return OnSite(tally["checked"], tally["erased"], people, worst, is_proved, tally["counts"])


def _is_followed(entry: Entry) -> bool:
    event = entry.event
    return isinstance(event, Loaded | Relinked) or (isinstance(event, Charged) and event.ledger != "")


def _kind(event: Charged | Loaded | Relinked) -> Literal["charge", "load", "relink"]:
    match event:
        case Charged():
            return "charge"
        case Loaded():
            return "load"
        case Relinked():
            return "relink"


def _is_of(event: _Event, step: Step) -> bool:
    return event.kind == step.kind and (not isinstance(event.event, Charged) or event.event.ticket == step.ticket)


def _digest(before: bytes, kind: str, *parts: bytes) -> bytes:
    """The digest of the history that ends with a step: AUDIT.md."""
    lengths = [len(part).to_bytes(8, "big") + part for part in parts]
    return sha256(b"tripartite/ledger/v2\0" + before + kind.encode("ascii") + b"\0" + b"".join(lengths)).digest()


def _holds(moved: npt.NDArray[np.int64], to: npt.NDArray[np.uint32], before: npt.NDArray[np.uint32]) -> bool:
    """Whether a carry has every one of these pairs."""
    taken = set(zip(to.tolist(), before.tolist(), strict=True))
    return all(pair in taken for pair in map(tuple, moved.tolist()))
