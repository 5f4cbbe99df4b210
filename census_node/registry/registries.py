"""The registries of one journal: who of a load is asked for, and which loads nobody needs any more."""

from __future__ import annotations

from broker_common.storage.journal import Journal
from broker_common.storage.loads import LoadFolder
from broker_common.storage.open_loads import OpenLoads
from broker_common.tlog.census_state import CensusState
from census_node.ledger.book import loads_to_fold
from census_node.ledger.people import People
from census_node.ledger.steps import LedgerSteps
from census_node.registry.registry import Registry
from census_node.release.outbox import Outbox

__all__ = ["OpenRegistries", "forget_old_loads"]


def forget_old_loads(journal: Journal[CensusState], loads: LoadFolder) -> None:
    """Remove registries that nobody is counted or charged on any more, and that no kept sample names."""
    with journal.reading() as state:
        kept = {state.tickets[ticket].charge.load for ticket in LedgerSteps(journal.db).tickets_kept()}
    # SECURITY: an auditor on site finds out with it who of a kept sample was there.
    loads.forget_except(loads_needed(journal) | kept)


def loads_needed(journal: Journal[CensusState]) -> set[str]:
    """Loads that somebody is still counted, or charged, on."""
    with journal.reading() as state:
        return {state.load} | Outbox(journal.db).loads_needed() | loads_to_fold(journal.db, state)


class OpenRegistries:
    """The registries of one journal, as whoever needs people of a load wants them."""

    def __init__(self, journal: Journal[CensusState], loads: LoadFolder) -> None:
        self.loads: OpenLoads[CensusState, Registry] = OpenLoads(
            journal, loads, read=Registry.read, needed=lambda: loads_needed(journal)
        )
        self._journal = journal

    def people(self, load: str) -> People:
        """Everybody on a load that the log names."""
        with self._journal.reading() as state:
            commitments = state.commitments
        return self.loads.store(load, commitments).people
