"""The home that a command works in when it is given none."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes.deployment import run_here

from broker_common.storage.home import usual_home


@pytest.fixture
def deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Homes side by side, as `init` makes them, and an empty folder as the current one."""
    for role in ("researcher", "health", "census", "auditor"):
        (tmp_path / "made" / role).mkdir(parents=True)
        (tmp_path / "made" / role / "config.toml").write_text(f'role = "{role}"\n', encoding="utf-8")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.delenv("TRIPARTITE_HOME", raising=False)
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path / "made"


def test_there_is_none_where_nothing_is_one(deployment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a folder without a configuration, nor one of another role, nor a configuration of another program."""
    assert usual_home("researcher") is None
    assert usual_home("") is None
    monkeypatch.setenv("TRIPARTITE_HOME", str(deployment / "census"))
    assert usual_home("researcher") is None
    Path("config.toml").write_text('title = "a web site"\n', encoding="utf-8")
    assert usual_home("researcher") is None


def test_the_current_folder_is_the_home_of_its_role(deployment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For commands of that role, and for those of any role."""
    monkeypatch.chdir(deployment / "health")
    assert usual_home("health") == usual_home("") == deployment / "health"
    assert usual_home("census") is None


def test_the_folder_that_init_made_has_a_home_of_every_role(deployment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the current folder and in the variable; a command for any role does not guess which."""
    monkeypatch.chdir(deployment)
    assert usual_home("auditor") == deployment / "auditor"
    assert usual_home("") is None
    monkeypatch.chdir("/")
    monkeypatch.setenv("TRIPARTITE_HOME", str(deployment))
    assert usual_home("census") == deployment / "census"


def test_the_variable_comes_before_the_current_folder(deployment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless what it names is of another role."""
    other = deployment.parent / "other"
    other.mkdir()
    (other / "config.toml").write_text('role = "researcher"\n', encoding="utf-8")
    monkeypatch.chdir(deployment)
    monkeypatch.setenv("TRIPARTITE_HOME", str(other))
    assert usual_home("researcher") == other
    assert usual_home("health") == deployment / "health"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("researcher", "answers"), "nor the current folder is a home of role researcher."),
        (("census", "policy"), "nor the current folder is a home of role census."),
        (("health", "revoke", "census", "x", "--reason", "y"), "nor the current folder is a home of role health."),
        (("audit", "verify", "."), "nor the current folder is a home of role auditor."),
        (("keys", "list"), "nor the current folder is a home."),
        (("audit", "export", "--to", "x"), "nor the current folder is a home."),
    ],
)
@pytest.mark.usefixtures("deployment")
def test_a_command_without_a_home_says_where_it_looked(words: tuple[str, ...], sentence: str) -> None:
    """And which role's home it needs."""
    outcome = run_here(*words)
    assert outcome.code == 2
    assert f"Error: Give --home: neither TRIPARTITE_HOME {sentence}\n" in outcome.stderr


@pytest.mark.parametrize("role", ["researcher", "health", "census"])
def test_a_command_works_in_the_usual_home(role: str, deployment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error there is told of that home; and --home is stronger than both others."""
    monkeypatch.chdir(deployment)
    command = "answers" if role == "researcher" else "status"
    outcome = run_here(role, command)
    assert f"{deployment / role / 'config.toml'}" in outcome.stderr
    outcome = run_here(role, command, "--home", "/nowhere")
    assert "/nowhere" in outcome.stderr
