"""Turning columns into CSV text (RFC 4180, UTF-8, line feeds) quickly: each row is a join of ready-made pieces.

A piece is one or more fields with the comma or line feed that ends them. Pieces come from tables made once, or from
digits, so that no number is formatted and no field quoted per row; memory depends on the chunk, not on the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from deploy.synthetic.arrays import Booleans, Digits, Integers

_ZERO = ord("0")
_COMMA = ord(",")


def field(text: str) -> str:
    """One CSV field, quoted only where it must be."""
    if any(character in text for character in ',"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text


def header(columns: Sequence[str]) -> bytes:
    """The first line."""
    return (",".join(map(field, columns)) + "\n").encode()


def join_rows(columns: Sequence[list[bytes]]) -> bytes:
    """The rows whose pieces stand at equal places of the columns."""
    return b"".join(chain.from_iterable(zip(*columns, strict=True)))


def digit_pieces(digits: Digits, prefix: bytes = b"", blank: Booleans | None = None) -> list[bytes]:
    """Prefix, digits and a comma per row; only the comma where `blank`."""
    rows, width = digits.shape
    text = np.empty((rows, len(prefix) + width + 1), dtype=np.uint8)
    text[:, : len(prefix)] = np.frombuffer(prefix, dtype=np.uint8)
    text[:, len(prefix) : -1] = digits + _ZERO
    text[:, -1] = _COMMA
    whole = text.view(f"S{text.shape[1]}").ravel()
    if blank is not None:
        whole[blank] = b","
    pieces: list[bytes] = whole.tolist()
    return pieces


class Pieces:
    """A table of pieces, picked by number."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._table: NDArray[np.object_] = np.array([text.encode() for text in texts], dtype=np.object_)

    def pick(self, numbers: Integers) -> list[bytes]:
        """The piece of each number."""
        pieces: list[bytes] = self._table[numbers].tolist()
        return pieces


class CodeListPieces:
    """Multi-valued fields: a bit mask becomes its codes joined by semicolons, then a comma.

    Two tables of half the codes each, since one table of all subsets would be far too large.
    """

    def __init__(self, codes: Sequence[str]) -> None:
        self._half = len(codes) // 2
        first, second = list(map(field, codes[: self._half])), list(map(field, codes[self._half :]))
        self._first = Pieces(_subsets(first))
        alone = _subsets(second)
        self._second_size = len(alone)
        # The second half opens with a semicolon where the first half said something.
        self._second = Pieces([f"{text}," for text in alone] + [f";{text}," if text else "," for text in alone])

    def pick(self, masks: Integers) -> tuple[list[bytes], list[bytes]]:
        """Two pieces per mask; bit k stands for code k."""
        first, second = masks & ((1 << self._half) - 1), masks >> self._half
        return self._first.pick(first), self._second.pick(second + self._second_size * (first != 0))


def _subsets(codes: Sequence[str]) -> list[str]:
    """The joined codes of every bit mask, in order of the masks."""
    texts = [""]
    for code in codes:
        texts += [f"{text};{code}" if text else code for text in texts]
    return texts
