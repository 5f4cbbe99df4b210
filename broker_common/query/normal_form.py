"""Building conditions: each function checks its arguments against the dictionary and returns the normal form.

The only place that constructs the classes of `condition`, so that whatever way criteria enter, by text or by message,
they obey the same rules and equal criteria become equal trees. Limits on the finished tree stand here as well; limits
on what is read while it is being built are the reader's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import date

from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from broker_common.query.canonical import canonical_bytes, literal_text
from broker_common.query.condition import (
    AllOf,
    AnyOf,
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
from broker_common.query.dictionary import Column, ColumnType, EventTable, listed, shown
from broker_common.query.remedies import (
    instead_of_code,
    instead_of_date,
    instead_of_literal,
    instead_of_long_list,
    instead_of_pattern,
    instead_of_prefix,
)

# Limits of a condition as it travels and is signed: depth of groups, comparisons, values. The health node's work
# for one question is bounded by them, whatever text or client it came from.
MAX_DEPTH = 12
MAX_TERMS = 100
MAX_LITERALS = 1_000
# A count of one person's events is compared with numbers up to here.
MAX_AT_LEAST = 1_000

_SMALLEST_INTEGER, _LARGEST_INTEGER = -(2**63), 2**63 - 1


def equal(column: Column, literals: Iterable[Literal]) -> Condition:
    """`column = literal`, or `column in (literal, ...)`; at least one literal.

    Raises:
        InvalidRequestError: WRONG_TYPE, UNKNOWN_CODE.
    """
    distinct = set(literals)
    for literal in distinct:
        _verify_literal(column, literal)
    # All literals have the column's one type by now, so that they can be ordered.
    return Membership(column.name, tuple(sorted(distinct)))


def like(column: Column, pattern: str) -> Condition:
    """`column like 'E11%'`: any of the published codes that begin so. Only the last character stands for anything.

    Raises:
        InvalidRequestError: WRONG_OPERATOR, CRITERIA_SYNTAX, UNKNOWN_CODE.
    """
    if column.type is not ColumnType.CODE:
        raise wrong_operator(column, "like")
    prefix = pattern[:-1]
    if not prefix or not pattern.endswith("%") or "%" in prefix:
        raise InvalidRequestError(
            "CRITERIA_SYNTAX",
            problem=phrase("like takes the beginning of a code, with one % at its end"),
            instead=instead_of_pattern(column, pattern),
        )
    codes = column.beginning(prefix)
    if not codes:
        raise _unknown_code(column, pattern, instead_of_prefix(column, prefix))
    return equal(column, codes) if len(codes) <= MAX_LITERALS else _whole_branches(column, pattern, codes)


def _whole_branches(column: Column, pattern: str, codes: Collection[str]) -> Condition:
    """Codes that are too many to be named, by the few that stand above all others, if nothing else stands under these."""
    found = set(codes)
    tops = [code for code in codes if found.isdisjoint(column.codes[column.positions[code]].under)]
    if len(tops) <= MAX_LITERALS and all(column.descendants(code) <= found for code in tops):
        return under(column, tops)
    raise InvalidRequestError(
        "CRITERIA_TOO_LARGE",
        problem=phrase(
            "{pattern} stands for {codes} codes, and it may name {most} values",
            pattern=literal_text(shown(pattern)),
            codes=len(codes),
            most=MAX_LITERALS,
        ),
        instead=instead_of_long_list(column, prefix=pattern[:-1]),
    )


def under(column: Column, codes: Iterable[str]) -> Condition:
    """`column under code`, or `column under (code, ...)`; at least one code.

    Raises:
        InvalidRequestError: WRONG_OPERATOR, UNKNOWN_CODE.
    """
    if column.type is not ColumnType.CODE:
        raise wrong_operator(column, "under")
    distinct = sorted(set(codes))
    for code in distinct:
        _verify_code(column, code)
    if not column.has_hierarchy:
        raise wrong_operator(column, "under", phrase("codes, none of which is under another"))
    return Under(column.name, tuple(distinct))


def literals_of(condition: Membership | Under, column: Column) -> frozenset[Literal]:
    """Every value that makes the condition on the column true."""
    if isinstance(condition, Membership):
        return frozenset(condition.literals)
    return frozenset[Literal]().union(*map(column.descendants, condition.codes))


def happened(events: EventTable, where: Condition | None, at_least: int) -> Condition:
    """`count(events where condition) >= at_least`; the condition is on columns of the table.

    Raises:
        InvalidRequestError: CRITERIA_SYNTAX.
    """
    if not 1 <= at_least <= MAX_AT_LEAST:
        raise InvalidRequestError(
            "CRITERIA_SYNTAX",
            problem=phrase("count(...) is compared with numbers up to {most}", most=MAX_AT_LEAST),
        )
    return Happened(events.name, where, at_least)


def counted(events: EventTable, where: Condition | None, least: int, most: int | None) -> Condition:
    """`count(events where condition) between least and most`; without `most` at least `least`.

    Raises:
        InvalidRequestError: CRITERIA_SYNTAX, also if everybody or nobody has so many.
    """
    if most is not None and most < max(least, 0):
        raise InvalidRequestError("CRITERIA_SYNTAX", problem=phrase("nobody has fewer than 0 events"))
    bounds = [happened(events, where, least)] if least > 0 else []
    if most is not None:
        bounds.append(negate(happened(events, where, most + 1)))
    if not bounds:
        raise InvalidRequestError(
            "CRITERIA_SYNTAX", problem=phrase("everybody has 0 events or more, so that everybody would match")
        )
    return all_of(bounds)


def compare(column: Column, order: Order, literal: Literal) -> Condition:
    """`column < literal` and its kin.

    Raises:
        InvalidRequestError: WRONG_OPERATOR, WRONG_TYPE.
    """
    _verify_ordered(column, order.value)
    if isinstance(literal, str):
        raise _mismatch(column, literal)
    _verify_literal(column, literal)
    return Comparison(column.name, order, literal)


def between(column: Column, low: Literal, high: Literal) -> Condition:
    """`column between low and high`, both ends included. An empty range is a predicate like any other.

    Raises:
        InvalidRequestError: WRONG_OPERATOR, WRONG_TYPE.
    """
    _verify_ordered(column, "between")
    return all_of([compare(column, Order.GREATER_OR_EQUAL, low), compare(column, Order.LESS_OR_EQUAL, high)])


def present(column: Column) -> Condition:
    """`column is not null`."""
    return Presence(column.name)


def negate(part: Condition) -> Condition:
    """True exactly where the part is false."""
    return part.part if isinstance(part, Negation) else Negation(part)


def all_of(parts: Iterable[Condition]) -> Condition:
    """The conjunction of at least one part."""
    flat = (piece for part in parts for piece in (part.parts if isinstance(part, AllOf) else (part,)))
    distinct = _in_order(flat)
    return distinct[0] if len(distinct) == 1 else AllOf(distinct)


def any_of(parts: Iterable[Condition]) -> Condition:
    """The disjunction of at least one part."""
    flat = (piece for part in parts for piece in (part.parts if isinstance(part, AnyOf) else (part,)))
    distinct = _in_order(flat)
    return distinct[0] if len(distinct) == 1 else AnyOf(distinct)


def verify_size(condition: Condition) -> None:
    """Holds a finished condition to the limits, the same for the researcher who writes it and the node that obeys it.

    Raises:
        InvalidRequestError: CRITERIA_TOO_LARGE.
    """
    depth, terms, literals = _measured(condition)
    if depth > MAX_DEPTH:
        raise too_deep()
    if terms > MAX_TERMS:
        raise too_many_terms()
    if literals > MAX_LITERALS:
        raise too_many_literals()


def too_deep() -> InvalidRequestError:
    """The error for groups in groups beyond the limit."""
    return _too_large(phrase("it is nested more than {most} deep", most=MAX_DEPTH))


def too_deep_to_read() -> InvalidRequestError:
    """The error for a text that somebody without a stack to read it has been given."""
    return _too_large(phrase("it is nested too deep"))


def too_many_terms() -> InvalidRequestError:
    """The error for comparisons beyond the limit."""
    return _too_large(phrase("it has more than {most} comparisons", most=MAX_TERMS))


def too_many_literals() -> InvalidRequestError:
    """The error for values beyond the limit."""
    return _too_large(phrase("it names more than {most} values", most=MAX_LITERALS))


def _too_large(problem: str) -> InvalidRequestError:
    return InvalidRequestError("CRITERIA_TOO_LARGE", problem=problem)


def count_terms(condition: Condition) -> int:
    """How many comparisons there are in it, those of events included; to have had events is one as well."""
    return _measured(condition)[1]


def wrong_type(column: Column, found: str, instead: str = "") -> InvalidRequestError:
    """The error for a literal that the column cannot hold; `found` is worded for the sentence."""
    return InvalidRequestError(
        "WRONG_TYPE", column=column.name, expected=column.type.value, found=found, instead=instead
    )


def not_a_date(column: Column, text: str) -> InvalidRequestError:
    """The error for a text where a date is expected."""
    found = phrase("{text}, which is no date", text=literal_text(shown(text)))
    return wrong_type(column, found, instead_of_date(text))


def wrong_operator(column: Column, operator: str, holds: str = "") -> InvalidRequestError:
    """The error for an operator that is not defined for what the column holds."""
    expected = holds or column.type.value
    return InvalidRequestError("WRONG_OPERATOR", column=column.name, expected=expected, operator=operator)


def _in_order(parts: Iterable[Condition]) -> tuple[Condition, ...]:
    by_bytes = {canonical_bytes(part): part for part in parts}
    return tuple(by_bytes[key] for key in sorted(by_bytes))


def _measured(condition: Condition) -> tuple[int, int, int]:
    """Depth (a single comparison has none), comparisons, and literals."""
    match condition:
        case Comparison():
            return 0, 1, 1
        case Membership(_, named) | Under(_, named):
            return 0, 1, len(named)
        case Presence():
            return 0, 1, 0
        case Happened(_, where, _):
            depth, terms, size = (-1, 0, 0) if where is None else _measured(where)
            return depth + 1, terms + 1, size
        case _:
            inner = (condition.part,) if isinstance(condition, Negation) else condition.parts
            depths, terms_each, sizes = zip(*map(_measured, inner), strict=True)
            return max(depths) + 1, sum(terms_each), sum(sizes)


def _verify_ordered(column: Column, operator: str) -> None:
    if column.type is ColumnType.CODE:
        raise wrong_operator(column, operator)


def _verify_literal(column: Column, literal: Literal) -> None:
    match column.type, literal:
        case (ColumnType.CODE, str()):
            _verify_code(column, literal)
        case (ColumnType.DATE, date()) | (ColumnType.INTEGER, int()):
            if isinstance(literal, int) and not _SMALLEST_INTEGER <= literal <= _LARGEST_INTEGER:
                number = shown(str(literal))
                raise wrong_type(column, phrase("{number}, which is too large a number", number=number))
        case _:
            raise _mismatch(column, literal)


def _mismatch(column: Column, literal: Literal) -> InvalidRequestError:
    text = shown(literal_text(literal))
    match literal:
        case str():
            found = phrase("the text {text}", text=text)
        case date():
            found = phrase("the date {text}", text=text)
        case _:
            found = phrase("the number {text}", text=text)
    return wrong_type(column, found, instead_of_literal(column, literal))


def _verify_code(column: Column, code: str) -> None:
    if code not in column.positions:
        raise _unknown_code(column, code, instead_of_code(column, code))


def _unknown_code(column: Column, value: str, instead: str) -> InvalidRequestError:
    return InvalidRequestError(
        "UNKNOWN_CODE",
        column=column.name,
        value=shown(value),
        nearest=column.nearest(value),
        codes=listed(column.values, quote=True),
        instead=instead,
    )
