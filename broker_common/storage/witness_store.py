"""A witness outside the home: the newest checkpoint of a log, on another disk or a mounted one of another host.

A log that is restored from a backup looks whole by itself. This store remembers how long it was: no checkpoint is shown to
anybody, and so no answer leaves, before it stands here; and a log that is older than, or beside, what stands here is not
served. Whoever can write to the home and to this store can undo both: put it where other people decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from broker_common.errors import InternalError, InvalidRequestError
from broker_common.storage.durable import replace_file
from broker_common.tlog.note import MAX_NOTE_BYTES

__all__ = ["WitnessStore"]

_CHECKPOINT = "checkpoint"


@dataclass(frozen=True, slots=True)
class WitnessStore:
    """One log's newest checkpoint in a folder."""

    folder: Path

    def put(self, note: str) -> None:
        """Durably remember a checkpoint in the place of the one before.

        Raises:
            InternalError: STORE_FAILED.
        """
        try:
            replace_file(self.folder / _CHECKPOINT, note.encode())
        except OSError as error:
            raise InternalError("STORE_FAILED") from error

    def read(self) -> str | None:
        """The checkpoint that stands here; None while there is none.

        Raises:
            InvalidRequestError: FILE_UNUSABLE, the store is not there: a disk that is not mounted forgets everything.
        """
        if not self.folder.is_dir():
            raise InvalidRequestError("FILE_UNUSABLE", file=str(self.folder), problem="the witness store is not there")
        path = self.folder / _CHECKPOINT
        try:
            with path.open("rb") as file:
                return file.read(MAX_NOTE_BYTES + 1).decode("utf-8", "replace")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InvalidRequestError("FILE_UNUSABLE", file=str(path), problem=str(error.strerror)) from error
