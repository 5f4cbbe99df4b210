"""Copies of a node's files as they are at one instant, while the node may be running."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def copy_home(folder: Path, copy: Path) -> Path:
    """The bytes that a node's files hold now, in a folder of their own.

    A roster is megabytes that nobody ever writes to again, so that it has one more name in place of a copy.
    """
    # Without the shared-memory index: SQLite makes it anew from the write-ahead log, as after a power cut.
    ignored = shutil.ignore_patterns("*-shm")
    return Path(shutil.copytree(folder, copy, ignore=ignored, copy_function=_copy_or_name))


def _copy_or_name(source: str, copy: str) -> None:
    if source.endswith(".roster"):
        os.link(source, copy)
    else:
        shutil.copy2(source, copy)
