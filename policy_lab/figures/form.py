"""Local noise in three steps on a short health form: what is filled in, what is added, what would be sent."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np

from broker_common.language import phrase
from broker_common.privacy.belief import posterior
from broker_common.privacy.enclosure import exp_between
from policy_lab.document.model import (
    Axis,
    Bars,
    Block,
    Caution,
    Cell,
    Formula,
    Line,
    Lines,
    Paragraph,
    Section,
    Table,
)
from policy_lab.figures import sources
from policy_lab.figures.form_law import FIELDS, HEIGHT, SMOKING, STEPS, Choice, Field, Number, sent_form, uniform_of
from policy_lab.figures.policy import at_most, up
from policy_lab.figures.setting import Setting, Values, choice, whole, whole_of

EPSILON = Setting(
    "epsilon",
    phrase("Epsilon of the whole form"),
    Decimal("0.1"),
    Decimal(20),
    Decimal("0.1"),
    Decimal(5),
)
SEED = whole("seed", phrase("Series of made-up noise, by number"), 1, 1000, 1)


def _setting(field: Field) -> Setting:
    if isinstance(field, Choice):
        return choice(field.key, field.label, field.choices)
    made = whole(field.key, field.label, field.low, field.high, field.usual)
    return Setting(made.key, made.label, made.low, made.high, made.step, made.default, unit=field.unit)


SETTINGS = (EPSILON, *map(_setting, FIELDS), SEED)
TITLE = phrase("Local noise in three steps: fill in, add noise, send")

_EVEN = Fraction(1, 2)
_DIGITS = 40


def filled_in(values: Values) -> list[int]:
    """The form: a number, or the place of a choice, for each field."""
    return [
        whole_of(values, field.key)
        if isinstance(field, Number)
        else [key for key, _ in field.choices].index(str(values[field.key]))
        for field in FIELDS
    ]


def uniforms_of(seed: int) -> list[float]:
    """One for each field. From a seed: for evaluation, never for release."""
    return [uniform_of(int(step)) for step in np.random.default_rng(seed).integers(0, STEPS, len(FIELDS))]


def highest_belief(epsilon: Fraction) -> Fraction:
    """The most that a message of this epsilon can make of even odds between two forms, rounded up."""
    return up(posterior(exp_between(epsilon, _DIGITS).high, _EVEN))


def draw(values: Values) -> Section:
    """The form before and after, and the law of the noise."""
    epsilon, form = Fraction(values[EPSILON.key]), filled_in(values)
    sent = sent_form(form, float(epsilon), uniforms_of(whole_of(values, SEED.key)))
    each = epsilon / len(FIELDS)
    blocks = (
        *_verdict(epsilon, each),
        _table(form, sent, each),
        _noise(form[FIELDS.index(HEIGHT)], each),
        _bars(form[FIELDS.index(SMOKING)], each),
    )
    return Section("form", TITLE, blocks, _CITIZEN, _SPECIALIST)


def _verdict(epsilon: Fraction, each: Fraction) -> tuple[Block, ...]:
    return (
        Paragraph(
            phrase(
                "The form has {fields} fields. Each spends an epsilon of {each:.2f}, the form {epsilon:.1f}. Somebody who wavers evenly between two "
                "answers to one field ends at {one} at most after its message; between two whole forms, at {all} at most.",
                fields=len(FIELDS),
                each=float(each),
                epsilon=float(epsilon),
                one=at_most(highest_belief(each)),
                all=at_most(highest_belief(epsilon)),
            )
        ),
        Caution(
            phrase(
                "Sending the form again with new noise spends the epsilon again. The noise here comes from a seed: it shows, and protects nobody."
            )
        ),
    )


def _said(field: Field, value: int) -> Cell:
    return field.choices[value][1] if isinstance(field, Choice) else value


def _table(form: list[int], sent: list[int], each: Fraction) -> Table:
    def row(field: Field, before: int, after: int) -> tuple[Cell, ...]:
        chances = field.chances(before, float(each))
        place = before - field.low if isinstance(field, Number) else before
        return (
            field.label,
            _said(field, before),
            field.sensitivity if isinstance(field, Number) else None,
            field.scale(float(each)) if isinstance(field, Number) else None,
            100 * chances[place],
            100 * (chances[0] + chances[-1]) if isinstance(field, Number) else None,
            _said(field, after),
        )

    return Table(
        "form-fields",
        phrase("The form, before and after"),
        (
            phrase("Field"),
            phrase("Filled in"),
            phrase("Sensitivity"),
            phrase("Noise scale"),
            phrase("Kept (%)"),
            phrase("At a bound (%)"),
            phrase("Sent"),
        ),
        [row(field, before, after) for field, before, after in zip(FIELDS, form, sent, strict=True)],
        (None, 0, 0, 1, 1, 1, 0),
        phrase(
            "Sensitivity is the distance from bound to bound. Numbers are brought back to the nearer bound and rounded, which costs "
            "no privacy. Choices have no scale: they are kept or swapped."
        ),
    )


def _noise(value: int, each: Fraction) -> Lines:
    other = HEIGHT.low if HEIGHT.high - value < value - HEIGHT.low else HEIGHT.high
    return Lines(
        "form-noise",
        phrase("Height: the chance of every number that may be sent"),
        phrase(
            "One line for the height that was filled in, one for the bound that is furthest from it. Nowhere is one of them more than e^epsilon times the "
            "other: so little does a message tell them apart. The bounds themselves are left out; the table says how often they are sent."
        ),
        Axis(phrase("Sent, cm")),
        Axis(phrase("Chance"), low=0.0, is_share=True),
        [_law(value, each), _law(other, each)],
    )


def _law(value: int, each: Fraction) -> Line:
    chances = HEIGHT.chances(value, float(each))
    inside = range(HEIGHT.low + 1, HEIGHT.high)
    return Line(phrase("filled in: {value}", value=value), list(zip(inside, chances[1:-1], strict=True)))


def _bars(value: int, each: Fraction) -> Bars:
    filled_in = [value, *(place for place in range(len(SMOKING.choices)) if place != value)]
    return Bars(
        "form-choices",
        phrase("Smoking: the chance of every choice that may be sent"),
        phrase("Whatever was filled in is kept with the largest chance; each other choice is as likely as the next."),
        Axis(phrase("Chance"), low=0.0, high=1.0, is_share=True),
        [phrase("sent: {value}", value=label) for _, label in SMOKING.choices],
        [phrase("filled in: {value}", value=SMOKING.choices[place][1]) for place in filled_in],
        [SMOKING.chances(place, float(each)) for place in filled_in],
    )


_CITIZEN: tuple[Block, ...] = (
    Paragraph(
        phrase(
            "You fill in a form about your health. Before it leaves your hands, your computer changes it at random: your height becomes "
            "some other height, and perhaps a smoker becomes a non-smoker. If epsilon is small, what arrives is so unsure that you may "
            "always say “that was the noise”."
        )
    ),
    Paragraph(
        phrase(
            "Nobody needs to be trusted with the truth, because nobody gets it. The statistics pay for that: a handful of such forms tells "
            "nothing; from very many, shares can be worked out again, because everybody knows how often chance changes an answer. Averages "
            "of numbers come out somewhat wrong even then, because of the bounds. Move epsilon: to the left more protection, to "
            "the right the truth shows through."
        )
    ),
)
_SPECIALIST: tuple[Block, ...] = (
    Paragraph(
        phrase(
            "Neighbours are any two values of one respondent: local differential privacy, with epsilon for each field by itself and the sum for the form "
            "(sequential composition). Sensitivity is the distance of public bounds, not of what occurs in the data. Clamping and rounding are post-processing. "
            "Clamped means are biased towards the middle; “lab evaluate” prints by how much."
        )
    ),
    Formula("sent = round(clamp(value + Lap((high - low)/eps)))", phrase("a number")),
    Formula("P(kept) = e^eps/(e^eps + k - 1),  P(other) = 1/(e^eps + k - 1)", phrase("one of k choices")),
    Formula(
        "Lap(s) = -s sign(u - 1/2) ln(1 - 2 |u - 1/2|),  u = (j + 1/2)/2^32",
        phrase("how the noise is drawn, here and in the browser"),
    ),
    Paragraph(
        phrase(
            "The noise is made of floating-point numbers and a seed or the browser's random numbers. After rounding to whole units every message has a chance far "
            "above 2^-32, so that the epsilon holds to four digits; releases of the product use an exact sampler of integers all the same. In a browser the "
            "same formulas compute these numbers."
        )
    ),
    sources.WARNER,
    sources.KAIROUZ,
    sources.DWORK,
    sources.MIRONOV,
)
