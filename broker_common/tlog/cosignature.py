"""C2SP tlog-cosignature v1: a witness says that a log, when it last looked, was as long as this and continued what it had seen.

    census.example/tripartite           the checkpoint's three lines, as the log signed them
    42
    5xLz...=
                                        (empty line)
    — census.example/tripartite AbCd...=    the log's own signature
    — health.example/witness EfGh...=       a cosignature: base64 of key hash (4 bytes), time (8 bytes), signature (64)

Pure: that the log continues what the witness had seen, and that the witness has durably noted so, is for the caller to make
sure of before it calls `cosign`. A cosignature says nothing of who the log is: check the log's own signature and origin
with a `NoteVerifier` as well. The signed bytes do not contain the witness's name: one key, one name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from broker_common.crypto.signing import Purpose, SigningKey, VerifyKey
from broker_common.errors import InvalidRequestError
from broker_common.tlog.note import (
    ED25519,
    KEY_HASH_BYTES,
    MAX_NOTE_BYTES,
    Checkpoint,
    NoteVerifier,
    Signature,
    claimed_by,
    join_note,
    key_hash,
    parse_note,
    require_purpose,
    vkeys,
)

_TIMESTAMPED_ED25519 = b"\x04"
_TIME_BYTES = 8
# Between the clocks of two agencies. A cosignature says when it was made by the witness's clock.
MOST_SKEW_MS: Final = 3_600_000
# The largest time that C2SP allows.
MAX_TIME_S = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Cosigned:
    """A witness's statement: this checkpoint was the log's longest at this time."""

    checkpoint: Checkpoint
    time_s: int


@dataclass(frozen=True, slots=True)
class CosignatureVerifier:
    """A witness's name and public keys: enough to check its cosignatures."""

    name: str
    keys: tuple[VerifyKey, ...]

    def __post_init__(self) -> None:
        require_purpose(Purpose.WITNESS, self.keys)

    def to_text(self) -> str:
        """The C2SP vkeys, a line each: name+hash+base64(type || key)."""
        return vkeys(self.name, _TIMESTAMPED_ED25519, self.keys)

    def verify(self, note: str) -> Cosigned:
        """The witness's statement in `note`, if one of these keys cosigned it and none of them wrongly.

        The time is the latest, where the witness has cosigned more than once.

        Raises:
            InvalidRequestError: BAD_SIGNATURE or MALFORMED_MESSAGE.
        """
        checkpoint, signatures = parse_note(note)
        claimed = claimed_by(self.name, _TIMESTAMPED_ED25519, self.keys, signatures)
        times = [_verify_time(checkpoint, key, blob) for key, blob in claimed]
        if not times:
            raise InvalidRequestError("BAD_SIGNATURE", subject="cosignature")
        return Cosigned(checkpoint, max(times))


@dataclass(frozen=True, slots=True)
class Cosigner:
    """A witness's name and private key."""

    name: str
    key: SigningKey

    def __post_init__(self) -> None:
        require_purpose(Purpose.WITNESS, (self.key,))

    @property
    def verifier(self) -> CosignatureVerifier:
        return CosignatureVerifier(self.name, (self.key.verify_key,))

    def cosign(self, note: str, time_s: int) -> str:
        """The note with this witness's line at the end; `time_s` is in seconds since 1970.

        SECURITY: says that the log continues everything that this witness has cosigned of it. Verify and store first.

        Raises:
            InvalidRequestError: MALFORMED_MESSAGE: it is no note of a checkpoint, or there is no room for another line.
        """
        if not 0 <= time_s <= MAX_TIME_S:
            raise ValueError("a cosignature cannot have this time")
        checkpoint, signatures = parse_note(note)
        blob = time_s.to_bytes(_TIME_BYTES, "big") + self.key.sign(_signed_bytes(checkpoint, time_s))
        line = (self.name, key_hash(self.name, _TIMESTAMPED_ED25519, self.key.verify_key) + blob)
        return _note_with_room(checkpoint, [*signatures, line])


def note_lines(note: str) -> list[tuple[str, bytes]]:
    """Name and key hash of every signature line, in order, for who wants to report those that no known key explains.

    Raises:
        InvalidRequestError: MALFORMED_MESSAGE.
    """
    _, signatures = parse_note(note)
    return [(name, blob[:KEY_HASH_BYTES]) for name, blob in signatures]


def only_lines_of(note: str, log: NoteVerifier, *witnesses: CosignatureVerifier) -> str:
    """The note with the lines of these keys alone, one for each: a witness's latest. Whatever else stands there is left out.

    A note that is kept or passed on is one's own word for every line in it. No signature is verified; verify first.

    Raises:
        InvalidRequestError: MALFORMED_MESSAGE, or BAD_SIGNATURE: no line is left.
    """
    checkpoint, signatures = parse_note(note)
    known = {(log.name, key_hash(log.name, ED25519, key)) for key in log.keys} | {
        (witness.name, key_hash(witness.name, _TIMESTAMPED_ED25519, key))
        for witness in witnesses
        for key in witness.keys
    }
    lines: dict[tuple[str, bytes], bytes] = {}
    for name, blob in signatures:
        signer = name, blob[:KEY_HASH_BYTES]
        if signer in known:
            # A cosignature's time is its first bytes, so that the latest is the greatest.
            lines[signer] = max(blob, lines.get(signer, b""))
    if not lines:
        raise InvalidRequestError("BAD_SIGNATURE", subject="checkpoint")
    return join_note(checkpoint.to_text(), [(name, blob) for (name, _), blob in lines.items()])


def merge_cosignatures(notes: Sequence[str]) -> str:
    """One note with every signature line of several notes of the same checkpoint: each once, in the order of the notes.

    No signature is verified; a line that does not hold makes everybody who knows its key refuse the merged note.

    Raises:
        InvalidRequestError: MALFORMED_MESSAGE: one is no note of a checkpoint, they differ, or there are too many lines.
    """
    parsed = [parse_note(note) for note in notes]
    if len({checkpoint for checkpoint, _ in parsed}) != 1:
        raise InvalidRequestError("MALFORMED_MESSAGE", problem="not notes of one checkpoint")
    lines = dict.fromkeys(line for _, signatures in parsed for line in signatures)
    return _note_with_room(parsed[0][0], list(lines))


def _note_with_room(checkpoint: Checkpoint, signatures: list[Signature]) -> str:
    note = join_note(checkpoint.to_text(), signatures)
    if len(note.encode()) > MAX_NOTE_BYTES:
        raise InvalidRequestError("MALFORMED_MESSAGE", problem="the note has no room for another signature")
    return note


def _signed_bytes(checkpoint: Checkpoint, time_s: int) -> bytes:
    return f"cosignature/v1\ntime {time_s}\n{checkpoint.to_text()}".encode()


def _verify_time(checkpoint: Checkpoint, key: VerifyKey, blob: bytes) -> int:
    time_s = int.from_bytes(blob[:_TIME_BYTES], "big")
    key.verify_signature(_signed_bytes(checkpoint, time_s), blob[_TIME_BYTES:])
    if time_s > MAX_TIME_S:
        raise InvalidRequestError("BAD_SIGNATURE", subject="cosignature")
    return time_s
