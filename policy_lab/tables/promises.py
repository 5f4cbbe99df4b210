"""An answer's promise: between which files, and to whom it does not apply."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

from broker_common.language import phrase
from policy_lab.document.model import Block, Caution, Formula, Paragraph, Section
from policy_lab.tables import texts
from policy_lab.tables.cells import Cells, without_largest
from policy_lab.tables.plan import Plan, change_of, outlier_epsilon
from policy_lab.tables.question import Question
from policy_lab.tables.release import Release

# How many times the largest value of the file an outlier has who joins.
_OUTLIER = 10
_LIKELIHOOD = "P(M(D) ∈ S) ≤ e^ε · P(M(D') ∈ S)"


def evaluated_promise(question: Question, plan: Plan, cells: Cells) -> Section:
    """Promise of an evaluation, with figures of the data."""
    noise = texts.FOR_EVALUATION if question.uniform is None else texts.BY_HAND
    blocks = [
        Paragraph(neighbours(plan)),
        _promise(plan, texts.HOLDS),
        *(_bootstrap(plan, cells) if plan.rule == "bootstrap" else _laplace(plan)),
        *_always(plan),
        Caution(phrase(noise)),
        Caution(phrase(texts.SAME_NOISE)),
    ]
    return _section(plan, blocks, texts.LIKELIHOOD_WORDS)


def released_promise(release: Release) -> Section:
    """Promise of a release: only the noisy answers come from the data."""
    plan = release.plan
    refused = phrase(texts.REFUSAL, n=release.refused) if release.refused else phrase(texts.REFUSAL_NONE)
    blocks = [
        Paragraph(neighbours(plan)),
        _promise(plan, texts.HOLDS_RELEASED) if plan.rule == "laplace" else _at_most(plan),
        *(_bootstrap_released() if plan.rule == "bootstrap" else _laplace(plan)),
        *_always(plan),
        Caution(refused),
        Caution(phrase(texts.REFUSAL_CERTAIN)),
        *([Paragraph(phrase(texts.REFUSAL_EMPTY))] if plan.statistic == "average" and plan.counts_are_public else []),
        *([Caution(phrase(texts.REFUSAL_BARE))] if plan.rule == "bootstrap" else []),
        Paragraph(phrase(texts.FOR_RELEASE)),
        Paragraph(phrase(texts.HANDED_ON)),
    ]
    return _section(plan, blocks, texts.LIKELIHOOD_RELEASED)


def neighbours(plan: Plan) -> str:
    """Between which files the promise holds."""
    kind: str = plan.rule
    if plan.method == "public-membership" and not plan.as_published:
        kind += "-public"
    elif kind == "laplace" and plan.statistic == "count":
        kind += "-count"
    elif kind == "laplace" and not any(plan.main.change.across):
        kind += "-whole"
    return phrase(texts.NEIGHBOURS[kind])


def _section(plan: Plan, blocks: Sequence[Block], likelihood: str) -> Section:
    of_laplace = texts.CITIZEN_COUNT if plan.statistic == "count" else texts.CITIZEN_LAPLACE
    citizen = [Paragraph(phrase(of_laplace if plan.rule == "laplace" else texts.CITIZEN_BOOTSTRAP))]
    if plan.method == "public-membership":
        citizen.append(Paragraph(phrase(texts.CITIZEN_PUBLIC)))
    specialist = [Formula(_LIKELIHOOD, phrase(likelihood))]
    return Section("promise", texts.PROMISE, blocks, citizen=citizen, specialist=specialist)


def _promise(plan: Plan, holds: str) -> Block:
    real = plan.real_epsilon
    if real is None:
        return Caution(phrase(texts.HOLDS_NOWHERE))
    if real == 0:
        return Caution(phrase(texts.NOTHING_TO_HIDE if plan.rule == "laplace" else texts.NOBODY_DIFFERS))
    if plan.as_published:
        words = phrase(texts.HOLDS_NOT, nominal=float(plan.epsilon), epsilon=float(real))
        return Caution(words)
    return Paragraph(phrase(holds, factor=math.exp(real), epsilon=float(real)))


def _at_most(plan: Plan) -> Block:
    """The promise of a release under the bootstrap rule: by how much a whole scale lowers epsilon tells what the scale is."""
    return Paragraph(phrase(texts.HOLDS_WITHIN, factor=math.exp(plan.epsilon), epsilon=float(plan.epsilon)))


def _always(plan: Plan) -> Iterator[Block]:
    if plan.method == "public-membership":
        yield Caution(phrase(texts.HOLDS_IF_PUBLIC if plan.as_published else texts.MEMBERSHIP))
    yield Caution(phrase(texts.PEOPLE))
    yield Paragraph(phrase(texts.LABELS))
    yield Paragraph(phrase(texts.AGAIN))


def _laplace(plan: Plan) -> Iterator[Block]:
    yield Paragraph(phrase(texts.EVERYBODY))
    if plan.statistic != "count":
        yield Paragraph(phrase(texts.CLAMPED))


def _bootstrap(plan: Plan, cells: Cells) -> Iterator[Block]:
    yield Caution(phrase(texts.NOT_PRIVATE))
    bare = sum(scale == 0 and members > 0 for scale, members in zip(plan.main.scales, cells.members, strict=True))
    if bare:
        yield Caution(phrase(texts.BARE, n=bare))
    yield Caution(phrase(texts.OUTSIDERS))
    if plan.statistic == "count":
        yield Caution(phrase(texts.SAME_MECHANISM))
        return
    value = _OUTLIER * cells.largest
    if plan.bounds is not None:
        # Any larger value is cut.
        value = min(value, max(map(abs, plan.bounds)))
    joining = outlier_epsilon(plan.main, cells, value)
    if joining is None:
        yield Caution(phrase(texts.JOINERS_NOWHERE))
    else:
        yield Caution(phrase(texts.JOINERS, value=float(value), epsilon=float(joining)))
    now, without = _whole(plan, cells), _whole(plan, without_largest(cells))
    if now == without:
        yield Caution(phrase(texts.SAME_MECHANISM))
    else:
        yield Caution(phrase(texts.MECHANISM, now=float(now), without=float(without)))


def _bootstrap_released() -> Iterator[Block]:
    for text in (texts.NOT_PRIVATE, texts.OUTSIDERS, texts.JOINERS_RELEASED, texts.MECHANISM_RELEASED):
        yield Caution(phrase(text))


def _whole(plan: Plan, cells: Cells) -> Fraction:
    change = change_of(cells, "total", plan.rule, None)
    return max(change.within) if plan.as_published or plan.method == "public-membership" else change.whole
