"""Keyed Poisson sampling: each person of a cohort is taken or left by a pseudorandom function of key, criteria, person.

The same criteria give the same sample, so asking again averages nothing away; nobody's presence displaces another; a
larger fraction contains the smaller one. The function is AES-256 on the 16-byte pseudonym under a key derived from the
sampling key and the criteria: a pseudorandom permutation on distinct inputs, and fast enough for millions of people.
"""

from __future__ import annotations

import hashlib
import hmac

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from broker_common.crypto.pseudonyms import Pseudonyms
from broker_common.crypto.secret import Secret
from broker_common.values import PSEUDONYM_BYTES

__all__ = ["WHOLE_MILLIONTHS", "SamplingKey"]

WHOLE_MILLIONTHS = 1_000_000
# People that are drawn in one go: their pseudonyms stay in the processor's cache.
_AT_ONCE = 16_384


class SamplingKey(Secret):
    """The health agency's secret; nobody else can tell who would be taken."""

    def __init__(self, key: bytes) -> None:
        super().__init__(key, exact_bytes=32)

    def take(self, people: Pseudonyms, criteria_tag: bytes, fraction_millionths: int) -> Pseudonyms:
        """The sampled ones, in the same order.

        Each is taken with probability fraction_millionths / 1,000,000 (within 2^-64), independently of all others.
        """
        if not 1 <= fraction_millionths <= WHOLE_MILLIONTHS:
            raise ValueError("a fraction lies between 1 and 1,000,000 millionths")
        if fraction_millionths == WHOLE_MILLIONTHS:
            return people
        # ECB on distinct single blocks is the permutation itself, not a mode hiding patterns between blocks.
        key = hmac.digest(self.expose(), b"tripartite/sampling/v1\0" + criteria_tag, hashlib.sha256)
        encryptor = Cipher(algorithms.AES256(key), modes.ECB()).encryptor()  # noqa: S305 - see above
        threshold = np.uint64((fraction_millionths << 64) // WHOLE_MILLIONTHS)
        taken = np.empty(len(people), dtype=np.bool_)
        pseudonyms = np.empty((_AT_ONCE, PSEUDONYM_BYTES), dtype=np.uint8)
        # The library asks for a block more than it fills.
        encrypted = np.empty(pseudonyms.size + PSEUDONYM_BYTES, dtype=np.uint8)
        for start in range(0, len(people), _AT_ONCE):
            some = pseudonyms[: len(people) - start]
            people.copy_into(start, some)
            encryptor.update_into(some.data, encrypted.data)
            drawn = encrypted[: some.size].view(">u8")[::2]
            np.less(drawn, threshold, out=taken[start : start + len(some)])
        return people.only(taken)
