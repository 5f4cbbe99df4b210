"""Sources of a hundred thousand rows and more: exact counts whatever is wrong with some of them, kills at any moment, no disk."""

from __future__ import annotations

import os
import random  # noqa: TID251 - seeded choices, no secret
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from fakes import nursery
from fakes.deployment import Deployment, make, run
from fakes.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.process

# Enough for `init` to use a process for each agency, and for chunks to be many.
POPULATION = 100_000
REPEATED = 20_000
WRONG_EVERY = 997
LOADS = {"census": "registries", "health": "people"}
ROLES = pytest.mark.parametrize("role", LOADS)
# All of them while rows are loaded: a process that is forked has imported the program.
KILLS = 4


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """Made by two processes at once; nobody serves."""
    return make(tmp_path_factory.mktemp("large") / "deployment", population=POPULATION)


def load(deployment: Deployment, role: str, source: Path, *words: str) -> Any:
    """The outcome of a load."""
    return run(role, "load", "--home", deployment.home(role), "--json", *words, source)


def lines_of(deployment: Deployment, role: str) -> list[str]:
    """The source, header first, each line with its end."""
    return (deployment.home(role) / "people.csv").read_text("utf-8").splitlines(keepends=True)


def damaged(line: str, way: int) -> str:
    """The line with one thing wrong, which each agency notices."""
    return ('"' + line, line.replace(",", "", 1), "12345" + line, line.replace("\n", ",x\n"))[way]


@ROLES
def test_counts_are_exact_among_scattered_faults_and_repeats(deployment: Deployment, tmp_path: Path, role: str) -> None:
    """Each wrong row is counted once and everybody else is loaded; twenty thousand repeats are not people."""
    header, *rows = lines_of(deployment, role)
    carded = [row for row in rows if not row.startswith(",")]
    wrong = {at: damaged(row, at % 4) for at, row in enumerate(carded) if at % WRONG_EVERY == 0}
    source = tmp_path / "people.csv"
    repeats = carded[1 : REPEATED + 1]
    kept_repeats = sum((at + 1) % WRONG_EVERY != 0 for at in range(REPEATED))
    source.write_text("".join([header, *(wrong.get(at, row) for at, row in enumerate(carded)), *repeats]), "utf-8")
    assert load(deployment, role, source).error["code"] == "LOAD_REFUSED"
    result = load(deployment, role, source, "--max-rejected", str(2 * REPEATED)).result
    # A repeat whose first was wrong takes its place.
    assert result["rejected"] == len(wrong) + kept_repeats
    assert result["rows"] == len(carded) + REPEATED
    assert result["rows"] - result["rejected"] == result["linked" if role == "census" else "loaded"]


@ROLES
def test_file_without_its_last_rows_is_refused_where_that_shows(
    deployment: Deployment, tmp_path: Path, role: str
) -> None:
    """Cut in the middle of a row, after tens of thousands of good ones: the load before stays."""
    before = deployment.events(role)[-1]
    whole = "".join(lines_of(deployment, role))
    source = tmp_path / "people.csv"
    source.write_text(whole[: 2 * len(whole) // 3].rpartition("\n")[0] + "\n98", "utf-8")
    assert "ends in the middle of a row" in load(deployment, role, source).error["text"]
    assert deployment.events(role)[-1] == before


@ROLES
def test_load_that_is_killed_at_any_moment_leaves_one_load_in_force(deployment: Deployment, role: str) -> None:
    """SIGKILL again and again: the folder is clean after the next load, and the log names a load that is whole."""
    source = deployment.home(role) / "people.csv"
    began = time.monotonic()
    assert load(deployment, role, source).code == 0
    seconds = time.monotonic() - began
    dice = random.Random(role)
    for _ in range(KILLS):
        with Path(os.devnull).open("wb") as nowhere:
            words: list[str | Path] = [nursery.PROGRAM, role, "load", "--home", deployment.home(role), source]
            victim = nursery.start(words, nowhere.fileno(), nowhere.fileno())
        time.sleep(dice.uniform(0, seconds))
        victim.kill()
        victim.wait()
        in_force = [event["load"] for event in deployment.events(role) if event["type"] == "loaded"][-1]
        assert any(path.name.startswith(in_force) for path in (deployment.home(role) / LOADS[role]).iterdir())
    assert load(deployment, role, source).code == 0
    assert len(list((deployment.home(role) / LOADS[role]).iterdir())) == 1
    deployment.verify_ledger()


def test_init_whose_disk_is_full_ends_both_processes_and_leaves_nothing(tmp_path: Path) -> None:
    """One agency's failure is the whole command's."""
    directory = tmp_path / "d"
    outcome = subprocess.run(
        [sys.executable, "-m", "broker_common", "init", directory, "--population", str(POPULATION), "--json"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 20, 4 << 20)),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert (outcome.returncode, '"STORE_FAILED"' in outcome.stdout) == (6, True)
    assert list(directory.iterdir()) == []
    assert "Traceback" not in outcome.stderr
