"""Estimates of answers by the labels of their cells; how they are made, and how well they cover: docs/estimates.md."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from broker_common.crypto.sampling import WHOLE_MILLIONTHS
from researcher_node.answers import AskedQuestion
from researcher_node.estimates import Counts, Design, Estimate, Group, Interval, rate_ratio

CANNOT_BE_TOLD = "cannot be told"


def counts_of(asked: AskedQuestion) -> Counts:
    """An answered question as the statistics take it."""
    if asked.noisy is None:
        raise ValueError(f"question {asked.query} has no answer")
    part = asked.asked_of
    design = Design() if part is None else Design(float(part.weight), float(part.design_effect))
    return Counts(asked.noisy.values, asked.scale, Fraction(asked.fraction_millionths, WHOLE_MILLIONTHS), design)


def group_of(asked: AskedQuestion, part: str | Sequence[str], of: Sequence[str] | None) -> Group:
    """The cells `part` among the cells `of`, by their labels; None: among all cells of the answer."""
    whole = None if of is None else cells_named(asked, of)
    return Group(counts_of(asked), cells_named(asked, part), whole)


def groups_of(questions: Sequence[AskedQuestion], part: str | Sequence[str], of: Sequence[str] | None) -> list[Group]:
    """The same of several answers.

    Raises:
        ValueError: one answer stands for two groups, whose noise would then be one and the same.
    """
    if len({asked.query for asked in questions}) < len(questions):
        raise ValueError("two of the groups are the same question: compare groups with different criteria")
    return [group_of(asked, part, of) for asked in questions]


def rate_ratio_of(
    inside: AskedQuestion, outside: AskedQuestion, part: str | Sequence[str], against: str | Sequence[str] | None
) -> Estimate:
    """How many times as often people of `part` meet the criteria as people of `against`, or all others, do."""
    if inside.question != outside.question or inside.query == outside.query:
        raise ValueError("a rate ratio needs the same question about the criteria and about 'not (criteria)'")
    other = None if against is None else cells_named(inside, against)
    return rate_ratio(counts_of(inside), counts_of(outside), cells_named(inside, part), other)


def cells_named(asked: AskedQuestion, labels: str | Sequence[str]) -> tuple[int, ...]:
    """The places of the cells with these labels.

    Raises:
        ValueError: there is none with such a label, with those that there are.
    """
    known = [cell.label for cell in asked.cells]
    wanted = [labels] if isinstance(labels, str) else labels
    unknown = [label for label in wanted if label not in known]
    if unknown:
        raise ValueError(f"no cell is labelled {unknown[0]!r}; there are: {', '.join(map(repr, known))}")
    return tuple(known.index(label) for label in wanted)


def interval_text(interval: Interval) -> str:
    """An interval for people; one that excludes nothing says so."""
    return f"{interval.low:.4g} to {interval.high:.4g}" if interval.told else CANNOT_BE_TOLD


def value_text(estimate: Estimate) -> str:
    """The number itself for people."""
    return CANNOT_BE_TOLD if estimate.value is None else f"{estimate.value:.4g}"
