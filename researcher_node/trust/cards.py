"""Whom the researcher knows: the card of each agency, a file each in `trust/`, replaced when a newer card is heard of."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from broker_common.crypto.cards import VerifiedCard, verify_successor
from broker_common.crypto.certificates import Role
from broker_common.crypto.signing import Purpose
from broker_common.errors import InvalidRequestError
from broker_common.parties.registration import read_card
from broker_common.storage.durable import exclusive, make_folder, replace_file
from broker_common.tlog.cosignature import CosignatureVerifier
from broker_common.tlog.note import NoteVerifier
from broker_common.values import Clock
from researcher_node.trust.census_log import CensusLog

AGENCIES: Final[tuple[Role, ...]] = ("health", "census")


class Trust:
    """The folder of cards. Read at every use: what another process has put there is obeyed at once."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock

    def file(self, role: Role) -> Path:
        return self._folder / f"{role}.card"

    def card(self, role: Role) -> VerifiedCard:
        """An agency's card.

        Raises:
            InvalidRequestError: NOT_REGISTERED; or what is wrong with the file.
        """
        if not self.file(role).is_file():
            raise InvalidRequestError("NOT_REGISTERED", party=f"the {role} agency")
        card = read_card(self.file(role))
        if card.card.role != role:
            raise InvalidRequestError("WRONG_ORGANISATION", subject="card")
        return card

    def census_log(self) -> CensusLog:
        """The census log's keys and its witness's, as the cards have them now.

        Raises:
            InvalidRequestError: NOT_REGISTERED; or what is wrong with a file.
        """
        census, health, now_ms = self.card("census"), self.card("health"), self._clock()
        return CensusLog(
            NoteVerifier(census.card.origin, tuple(census.verify_keys(Purpose.LOG, now_ms))),
            CosignatureVerifier(health.card.origin, tuple(health.verify_keys(Purpose.WITNESS, now_ms))),
        )

    def put(self, card: VerifiedCard, *, replace: bool = False) -> None:
        """Keep a card in the place of the one before, which it must follow unless `replace` is given.

        Raises:
            InvalidRequestError: CARD_UNRELATED, WRONG_ORGANISATION or CARD_OUTDATED.
        """
        role = card.card.role
        if role not in AGENCIES:
            raise InvalidRequestError("WRONG_ORGANISATION", subject="card")
        make_folder(self._folder)
        # One process at a time, or an older card could take the place of a newer one.
        with exclusive(self._folder / ".lock", wait=True):
            if not replace and self.file(role).is_file():
                before = self.card(role)
                if before.signed == card.signed:
                    return
                verify_successor(before, card.signed)
            replace_file(self.file(role), card.signed.to_bytes() + b"\n")
