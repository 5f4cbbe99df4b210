"""Where an export is written: what never changes is written once, the rest is replaced, and the checkpoint comes last.

A folder that was exported to before is continued. What stands there already and can never change must be what would be
written now: an export that differs is evidence, and is never overwritten.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from broker_common.audit import texts
from broker_common.errors import InvalidRequestError
from broker_common.storage.durable import (
    SHARED_FILE,
    create_for_owner,
    make_folder,
    make_shared_folder,
    sync_directory,
)

__all__ = ["ExportFolder"]

_CONFIG = "config.toml"


class ExportFolder:
    """One part of what is handed in: the export of one home."""

    def __init__(self, path: Path) -> None:
        """Make the folder, and the folders above it.

        Raises:
            InvalidRequestError: INVALID_VALUE, it is a home.
        """
        if (path / _CONFIG).exists():
            raise InvalidRequestError(
                "INVALID_VALUE", name="--to", problem=texts.EXPORT_TO_HOME, remedy=texts.EXPORT_ELSEWHERE
            )
        self.path = path
        self.written = 0
        self._touched = {path}
        make_shared_folder(path)

    def read(self, name: str) -> bytes | None:
        """What stands there under this name; None if nothing does."""
        try:
            return (self.path / name).read_bytes()
        except FileNotFoundError:
            return None

    def put_final(self, name: str, content: bytes, *, mode: int = SHARED_FILE) -> None:
        """Write what can never change, unless it is there already.

        Raises:
            InvalidRequestError: EXPORT_DIFFERS, something else is there.
        """
        there = self.read(name)
        if there is None:
            self._write(name, content, mode)
        elif there != content:
            raise InvalidRequestError("EXPORT_DIFFERS", file=str(self.path / name))

    def put_secret(self, name: str, content: bytes) -> None:
        """The same for what nobody but its owner may read, in a folder that nobody else enters."""
        path = self.path / name
        make_folder(path.parent)
        # An earlier version left both open to others.
        path.parent.chmod(0o700)
        if path.exists():
            path.chmod(0o600)
        self.put_final(name, content, mode=0o600)

    def put(self, name: str, content: bytes) -> None:
        """Write what may have changed since, if it has."""
        if self.read(name) != content:
            self._write(name, content, SHARED_FILE)

    def flush(self) -> None:
        """Make everything so far durable under its name."""
        for directory in sorted(self._touched):
            sync_directory(directory)
        self._touched.clear()

    def names(self, below: str) -> Iterator[str]:
        """Every file under a folder of the export."""
        for directory, _, files in os.walk(self.path / below):
            yield from (str((Path(directory) / file).relative_to(self.path)) for file in sorted(files))

    def remove(self, name: str) -> None:
        """Remove what a later export stands in for, and its folder if that is empty then."""
        path = self.path / name
        path.unlink()
        if not any(path.parent.iterdir()):
            path.parent.rmdir()

    def _write(self, name: str, content: bytes, mode: int) -> None:
        path = self.path / name
        make_shared_folder(path.parent)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            with create_for_owner(temporary) as file:
                os.fchmod(file.fileno(), mode)
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            # CRASH: before this line the old file stands, after it the new one; `flush` makes the names durable.
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        self._touched.add(path.parent)
        self.written += 1
