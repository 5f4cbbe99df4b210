"""What `health load` and `census load` have in common: what is said of a load, and how."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from broker_common import load_texts as texts
from broker_common.cli import rejections_text
from broker_common.language import said
from broker_common.query.dictionary import listed
from broker_common.storage.load_figures import Change, Changes, CodeChange, LoadFigures, changes_between
from broker_common.storage.source import RejectedRows

check_option = click.option("--check", is_flag=True, help=texts.CHECK_HELP)


def rejections_json(rejected: RejectedRows) -> list[dict[str, Any]]:
    """The rows that a load left out, as far as they are listed; of several files each row names its own."""
    return [
        {"line": place.number, "reason": reason} | ({"file": place.file} if place.file else {})
        for place, reason in rejected.placed
    ]


def changes_json(changes: Changes | None) -> dict[str, Any] | None:
    """What changed since the load before, as programs read it; None if there was none."""
    if changes is None:
        return None
    return {
        "same": changes.is_same,
        "much": _count_of_much(changes),
        "figures": [
            {"what": change.what, "of": change.of, "before": change.before, "now": change.now, "much": change.is_much}
            for change in changes.figures
        ],
        "codes": [
            {"of": code.of, "vanished": list(code.vanished), "appeared": list(code.appeared), "much": code.is_much}
            for code in changes.codes
        ],
    }


def changes_since(before: LoadFigures | None, now: LoadFigures) -> Changes | None:
    """What changed since the load before; None if there was none."""
    return None if before is None else changes_between(before, now)


def load_text(
    head: str, rejected: Sequence[RejectedRows], file: Path, changes: Changes | None, *, is_check: bool
) -> str:
    """What is said of a load, for a person."""
    lines = [head, *(rejections_text(each.placed, each.count) for each in rejected)]
    if any(each.count for each in rejected):
        lines.append(said(texts.REJECTED_FILE, file=str(file)))
    lines.append(_changes_text(changes))
    if is_check:
        lines.append(said(texts.CHECKED))
    return "\n".join(filter(None, lines))


def _changes_text(changes: Changes | None) -> str:
    if changes is None:
        return said(texts.FIRST)
    if changes.is_same:
        return said(texts.SAME)
    lines = [*map(_figure_text, changes.figures), *(line for code in changes.codes for line in _code_lines(code))]
    if not lines:
        return said(texts.EQUAL_FIGURES)
    much = _count_of_much(changes)
    warning = [said(texts.MUCH, count=much)] if much else []
    return "\n".join([said(texts.CHANGED), *lines, *warning])


def _figure_text(change: Change) -> str:
    what = said(texts.NAMES[change.what], of=change.of)
    is_share = change.what.endswith("_percent")
    return said(texts.SHARE if is_share else texts.SIZE, what=what, before=change.before, now=change.now)


def _code_lines(change: CodeChange) -> list[str]:
    lines = []
    if change.vanished:
        lines.append(said(texts.CODES_VANISHED, of=change.of, codes=listed(change.vanished, quote=True)))
    if change.appeared:
        lines.append(said(texts.CODES_APPEARED, of=change.of, codes=listed(change.appeared, quote=True)))
    return lines


def _count_of_much(changes: Changes) -> int:
    return sum(change.is_much for change in changes.figures) + sum(change.is_much for change in changes.codes)
