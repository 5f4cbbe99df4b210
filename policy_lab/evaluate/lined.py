"""YAML in which everything knows its line: values are taken as they are written, and every error names its line.

YAML's own readings of plain words are not used: `no` is a word, and so is the code `01`.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import yaml

from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from broker_common.query.dictionary import listed, shown
from broker_common.storage.lined_text import Kind, compose, line_of

_MOST_CHARACTERS = 262_144
MOST_BYTES = 4 * _MOST_CHARACTERS + 1
"""So many bytes of UTF-8 are more characters than a file may have."""
_MOST_ENTRIES = 4096
_RUN_FILE = Kind(
    most_characters=_MOST_CHARACTERS,
    split=phrase("Split it into several run files."),
    strange=phrase("This is not YAML: a character or a nesting that no run file has."),
    save=phrase("Save the file as UTF-8 text; 'tripartite lab evaluate --example' prints a whole one."),
    example=phrase("'tripartite lab evaluate --example' prints a whole one."),
)
_COMPARED_CHARACTERS = 80
_WHOLE = re.compile(r"[0-9]{1,18}")
_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Word:
    """A word or a number of the file, as it is written there."""

    text: str
    line: int


def quoted(word: str) -> str:
    """The author's word in a sentence; in quotes no catalogue takes it for a word of ours."""
    return f"'{shown(word)}'"


class LinedFile:
    """One file that is being read; `name` is what errors call it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def problem(self, line: int, problem: str, remedy: str) -> InvalidRequestError:
        """The problem of a line, and what to type instead."""
        return InvalidRequestError("RUN_INVALID", file=self.name, number=line, problem=problem, remedy=remedy)

    def unknown(self, what: str, word: Word, names: Iterable[str]) -> InvalidRequestError:
        """There is no such thing; the names most like the word say what may have been meant."""
        known = list(names)
        near = _nearest(word.text, known)
        problem = phrase("There is no {what} {word}.", what=what, word=quoted(word.text))
        if near:
            problem = phrase(
                "There is no {what} {word}; the nearest is {near}.",
                what=what,
                word=quoted(word.text),
                near=quoted(near),
            )
        return self.problem(word.line, problem, phrase("Known names: {names}", names=listed(known) or "-"))

    def parse(self, text: str) -> yaml.Node:
        """The file's outermost node.

        Raises:
            InvalidRequestError: RUN_INVALID, with the line.
        """
        return compose(text, _RUN_FILE, self.problem)

    def keys(self, node: yaml.Node, what: str, known: Sequence[str]) -> dict[str, yaml.Node]:
        """The entries of a mapping whose keys are known."""
        found: dict[str, yaml.Node] = {}
        for name, value in self.named(node, what):
            if name.text not in known:
                raise self.unknown(phrase("key"), name, known)
            found[name.text] = value
        return found

    def named(self, node: yaml.Node, what: str) -> list[tuple[Word, yaml.Node]]:
        """The entries of a mapping; no name stands there twice."""
        if not isinstance(node, yaml.MappingNode) or not node.value:
            raise self.problem(
                line_of(node),
                phrase("{what} has no entries.", what=what),
                phrase("Write NAME: VALUE, each on a line of its own."),
            )
        found: dict[str, tuple[Word, yaml.Node]] = {}
        for key, value in node.value:
            name = self.word(key)
            self.verify_new(name, found)
            found[name.text] = (name, value)
        return list(found.values())

    def verify_new(self, name: Word, names: Iterable[str]) -> None:
        """Return only if the name is not among those."""
        if name.text in names:
            raise self.problem(
                name.line,
                phrase("{name} is listed twice.", name=quoted(name.text)),
                phrase("Remove or rename one of them."),
            )

    def items(self, node: yaml.Node, what: str) -> Sequence[yaml.Node]:
        """The entries of a list."""
        if not isinstance(node, yaml.SequenceNode) or not node.value:
            raise self.problem(
                line_of(node),
                phrase("{what} is not a list.", what=what),
                phrase("Write the entries in brackets, such as [a, b], or each on a line that begins with a dash."),
            )
        if len(node.value) > _MOST_ENTRIES:
            raise self.problem(
                line_of(node),
                phrase("{what} has more than {most} entries.", what=what, most=_MOST_ENTRIES),
                phrase("Put some of them together."),
            )
        return tuple(node.value)

    def words(self, node: yaml.Node, what: str) -> tuple[Word, ...]:
        """A list of different words."""
        found: dict[str, Word] = {}
        for each in self.items(node, what):
            word = self.word(each)
            self.verify_new(word, found)
            found[word.text] = word
        return tuple(found.values())

    def word(self, node: yaml.Node) -> Word:
        """One word."""
        if not isinstance(node, yaml.ScalarNode) or not node.value.strip():
            raise self.problem(
                line_of(node),
                phrase("A word is missing here."),
                phrase("Write it after the colon, in quotes if it has a colon, a bracket or a quote."),
            )
        return Word(node.value, line_of(node))

    def choice(self, node: yaml.Node, what: str, names: Iterable[str]) -> str:
        """One of these names."""
        word, known = self.word(node), list(names)
        if word.text not in known:
            raise self.unknown(what, word, known)
        return word.text

    def number(self, node: yaml.Node, what: str, bounds: tuple[float, float]) -> float:
        """A number within bounds."""
        word = self.word(node)
        value = float(word.text) if _NUMBER.fullmatch(word.text) else math.nan
        low, high = bounds
        if not low <= value <= high:
            raise self.problem(
                word.line,
                phrase("{what} is {word}.", what=what, word=quoted(word.text)),
                phrase("Write a number from {low} to {high}.", low=f"{low:.12g}", high=f"{high:.12g}"),
            )
        return value

    def whole(self, node: yaml.Node, what: str, least: int, most: int) -> int:
        """A whole number within bounds."""
        word = self.word(node)
        if not _WHOLE.fullmatch(word.text) or not least <= int(word.text) <= most:
            raise self.problem(
                word.line,
                phrase("{what} is {word}.", what=what, word=quoted(word.text)),
                phrase("Write a whole number from {low} to {high}.", low=least, high=most),
            )
        return int(word.text)

    def needed(self, items: Mapping[str, yaml.Node], key: str, line: int, example: str) -> yaml.Node:
        """The entry with this key, which may not be left out."""
        if key not in items:
            raise self.problem(
                line,
                phrase("{key} is missing.", key=quoted(key)),
                phrase("Write, such as: {example}", example=example),
            )
        return items[key]


def _nearest(word: str, names: Iterable[str]) -> str:
    """The name most like the word, case aside; empty if there is none."""
    folded = {name.casefold(): name for name in names}
    close = difflib.get_close_matches(word.casefold()[:_COMPARED_CHARACTERS], folded, n=1, cutoff=0.0)
    return folded[close[0]] if close else ""
