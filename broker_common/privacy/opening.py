"""Openings: what makes an answer's noise checkable, sealed to an oversight key that somebody outside the agency holds.

    {"counts":[41],"format":3,"load":"...","secret":"...","slot":7,"ticket":"..."}

The noise of an answer is a function of the slot's secret and of what the charge says: ticket, set commitment and scale. The
log has committed to all of it before anybody could know the counts. Its reader learns exact counts and nobody's name: the
holder of the oversight key is trusted with that, and says so to the census agency. Every opening has one length, whatever it counts.
"""

from __future__ import annotations

from typing import Annotated, NoReturn

import msgspec
from msgspec import Meta, Struct

from broker_common.crypto.commitments import SlotSecret, answer_salt, commit_answer, commit_slot, noise_seed
from broker_common.crypto.noise_stream import NoiseStream
from broker_common.crypto.sealing import SEALING_OVERHEAD_BYTES, SealingKey, UnsealingKey, opening_info
from broker_common.errors import InvalidRequestError
from broker_common.privacy.table_laplace import add_noise
from broker_common.values import MOST_CELLS, ExactCounts

_Hash = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
_Count = Annotated[int, Meta(ge=0, lt=2**53)]
_PADDED_BYTES = 1024
# More than the name of a load has, little enough that every opening fits into its length, and nothing but ASCII: a log may
# name its loads as it likes, the seed of noise is made of bytes.
_Load = Annotated[str, Meta(pattern=r"\A[ -~]{1,64}\Z")]
# The file name of a sealed opening is the ticket's hash and this.
OPENING_SUFFIX = ".opening"
SEALED_OPENING_BYTES = _PADDED_BYTES + SEALING_OVERHEAD_BYTES


class Opening(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything that one answer's noise was made of. Prints as a placeholder, cannot be pickled."""

    format: Annotated[int, Meta(ge=3, le=3)] = 3
    ticket: _Hash
    slot: _Count
    secret: _Hash
    # One for each cell of the question, in its order.
    counts: Annotated[tuple[_Count, ...], Meta(min_length=1, max_length=MOST_CELLS)]
    load: _Load

    def __repr__(self) -> str:
        return "Opening(<secret>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an opening is serialised by sealing it alone")

    __copy__ = __reduce__

    @property
    def slot_commitment(self) -> str:
        """The commitment to the slot that the log must have had before the ticket was made."""
        return commit_slot(self._slot_secret, self.slot).hex()

    def states(self, exact: ExactCounts) -> bool:
        """Whether these are the counts that the opening states. Nobody is told either of them."""
        return self.counts == exact.reveal_to_mechanism()

    def answer_hash(self, scale: int, submitted: str) -> str:
        """The answer hash that the receipt must have: the counts, with the noise that follows from the rest and the charge."""
        ticket_hash = bytes.fromhex(self.ticket)
        seed = noise_seed(
            self._slot_secret,
            ticket_hash=ticket_hash,
            set_commitment=bytes.fromhex(submitted),
            scale=scale,
            cells=len(self.counts),
        )
        noisy = add_noise(ExactCounts(self.counts), scale, NoiseStream(seed))
        return commit_answer(answer_salt(self._slot_secret, ticket_hash), ticket_hash, noisy).hex()

    @property
    def _slot_secret(self) -> SlotSecret:
        return SlotSecret(bytes.fromhex(self.secret))


def make_opening(exact: ExactCounts, slot_secret: SlotSecret, *, ticket: str, slot: int, load: str) -> Opening:
    """The opening of one answer."""
    # SECURITY: both revealed to the holder of the oversight key, and to nobody else: they leave this machine sealed.
    secret, counts = slot_secret.expose().hex(), exact.reveal_to_mechanism()
    return Opening(ticket=ticket, slot=slot, secret=secret, counts=counts, load=load)


def seal_opening(opening: Opening, key: SealingKey) -> bytes:
    """The opening for the holder of the oversight key; always of the same length."""
    document = msgspec.json.encode(opening, order="sorted")
    if len(document) > _PADDED_BYTES:
        raise ValueError("the opening is longer than the fixed length of openings")
    return key.seal(document.ljust(_PADDED_BYTES), opening_info(opening.ticket))


def unseal_opening(sealed: bytes, ticket: str, key: UnsealingKey) -> Opening:
    """The opening of a ticket.

    Raises:
        InvalidRequestError: SEALED_WRONGLY or MALFORMED_MESSAGE.
    """
    padded = key.unseal(sealed, opening_info(ticket), subject="opening")
    document = padded.rstrip(b" ")
    try:
        opening = msgspec.json.decode(document, type=Opening)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InvalidRequestError("MALFORMED_MESSAGE", problem="it is no opening") from error
    is_canonical = msgspec.json.encode(opening, order="sorted") == document and len(padded) == _PADDED_BYTES
    if not is_canonical or opening.ticket != ticket:
        raise InvalidRequestError("MALFORMED_MESSAGE", problem="it is no opening of this ticket")
    return opening
