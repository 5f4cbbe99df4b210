"""Answers about a part of the people: those whose households were asked.

The census dictionary declares the part, how many people each of them stands for, and how much households widen the variance of a share.
An answer carries it if everybody it counts was asked; a question that counts people who were not has no such meaning.
"""

from __future__ import annotations

from typing import Any

from broker_common.language import said
from broker_common.query.dictionary import AskedOf, Dictionary
from broker_common.query.dictionary_pages import asked_of_json
from broker_common.query.question import REST, Question
from researcher_node import texts
from researcher_node.answers.store import AskedQuestion


def part_of(question: Question, dictionary: Dictionary) -> AskedOf | None:
    """The part of the people that a question is about; None if it is about everybody, or counts people who were not asked."""
    if question.variable is None:
        return None
    column = dictionary.column(question.variable)
    counted = {value for cell in question.cells for value in cell.values}
    return None if REST in question.cells or column.not_asked in counted else column.asked_of


def part_json(asked: AskedQuestion) -> dict[str, Any]:
    """The part of the people who were asked for an answer; null if everybody was."""
    return {"asked_of": None if asked.asked_of is None else asked_of_json(asked.asked_of)}


def part_text(asked: AskedQuestion) -> str:
    """A line that says it, after a line break; nothing if everybody was asked."""
    part = asked.asked_of
    if part is None:
        return ""
    design_effect = f"{float(part.design_effect):g}"
    return f"\n{said(texts.ASKED_OF, one_in=part.one_in, weight=part.weight, design_effect=design_effect)}"
