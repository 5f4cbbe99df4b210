"""Loads that a serving node holds in memory: verified and read before a question needs them, wherever that is possible.

A load is written whole some seconds before the log names it. A node that looks at the folder meanwhile has read it by
then, and is left to compare what it read with what the log committed to. A question that comes earlier waits for its own
load alone: each is read under a lock of its own, so that those of other loads go on.

Invariants: nobody is handed a load that the log did not commit to; a file that was replaced or written to between its hash
and the end of its reading is refused, since what was read may not be what was hashed. Beyond that this module sees nothing:
columns that a store leaves in its file, mapped, are as safe as the file is (SECURITY.md). Memory: the load in force, those
that open questions need, and the next, as long as who wrote it is there to put it in force.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

import structlog

from broker_common.errors import BrokerError, InternalError, RefusedError
from broker_common.storage.journal import Journal
from broker_common.storage.loads import LoadFolder, Stamp, StoreStateT

_log = structlog.get_logger()
StoreT = TypeVar("StoreT")
# Failures of reading ahead. A lack of memory may pass, and other questions are still answered.
_FAILURES = (InternalError, RefusedError, MemoryError)


@dataclass(slots=True, eq=False)
class _Place(Generic[StoreT]):
    lock: threading.Lock = field(default_factory=threading.Lock)
    # The file as it was before it was hashed, its hash then, and what was read afterwards.
    stamp: Stamp | None = None
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
        # Loads that could not be read ahead.
        self._warned: set[str] = set()
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
                self._hash(place, load)
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
        """Read the load in force, or say why that cannot be, before the first question comes.

        Raises:
            BrokerError: as `store`.
        """
        in_force, commitments = self._in_force()
        if in_force:
            self.store(in_force, commitments)

    def look_ahead(self) -> None:
        """Between questions: read the load in force and those that are coming, and let go of what nobody needs.

        A failure is nobody's: it is said once, and each caller who asks for that load is told.
        """
        try:
            in_force, commitments = self._in_force()
            coming = self._coming(commitments)
            if in_force:
                self._try(in_force, lambda: self.store(in_force, commitments))
            for load in coming:
                self._try(load, partial(self._read_coming, load))
            kept = {*self._needed(), *coming}
        except _FAILURES as error:
            self._warn("", error)
            return
        with self._lock:
            # A caller that still uses one holds it.
            self._places = {load: place for load, place in self._places.items() if load in kept}

    def _in_force(self) -> tuple[str, dict[str, str]]:
        """The load in force, and the log's commitments to all."""
        with self._journal.reading() as state:
            return state.load, dict(state.commitments)

    def _try(self, load: str, read: Callable[[], object]) -> None:
        # A failed read is not tried every second: each may take all memory, or a long time.
        if load not in self._warned:
            try:
                read()
            except _FAILURES as error:
                self._warn(load, error)

    def _warn(self, load: str, error: BrokerError | MemoryError) -> None:
        if load not in self._warned:
            self._warned.add(load)
            problem = error.text if isinstance(error, BrokerError) else "there is not enough memory"
            _log.warning("a load cannot be read ahead of questions", load=load, problem=problem)

    def _read_coming(self, load: str) -> None:
        place = self._place(load)
        with place.lock:
            if place.store is None:
                self._hash(place, load)
            self._read_hashed(place, load)

    def _coming(self, commitments: Collection[str]) -> list[str]:
        """Loads that are written and may yet be put in force."""
        coming = [load for load in self._loads.written() if load not in commitments and load not in self._abandoned]
        # Asked once of each: a load that begins just then finds the lock taken.
        if coming and not self._loads.is_loading():
            # In this order: what was put in force before its writer went stands in the log by now.
            with self._journal.reading() as state:
                self._abandoned |= {load for load in coming if load not in state.commitments}
        return [load for load in coming if load not in self._abandoned]

    def _place(self, load: str) -> _Place[StoreT]:
        with self._lock:
            return self._places.setdefault(load, _Place())

    def _hash(self, place: _Place[StoreT], load: str) -> None:
        place.stamp = self._loads.stamp(load)
        place.content_hash = self._loads.content_hash(load)

    def _read_hashed(self, place: _Place[StoreT], load: str) -> StoreT:
        if place.store is None:
            store = self._read(self._loads.file(load), load)
            # SECURITY: what is changed between the two must not be taken for what was hashed.
            if self._loads.stamp(load) != place.stamp:
                raise InternalError("INTEGRITY", problem=f"the store of load {load} was changed while it was read")
            place.store = store
        return place.store
