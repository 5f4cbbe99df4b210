"""Criteria as they arrive: a protobuf tree from a stranger, checked against our own dictionary.

The sender may be anyone, and may have skipped every check that our own client makes. While the tree is read, depth,
comparisons and literals are counted against the same limits that a finished condition obeys (`normal_form`), so that
reading is bounded by the limits, not by the message. The output of `Condition.to_wire` is always admitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tripartite.v1 import condition_pb2

from broker_common.errors import InvalidRequestError
from broker_common.query.condition import Condition, Literal, Order, parse_date
from broker_common.query.dictionary import Column, Dictionary, EventTable
from broker_common.query.messages import refuse_unknown_fields
from broker_common.query.normal_form import (
    MAX_AT_LEAST,
    MAX_DEPTH,
    MAX_LITERALS,
    MAX_TERMS,
    all_of,
    any_of,
    between,
    compare,
    equal,
    happened,
    negate,
    not_a_date,
    present,
    too_deep,
    too_many_literals,
    too_many_terms,
    under,
    verify_size,
)

# A group with one part would be a second spelling of that part.
_FEWEST_PARTS = 2

_ORDERS = {
    condition_pb2.OPERATOR_LESS: Order.LESS,
    condition_pb2.OPERATOR_LESS_OR_EQUAL: Order.LESS_OR_EQUAL,
    condition_pb2.OPERATOR_GREATER: Order.GREATER,
    condition_pb2.OPERATOR_GREATER_OR_EQUAL: Order.GREATER_OR_EQUAL,
}


def condition_from_wire(message: condition_pb2.Condition, dictionary: Dictionary) -> Condition:
    """The condition that an untrusted message carries, in normal form.

    Raises:
        InvalidRequestError: MALFORMED_MESSAGE, CRITERIA_TOO_LARGE, UNKNOWN_COLUMN, UNKNOWN_CODE, WRONG_TYPE,
            WRONG_OPERATOR.
    """
    refuse_unknown_fields(message)
    condition = _Reader(dictionary).condition(message, depth=0)
    verify_size(condition)
    return condition


class _Reader:
    """Reads one tree and keeps count of what it has read."""

    def __init__(self, dictionary: Dictionary) -> None:
        self._dictionary = dictionary
        # Where columns are looked up: an event table inside a condition on its events.
        self._scope: Dictionary | EventTable = dictionary
        self._terms = 0
        self._literals = 0

    def condition(self, message: condition_pb2.Condition, *, depth: int) -> Condition:
        if depth > MAX_DEPTH:
            raise too_deep()
        match message.WhichOneof("kind"):
            case "all_of":
                return self._parts(message.all_of.parts, all_of, depth)
            case "any_of":
                return self._parts(message.any_of.parts, any_of, depth)
            case "negation":
                return negate(self.condition(message.negation, depth=depth + 1))
            case "happened":
                return self._happened(message.happened, depth)
            case _:
                return self._of_column(message)

    def _of_column(self, message: condition_pb2.Condition) -> Condition:
        match message.WhichOneof("kind"):
            case "comparison":
                return self._comparison(message.comparison)
            case "membership":
                return self._membership(message.membership)
            case "range":
                return self._range(message.range)
            case "presence":
                return present(self._column(message.presence.column))
            case "under":
                return self._under(message.under)
            case _:
                raise _malformed("a condition is empty")

    def _parts(
        self,
        messages: Sequence[condition_pb2.Condition],
        combine: Callable[[Iterable[Condition]], Condition],
        depth: int,
    ) -> Condition:
        if len(messages) < _FEWEST_PARTS:
            raise _malformed("a conjunction or disjunction has fewer than two parts")
        return combine([self.condition(part, depth=depth + 1) for part in messages])

    def _comparison(self, message: condition_pb2.Comparison) -> Condition:
        column = self._column(message.column)
        literal = self._literal(column, message.literal)
        if message.operator == condition_pb2.OPERATOR_EQUAL:
            return equal(column, [literal])
        if message.operator == condition_pb2.OPERATOR_NOT_EQUAL:
            return negate(equal(column, [literal]))
        order = _ORDERS.get(message.operator)
        if order is None:
            raise _malformed("a comparison has no operator")
        return compare(column, order, literal)

    def _membership(self, message: condition_pb2.Membership) -> Condition:
        column = self._column(message.column)
        literals = [self._literal(column, literal) for literal in message.literals]
        if not literals or len(set(literals)) != len(literals):
            raise _malformed("a list of values is empty or repeats one")
        return equal(column, literals)

    def _under(self, message: condition_pb2.Under) -> Condition:
        column = self._column(message.column)
        self._read_literals(len(message.codes))
        if not message.codes or len(set(message.codes)) != len(message.codes):
            raise _malformed("a list of codes is empty or repeats one")
        return under(column, message.codes)

    def _happened(self, message: condition_pb2.Happened, depth: int) -> Condition:
        if self._scope is not self._dictionary:
            raise _malformed("a condition on events asks for events")
        if not 1 <= message.at_least <= MAX_AT_LEAST:
            raise _malformed("a number of events is out of range")
        self._read_term()
        events = self._dictionary.event_table(message.events)
        if not message.HasField("where"):
            return happened(events, None, message.at_least)
        self._scope = events
        try:
            where = self.condition(message.where, depth=depth + 1)
        finally:
            self._scope = self._dictionary
        return happened(events, where, message.at_least)

    def _range(self, message: condition_pb2.Range) -> Condition:
        column = self._column(message.column)
        return between(column, self._literal(column, message.low), self._literal(column, message.high))

    def _column(self, name: str) -> Column:
        self._read_term()
        return self._scope.column(name)

    def _read_term(self) -> None:
        self._terms += 1
        if self._terms > MAX_TERMS:
            raise too_many_terms()

    def _read_literals(self, number: int) -> None:
        self._literals += number
        if self._literals > MAX_LITERALS:
            raise too_many_literals()

    def _literal(self, column: Column, message: condition_pb2.Literal) -> Literal:
        self._read_literals(1)
        match message.WhichOneof("value"):
            case "integer":
                return message.integer
            case "code":
                return message.code
            case "date":
                try:
                    return parse_date(message.date)
                except ValueError:
                    raise not_a_date(column, message.date) from None
            case _:
                raise _malformed("a comparison has no value")


def _malformed(problem: str) -> InvalidRequestError:
    return InvalidRequestError("MALFORMED_MESSAGE", problem=problem)
