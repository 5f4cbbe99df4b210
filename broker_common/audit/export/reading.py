"""Where an export is read: only plain files, none longer than it can be, nothing followed, nothing waited for.

The audited parties made the hand-in themselves. A link, a pipe or a device is not opened; a folder is walked without
recursion. `Part` is what the checks see of it; they do no input or output of their own.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol


class UnreadableError(Exception):
    """A file that cannot be used; `code` is one of `codes`."""

    def __init__(self, code: str, name: str) -> None:
        super().__init__(f"{code}: {name}")
        self.code = code
        self.name = name


class Part(Protocol):
    """One part of what is handed in: the export of one home."""

    def names(self) -> Iterator[tuple[str, bool]]:
        """Every path in it, with slashes, in no order, and whether a plain file is there."""

    def read(self, name: str, most_bytes: int) -> bytes:
        """A file's content.

        Raises:
            UnreadableError: FILE_MISSING, FILE_UNUSABLE or FILE_TOO_LARGE.
        """


class FolderPart:
    """A part that is a folder."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def names(self) -> Iterator[tuple[str, bool]]:
        waiting = [""]
        while waiting:
            below = waiting.pop()
            is_empty = True
            try:
                # One at a time: a folder may hold more than fits into memory.
                with os.scandir(self._path / below) as found:
                    for item in found:
                        is_empty = False
                        name = f"{below}/{item.name}" if below else item.name
                        if item.is_dir(follow_symlinks=False):
                            waiting.append(name)
                        else:
                            yield name, item.is_file(follow_symlinks=False)
            except OSError:
                yield below or ".", False
                continue
            if is_empty and below:
                # An empty folder is no part of an export either.
                yield below, False

    def read(self, name: str, most_bytes: int) -> bytes:
        try:
            # Neither a link nor a pipe that nobody writes to.
            descriptor = os.open(self._path / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            raise UnreadableError("FILE_MISSING", name) from None
        except (OSError, ValueError) as error:
            missing = isinstance(error, OSError) and error.errno == errno.ENOTDIR
            raise UnreadableError("FILE_MISSING" if missing else "FILE_UNUSABLE", name) from error
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UnreadableError("FILE_UNUSABLE", name)
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                content = file.read(most_bytes + 1)
        except OSError as error:
            raise UnreadableError("FILE_UNUSABLE", name) from error
        finally:
            os.close(descriptor)
        if len(content) > most_bytes:
            raise UnreadableError("FILE_TOO_LARGE", name)
        return content
