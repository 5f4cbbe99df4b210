"""The tree hashes as RFC 6962 says, and no proof but the right one leads to its root or from one root to another."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_common.tlog.merkle import CompactTree, MerkleTree, leaf_hash, root_from_inclusion, verify_consistency

_FOLDER = Path(__file__).parents[2] / "vectors"
VECTORS = json.loads((_FOLDER / "merkle.json").read_text())
GOLANG = json.loads((_FOLDER / "golang.json").read_text())
LIBRARIES = json.loads((_FOLDER / "python_libraries.json").read_text())
LEAVES = [bytes.fromhex(leaf) for leaf in VECTORS["leaves"]]
ROOTS = [bytes.fromhex(root) for root in VECTORS["roots"]]
ALL_SIZES = 64


def tree_of(leaves: list[bytes]) -> MerkleTree:
    """The product's tree over the leaves."""
    tree = MerkleTree()
    for leaf in leaves:
        tree.append(leaf)
    return tree


def split_of(n: int) -> int:
    """RFC 6962: the largest power of two smaller than n."""
    k = 1
    while 2 * k < n:
        k *= 2
    return k


def reference_root(leaves: list[bytes]) -> bytes:
    """MTH(D[n]) of RFC 6962 section 2.1, word by word."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\x00" + leaves[0]).digest()
    k = split_of(len(leaves))
    return hashlib.sha256(b"\x01" + reference_root(leaves[:k]) + reference_root(leaves[k:])).digest()


def reference_path(index: int, leaves: list[bytes]) -> list[bytes]:
    """PATH(m, D[n]) of RFC 6962 section 2.1.1, word by word."""
    if len(leaves) == 1:
        return []
    k = split_of(len(leaves))
    if index < k:
        return [*reference_path(index, leaves[:k]), reference_root(leaves[k:])]
    return [*reference_path(index - k, leaves[k:]), reference_root(leaves[:k])]


def reference_consistency(old: int, leaves: list[bytes], *, whole: bool = True) -> list[bytes]:
    """SUBPROOF(m, D[n], b) of RFC 6962 section 2.1.2, word by word; PROOF begins with b true."""
    if old == len(leaves):
        return [] if whole else [reference_root(leaves)]
    k = split_of(len(leaves))
    if old <= k:
        return [*reference_consistency(old, leaves[:k], whole=whole), reference_root(leaves[k:])]
    return [*reference_consistency(old - k, leaves[k:], whole=False), reference_root(leaves[:k])]


def numbered(n: int) -> list[bytes]:
    """Distinct leaves, n of them."""
    return [b"leaf %d" % number for number in range(n)]


def test_published_roots() -> None:
    """Every prefix of the published leaves has the published root."""
    tree = MerkleTree()
    assert tree.root().hex() == VECTORS["empty_root"]
    for size, (leaf, root) in enumerate(zip(LEAVES, ROOTS, strict=True), start=1):
        tree.append(leaf)
        assert tree.size == size
        assert tree.root() == root == reference_root(LEAVES[:size])


@pytest.mark.parametrize("case", VECTORS["proofs"], ids=lambda case: f"{case['index']}of{case['size']}")
def test_published_proofs(case: dict[str, object]) -> None:
    """The published inclusion paths are the ones made here, and they verify."""
    index, size, proof = case["index"], case["size"], case["proof"]
    assert isinstance(index, int)
    assert isinstance(size, int)
    assert isinstance(proof, list)
    made = tree_of(LEAVES[:size]).inclusion_proof(index)
    assert [node.hex() for node in made] == proof
    assert root_from_inclusion(LEAVES[index], index, size, made) == ROOTS[size - 1]


@given(leaves=st.lists(st.binary(max_size=40), max_size=70))
def test_any_tree_equals_the_recursive_definition(leaves: list[bytes]) -> None:
    """The incremental tree is only a faster way to the same hash."""
    assert tree_of(leaves).root() == reference_root(leaves)


def test_every_entry_of_every_small_tree_is_proved() -> None:
    """For each size up to 64, each index: the proof is the reference's, and leads to the root."""
    for size in range(1, ALL_SIZES + 1):
        leaves = numbered(size)
        tree = tree_of(leaves)
        root = reference_root(leaves)
        for index, leaf in enumerate(leaves):
            proof = tree.inclusion_proof(index)
            assert proof == reference_path(index, leaves)
            assert root_from_inclusion(leaf, index, size, proof) == root


@given(data=st.data(), size=st.integers(0, 200))
def test_a_tree_remembers_every_tree_it_was(data: st.DataObject, size: int) -> None:
    """Root and proofs at any past size are those of a tree that stopped there, however far it has grown since."""
    grown = tree_of(numbered(size))
    past = data.draw(st.integers(0, size))
    fresh = tree_of(numbered(past))
    assert grown.root(past) == fresh.root() == reference_root(numbered(past))
    if past:
        index = data.draw(st.integers(0, past - 1))
        proof = grown.inclusion_proof(index, past)
        assert proof == fresh.inclusion_proof(index) == reference_path(index, numbered(past))
        assert root_from_inclusion(b"leaf %d" % index, index, past, proof) == grown.root(past)
    assert grown.size == size


def test_every_past_of_a_small_tree() -> None:
    """All sizes up to 64 inside one tree of 64, each index: nothing later shows."""
    grown = tree_of(numbered(ALL_SIZES))
    for past in range(ALL_SIZES + 1):
        assert grown.root(past) == reference_root(numbered(past))
        for index in range(past):
            assert grown.inclusion_proof(index, past) == reference_path(index, numbered(past))


@pytest.mark.parametrize("size", [-1, 4, 2**40])
def test_there_is_no_root_of_a_size_that_never_was(size: int) -> None:
    """Neither of the future nor below nothing."""
    with pytest.raises(IndexError, match="never of that size"):
        tree_of(LEAVES[:3]).root(size)


@pytest.mark.parametrize(("index", "size"), [(0, 4), (3, 4), (2, 2), (1, 1), (0, 0), (-1, 2), (0, -1)])
def test_no_proof_is_made_in_a_tree_that_never_was(index: int, size: int) -> None:
    """The entry must have been there at that size, and the tree of that size."""
    with pytest.raises(IndexError, match="no such leaf"):
        tree_of(LEAVES[:3]).inclusion_proof(index, size)


def leads_to(root: bytes, entry: bytes, index: int, size: int, proof: list[bytes]) -> bool:
    """Whether a verifier would accept."""
    try:
        return root_from_inclusion(entry, index, size, proof) == root
    except ValueError:
        return False


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 21, 33])
def test_no_tampered_proof_leads_to_the_root(size: int) -> None:
    """Flipped, dropped, doubled, appended or swapped nodes, another entry, another index: each one is refused."""
    leaves = numbered(size)
    tree = tree_of(leaves)
    root = tree.root()
    for index, leaf in enumerate(leaves):
        proof = tree.inclusion_proof(index)
        forged = [[*proof, bytes(32)], [*proof, root], [leaf_hash(leaf), *proof], proof + proof if proof else [leaf]]
        for place, node in enumerate(proof):
            flipped = bytes([node[0] ^ 1]) + node[1:]
            forged += [
                [*proof[:place], flipped, *proof[place + 1 :]],
                [*proof[:place], node[:-1] + bytes([node[-1] ^ 128]), *proof[place + 1 :]],
                [*proof[:place], *proof[place + 1 :]],
                [*proof[:place], node[:-1], *proof[place + 1 :]],
                [*proof[:place], node + b"\0", *proof[place + 1 :]],
            ]
        forged += [proof[::-1]] if len(proof) > 1 else []
        assert not any(leads_to(root, leaf, index, size, attempt) for attempt in forged)
        assert not leads_to(root, leaf + b"x", index, size, proof)
        assert not any(leads_to(root, leaf, other, size, proof) for other in range(size) if other != index)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 21])
def test_a_proof_of_another_length_is_refused_as_such(size: int) -> None:
    """Too many nodes and too few are told before any root is compared."""
    tree = tree_of(numbered(size))
    for index in range(size):
        proof = tree.inclusion_proof(index)
        for wrong in ([*proof, bytes(32)], proof[:-1] if proof else [bytes(32)]):
            with pytest.raises(ValueError, match="the proof has the wrong length"):
                root_from_inclusion(b"leaf %d" % index, index, size, wrong)


def test_an_inner_node_does_not_pass_for_an_entry() -> None:
    """Leaves and nodes are hashed apart, so that a pair of hashes is not an entry of a shorter tree."""
    tree = tree_of(LEAVES[:4])
    inner = hashlib.sha256(b"\0" + LEAVES[0]).digest() + hashlib.sha256(b"\0" + LEAVES[1]).digest()
    assert not leads_to(tree.root(), inner, 0, 2, tree.inclusion_proof(0)[1:])
    assert not leads_to(tree.root(), b"\1" + inner, 0, 2, tree.inclusion_proof(0)[1:])


@pytest.mark.parametrize(("index", "size"), [(-1, 4), (4, 4), (5, 4), (0, 0), (0, -1)])
def test_an_index_outside_the_tree_is_refused(index: int, size: int) -> None:
    """No proof is about an entry that the tree does not have."""
    with pytest.raises(ValueError, match="not in the tree"):
        root_from_inclusion(b"", index, size, [])


@pytest.mark.parametrize("index", [-1, 3, 100])
def test_no_proof_is_made_for_an_entry_that_is_not_there(index: int) -> None:
    """Asking for one is a bug of the caller."""
    with pytest.raises(IndexError, match="no such leaf"):
        tree_of(LEAVES[:3]).inclusion_proof(index)


@pytest.mark.parametrize(("claimed", "proof_of"), [(9, 8), (7, 8), (16, 8), (2**60, 8)])
def test_a_proof_claimed_for_another_size_is_refused(claimed: int, proof_of: int) -> None:
    """Where another size has paths of another length, the length gives it away."""
    tree = tree_of(numbered(proof_of))
    assert not leads_to(tree.root(), b"leaf 6", 6, claimed, tree.inclusion_proof(6))


def test_the_size_that_a_checkpoint_states_is_bound_with_its_root() -> None:
    """A proof for one size never leads to the root of another size."""
    for claimed in range(1, ALL_SIZES + 1):
        tree = tree_of(numbered(37))
        for index in range(min(claimed, 37)):
            proof = tree.inclusion_proof(index)
            assert leads_to(reference_root(numbered(claimed)), b"leaf %d" % index, index, claimed, proof) == (
                claimed == 37
            )


# --- one tree continues another --------------------------------------------------------------------------------------

MOST_SIZE = 70
GROWN = tree_of(numbered(MOST_SIZE + 2))


def continues(old_size: int, old_root: bytes, size: int, root: bytes, proof: list[bytes]) -> bool:
    """Whether a witness would accept."""
    try:
        verify_consistency(old_size, old_root, size, root, proof)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("case", VECTORS["consistency"], ids=lambda case: f"{case['old_size']}to{case['size']}")
def test_published_consistency_proofs(case: dict[str, object]) -> None:
    """The published proofs are the ones made here, and they verify."""
    old_size, size, proof = case["old_size"], case["size"], case["proof"]
    assert isinstance(old_size, int)
    assert isinstance(size, int)
    made = tree_of(LEAVES).consistency_proof(old_size, size)
    assert [node.hex() for node in made] == proof
    verify_consistency(old_size, ROOTS[old_size - 1], size, ROOTS[size - 1], made)


def test_every_tree_continues_every_older_one() -> None:
    """For all pairs of sizes up to 70: the proof is the reference's, and it verifies."""
    for size in range(MOST_SIZE + 1):
        root = reference_root(numbered(size))
        for old_size in range(size + 1):
            proof = GROWN.consistency_proof(old_size, size)
            if old_size:
                assert proof == reference_consistency(old_size, numbered(size))
            verify_consistency(old_size, reference_root(numbered(old_size)), size, root, proof)
        assert GROWN.consistency_proof(0, size) == GROWN.consistency_proof(size, size) == []


def digest(proofs: Iterable[list[bytes]]) -> str:
    """One hash of a list of proofs, as golang.go makes it."""
    return hashlib.sha256(b"".join(bytes([len(proof)]) + b"".join(proof) for proof in proofs)).hexdigest()


def test_proofs_of_another_implementation() -> None:
    """Every inclusion and consistency proof of the first seventy sizes is the one that golang.org/x/mod makes."""
    for case in GOLANG["proofs"]:
        size = case["size"]
        assert digest(GROWN.inclusion_proof(index, size) for index in range(size)) == case["inclusion"]
        assert digest(GROWN.consistency_proof(old_size, size) for old_size in range(1, size + 1)) == case["consistency"]


def test_roots_and_proofs_of_pymerkle() -> None:
    """A second implementation in another style has the same roots and the same inclusion proofs."""
    tree = tree_of(numbered(600))
    for case in LIBRARIES["trees"]:
        size = case["size"]
        assert tree.root(size).hex() == case["root"]
        if case["inclusion"]:
            assert digest(tree.inclusion_proof(index, size) for index in range(size)) == case["inclusion"]


def test_verdicts_of_sigstore() -> None:
    """Right and damaged proofs are accepted and refused here as by another verifier."""
    for case in LIBRARIES["verdicts"]:
        proof = [bytes.fromhex(node) for node in case["proof"]]
        entry = b"leaf %d" % case["index"]
        assert leads_to(bytes.fromhex(case["root"]), entry, case["index"], case["size"], proof) == case["accepted"]
    assert {case["accepted"] for case in LIBRARIES["verdicts"]} == {True, False}


def damaged(proof: list[bytes]) -> list[list[bytes]]:
    """Everything that is nearly `proof`: a bit, a byte or a hash too many, too few, changed or exchanged."""
    forged = [[*proof, bytes(32)], [bytes(32), *proof], [*proof, *proof] if proof else [b""]]
    for place, node in enumerate(proof):
        before, after = proof[:place], proof[place + 1 :]
        forged += [
            [*before, bytes([node[0] ^ 1]) + node[1:], *after],
            [*before, node[:-1] + bytes([node[-1] ^ 128]), *after],
            [*before, node[:-1], *after],
            [*before, node + b"\0", *after],
            [*before, *after],
            [*before, node, node, *after],
        ]
    return forged + [proof[::-1]] * (len(proof) > 1)


def test_no_tampered_consistency_proof_verifies() -> None:
    """Whatever is changed in proof, roots, sizes or their order: no other statement is proved by it."""
    for size in range(MOST_SIZE + 1):
        root = GROWN.root(size)
        for old_size in range(size + 1):
            old_root, proof = GROWN.root(old_size), GROWN.consistency_proof(old_size, size)
            assert not any(continues(old_size, old_root, size, root, forged) for forged in damaged(proof))
            assert not continues(old_size, bytes(32), size, root, proof)
            assert not continues(old_size, old_root[:-1], size, root, proof)
            assert not continues(old_size, old_root, size, root + b"\0", proof)
            assert not continues(old_size + 1, old_root, size, root, proof)
            assert not continues(old_size - 1, old_root, size, root, proof)
            if old_size or not size:
                assert not continues(old_size, old_root, size, bytes(32), proof)
            if old_size:
                # Where a tree is complete, the proofs to the next sizes differ in what they hash, not in their length.
                assert not continues(old_size, old_root, size, GROWN.root(size + 1), proof)
            if old_size != size:
                assert not continues(size, root, old_size, old_root, proof)
                assert not continues(old_size, root, size, old_root, proof)


@given(data=st.data(), sizes=st.lists(st.integers(0, MOST_SIZE), min_size=4, max_size=4))
def test_a_consistency_proof_is_of_its_two_sizes(data: st.DataObject, sizes: list[int]) -> None:
    """A proof made for two sizes proves no other two, unless what it says of them is the same."""
    (old_size, size), (old_other, other) = sorted(sizes[:2]), sorted(sizes[2:])
    proof = GROWN.consistency_proof(old_size, size)
    accepted = continues(old_other, GROWN.root(old_other), other, GROWN.root(other), proof)
    assert accepted == (proof == GROWN.consistency_proof(old_other, other))
    forked = tree_of(
        [*numbered(size)[: (place := data.draw(st.integers(0, MOST_SIZE)))], b"x", *numbered(size)[place + 1 :]]
    )
    if old_size and place < old_size:
        assert not continues(
            old_size, GROWN.root(old_size), forked.size, forked.root(), forked.consistency_proof(old_size)
        )


@pytest.mark.parametrize(
    ("old_size", "size", "proof"),
    [(3, 7, []), (4, 7, []), (3, 7, [bytes(32)]), (6, 7, [bytes(32)] * 9), (0, 7, [bytes(32)])],
)
def test_a_consistency_proof_of_another_length_is_refused_as_such(old_size: int, size: int, proof: list[bytes]) -> None:
    """The length is told before any root is compared."""
    with pytest.raises(ValueError, match="wrong length"):
        verify_consistency(old_size, GROWN.root(old_size), size, GROWN.root(size), proof)


@pytest.mark.parametrize(("old_size", "size"), [(-1, 3), (3, 2), (0, -1), (-2, -1)])
def test_sizes_out_of_order_are_refused(old_size: int, size: int) -> None:
    """No tree continues a longer one."""
    with pytest.raises(ValueError, match="not in order"):
        verify_consistency(old_size, bytes(32), size, bytes(32), [])


@pytest.mark.parametrize(("old_size", "size"), [(-1, 2), (3, 2), (0, 4), (4, None), (0, -1)])
def test_no_consistency_proof_is_made_of_a_tree_that_never_was(old_size: int, size: int | None) -> None:
    """Asking for one is a bug of the caller."""
    with pytest.raises(IndexError, match="never of that size"):
        tree_of(LEAVES[:3]).consistency_proof(old_size, size)


# --- the right edge alone --------------------------------------------------------------------------------------------


@given(leaves=st.lists(st.binary(max_size=40), max_size=MOST_SIZE))
def test_the_compact_tree_is_the_same_tree(leaves: list[bytes]) -> None:
    """At every size on the way it has the root of the tree that keeps everything, by entries and by leaf hashes."""
    whole, by_entry, by_leaf = MerkleTree(), CompactTree(), CompactTree()
    for leaf in leaves:
        assert by_entry.root() == by_leaf.root() == whole.root()
        whole.append(leaf)
        by_entry.append(leaf)
        by_leaf.append_leaf(leaf_hash(leaf))
    assert by_entry.size == by_leaf.size == len(leaves)
    assert by_entry.root() == by_leaf.root() == reference_root(leaves)


def test_the_compact_tree_keeps_one_hash_for_each_bit_of_its_size() -> None:
    """A long log is read in memory that does not grow with it."""
    tree = CompactTree()
    for size in range(1, 3000):
        tree.append(b"")
        assert len(tree._edge) == size.bit_count()


@pytest.mark.parametrize("leaf", [b"", bytes(31), bytes(33)])
def test_the_compact_tree_takes_hashes_for_leaf_hashes_only(leaf: bytes) -> None:
    """An entry in the place of its hash would make another tree."""
    with pytest.raises(ValueError, match="32 bytes"):
        CompactTree().append_leaf(leaf)
