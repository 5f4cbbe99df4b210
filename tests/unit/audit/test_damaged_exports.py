"""The damaged exports that are kept as files: the command finds what stands beside each, and they are made the same again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from fakes.deployment import run_here
from vectors.damaged_exports import EXPORTS, HOME, NAMES, write_all

# Each export holds cards; a further kind of key on a card is 50 KB here.
MOST_BYTES = 5_800_000
# What an auditor has to find by the task of this project, and the folders that try it.
BAD_INPUT = {
    "bit flip in entry": ("bit_flip_in_entry", "bit_flip_in_health_entry"),
    "bit flip in tile": ("bit_flip_in_tile",),
    "bit flip in signature": ("bit_flip_in_signature", "bit_flip_in_cosignature", "bit_flip_in_ticket_signature"),
    "bit flip in receipt": ("bit_flip_in_receipt", "bit_flip_in_receipt_signature"),
    "reordered": ("reordered_entries", "reordered_entries_and_tiles"),
    "duplicated": ("duplicated_entry",),
    "deleted": ("deleted_entry",),
    "truncated tail with an older genuine checkpoint": ("truncated_tail", "health_tail_truncated"),
    "same size with another root": ("two_histories", "two_histories_to_two_auditors"),
    "wrong key": ("signed_with_the_wrong_key",),
    "unknown key": ("signed_with_an_unknown_key",),
    "rotation without an entry": ("key_changed_without_an_entry", "key_added_without_an_entry"),
    "charge too small for its scale": ("charge_too_small",),
    "answer without charge": ("answer_without_charge", "receipt_for_a_ticket_that_was_never_charged"),
    "charge after shutdown": ("charge_after_shutdown",),
    "charge over the cap": ("charge_over_the_cap",),
    "two charges for one ticket": ("two_charges_for_one_ticket",),
    "slot skipped": ("slot_skipped",),
    "slot reused": ("slot_reused",),
    "slot committed after the ticket": ("slot_committed_after_the_ticket",),
    "policy changed without an entry": ("policy_changed_without_an_entry",),
    "time backwards": ("time_backwards",),
    "unknown entry type or version": ("unknown_entry_type", "unknown_version"),
    "manifest that does not match the charge": ("manifest_that_does_not_match_the_charge",),
    "unknown files": ("unknown_file", "unknown_tile", "unknown_file_of_researcher"),
    "unknown signature lines": ("unknown_signature_line", "unknown_cosignature_line"),
    "giant lines": ("giant_line_in_checkpoint", "giant_entry", "giant_size", "giant_checkpoint"),
    "broken UTF-8": ("broken_utf8_in_checkpoint", "broken_utf8_in_entry", "broken_utf8_in_receipt"),
    "non-canonical JSON": ("entry_in_other_json", "receipt_in_other_json"),
    "non-canonical base64": ("receipt_in_other_base64", "base64_line_in_checkpoint", "opened_criteria_in_other_base64"),
}


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", NAMES)
def test_the_command_finds_what_stands_beside_a_damaged_export(name: str, tmp_path: Path) -> None:
    """Every problem with its code, log and entry, none besides, and an exit code that says whether there is one."""
    home = Path(shutil.copytree(EXPORTS / HOME, tmp_path / "auditor"))
    if (EXPORTS / name / "seen").exists():
        shutil.copytree(EXPORTS / name / "seen", home / "seen")
    done = run_here("audit", "replay", EXPORTS / name / "handed_in", "--home", home, "--json")
    expected = json.loads((EXPORTS / name / "expected.json").read_text())
    found = [{part: problem[part] for part in ("code", "entry", "log")} for problem in done.json["problems"]]
    assert sorted(map(str, found)) == sorted(map(str, expected))
    assert (done.code, done.json["verified"]) == ((1, False) if expected else (0, True))


def test_damaged_exports_are_what_their_generator_writes(tmp_path: Path) -> None:
    """No file was changed by hand, none is missing, none is left over; and they are small."""
    write_all(tmp_path)
    made, kept = contents(tmp_path), contents(EXPORTS)
    assert sorted(made) == sorted(kept)
    assert [name for name in sorted(made) if made[name] != kept[name]] == []
    assert sum(map(len, kept.values())) < MOST_BYTES


@pytest.mark.parametrize("what", BAD_INPUT)
def test_every_kind_of_bad_input_is_among_the_files(what: str) -> None:
    """What an auditor has to find is kept under a name that says so, and is a problem each time."""
    for name in BAD_INPUT[what]:
        assert json.loads((EXPORTS / name / "expected.json").read_text())
