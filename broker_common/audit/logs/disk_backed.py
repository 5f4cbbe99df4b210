"""The audit's memory of a long log, on disk: memory does not grow with the log.

A `DiskBackedTree` keeps the hash of every complete subtree in the order in which they are completed, so that the root at any
earlier size costs a few reads. `DiskBackedTimes` keeps the time of every entry. A `DiskBackedMapping` keeps what was used last in
memory and the rest in a temporary database. All of it is gone when it is closed, however the process ends.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, MutableMapping
from typing import Generic, Self, TypeVar

from broker_common.tlog.merkle import HASH_BYTES, Tree, node_hash

_TIME_BYTES = 8
# Written at once.
_TAIL_BYTES = 1 << 16
# Kept in memory by one mapping: more than there are tickets under way at any time.
_MOST_KEPT = 4096
# The database's page cache, in KiB.
_CACHE_KIB = 4096
ValueT = TypeVar("ValueT")


class _Records:
    """Records of one length in a temporary file; appended to, and read anywhere."""

    def __init__(self, record_bytes: int) -> None:
        self._length = record_bytes
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - lives as long as the audit
        self._written = 0
        self._tail = bytearray()

    def __len__(self) -> int:
        return (self._written + len(self._tail)) // self._length

    def append(self, record: bytes) -> None:
        self._tail += record
        if len(self._tail) >= _TAIL_BYTES:
            # Nothing else moves the end of the file.
            self._file.write(self._tail)
            self._written += len(self._tail)
            self._tail.clear()

    def __getitem__(self, index: int) -> bytes:
        start = index * self._length
        if start >= self._written:
            return bytes(self._tail[start - self._written : start - self._written + self._length])
        return os.pread(self._file.fileno(), self._length, start)

    def close(self) -> None:
        self._file.close()


class DiskBackedTree(Tree):
    """A growing tree that knows its past."""

    def __init__(self) -> None:
        self._size = 0
        # Subtrees as they are completed: each leaf, and after it what it completes.
        self._nodes = _Records(HASH_BYTES)

    @property
    def size(self) -> int:
        return self._size

    def append_leaf(self, leaf: bytes) -> None:
        self._nodes.append(leaf)
        node, height = leaf, 0
        while (self._size >> height) % 2:
            node = node_hash(self.subtree(height, (self._size >> height) - 1), node)
            self._nodes.append(node)
            height += 1
        self._size += 1

    def subtree(self, height: int, position: int) -> bytes:
        last = ((position + 1) << height) - 1
        # Before leaf n there are n leaves and n - popcount(n) subtrees that they complete.
        return self._nodes[2 * last - last.bit_count() + height]

    def close(self) -> None:
        self._nodes.close()


class DiskBackedTimes:
    """The time of every entry of a log."""

    def __init__(self) -> None:
        self._times = _Records(_TIME_BYTES)

    def append(self, time_ms: int) -> None:
        self._times.append(time_ms.to_bytes(_TIME_BYTES, "big"))

    def __len__(self) -> int:
        return len(self._times)

    def __getitem__(self, index: int) -> int:
        return int.from_bytes(self._times[index], "big")

    def close(self) -> None:
        self._times.close()


class DiskSpace:
    """A temporary database for mappings."""

    def __init__(self) -> None:
        # An empty name: a file that has no name and goes with the connection.
        self._db = sqlite3.connect("", isolation_level=None)
        for setting in ("journal_mode=OFF", "synchronous=OFF", f"cache_size=-{_CACHE_KIB}", "temp_store=FILE"):
            self._db.execute(f"PRAGMA {setting}")
        self._db.execute("BEGIN")
        self._tables = 0

    def mapping(
        self, encode: Callable[[ValueT], bytes], decode: Callable[[bytes], ValueT]
    ) -> DiskBackedMapping[ValueT]:
        self._tables += 1
        return DiskBackedMapping(self._db, f"m{self._tables}", encode, decode)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()


class DiskBackedMapping(MutableMapping[str, ValueT], Generic[ValueT]):
    """Texts to values, in no order. Nothing is ever removed."""

    def __init__(
        self, db: sqlite3.Connection, table: str, encode: Callable[[ValueT], bytes], decode: Callable[[bytes], ValueT]
    ) -> None:
        self._db = db
        self._encode = encode
        self._decode = decode
        # Values in memory; the table holds the rest, and perhaps older values of these.
        self._kept: dict[str, ValueT] = {}
        self._size = 0
        db.execute(f"create table {table} (place integer primary key, name text unique, value blob)")
        # The table's name is ours. A name that is put there again keeps its place.
        self._select = f"select value from {table} where name = ?"  # noqa: S608 - our own table
        self._upsert = (
            f"insert into {table} (name, value) values (?, ?) "  # noqa: S608 - our own table
            "on conflict (name) do update set value = excluded.value"
        )
        self._all = f"select place, name, value from {table} where place > ? order by place limit 1000"  # noqa: S608 - our own table

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, name: str) -> ValueT:
        if name in self._kept:
            return self._kept[name]
        row = self._db.execute(self._select, [name]).fetchone()
        if row is None:
            raise KeyError(name)
        return self._decode(row[0])

    def __contains__(self, name: object) -> bool:
        return name in self._kept or self._db.execute(self._select, [name]).fetchone() is not None

    def __setitem__(self, name: str, value: ValueT) -> None:
        if name not in self:
            self._size += 1
        self._kept.pop(name, None)
        self._kept[name] = value
        if len(self._kept) > _MOST_KEPT:
            self._spill(len(self._kept) // 2)

    def __delitem__(self, name: str) -> None:
        raise TypeError("nothing is forgotten")

    def __iter__(self) -> Iterator[str]:
        for name, _ in self.pairs():
            yield name

    def pairs(self) -> Iterator[tuple[str, ValueT]]:
        """Every name with its value, by a thousand at a time."""
        self._spill(len(self._kept))
        place = 0
        while rows := self._db.execute(self._all, [place]).fetchall():
            for _, name, value in rows:
                yield name, self._decode(value)
            place = rows[-1][0]

    def _spill(self, count: int) -> None:
        """Write what was put there longest ago."""
        oldest = [name for name, _ in zip(self._kept, range(count), strict=False)]
        self._db.executemany(self._upsert, [(name, self._encode(self._kept.pop(name))) for name in oldest])
