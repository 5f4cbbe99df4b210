"""How a query is answered: the whole order of durable steps, in one function.

    verify -> keep -> charge -> answer -> publish -> await the cosignature -> release

A step begins when the one before it is durable, and none is ever undone. A crash between two steps may waste budget; it never lets
anything out. After a start every charge that is not released walks the same way again, and finds what is done already.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from broker_common.errors import BrokerError, InvalidRequestError, RefusedError
from broker_common.storage.journal import Checkpointed
from census_node.query.desk import Desk
from census_node.query.fair_queue import Place
from census_node.query.schedule import Round


@dataclass(frozen=True, slots=True)
class Claim:
    """Which sample a health agency vouches for: the same claim again is a retry."""

    agency: str
    ticket_hash: str
    set_commitment: bytes


@dataclass(frozen=True, slots=True)
class Charge:
    """A durable charge, and where it stands in the log."""

    agency: str
    ticket_hash: str
    index: int


class Attempt(Protocol):
    """One attempt of an agency to have a ticket answered; or a charge of before a start, whose sample nobody asks for."""

    # The sample waits in this agency's line; the sender's certificate names it.
    @property
    def agency(self) -> str: ...

    def verify_claim(self) -> Claim:
        """The attempt's claim; raises unless the right parties signed ticket and manifest."""

    def verify_sample(self) -> None:
        """Return only if everything else is in order, and then hold slot and price. Looks at nobody's language."""

    def let_go(self) -> None:
        """Hold slot and price no longer, and the sample neither; nothing happens if nothing is held."""

    def signed(self, refusal: BrokerError, left_ms: int) -> BrokerError:
        """The refusal as it is told at this instant: with our signature, if enough of the attempt has come to name it."""


AttemptT = TypeVar("AttemptT", bound=Attempt)
AttemptT_contra = TypeVar("AttemptT_contra", bound=Attempt, contravariant=True)
# A decision and the name of its file.
KeptT = TypeVar("KeptT")
KeptT_contra = TypeVar("KeptT_contra", contravariant=True)


class Samples(Protocol[AttemptT_contra, KeptT]):
    """The files of samples from their charge on."""

    def keep(self, attempt: AttemptT_contra) -> KeptT:
        """Decide who of the sample is active, and durably keep both."""

    def forget(self, kept: KeptT) -> None:
        """Wipe a sample that no charge names."""


class Ledger(Protocol[AttemptT_contra, KeptT_contra]):
    """Who was charged for what."""

    def charge_of(self, claim: Claim) -> Charge | None:
        """The charge of a claim; None before there is one.

        Raises:
            InvalidRequestError: TICKET_REUSED, the ticket or its query was charged with another sample.
        """

    def charge(self, attempt: AttemptT_contra, kept: KeptT_contra, *, at_ms: int) -> Charge:
        """One transaction: the log entry, and the row that names the file; then the ledger in memory.

        Raises:
            BrokerError: nothing was charged, unless the error stops the node.
        """


class Answers(Protocol):
    """Sealed answers, from the count to the door."""

    def make(self, charge: Charge, proof: Checkpointed) -> None:
        """Count, add the noise, seal and store; nothing happens if that has been done. Waits as long as the journal is busy."""

    def release(self, charge: Charge, cosigned: str, *, at_ms: int) -> None:
        """Log that the answer may leave, once. Waits as long as the journal is busy."""

    def let_out(self, charge: Charge) -> None:
        """From here on the answer can be collected and is pushed. Waits for no disk."""


class Publication(Protocol):
    """The published part of the log."""

    def prove(self, charge: Charge) -> Checkpointed:
        """That the log holds the charge."""

    def entrust(self, charge: Charge) -> None:
        """Durably give the witness outside a checkpoint that covers the charge. Shows it to nobody else."""

    def show(self, charge: Charge) -> None:
        """Show that checkpoint to the health agencies. Waits for no disk."""

    def cosigned(self, charge: Charge) -> str | None:
        """The checkpoint covering the charge that the agency of its sample has cosigned. From the journal."""

    async def next_cosignature(self, charge: Charge) -> None:
        """Return as soon as there seems to be one, as far as has been heard."""


@dataclass(frozen=True, slots=True)
class Parts(Generic[AttemptT, KeptT]):
    """Collaborators of the steps."""

    samples: Samples[AttemptT, KeptT]
    ledger: Ledger[AttemptT, KeptT]
    answers: Answers
    publication: Publication


class Told(Protocol):
    """The callers, as far as anybody is still there."""

    def charged(self, proof: Checkpointed) -> None: ...

    def released(self) -> None: ...


async def answer_query(parts: Parts[AttemptT, KeptT], desk: Desk, attempt: AttemptT, told: Told) -> None:
    """Answer one query; returns when its answer is out. Goes on whatever becomes of the connection that brought it.

    Raises:
        BrokerError: what was refused or failed, at the instant at which anything else would have been told.
    """
    # --- verify: off the desk.
    verified = await asyncio.to_thread(_verify, parts, desk, attempt)
    claim, place, refused = verified.claim, verified.place, verified.refused
    # SECURITY: a refusal waits in line like a sample, or when it is told would say how far verifying came.

    # CRASH: nothing has happened. The agency tries again, with a new quote if this one has expired.

    def charge_and_answer(now: Round) -> tuple[Charge, Checkpointed]:
        # A refused sample too may have a charge: of its first attempt, made while this one was verified.
        charge = None if claim is None else parts.ledger.charge_of(claim)
        if charge is None:
            if refused is not None:
                raise refused
            # --- keep
            kept = parts.samples.keep(attempt)
            # CRASH: a file that no charge names; the next start wipes it.

            # --- charge: nothing that depends on language has been looked at before this is durable.
            charge = _charged(parts, attempt, kept, now.entries_ms)
            # CRASH: charged and not answered; the answer is made from the kept file, with the noise that the charge fixed.

        # --- answer
        proof = parts.publication.prove(charge)
        parts.answers.make(charge, proof)
        # CRASH: a sealed answer that nobody was told of, and the next start finds it made.
        return charge, proof

    def entrust(charged: tuple[Charge, Checkpointed]) -> None:
        # --- publish, first half: the witness outside comes before everybody else, once for all charges of a round.
        parts.publication.entrust(charged[0])
        # CRASH: the witness is ahead of what the agencies have seen, and never of the log.

    try:
        # Nobody joins a refusal.
        place = place or desk.put(attempt.agency, charge_and_answer, then=entrust, key=None if refused else claim)
        charge, proof = await place.outcome()
    except (InvalidRequestError, RefusedError) as error:
        # CRASH: refused, and nobody was told; the agency asks again.
        raise attempt.signed(error, 0 if place is None else place.left_ms) from error
    finally:
        attempt.let_go()

    # --- publish, second half: at the instant of the outcome.
    parts.publication.show(charge)
    told.charged(proof)
    # CRASH: what was shown stays true; the next start shows it again.

    def release(now: Round) -> bool:
        # SECURITY: without this cosignature nobody but us has seen that the charge is in the log.
        cosigned = parts.publication.cosigned(charge)
        if cosigned is None:
            return False
        parts.answers.release(charge, cosigned, at_ms=now.entries_ms)
        return True

    is_released = False
    while not is_released:
        # --- await the cosignature, again if the agency was replaced before the release.
        await parts.publication.next_cosignature(charge)
        # CRASH: cosigned and not released; after a start the cosignature is found, or asked for again.

        # --- release
        is_released = await desk.put(
            charge.agency, release, key=("release", charge.ticket_hash), is_release=True
        ).outcome()
    # CRASH: released in the log; after a start the answer is out at once.
    parts.answers.let_out(charge)
    told.released()


@dataclass(slots=True)
class _Verified:
    """How far verifying came; `place` is what the same claim has in line."""

    claim: Claim | None = None
    place: Place[tuple[Charge, Checkpointed]] | None = None
    refused: Exception | None = None


def _verify(parts: Parts[AttemptT, KeptT], desk: Desk, attempt: AttemptT) -> _Verified:
    verified = _Verified()
    try:
        verified.claim = attempt.verify_claim()
        # A ticket that is in line joins its place; one that is charged is good for ever.
        verified.place = desk.find(verified.claim)
        if verified.place is None and parts.ledger.charge_of(verified.claim) is None:
            attempt.verify_sample()
    except Exception as error:  # noqa: BLE001 - raised again at its instant
        verified.refused = error
    return verified


def _charged(parts: Parts[AttemptT, KeptT], attempt: AttemptT, kept: KeptT, at_ms: int) -> Charge:
    try:
        return parts.ledger.charge(attempt, kept, at_ms=at_ms)
    except BrokerError as error:
        if not error.stops_node:
            # After an uncertain commit the file stays: the log will tell.
            parts.samples.forget(kept)
        raise
