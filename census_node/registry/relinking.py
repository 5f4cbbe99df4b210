"""Changing the linkage key at the census agency: the registry in force, sorted anew under its people's next pseudonyms.

Former cards step along: whoever comes back under the next key is known. The ledger goes by the numbers of persons and
households, which keep theirs: nothing of it changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker_common.crypto.linkage import LinkageKey
from broker_common.storage.journal import Journal
from broker_common.storage.linkage_keys import LinkageKeys, NextKey
from broker_common.storage.loads import LoadFolder
from broker_common.storage.relinking import RelinkReport, rekey, relink
from broker_common.storage.source import Progress
from broker_common.tlog.census_state import CensusState
from broker_common.values import Randomness
from census_node.ledger.subjects import Known, Names
from census_node.registry import Registry
from census_node.registry.registry import forget_old_loads


def relink_registry(
    journal: Journal[CensusState],
    loads: LoadFolder,
    keys: LinkageKeys,
    source: NextKey,
    randomness: Randomness,
    *,
    progress: Progress | None = None,
) -> RelinkReport:
    """Put the next linkage key in force; see `broker_common.storage.relinking`. Needs about 130 bytes a person."""

    def write_store(replaced: str, load: str, added: Sequence[LinkageKey]) -> int:
        path = loads.file(replaced)
        registry, names = Registry.read(path, replaced), Names.read(path, replaced)
        rekeyed = rekey(registry.cards.high, registry.cards.low, added, progress)
        former = Known.read(path, replaced).former.relinked(added)
        registry.relinked(load, rekeyed).write(loads.file(load), names, former)
        return registry.size

    return relink(
        journal,
        loads,
        keys,
        source,
        write_store=write_store,
        forget_old_loads=lambda: forget_old_loads(journal, loads),
        randomness=randomness,
    )
