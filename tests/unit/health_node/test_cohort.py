"""Compiled criteria: fixed words, own column names and question marks, whatever the criteria say."""

from __future__ import annotations

import re
from datetime import date

import pytest

from broker_common.query.criteria import parse_condition
from broker_common.query.dictionary import Code, Column, ColumnType, Dictionary
from health_node.cohort import compile_condition
from health_node.dictionary import HEALTH_DICTIONARY

_FIXED = re.compile(r'(?:"(?:[a-z_]+)"|is not null|and|or|not|in|::ubigint|<>|<=|>=|<|>|[()&?, 0])*')


@pytest.mark.parametrize(
    ("text", "sql", "parameters"),
    [
        ("age < 5", '("age" is not null and "age" < ?)', [5]),
        ("sex = 'male'", '("sex" is not null and "sex" in (?))', [1]),
        ("age in (7, 3)", '("age" is not null and "age" in (?, ?))', [3, 7]),
        ("procedure in ('angioplasty', 'dialysis')", '(("procedure" & ?::ubigint) <> 0)', [0b10001]),
        ("procedure <> 'angioplasty'", '(not (("procedure" & ?::ubigint) <> 0))', [1]),
        (
            "last_admission_date > '2010-03-31' or not age < 5",
            '((not ("age" is not null and "age" < ?)) or ("last_admission_date" is not null and "last_admission_date" > ?))',
            [5, date(2010, 3, 31)],
        ),
        (
            "age between 65 and 80",
            '(("age" is not null and "age" >= ?) and ("age" is not null and "age" <= ?))',
            [65, 80],
        ),
    ],
)
def test_condition_compiles_to_bound_parameters(text: str, sql: str, parameters: list[int | date]) -> None:
    """Values of the researcher's stand in the parameters, in order, and nowhere in the text."""
    assert compile_condition(parse_condition(text, HEALTH_DICTIONARY), HEALTH_DICTIONARY) == (sql, parameters)
    assert _FIXED.fullmatch(sql)


def test_hostile_code_never_reaches_the_text() -> None:
    """Even a published code that looks like SQL is only a number in a parameter."""
    hostile = "') or 1=1 --"
    column = Column(name="drug", type=ColumnType.CODE, description="Drugs.", codes=(Code(hostile, "?"),))
    dictionary = Dictionary((column,))
    condition = parse_condition("drug = ''') or 1=1 --'", dictionary)
    assert compile_condition(condition, dictionary) == ('("drug" is not null and "drug" in (?))', [0])
