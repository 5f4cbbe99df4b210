"""From criteria to SQL: a condition compiled to text with `?` in place of every value of the researcher's.

Invariants. The text is made of fixed words, column names of our own dictionary and `?`; everything else is a bound
parameter, so there is nothing to inject into. Logic is two-valued: every comparison asks first whether there is a value,
so that NULL never reaches `not`, and a person without a value is selected exactly where the condition says so. No
compiled condition can fail on a record.

The columns are those of `people_store`: a coded column holds places in the published list, a multi-valued one a bit mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import TypeAlias

from broker_common.query.condition import AllOf, AnyOf, Comparison, Condition, Literal, Negation
from broker_common.query.dictionary import Column, Dictionary

__all__ = ["Parameter", "compile_condition"]

Parameter: TypeAlias = int | date


def compile_condition(condition: Condition, dictionary: Dictionary) -> tuple[str, list[Parameter]]:
    """A boolean SQL expression, and its parameters in order. The condition was made under the same dictionary."""
    parameters: list[Parameter] = []
    return _compiled(condition, dictionary, parameters), parameters


def _compiled(condition: Condition, dictionary: Dictionary, parameters: list[Parameter]) -> str:
    match condition:
        case AllOf(parts):
            return "(" + " and ".join(_compiled(part, dictionary, parameters) for part in parts) + ")"
        case AnyOf(parts):
            return "(" + " or ".join(_compiled(part, dictionary, parameters) for part in parts) + ")"
        case Negation(part):
            return f"(not {_compiled(part, dictionary, parameters)})"
        case Comparison(name, order, literal):
            column = dictionary.column(name)
            parameters.append(literal)
            return f'("{column.name}" is not null and "{column.name}" {order.value} ?)'
        case _:
            return _membership(dictionary.column(condition.column), condition.literals, parameters)


def _membership(column: Column, literals: Sequence[Literal], parameters: list[Parameter]) -> str:
    values = [_value(column, literal) for literal in literals]
    if column.multi_valued:
        parameters.append(sum(1 << position for position in values if isinstance(position, int)))
        return f'(("{column.name}" & ?::ubigint) <> 0)'
    parameters.extend(values)
    places = ", ".join("?" * len(values))
    return f'("{column.name}" is not null and "{column.name}" in ({places}))'


def _value(column: Column, literal: Literal) -> Parameter:
    if isinstance(literal, str):
        return column.positions[literal]
    return literal
