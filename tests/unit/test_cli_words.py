"""How the command line names itself, and what it says of a wrong one in French."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_common import cli
from broker_common.language import language


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh clone with its environment, from where the user calls the program; it is on no search path."""
    program = tmp_path / ".venv" / "bin" / "tripartite"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(program.with_name("python")))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_fresh_clone_names_the_program_by_its_path(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands printed by `init` and `demo` can be typed as they stand, from the clone, from elsewhere, and where it is installed."""
    assert cli.called() == ".venv/bin/tripartite"
    monkeypatch.chdir("/")
    assert cli.called() == str(clone / ".venv" / "bin" / "tripartite").lstrip("/")
    monkeypatch.setenv("PATH", str(clone / ".venv" / "bin"))
    assert cli.called() == "tripartite"


@pytest.mark.parametrize(
    ("said", "french"),
    [
        ("Missing option '--home'.", "L\u2019option '--home' manque."),
        ("No such option '--foo'. Did you mean --to?", "Aucune option '--foo'. Vouliez-vous dire --to?"),
        (
            "Invalid value for '--port': 99999 is not in the range 0<=x<=65535.",
            "Valeur non valide pour '--port'\u00a0: 99999 n\u2019est pas dans l\u2019intervalle 0<=x<=65535.",
        ),
        ("Something that no catalogue has.", "Something that no catalogue has."),
    ],
)
def test_a_wrong_command_line_is_told_in_french(said: str, french: str) -> None:
    """The library's own sentences, one within the other; in English they stay what they are."""
    problem = cli.usage_problem(said)
    assert str(problem) == said
    assert language("fr")(problem) == french
