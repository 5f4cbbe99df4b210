"""Openings: what makes an answer's noise checkable, sealed to an oversight key that somebody outside the agency holds.

    {"active_salt":"...","active_set":"...","count":41,"format":1,"load":"...","secret":"...","slot":7,"submitted_salt":"...",
     "submitted_set":"...","ticket":"..."}

The noise of an answer is a function of the slot's secret and of what the charge says: ticket, set commitment and scale. The
log has committed to all of it before anybody could know the count. Whoever opens one learns an exact count and nobody's name: the holder of the oversight
key is trusted with that, and says so to the census agency. Every opening has one length, whatever the count.
"""

from __future__ import annotations

from typing import Annotated, NoReturn

import msgspec
from msgspec import Meta, Struct

from broker_common.crypto.commitments import (
    SlotSecret,
    answer_salt,
    commit_answer,
    commit_set,
    commit_slot,
    noise_seed,
)
from broker_common.crypto.noise_stream import NoiseStream
from broker_common.crypto.sealing import SEALING_OVERHEAD_BYTES, OpeningKey, SealingKey, opening_info
from broker_common.errors import InvalidRequestError
from broker_common.privacy.discrete_laplace import add_noise
from broker_common.values import ExactCount

__all__ = ["OPENING_SUFFIX", "SEALED_OPENING_BYTES", "Opening", "make_opening", "open_opening", "seal_opening"]

_Hash = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
_PADDED_BYTES = 1024
# More than the name of a load has, little enough that every opening fits into its length, and nothing but ASCII: a log may
# name its loads as it likes, the seed of noise is made of bytes.
_Load = Annotated[str, Meta(pattern=r"\A[ -~]{1,64}\Z")]
# Of a sealed opening's file; before it the ticket's hash.
OPENING_SUFFIX = ".opening"
SEALED_OPENING_BYTES = _PADDED_BYTES + SEALING_OVERHEAD_BYTES


class Opening(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything that one answer's noise was made of. Prints as a placeholder, cannot be pickled."""

    format: Annotated[int, Meta(ge=1, le=1)] = 1
    ticket: _Hash
    slot: Annotated[int, Meta(ge=0, lt=2**53)]
    secret: _Hash
    count: Annotated[int, Meta(ge=0, lt=2**53)]
    load: _Load
    submitted_set: _Hash
    submitted_salt: _Hash
    active_set: _Hash
    active_salt: _Hash

    def __repr__(self) -> str:
        return "Opening(<secret>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an opening is serialised by sealing it alone")

    __copy__ = __reduce__

    @property
    def slot_commitment(self) -> str:
        """What the log has to have said of the slot before the ticket was made."""
        return commit_slot(self._slot_secret, self.slot).hex()

    @property
    def submitted(self) -> str:
        """What the charge has to say of the set that was submitted."""
        return self._commit(self.submitted_salt, self.submitted_set)

    @property
    def active(self) -> str:
        """What the charge has to say of the set that was counted."""
        return self._commit(self.active_salt, self.active_set)

    def states(self, exact: ExactCount) -> bool:
        """Whether this is the count that the opening states. Nobody is told either of them."""
        return self.count == exact.reveal_to_mechanism()

    def answer_hash(self, scale: int) -> str:
        """What the receipt has to say of the answer: the count, with the noise that follows from all the rest."""
        ticket_hash = bytes.fromhex(self.ticket)
        seed = noise_seed(
            self._slot_secret,
            ticket_hash=ticket_hash,
            set_commitment=bytes.fromhex(self.submitted),
            scale=scale,
        )
        noisy = add_noise(ExactCount(self.count), scale, NoiseStream(seed))
        return commit_answer(answer_salt(self._slot_secret, ticket_hash), ticket_hash, noisy.value).hex()

    @property
    def _slot_secret(self) -> SlotSecret:
        return SlotSecret(bytes.fromhex(self.secret))

    def _commit(self, salt: str, set_hash: str) -> str:
        return commit_set(bytes.fromhex(salt), bytes.fromhex(self.ticket), bytes.fromhex(set_hash)).hex()


def make_opening(
    exact: ExactCount,
    slot_secret: SlotSecret,
    *,
    ticket: str,
    slot: int,
    load: str,
    submitted: tuple[bytes, bytes],
    active: tuple[bytes, bytes],
) -> Opening:
    """The opening of one answer; of each set the salt of its commitment, and its hash."""
    return Opening(
        ticket=ticket,
        slot=slot,
        # SECURITY: both revealed to whoever holds the oversight key, and to nobody else: they leave this machine sealed.
        secret=slot_secret.expose().hex(),
        count=exact.reveal_to_mechanism(),
        load=load,
        submitted_salt=submitted[0].hex(),
        submitted_set=submitted[1].hex(),
        active_salt=active[0].hex(),
        active_set=active[1].hex(),
    )


def seal_opening(opening: Opening, key: SealingKey) -> bytes:
    """The opening for the holder of the oversight key; always of the same length."""
    document = msgspec.json.encode(opening, order="sorted")
    if len(document) > _PADDED_BYTES:
        raise ValueError("the opening is longer than the fixed length of openings")
    return key.seal(document.ljust(_PADDED_BYTES), opening_info(opening.ticket))


def open_opening(sealed: bytes, ticket: str, key: OpeningKey) -> Opening:
    """The opening of a ticket.

    Raises:
        InvalidRequestError: SEALED_WRONGLY or MALFORMED_MESSAGE.
    """
    padded = key.open(sealed, opening_info(ticket), subject="opening")
    document = padded.rstrip(b" ")
    try:
        opening = msgspec.json.decode(document, type=Opening)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InvalidRequestError("MALFORMED_MESSAGE", problem="it is no opening") from error
    is_canonical = msgspec.json.encode(opening, order="sorted") == document and len(padded) == _PADDED_BYTES
    if not is_canonical or opening.ticket != ticket:
        raise InvalidRequestError("MALFORMED_MESSAGE", problem="it is no opening of this ticket")
    return opening
