"""Targets whose input is a message of another party, or the status that a call ended with."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import tripartite.v1
from fakes.dictionaries import CENSUS_DICTIONARY, HEALTH_DICTIONARY, STAYS
from fuzz.target import Target, require
from fuzz.texts import (
    CRITERIA_CODES,
    QUESTION_CODES,
    verify_condition,
    verify_condition_on_events,
    verify_question,
)
from google.protobuf import any_pb2
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc import error_details_pb2, status_pb2
from grpc import StatusCode
from grpc.aio import AioRpcError, Metadata
from tripartite.v1 import condition_pb2, dictionary_pb2, ticket_pb2

from broker_common.crypto.signing import Purpose, SigningKey
from broker_common.errors import BrokerError, RefusedError
from broker_common.query.condition import Condition
from broker_common.query.condition_wire import condition_from_wire
from broker_common.query.criteria import parse_condition
from broker_common.query.dictionary import Dictionary
from broker_common.query.dictionary_document import (
    Adoption,
    adoption_of,
    dictionary_document,
    parse_dictionary_document,
)
from broker_common.query.dictionary_pages import dictionary_text, excerpt, excerpt_json
from broker_common.query.messages import parse_message
from broker_common.query.question import Question, parse_question, question_from_wire
from broker_common.rpc.signed_documents import adoption_from_wire
from broker_common.rpc.status import broker_error, trailing_metadata


@cache
def message_types() -> Mapping[str, type[Message]]:
    """Every message of our protocol, by its name."""
    files = [
        importlib.import_module(f"tripartite.v1.{module.name}").DESCRIPTOR
        for module in pkgutil.iter_modules(tripartite.v1.__path__)
        if module.name.endswith("_pb2")
    ]
    found = [kind for file in files for top in file.message_types_by_name.values() for kind in _nested(top)]
    return {kind.name: GetMessageClass(kind) for kind in found}


def _nested(kind: Descriptor) -> Iterator[Descriptor]:
    yield kind
    for inner in kind.nested_types:
        yield from _nested(inner)


# --- messages of any type --------------------------------------------------------------------------------------------


def _parse_any(data: bytes) -> Message:
    name, _, content = data.partition(b"\n")
    kind = message_types().get(name.decode("ascii", "replace"), ticket_pb2.Ticket)
    return parse_message(kind, content)


def _check_any(message: Message, data: bytes) -> None:
    del data
    written = message.SerializeToString(deterministic=True)
    again = parse_message(type(message), written)
    # Compared as bytes: a message that holds NaN would not equal itself.
    require(again.SerializeToString(deterministic=True) == written, "a message is read back")


def _any_seeds() -> dict[str, bytes]:
    empty = {name: f"{name}\n".encode() for name in message_types()}
    deep = condition_pb2.Condition(comparison=condition_pb2.Comparison(column="age"))
    for _ in range(20):
        deep = condition_pb2.Condition(negation=deep)
    return {
        **empty,
        "deep": b"Condition\n" + deep.SerializeToString(),
        "bad depth": b"Condition\n" + b"\x32\x7f" * 200,
        "bad unknown": b"Ticket\n\xf8\x07\x01",
        "bad enum": b"Comparison\n\x10\x63",
    }


# --- criteria, questions, dictionaries -------------------------------------------------------------------------------


def _parse_criteria(data: bytes) -> Condition:
    return condition_from_wire(parse_message(condition_pb2.Condition, data), HEALTH_DICTIONARY)


def _check_criteria(condition: Condition, data: bytes) -> None:
    del data
    verify_condition(condition)


def _criteria_seeds() -> dict[str, bytes]:
    def wire(text: str) -> bytes:
        return parse_condition(text, HEALTH_DICTIONARY).to_wire().SerializeToString(deterministic=True)

    between = condition_pb2.Range(
        column="age", low=condition_pb2.Literal(integer=1), high=condition_pb2.Literal(integer=-(2**63))
    )
    return {
        "comparison": wire("age >= 65"),
        "tree": wire("not (sex = 'male' or diagnosis in ('stroke', 'asthma')) and last_admission_date < '2010-01-01'"),
        "range": condition_pb2.Condition(range=between).SerializeToString(),
        "bad empty": b"",
        "bad repeated": b"\x12\x0b\x0a\x03age\x12\x02\x08\x02\x12\x02\x08\x02",
    }


def _event_seeds() -> dict[str, bytes]:
    def wire(text: str) -> bytes:
        return parse_condition(text, STAYS).to_wire().SerializeToString(deterministic=True)

    def happened(**fields: Any) -> bytes:
        return condition_pb2.Condition(happened=condition_pb2.Happened(**fields)).SerializeToString()

    inner = condition_pb2.Condition(happened=condition_pb2.Happened(events="prescription", at_least=1))
    return {
        "under": wire("diagnosis under ('I20', 'I21') and diagnosis not under 'I42'"),
        "any": wire("any(hospitalisation where cause under 'I21' and admitted >= '2005-01-01')"),
        "count": wire("count(hospitalisation where not days < 3) >= 3 or count(prescription) = 2"),
        "bad number": happened(events="prescription", at_least=0),
        "bad events": happened(events="age", at_least=1),
        "bad nesting": happened(events="hospitalisation", at_least=1, where=inner),
        "bad codes": condition_pb2.Condition(under=condition_pb2.Under(column="diagnosis")).SerializeToString(),
    }


def _parse_question(data: bytes) -> Question:
    return question_from_wire(parse_message(ticket_pb2.Question, data), CENSUS_DICTIONARY)


def _check_question(question: Question, data: bytes) -> None:
    del data
    verify_question(question)


def _question_seeds() -> dict[str, bytes]:
    def wire(text: str) -> bytes:
        return parse_question(text, CENSUS_DICTIONARY).to_wire().SerializeToString(deterministic=True)

    return {
        "all": wire("all"),
        "several": wire("mother_tongue in ('French', 'English')"),
        "cells": wire("mother_tongue by ('French', 'English'), 'Other', rest"),
        "bad cells": ticket_pb2.Question(
            variable="mother_tongue", cells=[ticket_pb2.Cell(), ticket_pb2.Cell()]
        ).SerializeToString(),
        "bad order": ticket_pb2.Question(
            variable="mother_tongue", cells=[ticket_pb2.Cell(values=["b", "a"])]
        ).SerializeToString(),
        "bad empty": b"",
    }


_IDENTITY = SigningKey(Purpose.IDENTITY, bytes(32))


def _check_document(dictionary: Dictionary, data: bytes) -> None:
    require(dictionary_document(dictionary) == data, "a dictionary has one document")
    require(dictionary_text(dictionary).replace("\n", "").isprintable(), "a dictionary can be printed")
    require(bool(excerpt_json(excerpt(dictionary))["columns"]), "a dictionary has columns")
    for column in dictionary.columns:
        for value in column.values[:3]:
            # Whatever another node publishes can be asked for.
            condition = parse_condition(f"{column.name} = '{value.replace(chr(39), 2 * chr(39))}'", dictionary)
            require(
                condition_from_wire(condition.to_wire(), dictionary) == condition, "a published code can be asked for"
            )


def _parse_adoption(data: bytes) -> Adoption:
    message = parse_message(dictionary_pb2.SignedAdoption, data)
    return adoption_from_wire(message, [_IDENTITY.verify_key])


def _adoption_seeds() -> dict[str, bytes]:
    def signed(statement: bytes) -> bytes:
        signature = _IDENTITY.sign(statement, purpose=Purpose.DICTIONARY)
        key_id = _IDENTITY.verify_key.key_id
        return dictionary_pb2.SignedAdoption(adoption=statement, signature=signature, key_id=key_id).SerializeToString()

    said = adoption_of(STAYS, dictionary_document(STAYS)).statement
    return {"whole": signed(said), "bad_spaces": signed(said.replace(b",", b", ")), "bad_empty": b""}


# --- the status that a call ended with -------------------------------------------------------------------------------

_STATUSES = tuple(StatusCode)


def _parse_status(data: bytes) -> BrokerError:
    """A status code, and a forged trailer: any bytes, or a right one around a forged ErrorInfo."""
    code, part, content = _STATUSES[data[0] % len(_STATUSES) if data else 0], data[1:2], data[2:]
    if part == b"i":
        info = any_pb2.Any(type_url="type.googleapis.com/google.rpc.ErrorInfo", value=content)
        number: int = code.value[0]
        content = status_pb2.Status(code=number, message="said", details=[info]).SerializeToString()
    trailer = Metadata() if part == b"n" else Metadata(("grpc-status-details-bin", content))
    return broker_error(AioRpcError(code, Metadata(), trailer, details="said"), "census")


def _check_status(error: BrokerError, data: bytes) -> None:
    del data
    require(not error.stops_node, "no peer can stop us")
    require((error.text + error.hint).isprintable(), "a peer's words do nothing to a terminal")


def _status_seeds() -> dict[str, bytes]:
    _, _, ((_, trailer),) = trailing_metadata(RefusedError("BUSY", retry_seconds=1))
    busy = bytes([_STATUSES.index(StatusCode.RESOURCE_EXHAUSTED)])
    info = error_details_pb2.ErrorInfo(reason="INTEGRITY", domain="tripartite", metadata={"problem": "\x1b[2J"})
    return {
        "busy": busy + b"r" + trailer,
        "stopping": busy + b"i" + info.SerializeToString(),
        "unknown": busy + b"i" + error_details_pb2.ErrorInfo(reason="NEW", domain="tripartite").SerializeToString(),
        "none": busy + b"n",
        "garbage": busy + b"r\xff\xff",
    }


TARGETS: Mapping[str, Target[Any]] = {
    "message": Target(
        parse=_parse_any,
        check=_check_any,
        covers=(parse_message,),
        on_the_wire=True,
        seeds=_any_seeds,
        codes=frozenset({"MALFORMED_MESSAGE"}),
        words=tuple(f"{name}\n".encode() for name in message_types()),
    ),
    "criteria_wire": Target(
        parse=_parse_criteria,
        check=_check_criteria,
        covers=(condition_from_wire,),
        on_the_wire=True,
        seeds=_criteria_seeds,
        codes=CRITERIA_CODES | {"MALFORMED_MESSAGE"},
        words=(*(name.encode() for name in HEALTH_DICTIONARY.names), b"stroke", b"\x32\x02", b"\x22\x04", b"\x0a\x00"),
    ),
    "events_wire": Target(
        parse=lambda data: condition_from_wire(parse_message(condition_pb2.Condition, data), STAYS),
        check=verify_condition_on_events,
        covers=(condition_from_wire,),
        on_the_wire=True,
        seeds=_event_seeds,
        codes=CRITERIA_CODES | {"MALFORMED_MESSAGE"},
        words=(
            *(name.encode() for name in STAYS.names),
            *(name.encode() for table in STAYS.events for name in (table.name, *table.names)),
            *(b"I21", b"I20-I25", b"\x42\x05", b"\x4a\x10", b"\x18\x01", b"\x32\x02", b"\x0a\x00"),
        ),
    ),
    "question_wire": Target(
        parse=_parse_question,
        check=_check_question,
        covers=(question_from_wire,),
        on_the_wire=True,
        seeds=_question_seeds,
        codes=QUESTION_CODES | {"MALFORMED_MESSAGE"},
        words=(*(name.encode() for name in CENSUS_DICTIONARY.names), b"French", b"English", b"Neither"),
    ),
    "dictionary_meaning": Target(
        parse=Dictionary.parse_meaning,
        check=lambda dictionary, data: require(dictionary.meaning == data, "a meaning is written in one way"),
        covers=(Dictionary.parse_meaning,),
        seeds=lambda: {
            "census": CENSUS_DICTIONARY.meaning,
            "health": HEALTH_DICTIONARY.meaning,
            "bad space": CENSUS_DICTIONARY.meaning + b" ",
            "bad depth": b"[" * 4000,
            "bad type": CENSUS_DICTIONARY.meaning.replace(b'"code"', b'"CODE"'),
            "bad empty": b"[]",
        },
        errors=(ValueError,),
        words=(b"[", b"]", b",", b'"', b'"integer"', b'"date"', b"true", b"\\u00e9", b"\\ud800", b"9" * 20),
        max_bytes=16_384,
        mutations=250,
    ),
    "dictionary_document": Target(
        parse=parse_dictionary_document,
        check=_check_document,
        covers=(parse_dictionary_document,),
        seeds=lambda: {
            "census": dictionary_document(CENSUS_DICTIONARY),
            "events": dictionary_document(STAYS),
            "bad": b"{}",
        },
        errors=(ValueError,),
        words=(b'"under":["', b'"codes":[]', b'"type":"date"', b'"household"', b"\\u202e", b" "),
        mutations=250,
        max_bytes=1 << 16,
    ),
    "adoption": Target(
        parse=_parse_adoption,
        covers=(adoption_from_wire,),
        seeds=_adoption_seeds,
        codes=frozenset({"MALFORMED_MESSAGE", "UNKNOWN_KEY", "BAD_SIGNATURE"}),
        on_the_wire=True,
    ),
    "status": Target(
        parse=_parse_status,
        check=_check_status,
        covers=(broker_error,),
        seeds=_status_seeds,
        words=(b"tripartite", b"INTEGRITY", b"STATE_UNKNOWN", b"{code}", b"\x1b[2J"),
    ),
}
