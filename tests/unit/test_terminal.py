"""Tables and pages fit the terminal; a pipe gets the same text everywhere; colour is for terminals that want it."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest

from broker_common import terminal

HEAD = ("asked", "question", "query")
ROWS = [("2026-03-31", "mother_tongue in ('English', 'French')", "ab" * 16), ("2026-04-01", "all", "cd" * 16)]


class Screen(io.StringIO):
    """A standard output that says whether it is a terminal."""

    def __init__(self, *, is_terminal: bool = True) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """A terminal of so many columns; 0: a pipe."""
    columns: int = request.param
    # The module's own name for it: pytest puts another standard output in its place between set-up and test.
    monkeypatch.setattr(terminal, "sys", SimpleNamespace(stdout=Screen(is_terminal=columns > 0)))
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.parametrize("screen", [66, 80, 120], indirect=True)
@pytest.mark.usefixtures("screen")
def test_a_table_is_no_wider_than_the_terminal(request: pytest.FixtureRequest) -> None:
    """Only what may be cut is cut, and no more than it has to be."""
    columns = request.node.callspec.params["screen"]
    lines = terminal.table(HEAD, ROWS, may_be_cut=[1]).split("\n")
    assert len(lines) == 3
    assert max(map(len, lines)) == min(columns, 10 + 2 + len(ROWS[0][1]) + 2 + 32)
    assert [line.split()[-1] for line in lines[1:]] == ["ab" * 16, "cd" * 16]
    assert ("…" in lines[1]) == (columns < 84)


@pytest.mark.parametrize("screen", [60], indirect=True)
@pytest.mark.usefixtures("screen")
def test_rows_stand_one_below_the_other_where_a_table_has_no_room() -> None:
    """With nothing cut; every line fits, and an id stays in one piece."""
    text = terminal.table(HEAD, ROWS, may_be_cut=[1])
    assert max(map(len, text.split("\n"))) <= 60
    first, second = text.split("\n\n")
    assert first == f"asked     2026-03-31\nquestion  mother_tongue in ('English', 'French')\nquery     {'ab' * 16}"
    assert second.startswith("asked     2026-04-01\n")


@pytest.mark.parametrize("screen", [0], indirect=True)
@pytest.mark.usefixtures("screen")
def test_a_pipe_gets_the_same_table_whatever_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts read it: no colour, no wrapping, and cells that may be cut have forty characters."""
    rows = [("2026-03-31", "x" * 50, "ab" * 16)]
    text = terminal.table(HEAD, rows, may_be_cut=[1], colours=["red"])
    assert text.split("\n")[1] == f"2026-03-31  {'x' * 39}…  {'ab' * 16}"
    monkeypatch.setenv("COLUMNS", "50")
    assert terminal.table(HEAD, rows, may_be_cut=[1]) == text
    assert terminal.fitted("word " * 50) == "word " * 50


@pytest.mark.parametrize("screen", [50], indirect=True)
@pytest.mark.usefixtures("screen")
def test_a_page_is_wrapped_below_its_own_indentation() -> None:
    """Continuations of a line keep its indentation; a long word is not broken, and blank lines stay."""
    text = terminal.fitted(
        "head\n\n      'E11.9'  Type 2 diabetes mellitus without complications, chronic\n" + "y" * 60
    )
    assert text == (
        "head\n\n      'E11.9'  Type 2 diabetes mellitus without\n          complications, chronic\n" + "y" * 60
    )


@pytest.mark.parametrize("screen", [80], indirect=True)
@pytest.mark.usefixtures("screen")
def test_colour_is_for_terminals_that_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR, a dumb terminal and a stream that is none each get plain text; a table is as wide with colour as without."""
    assert terminal.coloured("no", "red") == "\x1b[31mno\x1b[0m"
    assert terminal.coloured("no", "red", Screen(is_terminal=False)) == "no"
    assert "\x1b[31m2026-03-31" in terminal.table(HEAD, ROWS, may_be_cut=[1], colours=["red", ""])
    with monkeypatch.context() as changed:
        changed.setenv("TERM", "dumb")
        assert terminal.coloured("no", "red") == "no"
    monkeypatch.setenv("NO_COLOR", "1")
    assert terminal.coloured("no", "red") == "no"
    assert "\x1b" not in terminal.table(HEAD, ROWS, may_be_cut=[1], colours=["red", ""])
