"""What both nodes' logs say of stores of people: which one is in force, its linkage chain, and its dictionary.

Invariants: a load is put in force once; one chain is in force at a time, is replaced only by a change of the linkage key
that names it, and never comes back. Pseudonyms of different chains name nobody in common, so that whoever compares two
stores compares the names of their chains first.
"""

from __future__ import annotations

from broker_common.crypto.signing import VerifyKey
from broker_common.tlog.entries import Entry, Loaded, Relinked
from broker_common.tlog.replay import LogState

__all__ = ["StoreState"]


class StoreState(LogState):
    """The part of a state that follows from `loaded` and `relinked`."""

    def __init__(self, identity_key: VerifyKey) -> None:
        super().__init__(identity_key)
        self.load = ""
        self.release = ""
        # Name of the chain in force; empty before the first load.
        self.linkage = ""
        # Of every load there ever was: questions under way may need an older one.
        self.commitments: dict[str, str] = {}
        self.linkages: dict[str, str] = {}
        self.dictionaries: dict[str, str] = {}

    def _replace_store(self, entry: Entry, event: Loaded | Relinked) -> None:
        self._require(entry, event.load not in self.commitments, "LOAD_REPEATED", "a load is put in force once")
        if isinstance(event, Loaded):
            self._require(
                entry,
                self.linkage in {"", event.linkage},
                "LINKAGE",
                "another linkage chain than this load's is in force",
            )
            self.release, dictionary = event.release, event.dictionary
        else:
            self._require(
                entry, event.previous == self.linkage, "LINKAGE_PREVIOUS", "another linkage chain is in force"
            )
            self._require(
                entry,
                event.linkage not in self.linkages.values(),
                "LINKAGE_REPEATED",
                "a linkage chain is put in force once",
            )
            dictionary = self.dictionaries[self.load]
        self.load, self.linkage = event.load, event.linkage
        self.commitments[event.load] = event.commitment
        self.linkages[event.load] = event.linkage
        self.dictionaries[event.load] = dictionary
