"""Plots of what attacks achieved: rates beside their curves with 95 % intervals, and what an attack draws itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from deploy.attacks import texts
from deploy.attacks.findings import Finding, Guesses, Noise, Report

__all__ = ["plot_reports"]

_WIDTH, _HEIGHT = 9.0, 4.5
_INK, _LIMIT, _FAINT = "#1f4e79", "#b02418", "#8fa9c4"


def plot_reports(reports: Sequence[Report], file: Path) -> None:
    """Write a PNG: for each attack its own curves, if it has some, and its findings."""
    panels = [(report, curves) for report in reports for curves in (True, False) if report.curves or not curves]
    figure = Figure(figsize=(_WIDTH, _HEIGHT * len(panels)), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (report, curves) in zip(figure.subplots(len(panels), 1, squeeze=False)[:, 0], panels, strict=True):
        (_draw_curves if curves else _draw_findings)(axes, report)
        axes.set_title(texts.PLOT_TITLE[report.held].format(attack=report.attack), loc="left", fontsize=11)
    figure.savefig(file, format="png", dpi=120)


def _draw_curves(axes: Axes, report: Report) -> None:
    said: set[str] = set()
    for curve in report.curves:
        label = "_" if curve.name in said else texts.CURVES[curve.name]
        said.add(curve.name)
        colour = _LIMIT if curve.limit else _FAINT if curve.name == "person" else None
        axes.plot(curve.x, curve.y, label=label, color=colour, linewidth=2 if curve.limit else 1)
    axes.set_xlabel(report.axes[0])
    axes.set_ylabel(report.axes[1])
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8)


def _draw_findings(axes: Axes, report: Report) -> None:
    """Rates as dots with intervals, their curves as strokes; what is no rate is said in words."""
    rows = list(reversed(report.findings))
    for place, finding in enumerate(rows):
        if isinstance(finding, Guesses):
            low, high = finding.interval
            axes.plot([low, high], [place, place], color=_INK, linewidth=2, solid_capstyle="butt")
            axes.plot([finding.rate], [place], marker="o", color=_INK if finding.held else _LIMIT)
            axes.plot([finding.curve], [place], marker="|", markersize=18, markeredgewidth=2, color=_LIMIT)
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
