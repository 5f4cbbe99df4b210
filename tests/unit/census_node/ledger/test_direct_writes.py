"""Files written past the cache hold what was written, whatever its size, and where a file system knows no such way."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from census_node.ledger import samples
from census_node.ledger.samples import write_direct

AT_ONCE = samples._BYTES_AT_ONCE
SIZES = [0, 1, 4095, 4096, AT_ONCE - 1, AT_ONCE, AT_ONCE + 1, 3 * AT_ONCE, 3 * AT_ONCE + 4097]


def written(path: Path, parts: list[np.ndarray[Any, np.dtype[np.uint8]]]) -> bytes:
    """Content of a new file after these were written to it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        write_direct(descriptor, parts)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return path.read_bytes()


@pytest.mark.parametrize("size", SIZES)
def test_file_holds_every_part_one_after_the_other(tmp_path: Path, size: int) -> None:
    """Files of one part, and of the same bytes in three, none of which ends with a page."""
    content = np.frombuffer(os.urandom(size), np.uint8)
    cuts = [size // 3, size // 2]
    assert written(tmp_path / "one", [content]) == content.tobytes()
    assert written(tmp_path / "three", np.split(content, cuts)) == content.tobytes()


def test_file_system_that_knows_no_way_past_its_cache_holds_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the flag is refused; the file is written."""
    asked = []

    def refuse(_: int, command: int, *arguments: int) -> int:
        if command == fcntl.F_SETFL:
            asked.append(arguments)
            raise OSError(errno.EINVAL, "no such flag here")
        return 0

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    content = np.frombuffer(os.urandom(2 * AT_ONCE + 17), np.uint8)
    assert written(tmp_path / "file", [content]) == content.tobytes()
    assert asked


@pytest.mark.parametrize("taken", [0, 4096, 5000])
def test_file_system_that_takes_the_flag_and_not_the_bytes_holds_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: int
) -> None:
    """Refused at once, or after a part of it: the rest goes through the cache."""
    write = os.write
    refused: list[bool] = []

    def only_some(descriptor: int, content: memoryview) -> int:
        if not fcntl.fcntl(descriptor, fcntl.F_GETFL) & samples._DIRECT:
            return write(descriptor, content)
        if taken and not refused:
            refused.append(True)
            samples._set_direct(descriptor, is_direct=False)
            some = write(descriptor, content[:taken])
            samples._set_direct(descriptor, is_direct=True)
            return some
        refused.append(True)
        raise OSError(errno.EINVAL, "not so")

    monkeypatch.setattr(os, "write", only_some)
    content = np.frombuffer(os.urandom(2 * AT_ONCE + 17), np.uint8)
    assert written(tmp_path / "file", [content]) == content.tobytes()
    assert refused


def test_bytes_that_are_refused_without_the_flag_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no other way to write them."""

    def refuse(*_: object) -> int:
        raise OSError(errno.EINVAL, "not so")

    monkeypatch.setattr(os, "write", refuse)
    with pytest.raises(OSError, match="not so"):
        written(tmp_path / "file", [np.zeros(17, np.uint8)])


def test_fault_of_another_kind_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fails is no file system without the flag."""

    def fail(*_: object) -> int:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(fcntl, "fcntl", fail)
    with pytest.raises(OSError, match="broken"):
        written(tmp_path / "file", [np.zeros(AT_ONCE, np.uint8)])
