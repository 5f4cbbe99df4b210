"""docs/loading.md: every command is run on the files that it shows, and says what stands there."""

from __future__ import annotations

import configparser
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.deployment import run

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "loading.md").read_text("utf-8")
DICTIONARIES = (ROOT / "docs" / "dictionaries.md").read_text("utf-8")
UNITS = ROOT / "deploy" / "systemd"


def blocks(document: str, language: str) -> list[str]:
    """The blocks of a document that begin with these words."""
    return re.findall(rf"```{language}\n(.*?)```", document, re.DOTALL)


def steps() -> Iterator[tuple[str, str]]:
    """Steps of the document, in its order: files by their names, and commands with what they print."""
    for kind, text in re.findall(r"```(csv \S+|console)\n(.*?)```", DOCUMENT, re.DOTALL):
        if kind != "console":
            yield kind.removeprefix("csv "), text
            continue
        for part in text.removeprefix("$ ").split("\n$ "):
            command, _, printed = part.partition("\n")
            yield command, printed


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home as an agency makes it, with the dictionary of the other document and the first source.toml of this one."""
    monkeypatch.chdir(tmp_path)
    Path("dictionary.toml").write_text(blocks(DICTIONARIES, "toml")[0], "utf-8")
    Path("icd10.csv").write_text(blocks(DICTIONARIES, "csv")[0], "utf-8")
    for words in (
        (
            *("health", "create", "--home", "health", "--organisation", "insurance", "--origin", "insurance.example"),
            *("--address", "127.0.0.1:7002", "--places", "1000", "--census", "127.0.0.1:1"),
            *("--census-organisation", "census", "--dictionary", "dictionary.toml"),
        ),
        ("health", "relink", "--home", "health", "--new-key"),
    ):
        done = run(*words)
        assert done.code == 0, done.stderr
    source = Path("health", "source.toml")
    source.write_text(blocks(DOCUMENT, "toml")[0], "utf-8")
    source.chmod(0o600)
    return tmp_path / "health"


def test_every_command_says_what_the_document_says(home: Path) -> None:
    """With the files that stand before it."""
    ran = 0
    for name, text in steps():
        if not name.startswith("tripartite "):
            (home / name).write_text(text, "utf-8")
            continue
        done = run(*shlex.split(name)[1:], env={"LANG": "en"})
        assert done.code == 0, done.stderr
        # The folder of the test is no part of the document.
        assert done.stdout.replace(f"{home.parent}{os.sep}", "") == text, name
        ran += 1
    assert ran == DOCUMENT.count("\n$ ") == 3
    for name in ("load-figures.json", "load-report.json", "load-rejected.csv"):
        assert (home / name).stat().st_mode & 0o777 == 0o600


def test_the_service_runs_a_command_that_there_is_and_keeps_what_it_says_out_of_the_log() -> None:
    """Changes in the data are for the operator alone."""
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(UNITS / "tripartite-health-load.service", "utf-8")
    shell, option, line = shlex.split(unit["Service"]["ExecStart"])
    assert (shell, option) == ("/bin/sh", "-c")
    begin, command, *words = shlex.split(line)
    assert (begin, command) == ("exec", "/opt/tripartite/bin/tripartite")
    assert unit["Service"]["StandardOutput"] == "null"
    assert unit["Service"]["UMask"] == "0077"
    assert run(*words[:2], "--help").code == 0
    home = "/var/lib/tripartite/health"
    assert words == ["health", "load", "--home", home, "2>", f"{home}/load-error.txt"]
