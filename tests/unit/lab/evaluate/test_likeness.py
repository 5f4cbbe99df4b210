"""Measures of the sent data: what is unchanged stays, what is permuted goes, and who is alone is found."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.lab.evaluations import RUN, evaluation

from policy_lab.evaluate.data import Data, read_data
from policy_lab.evaluate.likeness import Likeness, pair_names, permuted_pairs, true_pairs
from policy_lab.evaluate.parts import Job
from policy_lab.evaluate.run import RunFile
from policy_lab.evaluate.run_file import read_run_file
from policy_lab.evaluate.running import Worker


def world(folder: Path, run: str = RUN, *, rows: int = 60) -> tuple[RunFile, Data]:
    """A run and its data."""
    found = read_run_file(evaluation(folder, run=run, rows=rows))
    return found, read_data(found, lambda _done, _total: None)


def like(run: RunFile, data: Data, mechanism: int, epsilon: float) -> Likeness:
    """The measures of one data set."""
    found = Worker(run, data).part(Job(run.mechanisms[mechanism], epsilon, 0)).likeness
    assert found is not None
    return found


def test_unchanged_columns_keep_their_shape_and_noised_ones_come_nearer_with_epsilon(tmp_path: Path) -> None:
    """Static columns are sent as they are."""
    run, data = world(tmp_path, RUN.replace("[0.5, 2]", "[0.01, 30]"), rows=600)
    weak, strong = like(run, data, 1, 0.01), like(run, data, 1, 30.0)
    assert [column.name.text for column in run.columns] == ["sex", "smokes", "height"]
    assert weak.shapes[0] == strong.shapes[0] == 1
    assert weak.shapes[1] < 0.8
    assert strong.shapes[1] > 0.99
    # Heights that were moved to a bound leave it again with any noise.
    assert weak.shapes[2] + 0.05 < strong.shapes[2]


def test_a_permutation_by_itself_keeps_shapes_and_takes_associations_away(tmp_path: Path) -> None:
    """The baseline, on two columns that say the same."""
    path = evaluation(
        tmp_path,
        run=RUN.replace(
            "  sex: {categories: [f, m]}", "  region: {categories: [east, west, north]}\n  sex: {categories: [f, m]}"
        ),
        rows=600,
    )
    text = (tmp_path / "people.csv").read_text().replace(",west,f,", ",west,m,").replace(",east,m,", ",east,f,")
    (tmp_path / "people.csv").write_text(text.replace(",north,m,", ",north,f,"))
    run = read_run_file(path)
    data = read_data(run, lambda _done, _total: None)
    (number,) = [
        i for i, (one, other) in enumerate(pair_names(run)) if {one.name.text, other.name.text} == {"region", "sex"}
    ]
    assert true_pairs(run, data)[number] == pytest.approx(1)
    assert permuted_pairs(run, data)[number] < 0.2


def test_who_is_alone_with_unchanged_columns_is_found_whatever_the_noise(tmp_path: Path) -> None:
    """Static columns that are different for everybody, as an id is."""
    ids = ", ".join(map(str, range(60)))
    run, data = world(tmp_path, RUN.replace("sex: {categories: [f, m]}", f"id: {{categories: [{ids}]}}"))
    for mechanism in (1, 2):
        found = like(run, data, mechanism, 0.5).linked
        assert (found.people, found.alone, found.by_unchanged, found.by_answers) == (60, 1, 1, 1)


@pytest.mark.parametrize("cap", ["90", "0.01"])
def test_a_weight_that_is_sent_tells_respondents_apart(tmp_path: Path, cap: str) -> None:
    """Local noise leaves it as it is, and the agency has it before it clips; a table without it would make local noise look safe."""
    run, data = world(
        tmp_path, RUN.replace("cap: 90", f"cap: {cap}").replace("along: static", "along: weight"), rows=300
    )
    local, shuffled = like(run, data, 1, 0.5).linked, like(run, data, 2, 0.5).linked
    assert local.alone >= shuffled.alone > 0.9


def test_local_answers_of_equal_weights_hide_among_those_with_the_same_columns(tmp_path: Path) -> None:
    """Without weights nothing but the static columns stands beside them."""
    run, data = world(tmp_path, RUN.replace("weights:\n  column: weight\n  cap: 90\n  multiplier: 1.5\n", ""), rows=300)
    assert like(run, data, 1, 0.5).linked.alone < 0.05


def test_shuffling_without_static_columns_hides_among_the_stratum(tmp_path: Path) -> None:
    """The attacker guesses among all messages of the stratum; true answers help with a large epsilon."""
    run, data = world(
        tmp_path, RUN.replace("along: static", "along: nothing").replace("[0.5, 2]", "[0.01, 30]"), rows=300
    )
    local, shuffled = like(run, data, 1, 0.01).linked, like(run, data, 2, 0.01).linked
    assert shuffled.by_unchanged < local.by_unchanged
    assert like(run, data, 2, 30.0).linked.by_answers > 5 * shuffled.by_answers


def test_plain_answers_shrink_the_error_to_nothing(tmp_path: Path) -> None:
    """Nobody plain is the local mechanism, everybody plain is the file."""
    run, data = world(tmp_path, rows=600)
    mixtures = like(run, data, 1, 0.5).mixtures
    assert mixtures[-1] == [pytest.approx(0, abs=1e-12)] * 2
    assert sum(mixtures[0]) > 3 * sum(mixtures[3])
    assert like(run, data, 2, 0.5).mixtures == []
