"""A sample in hand takes as much memory as the settings' documentation says."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from fakes.registries import made_registry

from broker_common.errors import RefusedError
from census_node.linking import LinkedSample, Linking
from census_node.submitted_ledger import SubmittedLedger

README = (Path(__file__).parents[3] / "deploy" / "README.md").read_text(encoding="utf-8")
PEOPLE = 1000
MOST_RUNS = 4


def pseudonyms(first: int, count: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """Ascending ones."""
    found = np.zeros((count, 16), np.uint8)
    found[:, :4] = np.arange(first, first + count, dtype=">u4").view(np.uint8).reshape(-1, 4)
    return found


def bytes_each(linked: LinkedSample) -> float:
    """What is held for each person."""
    assert linked.standing is not None
    units = linked.units
    links = units.pseudonyms.nbytes + units.persons.nbytes + units.households.nbytes + linked.rows.nbytes
    return (links + sum(at.nbytes + found.nbytes for at, found in linked.standing.places)) / PEOPLE


def linked_after(charges: int) -> LinkedSample:
    """A sample, after charges for so many others that each bring new people."""
    ledger = SubmittedLedger()
    for charge in range(charges):
        ledger.charge(pseudonyms(PEOPLE * (1 + charge), PEOPLE), 1)
    none = np.empty(0, np.uint64)
    linking = Linking(made_registry("load", none, none, {}), ledger)
    sample = pseudonyms(0, PEOPLE)
    linking.expect(PEOPLE)
    for start in range(0, PEOPLE, 300):
        linking.add(start, sample[start : start + 300])
    return linking.finish(sample)


@pytest.mark.parametrize("charges", range(6))
def test_a_person_of_a_sample_takes_what_is_documented(charges: int) -> None:
    """16 bytes, 12 for row and units, and 5 for the place in each run of the first ledger, of which there are four at most."""
    assert bytes_each(linked_after(charges)) == 16 + 12 + 5 * min(1 + charges, MOST_RUNS)


def test_documented_example_is_computed_from_that() -> None:
    """What operators size a machine by: one sample and four of 15 million people."""
    counted = 16 * 15_000_000
    least, most = (bytes_each(linked_after(charges)) * 15_000_000 for charges in (0, MOST_RUNS - 1))
    said = (
        f"{counted / 1e6:.0f} MB are counted of a sample, and {least / 1e6:.0f} to {most / 1e6:.0f} MB taken; for four such "
        f"samples {4 * counted / 1e6:.0f} MB are counted, and {4 * least / 1e9:.1f} to {4 * most / 1e9:.1f} GB taken"
    )
    assert said in re.sub(r"\s+", " ", README)


def test_lack_of_memory_for_a_sample_is_no_verdict_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sent it comes again: its size must not make a refusal."""
    none = np.empty(0, np.uint64)
    linking = Linking(made_registry("load", none, none, {}), SubmittedLedger())

    def fail(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(np, "empty", fail)
        with pytest.raises(RefusedError, match="BUSY"):
            linking.expect(PEOPLE)
    linking.expect(0)
    assert len(linking.finish(pseudonyms(0, 0)).rows) == 0
