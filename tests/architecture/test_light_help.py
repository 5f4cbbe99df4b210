"""Help and completion are quick, because they import nothing that only a running command needs. Modules are counted, not time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import click
import pytest
from fakes.nursery import PROGRAM

from broker_common.cli import program

# Libraries of work: the wire, keys, stores, arrays, criteria, pages.
HEAVY = {
    *("cryptography", "duckdb", "google", "grpc", "jinja2", "matplotlib", "msgspec", "numpy", "pandas"),
    *("prometheus_client", "sqlite3", "starlette", "tripartite", "uvicorn"),
}
NODES = {"census_node", "deploy", "health_node", "researcher_node"}
# Modules of the researcher's help.
RESEARCHERS_WORDS = {
    *("researcher_node.cli", "researcher_node.texts"),
    *("researcher_node.answers", "researcher_node.answers.selection"),
    *("researcher_node.estimates", "researcher_node.estimates.commands", "researcher_node.estimates.texts"),
}
STUDIES_WORDS = {"researcher_node.study.commands", "researcher_node.study", "researcher_node.study.texts"}
# The list of commands reads what each says of itself, in the package where it lies.
COMMANDS_WORDS = {"researcher_node.study"}
MADE_OF: dict[str, set[str]] = {"--help": COMMANDS_WORDS, "researcher": RESEARCHERS_WORDS, "study": STUDIES_WORDS}
# Where every module that was imported is printed when the program ends, with help before it on the same stream.
_TELLING = """
import atexit, json, sys
atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))
sys.argv = ["tripartite", *sys.argv[1:]]
from broker_common.__main__ import main
main()
"""


def imported(*words: str, **environment: str) -> set[str]:
    """The modules that a command imports."""
    done = subprocess.run(
        [sys.executable, "-c", _TELLING, *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout, "there was no help"
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        *(("researcher", "--help"), ("researcher", "ask", "--help"), ("researcher", "answers", "-h")),
        *(("study", "--help"), ("study", "rehearse", "--help")),
    ],
)
def test_help_imports_no_library_of_work(words: tuple[str, ...]) -> None:
    """A reader of help waits for none of them; `tripartite --help` loads no command at all."""
    found = imported(*words)
    assert found & HEAVY == set()
    commands = {name for name in found if name.partition(".")[0] in NODES and "." in name}
    assert commands == MADE_OF[words[0]]


def test_up_imports_nothing_that_its_nodes_work_with() -> None:
    """It waits for its children; each of them imports what it needs."""
    # `init` beside it lists choices of a policy.
    assert imported("up", "--help") & HEAVY <= {"cryptography", "msgspec"}


@pytest.mark.parametrize("role", ["census", "health", "researcher"])
def test_a_node_imports_no_library_that_only_some_loads_or_readers_need(role: str) -> None:
    """A service starts in half a second: data frames, other databases, plots and pages are for those who ask for them."""
    needed = f"import {role}_node.cli, {role}_node.assembly{_TELLING}"
    done = subprocess.run([sys.executable, "-c", needed, "--version"], capture_output=True, text=True, check=True)
    found = set(json.loads(done.stderr.splitlines()[-1]))
    assert {"grpc", "numpy", "sqlite3"} <= found
    assert found & {"duckdb", "jinja2", "matplotlib", "pandas", "pyarrow", "starlette", "uvicorn"} == set()


@pytest.mark.parametrize(("words", "collects"), [(("--version",), False), (("census", "status", "--home", "."), True)])
def test_a_command_that_runs_collects_its_garbage(tmp_path: Path, words: tuple[str, ...], collects: bool) -> None:
    """Only what is imported before a command is found goes without: a node would grow as long as it serves."""
    tell = _TELLING.replace("sorted(sys.modules)", "__import__('gc').isenabled()")
    command = [sys.executable, "-c", tell, *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert json.loads(done.stderr.splitlines()[-1]) is collects


def test_completing_a_command_imports_no_library_of_work() -> None:
    """It happens at every press of the key."""
    complete = {"_TRIPARTITE_COMPLETE": "bash_complete", "COMP_WORDS": "tripartite researcher ", "COMP_CWORD": "2"}
    assert imported(**complete) & HEAVY == set()


def test_what_is_counted_would_be_found() -> None:
    """A command that works imports what the tests above look for."""
    done = subprocess.run(
        [sys.executable, "-c", f"import researcher_node.assembly{_TELLING}", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert {"cryptography", "grpc", "numpy", "sqlite3"} <= set(json.loads(done.stderr.splitlines()[-1]))


def test_the_list_of_commands_says_what_each_says_of_itself() -> None:
    """Summaries are read without importing commands, and are theirs all the same."""
    context = click.Context(program)
    listed = dict(program._rows(context))
    points = entry_points(group="tripartite.commands")
    assert listed == {point.name: point.load().get_short_help_str(90) for point in points}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_installed_by_what_the_documents_say(shell: str) -> None:
    """The command of docs/using.md prints a script that names the program."""
    done = subprocess.run(
        [PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "_TRIPARTITE_COMPLETE": f"{shell}_source"},
    )
    assert "_TRIPARTITE_COMPLETE" in done.stdout
    assert "tripartite" in done.stdout


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("tripartite res", "researcher"),
        ("tripartite researcher an", "answers"),
        ("tripartite researcher ask --la", "--label"),
        ("tripartite researcher answers --state an", "answered"),
    ],
)
def test_completion_offers_commands_options_and_choices(words: str, offered: str) -> None:
    """As a shell asks for them when the key is pressed."""
    environment = {
        "_TRIPARTITE_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    done = subprocess.run([PROGRAM], capture_output=True, text=True, check=True, env={**os.environ, **environment})
    assert offered in [line.partition(",")[2] for line in done.stdout.splitlines()]
