"""What both nodes' logs say of stores of people: which one is in force, its linkage chain, its dictionary, and its rosters.

Invariants: a load is put in force once; one chain is in force at a time, is replaced only by a change of the linkage key
that names it, and never comes back. Pseudonyms of different chains name nobody in common, so that whoever compares two
stores compares the names of their chains first. The rosters of an agency have ascending numbers, and each comes from the chain
that is in force when it is sent, or comes into force.
"""

from __future__ import annotations

from broker_common.crypto.signing import VerifyKey
from broker_common.tlog.entries import Entry, Loaded, Relinked, Rostered
from broker_common.tlog.replay import LogState


class StoreState(LogState):
    """The part of a state that follows from `loaded`, `relinked` and `rostered`."""

    def __init__(self, identity_key: VerifyKey) -> None:
        super().__init__(identity_key)
        self.load = ""
        # When that load came into force.
        self.load_ms = 0
        self.release = ""
        # Name of the chain in force; empty before the first load.
        self.linkage = ""
        # Of every load there ever was: questions under way may need an older one.
        self.commitments: dict[str, str] = {}
        self.linkages: dict[str, str] = {}
        self.dictionaries: dict[str, str] = {}
        # By health agency, its newest roster: in the health log the last one sent, in the census log the one in force.
        self.rosters: dict[str, Rostered] = {}

    def _take_store(self, entry: Entry, event: Loaded | Relinked | Rostered) -> None:
        if isinstance(event, Rostered):
            self._take_roster(entry, event)
        else:
            self._replace_store(entry, event)

    def _replace_store(self, entry: Entry, event: Loaded | Relinked) -> None:
        self._require(entry, event.load not in self.commitments, "LOAD_REPEATED")
        if isinstance(event, Loaded):
            self._require(entry, self.linkage in {"", event.linkage}, "LINKAGE")
            self.release, dictionary = event.release, event.dictionary
        else:
            self._require(entry, event.previous == self.linkage, "LINKAGE_PREVIOUS")
            self._require(entry, event.linkage not in self.linkages.values(), "LINKAGE_REPEATED")
            dictionary = self.dictionaries[self.load]
        self.load, self.load_ms, self.linkage = event.load, entry.time_ms, event.linkage
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
            return self.membership.own is not None and self.membership.own.card.organisation == health
        return self.membership.peer("health", health) is not None
