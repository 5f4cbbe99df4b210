"""Admission: is this sample what it claims to be? Every check, in DESIGN's order, before it has a place in line.

    claim    1 ticket signature, researcher, project   2 the sender's organisation   3 manifest
    sample   4 shutdown, expiry, policy, release, dictionary, scale, question, slot   5 roster in force
             6 HPKE, exact length, padding zero, commitment   7 slot and price are held

A ticket that was charged before needs the claim alone: it is good for ever, for its one answer, even if somebody was revoked, and whatever
was replaced since. Nothing here looks anybody up in the census.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tripartite.v1 import sample_pb2, ticket_pb2

from broker_common.crypto.commitments import hash_bytes, verify_commitment
from broker_common.crypto.sample_bits import Bound, SampleBits, SealedSample
from broker_common.crypto.sealing import UnsealingKey
from broker_common.crypto.signing import VerifyKey, key_named
from broker_common.errors import BrokerError, InvalidRequestError, RefusedError
from broker_common.privacy.policy import Policy, scales_text
from broker_common.query.dictionary import Dictionary
from broker_common.query.messages import parse_message
from broker_common.query.question import Question, question_from_wire
from broker_common.query.ticket import Researcher, VerifiedTicket, ticket_verified_before, verify_ticket
from broker_common.tracing import span
from census_node.query.flow import Claim
from census_node.query.refusals import Refusing
from census_node.registry.joining import JoinedRoster


@dataclass(frozen=True, slots=True)
class Gate:
    """The view that a sample is checked against: consistent keys and policy."""

    researchers: Mapping[str, Researcher]
    manifest_keys: Mapping[str, Sequence[VerifyKey]]
    sample_keys: Sequence[UnsealingKey]
    policy: Policy
    census_release: str
    now_ms: int
    # Raises when the service has told that it is shut down.
    verify_open: Callable[[], None]
    # Gives the dictionary to read a ticket's question with; raises when the ticket names another.
    verify_dictionary: Callable[[VerifiedTicket], Dictionary]
    # Raises when the ticket's slot does not serve it.
    verify_slot: Callable[[VerifiedTicket], None]
    # True for the hash of a ticket that was charged before.
    is_charged: Callable[[str], bool]
    # An agency's roster of a number, if samples of its places can be counted now; raises otherwise.
    roster: Callable[[str, int], JoinedRoster]
    # Binds the ticket's slot to it and holds its price, or raises; nothing to do for a ticket that was charged.
    reserve: Callable[[VerifiedTicket], None]


@dataclass(frozen=True, slots=True)
class Arrived:
    """A sample that has come whole."""

    ticket: ticket_pb2.SignedTicket
    manifest: sample_pb2.SignedManifest
    sealed: SealedSample


@dataclass(frozen=True, slots=True, eq=False)
class AdmittedSample:
    """A sample that passed every check."""

    ticket: VerifiedTicket
    question: Question
    agency: str
    manifest_hash: bytes
    set_commitment: bytes
    roster: JoinedRoster
    bits: SampleBits


class SampleAttempt:
    """One attempt of an agency to have a ticket answered."""

    def __init__(
        self,
        agency: str,
        arrived: Arrived,
        gate: Callable[[], Gate],
        let_go: Callable[[str], object],
        refusing: Refusing | None = None,
    ) -> None:
        """`let_go` ends what `gate().reserve` began, by the ticket's hash; `refusing` signs."""
        self.agency = agency
        self._arrived: Arrived | None = arrived
        self._gate = gate
        self._let_go = let_go
        self._refusing = refusing
        self._ticket: VerifiedTicket | None = None
        self._manifest: sample_pb2.Manifest | None = None
        self._seen: Gate | None = None
        self._sample: AdmittedSample | None = None

    @property
    def sample(self) -> AdmittedSample:
        """The admitted sample."""
        assert self._sample is not None, "nothing was admitted, or it was let go"  # noqa: S101 - the flow verifies first
        return self._sample

    def verify_claim(self) -> Claim:
        if self._refusing is not None:
            self._refusing.prepare()
        gate, arrived = self._gate(), self._here
        self._seen = gate
        # 1
        if gate.is_charged(hash_bytes(arrived.ticket.ticket).hex()):
            self._ticket = ticket_verified_before(arrived.ticket)
        else:
            self._ticket = verify_ticket(arrived.ticket, researchers=gate.researchers, caller=None)
        # 2
        keys = gate.manifest_keys.get(self.agency)
        if keys is None:
            raise InvalidRequestError("WRONG_ORGANISATION", subject="sample")
        # 3
        signed = arrived.manifest
        key_named(keys, signed.key_id, subject="manifest").verify_signature(signed.manifest, signed.signature)
        self._manifest = parse_message(sample_pb2.Manifest, signed.manifest)
        verify_commitment(self._manifest.ticket_hash, self._ticket.hash, subject="ticket")
        return Claim(self.agency, self._ticket.hash.hex(), self._manifest.set_commitment)

    def verify_sample(self) -> None:
        gate, arrived, ticket, manifest = self._seen, self._here, self._ticket, self._manifest
        assert gate is not None  # noqa: S101 - the claim comes first
        assert ticket is not None  # noqa: S101 - as above
        assert manifest is not None  # noqa: S101 - as above
        # 4
        question = _verify_in_force(ticket, gate)
        # 5
        roster = gate.roster(self.agency, manifest.roster)
        # 6
        with span("opening"):
            bits = SampleBits.unseal(
                arrived.sealed,
                gate.sample_keys,
                Bound(ticket.hash, roster.manifest),
                manifest.set_commitment,
                declared=roster.cards.declared,
                people=roster.people,
            )
        # 7: last, so that whatever fails above holds nothing.
        gate.reserve(ticket)
        self._sample = AdmittedSample(
            ticket,
            question,
            self.agency,
            hash_bytes(arrived.manifest.manifest),
            manifest.set_commitment,
            roster,
            bits,
        )

    def let_go(self) -> None:
        self._arrived = None
        if self._sample is not None:
            self._let_go(self._sample.ticket.hash.hex())
            self._sample = None

    def signed(self, refusal: BrokerError, left_ms: int) -> BrokerError:
        return refusal if self._refusing is None else self._refusing.sign(refusal, left_ms)

    @property
    def _here(self) -> Arrived:
        assert self._arrived is not None, "the attempt is over"  # noqa: S101 - the flow lets go last
        return self._arrived


class BrokenOff(SampleAttempt):
    """An attempt whose sample did not come whole."""

    def __init__(self, agency: str, error: Exception, refusing: Refusing | None = None) -> None:
        """`refusing` is there if its head has come."""
        self.agency = agency
        self._error = error
        self._refusing = refusing

    def verify_claim(self) -> Claim:
        if self._refusing is not None:
            self._refusing.prepare()
        raise self._error

    def let_go(self) -> None:
        pass


class Recovered(SampleAttempt):
    """A charge of before a start, which nobody sends anything for."""

    def __init__(self, claim: Claim) -> None:
        self.agency = claim.agency
        self._claim = claim
        self._refusing = None

    def verify_claim(self) -> Claim:
        return self._claim

    def let_go(self) -> None:
        pass


def _verify_in_force(ticket: VerifiedTicket, gate: Gate) -> Question:
    """The ticket's question, if it may be asked now."""
    # First: whatever else is wrong with the ticket, asking anew would not help.
    gate.verify_open()
    ticket.verify_fresh(gate.now_ms)
    ticket.verify_policy(gate.policy.hash)
    ticket.verify_release(gate.census_release)
    dictionary = gate.verify_dictionary(ticket)
    scale = ticket.body.scale
    if scale not in gate.policy.scales:
        raise RefusedError("SCALE_REFUSED", scale=scale, scales=scales_text(gate.policy.scales))
    question = question_from_wire(ticket.body.question, dictionary)
    gate.verify_slot(ticket)
    return question
