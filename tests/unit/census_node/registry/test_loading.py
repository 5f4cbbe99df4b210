"""Loading a registry: which rows become cards, which of them are one person's, and what is said of the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from fakes.dictionaries import CENSUS_DICTIONARY, census_row
from fakes.registries import made_names
from hypothesis import given
from hypothesis import strategies as st

from broker_common.crypto.linkage import LinkageChain, LinkageKey
from broker_common.errors import InvalidRequestError
from broker_common.query.dictionary import Code, Dictionary
from broker_common.storage.source.plan import PlainPlan
from census_node.registry import NO_VALUE, Registry
from census_node.registry.loading import LoadReport, id_columns, read_registry
from deploy.synthetic.cards import card_digits
from deploy.synthetic.population import CENSUS_COLUMNS

LINKAGE = LinkageChain([LinkageKey(bytes(range(32)))])
CARDS = ["".join(map(str, digits)) for digits in card_digits(np.arange(40)).tolist()]


class Row(NamedTuple):
    """One line of a source."""

    card: str
    person: str
    household: str = "h"
    mother_tongue: str = "French"
    # Values of other variables than usual.
    others: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        values = {"mother_tongue": self.mother_tongue} | dict(self.others)
        return census_row(self.card, self.person, self.household, **values)


def write(path: Path, rows: Sequence[Row]) -> Path:
    """A source of these rows."""
    path.write_text("\n".join([",".join(CENSUS_COLUMNS), *map(str, rows), ""]), encoding="utf-8")
    return path


def load(folder: Path, rows: Sequence[Row], dictionary: Dictionary = CENSUS_DICTIONARY) -> tuple[Registry, LoadReport]:
    """Load these rows, as the first load ever."""
    path = write(folder / "people.csv", rows)
    registry, _, report = read_registry(
        PlainPlan(path, id_columns(dictionary)), "load", LINKAGE, made_names(0, 0), dictionary=dictionary
    )
    return registry, report


def reasons(report: LoadReport) -> list[tuple[int, str]]:
    """Place of each rejected row, from 0, and the first words of the reason."""
    return [(line - 2, " ".join(reason.split()[:3])) for line, reason in report.rejected.first]


def person_of(registry: Registry, card: str) -> int | None:
    """Owner of the card."""
    cards, name = registry.cards, int.from_bytes(LINKAGE.pseudonym(card), "big")
    numbers = [high << 64 | low for high, low in zip(cards.high.tolist(), cards.low.tolist(), strict=True)]
    return int(cards.persons[numbers.index(name)]) if name in numbers else None


def test_two_cards_of_one_person_are_one_person(tmp_path: Path) -> None:
    """Both are linked, to the same numbers, with one value."""
    registry, report = load(tmp_path, [Row(CARDS[0], "p"), Row(CARDS[1], "q"), Row(CARDS[2], "p")])
    assert (report.rows, report.linked, report.without_card, report.rejected.count) == (3, 3, 0, 0)
    assert (registry.size, registry.person_count, registry.household_count) == (3, 2, 1)
    assert person_of(registry, CARDS[0]) == person_of(registry, CARDS[2]) != person_of(registry, CARDS[1])
    french = CENSUS_DICTIONARY.column("mother_tongue").positions["French"]
    assert registry.people.values["mother_tongue"].tolist() == [french] * 2


def test_whoever_is_not_in_a_load_has_no_value_there(tmp_path: Path) -> None:
    """Their number is theirs for ever, and everybody's values stand at their numbers."""
    first, _ = load(tmp_path, [Row(CARDS[0], "p"), Row(CARDS[1], "q"), Row(CARDS[2], "r")])
    names = made_names(0, 0)
    path = tmp_path / "people.csv"
    _, names, _ = read_registry(
        PlainPlan(path, id_columns(CENSUS_DICTIONARY)), "load", LINKAGE, names, dictionary=CENSUS_DICTIONARY
    )
    lines = path.read_text("utf-8").splitlines(keepends=True)
    path.write_text("".join([lines[0], lines[2]]), encoding="utf-8")
    registry, _, _ = read_registry(
        PlainPlan(path, id_columns(CENSUS_DICTIONARY)), "load2", LINKAGE, names, dictionary=CENSUS_DICTIONARY
    )
    there = person_of(first, CARDS[1])
    assert (registry.size, registry.person_count, person_of(registry, CARDS[1])) == (1, 3, there)
    french = CENSUS_DICTIONARY.column("mother_tongue").positions["French"]
    values = registry.people.values["mother_tongue"].tolist()
    assert values == [french if person == there else NO_VALUE for person in range(3)]


def different(name: str) -> list[Row]:
    """Rows of the usual person who differs in one column: another value, and for a variable none as well."""
    if name == "household_id":
        return [Row(CARDS[1], "p", "elsewhere")]
    return [
        Row(CARDS[1], "p", others=((name, value),)) for value in (CENSUS_DICTIONARY.column(name).codes[-1].value, "")
    ]


@pytest.mark.parametrize("name", CENSUS_COLUMNS[2:])
def test_row_that_contradicts_the_first_of_its_person_is_rejected(tmp_path: Path, name: str) -> None:
    """Household and each value must be the same; the first row stays, and later ones that agree with it."""
    for wrong in different(name):
        registry, report = load(tmp_path, [Row(CARDS[0], "p"), wrong, Row(CARDS[2], "p")])
        assert report.rejected.first == (
            (3, "contradicts an earlier row of its person_id: household or a value differs"),
        )
        assert report.linked == 2
        assert person_of(registry, CARDS[1]) is None
        assert registry.household_count == 1


def test_row_without_a_card_says_nothing_new_of_a_person(tmp_path: Path) -> None:
    """The first counts as without card, a repeated one is wrong; a card that comes after it is linked."""
    rows = [Row("", "p"), Row("", "p"), Row(CARDS[0], "p"), Row(CARDS[1], "q"), Row("", "q")]
    registry, report = load(tmp_path, rows)
    assert reasons(report) == [(1, "repeats the person_id"), (4, "repeats the person_id")]
    assert (report.rows, report.linked, report.without_card) == (5, 2, 1)
    assert registry.person_count == 2


def test_people_without_any_card_have_no_number(tmp_path: Path) -> None:
    """The ledger needs no place for people who cannot be counted, or who are in wrong rows alone."""
    rows = [Row("", "p", "h1"), Row(CARDS[0], "q", "h2"), Row(CARDS[0], "r", "h3"), Row("12", "s", "h4")]
    registry, report = load(tmp_path, rows)
    assert reasons(report) == [(2, "repeats the health_card"), (3, "health_card is not")]
    assert (registry.size, registry.person_count, registry.household_count) == (1, 1, 1)


def test_one_card_is_one_row_whoever_claims_it(tmp_path: Path) -> None:
    """The first row with a card has it, of the same person or another."""
    rows = [Row(CARDS[0], "p"), Row(CARDS[0], "p"), Row(CARDS[0], "q"), Row(CARDS[1], "q")]
    registry, report = load(tmp_path, rows)
    assert reasons(report) == [(1, "repeats the health_card"), (2, "repeats the health_card")]
    assert (registry.size, registry.person_count) == (2, 2)


def test_the_first_of_very_many_rows_stays(tmp_path: Path) -> None:
    """Sorting by person keeps the order of the file, however long it is: the others contradict the first."""
    cards = ["".join(map(str, digits)) for digits in card_digits(np.arange(2000)).tolist()]
    rows = [Row(card, str(at % 50), "h" if at < 50 else "other") for at, card in enumerate(cards)]
    path = write(tmp_path / "people.csv", rows)
    registry, _, report = read_registry(
        PlainPlan(path, id_columns(CENSUS_DICTIONARY)),
        "load",
        LINKAGE,
        made_names(0, 0),
        dictionary=CENSUS_DICTIONARY,
        max_rejected=len(rows),
    )
    assert (report.linked, report.rejected.count) == (50, 1950)
    assert all(person_of(registry, card) is not None for card in cards[:50])


written = st.builds(
    Row,
    card=st.sampled_from(["", *CARDS[:6], "0000000001"]),
    person=st.sampled_from("pqrst"),
    household=st.sampled_from(["h", "h", "i", ""]),
    mother_tongue=st.sampled_from(["French", "French", "English", "", "Klingon"]),
    others=st.just((("home_language", ""),)),
)


@given(rows=st.lists(written, max_size=20))
def test_every_row_is_judged_like_by_a_plain_loop(rows: list[Row], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Linked, without card or rejected for the reason that a loop with dictionaries gives, whatever the order."""
    # Somebody is linked, or the whole file would be refused.
    rows = [Row(CARDS[39], "always"), *rows]
    first: dict[str, Row] = {}
    owners: dict[str, str] = {}
    rejected: list[tuple[int, str]] = []
    without_card = 0
    candidates: list[tuple[int, Row]] = []
    for at, row in enumerate(rows):
        earlier = first.get(row.person)
        if not row.household:
            rejected.append((at, "household_id is empty,"))
        elif row.mother_tongue == "Klingon":
            rejected.append((at, "mother_tongue holds a"))
        elif row.card == "0000000001":
            rejected.append((at, "health_card has a"))
        elif earlier is None:
            first[row.person] = row
            without_card += not row.card
            candidates += [(at, row)] if row.card else []
        elif not row.card:
            rejected.append((at, "repeats the person_id"))
        elif row[2:] != earlier[2:]:
            rejected.append((at, "contradicts an earlier"))
        else:
            candidates.append((at, row))
    for at, row in candidates:
        if row.card in owners:
            rejected.append((at, "repeats the health_card"))
        owners.setdefault(row.card, row.person)
    registry, report = load(tmp_path_factory.mktemp("load"), rows)
    assert reasons(report) == sorted(rejected)
    assert (report.rows, report.linked, report.without_card) == (len(rows), len(owners), without_card)
    pairs = {(person, person_of(registry, card)) for card, person in owners.items()}
    assert len(pairs) == len(set(owners.values())) == len({number for _, number in pairs}) == registry.person_count
    assert None not in {number for _, number in pairs}


# --- dictionaries that do not fit a byte -----------------------------------------------------------------------------


def variable(codes: int, **changes: Any) -> Dictionary:
    """The census's variables, of which the first has so many codes."""
    first, *others = CENSUS_DICTIONARY.columns
    listed = tuple(Code(f"tongue {number}", "A tongue.") for number in range(codes))
    return Dictionary((replace(first, codes=listed, **changes), *others))


def test_the_256th_value_of_a_variable_is_not_counted_as_the_first(tmp_path: Path) -> None:
    """A byte a person, and one number for nobody's: with 255 values each has its own, a longer list is refused at once."""
    rows = [
        Row(CARDS[0], "a", mother_tongue="tongue 0"),
        Row(CARDS[1], "b", mother_tongue="tongue 254"),
        Row(CARDS[2], "c", mother_tongue=""),
    ]
    registry, _ = load(tmp_path, rows, variable(255))
    people = [number for card in CARDS[:3] if (number := person_of(registry, card)) is not None]
    assert registry.people.values["mother_tongue"][people].tolist() == [0, 254, NO_VALUE]
    with pytest.raises(InvalidRequestError) as caught:
        load(tmp_path, rows, variable(257))
    assert caught.value.code == "DICTIONARY_UNUSABLE"
    assert "'mother_tongue' has 257 codes; a language variable can have 255" in caught.value.text


def test_a_variable_of_several_values_is_refused_at_load(tmp_path: Path) -> None:
    """A person is counted in one value of each variable."""
    with pytest.raises(InvalidRequestError, match="one code a person") as caught:
        load(tmp_path, [], variable(4, multi_valued=True))
    assert caught.value.code == "DICTIONARY_UNUSABLE"
