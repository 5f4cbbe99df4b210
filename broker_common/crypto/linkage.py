"""Linkage pseudonyms: what a health card becomes before it enters any store of ours.

A pseudonym is HMAC-SHA256(linkage key, normalised card), cut to 16 bytes: at 2^24 people two of them collide with
probability below 2^-80. Changing the key goes on from the pseudonyms that there are: the next one is HMAC-SHA256(new key,
domain and pseudonym before), cut to 16 bytes, so that a person keeps one name through all stores and charges, known to
the census or not. The keys in their order are a chain; a card goes through all of them.

Both agencies hold the chain; it never reaches the researcher, nor the wire. Whoever holds all of it can turn pseudonyms
back into cards by trying all cards, so pseudonyms are no anonymisation (SECURITY.md).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import NoReturn

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives import hashes, hmac

from broker_common.crypto.secret import Secret, parse_secret, secret_text
from broker_common.values import PSEUDONYM_BYTES

HEALTH_CARD_DIGITS = 10
_PURPOSE = "linkage"
# Ten digits never begin like this: no card can pass for a pseudonym, nor a pseudonym for a card.
_STEP_DOMAIN = b"tripartite/linkage-step/v1\0"
_CHAIN_DOMAIN = b"tripartite/linkage-chain/v1\0"
_CHAIN_ID_CHARACTERS = 16
_CARD = re.compile(r"[0-9]{4}[ -]?[0-9]{3}[ -]?[0-9]{3}")
_ZERO, _LARGEST_DIGIT = ord("0"), 9
# The digit sum of twice a digit.
_DOUBLED = np.array([0, 2, 4, 6, 8, 1, 3, 5, 7, 9], np.uint8)


def parse_health_card(text: str) -> str:
    """The ten digits of a health card, check digit verified (mod 10, as on Ontario cards).

    Raises:
        ValueError: it is not a valid card; the message names the reason, never the digits.
    """
    if not _CARD.fullmatch(text):
        raise ValueError("health_card is not ten digits")
    digits = text.replace("-", "").replace(" ", "")
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    if (sum(doubled) + sum(int(digit) for digit in digits[-1::-2])) % 10:
        raise ValueError("health_card has a wrong check digit")
    return digits


def parse_health_cards(texts: Sequence[str]) -> tuple[npt.NDArray[np.bytes_], dict[int, str]]:
    """What `parse_health_card` makes of each text: ten digits, or by its place what is wrong with it.

    No digits stand where a text is wrong, nor, with nothing wrong, where it is empty.
    """
    cards = np.zeros(len(texts), f"S{HEALTH_CARD_DIGITS}")
    usual = _valid_as_written(texts, cards)
    problems: dict[int, str] = {}
    for at in np.flatnonzero(~usual).tolist():
        if texts[at]:
            try:
                cards[at] = parse_health_card(texts[at]).encode("ascii")
            except ValueError as error:
                problems[at] = str(error)
    return cards, problems


def _valid_as_written(texts: Sequence[str], cards: npt.NDArray[np.bytes_]) -> npt.NDArray[np.bool_]:
    """Which texts are valid cards without any separator; these are put into `cards`."""
    valid: npt.NDArray[np.bool_] = np.fromiter(map(len, texts), np.intp, len(texts)) == HEALTH_CARD_DIGITS
    places = np.flatnonzero(valid)
    written = "".join([texts[at] for at in places.tolist()])
    if not written.isascii():
        # One such text among thousands: whoever reads one by one finds it.
        return np.zeros(len(texts), np.bool_)
    digits = np.frombuffer(written.encode("ascii"), np.uint8).reshape(-1, HEALTH_CARD_DIGITS) - np.uint8(_ZERO)
    are_digits = (digits <= _LARGEST_DIGIT).all(axis=1)
    # Where they are none the sum means nothing.
    digits = np.minimum(digits, _LARGEST_DIGIT)
    total = _DOUBLED[digits[:, 0::2]].sum(axis=1, dtype=np.uint8) + digits[:, 1::2].sum(axis=1, dtype=np.uint8)
    valid[places] = are_digits & (total % 10 == 0)
    as_written = np.frombuffer(written.encode("ascii"), cards.dtype)
    cards[valid] = as_written[valid[places]]
    return valid


class LinkageKey(Secret):
    """One key of a chain. Used at load time and when the key changes; never on the query path."""

    def __init__(self, key: bytes) -> None:
        super().__init__(key, exact_bytes=32)
        self._keyed = hmac.HMAC(key, hashes.SHA256())
        self._stepping = self._keyed.copy()
        self._stepping.update(_STEP_DOMAIN)

    def pseudonym(self, card: str) -> bytes:
        """What a normalised card becomes (see `parse_health_card`) when this is the first key."""
        mac = self._keyed.copy()
        mac.update(card.encode("ascii"))
        return mac.finalize()[:PSEUDONYM_BYTES]

    def next_pseudonym(self, pseudonym: bytes) -> bytes:
        """What a pseudonym of the chain before becomes."""
        mac = self._stepping.copy()
        mac.update(pseudonym)
        return mac.finalize()[:PSEUDONYM_BYTES]

    def step(self, pseudonyms: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """What each pseudonym of the chain before becomes: `next_pseudonym` of an (n, 16) array, in the same order."""
        return _each(self._stepping, pseudonyms.tobytes(), PSEUDONYM_BYTES)

    def pseudonyms(self, cards: npt.NDArray[np.bytes_]) -> npt.NDArray[np.uint8]:
        """`pseudonym` of each normalised card (see `parse_health_cards`), as (n, 16)."""
        return _each(self._keyed, cards.tobytes(), HEALTH_CARD_DIGITS)


def _each(context: hmac.HMAC, records: bytes, size: int) -> npt.NDArray[np.uint8]:
    """The beginning of each record's MAC. `context` has taken in what is the same for all of them."""
    macs = bytearray()
    # Copies of one context: the key is taken in once, and half a microsecond is left for each person.
    copy = context.copy
    for at in range(0, len(records), size):
        mac = copy()
        mac.update(records[at : at + size])
        macs += mac.finalize()[:PSEUDONYM_BYTES]
    return np.frombuffer(macs, dtype=np.uint8).reshape(-1, PSEUDONYM_BYTES)


class LinkageChain:
    """One linkage key, or several in the order in which they came, all different. `ValueError` for anything else."""

    def __init__(self, keys: Sequence[LinkageKey]) -> None:
        self.keys = tuple(keys)
        if not self.keys or len(set(self.keys)) < len(self.keys):
            raise ValueError("a chain holds one linkage key or more, each of them once")
        self._first, self._later = self.keys[0], self.keys[1:]

    @property
    def chain_id(self) -> str:
        """A short public name of the whole chain: tells chains apart, tells nothing about the keys."""
        ids = b"".join(bytes.fromhex(key.key_id) for key in self.keys)
        return hashlib.sha256(_CHAIN_DOMAIN + ids).hexdigest()[:_CHAIN_ID_CHARACTERS]

    def pseudonym(self, card: str) -> bytes:
        """The 16-byte pseudonym of a normalised card (see `parse_health_card`)."""
        pseudonym = self._first.pseudonym(card)
        for key in self._later:
            pseudonym = key.next_pseudonym(pseudonym)
        return pseudonym

    def pseudonyms(self, cards: npt.NDArray[np.bytes_]) -> npt.NDArray[np.uint8]:
        """`pseudonym` of each normalised card (see `parse_health_cards`), as (n, 16), in the same order."""
        pseudonyms = self._first.pseudonyms(cards)
        for key in self._later:
            pseudonyms = key.step(pseudonyms)
        return pseudonyms

    def with_key(self, key: LinkageKey) -> LinkageChain:
        return LinkageChain((*self.keys, key))

    def beginning(self, chain_id: str) -> LinkageChain:
        """The chain of this name that this one goes on from, or is; `ValueError` when there is none."""
        for length in range(1, len(self.keys) + 1):
            if (chain := LinkageChain(self.keys[:length])).chain_id == chain_id:
                return chain
        raise ValueError("the chain does not begin with that one")

    def to_text(self) -> str:
        """SECURITY: the keys themselves, one line each, oldest first, for a key file readable by its owner alone."""
        return "\n".join(secret_text(_PURPOSE, key.expose()) for key in self.keys)

    @classmethod
    def parse_text(cls, text: str) -> LinkageChain:
        return cls([LinkageKey(parse_secret(line, _PURPOSE)) for line in text.strip().splitlines()])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LinkageChain) and self.keys == other.keys

    def __hash__(self) -> int:
        return hash(self.keys)

    def __repr__(self) -> str:
        return f"LinkageChain(<secret {self.chain_id}>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("LinkageChain is never serialised")
