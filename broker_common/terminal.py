"""Output for terminals: tables and pages as wide as the terminal, and colour where NO_COLOR is not set.

A pipe or a file gets plain text of any width, so that what a script reads does not depend on somebody's window.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Collection, Sequence
from typing import TextIO

import click

_GAP = "  "
# A cell that may be cut: so long where there is no terminal, and never shorter than that on one.
_PIPE_CHARACTERS = 40
_LEAST_CHARACTERS = 16
_INDENT = 4
# A narrower window shows nothing that is worth reading anyway.
_LEAST_WIDTH = 40


def coloured(text: str, colour: str, stream: TextIO | None = None) -> str:
    """The text in a colour, if one is named and the stream, standard output by default, is a terminal that wants any."""
    stream = sys.stdout if stream is None else stream
    plain = not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain or not colour else click.style(text, fg=colour)


def fitted(text: str) -> str:
    """A page whose lines fit the terminal, each with its indentation; as it is where there is none."""
    width = terminal_width()
    if width is None:
        return text
    return "\n".join(wrapped for line in text.split("\n") for wrapped in _wrapped(line, width))


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, may_be_cut: Collection[int] = (), colours: Sequence[str] = ()
) -> str:
    """Rows under their heads; where the terminal is too narrow for that, the rows one below the other with nothing cut.

    `may_be_cut` are the columns whose texts may be shortened; `colours` has one for each row, or an empty text.
    """
    width = terminal_width()
    natural = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    widths = _widths(natural, may_be_cut, width)
    colours = colours or [""] * len(rows)
    if widths is None:
        blocks = [_record(head, row, width or _LEAST_WIDTH) for row in rows]
        return "\n\n".join(coloured(block, colour) for block, colour in zip(blocks, colours, strict=True))
    lines = [_line(head, widths), *(coloured(_line(row, widths), c) for row, c in zip(rows, colours, strict=True))]
    return "\n".join(lines)


def terminal_width() -> int | None:
    """The columns of the terminal that standard output is; None where it is none."""
    return max(shutil.get_terminal_size().columns, _LEAST_WIDTH) if sys.stdout.isatty() else None


def _widths(natural: Sequence[int], may_be_cut: Collection[int], width: int | None) -> Sequence[int] | None:
    """How wide each column is; None where they do not stand side by side."""
    if width is None:
        return [min(n, _PIPE_CHARACTERS) if at in may_be_cut else n for at, n in enumerate(natural)]
    room = width - sum(n for at, n in enumerate(natural) if at not in may_be_cut) - len(_GAP) * (len(natural) - 1)
    given: dict[int, int] = {}
    # The shortest first: what it leaves is for the others.
    for left, at in zip(range(len(may_be_cut), 0, -1), sorted(may_be_cut, key=natural.__getitem__), strict=True):
        given[at] = min(natural[at], room // left)
        room -= given[at]
    if room < 0 or any(given[at] < min(natural[at], _LEAST_CHARACTERS) for at in given):
        return None
    return [given.get(at, n) for at, n in enumerate(natural)]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return _GAP.join(cut(cell, width).ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def cut(text: str, width: int) -> str:
    """The text, or its beginning and an ellipsis."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _record(head: Sequence[str], row: Sequence[str], width: int) -> str:
    """A row as lines: the name of each column, and all of its text."""
    indent = max(map(len, head)) + len(_GAP)
    lines = []
    for name, cell in zip(head, row, strict=True):
        lines += textwrap.wrap(
            cell,
            width,
            initial_indent=name.ljust(indent),
            subsequent_indent=" " * indent,
            break_on_hyphens=False,
        ) or [name]
    return "\n".join(lines)


def _wrapped(line: str, width: int) -> list[str]:
    indent = len(line) - len(line.lstrip())
    return textwrap.wrap(
        line,
        width,
        subsequent_indent=" " * min(indent + _INDENT, width // 2),
        drop_whitespace=True,
        replace_whitespace=False,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [line]
