"""The auditor's home: how it is made, whom the auditor trusts, and what earlier audits have verified.

    config.toml     role = "auditor"
    trust/*.card    a card of each party, as its owner handed it over; fingerprints were compared by people
    seen/ROLE       the newest checkpoint of each log that an audit has verified

SECURITY: `seen/` is what makes a second audit more than the first one again. A party that shows this auditor two histories, or an
older one, has to have signed both. Keep it, and compare it with other auditors.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct, field

from broker_common.audit import texts
from broker_common.crypto.cards import VerifiedCard, is_successor, verify_successor
from broker_common.crypto.certificates import Role
from broker_common.crypto.sealing import SealingKey, UnsealingKey
from broker_common.crypto.signing import Purpose, VerifyKey
from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from broker_common.parties.registration import read_card
from broker_common.storage.creation import new_home
from broker_common.storage.durable import make_folder, replace_file
from broker_common.storage.home import KEYS, Home
from broker_common.tlog.note import MAX_NOTE_BYTES
from broker_common.tlog.parties import peer_name

_ROLE: Final = "auditor"
_TRUST = "trust"
_SEEN = "seen"
_OVERSIGHT = f"{KEYS}/oversight.key"


class KeyConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """References (`file:` or `env:`) to the auditor's keys."""

    # Reads the evidence of noise that a census agency keeps. Empty: this auditor checks no noise.
    oversight: str = ""


class AuditorConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """config.toml of an auditor's home."""

    # Kind of this home.
    role: Literal["auditor"]
    # The health agency whose log is examined. Empty: the only one with a card in `trust/`.
    health: str = ""
    # [keys], see below.
    keys: KeyConfig = field(default_factory=KeyConfig)


def create_home(path: Path, *, health: str = "") -> SealingKey:
    """A new home that trusts nobody yet; gives the public oversight key.

    Raises:
        InvalidRequestError: HOME_INVALID, the folder holds something.
    """
    config = AuditorConfig(role="auditor", health=health, keys=KeyConfig(oversight=f"file:{_OVERSIGHT}"))
    with new_home(path, config):
        make_folder(path / _TRUST)
        oversight = UnsealingKey.generate(os.urandom)
        replace_file(path / _OVERSIGHT, f"{oversight.to_text()}\n".encode("ascii"), mode=0o600)
    return oversight.sealing_key


def trust(path: Path, card: VerifiedCard, *, replace: bool = False) -> None:
    """Durably keep a card whose fingerprint people have compared.

    An older card of the party that it follows stays: whatever the party's log says since follows from that one.

    Raises:
        InvalidRequestError: HOME_INVALID, CONFIG_INVALID; CARD_UNRELATED, WRONG_ORGANISATION or CARD_OUTDATED.
    """
    Home(path, "auditor").load_config(AuditorConfig)
    make_folder(path / _TRUST)
    identity = card.card.identity
    file = path / _TRUST / f"{identity.role}-{peer_name(identity)}.card"
    if file.is_file() and not replace:
        before = read_card(file)
        if before.signed != card.signed:
            verify_successor(before, card.signed)
        return
    replace_file(file, card.signed.to_bytes() + b"\n")


class Trust:
    """The cards that people have compared, and every card that follows one of them."""

    def __init__(self, cards: Iterable[VerifiedCard]) -> None:
        self._cards: dict[tuple[Role, str], list[VerifiedCard]] = {}
        for card in cards:
            self._cards.setdefault((card.card.role, peer_name(card.card.identity)), []).append(card)

    def knows(self, role: Role, name: str) -> bool:
        """Whether people have compared a card of this party."""
        return (role, name) in self._cards

    def take(self, card: VerifiedCard) -> bool:
        """Whether a card is one that is trusted, or follows one; then what follows it is trusted as well."""
        known = self._cards.get((card.card.role, peer_name(card.card.identity)), [])
        if any(card.signed == other.signed for other in known):
            return True
        if not any(is_successor(other, card.signed) or is_successor(card, other.signed) for other in known):
            return False
        known.append(card)
        return True


class AuditorHome:
    """An auditor's home and everything that is read from it."""

    def __init__(self, path: Path) -> None:
        """Open it.

        Raises:
            InvalidRequestError: HOME_INVALID or CONFIG_INVALID; CARD_UNREADABLE or BAD_SIGNATURE.
        """
        self._home = Home(path, _ROLE)
        config = self._home.load_config(AuditorConfig)
        self._keys = config.keys
        self.path = path
        cards = [read_card(file) for file in sorted((path / _TRUST).glob("*.card"))]
        # For each role: the cards of the agency whose log is examined.
        self._audited: dict[Role, list[VerifiedCard]] = {}
        wanted_by_role: dict[Role, str] = {"census": "", "health": config.health}
        for role, wanted in wanted_by_role.items():
            theirs = [card for card in cards if card.card.role == role and wanted in ("", card.card.organisation)]
            self._audited[role] = theirs
            names = {card.card.identity for card in theirs}
            if len(names) != 1:
                problem = texts.NO_CARD if not names else texts.SEVERAL_CARDS
                raise InvalidRequestError(
                    "HOME_INVALID",
                    home=str(path),
                    role=_ROLE,
                    problem=problem.format(role=role),
                    remedy=phrase(texts.HAND_OVER_CARD, role=role),
                )
        self._cards = cards

    def trust(self) -> Trust:
        return Trust(self._cards)

    def card(self, role: Role) -> VerifiedCard:
        """The oldest trusted card of the agency whose log is looked at."""
        return min(self._audited[role], key=lambda card: card.card.serial)

    def agency(self, role: Role) -> str:
        return peer_name(self.card(role).card.identity)

    def root(self, role: Role) -> VerifyKey:
        """The identity key that an agency's first card is signed with: the first that its oldest trusted card lists."""
        key = self.card(role).listed(Purpose.IDENTITY.value)[0][1]
        if not isinstance(key, VerifyKey):
            raise TypeError("an identity key signs")
        return key

    def oversight_key(self) -> UnsealingKey:
        """The key that reads openings.

        Raises:
            InvalidRequestError: INVALID_VALUE, this auditor has none; SECRET_MISSING.
        """
        if not self._keys.oversight:
            raise InvalidRequestError(
                "INVALID_VALUE", name="--openings", problem=texts.NO_OVERSIGHT_KEY, remedy=texts.NO_OVERSIGHT_KEY_REMEDY
            )
        return self._home.read_key(self._keys.oversight, UnsealingKey.parse_text)

    def seen(self, role: Role) -> str:
        """The newest checkpoint of a log that an audit has verified; empty before the first.

        Raises:
            InvalidRequestError: FILE_UNUSABLE.
        """
        file = self.path / _SEEN / role
        try:
            with file.open("rb") as opened:
                return opened.read(MAX_NOTE_BYTES + 1).decode()
        except FileNotFoundError:
            return ""
        except UnicodeDecodeError as error:
            raise InvalidRequestError("FILE_UNUSABLE", file=str(file), problem="it is no text") from error

    def remember(self, role: Role, note: str) -> None:
        """Durably keep the newest verified checkpoint of a log."""
        make_folder(self.path / _SEEN)
        replace_file(self.path / _SEEN / role, note.encode(), mode=0o600)
