"""A log as it stood at a checkpoint: read from an export, however far the log has grown since."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from broker_common.audit.export.documents import is_dictionary
from broker_common.audit.export.reading import FolderPart
from broker_common.audit.findings import Findings, Report
from broker_common.audit.logs.log_files import LogFiles
from broker_common.crypto.signing import Purpose, VerifyKey
from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from broker_common.tlog.entries import Charged, Reopened, Shutdown, parse_entry
from broker_common.tlog.note import ED25519, Checkpoint, NoteVerifier, join_note
from broker_common.values import base64_text, parse_base64

# name+hash+base64(kind || key)
_KEY_PARTS = 3


@dataclass(frozen=True, slots=True)
class Past:
    """Facts of the first entries of a log; `entries` is how many there are now."""

    checkpoint: Checkpoint
    entries: int
    answers: int
    is_shut_down: bool

    @property
    def root(self) -> str:
        return base64_text(self.checkpoint.root)

    @property
    def state(self) -> str:
        return "shutdown" if self.is_shut_down else "serving"


def read_past(export: Path, size: int, report: Report) -> Past:
    """The log of an export as it stood with `size` entries.

    Raises:
        InvalidRequestError: INVALID_VALUE, there is no whole log, or a shorter one.
    """
    findings = Findings()
    files = LogFiles("census", FolderPart(export), findings)
    try:
        files.read(report, others=is_dictionary)
        now = files.checkpoint
        if now is None or not files.is_whole or findings.count:
            raise _unusable(export)
        if size > now.size:
            raise InvalidRequestError(
                "INVALID_VALUE",
                name="--size",
                problem=phrase("is {size}, and this log has {entries} entries", size=size, entries=now.size),
                remedy=phrase(
                    "Export the log again. If it is still shorter than the assessment says, it is not the log that was assessed: tell the auditor."
                ),
            )
        answers, is_shut_down = _told(files, size, report)
        return Past(Checkpoint(now.origin, size, files.tree.root(size)), now.size, answers, is_shut_down)
    except ValueError as error:
        raise _unusable(export) from error
    finally:
        files.close()


def _told(files: LogFiles, size: int, report: Report) -> tuple[int, bool]:
    """How many answers the first entries charge, and whether they shut the service down."""
    answers, is_shut_down = 0, False
    for _, data, _ in islice(files.entries(report), size):
        event = parse_entry(data).event
        answers += isinstance(event, Charged)
        if isinstance(event, Shutdown | Reopened):
            is_shut_down = isinstance(event, Shutdown)
    return answers, is_shut_down


def _unusable(export: Path) -> InvalidRequestError:
    return InvalidRequestError(
        "INVALID_VALUE",
        name=str(export),
        problem=phrase("holds no whole log"),
        remedy=phrase(
            "Export it with 'tripartite audit export --home CENSUS_HOME --to DIR'; 'tripartite audit verify' says what is wrong with an export."
        ),
    )


def verify_signed(past: Past, signature: str, key: str) -> None:
    """Return only if the log signed, with this key, that it began with these entries.

    Raises:
        InvalidRequestError: INVALID_VALUE.
    """
    checkpoint = past.checkpoint
    try:
        note = join_note(checkpoint.to_text(), [(checkpoint.origin, parse_base64(signature))])
        if _log_of(key).verify_checkpoint(note) == checkpoint:
            return
    except ValueError as error:
        problem = phrase("is not what an assessment prints, or not with this --key")
        raise InvalidRequestError(
            "INVALID_VALUE", name="--signature", problem=problem, remedy=phrase("Copy both from the assessment.")
        ) from error
    except InvalidRequestError:
        pass
    raise InvalidRequestError(
        "INVALID_VALUE",
        name="--signature",
        problem=phrase(
            "does not hold: this key has not signed that the log begins with these {size} entries, whose hash is {hash}",
            size=checkpoint.size,
            hash=past.root,
        ),
        remedy=phrase(
            "If the assessment names another hash, this is not the log that was assessed: keep the export, and tell the auditor. Otherwise compare the signature and the key with it."
        ),
    )


def _log_of(key: str) -> NoteVerifier:
    """A log's name and key, as C2SP writes them; ValueError where it is none."""
    parts = key.split("+", _KEY_PARTS - 1)
    raw = parse_base64(parts[-1])
    found = NoteVerifier(parts[0], (VerifyKey(Purpose.LOG, raw[1:]),))
    if len(parts) != _KEY_PARTS or raw[:1] != ED25519 or found.to_text() != key:
        raise ValueError("this is no key of a log")
    return found
