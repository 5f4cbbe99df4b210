"""The private stores of a census home as an auditor reads them: nothing is written, nothing in them is believed.

The database is read as of one instant. While a node has it open that is one read transaction, which touches nothing but the
node's own index of its write-ahead log, read-only; the log grows meanwhile. Otherwise the database is copied first, because opening
one that nobody has open would leave files; the copy is removed as soon as it is open. Samples, rosters and snapshots lie beside it as
files, and a node at work goes on removing what has been kept long enough: `names_still` tells a file that went in the course of that
from one that is missing.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, TypeAlias, cast, get_args

from msgspec import Struct, field

from broker_common.audit.on_site.accounts import Accounts
from broker_common.audit.on_site.files import (
    Carry,
    DamagedError,
    KeptSample,
    Load,
    Roster,
    parse_carry,
    parse_snapshot,
    read_file,
    read_load,
    read_roster,
    read_sample,
)
from broker_common.crypto.linkage import LinkageChain, LinkageKey
from broker_common.errors import BrokerError, InternalError, RefusedError
from broker_common.storage.home import Home
from broker_common.tlog.entries import Entry, Rostered, parse_entry

_COPY_ATTEMPTS = 5
_LAST = 2**63 - 1
_TEXTS = ("kind", "file", "ticket")
_NUMBERS = ("place", "covers", "price")


class _KeyConfig(Struct, frozen=True):
    linkage: str = "file:keys/linkage.key"


class _Config(Struct, frozen=True):
    """The part of a census home's config.toml that an audit needs."""

    role: Literal["census"]
    keys: _KeyConfig = field(default_factory=_KeyConfig)


StepKind: TypeAlias = Literal["charge", "load", "snapshot"]


@dataclass(frozen=True, slots=True)
class Step:
    """One row of the ledger's history."""

    kind: StepKind
    # The digest of the history that ends here.
    digest: bytes
    # Its file, of a charge with the file's key; empty when it was erased or is needed no more.
    file: str
    # The hash of a snapshot or a carry; of a charge, the log's commitment to who is active.
    content: bytes
    # Where it stands.
    place: int
    # Snapshot: the last step that is in it.
    covers: int
    # Charge: its ticket, and its price.
    ticket: str
    price: int


class SiteStore:
    """One home's stores, the database as of one instant."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._connection = connection

    # --- the log of the home ---------------------------------------------------------------------------------------

    def log_entries(self, first: int = 0) -> Iterator[Entry]:
        """Entries of the home's own log from this one on, up to the first that cannot be read. Nobody vouches for it."""
        for (data,) in self._query("select entry from entries where sequence >= ? order by sequence", first):
            try:
                yield parse_entry(data if isinstance(data, bytes) else b"")
            except ValueError:
                return

    # --- the ledger's history --------------------------------------------------------------------------------------

    def steps(self, first: int = 0, last: int = _LAST) -> Iterator[Step | None]:
        """Every row between these places, in order; None for one that is no row of this table."""
        yield from self._steps("place between ? and ?", first, last)

    def snapshots(self) -> Iterator[Step]:
        """Every snapshot, whether its file is there or not."""
        yield from filter(None, self._steps("kind = 'snapshot'"))

    def _steps(self, where: str, *values: object) -> Iterator[Step | None]:
        query = f"select {', '.join(_columns())} from ledger_steps where {where} order by place"  # noqa: S608 - own text
        for row in self._query(query, *values):
            yield _step(dict(zip(_columns(), row, strict=True)))

    def charged_after(self, place: int, ticket: str) -> bool:
        """Whether a later row is the charge of a ticket."""
        found = self._query("select 1 from ledger_steps where ticket = ? and place > ? limit 1", ticket, place)
        return next(found, None) is not None

    def has_after(self, place: int, kind: str) -> bool:
        found = self._query("select 1 from ledger_steps where kind = ? and place > ? limit 1", kind, place)
        return next(found, None) is not None

    def names_still(self, step: Step) -> bool:
        """Whether the row of a step, as it is at this moment, names the file that it named."""
        with _connected(self._path) as connection, _reading():
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
        return int(next(self._query("select count(*) from ledger_steps"))[0])

    # --- files -----------------------------------------------------------------------------------------------------

    def sample(self, step: Step) -> KeptSample:
        """`read_sample` of a charge's file, with its errors; so are those below."""
        return read_sample(self._path / "samples", step.file)

    def snapshot(self, step: Step) -> Accounts:
        return parse_snapshot(read_file(self._path / "ledgers", step.file), step.content)

    def carry(self, step: Step) -> Carry:
        return parse_carry(read_file(self._path / "ledgers", step.file), step.content)

    def load(self, load: str, commitment: str, dictionary: str) -> Load | None:
        """A load; None if its file is not there any more."""
        path = self._path / "registries" / f"{load}.npz"
        if Path(load).name != load or not path.is_file():
            return None
        salt = next(self._query("select salt from loads where load = ?", load), (b"",))[0]
        return read_load(path, salt if isinstance(salt, bytes) else b"", commitment, dictionary)

    def roster(self, logged: Rostered) -> Roster | None:
        """A roster; None if it was erased, before or meanwhile."""
        row = self._roster_row(self._connection, logged)
        if row is None or not row[0]:
            return None
        try:
            return read_roster(self._path / "rosters", *row, logged.commitment)
        except DamagedError:
            with _connected(self._path) as connection:
                if self._roster_row(connection, logged) != row:
                    return None
            raise

    def _roster_row(self, connection: sqlite3.Connection, logged: Rostered) -> tuple[Any, Any, Any, Any] | None:
        """File, salt, places and number of people, of any types."""
        with _reading():
            found: tuple[Any, Any, Any, Any] | None = connection.execute(
                "select file, salt, places, people from rosters where health = ? and number = ?",
                [logged.health, logged.number],
            ).fetchone()
        return found

    def linkage_steps(self, previous: str, linkage: str) -> tuple[LinkageKey, ...] | None:
        """The keys that lead from one linkage chain to the next; None if they are not at hand."""
        home = Home(self._path, "census")
        try:
            chain = home.read_key(home.load_config(_Config).keys.linkage, LinkageChain.parse_text)
            keys = chain.beginning(linkage).keys
            return keys[len(chain.beginning(previous).keys) :]
        except (BrokerError, ValueError):
            return None

    def _query(self, query: str, *values: object) -> Iterator[tuple[Any, ...]]:
        with _reading():
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
    Home(path, "census").load_config(_Config)
    with _connected(path) as connection:
        with _reading():
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
        with _reading():
            uri = f"{path.absolute().as_uri()}?mode=ro&readonly_shm=1" if is_open else copy.as_uri()
            connection = sqlite3.connect(uri, uri=True, isolation_level=None)
        with closing(connection):
            with _reading():
                # The first read opens every file that there is to read.
                connection.execute("select 1 from sqlite_master").fetchone()
            # SECURITY: a copy goes now, not at the end. An open reader reads on, and an audit that is killed leaves none.
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


@contextmanager
def _reading() -> Iterator[None]:
    """An SQLite failure to read in the block becomes STORE_FAILED, or INTEGRITY if the file itself is damaged."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
            raise InternalError("INTEGRITY", problem="the database file is damaged") from error
        raise InternalError("STORE_FAILED") from error
