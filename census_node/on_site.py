"""On-site replay: the census agency's private stores, person by person, against the log that it handed in.

The ledgers' history is walked from its first row to its last, beside the log:

1. every charge to persons, every load and every change of the linkage key has its row, and no row is without its entry,
2. the digest of each row follows from the row before it; a charge's is the one that the log states,
3. a sample that is kept is the one that the log commits to, and its units are those of the registry that it was charged on,
4. who fits and who is counted is decided again (`site_accounts`) and compared; so are the commitments to both,
5. a count that was opened is counted again, and nobody is told but whether it is right,
6. whatever snapshot is there holds what was worked out, and the newest one is there.

Membership is erased when its time has come. Beyond a charge that is erased the walk goes on from the next snapshot, whose hash
stands in the chain of digests: back from it, charge by charge, to what was charged before the first that is kept. How much
that was is the agency's word, and is said; that nobody was skipped since is not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt

from broker_common.audit.findings import Findings
from broker_common.audit.log_files import Report
from broker_common.audit.on_site import AuditedLog, OnSite
from broker_common.crypto.commitments import SALT_BYTES, commit_charge, commit_set, hash_set
from broker_common.errors import InvalidRequestError
from broker_common.privacy.policy import Policy, parse_policy
from broker_common.query.question import parse_question
from broker_common.tlog.cosignature import MOST_SKEW_MS
from broker_common.tlog.entries import Adopted, Charged, Entry, Loaded, Relinked
from broker_common.values import ExactCount
from census_node import texts
from census_node.dictionary import CENSUS_DICTIONARY
from census_node.ledger_steps import Step
from census_node.linked import NOBODY
from census_node.site_accounts import Accounts, Chosen, Members
from census_node.site_store import DamagedError, Load, SiteStore, opened_store

__all__ = ["check"]

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
        return _Walk(store, log, findings, report(texts.CHECKING_ON_SITE)).run()


@dataclass(frozen=True, slots=True)
class _Event:
    """An entry that has a row in the ledgers' history."""

    kind: Literal["charge", "load", "relink"]
    entry: int
    event: Charged | Loaded | Relinked
    # False: newer than what was handed in.
    audited: bool = True
    # Of a charge: until when membership is kept.
    kept_until_ms: int = 0
    # Of a charge: the rules that it was decided by, and what everybody had been charged.
    policy: Policy | None = None
    floor: int = 0


class _Walk:
    """One walk along the history."""

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
        # By load: the entry that puts it in force, its commitment, and the hash of its dictionary.
        self._loads: dict[str, tuple[int, str, str]] = {}
        self._load: tuple[str, Load | None] = ("", None)
        # Erased charges that, by the auditor's clock, should not have been: entry, and until when they are to be kept.
        self._early: list[tuple[int, int]] = []
        # The row of the snapshot that the walk went on from without having worked out what it says; 0 for none.
        self._taken_up = 0
        self._committed = 0
        self._has_stepped_blindly = False
        self._told: set[tuple[str, int | None]] = set()
        self._tally: Counter[str] = Counter()
        self._compared: set[int] = set()

    def run(self) -> OnSite:
        """The whole of it."""
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
                self._miss(event)
            else:
                self._take(event, step)
            if step is not None and not self._tally["newer"]:
                self._compare(step.place)
        self._report(1, 1)
        return self._finish()

    # --- the log beside the history --------------------------------------------------------------------------------

    def _events(self) -> Iterator[_Event]:
        """What the history has to have rows for; then what the home's own log says beyond what was handed in."""
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
                case _:
                    pass
        for entry in self._store.log_entries(size):
            if _has_row(entry):
                assert isinstance(entry.event, Charged | Loaded | Relinked)  # noqa: S101 - see _has_row
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
        return self._store.has_after(step.place, event.kind)

    def _find_snapshots(self) -> None:
        for step in self._store.snapshots():
            self._newest = step
            if step.file:
                self._snapshots.setdefault(step.covers, []).append(step)

    def _is_covered(self, step: Step) -> bool:
        """Whether a snapshot that is there holds this step."""
        return step.place <= max(self._snapshots, default=0)

    # --- one step --------------------------------------------------------------------------------------------------

    def _miss(self, event: _Event) -> None:
        self._entry = event.entry
        self._problem("LEDGER_STEP_MISSING", event.entry)
        self._accounts = None
        if isinstance(event.event, Charged):
            self._digest = bytes.fromhex(event.event.ledger)

    def _take(self, event: _Event, step: Step) -> None:
        self._entry = event.entry
        match event.event:
            case Charged():
                self._take_charge(event, event.event, step)
            case Loaded():
                self._chain(_digest(self._digest, "load", step.content), step)
                self._take_load(event.event, step)
            case Relinked():
                self._chain(_digest(self._digest, "relink", step.content), step)
                self._take_relink(event.event, step)

    def _chain(self, expected: bytes, step: Step) -> None:
        if step.digest != expected:
            self._problem("LEDGER_DIGEST", self._entry)
        # What comes next is held against what should stand here: one change is told once.
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
            accounts.grow(carry.person_count, carry.household_count)
        except (DamagedError, ValueError):
            self._problem("CARRY_WRONG", self._entry)
            return
        load = self._load_of(event.load)
        if load is None:
            accounts.forget_units()
        else:
            moved = accounts.see(*load.link(accounts.names), load.homes())
            taken = ((carry.person_to, carry.person_from), (carry.household_to, carry.household_from))
            is_whole = all(_holds(pairs, *columns) for pairs, columns in zip(moved, taken, strict=True))
            if not is_whole or (carry.person_count, carry.household_count) != (load.person_count, load.household_count):
                self._problem("CARRY_WRONG", self._entry)
        if not accounts.is_followed:
            self._believe_carry()
        accounts.inherit("person", carry.person_to, carry.person_from)
        accounts.inherit("household", carry.household_to, carry.household_from)
        self._accounts = accounts

    def _believe_carry(self) -> None:
        # Before the first charge there is nothing to take over.
        if self._committed:
            self._tally["carries"] += 1

    def _take_relink(self, event: Relinked, step: Step) -> None:
        accounts = self._accounts
        if accounts is None:
            return
        keys = self._store.linkage_steps(event.previous, event.linkage)
        if keys is not None:
            accounts.step([key.step for key in keys])
            load = self._load_of(event.load)
            # SECURITY: another key gives nobody another unit, whose charge would be somebody else's.
            if load is not None and any(len(pairs) for pairs in accounts.see(*load.link(accounts.names), load.homes())):
                self._problem("CARRY_WRONG", self._entry)
            return
        self._tally["blind"] += 1
        self._findings.skip(texts.LINKAGE_KEYS_NOT_THERE.format(entry=self._entry))
        if step.place in self._snapshots:
            self._has_stepped_blindly = True
        else:
            self._accounts = None

    def _take_charge(self, event: _Event, charge: Charged, step: Step) -> None:
        expected = _digest(
            self._digest,
            "charge",
            bytes.fromhex(charge.ticket),
            charge.units.to_bytes(8, "big"),
            bytes.fromhex(charge.submitted),
            step.content,
        )
        if expected != step.digest or step.digest.hex() != charge.ledger:
            self._problem("LEDGER_DIGEST", event.entry)
        self._digest = bytes.fromhex(charge.ledger)
        self._committed = step.place
        if (step.price, step.organisation) != (charge.units, charge.health):
            self._problem("LEDGER_STEP_WRONG", event.entry, texts.ROW.format(place=step.place))
        if not step.file:
            if not self._is_covered(step):
                self._problem("ERASED_EARLY", event.entry)
            elif event.kept_until_ms > self._log.now_ms + MOST_SKEW_MS:
                self._early.append((event.entry, event.kept_until_ms))
            self._erased()
            return
        try:
            sample = self._read(step, self._store.sample)
        except DamagedError:
            self._problem("SAMPLE_WRONG", event.entry)
            self._accounts = None
            return
        if sample is None:
            self._tally["gone"] += 1
            self._erased()
        else:
            self._take_sample(event, charge, step, *sample)

    def _erased(self) -> None:
        self._tally["erased"] += 1
        self._accounts = None

    def _take_sample(self, event: _Event, charge: Charged, step: Step, pseudonyms: bytes, kept: Members) -> None:
        entry, ticket_hash, told = event.entry, bytes.fromhex(charge.ticket), len(self._told)
        # 3
        set_hash = hash_set(pseudonyms)
        if not _opens(charge.submitted, step.submitted_salt, ticket_hash, set_hash):
            if self._store.names_still(step):
                self._problem("SAMPLE_WRONG", entry)
                self._accounts = None
            else:
                self._tally["gone"] += 1
                self._erased()
            return
        load = self._load_of(charge.load)
        sample = kept
        if load is None:
            self._tally["unlinked"] += 1
        else:
            sample = Members(kept.names, *load.link(kept.names))
            if not (
                np.array_equal(sample.persons, kept.persons) and np.array_equal(sample.households, kept.households)
            ):
                self._problem("UNITS_WRONG", entry)
        chosen = _chosen(step, len(kept.names))
        if chosen is None:
            self._problem("LEDGER_DIGEST", entry)
            self._accounts = None
            return
        # 4
        if self._accounts is None:
            self._accounts = self._rewound(step)
        self._decide(event, charge, sample, *chosen)
        active_set = sha256(b"tripartite/active-set/v1\0" + set_hash + step.active).digest()
        is_committed = _opens(charge.active, step.active_salt, ticket_hash, active_set)
        if not is_committed:
            self._problem("ACTIVE_WRONG", entry)
        elif len(self._told) == told and step.content != commit_charge(
            step.active_salt, ticket_hash, _units_hash(kept), step.fits, step.active
        ):
            # Something of it was changed, and it cannot be told what.
            self._problem("LEDGER_DIGEST", entry)
        # 5
        if load is not None and is_committed:
            self._count(charge, load, kept, chosen[1], entry)

    def _decide(self, event: _Event, charge: Charged, sample: Members, fits: Chosen, active: Chosen) -> None:
        accounts, policy = self._accounts, event.policy
        assert policy is not None  # noqa: S101 - a charge that was audited has one
        if accounts is None:
            self._tally["undecided"] += 1
            return
        counts = (len(accounts.persons), len(accounts.households))
        is_linked = sample.persons != NOBODY
        if ((sample.households != NOBODY) != is_linked).any() or any(
            int(units[is_linked].max(initial=0)) >= max(count, 1)
            for units, count in zip((sample.persons, sample.households), counts, strict=True)
        ):
            self._problem("UNITS_WRONG", event.entry)
            self._accounts = None
            return
        room = policy.cap - event.floor
        should_fit, should_count = accounts.decide(sample, price=charge.units, room=room, unit=policy.unit)
        if (should_fit & ~fits).any():
            self._problem("CHARGE_SKIPPED", event.entry)
        if (fits & ~should_fit).any() or (active & ~should_count).any():
            self._problem("PERSON_CAP_PASSED", event.entry)
        if (should_count & ~active & fits).any():
            self._problem("ACTIVE_WRONG", event.entry)
        # SECURITY: whoever was counted has been spent, whoever was left out should have been.
        accounts.charge(
            sample, should_fit | fits, should_count | active, price=charge.units, organisation=charge.health
        )
        self._tally["checked"] += 1

    def _count(self, charge: Charged, load: Load, sample: Members, active: Chosen, entry: int) -> None:
        counted = ExactCount(0)
        if load.is_readable:
            counted = load.count(sample.names[active], parse_question(charge.question, CENSUS_DICTIONARY))
        is_right = self._log.is_opened_count(charge.ticket, counted)
        if is_right is None:
            return
        if not load.is_readable:
            # SECURITY: read under the present dictionary it would give another count, and the agency would stand accused.
            self._tally["unreadable"] += 1
            return
        self._tally["counts"] += 1
        if not is_right:
            self._problem("COUNT_WRONG", entry)

    # --- snapshots -------------------------------------------------------------------------------------------------

    def _compare(self, place: int) -> None:
        """Hold every snapshot of everything up to this step against what was worked out."""
        for step in self._snapshots.get(place, []):
            self._compared.add(step.place)
            try:
                snapshot = self._read(step, self._store.snapshot)
            except DamagedError:
                self._problem("SNAPSHOT_WRONG", self._entry)
                continue
            if snapshot is None:
                continue
            is_blind, self._has_stepped_blindly = self._has_stepped_blindly, False
            if self._accounts is not None and not self._accounts.is_same(snapshot, by_name=not is_blind):
                self._problem("SNAPSHOT_WRONG", self._entry)
            elif self._accounts is None or is_blind:
                self._taken_up, self._accounts = step.place, snapshot
            elif self._accounts.introduced is None:
                self._accounts.introduced = snapshot.introduced
        if self._has_stepped_blindly:
            # It could not be read: nobody knows who is who.
            self._accounts, self._has_stepped_blindly = None, False

    def _rewound(self, first: Step) -> Accounts | None:
        """What everybody was charged before a step, by the next snapshot; None if nothing but charges does not lead to it."""
        covers = min((place for place in self._snapshots if place >= first.place), default=0)
        if not covers or not self._store.is_kept(first.place, covers):
            return None
        snapshot = self._snapshots[covers][0]
        try:
            accounts = self._read(snapshot, self._store.snapshot)
            for step in self._store.steps(first.place, covers):
                if accounts is None or step is None:
                    return None
                if step.kind == "charge":
                    sample = self._store.sample(step)[1]
                    chosen = _chosen(step, len(sample.names))
                    if chosen is None:
                        return None
                    accounts.take_back(sample, *chosen, price=step.price)
        except DamagedError:
            # It is told where the walk comes by.
            return None
        except ValueError:
            self._problem("SNAPSHOT_WRONG", self._entry)
            return None
        self._taken_up = snapshot.place
        return None if accounts is None else accounts.without_strangers()

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

    def _read(self, step: Step, read: Callable[[Step], ReadT]) -> ReadT | None:
        """A step's file; None if it was erased while we were at it.

        Raises:
            DamagedError: it is not what it was.
        """
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
            ("unlinked", texts.UNITS_NOT_CHECKED),
            ("unreadable", texts.COUNTS_NOT_CHECKED),
            ("carries", texts.CARRIES_NOT_CHECKED),
            ("newer", texts.STEPS_NEWER),
        ):
            if tally[what]:
                self._findings.skip(text.format(count=tally[what]))
        if self._taken_up > self._committed:
            self._findings.skip(texts.SNAPSHOT_NOT_COMMITTED)
        self._findings.skip(texts.REGISTRY_NOT_CHECKED)
        people = worst = None
        if self._accounts is not None and self._policy is not None:
            people = self._accounts.people_charged
            worst = self._floor + self._accounts.most_charged(self._policy.unit)
        is_open = any(tally[what] for what in ("erased", "undecided", "unlinked", "carries", "blind"))
        is_proved = worst is not None and not is_open and not self._told
        return OnSite(tally["checked"], tally["erased"], people, worst, is_proved, tally["counts"])


def _has_row(entry: Entry) -> bool:
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
    return sha256(b"tripartite/ledgers/v1\0" + before + kind.encode("ascii") + b"\0" + b"".join(lengths)).digest()


def _opens(commitment: str, salt: bytes, ticket_hash: bytes, set_hash: bytes) -> bool:
    return len(salt) == SALT_BYTES and commit_set(salt, ticket_hash, set_hash).hex() == commitment


def _units_hash(sample: Members) -> bytes:
    units = b"".join(column.astype("<u4").tobytes() for column in (sample.persons, sample.households))
    return sha256(b"tripartite/sample-units/v1\0" + units).digest()


def _chosen(step: Step, size: int) -> tuple[Chosen, Chosen] | None:
    """Who fits and who is counted, as the row has it; None if it has them for a sample of another size."""
    if len(step.fits) != -(-size // 8) or len(step.active) != len(step.fits):
        return None
    fits, active = (np.unpackbits(np.frombuffer(bits, np.uint8), count=size) == 1 for bits in (step.fits, step.active))
    return fits, active


def _holds(moved: npt.NDArray[np.int64], to: npt.NDArray[np.uint32], before: npt.NDArray[np.uint32]) -> bool:
    """Whether a carry has every one of these pairs."""
    taken = set(zip(to.tolist(), before.tolist(), strict=True))
    return all(pair in taken for pair in map(tuple, moved.tolist()))
