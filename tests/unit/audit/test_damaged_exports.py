"""Damaged exports, each generated as files: the bytes are those of the list that is kept, and the command finds what it lists."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes.deployment import run_here
from vectors.damaged_exports import HOME, NAMES, listed, write_home, write_one

# Faults that an auditor has to find by the task of this project, and the folders that try them.
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


def problems_of(name: str) -> list[str]:
    """Problems of an export in the list, as CODE:LOG:ENTRY."""
    return listed()[name].split()[2:]


@pytest.mark.parametrize("name", NAMES)
def test_the_command_finds_every_problem_of_a_damaged_export(name: str, tmp_path: Path) -> None:
    """With its code, log and entry, none besides, and an exit code that says whether there is one."""
    assert (write_home(tmp_path), write_one(name, tmp_path)) == (listed()[HOME], listed()[name])
    home = tmp_path / HOME
    if (tmp_path / name / "seen").exists():
        (tmp_path / name / "seen").rename(home / "seen")
    done = run_here("audit", "replay", tmp_path / name / "handed_in", "--home", home, "--json")
    found = [
        f"{problem['code']}:{problem['log']}:{'' if problem['entry'] is None else problem['entry']}"
        for problem in done.json["problems"]
    ]
    assert sorted(found) == sorted(problems_of(name))
    assert (done.code, done.json["verified"]) == ((1, False) if found else (0, True))


def test_the_list_has_exactly_what_is_generated() -> None:
    """No export without its line, no line without its export."""
    assert list(listed()) == [HOME, *NAMES]


@pytest.mark.parametrize("what", BAD_INPUT)
def test_every_kind_of_bad_input_is_among_the_exports(what: str) -> None:
    """Each fault that an auditor has to find is generated under a name that says so, and is a problem each time."""
    for name in BAD_INPUT[what]:
        assert problems_of(name)
