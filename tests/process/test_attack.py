"""`tripartite attack`: real nodes are attacked, the verdict is one JSON object, and nothing is left behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fakes.deployment import make, run, run_here

pytestmark = pytest.mark.process

_PNG = b"\x89PNG\r\n\x1a\n"


def test_neighbour_attacks_a_deployment_of_its_own_and_leaves_nothing(tmp_path: Path) -> None:
    """Whole budgets of known people are spent and gone beyond; each success has its curve, its interval and a plot."""
    plot, folder = tmp_path / "neighbour.png", tmp_path / "temporary"
    folder.mkdir()
    options = ("--rounds", "2", "--population", "2000", "--seed", "7", "--plot", plot)
    outcome = run("attack", "neighbour", *options, "--json", env={**os.environ, "TMPDIR": str(folder)})
    result = outcome.result
    assert (result["attack"], result["held"], result["deployment"]) == ("neighbour", True, None)
    findings = {(found["name"], *found.get("scales", ())): found for found in result["findings"]}
    assert findings["whole_budget",]["trials"] == findings["beyond_budget",]["trials"] == 2
    assert findings["beyond_budget",]["curve"] == 0.5
    assert findings["paper_guess",]["curve"] == pytest.approx(0.543, abs=0.001)
    low, high = findings["paper_guess",]["interval_95"]
    assert low <= findings["paper_guess",]["rate"] <= high
    assert findings["noise", 30]["draws"] == 41
    assert findings["table_guess",]["trials"] == findings["table_noise", 1]["draws"] == 2
    # The overseer's key says that people were counted for all of their budget, and for nothing beyond it.
    assert 0 < findings["counted_units",]["value"] <= findings["counted_units",]["limit"]
    assert plot.read_bytes().startswith(_PNG)
    assert not list(folder.iterdir())


def test_average_attacks_a_deployment_that_stands(tmp_path: Path) -> None:
    """It says what it spends, is refused nothing, and the deployment stays; under strict accounting one budget pays."""
    deployment = make(tmp_path / "deployment")
    with deployment.nodes():
        outcome = run("attack", "average", "--deployment", deployment.directory, "--rounds", "1", "--json")
        # Nobody has two cards there, and one budget is everybody's.
        refused = run_here("attack", "cards", "--deployment", deployment.directory, "--json")
    assert (refused.code, refused.error["code"]) == (3, "INVALID_VALUE")
    assert "strict" in refused.error["text"]
    result = outcome.result
    assert result["held"]
    assert str(deployment.directory) in outcome.stderr
    assert {found["name"] for found in result["findings"]} >= {
        "retry",
        "charged_each",
        "average_error",
        "parts_error",
        "table_sum",
    }
    charged = [event for event in deployment.events("census") if event["type"] == "charged"]
    assert len(charged) == result["answers"] == 11


def test_an_attack_that_does_not_exist_is_a_mistake_in_usage() -> None:
    """And no deployment is made for it."""
    assert run_here("attack", "nothing", "--json").code == 2
