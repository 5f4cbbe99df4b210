"""From a durable charge to a sealed answer that is let out: count, noise, signature, padding, seal; then release.

The answer is made from a `Pending` row and its sample's file, which exist only once its charge is durable. The noise is a function of
what the charge fixed, so making the answer again after a crash draws nothing again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog
from tripartite.v1 import answer_pb2, ticket_pb2

from broker_common.crypto.commitments import (
    SlotSecret,
    answer_salt,
    commit_answer,
    hash_bytes,
    noise_seed,
)
from broker_common.crypto.noise_stream import NoiseStream
from broker_common.crypto.sealing import SealingKey, answer_info
from broker_common.crypto.signing import SigningKey
from broker_common.errors import BrokerError, InternalError, InvalidRequestError, RefusedError
from broker_common.privacy.opening import make_opening
from broker_common.privacy.table_laplace import add_noise
from broker_common.query.answer import pad_answer
from broker_common.query.dictionary import Dictionary
from broker_common.query.messages import parse_message
from broker_common.query.question import Question, question_from_wire
from broker_common.storage.journal import Checkpointed, Journal
from broker_common.tlog.census_state import CensusState, ChargedTicket
from broker_common.tlog.entries import Released
from broker_common.tracing import span
from broker_common.values import ExactCounts
from census_node.ledger.passes import Passes
from census_node.ledger.samples import SampleFolder
from census_node.query.flow import Charge
from census_node.registry.registry import Registry, counted
from census_node.release.outbox import Outbox, Pending, WaitingAnswer
from census_node.release.oversight import Oversight
from census_node.release.slot_secrets import SlotSecrets

_log = structlog.get_logger()


class Answers:
    """Sealed answers of one journal, from the count to the door."""

    def __init__(
        self,
        journal: Journal[CensusState],
        *,
        samples: SampleFolder,
        slot_secrets: SlotSecrets,
        registry: Callable[[str], Registry],
        passes: Passes,
        key: Callable[[], SigningKey],
        oversight: Oversight | None,
        forgot_samples: Callable[[], object],
        is_stopping: Callable[[], bool],
    ) -> None:
        """`registry` gives a load; `key` signs answers; `forgot_samples` is told when rows have lost the key of a sample.

        Once the node is stopping, nothing is waited for any more.
        """
        self._journal = journal
        self._samples = samples
        self._slot_secrets = slot_secrets
        self._registry = registry
        self._passes = passes
        self._key = key
        self._oversight = oversight
        self._forgot_samples = forgot_samples
        self._is_stopping = is_stopping
        # Charged tickets whose answers can never be made.
        self.lost: set[str] = set()
        # Released in the log, and not let out before the instant of that: nobody is told of them.
        self._held_back: set[str] = set()
        self._holding = threading.Lock()
        self._on_out: list[Callable[[str], object]] = []

    # --- made ------------------------------------------------------------------------------------------------------

    def make(self, charge: Charge, proof: Checkpointed) -> None:
        self._patiently(lambda: self._make(charge.ticket_hash, proof))

    def _make(self, ticket_hash: str, proof: Checkpointed) -> None:
        with self._journal.reading() as state:
            pending, ticket = Outbox(self._journal.db).pending(ticket_hash), state.tickets[ticket_hash]
        if pending is None:
            return
        if ticket_hash in self.lost or not pending.sample:
            raise InternalError("SAMPLE_LOST")
        exact = self._count(pending, ticket)
        secret = self._slot_secrets.read(pending.slot, pending.slot_commitment)
        sealed = _sealed(pending, exact, secret, ticket, proof, self._key())
        if self._oversight is not None:
            # CRASH: an opening without its answer; made again with the answer, it is the same.
            self._oversight.keep(make_opening(exact, secret, ticket=ticket_hash, slot=pending.slot, load=pending.load))
        with self._journal.transaction() as transaction:
            Outbox(transaction.db).put_answer(
                WaitingAnswer(
                    query=ticket.charge.query,
                    ticket_hash=ticket_hash,
                    researcher=ticket.charge.researcher,
                    sealed=sealed,
                )
            )
        # CRASH: the answer stands, the sample and the noise secret too; the next start sweeps them away.
        if not ticket.charge.ledger:
            # Under strict accounting nobody needs it any more. SECURITY: its key stood in the row that was pending.
            self._samples.wipe(pending.sample)
            self._forgot_samples()
        self._slot_secrets.wipe(pending.slot)

    def _count(self, pending: Pending, ticket: ChargedTicket) -> ExactCounts:
        kept = self._samples.read(pending.sample)
        # SECURITY: or other people would be counted than those who were charged.
        kept.verify_active(bytes.fromhex(pending.ticket_hash), bytes.fromhex(ticket.charge.active))
        body = _ticket_of(pending)
        # SECURITY: by the charge's load and what its own values mean, whatever is in force by now.
        registry = self._registry(pending.load)
        question = _question_of(body, registry.dictionary)
        with span("counting"):
            # SECURITY: the only place where language is looked at, after the charge is durable.
            return ExactCounts(self._passes.count(kept.active, counted(registry, question)))

    def recover(self, ticket_hash: str) -> None:
        """Make a charged answer before serving; if that can never be done, it is lost, for the operator to see."""
        try:
            self._make(ticket_hash, self._journal.prove(self._journal.state.tickets[ticket_hash].index))
        except BrokerError as error:
            if error.code not in {"INTEGRITY", "SAMPLE_LOST"}:
                raise
            _log.error("a charged answer cannot be made", ticket=ticket_hash, problem=error.text)
            self.lost.add(ticket_hash)

    # --- let out ---------------------------------------------------------------------------------------------------

    def release(self, charge: Charge, cosigned: str, *, at_ms: int) -> None:
        self._patiently(lambda: self._release(charge.ticket_hash, cosigned, at_ms))

    def _release(self, ticket_hash: str, cosigned: str, at_ms: int) -> None:
        with self._journal.transaction() as transaction:
            outbox, ticket = Outbox(transaction.db), transaction.state.tickets[ticket_hash]
            if ticket.answer:
                return
            waiting = outbox.answer(ticket.charge.query)
            if waiting is None:
                raise InternalError("INTEGRITY", problem="an answer to release is missing")
            answer = hash_bytes(waiting.sealed).hex()
            # Before anybody can read it in the log; and never again for an answer that is out, whose ticket comes back.
            with self._holding:
                self._held_back.add(ticket_hash)
            transaction.append(Released(ticket=ticket_hash, answer=answer, checkpoint=cosigned), at_ms=at_ms)
            outbox.start_retention(waiting.query, transaction.state.tickets[ticket_hash].kept_until_ms)

    def let_out(self, charge: Charge) -> None:
        with self._holding:
            self._held_back.discard(charge.ticket_hash)
        for tell in self._on_out:
            tell(charge.ticket_hash)

    def on_out(self, tell: Callable[[str], object]) -> None:
        """Call `tell` with the ticket of every answer that is let out."""
        self._on_out.append(tell)

    @property
    def held_back(self) -> frozenset[str]:
        """Tickets whose release stands in the log, and is told to nobody yet."""
        with self._holding:
            return frozenset(self._held_back)

    def _patiently(self, step: Callable[[], None]) -> None:
        """The steps after a charge are paid for: they wait for a journal that another process holds instead of giving up."""
        while True:
            try:
                return step()
            except RefusedError as error:
                if error.code != "BUSY" or self._is_stopping():
                    raise


def _ticket_of(pending: Pending) -> ticket_pb2.Ticket:
    try:
        return parse_message(ticket_pb2.Ticket, pending.signed_ticket)
    except InvalidRequestError as error:
        raise InternalError("INTEGRITY", problem="the ticket of a charged answer is damaged") from error


def _question_of(body: ticket_pb2.Ticket, dictionary: Dictionary) -> Question:
    """The question of a charged ticket. One that names no dictionary is of before there were any to name."""
    # SECURITY: under another dictionary other people would be counted.
    if body.census_dictionary not in {b"", dictionary.hash}:
        raise InternalError("INTEGRITY", problem="a charged question is not of its load's dictionary")
    try:
        return question_from_wire(body.question, dictionary)
    except InvalidRequestError as error:
        raise InternalError("INTEGRITY", problem="a charged question is damaged") from error


def _sealed(
    pending: Pending,
    exact: ExactCounts,
    slot_secret: SlotSecret,
    ticket: ChargedTicket,
    proof: Checkpointed,
    key: SigningKey,
) -> bytes:
    """The sealed answer to a charged ticket, readable by the researcher alone."""
    charge, body, ticket_hash = ticket.charge, _ticket_of(pending), bytes.fromhex(pending.ticket_hash)
    seed = noise_seed(
        slot_secret,
        ticket_hash=ticket_hash,
        set_commitment=bytes.fromhex(charge.submitted),
        scale=charge.scale,
        cells=len(body.question.cells),
    )
    with span("noise"):
        noisy = add_noise(exact, charge.scale, NoiseStream(seed))
    salt = answer_salt(slot_secret, ticket_hash)
    receipt = answer_pb2.Receipt(
        query_id=body.query_id,
        ticket_hash=ticket_hash,
        answer_hash=commit_answer(salt, ticket_hash, noisy),
        scale=charge.scale,
        charged=charge.units,
        policy_hash=bytes.fromhex(ticket.policy_hash),
        log_index=proof.index,
        checkpoint=proof.note,
        inclusion_proof=proof.proof,
        entry=proof.entry,
    ).SerializeToString(deterministic=True)
    signed = answer_pb2.SignedReceipt(receipt=receipt, signature=key.sign(receipt), key_id=key.key_id)
    answer = answer_pb2.SignedAnswer(receipt=signed, noisy_counts=noisy.padded, answer_salt=salt)
    with span("sealing"):
        return SealingKey(body.answer_key).seal(pad_answer(answer), answer_info(ticket_hash))
