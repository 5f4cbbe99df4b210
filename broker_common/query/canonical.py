"""The one byte string and the one text of a condition.

`canonical_bytes` is what the criteria commitment covers and what tags the sampling of a cohort. It is versioned,
deterministic and injective on the normal form: prefix notation, every string and list preceded by its length. A new
kind of predicate gets a new tag, so that what was encoded before it still is the same bytes. Two texts have the same bytes when they differ only in
- the order, nesting or repetition of parts under `and` and under `or`, redundant parentheses, spaces, letter case of
  column names and keywords;
- the order or repetition of literals in `in`, and `=` against `in` with one literal;
- `<>` against `not ... =`, `not in` against `not ... in`, an even number of `not`;
- `is null` against `not ... is not null`; `like` against `in` with the codes that it matches;
- `between` against `>=` and `<=`; a literal on the left against the flipped comparison; DATE '...' against '...'.

Nothing else is recognised as equal: not De Morgan's laws, not `age > 64` against `age >= 65`, not `x = 1 or x = 2`
against `x in (1, 2)`. Conditions with different bytes may well select the same people, and no claim rests on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from broker_common.query.condition import AllOf, AnyOf, Condition, Literal, Membership, Negation, Order, Presence

_VERSION = b"tripartite/criteria/v1\0"

# Parts are sorted by their bytes; these tags put the lower end of a range before its upper end.
_ORDER_TAGS = {
    Order.GREATER_OR_EQUAL: b"a",
    Order.GREATER: b"b",
    Order.LESS_OR_EQUAL: b"c",
    Order.LESS: b"d",
}
_LENGTH_BYTES = 4
_INTEGER_BYTES = 8


def canonical_bytes(condition: Condition) -> bytes:
    """The canonical encoding of a condition in normal form."""
    return _VERSION + _encoded(condition)


def describe(condition: Condition) -> str:
    """The condition as text. Read again under the same dictionary, within the reader's limits, it gives an equal one."""
    match condition:
        case AllOf(parts):
            return " and ".join(_as_part(part) for part in parts)
        case AnyOf(parts):
            return " or ".join(_as_part(part) for part in parts)
        case Negation(part):
            return _negation_text(part)
        case Presence(column):
            return f"{column} is not null"
        case Membership(column, literals):
            return _membership_text(column, literals, one="=", several="in")
        case _:
            return f"{condition.column} {condition.order.value} {literal_text(condition.literal)}"


def literal_text(literal: Literal) -> str:
    """A literal as it is written in a condition."""
    if isinstance(literal, int):
        return str(literal)
    return "'" + str(literal).replace("'", "''") + "'"


def _as_part(condition: Condition) -> str:
    # Parentheses also where precedence would do without: people read and against or in different ways.
    text = describe(condition)
    return f"({text})" if isinstance(condition, AllOf | AnyOf) else text


def _negation_text(part: Condition) -> str:
    match part:
        case Membership(column, literals):
            return _membership_text(column, literals, one="<>", several="not in")
        case Presence(column):
            return f"{column} is null"
        case _:
            return f"not {_as_part(part)}"


def _membership_text(column: str, literals: Sequence[Literal], *, one: str, several: str) -> str:
    if len(literals) == 1:
        return f"{column} {one} {literal_text(literals[0])}"
    return f"{column} {several} ({', '.join(literal_text(literal) for literal in literals)})"


def _encoded(condition: Condition) -> bytes:
    match condition:
        case AllOf(parts):
            return b"&" + _length(parts) + b"".join(_encoded(part) for part in parts)
        case AnyOf(parts):
            return b"|" + _length(parts) + b"".join(_encoded(part) for part in parts)
        case Negation(part):
            return b"!" + _encoded(part)
        case Membership(column, literals):
            return b"=" + _string(column) + _length(literals) + b"".join(_literal(literal) for literal in literals)
        case Presence(column):
            return b"v" + _string(column)
        case _:
            return _ORDER_TAGS[condition.order] + _string(condition.column) + _literal(condition.literal)


def _literal(literal: Literal) -> bytes:
    match literal:
        case date():
            return b"D" + literal.isoformat().encode("ascii")
        case str():
            return b"C" + _string(literal)
        case _:
            return b"I" + literal.to_bytes(_INTEGER_BYTES, "big", signed=True)


def _string(text: str) -> bytes:
    data = text.encode("utf-8")
    return _length(data) + data


def _length(sized: Sequence[object]) -> bytes:
    return len(sized).to_bytes(_LENGTH_BYTES, "big")
