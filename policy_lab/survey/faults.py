"""Faults of the published methods, as sections of a document."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from broker_common.language import phrase
from policy_lab.document.model import Block, Caution, Cell, Formula, Paragraph, Section, Source, Table
from policy_lab.measures.linkage import groups_of
from policy_lab.survey import promises, published, texts
from policy_lab.survey.promises import Promise, largest_share
from policy_lab.survey.respondents import NOT_STATED, Respondents

_WORDS: dict[promises.Name, tuple[str, str]] = {
    "local category": (texts.LOCAL_CATEGORY, texts.LOCAL_CATEGORY_WORLDS),
    "local number": (texts.LOCAL_NUMBER, texts.LOCAL_NUMBER_WORLDS),
    "shuffled": (texts.SHUFFLED, texts.SHUFFLED_WORLDS),
    "global count": (texts.GLOBAL_COUNT, texts.GLOBAL_COUNT_WORLDS),
    "global mean": (texts.GLOBAL_MEAN, texts.GLOBAL_MEAN_WORLDS),
}
# Each column of categories as count, frequency and share; each of two numbers as total and mean.
_NUMBERS = 2


def promises_section(people: Respondents, found: Sequence[Promise]) -> Section:
    """Every method: what was claimed, what holds, and what was measured."""
    rows: list[Sequence[Cell]] = [
        (
            _WORDS[each.name][0],
            each.claimed,
            texts.UNBOUNDED if each.real is None else each.real,
            each.measured,
        )
        for each in found
    ]
    return Section(
        "promises",
        texts.PROMISES_TITLE,
        [
            Paragraph(texts.PROMISES_CAUTION),
            Paragraph(_exceeded(found)),
            Caution(phrase(texts.PROMISES_REAL, times=people.rows * largest_share(people))),
            Table(
                "promises",
                texts.PROMISES_CAPTION,
                (texts.METHOD, texts.CLAIMED, texts.REAL, texts.MEASURED),
                rows,
                (None, None, 2, 2),
                texts.PROMISES_ERROR,
            ),
            Table("worlds", texts.WORLDS_CAPTION, (texts.METHOD, texts.NEIGHBOURS), list(_WORDS.values())),
        ],
        specialist=[Formula(texts.CATEGORY_LINE, phrase(texts.CATEGORY_WORDS, others=len(people.present) - 1))],
    )


def _exceeded(found: Sequence[Promise]) -> str:
    exceeded = sum(each.measured > each.claimed for each in found)
    if exceeded == len(found):
        return texts.PROMISES_EXCEEDED
    return phrase(texts.PROMISES_SOME_EXCEEDED, exceeded=exceeded, measured=len(found))


def steps_section(people: Respondents) -> Section:
    """The pipeline, step by step."""
    answers = answers_of_a_run()
    words = (
        texts.STEP_CATEGORY,
        texts.STEP_LIST,
        texts.STEP_FOLDED,
        texts.STEP_SHUFFLED,
        texts.STEP_REPLACED,
        texts.STEP_ORDER,
        phrase(texts.STEP_ALONE, alone=100 * _alone(people)),
        texts.STEP_DELTA,
        phrase(texts.STEP_COUNT, weight=float(people.weights.max())),
        texts.STEP_SHARE,
        phrase(texts.STEP_MEAN, rows=people.rows, times=people.rows * largest_share(people)),
        phrase(texts.STEP_SPENT, answers=answers, all=answers * published.RUNS),
    )
    return Section("steps", texts.STEPS_TITLE, [Paragraph(each) for each in words])


def _alone(people: Respondents) -> float:
    """The share of respondents whose province and weight nobody else has."""
    groups = groups_of([people.province, people.weights])
    return float((np.bincount(groups)[groups] == 1).mean())


def codes_section(people: Respondents) -> Section:
    """Means with the codes, and of those who stated a height."""
    stated = ~np.isin(people.heights, NOT_STATED)
    rows: list[Sequence[Cell]] = [
        (province, *_heights(people, (people.province == place), stated))
        for place, province in enumerate(people.provinces)
    ]
    rows.append((texts.WHOLE, *_heights(people, np.ones(people.rows, dtype=bool), stated)))
    intro = phrase(
        texts.CODES_INTRO,
        width=people.width,
        low=float(people.heights.min()),
        high=float(people.heights[stated].max()) if stated.any() else people.top,
    )
    return Section(
        "codes",
        texts.CODES_TITLE,
        [
            Paragraph(intro),
            Table(
                "codes",
                texts.CODES_CAPTION,
                (texts.PROVINCE, texts.CODES_WITH, texts.CODES_WITHOUT, texts.CODES_SHARE),
                rows,
                (None, 3, 3, 3),
            ),
        ],
    )


def _heights(people: Respondents, rows: NDArray[np.bool_], stated: NDArray[np.bool_]) -> tuple[Cell, Cell, Cell]:
    weights, heights, is_stated = people.weights[rows], people.heights[rows], stated[rows]
    without = float(np.average(heights[is_stated], weights=weights[is_stated])) if is_stated.any() else None
    share = float(weights[~is_stated].sum() / weights.sum())
    return float(np.average(heights, weights=weights)), without, share


def labels_section() -> Section:
    """Every number that is a code of another answer."""
    rows: list[Sequence[Cell]] = []
    for column in published.categorical():
        codes = published.codes(column)
        by_code = {each.code: each.label for each in codes}
        rows += [
            (column, each.number, each.label, by_code[each.number])
            for each in codes
            if by_code.get(each.number, each.label) != each.label
        ]
    return Section(
        "labels",
        texts.LABELS_TITLE,
        [
            Paragraph(texts.LABELS_INTRO),
            Table(
                "labels",
                texts.LABELS_CAPTION,
                (texts.COLUMN, texts.NUMBER, texts.MEANS, texts.TAKEN_FOR),
                rows,
                (),
                texts.LABELS_NOTE,
            ),
        ],
    )


def composition_section(epsilons: Sequence[float]) -> Section:
    """Composition of one respondent's answers."""
    sizes = [len(published.codes(column)) for column in published.categorical()]
    answers = answers_of_a_run()
    rows: list[Sequence[Cell]] = [
        (
            epsilon,
            promises.respondent_epsilon(sizes, _NUMBERS, epsilon),
            answers * epsilon,
            answers * published.RUNS * epsilon,
        )
        for epsilon in epsilons
    ]
    return Section(
        "composition",
        texts.COMPOSITION_TITLE,
        [
            Table(
                "composition",
                texts.COMPOSITION_CAPTION,
                (
                    texts.COMPOSITION_CLAIMED,
                    texts.COMPOSITION_LOCAL,
                    texts.COMPOSITION_GLOBAL,
                    texts.COMPOSITION_FIVE,
                ),
                rows,
                (None, 2, 1, 1),
                texts.COMPOSITION_NOTE,
            )
        ],
    )


def sources_section() -> Section:
    """Where the figures come from."""
    blocks: list[Block] = [
        Source(texts.SOURCE_REPORT, "https://github.com/PHACDataHub/statscan-phac-diffpriv-collab"),
        Source(texts.SOURCE_DATA),
        Source(texts.SOURCE_SHUFFLE, "https://arxiv.org/abs/2112.05464"),
    ]
    return Section("sources", texts.SOURCES_TITLE, blocks)


def answers_of_a_run() -> int:
    """About each respondent."""
    return 3 * len(published.categorical()) + 2 * _NUMBERS
