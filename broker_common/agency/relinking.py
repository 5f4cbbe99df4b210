"""Changing the linkage key: the store in force becomes one of the same people under the pseudonyms of the next key.

    1 the key is durably in the home's file   2 the new store is written whole   3 the log names it   4 the old one goes

Until 3 everything is as before, and a second attempt goes on with the key of the first. No source file is needed, and
the node may be serving: it takes the new store at the next question, while questions that it took before stay with the
old one. How a node's store is read and written is left to the node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from broker_common.agency.linkage_keys import LinkageKeys, NextKey
from broker_common.crypto.linkage import LinkageKey
from broker_common.storage.journal import Journal
from broker_common.storage.loads import LoadFolder, StoreStateT
from broker_common.storage.source.rows import Progress, ascending_order
from broker_common.values import PSEUDONYM_BYTES, Randomness

_ROWS_PER_STEP = 100_000

WriteStore: TypeAlias = Callable[[str, str, Sequence[LinkageKey]], int]
"""Called with the load in force, the new load and the keys to step through, in order; writes the new load's file whole
and gives the number of its people."""


@dataclass(frozen=True, slots=True)
class RelinkReport:
    """For the operator: the chains' names, the new load, and how many people it holds; empty where nothing is loaded yet."""

    linkage: str
    previous: str
    load: str
    people: int


@dataclass(frozen=True, slots=True, eq=False)
class Rekeyed:
    """New pseudonyms as ascending halves, and for each of them the row that it had before."""

    high: npt.NDArray[np.uint64]
    low: npt.NDArray[np.uint64]
    rows: npt.NDArray[np.intp]


def relink(
    journal: Journal[StoreStateT],
    loads: LoadFolder,
    keys: LinkageKeys,
    source: NextKey,
    *,
    write_store: WriteStore,
    forget_old_loads: Callable[[], None],
    randomness: Randomness,
) -> RelinkReport:
    """Put the next linkage key in force.

    Raises:
        RefusedError: LOADING.
        InvalidRequestError: SECRET_MISSING, LINKAGE_KEY_MISSING, RELINK_REFUSED.
        InternalError: INTEGRITY, the store in force is not the one that was loaded; STORE_FAILED.
    """
    with loads.loading(randomness) as load:
        # An attempt that was killed after its last step did not come to this.
        forget_old_loads()
        with journal.reading() as state:
            replaced, previous, commitments = state.load, state.linkage, dict(state.commitments)
        if not replaced:
            # No pseudonym was made yet: any chain may be the first.
            keys.begin_with(source, randomness)
            return RelinkReport("", "", "", 0)
        # 1
        chain = keys.next_chain(previous, source, randomness)
        # 2. SECURITY: a store that was changed must not come out of this with a new commitment.
        loads.verify(journal, replaced, commitments)
        added = chain.keys[len(chain.beginning(previous).keys) :]
        people = write_store(replaced, load, added)
        # 3
        loads.put_relinked_in_force(journal, load, replaced=replaced, linkage=chain.chain_id, randomness=randomness)
        # 4
        forget_old_loads()
    return RelinkReport(chain.chain_id, previous, load, people)


def rekey(
    high: npt.NDArray[np.uint64],
    low: npt.NDArray[np.uint64],
    keys: Sequence[LinkageKey],
    progress: Progress | None = None,
) -> Rekeyed:
    """Step pseudonyms, given as halves, through `keys`. Needs 40 bytes a person beside what is given."""
    new_high, new_low = np.empty(len(high), np.uint64), np.empty(len(low), np.uint64)
    for start in range(0, len(high), _ROWS_PER_STEP):
        rows = slice(start, start + _ROWS_PER_STEP)
        pseudonyms = np.stack([high[rows], low[rows]], axis=1).astype(">u8").view(np.uint8)
        for key in keys:
            pseudonyms = key.step(pseudonyms.reshape(-1, PSEUDONYM_BYTES))
        halves = pseudonyms.view(">u8")
        new_high[rows], new_low[rows] = halves[:, 0], halves[:, 1]
        if progress is not None:
            progress(min(start + _ROWS_PER_STEP, len(high)), len(high))
    order = ascending_order(new_high, new_low)
    return Rekeyed(new_high[order], new_low[order], order)
