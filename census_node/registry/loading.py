"""Loading the registry: from a CSV or Parquet source to columns, checked row by row and replaced whole.

A row is loaded with all its values or not at all. Rows with one person_id and different cards are one person's cards, if household
and all values are the same as in the first of them; otherwise the first stays. A row without a health card cannot be linked and is
left out, counted apart from the rows that are wrong. The first of several rows with one card stays. Cards become pseudonyms here,
ids of persons and households numbers (`subjects`); they are kept nowhere.

Where households are linked, the id in the card's place is an address. Everybody who has one address is one household, whatever the
household_id says, which is not read; a person has one address. The first of several rows with one person_id stays.

Memory: about 60 bytes for each row of the source while it is read, 50 more for a moment when everything is sorted,
and up to 36 bytes for each person with their household that was ever loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from broker_common.agency.linkage import LinkageKeys
from broker_common.crypto.commitments import SALT_BYTES
from broker_common.crypto.id_forms import Ids, parse_ids
from broker_common.crypto.linkage import LinkageChain
from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from broker_common.privacy.delays import declared_for, too_short, usual_tick_ms
from broker_common.privacy.policy import Policy, verify_linkage
from broker_common.query.dictionary import ColumnType, Dictionary
from broker_common.storage.dictionary.adopted import Dictionaries
from broker_common.storage.journal import Journal, Transaction
from broker_common.storage.loads import LoadFolder
from broker_common.storage.source.plan import SourcePlan
from broker_common.storage.source.rows import (
    Chunk,
    Progress,
    RejectedRows,
    ascending_order,
    ascending_without_repeats,
)
from broker_common.storage.source.values import ColumnReader, GrowingArray
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import Entry
from broker_common.values import PSEUDONYM_BYTES, Randomness
from census_node import texts
from census_node.ledger.subjects import NAME, NUMBER, Cards, Carry, Known, Names, number_subjects
from census_node.registry import NO_VALUE, Registry
from census_node.registry.registry import forget_old_loads

_CARD, _PERSON, _HOUSEHOLD = "health_card", "person_id", "household_id"
# The longest id of a person or household in the source.
_MAX_ID_CHARACTERS = 64
_REPEATS = "repeats the person_id of an earlier row, with nothing new"
_CONTRADICTS = "contradicts an earlier row of its person_id: household or a value differs"


def id_columns(dictionary: Dictionary) -> tuple[str, ...]:
    """The ids of a row; an address that people are linked by says which household it is."""
    return (_CARD, _PERSON) if dictionary.linkage == "household" else (_CARD, _PERSON, _HOUSEHOLD)


@dataclass(frozen=True, slots=True, eq=False)
class LoadReport:
    """For the census operator: rows == linked + without_card + rejected.count."""

    rows: int
    linked: int
    without_card: int
    rejected: RejectedRows


def load_registry(
    journal: Journal[CensusState],
    loads: LoadFolder,
    dictionaries: Dictionaries,
    keys: LinkageKeys,
    plan: Callable[[Dictionary], SourcePlan],
    release: str,
    randomness: Randomness,
    *,
    people: int,
    put_load: Callable[[Carry], Callable[[Transaction[CensusState], Entry], None]],
    progress: Progress | None = None,
    max_rejected: int | None = None,
    check: bool = False,
) -> LoadReport:
    """Read a registry under the newest dictionary and put it in force; a check ends when everything was read.

    `put_load` is the ledger's part of the transaction that puts it in force.

    Raises:
        InvalidRequestError: LOAD_REFUSED, SECRET_MISSING, LINKAGE_KEY_MISSING.
        RefusedError: NOTHING_ADOPTED, LOADING.
        InternalError: STORE_FAILED; INTEGRITY, the load in force, which knows the subjects, is not the one that was loaded.
    """
    with loads.loading(randomness) as load:
        with journal.reading() as state:
            before, in_force, commitments = state.load, state.linkage, dict(state.commitments)
            policy, dictionary = state.policy, dictionaries.newest(state)
        if policy is not None:
            verify_delays(policy, people)
            verify_linkage(policy, dictionary.linkage)
        linkage = keys.chain_for_load(in_force, dictionary.id_form)
        source = plan(dictionary)
        if before:
            # SECURITY: somebody who could change the numbers of subjects could let charges fall on others.
            loads.verify(journal, before, commitments)
            names = Names.read(loads.file(before), before)
        else:
            names = Names.none(randomness(SALT_BYTES))
        registry, names, report = read_registry(
            source, load, linkage, names, dictionary=dictionary, progress=progress, max_rejected=max_rejected
        )
        verify_declared(registry.size, people)
        if check:
            return report
        # Not earlier: beside the rows of a source it would be a third of the memory.
        known = Known.read(loads.file(before), before) if before else Known.none()
        registry.write(loads.file(load), names, known.former_after(registry.cards))
        carry = Carry.between(known, registry.cards, registry.people.person_count, registry.people.household_count)
        put = put_load(carry)

        def with_entry(transaction: Transaction[CensusState], entry: Entry) -> None:
            # A policy may have been adopted while the source was read.
            if transaction.state.policy is not None:
                verify_linkage(transaction.state.policy, dictionary.linkage)
            put(transaction, entry)

        loads.put_in_force(
            journal, load, release, linkage.chain_id, randomness, dictionary=dictionary, with_entry=with_entry
        )
        forget_old_loads(journal, loads)
    return report


def read_registry(
    plan: SourcePlan,
    load: str,
    linkage: LinkageChain,
    names: Names,
    *,
    dictionary: Dictionary,
    progress: Progress | None = None,
    max_rejected: int | None = None,
) -> tuple[Registry, Names, LoadReport]:
    """The registry that the source describes. Subjects that `names` knows keep their numbers; new ones are added to them.

    Raises:
        InvalidRequestError: LOAD_REFUSED, DICTIONARY_UNUSABLE.
    """
    incoming = _Incoming(linkage, names, dictionary)
    source = plan.people(dictionary.columns)
    for chunk in source.chunks(incoming.rejected, progress=progress):
        incoming.add(chunk)
    registry, names = incoming.settle(load)
    rejected = incoming.rejected
    rows = registry.size + incoming.without_card + rejected.count
    if not registry.size:
        rejected.refuse_everybody()
    rejected.verify_few(rows, max_rejected)
    return registry, names, LoadReport(rows, registry.size, incoming.without_card, rejected)


@dataclass(frozen=True, slots=True, eq=False)
class _Subjects:
    """The persons, or the households, of the rows read."""

    names: npt.NDArray[np.bytes_]
    # The first row in the file of each subject.
    first: npt.NDArray[np.uint32]
    # The subject of each row, as a place in the two above.
    of_row: npt.NDArray[np.uint32]

    @classmethod
    def of(cls, names: npt.NDArray[np.bytes_]) -> _Subjects:
        # This is `np.unique` on numbers, in a fraction of its time and memory.
        halves = names.view(">u8").reshape(-1, 2)
        high, low = halves[:, 0].astype(np.uint64), halves[:, 1].astype(np.uint64)
        order = ascending_order(high, low).astype(np.uint32)
        begins = np.ones(len(names), np.bool_)
        for half in (high, low):
            ascending = half[order]
            differs = ascending[1:] != ascending[:-1]
            begins[1:] = differs if half is high else begins[1:] | differs
        del high, low, ascending, differs
        first = order[begins]
        of_row = np.empty(len(names), np.uint32)
        of_row[order] = np.cumsum(begins, dtype=np.uint32) - np.uint32(1)
        return cls(names[first], first, of_row)

    def numbered(
        self, known: npt.NDArray[np.bytes_], rows: npt.NDArray[np.intp]
    ) -> tuple[npt.NDArray[np.bytes_], npt.NDArray[np.uint32]]:
        """The result after the subjects of these rows have got their numbers, with these rows' numbers."""
        used = np.zeros(len(self.names), np.bool_)
        used[self.of_row[rows]] = True
        known, numbers = number_subjects(known, self.names, used)
        return known, numbers[self.of_row[rows]]


class _Incoming:
    """The rows read so far, in the order of the file."""

    def __init__(self, linkage: LinkageChain, names: Names, dictionary: Dictionary) -> None:
        self._dictionary = dictionary
        self._links_households = dictionary.linkage == "household"
        self._own_ids = id_columns(dictionary)[1:]
        self.rejected = RejectedRows()
        self.without_card = 0
        self._linkage = linkage
        self._names = names
        verify_variables(dictionary)
        self._readers = {column.name: ColumnReader(column) for column in dictionary.columns}
        self._pseudonyms: GrowingArray[np.uint64] = GrowingArray(np.dtype(">u8"))
        self._persons: GrowingArray[np.bytes_] = GrowingArray(NAME)
        self._households: GrowingArray[np.bytes_] = GrowingArray(NAME)
        self._has_card: GrowingArray[np.bool_] = GrowingArray(np.dtype(np.bool_))
        self._lines: GrowingArray[np.uint32] = GrowingArray(np.dtype(np.uint32))
        self._columns: dict[str, GrowingArray[np.uint8]] = {
            name: GrowingArray(np.dtype(np.uint8)) for name in self._readers
        }

    def add(self, chunk: Chunk) -> None:
        values: dict[str, npt.NDArray[np.uint8]] = {}
        problems: dict[int, str] = {}
        for name, reader in self._readers.items():
            numbers, wrong = reader.read(chunk.columns[name])
            values[name] = np.where(numbers < 0, NO_VALUE, numbers).astype(np.uint8)
            problems = wrong | problems
        cards, wrong = parse_ids(chunk.columns[_CARD], self._linkage.form)
        problems = wrong | problems | _wrong_ids(chunk, self._own_ids)
        for at in sorted(problems):
            self.rejected.add(chunk.lines[at], problems[at])
        is_kept = np.ones(len(cards), np.bool_)
        is_kept[list(problems)] = False
        self._add(chunk, values, cards, np.flatnonzero(is_kept))

    def _add(
        self,
        chunk: Chunk,
        values: dict[str, npt.NDArray[np.uint8]],
        cards: Ids,
        kept: npt.NDArray[np.intp],
    ) -> None:
        """The rows of a chunk with which nothing is wrong."""
        cards = cards[kept]
        has_card = cards != b""
        # Zeros stand for the pseudonym of a row without a card until that row is left out.
        pseudonyms = np.zeros((len(kept), PSEUDONYM_BYTES), np.uint8)
        pseudonyms[has_card] = self._linkage.pseudonyms(cards[has_card])
        self._pseudonyms.add(pseudonyms.tobytes())
        self._has_card.add(has_card)
        persons = chunk.columns[_PERSON]
        if len(kept) < len(persons):
            persons = [persons[at] for at in kept.tolist()]
        self._persons.add(self._names.of_persons(persons))
        self._households.add(self._names.of_households(self._homes(chunk, cards, kept)))
        self._lines.add(np.array(chunk.lines, dtype=np.uint32)[kept])
        for name, column in values.items():
            self._columns[name].add(column[kept])

    def _homes(self, chunk: Chunk, cards: Ids, kept: npt.NDArray[np.intp]) -> Sequence[str]:
        """The key by which the household of each row is known; where households are linked, the one spelling of its address."""
        if self._links_households:
            return [card.decode("ascii") for card in cards.tolist()]
        households = chunk.columns[_HOUSEHOLD]
        return households if len(kept) == len(households) else [households[at] for at in kept.tolist()]

    def settle(self, load: str) -> tuple[Registry, Names]:
        """Everyone read who can be linked, ascending by pseudonym; rows that repeat or contradict others are rejected."""
        persons, households = _Subjects.of(self._persons.take()), _Subjects.of(self._households.take())
        lines, has_card = self._lines.take(), self._has_card.take()
        columns = {name: column.take() for name, column in self._columns.items()}
        cards = self._cards(persons, households, lines, has_card, columns)
        halves = self._pseudonyms.take().reshape(-1, 2)
        high, low = halves[cards, 0].astype(np.uint64), halves[cards, 1].astype(np.uint64)
        # Arrays are freed as soon as they are used, here and below: each is a good part of a load's memory.
        del halves, has_card
        order = (
            ascending_order(high, low)
            if self._links_households
            else ascending_without_repeats(high, low, lines[cards], self.rejected)
        )
        rows = cards[order]
        high, low = high[order], low[order]
        del order, cards, lines
        known_persons, person_of = persons.numbered(self._names.persons, rows)
        del persons
        values = {name: _by_person(columns.pop(name), rows, person_of, len(known_persons)) for name in self._readers}
        known_households, household_of = households.numbered(self._names.households, rows)
        del households, rows
        counts = len(known_persons), len(known_households)
        registry = Registry.of(load, Cards(high, low, person_of, household_of), values, *counts, self._dictionary)
        homes = np.concatenate([self._names.homes, np.zeros(len(known_persons) - len(self._names.homes), NUMBER)])
        homes[person_of] = household_of
        return registry, Names(self._names.salt, known_persons, known_households, homes)

    def _cards(
        self,
        persons: _Subjects,
        households: _Subjects,
        lines: npt.NDArray[np.uint32],
        has_card: npt.NDArray[np.bool_],
        columns: dict[str, npt.NDArray[np.uint8]],
    ) -> npt.NDArray[np.intp]:
        """The rows with a card that agree with the first row of their person."""
        first = persons.first[persons.of_row]
        repeats = first != np.arange(len(first), dtype=np.uint32)
        contradicts = households.of_row != households.of_row[first]
        for column in columns.values():
            contradicts |= column != column[first]
        says_nothing = repeats & ~has_card
        if self._links_households:
            # A person whose address is that of their first row has it once.
            says_nothing |= repeats & ~contradicts
        for rejected, reason in ((says_nothing, _REPEATS), (contradicts & has_card, _CONTRADICTS)):
            for line in lines[rejected].tolist():
                self.rejected.add(line, reason)
        self.without_card = int(np.count_nonzero(~has_card & ~repeats))
        return np.flatnonzero(has_card & ~contradicts & ~says_nothing)


def _by_person(
    values: npt.NDArray[np.uint8], rows: npt.NDArray[np.intp], persons: npt.NDArray[np.uint32], count: int
) -> npt.NDArray[np.uint8]:
    """The values of these rows at the numbers of their persons."""
    by_person = np.full(count, NO_VALUE, np.uint8)
    by_person[persons] = values[rows]
    return by_person


def verify_variables(dictionary: Dictionary) -> None:
    """Return only if every column is a language variable, of which a byte is kept for each person, and there are no events.

    Raises:
        InvalidRequestError: DICTIONARY_UNUSABLE.
    """
    problems = {table.name: "is an event table; a census has language variables alone" for table in dictionary.events}
    for column in dictionary.columns:
        if column.type is not ColumnType.CODE or column.multi_valued:
            problems[column.name] = "is no language variable, which has one code a person"
        elif len(column.codes) > NO_VALUE:
            problems[column.name] = f"has {len(column.codes)} codes; a language variable can have {NO_VALUE}"
    for name, problem in problems.items():
        raise InvalidRequestError("DICTIONARY_UNUSABLE", column=name, problem=problem)


def _wrong_ids(chunk: Chunk, names: Sequence[str]) -> dict[int, str]:
    """Errors in the ids of these names, by the place of their row."""
    if all(_are_ids(chunk.columns[name]) for name in names):
        return {}
    rows = zip(*(chunk.columns[name] for name in names), strict=True)
    found = ((at, _problem(names, ids)) for at, ids in enumerate(rows))
    return {at: problem for at, problem in found if problem}


def _are_ids(texts: Sequence[str]) -> bool:
    """Whether nothing is wrong with any of them, seen at once."""
    return all(texts) and len(max(texts, key=len)) <= _MAX_ID_CHARACTERS and "".join(texts).isprintable()


def _problem(names: Sequence[str], values: Sequence[str]) -> str:
    for name, value in zip(names, values, strict=True):
        if not value or len(value) > _MAX_ID_CHARACTERS or not value.isprintable():
            return f"{name} is empty, too long or not printable"
    return ""


def verify_declared(people: int, declared: int) -> None:
    """Return only if a registry of so many people is within what is declared.

    Raises:
        InvalidRequestError: LOAD_REFUSED.
    """
    if people > declared:
        raise InvalidRequestError(
            "LOAD_REFUSED",
            problem=f"it has {people} people with a card, and {declared} are declared",
            remedy=f"Set people to {declared_for(people)} or more in config.toml, then load it again.",
        )


def verify_delays(policy: Policy, declared: int) -> None:
    """Return only if the policy's tick covers so many people.

    Raises:
        InvalidRequestError: LOAD_REFUSED.
    """
    found = delay_warnings(policy, declared)
    if found:
        option = f"--release-tick-ms {usual_tick_ms(declared, policy.subject)}"
        raise InvalidRequestError(
            "LOAD_REFUSED",
            problem=found[0],
            remedy=f"Adopt a policy with 'tripartite census policy propose {option}', then load it again.",
        )


def delay_warnings(policy: Policy, declared: int) -> tuple[str, ...]:
    """Which times of the policy do not cover the declared people, a sentence each.

    The forward delay is the health node's, which knows its places.
    """
    return tuple(
        phrase(texts.WARN_DELAY, name=name, value=getattr(policy, name), declared=declared, least=least_ms)
        for name, least_ms in too_short(policy, people=declared).items()
    )
