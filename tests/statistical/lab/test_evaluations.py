"""Over many repetitions answers average to what is printed as expected, and errors to what the laws of the noise say."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from unit.lab.evaluations import CAP, MULTIPLIER, RUN, evaluation

from policy_lab.arrays import Reals
from policy_lab.evaluate import messages
from policy_lab.evaluate.answers import central_answers, central_tables, expected_answers
from policy_lab.evaluate.data import Data, read_data
from policy_lab.evaluate.run import Mechanism, RunFile
from policy_lab.evaluate.run_file import read_run_file

pytestmark = pytest.mark.statistical

REPETITIONS = 1500
# Standard errors. For each of at most 200 normal means 2e-9: together below 1e-6.
LIMIT = 6.0
MECHANISMS = """\
  - global
  - local: {numbers: truncated}
  - local: {numbers: clamped}
  - local: {numbers: wrapped}
  - local: {numbers: wrapped_as_proposed}
  - shuffled: {numbers: truncated, along: nothing}
  - shuffled: {numbers: truncated, along: static}
  - shuffled: {numbers: truncated, along: weight}
"""


@pytest.fixture(name="world", scope="module")
def made_world(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunFile, Data]:
    """A run with every mechanism, and its data."""
    folder: Path = tmp_path_factory.mktemp("many")
    run = read_run_file(evaluation(folder, run=RUN[: RUN.index("  - global")] + MECHANISMS, rows=120))
    return run, read_data(run, lambda _done, _total: None)


def answers(run: RunFile, data: Data, mechanism: Mechanism, epsilon: float) -> list[Reals]:
    """Each block's answers over many repetitions."""
    among = messages.groups(run, data, mechanism)
    tables = central_tables(run, data, mechanism)
    found = []
    for repetition in range(REPETITIONS):
        if mechanism.place == "global":
            found.append(central_answers(run, mechanism, epsilon, repetition, tables))
            continue
        sent = messages.sent(run, data, mechanism, epsilon, repetition)
        found.append(messages.estimates(run, data, mechanism, epsilon, sent, among.weights))
    return [np.array(block) for block in zip(*found, strict=True)]


@pytest.mark.parametrize("number", range(MECHANISMS.count("- ")))
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_answers_average_to_what_is_printed_as_expected(
    world: tuple[RunFile, Data], number: int, epsilon: float
) -> None:
    """The printed bias is the bias."""
    run, data = world
    mechanism = run.mechanisms[number]
    expected = expected_answers(run, data, mechanism, epsilon)
    for block, means in zip(answers(run, data, mechanism, epsilon), expected, strict=True):
        if means is None:
            continue
        error = block.std(axis=0, ddof=1) / math.sqrt(REPETITIONS)
        assert np.all(np.abs(block.mean(axis=0) - means) < LIMIT * error)


def test_a_global_count_is_off_by_the_scale_of_its_noise(world: tuple[RunFile, Data]) -> None:
    """The mean of |Laplace| is its scale, with that as its standard deviation."""
    run, data = world
    mechanism = run.mechanisms[0]
    counts = answers(run, data, mechanism, 0.5)[0]
    off = np.abs(counts - central_tables(run, data, mechanism)[0].sums)
    scale = float(CAP * MULTIPLIER) / 0.5
    assert abs(off.mean() - scale) < LIMIT * scale / math.sqrt(off.size)
