"""Promises: what one respondent spends, by the neighbour relation, and what shuffling adds."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from unit.lab.evaluations import RUN, evaluation

from policy_lab.document.model import Caution
from policy_lab.evaluate.data import Data, read_data
from policy_lab.evaluate.promises import promised
from policy_lab.evaluate.report.promising import promises_section
from policy_lab.evaluate.run import RunFile
from policy_lab.evaluate.run_file import read_run_file
from policy_lab.mechanisms.shuffling import Why, amplified


def world(folder: Path, run: str = RUN, *, rows: int = 60) -> tuple[RunFile, Data]:
    """A run and its data."""
    found = read_run_file(evaluation(folder, run=run, rows=rows))
    return found, read_data(found, lambda _done, _total: None)


@pytest.mark.parametrize(
    # How many cells of the count, the sum and the mean one respondent touches.
    ("neighbours", "factors"),
    [
        ("add-or-remove", (1, 1, 1)),
        # A row leaves one cell and enters another one.
        ("replace", (2, 2, 2)),
        # The same for categories; there is one sum in each stratum.
        ("replace-within-stratum", (2, 1, 1)),
    ],
)
def test_queries_add_up_and_strata_do_not(tmp_path: Path, neighbours: str, factors: tuple[int, ...]) -> None:
    """Sequential over queries and columns, parallel over cells and strata."""
    run, data = world(tmp_path, RUN + f"neighbours: {neighbours}\n")
    found = promised(run, data, run.mechanisms[0], 0.5)
    assert [part.epsilon for part in found.composed.parts] == [0.5 * factor for factor in factors]
    assert found.real_epsilon == pytest.approx(0.5 * sum(factors))
    assert found.real_delta == 0


def test_a_respondents_columns_add_up_and_queries_on_them_do_not(tmp_path: Path) -> None:
    """Sum and mean are made of the same messages."""
    run, data = world(tmp_path)
    found = promised(run, data, run.mechanisms[1], 2.0)
    assert [part.what for part in found.composed.parts] == ["smokes", "height"]
    assert found.real_epsilon == pytest.approx(4.0)


def test_wrapped_numbers_spend_what_they_really_spend(tmp_path: Path) -> None:
    """Less than their noise's epsilon: the printed one is the real one."""
    run, data = world(tmp_path, RUN.replace("numbers: truncated", "numbers: wrapped"))
    found = promised(run, data, run.mechanisms[1], 2.0)
    assert found.real_epsilon == pytest.approx(2.0 + math.log(math.cosh(1.0)))


def test_static_columns_that_are_noised_spend_as_well(tmp_path: Path) -> None:
    """'noise: all' asks for more of each respondent."""
    run, data = world(tmp_path, RUN.replace("{numbers: truncated}", "{numbers: truncated, noise: all}"))
    assert promised(run, data, run.mechanisms[1], 2.0).real_epsilon == pytest.approx(6.0)


def test_shuffling_counts_messages_that_nothing_else_tells_apart(tmp_path: Path) -> None:
    """Columns compose first; the smallest group of a stratum says what holds there; a weight leaves everybody alone."""
    text = RUN.replace("epsilons: [0.5, 2]", "epsilons: [0.05, 2]").replace(", not_stated: [9.99]", "")
    text += "  - shuffled: {numbers: clamped, along: nothing}\n  - shuffled: {numbers: clamped, along: weight}\n"
    path = evaluation(tmp_path, run=text, rows=6000)
    lines = [line for line in (tmp_path / "people.csv").read_text().splitlines() if ",," not in line]
    (tmp_path / "people.csv").write_text("\n".join(line.replace(",9.99,", ",1.5,") for line in lines))
    run = read_run_file(path)
    data = read_data(run, lambda _done, _total: None)
    static, nothing, weight = (promised(run, data, each, 0.05) for each in run.mechanisms[2:])
    assert [each.least for each in nothing.shuffling] == data.stratum_rows.tolist()
    assert nothing.real_epsilon == pytest.approx(amplified(0.1, int(data.stratum_rows.min()), 1e-3))
    assert nothing.real_epsilon < 0.1
    assert nothing.real_delta == 1e-3
    assert static.real_epsilon == pytest.approx(amplified(0.1, min(each.least for each in static.shuffling), 1e-3))
    assert static.real_epsilon > nothing.real_epsilon
    assert {each.promise.why for each in weight.shuffling} == {Why.ALONE}
    assert weight.real_epsilon == pytest.approx(0.1)
    assert weight.real_delta == 0
    assert sum(each.hidden for each in nothing.shuffling) == data.rows
    assert sum(each.hidden for each in weight.shuffling) == 0


@pytest.mark.parametrize(("delta", "has_caution"), [("1e-2", True), ("1e-6", False)])
def test_a_delta_that_allows_publishing_somebody_is_remarked_on(tmp_path: Path, delta: str, has_caution: bool) -> None:
    """With groups of hundreds, one in a hundred of them may be published outright under a delta of 0.01."""
    run, data = world(tmp_path, re.sub("delta: .*", f"delta: {delta}", RUN).replace("[0.5, 2]", "[0.05]"), rows=6000)
    cautions = [block for block in promises_section(run, data).blocks if isinstance(block, Caution)]
    assert [caution.words.startswith("Delta is not below") for caution in cautions] == [True] * has_caution


def test_outside_of_the_theorem_the_local_epsilon_is_printed(tmp_path: Path) -> None:
    """Sixty respondents hide nobody: no delta is spent, and nothing smaller is claimed."""
    run, data = world(tmp_path)
    found = promised(run, data, run.mechanisms[2], 2.0)
    assert found.real_epsilon == found.composed.epsilon == pytest.approx(4.0)
    assert found.real_delta == 0


def test_whether_a_number_was_stated_tells_messages_apart(tmp_path: Path) -> None:
    """It is not noised: those who stated none are a group of their own."""
    run, data = world(tmp_path, RUN.replace("along: static", "along: nothing"))
    found = promised(run, data, run.mechanisms[2], 0.5)
    for each in found.shuffling:
        assert each.least < each.most < each.rows
        assert each.least + each.most == each.rows
