"""A small disk for one home, which a test can fill."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

# That is free on a small disk: room for rosters, or they would be refused again and again.
_SPACE_BYTES = 32 * 2**20


class SmallDisk:
    """A home on a file system of its own, with a file that can fill it. Its process must be allowed to mount."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._filler = home / "filler"
        original = home.with_name(f"{home.name}-original")
        home.rename(original)
        home.mkdir(mode=0o700)
        size = sum(path.stat().st_size for path in original.rglob("*")) + _SPACE_BYTES
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", home], check=True)  # noqa: S607 - wherever it is
        shutil.copytree(original, home, dirs_exist_ok=True)

    @contextlib.contextmanager
    def full(self, spare: int) -> Iterator[None]:
        """Nothing but `spare` bytes is left."""
        with self._filler.open("wb") as filler:
            # The home's process writes meanwhile, so that what was free a moment ago may not be any more.
            while (room := self._free() - spare) > 0:
                try:
                    os.posix_fallocate(filler.fileno(), filler.seek(0, os.SEEK_END), room)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
        try:
            yield
        finally:
            self._filler.unlink()

    def _free(self) -> int:
        free = os.statvfs(self._home)
        return free.f_bavail * free.f_frsize
