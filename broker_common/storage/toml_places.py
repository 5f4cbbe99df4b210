"""Where a key of a TOML text stands, so that an error can name the line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

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
