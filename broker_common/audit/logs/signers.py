"""Who may have signed a checkpoint, and when: whom a log names, by which keys, and the check of a whole note.

A log says itself which keys it signs with (its own cards) and which witnesses it knows (the cards of its peers). A note
that stands in an entry was signed before it, and after the last entry that it covers; a key is good for it if it had been
announced by then and had not ended when that last entry was made. Every signature line is explained by such a key, or it
is a problem: nothing in an export is without meaning.

`PartyHistory` keeps what a log says of keys and peers beyond an end: a receipt or a note may be older than the card that
replaced a key, or than a revocation.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from broker_common.crypto.cards import PURPOSES, VerifiedCard
from broker_common.crypto.certificates import Role
from broker_common.crypto.signing import Purpose, VerifyKey
from broker_common.errors import InvalidRequestError
from broker_common.tlog.cosignature import CosignatureVerifier
from broker_common.tlog.entries import Announced, Entry, Registered, Revoked
from broker_common.tlog.note import KEY_HASH_BYTES, Checkpoint, NoteVerifier, key_hash, parse_note
from broker_common.tlog.parties import Parties

# Later than any time on a card.
_NEVER = 2**63
# Notes that were checked last.
_MOST_KEPT = 256
# The types that C2SP assigns.
_ED25519 = b"\x01"
_TIMESTAMPED_ED25519 = b"\x04"


class KeyHistory:
    """Every key that a party's cards have listed, and until when each was honoured."""

    def __init__(self, origin: str = "") -> None:
        # Name of its log, which is the name that it cosigns under.
        self.origin = origin
        # How many cards there have been.
        self.cards = 0
        self._until: dict[VerifyKey, int] = {}

    def learn(self, card: VerifiedCard, time_ms: int) -> None:
        """Take in a card that is in use from this time on. Keys that it does not list have ended."""
        self.origin = card.card.origin
        self.cards += 1
        until: dict[VerifyKey, int] = {}
        for purpose in PURPOSES[card.card.role]:
            for listed, public in card.listed(purpose):
                if isinstance(public, VerifyKey):
                    until[public] = listed.until_ms or _NEVER
        for key, until_ms in self._until.items():
            until.setdefault(key, min(until_ms, time_ms))
        self._until = until

    def keys(self, purpose: Purpose, since_ms: int = 0) -> tuple[VerifyKey, ...]:
        """Keys for a kind of signature that had not ended at this time."""
        return tuple(key for key, until_ms in self._until.items() if key.purpose is purpose and since_ms <= until_ms)


class NoteError(Exception):
    """A note does not hold; `code` is one of `codes`, or UNTOLD: too little of the log is known to say."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


@dataclass(frozen=True, slots=True)
class CheckedNote:
    """A checkpoint whose every signature line holds."""

    checkpoint: Checkpoint
    # When each witness cosigned it, in seconds, by agency: a name is whatever somebody writes on a card.
    times: Mapping[str, int]


_Asked: TypeAlias = tuple[str, NoteVerifier, tuple[tuple[str, CosignatureVerifier], ...], frozenset[str] | None]


class NoteChecker:
    """Checks notes. Many entries name the same one: what was checked last is remembered."""

    def __init__(self) -> None:
        self._kept: OrderedDict[_Asked, CheckedNote] = OrderedDict()

    def check(
        self,
        note: str,
        log: NoteVerifier,
        witnesses: Mapping[str, CosignatureVerifier] | None = None,
        *,
        cosigned_by: Collection[str] | None = None,
    ) -> CheckedNote:
        """The checkpoint of a note that the log signed, and that nobody cosigned but these agencies' witnesses.

        `cosigned_by` names the agencies one of which has to have cosigned it.

        Raises:
            NoteError: CHECKPOINT_MALFORMED, BAD_SIGNATURE, NOT_COSIGNED or UNKNOWN_SIGNATURE.
        """
        one_of = None if cosigned_by is None else frozenset(cosigned_by)
        asked = (note, log, tuple((witnesses or {}).items()), one_of)
        kept = self._kept.get(asked)
        if kept is None:
            kept = self._kept[asked] = _check(*asked)
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return kept


def _check(
    note: str,
    log: NoteVerifier,
    witnesses: tuple[tuple[str, CosignatureVerifier], ...],
    cosigned_by: frozenset[str] | None,
) -> CheckedNote:
    # 1. Its form.
    try:
        checkpoint, signatures = parse_note(note)
    except InvalidRequestError as error:
        raise NoteError("CHECKPOINT_MALFORMED", error.details.get("problem", "")) from error
    lines = [(name, blob[:KEY_HASH_BYTES]) for name, blob in signatures]
    # 2. The log's own signature.
    try:
        log.verify_checkpoint(note)
    except InvalidRequestError as error:
        raise NoteError("BAD_SIGNATURE", f"of {log.name}") from error
    # 3. Every cosignature that says that it is by a known witness.
    explained = _lines_of(log)
    times: dict[str, int] = {}
    for agency, witness in witnesses:
        theirs = _lines_of(witness)
        explained |= theirs
        if not theirs.isdisjoint(lines):
            try:
                times[agency] = witness.verify(note).time_s
            except InvalidRequestError as error:
                raise NoteError("NOT_COSIGNED", f"by {agency}") from error
    if cosigned_by is not None and cosigned_by.isdisjoint(times):
        raise NoteError("NOT_COSIGNED", f"by {' or '.join(sorted(cosigned_by)) or 'anybody'}")
    # 4. Nothing else, and nothing twice.
    for name, key in lines:
        if (name, key) not in explained:
            raise NoteError("UNKNOWN_SIGNATURE", f"{name}+{key.hex()}")
    if len(set(lines)) < len(lines):
        raise NoteError("UNKNOWN_SIGNATURE", "a key has signed twice")
    return CheckedNote(checkpoint, times)


def _lines_of(verifier: NoteVerifier | CosignatureVerifier) -> set[tuple[str, bytes]]:
    """How the signature lines of these keys begin."""
    kind = _ED25519 if isinstance(verifier, NoteVerifier) else _TIMESTAMPED_ED25519
    return {(verifier.name, key_hash(verifier.name, kind, key)) for key in verifier.keys}


@dataclass(frozen=True, slots=True)
class KnownResearcher:
    """A researcher as a log knew them between two entries; no card after a revocation."""

    card: VerifiedCard | None
    projects: frozenset[str]

    def ticket_keys(self, time_ms: int) -> list[VerifyKey]:
        return [] if self.card is None else self.card.verify_keys(Purpose.TICKET, time_ms)


class PartyHistory:
    """Everybody whom one log names."""

    def __init__(self) -> None:
        self.own = KeyHistory()
        self._agencies: dict[str, KeyHistory] = {}
        # For each name: the entries at which its card changed, and the cards. Cards change rarely.
        self._researchers: dict[str, tuple[list[int], list[KnownResearcher]]] = {}

    def learn(self, entry: Entry, parties: Parties) -> VerifiedCard | None:
        """Take in an entry that was applied; gives the card of a peer that it registers."""
        match entry.event:
            case Announced():
                if parties.own is not None:
                    self.own.learn(parties.own, entry.time_ms)
            case Registered(card=signed):
                for peer in parties.everybody():
                    if peer.card.signed == signed:
                        self._register(entry, peer.card, frozenset(peer.projects))
                        return peer.card
            case Revoked(role="researcher", name=name):
                self._say(name, entry.sequence, KnownResearcher(None, frozenset()))
            case _:
                pass
        return None

    def log(self, since_ms: int) -> NoteVerifier:
        """Who may have signed a checkpoint of this log whose last entry is of this time."""
        return NoteVerifier(self.own.origin, self.own.keys(Purpose.LOG, since_ms))

    def own_witness(self, since_ms: int) -> CosignatureVerifier:
        """Who may have cosigned for the node whose log this is."""
        return CosignatureVerifier(self.own.origin, self.own.keys(Purpose.WITNESS, since_ms))

    def witnesses(self, since_ms: int) -> dict[str, CosignatureVerifier]:
        """The registered witnesses, by agency: who may have cosigned this log for it."""
        return {
            agency: CosignatureVerifier(keys.origin, keys.keys(Purpose.WITNESS, since_ms))
            for agency, keys in self._agencies.items()
        }

    def researcher(self, name: str, entry: int) -> KnownResearcher | None:
        """The researcher as the log knew them when this entry was made."""
        if name not in self._researchers:
            return None
        places, said = self._researchers[name]
        place = bisect_right(places, entry)
        return said[place - 1] if place else None

    def researcher_ever(self, name: str) -> KnownResearcher | None:
        """The last registration of a researcher, before any revocation."""
        _, said = self._researchers.get(name, ([], []))
        return next((known for known in reversed(said) if known.card is not None), None)

    def _register(self, entry: Entry, card: VerifiedCard, projects: frozenset[str]) -> None:
        role: Role = card.card.role
        if role == "researcher":
            self._say(card.card.name, entry.sequence, KnownResearcher(card, projects))
        else:
            self._agencies.setdefault(card.card.organisation, KeyHistory()).learn(card, entry.time_ms)

    def _say(self, name: str, entry: int, known: KnownResearcher) -> None:
        places, said = self._researchers.setdefault(name, ([], []))
        places.append(entry)
        said.append(known)
