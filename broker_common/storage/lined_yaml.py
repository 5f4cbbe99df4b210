"""YAML whose nodes know their lines, for files that people write by hand: no aliases, a bound on length, errors with a line.

Readers take words as they are written. YAML's own readings of plain words are not used: `no` is a word, and so is the code `01`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import yaml

from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from broker_common.query.dictionary import shown

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
