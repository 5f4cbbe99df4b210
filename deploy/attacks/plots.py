"""Plots of what attacks achieved: rates beside their curves with 95 % intervals, and what an attack draws itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from deploy.attacks import texts
from deploy.attacks.chances import fails_above, interval
from deploy.attacks.findings import FALSE_ALARM, Curve, Finding, Guesses, Noise, Report

_WIDTH, _HEIGHT = 9.0, 4.5
_INK, _LIMIT, _FAINT = "#1f4e79", "#b02418", "#8fa9c4"


def plot_reports(reports: Sequence[Report], file: Path) -> None:
    """Write a PNG of `draw_reports`."""
    draw_reports(reports).savefig(file, format="png", dpi=120)


def draw_reports(reports: Sequence[Report]) -> Figure:
    """For each attack its own curves, if it has some, and its findings, under one title."""
    panels = [(report, curves) for report in reports for curves in (True, False) if report.curves or not curves]
    figure = Figure(figsize=(_WIDTH, _HEIGHT * len(panels)), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (report, curves) in zip(figure.subplots(len(panels), 1, squeeze=False)[:, 0], panels, strict=True):
        (_draw_curves if curves else _draw_findings)(axes, report)
        if curves or not report.curves:
            axes.set_title(texts.PLOT_TITLE[report.held].format(attack=report.attack), loc="left", fontsize=11)
    return figure


def _draw_curves(axes: Axes, report: Report) -> None:
    said: set[str] = set()
    for curve in report.curves:
        label = "_" if curve.name in said else texts.CURVES[curve.name]
        said.add(curve.name)
        colour = _LIMIT if curve.limit else _FAINT if curve.name == "person" else None
        if curve.trials:
            _draw_points(axes, curve, label)
        else:
            axes.plot(curve.x, curve.y, label=label, color=colour, linewidth=2 if curve.limit else 1)
    if all(isinstance(x, int) for curve in report.curves for x in curve.x):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel(report.axes[0])
    axes.set_ylabel(report.axes[1])
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8)


def _draw_points(axes: Axes, curve: Curve, label: str) -> None:
    """Shares with their intervals; of a limit, strokes, and thin ones from where on the verdict fails."""
    if not curve.limit:
        ends = [interval(round(y * curve.trials), curve.trials) for y in curve.y]
        axes.vlines(curve.x, [end.low for end in ends], [end.high for end in ends], color=_INK, linewidth=2)
        axes.plot(curve.x, curve.y, label=label, color=_INK, marker="o", linestyle="none")
        return
    axes.plot(
        curve.x, curve.y, label=label, color=_LIMIT, marker="_", markersize=18, markeredgewidth=2, linestyle="none"
    )
    above = [(x, fails_above(curve.trials, y, FALSE_ALARM)) for x, y in zip(curve.x, curve.y, strict=True)]
    failing = [(x, share) for x, share in above if share is not None]
    axes.plot(
        [x for x, _ in failing],
        [share for _, share in failing],
        label=texts.PLOT_FAILS,
        color=_LIMIT,
        marker="_",
        markersize=18,
        markeredgewidth=0.7,
        linestyle="none",
    )


def _draw_findings(axes: Axes, report: Report) -> None:
    """Rates as dots with intervals, their curves as strokes; what is no rate is said in words."""
    rows = list(reversed(report.findings))
    for place, finding in enumerate(rows):
        if isinstance(finding, Guesses):
            low, high = finding.interval
            axes.plot([low, high], [place, place], color=_INK, linewidth=2, solid_capstyle="butt")
            axes.plot([finding.rate], [place], marker="o", color=_INK if finding.held else _LIMIT)
            axes.plot([finding.curve], [place], marker="|", markersize=18, markeredgewidth=2, color=_LIMIT)
            if finding.fails_above is not None:
                axes.vlines([finding.fails_above], place - 0.4, place + 0.4, color=_LIMIT, linewidth=0.7)
        else:
            axes.text(
                0.01, place, f"{texts.MARK[finding.held]} {finding.line()}".split("\n")[0], fontsize=6, va="center"
            )
    axes.set_yticks(range(len(rows)), [_label(row) for row in rows], fontsize=7)
    axes.set_xlim(0, 1)
    axes.set_ylim(-0.7, len(rows) - 0.3)
    axes.set_xlabel(texts.PLOT_RATES)
    axes.grid(axis="x", alpha=0.25)


def _label(finding: Finding) -> str:
    name = texts.FINDINGS[finding.name]
    return f"{name}, {' + '.join(map(str, finding.scales))}" if isinstance(finding, Noise) else name
