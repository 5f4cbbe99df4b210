"""Handing one sample to the census node: sealed anew for every attempt, and what comes back is verified.

The rounds: `sealed_messages` makes what is sent, `verify_charged` checks what is claimed. Neither knows a socket.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tripartite.v1 import census_service_pb2, sample_pb2, ticket_pb2

from broker_common.crypto.commitments import commit_set, hash_bytes, hash_set
from broker_common.crypto.frames import FrameSealer, frame_plaintexts
from broker_common.crypto.sealing import SealingKey, sample_info
from broker_common.crypto.signing import SigningKey
from broker_common.errors import BrokerError, PeerUnavailableError
from broker_common.query.ticket import VerifiedTicket
from broker_common.tlog.entries import Charged, parse_entry
from broker_common.tlog.merkle import root_from_inclusion
from broker_common.tlog.note import NoteVerifier
from broker_common.values import Randomness

__all__ = ["Sample", "Sender", "VerifiedCharge", "sealed_messages", "verify_charged"]


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One ticket's sample: the same at every attempt."""

    ticket: VerifiedTicket
    signed_ticket: ticket_pb2.SignedTicket
    pseudonyms: npt.NDArray[np.uint8]
    set_salt: bytes

    @property
    def set_commitment(self) -> bytes:
        return commit_set(self.set_salt, self.ticket.hash, hash_set(self.pseudonyms.data))


@dataclass(frozen=True, slots=True)
class Sender:
    """What the health agency seals and signs with."""

    census_key: SealingKey
    manifest_key: SigningKey
    randomness: Randomness


@dataclass(frozen=True, slots=True)
class VerifiedCharge:
    """The census node proved that it charged our ticket for our sample."""

    log_index: int
    checkpoint: str


async def sealed_messages(
    sample: Sample, sender: Sender, on_manifest: Callable[[bytes], Awaitable[None]]
) -> AsyncIterator[census_service_pb2.CountRequest]:
    """One attempt: header, frames, manifest, under a frame key that exists in this call only.

    `on_manifest` is given the manifest's hash before the manifest leaves, so that the log knows of every attempt.
    """
    sealer = FrameSealer(sender.randomness)
    ticket = sample.ticket
    sealed_key = sender.census_key.seal(sealer.frame_key, sample_info(ticket.hash, ticket.body.policy_hash))
    yield census_service_pb2.CountRequest(
        header=sample_pb2.SampleHeader(ticket=sample.signed_ticket, sealed_frame_key=sealed_key)
    )
    for index, last, plaintext in frame_plaintexts(sample.pseudonyms, sample.set_salt):
        frame = sample_pb2.SampleFrame(index=index, last=last, ciphertext=sealer.seal_frame(index, last, plaintext))
        yield census_service_pb2.CountRequest(frame=frame)
    manifest = sample_pb2.Manifest(
        ticket_hash=ticket.hash,
        encapsulation_hash=hash_bytes(sealed_key),
        ciphertext_hash=sealer.ciphertext_hash,
        set_commitment=sample.set_commitment,
    ).SerializeToString(deterministic=True)
    await on_manifest(hash_bytes(manifest))
    yield census_service_pb2.CountRequest(
        manifest=sample_pb2.SignedManifest(
            manifest=manifest,
            signature=sender.manifest_key.sign(manifest),
            key_id=sender.manifest_key.key_id,
        )
    )


def verify_charged(charged: sample_pb2.Charged, sample: Sample, census_log: NoteVerifier) -> VerifiedCharge:
    """The charge, if the census node's signed log holds it for exactly this ticket and this set.

    Raises:
        PeerUnavailableError: PEER_MISBEHAVED, naming what does not hold.
    """
    try:
        checkpoint = census_log.verify_checkpoint(charged.checkpoint)
        entry = parse_entry(charged.entry)
        root = root_from_inclusion(charged.entry, charged.log_index, checkpoint.size, charged.inclusion_proof)
    except (BrokerError, ValueError) as error:
        raise _misbehaved("a charge without a valid proof") from error
    event = entry.event
    if root != checkpoint.root or entry.sequence != charged.log_index or not isinstance(event, Charged):
        raise _misbehaved("a charge that is not in its log")
    if event.ticket != sample.ticket.hash.hex() or event.submitted != sample.set_commitment.hex():
        raise _misbehaved("the charge of another ticket or sample")
    if event.scale != sample.ticket.body.scale:
        raise _misbehaved("a charge at another scale than the ticket's")
    return VerifiedCharge(charged.log_index, charged.checkpoint)


def _misbehaved(problem: str) -> PeerUnavailableError:
    return PeerUnavailableError("PEER_MISBEHAVED", peer="census", problem=problem)
