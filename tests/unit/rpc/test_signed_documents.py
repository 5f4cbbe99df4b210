"""A dictionary on the wire: however long it is, it travels in messages that may be sent."""

from __future__ import annotations

import pytest
from tripartite.v1 import census_service_pb2, health_service_pb2

from broker_common.rpc.channel import MAX_MESSAGE_BYTES
from broker_common.rpc.signed_documents import parts_of


@pytest.mark.parametrize("size", [0, 1, MAX_MESSAGE_BYTES - 1, MAX_MESSAGE_BYTES, 3 * MAX_MESSAGE_BYTES + 1])
@pytest.mark.parametrize(
    "message",
    [health_service_pb2.HealthServiceGetDictionaryResponse, census_service_pb2.CensusServiceGetDictionaryResponse],
)
def test_every_part_fits_into_a_message(message: type, size: int) -> None:
    """With what is around it; together they are the document."""
    document = bytes(range(256)) * (size // 256) + bytes(size % 256)
    parts = list(parts_of(document))
    assert b"".join(parts) == document
    assert all(len(message(part=part).SerializeToString()) <= MAX_MESSAGE_BYTES for part in parts)
