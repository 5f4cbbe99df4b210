"""Golden dialogues: what a person types and what the program says, word for word.

Each `.txt` file is a dialogue. `$` begins a command, `|` a line on stdout, `!` a line on stderr; `exit` is the exit code
and ends the command. Lines before the first `$` are remarks, of which `deployment: NAME` chooses what the commands talk
to: `serving`, `shutdown` (shut down by its operator), `governed` (under a limit that one answer uses up), `stopped` (no node
runs) or `asked` (no node runs any more; what was asked is below). DIR stands for its folder, NEWEST for the hash of the
newest proposal, and what differs from run to run stands as a placeholder in angle brackets; see `PLACEHOLDERS`.

After a change of wording, write the files anew and read the difference before it is committed:

    TRIPARTITE_TRANSCRIPTS=write .venv/bin/pytest tests/transcripts
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.deployment import FRENCH, Deployment, make, run_here

from researcher_node.asking.proposal import Precision, Wanted

pytestmark = pytest.mark.process

REFRESH = "TRIPARTITE_TRANSCRIPTS"
COLUMNS = "100"
PLACEHOLDERS = [
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00"), "<time>"),
    (re.compile(r"127\.0\.0\.1:\d+"), "<address>"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "<hash>"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "<query>"),
    (re.compile(r"(?<!\.)\b[0-9a-f]{16}\b"), "<key id>"),
    (re.compile(r"(?<=Noisy count )-?\d+"), "<count>"),
    (re.compile(r'(?<="noisy_count": )-?\d+'), "<count>"),
    (re.compile(r"-?\d+(?= ± )"), "<count>"),
    (re.compile(r'(?<="checkpoint": )"[^"]+"'), "<signed note>"),
    (re.compile(r'(?<=The census log has )\d+|(?<="size": )\d+'), "<size>"),
]
MISTAKES = Path(__file__).parents[2] / "docs" / "mistakes.md"
FILES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.fixture(scope="module")
def deployments(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Deployment]]:
    """One deployment of each kind; census and health node of one are enough to ask."""
    made = {name: make(tmp_path_factory.mktemp(name) / "d", population=1000) for name in ("serving", "shutdown")}
    made["governed"] = make(tmp_path_factory.mktemp("governed") / "d", "--max-belief", "0.51", population=1000)
    made["stopped"] = make(tmp_path_factory.mktemp("stopped") / "d", population=10)
    made["shutdown"].json("census", "shutdown", "--reason", "a drill")
    made["asked"] = make(tmp_path_factory.mktemp("asked") / "d", population=1000)
    ask_before(made["asked"])
    with (
        made["serving"].node("census"),
        made["serving"].node("health"),
        made["shutdown"].node("census"),
        made["shutdown"].node("health"),
        made["governed"].node("census"),
        made["governed"].node("health"),
        made["asked"].node("census"),
        made["asked"].node("health"),
    ):
        for name in ("serving", "shutdown", "governed", "asked"):
            made[name].wait_until_still()
        yield made


def ask_before(deployment: Deployment) -> None:
    """An answer, a refusal, an answer to long criteria, and a question that was never submitted."""
    ask = ("researcher", "ask", "--home", deployment.home("researcher"), "--scale", "10", "--count", "all")
    long = "age between 0 and 130 and not procedure in ('angioplasty', 'hip_replacement')"
    with deployment.node("census"), deployment.node("health"):
        assert run_here(*ask, "--where", "age >= 0").code == 0
        assert run_here(*ask, "--where", "age >= 65", "--project", "another-study").code == 3
        assert run_here(*ask, "--where", long).code == 0
        never_sent = Wanted("age >= 65", FRENCH, Precision(30), 1_000_000, "official-languages")
        deployment.in_session(lambda session: session.prepare(never_sent))


def shown(text: str, directory: Path) -> str:
    """The part that is the same at every run."""
    text = text.replace(str(directory), "DIR")
    for pattern, placeholder in PLACEHOLDERS:
        text = pattern.sub(placeholder, text)
    return text


def newest_proposal(directory: Path) -> str:
    """The hash of the proposal that was made last."""
    return max((directory / "census" / "proposals").iterdir(), key=lambda file: file.stat().st_mtime_ns).stem


def replayed(dialogue: str, directory: Path) -> str:
    """The dialogue as it goes now: the remarks and commands of the file, with what the program says today."""
    remarks, *commands = re.split(r"^(?=\$ )", dialogue, flags=re.MULTILINE)
    blocks = []
    for block in commands:
        command = block.splitlines()[0]
        words = [
            newest_proposal(directory) if word == "NEWEST" else word
            for word in shlex.split(command.removeprefix("$ tripartite").replace("DIR", str(directory)))
        ]
        outcome = run_here(*words)
        lines = [command]
        lines += [f"! {line}".rstrip() for line in shown(outcome.stderr, directory).splitlines()]
        lines += [f"| {line}".rstrip() for line in shown(outcome.stdout, directory).splitlines()]
        blocks.append("\n".join([*lines, f"exit {outcome.code}", ""]))
    return remarks + "\n".join(blocks)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_dialogue_goes_as_it_is_written(
    deployments: dict[str, Deployment], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every command of the file says and ends as the file has it."""
    monkeypatch.setenv("COLUMNS", COLUMNS)
    written = file.read_text(encoding="utf-8")
    named = re.search(r"^deployment: (\w+)$", written, flags=re.MULTILINE)
    assert named is not None, "the remarks name no deployment"
    now = replayed(written, deployments[named[1]].directory)
    if os.environ.get(REFRESH) == "write":
        file.write_text(now, encoding="utf-8")
        return
    difference = list(difflib.unified_diff(written.splitlines(), now.splitlines(), file.name, "now", lineterm=""))
    assert not difference, "\n".join(["the dialogue went otherwise:", *difference])


def answered(command: str, directory: Path) -> list[str]:
    """Errors of the commands on the page of mistakes, each of which is the caller's fault."""
    words = shlex.split(command.removeprefix("$ tripartite").replace("DIR", str(directory)))
    outcome = run_here(*words)
    assert (outcome.code, outcome.stdout) == (3, ""), command
    return shown(outcome.stderr, directory).splitlines()


def test_each_mistake_gets_its_sentence_in_both_languages(
    deployments: dict[str, Deployment], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page says word for word what the program says; in French each line is another one, with the same code."""
    monkeypatch.setenv("COLUMNS", COLUMNS)
    directory = deployments["serving"].directory
    written = MISTAKES.read_text(encoding="utf-8")
    commands = re.findall(r"(?<=^```\n)\$ .*$", written, flags=re.MULTILINE)
    said = {command: answered(command, directory) for command in commands}
    now = re.sub(
        r"(?<=^```\n)(\$ .*)\n(?:[^`\n].*\n)*",
        lambda block: "\n".join([block[1], *said[block[1]], ""]),
        written,
        flags=re.MULTILINE,
    )
    if os.environ.get(REFRESH) == "write":
        MISTAKES.write_text(now, encoding="utf-8")
    else:
        difference = list(difflib.unified_diff(written.splitlines(), now.splitlines(), "page", "now", lineterm=""))
        assert not difference, "\n".join(difference)
    assert [int(number) for number in re.findall(r"^\*\*(\d+)\.", now, flags=re.MULTILINE)] == list(range(1, 26))
    assert len(said) == 25
    monkeypatch.setenv("TRIPARTITE_LANG", "fr")
    for command, english in said.items():
        french = answered(command, directory)
        assert len(french) == len(english) == 2
        assert not set(french) & set(english)
        assert french[1].split("  [")[1] == english[1].split("  [")[1]


def test_there_are_dialogues() -> None:
    """Files that are not found are files that are not tested."""
    assert len(FILES) >= 11
