"""Texts that people write by hand, TOML and YAML, so that an error can name the line.

`Places` finds the lines of keys in TOML that was read without an error. YAML is read into nodes that know their lines; it may
have no aliases, and its length is bounded. Plain words are taken as they are written: `no` is a word, and so is the code `01`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import yaml

from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from broker_common.query.dictionary import shown

Path = tuple[str, ...]

_HEADER = re.compile(r"\s*\[\[?(?P<name>[^\[\]]+)\]\]?\s*(#.*)?")
# The name before the equals sign; one in quotes may hold an equals sign itself.
_KEY = re.compile(r"""\s*(?P<name>(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*'|[ \t.])+?)\s*=""")

# The end of a value depends on these: whole texts and comments, brackets, and ends of lines.
_SIGN = re.compile(
    r'''"""(?:\\.|[^\\])*?"{3,5}|'{3}.*?'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|#[^\n]*|[\[\]{}\n]''', re.DOTALL
)


class Spot(NamedTuple):
    """A place in a text, counted from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


class Places:
    """Finds the keys of a TOML text that has been read without an error."""

    def __init__(self, text: str) -> None:
        self._spots: dict[Path, Spot] = {}
        for path, spot in _keys(text):
            self._spots.setdefault(path, spot)

    def of(self, path: Path) -> Spot:
        """Where this key stands, or, of one within an inline table, the nearest key around it."""
        while path and path not in self._spots:
            path = path[:-1]
        return self._spots.get(path, Spot(1, 1))


def _keys(text: str) -> Iterator[tuple[Path, Spot]]:
    header: Path = ()
    at, number = 0, 1
    while at < len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        line = text[at:end].removesuffix("\r")
        if found := _HEADER.fullmatch(line):
            header = _path(found["name"])
            yield header, Spot(number, line.index("[") + 1)
        elif found := _KEY.match(line):
            # A header that only others are named below has no line of its own.
            yield (*header, *_path(found["name"])), Spot(number, found.start("name") + 1)
            end = _end_of_value(text, at + found.end())
        number += text.count("\n", at, end + 1)
        at = end + 1


def _path(name: str) -> Path:
    """The parts of a dotted name, without their quotes."""
    found: Mapping[str, Any] = tomllib.loads(f"{name} = 0")
    parts: list[str] = []
    while isinstance(found, dict):
        ((part, found),) = found.items()
        parts.append(part)
    return tuple(parts)


def _end_of_value(text: str, begin: int) -> int:
    """The end of the line that the value which begins here ends in."""
    depth = 0
    for token in _SIGN.finditer(text, begin):
        sign = token[0][0]
        depth += (sign in "[{") - (sign in "]}")
        if sign == "\n" and not depth:
            return token.start()
    return len(text)


Problem = Callable[[int, str, str], InvalidRequestError]
"""Makes the error of a line, a problem and a remedy."""


class _NoAliases(yaml.SafeLoader):
    """Aliases could make a small file an endless one, and nobody needs them here."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            # The library's types do not cover its parser.
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem="an alias (*) is used", problem_mark=mark)
        return super().compose_node(parent, index)


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of file: its greatest length, and the sentences about a file that is none."""

    most_characters: int
    # Remedy for a file that is too long.
    split: str
    # Problem and remedy for a character or a nesting that YAML does not take.
    strange: str
    save: str
    # Remedy for an empty file: where to see a whole one.
    example: str


def compose(text: str, kind: Kind, problem: Problem) -> yaml.Node:
    """The file's outermost node.

    Raises:
        InvalidRequestError: what `problem` makes, with the line.
    """
    if len(text) > kind.most_characters:
        longer = phrase("The file is longer than {most} characters.", most=kind.most_characters)
        raise problem(1, longer, kind.split)
    try:
        node = yaml.compose(text, Loader=_NoAliases)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise problem(
            mark.line + 1 if mark else 1,
            phrase("This is not YAML: {problem}.", problem=shown(error.problem or error.context or "?")),
            phrase("Put values with a colon, a quote or a bracket in them into double quotes; indent with spaces."),
        ) from None
    except (yaml.YAMLError, RecursionError):
        raise problem(1, kind.strange, kind.save) from None
    if node is None:
        raise problem(1, phrase("The file is empty."), kind.example)
    return node


def line_of(node: yaml.Node) -> int:
    """Where a node begins, counted from 1."""
    return node.start_mark.line + 1
