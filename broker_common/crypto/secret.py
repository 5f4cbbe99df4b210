"""A secret is a type, so that logging, formatting or pickling it by accident shows nothing."""

from __future__ import annotations

import hashlib
import hmac
from typing import NoReturn

from broker_common.values import base64_text, parse_base64


class Secret:
    """Key bytes of a fixed length. Compares in constant time; `expose` is the only way to the bytes."""

    def __init__(self, key: bytes, *, exact_bytes: int) -> None:
        if len(key) != exact_bytes:
            raise ValueError(f"{type(self).__name__} needs exactly {exact_bytes} bytes")
        self._key = bytes(key)

    def expose(self) -> bytes:
        """SECURITY: the raw bytes, for a key file or a primitive. Never for a log, a message or an error."""
        return self._key

    @property
    def key_id(self) -> str:
        """A short public name of the key: tells keys apart, tells nothing about them."""
        return hashlib.sha256(b"tripartite/key-id/v1\0" + type(self).__name__.encode() + b"\0" + self._key).hexdigest()[
            :16
        ]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self.key_id == other.key_id and hmac.compare_digest(self._key, other._key)

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.key_id))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(<secret {self.key_id}>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{type(self).__name__} is never serialised")


def secret_text(purpose: str, key: bytes) -> str:
    """SECURITY: the key itself, for a key file readable by its owner alone."""
    return f"secret {purpose} {base64_text(key)}"


def parse_secret(text: str, purpose: str) -> bytes:
    """Read a key file's text; ValueError when it is not a secret for this purpose."""
    words = text.strip().split(" ")
    if len(words) != 3 or words[:2] != ["secret", purpose]:  # noqa: PLR2004 - kind, purpose, key
        raise ValueError(f"not one line of the form 'secret {purpose} BASE64'")
    return parse_base64(words[2])
