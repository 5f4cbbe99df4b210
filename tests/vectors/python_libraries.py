"""Writes python_libraries.json beside this file: what pymerkle makes of the same leaves, and what sigstore says of proofs.

pip install pymerkle==7.0.0 sigstore==4.5.1, in an environment of its own; neither is needed to run the tests.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pymerkle import InmemoryTree  # type: ignore[import-not-found]  # see above
from sigstore._internal.merkle import verify_merkle_inclusion  # type: ignore[import-not-found]  # see above
from sigstore.errors import VerificationError  # type: ignore[import-not-found]  # see above

_MOST = 70
_JUDGED = [(0, 1), (0, 2), (1, 2), (2, 3), (6, 7), (3, 8), (12, 13), (0, 33), (32, 33), (69, 70)]

_TREE = InmemoryTree(algorithm="sha256")
for _number in range(600):
    _TREE.append_entry(b"leaf %d" % _number)


def _path(index: int, size: int) -> list[bytes]:
    # pymerkle counts from 1, and puts the leaf's own hash first, which RFC 6962 leaves out.
    path: list[str] = _TREE.prove_inclusion(index + 1, size).serialize()["path"]
    return [bytes.fromhex(node) for node in path[1:]]


def _digest(size: int) -> str:
    proofs = (_path(index, size) for index in range(size))
    return hashlib.sha256(b"".join(bytes([len(proof)]) + b"".join(proof) for proof in proofs)).hexdigest()


def _judged(index: int, size: int, proof: list[bytes], root: bytes) -> dict[str, Any]:
    claim = SimpleNamespace(log_index=index, tree_size=size, hashes=proof, root_hash=root)
    entry = SimpleNamespace(_inner=SimpleNamespace(inclusion_proof=claim, canonicalized_body=b"leaf %d" % index))
    try:
        verify_merkle_inclusion(entry)
        accepted = True
    except VerificationError:
        accepted = False
    return {
        "index": index,
        "size": size,
        "root": root.hex(),
        "proof": [node.hex() for node in proof],
        "accepted": accepted,
    }


def _cases(index: int, size: int) -> list[dict[str, Any]]:
    proof, root = _path(index, size), _TREE.get_root(size)
    cases = [
        _judged(index, size, proof, root),
        _judged(index, size, proof, bytes(32)),
        _judged(index, size, [*proof, root], root),
        _judged(index, size, [bytes(32), *proof], root),
        _judged(index, size + 1, proof, root),
        _judged(index + 1, size + 1, proof, root),
    ]
    if proof:
        flipped = bytes([proof[0][0] ^ 1]) + proof[0][1:]
        cases += [
            _judged(index, size, [flipped, *proof[1:]], root),
            _judged(index, size, proof[1:], root),
            _judged(index, size, proof[:-1], root),
            _judged(index ^ 1, size, proof, root),
        ]
    return cases


def main() -> None:
    """Write the file."""
    vectors = {
        "origin": "Written by python_libraries.py with pymerkle 7.0.0 (roots, inclusion proofs) and sigstore 4.5.1 (verdicts)",
        "witness": "Made by other implementations; the leaves are `leaf N`. `inclusion` is one SHA-256 of all proofs of a "
        "size in order of index, each with its length in a byte before it",
        "trees": [
            {"size": size, "root": _TREE.get_root(size).hex(), "inclusion": _digest(size) if size <= _MOST else None}
            for size in (*range(_MOST + 1), 255, 256, 257, 600)
        ],
        "verdicts": [case for index, size in _JUDGED for case in _cases(index, size)],
    }
    Path(__file__).with_suffix(".json").write_text(json.dumps(vectors, indent=1) + "\n")


if __name__ == "__main__":
    main()
