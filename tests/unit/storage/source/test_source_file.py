"""The file behind a source: only a regular file is read, never waited for, and never while somebody writes to it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker_common.errors import InvalidRequestError
from broker_common.storage.source.rows import reading


def refusal(path: Path) -> str:
    """Error about a file that is not even opened for reading."""
    with pytest.raises(InvalidRequestError) as caught, reading(path):
        raise AssertionError("it was opened")
    assert caught.value.code == "LOAD_REFUSED"
    assert caught.value.hint
    return caught.value.text


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    """A pipe without a writer would be waited for; a directory, a device or nothing at all is no file."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert "not a regular file" in refusal(tmp_path / "pipe")
    assert "not a regular file" in refusal(Path("/dev/zero"))
    assert "cannot be read" in refusal(tmp_path)
    assert "cannot be read" in refusal(tmp_path / "nowhere")
    assert "cannot be read" in refusal(tmp_path / "loop")
    assert "cannot be read" in refusal(tmp_path / "pipe" / "inside")
    assert "cannot be read" in refusal(tmp_path / ("long" * 100))


@pytest.mark.parametrize("change", ["grows", "shrinks", "is written over"])
def test_file_that_changes_while_it_is_read_is_refused(tmp_path: Path, change: str) -> None:
    """The rows read may be half of one state and half of another."""
    path = tmp_path / "source"
    path.write_bytes(b"abc")
    os.utime(path, ns=(1, 1))
    with pytest.raises(InvalidRequestError, match="changed while it was read"), reading(path):
        path.write_bytes({"grows": b"abcd", "shrinks": b"ab", "is written over": b"abd"}[change])


def test_file_that_is_replaced_is_read_to_its_end(tmp_path: Path) -> None:
    """Another file under the same name does not touch the one that is open."""
    path, other = tmp_path / "source", tmp_path / "other"
    path.write_bytes(b"abc")
    other.write_bytes(b"other")
    with reading(path) as file:
        other.replace(path)
        assert file.read() == b"abc"
