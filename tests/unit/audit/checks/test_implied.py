"""Attacks on an export that only leave something out: a note is deleted, or replaced by an older one that is genuine."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest
from fakes import logs
from fakes.history import Exports, History, replayed

from broker_common.audit.export.writing import COSIGNED, WITNESSED
from broker_common.audit.home import AuditorHome
from broker_common.audit.report.verdict import report_json

NOTES = [("census", COSIGNED), ("census", WITNESSED), ("health", COSIGNED), ("health", WITNESSED)]
ANSWERS = 3
WITHHELD = "NOTE_WITHHELD"


def found(exports: Exports, home: AuditorHome) -> list[tuple[str, str]]:
    """Code and log of every problem; without one, and only then, it is said to be verified."""
    audited = replayed(exports, home)
    problems = [(problem.code, problem.log) for problem in audited.findings.problems]
    assert report_json(audited)["verified"] is (not problems)
    return problems


def told() -> tuple[History, list[dict[str, str]]]:
    """A history of a few answers, and all that the agencies ever cosigned of each other's logs, oldest first."""
    history = History().begin()
    cosigned = [dict(history.cosigned)]
    for _ in range(ANSWERS):
        history.answer()
        cosigned.append(dict(history.cosigned))
    history.cosign()
    cosigned.append(dict(history.cosigned))
    return history, cosigned


def with_notes(history: History, notes: Mapping[tuple[str, str], bytes | None]) -> Exports:
    """The hand-in, with other notes; None leaves one out."""
    exports = history.exports()
    for (role, name), note in notes.items():
        if note is None:
            del exports[role][name]
        else:
            exports[role][name] = note
    return exports


def log_of(role: str, name: str) -> str:
    """Which log a note is of."""
    return role if name == COSIGNED else {"census": "health", "health": "census"}[role]


# Both of these the party has signed itself; of the others nobody can say who withholds them.
BLAMED = {("census", COSIGNED): "census", ("health", WITNESSED): "health"}


@pytest.mark.parametrize("note", NOTES)
def test_a_note_that_was_deleted_is_missed(home: AuditorHome, note: tuple[str, str]) -> None:
    """Releases in the same bundle name cosigned checkpoints: each of the four files has to be there."""
    history, _ = told()
    assert found(history.exports(), home) == []
    assert found(with_notes(history, {note: None}), home) == [(WITHHELD, BLAMED.get(note, ""))]


@pytest.mark.parametrize("notes", [pair for count in (2, 3, 4) for pair in itertools.combinations(NOTES, count)])
def test_notes_that_were_deleted_together_are_all_missed(home: AuditorHome, notes: list[tuple[str, str]]) -> None:
    """No note is believed to be missing because another is."""
    history, _ = told()
    problems = found(with_notes(history, dict.fromkeys(notes)), home)
    assert sorted(problems) == sorted((WITHHELD, BLAMED.get(note, "")) for note in notes)


@pytest.mark.parametrize("note", NOTES)
def test_an_older_note_in_the_place_of_a_newer_is_told_from_it(home: AuditorHome, note: tuple[str, str]) -> None:
    """Every genuine one that is older than what the last release names, or than what must have been cosigned before it."""
    history, cosigned = told()
    role, name = note
    # The last but one is as old as the last release, and contradicts nothing.
    for older in cosigned[:-2]:
        exports = with_notes(history, {note: older[log_of(role, name)].encode()})
        assert [code for code, _ in found(exports, home)] == [WITHHELD]
    assert found(with_notes(history, {note: cosigned[-2][log_of(role, name)].encode()}), home) == []


def test_what_only_a_settlement_implies_is_held_against_nobody(home: AuditorHome) -> None:
    """A census agency may have said too early that an answer is out: what it released later accuses no health agency."""
    history, cosigned = told()
    witnessed = ("health", WITNESSED)
    quoted, released = (older["census"].encode() for older in cosigned[-4:-2])
    assert found(with_notes(history, {witnessed: released}), home) == [(WITHHELD, "")]
    assert found(with_notes(history, {witnessed: quoted}), home) == [(WITHHELD, "health")]


def test_whoever_was_shown_a_release_has_cosigned_what_it_names(home: AuditorHome) -> None:
    """A report of another charge is signed over the release, and the release has the health agency's own cosignature."""
    history = History().begin()
    quoted = history.cosigned["census"].encode()
    first, second = history.order(), history.order()
    for asked in (first, second):
        history.submit(asked)
        history.forward(asked)
    history.charge(first)
    history.cosign()
    history.release(first)
    history.charge(second)
    witnessed = ("health", WITNESSED)
    assert found(with_notes(history, {witnessed: quoted}), home) == []
    history.report_charge(second)
    assert found(with_notes(history, {witnessed: quoted}), home) == [(WITHHELD, "health")]


def test_what_was_heard_before_the_last_cosignature_is_not_left_out(home: AuditorHome) -> None:
    """Also where the one before stands beside the census log alone, and in no release."""
    history = History().begin()
    heard = history.cosigned["health"].encode()
    history.ask("submit forward charge cosign")
    told = history.cosigned["census"].encode()
    history.commit_slots()
    history.cosign()
    notes = {("census", COSIGNED): told, ("health", COSIGNED): heard}
    assert found(with_notes(history, {("census", COSIGNED): told}), home) == []
    assert found(with_notes(history, notes), home) == [(WITHHELD, "")]


def test_both_parts_cannot_be_the_earlier_one(home: AuditorHome) -> None:
    """Each agency shows more of the other than the other shows: one of the two hides what it has cosigned."""
    history, cosigned = told()
    before = {log: cosigned[-2][log].encode() for log in ("census", "health")}
    assert found(with_notes(history, {("census", WITNESSED): before["health"]}), home) == []
    assert found(with_notes(history, {("health", WITNESSED): before["census"]}), home) == []
    both = {("census", WITNESSED): before["health"], ("health", WITNESSED): before["census"]}
    assert found(with_notes(history, both), home) == [(WITHHELD, "")]


def test_a_quote_implies_notes_before_anything_is_charged(home: AuditorHome) -> None:
    """A ticket that the health agency accepted names a checkpoint that it had cosigned, and the census agency had quoted."""
    history = History().begin()
    asked = history.order()
    history.submit(asked)
    # The census agency shows that it has seen the ticket accepted.
    history.cosigned["health"] = history.census.cosigner().cosign(history.health.note(), history.now_ms // 1000)
    assert found(history.exports(), home) == []
    for note in NOTES:
        assert found(with_notes(history, {note: None}), home) == [(WITHHELD, BLAMED.get(note, ""))]


def test_a_ticket_that_came_to_nothing_convicts_a_census_log_of_two_histories(home: AuditorHome) -> None:
    """The checkpoint in its quote is signed by the log's own key, and is of this log or of another one."""
    history = History().begin()
    other = history.census.signer.sign_checkpoint(history.census.size, bytes(32))
    history.order(checkpoint=history.health.cosigner().cosign(other, history.now_ms // 1000))
    assert found(history.exports(), home) == [("SPLIT_VIEW", "census")]


def test_after_a_change_of_cards_nobody_is_asked_for_what_it_could_not_read(home: AuditorHome) -> None:
    """Until a new card has arrived a health node cannot verify what the census node has cosigned, and does not keep it."""
    history = History().begin()
    history.answer()
    history.census_party.renew("witness", now_ms=history.now_ms, until_ms=history.now_ms + 3_600_000)
    history.write_census(logs.announced(history.census_party))
    history.answer()
    assert found(with_notes(history, {("health", COSIGNED): None}), home) == []
