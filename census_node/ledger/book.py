"""The ledger that a process works with: folded from its steps, charged at the desk, put into snapshots, relieved of membership.

    newest snapshot -> the steps after it -> what other processes add

In memory stands what the rows say, never more: a decision is applied after its row is durable, and before anybody decides again.
One thread decides and charges, the desk's, and what another process does meanwhile makes it begin again (BUSY).

Compaction, off the desk: the ledger as it stands goes into a file, a step names it, and with that step whatever has been kept
long enough is erased from the rows; the files go after the commit. A crash in between leaves files that no step names, which the
next start sweeps away.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
import structlog

from broker_common.errors import InternalError, RefusedError
from broker_common.privacy.policy import Subject
from broker_common.privacy.report import Charges
from broker_common.storage.database import Database
from broker_common.storage.journal import Journal, Transaction
from broker_common.tlog.census_state import CensusState, ChargedTicket
from broker_common.tlog.entries import Entry
from broker_common.values import Randomness
from census_node.ledger.accounts import Ledger
from census_node.ledger.passes import Bits, CardPlaces, Passes, People
from census_node.ledger.samples import SampleFolder
from census_node.ledger.snapshots import SnapshotFolder
from census_node.ledger.steps import EMPTY_DIGEST, LedgerSteps, Link, Step, charge_digest, digest_after
from census_node.ledger.subjects import Carry
from census_node.release.outbox import Outbox

_log = structlog.get_logger()

# A snapshot is made when so many charges have come since the last one: a start reads them.
_MOST_CHARGES = 128
# After so many a snapshot does not wait for an instant at which nobody is charged.
_MOST_ROUNDS = 4
_OCTET = 8
# For a sample that was decided on what has been changed since.
_RETRY_SECONDS = 1


@dataclass(frozen=True, slots=True)
class Room:
    """The price of one answer, the most that anyone may be charged, and the kind of subject."""

    price: int
    # The cap, less what everybody's charges come to.
    most: int
    subject: Subject


@dataclass(frozen=True, slots=True, eq=False)
class Decided:
    """Who of a sample is active, and what that was decided on."""

    load: str
    # None under strict accounting, which charges everybody alike.
    room: Room | None
    # The last step of the ledger that it was decided on.
    place: int
    # A bit for each person. The book's own memory: the next decision is written over it.
    active: Bits


def room_for(state: CensusState, price: int) -> Room | None:
    """The room for an answer of this price under the policy in force; None under strict accounting."""
    policy = state.policy
    if policy is None or policy.accounting == "strict":
        return None
    return Room(price, policy.cap - state.everyones_units, policy.subject)


def loads_to_fold(db: Database, state: CensusState) -> set[str]:
    """Loads that a start needs to fold the ledger: those of charges to households that no snapshot holds. While reading."""
    if state.subject != "household":
        return set()
    steps = LedgerSteps(db)
    links = steps.links(after=steps.covered)
    return {state.tickets[link.ticket].charge.load for link in links if link.kind == "charge"}


class LedgerBook:
    """The ledger and where its history stands."""

    def __init__(
        self,
        journal: Journal[CensusState],
        *,
        samples: SampleFolder,
        snapshots: SnapshotFolder,
        people: Callable[[str], People],
        passes: Passes,
        randomness: Randomness,
    ) -> None:
        """`people` opens a load that the log names; it is asked where charges to households are folded."""
        self._journal = journal
        self._samples = samples
        self._snapshots = snapshots
        self._people = people
        self._passes = passes
        self._randomness = randomness
        # Held while the ledger changes, and while it is read. Nobody takes the journal's while holding it.
        self._lock = threading.Lock()
        self._compacting = threading.Lock()
        self._ledger = Ledger()
        # The last step that the ledger holds.
        self._place = 0
        # Everybody here, and everybody active: memory for one sample after the other, and the last one that it is of.
        self._here = self._active = passes.bits(0)
        self._decided: Decided | None = None
        # Whether the journal's write-ahead log may hold what rows have lost.
        self._is_log_stale = True

    # --- charging, in the desk's thread ----------------------------------------------------------------------------

    def decide(self, bits: Bits, cards: CardPlaces, people: People, room: Room | None) -> Decided:
        """Who of a sample is active; changes nothing. Without `room`, under strict accounting, everybody who is here.

        SECURITY: subjects that do not fit are dropped without a word, and the work is the same.

        Raises:
            RefusedError: BUSY, these are not the people of the load in force any more.
            InternalError: INTEGRITY, rows, files and log do not tell one story; SAMPLE_LOST.
        """
        with self._journal.reading() as state:
            self._catch_up(LedgerSteps(self._journal.db), state)
            if state.load != people.load:
                raise _overtaken()
            place = self._place
        self._decided = None
        self._make_room(people)
        self._passes.find(bits, cards, self._here)
        if room is None:
            np.copyto(self._active, self._here)
        else:
            charges = self._ledger.charges(room.subject, self._passes, people.load, lambda: people.homes)
            charges.fit(self._here, self._active, price=room.price, most=room.most)
        self._decided = Decided(people.load, room, place, self._active)
        return self._decided

    def step(
        self,
        transaction: Transaction[CensusState],
        decided: Decided,
        *,
        ticket_hash: bytes,
        submitted: bytes,
        active: bytes,
        file: str,
    ) -> Step | None:
        """The row of a charge, for `LedgerSteps.put` in the same transaction; None where there is no room to charge.

        `submitted` and `active` are the commitments that the log entry has, `file` is the reference of the sample.

        Raises:
            RefusedError: BUSY, another sample was decided on since, or another process has charged, or put a load or a policy
                in force.
        """
        state, steps, room = transaction.state, LedgerSteps(transaction.db), decided.room
        others = (link for link in steps.links(after=decided.place) if link.kind != "snapshot")
        # SECURITY: after another decision the memory of this one says who is active in that.
        is_last = decided is self._decided
        if (
            not is_last
            or state.load != decided.load
            or room_for(state, room.price if room else 0) != room
            or any(others)
        ):
            raise _overtaken()
        # A snapshot at most has come, which changes the digest alone.
        self._catch_up(steps, state)
        if room is None:
            return None
        return Step(
            kind="charge",
            digest=charge_digest(self._ledger.digest, ticket_hash, room.price, submitted, active),
            file=file,
            content=active,
            ticket=ticket_hash.hex(),
            price=room.price,
        )

    def charged(self, decided: Decided, step: Step | None, place: int) -> None:
        """Apply a decision to memory, at once: its step, now durable, stands at `place`."""
        if step is None or decided.room is None or decided is not self._decided or place != self._place + 1:
            # Where the ledger is behind its rows, it is folded from them.
            return
        try:
            with self._changing(place):
                charges = self._ledger.charges(
                    decided.room.subject, self._passes, decided.load, lambda: self._people(decided.load).homes
                )
                charges.charge(decided.active, step.price)
                self._ledger.digest = step.digest
        except Exception as error:  # noqa: BLE001 - the charge stands in its row, and its answer is made all the same
            _log.error(
                "a charge could not be applied; the ledger is read again from its rows", error=type(error).__name__
            )

    def _make_room(self, people: People) -> None:
        if (self._ledger.persons, self._ledger.households) != (people.person_count, people.household_count):
            raise InternalError("INTEGRITY", problem=f"load {people.load} has other subjects than the ledger")
        if len(self._active) != -(-people.person_count // _OCTET):
            self._here, self._active = (self._passes.bits(people.person_count) for _ in range(2))

    @contextmanager
    def _changing(self, place: int) -> Iterator[None]:
        """The ledger holds the step at `place` when the block has ended.

        Whatever stops it in between: half a step in memory is none, and the next decision begins from the rows.
        """
        with self._lock:
            self._place = 0
            yield
            self._place = place

    # --- folding ---------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """At a start, before anything is written: remove what no step names, and fold what there is.

        Raises:
            InternalError: INTEGRITY, rows, files and log do not tell one story.
        """
        # A transaction, because another process may be writing a file that it is about to name.
        with self._journal.transaction() as transaction:
            steps = LedgerSteps(transaction.db)
            _verify_history(steps, transaction.state)
            self._snapshots.sweep(steps.files())
        with self._journal.reading() as state:
            self._catch_up(LedgerSteps(self._journal.db), state)

    def charges(self) -> Charges | None:
        """The ledger's present content; None if strict accounting has charged everybody alike from the start.

        For readers while a node serves. SECURITY: nothing is held while files are read, or everybody would wait
        for as long as there are samples; if the node has erased one meanwhile, there is a newer snapshot to begin from.

        Raises:
            InternalError: INTEGRITY.
        """
        with self._journal.reading() as state:
            strict = state.policy is None or state.policy.accounting == "strict"
            if strict and state.charged_units == state.common_units:
                return None
        beside = self._fold_beside()
        return Charges(beside.ledger.charged, beside.floor)

    def _catch_up(self, steps: LedgerSteps, state: CensusState) -> None:
        """Fold every step that is durable. Inside a transaction or reading."""
        if steps.newest == self._place:
            return
        if self._place == 0 or steps.covered > self._place:
            # The steps between may be erased.
            snapshot = steps.newest_snapshot()
            with self._changing(0 if snapshot is None else snapshot.covers):
                self._ledger = self._begun(snapshot, self._digest_of(snapshot, steps))
        for step in steps.after(self._place):
            with self._changing(step.place):
                self._ledger = self._fold(self._ledger, step, state.tickets, state.subject, self._passes)

    @staticmethod
    def _digest_of(snapshot: Step | None, steps: LedgerSteps) -> bytes:
        return EMPTY_DIGEST if snapshot is None else steps.digest_at(snapshot.covers)

    def _begun(self, snapshot: Step | None, digest: bytes) -> Ledger:
        """The ledger as a snapshot has it, whose history ends with `digest`."""
        ledger = Ledger() if snapshot is None else self._snapshots.read(snapshot.file, snapshot.content)
        ledger.digest = digest
        return ledger

    def _fold_beside(self) -> _Beside:
        """A ledger of its own, folded while nothing is held."""
        while True:
            with self._journal.reading() as state:
                steps = LedgerSteps(self._journal.db)
                # Not what strict accounting counts: nobody was charged all of that.
                snapshot, floor = steps.newest_snapshot(), state.common_units
                tail, digest = _Tail.after(steps.covered, steps, state), self._digest_of(snapshot, steps)
            covered = 0 if snapshot is None else snapshot.covers
            try:
                # With memory of its own: the desk does not wait for it.
                with Passes() as passes:
                    ledger = self._begun(snapshot, digest)
                    for step in self._steps(tail):
                        ledger = self._fold(ledger, step, tail.tickets, tail.subject, passes)
            except InternalError:
                with self._journal.reading():
                    if LedgerSteps(self._journal.db).covered == covered:
                        raise
                # A file of before the newest snapshot is gone.
                continue
            return _Beside(ledger, max([covered, *tail.places]), floor)

    def _steps(self, tail: _Tail) -> Iterator[Step]:
        for place in tail.places:
            with self._journal.reading():
                step = LedgerSteps(self._journal.db).at(place)
            yield step

    def _fold(
        self,
        ledger: Ledger,
        step: Step,
        tickets: Mapping[str, ChargedTicket],
        subject: Subject | None,
        passes: Passes,
    ) -> Ledger:
        """The ledger after a step."""
        _verify_link(step, ledger.digest, tickets)
        match step.kind:
            case "charge":
                assert subject is not None  # noqa: S101 - the log has a charge
                load = tickets[step.ticket].charge.load
                active = self._active_of(step, ledger.persons)
                charges = ledger.charges(subject, passes, load, lambda: self._people(load).homes)
                charges.charge(active, step.price)
            case "load":
                ledger = ledger.after_load(self._snapshots.read_carry(step.file, step.content), subject)
            case "snapshot":
                # It holds what is folded already.
                pass
        ledger.digest = step.digest
        return ledger

    def _active_of(self, step: Step, persons: int) -> Bits:
        """Who was active, as the log commits to it."""
        try:
            sample = self._samples.read(step.file)
            sample.verify_active(bytes.fromhex(step.ticket), step.content)
        except InternalError as error:
            if error.code not in {"INTEGRITY", "SAMPLE_LOST"}:
                raise
            raise InternalError(
                "INTEGRITY", problem=f"the sample of step {step.place} of the ledger is damaged"
            ) from error
        if sample.persons != persons:
            raise InternalError(
                "INTEGRITY", problem=f"the sample of step {step.place} of the ledger is of other people"
            )
        return sample.active

    # --- keeping it short, off the desk ----------------------------------------------------------------------------

    def maintain(self, now_ms: int, lost: Collection[str] = ()) -> None:
        """Make a snapshot when one is due, and erase what has been kept long enough.

        `lost` are charged tickets whose answers can never be made: nothing of theirs is waited for.

        SECURITY: locks are held for rows alone, never for the length of a file: the desk would wait for it.
        """
        with self._compacting:
            with self._journal.reading():
                steps = LedgerSteps(self._journal.db)
                due, covered = steps.due(now_ms, lost), steps.covered
                has_grown = steps.charges_after(covered) >= _MOST_CHARGES
            is_wanted = has_grown or any(step.place > covered for step in due)
            if is_wanted:
                self._compact()
            if is_wanted or due:
                self._erase(now_ms, lost)
            self._start_log_over()

    def forgot_samples(self) -> None:
        """Rows have lost references of samples: the write-ahead log is started over at the next `maintain`."""
        self._is_log_stale = True

    def _compact(self) -> None:
        ledger, place = self._standing()
        name, content = self._snapshots.write(ledger, self._randomness)
        # CRASH: a snapshot that no step names; the next start sweeps it away.
        is_named = False
        try:
            # The steps erased with it can never be folded again.
            self._snapshots.verify(name, content)
            is_named = self._put_snapshot(name, content, place)
            # CRASH: the snapshot stands; what it makes superfluous goes at the next turn.
        finally:
            if not is_named and not self._journal.is_broken:
                # Or every turn would leave one, as long as another process holds the journal.
                self._snapshots.remove(name)

    def _standing(self) -> tuple[Ledger, int]:
        """A copy of the ledger with every charge there is, and the last step that it holds."""
        ledger, place = self._frozen()
        with self._journal.reading():
            is_behind = place == 0 or LedgerSteps(self._journal.db).charges_after(place) > 0
        if not is_behind:
            return ledger, place
        beside = self._fold_beside()
        return beside.ledger, beside.place

    def _frozen(self) -> tuple[Ledger, int]:
        """A copy of the ledger as it stands, and the last step that it holds.

        Copied while charges go on, and again if one has come meanwhile: a charge waits for a copy only where charges come
        all the time.
        """
        for _ in range(_MOST_ROUNDS):
            with self._lock:
                ledger, place = self._ledger, self._place
            frozen = ledger.frozen()
            with self._lock:
                if self._ledger is ledger and self._place == place:
                    return frozen, place
            # Or there would be two of them the next time.
            del frozen
        with self._lock:
            return self._ledger.frozen(), self._place

    def _put_snapshot(self, name: str, content: bytes, place: int) -> bool:
        """False if a newer snapshot stands."""
        with self._journal.transaction() as transaction:
            steps = LedgerSteps(transaction.db)
            if steps.covered > place:
                return False
            before = steps.digest_at(steps.newest)
            digest = digest_after(before, "snapshot", place.to_bytes(8, "big", signed=True), content)
            steps.put(Step("snapshot", digest, name, content, covers=place))
        return True

    def _start_log_over(self) -> None:
        """Where rows have lost a key, in this process or in one before it, the write-ahead log still holds it."""
        if self._is_log_stale:
            self._is_log_stale = not self._journal.start_log_over()

    def _erase(self, now_ms: int, lost: Collection[str]) -> None:
        with self._journal.transaction() as transaction:
            steps = LedgerSteps(transaction.db)
            due = [step for step in steps.due(now_ms, lost) if step.place <= steps.covered]
            for step in due:
                steps.erase(step)
                Outbox(transaction.db).forget_membership(step.ticket)
            superfluous = steps.superfluous()
            for step in superfluous:
                steps.erase(step)
            # CRASH: the rows forget first; a file that no row names is swept away at the next start.
        self._is_log_stale = True
        for step in due:
            self._samples.wipe(step.file)
        for step in superfluous:
            self._snapshots.remove(step.file)

    # --- loads -----------------------------------------------------------------------------------------------------

    def put_load(self, carry: Carry) -> Callable[[Transaction[CensusState], Entry], None]:
        """A step that records the charges that a new load takes over, in the transaction of the load's log entry."""

        def put(transaction: Transaction[CensusState], entry: Entry) -> None:
            del entry
            steps = LedgerSteps(transaction.db)
            # CRASH: a file that no step names is swept away at the next start; not before, see `open`.
            name, content = self._snapshots.write_carry(carry, self._randomness)
            digest = digest_after(steps.digest_at(steps.newest), "load", content)
            steps.put(Step("load", digest, name, content))

        return put


@dataclass(frozen=True, slots=True)
class _Tail:
    """The steps that come after a place, the log's entries of the charges among them, and whom these were charged to."""

    places: list[int]
    tickets: dict[str, ChargedTicket]
    subject: Subject | None

    @classmethod
    def after(cls, place: int, steps: LedgerSteps, state: CensusState) -> _Tail:
        """As far as the log has been read: what another process has charged since comes with the next look."""
        known = state.tickets
        tail = list(takewhile(lambda link: not link.ticket or link.ticket in known, steps.links(after=place)))
        tickets = {link.ticket: known[link.ticket] for link in tail if link.ticket}
        return cls([link.place for link in tail], tickets, state.subject)


@dataclass(frozen=True, slots=True, eq=False)
class _Beside:
    """A ledger that nobody else has, the last step that it holds, and what everybody was charged besides."""

    ledger: Ledger
    place: int
    floor: int


def _verify_history(steps: LedgerSteps, state: CensusState) -> None:
    """Return only if the log holds exactly these charges in this order, and each step follows on the one before.

    A digest would not show rows missing at the end: the log says how many charges and loads there are.
    """
    digest, charged, loads = EMPTY_DIGEST, [], 0
    for place, link in enumerate(steps.links(), start=1):
        if link.place != place:
            raise InternalError("INTEGRITY", problem=f"step {place} of the ledger is missing")
        _verify_link(link, digest, state.tickets)
        digest = link.digest
        charged += [link.ticket] if link.kind == "charge" else []
        loads += link.kind == "load"
    if charged != [ticket for ticket, each in state.tickets.items() if each.charge.ledger]:
        raise InternalError("INTEGRITY", problem="the ledger and the log do not hold the same charges")
    # Every change of the linkage key brings a chain of its own, and no row.
    relinked = max(len(set(state.linkages.values())) - 1, 0)
    if loads != len(state.commitments) - relinked:
        raise InternalError("INTEGRITY", problem="the ledger and the log do not hold the same loads")


def _verify_link(link: Step | Link, before: bytes, tickets: Mapping[str, ChargedTicket]) -> None:
    """Return only if a step follows on the history whose digest is `before`, and a charge is the one that was logged."""
    match link.kind:
        case "charge":
            ticket = tickets.get(link.ticket)
            logged = None if ticket is None else (ticket.charge.units, ticket.charge.ledger, ticket.charge.active)
            if ticket is None or logged != (link.price, link.digest.hex(), link.content.hex()):
                raise InternalError(
                    "INTEGRITY", problem=f"step {link.place} of the ledger is not the one that was logged"
                )
            submitted = bytes.fromhex(ticket.charge.submitted)
            digest = charge_digest(before, bytes.fromhex(link.ticket), link.price, submitted, link.content)
        case "snapshot":
            digest = digest_after(before, "snapshot", link.covers.to_bytes(8, "big", signed=True), link.content)
        case "load":
            digest = digest_after(before, "load", link.content)
    if digest != link.digest:
        raise InternalError("INTEGRITY", problem=f"step {link.place} of the ledger was changed")


def _overtaken() -> RefusedError:
    return RefusedError("BUSY", retry_seconds=_RETRY_SECONDS)
