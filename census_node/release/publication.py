"""The published census log: the newest checkpoint that witnesses may cosign, and their cosignatures.

    charged -> entrusted to the witness store -> shown at a tick -> cosigned by the health agency -> released

The log is shown at instants that follow from the policy and from quotes, never as soon as something happens: how long it is at
another instant would tell what other questions were doing then.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

from broker_common.errors import InternalError, InvalidRequestError
from broker_common.storage.journal import Journal
from broker_common.storage.witnessing import CosignedNote, CosignedNotes, WitnessStore, verify_own_log
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.cosignature import merge_cosignatures
from broker_common.tlog.note import parse_note


class Publication:
    """The published end of one census log. Thread-safe."""

    def __init__(self, journal: Journal[CensusState], store: WitnessStore | None) -> None:
        self._journal = journal
        self._store = store
        self._lock = threading.Lock()
        self._size = self._entrusted = 0
        self._listeners: list[Callable[[], object]] = []
        self._hearers: list[Callable[[], object]] = []

    def on_news(self, tell: Callable[[], object]) -> None:
        """Call `tell`, from any thread, when something was published or cosigned."""
        self._listeners.append(tell)

    def on_cosigned(self, hear: Callable[[], object]) -> None:
        """Call `hear`, from a thread that may wait, when more was cosigned."""
        self._hearers.append(hear)

    def hear(self) -> None:
        """More was cosigned. Blocking."""
        for hear in self._hearers:
            hear()
        self.announce()

    def announce(self) -> None:
        for tell in self._listeners:
            tell()

    def publish(self, size: int) -> None:
        """Show the log up to `size` entries, unless more of it is shown already.

        Raises:
            InternalError: STORE_FAILED, the witness store could not take it; nothing is shown.
        """
        self.entrust(size)
        self.show(size)

    def entrust(self, size: int) -> None:
        """Durably give the witness store the log up to `size` entries at least; shows it to nobody.

        The log as it is: whatever else of it is shown next is entrusted as well.

        Raises:
            InternalError: STORE_FAILED.
        """
        with self._lock:
            if size > self._entrusted:
                note = self._journal.checkpoint()
                if self._store is not None:
                    self._store.put(note)
                # CRASH: the store may be ahead of what anybody else has seen, and never is of the log.
                self._entrusted = parse_note(note)[0].size

    def show(self, size: int) -> None:
        """Show the log up to `size` entries, which are entrusted, unless more of it is shown already. Waits for no disk."""
        if size > self._entrusted:
            raise ValueError("the log is shown before it is entrusted to its witness")
        if size > self._size:
            self._size = size
            self.announce()

    @property
    def size(self) -> int:
        """How much of the log is shown."""
        return self._size

    def newer_than(self, size: int) -> tuple[int, str] | None:
        """Size and note of what is shown, if it is more than `size` entries; signed with the keys of now."""
        shown = self._size
        return (shown, self._journal.checkpoint(shown)) if shown > size else None

    def cosigned(self, index: int = 0, *, witness: str | None = None) -> CosignedNote | None:
        """The newest cosigned checkpoint that covers entry `index`, by one witness or by any; None before there is one."""
        with self._journal.reading() as state:
            notes = CosignedNotes(self._journal.db).of(state.origin)
        return next((each for each in notes if each.size > index and witness in {None, each.witness}), None)

    def cosigned_by_most(self, index: int) -> str | None:
        """A checkpoint that covers entry `index` with as many witnesses' lines as one has, the newest of those.

        A researcher knows one health agency, and has to find its line.
        """
        with self._journal.reading() as state:
            notes = [each for each in CosignedNotes(self._journal.db).of(state.origin) if each.size > index]
        if not notes:
            return None
        # One log has one root for each size, so that notes of one size are of one checkpoint.
        size, _ = max(Counter(each.size for each in notes).items(), key=lambda item: (item[1], item[0]))
        return merge_cosignatures([each.note for each in notes if each.size == size])


def verify_witnessed(journal: Journal[CensusState], store: WitnessStore) -> None:
    """Return only if the log goes on from what the witness store has seen of it; the store of a new log begins here.

    Raises:
        InternalError: ROLLED_BACK; STORE_FAILED, the store could not be begun.
        InvalidRequestError: FILE_UNUSABLE, the store is not there.
    """
    name, note = f"the witness store {store.folder}", store.read()
    if note is None:
        with journal.reading() as state:
            was_shown = state.next_slot > 0
        if was_shown:
            raise InternalError("ROLLED_BACK", witness=name, problem="it is empty, and this log has been shown before")
        # CRASH: before the first noise slots, so that a store that is empty after them has forgotten something.
        store.put(journal.checkpoint())
        return
    try:
        seen, _ = parse_note(note)
    except InvalidRequestError as error:
        raise InternalError("ROLLED_BACK", witness=name, problem="what stands there is no checkpoint") from error
    # Its signer does not matter: this agency put it there, and keys end.
    if seen.origin != journal.state.origin:
        raise InternalError("ROLLED_BACK", witness=name, problem="what stands there is of another log")
    verify_own_log(journal, seen, name)
