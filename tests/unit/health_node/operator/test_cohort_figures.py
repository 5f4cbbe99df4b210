"""Sizes of cohorts, for the health agency's own staff: in bands, at fixed times, for enough questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event, Thread

import pytest

from broker_common.dashboard.cells import LEAST_CELL
from broker_common.errors import InternalError
from health_node.operator.cohort_figures import LEAST_QUESTIONS, band_of, compute_if_due, read_cohort_figures

DAY_MS = 86_400_000


def compute(home: Path, counts: Mapping[int, int] | Callable[[], Mapping[int, int]], now_ms: int = 0) -> bool:
    """A daily computation from counts by band."""
    read = counts if callable(counts) else lambda: counts
    return compute_if_due(home, read, now_ms=now_ms, period_ms=DAY_MS)


def test_a_size_is_known_by_its_digits() -> None:
    """Nothing finer is noted of any question."""
    sizes = (0, 1, 9, 10, 99, 100, 15_000_000)
    assert [band_of(size) for size in sizes] == [0, 1, 1, 2, 2, 3, 8]


def test_figures_between_two_questions_are_the_same(tmp_path: Path) -> None:
    """None for a few questions, none before the period is over, none for a few new ones, no matter who looks or restarts."""
    assert not compute(tmp_path, {1: LEAST_QUESTIONS - 1})
    assert compute(tmp_path, {1: LEAST_QUESTIONS})
    before = read_cohort_figures(tmp_path)
    assert not compute(tmp_path, {1: 1_000}, DAY_MS - 1)
    assert not compute(tmp_path, {1: 2 * LEAST_QUESTIONS - 1}, 9 * DAY_MS)
    assert read_cohort_figures(tmp_path) == before
    assert compute(tmp_path, {1: 2 * LEAST_QUESTIONS}, 9 * DAY_MS)


@pytest.mark.parametrize("band", range(8))
def test_the_band_of_one_question_among_ten_does_not_show(tmp_path: Path, band: int) -> None:
    """Nine chosen questions and one more: wherever below them the one falls, the figures are the same."""
    compute(tmp_path, {8: 30})
    assert compute(tmp_path, {8: 39, band: 1}, DAY_MS)
    figures = read_cohort_figures(tmp_path)
    assert figures is not None
    assert figures.bands == ((0, 10**8 - 1, 40),)


def test_no_band_of_a_few_questions_is_shown(tmp_path: Path) -> None:
    """Small and empty bands are joined, the highest one too; the rest is rounded to tens."""
    assert compute(tmp_path, {1: 25, 3: 5})
    figures = read_cohort_figures(tmp_path)
    assert figures is not None
    assert figures.bands == ((0, 999, 30),)
    assert compute(tmp_path, {1: 25, 3: 19}, DAY_MS)
    figures = read_cohort_figures(tmp_path)
    assert figures is not None
    assert figures.bands == ((0, 99, 20), (100, 999, 10))
    assert all(number % LEAST_CELL == 0 for _, _, number in figures.bands)


def test_two_dashboards_at_once_compute_once(tmp_path: Path) -> None:
    """The second one waits, and then finds the first one's figures."""
    later: list[bool] = []
    began = Event()

    def second() -> None:
        began.set()
        later.append(compute(tmp_path, {1: LEAST_QUESTIONS + 1}))

    other = Thread(target=second)

    def read() -> Mapping[int, int]:
        other.start()
        began.wait()
        other.join(0.05)
        assert later == []
        return {1: LEAST_QUESTIONS}

    assert compute(tmp_path, read)
    other.join()
    assert later == [False]
    figures = read_cohort_figures(tmp_path)
    assert figures is not None
    assert figures.questions == LEAST_QUESTIONS


def test_a_damaged_file_is_said(tmp_path: Path) -> None:
    """Replacing it silently would be a second computation."""
    (tmp_path / "cohort-figures.json").write_text("{")
    with pytest.raises(InternalError, match="INTEGRITY"):
        compute(tmp_path, {1: 1_000})
