"""Belief by prior: the most that answers may make of it, and what they make of it on average."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from broker_common.language import phrase
from broker_common.privacy.report import PRIORS
from broker_common.privacy.typical import Answers, Evidence, evidence_of
from policy_lab.document.model import Axis, Block, Caution, Cell, Formula, Line, Lines, Paragraph, Section, Table
from policy_lab.figures import sources
from policy_lab.figures.policy import (
    CAP,
    PRIOR,
    SCALE,
    Limit,
    at_least,
    at_most,
    highest_after,
    limit_of,
    lowest_after,
    so_many_answers,
)
from policy_lab.figures.setting import Values, share_of, whole_of

SETTINGS = (CAP, SCALE, PRIOR)
TITLE = phrase("Belief by what was believed before: the ceiling and the typical case")

_DRAWN = tuple(Fraction(each, 100) for each in (1, 2, 3, 5, 8, *range(10, 91, 5), 92, 95, 97, 98, 99))


@dataclass(frozen=True, slots=True)
class Typical:
    """The mean of the belief in "counted" after all answers, over the noise, in either world."""

    if_true: float
    if_false: float


def typical_from(evidence: Evidence, prior: Fraction) -> Typical:
    """The mean belief that answers lead to from `prior`.

    The same law of evidence as the product's typical case, which is for a prior of 1/2; there both are one figure. The law is
    symmetric: if it is false, evidence has the other sign. Where scales share no lattice the law with evidence rounded up serves.
    """
    middle = evidence.up.size // 2
    nats = np.arange(-middle, middle + 1) / evidence.steps_per_nat
    against = float((1 - prior) / prior)
    if_true = math.fsum(evidence.up / (1 + against * np.exp(-nats)))
    if_false = math.fsum(evidence.up / (1 + against * np.exp(nats)))
    return Typical(min(if_true, 1.0), if_false)


def draw(values: Values) -> Section:
    """For every prior: the ceiling both ways, and the mean belief in either world, after all answers that the limit pays for."""
    limit, scale, prior = limit_of(values), whole_of(values, SCALE.key), share_of(values, PRIOR.key)
    evidence = evidence_of([Answers(limit.answers(scale), scale)])
    blocks = (*_verdict(limit, scale, prior, evidence), _plot(limit, evidence), _table(limit, scale, prior, evidence))
    return Section("prior", TITLE, blocks, _citizen(limit, evidence), _SPECIALIST)


def _verdict(limit: Limit, scale: int, prior: Fraction, evidence: Evidence) -> tuple[Block, ...]:
    answers, typical = limit.answers(scale), typical_from(evidence, prior)
    return (
        Paragraph(
            phrase(
                "From {prior:.0f}%, a limit of {cap:.0f}% lets nobody end above {high} or below {low}. After {answers} at "
                "scale {scale}, all that it pays for, belief is {if_true:.1f}% on average if it is true, and {if_false:.1f}% if it is not.",
                prior=float(100 * prior),
                cap=float(100 * limit.belief),
                high=at_most(limit.highest(prior)),
                low=at_least(limit.lowest(prior)),
                answers=so_many_answers(answers),
                scale=scale,
                if_true=100 * typical.if_true,
                if_false=100 * typical.if_false,
            )
        ),
        Caution(
            phrase(
                "The limit of {cap:.0f}% is for somebody who begins at even odds. Anybody who is surer before the first answer ends surer: what is "
                "promised to all is that the odds move by at most a factor of {param:.2f}. The typical case is an average and no promise.",
                cap=float(100 * limit.belief),
                param=float(math.ceil(limit.param * 100) / 100),
            )
        ),
    )


def _plot(limit: Limit, evidence: Evidence) -> Lines:
    typical = [(float(prior), typical_from(evidence, prior)) for prior in _DRAWN]
    return Lines(
        "prior-plot",
        phrase("Belief after all answers, by belief before the first"),
        phrase(
            "The outer lines are the ceiling, upwards and downwards; the inner ones are averages, if it is true and if it is not."
        ),
        Axis(phrase("Belief before"), low=0.0, high=1.0, is_share=True),
        Axis(phrase("Belief after"), low=0.0, high=1.0, is_share=True),
        [
            Line(phrase("highest possible"), [(float(each), float(limit.highest(each))) for each in _DRAWN]),
            Line(phrase("on average, if it is true"), [(x, each.if_true) for x, each in typical], "dashes"),
            Line(phrase("on average, if it is not"), [(x, each.if_false) for x, each in typical], "dashes"),
            Line(phrase("lowest possible"), [(float(each), float(limit.lowest(each))) for each in _DRAWN]),
        ],
    )


def _table(limit: Limit, scale: int, prior: Fraction, evidence: Evidence) -> Table:
    answers = limit.answers(scale)

    def row(before: Fraction) -> tuple[Cell, ...]:
        typical = typical_from(evidence, before)
        return (
            100 * before,
            100 * limit.lowest(before),
            100 * lowest_after(answers, scale, before),
            100 * typical.if_false,
            100 * typical.if_true,
            100 * highest_after(answers, scale, before),
            100 * limit.highest(before),
        )

    return Table(
        "prior-table",
        phrase(
            "Belief after {answers} at scale {scale}, between what the limit allows (%)",
            answers=so_many_answers(answers),
            scale=scale,
        ),
        (
            phrase("Before"),
            phrase("Lowest allowed"),
            phrase("Lowest"),
            phrase("Average, if not true"),
            phrase("Average, if true"),
            phrase("Highest"),
            phrase("Highest allowed"),
        ),
        [row(before) for before in sorted({*PRIORS, prior})],
        (0, 3, 3, 3, 3, 3, 3),
        phrase(
            "Highest is rounded up, lowest down. Averages are over the noise; anybody who is unlucky is protected by the ceiling alone."
        ),
    )


def _citizen(limit: Limit, evidence: Evidence) -> tuple[Block, ...]:
    unlikely = Fraction(1, 20)
    return (
        Paragraph(
            phrase(
                "Nobody begins from nothing. Of a Tremblay in Hearst many would say “95%, French” before any answer; of somebody in Toronto "
                "they would say “5%”. Answers can move such a guess only so far. With this limit, 5% becomes {high} at most.",
                high=at_most(limit.highest(unlikely)),
            )
        ),
        Paragraph(
            phrase(
                "That is the worst case. Noise goes both ways, and answers contradict each other: from heads or tails, somebody who "
                "collects every answer that is allowed guesses right {right:.0f} times out of 100, where pure guessing is right 50 times. But an "
                "average is no promise. The ceiling is, for everybody.",
                right=float(100 * evidence.best_guess_right().high),
            )
        ),
    )


_SPECIALIST: tuple[Block, ...] = (
    Paragraph(
        phrase(
            "Adversary HR: health agency and researchers together, who know every record but one language. The ceiling from a prior is the "
            "posterior after the odds grew by param; downwards it is the ceiling of the other world. For somebody who is in every sample, an "
            "integer answer says +1/b or -1/b nat and nothing between, so that n answers make a binomial walk."
        )
    ),
    Formula("ceiling(prior) = param prior / (param prior + 1 - prior)", phrase("the most that belief can become")),
    Formula("P(+1/b | true) = 1/(1 + e^(-1/b))", phrase("how often one answer points to the truth")),
    Formula(
        "E[belief | true] = sum over k of P(K = k) / (1 + (1-prior)/prior e^(-(2k-n)/b)),  K ~ Bin(n, 1/(1+e^(-1/b)))",
        phrase("the typical case: the mean belief in what is true, over the noise"),
    ),
    Paragraph(
        phrase(
            "Both averages weigh up to the prior: prior E[belief | true] + (1-prior) E[belief | false] = prior, since belief is a martingale. "
            "At a prior of 1/2 the figures are those of the belief report (broker_common/privacy/typical.py). Nothing in the product is "
            "decided on them."
        )
    ),
    sources.PAPER,
    sources.ARGUMENT,
    sources.DESIGN_ACCOUNTING,
)
