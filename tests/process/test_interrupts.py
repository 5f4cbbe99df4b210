"""Ctrl-C at any time of a command's life: exit code 130, no traceback, and at most one object on stdout."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fakes.nursery import PROGRAM

pytestmark = pytest.mark.process

WAYS = {"script": [str(PROGRAM)], "module": [sys.executable, "-m", "broker_common"]}
# An interrupt in the middle of an import, which the library makes something else of.
INTERRUPTED_IMPORT = """
import os, signal, time
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)
except BaseException as error:
    raise ImportError("half imported") from error
"""
INTERRUPTED_END = """
import atexit, os, signal, time
def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(WAIT)
atexit.register(interrupt)
"""
INTERRUPTED = {
    "code": "INTERRUPTED",
    "text": "The command was interrupted.",
    "hint": "Unfinished work is dropped; run it again.",
}


def run_with(folder: Path, module: str, content: str, words: list[str]) -> subprocess.CompletedProcess[str]:
    """Run the program where `module` is this."""
    (folder / f"{module}.py").write_text(content)
    return subprocess.run(
        words,
        env={**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("module", ["structlog", "grpc"], ids=["of the program", "of a role"])
def test_interrupt_during_an_import_is_no_traceback(tmp_path: Path, way: str, module: str) -> None:
    """Before a command has begun: nothing was done, and that is what it says."""
    words = [*WAYS[way], "researcher", "quote", "--home", str(tmp_path)]
    # Each way says it to people for one of the modules, and to a program for the other.
    if (way == "script") == (module == "grpc"):
        ended = run_with(tmp_path, module, INTERRUPTED_IMPORT, words)
        assert (ended.returncode, ended.stdout) == (130, "")
        assert ended.stderr == "Interrupted. Unfinished work is dropped; run it again.\n"
    else:
        ended = run_with(tmp_path, module, INTERRUPTED_IMPORT, [*words, "--json"])
        assert (ended.returncode, ended.stderr) == (130, "")
        assert json.loads(ended.stdout) == {"error": INTERRUPTED}


@pytest.mark.parametrize("way", WAYS)
def test_interrupt_while_the_interpreter_ends_is_no_traceback(tmp_path: Path, way: str) -> None:
    """The command has said what there was to say, and nothing is added to it."""
    words = [*WAYS[way], "researcher", "quote", "--home", str(tmp_path), "--json"]
    ended = run_with(tmp_path, "sitecustomize", INTERRUPTED_END.replace("WAIT", "60"), words)
    assert (ended.returncode, ended.stderr) == (130, "")
    assert json.loads(ended.stdout)["error"]["code"] == "HOME_INVALID"


def test_second_interrupt_while_the_first_is_answered_is_no_traceback() -> None:
    """An impatient person presses it twice."""
    program = (
        "import broker_common.cli\n"
        "def interrupted(): raise KeyboardInterrupt\n"
        "broker_common.cli.main = interrupted\n"
        "from broker_common.__main__ import main\n"
        "main()"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_interrupts_that_are_ignored_stay_ignored(tmp_path: Path) -> None:
    """As a shell starts what runs in its background: Ctrl-C is for somebody else."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        words = [*WAYS["script"], "--version"]
        ended = run_with(tmp_path, "sitecustomize", INTERRUPTED_END.replace("WAIT", "0"), words)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (ended.returncode, ended.stderr) == (0, "")
