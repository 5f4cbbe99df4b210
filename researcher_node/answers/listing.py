"""Questions and answers as they are shown: objects for programs, a paragraph for one, a table for several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from broker_common.cli import instant
from broker_common.crypto.sampling import WHOLE_MILLIONTHS
from broker_common.errors import InternalError, error_for
from broker_common.language import said
from broker_common.privacy.accounting import epsilon_text
from broker_common.terminal import table
from researcher_node import texts
from researcher_node.answers.counted import linked_json, linked_text, part_json, part_text
from researcher_node.answers.counts import (
    counts_json,
    fraction_digits,
    fraction_text,
    headline_text,
    row_text,
    shown_counts,
    table_text,
)
from researcher_node.answers.own_use import OwnUses, price_json, price_text
from researcher_node.answers.store import AskedQuestion

# A table is for finding one's way; the criteria of one question are shown in full when it is the only one.
_MAY_BE_CUT = (3, 4)
_COLOURS = {"pending": "yellow", "refused": "red", "expired": "red"}
# Beside a count that may miss everybody.
_LEFT_OUT_MARK = "!"


def answer_json(asked: AskedQuestion, uses: OwnUses) -> dict[str, Any]:
    """An answer as `ask` gives it, with what had been used of anybody's budget."""
    if asked.noisy is None:
        raise InternalError("INTERNAL")
    return {
        "query_id": asked.query,
        **counts_json(asked),
        "scale": asked.scale,
        "epsilon": epsilon_text(asked.scale),
        "question": asked.question,
        "where": asked.where,
        "fraction": fraction_digits(asked.fraction_millionths),
        "project": asked.project,
        "label": asked.label or None,
        "asked": instant(asked.asked_ms),
        "policy_hash": asked.policy_hash,
        "charged": asked.charged,
        "checkpoint": asked.checkpoint,
        "quoted_again": asked.quoted_again,
        **part_json(asked),
        **_of_budget(asked, uses),
    }


def answer_text(asked: AskedQuestion, uses: OwnUses) -> str:
    """An answer as `ask` tells it."""
    use = uses[asked.query]
    text = said(
        texts.ANSWER,
        headline=headline_text(asked),
        table=table_text(asked),
        margin=shown_counts(asked)[0].margin,
        scale=asked.scale,
        epsilon=epsilon_text(asked.scale),
        charged=asked.charged,
        share=price_text(asked.scale, use.policy),
        left_out=use.as_text(),
        linked=linked_text(use.policy),
        **{**_described(asked), "fraction": fraction_text(asked)},
    )
    text += part_text(asked) + _labelled(asked) + _quoted_again(asked)
    is_negative = asked.noisy is not None and min(asked.noisy.values) < 0
    return f"{text}\n{said(texts.NEGATIVE)}" if is_negative else text


def question_json(asked: AskedQuestion, uses: OwnUses) -> dict[str, Any]:
    """A question with everything that is known of it."""
    return {
        "query_id": asked.query,
        "asked": instant(asked.asked_ms),
        "state": asked.state,
        "where": asked.where,
        "question": asked.question,
        "fraction": fraction_digits(asked.fraction_millionths),
        "scale": asked.scale,
        "epsilon": epsilon_text(asked.scale),
        **counts_json(asked),
        "policy_hash": asked.policy_hash,
        "charged": asked.charged,
        "checkpoint": asked.checkpoint or None,
        "refused": asked.refused or None,
        "project": asked.project,
        "label": asked.label or None,
        "answered": None if asked.answered_ms is None else instant(asked.answered_ms),
        "ticket_expires": instant(asked.ticket_expires_ms),
        "quoted_again": asked.quoted_again,
        **part_json(asked),
        **_of_budget(asked, uses),
    }


def questions_text(questions: Sequence[AskedQuestion], now_ms: int, uses: OwnUses) -> str:
    """One question in full, several as a table with a line each; `now_ms` tells which tickets have expired."""
    if len(questions) == 1:
        return _paragraph(questions[0], now_ms, uses)
    rows = [tuple(map(said, texts.COLUMNS)), *(_row(asked, now_ms, uses) for asked in questions)]
    if any(asked.fraction_millionths != WHOLE_MILLIONTHS for asked in questions):
        rows = _with_column(
            rows, [said(texts.FRACTION_COLUMN), *(fraction_digits(asked.fraction_millionths) for asked in questions)]
        )
    if len({asked.project for asked in questions}) > 1:
        projects = [said(texts.PROJECT_COLUMN), *(asked.project for asked in questions)]
        rows = _with_column(rows, projects)
    if any(asked.label for asked in questions):
        rows = _with_column(rows, [said(texts.LABEL_COLUMN), *(asked.label for asked in questions)])
    head, *others = rows
    colours = [_COLOURS.get(asked.state, "") for asked in questions]
    text = table(head, others, may_be_cut=_MAY_BE_CUT, colours=colours)
    if any(_is_overdue(asked, now_ms) for asked in questions):
        text += f"\n{texts.OVERDUE_MARK} {said(texts.OVERDUE)}"
    shown_uses = [uses[asked.query] for asked in questions if asked.query in uses]
    if any(use.can_leave_out for use in shown_uses):
        text += f"\n{_LEFT_OUT_MARK} {said(texts.LEFT_OUT_BY_OWN)}"
    if any(use.leaves_out for use in shown_uses):
        text += f"\n{said(texts.LEFT_OUT)}"
    return text


def _with_column(rows: Sequence[tuple[str, ...]], column: Sequence[str]) -> list[tuple[str, ...]]:
    """The rows with one more column, before the last."""
    return [(*row[:-1], cell, row[-1]) for row, cell in zip(rows, column, strict=True)]


def _paragraph(asked: AskedQuestion, now_ms: int, uses: OwnUses) -> str:
    if asked.state == "answered":
        return answer_text(asked, uses)
    what = asked.refused if asked.state == "refused" else said(asked.state)
    text = said(texts.UNANSWERED, what=what, **_described(asked)) + _labelled(asked) + _quoted_again(asked)
    if asked.state == "refused":
        details = {"scale": str(asked.scale), "project": asked.project, "researcher": asked.researcher}
        sentence, hint = error_for(asked.refused, details).said(said)
        return f"{text}\n  {said(texts.REFUSED, text=sentence, hint=hint)}"
    if asked.state == "expired":
        return f"{text}\n  {said(texts.EXPIRED)}"
    return f"{text}\n  {said(texts.OVERDUE)}" if _is_overdue(asked, now_ms) else text


def _row(asked: AskedQuestion, now_ms: int, uses: OwnUses) -> tuple[str, ...]:
    if asked.noisy is not None:
        outcome = row_text(asked) + (f" {_LEFT_OUT_MARK}" if uses[asked.query].can_leave_out else "")
    else:
        outcome = asked.refused if asked.state == "refused" else ""
    mark = texts.OVERDUE_MARK if _is_overdue(asked, now_ms) else ""
    return (
        instant(asked.asked_ms),
        f"{said(asked.state)}{mark}",
        outcome,
        _question(asked),
        asked.where,
        asked.query,
    )


def _of_budget(asked: AskedQuestion, uses: OwnUses) -> dict[str, Any]:
    """The price and own use as shares of a budget, and whether people with no budget left are missing; null if not known."""
    use = uses.get(asked.query)
    return {
        **price_json(asked.scale, None if use is None else use.policy),
        "own_use": None if use is None else use.as_json(),
        "leaves_out_used_up": None if use is None else use.leaves_out,
        "linked": None if use is None else linked_json(use.policy),
    }


def _quoted_again(asked: AskedQuestion) -> str:
    return f"\n{said(texts.QUOTED_AGAIN, count=asked.quoted_again)}" if asked.quoted_again else ""


def _labelled(asked: AskedQuestion) -> str:
    return f"\n{said(texts.LABELLED, label=asked.label)}" if asked.label else ""


def _is_overdue(asked: AskedQuestion, now_ms: int) -> bool:
    return asked.state == "pending" and asked.ticket_expires_ms <= now_ms


def _described(asked: AskedQuestion) -> dict[str, str]:
    """Description of a question, for sentences about it."""
    return {
        "question": _question(asked),
        "where": asked.where,
        "fraction": said(texts.EVERY_MATCH)
        if asked.fraction_millionths == WHOLE_MILLIONTHS
        else fraction_digits(asked.fraction_millionths),
        "project": asked.project,
        "asked": instant(asked.asked_ms),
        "query": asked.query,
    }


def _question(asked: AskedQuestion) -> str:
    return said(texts.EVERYONE) if asked.question == "all" else asked.question
