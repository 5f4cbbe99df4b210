"""`tripartite lab evaluate` as users run it: killed at any time, over several processes, on a million rows."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fakes.deployment import run
from fakes.nursery import PROGRAM
from fakes.patience import PATIENCE_SECONDS
from unit.lab.evaluations import RUN, evaluation

pytestmark = pytest.mark.process

ROWS = 1_000_000
# It says its memory itself: the usage that a parent reads includes its own from before the fork. The libraries take a third of
# it, the arrays of a million rows a tenth.
WATCHED = """
import atexit, pathlib
from broker_common.__main__ import main
atexit.register(lambda: pathlib.Path("memory").write_text(pathlib.Path("/proc/self/status").read_text()))
main()
"""
MOST_KILOBYTES = 900_000
MANY = """\
data: many.parquet
standing: synthetic
seed: 1
repetitions: 1
epsilons: [1]
delta: 1e-6
weights: {column: weight, cap: 100}
strata: {column: region, values: [east, west]}
static: {age: {categories: [young, old]}}
dynamic: {smokes: {categories: [yes, no]}, height: {low: 1, high: 2}}
mechanisms:
  - global
  - local: {numbers: truncated}
  - shuffled: {numbers: truncated}
"""


# Little to draw, and parts that take long enough to be stopped between them.
KILLED = (
    RUN[: RUN.index("  height:")]
    + """\
queries: [count]
mechanisms:
  - local
"""
).replace("repetitions: 2", "repetitions: 100")


def files(folder: Path) -> dict[str, bytes]:
    """Everything that was written, parts included."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def evaluated(folder: Path, out: str, *words: str) -> dict[str, bytes]:
    """A run to its end."""
    done = run("lab", "evaluate", "run.yaml", "--out", out, *words, cwd=folder, is_forked=False)
    assert done.code == 0, done.stderr
    return files(folder / out)


def test_killed_run_goes_on_and_ends_with_the_same_bytes(tmp_path: Path) -> None:
    """Killed in one process, killed in two, interrupted in two, then finished by one: as a run that nobody stopped."""
    evaluation(tmp_path, run=KILLED, rows=600)
    through = evaluated(tmp_path, "through")
    parts = len([name for name in through if name.endswith(".part")])
    before = 0
    for how, processes in ((signal.SIGKILL, 1), (signal.SIGKILL, 2), (signal.SIGINT, 2)):
        code, said = ended(tmp_path, how, processes)
        finished = len(list((tmp_path / "out" / ".tripartite-parts").glob("*.part")))
        assert before < finished < parts
        before = finished
    assert code == 130
    assert "the same command goes on where it stopped" in said
    assert "Traceback" not in said
    assert evaluated(tmp_path, "out") == through


def ended(folder: Path, how: signal.Signals, processes: int) -> tuple[int, str]:
    """Start the run, end it as soon as it has come further; gives the exit code, and what was said until all its processes ended."""
    words = [str(PROGRAM), "lab", "evaluate", "run.yaml", "--out", "out", "--processes", str(processes)]
    with subprocess.Popen(words, cwd=folder, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as started:
        try:
            assert started.stderr is not None
            # The first says how far it is when it begins.
            for _ in range(2):
                while "Evaluating: " not in (line := started.stderr.readline()):
                    assert line, "it ended before"
            os.kill(started.pid, how)
            said = started.stderr.read()
            return started.wait(PATIENCE_SECONDS), said
        finally:
            started.kill()


def test_a_process_that_is_ended_from_outside_ends_the_run(tmp_path: Path) -> None:
    """As a machine without memory does it: the run says so, and goes on later."""
    evaluation(tmp_path, run=KILLED, rows=600)
    words = [str(PROGRAM), "lab", "evaluate", "run.yaml", "--out", "out", "--processes", "2"]
    with subprocess.Popen(words, cwd=tmp_path, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as started:
        try:
            assert started.stderr is not None
            while "Evaluating: 10 %" not in (line := started.stderr.readline()):
                assert line, "it ended before"
            children = Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text("ascii").split()
            os.kill(max(map(int, children)), signal.SIGKILL)
            said = started.stderr.read()
            started.wait(PATIENCE_SECONDS)
        finally:
            started.kill()
    assert started.returncode == 6
    assert "A process of the evaluation was killed" in said
    assert "Traceback" not in said
    assert list((tmp_path / "out" / ".tripartite-parts").glob("*.part"))


def test_errors_are_one_object_with_their_line(tmp_path: Path) -> None:
    """Exit code 3, the line, the nearest name, and nothing else on standard output."""
    evaluation(tmp_path, run=RUN.replace("numbers: truncated", "numbers: truncatd"))
    done = run("lab", "evaluate", "run.yaml", "--json", cwd=tmp_path)
    assert done.code == 3
    assert done.error["code"] == "RUN_INVALID"
    assert done.error["text"] == ("run.yaml, line 22: There is no mechanism 'truncatd'; the nearest is 'truncated'.")
    french = run("lab", "evaluate", "run.yaml", cwd=tmp_path, env={"TRIPARTITE_LANG": "fr"})
    assert "run.yaml, ligne 22\u00a0: " in french.stderr
    assert "'truncatd'; le nom le plus proche est 'truncated'." in french.stderr


def test_a_run_file_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    """No traceback."""
    done = run("lab", "evaluate", "nothing.yaml", "--json", cwd=tmp_path)
    assert done.code == 3
    assert "nothing.yaml" in done.error["text"]


def test_a_million_rows_stay_in_memory_and_show_progress(tmp_path: Path) -> None:
    """Rows are read in batches, and held as codes and numbers."""
    random = np.random.default_rng(1)
    columns = {
        "region": pa.array(np.array(["east", "west"])[random.integers(0, 2, ROWS)]),
        "age": pa.array(np.array(["young", "old"])[random.integers(0, 2, ROWS)]),
        "smokes": pa.array(np.array(["yes", "no"])[random.integers(0, 2, ROWS)]),
        "height": pa.array(random.normal(1.7, 0.1, ROWS)),
        "weight": pa.array(random.gamma(2, 20, ROWS)),
    }
    pq.write_table(pa.table(columns), tmp_path / "many.parquet")
    (tmp_path / "run.yaml").write_text(MANY, "utf-8")
    with (tmp_path / "shown").open("wb") as shown, (tmp_path / "said").open("wb") as said:
        words = [sys.executable, "-c", WATCHED, "lab", "evaluate", "run.yaml", "--json"]
        code = subprocess.run(words, cwd=tmp_path, stdout=shown, stderr=said, check=False).returncode
    told = (tmp_path / "said").read_text()
    assert code == 0, told
    peak = re.search(r"VmHWM:\s+(\d+) kB", (tmp_path / "memory").read_text())
    assert peak is not None
    assert int(peak[1]) < MOST_KILOBYTES
    assert "Reading the data: 50 %" in told
    assert "Evaluating: 100 %" in told
    document = json.loads((tmp_path / "shown").read_text())
    tables = [block for section in document["sections"] for block in section["blocks"] if block["type"] == "table"]
    rows = {table["key"]: table["rows"] for table in tables}
    assert [name for name, *_ in rows["strata"]] == ["east", "west"]
    assert sum(people for _, people, _ in rows["strata"]) == ROWS
    assert len({row[0] for row in rows["mean-errors"]}) == 3
