"""Every figure, over its settings: whole, in two languages, for two readers, and never past a limit."""

from __future__ import annotations

import itertools
import math
import string
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest

from broker_common.language import language
from policy_lab.document import as_json
from policy_lab.document.model import Bars, Block, Document, Formula, Line, Lines, Paragraph, Section, Source, Table
from policy_lab.figures.figure import FIGURES, Figure
from policy_lab.standing import Standing

# A citizen reads no more than this, in either language.
MOST_WORDS = {"en": 125, "fr": 145}


def corners(figure: Figure) -> Iterator[dict[str, str]]:
    """The usual values, and every setting at both of its ends, two at a time."""
    ends = {
        each.key: [key for key, _ in each.choices] or [str(each.low), str(each.high)]
        for each in figure.settings
        if each.key != "seed"
    }
    yield {}
    for first, second in itertools.combinations(ends, 2):
        yield from ({first: a, second: b} for a, b in itertools.product(ends[first], ends[second]))


CASES = [(figure, given) for figure in FIGURES.values() for given in corners(figure)]


def name_of(case: object) -> str:
    """A case as a test's name."""
    if isinstance(case, Figure):
        return case.key
    return ",".join(f"{key}={value}" for key, value in case.items()) if isinstance(case, dict) else str(case)


def drawn(key: str, **given: str) -> Section:
    """A figure for these settings."""
    return FIGURES[key].draw(FIGURES[key].values(given))


def blocks_of(section: Section) -> list[Block]:
    """All blocks of a section."""
    return [*section.blocks, *section.citizen, *section.specialist]


@pytest.mark.parametrize(("figure", "given"), CASES, ids=name_of)
def test_figure_is_whole_at_every_corner_of_its_settings(figure: Figure, given: dict[str, str]) -> None:
    """Tables are rectangles of finite numbers, lines have points, and no name in braces is left over."""
    section = figure.draw(figure.values(given))
    assert section.key == figure.key
    for block in blocks_of(section):
        if isinstance(block, Table):
            assert {len(row) for row in block.rows} == {len(block.heads)} == {len(block.digits)}
            assert all(
                math.isfinite(cell) for row in block.rows for cell in row if isinstance(cell, int | float | Fraction)
            )
        elif isinstance(block, Lines):
            assert all(math.isfinite(x) and math.isfinite(y) for line in block.lines for x, y in line.points)
            assert all(line.points for line in block.lines)
            _verify_within(block)
        elif isinstance(block, Bars):
            assert all(len(of) == len(block.groups) for of in block.values)
            assert all(sum(of) == pytest.approx(1) for of in block.values)
    for text in texts_of(section):
        for code in ("en", "fr"):
            said = language(code)(text)
            assert [name for _, name, _, _ in string.Formatter().parse(said) if name] == [], said


def _verify_within(block: Lines) -> None:
    """A logarithm needs numbers above 0, a share lies in 0 .. 1 unless its axis has no end, and an axis holds its points."""
    for axis, at in ((block.x, 0), (block.y, 1)):
        values = [point[at] for line in block.lines for point in line.points]
        assert not axis.is_log or min(values) > 0, block.key
        assert axis.low is None or min(values) >= axis.low, block.key
        assert axis.high is None or max(values) <= axis.high, block.key


def texts_of(thing: Any) -> Iterator[str]:
    """Every text that a reader of the section is told; formulas are the same in all languages."""
    if isinstance(thing, str):
        yield thing
    elif isinstance(thing, Formula | Source):
        yield thing.words
    elif isinstance(thing, list | tuple):
        for each in thing:
            yield from texts_of(each)
    elif hasattr(thing, "__dataclass_fields__"):
        for name in thing.__dataclass_fields__:
            if name not in {"key", "kind", "command", "address"}:
                yield from texts_of(getattr(thing, name))


# Both languages write these alike.
ALIKE = {"C.V. (%)", "cm", "kg", "1 question", "Questions"}


@pytest.mark.parametrize("figure", FIGURES.values(), ids=name_of)
def test_every_text_of_a_figure_is_french_too(figure: Figure) -> None:
    """Sentences with figures in them as well, and the labels of settings and choices."""
    french = language("fr")
    for given in corners(figure):
        section = figure.draw(figure.values(given))
        labels = [(each.label, [label for _, label in each.choices], figure.title) for each in figure.settings]
        alike = {text for text in texts_of([*labels, section]) if any(map(str.isalpha, text)) and french(text) == text}
        assert alike <= ALIKE


@pytest.mark.parametrize("code", ["en", "fr"])
@pytest.mark.parametrize("figure", FIGURES.values(), ids=name_of)
def test_citizen_reads_few_words_and_no_formula(figure: Figure, code: str) -> None:
    """A specialist gets formulas and sources."""
    t = language(code)
    section = figure.draw(figure.values({}))
    assert all(isinstance(block, Paragraph) for block in section.citizen)
    words = " ".join(t(block.words) for block in section.citizen if isinstance(block, Paragraph))
    assert 50 < len(words.split()) <= MOST_WORDS[code]
    assert not set(words) & set("=^<>≤Σ√∑")
    kinds = [type(block) for block in section.specialist]
    assert kinds.count(Formula) >= 2
    assert kinds.count(Source) >= 2


def test_names_of_tables_and_plots_are_those_of_one_figure() -> None:
    """All figures may be written into one folder, where each is a file."""
    keys = [
        block.key for figure in FIGURES for block in drawn(figure).blocks if isinstance(block, Table | Lines | Bars)
    ]
    assert len(set(keys)) == len(keys)
    assert all(key.startswith(f"{figure}-") for figure in FIGURES for key in keys_of(figure))


def keys_of(figure: str) -> list[str]:
    """The keys of a figure's tables and plots."""
    return [block.key for block in drawn(figure).blocks if isinstance(block, Table | Lines | Bars)]


@pytest.mark.parametrize("figure", FIGURES.values(), ids=name_of)
def test_same_settings_make_the_same_figure(figure: Figure) -> None:
    """Nothing but settings enters: no clock, no file, no randomness but the seed."""
    first, second = (_json(figure, {}) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    "figure", [each for each in FIGURES.values() if any(s.key == "seed" for s in each.settings)], ids=name_of
)
def test_another_seed_makes_another_figure(figure: Figure) -> None:
    """Made-up values are drawn from the seed."""
    assert _json(figure, {"seed": "1"}) != _json(figure, {"seed": "2"})


def _json(figure: Figure, given: dict[str, str]) -> dict[str, Any]:
    section = figure.draw(figure.values(given))
    return as_json.value(Document("test", figure.title, Standing.NO_DATA, "test", [section]))


def line_of(section: Section, plot: str, label: str) -> Line:
    """A line of a plot, by its English label."""
    block = next(each for each in section.blocks if isinstance(each, Lines) and each.key == plot)
    return next(line for line in block.lines if line.label == label)
