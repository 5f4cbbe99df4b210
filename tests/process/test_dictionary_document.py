"""docs/dictionaries.md, from a first draft to a second version in force: every command is run, and says what stands there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.deployment import Outcome, run

pytestmark = pytest.mark.process

DOCUMENT = (Path(__file__).parents[2] / "docs" / "dictionaries.md").read_text("utf-8")
# Two hashes stand in the document: as many as there are dictionaries in it.
HASH = re.compile(r"\b[0-9a-f]{64}\b")
PEOPLE = "card,birth_year,sex,diagnosis\n1234567,1950,f,I21;I26\n7654321,1961,m,\n"
CLAIMS = "card,day,cause\n1234567,2010-01-31,I21\n"


def block(language: str) -> str:
    """The one block of the document in this language."""
    (text,) = re.findall(rf"```{language}\n(.*?)```", DOCUMENT, re.DOTALL)
    return str(text)


def dialogues() -> Iterator[tuple[str, str]]:
    """Each command of the document, and what it prints."""
    for text in re.findall(r"```console\n(.*?)```", DOCUMENT, re.DOTALL):
        for part in text.removeprefix("$ ").split("\n$ "):
            command, _, printed = part.partition("\n")
            yield command, printed


def ran(command: str) -> Outcome:
    """The command of a line, with what it sets in the environment."""
    settings, _, words = command.rpartition("tripartite ")
    return run(*shlex.split(words), env=dict(word.split("=", 1) for word in settings.split()))


def test_every_command_says_what_the_document_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one folder, in the order of the document; the draft is finished as the document finishes it."""
    monkeypatch.chdir(tmp_path)
    for name, text in (("people.csv", PEOPLE), ("claim.csv", CLAIMS), ("icd10.csv", block("csv"))):
        Path(name).write_text(text, "utf-8")
    created = run(
        *("health", "create", "--home", "health", "--organisation", "insurance", "--origin", "insurance.example"),
        *("--address", "127.0.0.1:7002", "--places", "1000", "--census", "127.0.0.1:7003"),
        *("--census-organisation", "census"),
    )
    assert created.code == 0, created.stderr
    hashes: dict[str, str] = {}
    for command, printed in dialogues():
        if command.endswith("check dictionary.toml") and "can be published" in printed:
            finish_draft()
        done = ran(command)
        assert done.code == (3 if printed.startswith("Error") else 0), done.stderr
        said = (done.stdout + done.stderr).rstrip("\n")
        for written, real in zip(HASH.findall(printed), HASH.findall(said), strict=True):
            # The same hash of the document is the same of the program, wherever it stands.
            assert hashes.setdefault(written, real) == real
        assert HASH.sub("<hash>", said) == HASH.sub("<hash>", printed.rstrip("\n")), command
    assert len(set(hashes.values())) == len(hashes) == 2
    assert Path("health", "dictionary.toml").read_text("utf-8") == second_version()


def finish_draft() -> None:
    """The file as the document shows it in the end, with a mistake, and as its next version."""
    whole = block("toml")
    Path("dictionary.toml").write_text(whole, "utf-8")
    mistaken = whole.replace('[columns.sex]\ntype = "code"', '[columns.sex]\ntype = "codes"')
    Path("mistaken.toml").write_text(mistaken, "utf-8")
    Path("next.toml").write_text(second_version(), "utf-8")


def second_version() -> str:
    """A code more."""
    last = '  { value = "m", label = "Male", label_fr = "Homme" },\n'
    more = last + '  { value = "x", label = "Another sex", label_fr = "Un autre sexe" },\n'
    return block("toml").replace("version = 1", "version = 2").replace(last, more)
