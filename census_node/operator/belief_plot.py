"""The picture of the belief report: how many people stand at which ceiling, the typical case, and the limit.

Drawn by the Agg backend into a PNG, without a screen and without the library's global state. A text beside it says what
it shows (`belief_report.plot_text`), for readers who do not see it.
"""

from __future__ import annotations

import io
from fractions import Fraction

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from broker_common.language import language_of_environment, said
from broker_common.privacy.policy import Policy
from broker_common.privacy.report import BANDS, BeliefReport, Spread
from census_node import texts
from census_node.operator.belief_report import band_names, bars_name, plain

WIDTH_PIXELS, HEIGHT_PIXELS = 1200, 750
_DOTS_PER_INCH = 120
_HALF = Fraction(1, 2)
# Told apart in print and by every kind of eye.
_COLOUR = "#1b6ca8"
_BAR_WIDTH = 0.8
# The axis in percent still shows one household in ten million.
_LEAST_PERCENT = 1e-6
_MOST_PERCENT = 200


def draw(report: BeliefReport, policy: Policy) -> bytes:
    """The plot as PNG, `WIDTH_PIXELS` by `HEIGHT_PIXELS`."""
    size = (WIDTH_PIXELS / _DOTS_PER_INCH, HEIGHT_PIXELS / _DOTS_PER_INCH)
    figure = Figure(figsize=size, dpi=_DOTS_PER_INCH, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    # Before anything is drawn: of bars that are all nothing no scale can be guessed.
    axes.set_yscale("log")
    name, percents = _bars(report, policy)
    axes.set_ylim(_least(percents), _MOST_PERCENT)
    axes.bar(range(len(percents)), percents, width=_BAR_WIDTH, color=_COLOUR, label=name)
    _lines(axes, report, policy)
    names = band_names(report, language_of_environment())
    axes.set_xticks(range(len(names)), names, fontsize="small")
    axes.set_title(said(texts.PLOT_TITLE))
    axes.set_xlabel(said(texts.PLOT_X))
    axes.set_ylabel(said(texts.PLOT_Y))
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    axes.yaxis.set_major_formatter(lambda percent, _: said("{percent:g} %", percent=percent))
    figure.legend(loc="outside lower center", ncols=2, fontsize="small")
    content = io.BytesIO()
    figure.savefig(content, format="png")
    return content.getvalue()


def _bars(report: BeliefReport, policy: Policy) -> tuple[str, list[float]]:
    """Who they are, and percent of all who stand at rest, in each band, above the limit."""
    if report.spread is None:
        everybody = [0.0] * (BANDS + 2)
        everybody[report.worst_place] = 100.0
        return said(texts.PLOT_EVERYBODY), everybody
    return bars_name(report.spread, policy, language_of_environment()), _percents(report.spread)


def _percents(spread: Spread) -> list[float]:
    return [100 * count / max(spread.people, 1) for count in spread.places]


def _least(percents: list[float]) -> float:
    """A power of ten below the lowest bar."""
    lowest = min((percent for percent in percents if percent), default=100.0)
    least = 1.0
    while least >= lowest and least > _LEAST_PERCENT:
        least /= 10
    return least


def _lines(axes: Axes, report: BeliefReport, policy: Policy) -> None:
    limit = said(texts.PLOT_LIMIT, belief=language_of_environment().exact(policy.max_belief))
    axes.axvline(_place(report, report.bands[-1].high), color="#b3261e", linewidth=2, label=limit)
    if report.typical_now is not None:
        belief = report.typical_now.expected_belief
        name = said(texts.PLOT_TYPICAL, belief=plain(belief))
        axes.axvline(_place(report, Fraction(belief)), color="#333333", linestyle="--", label=name)


def _place(report: BeliefReport, belief: Fraction) -> float:
    """Where a belief lies on an axis on which each band is 1 wide, the first from 0.5 to 1.5."""
    step = report.bands[0].high - report.bands[0].low
    return float(_HALF + (belief - _HALF) / step)
