"""Common part of both agencies' homes: a journal, whose log says who the agency is and whom it knows."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

from broker_common.agency.config import AgencyConfig
from broker_common.agency.linkage import LinkageKeys
from broker_common.crypto.cards import SignedCard, VerifiedCard
from broker_common.crypto.certificates import Identity, Role, TlsCredentials
from broker_common.crypto.linkage import LinkageChain
from broker_common.crypto.signing import Purpose, SigningKey, VerifyKey
from broker_common.errors import InternalError, InvalidRequestError
from broker_common.monitoring import Monitor
from broker_common.parties.keyring import Keyring
from broker_common.parties.peers import KnownPeers
from broker_common.parties.registration import announce, own_card, register, revoke
from broker_common.query.dictionary import Dictionary
from broker_common.rpc.server import NodeServer
from broker_common.storage.clock import SteadyClock, system_clock
from broker_common.storage.creation import new_home
from broker_common.storage.dictionary.adopted import Dictionaries, adopt_dictionary, sign_again
from broker_common.storage.dictionary.file import copy_dictionary, read_dictionary
from broker_common.storage.durable import replace_file
from broker_common.storage.home import KEYS, Home
from broker_common.storage.journal import Journal
from broker_common.storage.loads import LoadFolder, StoreStateT
from broker_common.storage.witnessing import Witnessing
from broker_common.tlog.cosignature import Cosigner
from broker_common.tlog.entries import DictionaryAdopted
from broker_common.tlog.parties import Registration
from broker_common.tlog.replay import FORMAT_VERSION
from broker_common.values import Clock

# The name of an agency's node on its card.
_NODE = "node"


class AgencyHome(ABC, Generic[StoreStateT]):
    """An agency's home. A node that serves it obeys what is written here at its next call."""

    config: AgencyConfig
    loads: LoadFolder

    def __init__(self, home: Home, config: AgencyConfig, state: type[StoreStateT], clock: Clock | None = None) -> None:
        """`clock` is the machine's unless another one is given."""
        self.home = home
        self.config = config
        self.keyring = Keyring(home, config.keys.private)
        self.linkage_keys = LinkageKeys(home, config.keys.linkage)
        self.dictionaries = Dictionaries(home.path)
        self._state = state
        self._clock = SteadyClock() if clock is None else clock

    @property
    def journal_path(self) -> Path:
        return self.home.path / "journal.db"

    def beginning(self) -> Callable[[], StoreStateT]:
        """The initial state of the fold of this home's log, new at every call."""
        identity_key = self.home.read_key(
            self.config.keys.identity, lambda text: VerifyKey.parse_text(text, Purpose.IDENTITY)
        )
        return lambda: self._state(identity_key)

    def monitor(self) -> Monitor:
        """The counters of a serving node."""
        return Monitor(self.home.role, self._clock)

    async def serve(self, on_ready: Callable[[str], None], monitor: Monitor | None = None) -> None:
        """Serve until a signal, or until an error that stops the node, which is raised."""
        with self.journal() as journal:
            await self._serve(journal, on_ready, monitor or self.monitor())

    @abstractmethod
    async def _serve(
        self, journal: Journal[StoreStateT], on_ready: Callable[[str], None], monitor: Monitor
    ) -> None: ...

    def _card_without_ended_keys(self, journal: Journal[StoreStateT]) -> VerifiedCard:
        """The agency's own card; the keys whose time is over are removed."""
        with journal.reading() as state:
            own, log_ms = own_card(state.parties), state.time_ms
        with self.keyring.changing():
            self.keyring.forget_ended(own, self._clock(), log_ms=log_ms)
        return own

    def _witnessing(self, journal: Journal[StoreStateT], known: KnownPeers) -> Witnessing:
        def cosigner() -> Cosigner:
            return self.keyring.cosigner(known.own(), self._clock())

        return Witnessing(journal, cosigner=cosigner, clock=self._clock)

    def _tls(self, known: KnownPeers) -> TlsCredentials:
        return self.keyring.tls(known.own(), self._clock())

    def _server(self, journal: Journal[StoreStateT], known: KnownPeers, monitor: Monitor, service: str) -> NodeServer:
        return NodeServer(
            address=self.config.address,
            tls=lambda: self._tls(known),
            peers=known.certificates,
            glance=journal.glance,
            service=service,
            clock=self._clock,
            reflection=self.config.reflection,
            monitor=monitor,
        )

    @abstractmethod
    def open_journal(self, *, create: bool = False) -> Journal[StoreStateT]:
        """The node's journal; `create` makes a new one and refuses to touch an old one."""

    @contextlib.contextmanager
    def journal(self, *, may_be_old: bool = False) -> Iterator[Journal[StoreStateT]]:
        """The node's journal.

        Raises:
            InternalError: FORMAT_OLD, an earlier version of the program has made it; unless it `may_be_old`.
        """
        journal = self.open_journal()
        try:
            if journal.state.format < FORMAT_VERSION and not may_be_old:
                raise InternalError("FORMAT_OLD", home=str(self.home.path))
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

    def expected(self, role: Role) -> str:
        """The one organisation that this home works with in a role, by its configuration; empty where any may be known."""
        del role
        return ""

    def own_card(self) -> VerifiedCard:
        with self.journal() as journal, journal.reading() as state:
            return own_card(state.parties)

    def publish(self, signed: SignedCard) -> None:
        """Announce a card in the log; peers hear of it at the next contact."""
        with self.journal() as journal:
            announce(journal, signed)

    def verify_dictionary(self, dictionary: Dictionary) -> None:
        """Return only if this agency could load data under a dictionary.

        Raises:
            InvalidRequestError: DICTIONARY_UNUSABLE.
        """
        del dictionary

    def adopt_dictionary(self, dictionary: Dictionary) -> DictionaryAdopted:
        """Put a dictionary in place for the next load; see `dictionaries.adopt_dictionary`.

        Raises:
            InvalidRequestError: KEY_MISSING, the agency's identity key is not on this machine; DICTIONARY_OLD,
                DICTIONARY_UNUSABLE.
        """
        self.verify_dictionary(dictionary)
        with self.journal() as journal:
            with journal.reading() as state:
                own, now_ms = own_card(state.parties), journal.now()
            identity = self._key_of(own, Purpose.IDENTITY, now_ms)
            return adopt_dictionary(journal, self.dictionaries, dictionary, identity)

    def upgrade(self, candidates: Iterable[Dictionary]) -> DictionaryAdopted | None:
        """Carry a home of an earlier version over, every charge included; None if it is of this version.

        Its log goes on: the dictionary of the load in force is adopted, and what follows is of the present format. Nothing else is
        written anew. `candidates` are the dictionaries that may be that one.

        Raises:
            RefusedError: ALREADY_RUNNING.
            InvalidRequestError: DICTIONARY_MISSING, none of them is; KEY_MISSING.
            InternalError: INTEGRITY, what the home holds is not what its log says; nothing was changed.
        """
        with self.home.serving(), self.journal(may_be_old=True) as journal:
            with journal.reading() as state:
                if state.format == FORMAT_VERSION:
                    return None
                own, now_ms, commitments = own_card(state.parties), journal.now(), dict(state.commitments)
                in_force, meanings = state.load, {state.dictionaries[load] for load in self._loads_needed(journal)}
            by_meaning = {dictionary.hash.hex(): dictionary for dictionary in candidates}
            if len(meanings) > 1 or not by_meaning or not meanings <= by_meaning.keys():
                raise InvalidRequestError("DICTIONARY_MISSING", home=str(self.home.path), role=self.home.role)
            # Read before anything is written: what cannot be read is not carried over.
            for load in self._loads_needed(journal):
                self.loads.verify(journal, load, commitments)
            dictionary = by_meaning[meanings.pop()] if meanings else next(iter(by_meaning.values()))
            if in_force:
                self._verify_readable(in_force, dictionary)
            identity = self._key_of(own, Purpose.IDENTITY, now_ms)
            return adopt_dictionary(journal, self.dictionaries, dictionary, identity)

    @property
    def format(self) -> int:
        """That of what the log is to hold next."""
        with self.journal(may_be_old=True) as journal, journal.reading() as state:
            return state.format

    @abstractmethod
    def _loads_needed(self, journal: Journal[StoreStateT]) -> set[str]:
        """Loads that somebody is still counted, selected or charged on."""

    @abstractmethod
    def _verify_readable(self, load: str, dictionary: Dictionary) -> None:
        """Return only if a load's file can be read as one of this dictionary.

        Raises:
            BrokerError: what is wrong with it.
        """

    def newest_dictionary(self) -> Dictionary:
        """The one that data is loaded under.

        Raises:
            RefusedError: NOTHING_ADOPTED.
        """
        with self.journal() as journal, journal.reading() as state:
            return self.dictionaries.newest(state)

    def adopted_dictionary(self) -> Dictionary | None:
        """The same, or None if there is none yet."""
        with self.journal() as journal, journal.reading() as state:
            return None if state.newest_dictionary is None else self.dictionaries.newest(state)

    def published_dictionary(self) -> Dictionary:
        """The one that researchers may ask about.

        Raises:
            RefusedError: NOTHING_ADOPTED.
        """
        with self.journal() as journal, journal.reading() as state:
            return self.dictionaries.named(self.dictionaries.published(state).document)

    def _key_of(self, card: VerifiedCard, purpose: Purpose, now_ms: int) -> SigningKey:
        """A key that may be kept off this machine.

        Raises:
            InvalidRequestError: KEY_MISSING.
        """
        try:
            return self.keyring.signing(card, purpose, now_ms)
        except InvalidRequestError as error:
            if error.code != "SECRET_MISSING":
                raise
            details = {name: error.details[name] for name in ("reference", "problem")}
            raise InvalidRequestError("KEY_MISSING", what=purpose.value, name=purpose.value, **details) from error

    def after_rotation(self, purpose: str) -> None:
        """A new identity key signs the newest dictionary again: the key before will not be honoured for ever."""
        if purpose == Purpose.IDENTITY.value:
            newest = self.keyring.newest_signing(self.own_card(), Purpose.IDENTITY)
            with self.journal() as journal:
                sign_again(journal, newest)

    def known(self) -> list[Registration]:
        with self.journal() as journal, journal.reading() as state:
            return state.parties.everybody()

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


# --- new homes -----------------------------------------------------------------------------------------------------


HomeT = TypeVar("HomeT", bound=AgencyHome[Any])


@contextmanager
def new_agency(
    open_home: Callable[[Path], HomeT],
    path: Path,
    config: AgencyConfig,
    linkage: LinkageChain | None,
    dictionary: Path | None,
) -> Iterator[HomeT]:
    """Make an agency's home, with a fresh key for every purpose, its first card, and a log that says whose it is.

    A dictionary file is copied into it, with the code lists that it names, and adopted.

    Raises:
        InvalidRequestError: HOME_INVALID, the folder holds something; CONFIG_INVALID, DICTIONARY_INVALID.
    """
    adopted = None if dictionary is None else read_dictionary(dictionary)
    with new_home(path, config):
        made = open_home(path)
        identity = Identity(config.organisation, config.role, _NODE)
        card = made.keyring.first_card(identity, config.origin, system_clock())
        root = card.verify_keys(Purpose.IDENTITY, 0)[0]
        replace_file(path / KEYS / "identity.pub", f"{root.to_text()}\n".encode("ascii"))
        made.create(card.signed)
        if linkage is not None:
            made.linkage_keys.begin(linkage)
        if dictionary is not None and adopted is not None:
            copy_dictionary(dictionary, path)
            made.adopt_dictionary(adopted)
        yield made
