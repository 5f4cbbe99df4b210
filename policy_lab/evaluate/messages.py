"""Messages of respondents under local and shuffled noise, and the estimates from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from policy_lab.arrays import Codes, Reals
from policy_lab.evaluate.cells import Block, Table, blocks, quick_sums
from policy_lab.evaluate.data import Data, Values
from policy_lab.evaluate.run import Column, Mechanism, RunFile
from policy_lab.evaluate.seeds import generator
from policy_lab.mechanisms.bounded import KINDS, BoundedLaplace
from policy_lab.mechanisms.randomised_response import RandomisedResponse
from policy_lab.mechanisms.shuffling import shuffle


@dataclass(frozen=True, slots=True)
class Groups:
    """Who is among whom: rows whose messages nothing but the noised columns tells apart."""

    # Group number of every row.
    of_row: Codes
    rows: Codes
    stratum: Codes
    # Weight of each row in the estimates: its own weight if that is sent along, or else its group's mean weight.
    weights: Reals


def groups(run: RunFile, data: Data, mechanism: Mechanism) -> Groups:
    """The groups of a mechanism; each row alone where nothing is shuffled or the weight travels along."""
    strata = data.strata.astype(np.int64)
    if mechanism.place != "shuffled" or mechanism.along == "weight":
        return Groups(np.arange(data.rows), np.ones(data.rows, np.int64), strata, data.weights)
    keys = [strata.astype(np.float64)]
    # Whether a number was stated is not noised: it tells messages apart.
    keys += [
        np.isnan(values.numbers).astype(np.float64)
        for column in run.noised(mechanism)
        if (values := data.columns[column.name.text]).numbers is not None
    ]
    if mechanism.along == "static":
        keys += [keyed(data.columns[column.name.text]) for column in run.unchanged(mechanism)]
    found, of_row, rows = np.unique(np.stack(keys, 1), axis=0, return_inverse=True, return_counts=True)
    of_row = of_row.reshape(-1)
    means = np.bincount(of_row, data.weights) / rows
    return Groups(of_row, rows, found[:, 0].astype(np.int64), means[of_row])


def keyed(values: Values) -> Reals:
    """A column's values, a number of its own for each and for none."""
    if values.codes is not None:
        return values.codes.astype(np.float64)
    assert values.numbers is not None  # noqa: S101 - a column has codes or numbers
    # No number is its own equal here: rows without one are alike.
    return np.where(np.isnan(values.numbers), np.inf, values.numbers)


def law(column: Column, mechanism: Mechanism, epsilon: float) -> RandomisedResponse | BoundedLaplace:
    """How a respondent's value of this column is noised."""
    if column.is_category:
        return RandomisedResponse(len(column.categories), epsilon)
    kind = next(each for each in KINDS if each == mechanism.numbers)
    return BoundedLaplace(column.low, column.high, epsilon, kind)


def sent(run: RunFile, data: Data, mechanism: Mechanism, epsilon: float, repetition: int) -> Mapping[str, Values]:
    """Every noised column as respondents send it, in the order of rows."""
    return {
        column.name.text: _noised(
            data.columns[column.name.text],
            law(column, mechanism, epsilon),
            generator(run.seed, mechanism.key, epsilon, column.name.text, repetition),
        )
        for column in run.noised(mechanism)
    }


def _noised(values: Values, by: RandomisedResponse | BoundedLaplace, random: np.random.Generator) -> Values:
    if isinstance(by, RandomisedResponse):
        assert values.codes is not None  # noqa: S101 - the law is made for the column
        return Values(codes=by.apply(values.codes.astype(np.int64), random).astype(np.int16))
    assert values.numbers is not None  # noqa: S101 - as above
    noised = np.full(values.numbers.shape, np.nan)
    stated = ~np.isnan(values.numbers)
    noised[stated] = by.apply(values.numbers[stated], random)
    return Values(numbers=noised)


def shuffled(run: RunFile, data: Data, mechanism: Mechanism, among: Groups, epsilon: float, repetition: int) -> Codes:
    """The sender of each row's message after the shuffling: one permutation inside each group.

    Where the weight travels along, messages are shuffled with their weights inside their stratum.
    """
    random = generator(run.seed, mechanism.key, epsilon, "permutation", repetition)
    whose = data.strata.astype(np.int64) if mechanism.along == "weight" else among.of_row
    order = np.argsort(whose, kind="stable")
    # Every message draws a place; those of one group are then put in the order of what they drew.
    drawn = shuffle(np.arange(data.rows), random)
    permuted = np.lexsort((drawn, whose))
    places = np.empty(data.rows, np.int64)
    places[order] = permuted
    return places


def moved(values: Values, places: Codes) -> Values:
    """A column of messages after the shuffling."""
    return Values(
        codes=None if values.codes is None else values.codes[places],
        numbers=None if values.numbers is None else values.numbers[places],
    )


def estimates(
    run: RunFile, data: Data, mechanism: Mechanism, epsilon: float, messages: Mapping[str, Values], weights: Reals
) -> list[Reals]:
    """Estimates for every block, from messages with these weights."""
    return [_estimate(run, data, block, mechanism, epsilon, messages, weights) for block in blocks(run, mechanism)]


def _estimate(
    run: RunFile,
    data: Data,
    block: Block,
    mechanism: Mechanism,
    epsilon: float,
    messages: Mapping[str, Values],
    weights: Reals,
) -> Reals:
    values = messages[block.column.name.text]
    by = law(block.column, mechanism, epsilon)
    if isinstance(by, RandomisedResponse):
        return by.estimate(_counts(run, data, block, values, weights))
    assert values.numbers is not None  # noqa: S101 - the law is made for the column
    return _numbers(run, data, values.numbers, weights).answer(block.query)


def _counts(run: RunFile, data: Data, block: Block, values: Values, weights: Reals) -> Reals:
    assert values.codes is not None  # noqa: S101 - counted columns have codes
    width, count = len(block.cell_names), len(run.strata_names)
    cells = data.strata.astype(np.int64) * width + values.codes
    return quick_sums(cells, weights, count * width).reshape(count, width)


def _numbers(run: RunFile, data: Data, numbers: Reals, weights: Reals) -> Table:
    stated = ~np.isnan(numbers)
    strata, count = data.strata[stated].astype(np.int64), len(run.strata_names)
    sums = quick_sums(strata, weights[stated] * numbers[stated], count)
    return Table(sums[:, None], quick_sums(strata, weights[stated], count))


def expected(run: RunFile, data: Data, mechanism: Mechanism, epsilon: float, weights: Reals) -> list[Reals]:
    """The exact expectation of every estimate, over the noise."""
    answers = []
    for block in blocks(run, mechanism):
        values = data.columns[block.column.name.text]
        by = law(block.column, mechanism, epsilon)
        if isinstance(by, RandomisedResponse):
            # Its estimates are unbiased: of the true categories, at these weights.
            answers.append(_counts(run, data, block, values, weights))
            continue
        assert values.numbers is not None  # noqa: S101 - the law is made for the column
        stated = ~np.isnan(values.numbers)
        means = np.full(values.numbers.shape, np.nan)
        means[stated] = by.mean(values.numbers[stated])
        answers.append(_numbers(run, data, means, weights).answer(block.query))
    return answers
