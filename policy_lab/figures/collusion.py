"""Figure 2's attack on one made-up person: what the attackers believe after each answer, below the line that they cannot pass."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from broker_common.language import phrase
from broker_common.privacy.belief import belief_from_log_odds, log_likelihood_ratio
from broker_common.privacy.discrete_laplace import draw as draw_noise
from broker_common.privacy.typical import Answers, evidence_of
from policy_lab.document.model import Axis, Block, Formula, Line, Lines, Paragraph, Section, Table
from policy_lab.figures import sources
from policy_lab.figures.policy import (
    CAP,
    PRIOR,
    SCALE,
    Limit,
    at_most,
    highest_after,
    limit_of,
    lowest_after,
    so_many_answers,
)
from policy_lab.figures.prior import typical_from
from policy_lab.figures.randomness import SeededBits
from policy_lab.figures.setting import Values, choice, share_of, whole, whole_of

TRUTH = choice(
    "truth", phrase("The made-up person's language"), (("french", phrase("French")), ("other", phrase("another one")))
)
SEED = whole("seed", phrase("Series of made-up answers, by number"), 1, 1000, 1)
SETTINGS = (CAP, SCALE, PRIOR, TRUTH, SEED)
TITLE = phrase("The attack of Figure 2, answer by answer")

OTHERS = 216
"""Francophones of the group beside the person: the attackers know them all."""

_MOST_POINTS = 60


@dataclass(frozen=True, slots=True)
class Step:
    """The attackers' evidence after so many answers."""

    answers: int
    noisy: int
    log_odds: Fraction
    belief: float


def steps(scale: int, answers: int, prior: Fraction, *, is_french: bool, seed: int) -> list[Step]:
    """Made-up answers by the product's own law of noise, and the exact posterior after each."""
    bits, truth = SeededBits(seed), OTHERS + is_french
    log_odds, found = Fraction(0), []
    for number in range(1, answers + 1):
        noisy = truth + draw_noise(scale, bits)
        log_odds += log_likelihood_ratio(scale, noisy, OTHERS + 1, OTHERS)
        found.append(Step(number, noisy, log_odds, belief_from_log_odds(log_odds, prior)))
    return found


def draw(values: Values) -> Section:
    """All answers that the limit pays for, about one person, by one seed."""
    limit, scale, prior = limit_of(values), whole_of(values, SCALE.key), share_of(values, PRIOR.key)
    is_french = values[TRUTH.key] == "french"
    found = steps(scale, limit.answers(scale), prior, is_french=is_french, seed=whole_of(values, SEED.key))
    blocks = (
        _verdict(limit, found, prior, is_french=is_french),
        _plot(limit, scale, found, prior, is_french),
        _table(scale, found, prior),
    )
    return Section("attack", TITLE, blocks, _citizen(limit, scale), _SPECIALIST)


def _verdict(limit: Limit, found: list[Step], prior: Fraction, *, is_french: bool) -> Block:
    return Paragraph(
        phrase(
            "The made-up person's language is {language}. The attackers begin at {prior:.0f}% for “French”, have {answers}, and end at {belief:.1f}%. "
            "Whatever the noise, they could not have passed {high}.",
            language=phrase("French") if is_french else phrase("another one"),
            prior=float(100 * prior),
            answers=so_many_answers(len(found)),
            belief=100 * (found[-1].belief if found else float(prior)),
            high=at_most(limit.highest(prior)),
        )
    )


def _shown(found: list[Step]) -> list[Step]:
    step = max(1, -(-len(found) // _MOST_POINTS))
    return [each for each in found if not each.answers % step or each is found[-1]]


def _plot(limit: Limit, scale: int, found: list[Step], prior: Fraction, is_french: bool) -> Lines:
    shown = [each.answers for each in _shown(found)]

    def typical(answers: int) -> float:
        mean = typical_from(evidence_of([Answers(answers, scale)]), prior)
        return mean.if_true if is_french else mean.if_false

    start = (0, float(prior))
    return Lines(
        "attack-belief",
        phrase("Belief in “French”, answer by answer"),
        phrase(
            "The line in the middle is what these made-up answers make the attackers believe. Above and below it are the ceilings of so many answers, which no "
            "answers can pass; between them the average over all possible noise."
        ),
        Axis(phrase("Answers about the person")),
        Axis(phrase("Belief in “French”"), low=0.0, high=1.0, is_share=True),
        [
            Line(
                phrase("what the attackers believe"), [start, *((each.answers, each.belief) for each in found)], "steps"
            ),
            Line(phrase("highest possible"), [start, *((n, float(highest_after(n, scale, prior))) for n in shown)]),
            Line(phrase("on average"), [start, *((n, typical(n)) for n in shown)], "dashes"),
            Line(phrase("lowest possible"), [start, *((n, float(lowest_after(n, scale, prior))) for n in shown)]),
        ],
        [(phrase("the limit"), float(limit.highest(prior)))],
    )


def _table(scale: int, found: list[Step], prior: Fraction) -> Table:
    return Table(
        "attack-answers",
        phrase("The answers, and what the attackers make of them"),
        (
            phrase("Answer"),
            phrase("Noisy count"),
            phrase("Log-odds for “French”, nat"),
            phrase("Belief in “French” (%)"),
            phrase("Highest possible (%)"),
        ),
        [
            (0, None, 0, 100 * prior, 100 * prior),
            *(
                (
                    each.answers,
                    each.noisy,
                    each.log_odds,
                    100 * each.belief,
                    100 * highest_after(each.answers, scale, prior),
                )
                for each in _shown(found)
            ),
        ],
        (0, 0, 4, 2, 3),
        phrase(
            "Made up: the answers are drawn from the seed by the product's own law of noise. Without the person the count would be {others}.",
            others=OTHERS,
        ),
    )


def _citizen(limit: Limit, scale: int) -> tuple[Block, ...]:
    return (
        Paragraph(
            phrase(
                "Imagine the worst: a health agency and a researcher work together against one person. They know the language of everybody else in "
                "a group, {others} francophones, and lack only this one. Then they ask again and again: is it {others}, or {one_more}?",
                others=OTHERS,
                one_more=OTHERS + 1,
            )
        ),
        Paragraph(
            phrase(
                "Each answer has its own noise, and pushes their belief a little up or down. Move “series of made-up answers, by number” to "
                "see other luck: the line wanders, often the wrong way, and never leaves the funnel. After {answers} the service says no, and at "
                "{high} it is over, for them and for everybody who joins them.",
                answers=so_many_answers(limit.answers(scale)),
                high=at_most(limit.highest()),
            )
        ),
    )


_SPECIALIST: tuple[Block, ...] = (
    Paragraph(
        phrase(
            "Adversary HR with everything known but one bit: the counts are c (not French) or c + 1 (French). The likelihood ratio of an answer a is "
            "exact, since the noise is an integer of a known law; the attackers' best rule is Bayes', and no other rule beats it (Neyman and Pearson). "
            "Real nodes under this attack: “tripartite attack neighbour”."
        )
    ),
    Formula("L(a) = (|a - c| - |a - c - 1|)/b = +1/b or -1/b", phrase("what one answer says, in nat")),
    Formula(
        "logit(belief) = logit(prior) + L(a1) + ... + L(an)",
        phrase("the posterior after n answers; |sum| <= n/b <= ln(param)"),
    ),
    Paragraph(
        phrase(
            "The funnel is the ceiling of belief_of_units, rounded outwards; the walk is drawn with a seeded generator, for evaluation only: the service "
            "draws its noise from secrets to which its log is committed. Realised belief decides nothing in the product, since that would tell the answer."
        )
    ),
    sources.PAPER,
    sources.ARGUMENT,
    sources.CANONNE,
    sources.DESIGN_NOISE,
)
