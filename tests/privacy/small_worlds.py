"""Worlds so small that every game an adversary can play in them is played, on the real rules of charging and dropping.

Two worlds differ in what the adversary is not to know. They are walked through in step: whatever is asked, loaded or ordered, both say
something. If they do not say the same, noise apart, one transcript has proved the world: no bound. If both answer, with true counts c and c'
of one cell or of several, the transcript whose noisy counts are c is e^(norm(c - c') / b) times as likely in one of them, and no other is more
(ARGUMENT.md 2). The next question may depend on every noisy count that came before; since neither refusals nor drops do, the worst transcript
of all adaptive games is the worst of all sequences, and its log-odds are the sum, kept as a fraction of a nat.

Real are: the ledger (`census_node.ledger`), what loads carry over and how cards are joined and counted
(`census_node.ledger.subjects`, `census_node.registry`), prices and caps (`broker_common.privacy`), and the service's own state with
its policies, ends and orders (`broker_common.tlog.census_state`, `census_node.query.budget.verify_affordable`). What
`census_node.query.charging` does with them is done here in the same order; `tests/privacy/test_small_worlds.py` replays games
on a real node. There is one roster, of all cards.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, cached_property
from itertools import chain, combinations
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from fakes import logs
from fakes.desk_arrays import bits_of, cards_by_person, members
from fakes.dictionaries import CENSUS_DICTIONARY
from fakes.randomness import SeededRandomness

from broker_common.crypto.linkage import LinkageKey
from broker_common.errors import RefusedError
from broker_common.privacy.accounting import price
from broker_common.privacy.policy import Policy, Subject
from broker_common.privacy.table_laplace import norm
from broker_common.query.question import REST, Cell, Question
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import Entry, Event, Shutdown
from broker_common.tlog.replay import ReplayError
from census_node.ledger.accounts import Ledger
from census_node.ledger.book import Room, room_for
from census_node.ledger.passes import Bits, Passes
from census_node.ledger.subjects import Cards, Carry, Known
from census_node.query.budget import verify_affordable
from census_node.registry import Registry
from census_node.registry.joining import JoinedRoster, join
from census_node.registry.registry import counted
from census_node.registry.rosters import KeptRoster

ORGANISATION = "health-on"
CARDS = ("x1", "x2", "y", "z", "y2", "z2")
"""Cards of a person x, who may have two; of y; and of z, whom the census may never have heard of. Some games need two of each."""
KEY = LinkageKey(bytes(range(32)))
# Noise slots of a service.
_MOST_ANSWERS = 100
FRENCH = Question("mother_tongue", (Cell(("French",)),))
TABLE = Question("mother_tongue", (Cell(("English",)), Cell(("French",))))
SHARE = Question("mother_tongue", (Cell(("French",)), REST))
# Places of the roster.
_DECLARED = 8

Sample: TypeAlias = frozenset[str]


class Row(NamedTuple):
    """A card in a load, with the numbers of its person and household. An address has one row for each of its people."""

    card: str
    person: int
    household: int
    french: bool = False


Load: TypeAlias = tuple[Row, ...]
RELINK: Load = (Row("", 0, 0),)
"""Stands among loads for a change of the linkage key."""


@dataclass(frozen=True, eq=False)
class World:
    """Loads of the census agency, one after the other; the adversary says when."""

    loads: tuple[Load, ...]

    @cached_property
    def numbers(self) -> World:
        """The same without languages, which no ledger ever sees: one object for all worlds that differ in them alone."""
        return _world(tuple(tuple(row._replace(french=False) for row in load) for load in self.loads))


@cache
def _world(loads: tuple[Load, ...]) -> World:
    return World(loads)


class Books(NamedTuple):
    """The ledger as a value: who is a subject, and what each of them was charged, by number. None before the first charge."""

    subject: Subject | None
    charged: tuple[int, ...]


NO_CHARGES = Books(None, ())


# --- the agency's side -----------------------------------------------------------------------------------------------


@cache
def pseudonyms(relinks: int) -> dict[str, bytes]:
    """Pseudonyms by card, after so many changes of the linkage key."""
    if not relinks:
        return {card: bytes([32 * place]) + bytes(14) + bytes([place]) for place, card in enumerate(CARDS)}
    before = pseudonyms(relinks - 1)
    stepped = KEY.step(np.frombuffer(b"".join(before.values()), np.uint8).reshape(-1, 16))
    return {card: row.tobytes() for card, row in zip(before, stepped, strict=True)}


def _relinks(world: World, at: int) -> int:
    return world.loads[: at + 1].count(RELINK)


def _rows(world: World, at: int) -> Load:
    return next(load for load in reversed(world.loads[: at + 1]) if load != RELINK)


@cache
def registry(world: World, at: int) -> Registry:
    """Registry in force after load `at`."""
    names = pseudonyms(_relinks(world, at))
    rows = sorted(_rows(world, at), key=lambda row: names[row.card])
    halves = np.frombuffer(b"".join(names[row.card] for row in rows), ">u8").reshape(-1, 2).astype(np.uint64)
    persons, households = _counts(world, at)
    by_person = np.zeros(persons, np.uint8)
    by_person[[row.person for row in rows]] = [row.french for row in rows]
    return Registry.of(
        "load1",
        Cards(
            halves[:, 0].copy(),
            halves[:, 1].copy(),
            np.array([row.person for row in rows], np.uint32),
            np.array([row.household for row in rows], np.uint32),
        ),
        dict.fromkeys(CENSUS_DICTIONARY.names, by_person),
        persons,
        households,
        CENSUS_DICTIONARY,
    )


@cache
def known(world: World, at: int) -> Known:
    """Memory of cards and people once load `at` is in force."""
    if at < 0:
        return Known.none()
    now, before = registry(world, at), known(world, at - 1)
    if world.loads[at] == RELINK:
        return Known(now.cards, before.former.relinked([KEY]), before.homes)
    homes = np.zeros(max(now.person_count, len(before.homes)), np.uint32)
    homes[: len(before.homes)] = before.homes
    homes[now.cards.persons] = now.cards.households
    return Known(now.cards, before.former_after(now.cards), homes)


def _counts(world: World, at: int) -> tuple[int, int]:
    rows = [row for load in world.loads[: at + 1] if load != RELINK for row in load]
    return 1 + max((row.person for row in rows), default=-1), 1 + max((row.household for row in rows), default=-1)


def ledger_of(world: World, at: int, books: Books) -> Ledger:
    """A real ledger that holds these charges."""
    return Ledger(*_counts(world, at), np.array(books.charged, np.uint32))


# Blocks of a few: of everybody here.
_PASSES = Passes(people_in_block=32)


def names_of(world: World, at: int, sample: Sample) -> npt.NDArray[np.uint8]:
    """The pseudonyms of a sample, ascending."""
    names = pseudonyms(_relinks(world, at))
    return np.frombuffer(b"".join(sorted(names[card] for card in sample)), np.uint8).reshape(-1, 16)


def _places(relinks: int) -> dict[str, int]:
    """Where each card stands in the roster of everybody."""
    names = pseudonyms(relinks)
    return {card: place for place, card in enumerate(sorted(names, key=lambda card: names[card]))}


@cache
def joined(world: World, at: int) -> JoinedRoster:
    """The roster of all cards on load `at`."""
    names = names_of(world, at, frozenset(CARDS))
    roster = KeptRoster(ORGANISATION, 1, "", "", "", "00", _DECLARED, len(names), "", 0)
    return join(roster, [names], registry(world, at), SeededRandomness("roster"))


@cache
def _owners(world: World, at: int) -> dict[str, set[int]]:
    """Owner of each card that has one; an address has several."""
    owners: dict[int, set[int]] = defaultdict(set)
    for person, places in cards_by_person(joined(world, at).cards).items():
        for place in places:
            owners[place].add(person)
    return {card: owners[place] for card, place in _places(_relinks(world, at)).items() if place in owners}


def named(world: World, at: int, sample: Sample, active: Collection[int] | None = None) -> Sample:
    """The cards of a sample whose persons are among those active; without `active`, all that are somebody's."""
    owners = _owners(world, at)
    return frozenset(card for card in sample if card in owners and (active is None or owners[card] <= set(active)))


def _here(world: World, at: int, sample: Sample) -> Bits:
    """Everybody of whom a card is in the sample."""
    places, roster = _places(_relinks(world, at)), joined(world, at)
    here = _PASSES.bits(len(roster.cards.first))
    _PASSES.find(bits_of([places[card] for card in sample], _DECLARED), roster.cards, here)
    return here


@cache
def decided(world: World, at: int, books: Books, sample: Sample, room: Room) -> tuple[Books, Sample]:
    """Result of one charge: the ledger after it, and whose cards are counted."""
    ledger, people = ledger_of(world, at, books), registry(world, at).people
    charges = ledger.charges(room.subject, _PASSES, people.load, lambda: people.homes)
    active = _PASSES.bits(people.person_count)
    charges.fit(_here(world, at, sample), active, price=room.price, most=room.most)
    charges.charge(active, room.price)
    counted_persons = members(active, people.person_count)
    return Books(room.subject, tuple(ledger.charged.tolist())), named(world, at, sample, counted_persons)


@cache
def carried(world: World, at: int, books: Books) -> Books:
    """The ledger once load `at` is in force. A change of the linkage key leaves it as it is."""
    if world.loads[at] == RELINK:
        return books
    carry = Carry.between(known(world, at - 1), registry(world, at).cards, *_counts(world, at))
    after = ledger_of(world, at - 1, books).after_load(carry, books.subject)
    return Books(books.subject, tuple(after.charged.tolist()))


@cache
def count(world: World, at: int, active: Sample, question: Question) -> tuple[int, ...]:
    """How many people among these cards are in each cell."""
    return tuple(_PASSES.count(_here(world, at, active), counted(registry(world, at), question)))


# --- the service -----------------------------------------------------------------------------------------------------


def rules(**changes: Any) -> Policy:
    """A policy that pays for one nat and a hair, and ends after four answers."""
    # ln(.7311 / .2689) is 1.0002.
    fields = {"accounting": "per_person", "max_belief": "0.7311", "scales": (1, 2), "max_answers": 4}
    return logs.policy(**fields | changes)


class Service:
    """Public state of the service: its log, folded by the real rules. Never changed; `after` gives another one."""

    _all: dict[tuple[Any, ...], Service] = {}  # noqa: RUF012 - equal services are one object

    def __init__(self, state: CensusState) -> None:
        self.state = state
        self._next: dict[tuple[Any, ...], Service | None] = {}
        self._rooms: dict[int, Room] = {}

    @classmethod
    def begin(cls, policy: Policy) -> Service:
        """A service that has answered nothing."""
        state = logs.census_state()
        for event in _beginning_of(policy):
            _take(state, event)
        return cls._known(state)

    @classmethod
    def _known(cls, state: CensusState) -> Service:
        # How long the log is makes no difference to what may come next.
        spent = (state.answers, state.charged_units, state.common_units)
        key = (state.policy_hash, state.shutdown_reason, spent, state.subject)
        return cls._all.setdefault(key, cls(state))

    @property
    def policy(self) -> Policy:
        assert self.state.policy is not None
        return self.state.policy

    def room(self, scale: int) -> Room:
        """Price of an answer, and the most that anyone may be charged."""
        if scale not in self._rooms:
            room = room_for(self.state, price(scale))
            assert room is not None
            self._rooms[scale] = room
        return self._rooms[scale]

    def refusal(self, scale: int) -> str:
        """The code that a question is refused with before anybody is looked at; empty if it is answered."""
        if scale not in self.policy.scales:
            return "SCALE_REFUSED"
        try:
            verify_affordable(self.state, scale)
        except RefusedError as error:
            return error.code
        return ""

    def charged(self, scale: int) -> Service:
        """After one more answer."""
        after = self.after("charge", scale)
        assert after is not None, "what was affordable is charged"
        return after

    def after(self, *command: Any) -> Service | None:
        """After a command; None if the log does not take it."""
        if command not in self._next:
            self._next[command] = self._after(*command)
        return self._next[command]

    def _after(self, kind: str, *given: Any) -> Service | None:
        state = _copied(self.state)
        try:
            for event in self._events(state, kind, *given):
                _take(state, event)
            if state.must_shut_down:
                _take(state, Shutdown(reason="budget", note=""))
        except ReplayError:
            return None
        return self._known(state)

    def _events(self, state: CensusState, kind: str, *given: Any) -> Iterator[Event]:
        match kind:
            case "charge":
                ledger = "" if self.policy.accounting == "strict" else logs.hash_of(99)
                yield logs.charged(state.answers, before=state.charged_units, scale=given[0], ledger=ledger)
            case "charge again":
                # A ticket that was charged before, on a slot that is still open.
                fresh = logs.charged(state.answers, before=state.charged_units, scale=given[0], ledger=logs.hash_of(99))
                yield logs.charged(0, before=state.charged_units, scale=given[0], slot=fresh.slot, ledger=fresh.ledger)
            case "shutdown":
                yield logs.shut_down(state)
            case "reopen":
                yield logs.reopened(state)
            case "adopt":
                weaker = given[0].weakens(self.policy)
                yield logs.confirmed(state, given[0]) if weaker else logs.adopted(given[0])
            case _:
                raise AssertionError(kind)


def _beginning_of(policy: Policy) -> tuple[Event, ...]:
    """A log with one roster of one load."""
    store = (logs.loaded(), logs.rostered(), logs.slots(count=_MOST_ANSWERS))
    return *logs.beginning(), logs.adopted(policy), *store


def _take(state: CensusState, event: Event) -> None:
    state.apply(Entry(sequence=state.size, time_ms=0, policy=state.policy_hash, event=event))


def _copied(state: CensusState) -> CensusState:
    """Another state, as long as nobody joins or leaves."""
    other = copy.copy(state)
    for name, value in vars(state).items():
        if isinstance(value, dict):
            setattr(other, name, dict(value))
    return other


# --- what is said ----------------------------------------------------------------------------------------------------


class Seen(NamedTuple):
    """The adversary's view of one step: the words without noise, and the counts that the noise is added to."""

    said: Any
    people: tuple[int, ...] = ()
    scale: int = 1


@dataclass(frozen=True)
class Side:
    """One of the two worlds as far as the game has come: its ledger, and whatever else a mechanism remembers."""

    books: Books
    memory: Any = None


class Mechanism:
    """The product's rules, for questions of one kind. Naive ones override a step."""

    def __init__(self, question: Question = FRENCH) -> None:
        self.question = question

    def counts(self, world: World, at: int, active: Sample) -> tuple[int, ...]:
        """Counts before noise."""
        return count(world, at, active, self.question)

    def steps(self, difference: Sequence[int]) -> int:
        """Number of steps of the noise's norm by which two worlds differ."""
        return norm(difference)

    def ask(self, service: Service, world: World, at: int, side: Side, sample: Sample, scale: int) -> tuple[Seen, Side]:
        """One question about a sample. Whether it is refused was decided before, and depends on nobody."""
        if service.policy.accounting == "strict":
            return Seen("answer", self.counts(world, at, sample), scale), side
        books, active = decided(world.numbers, at, side.books, sample, service.room(scale))
        return Seen("answer", self.counts(world, at, active), scale), Side(books, side.memory)

    def retry(self, service: Service, side: Side) -> Seen:
        """The ticket that was charged last, once more."""
        del side
        # The very bytes that went out before: the log takes no second charge, and without one nothing is drawn.
        assert service.after("charge again", service.policy.scales[-1]) is None
        return Seen("the same answer")

    def load(self, world: World, at: int, side: Side) -> Side:
        """Load `at` is put in force."""
        return Side(carried(world.numbers, at, side.books), side.memory)

    def shown(self, service: Service, world: World, side: Side) -> Any:
        """Public view of the service at any time."""
        del service, world, side
        return ""


# --- games -----------------------------------------------------------------------------------------------------------


def subsets(cards: Sequence[str]) -> list[Sample]:
    """Every set of these cards."""
    return [
        frozenset(chosen) for chosen in chain.from_iterable(combinations(cards, size) for size in range(len(cards) + 1))
    ]


@dataclass(frozen=True)
class Game:
    """Two worlds, and what the adversary may do in them."""

    one: World
    other: World
    # A question's sample in the one world and in the other.
    samples: tuple[tuple[Sample, Sample], ...]
    mechanism: Mechanism = field(default_factory=Mechanism)
    policy: Policy = field(default_factory=rules)
    # Orders that the operator may be brought to give, and how often in all.
    commands: tuple[tuple[Any, ...], ...] = ()
    most_commands: int = 2


class UnboundedError(Exception):
    """Some transcript is possible in one world alone, or a game can be won again and again."""


_NOTHING = Fraction(0)
_Place: TypeAlias = "tuple[Service, int, Side, Side, int]"


def worst(game: Game) -> Fraction:
    """The log-odds of the worst transcript of all games, in nats.

    Raises:
        UnboundedError: there is no worst one.
    """
    found: dict[_Place, Fraction] = {}

    def search(place: _Place) -> Fraction:
        if place not in found:
            best = Fraction(0)
            for gain, after in _steps(game, place):
                if after == place:
                    if gain:
                        raise UnboundedError(gain)
                else:
                    best = max(best, gain + search(after) if gain else search(after))
            found[place] = best
        return found[place]

    return search(_beginning(game))


def played(game: Game, moves: Iterable[tuple[tuple[Sample, Sample], int] | None]) -> Fraction:
    """The log-odds of one game, in nats: questions, each a sample in both worlds and a scale, and None for the next load."""
    place, total = _beginning(game), Fraction(0)
    for move in moves:
        gain, place = _loaded(game, place) if move is None else _asked(game, place, *move)
        total += gain
    return total


def _beginning(game: Game) -> _Place:
    side = Side(NO_CHARGES)
    return Service.begin(game.policy), 0, side, side, game.most_commands


def _steps(game: Game, place: _Place) -> Iterator[tuple[Fraction, _Place]]:
    service, at, one, other, commands = place
    mechanism = game.mechanism
    if mechanism.shown(service, game.one, one) != mechanism.shown(service, game.other, other):
        raise UnboundedError(place)
    for scale in sorted({scale for rule in _policies(game) for scale in rule.scales}):
        if service.refusal(scale):
            # In both worlds alike: nothing that differs has been asked.
            continue
        for samples in game.samples:
            yield _asked(game, place, samples, scale)
    if service.state.answers:
        yield _gain(mechanism, mechanism.retry(service, one), mechanism.retry(service, other)), place
    if at + 1 < len(game.one.loads):
        yield _loaded(game, place)
    for command in game.commands if commands else ():
        ordered = service.after(*command)
        if ordered is not None:
            yield Fraction(0), (ordered, at, one, other, commands - 1)


def _asked(game: Game, place: _Place, samples: tuple[Sample, Sample], scale: int) -> tuple[Fraction, _Place]:
    service, at, one, other, commands = place
    seen, one_after = game.mechanism.ask(service, game.one, at, one, samples[0], scale)
    also, other_after = game.mechanism.ask(service, game.other, at, other, samples[1], scale)
    return _gain(game.mechanism, seen, also), (service.charged(scale), at, one_after, other_after, commands)


def _loaded(game: Game, place: _Place) -> tuple[Fraction, _Place]:
    service, at, one, other, commands = place
    one_loaded, other_loaded = (
        game.mechanism.load(world, at + 1, side) for world, side in ((game.one, one), (game.other, other))
    )
    return Fraction(0), (service, at + 1, one_loaded, other_loaded, commands)


def _policies(game: Game) -> list[Policy]:
    return [game.policy, *(command[1] for command in game.commands if command[0] == "adopt")]


def _gain(mechanism: Mechanism, seen: Seen, also: Seen) -> Fraction:
    if (seen.said, seen.scale) != (also.said, also.scale):
        raise UnboundedError((seen, also))
    if seen.people == also.people:
        return _NOTHING
    difference = [one - other for one, other in zip(seen.people, also.people, strict=True)]
    return Fraction(mechanism.steps(difference), seen.scale)
