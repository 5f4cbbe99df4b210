"""Replacing a file so that a crash leaves the old one or the new one, whole.

References: fsync(2), rename(2). Known gap: on file systems that reorder a rename before the data of the file (none of
those in common use with default options do, after an fsync), or disks that lie about flushing, the promise is void.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

# The user's own umask, before the program makes itself stricter. To ask for it is to set it for an instant.
_USERS_UMASK = os.umask(0o077)
os.umask(_USERS_UMASK)
# The mode of a file that is to be handed on.
SHARED_FILE = 0o666 & ~_USERS_UMASK
_SHARED_FOLDER = 0o777 & ~_USERS_UMASK


def close_to_others() -> None:
    """Whatever this process makes from here on, or a library for it, is for its owner alone from the first byte."""
    os.umask(0o077)


def replace_file(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Durably make `path` hold `content`, for its owner alone unless `mode` says otherwise."""
    with replacing(path) as temporary, create_for_owner(temporary) as file:
        os.fchmod(file.fileno(), mode)
        file.write(content)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place, durably, when the block ends without an exception."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        # CRASH: before this line the old file stands; after it the new one.
        temporary.replace(path)
        sync_directory(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def create_for_owner(path: Path) -> BinaryIO:
    """A new file, or an emptied one, that its owner alone can read and write."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")


@contextmanager
def exclusive(path: Path, *, wait: bool = False) -> Iterator[bool]:
    """Hold a lock file for one process; gives False when another holds it, or waits. Ends with the process, however it ends.

    Raises:
        OSError: the file system knows no locks, or takes no file; nothing is held.
    """
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        except OSError as error:
            error.filename = str(path)
            raise
        else:
            yield True


def is_held(path: Path) -> bool:
    """Whether a process holds a lock file. Asking takes it for an instant where nobody does."""
    try:
        with path.open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def make_folder(path: Path) -> None:
    """Durably make a folder for its owner alone, unless it is there."""
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        return
    # CRASH: without this a power cut could take the folder away, and with it files that were flushed inside it.
    sync_directory(path.parent)


def make_shared_folder(path: Path) -> None:
    """Make a folder that others may enter as far as the user lets them, and those above it, unless they are there."""
    for folder in (*reversed(path.parents), path):
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            continue
        folder.chmod(_SHARED_FOLDER)


def sync_directory(directory: Path) -> None:
    """Make renames and removals in `directory` durable."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
