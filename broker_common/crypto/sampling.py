"""Keyed Poisson sampling: each person of a cohort is taken or left by a pseudorandom function of key, criteria, person.

The same criteria give the same sample, so asking again averages nothing away; nobody's presence displaces another; a
larger fraction contains the smaller one. The function is AES-256 on the 16-byte pseudonym under a key derived from the
sampling key and the criteria: a pseudorandom permutation on distinct inputs, and fast enough for millions of people.
"""

from __future__ import annotations

import hashlib
import hmac

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from broker_common.crypto.secret import Secret

__all__ = ["WHOLE_MILLIONTHS", "SamplingKey"]

WHOLE_MILLIONTHS = 1_000_000


class SamplingKey(Secret):
    """The health agency's secret; nobody else can tell who would be taken."""

    def __init__(self, key: bytes) -> None:
        super().__init__(key, exact_bytes=32)

    def take(
        self, pseudonyms: npt.NDArray[np.uint8], criteria_tag: bytes, fraction_millionths: int
    ) -> npt.NDArray[np.uint8]:
        """The sampled rows of an (n, 16) array, in the same order.

        Each row is taken with probability fraction_millionths / 1,000,000 (within 2^-64), independently of all others.
        """
        if not 1 <= fraction_millionths <= WHOLE_MILLIONTHS:
            raise ValueError("a fraction lies between 1 and 1,000,000 millionths")
        if fraction_millionths == WHOLE_MILLIONTHS or len(pseudonyms) == 0:
            return pseudonyms
        # ECB on distinct single blocks is the permutation itself, not a mode hiding patterns between blocks.
        key = hmac.digest(self.expose(), b"tripartite/sampling/v1\0" + criteria_tag, hashlib.sha256)
        encryptor = Cipher(algorithms.AES256(key), modes.ECB()).encryptor()  # noqa: S305 - see above
        drawn = np.frombuffer(encryptor.update(np.ascontiguousarray(pseudonyms).data), dtype=">u8")[::2]
        threshold = (fraction_millionths << 64) // WHOLE_MILLIONTHS
        taken: npt.NDArray[np.uint8] = pseudonyms[drawn < np.uint64(threshold)]
        return taken
