"""Estimates from stored answers: which numbers of them belong together, and how an estimate is shown."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from broker_common.crypto.sampling import WHOLE_MILLIONTHS
from broker_common.errors import InvalidRequestError
from broker_common.language import phrase, said
from broker_common.privacy.policy import Policy
from broker_common.query.dictionary import AskedOf, listed, shown
from broker_common.query.question import Cell, read_question
from researcher_node.answers.counted import linked_json, linked_sentences
from researcher_node.answers.store import AskedQuestion
from researcher_node.estimates import texts
from researcher_node.estimates.tables import (
    Counts,
    Design,
    Estimate,
    Group,
    Interval,
    Kind,
    difference,
    rate_ratio,
    ratio,
    share,
    standardised_rate,
    trend,
)


@dataclass(frozen=True, slots=True)
class Estimated:
    """An estimate, what it is of, and the answers that it is made of, each with its part in it."""

    estimate: Estimate
    part: tuple[str, ...]
    # The part is compared with these: the rest of the whole, or the other cells of a rate ratio.
    against: tuple[str, ...]
    answers: tuple[tuple[str, AskedQuestion], ...]


def estimated(
    kind: Kind,
    answers: Sequence[AskedQuestion],
    part: Sequence[str],
    *,
    among: Sequence[str] = (),
    against: Sequence[str] = (),
    numbers: Sequence[float] = (),
) -> Estimated:
    """The estimate of a kind; `part`, `among` and `against` are labels of cells, `numbers` weights or scores.

    Raises:
        InvalidRequestError: INVALID_VALUE, the answers are not there or do not belong together, or a label is not of a cell.
    """
    _verify_together(answers)
    if kind == "rate_ratio":
        return _rate_ratio(answers[0], answers[1], part, against)
    groups = [_group(asked, part, among) for asked in answers]
    first = answers[0]
    return Estimated(
        _of_groups(kind, groups, numbers),
        tuple(first.cells[place].label for place in groups[0].part),
        tuple(first.cells[place].label for place in groups[0].rest),
        tuple(zip(_roles(kind, len(answers), numbers), answers, strict=True)),
    )


def _of_groups(kind: Kind, groups: Sequence[Group], numbers: Sequence[float]) -> Estimate:
    match kind:
        case "share":
            return share(groups[0])
        case "difference":
            return difference(groups[0], groups[1])
        case "ratio":
            return ratio(groups[0], groups[1])
        case "standardised_rate":
            return standardised_rate(groups, numbers)
        case _:
            return trend(groups, numbers)


def _rate_ratio(
    inside: AskedQuestion, outside: AskedQuestion, part: Sequence[str], against: Sequence[str]
) -> Estimated:
    if set(inside.cells) != set(outside.cells):
        raise _of_query(outside, phrase(texts.OTHER_CELLS, query=inside.query), texts.OTHER_CELLS_REMEDY)
    if inside.fraction_millionths != outside.fraction_millionths:
        fractions = {"fraction": str(float(_fraction(outside))), "other": str(float(_fraction(inside)))}
        raise _of_query(outside, phrase(texts.OTHER_FRACTION, **fractions), texts.OTHER_FRACTION_REMEDY)
    here, there = _places("--part", inside, part), _places("--against", inside, against)
    if set(here) & set(there):
        raise _invalid("--against", texts.IN_BOTH, texts.IN_BOTH_REMEDY)
    there = there or tuple(place for place in range(len(inside.cells)) if place not in here)
    if not there:
        raise _every_cell(inside)
    estimate = rate_ratio(counts_of(inside), counts_of(outside, inside.cells), here, there)
    return Estimated(
        estimate,
        tuple(inside.cells[place].label for place in here),
        tuple(inside.cells[place].label for place in there),
        ((said(texts.INSIDE), inside), (said(texts.OUTSIDE), outside)),
    )


def counts_of(asked: AskedQuestion, order: Sequence[Cell] = ()) -> Counts:
    """The numbers of an answer, in the order of its own cells or of the given ones.

    Raises:
        InvalidRequestError: INVALID_VALUE, there is no answer yet.
    """
    if asked.noisy is None:
        raise _of_query(asked, texts.UNANSWERED, phrase(texts.UNANSWERED_REMEDY, query=asked.query))
    numbers = dict(zip(asked.cells, asked.noisy.values, strict=True))
    return Counts(
        tuple(numbers[cell] for cell in order or asked.cells), asked.scale, _fraction(asked), design_of(asked.asked_of)
    )


def design_of(part: AskedOf | None) -> Design:
    """How people were drawn for the census, as its dictionary declares it; None: everybody was asked."""
    return Design() if part is None else Design(float(part.weight), float(part.design_effect))


def _group(asked: AskedQuestion, part: Sequence[str], among: Sequence[str]) -> Group:
    here, whole = _places("--part", asked, part), _places("--among", asked, among)
    whole = whole or tuple(range(len(asked.cells)))
    if not set(here) <= set(whole):
        raise _invalid("--among", texts.NOT_AMONG, texts.NOT_AMONG_REMEDY)
    if set(here) == set(whole):
        raise _every_cell(asked)
    return Group(counts_of(asked), here, whole)


def _places(option: str, asked: AskedQuestion, labels: Sequence[str]) -> tuple[int, ...]:
    """The places of the cells with these labels, ascending."""
    places = {cell.label: place for place, cell in enumerate(asked.cells)}
    for label in labels:
        if label not in places:
            problem = phrase(texts.NO_SUCH_CELL, query=asked.query, label=shown(label))
            raise _invalid(option, problem, phrase(texts.NO_SUCH_CELL_REMEDY, cells=_cells(asked)))
    return tuple(sorted({places[label] for label in labels}))


def _verify_together(answers: Sequence[AskedQuestion]) -> None:
    """Return only if these are answers of different questions about one variable, each with something to divide by."""
    variable = read_question(answers[0].question).variable
    seen: set[str] = set()
    for asked in answers:
        if asked.query in seen:
            raise _of_query(asked, texts.SAME_QUERY, texts.SAME_QUERY_REMEDY)
        seen.add(asked.query)
        other = read_question(asked.question).variable
        if len(asked.cells) == 1:
            raise _of_query(asked, phrase(texts.ONE_CELL, label=_cells(asked)), texts.ONE_CELL_REMEDY)
        if other != variable:
            problem = phrase(texts.OTHER_VARIABLE, variable=str(other), other=str(variable))
            raise _of_query(asked, problem, texts.OTHER_VARIABLE_REMEDY)
        counts_of(asked)


def _every_cell(asked: AskedQuestion) -> InvalidRequestError:
    return _invalid("--part", texts.EVERY_CELL, phrase(texts.EVERY_CELL_REMEDY, cells=_cells(asked)))


def _of_query(asked: AskedQuestion, problem: str, remedy: str) -> InvalidRequestError:
    return _invalid(phrase(texts.QUERY, query=asked.query), problem, remedy)


def _invalid(name: str, problem: str, remedy: str) -> InvalidRequestError:
    return InvalidRequestError("INVALID_VALUE", name=name, problem=problem, remedy=remedy)


def _cells(asked: AskedQuestion) -> str:
    """Quoted, since a label may hold commas."""
    return listed((cell.label for cell in asked.cells), quote=True)


def _fraction(asked: AskedQuestion) -> Fraction:
    return Fraction(asked.fraction_millionths, WHOLE_MILLIONTHS)


def _roles(kind: Kind, count: int, numbers: Sequence[float]) -> list[str]:
    """Role of each answer in the estimate."""
    if kind == "standardised_rate":
        return [said(texts.GROUP_WEIGHED, weight=f"{number:g}") for number in numbers]
    if kind == "trend":
        return [said(texts.GROUP_AT, score=f"{number:g}") for number in numbers]
    return [said(texts.GROUP)] if count == 1 else [said(texts.GROUPS, number=n) for n in range(1, count + 1)]


# --- shown -----------------------------------------------------------------------------------------------------------


def estimate_json(found: Estimated, policies: Sequence[Policy | None]) -> dict[str, Any]:
    """For programs: numbers as they are, null for what is infinite, cannot be computed, or cannot be told.

    `policies` are those of the answers, in their order.
    """
    estimate = found.estimate
    return {
        "estimate": estimate.kind,
        "value": estimate.value,
        "noise_only": _interval_json(estimate.noise_only),
        "with_sampling": _interval_json(estimate.with_sampling),
        "confidence": "0.95",
        "part": list(found.part),
        "against": list(found.against),
        "answers": [
            {
                "query_id": asked.query,
                "role": role,
                "where": asked.where,
                "question": asked.question,
                "fraction": str(float(_fraction(asked))),
                "scale": asked.scale,
                "linked": linked_json(policy),
            }
            for (role, asked), policy in zip(found.answers, policies, strict=True)
        ],
    }


def _interval_json(interval: Interval) -> dict[str, Any]:
    return {
        "told": interval.told,
        "low": interval.low if interval.told else None,
        "high": interval.high if interval.told and math.isfinite(interval.high) else None,
        "method": interval.method,
    }


def estimate_text(found: Estimated, policies: Sequence[Policy | None]) -> str:
    """For people: the number, both intervals with their methods, what the answers were about, and who is linked."""
    estimate = found.estimate
    number = _NUMBERS[estimate.kind]
    value = said(texts.NO_VALUE) if estimate.value is None else number(estimate.value)
    part, against = ", ".join(found.part), ", ".join(found.against)
    noise, sampling = estimate.noise_only, estimate.with_sampling
    text = said(
        texts.ESTIMATE,
        title=said(texts.TITLES[estimate.kind], part=part, against=against, value=value),
        noise_only=_interval_text(noise, number),
        noise_method=said(noise.method),
        with_sampling=_interval_text(sampling, number),
        sampling_method=said(sampling.method),
    )
    first = found.answers[0][1]
    if first.asked_of is not None:
        effect = f"{float(first.asked_of.design_effect):g}"
        text += said(texts.OF_ASKED, one_in=first.asked_of.one_in, design_effect=effect)
    fractions = sorted({_fraction(asked) for _, asked in found.answers} - {Fraction(1)})
    if fractions:
        text += said(texts.OF_FRACTION, fraction=", ".join(f"{float(each):g}" for each in fractions))
    for role, asked in found.answers:
        text += said(texts.ANSWER, role=role, where=asked.where, query=asked.query, scale=asked.scale)
    return f"{text}\n{linked_sentences(policies)}"


def _interval_text(interval: Interval, number: Callable[[float], str]) -> str:
    if not interval.told:
        return said(texts.UNTOLD)
    if math.isinf(interval.high):
        return said(texts.AT_LEAST, low=number(interval.low))
    return said(texts.FROM_TO, low=number(interval.low), high=number(interval.high))


def _percent(value: float) -> str:
    return said(texts.PERCENT, value=100 * value)


def _points(value: float) -> str:
    return said(texts.POINTS, value=100 * value)


def _points_a_score(value: float) -> str:
    return said(texts.POINTS_A_SCORE, value=100 * value)


def _times(value: float) -> str:
    return said(texts.TIMES, value=value)


_NUMBERS: dict[str, Callable[[float], str]] = {
    "share": _percent,
    "difference": _points,
    "ratio": _times,
    "rate_ratio": _times,
    "standardised_rate": _percent,
    "trend": _points_a_score,
}
