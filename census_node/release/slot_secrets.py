"""The secrets of noise slots: a file for each batch that the log has committed to, outside the database and its backups.

A secret is written before its commitment and overwritten as soon as its answer is made. Secrets lost with the folder can
never be made again. This makes a restored backup harmless: its slots are void. Copies that a file system or a flash disk
keeps below an overwritten file are out of reach (SECURITY.md).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from broker_common.crypto.commitments import SALT_BYTES, SlotSecret, commit_slot
from broker_common.errors import InternalError
from broker_common.storage.durable import make_folder, sync_directory

SLOT_SECRET_BYTES = SALT_BYTES
_SUFFIX = ".slots"
_WIPED = bytes(SLOT_SECRET_BYTES)


@dataclass(frozen=True, slots=True)
class SlotSecrets:
    """The folder of one census node's slot secrets."""

    path: Path

    def write(self, first: int, secrets: Sequence[SlotSecret]) -> None:
        """Durably keep the secrets of slots `first`, `first` + 1, and so on, to which nobody has committed yet.

        A file of an attempt whose entry was never written gives way.
        """
        try:
            make_folder(self.path)
            descriptor = os.open(self._file(first), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(b"".join(secret.expose() for secret in secrets))
                file.flush()
                os.fsync(file.fileno())
            # CRASH: secrets that no entry commits to are wiped at the next start, or overwritten by the next attempt.
            sync_directory(self.path)
        except OSError as error:
            raise InternalError("STORE_FAILED") from error

    def read(self, slot: int, commitment: bytes) -> SlotSecret:
        """The secret of a slot, as the log has committed to it.

        Raises:
            InternalError: SAMPLE_LOST, it is gone: the answer can never be made.
        """
        try:
            path, offset = self._place(slot)
            with path.open("rb") as file:
                file.seek(offset)
                content = file.read(SLOT_SECRET_BYTES)
        except OSError as error:
            raise InternalError("SAMPLE_LOST") from error
        secret = SlotSecret(content) if len(content) == SLOT_SECRET_BYTES else None
        if secret is None or commit_slot(secret, slot) != commitment:
            raise InternalError("SAMPLE_LOST")
        return secret

    def wipe(self, slot: int) -> None:
        """Overwrite one secret; nothing happens if its file is gone."""
        try:
            path, place = self._place(slot)
            _overwrite(path, [place])
        except FileNotFoundError:
            return
        except OSError as error:
            raise InternalError("STORE_FAILED") from error

    def sweep(self, kept: Collection[int]) -> None:
        """Wipe every secret but those of the slots that are kept, and remove files that hold none of them.

        A file in which nothing changes is read and left alone.
        """
        try:
            for first, path in self._files():
                content = path.read_bytes()
                # A secret that was cut short counts as one: what is left of it is wiped as well.
                places = range(0, len(content), SLOT_SECRET_BYTES)
                gone = [place for place in places if first + place // SLOT_SECRET_BYTES not in kept]
                left = [place for place in gone if content[place : place + SLOT_SECRET_BYTES] != _WIPED]
                if left:
                    _overwrite(path, left)
                if len(gone) == len(places):
                    path.unlink()
        except OSError as error:
            raise InternalError("STORE_FAILED") from error

    def _place(self, slot: int) -> tuple[Path, int]:
        """The file that a slot's secret is in, and where. Nothing is written behind the end of a file."""
        for first, path in reversed(self._files()):
            offset = (slot - first) * SLOT_SECRET_BYTES
            if 0 <= offset < path.stat().st_size:
                return path, offset
        raise FileNotFoundError(self._file(slot))

    def _files(self) -> list[tuple[int, Path]]:
        """Every batch's first slot and file, ascending."""
        if not self.path.is_dir():
            return []
        files = [path for path in self.path.iterdir() if path.name.endswith(_SUFFIX)]
        return sorted((int(path.name.removesuffix(_SUFFIX)), path) for path in files)

    def _file(self, first: int) -> Path:
        return self.path / f"{first:016d}{_SUFFIX}"


def _overwrite(path: Path, places: Sequence[int]) -> None:
    """Durably overwrite the secrets that begin at these bytes."""
    with path.open("r+b") as file:
        for place in places:
            file.seek(place)
            file.write(_WIPED)
        file.flush()
        os.fsync(file.fileno())
