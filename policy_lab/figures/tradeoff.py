"""Noise, answers and belief: the paper's Figure 7, both halves, computed by the product's own accounting."""

from __future__ import annotations

from fractions import Fraction

from broker_common.language import phrase
from broker_common.privacy.accounting import price
from broker_common.privacy.table_laplace import margin
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
    limit_at,
    limit_of,
    lowest_after,
    so_many_answers,
)
from policy_lab.figures.setting import Values, share_of, whole, whole_of

ANSWERS = whole("answers", phrase("Answers about one person"), 1, 500, 41)
SETTINGS = (CAP, SCALE, ANSWERS, PRIOR)
TITLE = phrase("What a limit buys and costs: noise, answers, belief")

_USUAL_SCALES = (5, 10, 20, 30, 50, 100)
_DRAWN_SCALES = (10, 30, 50)
_DRAWN_LIMITS = ("0.6", "0.7", "0.8", "0.9")
_MOST_POINTS = 60


def draw(values: Values) -> Section:
    """Figure 7(a): belief by the number of answers. Figure 7(b): how many answers a limit pays for, by scale."""
    limit, prior = limit_of(values), share_of(values, PRIOR.key)
    scale, answers = whole_of(values, SCALE.key), whole_of(values, ANSWERS.key)
    blocks = (
        *_verdict(limit, scale, answers, prior),
        _by_answers(limit, scale, answers, prior),
        _by_scale(limit, scale),
        _table(limit, scale, answers, prior),
    )
    return Section("tradeoff", TITLE, blocks, _citizen(limit, scale), _SPECIALIST)


def _verdict(limit: Limit, scale: int, answers: int, prior: Fraction) -> tuple[Block, ...]:
    allowed = limit.answers(scale)
    given = min(answers, allowed)
    blocks: list[Block] = [
        Paragraph(
            phrase(
                "At noise scale {scale} a count is within {margin:,} of the truth, 19 times out of 20. A limit of {cap:.0f}% pays for "
                "{answers} about one person.",
                scale=scale,
                margin=margin(scale),
                cap=float(100 * limit.belief),
                answers=so_many_answers(allowed),
            )
        ),
        Paragraph(
            phrase(
                "Somebody who begins at {prior:.0f}% ends, after {answers}, between {low} and {high}: never outside.",
                prior=float(100 * prior),
                answers=so_many_answers(given),
                low=at_least(lowest_after(given, scale, prior)),
                high=at_most(highest_after(given, scale, prior)),
            )
        ),
    ]
    if answers > allowed:
        blocks.append(
            Caution(
                phrase(
                    "The limit does not pay for {answers} at this scale. Without a limit they could make {high} of {prior:.0f}%.",
                    answers=so_many_answers(answers),
                    high=at_most(highest_after(answers, scale, prior)),
                    prior=float(100 * prior),
                )
            )
        )
    return tuple(blocks)


def _by_answers(limit: Limit, scale: int, answers: int, prior: Fraction) -> Lines:
    most = max(answers, limit.answers(scale), 1)
    return Lines(
        "tradeoff-answers",
        phrase("Highest belief by the number of answers"),
        phrase(
            "One line for each noise scale. The more answers about one person, the higher belief may get; the more noise, the more slowly. "
            "The service answers only as long as the line stays at or below the limit."
        ),
        Axis(phrase("Answers about one person")),
        Axis(phrase("Highest belief"), low=0.0 if prior < Fraction(1, 2) else 0.5, high=1.0, is_share=True),
        [
            Line(
                phrase("scale {scale}", scale=each),
                [(n, float(highest_after(n, each, prior))) for n in _spread(most)],
                "line" if each == scale else "dashes",
            )
            for each in sorted({scale, *_DRAWN_SCALES})
        ],
        [(phrase("the limit"), float(limit.highest(prior)))],
    )


def _by_scale(limit: Limit, scale: int) -> Lines:
    most = max(50, scale)
    chosen = Line(phrase("chosen"), [(scale, limit.answers(scale))], "dots")
    return Lines(
        "tradeoff-scales",
        phrase("Answers that a limit pays for, by noise scale"),
        phrase(
            "One line for each limit on belief. Twice the noise pays for twice the answers; a higher limit pays for more of them. The dot "
            "is the chosen limit and scale."
        ),
        Axis(phrase("Noise scale")),
        Axis(phrase("Answers about one person"), low=0.0),
        [
            *(
                Line(
                    phrase("limit {cap:.0f}%", cap=float(100 * belief)),
                    [(each, limit_at(belief).answers(each)) for each in _spread(most) if each],
                    "line" if belief == limit.belief else "dashes",
                )
                for belief in sorted({limit.belief, *map(Fraction, _DRAWN_LIMITS)})
            ),
            chosen,
        ],
    )


def _spread(most: int) -> list[int]:
    """0 to `most`, and at most so many numbers."""
    step = -(-most // _MOST_POINTS)
    return sorted({*range(0, most, step), most})


def _table(limit: Limit, scale: int, answers: int, prior: Fraction) -> Table:
    return Table(
        "tradeoff-table",
        phrase("What each noise scale buys under this limit"),
        (
            phrase("Noise scale"),
            phrase("Margin (19 times out of 20)"),
            phrase("Price (2^-24 nat)"),
            phrase("Answers that the limit pays for"),
            phrase("Belief then, at most (%)"),
            phrase("After {answers}, without a limit (%)", answers=so_many_answers(answers)),
        ),
        [_row(limit, each, answers, prior) for each in sorted({*_USUAL_SCALES, scale})],
        (None, 0, 0, 0, 3, 3),
        phrase("Beliefs are rounded up, prices up, and the limit down: no figure promises more than is kept."),
    )


def _row(limit: Limit, scale: int, answers: int, prior: Fraction) -> tuple[Cell, ...]:
    allowed = limit.answers(scale)
    return (
        scale,
        margin(scale),
        price(scale),
        allowed,
        100 * highest_after(allowed, scale, prior),
        100 * highest_after(answers, scale, prior),
    )


def _citizen(limit: Limit, scale: int) -> tuple[Block, ...]:
    return (
        Paragraph(
            phrase(
                "Suppose that somebody wonders whether you speak French, and knows nothing: heads or tails, 50%. They may ask the service about "
                "groups that you are in. Before each answer leaves, a random number is added, so that a count is off by up to {margin:,} people, "
                "19 times out of 20. Each answer says a little about you; many together say more.",
                margin=margin(scale),
            )
        ),
        Paragraph(
            phrase(
                "That is why the agency sets a limit. With a limit of {cap:.0f}%, nobody who begins at heads or tails becomes surer than {cap:.0f}%, "
                "whatever they ask and however clever they are: the service gives {answers} about you, and no more. More noise buys more answers, and each of them is "
                "less exact. There is no setting that gives everything.",
                cap=float(100 * limit.belief),
                answers=so_many_answers(limit.answers(scale)),
            )
        ),
    )


_SPECIALIST: tuple[Block, ...] = (
    Paragraph(
        phrase(
            "The neighbour relation is one person's record: another language, or none of it (with the provisos of ARGUMENT). A count has sensitivity 1. Noise of "
            "scale b is discrete Laplace on the integers, and one answer moves the log-odds by at most 1/b. The bound on adaptive sequences "
            "is the sum, whatever the order and the scales: pure differential privacy, with no delta."
        )
    ),
    Formula("P(X = k) = (1-q)/(1+q) q^|k|,  q = e^(-1/b)", phrase("the law of the noise, for every integer k")),
    Formula(
        "param = p/(1-p),   1/b1 + ... + 1/bn <= ln(param)",
        phrase("what a limit p lets all answers about one person cost"),
    ),
    Formula(
        "belief <= param prior / (param prior + 1 - prior)",
        phrase("the ceiling from any prior; param/(1+param) = p from even odds, as in the paper"),
    ),
    Formula(
        "price = ceil(2^24/b),   cap = floor(2^24 ln(param)),   answers = floor(cap/price)",
        phrase("the same in whole units, each rounded to the safe side, exactly"),
    ),
    Paragraph(
        phrase(
            "At p = 0.8 and b = 30 the cap is 23,258,159 units and a price 559,241: 41 answers, and then belief is at most 0.79685. The paper "
            "reads “about 50” off its graph; 50 answers would allow 0.84113. The paper's b = n Δq / ln(param) is the same rule solved for b. "
            "The ceiling is worst case over answers; what real answers do stands in the figure “prior”."
        )
    ),
    sources.PAPER,
    sources.DWORK,
    sources.GHOSH,
    sources.ARGUMENT,
    sources.DESIGN_ACCOUNTING,
)
