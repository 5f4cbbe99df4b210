"""The claims of ARGUMENT.md, and no more than they claim, in every game that can be played in very small worlds.

Three people: x, who may have two cards, y, who shares x's household, and z, whom the census does not know. Two or three
scales, a cap that pays for one nat, four answers at most. All sequences of questions about all sets of cards are played, with
retries, drops, loads and operator's orders wherever they fit (`fakes.small_worlds`, on the real ledgers and the real state of
the service). The log-odds of the worst transcript is compared exactly with the largest charge that the cap admits.

Mechanisms that look harmless and are not are played in the same games: each of them passes the bound.
"""

from __future__ import annotations

import random  # noqa: TID251 - seeded games, no secret
from fractions import Fraction
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from fakes.small_census import SmallCensus
from fakes.small_worlds import (
    CARDS,
    KEY,
    RELINK,
    Books,
    Game,
    Load,
    Mechanism,
    Row,
    Sample,
    Seen,
    Service,
    Side,
    UnboundedError,
    World,
    books_of,
    carried,
    decided,
    linked_of,
    named,
    pseudonyms,
    rules,
    subsets,
    worst,
)

from broker_common.privacy.accounting import UNITS_PER_NAT, cap_units, param_of, parse_max_belief, price_units
from broker_common.privacy.policy import Policy
from census_node.ledgers import Room
from census_node.linked import NOBODY

CAP = Fraction(1)
HOUSEHOLD = rules(unit="household")

X1, X2, Y = Row("x1", 0, 0), Row("x2", 0, 0), Row("y", 1, 0)
ONE_CARD: Load = (X1, Y)
TWO_CARDS: Load = (X1, X2, Y)
# Whatever HR chooses is the sample in both worlds.
ALL_SETS = tuple((sample, sample) for sample in subsets(CARDS))
WITHOUT_Z = tuple((sample, sample) for sample in subsets(("x1", "x2", "y")))
OF_ONE_CARD = tuple((sample, sample) for sample in subsets(("x1", "y", "z")))


def largest_charge(policy: Policy) -> Fraction:
    """The most that answers can leak whose prices fit into the cap one after the other, in nats."""
    answers = [
        scales
        for number in range(policy.max_answers + 1)
        for scales in combinations_with_replacement(policy.scales, number)
        if sum(map(price_units, scales)) <= policy.cap
    ]
    return max(sum((Fraction(1, scale) for scale in scales), Fraction(0)) for scales in answers)


def french(*loads: Load, who: str = "x") -> World:
    """The loads with the people of some cards speaking French: `x`, or `xy` for the household."""
    return World(
        tuple(
            tuple(row._replace(french=row.card[:1] in who) for row in load) if load != RELINK else load
            for load in loads
        )
    )


def english(*loads: Load) -> World:
    """The loads with nobody speaking French."""
    return World(loads)


def without(world: World, who: str) -> World:
    """The same without some people."""
    return World(
        tuple(tuple(row for row in load if row.card[:1] not in who) if load != RELINK else load for load in world.loads)
    )


def health(
    *mine: tuple[str, ...], others: tuple[str, ...], one: bool = True, other: bool = True
) -> tuple[tuple[Sample, Sample], ...]:
    """What R-only can bring an honest health agency to draw: a criterion that some records match and others do not.

    `mine` are the cards of the secret records. In each of the worlds there is any set of them in the sample, or, where there
    is none of these records, none.
    """
    secret = subsets([card for cards in mine for card in cards])
    return tuple(
        (rest | here, rest | there)
        for rest in subsets(others)
        for here in (secret if one else [frozenset[str]()])
        for there in (secret if other else [frozenset[str]()])
    )


class Claim(NamedTuple):
    """Two worlds, and the most that one can be told from the other by, in caps."""

    name: str
    game: Game
    caps: Fraction = Fraction(1)


def hr(name: str, one: World, other: World, caps: Any = 1, samples: Any = ALL_SETS, **more: Any) -> Claim:
    """A claim against whoever chooses every sample."""
    return Claim(f"HR, {name}", Game(one, other, samples, **more), Fraction(caps))


def r_only(name: str, load: Load, samples: Any, caps: Any = 1, who: str = "x", **more: Any) -> Claim:
    """A claim against researchers: health records are the secret."""
    world = french(load, who=who)
    return Claim(f"R-only, {name}", Game(world, world, samples, **more), Fraction(caps))


THREE_SCALES = rules(scales=(1, 2, 3))
# Its cap pays for a little less than a nat, so that rounding down counts.
HAIR_LESS = rules(max_belief="0.7310", scales=(2, 3))
MOVES: Load = (Row("x1", 2, 1), Y)
MOVES_WITH_NEW_CARD: Load = (Row("x2", 0, 1), Y)
BACK_WITH_NEW_ID: Load = (Row("x1", 2, 1), Y)
Z_HOUSEHOLD: Load = (*TWO_CARDS, Row("z", 2, 1))
LOWER = rules(max_belief="0.63")
STRICT = rules(accounting="strict")
STOP_AND_GO: tuple[tuple[Any, ...], ...] = (("shutdown",), ("reopen",))
TWO_OF_ONE: Load = (X1, Row("x2", 2, 0), Y)

BOUNDED = [
    hr("one card", french(ONE_CARD), english(ONE_CARD), samples=OF_ONE_CARD, policy=THREE_SCALES),
    hr("a cap that is no sum of prices", french(ONE_CARD), english(ONE_CARD), samples=OF_ONE_CARD, policy=HAIR_LESS),
    hr("two cards", french(TWO_CARDS), english(TWO_CARDS)),
    hr("x among French-speaking people", french(TWO_CARDS, who="xy"), french(TWO_CARDS, who="y")),
    hr("x absent from the census", french(TWO_CARDS), without(english(TWO_CARDS), "x")),
    hr("x absent, y French", french(TWO_CARDS, who="xy"), without(french(TWO_CARDS, who="y"), "x")),
    hr("a budget per household, x", french(TWO_CARDS), english(TWO_CARDS), policy=HOUSEHOLD),
    hr("a budget per household, all of it", french(TWO_CARDS, who="xy"), english(TWO_CARDS), policy=HOUSEHOLD),
    hr("a budget per household, mixed", french(TWO_CARDS), french(TWO_CARDS, who="y"), policy=HOUSEHOLD),
    hr("the household absent", french(TWO_CARDS, who="xy"), without(english(TWO_CARDS), "xy"), policy=HOUSEHOLD),
    hr("stopped and reopened", french(TWO_CARDS), english(TWO_CARDS), samples=WITHOUT_Z, commands=STOP_AND_GO),
    hr(
        "policies change",
        french(TWO_CARDS),
        english(TWO_CARDS),
        samples=WITHOUT_Z,
        commands=tuple(("adopt", policy) for policy in (LOWER, STRICT, rules(), HOUSEHOLD)),
    ),
    *(
        hr(name, french(*loads), english(*loads), policy=policy, samples=WITHOUT_Z)
        for name, loads in {
            "the linkage key changes": (TWO_CARDS, RELINK),
            "moves, other id": (ONE_CARD, MOVES),
            "moves, other card": (ONE_CARD, MOVES_WITH_NEW_CARD),
            "leaves and comes back with another id": (ONE_CARD, (Y,), RELINK, BACK_WITH_NEW_ID),
            "gets a second card": (ONE_CARD, TWO_CARDS),
        }.items()
        for policy in (rules(), HOUSEHOLD)
    ),
    hr(
        "the household moves, with other cards",
        french(ONE_CARD, (Row("x2", 0, 1), Row("z", 1, 1)), who="xyz"),
        english(ONE_CARD, (Row("x2", 0, 1), Row("z", 1, 1))),
        policy=HOUSEHOLD,
        samples=tuple((sample, sample) for cards in (("x1", "y"), ("x2", "z")) for sample in subsets(cards)),
    ),
    r_only("x absent", TWO_CARDS, health(("x1", "x2"), others=("y", "z"), other=False)),
    r_only("two records of somebody unknown to the census", (Y,), health(("x1",), others=("y", "z")), caps=0, who="xy"),
    r_only(
        "the household absent",
        Z_HOUSEHOLD,
        health(("x1", "x2", "y"), others=("z",), other=False),
        policy=HOUSEHOLD,
        who="xyz",
    ),
]
# What is not claimed: there is a game that gets this far, and none that gets further.
UNCLAIMED = [
    r_only("two records of x", ONE_CARD, health(("x1",), others=("y", "z")), caps=2),
    r_only("two records of x with two cards", TWO_CARDS, health(("x1", "x2"), others=()), caps=2),
    r_only(
        "x absent, a budget per household",
        ONE_CARD,
        health(("x1",), others=("y",), other=False),
        caps=2,
        who="xy",
        policy=HOUSEHOLD,
    ),
    hr(
        "x absent, a budget per household",
        french(ONE_CARD, who="xy"),
        without(french(ONE_CARD, who="y"), "x"),
        2,
        samples=OF_ONE_CARD,
        policy=HOUSEHOLD,
    ),
    hr("two people", french(ONE_CARD, who="xy"), english(ONE_CARD), 2, samples=OF_ONE_CARD),
    hr("taken for two people", french(TWO_OF_ONE), english(TWO_OF_ONE), 2),
    hr("a second row that contradicts", french(TWO_CARDS), french(ONE_CARD), 2),
    hr(
        "x absent, whose card is y's afterwards",
        french((X1, Y), (Row("x1", 1, 0), Y), who="xy"),
        World((french((Y,), who="y").loads[0], french((Row("x1", 1, 0), Y), who="xy").loads[0])),
        2,
        samples=WITHOUT_Z,
    ),
    hr(
        "a household that was one person's each before",
        french(ONE_CARD, who="xy"),
        english(ONE_CARD),
        2,
        samples=WITHOUT_Z,
        commands=(("adopt", HOUSEHOLD),),
    ),
]


@pytest.mark.parametrize("claim", BOUNDED + UNCLAIMED, ids=lambda claim: claim.name)
def test_no_game_passes_the_bound_and_the_best_reaches_it(claim: Claim) -> None:
    """The worst odds of all games are e to the largest charge that fits, or to twice that where no more is claimed."""
    largest = largest_charge(claim.game.policy)
    reached = worst(claim.game)
    assert reached == claim.caps * largest
    assert reached * UNITS_PER_NAT <= claim.caps * cap_units(param_of(parse_max_belief(claim.game.policy.max_belief)))


def test_the_largest_charge_fills_the_cap() -> None:
    """What the games are compared with is not less than the cap by as much as any answer costs."""
    for policy in (rules(), THREE_SCALES, HAIR_LESS):
        left = policy.cap - int(largest_charge(policy) * UNITS_PER_NAT)
        assert 0 <= left < price_units(policy.scales[-1])
    assert largest_charge(rules()) == CAP


# --- the games and the product ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy", [rules(max_answers=0), rules(max_answers=0, unit="household")], ids=lambda policy: policy.unit
)
@pytest.mark.parametrize(
    "loads",
    [
        (TWO_CARDS, RELINK, MOVES),
        (ONE_CARD, MOVES_WITH_NEW_CARD),
        (ONE_CARD, (Y,), BACK_WITH_NEW_ID),
        (TWO_OF_ONE, TWO_CARDS),
    ],
    ids=["moves", "moves with a new card", "comes back", "two who are one"],
)
def test_a_real_node_plays_the_same_games(tmp_path: Path, loads: tuple[Load, ...], policy: Policy) -> None:
    """Charge by charge and load by load: who fits, who is active, and what everybody was charged, after crashes, too."""
    chance, world = random.Random(repr((loads, policy.unit))), World(loads)
    census = SmallCensus(tmp_path, policy, list(pseudonyms(0).values()), units_of(loads[0]))
    books = Books(
        (0,) * len(CARDS), (0,) * census.make_registry("").person_count, (0,) * census.make_registry("").household_count
    )
    for at, load in enumerate(loads):
        if at:
            before, books = books, carried(world, at, books)
            if load == RELINK:
                # Everybody's charge under their next pseudonym, theirs included whom the census does not know.
                assert carried(world, at, before) == before
                census.follow(KEY)
            else:
                census.replace_load(units_of(load))
        for _ in range(6):
            sample, scale = chance.choice(subsets(CARDS)[1:]), chance.choice(policy.scales)
            room = Room(price_units(scale), policy.cap, policy.unit)
            books, fits, active, _ = decided(world, at, books, sample, room)
            order = census.order(scale=scale)
            people = linked_of(world, at, sample).pseudonyms
            census.answer(order, census.sample(order, people))
            decision = census.decision(order.hash, len(people))
            assert (named(world, at, sample, decision.fits), named(world, at, sample, decision.active)) == (
                fits,
                active,
            )
        census.crash_census().recover()
        with census.census.book.charging(), census.census.journal.reading() as state:
            assert books_of(world, at, census.census.book.current(census.census.journal.db, state)) == books
    census.close()


def units_of(load: Load) -> list[tuple[int, int] | None]:
    """Person and household of each card, in the order of the cards."""
    rows = {row.card: (row.person, row.household) for row in load}
    return [rows.get(card) for card in CARDS]


# --- naive mechanisms ------------------------------------------------------------------------------------------------


class RefusesAloud(Mechanism):
    """Says so when somebody in the sample is exhausted, instead of leaving them out."""

    def ask(self, service: Service, world: World, at: int, side: Side, sample: Sample, scale: int) -> tuple[Seen, Side]:
        active = decided(world.units, at, side.books, sample, service.room(scale))[2]
        return super().ask(service, world, at, side, sample, scale) if active == sample else (Seen("refused"), side)


class TellsDrops(Mechanism):
    """Tells the health agency who did not fit in the first ledger, which it could have computed."""

    def ask(self, service: Service, world: World, at: int, side: Side, sample: Sample, scale: int) -> tuple[Seen, Side]:
        fits = decided(world.units, at, side.books, sample, service.room(scale))[1]
        seen, after = super().ask(service, world, at, side, sample, scale)
        return seen._replace(said=(seen.said, fits)), after


class ChargesAfterLinkage(TellsDrops):
    """Does the same, and keeps its first ledger of those alone whom the census knows."""

    def ask(self, service: Service, world: World, at: int, side: Side, sample: Sample, scale: int) -> tuple[Seen, Side]:
        seen, after = super().ask(service, world, at, side, sample, scale)
        is_known = [bool((linked_of(world.units, at, frozenset([card])).persons != NOBODY).all()) for card in CARDS]
        submitted = [now if known else 0 for now, known in zip(after.books.submitted, is_known, strict=True)]
        return seen, Side(after.books._replace(submitted=tuple(submitted)))


def _left(service: Service, books: Books) -> list[int]:
    return [service.room(1).most - units for units in books.persons]


class ShutsDownOnAShare(Mechanism):
    """Ends the service when half of the people in the census are exhausted."""

    def shown(self, service: Service, world: World, side: Side) -> bool:
        people = len({row.person for row in world.loads[0]})
        gone = sum(left < price_units(service.policy.scales[-1]) for left in _left(service, side.books))
        return gone * 2 >= people


class QuotesWhatIsLeft(Mechanism):
    """Says how many answers are left before the first person is exhausted."""

    def shown(self, service: Service, world: World, side: Side) -> int:
        del world
        return min(_left(service, side.books), default=0) // price_units(service.policy.scales[-1])


class CachesAnswers(Mechanism):
    """Gives the answer to the same people's question again, for nothing."""

    def ask(self, service: Service, world: World, at: int, side: Side, sample: Sample, scale: int) -> tuple[Seen, Side]:
        asked: tuple[tuple[Sample, int], ...] = side.memory or ()
        if (sample, scale) in asked:
            return Seen(("as before", asked.index((sample, scale)))), side
        seen, after = super().ask(service, world, at, side, sample, scale)
        return seen, Side(after.books, (*asked, (sample, scale)))


class DrawsAgain(Mechanism):
    """Draws other noise when a ticket is handed in again, which costs nothing."""

    def ask(self, service: Service, world: World, at: int, side: Side, sample: Sample, scale: int) -> tuple[Seen, Side]:
        seen, after = super().ask(service, world, at, side, sample, scale)
        return seen, Side(after.books, seen)

    def retry(self, service: Service, side: Side) -> Seen:
        del service
        seen: Seen = side.memory
        return seen


class ChargesCards(Mechanism):
    """Has no second ledger: what is charged are cards."""

    def ask(self, service: Service, world: World, at: int, side: Side, sample: Sample, scale: int) -> tuple[Seen, Side]:
        seen, after = super().ask(service, world, at, side, sample, scale)
        return seen, Side(after.books._replace(persons=side.books.persons, households=side.books.households))


class ChargesHouseholdsOnce(Mechanism):
    """Charges a household one price, however many of its people are counted."""

    def ask(self, service: Service, world: World, at: int, side: Side, sample: Sample, scale: int) -> tuple[Seen, Side]:
        seen, after = super().ask(service, world, at, side, sample, scale)
        households = np.minimum(after.books.households, np.array(side.books.households) + price_units(scale))
        return seen, Side(after.books._replace(households=tuple(households.tolist())))


class ForgetsAtALoad(Mechanism):
    """Gives whoever has another unit in a new load that unit's charge alone."""

    def load(self, world: World, at: int, side: Side) -> Side:
        after = super().load(world, at, side).books
        persons, households = (
            tuple(before[: len(now)]) + (0,) * (len(now) - len(before))
            for before, now in ((side.books.persons, after.persons), (side.books.households, after.households))
        )
        return Side(Books(after.submitted, persons, households))


HEALTH_OF_X = health(("x1", "x2"), others=("y", "z"), other=False)
OUT_OF_BOUNDS = [
    r_only("refusing aloud", TWO_CARDS, HEALTH_OF_X, mechanism=RefusesAloud()),
    hr("refusing aloud", french(TWO_CARDS), without(english(TWO_CARDS), "x"), mechanism=RefusesAloud()),
    hr("charging after linkage", french(ONE_CARD), without(english(ONE_CARD), "x"), mechanism=ChargesAfterLinkage()),
    r_only("shutting down on a share", TWO_CARDS, HEALTH_OF_X, mechanism=ShutsDownOnAShare()),
    hr("shutting down on a share", french(ONE_CARD), without(english(ONE_CARD), "x"), mechanism=ShutsDownOnAShare()),
    r_only("quoting what is left", TWO_CARDS, HEALTH_OF_X, mechanism=QuotesWhatIsLeft()),
    r_only("an answer cache", TWO_CARDS, HEALTH_OF_X, mechanism=CachesAnswers()),
    hr("noise drawn again", french(ONE_CARD), english(ONE_CARD), mechanism=DrawsAgain()),
]
TOO_FAR = [
    hr("cards are charged", french(TWO_CARDS), english(TWO_CARDS), 2, mechanism=ChargesCards()),
    hr(
        "households are charged once",
        french(ONE_CARD, who="xy"),
        english(ONE_CARD),
        Fraction(3, 2),
        samples=OF_ONE_CARD,
        policy=HOUSEHOLD,
        mechanism=ChargesHouseholdsOnce(),
    ),
    hr(
        "loads forget persons",
        french(ONE_CARD, MOVES_WITH_NEW_CARD),
        english(ONE_CARD, MOVES_WITH_NEW_CARD),
        2,
        samples=WITHOUT_Z,
        policy=HOUSEHOLD,
        mechanism=ForgetsAtALoad(),
    ),
    hr(
        "loads forget households",
        french(ONE_CARD, (Row("x2", 2, 0), Y)),
        english(ONE_CARD, (Row("x2", 2, 0), Y)),
        2,
        samples=WITHOUT_Z,
        mechanism=ForgetsAtALoad(),
    ),
]


@pytest.mark.parametrize("claim", OUT_OF_BOUNDS, ids=lambda claim: claim.name)
def test_naive_mechanisms_are_bounded_by_nothing(claim: Claim) -> None:
    """What sounds helpful is said in one world and not in the other, or may be asked for without end."""
    with pytest.raises(UnboundedError):
        worst(claim.game)


@pytest.mark.parametrize("claim", TOO_FAR, ids=lambda claim: claim.name)
def test_naive_ledgers_pass_the_bound(claim: Claim) -> None:
    """What is not charged to whom it is about is learned about them once more."""
    assert worst(claim.game) == claim.caps * CAP


def test_drops_of_the_first_ledger_tell_the_health_agency_nothing() -> None:
    """It knows what it submitted, found in the census or not, and nothing else decides them."""
    game = Game(french(TWO_CARDS), without(english(TWO_CARDS), "x"), ALL_SETS, TellsDrops())
    assert worst(game) == CAP


def test_a_budget_per_household_does_not_begin_after_strict_answers() -> None:
    """They do not say how many of a household they counted: one more answer about two people would pass the cap."""
    begun = Service.begin(STRICT)
    assert begun.after("adopt", HOUSEHOLD) is not None
    answered = begun.charged(2).after("adopt", rules())
    assert answered is not None
    assert answered.after("adopt", HOUSEHOLD) is None
