"""Whom an answer counts: people who are linked and, of some variables, only those whose households were asked.

Nobody else is counted than who is linked, and no node knows how many that are. The share is what the census agency declares in its
policy. Who is missed is not missed by chance alone, so that shares of the linked people are not those of everybody; no margin and no
interval has that in it.

The census dictionary declares which part was asked, how many people each of them stands for, and how much households widen the
variance of a share. An answer carries it if everybody it counts was asked; a question that counts people who were not has no such
meaning.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from broker_common.language import Language, language_of_environment, said
from broker_common.privacy.policy import Policy
from broker_common.query.dictionary import AskedOf, Dictionary
from broker_common.query.dictionary_pages import asked_of_json
from broker_common.query.question import REST, Question
from researcher_node import texts
from researcher_node.answers.store import AskedQuestion


def linked_json(policy: Policy | None) -> dict[str, Any] | None:
    """How records are linked, and the declared share of the census, null where none is declared; null without a policy."""
    if policy is None:
        return None
    return {"linkage": policy.linkage, "declared_percent": policy.declared_linked_percent or None}


def linked_text(policy: Policy | None) -> str:
    """The same for people."""
    return _linked(policy, language_of_environment())


def linked_sentences(policies: Iterable[Policy | None], language: Language | None = None) -> str:
    """The same of several answers, which may have been given under different policies."""
    t = language or language_of_environment()
    return " ".join(dict.fromkeys(t(texts.COUNTED_ARE, linked=_linked(policy, t)) for policy in policies))


def _linked(policy: Policy | None, t: Language) -> str:
    if policy is None:
        return t(texts.LINKED_UNKNOWN)
    whom = t(texts.LINKED[policy.linkage])
    if not policy.declared_linked_percent:
        return t(texts.LINKED_UNDECLARED, whom=whom)
    return t(texts.LINKED_DECLARED, whom=whom, percent=policy.declared_linked_percent)


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
