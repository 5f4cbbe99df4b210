"""Figures about people: at fixed times, for enough answers, in cells of enough people; attacks on what differences tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import numpy as np
import pytest
from fakes.world import make_policy
from hypothesis import given
from hypothesis import strategies as st

from broker_common.dashboard.cells import LEAST_CELL
from broker_common.errors import InternalError
from broker_common.privacy.accounting import price
from broker_common.privacy.policy import Policy
from broker_common.privacy.report import Charges
from census_node.operator.belief_report import Facts
from census_node.operator.staff_figures import FIGURES_FILE, LEAST_ANSWERS, Figures, FiguresFile, figures_of

DAY_MS = 86_400_000
HOUR_MS = 3_600_000
SCALE = 20
PRICE = price(SCALE)
POLICY = make_policy(accounting="per_person")


def facts(answers: int = 40, *, strict: int = 0, policy: Policy = POLICY) -> Facts:
    """A log with so many answers about samples, and so many that everybody was charged for."""
    return Facts(
        policy=policy,
        policy_hash="",
        answers=answers + strict,
        common=Counter({SCALE: strict} if strict else {}),
        sampled=Counter({SCALE: answers} if answers else {}),
        units=answers * PRICE,
        log_size=0,
        release="",
        linkage="",
        dictionary="",
        dictionary_adopted="",
        dictionary_changed=False,
        shut_down=False,
        shutdown_reason="",
        shutdown_note="",
        shutdown_ms=0,
    )


def charges(*groups: tuple[int, int]) -> Charges:
    """Groups of so many people who were charged so many units each; everybody is a subject."""
    units = np.concatenate([np.full(people, each, np.uint32) for people, each in groups])
    return Charges(units, floor=0)


def shown(held: Charges | None, log: Facts | None = None, *, share: int = 1) -> Figures:
    """The figures of ledgers at a fixed instant."""
    return figures_of(facts() if log is None else log, held, as_of_ms=0, next_ms=DAY_MS, alert_share=share)


def computed(answers: int, sampled: int | None = None, charged: int = 0) -> Callable[[int], Figures]:
    """Result of a computation that sees so many answers; `charged` tells computations apart."""

    def make(next_ms: int) -> Figures:
        sample = answers if sampled is None else sampled
        return Figures(0, next_ms, answers, sample, (), charged, None, None, None, None, ())

    return make


@pytest.fixture
def file(tmp_path: Path) -> FiguresFile:
    """The figures of one home, computed daily."""
    return FiguresFile(tmp_path, DAY_MS)


# --- when they are computed -------------------------------------------------------------------------------------------


def test_nothing_is_computed_for_a_few_answers(file: FiguresFile) -> None:
    """The first figures come when no single answer can be told from them."""
    assert not file.is_due(0, LEAST_ANSWERS - 1, LEAST_ANSWERS - 1)
    assert file.is_due(0, LEAST_ANSWERS, LEAST_ANSWERS)


def test_looking_between_two_answers_shows_the_same(file: FiguresFile, tmp_path: Path) -> None:
    """Looks before and after any number of answers, after restarts, or in another dashboard show one computation."""
    assert file.compute_if_due(0, 10, 10, computed(10))
    before = (tmp_path / FIGURES_FILE).read_bytes()
    for now_ms in range(0, DAY_MS, DAY_MS // 7):
        assert not FiguresFile(tmp_path, DAY_MS).compute_if_due(now_ms, 10_000, 10_000, computed(10_000))
    assert (tmp_path / FIGURES_FILE).read_bytes() == before


def test_a_day_with_one_answer_brings_no_new_figures(file: FiguresFile) -> None:
    """Two computations are always at least `LEAST_ANSWERS` answers apart."""
    file.compute_if_due(0, 40, 40, computed(40))
    few, enough = 40 + LEAST_ANSWERS - 1, 40 + LEAST_ANSWERS
    assert not file.is_due(10 * DAY_MS, few, few)
    assert file.is_due(10 * DAY_MS, enough, enough)


def test_answers_charged_to_everybody_hide_no_answer_about_a_sample(file: FiguresFile) -> None:
    """Nine strict answers and one about a sample: the ledger of persons would move by that one alone."""
    assert not file.is_due(0, 10, 1)
    assert file.is_due(0, 10, 0)
    file.compute_if_due(0, 10, 0, computed(10, 0))
    assert not file.is_due(DAY_MS, 50, 9)
    assert file.is_due(DAY_MS, 50, 10)


def test_an_answer_that_comes_while_the_ledgers_are_read_is_not_the_only_one(file: FiguresFile) -> None:
    """The log is read after the ledgers: figures that may hold a single new answer about a sample are not kept."""
    assert not file.compute_if_due(0, 10, 0, computed(11, 1))
    assert file.read() is None
    assert file.compute_if_due(0, 10, 0, computed(10, 0))


def test_two_dashboards_at_once_compute_once(file: FiguresFile, tmp_path: Path) -> None:
    """Both find that figures are due. The second waits, and keeps the first one's instead of ones that are an answer later."""
    at_once, made = Barrier(2), []

    def compute(answers: int) -> None:
        def make(next_ms: int) -> Figures:
            made.append(answers)
            return computed(answers)(next_ms)

        at_once.wait()
        FiguresFile(tmp_path, DAY_MS).compute_if_due(0, answers, answers, make)

    def slowly(next_ms: int) -> Figures:
        # The other one begins while this one is under way: it must find the lock held.
        other.start()
        at_once.wait()
        other.join(0.05)
        assert other.is_alive()
        assert made == []
        return computed(10)(next_ms)

    other = Thread(target=compute, args=(11,))
    assert file.compute_if_due(0, 10, 10, slowly)
    other.join()
    assert made == []
    assert file.read() == computed(10)(DAY_MS)


def test_another_period_moves_no_computation_that_is_fixed(file: FiguresFile, tmp_path: Path) -> None:
    """A lower `figures_every_hours` waits for the instant that was fixed before; from then on the new grid holds."""
    file.compute_if_due(DAY_MS, 10, 10, computed(10))
    hourly = FiguresFile(tmp_path, HOUR_MS)
    assert not hourly.compute_if_due(2 * DAY_MS - 1, 1_000, 1_000, computed(1_000))
    assert hourly.compute_if_due(2 * DAY_MS, 1_000, 1_000, computed(1_000))
    assert not hourly.is_due(2 * DAY_MS + HOUR_MS - 1, 10_000, 10_000)


def test_a_clock_that_is_set_back_brings_no_new_figures(file: FiguresFile) -> None:
    """Time that was there before is no new period."""
    file.compute_if_due(5 * DAY_MS, 10, 10, computed(10))
    assert not file.is_due(DAY_MS, 1_000, 1_000)


@given(st.integers(0, 10**13))
def test_computations_are_a_period_apart_and_on_the_grid(now_ms: int) -> None:
    """Nobody chooses the instant: it is the first of the grid that is at least a period away."""
    next_ms = FiguresFile(Path(), DAY_MS).next_after(now_ms)
    assert next_ms % DAY_MS == 0
    assert DAY_MS <= next_ms - now_ms < 2 * DAY_MS


def test_a_damaged_file_is_said(file: FiguresFile, tmp_path: Path) -> None:
    """It is neither shown nor silently replaced: replacing it would be a second computation."""
    (tmp_path / FIGURES_FILE).write_text("{")
    with pytest.raises(InternalError, match="INTEGRITY"):
        file.read()
    with pytest.raises(InternalError, match="INTEGRITY"):
        file.compute_if_due(0, 1_000, 1_000, computed(1_000))


def test_the_file_is_for_the_staff_alone(file: FiguresFile, tmp_path: Path) -> None:
    """Nobody else on the machine reads it."""
    file.compute_if_due(0, 10, 10, computed(10))
    assert (tmp_path / FIGURES_FILE).stat().st_mode & 0o077 == 0


# --- what they tell ----------------------------------------------------------------------------------------------------


def differing_in_x(x_is_charged: bool) -> Charges:
    """Everybody but x was charged once or not at all; x was charged most, and is the only one in the highest band."""
    return charges((2_005, 0), (1_205, PRICE), (1, POLICY.cap if x_is_charged else 0))


def test_nine_answers_about_nobody_and_one_about_x_show_nothing() -> None:
    """Somebody who chooses nine of ten answers still does not see whether the tenth charged x: bands, drops, typical case, forecast."""
    assert shown(differing_in_x(True)) == shown(differing_in_x(False))


def test_one_person_with_nothing_left_is_not_told_from_none() -> None:
    """Nor are nine; neither by the number nor by the alert, however low its share is set."""
    seen = [shown(charges((300, PRICE), (few, POLICY.cap)), share=0) for few in (0, 1, 9)]
    assert {each.exhausted for each in seen} == {None}
    assert {each.alert_share for each in seen} == {None}
    many = shown(charges((300, PRICE), (10, POLICY.cap)), share=3)
    assert (many.exhausted, many.alert_share) == (10, 3)


def test_the_number_of_people_charged_less_the_other_bands_tells_no_small_band() -> None:
    """Complementary cells: five people in the lowest band above rest are in no difference of numbers that are shown."""
    small = shown(charges((400, 0), (5, PRICE), (25, POLICY.cap)))
    none = shown(charges((405, 0), (25, POLICY.cap)))
    assert (small.charged, small.bands) == (30, none.bands)
    assert none.charged == 20
    assert all(band.people % LEAST_CELL == 0 for band in small.bands)


def test_the_typical_case_is_not_that_of_one_person() -> None:
    """It follows from the log: who was charged most, and how much, changes nothing."""
    seen = {
        (each.expected_belief, each.best_guess_right)
        for each in (shown(charges((500, PRICE), (1, most * PRICE))) for most in (1, 2, 5, 20))
    }
    assert len(seen) == 1
    assert shown(charges((500, PRICE)), facts(10)).expected_belief not in {None, *(each for each, _ in seen)}


@pytest.mark.parametrize(("people", "shares"), [(150, [0.5]), (250, [0.05, 0.5]), (1_050, [0.01, 0.05, 0.5])])
def test_a_forecast_is_about_no_share_of_a_few_people(people: int, shares: list[float]) -> None:
    """The hundredth part of 150 people is two of them: what they have left is nobody's business."""
    forecast = shown(charges((people, PRICE))).forecast
    assert [row.share for row in forecast] == shares
    numbers = [each for row in forecast for each in (row.early, row.middle, row.late) if each is not None]
    assert all(each < 100 or each % 10 == 0 for each in numbers)


@pytest.mark.parametrize("people", range(1, 10))
def test_a_deployment_of_a_few_people_shows_nobody(people: int) -> None:
    """One cell, rounded to nothing, no matter who of them was charged."""
    seen = {repr(shown(charges((people - charged, 0), (charged, PRICE)))) for charged in range(people)}
    assert len(seen) == 1
    (figures,) = seen
    assert "people=0" in figures


@pytest.mark.parametrize("held", [None, "charges from before"])
def test_under_strict_accounting_nobody_is_told_from_anybody(held: Any) -> None:
    """There are no drops, no alert and no forecast; people who were charged one by one before come in cells."""
    strict = make_policy(accounting="strict")
    before = None if held is None else charges((100, 0), (3, PRICE))
    figures = shown(before, facts(3, strict=20, policy=strict), share=0)
    assert (figures.charged, figures.exhausted, figures.alert_share, figures.forecast) == (0, None, None, ())
    assert [band.people for band in figures.bands] == ([] if held is None else [100])


def test_households_are_cells_like_persons() -> None:
    """Small bands are joined for both kinds of subject."""
    policy = make_policy(accounting="per_person", subject="household")
    figures = shown(charges((400, 0), (5, PRICE)), facts(policy=policy))
    assert [band.people for band in figures.bands] == [400]
