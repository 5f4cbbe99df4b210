"""docs/linkage.md, word for word: every command that it shows is run, in its order, on the registers that it makes."""

from __future__ import annotations

import csv
import re
import shlex
from pathlib import Path

import pytest
from fakes.deployment import run_here

pytestmark = pytest.mark.process

DOCUMENT = Path(__file__).parents[2] / "docs" / "linkage.md"


def pairs(path: Path) -> set[tuple[str, str]]:
    """Cards and persons of a file."""
    with path.open(encoding="utf-8", newline="") as file:
        return {(row["health_card"], row["person_id"]) for row in csv.DictReader(file) if row["health_card"]}


def test_every_command_of_the_page_runs(tmp_path: Path) -> None:
    """From made-up registers to a table that the census node loads, with clerks' decisions in between.

    The home's settings have it learn from a twentieth of the usual pairs, which takes half the time and links as well.
    """
    blocks = re.findall(r"```sh\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    assert len(lines) == 5
    deployment, out = tmp_path / "deployment", tmp_path / "out"
    for line in lines:
        words = shlex.split(line.replace("DIR", str(deployment)).replace("OUT", str(out)))
        assert words[0] == "tripartite"
        if deployment.exists():
            (deployment / "census" / "linking.toml").write_text("training_pairs = 100_000\n")
        ended = run_here(*words[1:])
        assert ended.code == 0, (line, ended.stderr)
    truth = pairs(deployment / "registers" / "truth.csv")
    for folder, least in ((deployment / "census", 0.95), (out, 0.2)):
        linked = pairs(folder / "people.csv")
        assert len(linked & truth) >= 0.999 * len(linked)
        assert len(linked & truth) >= least * len(truth)
