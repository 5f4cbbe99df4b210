"""Changing the linkage key at the health agency: the people in force, sorted anew under their next pseudonyms."""

from __future__ import annotations

from collections.abc import Sequence

from broker_common.crypto.linkage import LinkageKey
from broker_common.storage.journal import Journal
from broker_common.storage.linkage_keys import LinkageKeys, NextKey
from broker_common.storage.loads import LoadFolder
from broker_common.storage.relinking import RelinkReport, rekey, relink
from broker_common.storage.source import Progress
from broker_common.tlog.health_state import HealthState
from broker_common.values import Randomness
from health_node.dictionary import HEALTH_DICTIONARY
from health_node.node import forget_old_loads
from health_node.people_store import People, PeopleStore, replace_people_store

__all__ = ["relink_people"]


def relink_people(
    journal: Journal[HealthState],
    loads: LoadFolder,
    keys: LinkageKeys,
    source: NextKey,
    randomness: Randomness,
    *,
    engine_threads: int,
    progress: Progress | None = None,
) -> RelinkReport:
    """Put the next linkage key in force; see `broker_common.storage.relinking`. Needs about 150 bytes a person."""

    def write_store(replaced: str, load: str, added: Sequence[LinkageKey]) -> int:
        with PeopleStore(loads.file(replaced), threads=engine_threads) as store:
            rekeyed = rekey(*store.halves, added, progress)
            columns = {name: store.column(name)[rekeyed.rows] for name in HEALTH_DICTIONARY.names}
        people = People(rekeyed.high, rekeyed.low, columns)
        replace_people_store(loads.file(load), people)
        return people.size

    return relink(
        journal,
        loads,
        keys,
        source,
        dictionary=HEALTH_DICTIONARY,
        write_store=write_store,
        forget_old_loads=lambda: forget_old_loads(journal, loads),
        randomness=randomness,
    )
