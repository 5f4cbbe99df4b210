"""C2SP tlog-tiles: a log as a folder of small files that never change, from which every proof follows.

    checkpoint                       the signed note
    tile/entries/000                 the entries, 256 in a bundle
    tile/0/000                       their hashes, 256 in a tile
    tile/1/000                       the hashes of full tiles below, and so on until one partial tile is the top
    tile/0/x001/x234/067.p/112       a partial tile: number 1234067, 112 hashes so far

Pure. Tiles are compared with a checkpoint and with the entries: `hash_tiles` computes the expected ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from broker_common.tlog.merkle import HASH_BYTES, node_hash

CHECKPOINT_PATH = "checkpoint"
_HEIGHT = 8
TILE_WIDTH = 1 << _HEIGHT
_LENGTH_BYTES = 2
_GROUP = 1000


def tile_path(level: int, number: int, width: int = TILE_WIDTH) -> str:
    """Where the tile of this level and number is that has `width` hashes."""
    return f"tile/{level}/{_place(number, width)}"


def entries_path(number: int, width: int = TILE_WIDTH) -> str:
    """Where the bundle of this number is that has `width` entries."""
    return f"tile/entries/{_place(number, width)}"


def tile_paths(size: int) -> list[str]:
    """Every bundle and tile of a log of `size` entries, and no other; the checkpoint stands beside them."""
    if size < 0:
        raise ValueError("no log has this size")
    paths = [entries_path(number, width) for number, width in _tiles(size)]
    level = 0
    while size:
        paths += [tile_path(level, number, width) for number, width in _tiles(size)]
        level, size = level + 1, size >> _HEIGHT
    return paths


def entry_bundles(entries: Iterable[bytes]) -> Iterator[tuple[str, bytes]]:
    """Path and content of every bundle of a log, in the memory of one."""
    number, bundle = 0, list[bytes]()
    for entry in entries:
        bundle.append(entry)
        if len(bundle) == TILE_WIDTH:
            yield entries_path(number), encode_entry_bundle(bundle)
            number, bundle = number + 1, []
    if bundle:
        yield entries_path(number, len(bundle)), encode_entry_bundle(bundle)


def hash_tiles(leaves: Iterable[bytes]) -> Iterator[tuple[str, bytes]]:
    """Path and content of every hash tile of a log with these leaf hashes, in the memory of one for each level."""
    numbers: list[int] = []
    edge: list[list[bytes]] = []
    for leaf in leaves:
        node, level = leaf, 0
        while True:
            if level == len(edge):
                numbers.append(0)
                edge.append([])
            edge[level].append(node)
            if len(edge[level]) < TILE_WIDTH:
                break
            yield tile_path(level, numbers[level]), b"".join(edge[level])
            node = _fold(edge[level])
            numbers[level] += 1
            edge[level] = []
            level += 1
    for level, hashes in enumerate(edge):
        if hashes:
            yield tile_path(level, numbers[level], len(hashes)), b"".join(hashes)


def encode_entry_bundle(entries: Sequence[bytes]) -> bytes:
    """The bytes of a bundle: each entry after its length.

    Raises:
        ValueError: a bundle cannot have so many entries, or one is too long.
    """
    if not 0 < len(entries) <= TILE_WIDTH or any(len(entry) >> (8 * _LENGTH_BYTES) for entry in entries):
        raise ValueError("this is no bundle")
    return b"".join(len(entry).to_bytes(_LENGTH_BYTES, "big") + entry for entry in entries)


def parse_entry_bundle(data: bytes, width: int) -> list[bytes]:
    """The `width` entries that `data` consists of, and of nothing else.

    Raises:
        ValueError: it does not.
    """
    entries, at = list[bytes](), 0
    while at < len(data):
        end = at + _LENGTH_BYTES + int.from_bytes(data[at : at + _LENGTH_BYTES], "big")
        if end > len(data):
            raise ValueError("the bundle is cut short")
        if len(entries) == width:
            raise ValueError("the bundle has another number of entries")
        entries.append(data[at + _LENGTH_BYTES : end])
        at = end
    if len(entries) != width or not 0 < width <= TILE_WIDTH:
        raise ValueError("the bundle has another number of entries")
    return entries


def parse_hash_tile(data: bytes, width: int) -> list[bytes]:
    """The `width` hashes that `data` consists of.

    Raises:
        ValueError: it does not.
    """
    if len(data) != width * HASH_BYTES or not 0 < width <= TILE_WIDTH:
        raise ValueError("the tile has another number of hashes")
    return [data[at : at + HASH_BYTES] for at in range(0, len(data), HASH_BYTES)]


def _fold(hashes: list[bytes]) -> bytes:
    """The hash over a power of two of hashes."""
    while len(hashes) > 1:
        hashes = [node_hash(left, right) for left, right in zip(hashes[::2], hashes[1::2], strict=True)]
    return hashes[0]


def _tiles(count: int) -> Iterator[tuple[int, int]]:
    """Number and width of the tiles that `count` hashes or entries fill."""
    full, rest = divmod(count, TILE_WIDTH)
    yield from ((number, TILE_WIDTH) for number in range(full))
    if rest:
        yield full, rest


def _place(number: int, width: int) -> str:
    # Groups of three digits, so that no folder grows beyond a thousand of each kind.
    higher, last = divmod(number, _GROUP)
    place = f"{last:03}"
    while higher:
        higher, group = divmod(higher, _GROUP)
        place = f"x{group:03}/{place}"
    return place if width == TILE_WIDTH else f"{place}.p/{width}"
