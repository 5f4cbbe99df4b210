"""What the homes of both agencies have in common: a journal, whose log says who the agency is and whom it knows."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Generic

from broker_common.crypto.cards import SignedCard, VerifiedCard
from broker_common.crypto.certificates import Role
from broker_common.storage.home import Home
from broker_common.storage.journal import Journal
from broker_common.storage.keyring import Keyring
from broker_common.storage.loads import StoreStateT
from broker_common.storage.registration import announce, own_card, register, revoke
from broker_common.tlog.membership import Registration


class AgencyHome(ABC, Generic[StoreStateT]):
    """An agency's home. A node that serves it obeys what is written here at its next call."""

    def __init__(self, home: Home, keyring: Keyring) -> None:
        self.home = home
        self.keyring = keyring

    @abstractmethod
    def open_journal(self, *, create: bool = False) -> Journal[StoreStateT]:
        """The node's journal; `create` makes a new one and refuses to touch an old one."""

    @contextlib.contextmanager
    def journal(self) -> Iterator[Journal[StoreStateT]]:
        journal = self.open_journal()
        try:
            yield journal
        finally:
            journal.close()

    def create(self, card: SignedCard) -> None:
        """A new journal, whose log says first whose it is."""
        journal = self.open_journal(create=True)
        try:
            announce(journal, card)
        finally:
            journal.close()

    def own_card(self) -> VerifiedCard:
        with self.journal() as journal, journal.reading() as state:
            return own_card(state.membership)

    def publish(self, signed: SignedCard) -> None:
        """Announce a card in the log; peers hear of it at the next contact."""
        with self.journal() as journal:
            announce(journal, signed)

    def after_rotation(self, purpose: str) -> None:
        """What a new key of this purpose makes necessary."""
        del purpose

    def known(self) -> list[Registration]:
        with self.journal() as journal, journal.reading() as state:
            return state.membership.everybody()

    @property
    def linkage(self) -> str:
        """Name of the linkage chain in force; empty before the first load."""
        with self.journal() as journal, journal.reading() as state:
            return state.linkage

    def register(
        self,
        card: VerifiedCard,
        *,
        projects: Sequence[str] | None = None,
        inbox: str | None = None,
        replace_because: str = "",
    ) -> Registration:
        """Log that a peer is known by this card; see `registration.register`."""
        with self.journal() as journal:
            return register(journal, card, projects=projects, inbox=inbox, replace_because=replace_because)

    def revoke(self, role: Role, name: str, note: str) -> None:
        """Log that a peer is not known any more; see `registration.revoke`."""
        with self.journal() as journal:
            revoke(journal, role, name, note)
