"""Names and dates that stand for no value, and so for nobody: rows with one of them are never linked.

The list is `placeholders.csv`, collected by hand from what registration desks are known to type; it is from memory, no agency's list,
and each entry says why it stands there. Texts are as `reading` normalises them: capitals without accents, other signs as blanks.
A placeholder of a given name also counts where more follows it: BABY BOY, BABY SMITH.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Final

PARTS: Final = ("whole", "either", "given", "date")
"""The whole name; given name or surname; given name; birth date."""


@cache
def placeholders() -> Mapping[str, Sequence[str]]:
    """The texts of each part."""
    with files("census_node.linking").joinpath("placeholders.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {part: tuple(row["text"] for row in rows if row["part"] == part) for part in PARTS}
