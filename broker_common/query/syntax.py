"""The grammar of conditions: from tokens to a tree of what was written, names unchecked.

    condition = [not] relation, joined by `and`, which binds closer, and by `or`
    relation  = operand sign operand | operand [not] in (value, ...) | operand [not] between value and value
              | operand [not] like string | operand [not] under string or (string, ...) | operand is [not] null
              | any(...) | ( condition )
    operand   = name | value | any(...) | count(...) | ( operand )
    value     = number | string | date string
    any(...)  = any ( name [where condition] ), and the same with count

One pass over the tokens by precedence climbing; a chain of `and` is one loop, and only parentheses and `not`, which the scanner
limits, recurse. Every node knows where in the text it stands. This module does not decide which names, values and operators fit
together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from broker_common.query.dictionary import shown
from broker_common.query.scanner import Kind, Token

_SIGNS = frozenset({"=", "<>", "!=", "<", "<=", ">", ">="})
_BINDS: Final = {"or": 1, "and": 2}
# They may begin no operand, so that a forgotten one is told where it is missing.
_KEYWORDS = frozenset({"and", "between", "by", "in", "is", "like", "not", "or", "under", "where"})


@dataclass(frozen=True, slots=True)
class Name:
    """A name that may be a column."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Value:
    """A number, a text in quotes or a date in quotes, as it was written."""

    kind: Literal["number", "string", "date"]
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Events:
    """`any(...)` or `count(...)`."""

    word: str
    table: Name
    where: Node | None
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Relation:
    """One operator and its operands: one for `null`, two for a sign, one and its values for all others."""

    operator: str
    operands: tuple[Node, ...]
    negated: bool
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Not:
    """The negation of a condition."""

    part: Node
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Joined:
    """Two parts or more, joined by `and` or by `or`."""

    word: str
    parts: tuple[Node, ...]
    start: int
    end: int


Node: TypeAlias = Name | Value | Events | Relation | Not | Joined


def parse_syntax(tokens: Sequence[Token]) -> Node:
    """Parse the tokens of a whole text. They come from `scan`, which has limited their number and nesting.

    Raises:
        InvalidRequestError: CRITERIA_SYNTAX.
    """
    parser = _Parser(tokens)
    node = parser.condition()
    parser.end()
    return node


def syntax_error(problem: str, instead: str = "") -> InvalidRequestError:
    """The error for a text that is no condition; `problem` completes the sentence "it cannot be read: ..."."""
    return InvalidRequestError("CRITERIA_SYNTAX", problem=problem, instead=instead)


def one_sided() -> InvalidRequestError:
    """The error for a comparison whose sides are not a column and values."""
    return syntax_error(phrase("a comparison needs a column on one side and values on the other"))


_END: Final = Token(Kind.SIGN, "")


class _Parser:
    """Walks over the tokens once, from left to right."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._place = 0

    def condition(self, binds: int = 1) -> Node:
        """Parts joined by words that bind at least so closely."""
        node = self._negation()
        while (word := self._next.text) in _BINDS and self._next.kind is Kind.WORD and _BINDS[word] >= binds:
            parts = [node]
            while self._take(word):
                parts.append(self.condition(_BINDS[word] + 1))
            node = Joined(word, tuple(parts), parts[0].start, parts[-1].end)
        return node

    def end(self) -> None:
        if self._next is not _END:
            raise self._strange()

    # --- parts -------------------------------------------------------------------------------------------------------

    def _negation(self) -> Node:
        start = self._next.start
        if not self._take("not"):
            return self._relation()
        part = self._negation()
        return Not(part, start, part.end)

    def _relation(self) -> Node:
        left = self._operand()
        operator = self._next
        if operator.kind is Kind.SIGN and operator.text in _SIGNS:
            self._place += 1
            right = self._operand()
            return Relation(operator.text, (left, right), False, left.start, right.end)
        if self._take("is"):
            negated = self._take("not")
            self._require("null")
            return Relation("null", (left,), negated, left.start, self._before.end)
        negated = self._take("not")
        for word, values in self._lists.items():
            if self._take(word):
                return Relation(word, (left, *values()), negated, left.start, self._before.end)
        if negated:
            raise self._strange(self._before)
        return left

    @property
    def _lists(self) -> dict[str, Callable[[], tuple[Node, ...]]]:
        """For each word that values follow, how they do."""
        return {"in": self._in, "between": self._between, "like": self._like, "under": self._under}

    def _in(self) -> tuple[Node, ...]:
        self._require("(", Kind.SIGN)
        if self._take(")", Kind.SIGN):
            raise syntax_error(phrase("a list of values is empty"))
        values = [self._operand()]
        while self._take(",", Kind.SIGN):
            values.append(self._operand())
        self._require(")", Kind.SIGN)
        return tuple(values)

    def _between(self) -> tuple[Node, ...]:
        low = self._operand()
        self._require("and")
        return low, self._operand()

    def _like(self) -> tuple[Node, ...]:
        if self._next.kind is not Kind.STRING:
            raise syntax_error(phrase("like takes the beginning of a code, with one % at its end"))
        return (self._operand(),)

    def _under(self) -> tuple[Node, ...]:
        return self._in() if self._next == _OPEN else (self._operand(),)

    # --- operands ----------------------------------------------------------------------------------------------------

    def _operand(self) -> Node:
        token = self._next
        self._place += 1
        match token.kind:
            case Kind.NUMBER:
                return Value("number", token.text, token.start, token.end)
            case Kind.STRING:
                return Value("string", token.text, token.start, token.end)
            case Kind.WORD if token.text in ("any", "count") and self._next == _OPEN:
                return self._events(token)
            case Kind.WORD if token.text == "date" and self._next.kind is Kind.STRING:
                self._place += 1
                return Value("date", self._before.text, token.start, self._before.end)
            case Kind.WORD if token.text == "null":
                raise one_sided()
            case Kind.WORD if token.text not in _KEYWORDS:
                return Name(token.text, token.start, token.end)
            case Kind.SIGN if token == _OPEN:
                node = self.condition()
                self._require(")", Kind.SIGN)
                return replace(node, start=token.start, end=self._before.end)
            case _:
                raise self._strange(token)

    def _events(self, word: Token) -> Events:
        self._place += 1
        table = self._next
        if table.kind is not Kind.WORD or table.text in _KEYWORDS:
            raise syntax_error(phrase("any(...) and count(...) begin with the name of events"))
        self._place += 1
        where = self.condition() if self._take("where") else None
        self._require(")", Kind.SIGN)
        return Events(word.text, Name(table.text, table.start, table.end), where, word.start, self._before.end)

    # --- tokens ------------------------------------------------------------------------------------------------------

    @property
    def _next(self) -> Token:
        return self._tokens[self._place] if self._place < len(self._tokens) else _END

    @property
    def _before(self) -> Token:
        return self._tokens[self._place - 1]

    def _take(self, text: str, kind: Kind = Kind.WORD) -> bool:
        """Whether the next token is this one, which then has been read."""
        found = self._next == Token(kind, text)
        self._place += found
        return found

    def _require(self, text: str, kind: Kind = Kind.WORD) -> None:
        if not self._take(text, kind):
            raise self._strange()

    def _strange(self, token: Token | None = None) -> InvalidRequestError:
        found = token or self._next
        if found is _END:
            return syntax_error(phrase("something is missing at its end"))
        if found.kind is Kind.NUMBER and found.text.startswith("-"):
            return syntax_error(phrase("there is no arithmetic"))
        place, number = shown(found.text), found.start + 1
        return syntax_error(phrase("it makes no sense near '{place}' (character {number})", place=place, number=number))


_OPEN: Final = Token(Kind.SIGN, "(")
