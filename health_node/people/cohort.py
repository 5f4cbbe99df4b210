"""From criteria to marks: a condition compiled to passes over columns of small numbers, a block of people at a time.

Invariants. Criteria never become text of any language: what they name is compared as numbers, and there is nothing to
inject into. Logic is two-valued: a person without a value is stored as 0, which no literal means, so that a comparison is
false there and its negation true. No compiled condition can fail on a record, and what it costs depends on the condition
and on how many people there are, not on who they are.

Whatever is said of one single-valued column, however it is nested, becomes one set of stored numbers, kept as the edges of runs:
`between` is one run, an exclusion the complement. Few runs are compared one by one; many are looked up where a small table
holds all numbers of the column, and compared one by one where it would not.

Predicates about events, or about a list of values, are counted beforehand over the whole of their table (`events`) and arrive as one bit for each person: `Counting` says what to count.

Every compiled condition knows how many passes it makes over a block (`passes`), and `compiling_work` what it takes to compile
one, without doing it; `marks` makes a price of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from broker_common.query.condition import (
    AllOf,
    AnyOf,
    ColumnCondition,
    Comparison,
    Condition,
    Happened,
    Literal,
    Membership,
    Negation,
    Order,
    Presence,
    Under,
)
from broker_common.query.dictionary import Column, Dictionary, EventTable
from broker_common.storage.source.values import is_list
from health_node.people.encoding import Encoding, Stored, StoredType

Marks: TypeAlias = NDArray[np.bool_]
"""Whether each person of a block is meant."""
Run: TypeAlias = tuple[int, int]
"""Stored numbers from the first to the last, both included."""
Edges: TypeAlias = NDArray[np.int64]
"""A set of stored numbers: where each run begins, and the number behind its end; ascending and distinct."""

# More runs than this are faster looked up, in a table of a byte an entry. SECURITY: the table fits in a core's cache; a larger
# one, or a search, would be slower for some people's numbers than for others'.
_FEW_RUNS = 6
_LARGEST_TABLE = 1 << 17
# One pass reads a column or marks, of any width, and writes marks or numbers. Looking a block up takes as long as so many.
_LOOKUP_PASSES = 8
# Sets with fewer edges than one for so many numbers are joined by sorting their edges, others in a table of all numbers.
_NUMBERS_AN_EDGE = 8
# To make marks of bits.
_UNPACKING_PASSES = 2


class Scratch:
    """Memory of one thread for what is found on the way, used again from block to block."""

    def __init__(self, size: int) -> None:
        """For blocks of at most `size` people."""
        self._size = size
        self._marks: list[Marks] = []
        self._numbers: dict[StoredType, Stored] = {}

    def borrow(self) -> Marks:
        """As long as a whole block. Give it back."""
        return self._marks.pop() if self._marks else np.empty(self._size, dtype=np.bool_)

    def give_back(self, marks: Marks) -> None:
        self._marks.append(marks)

    def numbers(self, kind: StoredType) -> Stored:
        """As long as a whole block, and the caller's until the next call."""
        if kind not in self._numbers:
            self._numbers[kind] = np.empty(self._size, dtype=kind)
        return self._numbers[kind]


class Predicate(Protocol):
    """A compiled condition. May be used by several threads at once, each with a scratch of its own."""

    @property
    def passes(self) -> int:
        """How many passes over a block `mark` makes at most. Follows from the condition alone."""

    @property
    def countings(self) -> tuple[Counting, ...]:
        """The countings needed before: `mark` finds the bits of each in the columns, under its name."""

    def mark(self, columns: Mapping[str, Stored], marks: Marks, scratch: Scratch) -> None:
        """Set `marks` for a block of people, whose columns these are."""


def compile_condition(condition: Condition, dictionary: Dictionary | EventTable) -> Predicate:
    """Compile the condition for stored people, or for events of one table. It was made under the same dictionary."""
    match condition:
        case AllOf(parts):
            return _conjunction([compile_condition(part, dictionary) for part in parts])
        case AnyOf(parts):
            return _negated(_conjunction([_negated(compile_condition(part, dictionary)) for part in parts]))
        case Negation(part):
            return _negated(compile_condition(part, dictionary))
        case Happened():
            return _happened(condition, dictionary)
        case _:
            return _of_column(condition, dictionary.column(condition.column))


def lay_out(dictionary: Dictionary) -> None:
    """Have every hierarchy ready before a question needs it."""
    of_events = [column for table in dictionary.events for column in table.columns]
    for column in (*dictionary.columns, *of_events):
        if column.has_hierarchy:
            _ = column.branches


def compiling_work(condition: Condition, dictionary: Dictionary | EventTable, groups: int = 1) -> int:
    """How many numbers are handled at most to compile a condition that stands in so many groups: from text and dictionary alone.

    Each group makes one set of what is said of a column in it, and `_edges` one of each comparison.
    """
    match condition:
        case AllOf(parts) | AnyOf(parts):
            return sum(compiling_work(part, dictionary, groups + 1) for part in parts)
        case Negation(part):
            return compiling_work(part, dictionary, groups)
        case Happened(_, where, _):
            return 1 if where is None else compiling_work(where, _events_of(condition, dictionary))
        case Membership(_, literals):
            return groups * len(literals)
        case Under(column, codes):
            found = dictionary.column(column)
            return groups * found.branches.most_beneath([found.positions[code] for code in codes])
        case _:
            return groups


# --- conditions on one column ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Among:
    """The stored number is one of a set."""

    encoding: Encoding
    edges: Edges

    @property
    def passes(self) -> int:
        if self._is_looked_up:
            return _LOOKUP_PASSES
        # One or two for each run, and one to join each but the first.
        return max(1, sum(1 if self._is_one_sided(run) else 2 for run in self.runs) + len(self.runs) - 1)

    @property
    def countings(self) -> tuple[Counting, ...]:
        return ()

    def mark(self, columns: Mapping[str, Stored], marks: Marks, scratch: Scratch) -> None:
        numbers = columns[self.encoding.column.name]
        if self._is_looked_up:
            # No number is above the top, so that "clip" clips nothing; "raise" would look first.
            np.take(self._table, numbers, out=marks, mode="clip")
        else:
            self._compare(numbers, marks, scratch)

    @cached_property
    def runs(self) -> Sequence[Run]:
        return list(zip(self.edges[::2].tolist(), (self.edges[1::2] - 1).tolist(), strict=True))

    @property
    def _is_looked_up(self) -> bool:
        return len(self.edges) > 2 * _FEW_RUNS and self.encoding.top < _LARGEST_TABLE

    def _is_one_sided(self, run: Run) -> bool:
        """Whether one comparison tells who is within."""
        first, last = run
        return first in (last, 0) or last == self.encoding.top

    def _compare(self, numbers: Stored, marks: Marks, scratch: Scratch) -> None:
        if not self.runs:
            marks[:] = False
            return
        self._within(self.runs[0], numbers, marks, scratch)
        if len(self.runs) > 1:
            more = scratch.borrow()
            here = more[: len(marks)]
            for run in self.runs[1:]:
                self._within(run, numbers, here, scratch)
                np.logical_or(marks, here, out=marks)
            scratch.give_back(more)

    def _within(self, run: Run, numbers: Stored, marks: Marks, scratch: Scratch) -> None:
        first, last = run
        number = self.encoding.kind.type
        if first == last:
            np.equal(numbers, number(first), out=marks)
        elif first == 0:
            np.less_equal(numbers, number(last), out=marks)
        elif last == self.encoding.top:
            np.greater_equal(numbers, number(first), out=marks)
        else:
            # A number below the first wraps around and is too large as well.
            above = scratch.numbers(self.encoding.kind)[: len(numbers)]
            np.subtract(numbers, number(first), out=above)
            np.less_equal(above, number(last - first), out=marks)

    @cached_property
    def _table(self) -> Marks:
        changes = np.zeros(self.encoding.top + 2, dtype=np.bool_)
        changes[self.edges] = True
        return np.logical_xor.accumulate(changes)[:-1]


@dataclass(frozen=True, slots=True)
class _Sharing:
    """The stored mask and this one have a bit in common."""

    encoding: Encoding
    mask: int

    @property
    def passes(self) -> int:
        return 2

    @property
    def countings(self) -> tuple[Counting, ...]:
        return ()

    def mark(self, columns: Mapping[str, Stored], marks: Marks, scratch: Scratch) -> None:
        masks = columns[self.encoding.column.name]
        common = scratch.numbers(self.encoding.kind)[: len(masks)]
        np.bitwise_and(masks, self.encoding.kind.type(self.mask), out=common)
        np.not_equal(common, 0, out=marks)


def _of_column(condition: ColumnCondition, column: Column) -> Predicate:
    encoding = Encoding.of(column)
    match condition:
        case Presence():
            return _presence(encoding)
        case Comparison():
            return _Among(encoding, _compared(condition, encoding))
        case Membership(_, literals):
            return _membership(np.array(sorted(_admitted(literals, encoding)), np.int64), encoding)
        case Under(_, codes):
            found = column.branches.beneath([column.positions[code] for code in codes])
            return _membership(found if encoding.is_mask else found + encoding.shift, encoding)


def _compared(comparison: Comparison, encoding: Encoding) -> Edges:
    place = encoding.place(comparison.literal)
    match comparison.order:
        case Order.LESS:
            return _run(1, place - 1, encoding)
        case Order.LESS_OR_EQUAL:
            return _run(1, place, encoding)
        case Order.GREATER:
            return _run(place + 1, encoding.top, encoding)
        case Order.GREATER_OR_EQUAL:
            return _run(place, encoding.top, encoding)


def _admitted(literals: Iterable[Literal], encoding: Encoding) -> Iterator[int]:
    """The places of literals that somebody can have."""
    for place in map(encoding.place, literals):
        if encoding.is_mask or 1 <= place <= encoding.top:
            yield place


def _membership(places: NDArray[np.int64], encoding: Encoding) -> Predicate:
    """Any of these places, which ascend."""
    if encoding.is_mask:
        return _Sharing(encoding, sum(1 << place for place in places.tolist()))
    return _of_edges(_edges(places), encoding)


def _presence(encoding: Encoding) -> Predicate:
    # 0 is no value; a mask of any other value has a bit in common with the greatest.
    if encoding.is_mask:
        return _Sharing(encoding, encoding.top)
    return _of_edges(_run(1, encoding.top, encoding), encoding)


def _of_edges(edges: Edges, encoding: Encoding) -> Predicate:
    """The person's number, or one of those in the person's list."""
    among = _Among(encoding, edges)
    if not is_list(encoding.column):
        return among
    return Counting(encoding.column.name, among, 1, key=f"{encoding.column.name} {sha256(edges.data).hexdigest()}")


# --- sets of stored numbers ------------------------------------------------------------------------------------------


def _run(first: int, last: int, encoding: Encoding) -> Edges:
    """The codes from the first to the last that a person can have."""
    first, last = max(first, 1), min(last, encoding.top)
    return np.array([first, last + 1] if first <= last else [], np.int64)


def _edges(numbers: NDArray[np.int64]) -> Edges:
    """The set of these numbers, which ascend: as many as codes, maybe."""
    is_gap = np.diff(numbers) > 1
    edges = np.empty(2 * (np.count_nonzero(is_gap) + 1), np.int64) if len(numbers) else numbers
    edges[:1], edges[2::2] = numbers[:1], numbers[1:][is_gap]
    edges[1:-1:2], edges[-1:] = numbers[:-1][is_gap] + 1, numbers[-1:] + 1
    return edges


def _others(edges: Edges, top: int) -> Edges:
    """All numbers but these, no value included."""
    low, high = edges[:1].tolist() == [0], edges[-1:].tolist() == [top + 1]
    ends = [np.array([] if known else [edge], np.int64) for known, edge in ((low, 0), (high, top + 1))]
    return np.concatenate([ends[0], edges[int(low) : len(edges) - int(high)], ends[1]])


def _in_so_many(sets: Sequence[Edges], least: int, top: int) -> Edges:
    """Members of at least so many of the sets."""
    if len(sets) == 1:
        return sets[0]
    begins, ends = (np.concatenate([edges[side::2] for edges in sets]) for side in (0, 1))
    if top < _LARGEST_TABLE and len(begins) * _NUMBERS_AN_EDGE > top:
        changes = np.bincount(begins, minlength=top + 2) - np.bincount(ends, minlength=top + 2)
        return _turns(changes, least)
    edges, which = np.unique(np.concatenate([begins, ends]), return_inverse=True)
    changes = np.bincount(which[: len(begins)], minlength=len(edges)) - np.bincount(
        which[len(begins) :], minlength=len(edges)
    )
    return edges[_turns(changes, least)]


def _turns(changes: NDArray[np.int64], least: int) -> NDArray[np.int64]:
    """Where a sum of changes comes to the least, or falls below it again."""
    return np.flatnonzero(np.diff(np.cumsum(changes) >= least, prepend=False))


# --- conditions on events --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Counting:
    """At least so many rows of a table, of those that are the person's, satisfy a condition on the table's columns."""

    table: str
    where: Predicate | None
    """None for any row."""
    at_least: int
    key: str
    """Two that count the same rows have the same."""

    @property
    def name(self) -> str:
        """Under which its bits are found: no column has such a name."""
        return f"{self.key} >= {self.at_least}"

    @property
    def passes(self) -> int:
        return _UNPACKING_PASSES

    @property
    def countings(self) -> tuple[Counting, ...]:
        return (self,)

    def mark(self, columns: Mapping[str, Stored], marks: Marks, scratch: Scratch) -> None:  # noqa: ARG002 - as all do
        np.copyto(marks, np.unpackbits(columns[self.name].view(np.uint8), count=len(marks)).view(np.bool_))


def _happened(happened: Happened, dictionary: Dictionary | EventTable) -> Predicate:
    table = _events_of(happened, dictionary)
    where = None if happened.where is None else compile_condition(happened.where, table)
    return Counting(table.name, where, happened.at_least, key=f"{table.name} {happened.where}")


def _events_of(happened: Happened, dictionary: Dictionary | EventTable) -> EventTable:
    table = dictionary.find_events(happened.events) if isinstance(dictionary, Dictionary) else None
    if table is None:
        raise AssertionError("criteria name an event table that their dictionary does not have")
    return table


def counted_together(predicate: Predicate) -> list[list[Counting]]:
    """The countings of a predicate, each once: together if they count the same rows."""
    together: dict[str, dict[int, Counting]] = {}
    for counting in predicate.countings:
        together.setdefault(counting.key, {})[counting.at_least] = counting
    return [list(countings.values()) for countings in together.values()]


# --- conditions on conditions ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Not:
    part: Predicate

    @property
    def passes(self) -> int:
        return self.part.passes + 1

    @property
    def countings(self) -> tuple[Counting, ...]:
        return self.part.countings

    def mark(self, columns: Mapping[str, Stored], marks: Marks, scratch: Scratch) -> None:
        self.part.mark(columns, marks, scratch)
        np.logical_not(marks, out=marks)


@dataclass(frozen=True, slots=True)
class _All:
    """Two parts or more."""

    parts: Sequence[Predicate]

    @property
    def passes(self) -> int:
        return sum(part.passes for part in self.parts) + len(self.parts) - 1

    @property
    def countings(self) -> tuple[Counting, ...]:
        return tuple(counting for part in self.parts for counting in part.countings)

    def mark(self, columns: Mapping[str, Stored], marks: Marks, scratch: Scratch) -> None:
        self.parts[0].mark(columns, marks, scratch)
        more = scratch.borrow()
        here = more[: len(marks)]
        for part in self.parts[1:]:
            part.mark(columns, here, scratch)
            np.logical_and(marks, here, out=marks)
        scratch.give_back(more)


def _negated(part: Predicate) -> Predicate:
    match part:
        case _Not():
            return part.part
        case _Among():
            # With those who have no value.
            return _Among(part.encoding, _others(part.edges, part.encoding.top))
        case _:
            return _Not(part)


def _conjunction(parts: Iterable[Predicate]) -> Predicate:
    """All of them: what is said of one column is said at once."""
    of_columns: dict[str, list[_Among]] = {}
    masks: dict[str, _Sharing] = {}
    lists: dict[str, list[_Among]] = {}
    others: list[Predicate] = []
    for part in _flattened(parts):
        match part:
            case _Among(encoding):
                of_columns.setdefault(encoding.column.name, []).append(part)
            case _Not(_Sharing(encoding, mask)):
                # None of these and none of those: none of either.
                known_mask = masks.get(encoding.column.name)
                masks[encoding.column.name] = _Sharing(encoding, mask | (known_mask.mask if known_mask else 0))
            case _Not(Counting(name, _Among(encoding) as among)) if is_list(encoding.column):
                lists.setdefault(name, []).append(among)
            case _:
                others.append(part)
    said = [_joined(several, len(several)) for several in of_columns.values()]
    counted = [_of_edges(among.edges, among.encoding) for among in (_joined(each, 1) for each in lists.values())]
    found: list[Predicate] = [*said, *map(_Not, [*masks.values(), *counted]), *others]
    return found[0] if len(found) == 1 else _All(found)


def _joined(several: Sequence[_Among], least: int) -> _Among:
    """Members of so many of the sets of one column."""
    encoding = several[0].encoding
    return _Among(encoding, _in_so_many([among.edges for among in several], least, encoding.top))


def _flattened(parts: Iterable[Predicate]) -> Iterator[Predicate]:
    for part in parts:
        yield from part.parts if isinstance(part, _All) else (part,)
