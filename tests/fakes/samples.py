"""Samples in tests: people handed over and read back, and what a sample's frames are, slowly, from the description."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from broker_common.crypto.commitments import commit_set, hash_set
from broker_common.crypto.frames import FRAME_BYTES
from broker_common.crypto.pseudonyms import Pseudonyms
from health_node.forwarding import Sample

__all__ = ["commitment_of", "everybody", "frame_plaintexts", "gathered"]


def gathered(rows: npt.NDArray[np.uint8]) -> Pseudonyms:
    """Everybody of an (n, 16) array."""
    return Pseudonyms(np.ascontiguousarray(rows), np.arange(len(rows)))


def everybody(people: Pseudonyms) -> npt.NDArray[np.uint8]:
    """The people as an (n, 16) array."""
    rows = np.empty((len(people), 16), dtype=np.uint8)
    people.copy_into(0, rows)
    return rows


def commitment_of(sample: Sample, ticket_hash: bytes) -> bytes:
    """What a manifest must say of a sample's set."""
    return commit_set(sample.set_salt, ticket_hash, hash_set(everybody(sample.people).tobytes()))


def frame_plaintexts(rows: npt.NDArray[np.uint8], salt: bytes) -> Iterator[tuple[int, bool, bytes]]:
    """Index, last flag and plaintext of each frame: everything written one after the other, and then cut."""
    text = b"tripSMP1" + len(rows).to_bytes(8, "big") + salt + bytes(16) + b"".join(row.tobytes() for row in rows)
    text += bytes(-len(text) % FRAME_BYTES)
    for start in range(0, len(text), FRAME_BYTES):
        yield start // FRAME_BYTES, start + FRAME_BYTES == len(text), text[start : start + FRAME_BYTES]
