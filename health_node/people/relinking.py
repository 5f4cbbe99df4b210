"""Changing the linkage key at the health agency: the people in force, sorted anew under their next pseudonyms.

Pseudonyms of one chain lead to no other one. Where the chains of the two agencies have come apart, the health agency, whose
pseudonyms carry no charges, takes the census agency's whole chain and loads its people again (`reload_people`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker_common.agency.linkage import LinkageKeys, NextKey, RelinkReport, rekey, relink
from broker_common.crypto.linkage import LinkageKey
from broker_common.errors import RefusedError
from broker_common.query.dictionary import Dictionary
from broker_common.storage.dictionary.adopted import Dictionaries
from broker_common.storage.journal import Journal
from broker_common.storage.loads import LoadFolder
from broker_common.storage.source.plan import SourcePlan
from broker_common.storage.source.rows import Progress
from broker_common.tlog.health_state import HealthState
from broker_common.values import Randomness
from health_node.people.loading import LoadReport, forget_old_loads, load_people
from health_node.people.store import PeopleStore, replace_people_store
from health_node.people.tables import Declared


def relink_people(
    journal: Journal[HealthState],
    loads: LoadFolder,
    dictionaries: Dictionaries,
    keys: LinkageKeys,
    source: NextKey,
    randomness: Randomness,
    *,
    engine_threads: int,
    progress: Progress | None = None,
) -> RelinkReport:
    """Put the next linkage key in force; see `broker_common.agency.linkage`. Needs about 150 bytes a person."""

    def write_store(replaced: str, load: str, added: Sequence[LinkageKey]) -> int:
        with journal.reading() as state:
            dictionary = dictionaries.of_load(state, replaced)
        with PeopleStore(loads.file(replaced), dictionary, threads=engine_threads) as store:
            places = store.places
            rekeyed = rekey(*store.halves, added, progress)
            # While the store is open: the rows of its tables are read from it.
            people = store.in_order(rekeyed.high, rekeyed.low, rekeyed.rows)
            replace_people_store(loads.file(load), people, dictionary, places=places)
        return people.size

    return relink(
        journal,
        loads,
        keys,
        source,
        write_store=write_store,
        forget_old_loads=lambda: forget_old_loads(journal, loads),
        randomness=randomness,
    )


def reload_people(
    journal: Journal[HealthState],
    loads: LoadFolder,
    dictionaries: Dictionaries,
    keys: LinkageKeys,
    source: NextKey,
    people: SourcePlan,
    randomness: Randomness,
    *,
    declared: Callable[[Dictionary], Declared],
    progress: Progress | None = None,
    max_rejected: int | None = None,
) -> tuple[RelinkReport, LoadReport]:
    """Put the census agency's whole chain in force, with the people of the release in force from their source.

    Raises:
        RefusedError: NOTHING_LOADED, LOADING.
        InvalidRequestError: SECRET_MISSING, RELINK_REFUSED, LOAD_REFUSED, INVALID_VALUE.
        InternalError: STORE_FAILED.
    """
    with loads.loading(randomness) as load:
        forget_old_loads(journal, loads)
        with journal.reading() as state:
            replaced, previous, former = state.load, state.linkage, set(state.linkages.values())
            if not replaced:
                raise RefusedError("NOTHING_LOADED", what="store of people", role="health")
            # That of the load before: a newer one is for a load.
            dictionary = dictionaries.of_load(state, replaced)
        chain = keys.other_chain(former, source, dictionary.id_form)
        report = load_people(
            people,
            loads.file(load),
            chain,
            dictionary=dictionary,
            declared=declared(dictionary),
            progress=progress,
            max_rejected=max_rejected,
        )
        # CRASH: keys that the log does not name: nothing is loaded under them before this command is given again.
        keys.hold(chain)
        loads.put_relinked_in_force(journal, load, replaced=replaced, linkage=chain.chain_id, randomness=randomness)
        forget_old_loads(journal, loads)
    return RelinkReport(chain.chain_id, previous, load, report.loaded), report
