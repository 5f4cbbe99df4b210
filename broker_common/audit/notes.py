"""Who may have signed a checkpoint, and when: keys as cards have announced and ended them, and the check of a whole note.

A log says itself which keys it signs with (its own cards) and which witnesses it knows (the cards of its peers). A note
that stands in an entry was signed before it, and after the last entry that it covers; a key is good for it if it had been
announced by then and had not ended when that last entry was made. Every signature line is explained by such a key, or it
is a problem: nothing in an export is without meaning.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from broker_common.crypto.cards import PURPOSES, VerifiedCard
from broker_common.crypto.signing import Purpose, VerifyKey
from broker_common.errors import InvalidRequestError
from broker_common.tlog.cosignature import CosignatureVerifier, note_lines
from broker_common.tlog.note import KEY_HASH_BYTES, Checkpoint, NoteVerifier, parse_note
from broker_common.crypto.base64_text import parse_base64

__all__ = ["CheckedNote", "KeyHistory", "NoteChecker", "NoteError"]

_NEVER = 2**63
_MOST_KEPT = 256


class KeyHistory:
    """Every key that a party's cards have listed, and until when each was honoured."""

    def __init__(self, origin: str = "") -> None:
        # Name of its log, which is the name that it cosigns under.
        self.origin = origin
        self._until: dict[VerifyKey, int] = {}

    def learn(self, card: VerifiedCard, time_ms: int) -> None:
        """Take in a card that is in use from this time on. Keys that it does not list have ended."""
        self.origin = card.card.origin
        listed: dict[VerifyKey, int] = {}
        for purpose in PURPOSES[card.card.role]:
            for key, public in card.listed(purpose):
                if isinstance(public, VerifyKey):
                    listed[public] = key.until_ms or _NEVER
        for key, until_ms in self._until.items():
            listed.setdefault(key, min(until_ms, time_ms))
        self._until = listed

    def keys(self, purpose: Purpose, since_ms: int = 0) -> tuple[VerifyKey, ...]:
        """Keys for a kind of signature that had not ended at this time."""
        return tuple(
            key for key, until_ms in self._until.items() if key.purpose is purpose and since_ms < until_ms
        )


class NoteError(Exception):
    """A note does not hold; `code` is one of `codes`."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


@dataclass(frozen=True, slots=True)
class CheckedNote:
    """A checkpoint whose every signature line holds."""

    checkpoint: Checkpoint
    # When the witness cosigned it, in seconds; None where no cosignature was asked for.
    time_s: int | None


class NoteChecker:
    """Checks notes. Many entries name the same one: what was checked last is remembered."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, NoteVerifier, CosignatureVerifier | None], CheckedNote] = OrderedDict()

    def check(self, note: str, log: NoteVerifier, witness: CosignatureVerifier | None) -> CheckedNote:
        """The checkpoint of a note that the log signed, and, if one is given, the witness cosigned.

        Raises:
            NoteError: CHECKPOINT_MALFORMED, BAD_SIGNATURE, NOT_COSIGNED or UNKNOWN_SIGNATURE.
        """
        asked = (note, log, witness)
        kept = self._kept.get(asked)
        if kept is None:
            kept = _check(note, log, witness)
            self._kept[asked] = kept
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return kept


def _check(note: str, log: NoteVerifier, witness: CosignatureVerifier | None) -> CheckedNote:
    try:
        parse_note(note)
    except InvalidRequestError as error:
        raise NoteError("CHECKPOINT_MALFORMED", error.details.get("problem", "")) from error
    try:
        checkpoint = log.verify_checkpoint(note)
    except InvalidRequestError as error:
        raise NoteError("BAD_SIGNATURE", f"of {log.name}") from error
    time_s = None
    if witness is not None:
        try:
            time_s = witness.verify(note).time_s
        except InvalidRequestError as error:
            raise NoteError("NOT_COSIGNED", f"by {witness.name}") from error
    known = {_line(vkey) for verifier in (log, witness) if verifier is not None for vkey in _vkeys(verifier)}
    lines = note_lines(note)
    for name, key_hash in lines:
        if (name, key_hash) not in known:
            raise NoteError("UNKNOWN_SIGNATURE", f"{name}+{key_hash.hex()}")
    if len(set(lines)) < len(lines):
        raise NoteError("UNKNOWN_SIGNATURE", "a key has signed twice")
    return CheckedNote(checkpoint, time_s)


def _vkeys(verifier: NoteVerifier | CosignatureVerifier) -> Sequence[str]:
    return verifier.to_text().splitlines()


def _line(vkey: str) -> tuple[str, bytes]:
    name, hexed, _ = vkey.split("+", 2)
    return name, bytes.fromhex(hexed)[:KEY_HASH_BYTES]
