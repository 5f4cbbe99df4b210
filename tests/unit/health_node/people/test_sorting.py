"""Rows sorted by owner: all of them, in the order in which they came, in bounded memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fakes.disk import limited_files

from health_node.people import sorting
from health_node.people.encoding import Stored, StoredType
from health_node.people.sorting import Sorter

KINDS: dict[str, StoredType] = {"day": np.dtype(np.uint32), "code": np.dtype(np.uint8)}


def sorted_in(
    folder: Path, owners: np.ndarray, count: int, pieces: int
) -> tuple[np.ndarray, list[dict[str, np.ndarray]]]:
    """Offsets and pieces of rows that come in so many pieces; each row's day says when it came."""
    with Sorter(folder, count, KINDS) as sorter:
        for each in np.array_split(np.arange(len(owners)), pieces):
            columns: dict[str, Stored] = {"day": each.astype(np.uint32), "code": (each % 251).astype(np.uint8)}
            sorter.add(owners[each].astype(np.uint32), columns)
        assert sorter.count == len(owners)
        rows = sorter.rows(len(owners))
        return rows.offsets, [dict(piece) for piece in rows.pieces()]


@pytest.mark.parametrize("run", [1, 7, 100, 10_000])
@pytest.mark.parametrize(
    "owners",
    [
        np.random.default_rng(1).integers(0, 40, 1000),
        np.zeros(1000, np.int64),
        np.full(1000, 39),
        np.concatenate([np.full(700, 20), np.random.default_rng(2).integers(0, 40, 300)]),
        np.empty(0, np.int64),
    ],
    ids=["many", "of the first", "of the last", "one with most", "none"],
)
def test_rows_come_out_by_owner_as_they_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owners: np.ndarray, run: int
) -> None:
    """Whatever the runs are; and no piece is longer than a run, also of one person who has most of the rows."""
    monkeypatch.setattr(sorting, "_ROWS_IN_RUN", run)
    offsets, pieces = sorted_in(tmp_path, owners, 40, 13)
    assert offsets.tolist() == [0, *np.cumsum(np.bincount(owners, minlength=40)).tolist()]
    expected = np.argsort(owners, kind="stable")
    days = np.concatenate([np.empty(0, np.uint32), *(piece["day"] for piece in pieces)])
    assert np.array_equal(days, expected)
    assert np.array_equal(np.concatenate([np.empty(0, np.uint8), *(piece["code"] for piece in pieces)]), expected % 251)
    # A run is written when it is full, by the last of the pieces that came.
    assert max(map(len, (piece["day"] for piece in pieces)), default=0) <= run + -(-len(owners) // 13)


def test_nothing_is_left_beside_the_store(tmp_path: Path) -> None:
    """Not even while it is sorted: the file has no name, so that a crash leaves no health data behind."""
    with Sorter(tmp_path, 10, KINDS) as sorter:
        sorter.add(np.zeros(5, np.uint32), {name: np.zeros(5, kind) for name, kind in KINDS.items()})
        sorter.rows(5)
        assert not list(tmp_path.iterdir())


def test_full_disk_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No row is lost in silence."""
    monkeypatch.setattr(sorting, "_ROWS_IN_RUN", 1000)
    owners = np.zeros(100_000, np.uint32)
    with limited_files(1000), pytest.raises(OSError, match="large"), Sorter(tmp_path, 10, KINDS) as sorter:
        sorter.add(owners, {name: np.zeros(len(owners), kind) for name, kind in KINDS.items()})
