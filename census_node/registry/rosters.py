"""Rosters as the census node keeps them: a sealed file and a key for each, and a row that says whose it is.

A file holds the frames of `broker_common.crypto.rosters`, sealed again under a key of its own, which lies beside it: forgetting
the key erases the roster. Neither is in the database, whose write-ahead log holds on to what it is given. File and key are
durable before the row that names them; a row outlives its file, so that a number stands for one roster for ever.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import structlog
from sqlite_utils import Database

from broker_common.crypto.frames import FRAME_BYTES, FRAME_KEY_BYTES, TAG_BYTES, FrameReader, FrameSealer
from broker_common.crypto.rosters import PLACES_PER_FRAME
from broker_common.errors import InternalError, InvalidRequestError, RefusedError
from broker_common.storage.durable import create_for_owner, make_folder, sync_directory
from broker_common.values import PSEUDONYM_BYTES, Randomness

People: TypeAlias = npt.NDArray[np.uint8]
_log = structlog.get_logger()
_NAME_BYTES = 16
# When an agency whose roster could not be written is told to come again.
_RETRY_SECONDS = 60
_SUFFIX = ".roster"
_KEY_SUFFIX = ".rosterkey"


class RosterLostError(Exception):
    """A roster's file or key is missing or damaged; its agency has to send it again."""


@dataclass(frozen=True, slots=True)
class KeptRoster:
    """One roster that was received whole."""

    health: str
    number: int
    linkage: str
    # Hex, as both logs have them.
    commitment: str
    # Opens the commitment to places and set; erased together with the file.
    salt: str
    manifest: str
    places: int
    people: int
    # Empty once it is erased or lost.
    file: str
    received_ms: int


# --- files -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RosterFolder:
    """The folder of one census node's rosters."""

    path: Path

    def begin(self, places: int, randomness: Randomness) -> RosterWriter:
        """A new file for a roster of so many places.

        Raises:
            RefusedError: BUSY.
        """
        name = randomness(_NAME_BYTES).hex()
        try:
            make_folder(self.path)
            return RosterWriter(self, name, places, randomness)
        except OSError as error:
            with contextlib.suppress(InternalError):
                self.wipe(name)
            raise _no_room(error) from error

    def pieces(self, roster: KeptRoster) -> Iterator[People]:
        """The pseudonyms of a roster piece by piece, ascending, as (n, 16) arrays.

        Raises:
            RosterLostError: at any piece.
            OSError: what may pass; the roster itself may be sound.
        """
        try:
            frames = FrameReader(self._key(roster.file).read_bytes())
            with self._file(roster.file).open("rb") as file:
                for start in range(0, roster.people, PLACES_PER_FRAME):
                    is_last = start + PLACES_PER_FRAME >= roster.places
                    body = frames.unseal(frames.count, is_last, file.read(FRAME_BYTES + TAG_BYTES))
                    yield body.reshape(-1, PSEUDONYM_BYTES)[: roster.people - start]
        except (FileNotFoundError, InvalidRequestError) as error:
            raise RosterLostError from error

    def wipe(self, name: str) -> None:
        """Erase a roster; nothing happens if it is gone.

        Raises:
            InternalError: STORE_FAILED.
        """
        try:
            with contextlib.suppress(FileNotFoundError):
                with self._key(name).open("r+b") as file:
                    file.write(bytes(FRAME_KEY_BYTES))
                    file.flush()
                    os.fsync(file.fileno())
                # CRASH: a file that nobody can read, which the next start removes.
                self._key(name).unlink()
            self._file(name).unlink(missing_ok=True)
        except OSError as error:
            raise InternalError("STORE_FAILED") from error

    def sweep(self, kept: Collection[str]) -> None:
        """Erase every roster that is not among those kept."""
        names = {
            path.name.removesuffix(suffix) for suffix in (_SUFFIX, _KEY_SUFFIX) for path in self.path.glob(f"*{suffix}")
        }
        for name in sorted(names - set(kept)):
            self.wipe(name)

    def _file(self, name: str) -> Path:
        return self.path / f"{name}{_SUFFIX}"

    def _key(self, name: str) -> Path:
        return self.path / f"{name}{_KEY_SUFFIX}"


class RosterWriter:
    """A roster's file while it is written: `add` each piece, then `finish` or `abandon`. Open only while it is written to."""

    def __init__(self, folder: RosterFolder, name: str, places: int, randomness: Randomness) -> None:
        self.name = name
        self._folder = folder
        self._places = places
        self._sealer = FrameSealer(randomness)
        self._count = 0
        _write(folder.path / f"{name}{_KEY_SUFFIX}", self._sealer.frame_key)
        self._path = folder.path / f"{name}{_SUFFIX}"
        create_for_owner(self._path).close()

    def add(self, people: People) -> None:
        """The next frame's people.

        Raises:
            RefusedError: BUSY.
        """
        # SECURITY: also behind everybody, where nobody reads: neither the pace nor the file's size shows where the people end.
        plaintext = np.zeros(FRAME_BYTES, np.uint8)
        plaintext[: people.size] = people.reshape(-1)
        is_last = (self._count + 1) * PLACES_PER_FRAME >= self._places
        try:
            with self._path.open("ab") as file:
                file.write(self._sealer.seal_frame(self._count, is_last, plaintext.data))
        except OSError as error:
            raise _no_room(error) from error
        self._count += 1

    def finish(self) -> str:
        """Make it durable; gives its name.

        Raises:
            RefusedError: BUSY.
        """
        try:
            with self._path.open("r+b") as file:
                os.fsync(file.fileno())
            sync_directory(self._folder.path)
        except OSError as error:
            raise _no_room(error) from error
        # CRASH: a file that no row names is erased at the next start.
        return self.name

    def abandon(self) -> None:
        self._folder.wipe(self.name)


def _no_room(error: OSError) -> RefusedError:
    """The refusal of a roster that cannot be written: no agency's roster stops the node for everybody."""
    _log.warning("a roster cannot be written; its agency sends it again", problem=error.strerror)
    return RefusedError("BUSY", retry_seconds=_RETRY_SECONDS)


def _write(path: Path, content: bytes) -> None:
    with create_for_owner(path) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


# --- rows ------------------------------------------------------------------------------------------------------------

_NAMES = [each.name for each in fields(KeptRoster)]
_COLUMNS = ", ".join(_NAMES)
_PUT = f"insert or replace into rosters ({_COLUMNS}) values ({', '.join('?' * len(_NAMES))})"  # noqa: S608 - names of our own


class RosterBook:
    """Rows of one journal's database. Every method runs inside one of its transactions or readings."""

    def __init__(self, db: Database) -> None:
        self._db = db

    @staticmethod
    def create_tables(db: Database) -> None:
        numbers = {"number", "places", "people", "received_ms"}
        columns = {name: int if name in numbers else str for name in _NAMES}
        db.table("rosters").create(columns, pk=("health", "number"), if_not_exists=True, ignore=True)

    def all(self) -> list[KeptRoster]:
        """Every roster that was ever received whole, by agency and number."""
        rows = self._db.execute(f"select {_COLUMNS} from rosters order by health, number")  # noqa: S608 - names of our own
        return [KeptRoster(*row) for row in rows]

    def of(self, health: str) -> list[KeptRoster]:
        return [roster for roster in self.all() if roster.health == health]

    def put(self, roster: KeptRoster) -> None:
        """Keep a roster, also one that was lost and has come again."""
        self._db.execute(_PUT, [getattr(roster, name) for name in _NAMES])

    def erase(self, roster: KeptRoster) -> None:
        """Forget what is known of a roster beyond its name, its size and what the logs say of it."""
        self._db.execute(
            "update rosters set file = '', salt = '' where health = ? and number = ? and file = ?",
            [roster.health, roster.number, roster.file],
        )
