"""Criteria as a researcher writes them: a small SQL-like condition, read into the typed tree.

    age >= 65 and procedure = 'angioplasty' and not (census_division in ('Ottawa', 'Toronto'))
    last_admission_date between '2010-01-01' and '2010-12-31' or hospital_visits > 3
    diagnosis like 'type_%' and last_admission_date is null

Column names are taken in any letter case, codes exactly. `=` on a multi-valued column means "has". A person without a
value makes every comparison false, and its `not` true; `is null` is true of that person, and false of everybody else. `like`
names all published codes that begin so: only a % at its end stands for anything.

The text goes through three gates. 1. `scanner` admits tokens of a few shapes only, within limits on length, number and
nesting. 2. sqlglot decides precedence; it parses a condition, never a statement, and nothing it returns is used unless
every node's type and every argument of the node stands on an allow-list. 3. `normal_form` checks columns, operators,
types and codes against the dictionary. No SQL text is ever made from the result of the parser. A text that does not pass is
looked through for usual mistakes (`mistakes`), so that its error can say what to type instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from broker_common.query.canonical import literal_text
from broker_common.query.condition import Condition, Literal, Order, parse_date
from broker_common.query.dictionary import Column, ColumnType, Dictionary, shown
from broker_common.query.mistakes import explained
from broker_common.query.normal_form import (
    all_of,
    any_of,
    between,
    compare,
    equal,
    like,
    negate,
    not_a_date,
    present,
    verify_size,
    wrong_type,
)
from broker_common.query.remedies import instead_of_decimal, to_type
from broker_common.query.scanner import Kind, ScanError, Token, scan

_BOTH_SIDES = frozenset({"this", "expression"})
# SECURITY: every node type that may occur, and the arguments it may carry; anything else is refused.
_ALLOWED: Mapping[type[exp.Expr], frozenset[str]] = {
    exp.And: _BOTH_SIDES,
    exp.Or: _BOTH_SIDES,
    exp.Not: frozenset({"this"}),
    exp.Paren: frozenset({"this"}),
    exp.EQ: _BOTH_SIDES,
    exp.NEQ: _BOTH_SIDES,
    exp.LT: _BOTH_SIDES,
    exp.LTE: _BOTH_SIDES,
    exp.GT: _BOTH_SIDES,
    exp.GTE: _BOTH_SIDES,
    exp.In: frozenset({"this", "expressions"}),
    exp.Between: frozenset({"this", "low", "high"}),
    exp.Is: _BOTH_SIDES,
    exp.Null: frozenset(),
    exp.Like: _BOTH_SIDES | {"negate"},
    exp.Column: frozenset({"this"}),
    exp.Identifier: frozenset({"this"}),
    exp.Literal: frozenset({"this", "is_string"}),
    exp.Neg: frozenset({"this"}),
    # DATE '2010-03-31' comes as a cast; `_value` admits no other.
    exp.Cast: frozenset({"this", "to"}),
    exp.DataType: frozenset({"this"}),
}

# What the parser takes for null, or for its test. A code may well be called unknown.
_SYNONYMS = frozenset({"isnull", "notnull", "unknown"})
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)

# Each comparison with its order, and the order it has when its sides change places.
_ORDERS: Mapping[type[exp.Expr], tuple[Order, Order]] = {
    exp.LT: (Order.LESS, Order.GREATER),
    exp.LTE: (Order.LESS_OR_EQUAL, Order.GREATER_OR_EQUAL),
    exp.GT: (Order.GREATER, Order.LESS),
    exp.GTE: (Order.GREATER_OR_EQUAL, Order.LESS_OR_EQUAL),
}


def parse_condition(text: str, dictionary: Dictionary) -> Condition:
    """The condition that `text` writes, in normal form.

    Raises:
        InvalidRequestError: CRITERIA_SYNTAX, CRITERIA_TOO_LARGE, UNKNOWN_COLUMN, UNKNOWN_CODE, WRONG_TYPE,
            WRONG_OPERATOR. Nothing else escapes.
    """
    try:
        return _read(text, dictionary)
    except InvalidRequestError as error:
        raise explained(error, text, dictionary, _read) from None


def _read(text: str, dictionary: Dictionary) -> Condition:
    try:
        tokens = scan(text)
    except ScanError as error:
        code = "CRITERIA_TOO_LARGE" if error.too_large else "CRITERIA_SYNTAX"
        raise InvalidRequestError(code, problem=error.problem) from None
    _verify_one_null(tokens)
    tree = _parsed(text)
    _verify_allowed(tree)
    condition = _condition(tree, dictionary)
    verify_size(condition)
    return condition


def _verify_one_null(tokens: Sequence[Token]) -> None:
    """Only `is null` and `is not null` ask for a missing value, whatever else the parser would take for them."""
    words = [token.text if token.kind is Kind.WORD else "" for token in tokens]
    for word, following, last in zip(["", *words], words, [*words[1:], ""], strict=False):
        if following in _SYNONYMS:
            raise _no_part(following)
        if (following, last) == ("not", "null") and word != "is":
            raise _no_part("not null")


def _parsed(text: str) -> exp.Expr:
    try:
        return sqlglot.parse_one(text, into=exp.Condition)
    except SqlglotError as error:
        places = getattr(error, "errors", None) or [{}]
        place = shown(str(places[0].get("highlight", "")))
        raise _syntax(phrase("it makes no sense near '{place}'", place=place)) from None
    except RecursionError:
        # The scanner's limits leave a deep enough stack to any sensible caller; a caller near its end gets this.
        raise InvalidRequestError("CRITERIA_TOO_LARGE", problem=phrase("it is nested too deep")) from None


def _verify_allowed(tree: exp.Expr) -> None:
    for node in tree.walk():
        allowed = _ALLOWED.get(type(node))
        if isinstance(node, _ARITHMETIC):
            raise _syntax(phrase("there is no arithmetic"))
        if allowed is None:
            raise _no_part(node.key)
        if any(value and name not in allowed for name, value in node.args.items()):
            raise _syntax(phrase("'{word}' is used in a way that is not allowed", word=node.key))


def _condition(node: exp.Expr, dictionary: Dictionary) -> Condition:
    node = _bare(node)
    match node:
        case exp.And():
            return all_of([_condition(part, dictionary) for part in _parts(node, exp.And)])
        case exp.Or():
            return any_of([_condition(part, dictionary) for part in _parts(node, exp.Or)])
        case exp.Not():
            return negate(_condition(node.this, dictionary))
        case _:
            return _of_column(node, dictionary)


def _of_column(node: exp.Expr, dictionary: Dictionary) -> Condition:
    match node:
        case exp.In():
            column = _column(node.this, dictionary)
            return equal(column, _values(column, node.expressions))
        case exp.Between():
            column = _column(node.this, dictionary)
            return _between(column, _value(column, node.args["low"]), _value(column, node.args["high"]))
        case exp.Is(expression=exp.Null()):
            return negate(present(_column(node.this, dictionary)))
        case exp.Like():
            matching = like(_column(node.this, dictionary), _pattern(node.expression))
            return negate(matching) if node.args.get("negate") else matching
        case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            return _comparison(node, dictionary)
        case _:
            raise _syntax(phrase("a column or a value stands alone, without a comparison"))


def _parts(node: exp.Expr, kind: type[exp.Expr]) -> Iterator[exp.Expr]:
    # A chain of hundreds of `and` is hundreds of nodes deep on its left side: walk it, never recurse.
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if isinstance(current, kind):
            waiting += [current.args["expression"], current.this]
        else:
            yield current


def _comparison(node: exp.Expr, dictionary: Dictionary) -> Condition:
    left, right = _bare(node.this), _bare(node.args["expression"])
    flipped = isinstance(right, exp.Column)
    if flipped and isinstance(left, exp.Column):
        raise _syntax(phrase("two columns cannot be compared with each other"))
    column = _column(right if flipped else left, dictionary)
    value = _value(column, left if flipped else right)
    if isinstance(node, exp.EQ):
        return equal(column, [value])
    if isinstance(node, exp.NEQ):
        return negate(equal(column, [value]))
    return compare(column, _ORDERS[type(node)][flipped], value)


def _column(node: exp.Expr, dictionary: Dictionary) -> Column:
    bare = _bare(node)
    if not isinstance(bare, exp.Column):
        raise _one_sided()
    return dictionary.column(bare.name.lower())


def _values(column: Column, nodes: list[exp.Expr]) -> list[Literal]:
    if not nodes:
        raise _syntax(phrase("a list of values is empty"))
    return [_value(column, node) for node in nodes]


def _between(column: Column, low: Literal, high: Literal) -> Condition:
    condition = between(column, low, high)
    # Both are of the column's one type by now, so that they can be ordered. Nobody pays for a slip that matches nobody.
    if low > high:  # type: ignore[operator]
        raise InvalidRequestError(
            "CRITERIA_SYNTAX",
            problem=phrase("the first bound of between is above the second, so that nobody would match"),
            instead=to_type(f"{column.name} between {literal_text(high)} and {literal_text(low)}"),
        )
    return condition


def _pattern(node: exp.Expr) -> str:
    if not (isinstance(node, exp.Literal) and node.is_string):
        raise _syntax(phrase("like takes the beginning of a code, with one % at its end"))
    return str(node.name)


def _value(column: Column, node: exp.Expr) -> Literal:
    match _bare(node):
        case exp.Literal(is_string=True) as literal:
            return _quoted(column, literal.name)
        case exp.Literal() as literal:
            return _number(column, literal.name)
        case exp.Neg(this=exp.Literal(is_string=False) as literal):
            return _number(column, f"-{literal.name}")
        case exp.Cast(this=exp.Literal(is_string=True) as literal, to=exp.DataType(this=exp.DType.DATE)):
            return _date(column, literal.name)
        case _:
            raise _one_sided()


def _quoted(column: Column, text: str) -> Literal:
    return _date(column, text) if column.type is ColumnType.DATE else text


def _number(column: Column, text: str) -> int:
    if not text.removeprefix("-").isdecimal():
        found = phrase("{number}, which is no whole number", number=shown(text))
        raise wrong_type(column, found, instead_of_decimal(text) if column.type is ColumnType.INTEGER else "")
    return int(text)


def _date(column: Column, text: str) -> Literal:
    try:
        return parse_date(text)
    except ValueError:
        raise not_a_date(column, text) from None


def _bare(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _one_sided() -> InvalidRequestError:
    return _syntax(phrase("a comparison needs a column on one side and values on the other"))


def _no_part(word: str) -> InvalidRequestError:
    return _syntax(phrase("'{word}' is no part of a condition", word=word))


def _syntax(problem: str) -> InvalidRequestError:
    return InvalidRequestError("CRITERIA_SYNTAX", problem=problem)
