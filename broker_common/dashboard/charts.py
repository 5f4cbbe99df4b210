"""Charts as SVG made on the server: they need no script, follow the page's colours, and print.

Places are percentages of the width and texts have the page's own size, so that a chart can be read on a telephone and on a wall.
Lines are images with a title and a description for screen readers; bars and ranges stand in the table of their figures. Colours
and fonts come from classes in the style sheet. Shapes and hatching, not colours alone, tell things apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

# Room for the labels of a chart of lines, and its plot, in pixels of a page whose text has 16.
_TOP, _PLOT, _BOTTOM = 26, 220, 28
# A table with more columns has no room for a drawing on a telephone.
_NARROW = 3
# A line is drawn in a square of this side and stretched to the plot.
_SQUARE = 1000


@dataclass(frozen=True, slots=True)
class Mark:
    """A labelled place on a scale from 0 to 1; the note stands below the label."""

    place: float
    label: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar with its label, its size, and the size in words; `more` are further figures of its row."""

    label: str
    value: float
    shown: str
    more: tuple[str, ...] = ()
    # A second column of words.
    by: str = ""


@dataclass(frozen=True, slots=True)
class Range:
    """From `low` to `high`, most likely at `middle`; None: further than anybody looks. `cells` are its figures in words."""

    low: float | None
    middle: float | None
    high: float | None
    cells: Sequence[str]


@dataclass(frozen=True, slots=True)
class Series:
    """A line of points (x, y), both between 0 and 1, in the order of x."""

    points: Sequence[tuple[float, float]]
    kind: str = "line"


def gauge(key: str, title: str, description: str, *, value: Mark, limit: Mark, scale: Sequence[Mark]) -> Markup:
    """How far along a scale `value` has come, with `limit` as a line that it may not pass."""
    top, height = 58, 40
    bottom = top + height
    end, edge = _percent(limit.place), _percent(value.place)
    over = value.place > limit.place
    # Hatched: what may never be reached is told from what has not been reached by more than its colour.
    pattern = (
        f'<pattern id="{key}-hatch" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        '<line class="hatch" x1="0" y1="0" x2="0" y2="8"/></pattern>'
    )
    beyond = f'x="{end}" y="{_rem(top)}" width="{_percent(1 - _inside(limit.place))}" height="{_rem(height)}"'
    parts = [
        f"<defs>{pattern}</defs>",
        f'<rect class="track" x="0" y="{_rem(top)}" width="100%" height="{_rem(height)}"/>',
        f'<rect class="beyond" {beyond}/><rect fill="url(#{key}-hatch)" {beyond}/>',
        f'<rect class="{"fill alert" if over else "fill"}" x="0" y="{_rem(top)}" width="{edge}" height="{_rem(height)}"/>',
    ]
    for mark in scale:
        at = _percent(mark.place)
        parts.append(f'<line class="axis" x1="{at}" x2="{at}" y1="{_rem(bottom)}" y2="{_rem(bottom + 6)}"/>')
        kind = "label faint" if mark.note else "label faint minor"
        parts.append(_text(mark.place, bottom + 24, mark.label, kind, _anchor(mark.place, 0.05)))
        if mark.note:
            parts.append(_text(mark.place, bottom + 42, mark.note, "label faint", _anchor(mark.place, 0.05)))
    parts += [
        # With a pale edge, or it would be lost on a bar that has passed it.
        f'<line class="halo" x1="{end}" x2="{end}" y1="{_rem(22)}" y2="{_rem(bottom + 6)}"/>',
        f'<line class="limit" x1="{end}" x2="{end}" y1="{_rem(22)}" y2="{_rem(bottom + 6)}"/>',
        _text(limit.place, 16, limit.label, "label limit-label", _anchor(limit.place)),
        _text(value.place, top - 3, "\N{BLACK DOWN-POINTING TRIANGLE}", "label pointer", "middle"),
        _beside(value.place, top - 18, value.label),
    ]
    return _svg(key, title, description, bottom + 48, parts)


def bars(key: str, caption: str, heads: Sequence[str], rows: Sequence[Bar]) -> Markup:
    """A table whose figures are drawn as horizontal bars, longest for the largest value."""
    most = max((row.value for row in rows), default=0.0) or 1.0
    return _table(
        key,
        caption,
        heads,
        [((row.label, *([row.by] if row.by else []), row.shown, *row.more), _bar(row.value / most)) for row in rows],
        words=2 if any(row.by for row in rows) else 1,
    )


def ranges(key: str, caption: str, heads: Sequence[str], rows: Sequence[Range]) -> Markup:
    """A table of forecasts, each drawn as a stroke from early to late with a dot where the middle lies."""
    known = [place for row in rows for place in (row.low, row.middle, row.high) if place is not None]
    most = max(known, default=0.0) or 1.0
    return _table(key, caption, heads, [(tuple(row.cells), _stroke(row, most)) for row in rows])


def steps(
    key: str,
    title: str,
    description: str,
    series: Sequence[Series],
    *,
    x_marks: Sequence[Mark],
    y_marks: Sequence[Mark],
    limit: Mark | None = None,
) -> Markup:
    """Lines over a plane: `line` series are drawn as steps over a filled ground, `forecast` series dashed."""
    base = _TOP + _PLOT

    def at(place: float) -> float:
        return _TOP + _PLOT * (1 - _inside(place))

    parts = [
        f'<line class="grid" x1="0" x2="100%" y1="{_rem(at(mark.place))}" y2="{_rem(at(mark.place))}"/>'
        for mark in y_marks
    ]
    plot = "".join(_line(each) for each in series)
    parts.append(
        f'<svg x="0" y="{_rem(_TOP)}" width="100%" height="{_rem(_PLOT)}" viewBox="0 0 {_SQUARE} {_SQUARE}" preserveAspectRatio="none" '
        f'overflow="visible">{plot}</svg>'
    )
    parts.append(f'<line class="axis" x1="0" x2="100%" y1="{_rem(base)}" y2="{_rem(base)}"/>')
    parts += [_text(0, at(mark.place) - 6, mark.label, "label faint", "start") for mark in y_marks]
    parts += [_text(mark.place, base + 20, mark.label, "label faint", _anchor(mark.place)) for mark in x_marks]
    if limit is not None:
        y = at(limit.place)
        parts.append(f'<line class="limit" x1="0" x2="100%" y1="{_rem(y)}" y2="{_rem(y)}"/>')
        parts.append(_text(1, y - 8, limit.label, "label limit-label", "end"))
    return _svg(key, title, description, base + _BOTTOM, parts)


def _line(series: Series) -> str:
    points = [(_SQUARE * _inside(x), _SQUARE * (1 - _inside(y))) for x, y in series.points]
    if not points:
        return ""
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for x, y in points[1:]:
        path += f"L{x:.1f} {y:.1f}" if series.kind == "forecast" else f"H{x:.1f}V{y:.1f}"
    ground = ""
    if series.kind == "line":
        ground = f'<path class="ground" d="{path}V{_SQUARE}H{points[0][0]:.1f}z"/>'
    return f'{ground}<path class="{escape(series.kind)}" d="{path}"/>'


def _bar(share: float) -> str:
    shown = f'<rect class="fill" x="0" y="15%" width="{_percent(share)}" height="70%"/>' if share > 0 else ""
    return f'<svg class="stroke" width="100%" height="1.4rem" aria-hidden="true">{shown}</svg>'


def _stroke(row: Range, most: float) -> str:
    low, high = (1.0 if place is None else place / most for place in (row.low, row.high))
    parts = [
        '<line class="grid" x1="0" x2="100%" y1="50%" y2="50%"/>',
        f'<line class="reach" x1="{_percent(low)}" x2="{_percent(high)}" y1="50%" y2="50%"/>',
    ]
    if row.middle is not None:
        parts.append(f'<circle class="fill" cx="{_percent(row.middle / most)}" cy="50%" r="6"/>')
    return f'<svg class="stroke" width="100%" height="1.4rem" aria-hidden="true">{"".join(parts)}</svg>'


def _table(
    key: str, caption: str, heads: Sequence[str], rows: Sequence[tuple[Sequence[str], str]], *, words: int = 1
) -> Markup:
    """The drawing stands in a cell of its own, which screen readers leave out: it says the same as the figures.

    The first `words` columns are words, the others figures.
    """

    def kind(column: int) -> str:
        return "" if column < words else ' class="number"'

    def cell(column: int, text: str) -> str:
        tag, role = ("td", "cell") if column else ('th scope="row"', "rowheader")
        head = f' data-head="{escape(heads[column])}"'
        return f'<{tag} role="{role}"{kind(column)}{head}><span>{escape(text)}</span></{tag[:2]}>'

    # With roles: a telephone shows each row of a wide table as a block, which would take its own away.
    head = "".join(
        f'<th scope="col" role="columnheader"{kind(column)}>{escape(each)}</th>' for column, each in enumerate(heads)
    )
    body = "".join(
        f'<tr role="row">{"".join(cell(column, each) for column, each in enumerate(cells))}'
        f'<td class="drawn" aria-hidden="true">{drawn}</td></tr>'
        for cells, drawn in rows
    )
    text = (
        f'<table role="table" class="{"bars wide stack" if len(heads) > _NARROW else "bars"}" id="{key}">'
        f'<caption>{escape(caption)}</caption><thead role="rowgroup"><tr role="row">{head}'
        f'<td class="drawn" aria-hidden="true"></td></tr></thead><tbody role="rowgroup">{body}</tbody></table>'
    )
    return Markup(text)  # noqa: S704 - every text in it is escaped above


def _inside(place: float) -> float:
    return min(max(place, 0.0), 1.0)


def _rem(pixels: float) -> str:
    """A height that grows with the page's text."""
    return f"{pixels / 16:.3f}rem"


def _percent(place: float) -> str:
    return f"{100 * _inside(place):.2f}%"


def _anchor(place: float, margin: float = 0.15) -> str:
    if place < margin:
        return "start"
    return "end" if place > 1 - margin else "middle"


def _text(place: float, y: float, text: str, kind: str, anchor: str) -> str:
    return f'<text class="{kind}" x="{_percent(place)}" y="{_rem(y)}" text-anchor="{anchor}">{escape(text)}</text>'


def _beside(place: float, y: float, text: str) -> str:
    """A text to the left or right of a place, where there is room, and off the line that may stand there."""
    anchor, off = ("end", "-.6em") if place > 0.4 else ("start", ".6em")  # noqa: PLR2004 - room for it
    return (
        f'<text class="label strong" x="{_percent(place)}" dx="{off}" y="{_rem(y)}" text-anchor="{anchor}">'
        f"{escape(text)}</text>"
    )


def _svg(key: str, title: str, description: str, height: float, parts: Sequence[str]) -> Markup:
    head = (
        f'<svg class="chart" width="100%" height="{_rem(height)}" role="img" aria-labelledby="{key}-title {key}-desc">'
        f'<title id="{key}-title">{escape(title)}</title><desc id="{key}-desc">{escape(description)}</desc>'
    )
    return Markup(head + "".join(parts) + "</svg>")  # noqa: S704 - every text in it is escaped above
