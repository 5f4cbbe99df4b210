"""Made-up streams of questions about made-up people: who is in the group of each question.

Nothing is published about real streams of studies, so these are invented, named and simple. `make workload` plays others on the
ledger itself, with made-up people of Ontario who have diagnoses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from broker_common.language import phrase

PEOPLE = 20_000

Mask = npt.NDArray[np.bool_]

_SMALL = 0.01
_LARGEST, _SMALLEST = 0.5, 0.005
_PATIENTS, _ASKED_PATIENTS = 0.2, 0.15
_ONE_DISEASE = 0.05


@dataclass(frozen=True, slots=True)
class Workload:
    """A stream of questions, in a name, a sentence, and the groups that it asks about."""

    key: str
    label: str
    words: str
    groups: Callable[[np.random.Generator], Iterator[Mask]]


def _different(random: np.random.Generator) -> Iterator[Mask]:
    while True:
        yield random.random(PEOPLE) < _SMALL


def _mixed(random: np.random.Generator) -> Iterator[Mask]:
    while True:
        share = _SMALLEST * (_LARGEST / _SMALLEST) ** random.random()
        yield random.random(PEOPLE) < share


def _patients(random: np.random.Generator) -> Iterator[Mask]:
    ill = random.random(PEOPLE) < _PATIENTS
    while True:
        yield ill & (random.random(PEOPLE) < _ASKED_PATIENTS)


def _with_everybody(random: np.random.Generator) -> Iterator[Mask]:
    while True:
        yield random.random(PEOPLE) < _SMALL
        yield np.ones(PEOPLE, np.bool_)


def _one_disease(random: np.random.Generator) -> Iterator[Mask]:
    ill = random.random(PEOPLE) < _ONE_DISEASE
    while True:
        yield ill


WORKLOADS = {
    each.key: each
    for each in (
        Workload(
            "mixed",
            phrase("groups of every size"),
            phrase(
                "Groups have from one person in 200 to every second one; of each order of magnitude there are as many."
            ),
            _mixed,
        ),
        Workload(
            "different",
            phrase("small groups, each time others"),
            phrase("Every question is about one person in a hundred, drawn anew."),
            _different,
        ),
        Workload(
            "patients",
            phrase("the same patients again and again"),
            phrase("One person in five is a chronic patient, and every question is about 15% of these patients."),
            _patients,
        ),
        Workload(
            "everybody",
            phrase("everybody, after each small group"),
            phrase("After each question about one person in a hundred, the next is about everybody, to compare with."),
            _with_everybody,
        ),
        Workload(
            "disease",
            phrase("one disease alone"),
            phrase("Every question is about the same twentieth of the people."),
            _one_disease,
        ),
    )
}
