"""The listing tried out: generated rows, estimates, answers, again and again, for every column, query and number of rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from broker_common.language import phrase
from policy_lab.arrays import Reals
from policy_lab.sensitivity import texts
from policy_lab.sensitivity.listing import estimates, refused, too_small
from policy_lab.sensitivity.queries import QUERIES, Bounds, Query, bounded_answers, exact, source_sensitivity
from policy_lab.sensitivity.table import Table, wrong

# Generated rows: how many, and which of several samples.
Generator = Callable[[int, int], Mapping[str, Reals]]

# Which stream of the seed draws what.
_ROWS_DRAWN, _LISTING, _BOUNDED = range(3)


@dataclass(frozen=True, slots=True)
class Plan:
    """The trials to run."""

    columns: Sequence[str]
    rows: Sequence[int]
    epsilon: float
    samples: int
    repetitions: int
    seed: int
    bounds: Mapping[str, Bounds]


@dataclass(frozen=True, slots=True)
class Trial:
    """A column, a query and a number of rows: means over all samples and repetitions."""

    column: str
    query: Query
    rows: int
    exact: float
    # The source's sensitivity of the real rows, of the generated ones, and as the listing estimates it.
    real: float
    generated: float
    estimate: float
    # Exact probabilities by the listing's law, and how many estimates were refused here.
    too_small: float
    refused: float
    refused_here: int
    # Mean absolute errors: of the sensitivities, of the answers, and of the query on the generated rows.
    generated_off: float
    estimate_off: float
    answer_error: float
    answer_standard_error: float | None
    generated_error: float
    # With public bounds, where some were given.
    bounded_error: float | None


def default_rows(rows: int) -> list[int]:
    """An eighth, a quarter, a half and all of the rows, as far as that makes tables."""
    return sorted({max(2, rows // part) for part in (8, 4, 2, 1)})


def trials(table: Table, plan: Plan, generate: Generator, progress: Callable[[int, int], None]) -> list[Trial]:
    """Everything that is planned, smallest tables first.

    Raises:
        InvalidRequestError: SENSITIVITY_REFUSED if so few rows, real or generated, have no value at all.
    """
    order = np.random.default_rng([plan.seed, _ROWS_DRAWN]).permutation(table.rows)
    found: list[Trial] = []
    for place, rows in enumerate(plan.rows):
        progress(place, len(plan.rows))
        chosen = np.sort(order[:rows])
        samples = [generate(rows, sample) for sample in range(plan.samples)]
        for column in plan.columns:
            real = _with_values(table.file, column, table.numbers[column][chosen])
            generated = [_with_values(texts.GENERATED, column, sample[column]) for sample in samples]
            found += _of_column(column, real, generated, plan)
    progress(1, 1)
    return found


def _with_values(file: str, column: str, values: Reals) -> Reals:
    if np.isnan(values).all():
        raise wrong(file, phrase(texts.NO_VALUE_AMONG, column=column, rows=values.size), texts.NO_VALUE_AMONG_REMEDY)
    return values


def _of_column(column: str, real: Reals, generated: Sequence[Reals], plan: Plan) -> Iterator[Trial]:
    for query in QUERIES:
        key = [plan.seed, plan.columns.index(column), QUERIES.index(query), real.size]
        random = np.random.default_rng([*key, _LISTING])
        bounded = np.random.default_rng([*key, _BOUNDED])
        yield _trial(column, query, real, generated, plan, random, bounded)


def _trial(
    column: str,
    query: Query,
    real: Reals,
    generated: Sequence[Reals],
    plan: Plan,
    random: np.random.Generator,
    bounded: np.random.Generator,
) -> Trial:
    truth, sensitivity = exact(query, real), source_sensitivity(query, real)
    generated_ones = [source_sensitivity(query, each) for each in generated]
    drawn = [estimates(sensitivity, each, plan.repetitions, random) for each in generated_ones]
    kept = [each[each > 0] for each in drawn]
    errors = [np.abs(random.laplace(0, each / plan.epsilon)) for each in kept]
    bounds = plan.bounds.get(column)
    count = plan.samples * plan.repetitions
    return Trial(
        column=column,
        query=query,
        rows=real.size,
        exact=truth,
        real=sensitivity,
        generated=_mean(generated_ones),
        estimate=_mean(np.concatenate(kept)),
        too_small=_mean([too_small(sensitivity, each) for each in generated_ones]),
        refused=_mean([refused(sensitivity, each) for each in generated_ones]),
        refused_here=count - sum(each.size for each in kept),
        generated_off=_mean([abs(each - sensitivity) for each in generated_ones]),
        estimate_off=_mean(np.abs(np.concatenate(kept) - sensitivity)),
        answer_error=_mean(np.concatenate(errors)),
        answer_standard_error=_standard_error([_mean(each) for each in errors if each.size]),
        generated_error=_mean([abs(exact(query, each) - truth) for each in generated]),
        bounded_error=None
        if bounds is None
        else _mean(np.abs(bounded_answers(query, real, bounds, plan.epsilon, count, bounded) - truth)),
    )


def _mean(values: Sequence[float] | Reals) -> float:
    """The mean; NaN of nothing, which is where every estimate was refused."""
    return float(np.mean(values)) if len(values) else math.nan


def _standard_error(means: Sequence[float]) -> float | None:
    """Standard error of the mean over samples: answers of one sample share its generated rows."""
    return float(np.std(means, ddof=1)) / math.sqrt(len(means)) if len(means) > 1 else None
