"""CSV text from pieces: what the standard library reads back is what was meant."""

from __future__ import annotations

import csv

import numpy as np

from deploy.synthetic.csv_rows import CodeListPieces, digit_pieces, field, header, join_rows


def test_fields_survive_the_standard_reader() -> None:
    """Commas and quotes inside a field come back unchanged."""
    fields = ["plain", "Stormont, Dundas and Glengarry", 'a "word"', ""]
    assert next(csv.reader([header([*fields]).decode()], strict=True)) == fields
    assert field("plain") == "plain"


def test_every_mask_becomes_its_codes_in_order() -> None:
    """All subsets of a code list are written joined by semicolons, without stray separators."""
    codes = ["a", "b", "c", "d", "e"]
    masks = np.arange(2 ** len(codes))
    lines = join_rows([*CodeListPieces(codes).pick(masks), [b"\n"] * len(masks)]).decode().splitlines()
    for mask, line in zip(masks.tolist(), lines, strict=True):
        assert line == ";".join(code for bit, code in enumerate(codes) if mask >> bit & 1) + ","


def test_digits_keep_leading_zeros_and_blanks_stay_empty() -> None:
    """Identifiers are text: zeros stay, and a blank row has only its comma."""
    digits = np.array([[0, 0, 7], [1, 2, 3]], dtype=np.uint8)
    assert digit_pieces(digits, prefix=b"P") == [b"P007,", b"P123,"]
    assert digit_pieces(digits, blank=np.array([True, False])) == [b",", b"123,"]
