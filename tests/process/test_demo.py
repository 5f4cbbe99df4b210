"""`tripartite demo`: the paper's story between real processes, in a folder of its own, with nothing left behind."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from fakes.deployment import Deployment, node_pids, run_here
from fakes.nursery import PROGRAM
from fakes.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.process

POPULATION = "10000"
# Four studies at scale 10, and what is left of ln 4 at scale 30.
STUDIES = 4
ANSWERS = STUDIES + (23_258_159 - STUDIES * 1_677_722) // 559_241


def run_demo(place: Path, *options: str) -> tuple[str, str, Deployment]:
    """Output of a demo on stdout and stderr, and its deployment. Writing anything but its folder fails the test."""
    folders = {variable: place / variable.lower() for variable in ("HOME", "TMPDIR", "XDG_CACHE_HOME")}
    working = place / "working"
    for folder in (*folders.values(), working):
        folder.mkdir()
    ended = subprocess.run(
        [PROGRAM, "demo", "--population", POPULATION, *options],
        cwd=working,
        env={"PATH": "/usr/bin:/bin", **{variable: str(folder) for variable, folder in folders.items()}},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr
    assert [path.name for path in working.iterdir()] == ["demo"]
    assert not [path for folder in folders.values() for path in folder.iterdir()]
    deployment = Deployment(working / "demo" / "deployment")
    assert not node_pids(deployment.directory)
    return ended.stdout, ended.stderr, deployment


def test_the_demo_as_json_drives_the_service_to_its_cap_and_is_refused(tmp_path: Path) -> None:
    """One JSON object: two studies, an attack whose belief never passes the cap, and the refusal of the next question."""
    stdout, stderr, deployment = run_demo(tmp_path, "--json")
    assert stdout.count("\n") == 1
    assert f"Question {ANSWERS + 1}:" in stderr, "the story goes to stderr"
    result: dict[str, Any] = json.loads(stdout)
    assert list(result) == ["population", "studies", "attack", "status", "audit"]
    assert result["population"] == int(POPULATION)
    assert [study["label"] for study in result["studies"]] == ["angioplasty", "no stay", "1 or 2 stays", "3 or more"]
    attack = result["attack"]
    for study in result["studies"]:
        assert 0 <= study["misleads"] <= 1
        assert study["margin_95"] == 38
    assert attack["answers"] == ANSWERS == len(attack["beliefs"]) + len(result["studies"])
    assert max(attack["beliefs"]) <= attack["ceiling"] <= 0.8
    assert attack["refused"]["code"] == "SERVICE_SHUT_DOWN"
    status = deployment.json("census", "status")
    assert (status["state"], status["answers"]) == (result["status"]["state"], ANSWERS) == ("shutdown", ANSWERS)
    assert status["worst_belief"] == result["status"]["worst_belief"] <= 0.8
    honest, flipped = result["audit"]["honest"], result["audit"]["one_bit_flipped"]
    assert (honest["verified"], honest["answers"], honest["noise_proved"]) == (True, ANSWERS, ANSWERS)
    assert honest["worst_belief"] == status["worst_belief"]
    assert not flipped["verified"]
    last_charge = [number for number, event in enumerate(deployment.events("census")) if event["type"] == "charged"][-1]
    assert [(found["code"], found["log"], found["entry"]) for found in flipped["problems"]] == [
        ("ENTRY_DAMAGED", "census", last_charge)
    ]
    deployment.verify_ledger()


def test_the_demo_as_text_tells_the_story_in_order(tmp_path: Path) -> None:
    """It introduces the nodes, both studies, the attack with its law, the refusal and the replayed log."""
    stdout, _, deployment = run_demo(tmp_path)
    parts = [
        f"A synthetic Ontario of {int(POPULATION):,} people. Nobody in it exists.",
        "census node ready on",
        "health node ready on",
        "researcher inbox ready on",
        "Study 1: francophones",
        "; misleads ",
        "Study 2: hospital use",
        f"charged so far: {STUDIES} answers",
        "The attack (Figure 2 of the paper).",
        "never above 80.0 %",
        f"answer {ANSWERS} ",
        "could be at most  79.7 %",
        f"Question {ANSWERS + 1}:",
        "The service has shut down",
        f"{ANSWERS} answers charged once each, worst belief 0.79685, cap 0.8",
        "Everything that was handed in holds.",
        f"of {ANSWERS} answers computed again",
        "with one bit of the last charge flipped",
        "NOT VERIFIED: 1 problem; the first is ENTRY_DAMAGED in census log",
        "nothing is left running",
    ]
    places = [stdout.find(part) for part in parts]
    assert -1 not in places, [part for part, place in zip(parts, places, strict=True) if place == -1]
    assert places == sorted(places)
    deployment.verify_ledger()


def test_a_demo_touches_no_folder_that_is_not_an_earlier_demo(tmp_path: Path) -> None:
    """A folder that holds anything else is refused untouched; too small a population is a usage error."""
    (tmp_path / "thesis.txt").write_text("years of work")
    outcome = run_here("demo", "--directory", tmp_path, "--population", POPULATION, "--json")
    assert (outcome.code, outcome.error["code"]) == (3, "HOME_INVALID")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    assert run_here("demo", "--population", "9999", "--json").code == 2
