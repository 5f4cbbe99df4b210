"""Handing one sample to the census node: sealed anew for every attempt, and what comes back is verified.

The rounds: an `Attempt` makes what is sent, `verify_charged` checks what is claimed. Neither knows a socket.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice, repeat

from tripartite.v1 import census_service_pb2, sample_pb2, ticket_pb2

from broker_common.crypto.commitments import commit_set, hash_bytes
from broker_common.crypto.frames import FrameSealer, SampleFrames
from broker_common.crypto.pseudonyms import Pseudonyms
from broker_common.crypto.sealing import SealingKey, sample_info
from broker_common.crypto.signing import SigningKey
from broker_common.errors import BrokerError, PeerUnavailableError
from broker_common.privacy.accounting import price_units
from broker_common.query.ticket import VerifiedTicket
from broker_common.stages import stage
from broker_common.tlog.cosignature import only_lines_of
from broker_common.tlog.entries import Charged, parse_entry
from broker_common.tlog.merkle import root_from_inclusion
from broker_common.tlog.note import NoteVerifier
from broker_common.values import Randomness

__all__ = ["Attempt", "HandedOver", "Sample", "Sender", "VerifiedCharge", "verify_charged"]

# Frames that are sealed in one go: few at first, so that something is soon on its way, then enough to spare changes of thread.
_BATCHES = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One ticket's sample: the same at every attempt."""

    people: Pseudonyms
    set_salt: bytes


@dataclass(frozen=True, slots=True)
class Sender:
    """What the health agency seals and signs one attempt with."""

    census_key: SealingKey
    manifest_key: SigningKey
    randomness: Randomness


@dataclass(frozen=True, slots=True)
class HandedOver:
    """What our log says of a sample: whose it is, and the hex hash of the manifest of every attempt."""

    organisation: str
    manifests: frozenset[str]


@dataclass(frozen=True, slots=True)
class VerifiedCharge:
    """The census node proved that it charged our ticket for our sample."""

    log_index: int
    # With the census log's own signatures, and nothing else that the census node may have put there.
    checkpoint: str


class Attempt:
    """What one attempt sends: header, frames, manifest, under a frame key that exists in this object only."""

    def __init__(
        self, ticket: VerifiedTicket, signed_ticket: ticket_pb2.SignedTicket, linkage: str, sender: Sender
    ) -> None:
        self._ticket = ticket
        self._signed_ticket = signed_ticket
        self._linkage = linkage
        self._sender = sender
        self._sealer = FrameSealer(sender.randomness)
        info = sample_info(ticket.hash, ticket.body.policy_hash, linkage)
        self._sealed_key = sender.census_key.seal(self._sealer.frame_key, info)
        self._set_commitment = b""

    def header(self) -> census_service_pb2.CountRequest:
        """The first message; needs no sample."""
        return census_service_pb2.CountRequest(
            header=sample_pb2.SampleHeader(
                ticket=self._signed_ticket, sealed_frame_key=self._sealed_key, linkage=self._linkage
            )
        )

    def frames(self, sample: Sample) -> Iterator[census_service_pb2.CountRequest]:
        """The sample. Take all of them once, before the manifest."""
        frames = SampleFrames(sample.people, sample.set_salt)
        for index, last, plaintext in frames:
            ciphertext = self._sealer.seal_frame(index, last, plaintext)
            if last:
                self._set_commitment = commit_set(sample.set_salt, self._ticket.hash, frames.set_hash)
            yield census_service_pb2.CountRequest(
                frame=sample_pb2.SampleFrame(index=index, last=last, ciphertext=ciphertext)
            )

    def batches(self, sample: Sample) -> Iterator[list[census_service_pb2.CountRequest]]:
        """The same frames, some at a time. How many at which time depends on nothing."""
        frames, sizes = self.frames(sample), chain(_BATCHES, repeat(_BATCHES[-1]))
        while batch := _sealed(frames, next(sizes)):
            yield batch

    @property
    def set_commitment(self) -> bytes:
        """What the manifest says of the set: the same at every attempt. Known after the last frame."""
        return self._set_commitment

    def manifest(self) -> tuple[bytes, census_service_pb2.CountRequest]:
        """The manifest's hash, for the log, and the last message."""
        manifest = sample_pb2.Manifest(
            ticket_hash=self._ticket.hash,
            encapsulation_hash=hash_bytes(self._sealed_key),
            ciphertext_hash=self._sealer.ciphertext_hash,
            set_commitment=self._set_commitment,
        ).SerializeToString(deterministic=True)
        key = self._sender.manifest_key
        signed = sample_pb2.SignedManifest(manifest=manifest, signature=key.sign(manifest), key_id=key.key_id)
        return hash_bytes(manifest), census_service_pb2.CountRequest(manifest=signed)


def _sealed(frames: Iterator[census_service_pb2.CountRequest], number: int) -> list[census_service_pb2.CountRequest]:
    with stage("sealing"):
        return list(islice(frames, number))


def verify_charged(
    charged: sample_pb2.Charged,
    ticket: VerifiedTicket,
    set_commitment: bytes,
    *,
    handed_over: HandedOver,
    census_log: NoteVerifier,
) -> VerifiedCharge:
    """The charge, if the census node's signed log holds it for exactly this ticket and this set, as handed over by us.

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
    if event.ticket != ticket.hash.hex() or event.submitted != set_commitment.hex():
        raise _misbehaved("the charge of another ticket or sample")
    # SECURITY: the release takes the cosignature of the agency that is named here. In another name the census node could
    # let the answer out without ours.
    if event.health != handed_over.organisation:
        raise _misbehaved("a charge in another health agency's name")
    if event.manifest not in handed_over.manifests:
        raise _misbehaved("a charge for a manifest that was never sent")
    if event.scale != ticket.body.scale:
        raise _misbehaved("a charge at another scale than the ticket's")
    if event.units != price_units(event.scale):
        raise _misbehaved("a charge at another price than its scale has")
    if event.slot != ticket.body.noise_slot.number:
        raise _misbehaved("a charge for another noise slot than the ticket's")
    return VerifiedCharge(charged.log_index, only_lines_of(charged.checkpoint, census_log))


def _misbehaved(problem: str) -> PeerUnavailableError:
    return PeerUnavailableError("PEER_MISBEHAVED", peer="census", problem=problem)
