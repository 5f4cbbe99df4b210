"""One respondent's epsilon as `lab evaluate` prints it, measured from below on neighbouring data files, through its own code.

Error rate: each measurement exceeds a correct epsilon with probability 1e-9 at most (`ERROR_RATE`), and there are eight. Seeds are
fixed. Each must also exceed what a composition that forgets a part would print.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from policy_lab.evaluate import messages
from policy_lab.evaluate.answers import central_answers, central_tables, sensitivity_of
from policy_lab.evaluate.cells import blocks
from policy_lab.evaluate.data import Data, Values, read_data
from policy_lab.evaluate.promises import promised
from policy_lab.evaluate.run import RunFile
from policy_lab.evaluate.run_file import read_run_file
from policy_lab.mechanisms.distinguisher import epsilon_from_below
from policy_lab.mechanisms.randomised_response import RandomisedResponse

pytestmark = pytest.mark.statistical

RELEASES = 10_000
RESPONDENTS = 200_000
SHUFFLES = 3000

RUN = """
data: rows.csv
standing: synthetic
seed: 5
repetitions: 1
epsilons: [1]
delta: 1e-3
neighbours: {neighbours}
{weights}
{strata}
dynamic: {{{columns}}}
queries: [count, sum]
mechanisms: [{mechanism}]
"""
COLUMNS = "colour: {categories: [red, green, blue]}, height: {low: 0, high: 2}"
STRATA = "strata: {column: region, values: [east, west]}"
WEIGHTS = "weights: {column: weight, cap: 10, multiplier: 3}"

Reals = NDArray[np.float64]


def evaluated(folder: Path, rows: list[str], **settings: str) -> tuple[RunFile, Data]:
    """A run file and its data, read as the command reads them."""
    folder.mkdir()
    (folder / "rows.csv").write_text("\n".join(["region,colour,height,weight", *rows]))
    given = {"neighbours": "replace", "weights": "", "strata": "", "columns": COLUMNS, "mechanism": "global"} | settings
    (folder / "run.yaml").write_text(RUN.format(**given))
    run = read_run_file(folder / "run.yaml")
    return run, read_data(run, lambda *_: None)


OTHERS = ["east,red,1.1,4", "west,green,1.9,2", "west,blue,0.2,9"]
# Relation, the row in the one world and in the other, and what forgetting that a row may leave one cell for another would print.
CENTRAL: tuple[tuple[str, list[str], list[str], int], ...] = (
    ("add-or-remove", ["east,red,2,700"], [], 1),
    ("replace", ["east,red,2,700"], ["west,blue,2,700"], 2),
    ("replace-within-stratum", ["east,red,2,700"], ["east,blue,0,700"], 2),
)


@pytest.mark.parametrize(("neighbours", "here", "there", "forgetful"), CENTRAL, ids=[row[0] for row in CENTRAL])
def test_all_answers_of_a_release_together_spend_what_is_printed(
    tmp_path: Path, neighbours: str, here: list[str], there: list[str], forgetful: int
) -> None:
    """Counts and sums of both strata, with a weight far above the cap, by the likelihood of everything that is released."""
    worlds = [
        evaluated(tmp_path / name, OTHERS + rows, neighbours=neighbours, weights=WEIGHTS, strata=STRATA)
        for name, rows in (("here", here), ("there", there))
    ]
    run, data = worlds[0]
    (mechanism,) = run.mechanisms
    tables = [central_tables(*world, mechanism) for world in worlds]
    scales = [float(sensitivity_of(run, block)) for block in blocks(run, mechanism)]

    def ratios(world: int) -> Reals:
        """The log of how much likelier each release is here than there."""
        found = []
        for release in range(world * RELEASES, (world + 1) * RELEASES):
            answers = central_answers(run, mechanism, 1.0, release, tables[world])
            found.append(
                sum(
                    float((np.abs(answer - other.sums) - np.abs(answer - one.sums)).sum()) / scale
                    for answer, one, other, scale in zip(answers, *tables, scales, strict=True)
                )
            )
        return np.round(found, 9)

    printed = promised(run, data, mechanism, 1.0).composed
    found = epsilon_from_below(ratios(0), ratios(1))
    assert forgetful < found.epsilon <= printed.epsilon


def circular(distance: Reals) -> Reals:
    """The log of the density on a circle of circumference 2, as this test has it, without its constant."""
    return np.log(np.cosh((np.abs(distance) - 1) / 2))


def straight(distance: Reals) -> Reals:
    """The same on a line, for noise of scale 2."""
    return -np.abs(distance) / 2


# The two heights that are hardest to hide: on a circle opposite places.
LOCAL = (("truncated", 2, straight, 2.0), ("clamped", 2, straight, 2.0), ("wrapped", 1, circular, 1.12011))


@pytest.mark.parametrize(("numbers", "height", "law", "stated"), LOCAL, ids=[row[0] for row in LOCAL])
def test_all_messages_of_a_respondent_together_spend_what_is_printed(
    tmp_path: Path, numbers: str, height: int, law: Callable[[Reals], Reals], stated: float
) -> None:
    """Many respondents who are alike are many samples of one; both columns count."""
    worlds = [
        evaluated(tmp_path / name, [row] * RESPONDENTS, mechanism=f"local: {{numbers: {numbers}}}")
        for name, row in (("here", "east,red,0,1"), ("there", f"east,blue,{height},1"))
    ]
    (mechanism,) = worlds[0][0].mechanisms
    printed = promised(*worlds[0], mechanism, 1.0).composed
    assert printed.epsilon == pytest.approx(stated, abs=1e-5)
    laws = [RandomisedResponse(3, 1.0).law(code) for code in (0, 2)]
    seen = []
    for repetition, (run, data) in enumerate(worlds):
        sent = messages.sent(run, data, mechanism, 1.0, repetition)
        codes, heights = sent["colour"].codes, sent["height"].numbers
        assert codes is not None
        assert heights is not None
        seen.append(np.log(laws[0] / laws[1])[codes] + law(heights) - law(heights - height))
    found = epsilon_from_below(*seen)
    assert 0.8 * printed.epsilon < found.epsilon <= printed.epsilon


def test_what_leaves_the_shuffler_keeps_its_promise(tmp_path: Path) -> None:
    """One stratum of 1,000, seen as the number of reds and the first message: the order that messages came in would show more."""
    others = ["east,green,1,1"] * 999
    worlds = [
        evaluated(
            tmp_path / name,
            [f"east,{colour},1,1", *others],
            mechanism="shuffled",
            columns="colour: {categories: [red, green]}",
        )
        for name, colour in (("here", "red"), ("there", "green"))
    ]
    run, data = worlds[0]
    (mechanism,) = run.mechanisms
    printed = promised(run, data, mechanism, 1.0).weakest
    assert printed is not None
    assert printed.is_amplified
    among = messages.groups(run, data, mechanism)

    def seen(world: int, *, is_shuffled: bool) -> Reals:
        found = []
        for repetition in range(world * SHUFFLES, (world + 1) * SHUFFLES):
            sent: Mapping[str, Values] = messages.sent(*worlds[world], mechanism, 1.0, repetition)
            places = messages.shuffled(run, data, mechanism, among, 1.0, repetition)
            codes = sent["colour"].codes
            assert codes is not None
            received = codes[places] if is_shuffled else codes
            found.append(2 * int((received == 0).sum()) + int(received[0] == 0))
        return np.asarray(found, np.float64)

    shuffled = epsilon_from_below(*(seen(world, is_shuffled=True) for world in (0, 1)), delta=printed.delta)
    assert shuffled.epsilon <= printed.epsilon
    in_order = epsilon_from_below(*(seen(world, is_shuffled=False) for world in (0, 1)), delta=printed.delta)
    assert printed.epsilon < in_order.epsilon <= 1.0
