"""The figures of the report as sections of a document."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from broker_common.language import phrase
from policy_lab.document.model import Axis, Bars, Block, Cell, Paragraph, Section, Table
from policy_lab.mechanisms.randomised_response import RandomisedResponse, real_epsilon
from policy_lab.survey import pipeline, texts
from policy_lab.survey.comparison import Figure
from policy_lab.survey.promises import largest_share
from policy_lab.survey.published import Method, Question
from policy_lab.survey.respondents import Respondents, daily_number

_CAPTIONS: dict[tuple[Question, Method], str] = {
    ("smokers", "local"): texts.SMOKERS_LOCAL,
    ("smokers", "shuffled"): texts.SMOKERS_SHUFFLED,
    ("smokers", "global"): texts.SMOKERS_GLOBAL,
    ("height", "local"): texts.HEIGHT_LOCAL,
    ("height", "shuffled"): texts.HEIGHT_SHUFFLED,
    ("height", "global"): texts.HEIGHT_GLOBAL,
}
_DIGITS: dict[tuple[Question, Method], int] = {
    ("smokers", "local"): 0,
    ("smokers", "shuffled"): 0,
    ("smokers", "global"): 2,
    ("height", "local"): 3,
    ("height", "shuffled"): 3,
    ("height", "global"): 6,
}


def largest(people: Respondents) -> str:
    """The province with the most people: Ontario."""
    return people.provinces[int(np.argmax(people.people))]


def figures_section(people: Respondents, figures: Sequence[Figure], runs: int) -> Section:
    """The largest province in every detail."""
    province = largest(people)
    rows = people.province == people.provinces.index(province)
    weights = people.weights[rows]
    own = [each for each in figures if each.province == province]
    intro = phrase(
        texts.FIGURES_INTRO,
        smokers=float(weights[people.smoking[rows] == daily_number()].sum()),
        height=float(np.average(people.heights[rows], weights=weights)),
    )
    blocks: list[Block] = [Paragraph(intro), Paragraph(phrase(texts.FIGURES_COLUMNS, runs=runs))]
    blocks += [_detailed(people, own, question, method) for question, method in _CAPTIONS]
    blocks += _plots(own)
    return Section("figures", phrase(texts.FIGURES_TITLE, province=province), blocks)


def rightly_section(people: Respondents, figures: Sequence[Figure]) -> Section:
    """The cost of the same count if the method keeps its promise."""
    province = largest(people)
    rows = people.province == people.provinces.index(province)
    squares = np.bincount(
        np.searchsorted(people.present, people.smoking[rows]),
        people.weights[rows] ** 2,
        len(people.present),
    )
    daily = int(np.searchsorted(people.present, daily_number()))
    own = {
        (each.method, each.epsilon): each.error.absolute
        for each in figures
        if (each.question, each.province) == ("smokers", province)
    }
    weight = float(people.weights.max())
    lines: list[Sequence[Cell]] = []
    for epsilon in sorted({epsilon for _, epsilon in own}):
        error = RandomisedResponse(len(people.present), epsilon).standard_error(squares)[daily]
        local = float(error) * math.sqrt(2 / math.pi)
        lines.append((epsilon, own["local", epsilon], local, own["global", epsilon], weight / epsilon))
    heads = (
        texts.EPSILON,
        texts.LOCAL_AS_PUBLISHED,
        texts.LOCAL_RIGHTLY,
        texts.GLOBAL_AS_PUBLISHED,
        texts.GLOBAL_RIGHTLY,
    )
    note = phrase(texts.RIGHTLY_NOTE, weight=weight)
    table = Table("rightly", phrase(texts.RIGHTLY_CAPTION, province=province), heads, lines, (None, 0, 0, 2, 0), note)
    return Section("rightly", texts.RIGHTLY_TITLE, [Paragraph(texts.RIGHTLY_INTRO), table])


def provinces_section(people: Respondents, figures: Sequence[Figure]) -> Section:
    """Every province: expected and published."""
    blocks: list[Block] = [Paragraph(texts.PROVINCES_INTRO)]
    blocks += [_by_province(people, figures, question, method) for question, method in _CAPTIONS]
    scaled = phrase(
        texts.SCALED,
        rows=people.rows,
        expected=people.width,
        low=float(people.heights.min()),
        high=people.top,
    )
    blocks.append(Paragraph(scaled))
    found = [
        each.published * each.epsilon * people.rows
        for each in figures
        if (each.question, each.method) == ("height", "global") and each.published is not None
    ]
    if found:
        blocks.append(Paragraph(phrase(texts.SCALED_PUBLISHED, published=float(np.mean(found)))))
    return Section("provinces", texts.PROVINCES_TITLE, blocks)


def _detailed(people: Respondents, figures: Sequence[Figure], question: Question, method: Method) -> Table:
    rows: list[Sequence[Cell]] = [
        (
            each.epsilon,
            each.error.shift,
            each.deviation,
            each.error.absolute,
            each.simulated,
            each.published,
            _wrong(people, each),
        )
        for each in figures
        if (each.question, each.method) == (question, method)
    ]
    digits = _DIGITS[question, method]
    return Table(
        f"{question}-{method}",
        _CAPTIONS[question, method],
        (
            texts.EPSILON,
            texts.SHIFT,
            texts.DEVIATION,
            texts.ABSOLUTE,
            texts.SIMULATED,
            texts.PUBLISHED,
            texts.WRONG,
        ),
        rows,
        (None, *(5 * [digits]), None),
    )


def _wrong(people: Respondents, figure: Figure) -> str:
    epsilon = figure.epsilon
    if figure.method == "shuffled":
        return phrase(texts.SHUFFLED_WRONG, kept=100 * pipeline.shuffled_keep(epsilon, people.rows))
    if (figure.question, figure.method) == ("smokers", "local"):
        keep = pipeline.keep_probability(epsilon)
        real = real_epsilon(keep, len(people.present))
        return phrase(texts.LOCAL_COUNT_WRONG, real=real, claimed=epsilon, replaced=100 * (1 - keep))
    if figure.method == "local":
        return phrase(texts.LOCAL_HEIGHT_WRONG, width=people.width, shift=figure.error.shift)
    if figure.question == "smokers":
        weight = float(people.weights.max())
        return phrase(texts.GLOBAL_COUNT_WRONG, real=epsilon * weight, claimed=epsilon, weight=weight)
    real = epsilon * people.rows * largest_share(people)
    return phrase(texts.GLOBAL_HEIGHT_WRONG, real=real, claimed=epsilon, rows=people.rows)


def _by_province(people: Respondents, figures: Sequence[Figure], question: Question, method: Method) -> Table:
    own = [each for each in figures if (each.question, each.method) == (question, method)]
    epsilons = sorted({each.epsilon for each in own})
    heads = [texts.PROVINCE]
    for epsilon in epsilons:
        heads += [phrase(texts.EXPECTED_AT, epsilon=epsilon), phrase(texts.PUBLISHED_AT, epsilon=epsilon)]
    rows: list[Sequence[Cell]] = []
    for province in people.provinces:
        of_it = {each.epsilon: each for each in own if each.province == province}
        cells = [(of_it[epsilon].error.absolute, of_it[epsilon].published) for epsilon in epsilons]
        rows.append((province, *(value for pair in cells for value in pair)))
    return Table(
        f"provinces-{question}-{method}",
        _CAPTIONS[question, method],
        heads,
        rows,
        (None, *(2 * len(epsilons) * [_DIGITS[question, method]])),
    )


def _plots(figures: Sequence[Figure]) -> list[Block]:
    epsilons = sorted({each.epsilon for each in figures})
    of = {(each.question, each.method, each.epsilon): each for each in figures}
    groups = [phrase(texts.GROUP, epsilon=epsilon) for epsilon in epsilons]
    smokers = [of["smokers", "local", epsilon] for epsilon in epsilons]
    local = [of["height", "local", epsilon] for epsilon in epsilons]
    shuffled = [of["height", "shuffled", epsilon] for epsilon in epsilons]
    return [
        Bars(
            "smokers-local-errors",
            texts.PLOT_SMOKERS,
            texts.PLOT_SMOKERS_DESCRIPTION,
            Axis(texts.PLOT_PEOPLE, low=0),
            groups,
            *_series([(texts.LOCAL_EXPECTED, texts.LOCAL_SIMULATED, texts.LOCAL_PUBLISHED, smokers)]),
        ),
        Bars(
            "height-errors",
            texts.PLOT_HEIGHT,
            texts.PLOT_HEIGHT_DESCRIPTION,
            Axis(texts.PLOT_METRES, low=0),
            groups,
            *_series(
                [
                    (texts.LOCAL_EXPECTED, texts.LOCAL_SIMULATED, texts.LOCAL_PUBLISHED, local),
                    (texts.SHUFFLED_EXPECTED, texts.SHUFFLED_SIMULATED, texts.SHUFFLED_PUBLISHED, shuffled),
                ]
            ),
        ),
    ]


def _series(
    parts: Sequence[tuple[str, str, str, Sequence[Figure]]],
) -> tuple[Sequence[str], Sequence[Sequence[float]]]:
    """Names and values of the bars; published ones only where there are."""
    names: list[str] = []
    values: list[Sequence[float]] = []
    for expected, simulated, as_published, figures in parts:
        names += [expected, simulated]
        values += [[each.error.absolute for each in figures], [each.simulated for each in figures]]
        known = [each.published for each in figures if each.published is not None]
        if len(known) == len(figures):
            names.append(as_published)
            values.append(known)
    return names, values
