"""State is a fold: `replay(entries, state)` is the one way from a log to what is true, for node, auditor and tests.

Every rule that the log must keep stands in a state's `apply`: it checks the entry against everything before it and
then takes it in, or raises `ReplayError` and changes nothing. A node cannot write an entry that breaks a rule, and
the auditor's replay of the same code refuses one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import NoReturn, TypeAlias, TypeVar

from broker_common.crypto.signing import Purpose, VerifyKey, key_named
from broker_common.errors import InvalidRequestError
from broker_common.query.dictionary_document import Adoption
from broker_common.tlog.entries import (
    Announced,
    DictionaryAdopted,
    Entry,
    Event,
    Loaded,
    Opened,
    Registered,
    Relinked,
    Revoked,
    Rostered,
)
from broker_common.tlog.parties import Parties
from broker_common.tlog.rules import RULES

FORMAT_VERSION = 8
# The first that this program knows. From 8 on loads are under adopted dictionaries.
FIRST_FORMAT = 7
StateT = TypeVar("StateT", bound="LogState")
Adoptions: TypeAlias = dict[str, tuple[int, DictionaryAdopted]]
"""By the hash of the document: the last entry that adopts it, and what that says."""


class ReplayError(Exception):
    """An entry breaks a rule of the log. `code` is stable; auditors report it."""

    def __init__(self, code: str, sequence: int, detail: str = "") -> None:
        self.text = f"{RULES[code]}: {detail}" if detail else RULES[code]
        super().__init__(f"entry {sequence}: {code}: {self.text}")
        self.code = code
        self.sequence = sequence
        self.detail = detail


class LogState(ABC):
    """The rules that every log keeps: entries in sequence, time never backwards, one opening, the policy in force."""

    role = ""

    def __init__(self, identity_key: VerifyKey) -> None:
        self.size = 0
        self.time_ms = 0
        self.origin = ""
        # The format of the entries that follow, and the entry that began each format.
        self.format = 0
        self.began: dict[int, int] = {}
        # Hex hash of the policy in force; empty before the first one, and always in a log that adopts none.
        self.policy_hash = ""
        # The owner of this log, and the parties that its node knows.
        self.parties = Parties(identity_key)

    def apply(self, entry: Entry) -> None:
        """Take in the next entry.

        Raises:
            ReplayError: it breaks a rule; the state is unchanged.
        """
        self._require(entry, entry.sequence == self.size, "SEQUENCE", f"expected entry {self.size}")
        self._require(entry, entry.time_ms >= self.time_ms, "TIME_BACKWARDS")
        self._require(entry, entry.policy == self.policy_hash, "POLICY")
        event = entry.event
        self._require(entry, isinstance(event, Opened) == (self.size == 0), "OPENING")
        if isinstance(event, Opened):
            self._require(entry, event.role == self.role, "OTHER_LOG", f"this is the log of a {event.role} node")
            is_known = FIRST_FORMAT <= event.format <= FORMAT_VERSION
            self._require(entry, is_known, "FORMAT", f"format {event.format}")
            self.origin = event.origin
            self._begin_format(event.format)
        elif isinstance(event, Announced | Registered | Revoked):
            self._take_membership(entry, event)
        else:
            self._take(entry, event)
        self.size += 1
        self.time_ms = entry.time_ms

    def _begin_format(self, number: int) -> None:
        self.format = number
        self.began.setdefault(number, self.size)

    def time_of(self, event: Event, now_ms: int) -> int:
        """The time that an entry of this event carries, logged at this instant. It never runs backwards, whatever the clock does."""
        del event
        return max(now_ms, self.time_ms)

    def summary(self) -> dict[str, str | int]:
        """A summary that the stored state must match at start-up; small, whatever the age of the log."""
        return {"size": self.size, "time_ms": self.time_ms, "policy": self.policy_hash}

    def _take_membership(self, entry: Entry, event: Announced | Registered | Revoked) -> None:
        try:
            match event:
                case Announced():
                    self.parties.announce(event, self.role, self.origin)
                case Registered():
                    self.parties.register(event, self.role, self.origin)
                case Revoked():
                    self.parties.revoke(event)
        except InvalidRequestError as error:
            code = "CARD_INVALID" if not isinstance(event, Revoked) else "NOT_REGISTERED"
            self._refuse(entry, code, error.text)

    @abstractmethod
    def _take(self, entry: Entry, event: Event) -> None:
        """Take in an event of this log's own kind, or refuse the entry and change nothing."""

    def _require(self, entry: Entry, holds: bool, code: str, detail: str = "") -> None:
        if not holds:
            self._refuse(entry, code, detail)

    @staticmethod
    def _refuse(entry: Entry, code: str, detail: str = "") -> NoReturn:
        raise ReplayError(code, entry.sequence, detail)


def replay(entries: Iterable[Entry], state: StateT) -> StateT:
    """Fold all entries into `state` and give it back.

    Raises:
        ReplayError: the first entry that breaks a rule.
    """
    for entry in entries:
        state.apply(entry)
    return state


class StoreState(LogState):
    """Stores of people in both nodes' logs: which one is in force, its linkage chain, its dictionary, and its rosters.

    Invariants: a load is put in force once; one chain is in force at a time, is replaced only by a change of the linkage key that
    names it, and never comes back. Pseudonyms of different chains name nobody in common, so that a reader who compares two stores
    compares the names of their chains first. The rosters of an agency have ascending numbers, and each comes from the chain in force.
    """

    def __init__(self, identity_key: VerifyKey) -> None:
        super().__init__(identity_key)
        self.load = ""
        self.release = ""
        # Name of the chain in force; empty before the first load.
        self.linkage = ""
        # Every load there ever was: questions under way may need an older one.
        self.commitments: dict[str, str] = {}
        self.linkages: dict[str, str] = {}
        self.dictionaries: dict[str, str] = {}
        # The newest adoption of each meaning, by its hash; and the newest of all.
        self.adopted_dictionaries: dict[str, DictionaryAdopted] = {}
        self.newest_dictionary: DictionaryAdopted | None = None
        self.adoptions: Adoptions = {}
        # The newest roster of each health agency: the last one sent (health log), or the one in force (census log).
        self.rosters: dict[str, Rostered] = {}

    def may_adopt(self, version: int, dictionary: str) -> bool:
        """Whether a dictionary of this version and meaning may be adopted: a version means one thing, and none comes back."""
        newest = self.newest_dictionary
        return (
            newest is None or version > newest.version or (version, dictionary) == (newest.version, newest.dictionary)
        )

    def _take_store(self, entry: Entry, event: DictionaryAdopted | Loaded | Relinked | Rostered) -> None:
        match event:
            case DictionaryAdopted():
                self._take_dictionary(entry, event)
            case Rostered():
                self._take_roster(entry, event)
            case _:
                self._replace_store(entry, event)

    def _take_dictionary(self, entry: Entry, event: DictionaryAdopted) -> None:
        self._require(entry, self.format <= event.format == FORMAT_VERSION, "FORMAT", f"format {event.format}")
        # Where loads were under no adopted dictionary until now, the one in force is the first to be adopted.
        in_force = self.dictionaries.get(self.load, event.dictionary)
        self._require(entry, self.format == event.format or event.dictionary == in_force, "DICTIONARY_NOT_ADOPTED")
        adoption = Adoption(version=event.version, dictionary=event.dictionary, document=event.document)
        try:
            key = key_named(self.parties.own_keys(Purpose.IDENTITY, entry.time_ms), event.key_id, subject="dictionary")
            key.verify_text(adoption.statement, event.signature, purpose=Purpose.DICTIONARY)
        except InvalidRequestError as error:
            self._refuse(entry, "DICTIONARY_UNSIGNED", str(error))
        self._require(entry, self.may_adopt(event.version, event.dictionary), "DICTIONARY_OLD")
        self.adopted_dictionaries[event.dictionary] = self.newest_dictionary = event
        self.adoptions[event.document] = (entry.sequence, event)
        self._begin_format(event.format)

    def _replace_store(self, entry: Entry, event: Loaded | Relinked) -> None:
        self._require(entry, event.load not in self.commitments, "LOAD_REPEATED")
        if isinstance(event, Loaded):
            newest = self.newest_dictionary
            is_adopted = newest is not None and newest.dictionary == event.dictionary
            self._require(entry, is_adopted or self.format < FORMAT_VERSION, "DICTIONARY_NOT_ADOPTED")
            self._require(entry, self.linkage in {"", event.linkage}, "LINKAGE")
            self.release, dictionary = event.release, event.dictionary
        else:
            self._require(entry, event.previous == self.linkage, "LINKAGE_PREVIOUS")
            self._require(entry, event.linkage not in self.linkages.values(), "LINKAGE_REPEATED")
            dictionary = self.dictionaries[self.load]
        self.load, self.linkage = event.load, event.linkage
        self.commitments[event.load] = event.commitment
        self.linkages[event.load] = event.linkage
        self.dictionaries[event.load] = dictionary

    def _take_roster(self, entry: Entry, event: Rostered) -> None:
        self._require(entry, self._may_have_rosters(event.health), "NOT_REGISTERED")
        newest = self.rosters.get(event.health)
        self._require(entry, newest is None or event.number > newest.number, "ROSTER_NUMBER")
        self._require(entry, event.linkage == self.linkage, "ROSTER_LINKAGE")
        self.rosters[event.health] = event

    def _may_have_rosters(self, health: str) -> bool:
        """A health log holds its own agency's rosters, a census log those of registered agencies."""
        if self.role == "health":
            return self.parties.own is not None and self.parties.own.card.organisation == health
        return self.parties.peer("health", health) is not None
