"""C2SP signed-note and tlog-checkpoint: the text that says how long a log is and what its root is, with signatures.

    census-agency.tripartite/log        origin
    42                                  size
    5xLz...=                            root, base64
                                        (empty line)
    — census-agency.tripartite/log AbCd...=   one signature line per key: name, base64 of key hash (4 bytes) + signature

`parse_` and `verify_` accept the canonical form only, so a checkpoint has one spelling. See FORMAT.md.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from broker_common.crypto.base64_text import base64_text, parse_base64
from broker_common.crypto.signing import SigningKey, VerifyKey
from broker_common.errors import InvalidRequestError

__all__ = ["Checkpoint", "NoteSigner", "NoteVerifier", "parse_checkpoint"]

_SIGNATURE_PREFIX = "\u2014 "
_ED25519 = b"\x01"
_KEY_HASH_BYTES = 4
_ROOT_BYTES = 32
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


def parse_checkpoint(note: str) -> Checkpoint:
    """The checkpoint of a well-formed note, whoever signed it; ValueError otherwise."""
    text, _ = _split(note)
    return Checkpoint.parse_text(text)


@dataclass(frozen=True, slots=True)
class NoteVerifier:
    """A log's name and public keys: enough to check its checkpoints."""

    name: str
    keys: tuple[VerifyKey, ...]

    def to_text(self) -> str:
        """The C2SP vkeys, a line each: name+hash+base64(type || key)."""
        return "\n".join(
            f"{self.name}+{_key_hash(self.name, key).hex()}+{base64_text(_ED25519 + key.raw)}" for key in self.keys
        )

    def verify_checkpoint(self, note: str) -> Checkpoint:
        """The checkpoint of `note`, if one of these keys signed it, none of them wrongly, and its origin is this name.

        Raises:
            InvalidRequestError: BAD_SIGNATURE or MALFORMED_MESSAGE.
        """
        try:
            text, signatures = _split(note)
            checkpoint = Checkpoint.parse_text(text)
        except ValueError as error:
            raise InvalidRequestError("MALFORMED_MESSAGE", problem=f"not a signed checkpoint, {error}") from error
        known = {_key_hash(self.name, key): key for key in self.keys}
        verified = 0
        for name, blob in signatures:
            key = known.get(blob[:_KEY_HASH_BYTES])
            if name == self.name and key is not None:
                key.verify_signature(text.encode(), blob[_KEY_HASH_BYTES:])
                verified += 1
        if not verified or checkpoint.origin != self.name:
            raise InvalidRequestError("BAD_SIGNATURE", subject="checkpoint")
        return checkpoint


@dataclass(frozen=True, slots=True)
class NoteSigner:
    """A log's name and private keys; while a key is being replaced there are two, so that either is enough to check."""

    name: str
    keys: tuple[SigningKey, ...]

    @property
    def verifier(self) -> NoteVerifier:
        return NoteVerifier(self.name, tuple(key.verify_key for key in self.keys))

    def sign_checkpoint(self, size: int, root: bytes) -> str:
        """The signed note for a log of `size` entries with this root."""
        text = Checkpoint(self.name, size, root).to_text()
        lines = (self._signature_line(key, text) for key in self.keys)
        return f"{text}\n{''.join(lines)}"

    def _signature_line(self, key: SigningKey, text: str) -> str:
        blob = _key_hash(self.name, key.verify_key) + key.sign(text.encode())
        return f"{_SIGNATURE_PREFIX}{self.name} {base64_text(blob)}\n"


def _key_hash(name: str, key: VerifyKey) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + _ED25519 + key.raw).digest()[:_KEY_HASH_BYTES]


def _split(note: str) -> tuple[str, list[tuple[str, bytes]]]:
    if len(note.encode()) > MAX_NOTE_BYTES:
        raise ValueError("the note is too long")
    if any(character < " " and character != "\n" for character in note):
        raise ValueError("there are control characters")
    text, separator, tail = note.rpartition("\n\n")
    if not separator or not tail.endswith("\n"):
        raise ValueError("there is no signature block")
    return text + "\n", [_parse_signature_line(line) for line in tail[:-1].split("\n")]


def _parse_signature_line(line: str) -> tuple[str, bytes]:
    words = line.removeprefix(_SIGNATURE_PREFIX).split(" ")
    if not line.startswith(_SIGNATURE_PREFIX) or len(words) != 2 or not words[0]:  # noqa: PLR2004 - name, signature
        raise ValueError("a signature line is malformed")
    return words[0], parse_base64(words[1])
