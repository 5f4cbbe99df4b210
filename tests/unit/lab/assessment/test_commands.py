"""`lab assessment`: what is wrong with a wish is said at once, and before an attack is made."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from fakes.deployment import run_here
from unit.lab.lab_document import document

from broker_common.language import language
from policy_lab.assessment import trials
from policy_lab.document import stored


@pytest.fixture(autouse=True)
def _no_attack(monkeypatch: pytest.MonkeyPatch) -> None:
    """An attack here would be one too many."""

    def attacked(*_: Any) -> None:
        raise AssertionError("an attack was made")

    monkeypatch.setattr(trials, "run_all", attacked)
    monkeypatch.setattr(trials, "run", attacked)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--attack", "neigbour"), 3, "neighbour"),
        (("--reasons", "EMPTY"), 3, "no text"),
        (("--attacks", "EMPTY"), 3, "tripartite attack all --accounting per_person --json"),
        (("--include", "NOWHERE"), 3, "not a document of the policy lab"),
        (("--include", "INTERNAL"), 3, "standing: public"),
        (("--home", "FOLDER"), 3, ""),
        (("--without-attacks", "--rounds", "3"), 2, "Give one of"),
        (("--attacks", "EMPTY", "--without-attacks"), 2, "Give one of"),
        (("--rounds", "0"), 2, ""),
        (("--out", "EMPTY"), 2, ""),
    ],
)
def test_a_wish_that_cannot_be_met_ends_in_a_sentence(
    tmp_path: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    """The error says what is wrong and what to give; nothing is written, and no attack is made."""
    (tmp_path / "EMPTY").write_text(" \n\n ", "utf-8")
    (tmp_path / "FOLDER").mkdir()
    if "INTERNAL" in words:
        stored.write(document(), tmp_path / "INTERNAL", language("en"))
    there = [tmp_path / word if word.isupper() else word for word in words]
    outcome = run_here(
        "lab", "assessment", *(() if "--out" in words else ("--out", tmp_path / "out")), *there, "--json"
    )
    assert outcome.code == code
    error = outcome.error
    assert said in error["text"] + error["hint"]
    assert not [file for file in (tmp_path / "out").rglob("*") if file.is_file()]


def test_the_typesetter_is_missed_before_anything_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the extra is not installed, the error names the command that installs it."""
    monkeypatch.setitem(sys.modules, "typst", None)
    error = run_here("lab", "assessment", "--out", tmp_path / "out", "--json").error
    assert error["code"] == "LAB_NOT_INSTALLED"
    assert "pip install 'tripartite[lab]'" in error["hint"]


def test_reasons_stand_in_the_agencys_own_words(tmp_path: Path) -> None:
    """Paragraph by paragraph, whatever signs they have."""
    (tmp_path / "reasons.txt").write_text("First #1 $x$\nreason.\n\n\nSecond <b>reason</b>.", "utf-8")
    words = ("--reasons", tmp_path / "reasons.txt", "--without-attacks", "--language", "fr")
    outcome = run_here("lab", "assessment", "--out", tmp_path / "out", *words)
    assert outcome.code == 0, outcome.stderr
    page = (tmp_path / "out/report.html").read_text("utf-8")
    assert "«\u00a0First #1 $x$ reason.\u00a0»" in page
    assert "«\u00a0Second &lt;b&gt;reason&lt;/b&gt;.\u00a0»" in page
