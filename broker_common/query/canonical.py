"""The one byte string and the one text of a condition.

`canonical_bytes` is what the criteria commitment covers and what tags the sampling of a cohort. It is versioned,
deterministic and injective on the normal form: prefix notation, every string and list preceded by its length. A new
kind of predicate gets a new tag, so that what was encoded before it still is the same bytes. Two texts have the same bytes when they differ only in
- the order, nesting or repetition of parts under `and` and under `or`, redundant parentheses, spaces, letter case of
  column names and keywords;
- the order or repetition of literals in `in`, and `=` against `in` with one literal;
- `<>` against `not ... =`, `not in` against `not ... in`, an even number of `not`;
- `is null` against `not ... is not null`; `like` against `in` with the codes that it matches;
- the order or repetition of codes after `under`; `not under` against `not ... under`;
- `any(...)` against `count(...) >= 1`, `count(...) > 2` against `count(...) >= 3`, and `<`, `<=`, `=`, `<>`, `in` and `between` on a
  count against what they say in words of "at least so many";
- `between` against `>=` and `<=`; a literal on the left against the flipped comparison; DATE '...' against '...'.

Nothing else is recognised as equal: not De Morgan's laws, not `age > 64` against `age >= 65`, not `x = 1 or x = 2` against `x in (1, 2)`, not
`under` a code that has none under it against `=`. The descendants of a code are not encoded: they follow from the dictionary, whose hash the ticket
has. Conditions with different bytes may well select the same people, and no claim rests on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from broker_common.query.condition import (
    AllOf,
    AnyOf,
    ColumnCondition,
    Comparison,
    Condition,
    Happened,
    Literal,
    Membership,
    Negation,
    Order,
    Presence,
    Under,
)

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
        case Happened():
            return _happened_text(condition, ">=")
        case _:
            return _of_column_text(condition)


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
        case Under(column, codes):
            return _membership_text(column, codes, one="not under", several="not under")
        case Presence(column):
            return f"{column} is null"
        case Happened(at_least=at_least) if at_least > 1:
            return _happened_text(part, "<")
        case _:
            return f"not {_as_part(part)}"


def _happened_text(happened: Happened, sign: str) -> str:
    events = happened.events if happened.where is None else f"{happened.events} where {describe(happened.where)}"
    return f"any({events})" if happened.at_least == 1 else f"count({events}) {sign} {happened.at_least}"


def _of_column_text(condition: ColumnCondition) -> str:
    match condition:
        case Membership(column, literals):
            return _membership_text(column, literals, one="=", several="in")
        case Under(column, codes):
            return _membership_text(column, codes, one="under", several="under")
        case Presence(column):
            return f"{column} is not null"
        case Comparison(column, order, literal):
            return f"{column} {order.value} {literal_text(literal)}"


def _membership_text(column: str, literals: Sequence[Literal], *, one: str, several: str) -> str:
    if len(literals) == 1:
        return f"{column} {one} {literal_text(literals[0])}"
    return f"{column} {several} ({', '.join(literal_text(literal) for literal in literals)})"


def _encoded(condition: Condition) -> bytes:
    match condition:
        case AllOf(parts) | AnyOf(parts):
            tag = b"&" if isinstance(condition, AllOf) else b"|"
            return tag + _length(parts) + b"".join(_encoded(part) for part in parts)
        case Negation(part):
            return b"!" + _encoded(part)
        case Happened(events, where, at_least):
            number = at_least.to_bytes(_LENGTH_BYTES, "big")
            return b"h" + _string(events) + number + (b"0" if where is None else b"1" + _encoded(where))
        case _:
            return _encoded_of_column(condition)


def _encoded_of_column(condition: ColumnCondition) -> bytes:
    match condition:
        case Membership(column, literals):
            return b"=" + _string(column) + _length(literals) + b"".join(map(_literal, literals))
        case Under(column, codes):
            return b"u" + _string(column) + _length(codes) + b"".join(map(_string, codes))
        case Presence(column):
            return b"v" + _string(column)
        case Comparison(column, order, literal):
            return _ORDER_TAGS[order] + _string(column) + _literal(literal)


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
