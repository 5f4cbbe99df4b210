"""The registry: one load of the census's linked people, in its file.

Cards ascend by pseudonym: `high` and `low` are its two halves, big-endian; `persons` and `households` are the numbers that the card's
person and household keep (`subjects`). Language variables are by person number, one byte for each: the position of the value in
the published list, or `NO_VALUE`, also for people who are not in this load. All cards of one person have the same household.

On disk a load is one file, written whole and never changed (`broker_common.storage.loads`). It also holds the meaning of the
dictionary that its values were read under, and what the next load has to know of subjects. A serving node maps it: what stands in
memory is what is read often, the values that are asked for. Cards are read where a roster is joined, and let go of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from broker_common.agency.linkage import Rekeyed
from broker_common.errors import InternalError
from broker_common.query.dictionary import Dictionary
from broker_common.query.question import REST, Question
from broker_common.storage.journal import Journal
from broker_common.storage.loads import LoadFolder
from broker_common.storage.open_loads import OpenLoads
from broker_common.tlog.census_state import CensusState
from census_node.ledger.book import loads_to_fold
from census_node.ledger.columns import reading_columns, write_columns
from census_node.ledger.passes import NO_CELL, Counted, Numbers, People, Values
from census_node.ledger.steps import LedgerSteps
from census_node.ledger.subjects import Cards, MappedCards, Names, stored_counts
from census_node.release.outbox import Outbox

_VALUE = np.dtype(np.uint8)
# The prefix of a language variable's name in the file.
_VALUES_OF = "value."
# The name in the file of its dictionary's meaning.
_DICTIONARY = "dictionary.meaning"


@dataclass(frozen=True, slots=True, eq=False)
class Registry:
    """One load."""

    mapped: MappedCards = field(repr=False)
    people: People
    dictionary: Dictionary
    """What its values mean; without labels if it was read."""

    @classmethod
    def of(
        cls,
        load: str,
        cards: Cards,
        values: Mapping[str, Values],
        person_count: int,
        household_count: int,
        dictionary: Dictionary,
    ) -> Registry:
        """One that is in memory; `values` are by person number, the counts say how many numbers were ever given."""
        return cls._of(load, MappedCards(cards), values, (person_count, household_count), dictionary)

    @classmethod
    def _of(
        cls,
        load: str,
        mapped: MappedCards,
        values: Mapping[str, Values],
        counts: tuple[int, int],
        dictionary: Dictionary,
    ) -> Registry:
        def members() -> tuple[Numbers, Numbers]:
            return mapped.cards.persons, mapped.cards.households

        return cls(mapped, People(load, *counts, values, members), dictionary)

    @property
    def load(self) -> str:
        return self.people.load

    @property
    def person_count(self) -> int:
        return self.people.person_count

    @property
    def household_count(self) -> int:
        return self.people.household_count

    @property
    def size(self) -> int:
        return self.cards.size

    @property
    def cards(self) -> Cards:
        """All cards. Let go of them once they are read."""
        return self.mapped.cards

    def let_cards_go(self) -> None:
        """Take no memory for the cards until they are read again."""
        self.mapped.let_go()

    def relinked(self, load: str, rekeyed: Rekeyed) -> Registry:
        """The same people, with the numbers that they have, under other pseudonyms."""
        cards, rows, people = self.cards, rekeyed.rows, self.people
        cards = Cards(rekeyed.high, rekeyed.low, cards.persons[rows], cards.households[rows])
        return Registry.of(load, cards, people.values, self.person_count, self.household_count, self.dictionary)

    def write(self, path: Path, names: Names, former: Cards) -> None:
        """Store the load durably, as one file: `names` of all subjects that have a number, `former` cards.

        Raises:
            InternalError: STORE_FAILED; what was at `path` still is.
        """
        counts = np.array([self.person_count, self.household_count], np.uint64)
        write_columns(
            path,
            {
                **self.cards.columns(),
                **{f"{_VALUES_OF}{name}": values for name, values in self.people.values.items()},
                _DICTIONARY: np.frombuffer(self.dictionary.meaning, np.uint8),
                "counts": counts,
                **names.columns(),
                **former.columns("former_"),
            },
        )

    @classmethod
    def read(cls, path: Path, load: str) -> Registry:
        """Read a stored load.

        Raises:
            InternalError: INTEGRITY, the file is missing or damaged.
        """
        with reading_columns(path, f"the registry of load {load}") as stored:
            # SECURITY: under another dictionary a stored number would be counted as another value than the one that was loaded.
            dictionary = Dictionary.parse_meaning(stored.column(_DICTIONARY, _VALUE).tobytes())
            mapped, counts = MappedCards.of_columns(stored), stored_counts(stored)
            values = {name: stored.mapped(f"{_VALUES_OF}{name}", _VALUE, counts[0]).array for name in dictionary.names}
            mapped.let_go()
            return cls._of(load, mapped, values, counts, dictionary)


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
    """The registries of one journal, for everybody who needs the people of a load."""

    def __init__(self, journal: Journal[CensusState], loads: LoadFolder) -> None:
        self.loads: OpenLoads[CensusState, Registry] = OpenLoads(
            journal, loads, read=Registry.read, needed=lambda: loads_needed(journal)
        )
        self._journal = journal

    def people(self, load: str) -> People:
        return self.registry(load).people

    def registry(self, load: str) -> Registry:
        """A load that the log names, whose values mean what the log says.

        Raises:
            InternalError: INTEGRITY.
        """
        with self._journal.reading() as state:
            commitments, dictionary = state.commitments, state.dictionaries[load]
        registry = self.loads.store(load, commitments)
        if registry.dictionary.hash.hex() != dictionary:
            raise InternalError(
                "INTEGRITY", problem=f"the registry of load {load} is of another dictionary than the log says"
            )
        return registry


def counted(registry: Registry, question: Question) -> Counted:
    """For `Passes.count`: a variable of everybody, and the cell of each of its values."""
    people, dictionary = registry.people, registry.dictionary
    if question.variable is None:
        # In one cell whatever they speak.
        return Counted(people.values[dictionary.names[0]], np.zeros(256, np.uint8), 1)
    positions = dictionary.column(question.variable).positions
    rest = question.cells.index(REST) if REST in question.cells else NO_CELL
    cell_of_value = np.full(256, rest, np.uint8)
    for number, cell in enumerate(question.cells):
        cell_of_value[[positions[value] for value in cell.values]] = number
    return Counted(people.values[question.variable], cell_of_value, len(question.cells))
