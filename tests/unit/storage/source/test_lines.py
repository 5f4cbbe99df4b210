"""Splitting many lines at once: the same fields and the same reasons as line by line."""

from __future__ import annotations

import csv

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker_common.storage.source import csv_file
from broker_common.storage.source.csv_file import TOO_LONG, fields, split_lines

LONGEST = 30
PIECES = (b"a", b"7", b",", b",", b'"', b'""', b'","', b" ", b"\r", b"\xc3\xa9", b"\xff", b"\xc3", b"x" * LONGEST)


@st.composite
def lines(draw: st.DrawFn) -> list[bytes]:
    """Lines of a file: ordinary ones mostly, the last of which may not end."""
    odd = st.lists(st.sampled_from(PIECES), max_size=8).map(b"".join)
    drawn = draw(st.lists(st.sampled_from([b"1,f,a", b'2,"m",b', b"3,,", b""]) | odd, min_size=1, max_size=12))
    ended = [line + draw(st.sampled_from([b"\n", b"\r\n"])) for line in drawn]
    return ended if draw(st.booleans()) or not drawn[-1] else [*ended[:-1], drawn[-1]]


def one_by_one(lines: list[bytes], width: int) -> tuple[list[tuple[int, list[str]]], list[tuple[int, str]]]:
    """The slow way: rows with their places, and what is wrong with the other lines."""
    rows: list[tuple[int, list[str]]] = []
    rejected: list[tuple[int, str]] = []
    for at, line in enumerate(lines):
        try:
            row = fields(line.decode("utf-8"))
        except UnicodeDecodeError:
            row, reason = [], "is not UTF-8 text"
        except csv.Error:
            row, reason = [], "has a quote in the wrong place or one that is not closed"
        else:
            reason = f"has {len(row)} fields instead of {width}" if row and len(row) != width else ""
        reason = TOO_LONG if len(line) > LONGEST else reason
        if reason:
            rejected.append((at, reason))
        elif row:
            rows.append((at, row))
    return rows, rejected


@given(lines=lines(), width=st.integers(1, 4))
# Two lines that would be one row if a value could span lines.
@example(lines=[b'1,f,"\n', b'",\n', b'2,m,"b"\n'], width=3)
def test_lines_are_read_together_as_they_are_one_by_one(lines: list[bytes], width: int) -> None:
    """Quotes, other encodings, ragged, empty and long lines anywhere change nothing for the others."""
    rejected: list[tuple[int, str]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_file, "MAX_LINE_BYTES", LONGEST)
        columns, places = split_lines(lines, width, lambda at, reason: rejected.append((at, reason)))
    rows = [list(row) for row in zip(*columns, strict=True)]
    assert (list(zip(places, rows, strict=True)), sorted(rejected)) == one_by_one(lines, width)
