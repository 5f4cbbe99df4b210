"""Plan of a study: its cost, its duration, and whether it can find anything, before anything is asked.

Everything is computed from the file, the published policy and what the author expects. Neither node is asked for anything about
people. Figures of cost are upper bounds: nobody is charged more than they say.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from broker_common.crypto.sampling import WHOLE_MILLIONTHS
from broker_common.privacy.accounting import price
from broker_common.privacy.policy import Policy
from broker_common.query.dictionary import Dictionary
from researcher_node.estimates.from_answers import design_of
from researcher_node.estimates.planning import Planned, expected_widths, power
from researcher_node.estimates.tables import Counts
from researcher_node.study.design import Row, Study
from researcher_node.study.overlap import most_in
from researcher_node.study.results import Finding, estimate_of

# Usual limits: questions in hand at a health node, and a census node's quotes. Operators may set others.
_USUAL_PLACES = 16
_USUAL_QUOTE_BURST = 200
_USUAL_QUOTES_PER_SECOND = 1.0
# From the tick at which a sample leaves to its answer.
_TICKS_AN_ANSWER = 5
# Without ticks an answer takes what the nodes' work takes.
_LEAST_SECONDS = 0.2
# A ratio that most studies want to be able to see, and how surely.
_USUAL_RATIO = 0.5
_WANTED_POWER = 0.8
# Groups are thought to grow so many times at most, and how exactly the answer is looked for.
_MOST_TIMES, _TOLERANCE = 1e6, 0.02


@dataclass(frozen=True, slots=True)
class Cost:
    """The most that one person is charged, in units."""

    # Answers that are still to be asked for, and all of the study.
    new_answers: int
    answers: int
    # At most so many of them are about one person.
    answers_a_person: int
    price: int
    budget: int

    @property
    def units(self) -> int:
        return self.answers_a_person * self.price

    @property
    def share(self) -> float:
        """Share of one person's budget."""
        return self.units / self.budget

    @property
    def studies_a_person(self) -> int:
        """So many such studies fit into one person's budget."""
        return self.budget // self.units


@dataclass(frozen=True, slots=True)
class Width:
    """How wide the intervals of one share will be; None: it could not be told."""

    row: Row
    people: int
    share: float
    noise_only: float | None
    with_sampling: float | None


@dataclass(frozen=True, slots=True)
class Sight:
    """Whether a difference between a group and its reference would be seen, and how many people that takes."""

    row: Row
    ratio: float
    power: float
    is_seen: bool
    people: int
    # In the group, and as many times as many in its reference, for the power that is wanted; None: no number would do.
    needed: int | None


@dataclass(frozen=True, slots=True)
class Plan:
    """All figures of a plan."""

    study: Study
    scale: int
    cost: Cost
    seconds: float
    widths: tuple[Width, ...]
    sights: tuple[Sight, ...]
    # Estimates that several answers are put together for, as they would be without noise.
    expected: tuple[Finding, ...]

    @property
    def unplanned(self) -> tuple[str, ...]:
        """Kinds of estimates that too little is expected for."""
        planned: list[Width | Sight | Finding] = [*self.widths, *self.sights, *self.expected]
        said = {each.row.kind for each in planned}
        return tuple(dict.fromkeys(row.kind for row in self.study.rows if row.kind not in said))


def make_plan(study: Study, scale: int, policy: Policy, health: Dictionary, *, answered: int) -> Plan:
    """The plan of a study at a scale; `answered` of its questions have answers already."""
    strict = policy.accounting == "strict"
    everyone = len(study.asks)
    cost = Cost(
        new_answers=everyone - answered,
        answers=everyone,
        answers_a_person=everyone if strict else most_in([ask.where for ask in study.asks], health),
        price=price(scale, cells=len(study.question.cells)),
        budget=policy.cap,
    )
    seconds = seconds_for(everyone - answered, policy)
    if study.file.expect is None:
        return Plan(study, scale, cost, seconds, (), (), ())
    return Plan(study, scale, cost, seconds, _widths(study, scale), _sights(study, scale), _expected(study, scale))


def seconds_for(answers: int, policy: Policy) -> float:
    """About how long so many answers take on nodes that do nothing else."""
    rounds = math.ceil(answers / _USUAL_PLACES)
    each = max(_LEAST_SECONDS, (policy.forward_delay_ms + _TICKS_AN_ANSWER * policy.release_tick_ms) / 1000)
    waits_for_quotes = max(0, answers - _USUAL_QUOTE_BURST) / _USUAL_QUOTES_PER_SECOND
    return max(rounds * each, waits_for_quotes)


def _widths(study: Study, scale: int) -> tuple[Width, ...]:
    found = []
    for row in study.rows:
        if row.kind == "share":
            planned, people = _planned(study, row, row.group, scale)
            widths = expected_widths(planned)
            found.append(Width(row, people, planned.share, widths.noise_only, widths.with_sampling))
    return tuple(found)


def _sights(study: Study, scale: int) -> tuple[Sight, ...]:
    found = []
    for row in study.rows:
        if row.kind in {"difference", "ratio"} and row.reference is not None:
            here, people = _planned(study, row, row.group, scale)
            there, _ = _planned(study, row, row.reference, scale)
            if here.share == there.share:
                # Nothing is expected: would it be seen if there were half as many?
                here, _ = _planned(study, row, row.group, scale, share=_USUAL_RATIO * there.share)
            chance = power(here, there)
            is_seen = chance >= _WANTED_POWER
            ratio = here.share / there.share if there.share else math.inf
            needed = people if is_seen else _needed(here, there, people)
            found.append(Sight(row, ratio, chance, is_seen, people, needed))
    return tuple(found)


def _expected(study: Study, scale: int) -> tuple[Finding, ...]:
    found = []
    for row in study.rows:
        if row.kind not in {"share", "difference", "ratio"}:
            counts = _expected_counts(study, row, scale)
            if counts:
                found.append(Finding(row, estimate_of(row, counts), ()))
    return tuple(found)


def _expected_counts(study: Study, row: Row, scale: int) -> list[Counts]:
    """Expected exact answers to the questions of a row; nothing where the file does not say enough."""
    expect = study.file.expect
    event = None if expect is None else expect.event
    if row.kind == "rate_ratio" and event is None:
        return []
    # The questions of a rate ratio are about the people of one group with the event, and without it.
    parts = [Fraction(1)] * len(row.asks) if event is None or row.kind != "rate_ratio" else [event, 1 - event]
    drawn_as = design_of(study.part)
    drawn = Fraction(study.file.fraction_millionths, WHOLE_MILLIONTHS)
    counts = []
    for place, part in zip(row.asks, parts, strict=True):
        people, shares = expected_cells(study, row, study.asks[place].group)
        counted = float(people * part * drawn) / drawn_as.weight
        counts.append(Counts(tuple(round(counted * share) for share in shares), scale, drawn, drawn_as))
    return counts


def _planned(
    study: Study, row: Row, group: Sequence[str | None], scale: int, *, share: float | None = None
) -> tuple[Planned, int]:
    """A group as its author expects it, and how many people that are before a fraction of them is drawn."""
    people, expected = expected_in(study, row.part_cells, group)
    cells = len(study.question.cells)
    whole = cells if row.whole_cells is None else len(row.whole_cells)
    drawn_as = design_of(study.part)
    planned = Planned(
        people=people * study.file.fraction_millionths / WHOLE_MILLIONTHS / drawn_as.weight,
        share=expected if share is None else share,
        scale=scale,
        cells=cells,
        part_cells=len(row.part_cells),
        rest_cells=whole - len(row.part_cells),
        design=drawn_as,
    )
    return planned, people


def expected_in(study: Study, part: Sequence[int], group: Sequence[str | None]) -> tuple[int, float]:
    """People in a group, and the share of them in these cells, as the file says; the last exception that fits holds."""
    expect = study.file.expect
    assert expect is not None  # noqa: S101 - callers look first
    people, shares = expect.people, expect.share
    names = [name for name, _ in study.splits]
    for each in expect.groups:
        if all(group[names.index(name.text)] == chosen.text for name, chosen in each.select):
            people = people if each.people is None else each.people
            shares = shares if each.share is None else each.share
    if "" in shares:
        return people, float(shares[""])
    return people, float(sum(shares.get(study.cells[cell], 0) for cell in part))


def expected_cells(study: Study, row: Row, group: Sequence[str | None]) -> tuple[int, list[float]]:
    """People in a group, and the share of them in each cell: what is expected of the estimated cells, and of those they are compared with."""
    people, share = expected_in(study, row.part_cells, group)
    others = row.against_cells or row.whole_cells or range(len(study.cells))
    rest = [cell for cell in others if cell not in row.part_cells]
    _, against = expected_in(study, rest, group)
    named = study.file.expect is not None and "" not in study.file.expect.share and row.against_cells is not None
    shares = [0.0] * len(study.cells)
    shares[row.part_cells[0]] = share
    shares[rest[0]] = against if named else 1 - share
    return people, shares


def _needed(here: Planned, there: Planned, people: int) -> int | None:
    """So many people in the group if the two groups grow alike, in two significant digits; None: no number would do."""

    def is_seen(times: float) -> bool:
        grown = (replace(each, people=times * each.people) for each in (here, there))
        return power(*grown) >= _WANTED_POWER

    if not (people and here.people and there.people):
        return None
    times = 1.0
    while not is_seen(times):
        times *= 2
        if times > _MOST_TIMES:
            return None
    low, high = times / 2, times
    while high / low > 1 + _TOLERANCE:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_seen(middle) else (middle, high)
    step = int(10 ** max(0, len(str(math.ceil(people * high))) - 2))
    return math.ceil(people * high / step) * step
