"""Changing the linkage key at the census agency: the registry in force, sorted anew under its people's next pseudonyms.

Before anything was charged a whole other chain may take its place, with the registry read again from its source.

Former cards step along: a person who comes back under the next key is known. The ledger goes by the numbers of persons and
households, which keep theirs: nothing of it changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker_common.agency.linkage import LinkageKeys, NextKey, RelinkReport, refuse_relink, rekey, relink
from broker_common.crypto.linkage import LinkageKey
from broker_common.errors import InvalidRequestError, RefusedError
from broker_common.query.dictionary import Dictionary
from broker_common.storage.journal import Journal
from broker_common.storage.loads import LoadFolder
from broker_common.storage.source.plan import SourcePlan
from broker_common.storage.source.rows import Progress
from broker_common.tlog.census_state import CensusState
from broker_common.values import Randomness
from census_node.ledger.subjects import Cards, Known, Names
from census_node.registry import Registry
from census_node.registry.loading import LoadReport, read_registry, verify_declared
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
    """Put the next linkage key in force; see `broker_common.agency.linkage`. Needs about 130 bytes a person."""

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


def reload_registry(
    journal: Journal[CensusState],
    loads: LoadFolder,
    keys: LinkageKeys,
    source: NextKey,
    dictionary: Dictionary,
    plan: SourcePlan,
    randomness: Randomness,
    *,
    people: int,
    progress: Progress | None = None,
) -> tuple[RelinkReport, LoadReport]:
    """Put a whole other chain in force, with the registry of the load in force, of this dictionary, read again from its source.

    Raises:
        RefusedError: NOTHING_LOADED, LOADING.
        InvalidRequestError: RELINK_REFUSED, something was charged; SECRET_MISSING, LOAD_REFUSED, INVALID_VALUE.
        InternalError: INTEGRITY, STORE_FAILED.
    """
    with loads.loading(randomness) as load:
        forget_old_loads(journal, loads)
        with journal.reading() as state:
            replaced, previous, commitments = state.load, state.linkage, dict(state.commitments)
            former = set(state.linkages.values())
            if not replaced:
                raise RefusedError("NOTHING_LOADED", what="registry", role="census")
            _verify_uncharged(state)
        chain = keys.other_chain(former, source, dictionary.id_form, other="health")
        loads.verify(journal, replaced, commitments)
        before = Names.read(loads.file(replaced), replaced)
        registry, names, report = read_registry(plan, load, chain, before, dictionary=dictionary, progress=progress)
        verify_declared(registry.size, people)
        if len(names.persons) != len(before.persons) or len(names.households) != len(before.households):
            raise InvalidRequestError(
                "LOAD_REFUSED",
                problem="it has persons or households that the load in force does not know",
                remedy="Load it as it is first ('tripartite census load'), then give this command again.",
            )
        # No former cards: those that left were never charged, and have no pseudonym of the other chain.
        registry.write(loads.file(load), names, Cards.none())
        # CRASH: keys that the log does not name: nothing is loaded under them before this command is given again.
        keys.hold(chain)
        loads.put_relinked_in_force(
            journal,
            load,
            replaced=replaced,
            linkage=chain.chain_id,
            randomness=randomness,
            only_if=_verify_uncharged,
        )
        forget_old_loads(journal, loads)
    return RelinkReport(chain.chain_id, previous, load, registry.size), report


def _verify_uncharged(state: CensusState) -> None:
    """Return only if nothing was charged yet.

    SECURITY: charges stand under the pseudonyms of their chain: under another one who comes back would begin anew.
    """
    if state.answers:
        refuse_relink(
            f"something was charged under chain {state.linkage}, and its people keep their charges by it",
            "The health agency, whose pseudonyms carry no charges, takes this agency's key file: 'tripartite health relink --key-file "
            "FILE --reload'. See 'When the two chains differ' in docs/keys.md.",
        )
