"""Reading a message from outside: what does not mean exactly what our protocol says is refused whole.

Protobuf keeps fields and enum numbers it does not know, and passes them on. A signed order that carries more than its
reader understood must not be obeyed, so nothing unknown is accepted anywhere in the tree. Meaning (ranges, oneofs that
must be set) is left to the reader of each message. Our protocol has no map fields; a test keeps it so.
"""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from broker_common.errors import InvalidRequestError

# Far above any message of ours; walking a million empty parts would hold up everybody else.
_MOST_PARTS = 10_000
_MessageT = TypeVar("_MessageT", bound=Message)


def parse_message(message_type: type[_MessageT], data: bytes) -> _MessageT:
    """The message that `data` encodes, holding nothing unknown.

    Raises:
        InvalidRequestError: MALFORMED_MESSAGE.
    """
    message = message_type()
    try:
        message.ParseFromString(data)
    except DecodeError:
        name = message_type.DESCRIPTOR.name
        raise InvalidRequestError("MALFORMED_MESSAGE", problem=f"its bytes are not a {name}") from None
    refuse_unknown_fields(message)
    return message


def refuse_unknown_fields(message: Message) -> None:
    """Walks the whole tree without recursion.

    Raises:
        InvalidRequestError: MALFORMED_MESSAGE, if any field or enum number in it is unknown to our protocol.
    """
    waiting, parts = [message], 0
    while waiting:
        current = waiting.pop()
        parts += 1
        if parts > _MOST_PARTS:
            raise InvalidRequestError("MALFORMED_MESSAGE", problem="it has too many parts")
        name = current.DESCRIPTOR.name
        if len(UnknownFieldSet(current)):
            raise InvalidRequestError("MALFORMED_MESSAGE", problem=f"a {name} holds a field that is unknown here")
        for field, value in current.ListFields():
            values = value if field.is_repeated else [value]
            if field.message_type is not None:
                waiting.extend(values)
            elif field.enum_type is not None and any(n not in field.enum_type.values_by_number for n in values):
                raise InvalidRequestError("MALFORMED_MESSAGE", problem=f"{name}.{field.name} is unknown here")
