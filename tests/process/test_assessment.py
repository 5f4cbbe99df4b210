"""`lab assessment` of a test deployment: every command that it names is run, and shows what its sentence says."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from fakes.deployment import Deployment, Outcome, make, run, run_here
from fakes.nursery import PROGRAM

ROOT = Path(__file__).parents[2]
# Commands that need a checkout, not an installed program: run there.
OF_SOURCE = ("pytest ", "grep ")

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def assessed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Deployment, Outcome, Path]:
    """A deployment that has given an answer, and its assessment with one attack."""
    folder = tmp_path_factory.mktemp("assessed")
    deployment = make(folder / "deployment", accounting="per_person")
    with deployment.nodes():
        deployment.ask("age >= 65")
        deployment.wait_until_closed()
    # As it was when it was assessed: it grows in one of the tests.
    (folder / "status.json").write_text(json.dumps(deployment.json("census", "status")), "utf-8")
    # The document's name for the home: its commands are run beside it.
    (folder / "CENSUS_HOME").symlink_to(deployment.home("census"))
    words = ("--out", folder / "out", "--home", deployment.home("census"), "--attack", "average", "--rounds", "1")
    return deployment, run_here("lab", "assessment", *words, "--json"), folder


def claims(value: Any) -> Iterator[dict[str, Any]]:
    """Every sentence with a command of a document."""
    if isinstance(value, dict):
        if value.get("type") == "claim":
            yield value
        for each in value.values():
            yield from claims(each)
    elif isinstance(value, list):
        for each in value:
            yield from claims(each)


def test_every_command_shows_what_its_sentence_says(assessed: tuple[Deployment, Outcome, Path]) -> None:
    """Each is run as it is printed: it succeeds, and its output holds the figures.

    A test that is cited is not run here, because it is run by itself: it is looked for, and has to be there.
    """
    _, outcome, folder = assessed
    shown = list(claims(outcome.result))
    commands = {claim["command"] for claim in shown}
    assert len(commands) >= 30
    cited = sorted(command for command in commands if command.startswith("pytest "))
    outputs = dict.fromkeys(cited, found(cited))
    outputs |= {command: output_of(command, folder) for command in sorted(commands - set(cited))}
    missing = [
        (claim["words"], claim["command"], figure)
        for claim in shown
        for figure in claim["shows"]
        if figure not in outputs[claim["command"]]
    ]
    assert missing == []


def found(cited: Sequence[str]) -> str:
    """The tests that are cited, looked for all at once: there is an error if one is missing."""
    return output_of(f"pytest --collect-only -q -n 0 {' '.join(each.removeprefix('pytest ') for each in cited)}", ROOT)


def output_of(command: str, folder: Path) -> str:
    """Output of a command, which must not fail; our program's commands, which '&&' joins, are forked processes of it."""
    if not command.startswith(OF_SOURCE):
        return "".join(output_of_program(shlex.split(each), folder) for each in command.split(" && "))
    path = f"{Path(PROGRAM).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=ROOT,
        env={**os.environ, "PATH": path, "TRIPARTITE_LANG": "en"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def output_of_program(words: Sequence[str], folder: Path) -> str:
    """Output of one command of our program, which must not fail."""
    assert words[0] == "tripartite"
    done = run(*words[1:], cwd=folder)
    assert done.code == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def test_the_answer_and_the_log_are_in_it(assessed: tuple[Deployment, Outcome, Path]) -> None:
    """Its statements about the deployment are the deployment's own."""
    _, outcome, folder = assessed
    status = json.loads((folder / "status.json").read_text("utf-8"))
    words = " ".join(claim["words"] for claim in claims(outcome.result))
    assert f"Answers charged so far: {status['answers']}." in words
    assert f"with {status['log_size']} entries" in words
    first = json.dumps(outcome.result["sections"][0])
    assert "1 of 13. Not made: neighbour, tracker," in first
    assert "Rounds: 1. Attacks: average (otherwise 15)." in first


def test_nothing_of_it_depends_on_who_was_in_a_sample(assessed: tuple[Deployment, Outcome, Path]) -> None:
    """Figures about people are for the agency's staff: how many were charged stands nowhere in what is handed on."""
    _, outcome, folder = assessed
    charged = json.loads((folder / "status.json").read_text("utf-8"))["people_charged"]
    assert charged > 100
    # A number of its own: hashes and signatures may hold its digits.
    assert re.search(rf"(?<![\w+/=.,-]){charged}(?![\w+/=])", outcome.stdout) is None


def test_no_path_of_this_machine_is_handed_on(assessed: tuple[Deployment, Outcome, Path]) -> None:
    """Commands name the home by a word that the document explains once."""
    _, outcome, folder = assessed
    handed_on = {key: value for key, value in outcome.result.items() if key != "files"}
    assert str(folder) not in json.dumps(handed_on)
    assert outcome.stdout.count("CENSUS_HOME stands for the folder") == 1


def test_a_log_that_has_grown_is_held_against_the_assessment(assessed: tuple[Deployment, Outcome, Path]) -> None:
    """Statements about the log are reproduced after more questions; another past, or another key, is found out."""
    deployment, outcome, folder = assessed
    shown = [claim for claim in claims(outcome.result) if "lab checkpoint" in claim["command"]]
    assert len(shown) == 3
    size = json.loads((folder / "status.json").read_text("utf-8"))["log_size"]
    with deployment.nodes():
        deployment.ask("age >= 50")
        deployment.wait_until_closed()
    assert deployment.json("census", "status")["log_size"] > size
    for claim in shown:
        output = output_of(claim["command"], folder)
        assert all(figure in output for figure in claim["shows"]), claim
        assert json.loads(output.splitlines()[-1])["entries"] > size
    signed = shlex.split(shown[-1]["command"].partition("&&")[2])[1:]
    assert "--signature" in signed
    longer = [str(size + 1) if word == str(size) else word for word in signed]
    assert run_here(*in_folder(longer, folder)).error["code"] == "INVALID_VALUE"
    forged = [word[:-5] + ("A" if word[-5] != "A" else "B") + word[-4:] if "+" in word else word for word in signed]
    assert run_here(*in_folder(forged, folder)).error["code"] == "INVALID_VALUE"


def in_folder(words: Sequence[str], folder: Path) -> list[str]:
    """The same, from anywhere."""
    return [str(folder / word) if word.startswith("EXPORTS") else word for word in words]


def test_the_command_of_the_document_makes_it_again(assessed: tuple[Deployment, Outcome, Path]) -> None:
    """It names every option that matters."""
    _, outcome, folder = assessed
    assert outcome.result["command"].startswith("tripartite lab assessment ")
    again = json.loads(output_of(f"{outcome.result['command']} --json", folder))
    assert [section["key"] for section in again["sections"]] == [
        section["key"] for section in outcome.result["sections"]
    ]
    assert (folder / "out/fr/report.pdf").is_file()


def test_a_policy_without_a_deployment_is_the_one_that_init_sets(tmp_path: Path) -> None:
    """Without a home the figures are reproduced by the deployment that the first command makes."""
    outcome = run_here(
        "lab", "assessment", "--out", tmp_path / "out", "--without-attacks", "--language", "en", "--json"
    )
    shown = [claim for claim in claims(outcome.result) if " TEST" in claim["command"]]
    assert shown[0]["command"] == "tripartite init TEST"
    for claim in shown:
        output = output_of(claim["command"], tmp_path) if claim["command"] != "tripartite init TEST" else ""
        output = output or made(tmp_path)
        assert all(figure in output for figure in claim["shows"]), claim


def made(folder: Path) -> str:
    """Output of `tripartite init TEST`, once, with fewer people: the figures do not depend on how many are made up."""
    return (folder / "init").read_text("utf-8") if (folder / "init").exists() else _init(folder)


def _init(folder: Path) -> str:
    printed = output_of("tripartite init TEST --population 500", folder)
    (folder / "init").write_text(printed, "utf-8")
    return printed
