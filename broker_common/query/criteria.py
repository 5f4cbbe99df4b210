"""Criteria as a researcher writes them: a small SQL-like condition, read into the typed tree.

    age >= 65 and procedure = 'angioplasty' and not (census_division in ('Ottawa', 'Toronto'))
    last_admission_date between '2010-01-01' and '2010-12-31' or hospital_visits > 3
    diagnosis like 'type_%' and last_admission_date is null
    diagnosis under 'I20-I25' and any(hospitalisation where cause under 'I21' and admitted >= '2005-01-01')
    count(hospitalisation where cause not under ('I20', 'I21')) >= 3

Column names are taken in any letter case, codes exactly. `=` on a multi-valued column means "has". A person without a
value makes `=`, `<`, `in` and `like` false and what negates them true, `<>` among them; `is null` is true of that person alone. `like`
names all published codes that begin so: only a % at its end stands for anything. `under` means a code or whatever stands under it.
`any` and `count` are of one person's events; the condition on them is about one event at a time, and names its columns alone.

The text goes through three gates. 1. `scanner` admits tokens of a few shapes only, within limits on length, number and
nesting. 2. `syntax` reads them by the one grammar that there is. 3. `normal_form` checks columns, operators,
types and codes against the dictionary. The text goes no further: no engine ever sees it. A text that does not pass is
looked through for usual mistakes (`mistakes`), so that its error can say what to type instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from broker_common.query.canonical import describe, literal_text
from broker_common.query.condition import Condition, Literal, Order, parse_date
from broker_common.query.dictionary import Column, ColumnType, Dictionary, EventTable, listed, shown
from broker_common.query.mistakes import LONGEST_SUGGESTION, explained
from broker_common.query.normal_form import (
    MAX_TERMS,
    all_of,
    any_of,
    between,
    compare,
    counted,
    equal,
    happened,
    like,
    negate,
    not_a_date,
    present,
    too_deep_to_read,
    too_many_terms,
    under,
    verify_size,
    wrong_type,
)
from broker_common.query.remedies import instead_of_decimal, to_type, to_type_of_events
from broker_common.query.scanner import ScanError, scan
from broker_common.query.syntax import (
    Events,
    Joined,
    Name,
    Node,
    Not,
    Relation,
    Value,
    one_sided,
    parse_syntax,
    syntax_error,
)

# Each sign of an order with its order, and the order it has when its sides change places.
_ORDERS: Mapping[str, tuple[Order, Order]] = {
    "<": (Order.LESS, Order.GREATER),
    "<=": (Order.LESS_OR_EQUAL, Order.GREATER_OR_EQUAL),
    ">": (Order.GREATER, Order.LESS),
    ">=": (Order.GREATER_OR_EQUAL, Order.LESS_OR_EQUAL),
}
_UNEQUAL = ("<>", "!=")
_SIGNS = (*_ORDERS, *_UNEQUAL, "=")


def parse_condition(text: str, dictionary: Dictionary) -> Condition:
    """The condition that `text` writes, in normal form.

    Raises:
        InvalidRequestError: CRITERIA_SYNTAX, CRITERIA_TOO_LARGE, UNKNOWN_COLUMN, UNKNOWN_EVENTS, UNKNOWN_CODE, WRONG_TYPE,
            WRONG_OPERATOR. Nothing else escapes.
    """
    try:
        return _read(text, dictionary)
    except InvalidRequestError as error:
        raise explained(error, text, dictionary, _read) from None


def _read(text: str, dictionary: Dictionary) -> Condition:
    try:
        condition = _Reader(text, dictionary).condition(parse_syntax(scan(text)))
        verify_size(condition)
    except ScanError as error:
        code = "CRITERIA_TOO_LARGE" if error.too_large else "CRITERIA_SYNTAX"
        raise InvalidRequestError(code, problem=error.problem) from None
    except RecursionError:
        # The scanner's limits leave a deep enough stack to any sensible caller; a caller near its end gets this.
        raise too_deep_to_read() from None
    return condition


class _Reader:
    """Gives a tree of what was written its meaning under a dictionary."""

    def __init__(self, text: str, dictionary: Dictionary) -> None:
        self._text = text
        self._dictionary = dictionary
        self._patterns: dict[tuple[int, str], Condition] = {}
        self._table: EventTable | None = None
        """Whose columns are meant: inside a condition on events those of the table."""

    def condition(self, node: Node) -> Condition:
        match node:
            case Joined(word, parts):
                return (all_of if word == "and" else any_of)([self.condition(part) for part in parts])
            case Not(part):
                return negate(self.condition(part))
            case Relation():
                found = self._meant(node)
                return negate(found) if node.negated else found
            case Events(word="any"):
                return happened(*self._events(node), 1)
            case Events():
                meant = counted(*self._events(node), 2, None)
                raise syntax_error(phrase("count(...) is compared with a number"), _suggested(meant))
            case Name():
                raise self._alone(node)
            case Value():
                raise syntax_error(phrase("a column or a value stands alone, without a comparison"))

    def _meant(self, relation: Relation) -> Condition:
        if any(isinstance(each, Events) for each in relation.operands):
            return self._counted(relation)
        return self._of_column(relation) if self._table is None else self._of_event(relation, self._table)

    # --- columns -----------------------------------------------------------------------------------------------------

    def _of_column(self, relation: Relation) -> Condition:
        if relation.operator in _SIGNS:
            return self._comparison(relation)
        column = self._column(relation.operands[0], relation)
        values = relation.operands[1:]
        match relation.operator:
            case "null":
                return negate(present(column))
            case "like":
                return self._like(column, values[0].text if isinstance(values[0], Value) else "")
            case "under":
                return under(column, (_code(value) for value in values))
            case "between":
                return _between(column, *(_value(column, value) for value in values))
            case _:
                return equal(column, [_value(column, value) for value in values])

    def _like(self, column: Column, pattern: str) -> Condition:
        # A text that repeats itself is read as soon as one that does not.
        known = self._patterns.get((id(column), pattern))
        if known is None:
            if len(self._patterns) >= MAX_TERMS:
                raise too_many_terms()
            known = self._patterns[id(column), pattern] = like(column, pattern)
        return known

    def _comparison(self, relation: Relation) -> Condition:
        left, right = relation.operands
        flipped = isinstance(right, Name)
        if flipped and isinstance(left, Name):
            raise syntax_error(phrase("two columns cannot be compared with each other"))
        column = self._column(right if flipped else left, relation)
        value = _value(column, left if flipped else right)
        if relation.operator in _ORDERS:
            return compare(column, _ORDERS[relation.operator][flipped], value)
        found = equal(column, [value])
        return negate(found) if relation.operator in _UNEQUAL else found

    def _column(self, node: Node, relation: Relation) -> Column:
        if not isinstance(node, Name):
            raise one_sided()
        scope = self._dictionary if self._table is None else self._table
        try:
            return scope.column(node.text)
        except InvalidRequestError as error:
            instead = self._elsewhere(node, relation)
            if not instead:
                raise
            raise InvalidRequestError(error.code, **{**error.details, "instead": instead}) from None

    def _elsewhere(self, name: Name, relation: Relation) -> str:
        """Where the column that is meant belongs, if it is one of events, or of people."""
        if self._table is not None:
            if self._dictionary.find(name.text) is None:
                return ""
            return phrase(
                "'{name}' is a column of people and stands outside any(...) and count(...). The events '{events}' have: {columns}",
                name=name.text,
                events=self._table.name,
                columns=listed(self._table.names),
            )
        table = next((table for table in self._dictionary.events if name.text in table.names), None)
        if table is not None:
            return phrase(
                "'{name}' is a column of the events '{events}'. Type: {text}",
                name=name.text,
                events=table.name,
                text=f"any({table.name} where {self._written(relation)})",
            )
        if self._dictionary.find_events(name.text) is None:
            return ""
        compared = relation.operands[-1]
        is_counted = relation.operands[0] is name and isinstance(compared, Value) and compared.kind == "number"
        text = f"count({name.text}){self._text[name.end : relation.end]}" if is_counted else f"any({name.text})"
        return phrase("'{name}' are events. Type: {text}", name=name.text, text=text)

    def _alone(self, name: Name) -> InvalidRequestError:
        instead = "" if self._dictionary.find_events(name.text) is None else to_type(f"any({name.text})")
        return syntax_error(phrase("a column or a value stands alone, without a comparison"), instead)

    # --- events ------------------------------------------------------------------------------------------------------

    def _counted(self, relation: Relation) -> Condition:
        events, values = relation.operands[0], relation.operands[1:]
        flipped = relation.operator in _SIGNS and not isinstance(events, Events)
        if flipped:
            events, values = relation.operands[1], relation.operands[:1]
        if not isinstance(events, Events) or not all(isinstance(value, Value) for value in values):
            raise syntax_error(phrase("any(...) and count(...) cannot be compared with each other, or with columns"))
        table, where = self._events(events)
        found = _of_number(
            relation.operator, table, where, [_number_of_events(value) for value in values], flipped=flipped
        )
        if events.word == "any":
            raise syntax_error(
                phrase("any(...) is true or false by itself, and count(...) is compared"), _suggested(found)
            )
        return found

    def _of_event(self, relation: Relation, table: EventTable) -> Condition:
        try:
            return self._of_column(relation)
        except InvalidRequestError as error:
            if error.code != "CRITERIA_SYNTAX":
                raise
            instead = to_type_of_events(error.details.get("instead", ""), table)
            raise InvalidRequestError(error.code, **{**error.details, "instead": instead}) from None

    def _events(self, node: Events) -> tuple[EventTable, Condition | None]:
        if self._table is not None:
            raise syntax_error(phrase("any(...) and count(...) hold no other any(...) or count(...)"))
        name = node.table.text
        if self._dictionary.find_events(name) is None and self._dictionary.find(name) is not None:
            raise syntax_error(phrase("'{name}' is a column, and {word}(...) takes events", name=name, word=node.word))
        table = self._dictionary.event_table(name)
        if node.where is None:
            return table, None
        self._table = table
        try:
            return table, self.condition(node.where)
        finally:
            self._table = None

    def _written(self, node: Node) -> str:
        return self._text[node.start : node.end]


def _of_number(
    operator: str, table: EventTable, where: Condition | None, numbers: Sequence[int], *, flipped: bool
) -> Condition:
    match operator:
        case "between":
            low, high = sorted(numbers)
            found = counted(table, where, low, high)
            if low < numbers[0]:
                raise _bounds_changed(_suggested(found))
            return found
        case "=" | "in":
            return any_of([counted(table, where, number, number) for number in numbers])
        case "<>" | "!=":
            return negate(counted(table, where, numbers[0], numbers[0]))
        case sign if sign in _ORDERS:
            return _ordered(table, where, _ORDERS[sign][flipped], numbers[0])
        case _:
            raise syntax_error(phrase("count(...) is compared with a number"))


def _ordered(table: EventTable, where: Condition | None, order: Order, number: int) -> Condition:
    match order:
        case Order.GREATER_OR_EQUAL:
            return counted(table, where, number, None)
        case Order.GREATER:
            return counted(table, where, number + 1, None)
        case Order.LESS_OR_EQUAL:
            return counted(table, where, 0, number)
        case Order.LESS:
            return counted(table, where, 0, number - 1)


def _number_of_events(node: Node) -> int:
    if not isinstance(node, Value) or node.kind != "number" or not node.text.removeprefix("-").isdecimal():
        raise syntax_error(phrase("count(...) is compared with whole numbers"))
    return int(node.text)


def _between(column: Column, low: Literal, high: Literal) -> Condition:
    condition = between(column, low, high)
    # Both are of the column's one type by now, so that they can be ordered. Nobody pays for a slip that matches nobody.
    if low > high:  # type: ignore[operator]
        raise _bounds_changed(to_type(f"{column.name} between {literal_text(high)} and {literal_text(low)}"))
    return condition


def _bounds_changed(instead: str) -> InvalidRequestError:
    return syntax_error(phrase("the first bound of between is above the second, so that nobody would match"), instead)


def _suggested(condition: Condition) -> str:
    """The suggested condition, unless it is too long to help."""
    text = describe(condition)
    return to_type(text) if len(text) <= LONGEST_SUGGESTION else ""


def _code(node: Node) -> str:
    if not isinstance(node, Value) or node.kind != "string":
        raise syntax_error(phrase("under takes codes in single quotes"))
    return node.text


def _value(column: Column, node: Node) -> Literal:
    if not isinstance(node, Value):
        raise one_sided()
    match node.kind:
        case "number":
            return _number(column, node.text)
        case "date":
            return _date(column, node.text)
        case "string":
            return _date(column, node.text) if column.type is ColumnType.DATE else node.text


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
