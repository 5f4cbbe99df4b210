"""The claims of ARGUMENT.md, and no more than they claim, in every game that can be played in very small worlds.

Three people: x, who may have two cards, y, who shares x's household, and z, whom the census may not know. Two or three
scales, a cap that pays for one nat, four answers at most. All sequences of questions about all sets of cards are played, with
retries, drops, loads and operator's orders wherever they fit (`privacy.small_worlds`, on the real ledger and the real state of
the service). The log-odds of the worst transcript is compared exactly with the largest charge that the cap admits. ARGUMENT.md
names each game: one that reaches no more than one cap by what stands before the colon, another one by its name and figure.

Mechanisms that look harmless and are not are played in the same games: each of them passes the bound.
"""

from __future__ import annotations

import random  # noqa: TID251 - seeded games, no secret
import re
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from fakes.dictionaries import CENSUS_DICTIONARY
from fakes.registries import SALT
from privacy.small_worlds import (
    CARDS,
    KEY,
    NO_CHARGES,
    RELINK,
    SHARE,
    TABLE,
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
    carried,
    decided,
    named,
    names_of,
    played,
    pseudonyms,
    rules,
    subsets,
    worst,
)
from properties.small_census import SmallCensus

from broker_common.crypto.linkage import LinkageChain
from broker_common.privacy.accounting import UNITS_PER_NAT, cap_units, param_of, parse_max_belief, price
from broker_common.privacy.policy import Policy
from broker_common.storage.source.plan import PlainPlan
from census_node.ledger.book import Room
from census_node.ledger.subjects import Names
from census_node.registry.loading import id_columns, read_registry
from deploy.synthetic.cards import card_digits

CAP = Fraction(1)
HOUSEHOLD = rules(subject="household")

X1, X2, Y = Row("x1", 0, 0), Row("x2", 0, 0), Row("y", 1, 0)
ONE_CARD: Load = (X1, Y)
TWO_CARDS: Load = (X1, X2, Y)
# Whatever HR chooses is the sample in both worlds.
ALL_SETS = tuple((sample, sample) for sample in subsets(("x1", "x2", "y", "z")))
WITHOUT_Z = tuple((sample, sample) for sample in subsets(("x1", "x2", "y")))
OF_ONE_CARD = tuple((sample, sample) for sample in subsets(("x1", "y", "z")))
OF_TWO_CARDS = tuple((sample, sample) for sample in subsets(("x1", "x2")))
OF_TWO_PEOPLE = tuple((sample, sample) for sample in subsets(("x1", "y")))


def largest_charge(policy: Policy) -> Fraction:
    """The most that answers can leak whose prices fit into the cap one after the other, in nats."""
    answers = [
        scales
        for number in range(policy.max_answers + 1)
        for scales in combinations_with_replacement(policy.scales, number)
        if sum(map(price, scales)) <= policy.cap
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


def spoken_by_x(load: Load) -> World:
    """The load with person 0 speaking French, whatever their cards are."""
    return World((tuple(row._replace(french=row.person == 0) for row in load),))


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
    """Samples that R-only can bring an honest health agency to draw: by a criterion that some records match and others do not.

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
    """A claim against an adversary who chooses every sample."""
    return Claim(f"HR, {name}", Game(one, other, samples, **more), Fraction(caps))


def r_only(
    name: str,
    load: Load,
    samples: Any,
    caps: Any = 1,
    who: str = "x",
    then: tuple[Load, ...] = (),
    there: World | None = None,
    **more: Any,
) -> Claim:
    """A claim against researchers: health records are the secret. The census is the same `there`, unless said otherwise."""
    world = french(load, *then, who=who)
    return Claim(f"R-only, {name}", Game(world, there or world, samples, **more), Fraction(caps))


THREE_SCALES = rules(scales=(1, 2, 3))
# Its cap pays for a little less than a nat, so that rounding down counts.
HAIR_LESS = rules(max_belief="0.7310", scales=(2, 3))
LOWER = rules(max_belief="0.63")
STRICT = rules(accounting="strict")
STOP_AND_GO: tuple[tuple[Any, ...], ...] = (("shutdown",), ("reopen",))

MOVES: Load = (Row("x1", 2, 1), Y)
MOVES_WITH_NEW_CARD: Load = (Row("x2", 0, 1), Y)
BACK_WITH_NEW_ID: Load = (Row("x1", 2, 1), Y)
LIVES = {
    "the linkage key changes": (TWO_CARDS, RELINK),
    "moves, other id": (ONE_CARD, MOVES),
    "moves, other card": (ONE_CARD, MOVES_WITH_NEW_CARD),
    "leaves and comes back with another id": (ONE_CARD, (Y,), RELINK, BACK_WITH_NEW_ID),
    "gets a second card": (ONE_CARD, TWO_CARDS),
    "gets another id and a second card": (ONE_CARD, (Row("x1", 2, 0), Row("x2", 2, 0), Y)),
}
HOUSEHOLD_MOVES = (ONE_CARD, (Row("x2", 0, 1), Row("z", 1, 1)))
# The cards of the one load and the cards of the other.
OF_WHO_MOVES = tuple((sample, sample) for cards in (("x1", "y"), ("x2", "z")) for sample in subsets(cards))

# z lives alone.
Z = Row("z", 2, 1)
Z_ELSEWHERE: Load = (*ONE_CARD, Z)
JOINS_Z = (Z_ELSEWHERE, (Row("x1", 0, 1), Y, Z))
# x and y have one address, which is their household's.
AT_ONE_ADDRESS: Load = (X1, Row("x1", 1, 0), Z)
ADDRESS = rules(subject="household", linkage="household")
OF_ADDRESSES = tuple((sample, sample) for sample in subsets(("x1", "z")))
# They move to z's, or each of them to an address of their own.
ADDRESS_LEFT: Load = (Row("z", 0, 1), Row("z", 1, 1), Z)
PART: Load = (X1, Row("y", 1, 2), Z)
# Nobody lived there but them, and z does afterwards.
THEN_Z_S: Load = (Row("x1", 2, 0),)
_HERE, _NOT = frozenset({"x1"}), frozenset[str]()
ADDRESS_IN_SAMPLES = ((_NOT, _NOT), (_HERE, _NOT), (_HERE, _HERE))
# y's card stands in x's row, too; y has another one.
OF_MISLINKED = tuple((sample, sample) for sample in subsets(("x1", "y", "y2")))
MISLINKED: Load = (X1, Row("y", 0, 0), Row("y2", 1, 0))
TWO_OF_ONE: Load = (X1, Row("x2", 2, 0), Y)
PASSES_ON = {
    "whose card is y's afterwards": (ONE_CARD, (Row("x1", 1, 0), Y)),
    "whose other card is y's afterwards": (TWO_CARDS, (X1, Row("x2", 1, 0), Y)),
    "who has another card, the first being y's": (ONE_CARD, (X2, Row("x1", 1, 0), Y)),
    "whose id is z's afterwards": (ONE_CARD, (Row("z", 0, 0), Y)),
}


class Source(NamedTuple):
    """Rows as a registry's source has them, in its order, and those of them that are loaded."""

    rows: Load
    loaded: Load


_Y_WITH_X1, _Z_WITH_X2 = Row("x1", 1, 0, french=True), Row("x2", 2, 1, french=True)
_FRENCH_Y, _FRENCH_Z = Y._replace(french=True), Z._replace(french=True)
# x speaks English. Without x's rows another row with x's card is loaded.
CARD_IN_Y_S_ROW = Source((X1, _Y_WITH_X1, _FRENCH_Y), (X1, _FRENCH_Y))
CARD_Y_S_ALONE = Source((_Y_WITH_X1, _FRENCH_Y), (_Y_WITH_X1, _FRENCH_Y))
CARDS_IN_TWO_ROWS = Source((X1, X2, _Y_WITH_X1, _Z_WITH_X2, _FRENCH_Y, _FRENCH_Z), (X1, X2, _FRENCH_Y, _FRENCH_Z))
CARDS_THEIRS_ALONE = Source(
    (_Y_WITH_X1, _Z_WITH_X2, _FRENCH_Y, _FRENCH_Z), (_Y_WITH_X1, _Z_WITH_X2, _FRENCH_Y, _FRENCH_Z)
)
# x's second row says the same as the first, or not.
AGREES = Source(
    (X1._replace(french=True), X2._replace(french=True), Y), (X1._replace(french=True), X2._replace(french=True), Y)
)
CONTRADICTS = Source((X1._replace(french=True), X2, Y), (X1._replace(french=True), Y))
SOURCES = (CARD_IN_Y_S_ROW, CARD_Y_S_ALONE, CARDS_IN_TWO_ROWS, CARDS_THEIRS_ALONE, AGREES, CONTRADICTS)


def adopting(*policies: Policy) -> tuple[tuple[Any, ...], ...]:
    """Orders to change to these policies."""
    return tuple(("adopt", policy) for policy in policies)


OF_TABLES, OF_SHARES = Mechanism(TABLE), Mechanism(SHARE)
BOUNDED = [
    hr("strict: x's language in a table", french(TWO_CARDS), english(TWO_CARDS), policy=STRICT, mechanism=OF_TABLES),
    hr(
        "strict: x absent from a table",
        french(TWO_CARDS),
        without(english(TWO_CARDS), "x"),
        policy=STRICT,
        mechanism=OF_TABLES,
    ),
    hr("languages: a table", french(TWO_CARDS), english(TWO_CARDS), mechanism=OF_TABLES),
    hr("languages: a share", french(TWO_CARDS), english(TWO_CARDS), mechanism=OF_SHARES),
    hr(
        "languages: tables while x moves",
        french(*LIVES["moves, other id"]),
        english(*LIVES["moves, other id"]),
        samples=WITHOUT_Z,
        mechanism=OF_TABLES,
    ),
    hr(
        "absence: a table",
        french(TWO_CARDS, who="xy"),
        without(french(TWO_CARDS, who="y"), "x"),
        mechanism=OF_TABLES,
    ),
    hr("absence: a share", french(TWO_CARDS), without(english(TWO_CARDS), "x"), mechanism=OF_SHARES),
    hr(
        "a household's languages: a table",
        french(TWO_CARDS, who="xy"),
        english(TWO_CARDS),
        policy=HOUSEHOLD,
        mechanism=OF_TABLES,
    ),
    hr(
        "a household's languages: a table of which they exchange cells",
        french(TWO_CARDS),
        french(TWO_CARDS, who="y"),
        policy=HOUSEHOLD,
        mechanism=OF_TABLES,
    ),
    hr(
        "a whole household's absence: a table",
        french(TWO_CARDS),
        without(english(TWO_CARDS), "xy"),
        policy=HOUSEHOLD,
        mechanism=OF_TABLES,
    ),
    r_only("a record: a table", TWO_CARDS, health(("x1", "x2"), others=("y", "z"), other=False), mechanism=OF_TABLES),
    hr("strict: x's language", french(TWO_CARDS), english(TWO_CARDS), policy=STRICT),
    hr("strict: x absent", french(TWO_CARDS), without(english(TWO_CARDS), "x"), policy=STRICT),
    hr("languages: one card", french(ONE_CARD), english(ONE_CARD), samples=OF_ONE_CARD, policy=THREE_SCALES),
    hr(
        "languages: a cap that is no sum of prices",
        french(ONE_CARD),
        english(ONE_CARD),
        samples=OF_ONE_CARD,
        policy=HAIR_LESS,
    ),
    hr("languages: two cards", french(TWO_CARDS), english(TWO_CARDS)),
    hr("languages: x among French-speaking people", french(TWO_CARDS, who="xy"), french(TWO_CARDS, who="y")),
    hr(
        "languages: stopped and reopened",
        french(TWO_CARDS),
        english(TWO_CARDS),
        samples=WITHOUT_Z,
        commands=STOP_AND_GO,
    ),
    hr(
        "languages: policies change",
        french(TWO_CARDS),
        english(TWO_CARDS),
        samples=WITHOUT_Z,
        commands=adopting(LOWER, STRICT, rules()),
    ),
    *(hr(f"languages: {name}", french(*loads), english(*loads), samples=WITHOUT_Z) for name, loads in LIVES.items()),
    hr("absence: two cards", french(TWO_CARDS), without(english(TWO_CARDS), "x")),
    hr("absence: y French", french(TWO_CARDS, who="xy"), without(french(TWO_CARDS, who="y"), "x")),
    hr(
        "absence: policies change",
        french(ONE_CARD, who="xy"),
        without(french(ONE_CARD, who="y"), "x"),
        samples=OF_TWO_PEOPLE,
        commands=adopting(LOWER, STRICT, rules()),
    ),
    *(
        hr(f"absence: {name}", french(*loads, who="xy"), without(french(*loads, who="y"), "x"), samples=WITHOUT_Z)
        for name, loads in LIVES.items()
    ),
    hr("a household's languages: one of its people", french(TWO_CARDS), english(TWO_CARDS), policy=HOUSEHOLD),
    hr("a household's languages: all of them", french(TWO_CARDS, who="xy"), english(TWO_CARDS), policy=HOUSEHOLD),
    hr(
        "by address, a household's languages: all of them",
        french(AT_ONE_ADDRESS),
        english(AT_ONE_ADDRESS),
        policy=ADDRESS,
        samples=OF_ADDRESSES,
    ),
    hr(
        "by address, a household's languages: a table, the key changes",
        french(AT_ONE_ADDRESS, RELINK, AT_ONE_ADDRESS),
        english(AT_ONE_ADDRESS, RELINK, AT_ONE_ADDRESS),
        policy=ADDRESS,
        samples=OF_ADDRESSES,
        mechanism=OF_TABLES,
    ),
    hr(
        "by address, a whole household's absence",
        french(AT_ONE_ADDRESS),
        without(french(AT_ONE_ADDRESS), "x"),
        policy=ADDRESS,
        samples=OF_ADDRESSES,
    ),
    r_only(
        "by address, a whole household's records",
        AT_ONE_ADDRESS,
        health(("x1",), others=("z",), other=False),
        policy=ADDRESS,
        who="xz",
    ),
    hr("languages: y's card stands in x's row", spoken_by_x(MISLINKED), english(MISLINKED), samples=OF_MISLINKED),
    hr("a household's languages: mixed", french(TWO_CARDS), french(TWO_CARDS, who="y"), policy=HOUSEHOLD),
    hr(
        "a household's languages: other cards, another id",
        french(TWO_CARDS, (Row("x2", 2, 0), Y), who="xy"),
        english(TWO_CARDS, (Row("x2", 2, 0), Y)),
        policy=HOUSEHOLD,
        samples=WITHOUT_Z,
    ),
    hr(
        "a whole household's absence: two people",
        french(TWO_CARDS, who="xy"),
        without(english(TWO_CARDS), "xy"),
        policy=HOUSEHOLD,
    ),
    hr(
        "a whole household's absence: z elsewhere",
        french(Z_ELSEWHERE, who="xyz"),
        without(french(Z_ELSEWHERE, who="z"), "xy"),
        policy=HOUSEHOLD,
        samples=OF_ONE_CARD,
    ),
    *(
        hr(f"movers: one, {name}", french(*loads), english(*loads), policy=HOUSEHOLD, samples=WITHOUT_Z)
        for name, loads in LIVES.items()
    ),
    hr(
        "movers: together, with other cards",
        french(*HOUSEHOLD_MOVES, who="xyz"),
        english(*HOUSEHOLD_MOVES),
        policy=HOUSEHOLD,
        samples=OF_WHO_MOVES,
    ),
    hr(
        "movers: together, with other cards, or absent",
        french(*HOUSEHOLD_MOVES, who="xyz"),
        without(french(*HOUSEHOLD_MOVES), "xyz"),
        policy=HOUSEHOLD,
        samples=OF_WHO_MOVES,
    ),
    r_only("strict: two records of x", ONE_CARD, health(("x1",), others=("y", "z")), policy=STRICT),
    r_only("a record: two cards", TWO_CARDS, health(("x1", "x2"), others=("y", "z"), other=False)),
    r_only(
        "a record: gets a second card", ONE_CARD, health(("x1", "x2"), others=("y",), other=False), then=(TWO_CARDS,)
    ),
    r_only(
        "a record: absent from the census, too",
        ONE_CARD,
        health(("x1",), others=("y", "z"), other=False),
        there=without(french(ONE_CARD, who="y"), "x"),
        who="xy",
    ),
    r_only("a record: of somebody unknown to the census", (Y,), health(("x1",), others=("y", "z")), caps=0, who="xy"),
    r_only(
        "a whole household's records: z elsewhere",
        (*TWO_CARDS, Z),
        health(("x1", "x2", "y"), others=("z",), other=False),
        policy=HOUSEHOLD,
        who="xyz",
    ),
]
# Not claimed: there is a game that gets this far.
UNCLAIMED = [
    hr("two people", french(ONE_CARD, who="xy"), english(ONE_CARD), 2, samples=OF_ONE_CARD),
    hr("taken for two people", french(TWO_OF_ONE), english(TWO_OF_ONE), 2),
    hr(
        "another card and another id in one load",
        french(ONE_CARD, (Row("x2", 2, 0), Y)),
        english(ONE_CARD, (Row("x2", 2, 0), Y)),
        2,
        samples=WITHOUT_Z,
    ),
    hr(
        "another id and back, with the other card",
        french(TWO_CARDS, (Row("x1", 2, 0),), (X2,)),
        english(TWO_CARDS, (Row("x1", 2, 0),), (X2,)),
        2,
        samples=OF_TWO_CARDS,
    ),
    r_only("two records of x", ONE_CARD, health(("x1",), others=("y", "z")), caps=2),
    r_only("two records of x with two cards", TWO_CARDS, health(("x1", "x2"), others=()), caps=2),
    hr(
        "x in the census from the first load on or from the second",
        french(TWO_CARDS, TWO_CARDS),
        World(((Y,), french(TWO_CARDS).loads[0])),
        2,
        samples=WITHOUT_Z,
    ),
    hr(
        "a record at an honest agency or none, besides one that colludes",
        french(ONE_CARD),
        french(ONE_CARD),
        2,
        samples=(*health(("x1",), others=("y", "z"), other=False), *OF_ONE_CARD),
    ),
    *(
        hr(
            f"x absent, {name}",
            french(*loads, who="xyz"),
            # The id that was x's before is z's.
            World(
                tuple(
                    tuple(row for row in load if row.person or row.card == "z")
                    for load in french(*loads, who="xyz").loads
                )
            ),
            caps,
            samples=tuple((sample, sample) for sample in subsets(cards)),
        )
        for (name, loads), caps, cards in zip(
            PASSES_ON.items(),
            (2, Fraction(5, 2), Fraction(5, 2), 2),
            (("x1", "x2", "y"), ("x1", "x2", "y"), ("x1", "x2", "y"), ("x1", "y", "z")),
            strict=True,
        )
    ),
    hr(
        "x absent, whose card stands in a row of y's, too",
        World((CARD_IN_Y_S_ROW.loaded,)),
        World((CARD_Y_S_ALONE.loaded,)),
        2,
        samples=OF_TWO_PEOPLE,
    ),
    hr(
        "x absent, whose cards stand in rows of y's and z's, too",
        World((CARDS_IN_TWO_ROWS.loaded,)),
        World((CARDS_THEIRS_ALONE.loaded,)),
        4,
    ),
    hr(
        "strict, x absent, whose cards stand in rows of y's and z's, too",
        World((CARDS_IN_TWO_ROWS.loaded,)),
        World((CARDS_THEIRS_ALONE.loaded,)),
        2,
        policy=STRICT,
    ),
    hr("x's rows contradict each other in one world", World((AGREES.loaded,)), World((CONTRADICTS.loaded,)), 2),
    hr(
        "a household that splits",
        french(ONE_CARD, (Row("x1", 0, 1), Y), who="xy"),
        english(ONE_CARD, (Row("x1", 0, 1), Y)),
        2,
        samples=OF_TWO_PEOPLE,
        policy=HOUSEHOLD,
    ),
    hr(
        "a household that splits in three",
        french((X1, Y, Row("z", 2, 0)), (X1, Row("y", 1, 1), Row("z", 2, 2)), who="xyz"),
        english((X1, Y, Row("z", 2, 0)), (X1, Row("y", 1, 1), Row("z", 2, 2))),
        3,
        samples=OF_ONE_CARD,
        policy=HOUSEHOLD,
    ),
    hr(
        "x moves, and then has another id and the first card",
        french((X1,), (Row("x2", 0, 1),), (Row("x1", 2, 2),)),
        english((X1,), (Row("x2", 0, 1),), (Row("x1", 2, 2),)),
        2,
        samples=OF_TWO_CARDS,
        policy=HOUSEHOLD,
    ),
    hr(
        "x alone absent, y staying",
        french(ONE_CARD, who="xy"),
        without(french(ONE_CARD, who="y"), "x"),
        2,
        samples=OF_ONE_CARD,
        policy=HOUSEHOLD,
    ),
    r_only(
        "by address, x's record, y's staying",
        AT_ONE_ADDRESS,
        # A question about x brings the address into a sample, and one about y does in both worlds.
        [(rest | one, rest | other) for rest in subsets(("z",)) for one, other in ADDRESS_IN_SAMPLES],
        caps=2,
        who="xz",
        policy=ADDRESS,
    ),
    hr(
        "by address, a household absent, which moves to z's",
        french(AT_ONE_ADDRESS, ADDRESS_LEFT, who="xz"),
        french((Z,), (Z,), who="z"),
        2,
        samples=OF_ADDRESSES,
        policy=ADDRESS,
    ),
    hr(
        "by address, a household absent, whose address is z's afterwards",
        french(AT_ONE_ADDRESS, THEN_Z_S, who="xz"),
        french((Z,), THEN_Z_S, who="xz"),
        2,
        samples=OF_ADDRESSES,
        policy=ADDRESS,
    ),
    hr(
        "by address, a household that parts",
        french(AT_ONE_ADDRESS, PART, who="xy"),
        english(AT_ONE_ADDRESS, PART),
        2,
        samples=tuple((sample, sample) for sample in subsets(("x1", "y"))),
        policy=ADDRESS,
    ),
    r_only(
        "a record of y's, whose card stands in x's row, besides x's own",
        MISLINKED,
        health(("y",), others=("x1",), other=False),
        caps=2,
        who="xy",
    ),
    r_only(
        "x alone absent, y staying",
        ONE_CARD,
        health(("x1",), others=("y",), other=False),
        caps=2,
        who="xy",
        policy=HOUSEHOLD,
    ),
    hr(
        "a household of one absent, which moves to z's",
        french((X1, Z), (Row("x1", 0, 1), Z), who="xz"),
        without(french((X1, Z), (Row("x1", 0, 1), Z), who="z"), "x"),
        2,
        samples=tuple((sample, sample) for sample in subsets(("x1", "z"))),
        policy=HOUSEHOLD,
    ),
    r_only(
        "a household of one absent, which moves to z's",
        (X1, Z),
        health(("x1",), others=("z",), other=False),
        caps=2,
        who="xz",
        policy=HOUSEHOLD,
        then=((Row("x1", 0, 1), Z),),
    ),
    hr(
        "a household absent, whose id is z's afterwards",
        french(Z_ELSEWHERE, (Row("z", 2, 0),), who="xyz"),
        without(french(Z_ELSEWHERE, (Row("z", 2, 0),), who="z"), "xy"),
        2,
        samples=OF_ONE_CARD,
        policy=HOUSEHOLD,
    ),
    hr(
        "a household absent, of which x moves to z's",
        french(*JOINS_Z, who="xyz"),
        without(french(*JOINS_Z, who="z"), "xy"),
        3,
        samples=OF_ONE_CARD,
        policy=HOUSEHOLD,
    ),
    hr(
        "x alone absent, who moves from y's household to z's",
        french(
            *(
                ((*load, X2._replace(household=load[0].household), Row("y2", 1, 0), Row("z2", 2, 1)))
                for load in JOINS_Z
            ),
            who="xyz",
        ),
        without(french(*((*load, Row("y2", 1, 0), Row("z2", 2, 1)) for load in JOINS_Z), who="yz"), "x"),
        4,
        # The best game alone, since of all sets of six cards there are too many games.
        samples=tuple(
            (frozenset(sample), frozenset(sample)) for sample in (("x1", "y"), ("y2",), ("x2", "z"), ("z2",))
        ),
        policy=HOUSEHOLD,
    ),
]


@pytest.mark.parametrize("claim", BOUNDED + UNCLAIMED, ids=lambda claim: claim.name)
def test_no_game_passes_the_bound_and_the_best_reaches_it(claim: Claim) -> None:
    """The worst odds of all games are e to the largest charge that fits, or to twice that where no more is claimed."""
    largest = largest_charge(claim.game.policy)
    reached = worst(claim.game)
    assert reached == claim.caps * largest
    assert reached * UNITS_PER_NAT <= claim.caps * cap_units(param_of(parse_max_belief(claim.game.policy.max_belief)))


def test_somebody_who_moves_passes_the_cap_of_80_percent() -> None:
    """After 41 questions about x, x moves to z's, and 41 are about z: log-odds of 41/15 = 2.733, and the cap is ln 4 = 1.386."""
    at_80_percent = rules(max_belief="0.8", scales=(30,), max_answers=82, subject="household")
    loads = ((X1, Z), (Row("x1", 0, 1), Z))
    world = french(*loads, who="xz")
    about_x, about_z = (((frozenset([card]), frozenset([card])), 30) for card in ("x1", "z"))
    game = Game(world, without(world, "x"), (about_x[0], about_z[0]), policy=at_80_percent)
    assert 41 * price(30) <= at_80_percent.cap < 42 * price(30)
    assert played(game, [*[about_x] * 41, None, *[about_z] * 41]) == Fraction(41, 15)


@pytest.mark.parametrize("source", SOURCES)
def test_of_rows_with_one_card_or_one_id_the_registry_keeps_what_the_games_say(tmp_path: Path, source: Source) -> None:
    """The first row with a card stays, and of one person's rows those that agree with the first: so x's row decides about y's."""
    names = Names.none(SALT)
    digits = dict(
        zip(CARDS, ("".join(map(str, row)) for row in card_digits(np.arange(len(CARDS))).tolist()), strict=True)
    )
    spoken = {True: "French", False: "English"}
    unsaid = [""] * (len(CENSUS_DICTIONARY.names) - 1)
    lines = [
        ",".join([digits[row.card], f"p{row.person}", f"h{row.household}", spoken[row.french], *unsaid])
        for row in source.rows
    ]
    path = tmp_path / "people.csv"
    header = ",".join(["health_card", "person_id", "household_id", *CENSUS_DICTIONARY.names])
    path.write_text("\n".join([header, *lines, ""]), "utf-8")
    linkage = LinkageChain([KEY])
    loaded, names, _ = read_registry(
        PlainPlan(path, id_columns(CENSUS_DICTIONARY)),
        "load",
        linkage,
        names,
        dictionary=CENSUS_DICTIONARY,
        max_rejected=len(lines),
    )
    people = names.persons.tolist()
    number = {row.person: people.index(names.of_persons([f"p{row.person}"])) for row in source.loaded}
    pseudonyms_of = {card: linkage.pseudonym(digits[card]) for card in CARDS}
    expected = {pseudonyms_of[row.card]: (number[row.person], row.french) for row in source.loaded}
    french_value = CENSUS_DICTIONARY.column("mother_tongue").positions["French"]
    spoken_by = (loaded.people.values["mother_tongue"] == french_value).tolist()
    cards = np.stack([loaded.cards.high, loaded.cards.low], axis=1).astype(">u8")
    found = {
        row.tobytes(): (person, spoken_by[person])
        for row, person in zip(cards, loaded.cards.persons.tolist(), strict=True)
    }
    assert found == expected


# --- the argument ----------------------------------------------------------------------------------------------------

ARGUMENT = (Path(__file__).parents[2] / "broker_common" / "privacy" / "ARGUMENT.md").read_text("utf-8")
_GAME = re.compile(r"`((?:HR|R-only), [^`]+)`(?: \(([\d.]+)\))?")


def test_the_argument_names_every_game_and_its_figure() -> None:
    """Claimed games reach one cap; each of the others has the number of caps that it reaches."""
    named_there = dict(_GAME.findall(ARGUMENT.partition("## 2.")[0]))
    assert {name for name, caps in named_there.items() if not caps} == {
        claim.name.partition(":")[0] for claim in BOUNDED
    }
    figures = {name: Fraction(caps) for name, caps in named_there.items() if caps}
    assert figures == {claim.name: claim.caps for claim in UNCLAIMED}


def test_the_largest_charge_fills_the_cap() -> None:
    """The bound of the games is not below the cap by as much as any answer costs."""
    for policy in (rules(), THREE_SCALES, HAIR_LESS):
        left = policy.cap - int(largest_charge(policy) * UNITS_PER_NAT)
        assert 0 <= left < price(policy.scales[-1])
    assert largest_charge(rules()) == CAP


# --- the games and the product ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy", [rules(max_answers=0), rules(max_answers=0, subject="household")], ids=lambda policy: policy.subject
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
    """Charge by charge and load by load: who is active, and what everybody was charged, after crashes, too."""
    chance, world = random.Random(repr((loads, policy.subject))), World(loads)
    census = SmallCensus(tmp_path, policy, list(pseudonyms(0).values()), links_of(loads[0]))
    books = NO_CHARGES
    for at, load in enumerate(loads):
        if at:
            books = carried(world, at, books)
            if load == RELINK:
                census.follow(KEY)
            else:
                census.replace_load(links_of(load))
        for _ in range(6):
            sample, scale = chance.choice(subsets(CARDS)[1:]), chance.choice(policy.scales)
            room = Room(price(scale), policy.cap, policy.subject)
            books, active = decided(world, at, books, sample, room)
            order = census.order(scale=scale)
            census.answer(order, census.sample(order, names_of(world, at, sample)))
            assert named(world, at, sample, set(np.flatnonzero(census.active(order.hash)))) == active
        census.crash_census().recover()
        charged = census.census.book.charges()
        assert charged is not None
        assert tuple(charged.subjects.tolist()) == books.charged
    census.close()


def links_of(load: Load) -> list[tuple[int, int] | None]:
    """Person and household of each card, in the order of the cards."""
    rows = {row.card: (row.person, row.household) for row in load}
    return [rows.get(card) for card in CARDS]


# --- naive mechanisms ------------------------------------------------------------------------------------------------


def dropped(service: Service, world: World, at: int, side: Side, sample: Sample, scale: int) -> Sample:
    """The cards of those of a sample who are exhausted."""
    active = decided(world.numbers, at, side.books, sample, service.room(scale))[1]
    return named(world.numbers, at, sample) - active


class RefusesAloud(Mechanism):
    """Says so when somebody in the sample is exhausted, instead of leaving them out."""

    def ask(self, service: Service, world: World, at: int, side: Side, sample: Sample, scale: int) -> tuple[Seen, Side]:
        if dropped(service, world, at, side, sample, scale):
            return Seen("refused"), side
        return super().ask(service, world, at, side, sample, scale)


class TellsDrops(Mechanism):
    """Tells the health agency which of those whom it submitted were left out."""

    def ask(self, service: Service, world: World, at: int, side: Side, sample: Sample, scale: int) -> tuple[Seen, Side]:
        seen, after = super().ask(service, world, at, side, sample, scale)
        return seen._replace(said=(seen.said, dropped(service, world, at, side, sample, scale))), after


def _left(service: Service, books: Books) -> list[int]:
    return [service.room(1).most - units for units in books.charged]


class ShutsDownOnAShare(Mechanism):
    """Ends the service when half of the people in the census are exhausted."""

    def shown(self, service: Service, world: World, side: Side) -> bool:
        people = len({row.person for row in world.loads[0]})
        gone = sum(left < price(service.policy.scales[-1]) for left in _left(service, side.books))
        return gone * 2 >= people


class QuotesWhatIsLeft(Mechanism):
    """Says how many answers are left before the first person is exhausted."""

    def shown(self, service: Service, world: World, side: Side) -> int:
        del world
        return min(_left(service, side.books), default=0) // price(service.policy.scales[-1])


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
    """Keeps a budget for each card."""

    def ask(self, service: Service, world: World, at: int, side: Side, sample: Sample, scale: int) -> tuple[Seen, Side]:
        room, charged = service.room(scale), dict(side.memory or ())
        active = frozenset(card for card in sample if charged.get(card, 0) + room.price <= room.most)
        charged |= {card: charged.get(card, 0) + room.price for card in active}
        return Seen("answer", self.counts(world, at, active), scale), Side(side.books, tuple(sorted(charged.items())))


class ChargesHouseholdsOnce(Mechanism):
    """Charges a household one price, however many of its people are counted."""

    def ask(self, service: Service, world: World, at: int, side: Side, sample: Sample, scale: int) -> tuple[Seen, Side]:
        seen, after = super().ask(service, world, at, side, sample, scale)
        before = side.books.charged or (0,) * len(after.books.charged)
        once = (min(now, then + price(scale)) for now, then in zip(after.books.charged, before, strict=True))
        return seen, Side(after.books._replace(charged=tuple(once)))


class ForgetsAtALoad(Mechanism):
    """Gives a person who is another subject in a new load that subject's charge alone."""

    def load(self, world: World, at: int, side: Side) -> Side:
        after, before = super().load(world, at, side).books, side.books.charged
        return Side(after._replace(charged=(*before, *(0,) * (len(after.charged) - len(before)))))


class DrawsForEachCell(Mechanism):
    """Draws the noise of each cell by itself, at the price of one."""

    def steps(self, difference: Sequence[int]) -> int:
        return sum(map(abs, difference))


class SaysTheTotalAsWell(Mechanism):
    """Gives the sum of all cells with noise of its own, instead of leaving the adding to its reader."""

    def steps(self, difference: Sequence[int]) -> int:
        return super().steps(difference) + abs(sum(difference))


class CountsAValueInTwoCells(Mechanism):
    """Counts French-speaking people in a cell of their own and among all."""

    def counts(self, world: World, at: int, active: Sample) -> tuple[int, ...]:
        english_speaking, french_speaking = super().counts(world, at, active)
        return english_speaking + french_speaking, french_speaking


class CountsPeopleWithTwoValues(Mechanism):
    """Lets a person have a value more, so that French-speaking people stand in the cell of the others as well."""

    def counts(self, world: World, at: int, active: Sample) -> tuple[int, ...]:
        french_speaking = super().counts(world, at, active)[1]
        return french_speaking, french_speaking


HEALTH_OF_X = health(("x1", "x2"), others=("y", "z"), other=False)
OUT_OF_BOUNDS = [
    r_only("refusing aloud", TWO_CARDS, HEALTH_OF_X, mechanism=RefusesAloud()),
    hr("refusing aloud", french(TWO_CARDS), without(english(TWO_CARDS), "x"), mechanism=RefusesAloud()),
    r_only("telling drops", TWO_CARDS, HEALTH_OF_X, mechanism=TellsDrops()),
    hr("telling drops", french(ONE_CARD), without(english(ONE_CARD), "x"), mechanism=TellsDrops()),
    r_only("shutting down on a share", TWO_CARDS, HEALTH_OF_X, mechanism=ShutsDownOnAShare()),
    hr("shutting down on a share", french(ONE_CARD), without(english(ONE_CARD), "x"), mechanism=ShutsDownOnAShare()),
    r_only("quoting what is left", TWO_CARDS, HEALTH_OF_X, mechanism=QuotesWhatIsLeft()),
    r_only("an answer cache", TWO_CARDS, HEALTH_OF_X, mechanism=CachesAnswers()),
    hr("noise drawn again", french(ONE_CARD), english(ONE_CARD), mechanism=DrawsAgain()),
]
TOO_FAR = [
    hr("cells with noise of their own", french(ONE_CARD), english(ONE_CARD), 2, mechanism=DrawsForEachCell(TABLE)),
    hr(
        "a total with noise of its own",
        french(ONE_CARD),
        without(english(ONE_CARD), "x"),
        2,
        mechanism=SaysTheTotalAsWell(TABLE),
    ),
    hr(
        "a value in two cells",
        french(ONE_CARD),
        without(english(ONE_CARD), "x"),
        2,
        mechanism=CountsAValueInTwoCells(TABLE),
    ),
    hr("a person with two values", french(ONE_CARD), english(ONE_CARD), 2, mechanism=CountsPeopleWithTwoValues(TABLE)),
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
    """A helpful-sounding message is said in one world and not in the other, or may be asked for without end."""
    with pytest.raises(UnboundedError):
        worst(claim.game)


@pytest.mark.parametrize("claim", TOO_FAR, ids=lambda claim: claim.name)
def test_naive_ledgers_pass_the_bound(claim: Claim) -> None:
    """An answer not charged to the people it is about teaches about them once more."""
    assert worst(claim.game) == claim.caps * CAP


def test_the_subject_of_budgets_stays_what_it_was_at_the_first_answer() -> None:
    """Charges of persons do not show how many of a household were counted, and strict answers show neither."""
    for first, other in ((STRICT, HOUSEHOLD), (rules(), HOUSEHOLD), (HOUSEHOLD, rules()), (HOUSEHOLD, STRICT)):
        begun = Service.begin(first)
        assert begun.after("adopt", other) is not None
        answered = begun.charged(2)
        assert answered.after("adopt", other) is None
    assert Service.begin(STRICT).charged(2).after("adopt", rules()) is not None
