"""One running census node: its parts put together, and the walk of one query from admission to release.

    admitted -> charged (durable) -> answered (sealed, durable) -> released (logged) -> delivered

Each arrow is one transaction of the journal. A crash between two of them leaves a state from which `recover` goes on;
it never goes back.
"""

from __future__ import annotations

import threading
from base64 import b64decode
from collections.abc import Callable, Collection
from dataclasses import dataclass

from tripartite.v1 import policy_pb2

from broker_common.crypto.commitments import hash_bytes
from broker_common.crypto.sealing import OpeningKey
from broker_common.crypto.signing import SigningKey, VerifyKey
from broker_common.errors import InternalError, InvalidRequestError, RefusedError
from broker_common.privacy.policy import Policy
from broker_common.query.ticket import Researcher
from broker_common.storage.journal import Checkpointed, Journal
from broker_common.storage.loads import LoadFolder
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import Delivered, Released
from broker_common.values import Clock, Randomness
from census_node.admission import AdmittedSample, Gate
from census_node.answering import seal_answer
from census_node.ledger import charge
from census_node.outbox import Outbox, WaitingAnswer
from census_node.registry import Registry
from census_node.slots import SlotBook

__all__ = ["CensusNode", "InForce", "Keys", "forget_old_loads"]


@dataclass(frozen=True, slots=True)
class Keys:
    """What a serving census node holds."""

    answer: SigningKey
    sample: OpeningKey
    manifest: dict[str, VerifyKey]


@dataclass(frozen=True, slots=True)
class InForce:
    """The policy and registry that new questions are asked under."""

    policy: Policy
    census_release: str
    registry: Registry


class CensusNode:
    """Everything the RPCs do, without gRPC. Blocking methods; the service calls them in threads."""

    def __init__(
        self,
        journal: Journal[CensusState],
        *,
        keys: Keys,
        researchers: dict[str, Researcher],
        loads: LoadFolder,
        clock: Clock,
        randomness: Randomness,
    ) -> None:
        self.journal = journal
        self.clock = clock
        self.slots = SlotBook()
        self._keys = keys
        self._researchers = researchers
        self._loads = loads
        self._randomness = randomness
        self._registry: Registry | None = None
        self._registry_lock = threading.Lock()
        self._on_release: list[Callable[[], object]] = []

    # --- what is in force ------------------------------------------------------------------------------------------

    def in_force(self) -> InForce:
        """Policy and registry as the log has them now; a new load is read when the first question meets it.

        Raises:
            RefusedError: NOTHING_LOADED.
        """
        with self.journal.reading() as state:
            policy, load, release, commitment = state.policy, state.load, state.release, state.commitment
        if policy is None:
            raise RefusedError("NOTHING_LOADED", what="policy", role="census")
        if not load:
            raise RefusedError("NOTHING_LOADED", what="registry", role="census")
        with self._registry_lock:
            if self._registry is None or self._registry.load != load:
                self._loads.verify(self.journal, load, commitment)
                self._registry = Registry.read(self._loads.file(load), load)
            return InForce(policy, release, self._registry)

    def signed_policy(self) -> policy_pb2.SignedPolicy:
        """The policy in force with the agency's signature, as it was adopted."""
        with self.journal.reading() as state:
            if state.adopted is None:
                raise RefusedError("NOTHING_LOADED", what="policy", role="census")
            return policy_pb2.SignedPolicy(
                document=state.adopted.document.encode(),
                signature=b64decode(state.adopted.signature),
                key_id=state.adopted.key_id,
            )

    def gate(self) -> Gate:
        """What a sample that arrives now is checked against."""
        now = self.in_force()
        return Gate(
            researchers=self._researchers,
            manifest_keys=self._keys.manifest,
            sample_key=self._keys.sample,
            policy=now.policy,
            census_release=now.census_release,
            registry=now.registry,
            slot_is_usable=self._slot_is_usable,
        )

    def _slot_is_usable(self, slot: int, researcher: str, ticket_hash: bytes) -> bool:
        # Before the log: the charge of a first attempt, falling between the two looks, spends what a retry must still find.
        held = self.slots.is_held(slot, researcher, self.clock())
        with self.journal.reading() as state:
            charged = state.tickets.get(ticket_hash.hex())
        # A retry keeps the slot that its charge has spent.
        return held if charged is None else charged.charge.slot == slot

    # --- the walk of one query -------------------------------------------------------------------------------------

    def charge_and_answer(self, sample: AdmittedSample) -> Checkpointed:
        """Charge, then count, then store the sealed answer; gives the proof of the charge.

        A ticket that was charged before is not charged again and keeps its answer.
        """
        charge(self.journal, sample, self._randomness)
        self.slots.spend(sample.ticket.body.noise_slot.number)
        ticket_hash = sample.ticket.hash.hex()
        # CRASH: charged and not answered; `recover` answers.
        self.answer(ticket_hash)
        with self.journal.reading() as state:
            index = state.tickets[ticket_hash].index
        return self.journal.prove(index)

    def answer(self, ticket_hash: str) -> None:
        """Make and store the sealed answer of a charged ticket, unless that has been done."""
        with self.journal.reading() as state:
            pending = Outbox(self.journal.db).pending(ticket_hash)
            ticket = state.tickets[ticket_hash]
        if pending is None:
            return
        registry = self._registry_of(pending.load)
        proof = self.journal.prove(ticket.index)
        sealed = seal_answer(pending, ticket, proof, registry, self._keys.answer)
        with self.journal.transaction() as transaction:
            outbox = Outbox(transaction.db)
            if outbox.pending(ticket_hash) is None:
                # Another thread, handling a retry of the same ticket, was faster: its answer stands.
                return
            policy = transaction.state.policy
            retention_ms = policy.answer_retention_ms if policy is not None else 0
            outbox.put_answer(
                WaitingAnswer(
                    query=ticket.charge.query,
                    ticket_hash=ticket_hash,
                    researcher=ticket.charge.researcher,
                    sealed=sealed,
                    expires_ms=self.clock() + retention_ms,
                )
            )

    def release(self, ticket_hash: str) -> None:
        """Log that the answer may leave; from here on it can be collected and is pushed to the inbox."""
        with self.journal.transaction() as transaction:
            ticket = transaction.state.tickets[ticket_hash]
            if ticket.answer:
                return
            waiting = Outbox(transaction.db).answer(ticket.charge.query)
            if waiting is None:
                raise InternalError("INTEGRITY", problem="an answer to release is missing")
            transaction.append(Released(ticket=ticket_hash, answer=hash_bytes(waiting.sealed).hex()))
        for notify in self._on_release:
            notify()

    def recover(self) -> list[str]:
        """After a start: answer what was charged; gives the tickets whose answers are still to be released."""
        with self.journal.transaction() as transaction:
            outbox = Outbox(transaction.db)
            outbox.forget_expired(self.clock())
            waiting = outbox.pending_tickets()
        for ticket_hash in waiting:
            self.answer(ticket_hash)
        with self.journal.reading() as state:
            return list(state.unreleased)

    def _registry_of(self, load: str) -> Registry:
        with self._registry_lock:
            if self._registry is not None and self._registry.load == load:
                return self._registry
        # An older load, kept because this answer was charged on it.
        return Registry.read(self._loads.file(load), load)

    # --- getting answers to researchers ----------------------------------------------------------------------------

    def on_release(self, notify: Callable[[], object]) -> None:
        """Call `notify` after every release, from the thread that released."""
        self._on_release.append(notify)

    def released_answer(self, query: str, researcher: str) -> WaitingAnswer | None:
        """The researcher's own released answer; None while it is not out.

        Raises:
            InvalidRequestError: UNKNOWN_QUERY, for a query that is nobody's, somebody else's, or expired.
        """
        with self.journal.reading() as state:
            ticket_hash = state.ticket_of_query(query)
            ticket = state.tickets[ticket_hash] if ticket_hash is not None else None
            if ticket is None or ticket.charge.researcher != researcher:
                raise InvalidRequestError("UNKNOWN_QUERY", query=query)
            if not ticket.answer:
                return None
            answer = Outbox(self.journal.db).answer(query)
        if answer is None:
            raise InvalidRequestError("UNKNOWN_QUERY", query=query)
        return answer

    def undelivered(self, researchers: Collection[str]) -> list[str]:
        """Queries of these researchers whose answers are released and that they do not have yet."""
        with self.journal.reading() as state:
            charges = (state.tickets[ticket_hash].charge for ticket_hash in state.undelivered)
            return [charge.query for charge in charges if charge.researcher in researchers]

    def waiting_answer(self, query: str) -> WaitingAnswer | None:
        """The sealed answer to a query, unless it has expired."""
        with self.journal.reading():
            return Outbox(self.journal.db).answer(query)

    def delivered(self, ticket_hash: str, by: str) -> None:
        """Log, once, that the researcher has the answer."""
        with self.journal.transaction() as transaction:
            if not transaction.state.tickets[ticket_hash].delivered:
                transaction.append(Delivered(ticket=ticket_hash, by=by))


def forget_old_loads(journal: Journal[CensusState], loads: LoadFolder) -> None:
    """Remove registries that neither new questions nor pending answers need."""
    with journal.reading() as state:
        kept = {state.load} | Outbox(journal.db).loads_needed()
    loads.forget_except(kept)
