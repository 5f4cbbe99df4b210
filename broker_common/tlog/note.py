"""C2SP signed-note and tlog-checkpoint: the text that says how long a log is and what its root is, with signatures.

    census-agency.tripartite/log        origin
    42                                  size
    5xLz...=                            root, base64
                                        (empty line)
    — census-agency.tripartite/log AbCd...=   one signature line per key: name, base64 of key hash (4 bytes) + signature

`parse_` and `verify_` accept the canonical form only, so a checkpoint has one spelling. See FORMAT.md. `cosignature.py`
interprets other signature lines; it reads notes with the functions here.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from broker_common.crypto.signing import Purpose, SigningKey, VerifyKey
from broker_common.errors import InvalidRequestError
from broker_common.values import base64_text, parse_base64

# One signature line: the name, and the key hash with the signature proper behind it.
Signature: TypeAlias = tuple[str, bytes]

_SIGNATURE_PREFIX = "\u2014 "
# The C2SP type of a log's own signature.
ED25519 = b"\x01"
KEY_HASH_BYTES = 4
_ROOT_BYTES = 32
# A newline is the only one in a note.
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f]")
# Generous for a checkpoint with many cosignatures, small enough that nobody can make us chew.
MAX_NOTE_BYTES = 16_384


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How long a log is and what its root is."""

    origin: str
    size: int
    root: bytes

    def to_text(self) -> str:
        """The three lines that are signed, each ending in a newline."""
        return f"{self.origin}\n{self.size}\n{base64_text(self.root)}\n"

    @classmethod
    def parse_text(cls, text: str) -> Checkpoint:
        """Read exactly what `to_text` writes; ValueError otherwise."""
        lines = text.split("\n")
        if len(lines) != 4 or lines[3]:  # noqa: PLR2004 - origin, size, root, final newline
            raise ValueError("a checkpoint has three lines")
        origin, size, root = lines[0], lines[1], parse_base64(lines[2])
        if not origin or not size.isascii() or not size.isdigit() or str(int(size)) != size:
            raise ValueError("the origin is empty or the size is not a canonical number")
        if len(root) != _ROOT_BYTES:
            raise ValueError("the root is not a SHA-256 hash")
        return cls(origin, int(size), root)


@dataclass(frozen=True, slots=True)
class NoteVerifier:
    """A log's name and public keys: enough to check its checkpoints."""

    name: str
    keys: tuple[VerifyKey, ...]

    def __post_init__(self) -> None:
        require_purpose(Purpose.LOG, self.keys)

    def to_text(self) -> str:
        """The C2SP vkeys, a line each: name+hash+base64(type || key)."""
        return vkeys(self.name, ED25519, self.keys)

    def verify_checkpoint(self, note: str) -> Checkpoint:
        """The checkpoint of `note`, if one of these keys signed it, none of them wrongly, and its origin is this name.

        Raises:
            InvalidRequestError: BAD_SIGNATURE or MALFORMED_MESSAGE.
        """
        checkpoint, signatures = parse_note(note)
        claimed = claimed_by(self.name, ED25519, self.keys, signatures)
        for key, signature in claimed:
            key.verify_signature(checkpoint.to_text().encode(), signature)
        if not claimed or checkpoint.origin != self.name:
            raise InvalidRequestError("BAD_SIGNATURE", subject="checkpoint")
        return checkpoint


@dataclass(frozen=True, slots=True)
class NoteSigner:
    """A log's name and private keys; while a key is being replaced there are two, so that either is enough to check."""

    name: str
    keys: tuple[SigningKey, ...]

    def __post_init__(self) -> None:
        require_purpose(Purpose.LOG, self.keys)

    @property
    def verifier(self) -> NoteVerifier:
        return NoteVerifier(self.name, tuple(key.verify_key for key in self.keys))

    def sign_checkpoint(self, size: int, root: bytes) -> str:
        """The signed note for a log of `size` entries with this root."""
        text = Checkpoint(self.name, size, root).to_text()
        return join_note(
            text,
            [(self.name, key_hash(self.name, ED25519, key.verify_key) + key.sign(text.encode())) for key in self.keys],
        )


def require_purpose(purpose: Purpose, keys: Iterable[SigningKey | VerifyKey]) -> None:
    """Raise ValueError unless all keys are for this purpose: what C2SP has them sign says nothing of it."""
    if any(key.purpose is not purpose for key in keys):
        raise ValueError(f"not a {purpose.value} key")


def key_hash(name: str, kind: bytes, key: VerifyKey) -> bytes:
    """How a signature line names a key that makes signatures of this kind (a byte that C2SP assigns)."""
    return hashlib.sha256(name.encode() + b"\n" + kind + key.raw).digest()[:KEY_HASH_BYTES]


def vkeys(name: str, kind: bytes, keys: Iterable[VerifyKey]) -> str:
    """The C2SP vkeys, a line each: name+hash+base64(kind || key)."""
    return "\n".join(f"{name}+{key_hash(name, kind, key).hex()}+{base64_text(kind + key.raw)}" for key in keys)


def claimed_by(
    name: str, kind: bytes, keys: Iterable[VerifyKey], signatures: Iterable[Signature]
) -> list[tuple[VerifyKey, bytes]]:
    """The signatures that say they are by one of these keys, without name and key hash; each is still to be verified."""
    known = {key_hash(name, kind, key): key for key in keys}
    return [
        (known[blob[:KEY_HASH_BYTES]], blob[KEY_HASH_BYTES:])
        for signer, blob in signatures
        if signer == name and blob[:KEY_HASH_BYTES] in known
    ]


@lru_cache(maxsize=256)
def parse_note(note: str) -> tuple[Checkpoint, tuple[Signature, ...]]:
    """The checkpoint of a note and its signatures, none of them verified.

    Raises:
        InvalidRequestError: MALFORMED_MESSAGE.
    """
    try:
        text, signatures = _split(note)
        return Checkpoint.parse_text(text), signatures
    except ValueError as error:
        raise InvalidRequestError("MALFORMED_MESSAGE", problem=f"not a signed checkpoint, {error}") from error


def parse_checkpoint(note: str) -> Checkpoint:
    """The checkpoint of a well-formed note, with any signatures; ValueError otherwise."""
    text, _ = _split(note)
    return Checkpoint.parse_text(text)


def join_note(text: str, signatures: Iterable[Signature]) -> str:
    """The note of this text, which `parse_note` takes apart again."""
    lines = (f"{_SIGNATURE_PREFIX}{name} {base64_text(blob)}\n" for name, blob in signatures)
    return f"{text}\n{''.join(lines)}"


def _split(note: str) -> tuple[str, tuple[Signature, ...]]:
    if len(note.encode()) > MAX_NOTE_BYTES:
        raise ValueError("the note is too long")
    if _CONTROL.search(note):
        raise ValueError("there are control characters")
    text, separator, tail = note.rpartition("\n\n")
    if not separator or not tail.endswith("\n"):
        raise ValueError("there is no signature block")
    return text + "\n", tuple(_parse_signature_line(line) for line in tail[:-1].split("\n"))


def _parse_signature_line(line: str) -> Signature:
    words = line.removeprefix(_SIGNATURE_PREFIX).split(" ")
    if not line.startswith(_SIGNATURE_PREFIX) or len(words) != 2 or not words[0]:  # noqa: PLR2004 - name, signature
        raise ValueError("a signature line is malformed")
    blob = parse_base64(words[1])
    if len(blob) < KEY_HASH_BYTES:
        raise ValueError("a signature line is malformed")
    return words[0], blob
