"""HPKE (RFC 9180), one suite: MLKEM768-X25519, HKDF-SHA256, AES-256-GCM.

The KEM is a post-quantum hybrid because health data must stay secret for decades: what is recorded today must not open
to tomorrow's machine. `info` binds every sealing to its ticket and its purpose; opening with another `info` fails.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import (
    AEAD,
    KDF,
    KEM,
    MLKEM768X25519PrivateKey,
    MLKEM768X25519PublicKey,
    Suite,
)

from broker_common.crypto.secret import Secret
from broker_common.errors import InvalidRequestError
from broker_common.values import Randomness, base64_text, parse_base64

_MLKEM_PUBLIC_BYTES = 1184
_MLKEM_SEED_BYTES = 64
_X25519_BYTES = 32
SEALING_KEY_BYTES = _MLKEM_PUBLIC_BYTES + _X25519_BYTES
# Encapsulation (1088 + 32) and authentication tag (16).
SEALING_OVERHEAD_BYTES = 1088 + 32 + 16

# Protects nothing: every private key tells points of low order (RFC 7748, section 6.1) from all others.
_ANY_X25519 = X25519PrivateKey.from_private_bytes(bytes(_X25519_BYTES))
_SUITE = Suite(KEM.MLKEM768_X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)
_PRIVATE_KIND = "mlkem768-x25519-private"
_PUBLIC_KIND = "mlkem768-x25519-public"


def sample_bits_info(ticket_hash: bytes, roster_manifest_hash: bytes) -> bytes:
    """`info` for a sample of one bit for each declared place of the roster whose manifest has this hash."""
    return b"tripartite/sample/v3\0" + ticket_hash + roster_manifest_hash


def roster_info(manifest_hash: bytes) -> bytes:
    """`info` for the payload of a roster whose manifest has this hash."""
    return b"tripartite/roster/v1\0" + manifest_hash


def answer_info(ticket_hash: bytes) -> bytes:
    """`info` for a sealed answer."""
    return b"tripartite/answer/v2\0" + ticket_hash


def opening_info(ticket: str) -> bytes:
    """`info` for the sealed opening of an answer."""
    return b"tripartite/opening/v2\0" + bytes.fromhex(ticket)


class SealingKey:
    """The public half: anyone may seal to it. `ValueError` for bytes that nothing can be sealed to."""

    def __init__(self, raw: bytes) -> None:
        if len(raw) != SEALING_KEY_BYTES:
            raise ValueError(f"a sealing key has {SEALING_KEY_BYTES} bytes")
        self.raw = bytes(raw)
        x25519 = X25519PublicKey.from_public_bytes(raw[_MLKEM_PUBLIC_BYTES:])
        # SECURITY: a point of low order raises here, not after the charge of the answer that should be sealed to it.
        _ANY_X25519.exchange(x25519)
        self._public = MLKEM768X25519PublicKey(MLKEM768PublicKey.from_public_bytes(raw[:_MLKEM_PUBLIC_BYTES]), x25519)

    def seal(self, plaintext: bytes, info: bytes) -> bytes:
        return _SUITE.encrypt(plaintext, self._public, info=info)

    def to_text(self) -> str:
        return f"{_PUBLIC_KIND} {base64_text(self.raw)}"

    @classmethod
    def parse_text(cls, text: str) -> SealingKey:
        return cls(_parse_key_line(text, _PUBLIC_KIND))


class UnsealingKey(Secret):
    """The private half: ML-KEM seed followed by the X25519 scalar."""

    def __init__(self, key: bytes) -> None:
        super().__init__(key, exact_bytes=_MLKEM_SEED_BYTES + _X25519_BYTES)
        self._mlkem = MLKEM768PrivateKey.from_seed_bytes(key[:_MLKEM_SEED_BYTES])
        self._x25519 = X25519PrivateKey.from_private_bytes(key[_MLKEM_SEED_BYTES:])
        self._private = MLKEM768X25519PrivateKey(self._mlkem, self._x25519)
        self._sealing_key: SealingKey | None = None

    @classmethod
    def generate(cls, randomness: Randomness) -> UnsealingKey:
        return cls(randomness(_MLKEM_SEED_BYTES + _X25519_BYTES))

    @property
    def sealing_key(self) -> SealingKey:
        if self._sealing_key is None:
            raw = self._mlkem.public_key().public_bytes_raw() + self._x25519.public_key().public_bytes_raw()
            self._sealing_key = SealingKey(raw)
        return self._sealing_key

    def unseal(self, sealed: bytes, info: bytes, *, subject: str) -> bytes:
        """The plaintext.

        Raises:
            InvalidRequestError: SEALED_WRONGLY, whatever the reason: telling reasons apart would be an oracle.
        """
        try:
            return _SUITE.decrypt(sealed, self._private, info=info)
        except (InvalidTag, ValueError) as error:
            raise InvalidRequestError("SEALED_WRONGLY", subject=subject) from error

    def to_text(self) -> str:
        """SECURITY: the private key, for a key file readable by its owner alone."""
        return f"{_PRIVATE_KIND} {base64_text(self.expose())}"

    @classmethod
    def parse_text(cls, text: str) -> UnsealingKey:
        return cls(_parse_key_line(text, _PRIVATE_KIND))


def unseal_with_any(keys: Sequence[UnsealingKey], sealed: bytes, info: bytes, *, subject: str) -> bytes:
    """The plaintext of what was sealed to any of these keys.

    Raises:
        InvalidRequestError: SEALED_WRONGLY.
    """
    for key in keys[:-1]:
        with contextlib.suppress(InvalidRequestError):
            return key.unseal(sealed, info, subject=subject)
    return keys[-1].unseal(sealed, info, subject=subject)


def _parse_key_line(text: str, kind: str) -> bytes:
    words = text.strip().split(" ")
    if len(words) != 2 or words[0] != kind:  # noqa: PLR2004 - kind and key
        raise ValueError(f"not one line of the form '{kind} BASE64'")
    return parse_base64(words[1])
