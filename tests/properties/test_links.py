"""Who is linked, against a slow and obvious reference, for any weights, clients and decisions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from census_node.linking.assignment import assign
from census_node.linking.decisions import Answer, Decision
from census_node.linking.reading import Database
from census_node.linking.settings import LinkingSettings

PEOPLE, ROWS, CLIENTS = range(1, 5), range(11, 16), "XYZ"
SETTINGS = LinkingSettings(threshold=0.9, review_from=0.3)
# Whole bits: the reference reckons exactly.
Weights = dict[tuple[int, int], tuple[int, bool]]
WEIGHTS = st.dictionaries(
    st.tuples(st.sampled_from(PEOPLE), st.sampled_from(ROWS)), st.tuples(st.integers(-6, 12), st.booleans())
)
HELD = st.fixed_dictionaries({row: st.sampled_from(CLIENTS) for row in ROWS})


def odds_of(weight: int) -> Fraction:
    """Odds of a weight in bits."""
    return Fraction(2) ** weight


def expected(weights: Weights, held: dict[int, str]) -> tuple[set[tuple[int, str]], set[tuple[int, str]]]:
    """Client by client and person by person: who is linked, and which pairs are for review."""
    best: dict[tuple[int, str], int] = {}
    differs: dict[tuple[int, str], bool] = defaultdict(lambda: True)
    for (person, row), (weight, is_other) in weights.items():
        pair = (person, held[row])
        best[pair] = max(weight, best.get(pair, weight))
        differs[pair] &= is_other
    linked: set[tuple[int, str]] = set()
    likely: set[tuple[int, str]] = set()
    for pair, weight in best.items():
        rivals = [sum(odds_of(w) for other, w in best.items() if other[side] == pair[side]) for side in (0, 1)]
        probability = min(odds_of(weight) / (1 + total) for total in rivals)
        alone = odds_of(weight) / (1 + odds_of(weight))
        if probability >= Fraction(9, 10) and not differs[pair]:
            linked.add(pair)
        elif alone >= Fraction(9, 10) or probability >= Fraction(3, 10):
            likely.add(pair)
    taken = {end for pair in linked for end in pair}
    return linked, {pair for pair in likely if not taken & set(pair)}


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    """Opened once: that takes as long as an assignment."""
    with duckdb.connect() as opened:
        yield opened


def assigned(
    database: Database, weights: Weights, held: dict[int, str], decisions: list[Decision]
) -> tuple[set[tuple[int, str]], set[tuple[int, str]], set[tuple[int, str]]]:
    """Pairs that the product links, those for review, and links with the card; nothing of it stays in the database."""
    pairs = [(*pair, float(weight), differs) for pair, (weight, differs) in weights.items()]
    database.begin()
    try:
        database.execute("create table census as select range as row, 'P' || range as person_id from range(1, 5)")
        _table(database, "register", ("row bigint", "health_card varchar", "client_id varchar"), _cards(held))
        _table(database, "pairs", ("person bigint", "client_row bigint", "weight double", "differs boolean"), pairs)
        assign(database, SETTINGS, decisions, None)
        linked = {
            (person, client) for person, client in database.execute("select person, client from linked").fetchall()
        }
        review = database.execute("select person, client from review where not is_linked").fetchall()
        cards = database.execute("select person, card from links").fetchall()
    finally:
        database.rollback()
    return linked, {(person, client) for person, client in review}, {(person, card) for person, card in cards}


def _cards(held: dict[int, str]) -> list[tuple[int, str, str]]:
    return [(row, f"K{row}", client) for row, client in held.items()]


def _table(database: Database, name: str, columns: Sequence[str], rows: Sequence[tuple[object, ...]]) -> None:
    """A table of these rows, in one statement."""
    database.execute(f"create table {name} ({', '.join(columns)})")
    if rows:
        places = ", ".join(f"({', '.join('?' * len(columns))})" for _ in rows)
        values = [value for row in rows for value in row]
        database.execute(f"insert into {name} values {places}", values)  # noqa: S608 - own words


@settings(max_examples=100)
@given(weights=WEIGHTS, held=HELD)
def test_links_are_those_of_the_obvious_reference(database: Database, weights: Weights, held: dict[int, str]) -> None:
    """And nobody has two persons or two clients, nor a card of somebody else's client."""
    linked, review, cards = assigned(database, weights, held, [])
    assert (linked, review) == expected(weights, held)
    for side in (0, 1):
        assert len({pair[side] for pair in linked}) == len(linked)
    assert {(person, held[int(card[1:])]) for person, card in cards} == linked


@settings(max_examples=50)
@given(weights=WEIGHTS, held=HELD, data=st.data())
def test_a_decision_changes_its_own_pair_and_what_it_takes_the_place_of(
    database: Database, weights: Weights, held: dict[int, str], data: st.DataObject
) -> None:
    """'no' takes one link away at most; 'link' adds its pair, and takes away only links of its person or its client."""
    if not weights:
        return
    person, row = data.draw(st.sampled_from(sorted(weights)))
    answer: Answer = data.draw(st.sampled_from(("link", "no")))
    pair = (person, held[row])
    before, review, _ = assigned(database, weights, held, [])
    after, review_after, _ = assigned(database, weights, held, [Decision(2, f"K{row}", f"P{person}", answer)])
    if answer == "no":
        assert after == before - {pair}
    else:
        assert after == {each for each in before if not set(each) & set(pair)} | {pair}
    assert review_after == review
