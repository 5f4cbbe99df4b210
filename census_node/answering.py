"""From a durable charge to a sealed answer: lookup, count, noise, signature, padding, seal.

Runs only on a `Pending` row, which exists only once its charge is durable. The noise is a function of what the charge
fixed, so making the answer again after a crash draws nothing again.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from tripartite.v1 import answer_pb2, ticket_pb2

from broker_common.crypto.commitments import SlotSecret, answer_salt, commit_answer, noise_seed
from broker_common.crypto.noise_stream import NoiseStream
from broker_common.crypto.sealing import SealingKey, answer_info
from broker_common.crypto.signing import SigningKey
from broker_common.errors import InternalError, InvalidRequestError
from broker_common.privacy.discrete_laplace import add_noise
from broker_common.privacy.opening import Opening, make_opening
from broker_common.query.answer import pad_answer
from broker_common.query.messages import parse_message
from broker_common.query.question import question_from_wire
from broker_common.stages import stage
from broker_common.storage.journal import Checkpointed
from broker_common.tlog.census_state import ChargedTicket
from census_node.dictionary import CENSUS_DICTIONARY
from census_node.outbox import Pending
from census_node.registry import Registry

__all__ = ["seal_answer"]


def seal_answer(
    pending: Pending,
    rows: npt.NDArray[np.uint32],
    slot_secret: SlotSecret,
    ticket: ChargedTicket,
    proof: Checkpointed,
    registry: Registry,
    key: SigningKey,
    *,
    overseen: bool,
) -> tuple[bytes, Opening | None]:
    """The sealed answer to a charged ticket, readable by the researcher alone, and the opening that checks it.

    `rows` of the registry are counted, a person once. Where nobody oversees the noise no opening is made.
    """
    if registry.load != pending.load:
        raise InternalError("INTEGRITY", problem=f"load {pending.load} is needed for a charged answer")
    charge = ticket.charge
    try:
        body = parse_message(ticket_pb2.Ticket, pending.signed_ticket)
    except InvalidRequestError as error:
        raise InternalError("INTEGRITY", problem="the ticket of a charged answer is damaged") from error
    ticket_hash = bytes.fromhex(pending.ticket_hash)
    seed = noise_seed(
        slot_secret,
        ticket_hash=ticket_hash,
        set_commitment=bytes.fromhex(charge.submitted),
        scale=charge.scale,
    )
    with stage("counting"):
        exact = registry.count(registry.people_of(rows), question_from_wire(body.question, CENSUS_DICTIONARY))
    with stage("noise"):
        noisy = add_noise(exact, charge.scale, NoiseStream(seed))
    salt = answer_salt(slot_secret, ticket_hash)
    receipt = answer_pb2.Receipt(
        query_id=body.query_id,
        ticket_hash=ticket_hash,
        answer_hash=commit_answer(salt, ticket_hash, noisy.value),
        scale=charge.scale,
        charged=charge.units,
        policy_hash=bytes.fromhex(ticket.policy_hash),
        log_index=proof.index,
        checkpoint=proof.note,
        inclusion_proof=proof.proof,
        entry=proof.entry,
    ).SerializeToString(deterministic=True)
    signed = answer_pb2.SignedReceipt(receipt=receipt, signature=key.sign(receipt), key_id=key.key_id)
    answer = answer_pb2.SignedAnswer(receipt=signed, noisy_count=noisy.value, answer_salt=salt)
    with stage("sealing"):
        sealed = SealingKey(body.answer_key).seal(pad_answer(answer), answer_info(ticket_hash))
    if not overseen:
        return sealed, None
    opening = make_opening(
        exact,
        slot_secret,
        ticket=pending.ticket_hash,
        slot=pending.slot,
        load=pending.load,
        submitted=(pending.submitted_salt, pending.submitted_set),
        active=(pending.active_salt, pending.active_set),
    )
    return sealed, opening
