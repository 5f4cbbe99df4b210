"""Exports of a real journal to a real folder: incremental, never over evidence, and read back without following anything."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes import logs
from fakes.clock import FakeClock
from fakes.connections import at, watch
from fakes.history import auditor

from broker_common.audit.export.documents import (
    OpenedCriteria,
    ReceiptFile,
    is_dictionary,
    parse_criteria_file,
    parse_receipt_file,
)
from broker_common.audit.export.reading import FolderPart, UnreadableError
from broker_common.audit.export.writing import ExportFolder, ExportReport, export_log
from broker_common.audit.findings import Findings
from broker_common.audit.home import AuditorHome
from broker_common.audit.logs.log_audit import LogAudit
from broker_common.crypto.signing import Purpose
from broker_common.errors import InvalidRequestError
from broker_common.storage.dictionary.adopted import Dictionaries
from broker_common.storage.journal import Journal
from broker_common.storage.witnessing import CosignedNote, CosignedNotes
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.cosignature import Cosigner
from broker_common.tlog.entries import Revoked
from broker_common.tlog.note import parse_checkpoint
from broker_common.tlog.tiles import CHECKPOINT_PATH, tile_paths


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal[CensusState]]:
    """A census journal in which nothing was asked yet."""
    made = logs.census_journal(tmp_path)
    yield made
    made.close()


def export(journal: Journal[CensusState], to: Path) -> ExportReport:
    """One export."""
    return export_log(journal, Dictionaries(journal._path.parent), ExportFolder(to), lambda _done, _total: None)


def files(folder: Path) -> dict[str, bytes]:
    """Everything in a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def times(folder: Path) -> dict[str, int]:
    """When each file was written."""
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def problems(folder: Path, tmp_path: Path) -> list[str]:
    """Problems of an audit of the log alone."""
    home = AuditorHome(auditor(tmp_path / f"auditor-{len(list(tmp_path.iterdir()))}"))
    findings = Findings()
    audit = LogAudit("census", FolderPart(folder), logs.census_state(), home.trust(), findings)
    audit.read(lambda _: lambda _done, _total: None, others=is_dictionary)
    audit.verify_signed(home)
    audit.close()
    return [problem.code for problem in findings.problems]


# --- writing -----------------------------------------------------------------------------------------------------------


def test_an_export_holds_the_log_and_nothing_else(journal: Journal[CensusState], tmp_path: Path) -> None:
    """Folders are made, every tile of the layout is there, and it verifies."""
    logs.grow(journal, 600)
    to = tmp_path / "a" / "b" / "census"
    report = export(journal, to)
    document = f"dictionaries/{logs.dictionary_adopted().document}.json"
    assert set(files(to)) == {CHECKPOINT_PATH, document, *tile_paths(report.size)}
    assert report.written == len(files(to))
    assert parse_checkpoint((to / CHECKPOINT_PATH).read_text()).size == report.size == journal.state.size
    assert problems(to, tmp_path) == []


def test_a_second_export_writes_what_is_new_and_touches_nothing_else(
    journal: Journal[CensusState], tmp_path: Path
) -> None:
    """Full tiles stay the files that they were; partial ones are replaced; the result is that of a fresh export."""
    logs.grow(journal, 300)
    to = tmp_path / "census"
    export(journal, to)
    assert export(journal, to).written == 0
    before = times(to)
    logs.grow(journal, 300)
    export(journal, to)
    export(journal, tmp_path / "fresh")
    assert files(to) == files(tmp_path / "fresh")
    full = [name for name in before if name.startswith("tile/") and ".p/" not in name]
    assert full
    assert all(before[name] == times(to)[name] for name in full)
    assert not [path for path in to.rglob("*") if path.is_dir() and not any(path.iterdir())]
    assert problems(to, tmp_path) == []


@pytest.mark.parametrize("name", ["tile/0/000", "tile/entries/000", CHECKPOINT_PATH])
def test_an_export_never_overwrites_what_differs(journal: Journal[CensusState], tmp_path: Path, name: str) -> None:
    """A changed full tile, or a checkpoint of another history, stays as evidence; the folder is left as it was."""
    logs.grow(journal, 300)
    to = tmp_path / "census"
    export(journal, to)
    changed = logs.SIGNER.sign_checkpoint(20, bytes(32)).encode()
    if name != CHECKPOINT_PATH:
        changed = (to / name).read_bytes()[:-1] + b"x"
    (to / name).write_bytes(changed)
    before = files(to)
    logs.grow(journal, 10)
    with pytest.raises(InvalidRequestError) as refused:
        export(journal, to)
    assert refused.value.code == "EXPORT_DIFFERS"
    assert files(to) == before


def test_an_export_of_a_shorter_log_is_refused(journal: Journal[CensusState], tmp_path: Path) -> None:
    """A restored old database does not get to replace the export of the newer one."""
    to = tmp_path / "census"
    to.mkdir()
    (to / CHECKPOINT_PATH).write_text(logs.SIGNER.sign_checkpoint(10_000, bytes(32)))
    with pytest.raises(InvalidRequestError, match="EXPORT_DIFFERS"):
        export(journal, to)


def test_the_notes_of_both_agencies_are_exported(journal: Journal[CensusState], tmp_path: Path) -> None:
    """The newest of each is exported: the checkpoint of this log that a peer has cosigned, and the peer's that this node has cosigned."""
    witness = Cosigner(logs.HEALTH_ORIGIN, logs.HEALTH.signing(Purpose.WITNESS))
    ours = witness.cosign(journal.checkpoint(), 1_800_000_000)
    rows = [
        {"log": logs.ORIGIN, "witness": logs.HEALTH_ORIGIN, "size": 6, "note": ours},
        {"log": logs.HEALTH_ORIGIN, "witness": logs.ORIGIN, "size": 3, "note": "theirs"},
    ]
    journal.db.make_table("cosigned", {"log": str, "witness": str, "size": int, "note": str}, key=("log", "witness"))
    for row in rows:
        journal.db.execute("insert into cosigned (log, witness, size, note) values (:log, :witness, :size, :note)", row)
    to = tmp_path / "census"
    export(journal, to)
    assert ((to / "cosigned").read_text(), (to / "witnessed").read_text()) == (ours, "theirs")


@pytest.mark.parametrize("is_there", [False, True], ids=["new", "exported by an earlier version"])
def test_a_secret_export_is_for_its_owner_alone(tmp_path: Path, *, is_there: bool) -> None:
    """Whatever the umask, and also where an export of before stands open to everybody."""
    folder, name = ExportFolder(tmp_path / "health"), "criteria/1.json"
    before = os.umask(0)
    try:
        if is_there:
            (folder.path / "criteria").mkdir(0o755)
            (folder.path / name).write_bytes(b"{}")
        folder.put_secret(name, b"{}")
    finally:
        os.umask(before)
    assert (folder.path / name).read_bytes() == b"{}"
    assert (folder.path / name).stat().st_mode & 0o777 == 0o600
    assert (folder.path / "criteria").stat().st_mode & 0o777 == 0o700
    with pytest.raises(InvalidRequestError, match="EXPORT_DIFFERS"):
        folder.put_secret(name, b"[]")


def test_an_export_is_of_one_instant_while_another_process_writes(
    journal: Journal[CensusState], tmp_path: Path
) -> None:
    """An honest node that goes on meanwhile must not seem to hide the note that its own next entry names."""
    serving = Journal(
        tmp_path / "journal.db",
        fresh_state=logs.census_state,
        signer=lambda _: logs.SIGNER,
        clock=FakeClock(),
        tables=CosignedNotes.create_tables,
    )
    witness = Cosigner(logs.HEALTH_ORIGIN, logs.HEALTH.signing(Purpose.WITNESS))
    size, connection = journal.state.size, journal.db.conn

    def then_goes_on() -> None:
        logs.grow(serving, 1)
        cosigned = witness.cosign(serving.checkpoint(), 1_800_000_000)
        with serving.transaction() as transaction:
            row = CosignedNote(logs.ORIGIN, logs.HEALTH_ORIGIN, serving.state.size, cosigned)
            CosignedNotes(transaction.db).put(row)

    watch(journal.db, after=at("select note from cosigned", then_goes_on))
    assert export(journal, tmp_path / "census").size == size
    assert not (tmp_path / "census" / "cosigned").exists()
    journal.db.conn = connection
    assert export(journal, tmp_path / "census").size == serving.state.size == size + 2
    noted, _, _ = (tmp_path / "census" / "cosigned").read_text().partition("\n\n")
    assert noted in serving.checkpoint()
    serving.close()


def test_a_home_is_no_folder_for_an_export(tmp_path: Path) -> None:
    """An export among keys would end up with them on a stick."""
    (tmp_path / "config.toml").write_text("")
    with pytest.raises(InvalidRequestError, match="INVALID_VALUE"):
        ExportFolder(tmp_path)


# --- reading -----------------------------------------------------------------------------------------------------------


def test_only_plain_files_are_read(tmp_path: Path) -> None:
    """Links, pipes and folders in a file's place are named and never opened: an auditor is not made to wait or to look away."""
    (tmp_path / "plain").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "plain")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inner").write_bytes(b"y")
    os.mkfifo(tmp_path / "pipe")
    part = FolderPart(tmp_path)
    assert dict(part.names()) == {
        "plain": True,
        "link": False,
        "loop": False,
        "empty": False,
        "pipe": False,
        "folder/inner": True,
    }
    for name in ("link", "pipe", "folder", "empty", "a\0b"):
        with pytest.raises(UnreadableError, match="FILE_UNUSABLE"):
            part.read(name, 10)
    for name in ("nothing", "plain/inner"):
        with pytest.raises(UnreadableError, match="FILE_MISSING"):
            part.read(name, 10)
    assert part.read("plain", 1) == b"x"
    with pytest.raises(UnreadableError, match="FILE_TOO_LARGE"):
        part.read("plain", 0)


def test_a_file_name_that_is_no_text_is_a_problem_and_printable(journal: Journal[CensusState], tmp_path: Path) -> None:
    """File names are bytes, and their sender chooses them."""
    to = tmp_path / "census"
    export(journal, to)
    Path(os.fsdecode(bytes(to) + b"/\xff\x1b[2J")).write_bytes(b"")
    assert problems(to, tmp_path) == ["UNKNOWN_FILE"]


# --- documents ---------------------------------------------------------------------------------------------------------


def test_documents_have_one_spelling() -> None:
    """A written document is read back to the same bytes; another spelling is refused."""
    receipt = ReceiptFile(query="0" * 32, quote="AAAA", ticket="AAAA", receipt="", state="pending")
    opened = OpenedCriteria(ticket="0" * 64, criteria="AAAA", nonce="AAAA")
    assert parse_receipt_file(receipt.to_bytes()).to_bytes() == receipt.to_bytes()
    assert parse_criteria_file(opened.to_bytes()).to_bytes() == opened.to_bytes()
    for data in (receipt.to_bytes(), opened.to_bytes()):
        parse = parse_receipt_file if data == receipt.to_bytes() else parse_criteria_file
        for other in (data[:-1], data + b"\n", data.replace(b":", b": "), data.replace(b"{", b'{"x":1,'), b"[" * 9999):
            with pytest.raises(ValueError):  # noqa: PT011 - any of them
                parse(other)


def test_revoked_agencies_stay_known_for_what_they_cosigned(journal: Journal[CensusState], tmp_path: Path) -> None:
    """A revocation ends what comes after it; a cosignature from before still explains its line."""
    witness = Cosigner(logs.HEALTH_ORIGIN, logs.HEALTH.signing(Purpose.WITNESS))
    note = witness.cosign(journal.checkpoint(), 1_800_000_000)
    with journal.transaction() as transaction:
        transaction.append(Revoked(role="health", name="health-on", note="it left"))
    export(journal, tmp_path / "census")
    findings = Findings()
    home = AuditorHome(auditor(tmp_path / "auditor"))
    audit = LogAudit("census", FolderPart(tmp_path / "census"), logs.census_state(), home.trust(), findings)
    audit.read(lambda _: lambda _done, _total: None)
    assert audit.verify_past(note).times == {"health-on": 1_800_000_000}
    audit.close()
