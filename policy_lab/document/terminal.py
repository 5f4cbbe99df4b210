"""A document as text: what cannot be drawn there is said by its description and its figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from broker_common import terminal
from broker_common.language import Language
from policy_lab.document import said
from policy_lab.document.model import Document

Said = Mapping[str, Any]


def text(document: Document, t: Language) -> str:
    """The whole document; the mark of its standing stands first and last."""
    it = said.document(document, t, lambda _plot: {})
    parts = [it["mark"], _underlined(it["title"], "="), f"{it['command_head']}\n  {it['command']}"]
    for section in it["sections"]:
        parts.append(_underlined(section["title"], "-"))
        for part in section["explanations"]:
            parts += [f"[{part['title']}]", *map(_block, part["blocks"])]
        parts += map(_block, section["blocks"])
    return "\n\n".join([*parts, it["mark"]])


def _underlined(title: str, line: str) -> str:
    return f"{title}\n{line * len(title)}"


def _block(block: Said) -> str:
    return _SHOWN[block["kind"]](block)


def _table(block: Said) -> str:
    rows = [[" ".join(cell.split()) for cell in row] for row in block["rows"]]
    columns = list(zip(block["heads"], *rows, strict=True))
    # Figures end below one another, as they do on paper.
    set_right = [
        [cell.rjust(max(map(len, column))) for cell in column] if is_number else list(column)
        for column, is_number in zip(columns, block["numbers"], strict=True)
    ]
    heads, *rows = [list(row) for row in zip(*set_right, strict=True)]
    note = [terminal.fitted(block["note"])] if block["note"] else []
    return "\n".join([terminal.fitted(block["caption"]), terminal.table(heads, rows), *note])


_SHOWN: Mapping[str, Callable[[Said], str]] = {
    "paragraph": lambda it: terminal.fitted(it["words"]),
    "formula": lambda it: f"    {it['line']}\n{terminal.fitted(it['words'])}",
    "caution": lambda it: terminal.fitted(f"! {it['words']}"),
    "claim": lambda it: f"{terminal.fitted(it['words'])}\n    $ {it['command']}",
    "source": lambda it: terminal.fitted(it["words"]) + (f"\n    {it['address']}" if it["address"] else ""),
    "table": _table,
    "plot": lambda it: terminal.fitted(f"{it['title']}. {it['description']}"),
}
