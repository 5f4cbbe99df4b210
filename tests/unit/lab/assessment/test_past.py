"""`lab checkpoint`: the first entries of a log, held against what an assessment names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes import logs
from fakes.deployment import run_here

from broker_common.audit.export.writing import ExportFolder, export_log
from broker_common.storage.dictionary.adopted import Dictionaries
from broker_common.storage.journal import Journal
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.note import ED25519, parse_note, vkeys
from broker_common.values import base64_text


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal[CensusState]]:
    """A census journal in which nothing was asked yet."""
    made = logs.census_journal(tmp_path)
    yield made
    made.close()


def export(journal: Journal[CensusState], to: Path) -> Path:
    """One export."""
    export_log(journal, Dictionaries(journal._path.parent), ExportFolder(to), lambda _done, _total: None)
    return to


def named(note: str) -> tuple[str, ...]:
    """Checkpoint of an assessment: size, signature and key."""
    checkpoint, ((_, blob),) = parse_note(note)
    key = vkeys(logs.SIGNER.name, ED25519, logs.SIGNER.verifier.keys)
    return "--size", str(checkpoint.size), "--signature", base64_text(blob), "--key", key


def test_a_log_that_has_grown_begins_as_it_did(journal: Journal[CensusState], tmp_path: Path) -> None:
    """Whatever has come since, the first entries have their hash, and the old signature holds."""
    note = journal.checkpoint()
    before = run_here("lab", "checkpoint", export(journal, tmp_path / "out"), *named(note), "--json").result
    logs.grow(journal, 300)
    after = run_here("lab", "checkpoint", export(journal, tmp_path / "out"), *named(note), "--json").result
    assert after["root"] == before["root"] == note.splitlines()[2]
    assert (before["entries"], after["entries"]) == (before["size"], before["size"] + 300)
    assert (after["answers"], after["state"], after["signed"]) == (0, "serving", True)


def test_another_past_is_found_out(journal: Journal[CensusState], tmp_path: Path) -> None:
    """A signature over other entries, or by another key, does not hold; the error names the hash that was found."""
    note = journal.checkpoint()
    logs.grow(journal, 300)
    out = export(journal, tmp_path / "out")
    words = named(note)
    error = run_here("lab", "checkpoint", out, *("--size", str(int(words[1]) + 1)), *words[2:], "--json").error
    assert "does not hold" in error["text"]
    checked = run_here("lab", "checkpoint", out, "--size", str(int(words[1]) + 1), "--json").result
    assert checked["root"] in error["text"]
    assert checked["signed"] is False
    key = vkeys(logs.SIGNER.name, ED25519, logs.HEALTH_SIGNER.verifier.keys)
    assert "does not hold" in run_here("lab", "checkpoint", out, *words[:-1], key, "--json").error["text"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--size", "1000"), 3, "has 7 entries"),
        (("--size", "0"), 2, ""),
        (("--size", "1", "--key", "x"), 2, "together"),
        (("--size", "1", "--key", "x", "--signature", "y"), 3, "not what an assessment prints"),
        ((), 2, "--size"),
    ],
)
def test_what_cannot_be_checked_ends_in_a_sentence(
    journal: Journal[CensusState], tmp_path: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    """The error says what is wrong, and never is anything called signed."""
    outcome = run_here("lab", "checkpoint", export(journal, tmp_path / "out"), *words, "--json")
    assert outcome.code == code
    assert said in outcome.error["text"] + outcome.error["hint"]


def test_a_damaged_export_is_no_log(journal: Journal[CensusState], tmp_path: Path) -> None:
    """One bit of an entry, or no log at all."""
    out = export(journal, tmp_path / "out")
    (bundle,) = (path for path in (out / "tile/entries").rglob("*") if path.is_file())
    data = bytearray(bundle.read_bytes())
    data[50] ^= 1
    bundle.write_bytes(data)
    (tmp_path / "empty").mkdir()
    for folder in (out, tmp_path / "empty"):
        error = run_here("lab", "checkpoint", folder, "--size", "1", "--json").error
        assert "no whole log" in error["text"]
