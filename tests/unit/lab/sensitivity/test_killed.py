"""The whole command with CTGAN: killed without warning while it trains, and run again."""

from __future__ import annotations

import json
import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest
from fakes.nursery import PROGRAM
from unit.lab.sensitivity.made_up import made_up_people

pytestmark = [
    pytest.mark.skipif(
        find_spec("ctgan") is None,
        reason="CTGAN is not installed: 'make .venv/.ctgan' installs it, under a licence of its own",
    ),
    pytest.mark.process,
]
EPOCHS = 20


def words(table: Path, out: Path, *more: str) -> list[str | Path]:
    """A small evaluation."""
    small = (
        "--column",
        "age",
        "--epochs",
        str(EPOCHS),
        "--samples",
        "2",
        "--repetitions",
        "10",
        "--seed",
        "4",
        "--json",
    )
    return [PROGRAM, "lab", "sensitivity", table, "--out", out, *small, *more]


def test_killed_command_goes_on_where_it_was(tmp_path: Path) -> None:
    """It says after which epoch, asks for no licence twice, and ends with the model and figures of a run that nobody killed."""
    table = tmp_path / "people.csv"
    table.write_text(made_up_people(rows=1100, seed=3))
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    with subprocess.Popen(
        words(table, killed, "--accept-licence"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr is not None
        assert any(f"epoch 12 of {EPOCHS}" in line for line in running.stderr)
        running.kill()
    again = subprocess.run(words(table, killed), capture_output=True, text=True, check=True)
    found = re.search(rf"goes on after epoch (\d+) of {EPOCHS}", again.stderr)
    assert found is not None
    assert 10 <= int(found[1]) < EPOCHS
    assert "Business Source License" not in again.stderr
    unhurt = subprocess.run(words(table, whole, "--accept-licence"), capture_output=True, text=True, check=True)
    assert unhurt.stderr.count("Business Source License 1.1") == 2
    assert (killed / "model" / "weights.npz").read_bytes() == (whole / "model" / "weights.npz").read_bytes()
    assert json.loads(again.stdout)["trials"] == json.loads(unhurt.stdout)["trials"]


def test_saved_model_is_used_from_another_folder(tmp_path: Path) -> None:
    """Nothing is trained, the licence is asked for in the new folder, and rows are those of the same model."""
    table, first, other = tmp_path / "people.csv", tmp_path / "first", tmp_path / "other"
    table.write_text(made_up_people(rows=300, seed=3))
    made = subprocess.run(words(table, first, "--accept-licence"), capture_output=True, text=True, check=True)
    more = ("--model", str(first / "model"))
    refused = subprocess.run(words(table, other, *more), capture_output=True, text=True, check=False)
    assert (refused.returncode, json.loads(refused.stdout)["error"]["code"]) == (3, "LICENCE_NOT_ACCEPTED")
    used = subprocess.run(words(table, other, *more, "--accept-licence"), capture_output=True, text=True, check=True)
    assert "Training" not in used.stderr
    assert json.loads(used.stdout)["trials"] == json.loads(made.stdout)["trials"]
