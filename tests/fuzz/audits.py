"""Targets on what is handed in for an audit: documents, notes and whole exports. Nothing may stop or crash a verifier."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec
from fakes import logs
from fakes.history import Exports, auditor, honest, in_memory, replayed, unwatched
from fakes.randomness import SeededRandomness
from fuzz.target import Cut, Target, fresh_path, joined, require
from unit.audit.on_site.site import sealed

from broker_common.audit.audit import Audited, verify_parts
from broker_common.audit.checks.receipts import ReceiptForms
from broker_common.audit.export.documents import (
    OpenedCriteria,
    ReceiptFile,
    canonical_message,
    parse_criteria_file,
    parse_receipt_file,
)
from broker_common.audit.findings import Findings
from broker_common.audit.home import AuditorHome
from broker_common.audit.logs.log_audit import LogAudit
from broker_common.audit.logs.log_files import LogFiles
from broker_common.audit.logs.signers import CheckedNote, NoteChecker, NoteError
from broker_common.audit.on_site.files import (
    DamagedError,
    KeptSample,
    Roster,
    parse_roster,
    parse_sample,
    read_file,
    read_roster,
    read_sample,
)
from broker_common.audit.report.verdict import report_json, report_text
from broker_common.crypto.commitments import SlotSecret, commit_roster, hash_bytes
from broker_common.crypto.sealing import UnsealingKey, opening_info
from broker_common.crypto.signing import Purpose
from broker_common.errors import InvalidRequestError
from broker_common.privacy.opening import SEALED_OPENING_BYTES, Opening, make_opening, seal_opening, unseal_opening
from broker_common.storage.home import stated_role
from broker_common.tlog.cosignature import CosignatureVerifier, Cosigner
from broker_common.tlog.note import parse_checkpoint, parse_note
from broker_common.values import ExactCounts

_WITNESS = Cosigner(logs.HEALTH_ORIGIN, logs.HEALTH.signing(Purpose.WITNESS))


# --- documents ---------------------------------------------------------------------------------------------------------


@cache
def _exports() -> Exports:
    return honest(2).exports(criteria=True)


def _document_seeds(role: str, folder: str) -> dict[str, bytes]:
    found = {name: content for name, content in _exports()[role].items() if name.startswith(folder)}
    first = next(iter(found.values()))
    return {"usual": first, "bad line": first + b"\n", "bad spelling": first.replace(b":", b": ")}


def _check_receipt(file: ReceiptFile, data: bytes) -> None:
    require(file.to_bytes() == data, "a receipt has one spelling")
    for text, read in ((file.ticket, lambda: file.signed_ticket), (file.receipt, lambda: file.signed_receipt)):
        try:
            message = read()
        except InvalidRequestError as error:
            require(error.code == "MALFORMED_MESSAGE", "a message that is none is said to be malformed")
        else:
            require(canonical_message(type(message), text) == message, "a message is read the same twice")


def _check_criteria(opened: OpenedCriteria, data: bytes) -> None:
    require(opened.to_bytes() == data, "opened criteria have one spelling")


# --- notes -------------------------------------------------------------------------------------------------------------


def _check_note(data: bytes) -> CheckedNote:
    verifier: CosignatureVerifier = _WITNESS.verifier
    return NoteChecker().check(
        data.decode("utf-8", "replace"), logs.SIGNER.verifier, {"witness": verifier}, cosigned_by=("witness",)
    )


def _note_seeds() -> dict[str, bytes]:
    note = logs.SIGNER.sign_checkpoint(42, bytes(range(32)))
    cosigned = _WITNESS.cosign(note, 1_800_000_000)
    return {
        "cosigned": cosigned.encode(),
        "bad alone": note.encode(),
        "bad stranger": (cosigned + "\u2014 stranger AAAAAAAA\n").encode(),
        "bad twice": _WITNESS.cosign(cosigned, 1_800_000_001).encode(),
    }


# --- openings ----------------------------------------------------------------------------------------------------------

_TICKET = "ab" * 32


@cache
def _oversight_key() -> UnsealingKey:
    return UnsealingKey.generate(SeededRandomness("oversight"))


def _opening(data: bytes) -> Opening:
    """A file as it is, or anything that somebody who has the public key has sealed."""
    if data.startswith(b"\0"):
        return unseal_opening(data[1:], _TICKET, _oversight_key())
    sealed = _oversight_key().sealing_key.seal(data.ljust(1024), opening_info(_TICKET))
    return unseal_opening(sealed, _TICKET, _oversight_key())


def _check_opening(opening: Opening, data: bytes) -> None:
    require(opening.ticket == _TICKET, "an opening is of its ticket")
    require(
        len(seal_opening(opening, _oversight_key().sealing_key)) == SEALED_OPENING_BYTES, "openings have one length"
    )
    if not data.startswith(b"\0"):
        require(msgspec.json.encode(opening, order="sorted") == data.rstrip(b" "), "an opening has one spelling")
    require(
        len(opening.answer_hash(30, "12" * 32)) == len(opening.slot_commitment),
        "whatever was read can be computed with",
    )


def _opening_seeds() -> dict[str, bytes]:
    opening = make_opening(ExactCounts([41]), SlotSecret(bytes(32)), ticket=_TICKET, slot=7, load="load1")
    document = msgspec.json.encode(opening, order="sorted")
    sealed = seal_opening(opening, _oversight_key().sealing_key)
    return {
        "usual": document,
        "sealed": b"\0" + sealed,
        "bad cut": b"\0" + sealed[:-1],
        "bad spelling": document.replace(b":", b": "),
        "bad load": document.replace(b"load1", "é".encode()),
        "bad length": document.ljust(1025),
        "bad ticket": document.replace(_TICKET.encode(), b"cd" * 32),
    }


# --- what lies in a census home ----------------------------------------------------------------------------------------

_FRAME_KEY = bytes(32)
_PERSONS, _DECLARED = 20, 64
# The frames hold more than any mutation should have to repeat: what follows is made up to whole frames.
_PLAIN = 1 << 18


def _sealed_frames(plaintext: bytes) -> bytes:
    return sealed(_FRAME_KEY, plaintext)


def _kept_sample(data: bytes) -> KeptSample:
    """A file as it is, or anything that a home has sealed under the key in its row."""
    folder = fresh_path()
    folder.mkdir()
    is_sealed = data.startswith(b"\0")
    (folder / f"{'ab' * 16}.sample").write_bytes(
        data[1:] if is_sealed else _sealed_frames(data[1:].ljust(_PLAIN, b"\0"))
    )
    try:
        return read_sample(folder, f"{'ab' * 16}:{_FRAME_KEY.hex()}")
    finally:
        shutil.rmtree(folder)


def _check_kept_sample(sample: KeptSample, data: bytes) -> None:
    counts = (8 * len(sample.bits), sample.persons)
    header = sample.salt + sample.active_salt + b"".join(count.to_bytes(8, "big") for count in counts)
    again = (header + sample.bits + sample.active).ljust(_PLAIN, b"\0")
    require(data.startswith(b"\0") or again == data[1:].ljust(_PLAIN, b"\0"), "a sample has one spelling")
    require(len(sample.chosen) == sample.persons, "there is a mark for every person")


def _kept_sample_seeds() -> dict[str, bytes]:
    counts = _DECLARED.to_bytes(8, "big") + _PERSONS.to_bytes(8, "big")
    whole = bytes(range(64)) + counts + b"\xaa" * (_DECLARED // 8) + b"\xff\x00\xf0"
    return {
        "whole": b"s" + whole,
        "nobody": b"s" + bytes(80),
        "sealed": b"\0" + _sealed_frames(whole),
        "bad cut": b"\0" + _sealed_frames(whole)[:-1],
        "bad empty": b"\0",
        "bad bit of nobody": b"s" + whole[:-1] + b"\xf8",
        "bad behind": b"s" + whole + b"\0\1",
        "bad counts": b"s" + bytes(64) + b"\xff" * 16,
    }


def _roster(data: bytes) -> Roster:
    """People by a row and a commitment that say what is there: nobody but the reader says that it is no roster."""
    people = int.from_bytes(data[:2], "big")
    pseudonyms = data[2:]
    set_hash = hash_bytes(b"tripartite/set/v1\0" + pseudonyms[: 16 * people])
    places = _PLAIN // 16
    commitment = commit_roster(bytes(32), places, set_hash).hex()
    folder = fresh_path()
    folder.mkdir()
    (folder / "a.roster").write_bytes(_sealed_frames(pseudonyms.ljust(_PLAIN, b"\0")))
    (folder / "a.rosterkey").write_bytes(_FRAME_KEY)
    try:
        return read_roster(folder, "a", "00" * 32, places, people, commitment)
    finally:
        shutil.rmtree(folder)


def _check_roster(roster: Roster, data: bytes) -> None:
    names = roster.chosen(b"\xff" * (len(roster.names) // 8) + bytes(roster.places // 8 - len(roster.names) // 8))
    require(bool((roster.names[1:] > roster.names[:-1]).all()), "pseudonyms ascend")
    require(len(names) == len(roster.names) // 8 * 8, "every bit is somebody's")
    require(len(roster.names) == int.from_bytes(data[:2], "big"), "there are as many as the row says")


# --- whole exports -----------------------------------------------------------------------------------------------------


@cache
def _home() -> AuditorHome:
    return AuditorHome(auditor(fresh_path()))


def _damaged(data: bytes) -> Audited:
    """An honest export in which files are replaced, added, cut or changed in place; then verified and replayed."""
    exports = {role: dict(files) for role, files in _exports().items()}
    names = [(role, name) for role, files in exports.items() for name in sorted(files)]
    cut = Cut(data)
    while not cut.is_empty:
        role, name = names[cut.number() % len(names)]
        content = exports[role].get(name, b"")
        match cut.number() % 5:
            case 0:
                exports[role][name] = cut.piece()
            case 1:
                exports[role].pop(name, None)
            case 2:
                exports[role][cut.piece().decode("utf-8", "replace")] = content
            case 3:
                at = cut.number(2) % (len(content) + 1)
                exports[role][name] = content[:at] + cut.piece() + content[at + cut.number(1) :]
            case _:
                other = names[cut.number() % len(names)]
                exports[role][name] = exports[other[0]].get(other[1], b"")
    home = _home()
    for role in ("census", "health"):
        (home.path / "seen" / role).unlink(missing_ok=True)
    verify_parts(in_memory(exports), home, unwatched)
    for role in ("census", "health"):
        (home.path / "seen" / role).unlink(missing_ok=True)
    audited = replayed(exports, home)
    if audited.findings.count:
        raise _ProblemsFound
    return audited


class _ProblemsFound(Exception):  # noqa: N818 - what the target takes for a refusal
    """The audit found something, as it should."""


def _check_audited(audited: Audited, data: bytes) -> None:
    report = report_json(audited)
    require(report["verified"] is True and not report["problems"], "what holds has no problems")
    require(
        all(line.isprintable() for line in report_text(audited).splitlines()), "a report does nothing to a terminal"
    )
    del data


def _export_seeds() -> dict[str, bytes]:
    # Case 2 copies a file under its own name: nothing changes.
    same = bytes([0, 2]) + joined(min(_exports()["census"]).encode())
    return {
        "honest": b"",
        "same": same,
        "bad gone": bytes([0, 1]),
        "bad replaced": bytes([1, 0]) + joined(b"x"),
        "bad other": bytes([3, 4, 9]),
    }


def _role(data: bytes) -> str:
    path = fresh_path()
    path.mkdir()
    (path / "config.toml").write_bytes(data)
    return stated_role(path)


TARGETS: Mapping[str, Target[Any]] = {
    "receipt_file": Target(
        parse=parse_receipt_file,
        check=_check_receipt,
        covers=(parse_receipt_file,),
        seeds=lambda: _document_seeds("researcher", "receipts/"),
        errors=(ValueError,),
        max_bytes=16_384,
        mutations=250,
    ),
    "criteria_file": Target(
        parse=parse_criteria_file,
        check=_check_criteria,
        covers=(parse_criteria_file,),
        seeds=lambda: _document_seeds("health", "criteria/"),
        errors=(ValueError,),
    ),
    "audited_note": Target(
        parse=_check_note,
        check=lambda checked, data: require(
            parse_checkpoint(data.decode("utf-8", "replace")) == checked.checkpoint, "a note has one checkpoint"
        ),
        covers=(parse_checkpoint, parse_note),
        seeds=_note_seeds,
        errors=(NoteError,),
    ),
    "opening": Target(
        parse=_opening,
        check=_check_opening,
        covers=(unseal_opening,),
        seeds=_opening_seeds,
        codes=frozenset({"SEALED_WRONGLY", "MALFORMED_MESSAGE"}),
        mutations=250,
    ),
    "audited_sample": Target(
        parse=_kept_sample,
        check=_check_kept_sample,
        covers=(parse_sample, read_sample, read_file),
        seeds=_kept_sample_seeds,
        errors=(DamagedError,),
        mutations=150,
    ),
    "audited_roster": Target(
        parse=_roster,
        check=_check_roster,
        covers=(parse_roster, read_roster),
        seeds=lambda: {
            "two": b"\0\2" + bytes(15) + b"\1" + b"\xff" * 16,
            "nobody": b"\0\0",
            "bad order": b"\0\2" + b"\xff" * 16 + bytes(16),
            "bad twice": b"\0\2" + bytes(32),
            "bad behind": b"\0\1" + b"\1" * 32,
            "bad more than places": b"\xff\xff" + bytes(16),
        },
        errors=(DamagedError,),
        mutations=150,
    ),
    "export": Target(
        parse=_damaged,
        check=_check_audited,
        covers=(
            Findings,
            LogAudit.read,
            LogAudit.verify_past,
            LogAudit.verify_signed,
            LogFiles.read,
            LogFiles.read_note,
            ReceiptForms.read,
            verify_parts,
        ),
        seeds=_export_seeds,
        errors=(_ProblemsFound,),
        mutations=100,
        max_bytes=2048,
    ),
    "stated_role": Target(
        parse=_role,
        covers=(stated_role,),
        seeds=lambda: {"auditor": b'role = "auditor"\n', "bad other": b"x = 1\n", "bad": b"role = "},
        codes=frozenset({"CONFIG_INVALID"}),
        mutations=150,
    ),
}
