"""The ledgers that a process works with: folded from their steps, charged, put into snapshots, and relieved of membership.

    newest snapshot -> the steps after it -> what other processes add

In memory stands what the rows say, never more: a decision is applied after its row is durable, and before anybody decides
again; in between it is owed, so that an answer need not wait for it. Whoever charges holds the lock from the decision to the
end of the transaction, and takes it before the journal's.

Compaction, off the path of queries: the ledgers as they stand go into a file, a step names it, and with that step whatever
has been kept long enough is erased from the rows; the files go after the commit. A crash in between leaves files that no
step names, which the next start sweeps away.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
import structlog
from sqlite_utils import Database

from broker_common.crypto.commitments import commit_charge, commit_set
from broker_common.crypto.linkage import LinkageKey
from broker_common.errors import InternalError, RefusedError
from broker_common.privacy.report import Charges
from broker_common.storage.journal import Journal, Transaction
from broker_common.storage.relinking import rekey
from broker_common.tlog.census_state import CensusState, ChargedTicket
from broker_common.tlog.entries import Charged, Entry
from broker_common.values import Randomness
from census_node.ledger_steps import LedgerSteps, Link, Step, charge_digest
from census_node.ledgers import EMPTY_DIGEST, Decision, Ledgers, digest_after
from census_node.linked import Linked
from census_node.outbox import Outbox
from census_node.pseudonyms import halves_of
from census_node.samples import SampleFolder
from census_node.snapshots import SnapshotFolder
from census_node.submitted_ledger import SubmittedLedger
from census_node.units import Carry

__all__ = ["LedgerBook", "RelinkedLedgers", "verify_sample"]

_log = structlog.get_logger()

# A snapshot is made when so many charges, people in their samples, or pseudonyms that are new have come since the last one:
# a start reads the samples since, and new pseudonyms are in memory.
_MOST_CHARGES = 256
_MOST_PEOPLE = 50_000_000
_MOST_NEW = 1_000_000
# After so many neither a snapshot nor a changed linkage key waits for an instant at which nobody is charged.
_MOST_ROUNDS = 4


class LedgerBook:
    """Both ledgers and where their history stands."""

    def __init__(
        self,
        journal: Journal[CensusState],
        *,
        samples: SampleFolder,
        snapshots: SnapshotFolder,
        most_pseudonyms: int,
        randomness: Randomness,
    ) -> None:
        self._journal = journal
        self._samples = samples
        self._snapshots = snapshots
        # Of one health agency.
        self._most_pseudonyms = most_pseudonyms
        self._randomness = randomness
        self._lock = threading.RLock()
        self._compacting = threading.Lock()
        self._ledgers = Ledgers()
        # The last step that the ledgers hold; charges since the last snapshot, and people in their samples.
        self._place = 0
        self._charges = 0
        self._people = 0
        self._version = 0
        # A charge that is durable, and that the ledgers do not hold yet.
        self._owed: _Owed | None = None
        # Whether the journal's write-ahead log may hold what rows have lost.
        self._is_log_stale = True

    # --- charging --------------------------------------------------------------------------------------------------

    @contextmanager
    def charging(self) -> Iterator[None]:
        """Nobody else charges meanwhile, and nothing is owed. Taken before the journal's lock."""
        with self._lock:
            self._settle()
            yield

    def settle(self) -> None:
        """Apply what is owed, or leave it to whoever charges next."""
        with self.charging():
            pass

    def current(self, db: Database, state: CensusState) -> Ledgers:
        """The ledgers with every step that is durable. Inside a transaction or reading, while `charging`.

        Raises:
            InternalError: INTEGRITY, rows, files and log do not tell one story; SAMPLE_LOST.
        """
        self._catch_up(LedgerSteps(db), state.tickets)
        return self._ledgers

    @property
    def submitted(self) -> SubmittedLedger:
        """The first ledger as it is in memory: where the pseudonyms of a sample stand may be looked up before it is whole.

        Whoever decides then finds out whether it holds still. Needs no lock.
        """
        return self._ledgers.submitted

    @property
    def version(self) -> int:
        """Another number after everything that may change who fits. While `charging`."""
        return self._version

    def verify_space(self, ledgers: Ledgers, organisation: str) -> None:
        """Return only if an agency may still bring pseudonyms that nobody submitted before it.

        SECURITY: whatever it submits now. An agency that reaches the limit is refused everything until the operator raises
        it; a refusal of just the samples that do not fit any more would tell it, for nothing and again and again, whether
        another agency has ever submitted somebody. An honest agency's people never come to so many.

        Raises:
            RefusedError: PSEUDONYMS_EXHAUSTED.
        """
        if ledgers.introduced.get(organisation, 0) >= self._most_pseudonyms:
            raise RefusedError("PSEUDONYMS_EXHAUSTED", limit=self._most_pseudonyms)

    def charged(self, sample: Linked, decision: Decision, step: Step, place: int) -> None:
        """A decision is to be applied: its step, now durable, stands at `place`. While `charging`."""
        # First: whoever is deciding at this moment may see some of it.
        self._version += 1
        self._owed = _Owed(sample, decision, step, self._place, place)

    def _settle(self) -> None:
        owed, self._owed = self._owed, None
        if owed is None or owed.after != self._place:
            # Begun from the rows meanwhile, which hold it.
            return
        sample, step = owed.sample, owed.step
        try:
            with self._changing(owed.place):
                self._ledgers.apply(
                    sample, owed.decision, price=step.price, organisation=step.organisation, digest=step.digest
                )
        except Exception as error:  # noqa: BLE001 - the charge stands in its row; whoever is here has nothing to do with it
            _log.error(
                "a charge could not be applied; the ledgers are read again from their rows", error=type(error).__name__
            )
            return
        self._charges, self._people = self._charges + 1, self._people + len(sample.pseudonyms)

    @contextmanager
    def _changing(self, place: int) -> Iterator[None]:
        """The ledgers hold the step at `place` when the block has ended.

        Whatever stops it in between: half a step in memory is none, and whoever comes next begins from the rows.
        """
        self._place = 0
        yield
        self._place = place

    def charges(self) -> Charges | None:
        """What the ledgers hold now; None where strict accounting has charged everybody alike from the start.

        For whoever looks on while a node serves. SECURITY: nothing is held while files are read, or everybody would wait
        for as long as there are samples; if the node has erased one meanwhile, there is a newer snapshot to begin from.

        Raises:
            InternalError: INTEGRITY.
        """
        with self._journal.reading() as state:
            strict = state.policy is None or state.policy.accounting == "strict"
            if strict and state.charged_units == state.common_units:
                return None
        beside = self._fold_beside()
        return Charges(
            beside.ledgers.submitted.all_units(),
            beside.ledgers.units.persons,
            beside.ledgers.units.households,
            beside.floor,
        )

    # --- folding ---------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """At a start, before anything is written: remove what no step names, and fold what there is.

        Raises:
            InternalError: INTEGRITY, rows, files and log do not tell one story; SAMPLE_LOST.
        """
        # A transaction, because another process may be writing a file that it is about to name.
        with self.charging(), self._journal.transaction() as transaction:
            steps, state = LedgerSteps(transaction.db), transaction.state
            _verify_history(steps, state)
            self._snapshots.sweep(steps.files())
            self.current(transaction.db, state)

    def _catch_up(self, steps: LedgerSteps, tickets: Mapping[str, ChargedTicket]) -> None:
        if steps.newest == self._place:
            return
        self._version += 1
        if self._place == 0 or steps.covered > self._place:
            # What lies between may be erased, or be of another linkage chain.
            self._begin(steps)
        for step in steps.after(self._place):
            with self._changing(step.place):
                people = self._fold(self._ledgers, step, tickets)
            self._charges, self._people = self._charges + (step.kind == "charge"), self._people + people

    def _fold_beside(self) -> _Beside:
        """Ledgers of their own, folded while nothing is held."""
        while True:
            with self._journal.reading() as state:
                steps = LedgerSteps(self._journal.db)
                # Not what strict accounting counts: nobody was charged all of that.
                snapshot, floor = steps.newest_snapshot(), state.common_units
                place = covered = 0 if snapshot is None else snapshot.covers
                tail, digest = _Tail.after(covered, steps, state), steps.digest_at(covered)
            try:
                ledgers = Ledgers() if snapshot is None else self._snapshots.read(snapshot.file, snapshot.content)
                ledgers.digest = digest
                for step in tail.steps:
                    self._fold(ledgers, step, tail.tickets)
                    place = step.place
            except InternalError:
                with self._journal.reading():
                    if LedgerSteps(self._journal.db).covered == covered:
                        raise
                # A file of before the newest snapshot is gone.
                continue
            return _Beside(ledgers, place, floor)

    def _begin(self, steps: LedgerSteps) -> None:
        """Start again from the newest snapshot."""
        snapshot = steps.newest_snapshot()
        self._charges = self._people = 0
        if snapshot is None:
            self._ledgers, self._place = Ledgers(), 0
            return
        self._ledgers = self._snapshots.read(snapshot.file, snapshot.content)
        self._ledgers.digest = steps.digest_at(snapshot.covers)
        self._place = snapshot.covers

    def _fold(
        self, ledgers: Ledgers, step: Step, tickets: Mapping[str, ChargedTicket], keys: Sequence[LinkageKey] = ()
    ) -> int:
        """Add a step to the ledgers before it; gives how many people were in its sample.

        `keys` are what the ledgers have been stepped through, and the sample was not.
        """
        _verify_link(step, ledgers.digest, tickets)
        people = 0
        match step.kind:
            case "charge":
                people = self._fold_charge(ledgers, step, tickets[step.ticket], keys)
            case "load":
                ledgers.take_over(self._snapshots.read_carry(step.file, step.content))
            case "snapshot":
                # It holds what is folded already.
                pass
            case "relink":
                raise InternalError("INTEGRITY", problem=f"step {step.place} of the ledgers covers another than itself")
        ledgers.digest = step.digest
        return people

    def _fold_charge(self, ledgers: Ledgers, step: Step, ticket: ChargedTicket, keys: Sequence[LinkageKey]) -> int:
        if step.organisation != ticket.charge.health:
            raise _other(step)
        try:
            sample = self._samples.read_unverified(step.file)
            decision = Decision.of_bits(step.fits, step.active, len(sample.pseudonyms))
        except (InternalError, ValueError) as error:
            raise InternalError(
                "INTEGRITY", problem=f"the sample of step {step.place} of the ledgers is damaged"
            ) from error
        verify_sample(step, sample, ticket.charge)
        if keys:
            sample, decision = _stepped(sample, decision, keys)
        ledgers.apply(sample, decision, price=step.price, organisation=step.organisation, digest=step.digest)
        return len(sample.pseudonyms)

    # --- keeping it short ------------------------------------------------------------------------------------------

    def maintain(self, now_ms: int, lost: Collection[str] = ()) -> None:
        """Make a snapshot when one is due, and erase what has been kept long enough.

        `lost` are charged tickets whose answers can never be made: nothing of theirs is waited for.

        SECURITY: locks are held for rows alone, never for the length of a file: everybody else would wait for it.
        """
        with self._compacting:
            with self.charging():
                with self._journal.reading() as state:
                    ledgers, steps = self.current(self._journal.db, state), LedgerSteps(self._journal.db)
                    due, covered = steps.due(now_ms, lost), steps.covered
                grown = (
                    self._charges >= _MOST_CHARGES
                    or self._people >= _MOST_PEOPLE
                    or ledgers.submitted.new_size >= _MOST_NEW
                )
                is_wanted = grown or any(step.place > covered for step in due)
            if is_wanted:
                self._compact()
            if is_wanted or due:
                self._erase(now_ms, lost)
            self._start_log_over()

    def _frozen(self) -> tuple[Ledgers, int]:
        """A copy of the ledgers as they stand, and the last step that they hold.

        Copied while charges go on, and again if one has come meanwhile: whoever is charged waits for a copy only where
        charges come all the time.
        """
        for _ in range(_MOST_ROUNDS):
            with self.charging(), self._journal.reading() as state:
                ledgers, place, version = self.current(self._journal.db, state), self._place, self._version
            frozen = ledgers.frozen()
            with self._lock:
                if self._version == version:
                    return frozen, place
            # Or there would be two of them the next time.
            del frozen
        with self.charging(), self._journal.reading() as state:
            return self.current(self._journal.db, state).frozen(), self._place

    def _written(self) -> tuple[str, bytes, int]:
        """The ledgers as they stand in a file of this name and hash, and the last step that they hold.

        The copy that is written is gone before anything is read back: memory holds everybody twice, and not three times.
        """
        frozen, place = self._frozen()
        return *self._snapshots.write(frozen, self._randomness), place

    def _compact(self) -> None:
        name, content, place = self._written()
        # CRASH: a snapshot that no step names; the next start sweeps it away.
        is_named = False
        try:
            ledgers = self._snapshots.read(name, content)
            is_named = self._put_snapshot(name, content, place)
            # CRASH: the snapshot stands; what it makes superfluous goes at the next turn.
            if is_named:
                self._go_on_from(ledgers, place)
        finally:
            if not is_named and not self._journal.is_broken:
                # Or every turn would leave one, as long as another process holds the journal.
                self._snapshots.remove(name)

    def _put_snapshot(self, name: str, content: bytes, place: int) -> bool:
        """False if a newer snapshot stands, or its pseudonyms are of a linkage chain that is not in force any more."""
        with self.charging(), self._journal.transaction() as transaction:
            steps = LedgerSteps(transaction.db)
            if steps.newest_relink > place or steps.covered > place:
                return False
            before = self.current(transaction.db, transaction.state).digest
            digest = digest_after(before, "snapshot", place.to_bytes(8, "big", signed=True), content)
            steps.put(Step("snapshot", digest, name, content, covers=place))
        return True

    def _go_on_from(self, ledgers: Ledgers, place: int) -> None:
        """Work with these ledgers, which a snapshot holds up to a step, and with what has come since.

        What has come is folded while nobody waits, and again what has come meanwhile, until nothing has. After a relink all
        of it is of no use: whoever needs the ledgers next begins from the rows.
        """
        charges = people = 0
        with self._journal.reading():
            ledgers.digest = LedgerSteps(self._journal.db).digest_at(place)
        while True:
            with self._lock:
                with self._journal.reading() as state:
                    tail = _Tail.after(place, LedgerSteps(self._journal.db), state)
                if not tail.steps:
                    # Who fits is what it was, so that no decision becomes a stale one.
                    self._ledgers, self._place, self._charges, self._people = ledgers, place, charges, people
                    return
            for step in tail.steps:
                if step.kind == "relink":
                    return
                people += self._fold(ledgers, step, tail.tickets)
                charges, place = charges + (step.kind == "charge"), step.place

    def _start_log_over(self) -> None:
        """Where rows have lost a membership, in this process or in one before it, the write-ahead log still holds it."""
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
                steps.forget_file(step)
            # CRASH: the rows forget first; a file that no row names is swept away at the next start.
        self._is_log_stale = True
        for step in due:
            self._samples.wipe(step.file)
        for step in superfluous:
            self._snapshots.remove(step.file)

    # --- loads and linkage keys ------------------------------------------------------------------------------------

    def put_load(self, carry: Carry) -> Callable[[Transaction[CensusState], Entry], None]:
        """What puts down what a new load takes over, in the transaction of the load's log entry."""

        def put(transaction: Transaction[CensusState], entry: Entry) -> None:
            del entry
            steps = LedgerSteps(transaction.db)
            # CRASH: a file that no step names is swept away at the next start; not before, see `open`.
            name, content = self._snapshots.write_carry(carry, self._randomness)
            digest = digest_after(steps.digest_at(steps.newest), "load", content)
            steps.put(Step("load", digest, name, content))

        return put

    @contextmanager
    def relinking(self, keys: Sequence[LinkageKey]) -> Iterator[RelinkedLedgers]:
        """The ledgers under the pseudonyms that follow through `keys`, which are read when they are first prepared."""
        ledgers = RelinkedLedgers(
            self._journal,
            self._snapshots,
            self._randomness,
            fold_beside=self._fold_beside,
            fold=lambda stepped, step, tickets: self._fold(stepped, step, tickets, keys),
            keys=keys,
        )
        try:
            yield ledgers
        finally:
            if not self._journal.is_broken:
                # Otherwise nobody knows whether the step that names its file stands; the next start does.
                ledgers.forget()


@dataclass(frozen=True, slots=True, eq=False)
class _Owed:
    """A charge whose step is durable, and the one before it, which the ledgers hold."""

    sample: Linked
    decision: Decision
    step: Step
    after: int
    place: int


@dataclass(frozen=True, slots=True)
class _Tail:
    """Steps that come after a place, and the log's entries of the charges among them."""

    steps: list[Step]
    tickets: dict[str, ChargedTicket]

    @classmethod
    def after(cls, place: int, steps: LedgerSteps, state: CensusState) -> _Tail:
        """As far as the log has been read: what another process has charged since comes with the next look."""
        known = state.tickets
        tail = list(takewhile(lambda step: not step.ticket or step.ticket in known, steps.after(place)))
        return cls(tail, {step.ticket: known[step.ticket] for step in tail if step.ticket})


@dataclass(frozen=True, slots=True, eq=False)
class _Beside:
    """Ledgers that nobody else has, the last step that they hold, and what everybody was charged besides."""

    ledgers: Ledgers
    place: int
    floor: int


class RelinkedLedgers:
    """The ledgers under their next pseudonyms, made ready while charges go on; see `LoadFolder.put_relinked_in_force`.

    Everybody who was ever submitted is stepped and written while nothing is held. Whoever was charged meanwhile is stepped
    into that and it is written again, until a transaction finds nobody new. A service that is busy enough to charge somebody
    every time waits in the end for one such file, but never for the stepping of everybody.
    """

    def __init__(
        self,
        journal: Journal[CensusState],
        snapshots: SnapshotFolder,
        randomness: Randomness,
        *,
        fold_beside: Callable[[], _Beside],
        fold: Callable[[Ledgers, Step, Mapping[str, ChargedTicket]], int],
        keys: Sequence[LinkageKey],
    ) -> None:
        """`fold` adds a step to ledgers that have been stepped through `keys`."""
        self._journal = journal
        self._snapshots = snapshots
        self._randomness = randomness
        self._fold_beside = fold_beside
        self._fold = fold
        self._keys = keys
        self._ledgers: Ledgers | None = None
        # The last step that they hold.
        self._place = 0
        self._name, self._content = "", b""
        self._rounds = 0

    def prepare(self) -> None:
        """Step what there is, or what has come since, and write it. Holds nothing.

        Raises:
            InternalError: INTEGRITY, SAMPLE_LOST, STORE_FAILED.
        """
        self._rounds += 1
        if self._ledgers is not None:
            before = self._place
            with self._journal.reading() as state:
                tail = _Tail.after(before, LedgerSteps(self._journal.db), state)
            try:
                self._go_on(tail)
            except InternalError:
                with self._journal.reading():
                    if LedgerSteps(self._journal.db).covered <= before:
                        raise
                # A membership that a newer snapshot holds was erased.
                self._ledgers = None
        if self._ledgers is None:
            beside = self._fold_beside()
            self._ledgers, self._place = beside.ledgers.relinked(self._keys), beside.place
        self._write(self._ledgers)

    def is_ready(self, transaction: Transaction[CensusState]) -> bool:
        """Whether nobody was charged since, or somebody is every time."""
        steps = LedgerSteps(transaction.db)
        # Of what a newer snapshot holds the memberships may be erased.
        return self._holds(steps) or (self._rounds >= _MOST_ROUNDS and steps.covered <= self._place)

    def put(self, transaction: Transaction[CensusState], entry: Entry) -> None:
        """Put them in force, with what has come since `prepare`. The transaction keeps everybody from charging."""
        del entry
        assert self._ledgers is not None  # noqa: S101 - they were prepared
        steps = LedgerSteps(transaction.db)
        if not self._holds(steps):
            self._go_on(_Tail.after(self._place, steps, transaction.state))
            self._write(self._ledgers)
        digest = digest_after(self._ledgers.digest, "relink", self._content)
        steps.put(Step("relink", digest, self._name, self._content, covers=steps.newest + 1))

    def forget(self) -> None:
        """Remove the file unless a step names it."""
        with self._journal.reading():
            is_named = self._name in LedgerSteps(self._journal.db).files()
        if self._name and not is_named:
            self._snapshots.remove(self._name)

    def _holds(self, steps: LedgerSteps) -> bool:
        # A node that starts meanwhile sweeps away what no step names yet; it does so in a transaction, too.
        return steps.newest == self._place and (self._snapshots.path / self._name).is_file()

    def _go_on(self, tail: _Tail) -> None:
        assert self._ledgers is not None  # noqa: S101 - as above
        for step in tail.steps:
            self._fold(self._ledgers, step, tail.tickets)
            self._place = step.place

    def _write(self, ledgers: Ledgers) -> None:
        before = self._name
        # CRASH: here and until the transaction, a file that no step names; the next start sweeps it away.
        self._name, self._content = self._snapshots.write(ledgers, self._randomness)
        if before:
            self._snapshots.remove(before)


def _stepped(sample: Linked, decision: Decision, keys: Sequence[LinkageKey]) -> tuple[Linked, Decision]:
    """A sample under its people's next pseudonyms, which ascend in another order, and what was decided of them."""
    high, low = halves_of(sample.pseudonyms)
    rekeyed = rekey(high, low, keys)
    rows = rekeyed.rows
    pseudonyms = np.stack([rekeyed.high, rekeyed.low], axis=1).astype(">u8").view(np.uint8)
    linked = Linked(pseudonyms, sample.persons[rows], sample.households[rows])
    return linked, Decision(decision.fits[rows], decision.active[rows])


def _verify_history(steps: LedgerSteps, state: CensusState) -> None:
    """Return only if the log holds exactly these charges in this order, and each step follows on the one before.

    Of rows that are missing at the end no digest would tell: the log says how many charges and loads there are.
    """
    digest, charged, loads = EMPTY_DIGEST, [], 0
    for place, link in enumerate(steps.links(), start=1):
        if link.place != place:
            raise InternalError("INTEGRITY", problem=f"step {place} of the ledgers is missing")
        _verify_link(link, digest, state.tickets)
        digest = link.digest
        charged += [link.ticket] if link.kind == "charge" else []
        loads += link.kind in {"load", "relink"}
    if charged != [ticket for ticket, each in state.tickets.items() if each.charge.ledger]:
        raise InternalError("INTEGRITY", problem="the ledgers and the log do not hold the same charges")
    if loads != len(state.commitments):
        raise InternalError("INTEGRITY", problem="the ledgers and the log do not hold the same loads")


def _verify_link(link: Step | Link, before: bytes, tickets: Mapping[str, ChargedTicket]) -> None:
    """Return only if a step follows on the history whose digest is `before`, and a charge is the one that was logged."""
    match link.kind:
        case "charge":
            ticket = tickets.get(link.ticket)
            if ticket is None or (ticket.charge.units, ticket.charge.ledger) != (link.price, link.digest.hex()):
                raise _other(link)
            submitted = bytes.fromhex(ticket.charge.submitted)
            digest = charge_digest(before, bytes.fromhex(link.ticket), link.price, submitted, link.content)
        case "snapshot":
            digest = digest_after(before, "snapshot", link.covers.to_bytes(8, "big", signed=True), link.content)
        case "load" | "relink":
            digest = digest_after(before, link.kind, link.content)
    if digest != link.digest:
        raise InternalError("INTEGRITY", problem=f"step {link.place} of the ledgers was changed")


def _other(link: Step | Link) -> InternalError:
    return InternalError("INTEGRITY", problem=f"step {link.place} of the ledgers is not the one that was logged")


def verify_sample(step: Step, sample: Linked, charge: Charged) -> None:
    """Return only if a sample's file and its row are what the log and the digest commit to.

    Raises:
        InternalError: INTEGRITY.
    """
    ticket_hash = bytes.fromhex(charge.ticket)
    detail = commit_charge(step.active_salt, ticket_hash, sample.units_hash, step.fits, step.active)
    submitted = commit_set(step.submitted_salt, ticket_hash, sample.set_hash)
    if detail != step.content or submitted.hex() != charge.submitted:
        raise InternalError("INTEGRITY", problem=f"the sample of step {step.place} of the ledgers was changed")
