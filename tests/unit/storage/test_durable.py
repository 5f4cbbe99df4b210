"""Files that are replaced whole: the old one or the new one, and nothing left lying about."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker_common.storage.durable import exclusive, replace_file, replacing, sync_directory


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    """The new content stands under the name, with the mode asked for, and nothing else is left."""
    file = tmp_path / "key"
    replace_file(file, b"old", mode=0o600)
    assert file.stat().st_mode & 0o777 == 0o600
    replace_file(file, b"new", mode=0o600)
    assert file.read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


def test_the_old_file_stands_until_the_block_ends(tmp_path: Path) -> None:
    """A reader in the middle of a replacement sees the old file, whole."""
    file = tmp_path / "load"
    file.write_bytes(b"old")
    with replacing(file) as temporary:
        temporary.write_bytes(b"new, half wri")
        assert file.read_bytes() == b"old"
        assert temporary.parent == file.parent
    assert file.read_bytes() == b"new, half wri"


def left_open(folder: Path) -> list[str]:
    """Files of a folder that this process holds open; other threads open and close files of their own meanwhile."""
    paths = []
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            paths.append(str(link.readlink()))
    return [path for path in paths if path.startswith(str(folder))]


class Interrupted(BaseException):
    """Somebody pulls the plug."""


@pytest.mark.parametrize("existed", [False, True])
@pytest.mark.parametrize("written", [False, True])
def test_an_exception_leaves_the_old_file_and_no_temporary_one(tmp_path: Path, existed: bool, written: bool) -> None:
    """Whatever happens in the block, before or after writing, nothing has changed."""
    file = tmp_path / "load"
    if existed:
        file.write_bytes(b"old")
    with pytest.raises(Interrupted), replacing(file) as temporary:  # noqa: PT012 - fails half way
        if written:
            temporary.write_bytes(b"new")
        raise Interrupted
    assert [path.read_bytes() for path in tmp_path.iterdir()] == ([b"old"] if existed else [])


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_failing_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    """If the data cannot be flushed, or the name not be moved, the old file stands."""
    file = tmp_path / "load"
    file.write_bytes(b"old")

    def fail(*_arguments: Any) -> None:
        raise OSError("no space left on device")

    if failing == "fsync":
        monkeypatch.setattr(os, "fsync", fail)
    else:
        monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="no space"):
        replace_file(file, b"new")
    monkeypatch.undo()
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


def test_data_is_flushed_before_the_name_moves_and_the_name_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a crash could leave the new name with the data of neither file."""
    steps: list[str] = []
    fsync: Callable[[int], None] = os.fsync
    replace = Path.replace

    def seen_fsync(descriptor: int) -> None:
        steps.append("directory" if Path(f"/proc/self/fd/{descriptor}").resolve().is_dir() else "data")
        fsync(descriptor)

    def seen_replace(self: Path, target: Path) -> Path:
        steps.append("rename")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", seen_fsync)
    monkeypatch.setattr(Path, "replace", seen_replace)
    replace_file(tmp_path / "load", b"new")
    assert steps == ["data", "rename", "directory"]


def test_a_block_that_writes_nothing_replaces_nothing(tmp_path: Path) -> None:
    """Forgetting to write is an error, not an empty file."""
    file = tmp_path / "load"
    file.write_bytes(b"old")
    with pytest.raises(FileNotFoundError), replacing(file):
        pass
    assert file.read_bytes() == b"old"


def test_syncing_a_directory_closes_it(tmp_path: Path) -> None:
    """No descriptor is left open, however often it is done."""
    for _ in range(10):
        sync_directory(tmp_path)
    assert left_open(tmp_path) == []


def test_a_lock_is_held_once(tmp_path: Path) -> None:
    """The second one is told so, does not take it from the first, and gets it afterwards."""
    file = tmp_path / "lock"
    with exclusive(file) as first:
        with exclusive(file) as second:
            assert (first, second) == (True, False)
        with exclusive(file) as third, exclusive(tmp_path / "other") as elsewhere:
            assert (third, elsewhere) == (False, True)
    with exclusive(file) as again:
        assert again


@pytest.mark.parametrize("error", [Interrupted(), OSError("disk"), BlockingIOError("busy")], ids=["any", "os", "busy"])
def test_a_lock_ends_with_its_block_and_hides_no_error(tmp_path: Path, error: BaseException) -> None:
    """Errors of the block are its own, not taken for a lock that somebody else holds."""
    file = tmp_path / "lock"
    with pytest.raises(type(error)), exclusive(file) as held:  # noqa: PT012 - fails half way
        assert held
        raise error
    with exclusive(file) as held, pytest.raises(type(error)), exclusive(file) as second:  # noqa: PT012 - as above
        assert (held, second) == (True, False)
        raise error
    with exclusive(file) as held:
        assert held
    assert left_open(tmp_path) == []


def test_a_lock_where_nothing_can_be_written_is_an_error(tmp_path: Path) -> None:
    """Not a lock that somebody else holds."""
    with pytest.raises(FileNotFoundError), exclusive(tmp_path / "missing" / "lock"):
        pytest.fail("held a lock that is nowhere")


@pytest.mark.parametrize("wait", [False, True])
def test_a_lock_that_cannot_be_had_is_not_taken_for_held_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait: bool
) -> None:
    """On a file system without locks nobody goes on without one, or is told that somebody else holds it."""

    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(OSError, match="No locks available") as caught, exclusive(tmp_path / "lock", wait=wait):
        pytest.fail("it went on")
    assert caught.value.filename == str(tmp_path / "lock")
