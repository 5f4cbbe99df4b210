"""Who may see what was computed from a data file: an exact error beside a noisy answer gives the exact value away."""

from __future__ import annotations

import errno
import os
import shlex
import stat
from enum import Enum
from pathlib import Path

from broker_common.errors import InvalidRequestError
from broker_common.language import phrase

_PRIVATE = 0o600
_PRIVATE_FOLDER = 0o700
_OF_OTHERS = 0o077


class Standing(Enum):
    """The standing of data, as their holder declares."""

    INTERNAL = "internal"
    # A table for release, of data that are not public: nothing in it is exact, and its holder has yet to decide.
    RELEASE = "release"
    PUBLIC = "public"
    SYNTHETIC = "synthetic"
    # An agency's own figures: its policy and its log, and results from public or synthetic data.
    ASSESSMENT = "assessment"
    # Figures of the policy alone: no data file was read.
    NO_DATA = "no data"

    @property
    def mark(self) -> str:
        """The sentence that stands on every page of the output."""
        return _MARKS[self]

    @property
    def may_be_assessed(self) -> bool:
        """Whether an assessment, which is handed on, may include it."""
        return not self.is_internal

    @property
    def is_internal(self) -> bool:
        """Whether nobody but the holder may see it as yet."""
        return self in {Standing.INTERNAL, Standing.RELEASE}


# Standings that a holder may declare.
DECLARABLE = (Standing.INTERNAL, Standing.PUBLIC, Standing.SYNTHETIC)

_MARKS = {
    Standing.INTERNAL: phrase(
        "INTERNAL. Computed from a data file: an error beside a noisy answer gives the exact value away. Do not hand it on."
    ),
    Standing.RELEASE: phrase(
        "INTERNAL until its holder decides. A table for release: its answers have noise, and handing it on spends the epsilon that it names."
    ),
    Standing.PUBLIC: phrase("Computed from data that its holder declares public."),
    Standing.SYNTHETIC: phrase("Computed from data that its holder declares synthetic: nobody is in it."),
    Standing.ASSESSMENT: phrase(
        "Made from the agency's policy and log, and from nothing else but data that their holder declares public or synthetic."
    ),
    Standing.NO_DATA: phrase("Computed from the policy alone: no data file was read."),
}


def make_private_folder(path: Path) -> Path:
    """A folder that only its owner may open; it is made if it is missing, with those above it.

    Raises:
        InvalidRequestError: INVALID_VALUE, others may open the folder that is there. It is left as it is: we did not make it.
    """
    for folder in (*reversed(path.parents), path):
        try:
            folder.mkdir(mode=_PRIVATE_FOLDER)
        except FileExistsError:
            continue
    status = path.stat()
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    if status.st_mode & _OF_OTHERS or status.st_uid != os.geteuid():
        raise InvalidRequestError(
            "INVALID_VALUE",
            name=f"'{path}'",
            problem=phrase("is a folder that others may open, and what is written there is for its owner alone"),
            remedy=phrase(
                "Name a folder that is not there yet: it is made for you alone. Or close this one yourself: chmod 700 {folder}",
                folder=shlex.quote(str(path)),
            ),
        )
    return path


def write_private(path: Path, content: bytes) -> None:
    """Write the whole file, or leave the old one; only its owner may read it."""
    begun = path.with_name(f".{path.name}.begun")
    begun.unlink(missing_ok=True)
    with os.fdopen(os.open(begun, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    begun.replace(path)
