"""One running census node: its parts put together, and the walk of one query from admission to release.

    admitted -> kept (its sample in a file) -> charged -> answered (sealed) -> published -> cosigned -> released
        -> delivered, or removed when its retention has ended

Each arrow is one durable step. A crash between two of them leaves a state from which `recover` goes on; it never goes
back. Before the charge nobody's language is looked at.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import structlog
from tripartite.v1 import policy_pb2

from broker_common.crypto.base64_text import parse_base64
from broker_common.crypto.commitments import SlotSecret, commit_slot, hash_active, hash_bytes
from broker_common.crypto.sealing import OpeningKey
from broker_common.crypto.signing import SigningKey, VerifyKey
from broker_common.errors import BrokerError, InternalError, InvalidRequestError, PeerUnavailableError, RefusedError
from broker_common.privacy.accounting import price_units
from broker_common.privacy.policy import Policy
from broker_common.query.ticket import Researcher, VerifiedTicket
from broker_common.stages import stage
from broker_common.storage.journal import Checkpointed, Journal
from broker_common.storage.loads import LoadFolder, verify_dictionary
from broker_common.storage.open_loads import OpenLoads
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import Delivered, Expired, Released, Slots, encode_entry
from broker_common.tlog.note import parse_note
from broker_common.values import Clock, Randomness
from census_node.admission import AdmittedSample, Gate
from census_node.answering import seal_answer
from census_node.charging import (
    Decided,
    Kept,
    LoadReplacedError,
    charge,
    decide,
    quota_left,
    verify_affordable,
    verify_open,
    verify_quota,
)
from census_node.dictionary import CENSUS_DICTIONARY
from census_node.ledger_book import LedgerBook
from census_node.ledger_steps import LedgerSteps, Step
from census_node.ledgers import Decision
from census_node.linking import LinkedSample, Linking
from census_node.outbox import Outbox, Pending, WaitingAnswer
from census_node.oversight import Oversight
from census_node.publication import Publication
from census_node.registry import Registry
from census_node.reservations import Reservations
from census_node.samples import SampleFolder
from census_node.slot_secrets import SLOT_SECRET_BYTES, SlotSecrets
from census_node.slots import BATCH, OfferedSlot, Slot, SlotBatch, SlotBook

__all__ = ["CensusNode", "InForce", "Keys", "forget_old_loads"]

_log = structlog.get_logger()
Rows: TypeAlias = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Keys:
    """What a serving census node holds and knows, asked for at every use: a new card is obeyed at once."""

    answer: Callable[[], SigningKey]
    # Every key that samples may be sealed to.
    sample: Callable[[], Sequence[OpeningKey]]
    # Of every registered health agency, by organisation.
    manifest: Callable[[], Mapping[str, Sequence[VerifyKey]]]
    researchers: Callable[[], Mapping[str, Researcher]]
    # The name that a registered health agency cosigns under, by organisation.
    witnesses: Callable[[], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class InForce:
    """The rules that new questions are asked under."""

    policy: Policy
    census_release: str
    linkage: str


class CensusNode:
    """Everything the RPCs do, without gRPC. Blocking methods; the service calls them in threads."""

    def __init__(
        self,
        journal: Journal[CensusState],
        *,
        keys: Keys,
        loads: LoadFolder,
        samples: SampleFolder,
        book: LedgerBook,
        slot_secrets: SlotSecrets,
        publication: Publication,
        oversight: Oversight | None,
        clock: Clock,
        randomness: Randomness,
    ) -> None:
        self.journal = journal
        self.book = book
        self.publication = publication
        self.clock = clock
        self.slots = SlotBook()
        self._slot_secrets = slot_secrets
        self._oversight = oversight
        self._committing = threading.Lock()
        self._keys = keys
        self._samples = samples
        self._randomness = randomness
        self.registries: OpenLoads[CensusState, Registry] = OpenLoads(
            journal, loads, read=Registry.read, needed=lambda: _loads_needed(journal)
        )
        self._on_release: list[Callable[[str], object]] = []
        self._on_charge: list[Callable[[], object]] = []
        self._reservations = Reservations()
        self._reserving = threading.Lock()
        # Charged tickets whose answers can never be made.
        self.lost: set[str] = set()
        # Set when the node is about to stop: nothing is waited for any more.
        self.stopping = threading.Event()

    # --- what is in force ------------------------------------------------------------------------------------------

    def in_force(self) -> InForce:
        """Policy and census release as the log has them now.

        Raises:
            RefusedError: NOTHING_LOADED.
        """
        with self.journal.reading() as state:
            policy, release, linkage = state.policy, state.release, state.linkage
        if policy is None:
            raise RefusedError("NOTHING_LOADED", what="policy", role="census")
        if not release:
            raise RefusedError("NOTHING_LOADED", what="registry", role="census")
        return InForce(policy, release, linkage)

    def verify_dictionary(self) -> None:
        """Return only if the registry in force was loaded under the dictionary that questions are read with.

        Raises:
            RefusedError: DICTIONARY_CHANGED.
        """
        with self.journal.reading() as state:
            verify_dictionary(state, state.load, CENSUS_DICTIONARY)

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
        """What a sample that arrives now is checked against."""
        now = self.in_force()
        return Gate(
            researchers=self._keys.researchers(),
            manifest_keys=self._keys.manifest(),
            sample_keys=self._keys.sample(),
            policy=now.policy,
            census_release=now.census_release,
            linkage=now.linkage,
            now_ms=self.journal.now(),
            verify_open=self._verify_open,
            verify_dictionary=self.verify_dictionary,
            verify_slot=self._verify_slot,
            is_charged=self._is_charged,
            reserve=self._reserve,
        )

    def _is_charged(self, ticket_hash: str) -> bool:
        with self.journal.reading() as state:
            return ticket_hash in state.tickets

    def _verify_open(self) -> None:
        with self.journal.reading() as state:
            verify_open(state, lost=self.lost)

    def _verify_slot(self, ticket: VerifiedTicket) -> None:
        if not self.slots.is_held(_slot_of(ticket), ticket.body.researcher_id, self.journal.now()):
            raise InvalidRequestError("SLOT_UNUSABLE")

    def _reserve(self, ticket: VerifiedTicket) -> None:
        """Hold slot and price for one attempt, first come, first served; `let_go` ends it."""
        body, ticket_hash = ticket.body, ticket.hash.hex()
        with self._reserving:
            # Before its slot is claimed, which gives way to no quote as long as the ticket is in hand.
            self._reservations.hold(ticket_hash, body.researcher_id, price_units(body.scale))
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
        verify_affordable(state, body.scale, reserved=reserved, lost=self.lost)
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

    def offer_slot(self, researcher: str, policy: Policy) -> tuple[OfferedSlot, int] | None:
        """Reserve a slot for a quote, with the instant at which the quote expires; None while none is cosigned.

        Commits to no further slots: that is done beside quotes, when `slots.is_low`.
        """
        index = self.slots.next_index
        note = None if index is None else self.publication.cosigned_by_most(index)
        size = 0 if note is None else parse_note(note)[0].size
        now_ms = self.journal.now()
        expires_ms = now_ms + policy.quote_lifetime_ms
        offered = self.slots.reserve(
            researcher,
            now_ms=now_ms,
            expires_ms=expires_ms,
            limit=policy.open_quotes,
            in_hand=self._reservations.tickets,
            # The next slot may be another one by now, of a later batch.
            covering=lambda index: note if size > index else None,
        )
        return None if offered is None else (offered, expires_ms)

    def quota_left(self, researcher: str) -> int | None:
        """How many further answers of a researcher may count now; None without a quota.

        Raises:
            RefusedError: QUOTA_REACHED.
        """
        with self.journal.reading() as state:
            reserved = self._reservations.reserved(researcher, charged=state.tickets)
            return quota_left(state, researcher, self.journal.now(), reserved=reserved)

    def let_go(self, ticket_hash: str) -> None:
        """An attempt that was accepted is over, however it ended."""
        self._reservations.let_go(ticket_hash)

    # --- the walk of one query -------------------------------------------------------------------------------------

    def linking(self) -> Linking:
        """What a sample is linked with, as it comes, on the load that is in force now."""
        while True:
            with self.journal.reading() as state:
                load, commitments = state.load, state.commitments
            try:
                return Linking(self._registry_of(load, commitments), self.book.submitted)
            except InternalError:
                # Another load took its place meanwhile, and nobody needs its file any more.
                with self.journal.reading() as state:
                    if state.load == load:
                        raise

    def link(self, sample: AdmittedSample) -> LinkedSample:
        """A whole sample, linked on the load that is in force now."""
        linking = self.linking()
        linking.expect(len(sample.pseudonyms))
        linking.add(0, sample.pseudonyms)
        return linking.finish(sample.pseudonyms)

    def keep(self, linked: LinkedSample) -> Kept:
        """Durably keep a sample with the census units of its pseudonyms, linked or not."""
        # CRASH: a sample that no charge names is swept away at the next start.
        with stage("keeping"):
            return Kept(self._samples.write(linked.units, self._randomness), linked)

    def forget(self, kept: Kept) -> None:
        """Wipe a sample that will not be charged."""
        self._samples.wipe(kept.file)

    def decide(self, sample: AdmittedSample, linked: LinkedSample) -> Decided | None:
        """Who of a linked sample would be charged now; for `charge`, so that it takes no longer for many."""
        with stage("deciding"):
            return decide(self.journal, self.book, sample, linked, self._randomness)

    def on_charge(self, notify: Callable[[], object]) -> None:
        """Call `notify` after every charge, from the thread that charged: what was decided before may hold no more."""
        self._on_charge.append(notify)

    def charge(self, sample: AdmittedSample, kept: Kept, decided: Decided | None = None) -> Rows | None:
        """Durably charge a kept sample; gives the rows of those who are counted, for `answer_charged`.

        None for a ticket that was charged before: it is not charged again, and keeps its answer.
        """
        with stage("charging"):
            rows = self._charge(sample, kept, decided)
        self.slots.spend(sample.ticket.body.noise_slot.number)
        # CRASH: charged and not answered; `recover` answers.
        return rows

    def answer_charged(self, ticket_hash: str, rows: Rows | None) -> Checkpointed:
        """Count, and store the sealed answer of a charge; gives the charge's proof."""
        self._patiently(lambda: self.answer(ticket_hash, rows))
        with self.journal.reading() as state:
            index = state.tickets[ticket_hash].index
        return self.journal.prove(index)

    def settle(self) -> None:
        """Bring the ledgers up to the charges that are durable; holds the last one's sample until then."""
        with stage("settling"):
            self.book.settle()

    def _charge(self, sample: AdmittedSample, kept: Kept, decided: Decided | None) -> Rows | None:
        """The rows of those who are counted; None if the ticket was charged before."""
        while True:
            rows, replaced = None, False
            try:
                # Before the charge: without this key there would be no answer for it.
                self._keys.answer()
                rows = charge(self.journal, self.book, sample, kept, self._randomness, decided)
            except LoadReplacedError:
                replaced = True
            finally:
                if rows is None and not self.journal.is_broken and not self._is_named(sample, kept):
                    # Refused, or charged before. After an uncertain commit the file stays: the log will tell.
                    self._samples.wipe(kept.file)
            if not replaced:
                for notify in self._on_charge:
                    notify()
                return rows
            # Linked again, on the load that is in force now.
            kept = self.keep(self.link(sample))

    def _is_named(self, sample: AdmittedSample, kept: Kept) -> bool:
        """Whether a charge is durable that names the file, whatever went wrong after it."""
        with self.journal.reading():
            pending = Outbox(self.journal.db).pending(sample.ticket.hash.hex())
        return pending is not None and pending.sample == kept.file

    def _patiently(self, step: Callable[[], None]) -> None:
        """What follows a charge is paid for: a journal that another process holds is waited for, not given up on."""
        while True:
            try:
                return step()
            except RefusedError as error:
                if error.code != "BUSY" or self.stopping.is_set():
                    raise

    def answer(self, ticket_hash: str, rows: Rows | None = None) -> None:
        """Make and store the sealed answer of a charged ticket, unless that has been done.

        `rows` are those who are counted, where whoever charged it knows them still; otherwise its sample's file is read.
        """
        with self.journal.reading() as state:
            pending = Outbox(self.journal.db).pending(ticket_hash)
            step = LedgerSteps(self.journal.db).of_ticket(ticket_hash)
            ticket, commitments = state.tickets[ticket_hash], state.commitments
            if pending is None:
                return
        if ticket_hash in self.lost:
            raise InternalError("SAMPLE_LOST")
        try:
            registry = self._registry_of(pending.load, commitments)
            if rows is None:
                rows = registry.rows_of(self._active(pending, step))
            slot_secret = self._slot_secrets.read(pending.slot, pending.slot_commitment)
        except InternalError:
            with self.journal.reading():
                if Outbox(self.journal.db).pending(ticket_hash) is None:
                    # A retry of the same ticket has answered and wiped in between.
                    return
            raise
        sealed, opening = seal_answer(
            pending,
            rows,
            slot_secret,
            ticket,
            self.journal.prove(ticket.index),
            registry,
            self._keys.answer(),
            overseen=self._oversight is not None,
        )
        if self._oversight is not None and opening is not None:
            # CRASH: an opening without its answer; made again with the answer, it is the same.
            self._oversight.keep(opening)
        with self.journal.transaction() as transaction:
            outbox = Outbox(transaction.db)
            if outbox.pending(ticket_hash) is None:
                # Another thread, handling a retry of the same ticket, was faster: its answer stands.
                return
            outbox.put_answer(
                WaitingAnswer(
                    query=ticket.charge.query,
                    ticket_hash=ticket_hash,
                    researcher=ticket.charge.researcher,
                    sealed=sealed,
                )
            )
        # CRASH: the answer stands, the sample and the noise secret too; the next start sweeps them away.
        if step is None:
            # Under strict accounting nobody needs it any more.
            self._samples.wipe(pending.sample)
        self._slot_secrets.wipe(pending.slot)

    def _active(self, pending: Pending, step: Step | None) -> npt.NDArray[np.uint8]:
        """Those of a charged sample who are to be counted where they are linked."""
        sample = self._samples.read(pending.sample, pending.submitted_set)
        if step is None:
            return sample.pseudonyms
        if hash_active(pending.submitted_set, step.active) != pending.active_set:
            raise InternalError("INTEGRITY", problem=f"who is counted for ticket {pending.ticket_hash} was changed")
        active: npt.NDArray[np.uint8] = sample.pseudonyms[
            Decision.of_bits(step.fits, step.active, len(sample.pseudonyms)).active
        ]
        return active

    def cosigned_for(self, ticket_hash: str) -> str | None:
        """The checkpoint that covers a charge and that its health agency has cosigned; None before there is one."""
        with self.journal.reading() as state:
            ticket = state.tickets[ticket_hash]
        witness = self._keys.witnesses().get(ticket.charge.health)
        cosigned = None if witness is None else self.publication.cosigned(ticket.index, witness=witness)
        return None if cosigned is None else cosigned.note

    def publish_charge(self, ticket_hash: str) -> None:
        """Show the log up to the charge of a ticket, so that it can be cosigned."""
        with self.journal.reading() as state:
            index = state.tickets[ticket_hash].index
        self.publication.publish(index + 1)

    def release(self, ticket_hash: str) -> None:
        """Log that the answer may leave; from here on it can be collected and is pushed to the inbox.

        Raises:
            PeerUnavailableError: NOT_WITNESSED, its health agency has not cosigned a checkpoint that covers the charge.
        """
        self._patiently(lambda: self._release(ticket_hash))
        with self.journal.reading() as state:
            query = state.tickets[ticket_hash].charge.query
        for notify in self._on_release:
            notify(query)

    def _release(self, ticket_hash: str) -> None:
        # SECURITY: before this nobody but us has seen that the charge is in the log.
        cosigned = self.cosigned_for(ticket_hash)
        if cosigned is None:
            raise PeerUnavailableError("NOT_WITNESSED")
        with self.journal.transaction() as transaction:
            state, outbox = transaction.state, Outbox(transaction.db)
            ticket = state.tickets[ticket_hash]
            if ticket.answer:
                return
            waiting = outbox.answer(ticket.charge.query)
            if waiting is None:
                raise InternalError("INTEGRITY", problem="an answer to release is missing")
            answer = hash_bytes(waiting.sealed).hex()
            transaction.append(Released(ticket=ticket_hash, answer=answer, checkpoint=cosigned))
            outbox.start_retention(waiting.query, state.tickets[ticket_hash].kept_until_ms)

    def recover(self) -> list[str]:
        """Before serving: answer what was charged; gives the tickets whose answers are to be released.

        No sample may arrive meanwhile: what no charge names is swept away, and every noise slot that is left is void.

        A charge whose answer cannot be made, because its sample or registry is gone or because its registry was loaded under
        another dictionary, stays unanswered, for the operator to see; it does not keep the others from their answers.
        """
        with self.journal.reading():
            pending = Outbox(self.journal.db).all_pending()
            kept = LedgerSteps(self.journal.db).files()
        self._samples.sweep(kept | {sample for _, sample, _ in pending})
        self.book.open()
        for ticket_hash, _, _ in pending:
            try:
                self.answer(ticket_hash)
            except BrokerError as error:
                if error.code not in {"DICTIONARY_CHANGED", "INTEGRITY", "SAMPLE_LOST"}:
                    raise
                _log.error("a charged answer cannot be made", ticket=ticket_hash, problem=error.text)
                self.lost.add(ticket_hash)
        self.commit_slots(afresh=True)
        with self.journal.reading() as state:
            return [ticket_hash for ticket_hash in state.unreleased if ticket_hash not in self.lost]

    def _registry_of(self, load: str, commitments: dict[str, str]) -> Registry:
        return self.registries.store(load, commitments)

    def read_registry(self) -> None:
        """Read the registry in force, so that no question has to wait for it."""
        self.registries.prepare()

    # --- getting answers to researchers ----------------------------------------------------------------------------

    def on_release(self, notify: Callable[[str], object]) -> None:
        """Call `notify` with the query after every release, from the thread that released."""
        self._on_release.append(notify)

    def released_answer(self, query: str, researcher: str) -> WaitingAnswer | None:
        """The researcher's own released answer; None for a query that is not out, nobody's, or somebody else's.

        SECURITY: one result for all of them. Whether a query has been charged shows when its answer is out, not before.

        Raises:
            InvalidRequestError: ANSWER_EXPIRED, the researcher's own answer was out and has been removed.
        """
        with self.journal.reading() as state:
            ticket_hash = state.ticket_of_query(query)
            ticket = state.tickets[ticket_hash] if ticket_hash is not None else None
            if ticket is None or ticket.charge.researcher != researcher or not ticket.answer:
                return None
            answer = Outbox(self.journal.db).answer(query)
        if answer is None:
            raise InvalidRequestError("ANSWER_EXPIRED", query=query)
        return answer

    def undelivered(self, researchers: Collection[str]) -> dict[str, list[str]]:
        """By researcher, for these of them: queries whose answers are out and that they do not have, oldest first."""
        waiting: dict[str, list[str]] = {}
        with self.journal.reading() as state:
            for ticket_hash in state.undelivered:
                charge = state.tickets[ticket_hash].charge
                if charge.researcher in researchers:
                    waiting.setdefault(charge.researcher, []).append(charge.query)
        return waiting

    def waiting_answer(self, query: str) -> WaitingAnswer | None:
        """The sealed answer to a query, unless it has expired."""
        with self.journal.reading():
            return Outbox(self.journal.db).answer(query)

    def delivered(self, ticket_hash: str, by: str) -> None:
        """Log, once, that the researcher has the answer.

        Raises:
            InvalidRequestError: ANSWER_EXPIRED, it was removed meanwhile, and the log says so.
        """
        with self.journal.transaction() as transaction:
            ticket = transaction.state.tickets[ticket_hash]
            if ticket.expired:
                raise InvalidRequestError("ANSWER_EXPIRED", query=ticket.charge.query)
            if not ticket.delivered:
                transaction.append(Delivered(ticket=ticket_hash, by=by))

    def forget_expired(self) -> None:
        """Remove what has been kept long enough: memberships, openings, and answers, of which the log says what nobody fetched."""
        if self._oversight is not None:
            self._oversight.forget_old(self.clock())
        now_ms = self.journal.now()
        self.book.maintain(now_ms, frozenset(self.lost))
        with self.journal.reading():
            if not Outbox(self.journal.db).expired(now_ms):
                return
        with self.journal.transaction() as transaction:
            outbox, undelivered = Outbox(transaction.db), transaction.state.undelivered
            for ticket_hash in [ticket_hash for ticket_hash in outbox.expired(now_ms) if ticket_hash in undelivered]:
                # Not before the instant they were found at: a clock that is set back meanwhile must not make it early.
                transaction.append(Expired(ticket=ticket_hash), not_before_ms=now_ms)
            outbox.forget_expired(now_ms)
            # CRASH: entries and removals stand together or not at all.


def _slot_of(ticket: VerifiedTicket) -> Slot:
    named = ticket.body.noise_slot
    return Slot(named.number, named.commitment, named.checkpoint)


def forget_old_loads(journal: Journal[CensusState], loads: LoadFolder) -> None:
    """Remove registries that neither new questions nor pending answers need."""
    loads.forget_except(_loads_needed(journal))


def _loads_needed(journal: Journal[CensusState]) -> set[str]:
    with journal.reading() as state:
        return {state.load} | Outbox(journal.db).loads_needed()
