"""RFC 6962 section 2.1: Merkle tree hash and inclusion proofs, kept incrementally.

The tree keeps the hash of every complete subtree, level by level, so appending is amortised constant and a proof takes
one hash per level. 64 bytes of memory per entry.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

__all__ = ["MerkleTree", "leaf_hash", "root_from_inclusion"]

_HASH_BYTES = 32


def leaf_hash(entry: bytes) -> bytes:
    """MTH({d}) = SHA-256(0x00 || d)."""
    return hashlib.sha256(b"\0" + entry).digest()


def _node_hash(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()


class MerkleTree:
    """All complete subtrees of a growing list of leaves."""

    def __init__(self) -> None:
        # _levels[h] holds, one after the other, the hashes of the complete subtrees of 2^h leaves.
        self._levels: list[bytearray] = [bytearray()]

    @property
    def size(self) -> int:
        return len(self._levels[0]) // _HASH_BYTES

    def append(self, entry: bytes) -> None:
        """Add one leaf."""
        node, height = leaf_hash(entry), 0
        while True:
            if height == len(self._levels):
                self._levels.append(bytearray())
            level = self._levels[height]
            level += node
            count = len(level) // _HASH_BYTES
            if count % 2:
                return
            node = _node_hash(self._subtree(height, count - 2), self._subtree(height, count - 1))
            height += 1

    def root(self, size: int | None = None) -> bytes:
        """The hash of the tree as it is, or as it was with `size` leaves; SHA-256 of nothing for the empty tree."""
        size = self.size if size is None else size
        if not 0 <= size <= self.size:
            raise IndexError("the tree was never of that size")
        return self._range_hash(0, size)

    def inclusion_proof(self, index: int, size: int | None = None) -> list[bytes]:
        """PATH(index, D[n]) of RFC 6962, leaf to root, in the tree as it is, or as it was with `size` leaves."""
        size = self.size if size is None else size
        if not 0 <= index < size <= self.size:
            raise IndexError("no such leaf")
        return self._path(index, 0, size)

    def _path(self, index: int, start: int, end: int) -> list[bytes]:
        if end - start == 1:
            return []
        split = start + _largest_power_below(end - start)
        if index < split:
            return [*self._path(index, start, split), self._range_hash(split, end)]
        return [*self._path(index, split, end), self._range_hash(start, split)]

    def _range_hash(self, start: int, end: int) -> bytes:
        width = end - start
        if width == 0:
            return hashlib.sha256(b"").digest()
        if width & (width - 1) == 0:
            height = width.bit_length() - 1
            return self._subtree(height, start >> height)
        split = start + _largest_power_below(width)
        return _node_hash(self._range_hash(start, split), self._range_hash(split, end))

    def _subtree(self, height: int, position: int) -> bytes:
        return bytes(self._levels[height][position * _HASH_BYTES : (position + 1) * _HASH_BYTES])


def _largest_power_below(width: int) -> int:
    """The largest power of two strictly smaller than `width` (RFC 6962's k)."""
    return 1 << ((width - 1).bit_length() - 1)


def root_from_inclusion(entry: bytes, index: int, size: int, proof: Sequence[bytes]) -> bytes:
    """The root that `proof` leads to from `entry` at `index` of `size` leaves (RFC 9162 section 2.1.3.2).

    The caller compares it with a root it trusts.

    Raises:
        ValueError: the proof cannot belong to such a tree.
    """
    if not 0 <= index < size:
        raise ValueError("the index is not in the tree")
    node, position, last = leaf_hash(entry), index, size - 1
    for sibling in proof:
        if last == 0 or len(sibling) != _HASH_BYTES:
            raise ValueError("the proof has the wrong length")
        if position % 2 or position == last:
            node = _node_hash(sibling, node)
            while position % 2 == 0 and position != 0:
                position >>= 1
                last >>= 1
        else:
            node = _node_hash(node, sibling)
        position >>= 1
        last >>= 1
    if last:
        raise ValueError("the proof has the wrong length")
    return node
