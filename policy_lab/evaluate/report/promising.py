"""The section about promises: one sentence for each mechanism, its bias, to whom it does not apply, and how epsilons add up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from broker_common.language import joined, phrase
from policy_lab.document.model import Block as Shown
from policy_lab.document.model import Caution, Cell, Formula, Paragraph, Section, Source, Table
from policy_lab.evaluate import texts
from policy_lab.evaluate.cells import blocks
from policy_lab.evaluate.data import Data
from policy_lab.evaluate.promises import Promised, promised
from policy_lab.evaluate.report.names import block_name, listed, mechanism_name, number_text, quoted, stratum_names
from policy_lab.evaluate.run import Mechanism, Query, RunFile
from policy_lab.mechanisms.neighbours import Neighbours

_FORMULA = "P[answers | D] <= e^epsilon * P[answers | D'] + delta"
_SHUFFLING_ADDRESS = "https://arxiv.org/abs/2012.12803"


def promises_section(run: RunFile, data: Data) -> Section:
    """Each mechanism's promise on these data."""
    found = {
        mechanism: [promised(run, data, mechanism, epsilon) for epsilon in run.epsilons] for mechanism in run.mechanisms
    }
    shown: list[Shown] = [_at_a_glance(found)]
    for mechanism, promises in found.items():
        words = joined(" ", list(_sentences(run, mechanism, promises)))
        shown.append(Paragraph(phrase(texts.PROMISE_TITLES, name=mechanism_name(mechanism), words=words)))
    shown.append(_composition(run, found))
    shown += [_shuffling(run, mechanism, promises) for mechanism, promises in found.items() if promises[0].shuffling]
    if any(mechanism.place == "shuffled" for mechanism in found):
        shown += _cautions(found)
        shown.append(Source(phrase(texts.SOURCE_SHUFFLING), _SHUFFLING_ADDRESS))
    return Section(
        "promises",
        phrase(texts.PROMISES),
        shown,
        citizen=(Paragraph(phrase(texts.PROMISES_CITIZEN)),),
        specialist=(Formula(_FORMULA, phrase(texts.PROMISE_FORMULA_WORDS)),),
    )


def _sentences(run: RunFile, mechanism: Mechanism, promises: Sequence[Promised]) -> Iterator[str]:
    """Promise, bias, and to whom it does not apply."""
    given, total = listed(run.epsilons), listed(each.real_epsilon for each in promises)
    neighbours = promises[0].composed.neighbours.words
    local = listed(each.composed.epsilon for each in promises)
    if mechanism.place == "global":
        yield phrase(texts.PROMISE_GLOBAL, given=given, total=total, neighbours=neighbours)
        yield phrase(texts.BIAS_GLOBAL)
        yield phrase(texts.NOT_FOR_GLOBAL)
        return
    if mechanism.place == "local":
        yield phrase(texts.PROMISE_LOCAL, given=given, total=total, neighbours=neighbours)
    else:
        delta = listed(each.real_delta for each in promises)
        yield phrase(texts.PROMISE_SHUFFLED, given=given, total=total, delta=delta, neighbours=neighbours)
        hidden = listed(sum(each.hidden for each in one.shuffling) for one in promises)
        rows = sum(each.rows for each in promises[0].shuffling)
        yield phrase(texts.PROMISE_HIDDEN, given=given, hidden=hidden, rows=rows)
    # Where the weight stays behind, even an unbiased law gives biased weighted counts.
    if mechanism.place == "shuffled" and mechanism.along != "weight" and run.weights:
        yield phrase(texts.BIAS_SHUFFLED)
    elif any(column.is_category for column in run.noised(mechanism)):
        yield phrase(texts.BIAS_CATEGORIES)
    if mechanism.numbers:
        yield phrase(texts.BIAS_NUMBERS[mechanism.numbers])
    if mechanism.place == "local":
        yield phrase(texts.NOT_FOR_LOCAL)
        return
    yield phrase(texts.NOT_FOR_SHUFFLED, local=local)
    if mechanism.along in texts.NOT_FOR_ALONG:
        yield phrase(texts.NOT_FOR_ALONG[mechanism.along])


# --- composition ---------------------------------------------------------------------------------------------------


def _composition(run: RunFile, found: dict[Mechanism, list[Promised]]) -> Table:
    """One row for each part of what one respondent spends, and their sum."""
    rows: list[list[Cell]] = []
    for mechanism, promises in found.items():
        name = mechanism_name(mechanism)
        for number, (what, how) in enumerate(_spenders(run, mechanism)):
            rows.append([name, what, how, *(each.composed.parts[number].epsilon for each in promises)])
        rows.append(
            [
                name,
                phrase(texts.COMPOSITION_TOTAL),
                phrase(texts.HOW_SEQUENTIAL),
                *(p.composed.epsilon for p in promises),
            ]
        )
        if mechanism.place == "shuffled":
            after = [each.real_epsilon for each in promises]
            rows.append([name, phrase(texts.COMPOSITION_TOTAL), phrase(texts.HOW_SHUFFLED), *after])
    heads = [phrase(text) for text in texts.COMPOSITION_HEADS[:-1]]
    heads += [phrase(texts.COMPOSITION_HEADS[-1], epsilon=number_text(epsilon)) for epsilon in run.epsilons]
    return Table(
        "composition",
        phrase(texts.COMPOSITION_CAPTION),
        heads,
        rows,
        digits=(None, None, None, *([3] * len(run.epsilons))),
        note=phrase(texts.COMPOSITION_NOTE),
    )


def _spenders(run: RunFile, mechanism: Mechanism) -> list[tuple[str, str]]:
    """The spending figures, in the order of the record, and how their cells add up."""
    if mechanism.place != "global":
        return [(quoted(column.name.text), phrase(texts.HOW_MESSAGE)) for column in run.noised(mechanism)]
    return [(block_name(block), _how(run, block.query)) for block in blocks(run, mechanism)]


def _how(run: RunFile, query: Query) -> str:
    is_within = run.neighbours is Neighbours.REPLACED_WITHIN
    if run.neighbours is Neighbours.REPLACED or (is_within and query == "count"):
        return phrase(texts.HOW_CELLS_TWO)
    return phrase(texts.HOW_CELLS_ONE if query == "count" else texts.HOW_STRATUM)


def _at_a_glance(found: dict[Mechanism, list[Promised]]) -> Table:
    rows: list[list[Cell]] = [
        [mechanism_name(mechanism), each.epsilon, each.real_epsilon, each.real_delta]
        for mechanism, promises in found.items()
        for each in promises
    ]
    heads = [phrase(text) for text in texts.GLANCE_HEADS]
    return Table("promises", phrase(texts.GLANCE_CAPTION), heads, rows, digits=(None, None, 3, None))


def _shuffling(run: RunFile, mechanism: Mechanism, promises: Sequence[Promised]) -> Table:
    rows: list[list[Cell]] = [
        [
            found.epsilon,
            stratum,
            each.rows,
            each.hidden,
            each.least,
            each.promise.epsilon,
            each.most,
            each.best.epsilon,
        ]
        for found in promises
        for stratum, each in zip(stratum_names(run), found.shuffling, strict=True)
    ]
    return Table(
        f"shuffling-{mechanism.key}",
        phrase(texts.SHUFFLING_CAPTION, mechanism=mechanism_name(mechanism)),
        [phrase(text) for text in texts.SHUFFLING_HEADS],
        rows,
        digits=(None, None, 0, 0, 0, 3, 0, 3),
        note=phrase(texts.SHUFFLING_NOTE, delta=number_text(run.delta or 0.0)),
    )


def _cautions(found: dict[Mechanism, list[Promised]]) -> Sequence[Shown]:
    """A delta that is too large for the groups that it is used with."""
    said = {
        each.caution
        for promises in found.values()
        for one in promises
        for shuffling in one.shuffling
        for each in (shuffling.promise, shuffling.best)
    }
    return [Caution(words) for words in sorted(said - {""})]
