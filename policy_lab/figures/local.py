"""The local alternative: every language is flipped at random before it leaves the agency, beside noise on the count, at equal belief."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from broker_common.language import phrase
from broker_common.privacy.accounting import UNITS_PER_NAT
from broker_common.privacy.enclosure import ln_between
from broker_common.privacy.table_laplace import margin
from policy_lab.document.model import Axis, Block, Caution, Cell, Formula, Line, Lines, Paragraph, Section, Table
from policy_lab.figures import sources
from policy_lab.figures.margin import SHARE
from policy_lab.figures.policy import CAP, Limit, limit_of, so_many_questions
from policy_lab.figures.setting import Values, share_of, whole, whole_of
from policy_lab.mechanisms.randomised_response import RandomisedResponse

QUESTIONS = whole("questions", phrase("Questions about one person"), 1, 1000, 41)
SETTINGS = (CAP, QUESTIONS, SHARE)
TITLE = phrase("Flip every language at random, or add noise to the count?")

SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)
_NORMAL_QUANTILE = 1.959963984540054
_POINTS_PER_DECADE = 12
_DIGITS = 40


@dataclass(frozen=True, slots=True)
class Ways:
    """Two ways to answer so many questions about one person within one limit."""

    # Noise on each count.
    scale: int
    # Every language flipped once, for all questions together; and flipped anew for each question.
    once: RandomisedResponse
    anew: RandomisedResponse

    @property
    def central_margin(self) -> int:
        """Margin of a count with noise: the same for every group."""
        return margin(self.scale)

    def local_margin(self, response: RandomisedResponse, size: int, share: Fraction) -> float:
        """Margin of a count estimated from flipped languages: 1.96 standard errors."""
        part = float(size * share)
        return _NORMAL_QUANTILE * float(response.standard_error([part, size - part])[0])

    def even_size(self, response: RandomisedResponse) -> int:
        """The largest group for which flipping is as exact as noise on the count: each person adds a variance of keep (1 - keep)."""
        keep = response.keep
        each = _NORMAL_QUANTILE**2 * keep * (1 - keep) / (2 * keep - 1) ** 2
        return math.floor(self.central_margin**2 / each)


def ways_of(limit: Limit, questions: int) -> Ways:
    """Both ways, each with the least noise that keeps the limit."""
    scale = -(-UNITS_PER_NAT // (limit.units // questions))
    whole_budget = float(ln_between(limit.param, _DIGITS).low)
    return Ways(scale, RandomisedResponse(2, whole_budget), RandomisedResponse(2, whole_budget / questions))


def draw(values: Values) -> Section:
    """Margins by the size of the group."""
    limit, questions, share = limit_of(values), whole_of(values, QUESTIONS.key), share_of(values, SHARE.key)
    ways = ways_of(limit, questions)
    blocks = (*_verdict(limit, ways, questions), _plot(ways, share), _table(ways, share))
    return Section("local", TITLE, blocks, _citizen(limit, ways, questions), _SPECIALIST)


def _verdict(limit: Limit, ways: Ways, questions: int) -> tuple[Block, ...]:
    return (
        Paragraph(
            phrase(
                "Within a limit of {cap:.0f}%, for {questions} about one person: noise of scale {scale:,} on each count, {margin:,} either way, "
                "whatever the group. Or each language flipped once, kept with a chance of {keep:.1f}%, for any number of questions.",
                cap=float(100 * limit.belief),
                questions=so_many_questions(questions),
                scale=ways.scale,
                margin=ways.central_margin,
                keep=100 * ways.once.keep,
            )
        ),
        Paragraph(
            phrase(
                "Flipping once is more exact for groups of up to about {once:,} people, and noise on the count for all larger ones. If languages are flipped "
                "anew for each question, and kept with a chance of {keep:.2f}%, that is so only up to about {anew:,} people.",
                once=ways.even_size(ways.once),
                anew=ways.even_size(ways.anew),
                keep=100 * ways.anew.keep,
            )
        ),
        Caution(
            phrase(
                "Both keep one limit on belief about one person, and not the same trust. Flipped languages may be handed out, joined and counted by anybody, "
                "for ever. Noise on the count needs an agency that counts exact data, adds the noise, and stops in time."
            )
        ),
    )


def _plot(ways: Ways, share: Fraction) -> Lines:
    decades = round(math.log10(SIZES[-1] / SIZES[0]))
    sizes = [round(SIZES[0] * 10 ** (step / _POINTS_PER_DECADE)) for step in range(decades * _POINTS_PER_DECADE + 1)]
    return Lines(
        "local-margins",
        phrase("Margin of a count, 19 times out of 20, by the size of the group"),
        phrase(
            "Noise on the count is a level line. The error of flipped languages grows with the root of the group: below where the lines cross flipping is more "
            "exact, and above it noise on the count is."
        ),
        Axis(phrase("People in the group"), is_log=True),
        Axis(phrase("Margin, people"), is_log=True),
        [
            Line(phrase("noise on the count"), [(size, ways.central_margin) for size in sizes]),
            Line(
                phrase("flipped once"), [(size, ways.local_margin(ways.once, size, share)) for size in sizes], "dashes"
            ),
            Line(
                phrase("flipped anew each time"),
                [(size, ways.local_margin(ways.anew, size, share)) for size in sizes],
                "dots",
            ),
        ],
    )


def _table(ways: Ways, share: Fraction) -> Table:
    return Table(
        "local-sizes",
        phrase("Margins at a share of {share:.1f}%, 19 times out of 20", share=float(100 * share)),
        (
            phrase("People in the group"),
            phrase("True count"),
            phrase("Noise on the count"),
            phrase("Flipped once"),
            phrase("Flipped anew each time"),
            phrase("More exact"),
        ),
        [_row(ways, size, share) for size in SIZES],
        (0, 0, 0, 0, 0, None),
        phrase(
            "Margins of flipped languages are 1.96 standard errors; those of noise on the count are exact. Flips are for evaluation, never for release."
        ),
    )


def _row(ways: Ways, size: int, share: Fraction) -> tuple[Cell, ...]:
    once, anew = (ways.local_margin(each, size, share) for each in (ways.once, ways.anew))
    better = phrase("flipped once") if once < ways.central_margin else phrase("noise on the count")
    return size, round(size * share), ways.central_margin, once, anew, better


def _citizen(limit: Limit, ways: Ways, questions: int) -> tuple[Block, ...]:
    return (
        Paragraph(
            phrase(
                "Here is another idea. Before your language leaves the agency a coin is tossed, in secret: {keep:.0f} times out of 100 the list says your true "
                "language, and otherwise the wrong one. Anybody who reads it, and knew nothing before, cannot be surer than {cap:.0f}% about you, however often they look.",
                keep=100 * ways.once.keep,
                cap=float(100 * limit.belief),
            )
        ),
        Paragraph(
            phrase(
                "Counts can still be worked out, since everybody knows how often the coin lies. But each person adds a lie of their own, and in a large group the "
                "lies add up: among 100,000 people the count is off by {local:,.0f}, where one dose of noise on the whole count is off by {central:,}, for each "
                "of {questions}. In small groups it is the other way round.",
                local=ways.local_margin(ways.once, 100_000, Fraction(1, 8)),
                central=ways.central_margin,
                questions=so_many_questions(questions),
            )
        ),
    )


_SPECIALIST: tuple[Block, ...] = (
    Paragraph(
        phrase(
            "Neighbours differ in one person's language (yes or no). Local: Warner's randomised response, epsilon for every message, against anybody who sees them "
            "all; what follows from one flip is post-processing, so that any number of questions costs one epsilon. Central: n answers at scale b compose to n/b. "
            "Equal belief means that both spend ln(param), the whole limit, on one person."
        )
    ),
    Formula(
        "keep = e^eps/(1 + e^eps);   eps = ln(param) gives keep = p", phrase("flipped once, for all questions together")
    ),
    Formula(
        "estimate = (reported - n (1-keep))/(2 keep - 1),   s.e. = sqrt(n keep (1-keep))/(2 keep - 1)",
        phrase("unbiased, with an error that grows with the root of the group and does not depend on the share"),
    ),
    Formula("b = least integer with n price(b) <= cap", phrase("the noise on each of n counts")),
    Paragraph(
        phrase(
            "A local error of order sqrt(n)/eps against a central one of order 1/eps is the known gap; per-person accounting widens it, since people who are not "
            "asked about are not charged. A new census, or a household that shares a language, costs a flipped list again. Shuffling messages would lie between "
            "(Feldman, McMillan and Talwar; here messages carry a pseudonym, so that nothing is gained: n is 1)."
        )
    ),
    sources.WARNER,
    sources.KAIROUZ,
    sources.DWORK,
    sources.FELDMAN,
    sources.DESIGN_ACCOUNTING,
)
