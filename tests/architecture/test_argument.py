"""Every guard that the privacy argument names stands in the file that it is said to be in, by that name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ARGUMENT = (ROOT / "broker_common" / "privacy" / "ARGUMENT.md").read_text(encoding="utf-8")
# `module.name` of the first table, and where else they are named: tests/unit/privacy/test_argument.py looks those up.
_MECHANISM = re.compile(r"(?:accounting|belief|discrete_laplace|enclosure|noise_stream|table_laplace)\.\w+")
_ELSEWHERE = "Held elsewhere"


def cells() -> list[str]:
    """Code cells of the tables under "Held elsewhere", row by row."""
    rows = [line.split(" | ") for line in ARGUMENT.partition(_ELSEWHERE)[2].splitlines() if line.startswith("| ")]
    return [row[1] for row in rows if row[1] != "code"]


def guards(cell: str) -> list[tuple[str, str]]:
    """Path and name of each, as "`one` and `another` in `path`" has it; the path is empty for names without one."""
    found: list[tuple[str, str]] = []
    names: list[str] = []
    end = 0
    for span in re.finditer(r"`([^`]+)`", cell):
        if span[1].endswith(".py"):
            if cell[end : span.start()].endswith(" in "):
                found += [(span[1], name) for name in names]
                names = []
        elif not _MECHANISM.fullmatch(span[1]):
            names.append(span[1])
        end = span.end()
    return found + [("", name) for name in names]


def stands_in(source: str, name: str) -> bool:
    """Whether a file defines a name, or all parts of a dotted one."""
    return all(
        re.search(rf"\b(?:def|class) {part}\b|^\s*{part}\s*[:=]|\"{part}\"", source, re.MULTILINE)
        for part in map(re.escape, name.split("."))
    )


def test_the_argument_names_guards() -> None:
    """The test below checks something."""
    assert len(cells()) > 20
    assert ("census_node/ledger/book.py", "room_for") in {guard for cell in cells() for guard in guards(cell)}


@pytest.mark.parametrize(("path", "name"), sorted({guard for cell in cells() for guard in guards(cell)}))
def test_every_guard_stands_where_it_is_said_to(path: str, name: str) -> None:
    """A guard that was renamed, moved or removed is not leaned on any more."""
    assert path, f"{name} is in no file"
    assert stands_in((ROOT / path).read_text(encoding="utf-8"), name)
