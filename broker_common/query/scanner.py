"""Cutting a researcher's text into tokens, and stopping everything strange before any grammar sees it.

An allow-list of characters and shapes: words, whole numbers, strings in single quotes, six comparison signs,
parentheses, commas. Comments, semicolons, placeholders, quoted names, wildcards, arithmetic and look-alike letters are
therefore no tokens at all. Length, number of tokens and nesting are limited here, in one pass that cannot recurse, so
that a recursive grammar behind it always has a small input. Meaning is left to the reader of the tokens.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise

from broker_common.language import phrase
from broker_common.query.dictionary import shown

# Far more than a person writes; checked before anything of a text is read.
MAX_TEXT_CHARACTERS = 4_000
MAX_TOKENS = 2_000
# Parentheses plus `not`s around any one place. The grammar uses up to five frames for each.
MAX_NESTING = 16

_COMPARISONS = frozenset({"=", "<>", "!=", "<", "<=", ">", ">="})
_WORDS_BEFORE_PARENTHESIS = frozenset({"and", "any", "between", "by", "count", "in", "not", "or", "under", "where"})

_TOKEN = re.compile(
    r"""
      (?P<space> [ \t\r\n]+ )
    | (?P<word> [A-Za-z_][A-Za-z0-9_]* )
    | (?P<number> -?[0-9]+(?:\.[0-9]+)? ) (?![A-Za-z0-9_.])
    | (?P<string> '(?:[^']|'')*+' )
    | (?P<sign> [<>=!]+ | [(),] )
    """,
    re.VERBOSE,
)

_EXPLANATIONS = {
    "'": phrase("a quote is opened and not closed"),
    '"': phrase('values are in single quotes and names in none, so " is not allowed'),
    "`": phrase("names are not quoted, so ` is not allowed"),
    ";": phrase("there is one condition only, so ; has no place"),
    "-": phrase("- may only stand before a whole number"),
}


class Kind(Enum):
    """Kind of a token."""

    WORD = "word"
    NUMBER = "number"
    STRING = "string"
    SIGN = "sign"


@dataclass(frozen=True, slots=True)
class Token:
    """One token. Words are in lower case; a string is its content, without quotes."""

    kind: Kind
    text: str
    start: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)


class ScanError(ValueError):
    """The text is none of ours; `problem` completes the sentence "it cannot be read: ..."."""

    def __init__(self, problem: str, *, too_large: bool = False) -> None:
        super().__init__(problem)
        self.problem = problem
        self.too_large = too_large


def scan(text: str) -> list[Token]:
    """The tokens of `text`.

    Raises:
        ScanError: it holds something that no token may be, or it is over a limit.
    """
    if len(text) > MAX_TEXT_CHARACTERS:
        raise ScanError(phrase("it is longer than {most} characters", most=MAX_TEXT_CHARACTERS), too_large=True)
    tokens = _tokens(text)
    if not tokens:
        raise ScanError(phrase("it is empty"))
    if len(tokens) > MAX_TOKENS:
        raise ScanError(phrase("it has more than {most} words and signs", most=MAX_TOKENS), too_large=True)
    _verify_nesting(tokens)
    _verify_no_calls(tokens)
    return tokens


def _tokens(text: str) -> list[Token]:
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ScanError(_strange(text, position))
        position = match.end()
        if match.lastgroup != "space":
            kind = Kind(match.lastgroup)
            tokens.append(Token(kind, _content(kind, match.group()), match.start(), match.end()))
    return tokens


def _content(kind: Kind, text: str) -> str:
    match kind:
        case Kind.WORD:
            return text.lower()
        case Kind.STRING:
            content = text[1:-1].replace("''", "'")
            if not content.isprintable():
                raise ScanError(phrase("a quoted value holds a character that cannot be printed"))
            return content
        case Kind.SIGN if text not in _COMPARISONS and text not in "(),":
            raise ScanError(phrase("{sign} is no comparison", sign=shown(text)))
        case _:
            return text


def _strange(text: str, position: int) -> str:
    character = text[position]
    if character in _EXPLANATIONS:
        return phrase("{problem} (character {place})", problem=_EXPLANATIONS[character], place=position + 1)
    if character.isdecimal() and character.isascii():
        return phrase(
            "what begins with {digit} is no whole number (character {place})", digit=character, place=position + 1
        )
    # Homoglyphs look like what they are not, so they are called by name.
    name = unicodedata.name(character, f"code {ord(character)}").lower()
    return phrase(
        "'{letter}' ({name}) has no place in it (character {place})",
        letter=shown(character),
        name=name,
        place=position + 1,
    )


def _verify_nesting(tokens: list[Token]) -> None:
    open_weights: list[int] = []  # of each open parenthesis: itself and the nots right before it
    depth = nots = 0
    for token in tokens:
        if token == _NOT:
            nots += 1
        elif token == _OPEN:
            open_weights.append(nots + 1)
            depth += nots + 1
            nots = 0
        elif token == _CLOSE:
            if not open_weights:
                raise ScanError(phrase("a ) has no ("))
            depth -= open_weights.pop()
            nots = 0
        else:
            nots = 0
        if depth + nots > MAX_NESTING:
            raise ScanError(phrase("it is nested more than {most} deep", most=MAX_NESTING), too_large=True)
    if open_weights:
        raise ScanError(phrase("a ( is not closed"))


def _verify_no_calls(tokens: list[Token]) -> None:
    for word, following in pairwise(tokens):
        if following == _OPEN and word.kind is Kind.WORD and word.text not in _WORDS_BEFORE_PARENTHESIS:
            raise ScanError(phrase("{word}(...) is a function, and there are none", word=shown(word.text)))


_NOT = Token(Kind.WORD, "not")
_OPEN = Token(Kind.SIGN, "(")
_CLOSE = Token(Kind.SIGN, ")")
