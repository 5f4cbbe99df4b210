"""Spreadsheets compute nothing of the lab's results, and show every figure as it is."""

from __future__ import annotations

import csv
import re
from fractions import Fraction
from pathlib import Path

import pytest
from fakes.deployment import run_here

from policy_lab.document.as_csv import as_csv
from policy_lab.standing import Standing

LAB = Path(__file__).parents[4] / "policy_lab"


def cells(content: bytes) -> list[list[str]]:
    """The rows behind the mark."""
    return list(csv.reader(content.decode().splitlines(keepends=True)[1:]))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("@SUM(1)", "'@SUM(1)"),
        ("=1+1", "'=1+1"),
        ("-1", "'-1"),
        ("+1", "'+1"),
        ("＝1", "'＝1"),  # noqa: RUF001
        (" =1", "' =1"),
        ("\t=1", "'=1"),
        ("\x00\x1b=1", "'=1"),
        ("a\x1b[2Jb\x9b\r\n", "a[2Jb"),
        ("Québec, a-b", "Québec, a-b"),
    ],
)
def test_no_text_is_a_formula_or_moves_a_terminal(text: str, shown: str) -> None:
    """Neither in a head nor in a cell."""
    assert cells(as_csv(Standing.PUBLIC, (text, "b"), [("c", text)])) == [[shown, "b"], ["c", shown]]


def test_figures_are_as_they_are() -> None:
    """A negative number is no formula, and what is not known is empty."""
    content = as_csv(Standing.PUBLIC, ("a",), [(-0.1, -2, Fraction(-1, 3), None)])
    assert content.startswith(f"# {Standing.PUBLIC.mark}\n".encode())
    assert cells(content)[1] == ["-0.1", "-2", "-1/3", ""]


def test_every_csv_file_of_results_is_written_by_it() -> None:
    """The author of another one by hand forgets the heads or the signs."""
    writers = {
        str(file.relative_to(LAB))
        for file in LAB.rglob("*.py")
        if re.search(r"\bcsv\.(Dict)?[wW]riter|\bto_csv\(|\bwrite_csv\(", file.read_text("utf-8"))
    }
    assert writers == {"document/as_csv.py"}


RUN = """
title: Formulas
data: people.csv
standing: synthetic
seed: 1
repetitions: 2
epsilons: [1]
strata: {column: group, values: [-north, south]}
dynamic:
  "@SUM(1)": {categories: ["=1", b]}
queries: [count]
mechanisms: [global]
"""
PEOPLE = "group,@SUM(1)\n-north,=1\n-north,b\nsouth,=1\nsouth,b\n"
COMMANDS = {
    "evaluate": ("lab", "evaluate", "run.yaml"),
    "table": (
        "lab",
        "table",
        "--rows",
        "group",
        "--columns",
        "@SUM(1)",
        "--epsilon",
        "1",
        "--rule",
        "laplace",
        "odd.csv",
    ),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_file_of_a_command_holds_a_formula(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of columns and categories are somebody's words, in heads as in cells."""
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text(PEOPLE, "utf-8")
    Path("odd.csv").write_text(PEOPLE.replace("south", "so\x1buth").replace("=1", "@1"), "utf-8")
    Path("run.yaml").write_text(RUN, "utf-8")
    outcome = run_here(*COMMANDS[command], "--out", "out")
    assert outcome.code == 0, outcome.stderr
    sheets = [file.read_bytes() for file in Path("out").rglob("*.csv")]
    found = [cell for sheet in sheets for row in cells(sheet) for cell in row]
    assert any(cell.startswith("'") for cell in found)
    assert not [cell for cell in found if cell.startswith(("=", "@", "-n"))]
    assert not [sheet for sheet in sheets if b"\x1b" in sheet]
