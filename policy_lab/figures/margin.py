"""The meaning of "1,240, give or take 90": the noise is the same for every group, so large groups are exact and small ones are not."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

from broker_common.language import phrase
from broker_common.privacy.table_laplace import margin
from policy_lab.document.model import Axis, Block, Caution, Cell, Formula, Line, Lines, Paragraph, Section, Table
from policy_lab.figures import sources
from policy_lab.figures.policy import SCALE, up
from policy_lab.figures.setting import Setting, Values, percent, share_of, whole_of

SHARE = percent("share", phrase("Share of the language in the group"), "0.1", "99.9", "12.4", step="0.1")
DIFFERENCE = Setting(
    "difference",
    phrase("Difference between two groups, in percentage points"),
    Decimal("0.1"),
    Decimal(20),
    Decimal("0.1"),
    Decimal(2),
)
SETTINGS = (SCALE, SHARE, DIFFERENCE)
TITLE = phrase("What “give or take” means for small and large groups")

SIZES = (1_000, 10_000, 100_000)
# Statistics Canada's guideline for releasing survey estimates, by coefficient of variation.
GOOD, USABLE = Fraction("0.166"), Fraction("0.333")
_SENTENCE_SIZE = 10_000
_LARGEST = 1_000_000
_POINTS_PER_DECADE = 12


def standard_deviation(scale: int) -> float:
    """Standard deviation of the noise of one count."""
    q = math.exp(-1 / scale)
    return math.sqrt(2 * q) / (1 - q)


def chance_of_wrong_order(scale: int, difference: int) -> float:
    """How often noise alone shows the smaller of two counts as the larger; where both show the same, a coin decides.

    The difference of two independent draws has P(D = k) = ((1-q)/(1+q))^2 q^|k| (|k| + (1+q^2)/(1-q^2)).
    """
    if difference <= 0:
        return 0.5
    q = math.exp(-1 / scale)
    constant, width = ((1 - q) / (1 + q)) ** 2, (1 + q * q) / (1 - q * q)
    tie = constant * q**difference * (difference + width)
    first = difference + 1
    beyond = constant * q**first * ((first + width) / (1 - q) + q / (1 - q) ** 2)
    return beyond + tie / 2


def draw(values: Values) -> Section:
    """The margin, the relative error and the chance of the wrong order, by the size of the group."""
    scale, share, difference = (
        whole_of(values, SCALE.key),
        share_of(values, SHARE.key),
        share_of(values, DIFFERENCE.key),
    )
    blocks = (
        *_verdict(scale, share),
        _table(scale, share, difference),
        _errors(scale, share),
        _orders(scale, difference),
    )
    return Section("margin", TITLE, blocks, _citizen(scale, share), _SPECIALIST)


def _count(size: int, share: Fraction) -> int:
    return round(size * share)


def smallest_group(scale: int, share: Fraction, variation: Fraction) -> int:
    """The smallest group in which a count's coefficient of variation is at most this."""
    return math.ceil(standard_deviation(scale) / float(variation) / float(share))


def _verdict(scale: int, share: Fraction) -> tuple[Block, ...]:
    count, give_or_take = _count(_SENTENCE_SIZE, share), margin(scale)
    return (
        Paragraph(
            phrase(
                "“{count:,}, give or take {margin:,}” means: the true count lies between {low:,} and {high:,}, 19 times out of 20. Once in 20 it "
                "does not.",
                count=count,
                margin=give_or_take,
                low=max(0, count - give_or_take),
                high=count + give_or_take,
            )
        ),
        Paragraph(
            phrase(
                "At a share of {share:.1f}% a count is worth reading from groups of about {good:,} people on, with caution from about {usable:,}.",
                share=float(100 * share),
                good=smallest_group(scale, share, GOOD),
                usable=smallest_group(scale, share, USABLE),
            )
        ),
        Caution(
            phrase(
                "This is the noise alone. People who are not linked, errors of registers and, in a sample, chance come on top, and under "
                "per-person accounting people whose budget is spent are missing from a count."
            )
        ),
    )


def _table(scale: int, share: Fraction, difference: Fraction) -> Table:
    return Table(
        "margin-sizes",
        phrase(
            "The same noise in groups of three sizes, at a share of {share:.1f}%, and for two groups that differ by {points:.1f} points",
            share=float(100 * share),
            points=float(100 * difference),
        ),
        (
            phrase("People in the group"),
            phrase("True count"),
            phrase("Margin"),
            phrase("Margin (% of the count)"),
            phrase("Margin (points)"),
            phrase("C.V. (%)"),
            phrase("Wrong order (%)"),
            phrase("Worth reading?"),
        ),
        [_row(scale, size, share, difference) for size in SIZES],
        (0, 0, 0, 1, 2, 1, 1, None),
        phrase(
            "Margins hold 19 times out of 20. Wrong order: how often noise alone shows the larger of two such groups as the smaller, "
            "rounded up. By the guideline for survey estimates a coefficient of variation (C.V.) up to 16.6% is good, up to 33.3% "
            "usable with caution. Points are of the share, where the size of the group is known."
        ),
    )


def _row(scale: int, size: int, share: Fraction, difference: Fraction) -> tuple[Cell, ...]:
    count, give_or_take = _count(size, share), margin(scale)
    variation = standard_deviation(scale) / count if count else None
    return (
        size,
        count,
        give_or_take,
        Fraction(100 * give_or_take, count) if count else None,
        Fraction(100 * give_or_take, size),
        100 * variation if variation is not None else None,
        100 * up(Fraction(chance_of_wrong_order(scale, _count(size, difference))), 3),
        _worth(variation),
    )


def _worth(variation: float | None) -> str:
    if variation is None or variation > USABLE:
        return phrase("no")
    return phrase("yes") if variation <= GOOD else phrase("with caution")


def _sizes() -> list[int]:
    decades = round(math.log10(_LARGEST / 100))
    return [round(100 * 10 ** (step / _POINTS_PER_DECADE)) for step in range(decades * _POINTS_PER_DECADE + 1)]


def _errors(scale: int, share: Fraction) -> Lines:
    give_or_take = margin(scale)
    return Lines(
        "margin-error",
        phrase("Margin, as part of the count"),
        phrase(
            "The margin is the same number of people everywhere, so that its part of the count falls as the group grows."
        ),
        Axis(phrase("People in the group"), is_log=True),
        Axis(phrase("Margin, as part of the count"), is_log=True, is_share=True),
        [
            Line(
                phrase("scale {scale}", scale=scale),
                [(size, give_or_take / (size * float(share))) for size in _sizes()],
            )
        ],
    )


def _orders(scale: int, difference: Fraction) -> Lines:
    return Lines(
        "margin-order",
        phrase("How often noise alone turns a difference round"),
        phrase(
            "Two groups of one size differ by so many points. In small ones a coin decides which seems larger; in large ones the truth does."
        ),
        Axis(phrase("People in each group"), is_log=True),
        Axis(phrase("The larger group seems the smaller"), low=0.0, high=0.5, is_share=True),
        [
            Line(
                phrase("{points:.1f} points apart", points=float(100 * difference)),
                [(size, chance_of_wrong_order(scale, _count(size, difference))) for size in _sizes()],
            )
        ],
    )


def _citizen(scale: int, share: Fraction) -> tuple[Block, ...]:
    small, large = (_count(size, share) for size in (SIZES[0], SIZES[-1]))
    return (
        Paragraph(
            phrase(
                "Every answer is wrong on purpose, by up to {margin:,} people, 19 times out of 20. Whether that matters depends on the size of the "
                "group, not on luck. Among 1,000 patients, {small:,} of whom speak the language, that is {of_small:.0f}% of the count. Among "
                "100,000 patients, {large:,} of whom do, it is {of_large:.1f}%.",
                margin=margin(scale),
                small=small,
                of_small=100 * margin(scale) / small,
                large=large,
                of_large=100 * margin(scale) / large,
            )
        ),
        Paragraph(
            phrase(
                "This is like a scale that is off by up to a kilogram: of no use for letters, good enough for people, perfect for trucks. So ask about "
                "large groups, and do not compare small ones: where two groups hardly differ, noise alone can turn them round. The table "
                "says when to stop reading."
            )
        ),
    )


_SPECIALIST: tuple[Block, ...] = (
    Paragraph(
        phrase(
            "The noise of a count is discrete Laplace and does not depend on the count, the sample or the population. Margins are exact: the least m "
            "with P(|X| <= m) >= 0.95. Two counts of two questions have independent noise; ties in the order of the two count for a half."
        )
    ),
    Formula(
        "s.d. = sqrt(2q)/(1-q),  q = e^(-1/b)",
        phrase("the standard deviation of the noise, about b times the root of 2"),
    ),
    Formula("P(|X| > m) = 2 q^(m+1)/(1+q)", phrase("the tail from which the margin follows")),
    Formula(
        "P(X - X' = k) = ((1-q)/(1+q))^2 q^|k| (|k| + (1+q^2)/(1-q^2))",
        phrase("the difference of two independent draws, from which the chance of the wrong order follows"),
    ),
    Paragraph(
        phrase(
            "For intervals of shares, ratios and trends that also hold in small groups the researcher's program has methods of its own "
            "(docs/estimates.md); this page is for judging whether a table is worth its price. The bands of the coefficient of variation are "
            "Statistics Canada's for releasing survey estimates (user guide of the Canadian Community Health Survey)."
        )
    ),
    sources.GHOSH,
    sources.CANONNE,
    sources.DESIGN_NOISE,
)
