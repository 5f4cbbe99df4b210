"""Compiled criteria mean for stored numbers what they say, whatever they are nested in, and cost few passes."""

from __future__ import annotations

from datetime import date
from typing import cast

import numpy as np
import pytest

from broker_common.query.criteria import parse_condition
from broker_common.query.dictionary import Code, Column, ColumnType, Dictionary
from health_node.people import cohort
from health_node.people.cohort import Scratch, compile_condition
from health_node.people.encoding import Encoding, Stored

DICTIONARY = Dictionary(
    (
        Column(name="age", type=ColumnType.INTEGER, description="Age.", minimum=-3, maximum=40),
        Column(name="wide", type=ColumnType.INTEGER, description="W.", minimum=-(2**31) + 1, maximum=2**31 - 1),
        Column(name="day", type=ColumnType.DATE, description="Day."),
        Column(
            name="drug",
            type=ColumnType.CODE,
            multi_valued=True,
            description="D.",
            codes=(Code("a", "A"), Code("b", "B")),
        ),
    )
)


def marked(text: str, columns: dict[str, Stored]) -> list[bool]:
    """Who of the people is meant."""
    size = len(next(iter(columns.values())))
    marks = np.empty(size, dtype=np.bool_)
    compile_condition(parse_condition(text, DICTIONARY), DICTIONARY).mark(columns, marks, Scratch(size))
    found: list[bool] = marks.tolist()
    return found


def everything(name: str) -> Stored:
    """Every number that the column may hold, no value first."""
    encoding = Encoding.of(DICTIONARY.column(name))
    return cast("Stored", np.arange(encoding.top + 1).astype(encoding.kind))


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("age < 5", range(-3, 5)),
        ("age <= 5", range(-3, 6)),
        ("age > 5", range(6, 41)),
        ("age >= -3", range(-3, 41)),
        ("age = 40", [40]),
        ("age between 5 and 7", range(5, 8)),
        ("age >= 7 and age <= 5", []),
        ("age is not null", range(-3, 41)),
        ("age is not null and not age < 5", range(5, 41)),
        ("not (age is null or age > 5)", range(-3, 6)),
        ("age > 40 or age < -3 or age = -1000000000000", []),
        ("age in (1, 2, 3, 7)", [1, 2, 3, 7]),
        ("age in (1, 3, 5, 7, 9, 11, 13, 15, 40)", [*range(1, 16, 2), 40]),
        ("(age < 10 or age > 20) and (age > 5 and age <> 30)", [*range(6, 10), *range(21, 30), *range(31, 41)]),
    ],
)
def test_numbers_are_compared_by_what_they_are_kept_as(text: str, meant: range | list[int]) -> None:
    """Each condition means exactly these numbers, and its negation all others and everyone who has none."""
    means = marked(text, {"age": everything("age")})
    assert means == [False, *(number in meant for number in range(-3, 41))]
    assert marked(f"not ({text})", {"age": everything("age")}) == [not each for each in means]


def test_days_are_compared_from_the_first_year_to_the_last() -> None:
    """A day that nobody could store is out of reach, not wrapped around."""
    days = [0, *(day.toordinal() for day in (date.min, date(2010, 3, 30), date(2010, 3, 31), date.max))]
    columns: dict[str, Stored] = {"day": np.array(days, dtype=np.uint32)}
    assert marked("day <= '2010-03-30'", columns) == [False, True, True, False, False]
    assert marked("day >= '2010-03-31'", columns) == [False, False, False, True, True]
    assert marked("day > '9999-12-31' or day < '0001-01-01'", columns) == [False] * 5
    several = ",".join(f"'2010-03-{day}'" for day in range(11, 32, 2))
    assert marked(f"day in ({several})", columns) == [False, False, False, True, False]


def test_many_values_of_a_wide_column_are_compared_one_by_one() -> None:
    """Where a table would not fit in a cache: at both ends, at the borders of runs, and without a value."""
    encoding = Encoding.of(DICTIONARY.column("wide"))
    assert encoding.top >= cohort._LARGEST_TABLE
    numbers = [-(2**31) + 1, *range(40), 2**31 - 1]
    values = [-(2**31) + 1, *range(0, 40, 3), 2**31 - 1]
    columns: dict[str, Stored] = {"wide": np.array([0, *map(encoding.place, numbers)], dtype=np.uint32)}
    means = marked(f"wide in ({','.join(map(str, values))})", columns)
    assert means == [False, *(number in values for number in numbers)]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("drug = 'a'", [False, True, False, True]),
        ("drug in ('a', 'b')", [False, True, True, True]),
        ("drug = 'a' and drug = 'b'", [False, False, False, True]),
        ("drug = 'a' or drug = 'b'", [False, True, True, True]),
        ("drug <> 'a' and drug <> 'b'", [True, False, False, False]),
        ("drug <> 'a' or drug <> 'b'", [True, True, True, False]),
        ("not (drug = 'a' and not drug = 'b')", [True, False, True, True]),
        ("drug is not null", [False, True, True, True]),
        ("drug is null", [True, False, False, False]),
        ("drug is null or drug = 'b'", [True, False, True, True]),
    ],
)
def test_values_of_one_person_are_looked_at_together(text: str, meant: list[bool]) -> None:
    """Values of nobody, one, the other, and both."""
    assert marked(text, {"drug": everything("drug")}) == meant


def test_what_is_said_of_one_column_is_one_comparison() -> None:
    """However often a condition speaks of a column: that is what keeps a long one cheap."""
    text = " or ".join(f"(age > {age} and age < {age + 3})" for age in range(0, 30, 4))
    assert isinstance(compile_condition(parse_condition(text, DICTIONARY), DICTIONARY), cohort._Among)


@pytest.mark.parametrize(
    ("column", "kind", "top"),
    [
        (Column(name="x", type=ColumnType.INTEGER, description="x", maximum=254), "u1", 255),
        (Column(name="x", type=ColumnType.INTEGER, description="x", maximum=255), "u2", 256),
        (
            Column(name="x", type=ColumnType.INTEGER, description="x", minimum=-(2**31) + 1, maximum=2**31 - 1),
            "u4",
            2**32 - 1,
        ),
        (Column(name="x", type=ColumnType.DATE, description="x"), "u4", date.max.toordinal()),
        *(
            (
                Column(
                    name="x",
                    type=ColumnType.CODE,
                    multi_valued=True,
                    description="x",
                    codes=tuple(Code(f"c{at}", "c") for at in range(codes)),
                ),
                kind,
                2**codes - 1,
            )
            for codes, kind in ((8, "u1"), (9, "u2"), (17, "u4"), (33, "u8"), (64, "u8"))
        ),
    ],
)
def test_a_column_takes_the_smallest_type_that_holds_it(column: Column, kind: str, top: int) -> None:
    """Its dictionary decides, up to the last number that fits."""
    encoding = Encoding.of(column)
    assert (encoding.kind, encoding.top) == (np.dtype(kind), top)
