"""Plots by the Agg and SVG backends, without a screen: one drawing for pages, PDF and image files.

Lines differ by mark and dash, bars by hatching, levels by a number in each cell, so that nothing is said by colour alone.
"""

from __future__ import annotations

import io
import itertools
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis as DrawnAxis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, get_font
from matplotlib.image import AxesImage
from matplotlib.ticker import FuncFormatter, LogLocator

from broker_common.language import Language
from policy_lab.document import texts
from policy_lab.document.model import Axis, Bars, Heat, Line, Lines, Plot
from policy_lab.document.numbers import shown
from policy_lab.document.said import printable

_WIDTH_INCHES, _HEIGHT_INCHES = 7.2, 4.2
# On a telephone a plot is drawn for its width, or nobody could read it.
_NARROW_INCHES = 4.2
_DOTS_PER_INCH = 150
# A row of a heat map needs so much room, and what stands around the map.
_HEAT_ROW_INCHES, _HEAT_REST_INCHES = 0.34, 1.6
_MOST_INCHES = 40
# A longer legend makes the figure higher, or nothing would be left for the axes.
_FEW_LEGEND_ROWS, _LEGEND_ROW_INCHES = 6, 0.2
# Above it the figures in the cells of a heat map would touch each other.
_MOST_COLUMNS_WITH_FIGURES = 16
_MOST_FLAT_NAMES = 6
_LONG_NAME = 14
# Longest name beside an axis.
_MOST_CHARACTERS = 30
# So much of each side of a bar's place stays free.
_GROUP_WIDTH = 0.8
# A ground of more light than this is written on in ink.
_PALE = 0.5
_MARKERS = "osD^vPX*"
# Colours of solid lines, in order; dashed lines have their own dash.
_DASHES = ("-", (0, (7, 2, 1.5, 2)), (0, (1.5, 1.5)), (0, (10, 2)))
_BROKEN = (0, (5, 3))
# So few dots are single places to be found, and no cloud.
_FEW_DOTS = 3
# An axis of powers of ten over fewer of them has marks between them as well.
_FEW_DECADES = 4
_HATCHES = ("", "///", "...", "\\\\\\", "xxx", "+++", "ooo", "---")
_FONT = "DejaVu Sans"
_BOX = "\N{WHITE SQUARE}"
# Settings of the whole library that make files of one plot equal.
_SETTINGS: Any = {"svg.hashsalt": "tripartite", "svg.fonttype": "path", "font.family": [_FONT], "font.size": 10}
_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class _Palette:
    """Colours of the pages' style sheet, told apart by every kind of eye and at least 3:1 on their paper."""

    paper: str
    ink: str
    faint: str
    rule: str
    limit: str
    lines: Sequence[str]
    heat: Sequence[str]


_LIGHT = _Palette(
    paper="#ffffff",
    ink="#14202e",
    faint="#4b5a6b",
    rule="#d5dbe3",
    limit="#96260d",
    lines=("#23649f", "#c2570c", "#0b7a5b", "#8a3d8f", "#4b5a6b", "#7a4a00"),
    heat=("#f2f6fa", "#7fb0dc", "#16324f"),
)
_DARK = _Palette(
    paper="#17212d",
    ink="#e9eef4",
    faint="#a9b6c5",
    rule="#313e4d",
    limit="#ff9b7d",
    lines=("#5c9fe4", "#ffb454", "#4fd1a5", "#d79be0", "#b6c4d4", "#f5d58a"),
    heat=("#1c2a38", "#3f78b0", "#cfe4f8"),
)


def draw(
    plot: Plot, t: Language, *, form: Literal["svg", "png"], dark: bool = False, narrow: bool = False, mark: str = ""
) -> bytes:
    """The plot; with a mark it stands alone, and has its title as well."""
    with _LOCK, mpl.rc_context(_SETTINGS):
        palette = _DARK if dark else _LIGHT
        figure = Figure(figsize=_size(plot, narrow), dpi=_DOTS_PER_INCH, layout="constrained", facecolor=palette.paper)
        axes = figure.add_subplot(facecolor=palette.paper)
        _dress(axes, palette)
        if isinstance(plot, Lines):
            _lines(axes, plot, t, palette)
        elif isinstance(plot, Bars):
            _bars(axes, plot, t, palette)
        else:
            _heat(axes, plot, t, palette)
        _legend(figure, axes, palette, columns=_legend_columns(narrow))
        if mark:
            axes.set_title(_plain(t(plot.title)), color=palette.ink, wrap=True)
            figure.suptitle(_plain(t(mark)), color=palette.limit, fontsize="small", wrap=True)
        content = io.BytesIO()
        with warnings.catch_warnings():
            # Names that leave no room are the author's: the library's advice to programmers is nothing to them.
            warnings.filterwarnings("ignore", "constrained_layout not applied", UserWarning)
            # Not by `savefig`: it draws once more, for the layout alone.
            canvas: Any = FigureCanvasSVG(figure) if form == "svg" else FigureCanvasAgg(figure)
            if form == "svg":
                canvas.print_svg(content, metadata={"Date": None})
            else:
                canvas.print_png(content, metadata={"Software": None})
        return content.getvalue()


def _size(plot: Plot, narrow: bool) -> tuple[float, float]:
    width = _NARROW_INCHES if narrow else _WIDTH_INCHES
    if isinstance(plot, Heat):
        return width, min(_MOST_INCHES, _HEAT_REST_INCHES + _HEAT_ROW_INCHES * len(plot.rows))
    named = len(plot.series) if isinstance(plot, Bars) else len(plot.lines) + len(plot.limits)
    more = max(0, named // _legend_columns(narrow) - _FEW_LEGEND_ROWS)
    return width, min(_MOST_INCHES, _HEIGHT_INCHES + _LEGEND_ROW_INCHES * more)


def _legend_columns(narrow: bool) -> int:
    return 1 if narrow else 2


@cache
def _glyphs() -> frozenset[int]:
    return frozenset(get_font(findfont(_FONT)).get_charmap())


def _plain(text: str) -> str:
    """A text whose dollar signs are no mathematics; a character that the font does not have is a box. Tables have it whole."""
    drawn = "".join(each if ord(each) in _glyphs() or each == "\n" else _BOX for each in printable(text))
    return drawn.replace("$", r"\$")


def _short(name: str) -> str:
    """A name with room left for the plot; tables have it whole."""
    return name if len(name) <= _MOST_CHARACTERS else f"{name[: _MOST_CHARACTERS - 1]}…"


def _dress(axes: Axes, palette: _Palette) -> None:
    axes.tick_params(colors=palette.faint, labelsize="small")
    for side, spine in axes.spines.items():
        spine.set_visible(side in {"left", "bottom"})
        spine.set_color(palette.faint)
    axes.set_axisbelow(True)


def _lines(axes: Axes, plot: Lines, t: Language, palette: _Palette) -> None:
    axes.grid(color=palette.rule, linewidth=0.6)
    dashes = itertools.cycle(_DASHES)
    for number, line in enumerate(plot.lines):
        _line(axes, line, t, number, _BROKEN if line.kind == "dashes" else next(dashes), palette)
    for label, level in plot.limits:
        value = _on(plot.y, level, t)
        axes.axhline(level, color=palette.limit, linewidth=2, label=_plain(t(texts.LIMIT, label=t(label), value=value)))
    _scale(axes.xaxis, plot.x, t, palette, axes.set_xscale, axes.set_xlim)
    _scale(axes.yaxis, plot.y, t, palette, axes.set_yscale, axes.set_ylim)
    axes.set_xlabel(_plain(t(plot.x.title)))
    axes.set_ylabel(_plain(t(plot.y.title)))


def _line(axes: Axes, line: Line, t: Language, number: int, dash: Any, palette: _Palette) -> None:
    colour = palette.lines[number % len(palette.lines)]
    x, y = [point[0] for point in line.points], [point[1] for point in line.points]
    style: dict[str, Any] = {
        "color": colour,
        "label": _plain(t(line.label)),
        "marker": _MARKERS[number % len(_MARKERS)],
        "markersize": 4,
        # A few marks tell a line from another; one at each of a thousand points would hide it.
        "markevery": max(1, len(x) // 12),
    }
    if line.kind == "dots":
        few = {"marker": "D", "markersize": 10, "color": palette.limit, "markeredgecolor": palette.ink, "zorder": 4}
        axes.plot(x, y, linestyle="none", **(style | {"markevery": 1} | (few if len(x) <= _FEW_DOTS else {})))
    elif line.kind == "steps":
        axes.step(x, y, where="post", linestyle=dash, **style)
    else:
        axes.plot(x, y, linestyle=dash, **style)
    if line.band:
        places = [place for place, _, _ in line.band]
        axes.fill_between(
            places,
            [low for _, low, _ in line.band],
            [high for _, _, high in line.band],
            color=colour,
            alpha=0.2,
            linewidth=0,
        )


def _scale(
    drawn: DrawnAxis,
    axis: Axis,
    t: Language,
    palette: _Palette,
    set_scale: Callable[[str], None],
    set_ends: Callable[[float | None, float | None], object],
) -> None:
    if axis.is_log:
        set_scale("log")
    if axis.low is not None or axis.high is not None:
        set_ends(axis.low, axis.high)
    drawn.set_major_formatter(FuncFormatter(lambda value, _: _on(axis, value, t)))
    if axis.is_log:
        low, high = drawn.get_view_interval()
        if high < low * 10**_FEW_DECADES:
            drawn.set_major_locator(LogLocator(subs=(1, 2, 5)))
        drawn.set_minor_formatter(FuncFormatter(lambda _value, _: ""))
    drawn.label.set_color(palette.ink)


def _on(axis: Axis, value: float, t: Language) -> str:
    """A value of an axis in words, with the digits that it has."""
    if not axis.is_share:
        return shown(float(f"{value:.6g}"), None, t)
    percent = f"{100 * value:.4f}".rstrip("0").rstrip(".")
    return t.percent(value, len(percent.partition(".")[2]))


def _bars(axes: Axes, plot: Bars, t: Language, palette: _Palette) -> None:
    axes.grid(axis="y", color=palette.rule, linewidth=0.6)
    width = _GROUP_WIDTH / max(1, len(plot.series))
    errors = itertools.chain(plot.errors, itertools.repeat(None))
    for number, (name, values, spread) in enumerate(zip(plot.series, plot.values, errors, strict=False)):
        places = [group - _GROUP_WIDTH / 2 + (number + 0.5) * width for group in range(len(plot.groups))]
        axes.bar(
            places,
            values,
            width=width,
            yerr=spread,
            label=_plain(t(name)),
            facecolor=palette.lines[number % len(palette.lines)],
            edgecolor=palette.paper,
            hatch=_HATCHES[number % len(_HATCHES)],
            ecolor=palette.ink,
            capsize=2,
        )
    _names(axes, [t(group) for group in plot.groups])
    _scale(axes.yaxis, plot.y, t, palette, axes.set_yscale, axes.set_ylim)
    axes.set_ylabel(_plain(t(plot.y.title)))


def _names(axes: Axes, names: Sequence[str]) -> None:
    """Names below the columns, slanted where they would touch each other."""
    slanted = len(names) > _MOST_FLAT_NAMES or any(len(name) > _LONG_NAME for name in names)
    turn: dict[str, Any] = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"} if slanted else {}
    axes.set_xticks(range(len(names)), [_plain(_short(name)) for name in names], **turn)


def _heat(axes: Axes, plot: Heat, t: Language, palette: _Palette) -> None:
    colours = LinearSegmentedColormap.from_list("heat", palette.heat)
    values = [[float("nan") if value is None else value for value in row] for row in plot.values]
    image = axes.imshow(values, cmap=colours, vmin=plot.low, vmax=plot.high, aspect="auto")
    _names(axes, [t(name) for name in plot.columns])
    axes.set_yticks(range(len(plot.rows)), [_plain(_short(t(name))) for name in plot.rows])
    for spine in axes.spines.values():
        spine.set_visible(False)
    bar = axes.figure.colorbar(image, ax=axes, format=FuncFormatter(lambda value, _: shown(float(value), None, t)))
    bar.ax.tick_params(colors=palette.faint, labelsize="small")
    if len(plot.columns) <= _MOST_COLUMNS_WITH_FIGURES:
        _cells(axes, plot, t, image)


def _cells(axes: Axes, plot: Heat, t: Language, image: AxesImage) -> None:
    """The figure in each cell, dark on pale colours and white on dark ones."""
    for row, values in enumerate(plot.values):
        for column, value in enumerate(values):
            if value is not None:
                red, green, blue, _ = image.to_rgba(np.array(value))
                is_pale = 0.3 * red + 0.59 * green + 0.11 * blue > _PALE
                ink = _LIGHT.ink if is_pale else _LIGHT.paper
                axes.text(column, row, shown(value, 2, t), ha="center", va="center", color=ink, fontsize="x-small")


def _legend(figure: Figure, axes: Axes, palette: _Palette, *, columns: int) -> None:
    handles, labels = axes.get_legend_handles_labels()
    if labels:
        legend = figure.legend(
            handles, labels, loc="outside lower center", ncols=columns, fontsize="small", frameon=False
        )
        for text in legend.get_texts():
            text.set_color(palette.ink)
