"""Plots of attacks: what stands where, and what is joined by a line."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from deploy.attacks import texts
from deploy.attacks.findings import Curve, Guesses, Report, Within
from deploy.attacks.plots import draw_reports

FINDINGS = (Guesses("first_record", 40, 60, 0.5), Within("counted_units", 3, 4))
NUMBERS = [0, 1, 2]
POINTS = Report(
    "cards",
    FINDINGS,
    9,
    curves=(
        Curve("typical", NUMBERS, [0.5, 0.7, 0.7], limit=True, trials=60),
        Curve("attackers", NUMBERS, [0.5, 0.7, 0.6], trials=60),
    ),
    axes=("answers", "share"),
)
LINES = Report("tracker", FINDINGS, 9, curves=(Curve("attackers", NUMBERS, [0.5, 0.7, 0.6]),), axes=("people", "share"))


def drawn(*reports: Report) -> list[Axes]:
    """The panels."""
    return draw_reports(reports).axes


def uprights(axes: Axes) -> list[tuple[float, float, float]]:
    """Vertical strokes: where, from and to."""
    return [
        (float(line[0][0]), float(line[0][1]), float(line[1][1]))
        for collection in axes.collections
        if isinstance(collection, LineCollection)
        for line in collection.get_segments()
    ]


def test_an_attack_has_one_title() -> None:
    """Over its curves where it has some, over its findings otherwise."""
    without = Report("quote", FINDINGS, 9)
    titles = [axes.get_title(loc="left") for axes in drawn(POINTS, without)]
    assert titles == ["cards: held", "", "quote: held"]


def test_shares_of_different_questions_are_points_with_intervals() -> None:
    """Nothing lies between them, so that nothing joins them; a share along the way is a line."""
    (points, _), (lines, _) = drawn(POINTS), drawn(LINES)
    assert {line.get_linestyle() for line in points.get_lines()} == {"None"}
    assert len(uprights(points)) == len(NUMBERS)
    assert {line.get_linestyle() for line in lines.get_lines()} == {"-"}
    (fails,) = (line for line in points.get_lines() if line.get_label() == texts.PLOT_FAILS)
    assert np.asarray(fails.get_ydata())[0] == pytest.approx(0.8)


def test_answers_are_counted_in_whole_numbers() -> None:
    """There is no half answer to look for."""
    for report in (POINTS, LINES):
        assert all(float(tick).is_integer() for tick in drawn(report)[0].get_xticks())


def test_where_a_verdict_fails_is_a_line_at_its_finding() -> None:
    """At the share that the text says."""
    (stroke,) = uprights(drawn(POINTS)[1])
    assert stroke[0] == pytest.approx(FINDINGS[0].fails_above)
    # The finding stands above the other one.
    assert stroke[1] < 1 < stroke[2]
