"""Ed25519 signatures: one key and one domain prefix per purpose, so that no signature can serve another purpose.

`verify_*` raises and never returns a bool. A key's text form stands in key files; its id is a short public name.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from broker_common.crypto.secret import Secret
from broker_common.errors import InvalidRequestError
from broker_common.values import Randomness, base64_text, parse_base64

_KEY_BYTES = 32
# Valid signatures that are remembered. One query meets the same checkpoint several times.
_REMEMBERED = 256
# A longer message is checked as often as it comes.
_LONGEST_REMEMBERED_BYTES = 4096


class Purpose(Enum):
    """The documents that a key signs. The value is the key's name in files; it also makes the domain prefix."""

    TICKET = "ticket"
    MANIFEST = "manifest"
    ANSWER = "answer"
    # Says why a sample is not charged.
    REFUSAL = "refusal"
    POLICY = "policy"
    OPERATOR = "operator"
    LOG = "log"
    # Says that a peer's log has grown and never changed.
    WITNESS = "witness"
    # Signs the card that introduces all the other keys of a party.
    IDENTITY = "identity"
    # Signed with the answer key, under a prefix of its own.
    QUOTE = "quote"
    # Signed with the identity key, under a prefix of its own: which dictionary the agency loads its data under.
    DICTIONARY = "adopted-dictionary"
    # Tickets of the form before, which names no dictionaries.
    TICKET_BEFORE = "ticket-before"

    @property
    def key(self) -> Purpose:
        """The purpose of the key that signs it: no card lists a key for quotes, or for dictionaries."""
        return _KEYS.get(self, self)

    @property
    def prefix(self) -> bytes:
        # C2SP fixes the bytes that notes and cosignatures are signed over; such a key signs nothing else.
        is_c2sp = self in {Purpose.LOG, Purpose.WITNESS}
        if self is Purpose.TICKET_BEFORE:
            return b"tripartite/ticket/v2\0"
        # Tickets and receipts have changed their meaning; the other documents carry a format number or never changed.
        version = {Purpose.TICKET: 3, Purpose.ANSWER: 2}.get(self, 1)
        return b"" if is_c2sp else f"tripartite/{self.value}/v{version}\0".encode("ascii")


_KEYS = {
    Purpose.QUOTE: Purpose.ANSWER,
    Purpose.DICTIONARY: Purpose.IDENTITY,
    Purpose.TICKET_BEFORE: Purpose.TICKET,
}


@dataclass(frozen=True, slots=True)
class VerifyKey:
    """The public half of a signing key."""

    purpose: Purpose
    raw: bytes

    def __post_init__(self) -> None:
        if len(self.raw) != _KEY_BYTES:
            raise ValueError("an Ed25519 public key has 32 bytes")

    @property
    def key_id(self) -> str:
        return hashlib.sha256(
            b"tripartite/verify-key/v1\0" + self.purpose.value.encode() + b"\0" + self.raw
        ).hexdigest()[:16]

    def verify_signature(self, message: bytes, signature: bytes, *, purpose: Purpose | None = None) -> None:
        """Return only if `signature` is this key's signature of `message` for its own purpose, or another that it serves.

        Raises:
            InvalidRequestError: BAD_SIGNATURE.
        """
        purpose = _served(self.purpose, purpose)
        verify = _verify_once if len(message) <= _LONGEST_REMEMBERED_BYTES else _verify
        try:
            verify(self.raw, purpose.prefix + message, signature)
        except (InvalidSignature, ValueError) as error:
            raise InvalidRequestError("BAD_SIGNATURE", subject=purpose.value) from error

    def verify_text(self, message: bytes, signature: str, *, purpose: Purpose | None = None) -> None:
        """The same for a signature as `sign_text` writes it; another spelling of the same bytes does not hold.

        Raises:
            InvalidRequestError: BAD_SIGNATURE.
        """
        try:
            raw = parse_base64(signature)
        except ValueError as error:
            raise InvalidRequestError("BAD_SIGNATURE", subject=(purpose or self.purpose).value) from error
        self.verify_signature(message, raw, purpose=purpose)

    def to_text(self) -> str:
        return f"ed25519-public {self.purpose.value} {base64_text(self.raw)}"

    @classmethod
    def parse_text(cls, text: str, purpose: Purpose) -> VerifyKey:
        """Read a public key file's text; ValueError when it is not a key for this purpose."""
        return cls(purpose, _parse_key_line(text, "ed25519-public", purpose))


def _served(own: Purpose, asked: Purpose | None) -> Purpose:
    """SECURITY: a key signs for its own purpose and for those that name it, and for no other."""
    if asked is None or asked is own:
        return own
    if asked.key is not own:
        raise ValueError(f"a key for {own.value} signs nothing for {asked.value}")
    return asked


def _verify(key: bytes, message: bytes, signature: bytes) -> None:
    Ed25519PublicKey.from_public_bytes(key).verify(signature, message)


# SECURITY: only what holds is remembered, with every byte that it follows from, and it holds for ever. Whether the key is
# still honoured is the caller's to say.
_verify_once = functools.lru_cache(_REMEMBERED)(_verify)


def key_named(keys: Iterable[VerifyKey], key_id: str, *, subject: str) -> VerifyKey:
    """The key of that name.

    Raises:
        InvalidRequestError: UNKNOWN_KEY.
    """
    for key in keys:
        if key.key_id == key_id:
            return key
    raise InvalidRequestError("UNKNOWN_KEY", key=key_id[:64], subject=subject)


class SigningKey(Secret):
    """The private half: signs for one purpose."""

    def __init__(self, purpose: Purpose, key: bytes) -> None:
        super().__init__(key, exact_bytes=_KEY_BYTES)
        self.purpose = purpose
        self._private = Ed25519PrivateKey.from_private_bytes(key)
        self.verify_key = VerifyKey(purpose, self._private.public_key().public_bytes_raw())

    @classmethod
    def generate(cls, purpose: Purpose, randomness: Randomness) -> SigningKey:
        return cls(purpose, randomness(_KEY_BYTES))

    @property
    def key_id(self) -> str:
        return self.verify_key.key_id

    def sign(self, message: bytes, *, purpose: Purpose | None = None) -> bytes:
        """The 64-byte signature of `message` under this key's own purpose, or another that it serves."""
        return self._private.sign(_served(self.purpose, purpose).prefix + message)

    def sign_text(self, message: bytes, *, purpose: Purpose | None = None) -> str:
        return base64_text(self.sign(message, purpose=purpose))

    def to_text(self) -> str:
        """SECURITY: the private key, for a key file readable by its owner alone."""
        return f"ed25519-private {self.purpose.value} {base64_text(self.expose())}"

    @classmethod
    def parse_text(cls, text: str, purpose: Purpose) -> SigningKey:
        """Read a private key file's text; ValueError when it is not a key for this purpose."""
        return cls(purpose, _parse_key_line(text, "ed25519-private", purpose))


def _parse_key_line(text: str, kind: str, purpose: Purpose) -> bytes:
    words = text.strip().split(" ")
    if len(words) != 3 or words[0] != kind or words[1] != purpose.value:  # noqa: PLR2004 - kind, purpose, key
        raise ValueError(f"not one line of the form '{kind} {purpose.value} BASE64'")
    return parse_base64(words[2])
