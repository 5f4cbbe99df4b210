"""Messages from outside: nothing unknown is accepted, wherever in the tree it hides."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from google.protobuf.descriptor import Descriptor
from tripartite.v1 import condition_pb2, ticket_pb2

from broker_common.errors import InvalidRequestError
from broker_common.query.messages import parse_message, refuse_unknown_fields

PROTOS = Path(__file__).parents[3] / "protos" / "tripartite" / "v1"
UNKNOWN_FIELD = b"\xf8\x7f\x01"  # field 2047, varint 1


def problem(data: bytes) -> str:
    """Why `data` is no condition."""
    with pytest.raises(InvalidRequestError) as caught:
        parse_message(condition_pb2.Condition, data)
    assert caught.value.code == "MALFORMED_MESSAGE"
    return caught.value.details["problem"]


def some_condition() -> condition_pb2.Condition:
    """A tree with repeated and nested messages."""
    leaf = condition_pb2.Condition(
        membership=condition_pb2.Membership(column="age", literals=[condition_pb2.Literal(integer=1)])
    )
    return condition_pb2.Condition(all_of=condition_pb2.AllOf(parts=[leaf, condition_pb2.Condition(negation=leaf)]))


def test_known_message_is_read() -> None:
    """A message of our protocol comes through unchanged."""
    message = some_condition()
    assert parse_message(condition_pb2.Condition, message.SerializeToString()) == message
    assert parse_message(condition_pb2.Condition, b"") == condition_pb2.Condition()


@pytest.mark.parametrize("data", [b"\xff", b"\x0a\x05", b"\x0a\x03\x0a\x01\xff", b"not a message"])
def test_undecodable_bytes_are_malformed(data: bytes) -> None:
    """Cut, garbled or wrongly encoded bytes end in a typed error."""
    assert problem(data) == "its bytes are not a Condition"


def test_endless_nesting_is_malformed() -> None:
    """A tree deeper than the decoder admits ends in a typed error."""
    data = b""
    for _ in range(300):
        size = len(data)
        data = b"\x32" + bytes([size & 0x7F | 0x80, size >> 7]) + data  # field 6, its length in two bytes
    assert "not a Condition" in problem(data)


def test_unknown_field_at_the_top_is_refused() -> None:
    """A sender cannot add what its reader does not understand."""
    assert "unknown" in problem(some_condition().SerializeToString() + UNKNOWN_FIELD)


def test_unknown_field_deep_inside_is_refused() -> None:
    """Nor can it be hidden in a nested message of a list."""
    message = some_condition()
    message.all_of.parts[1].negation.membership.literals[0].MergeFromString(UNKNOWN_FIELD)
    assert "a Literal holds a field" in problem(message.SerializeToString())
    with pytest.raises(InvalidRequestError):
        refuse_unknown_fields(message)


def test_unknown_enum_number_is_refused() -> None:
    """A number that no operator has is refused, though the decoder keeps it."""
    data = b"\x0a\x05\x0a\x01a\x10\x63"
    assert condition_pb2.Condition.FromString(data).comparison.operator == 99
    assert "Comparison.operator" in problem(data)


def test_message_of_another_type_is_refused() -> None:
    """A ticket is no condition: its fields are unknown there, or do not decode."""
    ticket = ticket_pb2.Ticket(query_id=bytes(16), scale=30)
    with pytest.raises(InvalidRequestError):
        parse_message(condition_pb2.Condition, ticket.SerializeToString())


def test_protocol_has_no_map_fields() -> None:
    """The walk over a message treats every repeated field as a list; a map field would break it."""
    for proto in PROTOS.glob("*.proto"):
        module = importlib.import_module(f"tripartite.v1.{proto.stem}_pb2")
        waiting: list[Descriptor] = list(module.DESCRIPTOR.message_types_by_name.values())
        while waiting:
            descriptor = waiting.pop()
            waiting.extend(descriptor.nested_types)
            assert not descriptor.GetOptions().map_entry, f"{proto.name}: {descriptor.full_name}"
