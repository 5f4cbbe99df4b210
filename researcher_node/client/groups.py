"""The groups of a table: one for each published code of a column, or conditions under names of one's own."""

from __future__ import annotations

from collections.abc import Mapping

from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from broker_common.query.canonical import describe
from broker_common.query.condition import Condition
from broker_common.query.criteria import parse_condition
from broker_common.query.dictionary import ColumnType, Dictionary
from broker_common.query.normal_form import all_of, equal

# Each is a question of its own, charged by itself.
MOST_GROUPS = 200


def criteria_of(where: str | None, by: str | Mapping[str, str], dictionary: Dictionary) -> dict[str, str]:
    """The criteria of each group, by its name, in the order given or published.

    Raises:
        InvalidRequestError: what is wrong with the criteria, the column or the number of groups.
    """
    groups = _of_column(by, dictionary) if isinstance(by, str) else _named(by, dictionary)
    if not 1 <= len(groups) <= MOST_GROUPS:
        raise InvalidRequestError(
            "INVALID_VALUE",
            name="by",
            problem=phrase("makes {count} groups", count=len(groups)),
            remedy=phrase("Name 1 to {most} groups; each is charged as a question of its own.", most=MOST_GROUPS),
        )
    if where is None:
        return {name: describe(group) for name, group in groups.items()}
    common = parse_condition(where, dictionary)
    return {name: describe(all_of([common, group])) for name, group in groups.items()}


def _of_column(name: str, dictionary: Dictionary) -> dict[str, Condition]:
    column = dictionary.column(name)
    if column.type is not ColumnType.CODE:
        raise InvalidRequestError(
            "INVALID_VALUE",
            name="by",
            problem=phrase("names {column}, which holds {kind}", column=column.name, kind=column.type.value),
            remedy=phrase(
                "Give names instead, each with a condition, such as dict(old='age >= 75', young='age < 30')."
            ),
        )
    return {code: equal(column, [code]) for code in column.values}


def _named(groups: Mapping[str, str], dictionary: Dictionary) -> dict[str, Condition]:
    return {name: parse_condition(text, dictionary) for name, text in groups.items()}
