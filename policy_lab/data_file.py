"""Checks of a data file before its use: it is a file, and its first row is a heading, not a person's row."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from broker_common.errors import InvalidRequestError
from broker_common.language import phrase


def verify_ends(path: Path) -> None:
    """A device or a pipe may never end. The caller that opens it handles a folder or a missing file.

    Raises:
        InvalidRequestError: FILE_UNUSABLE.
        OSError: the path cannot be looked at.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise InvalidRequestError("FILE_UNUSABLE", file=str(path), problem=phrase("it is not a regular file"))


def is_heading(row: Collection[str], wanted: Collection[str]) -> bool:
    """Whether a first row may be quoted: it names one of the columns that are asked for, or none is asked for."""
    return not wanted or any(name in row for name in wanted)
