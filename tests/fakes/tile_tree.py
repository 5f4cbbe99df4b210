"""A tree of hash tiles, as a reader of C2SP tiles would walk it: what our tiles are compared with."""

from __future__ import annotations

from collections.abc import Callable

from broker_common.tlog.merkle import Tree, node_hash
from broker_common.tlog.tiles import TILE_WIDTH, parse_hash_tile, tile_path

# Hashes of a tile are a power of two.
_HEIGHT = 8


class TileTree(Tree):
    """The tree of a log of `size` entries, from its hash tiles alone.

    Root and proofs raise ValueError for a tile of the wrong length, and whatever `read` raises.
    """

    def __init__(self, read: Callable[[str], bytes], size: int) -> None:
        self._read = read
        self._size = size

    @property
    def size(self) -> int:
        return self._size

    def subtree(self, height: int, position: int) -> bytes:
        level, inner = divmod(height, _HEIGHT)
        number, first = divmod(position << inner, TILE_WIDTH)
        width = min(TILE_WIDTH, (self._size >> (_HEIGHT * level)) - number * TILE_WIDTH)
        hashes = parse_hash_tile(self._read(tile_path(level, number, width)), width)
        return _fold(hashes[first : first + (1 << inner)])


def _fold(hashes: list[bytes]) -> bytes:
    """The hash over a power of two of hashes."""
    while len(hashes) > 1:
        hashes = [node_hash(left, right) for left, right in zip(hashes[::2], hashes[1::2], strict=True)]
    return hashes[0]
