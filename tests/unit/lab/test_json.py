"""The keys of `--json` are those of docs/lab/json.md, command by command and block by block."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest
from fakes.invoking import invoke
from unit.lab.evaluations import evaluation
from unit.lab.farms import write_farms
from unit.lab.sensitivity.made_up import made_up_people

from policy_lab.cli import lab
from policy_lab.document import as_json, model
from policy_lab.site import running
from policy_lab.standing import Standing

pytestmark = pytest.mark.usefixtures("undrawn")

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "lab" / "json.md").read_text("utf-8")


def rows(section: str) -> list[list[str]]:
    """The rows of the table below a heading, as cells; the empty heading is the page's beginning."""
    body = TEXT.partition(f"## {section}\n")[2] if section else TEXT
    lines = [line for line in body.partition("\n## ")[0].splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def quoted(cell: str) -> list[str]:
    """Words in backticks there, but for options."""
    return [word for word in re.findall(r"`([^`]+)`", cell) if not word.startswith("--")]


DOCUMENT = {key for row in rows("A document") for key in quoted(row[0])}
PRINTED = {quoted(row[0])[0]: (DOCUMENT if row[1] == "yes" else set()) | set(quoted(row[2])) for row in rows("")}


def printed(*words: str | Path) -> dict[str, Any]:
    """The object on standard output."""
    done = invoke(lab, [*map(str, words), "--json"])
    assert done.exception is None, done.exception
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def assessed(folder: Path) -> dict[str, Any]:
    """`lab assessment`, of the usual policy."""
    return printed("assessment", "--without-attacks", "--language", "en", "--out", folder / "out")


def compared(folder: Path) -> dict[str, Any]:
    """`lab evaluate`, of a few respondents."""
    evaluation(folder)
    return printed("evaluate", folder / "run.yaml", "--out", folder / "out")


def estimated(folder: Path) -> dict[str, Any]:
    """`lab sensitivity`, of rows that are given."""
    table, generated = folder / "people.csv", folder / "generated.csv"
    table.write_text(made_up_people(rows=60, seed=1))
    generated.write_text(made_up_people(rows=80, seed=2))
    few = ("--samples", "2", "--repetitions", "2", "--column", "age")
    return printed("sensitivity", table, "--generated", generated, *few, "--out", folder / "out")


def checked(folder: Path) -> dict[str, Any]:
    """`lab checkpoint`, of a log that is given as it was read; tests of its own read real ones."""
    past = SimpleNamespace(
        checkpoint=SimpleNamespace(origin="census.example"), root="", answers=0, state="open", entries=7
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("policy_lab.assessment.past.read_past", lambda *_: past)
        return printed("checkpoint", folder, "--size", "7")


COMMANDS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "assessment": assessed,
    "checkpoint": checked,
    "evaluate": compared,
    "evaluate --example": lambda _: printed("evaluate", "--example"),
    "explain": lambda _: printed("explain", "tradeoff"),
    "explain --list": lambda _: printed("explain", "--list"),
    "sensitivity": estimated,
    "serve": lambda _: printed("serve"),
    "serve --save": lambda folder: printed("serve", "--save", folder / "pages"),
    "table": lambda folder: printed(
        "table", write_farms(folder / "farms.csv"), "--rows", "kind", "--epsilon", "1", "--out", folder / "out"
    ),
}


@pytest.fixture(autouse=True)
def _no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command says its address as if it were ready."""

    def run_lab(_port: int, *, lifeline: bool, say: Callable[[str], None]) -> None:
        assert not lifeline
        say("http://127.0.0.1:1")

    monkeypatch.setattr(running, "run_lab", run_lab)


def test_every_command_is_on_the_page() -> None:
    """With its forms."""
    assert set(PRINTED) == {f"tripartite lab {name}" for name in COMMANDS}
    assert {name.split()[0] for name in COMMANDS} == set(lab.commands)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_prints_the_keys_of_the_page(tmp_path: Path, name: str) -> None:
    """These and no others."""
    assert set(COMMANDS[name](tmp_path)) == PRINTED[f"tripartite lab {name}"]


def test_a_document_and_its_blocks_have_the_keys_of_the_page() -> None:
    """Every type, every key, and every standing."""
    types = {quoted(row[0])[0]: quoted(row[1]) for row in rows("Sections and blocks")}
    kinds = (model.Section, *get_args(model.Block), model.Axis, model.Line)
    assert {name: set(keys) for name, keys in types.items()} == {
        kind.__name__.lower(): {field.name for field in fields(kind)} for kind in kinds
    }
    assert set(as_json.value(model.Document("", "", Standing.PUBLIC, "", []))) == DOCUMENT
    (standings,) = (row[1] for row in rows("A document") if row[0] == "`standing`")
    assert set(quoted(standings)) == {each.value for each in Standing}


def test_figures_and_settings_have_the_keys_of_the_page() -> None:
    """A choice has no bounds."""
    figure, number, choice = (set(quoted(row[1])) for row in rows("What `explain --list` lists"))
    figures = printed("explain", "--list")["figures"]
    settings = [setting for each in figures for setting in each["settings"]]
    assert {frozenset(each) for each in figures} == {frozenset(figure)}
    assert {frozenset(each) for each in settings} == {frozenset(number), frozenset(choice)}


def test_what_sensitivity_measures_has_the_keys_of_the_page(tmp_path: Path) -> None:
    """Each entry of its lists."""
    wanted = {quoted(row[0])[0]: set(quoted(row[1])) for row in rows("What `sensitivity` measures")}
    found = estimated(tmp_path)
    assert set(found["arithmetic"]) == wanted.pop("arithmetic")
    for name, keys in wanted.items():
        assert {frozenset(each) for each in found[name]} == {frozenset(keys)}
