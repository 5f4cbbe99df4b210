"""`attack`: what is wrong with a wish is said before anything is asked, and a verdict is said whatever becomes of its plot."""

from __future__ import annotations

import errno
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from fakes.deployment import run_here

from deploy import attack_commands
from deploy.attacks import plots
from deploy.attacks.arena import Say, Wish
from deploy.attacks.findings import Guesses, Report
from policy_lab.assessment.trials import read_attacks

BROKEN = Report("neighbour", (Guesses("beyond_budget", 60, 60, 0.5),), 9)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The attacks that were made: none is, they all end in the same verdict."""
    names: list[str] = []

    async def attacked(name: str, rounds: int | None, wish: Wish, say: Say) -> Report:
        del rounds, wish, say
        names.append(name)
        return BROKEN

    monkeypatch.setattr(attack_commands, "run", attacked)
    return names


def test_a_plot_that_cannot_be_written_is_refused_before_anything_is_asked(made: list[str], tmp_path: Path) -> None:
    """An attack's questions to a standing deployment are spent for good."""
    for file in (tmp_path / "nowhere" / "x.png", tmp_path / ("x" * 300)):
        outcome = run_here("attack", "neighbour", "--plot", file, "--json")
        assert (outcome.code, outcome.error["code"]) == (3, "FILE_UNUSABLE")
    assert not made
    assert run_here("attack", "neighbour", "--plot", tmp_path).code == 2
    assert not list(tmp_path.iterdir())


def test_trying_the_path_of_a_plot_leaves_it_as_it_is(
    made: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that stands there is whole until the new plot replaces it, and none is left where none is drawn."""
    seen: list[tuple[bool, bool]] = []
    old, new = tmp_path / "old.png", tmp_path / "new.png"
    old.write_bytes(b"old")

    def draw(reports: Sequence[Report], file: Path) -> None:
        del reports, file
        seen.append((old.read_bytes() == b"old", new.exists()))

    monkeypatch.setattr(plots, "plot_reports", draw)
    for file in (old, new):
        assert run_here("attack", "neighbour", "--plot", file).code == 1
    assert (seen, made) == ([(True, False)] * 2, ["neighbour"] * 2)


def test_the_verdict_is_said_before_it_is_drawn(
    made: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full by then takes the plot alone; under --json there is one object, and people read stderr."""

    def fail(reports: Sequence[Report], file: Path) -> None:
        del reports
        raise PermissionError(errno.EACCES, "gone by now", str(file))

    monkeypatch.setattr(plots, "plot_reports", fail)
    outcome = run_here("attack", "neighbour", "--plot", tmp_path / "x.png")
    assert outcome.code == 3
    assert "THE PROMISE DID NOT HOLD" in outcome.stdout
    assert "FILE_UNUSABLE" in outcome.stderr
    outcome = run_here("attack", "neighbour", "--plot", tmp_path / "x.png", "--json")
    assert json.loads(outcome.stdout)["error"]["code"] == "FILE_UNUSABLE"
    assert "THE PROMISE DID NOT HOLD" in outcome.stderr
    assert len(made) == 2


@pytest.mark.parametrize("option", [("--population", "5000"), ("--accounting", "strict")])
def test_what_is_for_a_new_deployment_is_not_said_of_one_that_stands(
    made: list[str], tmp_path: Path, option: tuple[str, str]
) -> None:
    """Also when it says what would be taken anyway."""
    outcome = run_here("attack", "neighbour", "--deployment", tmp_path, *option, "--json")
    assert (outcome.code, outcome.error["code"]) == (2, "USAGE")
    assert option[0] in outcome.error["text"]
    assert not made


def test_what_it_prints_says_how_it_was_made(made: list[str], tmp_path: Path) -> None:
    """An assessment compares it with the policy, and makes the same attacks again; a deployment that stands has its own people."""
    words = ("attack", "neighbour", "--rounds", "3", "--accounting", "strict", "--population", "700", "--json")
    printed = json.loads(run_here(*words).stdout)
    assert [printed[name] for name in ("accounting", "population", "rounds")] == ["strict", 700, 3]
    (tmp_path / "attacks.json").write_text(json.dumps(printed), "utf-8")
    attacked = read_attacks(tmp_path / "attacks.json", "strict")
    assert attacked.held == 0
    assert attacked.commands == (
        "tripartite attack neighbour --population 700 --accounting strict --seed 1 --rounds 3 --json",
    )
    printed = json.loads(run_here("attack", "neighbour", "--deployment", tmp_path, "--json").stdout)
    assert [printed[name] for name in ("accounting", "population", "rounds")] == [None] * 3
    assert len(made) == 2
