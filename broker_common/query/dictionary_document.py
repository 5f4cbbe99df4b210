"""A dictionary as a document, labels included: canonical JSON, named by its SHA-256; and what its agency signs to adopt it.

The agency signs a short statement that names the document, so that a log can be checked without the document. The statement
names the meaning as well, which is what loads and tickets name.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from broker_common.query.dictionary import (
    USUAL_ID_FORM,
    USUAL_LINKAGE,
    AskedOf,
    Code,
    Column,
    ColumnType,
    Dictionary,
    EventTable,
)
from broker_common.values import Linkage

# Several columns of 100,000 codes each, with their labels in two languages.
MAX_DOCUMENT_BYTES = 256 * 1024 * 1024
_Hash = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
_TypeWord = Literal["code", "integer", "date"]
_TYPE_WORDS: dict[ColumnType, _TypeWord] = {
    ColumnType.CODE: "code",
    ColumnType.INTEGER: "integer",
    ColumnType.DATE: "date",
}
_TYPES = {word: column_type for column_type, word in _TYPE_WORDS.items()}


class _Code(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    value: str
    label: str
    label_fr: str = ""
    under: tuple[str, ...] = ()


class _AskedOf(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    not_asked: str
    one_in: int
    design_effect_hundredths: int


class _Column(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    name: str
    type: _TypeWord
    description: str
    description_fr: str = ""
    multi_valued: bool = False
    codes: tuple[_Code, ...] = ()
    minimum: int = 0
    maximum: int = 0
    asked_of: _AskedOf | None = None


class _EventTable(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    name: str
    description: str
    description_fr: str = ""
    columns: tuple[_Column, ...]


class _Document(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    format: Literal[1]
    agency: str = ""
    version: int
    id_form: str = USUAL_ID_FORM
    linkage: Linkage = USUAL_LINKAGE
    columns: tuple[_Column, ...]
    events: tuple[_EventTable, ...] = ()


class Adoption(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An agency's signed statement about a dictionary: its version, the hash of its meaning, and the SHA-256 of its document."""

    version: Annotated[int, Meta(ge=1, lt=2**53)]
    dictionary: _Hash
    document: _Hash

    @property
    def statement(self) -> bytes:
        """The canonical bytes: sorted keys, no white space."""
        return msgspec.json.encode(self, order="sorted")


def adoption_of(dictionary: Dictionary, document: bytes) -> Adoption:
    """The statement about a dictionary whose document this is."""
    return Adoption(
        version=dictionary.version, dictionary=dictionary.hash.hex(), document=hashlib.sha256(document).hexdigest()
    )


def dictionary_document(dictionary: Dictionary) -> bytes:
    """The canonical bytes: sorted keys, no white space, defaults left out."""
    document = _Document(
        format=1,
        agency=dictionary.agency,
        version=dictionary.version,
        id_form=dictionary.id_form,
        linkage=dictionary.linkage,
        columns=tuple(map(_column_document, dictionary.columns)),
        events=tuple(
            _EventTable(
                name=table.name,
                description=table.description,
                description_fr=table.description_fr,
                columns=tuple(map(_column_document, table.columns)),
            )
            for table in dictionary.events
        ),
    )
    return msgspec.json.encode(document, order="sorted")


def parse_dictionary_document(data: bytes) -> Dictionary:
    """The dictionary that `data` spells canonically; text in it is safe to print.

    Raises:
        ValueError: it is none.
    """
    if len(data) > MAX_DOCUMENT_BYTES:
        raise ValueError("the document of a dictionary is too long")
    document = msgspec.json.decode(data, type=_Document)
    if msgspec.json.encode(document, order="sorted") != data:
        raise ValueError("the document of a dictionary is not in canonical form")
    return Dictionary(
        tuple(map(_column_of, document.columns)),
        tuple(
            EventTable(table.name, table.description, tuple(map(_column_of, table.columns)), table.description_fr)
            for table in document.events
        ),
        agency=document.agency,
        version=document.version,
        id_form=document.id_form,
        linkage=document.linkage,
    )


def _column_document(column: Column) -> _Column:
    part = column.asked_of
    return _Column(
        name=column.name,
        type=_TYPE_WORDS[column.type],
        description=column.description,
        description_fr=column.description_fr,
        multi_valued=column.multi_valued,
        codes=tuple(
            _Code(value=code.value, label=code.label, label_fr=code.label_fr, under=code.under) for code in column.codes
        ),
        minimum=column.minimum,
        maximum=column.maximum,
        asked_of=None
        if part is None
        else _AskedOf(
            not_asked=part.not_asked,
            one_in=part.one_in,
            design_effect_hundredths=part.design_effect_hundredths,
        ),
    )


def _column_of(column: _Column) -> Column:
    part = column.asked_of
    return Column(
        name=column.name,
        type=_TYPES[column.type],
        description=column.description,
        description_fr=column.description_fr,
        multi_valued=column.multi_valued,
        codes=tuple(Code(code.value, code.label, code.label_fr, code.under) for code in column.codes),
        minimum=column.minimum,
        maximum=column.maximum,
        asked_of=None
        if part is None
        else AskedOf(
            not_asked=part.not_asked,
            one_in=part.one_in,
            design_effect_hundredths=part.design_effect_hundredths,
        ),
    )
