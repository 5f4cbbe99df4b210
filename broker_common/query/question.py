"""Questions: what the census node counts among the linked people of a sample, one number for each cell.

    all                                               everyone who is linked: the denominator of a share
    mother_tongue = 'French'                          one value of one language variable
    mother_tongue in ('English and French', 'French') any of several values
    mother_tongue by 'French', ('English', 'Other'), rest
                                                      several cells; rest is every linked person in no other cell

Invariants. A question has 1 to 16 cells. Values are published values of one published variable, ascending by code point
(the order of their UTF-8 bytes) and distinct in their cell, and stand in one cell only; one cell at most is the rest. Cells keep
the order in which they were asked for. So a question has one message and one text; that text stands in the log.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Final

from tripartite.v1 import ticket_pb2

from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from broker_common.query.canonical import literal_text
from broker_common.query.dictionary import Column, Dictionary, listed, nearest, shown
from broker_common.query.messages import refuse_unknown_fields
from broker_common.query.mistakes import QUESTIONS, explained
from broker_common.query.remedies import instead_of_code, instead_of_variable
from broker_common.query.scanner import MAX_TEXT_CHARACTERS, Kind, ScanError, Token, scan
from broker_common.values import MOST_CELLS

# Texts of a log that are read once: most of its charges ask the same questions.
_REMEMBERED = 256


@dataclass(frozen=True, slots=True)
class Cell:
    """The linked people whose value is one of `values`; without values the rest, every linked person in no other cell."""

    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.values != tuple(sorted(set(self.values))):
            raise ValueError("the values of a cell are ascending and distinct")

    @property
    def label(self) -> str:
        """Its label for a person."""
        return ", ".join(self.values) or "rest"

    @property
    def text(self) -> str:
        """The one way to write it among others."""
        values = [literal_text(value) for value in self.values]
        return f"({', '.join(values)})" if len(values) > 1 else (*values, "rest")[0]


REST: Final = Cell()


@dataclass(frozen=True, slots=True)
class Question:
    """The cells of one variable; without a variable everyone, whose only cell is the rest."""

    variable: str | None = None
    cells: tuple[Cell, ...] = (REST,)

    def __post_init__(self) -> None:
        if not 1 <= len(self.cells) <= MOST_CELLS:
            raise ValueError(f"a question has 1 to {MOST_CELLS} cells")
        if (self.variable is None) != (self.cells == (REST,)):
            raise ValueError("a question has a variable, unless its only cell is the rest")
        values = [value for cell in self.cells for value in cell.values]
        if self.cells.count(REST) > 1 or len(values) != len(set(values)):
            raise ValueError("no value of a question stands in two cells, nor is the rest two of them")
        if len(self.text) > MAX_TEXT_CHARACTERS:
            # It could not be read back from the log.
            raise ValueError("the question is too long")

    @property
    def text(self) -> str:
        """The one way to write this question; `parse_question` and `read_question` read it back."""
        if self.variable is None:
            return "all"
        if len(self.cells) > 1:
            return f"{self.variable} by {', '.join(cell.text for cell in self.cells)}"
        return f"{self.variable} {'in' if len(self.cells[0].values) > 1 else '='} {self.cells[0].text}"

    def to_wire(self) -> ticket_pb2.Question:
        cells = [ticket_pb2.Cell(values=cell.values) for cell in self.cells]
        return ticket_pb2.Question(variable=self.variable or "", cells=cells)


EVERYONE: Final = Question()


def parse_question(text: str, dictionary: Dictionary) -> Question:
    """The question that a researcher's text asks. Variable names in any letter case, values exactly.

    Raises:
        InvalidRequestError: QUESTION_SYNTAX, TOO_MANY_CELLS, UNKNOWN_VARIABLE, UNKNOWN_VALUE. Nothing else escapes.
    """
    try:
        return _read(text, dictionary)
    except InvalidRequestError as error:
        raise explained(error, text, dictionary, _read, QUESTIONS) from None


def _read(text: str, dictionary: Dictionary) -> Question:
    try:
        tokens = scan(text)
    except ScanError as error:
        raise InvalidRequestError("QUESTION_SYNTAX", problem=error.problem) from None
    return _verify_published(_question(tokens), dictionary)


def find_variable(name: str, dictionary: Dictionary) -> Column:
    """The language variable of exactly this name.

    Raises:
        InvalidRequestError: UNKNOWN_VARIABLE, with the nearest names.
    """
    column = dictionary.find(name)
    if column is None:
        raise InvalidRequestError(
            "UNKNOWN_VARIABLE",
            variable=shown(name),
            nearest=nearest(name, dictionary.names),
            instead=instead_of_variable(name, dictionary),
        )
    return column


@functools.lru_cache(_REMEMBERED)
def read_question(text: str) -> Question:
    """The question whose one text this is, as a log has it; whether its names are published is not looked at.

    ValueError for any other text.
    """
    try:
        question = _question(scan(text))
    except InvalidRequestError as error:
        raise ValueError(error.text) from None
    if question.text != text:
        raise ValueError("the question is not written in the one way")
    return question


def question_from_wire(message: ticket_pb2.Question, dictionary: Dictionary) -> Question:
    """The question that an untrusted message carries.

    Raises:
        InvalidRequestError: MALFORMED_MESSAGE, UNKNOWN_VARIABLE, UNKNOWN_VALUE.
    """
    return _verify_published(spelled_question(message), dictionary)


def spelled_question(message: ticket_pb2.Question) -> Question:
    """The question that an untrusted message spells; whether its names are published is not looked at.

    Raises:
        InvalidRequestError: MALFORMED_MESSAGE.
    """
    refuse_unknown_fields(message)
    try:
        return Question(message.variable or None, tuple(Cell(tuple(cell.values)) for cell in message.cells))
    except ValueError:
        raise InvalidRequestError("MALFORMED_MESSAGE", problem="its cells are not those of a question") from None


def _question(tokens: list[Token]) -> Question:
    """The question that tokens write, names unchecked."""
    match tokens:
        case [Token(Kind.WORD, "all")]:
            return EVERYONE
        case [Token(Kind.WORD, variable), Token(Kind.SIGN, "="), Token(Kind.STRING) as value]:
            cells = [_cell([value])]
        case [Token(Kind.WORD, variable), Token(Kind.WORD, "in"), Token(Kind.SIGN, "("), *inner, Token(Kind.SIGN, ")")]:
            cells = [_cell(inner)]
        case [Token(Kind.WORD, variable), Token(Kind.WORD, "by"), *inner]:
            cells = _cells(inner)
        case _:
            problem = phrase("it is neither 'all' nor one variable with one value or one list of values")
            raise InvalidRequestError("QUESTION_SYNTAX", problem=problem)
    if len(cells) > MOST_CELLS:
        raise InvalidRequestError("TOO_MANY_CELLS", cells=len(cells), served=MOST_CELLS)
    try:
        return Question(variable, tuple(cells))
    except ValueError:
        raise InvalidRequestError(
            "QUESTION_SYNTAX", problem=phrase("it is too long, has a value in two cells, or no cell but the rest")
        ) from None


def _cells(tokens: list[Token]) -> list[Cell]:
    """Values, lists of values in parentheses, and the rest, with commas between them."""
    cells = []
    while True:
        match tokens:
            case [Token(Kind.WORD, "rest"), *others]:
                cells.append(REST)
            case [Token(Kind.SIGN, "("), *others]:
                end = others.index(_CLOSE)
                cells.append(_cell(others[:end]))
                others = others[end + 1 :]
            case _:
                cells.append(_cell(tokens[:1]))
                others = tokens[1:]
        if not others:
            return cells
        if others[0] != _COMMA:
            raise InvalidRequestError("QUESTION_SYNTAX", problem=phrase("the cells are not separated by commas"))
        tokens = others[1:]


def _cell(tokens: list[Token]) -> Cell:
    values = tokens[::2]
    commas = tokens[1::2]
    if len(values) != len(commas) + 1 or any(token != _COMMA for token in commas):
        raise InvalidRequestError("QUESTION_SYNTAX", problem=phrase("the list of values is not separated by commas"))
    if any(token.kind is not Kind.STRING for token in values):
        raise InvalidRequestError("QUESTION_SYNTAX", problem=phrase("a value is not in single quotes"))
    return Cell(tuple(sorted({token.text for token in values})))


def _verify_published(question: Question, dictionary: Dictionary) -> Question:
    """The question itself, if its names are published."""
    if question.variable is None:
        return question
    column = find_variable(question.variable, dictionary)
    for cell in question.cells:
        for value in cell.values:
            _verify_value(column, value)
    return question


def _verify_value(column: Column, value: str) -> None:
    if value not in column.positions:
        raise InvalidRequestError(
            "UNKNOWN_VALUE",
            variable=column.name,
            value=shown(value),
            nearest=nearest(value, column.values, quote=True),
            codes=listed(column.values, quote=True),
            instead=instead_of_code(column, value),
        )


_COMMA = Token(Kind.SIGN, ",")
_CLOSE = Token(Kind.SIGN, ")")
