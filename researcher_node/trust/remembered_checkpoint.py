"""The newest checkpoint of the census log that was verified here: `census.checkpoint` in the home, a signed note as it came.

A log that shows one past today and another one next month is found out by a researcher who remembers. The file is replaced only by a
checkpoint that was proved to go on from it; one that contradicts it leaves it as it is. Removing it forgets what was seen.
"""

from __future__ import annotations

from pathlib import Path

from broker_common.errors import InvalidRequestError
from broker_common.storage.durable import exclusive, replace_file
from broker_common.tlog.note import MAX_NOTE_BYTES, Checkpoint, parse_note


class RememberedCheckpoint:
    """The file of one home. Several processes may check at once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Checkpoint | None:
        """What was seen, or None before the first time.

        Raises:
            InvalidRequestError: FILE_UNUSABLE.
        """
        note = self._note()
        return None if note is None else self._parse(note)

    def replace(self, before: Checkpoint | None, note: str) -> None:
        """Remember a newer checkpoint, which was proved to go on from `before`, unless another process has been here since."""
        with exclusive(self.path.with_name(f".{self.path.name}.lock"), wait=True):
            if self.read() == before:
                replace_file(self.path, note.encode())

    def _note(self) -> str | None:
        try:
            with self.path.open("rb") as file:
                return file.read(MAX_NOTE_BYTES + 1).decode()
        except FileNotFoundError:
            return None
        except UnicodeDecodeError as error:
            raise self._unusable() from error

    def _parse(self, note: str) -> Checkpoint:
        try:
            return parse_note(note)[0]
        except InvalidRequestError as error:
            raise self._unusable() from error

    def _unusable(self) -> InvalidRequestError:
        return InvalidRequestError("FILE_UNUSABLE", file=str(self.path), problem="it is not a signed checkpoint")
