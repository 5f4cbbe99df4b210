"""Handing one sample to the census node: committed to once, sealed anew for every attempt, and what comes back is verified.

The rounds: `make_manifest` commits to the sample, an `Attempt` makes what is sent, `verify_charged` checks what is claimed.
None of them knows a socket.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice, repeat

from tripartite.v1 import census_service_pb2, sample_pb2, ticket_pb2

from broker_common.crypto.commitments import commit_set
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

__all__ = [
    "Attempt",
    "HandedOver",
    "Sample",
    "Sender",
    "VerifiedCharge",
    "make_manifest",
    "sign_manifest",
    "verify_charged",
]

# Frames that are sealed in one go: few at first, so that something is soon on its way, then enough to spare changes of thread.
_BATCHES = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One ticket's sample: the same at every attempt."""

    people: Pseudonyms
    set_salt: bytes


@dataclass(frozen=True, slots=True)
class Sender:
    """What the health agency seals one attempt with."""

    census_key: SealingKey
    randomness: Randomness


@dataclass(frozen=True, slots=True)
class HandedOver:
    """What our log says of a sample: whose it is, and the hex hash of its manifest."""

    organisation: str
    manifest: str


@dataclass(frozen=True, slots=True)
class VerifiedCharge:
    """The census node proved that it charged our ticket for our sample."""

    log_index: int
    # With the census log's own signatures, and nothing else that the census node may have put there.
    checkpoint: str


def make_manifest(ticket_hash: bytes, sample: Sample) -> sample_pb2.Manifest:
    """What the health agency says of a ticket's sample, the same at every attempt."""
    with stage("committing"):
        commitment = commit_set(sample.set_salt, ticket_hash, sample.people.set_hash())
    return sample_pb2.Manifest(ticket_hash=ticket_hash, set_commitment=commitment)


def sign_manifest(manifest: bytes, key: SigningKey) -> sample_pb2.SignedManifest:
    """A serialised manifest with the agency's signature."""
    return sample_pb2.SignedManifest(manifest=manifest, signature=key.sign(manifest), key_id=key.key_id)


class Attempt:
    """The header and the frames of one attempt, under a frame key that exists in this object only."""

    def __init__(
        self, ticket: VerifiedTicket, signed_ticket: ticket_pb2.SignedTicket, linkage: str, sender: Sender
    ) -> None:
        self._signed_ticket = signed_ticket
        self._linkage = linkage
        self._sealer = FrameSealer(sender.randomness)
        info = sample_info(ticket.hash, ticket.body.policy_hash, linkage)
        self._sealed_key = sender.census_key.seal(self._sealer.frame_key, info)

    def header(self) -> census_service_pb2.CountRequest:
        """The first message."""
        return census_service_pb2.CountRequest(
            header=sample_pb2.SampleHeader(
                ticket=self._signed_ticket, sealed_frame_key=self._sealed_key, linkage=self._linkage
            )
        )

    def frames(self, sample: Sample) -> Iterator[census_service_pb2.CountRequest]:
        """The sample. Take all of them once."""
        for index, last, plaintext in SampleFrames(sample.people, sample.set_salt):
            ciphertext = self._sealer.seal_frame(index, last, plaintext)
            yield census_service_pb2.CountRequest(
                frame=sample_pb2.SampleFrame(index=index, last=last, ciphertext=ciphertext)
            )

    def batches(self, sample: Sample) -> Iterator[list[census_service_pb2.CountRequest]]:
        """The same frames, some at a time. How many at which time depends on nothing."""
        frames, sizes = self.frames(sample), chain(_BATCHES, repeat(_BATCHES[-1]))
        while batch := _sealed(frames, next(sizes)):
            yield batch


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
    if event.manifest != handed_over.manifest:
        raise _misbehaved("a charge for another manifest than the ticket's")
    if event.scale != ticket.body.scale:
        raise _misbehaved("a charge at another scale than the ticket's")
    if event.units != price_units(event.scale):
        raise _misbehaved("a charge at another price than its scale has")
    if event.slot != ticket.body.noise_slot.number:
        raise _misbehaved("a charge for another noise slot than the ticket's")
    return VerifiedCharge(charged.log_index, only_lines_of(charged.checkpoint, census_log))


def _misbehaved(problem: str) -> PeerUnavailableError:
    return PeerUnavailableError("PEER_MISBEHAVED", peer="census", problem=problem)
