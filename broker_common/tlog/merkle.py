"""RFC 6962 section 2.1: Merkle tree hash, inclusion and consistency proofs, kept incrementally.

A `MerkleTree` keeps the hash of every complete subtree, level by level, so appending is amortised constant and a proof
takes one hash per level; 64 bytes of memory per entry. A `CompactTree` keeps the right edge alone: enough for the root of
a log of any length in a few hundred bytes, and for nothing of its past.

Whatever knows the hash of every complete subtree is a `Tree` and can prove, wherever it keeps them.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

HASH_BYTES = 32
_EMPTY = hashlib.sha256(b"").digest()


def leaf_hash(entry: bytes) -> bytes:
    """MTH({d}) = SHA-256(0x00 || d)."""
    return hashlib.sha256(b"\0" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of the subtree over two subtrees."""
    return hashlib.sha256(b"\1" + left + right).digest()


class Tree(ABC):
    """A list of leaves of which the hash of every complete subtree is known."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many leaves there are."""

    @abstractmethod
    def subtree(self, height: int, position: int) -> bytes:
        """The hash of the `position`-th subtree of 2^height leaves, for one that is complete."""

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
        path: list[bytes] = []
        start, end = 0, size
        while end - start > 1:
            split = start + _largest_power_below(end - start)
            if index < split:
                path.append(self._range_hash(split, end))
                end = split
            else:
                path.append(self._range_hash(start, split))
                start = split
        return path[::-1]

    def consistency_proof(self, old_size: int, size: int | None = None) -> list[bytes]:
        """PROOF(old_size, D[n]) of RFC 6962: that the tree as it is, or was with `size` leaves, continues the older one.

        Empty for equal sizes and for `old_size` 0, which every tree continues.
        """
        size = self.size if size is None else size
        if not 0 <= old_size <= size <= self.size:
            raise IndexError("the tree was never of that size")
        path: list[bytes] = []
        start, end = 0, size
        while old_size not in {0, end}:
            split = start + _largest_power_below(end - start)
            if old_size <= split:
                path.append(self._range_hash(split, end))
                end = split
            else:
                path.append(self._range_hash(start, split))
                start = split
        # A verifier knows the old tree's own root already; any other part of it has to be told.
        if start:
            path.append(self._range_hash(start, end))
        return path[::-1]

    def _range_hash(self, start: int, end: int) -> bytes:
        """MTH(D[start:end]) for a range that the tree splits off: `start` is a multiple of a power of two not below its width."""
        width = end - start
        if width == 0:
            return _EMPTY
        if width & (width - 1) == 0:
            height = width.bit_length() - 1
            return self.subtree(height, start >> height)
        split = start + _largest_power_below(width)
        return node_hash(self._range_hash(start, split), self._range_hash(split, end))


class MerkleTree(Tree):
    """All complete subtrees of a growing list of leaves."""

    def __init__(self) -> None:
        # _levels[h] holds, one after the other, the hashes of the complete subtrees of 2^h leaves.
        self._levels: list[bytearray] = [bytearray()]

    @property
    def size(self) -> int:
        return len(self._levels[0]) // HASH_BYTES

    def append(self, entry: bytes) -> None:
        node, height = leaf_hash(entry), 0
        while True:
            if height == len(self._levels):
                self._levels.append(bytearray())
            level = self._levels[height]
            level += node
            count = len(level) // HASH_BYTES
            if count % 2:
                return
            node = node_hash(self.subtree(height, count - 2), self.subtree(height, count - 1))
            height += 1

    def subtree(self, height: int, position: int) -> bytes:
        return bytes(self._levels[height][position * HASH_BYTES : (position + 1) * HASH_BYTES])


class CompactTree:
    """The right edge of a growing tree: its size and its root, in memory that does not grow with it."""

    def __init__(self) -> None:
        self._size = 0
        # The complete subtrees that the leaves fall into, the largest first: one for each bit that is set in the size.
        self._edge: list[bytes] = []

    @property
    def size(self) -> int:
        return self._size

    def append(self, entry: bytes) -> None:
        self.append_leaf(leaf_hash(entry))

    def append_leaf(self, leaf: bytes) -> None:
        if len(leaf) != HASH_BYTES:
            raise ValueError("a leaf hash has 32 bytes")
        node, above = leaf, self._size
        while above % 2:
            node = node_hash(self._edge.pop(), node)
            above >>= 1
        self._edge.append(node)
        self._size += 1

    def root(self) -> bytes:
        """The hash of the tree as it is; SHA-256 of nothing for the empty tree."""
        if not self._edge:
            return _EMPTY
        root = self._edge[-1]
        for left in reversed(self._edge[:-1]):
            root = node_hash(left, root)
        return root


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
    node = leaf_hash(entry)
    for sibling, is_left in _climb(index, size - 1, proof):
        node = node_hash(sibling, node) if is_left else node_hash(node, sibling)
    return node


def verify_consistency(old_size: int, old_root: bytes, size: int, root: bytes, proof: Sequence[bytes]) -> None:
    """Return only if a tree of `size` leaves and this root continues the one of `old_size` (RFC 9162 section 2.1.4.2).

    Raises:
        ValueError: it does not, as far as `proof` tells, or the proof cannot belong to such trees.
    """
    if not 0 <= old_size <= size:
        raise ValueError("the sizes are not in order")
    if any(len(node) != HASH_BYTES for node in (old_root, root, *proof)):
        raise ValueError("a hash has the wrong length")
    if old_size in {0, size}:
        _verify_without_proof(old_size, old_root, size, root)
        if proof:
            raise ValueError("the proof has the wrong length")
        return
    # 1. An old tree that is one complete subtree is known by its root, which the proof then leaves out.
    nodes = [old_root, *proof] if old_size & (old_size - 1) == 0 else list(proof)
    if not nodes:
        raise ValueError("the proof has the wrong length")
    # 2. The first hash is that of the largest subtree on the right edge of the old tree.
    position, last = old_size - 1, size - 1
    while position % 2:
        position >>= 1
        last >>= 1
    # 3. Climb to both roots at once; what lies right of the old tree belongs to the new one alone.
    old = new = nodes[0]
    for sibling, is_left in _climb(position, last, nodes[1:]):
        old = node_hash(sibling, old) if is_left else old
        new = node_hash(sibling, new) if is_left else node_hash(new, sibling)
    if old != old_root or new != root:
        raise ValueError("the proof does not lead to both roots")


def _verify_without_proof(old_size: int, old_root: bytes, size: int, root: bytes) -> None:
    """Every tree continues the empty one, and itself."""
    if old_root != (root if old_size else _EMPTY) or (size == 0 and root != _EMPTY):
        raise ValueError("the proof does not lead to both roots")


def _climb(position: int, last: int, siblings: Sequence[bytes]) -> Iterator[tuple[bytes, bool]]:
    """The siblings on the way from `position` up to the root, and whether each is a left one; `last` is the right edge."""
    for sibling in siblings:
        if last == 0 or len(sibling) != HASH_BYTES:
            raise ValueError("the proof has the wrong length")
        is_left = position % 2 == 1 or position == last
        yield sibling, is_left
        # Where there is nothing on the right, the same subtree stands for several levels.
        while is_left and position % 2 == 0 and position != 0:
            position >>= 1
            last >>= 1
        position >>= 1
        last >>= 1
    if last:
        raise ValueError("the proof has the wrong length")
