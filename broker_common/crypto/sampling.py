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
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes

from broker_common.crypto.secret import Secret
from broker_common.values import PSEUDONYM_BYTES

WHOLE_MILLIONTHS = 1_000_000
# People that are drawn in one go: their pseudonyms stay in the processor's cache.
_AT_ONCE = 16_384


class SamplingKey(Secret):
    """The health agency's secret; nobody else can tell who would be taken."""

    def __init__(self, key: bytes) -> None:
        super().__init__(key, exact_bytes=32)

    def keep_drawn(
        self, people: npt.NDArray[np.uint8], criteria_tag: bytes, fraction_millionths: int, marks: npt.NDArray[np.bool_]
    ) -> None:
        """Take out the marks of those who are not drawn: of an (n, 16) array of pseudonyms, a mark each.

        Each is drawn with probability fraction_millionths / 1,000,000 (within 2^-64), independently of all others. SECURITY:
        everybody is looked at, marked or not, so that the time tells nobody how many match.
        """
        _verify_fraction(fraction_millionths)
        if fraction_millionths == WHOLE_MILLIONTHS:
            return
        encryptor, threshold = self._permutation(criteria_tag), _threshold(fraction_millionths)
        encrypted = np.empty(PSEUDONYM_BYTES * (_AT_ONCE + 1), dtype=np.uint8)
        drawn = np.empty(_AT_ONCE, dtype=np.bool_)
        for start in range(0, len(people), _AT_ONCE):
            some, here = people[start : start + _AT_ONCE], marks[start : start + _AT_ONCE]
            encryptor.update_into(some.data, encrypted.data)
            np.less(encrypted[: some.size].view(">u8")[::2], threshold, out=drawn[: len(some)])
            np.logical_and(here, drawn[: len(some)], out=here)

    def _permutation(self, criteria_tag: bytes) -> CipherContext:
        # ECB on distinct single blocks is the permutation itself, not a mode hiding patterns between blocks.
        key = hmac.digest(self.expose(), b"tripartite/sampling/v1\0" + criteria_tag, hashlib.sha256)
        return Cipher(algorithms.AES256(key), modes.ECB()).encryptor()  # noqa: S305 - see above


def _threshold(fraction_millionths: int) -> np.uint64:
    return np.uint64((fraction_millionths << 64) // WHOLE_MILLIONTHS)


def _verify_fraction(fraction_millionths: int) -> None:
    if not 1 <= fraction_millionths <= WHOLE_MILLIONTHS:
        raise ValueError("a fraction lies between 1 and 1,000,000 millionths")
