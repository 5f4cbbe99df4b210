"""The sections about sent data: shapes and pairs of columns, who is found again, and plain answers among noisy ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean

from broker_common.language import phrase
from policy_lab.document.model import Axis, Bars, Cell, Heat, Line, Lines, Paragraph, Section, Table
from policy_lab.document.model import Block as Shown
from policy_lab.evaluate import texts
from policy_lab.evaluate.data import Data
from policy_lab.evaluate.likeness import MOST_ROWS, SHARES, Likeness, pair_names, permuted_pairs, true_pairs
from policy_lab.evaluate.parts import Job, Parts
from policy_lab.evaluate.report.names import mechanism_name, middle_epsilon, number_text, quoted, sent_mechanisms
from policy_lab.evaluate.run import Column, Mechanism, RunFile

Of = tuple[Mechanism, float]


def sent_sections(run: RunFile, data: Data, parts: Parts) -> Iterator[Section]:
    """Everything about what respondents send; nothing if they send nothing."""
    likenesses = {
        (mechanism, epsilon): [
            like
            for repetition in range(run.repetitions)
            if (like := parts.needed(Job(mechanism, epsilon, repetition)).likeness) is not None
        ]
        for mechanism in sent_mechanisms(run)
        for epsilon in run.epsilons
    }
    if likenesses:
        yield _likeness_section(run, data, likenesses)
        yield _linkage_section(run, likenesses)
    if any(mechanism.place == "local" for mechanism, _ in likenesses):
        yield _mixture_section(run, likenesses)


def _mean(likenesses: Sequence[Likeness], of: Callable[[Likeness], Sequence[float]]) -> list[float]:
    """Each measure, averaged over the repetitions."""
    return [fmean(each) for each in zip(*map(of, likenesses), strict=True)]


# --- shapes and pairs ----------------------------------------------------------------------------------------------


def _likeness_section(run: RunFile, data: Data, likenesses: dict[Of, list[Likeness]]) -> Section:
    blocks: list[Shown] = []
    if data.rows > MOST_ROWS:
        blocks.append(Paragraph(phrase(texts.SAMPLED, rows=MOST_ROWS, all=data.rows)))
    blocks += [_shapes_table(run, likenesses), *_shape_bars(run, likenesses)]
    if len(run.columns) > 1:
        true = true_pairs(run, data)
        blocks.append(_pairs_table(run, likenesses, true, permuted_pairs(run, data)))
        blocks.append(_heat(run, "pairs-file", phrase(texts.TRUE_PAIRS_TITLE), true))
        epsilon = middle_epsilon(run)
        for mechanism in sent_mechanisms(run):
            title = phrase(texts.AFTER_PAIRS_TITLE, mechanism=mechanism_name(mechanism), epsilon=number_text(epsilon))
            after = _mean(likenesses[mechanism, epsilon], lambda like: like.pairs)
            blocks.append(_heat(run, f"pairs-{mechanism.key}", title, after))
    return Section(
        "likeness",
        phrase(texts.LIKENESS),
        blocks,
        citizen=(Paragraph(phrase(texts.LIKENESS_CITIZEN)),),
        specialist=(Paragraph(phrase(texts.LIKENESS_SPECIALIST)),),
    )


def _averages(values: Sequence[float], kinds: Sequence[int], which: Sequence[int]) -> list[Cell]:
    """The mean of each kind of value; an empty cell for a kind that there is none of."""
    found = [[value for value, kind in zip(values, kinds, strict=True) if kind == each] for each in which]
    return [fmean(each) if each else None for each in found]


def _shapes_table(run: RunFile, likenesses: dict[Of, list[Likeness]]) -> Table:
    kinds = [0 if column.is_static else 1 for column in run.columns]
    rows: list[list[Cell]] = [
        [mechanism_name(mechanism), epsilon, *_averages(_mean(found, lambda like: like.shapes), kinds, (0, 1))]
        for (mechanism, epsilon), found in likenesses.items()
    ]
    # A permutation leaves every column's distribution as it is.
    rows.append([phrase(texts.BASELINE), None, *_averages([1.0] * len(kinds), kinds, (0, 1))])
    heads = [phrase(text) for text in texts.SHAPES_HEADS]
    return Table("shapes", phrase(texts.SHAPES_CAPTION), heads, rows, digits=(None, None, 4, 4))


def _shape_bars(run: RunFile, likenesses: dict[Of, list[Likeness]]) -> Iterator[Bars]:
    for mechanism in sent_mechanisms(run):
        means = {e: _mean(likenesses[mechanism, e], lambda like: like.shapes) for e in run.epsilons}
        noised = run.noised(mechanism)
        yield Bars(
            f"shapes-{mechanism.key}",
            phrase(texts.SHAPES_TITLE, mechanism=mechanism_name(mechanism)),
            phrase(texts.SHAPES_DESCRIPTION),
            Axis(phrase(texts.SHAPE_AXIS), low=0.0, high=1.0),
            groups=[phrase(texts.EPSILON_IS, epsilon=number_text(epsilon)) for epsilon in run.epsilons],
            series=[quoted(column.name.text) for column in noised],
            values=[[means[e][run.columns.index(column)] for e in run.epsilons] for column in noised],
        )


def _pairs_table(
    run: RunFile, likenesses: dict[Of, list[Likeness]], true: Sequence[float], permuted: Sequence[float]
) -> Table:
    kinds = [_pair_kind(*pair) for pair in pair_names(run)]

    def kept(after: Sequence[float]) -> list[float]:
        return [1 - abs(one - other) / 2 for one, other in zip(true, after, strict=True)]

    rows: list[list[Cell]] = []
    for (mechanism, epsilon), found in likenesses.items():
        # Averaged after the comparison: errors of two repetitions do not cancel out.
        each = [kept(like.pairs) for like in found]
        means = [fmean(values) for values in zip(*each, strict=True)]
        rows.append([mechanism_name(mechanism), epsilon, *_averages(means, kinds, (0, 1, 2))])
    rows.append([phrase(texts.BASELINE), None, *_averages(kept(permuted), kinds, (0, 1, 2))])
    heads = [phrase(text) for text in texts.PAIRS_HEADS]
    return Table("pairs", phrase(texts.PAIRS_CAPTION), heads, rows, digits=(None, None, 4, 4, 4))


def _pair_kind(one: Column, other: Column) -> int:
    """How many of the two are dynamic."""
    return int(not one.is_static) + int(not other.is_static)


def _heat(run: RunFile, key: str, title: str, values: Sequence[float]) -> Heat:
    names = [column.name.text for column in run.columns]
    strengths = {
        (one.name.text, other.name.text): abs(value)
        for (one, other), value in zip(pair_names(run), values, strict=True)
    }
    shown = [quoted(name) for name in names]
    cells = [[strengths.get((one, other), strengths.get((other, one))) for other in names] for one in names]
    return Heat(key, title, phrase(texts.PAIRS_DESCRIPTION), shown, shown, cells, 0.0, 1.0)


# --- linkage -------------------------------------------------------------------------------------------------------


def _linkage_section(run: RunFile, likenesses: dict[Of, list[Likeness]]) -> Section:
    means = {
        of: _mean(found, lambda like: (like.linked.alone, like.linked.by_unchanged, like.linked.by_answers))
        for of, found in likenesses.items()
    }
    people = max(like.linked.people for found in likenesses.values() for like in found)
    table = Table(
        "linkage",
        phrase(texts.LINKAGE_CAPTION),
        [phrase(text) for text in texts.LINKAGE_HEADS],
        [[mechanism_name(mechanism), epsilon, *shares] for (mechanism, epsilon), shares in means.items()],
        digits=(None, None, 4, 4, 4),
    )
    mechanisms = sent_mechanisms(run)
    bars = Bars(
        "found-again",
        phrase(texts.LINKAGE_TITLE),
        phrase(texts.LINKAGE_DESCRIPTION),
        Axis(phrase(texts.LINKAGE_AXIS), low=0.0, high=1.0, is_share=True),
        groups=[phrase(texts.EPSILON_IS, epsilon=number_text(epsilon)) for epsilon in run.epsilons],
        series=[mechanism_name(mechanism) for mechanism in mechanisms],
        values=[[means[mechanism, epsilon][2] for epsilon in run.epsilons] for mechanism in mechanisms],
    )
    return Section(
        "linkage",
        phrase(texts.LINKAGE),
        [bars, table],
        citizen=(Paragraph(phrase(texts.LINKAGE_CITIZEN)),),
        specialist=(Paragraph(phrase(texts.LINKAGE_SPECIALIST, people=people)),),
    )


# --- mixtures ------------------------------------------------------------------------------------------------------


def _mixture_section(run: RunFile, likenesses: dict[Of, list[Likeness]]) -> Section:
    return Section(
        "mixture",
        phrase(texts.MIXTURE),
        [_lines(run, likenesses, mechanism) for mechanism in run.mechanisms if mechanism.place == "local"],
        citizen=(Paragraph(phrase(texts.MIXTURE_CITIZEN)),),
        specialist=(Paragraph(phrase(texts.MIXTURE_SPECIALIST)),),
    )


def _lines(run: RunFile, likenesses: dict[Of, list[Likeness]], mechanism: Mechanism) -> Lines:
    return Lines(
        f"mixture-{mechanism.key}",
        phrase(texts.MIXTURE_TITLE, mechanism=mechanism_name(mechanism)),
        phrase(texts.MIXTURE_DESCRIPTION),
        Axis(phrase(texts.MIXTURE_X), low=0.0, high=1.0, is_share=True),
        Axis(phrase(texts.MIXTURE_Y), low=0.0),
        [
            Line(
                phrase(texts.EPSILON_IS, epsilon=number_text(epsilon)),
                [
                    (share, fmean(fmean(like.mixtures[number]) for like in likenesses[mechanism, epsilon]))
                    for number, share in enumerate(SHARES)
                ],
            )
            for epsilon in run.epsilons
        ],
    )
