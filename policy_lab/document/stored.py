"""A document in a folder, and read again from there."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from typing import Any

from broker_common.errors import InvalidRequestError
from broker_common.language import LANGUAGES, Language, language, translated
from broker_common.storage.durable import SHARED_FILE, make_shared_folder, replace_file
from policy_lab.document import as_json, model, page, pdf, plots, said
from policy_lab.document.as_csv import as_csv
from policy_lab.document.model import Bars, Block, Document, Heat, Lines, Section, Table
from policy_lab.standing import Standing, make_private_folder, write_private

DOCUMENT_FILE = "document.json"
PAGE_FILE = "report.html"
PDF_FILE = "report.pdf"
_DIGEST = "digest"
# An exponent could stand for more digits than there is memory.
_EXACT = re.compile(r"[+-]?[0-9]{1,400}(/[0-9]{1,400})?")
# More than any document needs: a file that is larger is none of ours.
_MOST_BYTES = 64 << 20

_PARTS = {
    kind.__name__.lower(): kind
    for kind in (
        *(model.Paragraph, model.Formula, model.Caution, model.Claim, model.Source, Table, Lines, Bars, Heat),
        *(model.Axis, model.Line, Section),
    )
}


def write(
    document: Document, folder: Path, t: Language, *, with_pdf: bool = False, paper: pdf.Paper = "us-letter"
) -> list[Path]:
    """The document in every form; gives the files, the page first. They are their owner's alone unless no data file was read."""
    is_shared = document.standing is Standing.NO_DATA
    make = make_shared_folder if is_shared else make_private_folder
    make(folder)
    files = {PAGE_FILE: page.page(document, t).encode(), DOCUMENT_FILE: _json(document)}
    if with_pdf:
        files[PDF_FILE] = pdf.pdf(document, t, paper=paper)
    for block in _blocks(document):
        if isinstance(block, Table):
            files[f"tables/{said.name_of(block.key)}.csv"] = as_csv(document.standing, block.heads, block.rows)
        elif isinstance(block, Lines | Bars | Heat):
            files[f"plots/{said.name_of(block.key)}.png"] = plots.draw(
                block, t, form="png", mark=document.standing.mark
            )
    for name, content in files.items():
        make((folder / name).parent)
        if is_shared:
            replace_file(folder / name, content, mode=SHARED_FILE)
        else:
            write_private(folder / name, content)
    return [folder / name for name in files]


def read(folder: Path) -> Document:
    """Read the output of `write`.

    Raises:
        InvalidRequestError: DOCUMENT_UNREADABLE.
    """
    path = folder / DOCUMENT_FILE
    try:
        with path.open("rb") as file:
            # A truncated file is not JSON.
            return _read(json.loads(file.read(_MOST_BYTES)))
    # A file that is not one of our documents fails in one of these ways.
    except (OSError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise InvalidRequestError("DOCUMENT_UNREADABLE", file=str(path)) from error


def _blocks(document: Document) -> Iterator[Block]:
    for section in document.sections:
        yield from (*section.citizen, *section.specialist, *section.blocks)


def _json(document: Document) -> bytes:
    """The document as programs get it, its texts in the other languages, and a digest that notices when it is changed by mistake."""
    others = {code: dict(_translations(document, language(code))) for code in LANGUAGES if code != "en"}
    value = as_json.value(document) | {"translations": others}
    return json.dumps(value | {_DIGEST: _digest(value)}, ensure_ascii=False, indent=1).encode()


def _digest(value: Mapping[str, Any]) -> str:
    """The digest of everything but itself; there is no key, so anyone can compute it."""
    rest = {name: each for name, each in value.items() if name != _DIGEST}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _translations(thing: Any, t: Language) -> Iterator[tuple[str, str]]:
    if isinstance(thing, str):
        if (shown := t(thing)) != thing:
            yield str(thing), shown
    elif isinstance(thing, Sequence):
        for each in thing:
            yield from _translations(each, t)
    elif hasattr(thing, "__dataclass_fields__"):
        for field in fields(thing):
            yield from _translations(getattr(thing, field.name), t)


def _read(value: Mapping[str, Any]) -> Document:
    if value[_DIGEST] != _digest(value):
        raise ValueError("the document was changed")
    others: Mapping[str, Mapping[str, str]] = value["translations"]

    def built(thing: Any) -> Any:
        if isinstance(thing, str):
            # A word that was the same in every language stays so: a person's own word is not translated.
            return translated(thing, {code: texts[thing] for code, texts in others.items() if thing in texts})
        if isinstance(thing, list):
            return [built(each) for each in thing]
        if not isinstance(thing, dict):
            return thing
        if "exact" in thing:
            if not _EXACT.fullmatch(thing["exact"]):
                raise ValueError("a fraction is none")
            return Fraction(thing["exact"])
        part = _PARTS[thing["type"]](**{name: built(each) for name, each in thing.items() if name != "type"})
        return _with_texts(part)

    found = Document(
        key=value["key"],
        title=built(value["title"]),
        standing=Standing(value["standing"]),
        command=value["command"],
        sections=built(value["sections"]),
        is_release=bool(value["is_release"]),
    )
    # A document that cannot be shown is not one of ours.
    said.document(_with_texts(found), language("en"), lambda _plot: {})
    return found


def _with_texts(part: Any) -> Any:
    """The same, if all its texts are texts."""
    if not all(isinstance(getattr(part, field.name), str) for field in fields(part) if field.type == "str"):
        raise TypeError("a text is no text")
    return part
