"""A document in one language: nothing but texts, in the order in which every renderer shows them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

from broker_common.language import Language
from policy_lab.document import texts
from policy_lab.document.model import (
    Bars,
    Block,
    Caution,
    Claim,
    Document,
    Formula,
    Heat,
    Lines,
    Paragraph,
    Plot,
    Section,
    Source,
    Table,
)
from policy_lab.document.numbers import shown

# A word that is longer may end anywhere.
_LONGEST_WORD = 18
# A cell of more letters is a text, which a column of words would tear to shreds.
_MOST_LETTERS_OF_A_NAME = 36
# A renderer's own form of a plot.
Draw = Callable[[Plot], dict[str, Any]]


def name_of(key: str) -> str:
    """A key as the name of a file or of a place in a page."""
    return re.sub(r"[^\w-]+", "-", key) or "-"


def printable(text: str) -> str:
    """A text without control characters, which move a terminal and have no glyph."""
    return "".join(each for each in text if unicodedata.category(each) != "Cc")


def document(document: Document, t: Language, draw: Draw) -> dict[str, Any]:
    """The whole document."""
    return {
        "language": t.code,
        "title": t(document.title),
        "mark": t(document.standing.mark),
        "mark_head": t(texts.MARK),
        "is_internal": document.standing.is_internal,
        "command_head": t(texts.ASKED_WITH if document.is_release else texts.REPRODUCE_DOCUMENT),
        "command": document.command,
        "contents": t(texts.CONTENTS),
        "page": t(texts.PAGE, page="{page}", pages="{pages}"),
        "sections": [section(each, t, draw) for each in document.sections],
    }


def section(section: Section, t: Language, draw: Draw) -> dict[str, Any]:
    """One section; an explanation that is not there is left out."""
    explained = (("citizen", texts.CITIZEN, section.citizen), ("specialist", texts.SPECIALIST, section.specialist))
    return {
        "key": name_of(section.key),
        "title": t(section.title),
        "explanations": [
            {"key": key, "title": t(title), "blocks": blocks(part, t, draw)} for key, title, part in explained if part
        ],
        "blocks": blocks(section.blocks, t, draw),
    }


def blocks(blocks: Sequence[Block], t: Language, draw: Draw) -> list[dict[str, Any]]:
    """Blocks, each with its kind."""
    return [_block(each, t, draw) for each in blocks]


def _block(block: Block, t: Language, draw: Draw) -> dict[str, Any]:
    match block:
        case Paragraph(words) | Caution(words):
            return {"kind": type(block).__name__.lower(), "words": t(words)}
        case Formula(line, words):
            return {"kind": "formula", "line": line, "words": t(words)}
        case Claim(words, command):
            return {"kind": "claim", "words": t(words), "head": t(texts.REPRODUCE), "command": command}
        case Source(words, address):
            return {"kind": "source", "words": t(texts.SOURCE, words=t(words)), "address": address}
        case Table():
            return _table(block, t)
        case Lines() | Bars() | Heat():
            named = {"key": name_of(block.key), "title": t(block.title), "description": t(block.description)}
            return {"kind": "plot"} | named | draw(block)


def _table(block: Table, t: Language) -> dict[str, Any]:
    digits = [*block.digits, *[None] * (len(block.heads) - len(block.digits))]
    heads = [t(head) for head in block.heads]
    rows = [[shown(cell, places, t) for cell, places in zip(row, digits, strict=True)] for row in block.rows]
    # Figures are set flush right, so that their digits stand below one another.
    numbers = [_is_of_numbers([row[place] for row in block.rows]) for place in range(len(heads))]
    return {
        "kind": "table",
        "key": name_of(block.key),
        "caption": t(block.caption),
        "heads": heads,
        "rows": rows,
        "numbers": numbers,
        "widths": _widths(heads, rows, numbers),
        # A text gets room to be read, and ends its lines anywhere if it must; a name gets that of its longest word.
        "texts": [any(len(row[place]) > _MOST_LETTERS_OF_A_NAME for row in rows) for place in range(len(heads))],
        # To be filled in by hand.
        "blank": [not any(row[1:]) for row in rows],
        "note": t(block.note),
    }


def _widths(heads: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[bool]) -> list[float]:
    """How wide each column is beside the others: its longest word stays whole, and long texts get more room; 0: as it needs."""
    if all(numbers):
        return [0] * len(heads)
    return [
        _width(head, [row[place] for row in rows], is_number)
        for place, (head, is_number) in enumerate(zip(heads, numbers, strict=True))
    ]


def _width(head: str, cells: Sequence[str], is_number: bool) -> float:
    words = [head.split(), *([cell] if is_number else cell.split() for cell in cells)]
    longest = max((len(word) for each in words for word in each), default=1)
    length = sum(map(len, cells)) / max(1, len(cells))
    return float(max(min(longest, _LONGEST_WORD) + 2, length**0.75))


def _is_of_numbers(column: Sequence[object]) -> bool:
    filled = [cell for cell in column if cell is not None]
    return bool(filled) and not any(isinstance(cell, str) for cell in filled)
