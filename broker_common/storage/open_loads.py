"""Loads that a serving node holds in memory: verified and read before a question needs them, wherever that is possible.

A load is written whole some seconds before the log names it. A node that looks at the folder meanwhile has read it by
then, and is left to compare what it read with what the log committed to. A question that comes earlier waits for its own
load alone: each is read under a lock of its own, so that those of other loads go on.

Invariants: nobody is handed a load that the log did not commit to; what was hashed is what is read, since a load's file is
never changed after it was written. Memory: the load in force, those that open questions need, and the next, as long as who
wrote it is there to put it in force.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

import structlog

from broker_common.errors import InternalError, RefusedError
from broker_common.storage.journal import Journal
from broker_common.storage.loads import LoadFolder, StoreStateT

__all__ = ["OpenLoads"]

_log = structlog.get_logger()
StoreT = TypeVar("StoreT")


@dataclass(slots=True, eq=False)
class _Place(Generic[StoreT]):
    """One load's."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    # Hash of the file as it was before it was read, and what was read.
    content_hash: bytes = b""
    store: StoreT | None = None
    is_verified: bool = False


class OpenLoads(Generic[StoreStateT, StoreT]):
    """The stores of one node's loads. May be used from several threads at once."""

    def __init__(
        self,
        journal: Journal[StoreStateT],
        loads: LoadFolder,
        *,
        read: Callable[[Path, str], StoreT],
        needed: Callable[[], Collection[str]],
    ) -> None:
        """`read` makes a store of a load's file; `needed` names the loads that questions may ask for."""
        self._journal = journal
        self._loads = loads
        self._read = read
        self._needed = needed
        self._places: dict[str, _Place[StoreT]] = {}
        # Written loads whose writers were killed before they put them in force.
        self._abandoned: frozenset[str] = frozenset()
        self._lock = threading.Lock()

    def store(self, load: str, commitments: Mapping[str, str]) -> StoreT:
        """The store of a load that the log names, by the log's commitments.

        Raises:
            InternalError: INTEGRITY, it is not the one that was loaded, or cannot be read; as `read`.
            RefusedError: as `read`.
        """
        place = self._place(load)
        with place.lock:
            if place.store is None:
                place.content_hash = self._loads.content_hash(load)
            if not place.is_verified:
                # SECURITY: before anything that stands in the file is used.
                try:
                    self._loads.verify(self._journal, load, commitments, content_hash=place.content_hash)
                except InternalError:
                    # The next question looks at the file again: it may have been put right.
                    place.store = None
                    raise
            store = self._read_hashed(place, load)
            place.is_verified = True
            return store

    def prepare(self) -> None:
        """Read the load in force, and the next one if it has been written; let go of what nobody needs."""
        with self._journal.reading() as state:
            in_force, commitments = state.load, dict(state.commitments)
        if in_force:
            self.store(in_force, commitments)
        coming = self._coming(commitments)
        for load in coming:
            place = self._place(load)
            with place.lock:
                if place.store is None:
                    place.content_hash = self._loads.content_hash(load)
                self._read_hashed(place, load)
        kept = {*self._needed(), *coming}
        with self._lock:
            # Whoever is still using one holds it.
            self._places = {load: place for load, place in self._places.items() if load in kept}

    def _coming(self, commitments: Collection[str]) -> list[str]:
        """Loads that are written and may yet be put in force."""
        coming = [load for load in self._loads.written() if load not in commitments and load not in self._abandoned]
        # Asked once of each: whoever begins to load just then finds the lock taken.
        if coming and not self._loads.is_loading():
            # In this order: what was put in force before its writer went stands in the log by now.
            with self._journal.reading() as state:
                self._abandoned |= {load for load in coming if load not in state.commitments}
        return [load for load in coming if load not in self._abandoned]

    def try_to_prepare(self) -> None:
        """`prepare` between questions, where a failure is nobody's: whoever asks for that load is told."""
        try:
            self.prepare()
        except (InternalError, RefusedError) as error:
            _log.warning("a load cannot be read ahead of questions", problem=error.text)

    def _place(self, load: str) -> _Place[StoreT]:
        with self._lock:
            return self._places.setdefault(load, _Place())

    def _read_hashed(self, place: _Place[StoreT], load: str) -> StoreT:
        # After it was hashed: what is changed between the two must not be taken for what was hashed.
        if place.store is None:
            place.store = self._read(self._loads.file(load), load)
        return place.store
