"""Shared code of `health load` and `census load`: the output about a load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import click

from broker_common.agency.home import AgencyHome
from broker_common.agency.linkage import RelinkReport
from broker_common.cli import emit, ready_line
from broker_common.commands import texts
from broker_common.heap import share_one_heap
from broker_common.language import said
from broker_common.query.dictionary import listed
from broker_common.rpc.handshake_log import noting_refused_connections
from broker_common.rpc.server import run_node
from broker_common.storage.load_figures import (
    Change,
    Changes,
    CodeChange,
    LoadFigures,
    Watch,
    changes_between,
    keep_figures,
)
from broker_common.storage.source.rows import RejectedRows, ValueRows

_SHOWN_REJECTIONS = 20
check_option = click.option("--check", is_flag=True, help=texts.CHECK_HELP)


def rejections_json(rejected: RejectedRows) -> list[dict[str, Any]]:
    """The rows that a load left out, as far as they are listed; of several files each row names its own."""
    return [
        {"line": place.number, "reason": reason} | ({"file": place.file} if place.file else {})
        for place, reason in rejected.placed
    ]


def values_json(rejected: RejectedRows) -> dict[str, Any]:
    """Figures of each column whose values are in a separate table, for programs."""
    return {
        name: _value_figures(counts)
        | {"rejected": counts.rejected.count, "rejections": rejections_json(counts.rejected)}
        for name, counts in rejected.values.items()
    }


def _value_figures(counts: ValueRows) -> dict[str, int]:
    return {key: getattr(counts, key) for key in ("rows", "of_people", "without_card", "without_value")}


def _values_text(rejected: RejectedRows) -> str:
    lines = []
    for name, counts in rejected.values.items():
        lines.append(said(texts.VALUES_READ, column=name, rejected=counts.rejected.count, **_value_figures(counts)))
        lines.append(rejections_text(counts.rejected.placed, counts.rejected.count))
    return "\n".join(filter(None, lines))


class Loaded(Protocol):
    """Fields that both agencies' reports of a load have."""

    @property
    def rows(self) -> int: ...
    @property
    def rejected(self) -> RejectedRows: ...


class EventCounts(Protocol):
    """Counts of one table of events: rows == loaded + without_card + of_nobody + rejected.count."""

    @property
    def rows(self) -> int: ...
    @property
    def loaded(self) -> int: ...
    @property
    def without_card(self) -> int: ...
    @property
    def of_nobody(self) -> int: ...
    @property
    def rejected(self) -> RejectedRows: ...


def events_json(events: Mapping[str, EventCounts]) -> dict[str, Any]:
    """Counts of each table of events, for programs."""
    return {
        name: {
            "rows": counts.rows,
            "loaded": counts.loaded,
            "without_card": counts.without_card,
            "of_nobody": counts.of_nobody,
            "rejected": counts.rejected.count,
            "rejections": rejections_json(counts.rejected),
        }
        for name, counts in events.items()
    }


def _events_text(events: Mapping[str, EventCounts]) -> str:
    """Counts of each table of events, for a person, with the rows of it that were left out."""
    lines = []
    for name, counts in events.items():
        figures = {key: getattr(counts, key) for key in ("rows", "loaded", "without_card", "of_nobody")}
        lines.append(said(texts.EVENTS_READ, table=name, rejected=counts.rejected.count, **figures))
        lines.append(rejections_text(counts.rejected.placed, counts.rejected.count))
        if 2 * counts.of_nobody > counts.rows:
            lines.append(said(texts.OF_NOBODY, table=name))
    return "\n".join(filter(None, lines))


def _changes_json(changes: Changes | None) -> dict[str, Any] | None:
    """Changes since the previous load, for programs; None if there was none."""
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


def load_text(
    head: str,
    rejected: RejectedRows,
    file: Path,
    changes: Changes | None,
    *,
    is_check: bool,
    events: Mapping[str, EventCounts] | None = None,
) -> str:
    """Output about a load, for a person."""
    tables = events or {}
    lines = [head, rejections_text(rejected.placed, rejected.count)]
    lines += [_values_text(rejected), _events_text(tables)]
    parts = [rejected, *(table.rejected for table in tables.values())]
    parts += [values.rejected for values in rejected.values.values()]
    if any(part.count for part in parts):
        lines.append(said(texts.REJECTED_FILE, file=str(file)))
    lines.append(_changes_text(changes))
    if is_check:
        lines.append(said(texts.LOAD_CHECKED))
    return "\n".join(filter(None, lines))


def _changes_text(changes: Changes | None) -> str:
    if changes is None:
        return said(texts.FIRST_LOAD)
    if changes.is_same:
        return said(texts.SAME_LOAD)
    lines = [*map(_figure_text, changes.figures), *(line for code in changes.codes for line in _code_lines(code))]
    if not lines:
        return said(texts.EQUAL_FIGURES)
    much = _count_of_much(changes)
    warning = [said(texts.MUCH_CHANGED, count=much)] if much else []
    return "\n".join([said(texts.CHANGED_SINCE), *lines, *warning])


def _figure_text(change: Change) -> str:
    what = said(texts.FIGURE_NAMES[change.what], of=change.of)
    is_share = change.what.endswith("_percent")
    return said(
        texts.SHARE_CHANGED if is_share else texts.SIZE_CHANGED, what=what, before=change.before, now=change.now
    )


def _code_lines(change: CodeChange) -> list[str]:
    lines = []
    if change.vanished:
        lines.append(said(texts.CODES_VANISHED, of=change.of, codes=listed(change.vanished, quote=True)))
    if change.appeared:
        lines.append(said(texts.CODES_APPEARED, of=change.of, codes=listed(change.appeared, quote=True)))
    return lines


def _count_of_much(changes: Changes) -> int:
    return sum(change.is_much for change in changes.figures) + sum(change.is_much for change in changes.codes)


def rejections_text(rejected: Sequence[tuple[tuple[str, str, int], str]], count: int) -> str:
    """The rows that a load left out, for a person: the first few with file, where there are several, number and reason."""
    shown = [_rejection_text(*place, reason) for place, reason in rejected[:_SHOWN_REJECTIONS]]
    more = count - len(shown)
    return "\n".join(shown + ([said("  ... and {more} more", more=more)] if more > 0 else []))


def _rejection_text(file: str, counted_by: str, line: int, reason: str) -> str:
    if not file:
        return said("  {counted_by} {line}: {reason}", counted_by=said(counted_by), line=line, reason=reason)
    return said(
        "  {counted_by} {line} of {file}: {reason}", counted_by=said(counted_by), line=line, file=file, reason=reason
    )


def emit_load(
    home: Path,
    as_json: bool,
    own: Mapping[str, Any],
    text: str,
    *,
    before: LoadFigures | None,
    watch: Watch,
    report: Loaded,
    people: int,
    check: bool,
    events: Mapping[str, EventCounts] | None = None,
    **shown: object,
) -> None:
    """Tell of a load: what its agency says of it (`own`; `shown` in other words), and what changed since the one before."""
    rejected = report.rejected
    figures = watch.figures(rows=report.rows, people=people, rejected=rejected.count)
    changes = None if before is None else changes_between(before, figures)
    result = {**own, "rejections_file": str(watch.path), "changed": _changes_json(changes), "check": check}
    if not check:
        keep_figures(home, figures, result)
    head = said(text, **(result | shown))
    emit(as_json, result, load_text(head, rejected, watch.path, changes, is_check=check, events=events))


def emit_relinked(
    opened: AgencyHome[Any], as_json: bool, report: RelinkReport, left_out: RejectedRows | None, text: str
) -> None:
    """Tell of a linkage key that was changed; `left_out` are rows of the source, where that was read again."""
    result = {"linkage": report.linkage, "previous": report.previous, "load": report.load, "people": report.people}
    told = said(text if report.load else texts.LINKAGE_BEGUN, **(result | {"file": opened.linkage_keys.place}))
    rows = "" if left_out is None else rejections_text(left_out.placed, left_out.count)
    emit(as_json, result, "\n".join(filter(None, [told, rows])))


def serve_home(opened: AgencyHome[Any], ready: str, *, lifeline: bool) -> None:
    """Serve an agency's home until a signal; `ready` is said as soon as the node can be asked."""
    monitor = opened.monitor()
    with opened.home.serving(), noting_refused_connections(opened.config.log_format, monitor.refused):
        share_one_heap()
        run_node(opened.serve(ready_line(ready, lifeline=lifeline), monitor))
