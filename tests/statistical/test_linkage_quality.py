"""How many links are right, and how many true pairs are found, on registers whose truth is known.

The registers are drawn with fixed seeds, so a run either always passes or never. Each bound is the lower end of a Wilson interval that
misses the true share in at most one of a thousand worlds like these: a tool that were just as good as the bound would fail here 999 times
of a thousand. The registers are invented (`deploy/synthetic/registers.py`): the figures are of this tool on them, not of any agency's own
files.
"""

from __future__ import annotations

from math import sqrt
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from unit.census_node.linking.registers import Registers, links_in, rows_of

from census_node.linking.settings import Mode

pytestmark = pytest.mark.statistical

# A folder of results, and the report.
Linked: TypeAlias = tuple[Path, dict[str, Any]]
PEOPLE = 20_000
# Half of the usual ones: learning from them is most of the work.
TRAINING_PAIRS = 1_000_000
SEED = 11
# One side of one in a thousand.
NORMAL_999 = 3.0902


def lower_bound(right: int, of: int) -> float:
    """The lower end of Wilson's interval."""
    share, square = right / of, NORMAL_999**2
    half = NORMAL_999 * sqrt(share * (1 - share) / of + square / (4 * of * of))
    return (share + square / (2 * of) - half) / (1 + square / of)


@pytest.fixture(scope="module")
def registers(tmp_path_factory: pytest.TempPathFactory) -> Registers:
    """Twenty thousand people."""
    return Registers.made(tmp_path_factory.mktemp("quality") / "registers", PEOPLE, SEED, training_pairs=TRAINING_PAIRS)


@pytest.fixture(scope="module")
def linked(registers: Registers, tmp_path_factory: pytest.TempPathFactory) -> dict[Mode, Linked]:
    """Links of both modes."""
    modes: tuple[Mode, ...] = ("complementary", "nominative")
    folders = {mode: tmp_path_factory.mktemp("linked") / mode for mode in modes}
    return {mode: (folder, registers.link(folder, mode=mode)) for mode, folder in folders.items()}


@pytest.mark.parametrize(("mode", "precision", "recall"), [("complementary", 0.999, 0.96), ("nominative", 0.995, 0.15)])
def test_links_are_right_and_true_pairs_are_found(
    registers: Registers, linked: dict[Mode, Linked], mode: Mode, precision: float, recall: float
) -> None:
    """With birth dates and postal codes nearly all; by names alone those with rare names, and hardly a wrong one."""
    folder, report = linked[mode]
    truth, links = registers.truth(), links_in(folder)
    right = len(links & truth)
    assert lower_bound(right, len(links)) >= precision
    assert lower_bound(right, len(truth)) >= recall
    # Nobody has two persons, and what the model says of its own precision is no boast.
    assert len({card for card, _ in links}) == len(links)
    assert report["model"]["precision"] <= right / len(links) + 0.002
    assert report["linked_cards"] == len(links)


def test_rows_that_are_nobody_are_never_linked(registers: Registers, linked: dict[Mode, Linked]) -> None:
    """Every card of Mickey Mouse, of newborns without a name, of empty names and of initials stays out of the table."""
    nobody = {
        row["health_card"]
        for row in rows_of(registers.register)
        if row["given_name"].startswith(("MICKEY", "DONALD DUCK", "TEST", "BABY ", "UNKNOWN", "N/A", "INFANT"))
        or len(row["given_name"]) < 2
        or (row["given_name"], row["surname"]) == ("JOHN", "DOE")
        or row["birth_date"] == "1900-01-01"
    }
    assert len(nobody) > 100
    assert {card for card, _ in links_in(linked["complementary"][0])} & nobody == set()


def test_the_clerks_sample_estimates_what_is_true(
    registers: Registers, linked: dict[Mode, Linked], tmp_path: Path
) -> None:
    """Clerks who know the truth decide what was drawn: their intervals hold precision and recall among the compared pairs."""
    truth = registers.truth()
    rows = rows_of(linked["complementary"][0] / "review.csv")
    decided = tmp_path / "decided.csv"
    lines = ["decision,health_card,person_id"]
    seen: set[str] = set()
    for row in rows:
        is_true = (row["health_card"], row["person_id"]) in truth and row["person_id"] not in seen
        seen |= {row["person_id"]} if is_true else set()
        lines.append(f"{'link' if is_true else 'no'},{row['health_card']},{row['person_id']}")
    decided.write_text("\n".join(lines) + "\n")
    report = registers.link(tmp_path / "second", decisions=decided)
    links = links_in(tmp_path / "second")
    found = {
        name: (clerical["low"], clerical["high"])
        for name, clerical in report["clerical"].items()
        if isinstance(clerical, dict)
    }
    precision = len(links & truth) / len(links)
    assert found["precision"][0] <= precision <= found["precision"][1]
    # Recall of people; a second card that the register does not know of as the same client's is nobody's to find.
    persons = {person for _, person in truth}
    recall = len({person for _, person in links & truth}) / len(persons)
    assert recall >= 0.97
    assert found["recall"][1] >= recall
    assert report["by_clerk"] > 100
