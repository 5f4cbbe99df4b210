"""The desk's passes over everybody: who of a sample is here, who of them fits, the charge, and the count.

    here    = sample[octet] & mask, the cards of one person OR-ed; the mask of an unlinked person is 0
    active  = here & (charged <= room)       household: here & (charged + members here * price <= most)
    charged += active * price                household: members active * price; once the charge is durable, not before
    counts  = for each cell: how many are active and have one of its values

SECURITY: what is done follows from how many people, homes and cards there are and how many places are declared and taken, and
from nothing else. No `where=`, no index list, no early exit, no sparse write: every pass reads and writes the same memory in the
same order for any sample and any drops. The only reads that jump are of a few megabytes of bits, which stay in the cache;
an unlinked person is looked up at a place drawn among those that are taken, where the cards of others stand.

Sets are packed bits, the most significant first: samples by place in the roster, everything else by person number. Passes go
block by block over two threads, in buffers made once. One pass runs at a time: the desk does one thing at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from broker_common.errors import InternalError

Bits: TypeAlias = npt.NDArray[np.uint8]
"""One bit for each, packed, the most significant first, zeros after the last."""
Numbers: TypeAlias = npt.NDArray[np.uint32]
Values: TypeAlias = npt.NDArray[np.uint8]
ResultT = TypeVar("ResultT")
ScalarT = TypeVar("ScalarT", bound=np.generic)

JOINED = 1 << 31
"""The top bit of a place: the card stands in the roster. Without it the place is drawn among those that are taken, and its bit is ignored."""
# A question has at most so many cells.
MOST_CELLS = 16
NO_CELL = 255
"""The cell of values that are in no cell of a question."""

_PLACE = JOINED - 1
# The most that a charge of 32 bits holds.
_MOST_UNITS = 2**32 - 1
_THREADS = 2
_OCTET = 8
# People in a block: what a pass needs of them stays in one core's cache, beside the sample.
_PEOPLE_IN_BLOCK = 1 << 16
# A block has so many times fewer homes.
_PEOPLE_IN_HOME = 4


@dataclass(frozen=True, slots=True, eq=False)
class Bearings:
    """Where cards stand in a sample: which byte of it, and which bit of that byte. No bit where none is looked for."""

    octets: Numbers
    masks: Values

    @classmethod
    def of(cls, places: Numbers) -> Self:
        """Make it from places with the top bit `JOINED`. Keeps `places` and writes to it: of everybody there is to be one list."""
        masks = np.empty_like(places, np.uint8)
        for first in range(0, len(places), _PEOPLE_IN_BLOCK):
            part, of_part = (each[first : first + _PEOPLE_IN_BLOCK] for each in (places, masks))
            bits = np.right_shift(np.uint8(1 << 7), (part & np.uint32(7)).astype(np.uint8))
            np.multiply(bits, (part >> np.uint32(31)).astype(np.uint8), out=of_part)
            np.bitwise_and(part, np.uint32(_PLACE), out=part)
            np.right_shift(part, np.uint32(3), out=part)
        return cls(places, masks)

    def __len__(self) -> int:
        return len(self.octets)

    def __getitem__(self, part: slice) -> Bearings:
        return Bearings(self.octets[part], self.masks[part])


@dataclass(frozen=True, slots=True, eq=False)
class CardPlaces:
    """Where the cards of everybody stand in the roster of one agency."""

    # One entry for each person number.
    first: Bearings
    # For every further card of a person: the person and the card's place; ascending by person.
    further_persons: Numbers
    further: Bearings
    declared: int

    @classmethod
    def of(cls, places: Numbers, further_persons: Numbers, further_places: Numbers, declared: int) -> Self:
        """Make it from everybody's places with the top bit `JOINED`. Keeps `places` and writes to it."""
        further = Bearings.of(further_places | np.uint32(JOINED))
        return cls(Bearings.of(places), further_persons, further, declared)

    def __post_init__(self) -> None:
        for bearings in (self.first, self.further):
            if len(bearings) and int(bearings.octets.max()) * _OCTET >= self.declared:
                raise _wrong("a card stands beyond the declared places")
        if len(self.further_persons) != len(self.further):
            raise _wrong("a further card has no person or no place")
        if len(self.further_persons) and (
            int(self.further_persons[-1]) >= len(self.first)
            or bool((self.further_persons[1:] < self.further_persons[:-1]).any())
        ):
            raise _wrong("further cards do not ascend by person")


@dataclass(frozen=True, slots=True, eq=False)
class Homes:
    """Everybody's household by person number, and the members of each household one after the other."""

    of_person: Numbers
    count: int
    by_home: Numbers = field(init=False, repr=False)
    # Where the members of each household begin in `by_home`; the last number is where all end.
    starts: Numbers = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.of_person) and int(self.of_person.max()) >= self.count:
            raise _wrong("somebody lives in a household that was never numbered")
        members = np.bincount(self.of_person, minlength=self.count)
        starts = np.concatenate([np.zeros(1, np.uint32), np.cumsum(members, dtype=np.uint32)])
        object.__setattr__(self, "by_home", np.argsort(self.of_person).astype(np.uint32))
        object.__setattr__(self, "starts", starts)

    def most_people(self, homes: int) -> int:
        """Most people in a block of so many homes."""
        edges = np.append(self.starts[:-1:homes], self.starts[-1:])
        return int(np.diff(edges.astype(np.int64)).max(initial=0))


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """A question's cells: one variable of everybody, and the cell of each of its values.

    Where every value has cell 0, as for `all`, it makes no difference which variable it is.
    """

    values: Values
    # 256 of them, `NO_CELL` or below `cells`.
    cell_of_value: Values
    cells: int


class Charges(Protocol):
    """Charges of everybody's subject, in units."""

    def fit(self, here: Bits, active: Bits, *, price: int, most: int) -> None:
        """Fill `active` with those of `here` who may be charged `price` where a subject may be charged `most` in all."""

    def charge(self, active: Bits, price: int) -> None:
        """Charge them. CRASH: call it when the charge is durable: memory is what was made durable, applied in its order."""


class Passes:
    """Two threads and their buffers."""

    def __init__(self, *, people_in_block: int = _PEOPLE_IN_BLOCK) -> None:
        """Blocks are a multiple of 32 people."""
        self.people_in_block = people_in_block
        self.homes_in_block = people_in_block // _PEOPLE_IN_HOME
        if self.homes_in_block % _OCTET:
            raise ValueError("the bits of a block of homes are whole bytes")
        self._memory = [_Memory(people_in_block) for _ in range(_THREADS)]
        self._pool = ThreadPoolExecutor(_THREADS - 1, "desk")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._pool.shutdown()

    def make_room(self, people: int) -> None:
        """Blocks of homes have so many people from now on."""
        self._memory = [_Memory(max(people, self.people_in_block)) for _ in range(_THREADS)]

    @staticmethod
    def bits(size: int) -> Bits:
        """Memory for a set of so many, to be used again from sample to sample."""
        return _prefaulted(-(-size // _OCTET), np.uint8)

    def find(self, sample: Bits, cards: CardPlaces, here: Bits) -> None:
        """Fill `here` with everybody of whom a card is in the sample."""
        if len(sample) * _OCTET != cards.declared:
            raise _wrong("a sample is not as long as the declared places")
        people, block_size = len(cards.first), self.people_in_block
        starts = np.append(np.arange(0, people, block_size), people)
        further = np.searchsorted(cards.further_persons, starts)

        def find_block(memory: _Memory, block: int) -> None:
            first = block * block_size
            bearings = cards.first[first : first + block_size]
            marks = memory.marks[: len(bearings)]
            memory.look_for(sample, bearings, marks)
            for start in range(further[block], further[block + 1], block_size):
                part = slice(start, min(start + block_size, further[block + 1]))
                more = memory.more[: part.stop - part.start]
                memory.look_for(sample, cards.further[part], more)
                # These are the people who have several cards, in any sample.
                np.bitwise_or.at(marks, cards.further_persons[part] - np.uint32(first), more)
            here[_octets(first, len(marks))] = np.packbits(marks)

        self.sweep(find_block, len(starts) - 1)

    def count(self, active: Bits, counted: Counted) -> list[int]:
        """How many of `active` are in each cell.

        SECURITY: the only place where language is looked at. Call it after the charge is durable, never before.
        """
        if not 1 <= counted.cells <= MOST_CELLS:
            raise _wrong("a question has too many cells, or none")
        block_size = self.people_in_block

        def count_block(memory: _Memory, block: int) -> npt.NDArray[np.int64]:
            first = block * block_size
            values = counted.values[first : first + block_size]
            size = len(values)
            index, cells, is_there = memory.index[:size], memory.marks[:size], memory.truths[:size]
            marks = np.unpackbits(active[_octets(first, size)], count=size).view(np.bool_)
            np.copyto(index, values)
            np.take(counted.cell_of_value, index, out=cells, mode="clip")
            counts = np.empty(counted.cells, np.int64)
            for cell in range(counted.cells):
                np.equal(cells, cell, out=is_there)
                np.logical_and(is_there, marks, out=is_there)
                counts[cell] = np.count_nonzero(is_there)
            return counts

        none = np.zeros(counted.cells, np.int64)
        blocks = self.sweep(count_block, -(-len(counted.values) // block_size))
        totals: list[int] = np.sum([none, *blocks], axis=0).tolist()
        return totals

    def sweep(self, work: Callable[[_Memory, int], ResultT], blocks: int) -> Sequence[ResultT]:
        """Do the work for every block, each thread in memory of its own; all results, in no order."""

        def share(thread: int) -> list[ResultT]:
            memory = self._memory[thread]
            return [work(memory, block) for block in range(thread, blocks, _THREADS)]

        others = [self._pool.submit(share, thread) for thread in range(1, _THREADS)]
        # The calling thread does a share itself: handing over takes as long as a small block.
        return [*share(0), *(result for other in others for result in other.result())]


class PersonCharges:
    """A charge for each person, by number. Nothing lowers one."""

    def __init__(self, passes: Passes, charged: Numbers) -> None:
        """Keeps `charged` and writes to it."""
        self.charged = charged
        self._passes = passes

    def fit(self, here: Bits, active: Bits, *, price: int, most: int) -> None:
        room = most - price
        highest = np.uint32(min(max(room, 0), _MOST_UNITS))
        # Below 0 nobody fits, and the passes are the same.
        anybody = np.uint8(room >= 0)

        def fit_block(memory: _Memory, block: int) -> None:
            charged = self._block(block)
            octets = _octets(block * self._passes.people_in_block, len(charged))
            fits = memory.truths[: len(charged)]
            np.less_equal(charged, highest, out=fits)
            marks = np.unpackbits(here[octets], count=len(charged))
            np.bitwise_and(marks, fits.view(np.uint8), out=marks)
            np.bitwise_and(marks, anybody, out=marks)
            active[octets] = np.packbits(marks)

        self._passes.sweep(fit_block, self._blocks)

    def charge(self, active: Bits, price: int) -> None:
        # No charge wraps around: every active subject fitted below a cap that 32 bits hold.
        units = np.uint32(price)

        def charge_block(memory: _Memory, block: int) -> None:
            charged = self._block(block)
            added = memory.numbers[: len(charged)]
            np.copyto(
                added,
                np.unpackbits(active[_octets(block * self._passes.people_in_block, len(charged))], count=len(charged)),
            )
            np.multiply(added, units, out=added)
            np.add(charged, added, out=charged)

        self._passes.sweep(charge_block, self._blocks)

    @property
    def _blocks(self) -> int:
        return -(-len(self.charged) // self._passes.people_in_block)

    def _block(self, block: int) -> Numbers:
        size = self._passes.people_in_block
        return self.charged[block * size : (block + 1) * size]


class HouseholdCharges:
    """A charge for each household, by number: its members in a sample times the price. Nothing lowers one."""

    def __init__(self, passes: Passes, charged: Numbers, homes: Homes) -> None:
        """Keeps `charged` and writes to it."""
        self.charged = charged
        self._passes = passes
        self._homes = homes
        self._fitting = passes.bits(homes.count)
        self._in_block = passes.homes_in_block
        passes.make_room(homes.most_people(self._in_block))

    def fit(self, here: Bits, active: Bits, *, price: int, most: int) -> None:
        people, block_size = self._homes.of_person, self._passes.people_in_block

        def fit_homes(memory: _Memory, block: int) -> None:
            charged = self._block(block)
            size = len(charged)
            after, fits = memory.index[:size], memory.truths[:size]
            np.copyto(after, self._members(here, memory, block))
            # In 64 bits: many members of a large household would wrap around.
            np.multiply(after, price, out=after)
            np.add(after, charged, out=after)
            np.less_equal(after, most, out=fits)
            self._fitting[_octets(block * self._in_block, size)] = np.packbits(fits)

        def fit_people(memory: _Memory, block: int) -> None:
            first = block * block_size
            homes = people[first : first + block_size]
            octets = _octets(first, len(homes))
            marks = memory.marks[: len(homes)]
            memory.look_up(self._fitting, homes, marks)
            np.bitwise_and(marks, np.unpackbits(here[octets], count=len(homes)), out=marks)
            active[octets] = np.packbits(marks)

        self._passes.sweep(fit_homes, self._blocks)
        self._passes.sweep(fit_people, -(-len(people) // block_size))

    def charge(self, active: Bits, price: int) -> None:
        # No charge wraps around: every active person fitted below a cap that 32 bits hold, with all of the household.
        units = np.uint32(price)

        def charge_homes(memory: _Memory, block: int) -> None:
            charged = self._block(block)
            added = self._members(active, memory, block)
            np.multiply(added, units, out=added)
            np.add(charged, added, out=charged)

        self._passes.sweep(charge_homes, self._blocks)

    @property
    def _blocks(self) -> int:
        return -(-self._homes.count // self._in_block)

    def _block(self, block: int) -> Numbers:
        return self.charged[block * self._in_block : (block + 1) * self._in_block]

    def _members(self, chosen: Bits, memory: _Memory, block: int) -> Numbers:
        """How many of `chosen` live in each household of the block; memory that the next block is written over."""
        starts = self._homes.starts[block * self._in_block : (block + 1) * self._in_block + 1]
        people = self._homes.by_home[starts[0] : starts[-1]]
        marks, sums = memory.marks[: len(people)], memory.sums[: len(people) + 1]
        memory.look_up(chosen, people, marks)
        np.cumsum(marks, dtype=np.uint32, out=sums[1:])
        index, edges, members = memory.index[: len(starts)], memory.edges[: len(starts)], memory.numbers
        np.subtract(starts, starts[0], out=edges)
        np.copyto(index, edges)
        np.take(sums, index, out=edges, mode="clip")
        return np.subtract(edges[1:], edges[:-1], out=members[: len(starts) - 1])


class _Memory:
    """The buffers of one thread: every page of them was written, so that no pass waits for the system's memory."""

    def __init__(self, size: int) -> None:
        self.numbers, self.edges, self.sums = (_prefaulted(size + 1, np.uint32) for _ in range(3))
        self.index = _prefaulted(size + 1, np.int64)
        self.marks, self.more, self.shifts = (_prefaulted(size, np.uint8) for _ in range(3))
        self.truths = _prefaulted(size, np.bool_)

    def look_for(self, bits: Bits, bearings: Bearings, marks: Values) -> None:
        """Fill `marks` with something but 0 where the bit is set."""
        index = self.index[: len(bearings)]
        np.copyto(index, bearings.octets)
        # No byte lies outside, so that "clip" clips nothing; "raise" would look first.
        np.take(bits, index, out=marks, mode="clip")
        np.bitwise_and(marks, bearings.masks, out=marks)

    def look_up(self, bits: Bits, numbers: Numbers, marks: Values) -> None:
        """Fill `marks` with the bit of each number, 0 or 1."""
        size = len(numbers)
        octets, index, shifts = self.numbers[:size], self.index[:size], self.shifts[:size]
        np.right_shift(numbers, 3, out=octets)
        np.copyto(index, octets)
        np.take(bits, index, out=marks, mode="clip")
        np.copyto(shifts, numbers, casting="unsafe")
        np.bitwise_and(shifts, 7, out=shifts)
        np.left_shift(marks, shifts, out=marks)
        np.right_shift(marks, 7, out=marks)


def _octets(first: int, size: int) -> slice:
    """Where the bits of so many from `first` on stand, which is a multiple of 8."""
    return slice(first // _OCTET, -(-(first + size) // _OCTET))


def _prefaulted(size: int, kind: type[ScalarT]) -> npt.NDArray[ScalarT]:
    memory = np.empty(size, kind)
    memory.fill(0)
    return memory


def _wrong(problem: str) -> InternalError:
    return InternalError("INTEGRITY", problem=problem)


NO_VALUE = 255
"""The byte of a person who gave no answer, or is not in the load: counted in `all`, in no value."""


@dataclass(frozen=True, eq=False)
class People:
    """One load. The counts say how many numbers were ever given to persons and to households."""

    load: str
    person_count: int
    household_count: int
    # A byte for each person and variable; left in the load's file.
    values: Mapping[str, Values]
    # Gives persons of the load and their households, in any order, a person as often as they have cards.
    members: Callable[[], tuple[Numbers, Numbers]]

    @cached_property
    def homes(self) -> Homes:
        """Everybody's household; made when it is first asked for, which takes a while."""
        numbers = np.arange(self.person_count, dtype=np.uint32)
        # People who are not in the load live somewhere, too: no sample holds them, and every pass goes over them.
        of_person = numbers % np.uint32(max(self.household_count, 1))
        persons, households = self.members()
        of_person[persons] = households
        return Homes(of_person, self.household_count)
