"""Parts of a document. Every text is English, best a `phrase`; a renderer says it in the reader's language."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from policy_lab.standing import Standing

# A number is shown as the language writes numbers, with the digits that its column asks for; None is an empty cell.
Cell = str | int | float | Fraction | None


@dataclass(frozen=True, slots=True)
class Paragraph:
    """One paragraph."""

    words: str


@dataclass(frozen=True, slots=True)
class Formula:
    """One line of mathematics, in plain characters, and what it says in words for those who do not see it."""

    line: str
    words: str


@dataclass(frozen=True, slots=True)
class Caution:
    """A warning that no reader may overlook."""

    words: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence, and the command that reproduces it; its output holds what is listed in `shows`."""

    words: str
    command: str
    shows: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """Where something comes from."""

    words: str
    address: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Figures in rows; `digits` after the point for numbers of each column (None: as they are)."""

    key: str
    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    digits: Sequence[int | None] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a plot."""

    title: str
    is_log: bool = False
    low: float | None = None
    high: float | None = None
    is_share: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a plot."""

    label: str
    points: Sequence[tuple[float, float]]
    kind: Literal["line", "steps", "dashes", "dots"] = "line"
    # Between what the line may be, as (x, low, high).
    band: Sequence[tuple[float, float, float]] = ()


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines over one pair of axes; `limits` are levels that nothing may pass."""

    key: str
    title: str
    description: str
    x: Axis
    y: Axis
    lines: Sequence[Line]
    limits: Sequence[tuple[str, float]] = ()


@dataclass(frozen=True, slots=True)
class Bars:
    """Groups of bars: `values[series][group]`, with standard errors or none."""

    key: str
    title: str
    description: str
    y: Axis
    groups: Sequence[str]
    series: Sequence[str]
    values: Sequence[Sequence[float]]
    errors: Sequence[Sequence[float]] = ()


@dataclass(frozen=True, slots=True)
class Heat:
    """A heat map: `values[row][column]` between `low` and `high`; None is an empty cell."""

    key: str
    title: str
    description: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float | None]]
    low: float
    high: float


Plot = Lines | Bars | Heat
Block = Paragraph | Formula | Caution | Claim | Source | Table | Lines | Bars | Heat


@dataclass(frozen=True, slots=True)
class Section:
    """One section. `citizen` and `specialist` explain the same thing to two readers; `blocks` are for both."""

    key: str
    title: str
    blocks: Sequence[Block]
    citizen: Sequence[Block] = ()
    specialist: Sequence[Block] = ()


@dataclass(frozen=True, slots=True)
class Document:
    """A whole document; `command` makes it again, or another one where noise is never drawn twice."""

    key: str
    title: str
    standing: Standing
    command: str
    sections: Sequence[Section]
    # A release: its command draws new noise, and spends epsilon anew.
    is_release: bool = False
