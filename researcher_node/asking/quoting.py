"""A quote as it is shown, alone (`quote`) or with the question that was not asked (`ask --dry-run`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from broker_common.cli import instant
from broker_common.language import said
from broker_common.privacy.accounting import epsilon_text
from broker_common.privacy.policy import Policy
from broker_common.privacy.table_laplace import margin, sum_margin
from broker_common.query.canonical import describe
from broker_common.query.question import Question
from researcher_node import texts
from researcher_node.answers.counted import linked_json, linked_text
from researcher_node.answers.counts import cell_label, fraction_digits
from researcher_node.answers.own_use import percent, price_json, price_text
from researcher_node.asking.session import Quoted
from researcher_node.asking.warnings import Considered, Warned


def quote_json(quoted: Quoted, policy: Policy) -> dict[str, Any]:
    """Cost of one answer, and the reach of its noise."""
    body = quoted.offer.body
    return {
        "scale": body.scale,
        "epsilon": epsilon_text(body.scale),
        "margin_95": body.margin_95,
        "charged": body.charged,
        "remaining": body.remaining if body.HasField("remaining") else None,
        "policy_hash": body.policy_hash.hex(),
        "expires": instant(body.expires_ms),
        "question": quoted.question.text,
        "linked": linked_json(policy),
        **_cells_json(quoted.question, body.scale),
        **price_json(body.scale, policy),
    }


def quote_text(quoted: Quoted, policy: Policy) -> str:
    """The same for people."""
    body = quoted.offer.body
    has_remaining, has_quota = body.HasField("remaining"), body.HasField("quota_left")
    return said(
        texts.QUOTE,
        scale=body.scale,
        epsilon=epsilon_text(body.scale),
        margin=body.margin_95,
        charged=body.charged,
        share=price_text(body.scale, policy),
        remaining=said(texts.REMAINING_COUNT, count=body.remaining) if has_remaining else said(texts.REMAINING_UNTOLD),
        quota=said(texts.QUOTA, left=body.quota_left, quota=body.quota) if has_quota else said(texts.QUOTA_NONE),
        linked=linked_text(policy),
        policy=body.policy_hash.hex(),
        expires=instant(body.expires_ms),
    )


def dry_run_json(considered: Considered, quoted: Quoted) -> dict[str, Any]:
    """The question as it would be asked, its quote, and everything that there is to warn about."""
    proposal = considered.proposal
    return {
        "where": describe(proposal.condition),
        "fraction": fraction_digits(proposal.wish.fraction_millionths),
        "project": proposal.wish.project,
        **quote_json(quoted, proposal.policy),
        "own_use": considered.use.as_json(),
        "warnings": warnings_json(considered.warnings),
    }


def dry_run_text(considered: Considered, quoted: Quoted) -> str:
    """The same for people, but for the warnings, which are said beside it."""
    proposal = considered.proposal
    share = considered.use.share
    return said(
        texts.DRY_RUN,
        question=proposal.question.text,
        where=describe(proposal.condition),
        fraction=fraction_digits(proposal.wish.fraction_millionths),
        project=proposal.wish.project,
        own_use="" if share is None else said(texts.OWN_USE, share=said(percent(share))),
        quote=quote_text(quoted, proposal.policy),
    )


def warnings_json(warnings: Sequence[Warned]) -> list[dict[str, str]]:
    """Warnings for programs, in English."""
    return [warned._asdict() for warned in warnings]


def _cells_json(question: Question, scale: int) -> dict[str, Any]:
    """The cells of the question with their margin, and that of their sum where there are several."""
    count = len(question.cells)
    cells = [
        {
            "label": cell_label(question.text, cell),
            "values": list(cell.values) or None,
            "margin_95": margin(scale, count),
        }
        for cell in question.cells
    ]
    return {"cells": cells} | ({"sum": {"margin_95": sum_margin(scale, count)}} if count > 1 else {})
