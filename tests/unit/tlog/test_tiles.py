"""Tiles and bundles: the files that other tools expect, one spelling of each, and the same proofs as from the entries."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest
from fakes.tile_tree import TileTree
from hypothesis import given
from hypothesis import strategies as st

from broker_common.tlog.entries import MAX_ENTRY_BYTES
from broker_common.tlog.merkle import MerkleTree, leaf_hash, root_from_inclusion, verify_consistency
from broker_common.tlog.tiles import (
    TILE_WIDTH,
    encode_entry_bundle,
    entries_path,
    entry_bundles,
    hash_tiles,
    parse_entry_bundle,
    parse_hash_tile,
    tile_path,
    tile_paths,
)

GOLANG = json.loads((Path(__file__).parents[2] / "vectors" / "golang.json").read_text())
SIZES = [0, 1, 2, 3, 7, 70, 255, 256, 257, 511, 512, 513, 600, 1025]
MOST = 70_000
LEAVES = [leaf_hash(b"leaf %d" % number) for number in range(MOST)]

bundles = st.lists(st.binary(max_size=20), min_size=1, max_size=TILE_WIDTH)


def entries(size: int) -> list[bytes]:
    """Distinct entries, as the vectors have them."""
    return [b"leaf %d" % number for number in range(size)]


def tree_of(size: int) -> MerkleTree:
    """The tree that knows every entry."""
    tree = MerkleTree()
    for entry in entries(size):
        tree.append(entry)
    return tree


def export_of(size: int) -> dict[str, bytes]:
    """Every file but the checkpoint."""
    return {**dict(entry_bundles(entries(size))), **dict(hash_tiles(LEAVES[:size]))}


WHOLE = tree_of(max(SIZES))
EXPORTS = {size: export_of(size) for size in SIZES}


def in_go_order(path: str) -> tuple[int, int]:
    """Level, then number."""
    _, level, number = path.split("/", 2)
    return int(level), int(number.split(".")[0].replace("x", "").replace("/", ""))


# --- paths -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "width", "place"),
    [
        (0, 256, "000"),
        (7, 1, "007.p/1"),
        (999, 255, "999.p/255"),
        (1000, 256, "x001/000"),
        (1_234_067, 256, "x001/x234/067"),
        (1_234_067, 112, "x001/x234/067.p/112"),
        (1_000_000, 256, "x001/x000/000"),
    ],
)
def test_paths_are_the_specified_ones(number: int, width: int, place: str) -> None:
    """Three digits to a folder, all but the last behind an x; the example of the specification among them."""
    assert tile_path(0, number, width) == f"tile/0/{place}"
    assert tile_path(12, number, width) == f"tile/12/{place}"
    assert entries_path(number, width) == f"tile/entries/{place}"


def test_paths_of_the_specification_s_examples() -> None:
    """70,000 entries: 273 full tiles and one of 112, one full and one of 17, one of 1. 256 entries: a full one and one of 1."""
    paths = set(tile_paths(70_000))
    assert paths == {
        *(tile_path(0, number) for number in range(273)),
        "tile/0/273.p/112",
        "tile/1/000",
        "tile/1/001.p/17",
        "tile/2/000.p/1",
        *(entries_path(number) for number in range(273)),
        "tile/entries/273.p/112",
    }
    assert tile_paths(256) == ["tile/entries/000", "tile/0/000", "tile/1/000.p/1"]
    assert tile_paths(1) == ["tile/entries/000.p/1", "tile/0/000.p/1"]
    assert tile_paths(0) == []


@pytest.mark.parametrize("size", [-1, -256, -70_000])
def test_no_log_is_shorter_than_empty(size: int) -> None:
    """A size below nothing is refused, not counted down from."""
    with pytest.raises(ValueError, match="no log"):
        tile_paths(size)


@pytest.mark.parametrize("size", SIZES)
def test_an_export_consists_of_its_paths(size: int) -> None:
    """Written files are listed: nothing is missing, nothing is left over, nothing is twice."""
    paths = tile_paths(size)
    assert set(EXPORTS[size]) == set(paths)
    assert len(paths) == len(set(paths))


@pytest.mark.parametrize("case", GOLANG["trees"], ids=lambda case: case["size"])
def test_tiles_of_another_implementation(case: dict[str, Any]) -> None:
    """Names and contents of all hash tiles, and the root that follows from them, are those of golang.org/x/mod."""
    tiles = dict(hash_tiles(LEAVES[: case["size"]]))
    paths = sorted(tiles, key=in_go_order)
    assert len(paths) == case["tiles"]
    assert hashlib.sha256("\n".join(paths).encode()).hexdigest() == case["paths"]
    assert hashlib.sha256(b"".join(tiles[path] for path in paths)).hexdigest() == case["data"]
    assert TileTree(tiles.__getitem__, case["size"]).root().hex() == case["root"]


# --- bundles ---------------------------------------------------------------------------------------------------------


@given(bundle=bundles)
def test_a_bundle_survives_its_bytes(bundle: list[bytes]) -> None:
    """The bytes are read as they were written."""
    assert parse_entry_bundle(encode_entry_bundle(bundle), len(bundle)) == bundle


@given(bundle=bundles, data=st.data())
def test_bytes_that_are_read_have_one_spelling(bundle: list[bytes], data: st.DataObject) -> None:
    """Damaged anywhere, a bundle is refused or is another bundle; never the same one, and never with anything left over."""
    whole = encode_entry_bundle(bundle)
    place = data.draw(st.integers(0, len(whole) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda other: other != whole[place]))
    for damaged in (
        whole[:place] + bytes([byte]) + whole[place + 1 :],
        whole[:place] + whole[place + 1 :],
        whole[:place] + bytes([byte]) + whole[place:],
        whole[:place],
    ):
        try:
            read = parse_entry_bundle(damaged, len(bundle))
        except ValueError:
            continue
        assert encode_entry_bundle(read) == damaged != whole
        assert read != bundle


@pytest.mark.parametrize(
    ("data", "width"),
    [
        (b"", 1),
        (b"", 0),
        (b"\0", 1),
        (b"\0\2a", 1),
        (b"\0\1ab", 1),
        (b"\0\1a\0", 1),
        (b"\0\1a\0\0", 1),
        (b"\0\1a", 2),
        (b"\1\0a", 1),
        (b"\0\0" * 257, 257),
        (b"\0\0" * 3, -1),
    ],
)
def test_a_bundle_of_another_length_is_refused(data: bytes, width: int) -> None:
    """Nothing, half a length, half an entry, something left over, too few, too many, more than a bundle can have."""
    with pytest.raises(ValueError, match="bundle"):
        parse_entry_bundle(data, width)


def test_the_longest_entry_fits() -> None:
    """Whatever can be logged can be exported; a byte more could not."""
    longest = [bytes(MAX_ENTRY_BYTES)]
    assert parse_entry_bundle(encode_entry_bundle(longest), 1) == longest
    with pytest.raises(ValueError, match="no bundle"):
        encode_entry_bundle([bytes(MAX_ENTRY_BYTES + 1)])


@pytest.mark.parametrize("number", [0, 257])
def test_no_bundle_of_another_size_is_made(number: int) -> None:
    """Neither an empty one nor one of more than 256."""
    with pytest.raises(ValueError, match="no bundle"):
        encode_entry_bundle([b""] * number)


def test_a_long_log_is_exported_as_it_is_read() -> None:
    """Bundles and tiles come as soon as they are full, so that no export holds its log in memory."""
    for made, path_of in ((entry_bundles, entries_path), (hash_tiles, lambda number: tile_path(0, number))):
        endless = count()
        files = made(bytes(32) for _ in endless)
        assert [path for path, _ in islice(files, 3)] == [path_of(number) for number in range(3)]
        assert next(endless) == 3 * TILE_WIDTH


# --- the tree --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
def test_the_tree_of_the_tiles_is_the_tree_of_the_entries(size: int) -> None:
    """Root and proofs, for every size and index at and around the edges of tiles, from files that the export has."""
    read: list[str] = []

    def listed(path: str) -> bytes:
        read.append(path)
        return EXPORTS[size][path]

    tree, whole = TileTree(listed, size), WHOLE
    assert tree.size == size
    assert tree.root() == whole.root(size)
    for past in sorted({edge for edge in (*SIZES, size // 2, size - 1) if 0 <= edge <= size}):
        assert tree.root(past) == whole.root(past)
        proof = tree.consistency_proof(past)
        assert proof == whole.consistency_proof(past, size)
        verify_consistency(past, whole.root(past), size, tree.root(), proof)
        for index in sorted({index for index in (0, past // 3, past - 2, past - 1, *SIZES) if 0 <= index < past}):
            assert tree.inclusion_proof(index, past) == whole.inclusion_proof(index, past)
            entry = b"leaf %d" % index
            assert root_from_inclusion(entry, index, past, tree.inclusion_proof(index, past)) == tree.root(past)
    assert not any(path.startswith("tile/entries/") for path in read)


@given(size=st.integers(0, max(SIZES)), data=st.data())
def test_any_tree_follows_from_its_tiles(size: int, data: st.DataObject) -> None:
    """At any size, from any past of it."""
    tiles = dict(hash_tiles(LEAVES[:size]))
    tree = TileTree(tiles.__getitem__, size)
    past = data.draw(st.integers(0, size))
    assert (tree.root(), tree.root(past)) == (WHOLE.root(size), WHOLE.root(past))
    assert tree.consistency_proof(past) == WHOLE.consistency_proof(past, size)
    if past:
        index = data.draw(st.integers(0, past - 1))
        assert tree.inclusion_proof(index, past) == WHOLE.inclusion_proof(index, past)


@pytest.mark.parametrize(
    "call",
    [
        lambda tree: tree.root(4),
        lambda tree: tree.root(-1),
        lambda tree: tree.inclusion_proof(3),
        lambda tree: tree.consistency_proof(4),
        lambda tree: tree.consistency_proof(2, 4),
    ],
)
def test_nothing_is_proved_of_a_tree_that_never_was(call: Callable[[TileTree], object]) -> None:
    """Asking for it is a bug of the caller."""
    with pytest.raises(IndexError):
        call(TileTree(dict(hash_tiles(LEAVES[:3])).__getitem__, 3))


@pytest.mark.parametrize(
    "change", [lambda tile: tile[:-1], lambda tile: tile + b"\0", lambda tile: tile[:0], lambda tile: tile * 2]
)
@pytest.mark.parametrize("size", [1, 70, 256, 600])
def test_a_tile_of_another_length_is_refused(size: int, change: Callable[[bytes], bytes]) -> None:
    """A tile that is cut, empty or too long is no tile."""
    tiles = {path: change(tile) for path, tile in hash_tiles(LEAVES[:size])}
    with pytest.raises(ValueError, match="tile"):
        TileTree(tiles.__getitem__, size).root()


@pytest.mark.parametrize("size", [1, 2, 70, 255, 256, 257, 600])
def test_a_damaged_tile_never_proves_anything_else(size: int) -> None:
    """A bit that is flipped in any tile changes the root, or no root needs it; a proof with it leads elsewhere."""
    sound, root = dict(hash_tiles(LEAVES[:size])), WHOLE.root(size)
    for path, tile in sound.items():
        for place in {0, len(tile) // 2, len(tile) - 1}:
            damaged = {**sound, path: tile[:place] + bytes([tile[place] ^ 1]) + tile[place + 1 :]}
            tree = TileTree(damaged.__getitem__, size)
            for index in {0, size // 2, size - 1}:
                proof = tree.inclusion_proof(index)
                leads_there = root_from_inclusion(b"leaf %d" % index, index, size, proof) == root
                assert leads_there == (proof == WHOLE.inclusion_proof(index, size))
            if size < TILE_WIDTH:
                assert tree.root() != root


@given(tile=st.binary(max_size=300), width=st.integers(-2, 10))
def test_a_tile_is_its_hashes(tile: bytes, width: int) -> None:
    """As many hashes as were asked for and not a byte more, or it is refused."""
    try:
        hashes = parse_hash_tile(tile, width)
    except ValueError:
        assert len(tile) != 32 * width or not tile
    else:
        assert len(hashes) == width > 0
        assert {len(one) for one in hashes} == {32}
        assert b"".join(hashes) == tile
