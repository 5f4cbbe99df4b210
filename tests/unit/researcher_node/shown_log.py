"""A census agency that shows whatever log it likes: quotes, receipts, checkpoints and proofs, honest until a test lies.

It holds every key of the agency and the health agency's witness key, so that a lie may be signed by anybody. Nothing is
counted, charged or enforced: for the researcher's side alone, which sees a census node through what it shows.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from fakes import logs
from fakes.cards import Party
from fakes.clock import FakeClock
from fakes.history import SignedLog
from fakes.quotes import Offer
from fakes.world import CENSUS, CENSUS_ORIGIN, FRENCH, HEALTH, HEALTH_ORIGIN, OWNER, PROJECT, RESEARCHER
from grpc import aio
from tripartite.v1 import (
    answer_pb2,
    card_service_pb2_grpc,
    log_service_pb2,
    log_service_pb2_grpc,
    quote_pb2,
    ticket_pb2,
)

from broker_common.crypto.commitments import SlotSecret, commit_answer, commit_slot, hash_bytes
from broker_common.crypto.sealing import SealingKey, UnsealingKey, answer_info
from broker_common.crypto.signing import Purpose
from broker_common.errors import BrokerError
from broker_common.parties.exchange import CardService
from broker_common.privacy.accounting import price
from broker_common.privacy.table_laplace import margin
from broker_common.query.answer import pad_answer
from broker_common.query.question import Question, read_question
from broker_common.query.quote import sign_quote
from broker_common.query.ticket import sign_ticket
from broker_common.storage.clock import system_clock
from broker_common.tlog.cosignature import Cosigner
from broker_common.tlog.entries import Slots
from broker_common.tlog.merkle import MerkleTree
from broker_common.values import QUERY_ID_BYTES, NoisyCounts
from researcher_node.answers.store import Answers, AskedQuestion, CensusKeys
from researcher_node.trust.census_log import CensusLog

SCALE = 30
POLICY_HASH = b"p" * 32
TIME_S = 1_800_000_000


class Asked:
    """A question of the researcher's, as its store and its ticket have it."""

    def __init__(self, census: ShownLog, slot: ticket_pb2.NoiseSlot, question: str = FRENCH) -> None:
        self.unsealing_key = UnsealingKey.generate(os.urandom)
        body = ticket_pb2.Ticket(
            query_id=os.urandom(QUERY_ID_BYTES),
            researcher_id=RESEARCHER,
            project_id=PROJECT,
            question=read_question(question).to_wire(),
            scale=SCALE,
            fraction_millionths=1_000_000,
            criteria_commitment=os.urandom(32),
            answer_key=self.unsealing_key.sealing_key.raw,
            policy_hash=POLICY_HASH,
            noise_slot=slot,
            expires_ms=census.clock() + 60_000,
            health_dictionary=bytes(32),
            census_dictionary=bytes(32),
        )
        self.query = body.query_id.hex()
        self.body = body
        self.signed = sign_ticket(body, census.researcher.signing(Purpose.TICKET))
        self.hash = hash_bytes(self.signed.ticket)
        self.row = AskedQuestion(
            query=self.query,
            asked_ms=census.clock(),
            where="age >= 65 and diagnosis = 'I21'",
            question=question,
            scale=SCALE,
            fraction_millionths=1_000_000,
            policy_hash=POLICY_HASH.hex(),
            signed_quote=b"",
            signed_ticket=self.signed.SerializeToString(deterministic=True),
            criteria=b"criteria",
            criteria_nonce=b"n" * 32,
        )


class ShownLog(SignedLog):
    """The log, and everybody's keys. A copy of its tree grown otherwise is another history under the same signatures."""

    def __init__(self) -> None:
        self.clock = FakeClock(system_clock())
        self.census = Party(CENSUS, CENSUS_ORIGIN)
        self.health = Party(HEALTH, HEALTH_ORIGIN)
        self.researcher = Party(OWNER)
        self.witness = Cosigner(HEALTH_ORIGIN, self.health.signing(Purpose.WITNESS))
        super().__init__(self.census)
        self.policy = POLICY_HASH.hex()
        self.slot_secrets: list[SlotSecret] = []
        self.grow(3)

    @property
    def known(self) -> CensusLog:
        """A researcher's knowledge of it."""
        return CensusLog(self.signer.verifier, self.witness.verifier)

    def grow(self, count: int) -> None:
        """So many more leaves that mean nothing."""
        for _ in range(count):
            self.append_bytes(os.urandom(8))

    def forget(self) -> None:
        """Nothing was ever written."""
        self.tree, self.entries, self.slot_secrets = MerkleTree(), [], []

    def rewrite(self) -> None:
        """Another history of the same length."""
        size, secrets = self.size, self.slot_secrets
        self.forget()
        self.slot_secrets = secrets
        self.grow(size)

    def cosigned(self, size: int | None = None) -> str:
        """A checkpoint with both signatures."""
        return self.witness.cosign(self.note(size), TIME_S)

    def consistency(self, old_size: int, size: int) -> list[bytes]:
        """That the log as it is goes on from what it was."""
        return self.tree.consistency_proof(old_size, size)

    # --- slots -------------------------------------------------------------------------------------------------------

    def commit_slots(self, count: int, **changes: Any) -> int:
        """The entry of the next batch of slots; gives its index."""
        first = len(self.slot_secrets)
        self.slot_secrets += [SlotSecret(os.urandom(32)) for _ in range(count)]
        commitments = tuple(self.commitment(slot).hex() for slot in range(first, first + count))
        fields: dict[str, Any] = {"first": first, "void_below": first, "commitments": commitments}
        return self.append(Slots(**fields | changes), self.clock())

    def commitment(self, slot: int) -> bytes:
        """The log's commitment to a slot."""
        return commit_slot(self.slot_secrets[slot], slot)

    def quote(self, index: int, slot: int, *, size: int | None = None) -> Offer:
        """An offer with this slot, which the entry at `index` commits to."""
        return Offer(
            noise_slot=ticket_pb2.NoiseSlot(
                number=slot, commitment=self.commitment(slot), checkpoint=self.cosigned(size)
            ),
            slot_entry=self.entries[index],
            slot_index=index,
            slot_proof=self.tree.inclusion_proof(index, size),
        )

    def signed_quote(self, offer: Offer, question: Question) -> quote_pb2.SignedQuote:
        """A quote for a question with this slot, as an honest census node signs it."""
        body = quote_pb2.Quote(
            researcher_id=RESEARCHER,
            question=question.to_wire(),
            scale=SCALE,
            charged=price(SCALE),
            margin_95=margin(SCALE, len(question.cells)),
            policy_hash=POLICY_HASH,
            noise_slot=offer.noise_slot,
            told_ms=self.clock(),
            expires_ms=self.clock() + 60_000,
        )
        return sign_quote(body, self.census.signing(Purpose.ANSWER))

    # --- answers -----------------------------------------------------------------------------------------------------

    def open_answers(self, path: Any) -> Answers:
        """The researcher's store."""
        keys = CensusKeys(
            answer=lambda: [self.census.signing(Purpose.ANSWER).verify_key], log=lambda: self.signer.verifier
        )
        return Answers(path, keys, self.clock)

    def ask(self, answers: Answers, question: str = FRENCH) -> Asked:
        """A question that waits for its answer."""
        slot = len(self.slot_secrets)
        index = self.commit_slots(1)
        asked = Asked(self, self.quote(index, slot).noise_slot, question)
        answers.put(asked.row, asked.unsealing_key)
        return asked

    def answer(
        self,
        asked: Asked,
        noisy_count: int = 17,
        salt: bytes | None = None,
        *,
        others: tuple[int, ...] = (),
        slot: int | None = None,
    ) -> answer_pb2.SealedAnswer:
        """Charged, answered and sealed; the receipt promises the log as it is right after the charge.

        `others` are the numbers of further cells.
        """
        noisy = NoisyCounts((noisy_count, *others))
        salt = os.urandom(32) if salt is None else salt
        charge = logs.charged(
            asked.body.noise_slot.number if slot is None else slot,
            scale=SCALE,
            query=asked.query,
            ticket=asked.hash.hex(),
            question=asked.row.question,
            researcher=RESEARCHER,
            project=PROJECT,
            health=HEALTH.organisation,
        )
        index = self.append(charge, self.clock())
        receipt = answer_pb2.Receipt(
            query_id=asked.body.query_id,
            ticket_hash=asked.hash,
            answer_hash=commit_answer(salt, asked.hash, noisy),
            scale=SCALE,
            charged=price(SCALE),
            policy_hash=POLICY_HASH,
            log_index=index,
            checkpoint=self.note(),
            inclusion_proof=self.tree.inclusion_proof(index),
            entry=self.entries[index],
        ).SerializeToString(deterministic=True)
        key = self.census.signing(Purpose.ANSWER)
        signed = answer_pb2.SignedReceipt(receipt=receipt, signature=key.sign(receipt), key_id=key.key_id)
        answer = answer_pb2.SignedAnswer(receipt=signed, noisy_counts=noisy.padded, answer_salt=salt)
        sealed = SealingKey(asked.body.answer_key).seal(pad_answer(answer), answer_info(asked.hash))
        return answer_pb2.SealedAnswer(query_id=asked.body.query_id, sealed=sealed)


class ShownLogService(log_service_pb2_grpc.LogServiceServicer):
    """tripartite.v1.LogService over a shown log: `checkpoint` and `prove` say what is answered, or raise a BrokerError."""

    def __init__(self, log: ShownLog) -> None:
        self._log = log
        self.checkpoint: Callable[[], str] = log.cosigned
        self.prove: Callable[[int, int], list[bytes]] = log.consistency
        self.proofs_asked: list[tuple[int, int]] = []

    def add_to(self, server: aio.Server) -> None:
        """Serve it, and the agency's card."""
        log_service_pb2_grpc.add_LogServiceServicer_to_server(self, server)
        cards = CardService(lambda _, __: self._log.census.card.signed)
        card_service_pb2_grpc.add_CardServiceServicer_to_server(cards, server)

    async def GetCheckpoint(  # noqa: N802 - the name that the proto gives it
        self, request: log_service_pb2.GetCheckpointRequest, context: object
    ) -> log_service_pb2.GetCheckpointResponse:
        del request, context
        return log_service_pb2.GetCheckpointResponse(checkpoint=self.checkpoint())

    async def _unasked(self, request: object, context: object) -> Any:
        del request, context
        raise AssertionError("a researcher is no witness, and has the proof of its charge in the receipt")

    GetInclusionProof = Witness = _unasked

    async def GetConsistencyProof(  # noqa: N802 - the name that the proto gives it
        self, request: log_service_pb2.GetConsistencyProofRequest, context: object
    ) -> log_service_pb2.GetConsistencyProofResponse:
        del context
        self.proofs_asked.append((request.old_size, request.size))
        return log_service_pb2.GetConsistencyProofResponse(proof=self.prove(request.old_size, request.size))


def raising(error: BrokerError) -> Callable[..., Any]:
    """Something that raises this error, whatever it is asked."""

    def answer(*_: object) -> Any:
        raise error

    return answer
