"""The private stores of a census home as an auditor reads them: nothing is written, nothing in them is believed.

The database is read as of one instant. While a node has it open that is one read transaction, which touches nothing but the
node's own index of its write-ahead log, read-only; the log grows meanwhile. Otherwise the database is copied first, because opening one that
nobody has open would leave files; the copy is removed as soon as it is open. Samples and snapshots lie beside it as files, and a node at work goes on removing what has
been kept long enough: `names_still` tells a file that went in the course of that from one that is missing.
"""

from __future__ import annotations

import io
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast, get_args

import msgspec
import numpy as np
import numpy.typing as npt

from broker_common.audit.handed_in import FolderPart, UnreadableError
from broker_common.crypto.commitments import SALT_BYTES, commit_load
from broker_common.crypto.linkage import LinkageChain, LinkageKey
from broker_common.errors import BrokerError, InternalError, RefusedError
from broker_common.query.question import Question
from broker_common.storage.home import Home
from broker_common.storage.journal import store_errors
from broker_common.storage.loads import LoadFolder
from broker_common.tlog.entries import Entry, parse_entry
from broker_common.values import PSEUDONYM_BYTES, ExactCount
from census_node.columns import reading_columns
from census_node.config import CensusConfig
from census_node.dictionary import CENSUS_DICTIONARY
from census_node.ledger_steps import Step, StepKind
from census_node.linked import NOBODY
from census_node.registry import dictionary_hash
from census_node.site_accounts import Accounts, Members, Names, as_names
from census_node.units import HALF, UNIT, Carry, stored_counts

__all__ = ["DamagedError", "Load", "SiteStore", "opened_store"]

_BYTES_EACH = PSEUDONYM_BYTES + 8
_COPY_ATTEMPTS = 5
_CHUNK_BYTES = 1 << 20
_LAST = 2**63 - 1
_VALUE = np.dtype(np.uint8)
_TEXTS = ("kind", "file", "ticket", "organisation")
_NUMBERS = ("place", "covers", "price", "kept_until_ms")


class DamagedError(Exception):
    """A file of the stores is missing, or is not what its row says that it is."""


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """One load's cards, ascending, with their units, and where its language stands."""

    path: Path
    load: str
    # Hash of the dictionary that its languages were read under.
    dictionary: str
    names: Names
    persons: npt.NDArray[np.uint32]
    households: npt.NDArray[np.uint32]
    person_count: int
    household_count: int

    def link(self, names: Names) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
        """The units of each of these pseudonyms; `NOBODY` for those whom nobody has."""
        rows, known = self._rows(names)
        persons, households = (np.full(len(names), NOBODY, np.uint32) for _ in range(2))
        persons[known], households[known] = self.persons[rows[known]], self.households[rows[known]]
        return persons, households

    def homes(self) -> npt.NDArray[np.uint32]:
        """By number, the household of each person; `NOBODY` for those who have no card in this load."""
        homes = np.full(self.person_count, NOBODY, np.uint32)
        homes[self.persons] = self.households
        return homes

    @property
    def is_readable(self) -> bool:
        """Whether the dictionary of this program says what its languages mean."""
        return self.dictionary == CENSUS_DICTIONARY.hash.hex()

    def count(self, names: Names, question: Question) -> ExactCount:
        """How many distinct persons of these pseudonyms the question is about; asked of a load that is readable."""
        rows, known = self._rows(names)
        rows = rows[known]
        if question.variable is not None:
            codes = [CENSUS_DICTIONARY.column(question.variable).positions[value] for value in question.values]
            with reading_columns(self.path, f"the registry of load {self.load}") as stored:
                values = stored.column(question.variable, _VALUE, len(self.names))
            rows = rows[np.isin(values[rows], codes)]
        return ExactCount(len(set(self.persons[rows].tolist())))

    def _rows(self, names: Names) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
        rows = np.searchsorted(self.names, names)
        known = np.zeros(len(names), np.bool_)
        inside = rows < len(self.names)
        known[inside] = self.names[rows[inside]] == names[inside]
        return rows, known


class SiteStore:
    """One home's stores, the database as of one instant."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._connection = connection
        self._loads = LoadFolder(path / "registries", ".npz")

    # --- the log of the home ---------------------------------------------------------------------------------------

    def log_entries(self, first: int = 0) -> Iterator[Entry]:
        """What the home's own log says from an entry on, up to the first that is none. Nobody vouches for it."""
        for (data,) in self._query("select entry from entries where sequence >= ? order by sequence", first):
            try:
                yield parse_entry(data if isinstance(data, bytes) else b"")
            except ValueError:
                return

    # --- the ledgers' history --------------------------------------------------------------------------------------

    def steps(self, first: int = 0, last: int = _LAST) -> Iterator[Step | None]:
        """Every row between these places, in order; None for one that is no row of this table."""
        yield from self._steps("place between ? and ?", first, last)

    def snapshots(self) -> Iterator[Step]:
        """Every snapshot, of relinked ledgers too, whether its file is there or not."""
        yield from filter(None, self._steps("kind in ('snapshot', 'relink')"))

    def _steps(self, where: str, *values: object) -> Iterator[Step | None]:
        query = f"select {', '.join(_columns())} from ledger_steps where {where} order by place"  # noqa: S608 - own text
        for row in self._query(query, *values):
            yield _step(dict(zip(_columns(), row, strict=True)))

    def charged_after(self, place: int, ticket: str) -> bool:
        """Whether a later row is the charge of a ticket."""
        found = self._query("select 1 from ledger_steps where ticket = ? and place > ? limit 1", ticket, place)
        return next(found, None) is not None

    def has_after(self, place: int, kind: str) -> bool:
        """Whether there is a later row of this kind."""
        found = self._query("select 1 from ledger_steps where kind = ? and place > ? limit 1", kind, place)
        return next(found, None) is not None

    def names_still(self, step: Step) -> bool:
        """Whether the row of a step, as it is at this moment, names the file that it named."""
        with _connected(self._path) as connection, store_errors():
            found = connection.execute("select file from ledger_steps where place = ?", [step.place]).fetchone()
        return found is not None and found[0] == step.file

    def is_kept(self, first: int, last: int) -> bool:
        """Whether the rows between these places are charges whose membership is kept, and snapshots."""
        gaps = self._query(
            "select 1 from ledger_steps where place between ? and ? and kind != 'snapshot' "
            "and (kind != 'charge' or file = '') limit 1",
            first,
            last,
        )
        return next(gaps, None) is None

    @property
    def size(self) -> int:
        """How many rows there are."""
        return int(next(self._query("select count(*) from ledger_steps"))[0])

    # --- files -----------------------------------------------------------------------------------------------------

    def sample(self, step: Step) -> tuple[bytes, Members]:
        """The pseudonyms of a charge's sample as they lie there, and the whole of it.

        Raises:
            DamagedError: it is missing, cut off, or in another order.
        """
        content = _read(self._path / "samples", step.file)
        people, left_over = divmod(len(content), _BYTES_EACH)
        if left_over:
            raise DamagedError
        pseudonyms, units = content[: people * PSEUDONYM_BYTES], content[people * PSEUDONYM_BYTES :]
        names = as_names(np.frombuffer(pseudonyms, np.uint8))
        if not (names[1:] > names[:-1]).all():
            raise DamagedError
        numbers = np.frombuffer(units, "<u4").astype(np.uint32)
        return pseudonyms, Members(names, numbers[:people], numbers[people:])

    def snapshot(self, step: Step) -> Accounts:
        """The ledgers as a snapshot's file holds them.

        Raises:
            DamagedError: it is missing, or not the one whose hash the row states.
        """
        content = _read(self._path / "ledgers", step.file)
        if sha256(content).digest() != step.content:
            raise DamagedError
        file = io.BytesIO(content)
        try:
            arrays = [np.lib.format.read_array(file, allow_pickle=False) for _ in range(7)]
            if any(array.ndim != 1 for array in arrays):
                raise DamagedError
            _, high, low, submitted, persons, households, introduced = arrays
            names = as_names(np.stack([high.astype(np.uint64), low.astype(np.uint64)], axis=1).astype(">u8"))
            kinds = {array.dtype for array in (submitted, persons, households)}
            if kinds != {UNIT} or len(submitted) != len(names) or file.read(1) or not (names[1:] > names[:-1]).all():
                raise DamagedError
            agencies = msgspec.json.decode(introduced.tobytes(), type=dict[str, int])
        except (ValueError, TypeError, EOFError, MemoryError, msgspec.MsgspecError) as error:
            raise DamagedError from error
        charges = [array.astype(np.int64) for array in (submitted, persons, households)]
        return Accounts(names, charges[0], charges[1], charges[2], agencies)

    def carry(self, step: Step) -> Carry:
        """What a load took over.

        Raises:
            DamagedError: it is missing, or not the one whose hash the row states.
        """
        if Path(step.file).name != step.file:
            raise DamagedError
        try:
            carry = Carry.read(self._path / "ledgers" / step.file)
        except InternalError as error:
            raise DamagedError from error
        if carry.content_hash != step.content:
            raise DamagedError
        return carry

    def load(self, load: str, commitment: str, dictionary: str) -> Load | None:
        """A load; None if its file is not there any more.

        Raises:
            DamagedError: it is not the one that the log commits to, or not one of the dictionary that the log names.
        """
        path = self._loads.file(load)
        if Path(load).name != load or not path.is_file():
            return None
        salt = next(self._query("select salt from loads where load = ?", load), (b"",))[0]
        if not isinstance(salt, bytes) or len(salt) != SALT_BYTES or commit_load(salt, _hash(path)).hex() != commitment:
            raise DamagedError
        try:
            with reading_columns(path, f"the registry of load {load}") as stored:
                high, low = stored.column("high", HALF), stored.column("low", HALF)
                persons, households = stored.column("persons", UNIT), stored.column("households", UNIT)
                counts = stored_counts(stored)
                if dictionary_hash(stored).hex() != dictionary:
                    raise DamagedError
                if any(len(units) != len(high) for units in (low, persons, households)):
                    raise DamagedError
        except InternalError as error:
            raise DamagedError from error
        names = as_names(np.stack([high, low], axis=1).astype(">u8"))
        units = zip((persons, households), counts, strict=True)
        if not (names[1:] > names[:-1]).all() or any(
            int(each.max(initial=0)) >= max(count, 1) for each, count in units
        ):
            raise DamagedError
        return Load(path, load, dictionary, names, persons, households, *counts)

    def linkage_steps(self, previous: str, linkage: str) -> tuple[LinkageKey, ...] | None:
        """The keys that lead from one linkage chain to the next; None if they are not at hand."""
        home = Home(self._path, "census")
        try:
            chain = home.read_key(home.load_config(CensusConfig).keys.linkage, LinkageChain.parse_text)
            keys = chain.beginning(linkage).keys
            return keys[len(chain.beginning(previous).keys) :]
        except (BrokerError, ValueError):
            return None

    def _query(self, query: str, *values: object) -> Iterator[tuple[Any, ...]]:
        with store_errors():
            # A cursor of its own, because one is read while others are asked.
            yield from self._connection.execute(query, values)


@contextmanager
def opened_store(path: Path) -> Iterator[SiteStore]:
    """The stores of the home at `path`.

    Raises:
        InvalidRequestError: HOME_INVALID or CONFIG_INVALID.
        InternalError: STORE_FAILED, INTEGRITY; whatever stands in the way of reading the database.
        RefusedError: BUSY, a node starts or stops again and again just now.
    """
    Home(path, "census").load_config(CensusConfig)
    with _connected(path) as connection:
        with store_errors():
            # One instant: the first read begins it.
            connection.execute("BEGIN")
        yield SiteStore(path, connection)


@contextmanager
def _connected(home: Path) -> Iterator[sqlite3.Connection]:
    path = home / "journal.db"
    # There as long as anybody has the database open.
    index = path.with_name(f"{path.name}-shm")
    temporary = TemporaryDirectory(prefix="tripartite-audit-")
    with temporary as folder:
        copy = Path(folder) / path.name
        is_open = index.exists()
        for _ in range(_COPY_ATTEMPTS):
            if is_open or _copied(path, copy):
                break
            is_open = index.exists()
        else:
            raise RefusedError("BUSY", retry_seconds=_COPY_ATTEMPTS)
        with store_errors():
            uri = f"{path.absolute().as_uri()}?mode=ro&readonly_shm=1" if is_open else copy.as_uri()
            connection = sqlite3.connect(uri, uri=True, isolation_level=None)
        with closing(connection):
            with store_errors():
                # The first read opens every file that there is to read.
                connection.execute("select 1 from sqlite_master").fetchone()
            # SECURITY: a copy goes now, not at the end. Whoever has it open reads on, and an audit that is killed leaves none.
            temporary.cleanup()
            yield connection


def _copied(path: Path, copy: Path) -> bool:
    """Copy a database that nobody has open, with what a crash left beside it; False if somebody opened it meanwhile."""
    index, log = (path.with_name(f"{path.name}-{part}") for part in ("shm", "wal"))
    try:
        before = path.stat()
        shutil.copyfile(path, copy)
        if log.exists():
            shutil.copyfile(log, copy.with_name(f"{copy.name}-wal"))
        after = path.stat()
    except OSError as error:
        raise InternalError("STORE_FAILED") from error
    return not index.exists() and (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size)


def _columns() -> tuple[str, ...]:
    return tuple(each.name for each in fields(Step))


def _step(row: dict[str, object]) -> Step | None:
    for name, value in row.items():
        expected = str if name in _TEXTS else int if name in _NUMBERS else bytes
        # A column of SQLite holds values of any type.
        if type(value) is not expected:
            return None
    if row["kind"] not in get_args(StepKind):
        return None
    return Step(**cast("Any", row))


def _read(folder: Path, name: str) -> bytes:
    if Path(name).name != name:
        raise DamagedError
    try:
        return FolderPart(folder).read(name, (folder / name).lstat().st_size)
    except (OSError, ValueError, UnreadableError) as error:
        raise DamagedError from error


def _hash(path: Path) -> bytes:
    digest = sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
    except OSError as error:
        raise DamagedError from error
    return digest.digest()
