"""The files of an export that are no log: receipts of a researcher, criteria that a health agency has opened, dictionaries.

    receipts/<query id>.json       {"format":2,"query","quote","receipt","state","ticket"}
    criteria/<ticket hash>.json    {"criteria","format":1,"nonce","ticket"}
    dictionaries/<hash>.json       the document of every dictionary that the log says was adopted

Canonical JSON as in the log, with a newline at the end of the first two; bytes in canonical base64. The messages inside are
serialised as our own protocol does it: a file has one spelling. A dictionary is the one whose hash the log has; that its
version and meaning are those that the agency signed is checked here, its signature with the log.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal, TypeVar

import msgspec
from google.protobuf.message import Message
from msgspec import Meta, Struct
from tripartite.v1 import answer_pb2, quote_pb2, ticket_pb2

from broker_common.audit.export.reading import Part, UnreadableError
from broker_common.audit.findings import Findings
from broker_common.crypto.commitments import hash_bytes
from broker_common.errors import InvalidRequestError
from broker_common.query.dictionary import Dictionary
from broker_common.query.dictionary_document import (
    MAX_DOCUMENT_BYTES as MAX_DICTIONARY_BYTES,
)
from broker_common.query.dictionary_document import (
    Adoption,
    adoption_of,
    parse_dictionary_document,
)
from broker_common.query.messages import parse_message
from broker_common.query.ticket import MAX_TICKET_BYTES
from broker_common.tlog.replay import Adoptions
from broker_common.values import Linkage, base64_text, parse_base64

RECEIPTS = "receipts"
CRITERIA = "criteria"
# A quote, a ticket, and a receipt that holds a whole entry and two notes, in base64.
MAX_DOCUMENT_BYTES = 4 * MAX_TICKET_BYTES
_Hash = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
_Query = Annotated[str, Meta(pattern=r"\A[0-9a-f]{32}\Z")]
_Text = Annotated[str, Meta(max_length=MAX_DOCUMENT_BYTES)]
DocumentT = TypeVar("DocumentT", bound="ReceiptFile | OpenedCriteria")
MessageT = TypeVar("MessageT", bound=Message)


class ReceiptFile(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One question of a researcher: the signed quote and ticket, and the signed receipt once there is an answer."""

    format: Annotated[int, Meta(ge=2, le=2)] = 2
    query: _Query
    quote: Annotated[_Text, Meta(min_length=1)]
    ticket: Annotated[_Text, Meta(min_length=1)]
    # Empty as long as there is no answer.
    receipt: _Text
    state: Literal["answered", "expired", "refused", "pending"]

    @property
    def name(self) -> str:
        return f"{RECEIPTS}/{self.query}.json"

    def to_bytes(self) -> bytes:
        """The canonical bytes, which `parse_receipt_file` reads back."""
        return _encoded(self)

    @property
    def signed_quote(self) -> quote_pb2.SignedQuote:
        """The quote as it travelled. InvalidRequestError MALFORMED_MESSAGE."""
        return canonical_message(quote_pb2.SignedQuote, self.quote)

    @property
    def signed_ticket(self) -> ticket_pb2.SignedTicket:
        """The ticket as it travelled. InvalidRequestError MALFORMED_MESSAGE."""
        return canonical_message(ticket_pb2.SignedTicket, self.ticket)

    @property
    def signed_receipt(self) -> answer_pb2.SignedReceipt:
        """The receipt; there must be one. InvalidRequestError MALFORMED_MESSAGE."""
        return canonical_message(answer_pb2.SignedReceipt, self.receipt)

    @classmethod
    def of(
        cls, query: str, state: str, signed_quote: bytes, signed_ticket: bytes, signed_receipt: bytes
    ) -> ReceiptFile:
        """The file of a question, of the messages as they were kept."""
        quote = parse_message(quote_pb2.SignedQuote, signed_quote)
        ticket = parse_message(ticket_pb2.SignedTicket, signed_ticket)
        receipt = parse_message(answer_pb2.SignedReceipt, signed_receipt)
        made = {
            "query": query,
            "quote": base64_text(quote.SerializeToString(deterministic=True)),
            "ticket": base64_text(ticket.SerializeToString(deterministic=True)),
            "receipt": base64_text(receipt.SerializeToString(deterministic=True)),
            "state": state,
        }
        return msgspec.convert(made, cls)


class OpenedCriteria(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Opens the commitment of one ticket to its criteria."""

    format: Annotated[int, Meta(ge=1, le=1)] = 1
    ticket: _Hash
    criteria: _Text
    nonce: _Text

    @property
    def name(self) -> str:
        return f"{CRITERIA}/{self.ticket}.json"

    def to_bytes(self) -> bytes:
        """The canonical bytes, which `parse_criteria_file` reads back."""
        return _encoded(self)


def parse_receipt_file(data: bytes) -> ReceiptFile:
    """Read what `ReceiptFile.to_bytes` writes; ValueError otherwise. The messages inside are still to be read."""
    return _parse(data, ReceiptFile)


def parse_criteria_file(data: bytes) -> OpenedCriteria:
    """Read what `OpenedCriteria.to_bytes` writes; ValueError otherwise."""
    opened = _parse(data, OpenedCriteria)
    for text in (opened.criteria, opened.nonce):
        parse_base64(text)
    return opened


def canonical_message(kind: type[MessageT], text: str) -> MessageT:
    """The message that a text holds in base64, as our protocol serialises it.

    Raises:
        InvalidRequestError: MALFORMED_MESSAGE.
    """
    try:
        data = parse_base64(text)
    except ValueError as error:
        raise InvalidRequestError("MALFORMED_MESSAGE", problem="it is not canonical base64") from error
    message = parse_message(kind, data)
    if message.SerializeToString(deterministic=True) != data:
        raise InvalidRequestError("MALFORMED_MESSAGE", problem="it is not serialised as our protocol does it")
    return message


def _encoded(document: ReceiptFile | OpenedCriteria) -> bytes:
    return msgspec.json.encode(document, order="sorted") + b"\n"


def _parse(data: bytes, kind: type[DocumentT]) -> DocumentT:
    if len(data) > MAX_DOCUMENT_BYTES:
        raise ValueError("the file is too long")
    try:
        document = msgspec.json.decode(data, type=kind)
    except RecursionError:
        raise ValueError("the file is nested too deep") from None
    if _encoded(document) != data:
        raise ValueError("the file is not canonical JSON")
    return document


_NAME = re.compile(r"dictionaries/([0-9a-f]{64})\.json")


def file_of(document: str) -> str:
    """Where the document of this hash stands in an export."""
    return f"dictionaries/{document}.json"


def is_dictionary(name: str) -> bool:
    """Whether a file stands where documents of dictionaries do."""
    return _NAME.fullmatch(name) is not None


def check_dictionaries(
    role: str, part: Part, adoptions: Adoptions, is_complete: bool, findings: Findings
) -> dict[str, Linkage]:
    """Check every file against the adoption that names it; `is_complete`: the log holds no other adoptions.

    Gives by what records are linked under each dictionary whose document holds, by the dictionary's hash.
    """
    linkages: dict[str, Linkage] = {}
    handed_in = {match[1]: name for name, is_file in part.names() if is_file and (match := _NAME.fullmatch(name))}
    for document, (entry, event) in adoptions.items():
        if document not in handed_in:
            findings.problem("FILE_MISSING", role, entry, file_of(document))
            continue
        try:
            data = part.read(handed_in[document], MAX_DICTIONARY_BYTES)
            dictionary = _dictionary_in(data, document)
        except UnreadableError as error:
            findings.problem(error.code, role, entry, error.name)
        except ValueError as error:
            findings.problem("DICTIONARY_DIFFERS", role, entry, str(error))
        else:
            adoption = Adoption(version=event.version, dictionary=event.dictionary, document=event.document)
            if adoption_of(dictionary, data) == adoption:
                linkages[event.dictionary] = dictionary.linkage
            else:
                findings.problem("DICTIONARY_DIFFERS", role, entry, file_of(document))
    for document, name in handed_in.items():
        if is_complete and document not in adoptions:
            findings.problem("UNKNOWN_FILE", role, None, name)
    return linkages


def _dictionary_in(data: bytes, document: str) -> Dictionary:
    """That of the document of this hash; nothing of another one is read."""
    if hash_bytes(data).hex() != document:
        raise ValueError("it is another one")
    return parse_dictionary_document(data)
