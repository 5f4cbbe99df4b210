"""Answers beside those of a slow evaluator that goes from row to row with exact fractions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from unit.lab.evaluations import (
    CAP,
    HEADS,
    HIGH,
    LOW,
    MULTIPLIER,
    evaluation,
    exact,
    height_of,
    mean_weights,
    respondents,
    weight_of,
    write_csv,
)

from broker_common.language import language
from policy_lab.document import terminal
from policy_lab.evaluate import messages
from policy_lab.evaluate.answers import expected_answers
from policy_lab.evaluate.cells import Block, blocks
from policy_lab.evaluate.data import Data, read_data
from policy_lab.evaluate.errors import errors
from policy_lab.evaluate.parts import Job, Parts, jobs
from policy_lab.evaluate.report.report import plan
from policy_lab.evaluate.run import Mechanism, RunFile
from policy_lab.evaluate.run_file import read_run_file
from policy_lab.evaluate.running import Worker, run_all
from policy_lab.evaluate.seeds import generator

ROWS = [dict(zip(HEADS, row, strict=True)) for row in respondents(60)]
REGIONS = ("east", "west", "north")


@pytest.fixture(name="world")
def made_world(tmp_path: Path) -> tuple[RunFile, Data]:
    """A run and its data."""
    run = read_run_file(evaluation(tmp_path))
    return run, read_data(run, lambda _done, _total: None)


def cells(block: Block) -> Iterator[tuple[int, str, int, str]]:
    """Each cell: its row and column, and its region and category."""
    for row, region in enumerate(REGIONS):
        for place, category in enumerate(block.cell_names):
            yield row, region, place, category


def mechanism_of(run: RunFile, place: str) -> Mechanism:
    """The mechanism of this place."""
    return next(each for each in run.mechanisms if each.place == place)


def test_global_noise_is_added_to_the_bounded_figures(world: tuple[RunFile, Data]) -> None:
    """Scales are those of the sensitivity: the cap times the multiplier, and for a sum times the larger bound."""
    run, data = world
    mechanism = mechanism_of(run, "global")
    part = Worker(run, data).part(Job(mechanism, 0.5, 1))
    for number, block in enumerate(blocks(run, mechanism)):
        if block.query == "mean":
            continue
        scale = float(CAP * MULTIPLIER * (max(abs(LOW), abs(HIGH)) if block.query == "sum" else 1)) / 0.5
        random = generator(run.seed, "global", 0.5, block.column.name.text, block.query, 1)
        noise = random.laplace(0, scale, (3, len(block.cell_names)))
        for row, region, place, category in cells(block):
            true = exact(ROWS, region, block.query, category, is_bounded=True)
            assert true is not None
            assert part.answers[number][row][place] == pytest.approx(float(true) + noise[row, place])


def test_local_answers_are_the_weighted_sums_of_messages(world: tuple[RunFile, Data]) -> None:
    """For categories the sum over rows of weight times ([sent = category] - q) / (p - q)."""
    run, data = world
    mechanism = mechanism_of(run, "local")
    part = Worker(run, data).part(Job(mechanism, 2.0, 0))
    sent = messages.sent(run, data, mechanism, 2.0, 0)
    weights = [weight_of(row) for row in ROWS]
    compare(run, mechanism, part.answers, sent, weights)


def test_shuffled_answers_count_each_message_for_its_groups_mean_weight(world: tuple[RunFile, Data]) -> None:
    """Permuted inside its group, each message counts the same: answers are those before the permutation."""
    run, data = world
    mechanism = mechanism_of(run, "shuffled")
    part = Worker(run, data).part(Job(mechanism, 2.0, 0))
    sent = messages.sent(run, data, mechanism, 2.0, 0)
    compare(run, mechanism, part.answers, sent, mean_weights(ROWS))


def compare(run: RunFile, mechanism: Mechanism, answers: object, sent: object, weights: list[Fraction]) -> None:
    """Every answer, and what the slow evaluator makes of the same messages."""
    keep = math.exp(2.0) / (math.exp(2.0) + 2)
    other = 1 / (math.exp(2.0) + 2)
    for number, block in enumerate(blocks(run, mechanism)):
        for row, region, place, _ in cells(block):
            total = mass = 0.0
            for i, person in enumerate(ROWS):
                if person["region"] != region:
                    continue
                if block.query == "count":
                    is_sent = sent["smokes"].codes[i] == place  # type: ignore[index]
                    total += float(weights[i]) * (float(is_sent) - other) / (keep - other)
                elif height_of(person) is not None:
                    total += float(weights[i]) * sent["height"].numbers[i]  # type: ignore[index]
                    mass += float(weights[i])
            answer = total / mass if block.query == "mean" else total
            assert answers[number][row][place] == pytest.approx(answer)  # type: ignore[index]


def test_messages_are_permuted_inside_their_groups(world: tuple[RunFile, Data]) -> None:
    """Nobody's message leaves the region, the sex and the pattern of stated numbers; nearly everybody's moves."""
    run, data = world
    mechanism = mechanism_of(run, "shuffled")
    among = messages.groups(run, data, mechanism)
    places = messages.shuffled(run, data, mechanism, among, 2.0, 0)
    assert sorted(places) == list(range(len(ROWS)))
    keys = [(row["region"], row["sex"], height_of(row) is None) for row in ROWS]
    assert [keys[i] for i in places] == keys
    assert np.mean(places == np.arange(len(ROWS))) < 0.5
    assert len({tuple(messages.shuffled(run, data, mechanism, among, 2.0, each)) for each in range(5)}) == 5


def test_errors_are_distances_from_the_file_as_it_is(world: tuple[RunFile, Data]) -> None:
    """Exact figures have no cap and no bounds; the error averages the repetitions, the standard error is over them."""
    run, data = world
    parts = Parts(None, run, data)
    run_all(run, data, jobs(run), parts, 1, lambda _done, _total: None)
    for each in errors(run, data, parts):
        number = blocks(run, each.mechanism).index(each.block)
        found = [parts.needed(Job(each.mechanism, each.epsilon, r)).answers[number] for r in range(2)]
        for row, region, place, category in cells(each.block):
            true = exact(ROWS, region, each.block.query, category, is_bounded=False)
            assert true is not None
            assert each.exact[row, place] == pytest.approx(float(true))
            off = [abs(answers[row][place] - float(true)) for answers in found]
            assert each.absolute[row, place] == pytest.approx(sum(off) / 2)
            assert each.standard_error is not None
            assert each.standard_error[row, place] == pytest.approx(abs(off[0] - off[1]) / 2)


def test_expected_counts_are_those_of_the_true_categories(world: tuple[RunFile, Data]) -> None:
    """Local counts are biased by the cap alone; shuffled ones by the mean weights as well."""
    run, data = world
    for place, weights in (("local", [weight_of(row) for row in ROWS]), ("shuffled", mean_weights(ROWS))):
        mechanism = mechanism_of(run, place)
        number = [block.query for block in blocks(run, mechanism)].index("count")
        block = blocks(run, mechanism)[number]
        expected = expected_answers(run, data, mechanism, 2.0)[number]
        assert expected is not None
        for row, region, place_, category in cells(block):
            true = sum(
                weight
                for person, weight in zip(ROWS, weights, strict=True)
                if person["region"] == region and person["smokes"] == category
            )
            assert expected[row, place_] == pytest.approx(float(true))


def test_noise_has_the_names_of_what_it_is_for() -> None:
    """Two lists of names that read alike are two generators."""
    assert generator(1, "ab", "c").random() != generator(1, "a", "bc").random()
    assert generator(1, "a", 1).random() == generator(1, "a", 1).random()
    assert generator(1, "a", 1).random() != generator(2, "a", 1).random()


def test_the_same_seed_on_two_versions_of_a_file_gives_the_changed_respondent_away(tmp_path: Path) -> None:
    """Noise is the same in both: their difference is that respondent's weight, and the report says so."""
    people = respondents(60)
    path = evaluation(tmp_path)
    found = []
    for smokes in ("daily", "never"):
        people[0][3] = smokes
        write_csv(tmp_path / "people.csv", people)
        run = read_run_file(path)
        data = read_data(run, lambda _done, _total: None)
        job = Job(mechanism_of(run, "global"), 0.5, 0)
        found.append(np.array(Worker(run, data).part(job).answers[0]))
    weight = float(weight_of(dict(zip(HEADS, people[0], strict=True))))
    change = found[1] - found[0]
    assert change[0] == pytest.approx([-weight, 0, weight])
    assert not change[1:].any()
    shown = " ".join(terminal.text(plan(run, data, "x"), language("en")).split())
    assert "two versions of a data file that were made with the same seed" in shown
    assert "differ by exactly what the changed respondent adds" in shown
