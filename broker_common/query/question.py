"""Questions: what the census node counts among the linked people of a sample.

    all                                             everyone who is linked: the denominator of a share
    mother_tongue = 'French'                        one value of one language variable
    mother_tongue in ('French', 'English and French')   any of several values

Invariants. Values are published values of one published variable, ascending by code point (the order of their UTF-8
bytes) and distinct, so that a question has one message and one text; that text stands in the log. The grammar is three
shapes of tokens, so no other parser is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tripartite.v1 import ticket_pb2

from broker_common.errors import InvalidRequestError
from broker_common.query.canonical import literal_text
from broker_common.query.dictionary import Column, Dictionary, listed, nearest, shown
from broker_common.query.messages import refuse_unknown_fields
from broker_common.query.scanner import Kind, ScanError, Token, scan

__all__ = ["EVERYONE", "Question", "parse_question", "question_from_wire"]


@dataclass(frozen=True, slots=True)
class Question:
    """Everyone (no variable), or the people whose value of `variable` is one of `values`."""

    variable: str | None = None
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if bool(self.values) != (self.variable is not None):
            raise ValueError("a question has a variable and values, or neither")
        if self.values != tuple(sorted(set(self.values))):
            raise ValueError("the values of a question are ascending and distinct")

    @property
    def text(self) -> str:
        """The one way to write this question; `parse_question` reads it back."""
        if self.variable is None:
            return "all"
        values = [literal_text(value) for value in self.values]
        return f"{self.variable} = {values[0]}" if len(values) == 1 else f"{self.variable} in ({', '.join(values)})"

    def to_wire(self) -> ticket_pb2.Question:
        if self.variable is None:
            return ticket_pb2.Question(everyone=ticket_pb2.Everyone())
        return ticket_pb2.Question(language_set=ticket_pb2.LanguageSet(variable=self.variable, values=self.values))


EVERYONE: Final = Question()


def parse_question(text: str, dictionary: Dictionary) -> Question:
    """The question that a researcher's text asks. Variable names in any letter case, values exactly.

    Raises:
        InvalidRequestError: QUESTION_SYNTAX, UNKNOWN_VARIABLE, UNKNOWN_VALUE. Nothing else escapes.
    """
    try:
        tokens = scan(text)
    except ScanError as error:
        raise InvalidRequestError("QUESTION_SYNTAX", problem=error.problem) from None
    match tokens:
        case [Token(Kind.WORD, "all")]:
            return EVERYONE
        case [Token(Kind.WORD, variable), Token(Kind.SIGN, "="), Token(Kind.STRING, value)]:
            return _language_set(variable, [value], dictionary)
        case [Token(Kind.WORD, variable), Token(Kind.WORD, "in"), Token(Kind.SIGN, "("), *inner, Token(Kind.SIGN, ")")]:
            return _language_set(variable, _values(inner), dictionary)
        case _:
            raise InvalidRequestError(
                "QUESTION_SYNTAX", problem="it is neither 'all' nor one variable with one value or one list of values"
            )


def question_from_wire(message: ticket_pb2.Question, dictionary: Dictionary) -> Question:
    """The question that an untrusted message carries.

    Raises:
        InvalidRequestError: MALFORMED_MESSAGE, UNKNOWN_VARIABLE, UNKNOWN_VALUE.
    """
    refuse_unknown_fields(message)
    match message.WhichOneof("counted"):
        case "everyone":
            return EVERYONE
        case "language_set":
            values = list(message.language_set.values)
            if not values or values != sorted(set(values)):
                raise InvalidRequestError(
                    "MALFORMED_MESSAGE", problem="the question's values are not ascending and distinct"
                )
            return _language_set(message.language_set.variable, values, dictionary)
        case _:
            raise InvalidRequestError("MALFORMED_MESSAGE", problem="the question is empty")


def _values(tokens: list[Token]) -> list[str]:
    values = tokens[::2]
    commas = tokens[1::2]
    if len(values) != len(commas) + 1 or any(token != Token(Kind.SIGN, ",") for token in commas):
        raise InvalidRequestError("QUESTION_SYNTAX", problem="the list of values is not separated by commas")
    if any(token.kind is not Kind.STRING for token in values):
        raise InvalidRequestError("QUESTION_SYNTAX", problem="a value does not stand in single quotes")
    return [token.text for token in values]


def _language_set(variable: str, values: list[str], dictionary: Dictionary) -> Question:
    column = dictionary.find(variable)
    if column is None:
        raise InvalidRequestError(
            "UNKNOWN_VARIABLE", variable=shown(variable), nearest=nearest(variable, dictionary.names)
        )
    for value in values:
        _verify_value(column, value)
    return Question(variable, tuple(sorted(set(values))))


def _verify_value(column: Column, value: str) -> None:
    if value not in column.positions:
        raise InvalidRequestError(
            "UNKNOWN_VALUE",
            variable=column.name,
            value=shown(value),
            nearest=nearest(value, column.values, quote=True),
            codes=listed(column.values, quote=True),
        )
