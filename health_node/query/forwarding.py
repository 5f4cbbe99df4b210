"""Handing one sample to the census node: committed to once, sealed anew for every attempt, and what comes back is verified.

The rounds: `make_manifest` commits to the sample, `seal_attempt` makes what is sent, `verify_charged` checks what is claimed.
None of them knows a socket.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from tripartite.v1 import census_service_pb2, sample_pb2, ticket_pb2

from broker_common.crypto.sample_bits import Bound, SampleBits
from broker_common.crypto.sealing import SealingKey
from broker_common.crypto.signing import SigningKey, VerifyKey, key_named
from broker_common.errors import BrokerError, PeerUnavailableError
from broker_common.privacy.accounting import price
from broker_common.query.messages import parse_message
from broker_common.query.refusal import parse_refusal, refusal_of
from broker_common.query.ticket import VerifiedTicket
from broker_common.tlog.cosignature import only_lines_of
from broker_common.tlog.entries import Charged, parse_entry
from broker_common.tlog.merkle import root_from_inclusion
from broker_common.tlog.note import NoteVerifier
from broker_common.tracing import span


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One ticket's sample: the same at every attempt."""

    bits: SampleBits
    bound: Bound
    # Number of the roster whose places the bits are.
    roster: int

    @property
    def size(self) -> int:
        """How many people are in it. For the health agency's own staff, and only as a number of digits."""
        return int(np.bitwise_count(self.bits.bits).sum())


@dataclass(frozen=True, slots=True)
class HandedOver:
    """A sample in our log: its ticket, and the hex hash of its manifest."""

    organisation: str
    manifest: str


@dataclass(frozen=True, slots=True)
class VerifiedCharge:
    """The census node proved that it charged our ticket for our sample."""

    log_index: int
    # With the census log's own signatures, and nothing else that the census node may have put there.
    checkpoint: str


def make_manifest(sample: Sample) -> sample_pb2.Manifest:
    """The manifest of a ticket's sample, the same at every attempt."""
    with span("committing"):
        commitment = sample.bits.commitment(sample.bound)
    return sample_pb2.Manifest(ticket_hash=sample.bound.ticket_hash, set_commitment=commitment, roster=sample.roster)


def sign_manifest(manifest: bytes, key: SigningKey) -> sample_pb2.SignedManifest:
    """A serialised manifest with the agency's signature."""
    return sample_pb2.SignedManifest(manifest=manifest, signature=key.sign(manifest), key_id=key.key_id)


def seal_attempt(
    signed_ticket: ticket_pb2.SignedTicket,
    manifest: sample_pb2.SignedManifest,
    sample: Sample,
    census_key: SealingKey,
) -> Iterator[census_service_pb2.CountRequest]:
    """The messages of one attempt: the head, then parts. SECURITY: sealed before the first is taken, so that none waits for another."""
    with span("sealing"):
        sealed = sample.bits.seal(census_key, sample.bound)
    head = sample_pb2.SampleHead(ticket=signed_ticket, manifest=manifest, sealed_head=sealed.head)
    return chain(
        [census_service_pb2.CountRequest(head=head)],
        (census_service_pb2.CountRequest(bits=bytes(part)) for part in sealed.parts),
    )


def verify_charged(
    charged: sample_pb2.Charged,
    ticket: VerifiedTicket,
    manifest: sample_pb2.Manifest,
    *,
    handed_over: HandedOver,
    census_log: NoteVerifier,
) -> VerifiedCharge:
    """The charge, if the census node's signed log holds it for exactly this ticket and this sample, as handed over by us.

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
    if event.ticket != ticket.hash.hex() or event.submitted != manifest.set_commitment.hex():
        raise _misbehaved("the charge of another ticket or sample")
    if event.roster != manifest.roster:
        raise _misbehaved("a charge for another roster than the sample's")
    # SECURITY: the release takes the cosignature of the agency that is named here. In another name the census node could
    # let the answer out without ours.
    if event.health != handed_over.organisation:
        raise _misbehaved("a charge in another health agency's name")
    if event.manifest != handed_over.manifest:
        raise _misbehaved("a charge for another manifest than the ticket's")
    if event.scale != ticket.body.scale:
        raise _misbehaved("a charge at another scale than the ticket's")
    if event.units != price(event.scale, cells=len(ticket.body.question.cells)):
        raise _misbehaved("a charge at another price than its scale has")
    if event.slot != ticket.body.noise_slot.number:
        raise _misbehaved("a charge for another noise slot than the ticket's")
    return VerifiedCharge(charged.log_index, only_lines_of(charged.checkpoint, census_log))


def verify_refused(
    error: BrokerError,
    ticket: VerifiedTicket,
    signed_manifest: sample_pb2.SignedManifest,
    *,
    organisation: str,
    census_log: str,
    census_keys: Sequence[VerifyKey],
) -> None:
    """Return only if the census node signed that it refuses exactly this sample with this code, or refuses nothing for good.

    SECURITY: without its signature nothing ends a ticket. An auditor asks the census agency for every refusal that our log has.

    Raises:
        PeerUnavailableError: PEER_MISBEHAVED.
    """
    if not (error.ends_ticket or error.signed_refusal):
        # Between the agencies, or at the door: the ticket stays as good as it is.
        return
    try:
        signed = parse_message(sample_pb2.SignedRefusal, error.signed_refusal)
        key_named(census_keys, signed.key_id, subject="refusal").verify_signature(signed.document, signed.signature)
        said = parse_refusal(signed.document)
        expected = refusal_of(
            ticket.signed_bytes,
            signed_manifest.manifest,
            code=error.code,
            health=organisation,
            log=census_log,
            roster=parse_message(sample_pb2.Manifest, signed_manifest.manifest).roster,
            size=said.size,
            time_ms=said.time_ms,
        )
    except (BrokerError, ValueError) as problem:
        raise _misbehaved("a refusal that its agency did not sign") from problem
    if said != expected:
        raise _misbehaved("the refusal of another ticket or sample")


def _misbehaved(problem: str) -> PeerUnavailableError:
    return PeerUnavailableError("PEER_MISBEHAVED", peer="census", problem=problem)
