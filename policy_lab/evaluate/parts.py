"""Parts of a run: one mechanism, one epsilon, one repetition. Finished ones are kept for a run that goes on.

A part is reused only if it was made by this version of the program from the same run file and the same data.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import msgspec
import numpy as np

from broker_common.errors import InternalError, InvalidRequestError
from broker_common.language import phrase
from policy_lab.evaluate import texts
from policy_lab.evaluate.data import Data
from policy_lab.evaluate.likeness import Likeness
from policy_lab.evaluate.run import Mechanism, RunFile
from policy_lab.standing import make_private_folder, write_private

_FOLDER = ".tripartite-parts"
_OF = "of.txt"
_FINGERPRINT = re.compile(rb"[0-9a-f]{64}")
# Raised when the same run file gives other parts.
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Job:
    """Inputs of one part."""

    mechanism: Mechanism
    epsilon: float
    repetition: int

    @property
    def name(self) -> str:
        """The part's file."""
        return f"{self.mechanism.key}_{self.epsilon!r}_{self.repetition}.part"


class Part(msgspec.Struct, frozen=True):
    """Answers by block, stratum and cell, and what the sent data look like; None where nothing is sent."""

    answers: list[list[list[float]]]
    likeness: Likeness | None


def jobs(run: RunFile) -> list[Job]:
    """Every part, in the order of the report."""
    return [
        Job(mechanism, epsilon, repetition)
        for mechanism in run.mechanisms
        for epsilon in run.epsilons
        for repetition in range(run.repetitions)
    ]


class Parts:
    """The finished parts in a folder; without one they are held in memory."""

    def __init__(self, folder: Path | None, run: RunFile, data: Data) -> None:
        self._folder = None if folder is None else folder / _FOLDER
        self._held: dict[str, bytes] = {}
        if self._folder is not None:
            self._claim(self._folder, fingerprint(run, data))

    def get(self, job: Job) -> Part | None:
        """The part, if it is finished."""
        if self._folder is None:
            content = self._held.get(job.name)
        else:
            path = self._folder / job.name
            content = path.read_bytes() if path.exists() else None
        return None if content is None else msgspec.msgpack.decode(content, type=Part)

    def needed(self, job: Job) -> Part:
        """A part that is finished."""
        part = self.get(job)
        if part is None:
            raise InternalError("INTERNAL")
        return part

    def put(self, job: Job, part: Part) -> None:
        """Keep a finished part; a kill leaves it whole or absent."""
        content = msgspec.msgpack.encode(part)
        if self._folder is None:
            self._held[job.name] = content
        else:
            write_private(self._folder / job.name, content)

    def _claim(self, folder: Path, print_: str) -> None:
        """Drop what is of another run file, of other data or of another version.

        Raises:
            InvalidRequestError: INVALID_VALUE, what is there is not known to be ours.
        """
        if folder.is_symlink():
            raise _foreign(folder)
        of = make_private_folder(folder) / _OF
        parts = list(folder.glob("*.part"))
        held = of.read_bytes() if of.exists() else b""
        # Parts are written only after the file that says what they are of.
        if (held or parts) and not _FINGERPRINT.fullmatch(held):
            raise _foreign(folder)
        if held != print_.encode():
            for part in parts:
                part.unlink()
            write_private(of, print_.encode())


def _foreign(folder: Path) -> InvalidRequestError:
    return InvalidRequestError(
        "INVALID_VALUE",
        name=f"'{folder}'",
        problem=phrase(texts.FOREIGN_PARTS),
        remedy=phrase(texts.FOREIGN_PARTS_REMEDY),
    )


def fingerprint(run: RunFile, data: Data) -> str:
    """Identity of the run that parts belong to."""
    whole = (str(_FORMAT), run.digest, data.digest, version("tripartite"), np.__version__)
    return hashlib.sha256("\n".join(whole).encode()).hexdigest()
