"""One running census node: its parts put together, and what it does beside queries: quotes, slots, deliveries, what expires.

How one query is answered stands in `query.flow`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tripartite.v1 import policy_pb2, sample_pb2

from broker_common.crypto.commitments import SlotSecret, commit_slot
from broker_common.crypto.sealing import UnsealingKey
from broker_common.crypto.signing import SigningKey, VerifyKey
from broker_common.errors import InvalidRequestError, RefusedError
from broker_common.privacy.accounting import price
from broker_common.query.dictionary import Dictionary
from broker_common.query.ticket import Researcher, VerifiedTicket
from broker_common.storage.database import Database
from broker_common.storage.dictionary.adopted import Dictionaries
from broker_common.storage.journal import Journal
from broker_common.storage.loads import LoadFolder
from broker_common.storage.witnessing import CosignedNotes
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import DictionaryAdopted, Slots, encode_entry
from broker_common.values import Clock, Randomness, parse_base64
from census_node.ledger.book import LedgerBook
from census_node.ledger.passes import Passes, People
from census_node.ledger.samples import SampleFolder
from census_node.ledger.snapshots import SnapshotFolder
from census_node.ledger.steps import LedgerSteps
from census_node.query.admission import Arrived, Gate, Recovered, SampleAttempt
from census_node.query.answering import Answers
from census_node.query.budget import InForce, Unfinished, in_force, verify_affordable, verify_open, verify_quota
from census_node.query.charging import Charging, Keeping, Kept
from census_node.query.flow import Charge, Claim, Parts
from census_node.query.publishing import Publishing
from census_node.query.quoting import Quotes
from census_node.query.refusals import Refusing
from census_node.query.reservations import Reservations
from census_node.registry.registry import OpenRegistries
from census_node.registry.rosters import RosterBook, RosterFolder
from census_node.registry.staging import RosterName, Rosters
from census_node.release.outbox import Outbox
from census_node.release.oversight import Oversight
from census_node.release.publication import Publication
from census_node.release.released import ReleasedAnswers
from census_node.release.slot_secrets import SLOT_SECRET_BYTES, SlotSecrets
from census_node.release.slots import BATCH, Slot, SlotBatch, SlotBook


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys that a serving census node holds and knows, read at every use: a new card is obeyed at once."""

    answer: Callable[[], SigningKey]
    refusal: Callable[[], SigningKey]
    # Every key that samples may be sealed to.
    sample: Callable[[], Sequence[UnsealingKey]]
    # The manifest keys of every registered health agency, by organisation.
    manifest: Callable[[], Mapping[str, Sequence[VerifyKey]]]
    researchers: Callable[[], Mapping[str, Researcher]]
    # The name that a registered health agency cosigns under, by organisation.
    witnesses: Callable[[], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Folders:
    """Where the rooms of a census node keep what is not in its journal."""

    loads: LoadFolder
    rosters: RosterFolder
    samples: SampleFolder
    snapshots: SnapshotFolder
    slot_secrets: SlotSecrets

    @classmethod
    def of(cls, home: Path) -> Folders:
        return cls(
            loads=LoadFolder(home / "registries", ".npz"),
            rosters=RosterFolder(home / "rosters"),
            samples=SampleFolder(home / "samples"),
            snapshots=SnapshotFolder(home / "ledgers"),
            slot_secrets=SlotSecrets(home / "slots"),
        )

    def ledger(self, journal: Journal[CensusState], randomness: Randomness) -> LedgerBook:
        """The ledger, for a command; a node that serves shares its people and passes with it."""
        return self.book(journal, OpenRegistries(journal, self.loads).people, Passes(), randomness)

    def book(
        self,
        journal: Journal[CensusState],
        people: Callable[[str], People],
        passes: Passes,
        randomness: Randomness,
    ) -> LedgerBook:
        return LedgerBook(
            journal,
            samples=self.samples,
            snapshots=self.snapshots,
            people=people,
            passes=passes,
            randomness=randomness,
        )


def create_tables(db: Database) -> None:
    """Tables of the rooms in the journal's database, beside the log."""
    CosignedNotes.create_tables(db)
    LedgerSteps.create_tables(db)
    Outbox.create_tables(db)
    RosterBook.create_tables(db)
    LoadFolder.create_tables(db)


class CensusNode:
    """Everything the RPCs do, without gRPC. Blocking methods; the service calls them in threads."""

    def __init__(
        self,
        journal: Journal[CensusState],
        *,
        keys: Keys,
        folders: Folders,
        dictionaries: Dictionaries,
        publication: Publication,
        oversight: Oversight | None,
        clock: Clock,
        randomness: Randomness,
    ) -> None:
        self.journal = journal
        self.publication = publication
        self.clock = clock
        self.slots = SlotBook()
        self._dictionaries = dictionaries
        self._slot_secrets = folders.slot_secrets
        self._oversight = oversight
        self._committing = threading.Lock()
        self._keys = keys
        self._samples = folders.samples
        self._randomness = randomness
        self._passes = Passes()
        registries = OpenRegistries(journal, folders.loads)
        self.registries, self._people = registries.loads, registries.people
        self.rosters = Rosters(
            journal,
            folders.rosters,
            self.registries,
            manifest_keys=keys.manifest,
            sample_keys=keys.sample,
            randomness=randomness,
            named=self._rosters_named,
        )
        self.book = folders.book(journal, self._people, self._passes, randomness)
        # Set when the node is about to stop: nothing is waited for any more.
        self.stopping = threading.Event()
        self.answers = Answers(
            journal,
            samples=folders.samples,
            slot_secrets=folders.slot_secrets,
            registry=registries.registry,
            passes=self._passes,
            key=keys.answer,
            oversight=oversight,
            forgot_samples=self.book.forgot_samples,
            is_stopping=self.stopping.is_set,
        )
        self.keeping = Keeping(journal, self.book, folders.samples, self._people, randomness)
        self.charging = Charging(
            journal,
            self.book,
            verify_answerable=keys.answer,
            verify_dictionary=self._verify_dictionary,
            spend=self.slots.spend,
        )
        self.released = ReleasedAnswers(journal, lambda: self.answers.held_back)
        self._reservations = Reservations()
        self._reserving = threading.Lock()
        self.quotes = Quotes(
            journal,
            dictionaries=dictionaries,
            publication=publication,
            slots=self.slots,
            reservations=self._reservations,
            unfinished=lambda: self.unfinished,
            key=keys.answer,
        )

    def parts(self) -> Parts[SampleAttempt, Kept]:
        return Parts(
            samples=self.keeping,
            ledger=self.charging,
            answers=self.answers,
            publication=Publishing(self.journal, self.publication, self._keys.witnesses, self.cosigned),
        )

    def cosigned(self, charge: Charge) -> str | None:
        """The checkpoint covering a charge that the agency of its sample has cosigned."""
        witness = self._keys.witnesses().get(charge.agency)
        note = None if witness is None else self.publication.cosigned(charge.index, witness=witness)
        return None if note is None else note.note

    @property
    def unfinished(self) -> Unfinished:
        """Charges of which researchers are told nothing yet, or never."""
        return Unfinished(self.answers.lost, self.answers.held_back)

    def _rosters_named(self) -> set[RosterName]:
        """Rosters that a kept sample is places of."""
        with self.journal.reading() as state:
            kept = LedgerSteps(self.journal.db).tickets_kept()
            waiting = {ticket for ticket, sample, _ in Outbox(self.journal.db).all_pending() if sample}
            charges = [state.tickets[ticket].charge for ticket in kept | waiting]
        return {(charge.health, charge.roster) for charge in charges}

    # --- what is in force ------------------------------------------------------------------------------------------

    def in_force(self) -> InForce:
        """Policy and census release as the log has them now.

        Raises:
            RefusedError: NOTHING_LOADED.
        """
        with self.journal.reading() as state:
            return in_force(state)

    def dictionary(self) -> Dictionary:
        """The dictionary of the load in force, with which questions are read.

        Raises:
            RefusedError: NOTHING_LOADED.
        """
        with self.journal.reading() as state:
            in_force(state)
            adoption = state.adopted_dictionaries[state.dictionaries[state.load]]
        return self._dictionaries.named(adoption.document)

    def dictionary_to_publish(self, known: bytes) -> tuple[DictionaryAdopted, bytes, str]:
        """The dictionary for questions (see `Dictionaries.unless_known`) and the census release.

        Raises:
            RefusedError: NOTHING_LOADED.
        """
        with self.journal.reading() as state:
            release, adoption = in_force(state).census_release, self._dictionaries.published(state)
        return adoption, self._dictionaries.unless_known(adoption, known), release

    def _verify_dictionary(self, ticket: VerifiedTicket) -> Dictionary:
        with self.journal.reading() as state:
            now = state.adopted_dictionaries[state.dictionaries[state.load]]
            named = state.adopted_dictionaries.get(ticket.body.census_dictionary.hex())
        ticket.verify_dictionary("census", now.dictionary, lambda: self._dictionaries.changes(named, now))
        return self._dictionaries.named(now.document)

    def signed_policy(self) -> policy_pb2.SignedPolicy:
        """The policy in force with the agency's signature, as it was adopted."""
        with self.journal.reading() as state:
            if state.adopted is None:
                raise RefusedError("NOTHING_LOADED", what="policy", role="census")
            return policy_pb2.SignedPolicy(
                document=state.adopted.document.encode(),
                signature=parse_base64(state.adopted.signature),
                key_id=state.adopted.key_id,
            )

    def gate(self) -> Gate:
        """The view that a sample arriving now is checked against."""
        now = self.in_force()
        return Gate(
            researchers=self._keys.researchers(),
            manifest_keys=self._keys.manifest(),
            sample_keys=self._keys.sample(),
            policy=now.policy,
            census_release=now.census_release,
            now_ms=self.journal.now(),
            verify_open=self._verify_open,
            verify_dictionary=self._verify_dictionary,
            verify_slot=self._verify_slot,
            is_charged=self._is_charged,
            roster=self.rosters.usable,
            reserve=self._reserve,
        )

    def _is_charged(self, ticket_hash: str) -> bool:
        with self.journal.reading() as state:
            return ticket_hash in state.tickets

    def _verify_open(self) -> None:
        with self.journal.reading() as state:
            verify_open(state, unfinished=self.unfinished)

    def _verify_slot(self, ticket: VerifiedTicket) -> None:
        if not self.slots.is_held(_slot_of(ticket), ticket.body.researcher_id, self.journal.now()):
            raise InvalidRequestError("SLOT_UNUSABLE")

    def _reserve(self, ticket: VerifiedTicket) -> None:
        """Hold slot and price for one attempt, first come, first served; `let_go` ends it."""
        body, ticket_hash = ticket.body, ticket.hash.hex()
        with self._reserving:
            # Before its slot is claimed, which gives way to no quote as long as the ticket is in hand.
            self._reservations.hold(ticket_hash, body.researcher_id, price(body.scale, cells=len(body.question.cells)))
            try:
                with self.journal.reading() as state:
                    if ticket_hash not in state.tickets:
                        self._claim(state, ticket)
            except BaseException:
                self._reservations.let_go(ticket_hash)
                raise

    def _claim(self, state: CensusState, ticket: VerifiedTicket) -> None:
        """Claim a ticket's slot, if its answer may be charged beside all that is charged or in hand."""
        body, ticket_hash, now_ms = ticket.body, ticket.hash.hex(), self.journal.now()
        reserved = self._reservations.reserved(body.researcher_id, charged=state.tickets, but=ticket_hash)
        verify_affordable(state, body.scale, reserved=reserved, unfinished=self.unfinished)
        verify_quota(state, body.researcher_id, now_ms, reserved=reserved)
        if not self.slots.claim(_slot_of(ticket), body.researcher_id, ticket_hash, now_ms):
            raise InvalidRequestError("SLOT_UNUSABLE")

    # --- noise slots -----------------------------------------------------------------------------------------------

    def commit_slots(self, *, afresh: bool = False) -> None:
        """Commit to another batch of noise slots in the log, and show it; `afresh` makes void all that there were."""
        with self._committing:
            if not (afresh or self.slots.is_low):
                # Somebody else has just done it.
                return
            # Before the charges are looked at: a slot that is charged in between is in one of the two.
            lowest = self.slots.lowest()
            with self.journal.reading() as state:
                first = state.next_slot
                pending = {slot for _, _, slot in Outbox(self.journal.db).all_pending()}
            void_below = first if afresh else lowest
            self._slot_secrets.sweep({*pending, *range(void_below, first)})
            secrets = [SlotSecret(self._randomness(SLOT_SECRET_BYTES)) for _ in range(BATCH)]
            self._slot_secrets.write(first, secrets)
            commitments = tuple(commit_slot(secret, first + place) for place, secret in enumerate(secrets))
            with self.journal.transaction() as transaction:
                entry = transaction.append(
                    Slots(first=first, void_below=void_below, commitments=tuple(each.hex() for each in commitments))
                )
            # CRASH: committed and not shown; the next start makes these slots void.
            if afresh:
                self.slots.start_over()
            self.slots.add(SlotBatch(first, commitments, entry.sequence, encode_entry(entry)))
        self.publication.publish(entry.sequence + 1)

    def let_go(self, ticket_hash: str) -> None:
        """An attempt that was admitted is over, however it ended."""
        self._reservations.let_go(ticket_hash)

    def refusing(self, agency: str, head: sample_pb2.SampleHead) -> Refusing:
        """How an agency's sample would be refused whose head has come just now."""
        return Refusing(head, agency, self.journal, key=self._keys.refusal, shown_size=self.publication.size)

    def attempt(self, agency: str, arrived: Arrived, refusing: Refusing | None = None) -> SampleAttempt:
        """An agency's sample that has come whole."""
        return SampleAttempt(agency, arrived, self.gate, self.let_go, refusing)

    # --- at a start --------------------------------------------------------------------------------------------------

    def recover(self) -> list[Recovered]:
        """Before serving: answer what was charged; gives the charges whose answers are to be released.

        No sample may arrive meanwhile: what no charge names is swept away, and every noise slot that is left is void.

        A charge whose answer cannot be made, because its sample or registry is gone, stays unanswered, for the operator to see; it does not keep the others from their answers.
        """
        with self.journal.reading():
            pending = Outbox(self.journal.db).all_pending()
            kept = LedgerSteps(self.journal.db).files()
        self._samples.sweep(kept | {sample for _, sample, _ in pending})
        self.rosters.sweep()
        self.book.open()
        for ticket_hash, _, _ in pending:
            self.answers.recover(ticket_hash)
        self.commit_slots(afresh=True)
        with self.journal.reading() as state:
            charges = [state.tickets[ticket_hash].charge for ticket_hash in state.unreleased]
        return [
            Recovered(Claim(charge.health, charge.ticket, bytes.fromhex(charge.submitted)))
            for charge in charges
            if charge.ticket not in self.answers.lost
        ]

    def read_registry(self) -> None:
        """Read the registry in force, so that no question has to wait for it."""
        self.registries.prepare()

    # --- answers that are out ----------------------------------------------------------------------------

    def on_out(self, notify: Callable[[str], object]) -> None:
        """Call `notify` with the query of every answer that is let out."""

        def tell(ticket_hash: str) -> None:
            notify(self.journal.state.tickets[ticket_hash].charge.query)

        self.answers.on_out(tell)

    def forget_expired(self) -> None:
        """Remove what has been kept long enough: memberships, openings, and answers."""
        if self._oversight is not None:
            self._oversight.forget_old(self.clock())
        now_ms = self.journal.now()
        self.book.maintain(now_ms, frozenset(self.answers.lost))
        self.released.forget_expired(now_ms)


def _slot_of(ticket: VerifiedTicket) -> Slot:
    named = ticket.body.noise_slot
    return Slot(named.number, named.commitment, named.checkpoint)
