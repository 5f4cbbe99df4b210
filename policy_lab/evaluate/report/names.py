"""How mechanisms, questions and numbers are called in the document."""

from __future__ import annotations

from collections.abc import Iterable

from broker_common.language import joined, phrase, translated
from policy_lab.evaluate import texts
from policy_lab.evaluate.cells import Block
from policy_lab.evaluate.run import Mechanism, RunFile


def mechanism_name(mechanism: Mechanism) -> str:
    """A short name, that plots have room for."""
    name = _place_name(mechanism)
    if mechanism.along in texts.WITH:
        name = phrase(texts.WITH[mechanism.along], name=name)
    return phrase(texts.ALL_COLUMNS, name=name) if mechanism.also_static else name


def _place_name(mechanism: Mechanism) -> str:
    if mechanism.place == "global":
        return phrase(texts.GLOBAL)
    if mechanism.numbers:
        text = texts.LOCAL_NUMBERS if mechanism.place == "local" else texts.SHUFFLED_NUMBERS
        return phrase(text, numbers=phrase(texts.NUMBERS[mechanism.numbers]))
    return phrase(texts.LOCAL if mechanism.place == "local" else texts.SHUFFLED)


def block_name(block: Block) -> str:
    """Name of the question."""
    return phrase(texts.QUERIES[block.query], column=quoted(block.column.name.text))


def stratum_names(run: RunFile) -> list[str]:
    """The strata; all rows are one where there are none."""
    return [verbatim(name) if name else phrase(texts.ALL_ROWS) for name in run.strata_names]


def quoted(word: str) -> str:
    """The author's word; in quotes no catalogue takes it for a word of ours."""
    return f"'{word}'"


def verbatim(word: str) -> str:
    """The author's word where quotes would be in the way: it is the same in every language."""
    return translated(word, {})


def number_text(value: float) -> str:
    """An epsilon, a delta or a number of people inside a sentence, with the marks of its language."""
    return phrase("{value:,}" if isinstance(value, int) else "{value:.4g}", value=value)


def listed(values: Iterable[float]) -> str:
    """Several of them."""
    return joined("; ", [number_text(value) for value in values])


def sent_mechanisms(run: RunFile) -> list[Mechanism]:
    """Those under which respondents send something."""
    return [mechanism for mechanism in run.mechanisms if mechanism.place != "global"]


def middle_epsilon(run: RunFile) -> float:
    """The epsilon of plots that show one only."""
    return run.epsilons[len(run.epsilons) // 2]
