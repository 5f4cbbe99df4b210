"""Linkage pseudonyms: what a health card becomes before it enters any store of ours.

A pseudonym is HMAC-SHA256(linkage key, normalised card), cut to 16 bytes: at 2^24 people two of them collide with
probability below 2^-80. Both agencies hold the linkage key; it never reaches the researcher, nor the wire. Whoever holds
it can turn pseudonyms back into cards by trying all cards, so pseudonyms are no anonymisation (SECURITY.md).
"""

from __future__ import annotations

import re

from cryptography.hazmat.primitives import hashes, hmac

from broker_common.crypto.secret import Secret
from broker_common.values import PSEUDONYM_BYTES

__all__ = ["HEALTH_CARD_DIGITS", "LinkageKey", "parse_health_card"]

HEALTH_CARD_DIGITS = 10
_CARD = re.compile(r"[0-9]{4}[ -]?[0-9]{3}[ -]?[0-9]{3}")


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


class LinkageKey(Secret):
    """Turns health cards into pseudonyms. Computed at load time; never on the query path."""

    def __init__(self, key: bytes) -> None:
        super().__init__(key, exact_bytes=32)
        self._keyed = hmac.HMAC(key, hashes.SHA256())

    def pseudonym(self, card: str) -> bytes:
        """The 16-byte pseudonym of a normalised card (see `parse_health_card`)."""
        mac = self._keyed.copy()
        mac.update(card.encode("ascii"))
        return mac.finalize()[:PSEUDONYM_BYTES]
