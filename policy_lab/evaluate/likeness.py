"""Likeness of the sent data: shapes, how columns go together, who is found again, and what plain answers would change.

Ranks and associations take time: they are measured on the same rows, at most `MOST_ROWS` drawn by the seed, before and after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import msgspec
import numpy as np

from policy_lab.arrays import Codes
from policy_lab.evaluate.cells import quick_sums
from policy_lab.evaluate.data import Data, Values
from policy_lab.evaluate.messages import Groups, keyed, law
from policy_lab.evaluate.run import Column, Mechanism, RunFile
from policy_lab.evaluate.seeds import generator
from policy_lab.measures import baseline, linkage, mixture, shapes
from policy_lab.measures import columns as measured
from policy_lab.measures.correlations import association
from policy_lab.mechanisms.randomised_response import RandomisedResponse

MOST_ROWS = 100_000
"""So many rows are measured at most."""
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Of the respondents who answer plainly, in the mixtures."""
_MOST_ATTACKED = 300
_LEAST_ATTACKED = 20
# Rows that all attacks together look at.
_LOOKED_AT = 20_000_000
# Laws whose density falls with the distance as Laplace's does.
_LAPLACE_LIKE = frozenset({"truncated", "clamped"})


class Linked(msgspec.Struct, frozen=True):
    """Shares of the respondents attacked."""

    people: int
    alone: float
    by_unchanged: float
    by_answers: float


class Likeness(msgspec.Struct, frozen=True):
    """One data set as it was sent, beside the true one."""

    # Values by column, and by pair of columns in the order of `combinations`.
    shapes: list[float]
    pairs: list[float]
    linked: Linked
    # Errors by share of plain answers, then by noised column: the error over the whole file, relative to its total or range.
    mixtures: list[list[float]]


def measured_rows(run: RunFile, data: Data) -> Codes:
    """The rows that are measured."""
    if data.rows <= MOST_ROWS:
        return np.arange(data.rows)
    return np.sort(generator(run.seed, "measured rows").choice(data.rows, MOST_ROWS, replace=False))


def pair_names(run: RunFile) -> list[tuple[Column, Column]]:
    """The pairs of columns."""
    return list(combinations(run.columns, 2))


def true_pairs(run: RunFile, data: Data) -> list[float]:
    """How the columns of the file go together."""
    rows = measured_rows(run, data)
    return _pairs([_measured(column, data.columns[column.name.text], rows) for column in run.columns])


def permuted_pairs(run: RunFile, data: Data) -> list[float]:
    """The same after each column was permuted by itself: what is there when nothing goes together."""
    rows = measured_rows(run, data)
    table = [_measured(column, data.columns[column.name.text], rows) for column in run.columns]
    return _pairs(baseline.permuted(table, generator(run.seed, "baseline")))


def likeness(
    run: RunFile,
    data: Data,
    mechanism: Mechanism,
    epsilon: float,
    repetition: int,
    alike: Codes,
    sent: Mapping[str, Values],
    received: Mapping[str, Values],
) -> Likeness:
    """Measures of one data set. `sent` is in the order of respondents, `received` as it arrives beside the unchanged columns.

    `alike` is of `candidates`.
    """
    rows = measured_rows(run, data)
    after = [
        _measured(column, received.get(column.name.text, data.columns[column.name.text]), rows)
        for column in run.columns
    ]
    before = [_measured(column, data.columns[column.name.text], rows) for column in run.columns]
    # The same people are attacked, and answer plainly, whatever the mechanism: figures differ for no other reason.
    random = generator(run.seed, "linkage", repetition)
    mixing = generator(run.seed, "mixture", repetition)
    return Likeness(
        shapes=[shapes.shape(_stated(one), _stated(other)) for one, other in zip(before, after, strict=True)],
        pairs=_pairs(after),
        linked=_linked(run, data, mechanism, epsilon, alike, sent, random),
        mixtures=_mixtures(run, data, mechanism, epsilon, sent, mixing) if mechanism.place == "local" else [],
    )


def _measured(column: Column, values: Values, rows: Codes) -> measured.Column:
    if column.is_category:
        assert values.codes is not None  # noqa: S101 - a column has codes or numbers
        return measured.Column(column.name.text, "category", values.codes[rows])
    assert values.numbers is not None  # noqa: S101 - as above
    return measured.Column(column.name.text, "number", values.numbers[rows])


def _has_value(column: measured.Column) -> np.typing.NDArray[np.bool_]:
    return np.ones(len(column.values), np.bool_) if column.kind == "category" else ~np.isnan(column.values)


def _stated(column: measured.Column) -> measured.Column:
    return measured.Column(column.name, column.kind, column.values[_has_value(column)])


def _pairs(table: Sequence[measured.Column]) -> list[float]:
    """Each pair on the rows that have both values."""
    found = []
    for one, other in combinations(table, 2):
        both = _has_value(one) & _has_value(other)
        found.append(
            association(
                measured.Column(one.name, one.kind, one.values[both]),
                measured.Column(other.name, other.kind, other.values[both]),
            )
            if np.any(both)
            else 0.0
        )
    return found


# --- linkage -------------------------------------------------------------------------------------------------------


def _linked(
    run: RunFile,
    data: Data,
    mechanism: Mechanism,
    epsilon: float,
    alike: Codes,
    sent: Mapping[str, Values],
    random: np.random.Generator,
) -> Linked:
    largest = int(np.bincount(alike).max())
    people = min(data.rows, max(_LEAST_ATTACKED, min(_MOST_ATTACKED, _LOOKED_AT // largest)))
    attacked = np.sort(random.choice(data.rows, people, replace=False))
    known = [
        each
        for column in run.noised(mechanism)
        if (each := _known(column, mechanism, epsilon, data.columns[column.name.text], sent[column.name.text]))
    ]
    found = linkage.reidentified(alike, attacked, known)
    by_answers = found.by_unchanged if found.by_answers is None else found.by_answers
    return Linked(found.people, found.alone, found.by_unchanged, by_answers)


def candidates(run: RunFile, data: Data, mechanism: Mechanism, among: Groups) -> Codes:
    """Rows that agree in everything that stands unchanged beside an answer have the same number."""
    if mechanism.place == "shuffled" and mechanism.along != "weight":
        return among.of_row
    beside = [data.strata.astype(np.float64)]
    # Sent as it is, and clipped only where answers are made of it.
    beside.append(data.full_weights)
    if mechanism.place == "local":
        beside += [keyed(data.columns[column.name.text]) for column in run.unchanged(mechanism)]
    beside += [
        np.isnan(numbers).astype(np.float64)
        for column in run.noised(mechanism)
        if (numbers := data.columns[column.name.text].numbers) is not None
    ]
    return linkage.groups_of(beside)


def _known(column: Column, mechanism: Mechanism, epsilon: float, truth: Values, sent: Values) -> linkage.Known | None:
    """Score of an attacker who knows the true value, against the sent data; None if that is not tried."""
    by = law(column, mechanism, epsilon)
    if isinstance(by, RandomisedResponse):
        assert truth.codes is not None  # noqa: S101 - the law is made for the column
        assert sent.codes is not None  # noqa: S101 - as above
        laws = np.stack([by.law(code) for code in range(by.categories)])
        return linkage.Known(truth.codes, sent.codes, linkage.category_law(laws))
    if mechanism.numbers not in _LAPLACE_LIKE:
        return None
    assert truth.numbers is not None  # noqa: S101 - as above
    assert sent.numbers is not None  # noqa: S101 - as above
    # Rows without a number are candidates only for one another: any number does for them.
    return linkage.Known(
        np.nan_to_num(truth.numbers), np.nan_to_num(sent.numbers), linkage.laplace_law(by.range / epsilon)
    )


# --- mixtures ------------------------------------------------------------------------------------------------------


def _mixtures(
    run: RunFile,
    data: Data,
    mechanism: Mechanism,
    epsilon: float,
    sent: Mapping[str, Values],
    random: np.random.Generator,
) -> list[list[float]]:
    return [
        [
            _mixed_error(data, column, mechanism, epsilon, sent[column.name.text], share, random)
            for column in run.noised(mechanism)
        ]
        for share in SHARES
    ]


def _mixed_error(
    data: Data,
    column: Column,
    mechanism: Mechanism,
    epsilon: float,
    sent: Values,
    share: float,
    random: np.random.Generator,
) -> float:
    """How far the whole file's answer is off: half the misplaced share of all weight, or the mean's error over the range."""
    truth = data.columns[column.name.text]
    by = law(column, mechanism, epsilon)
    if isinstance(by, RandomisedResponse):
        assert truth.codes is not None  # noqa: S101 - the law is made for the column
        assert sent.codes is not None  # noqa: S101 - as above
        mixed = mixture.mixed(truth.codes, sent.codes, share, random)
        totals = mixture.totals(mixed, data.weights, by.categories, by.estimate)
        true = quick_sums(truth.codes.astype(np.int64), data.weights, by.categories)
        return float(np.abs(totals - true).sum() / (2 * true.sum()))
    assert truth.numbers is not None  # noqa: S101 - as above
    assert sent.numbers is not None  # noqa: S101 - as above
    stated = ~np.isnan(truth.numbers)
    mixed = mixture.mixed(truth.numbers[stated], sent.numbers[stated], share, random)
    weights = data.weights[stated]
    if not weights.size:
        return 0.0
    return float(
        abs(np.average(mixed.values, weights=weights) - np.average(truth.numbers[stated], weights=weights)) / by.range
    )
