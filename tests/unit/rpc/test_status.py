"""Errors on the wire: the same error on both sides, but what is wrong inside a peer stays the peer's."""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import Any

import grpc
import pytest
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc.aio import AioRpcError, Metadata
from hypothesis import given
from hypothesis import strategies as st

from broker_common.errors import (
    REASONS,
    BrokerError,
    InternalError,
    InvalidRequestError,
    PeerUnavailableError,
    StateUnknownError,
)
from broker_common.rpc.status import STATUS_OF_REASON, broker_error, calling, trailing_metadata

CODES = sorted(REASONS)
DETAILS_KEY = "grpc-status-details-bin"
Code = grpc.StatusCode


def on_the_wire(error: BrokerError) -> AioRpcError:
    """The error that a caller in another process catches."""
    code, text, trailing = trailing_metadata(error)
    return AioRpcError(code, Metadata(), Metadata(*trailing), details=text)


def forged(
    reason: str,
    metadata: Mapping[str, str] | None = None,
    *,
    code: grpc.StatusCode = Code.INTERNAL,
    domain: str = "tripartite",
    **changes: Any,
) -> AioRpcError:
    """An error that a peer of any kind could send."""
    info = any_pb2.Any()
    info.Pack(error_details_pb2.ErrorInfo(reason=reason, domain=domain, metadata=metadata))
    fields: dict[str, Any] = {"code": code.value[0], "message": "text", "details": [info]}
    status = status_pb2.Status(**fields | changes)
    return AioRpcError(code, Metadata(), Metadata((DETAILS_KEY, status.SerializeToString())), details="text")


def made(code: str) -> BrokerError:
    """The error, with a detail of its own for everything that its sentences name."""
    reason = REASONS[code]
    names = {name for text in (reason.text, reason.hint) for _, name, _, _ in string.Formatter().parse(text) if name}
    return reason.family(code, **{name: f"<{name} \u00e9>" for name in names})


def test_an_error_is_the_same_on_both_sides() -> None:
    """Code, details, sentence and family; only what is wrong inside a peer is heard as the peer's fault."""
    for code in CODES:
        said = made(code)
        heard = broker_error(on_the_wire(said), "census")
        if REASONS[code].family in {InternalError, StateUnknownError}:
            assert isinstance(heard, PeerUnavailableError)
            assert (heard.code, heard.details) == ("PEER_FAILED", {"peer": "census", "reason": code})
        else:
            assert type(heard) is type(said)
            assert (heard.code, heard.details) == (code, said.details)
            assert (heard.text, heard.hint) == (said.text, said.hint)


every_status = st.sampled_from([code for code in Code if code is not Code.OK])


@given(
    reason=st.sampled_from(CODES) | st.text(max_size=30),
    metadata=st.dictionaries(
        st.sampled_from(["peer", "problem", "reason", "code", "self"]) | st.text(max_size=10), st.text(), max_size=4
    ),
    code=every_status,
    domain=st.sampled_from(["tripartite", "tripartite", "other", ""]),
)
def test_no_error_read_from_the_wire_stops_the_node_that_reads_it(
    reason: str, metadata: dict[str, str], code: grpc.StatusCode, domain: str
) -> None:
    """A peer cannot stop us by naming a broken store, whatever status, domain and details it sends with it."""
    heard = broker_error(forged(reason, metadata, code=code, domain=domain), "census")
    assert not heard.stops_node
    assert not isinstance(heard, InternalError | StateUnknownError)
    assert all(value.isprintable() for value in heard.details.values())
    assert heard.text


@pytest.mark.parametrize("code", [code for code in CODES if REASONS[code].family(code).stops_node])
def test_the_test_above_would_notice(code: str) -> None:
    """These are errors that do stop a node when they are its own."""
    assert REASONS[code].family(code).stops_node
    heard = broker_error(forged(code), "health")
    assert (heard.code, heard.details) == ("PEER_FAILED", {"peer": "health", "reason": code})


def test_an_unknown_reason_is_the_peers_fault() -> None:
    """From a newer peer, or from one that makes things up."""
    heard = broker_error(forged("NO_SUCH_REASON"), "census")
    assert heard.code == "PEER_MISBEHAVED"
    assert "NO_SUCH_REASON" in heard.details["problem"]


@pytest.mark.parametrize("code", [code for code in Code if code is not Code.OK], ids=lambda code: code.name)
def test_a_status_without_details_is_the_transports(code: grpc.StatusCode) -> None:
    """Nobody there, or a failure that is not one of ours and is named as it came."""
    bare = AioRpcError(code, Metadata(), Metadata())
    foreign = forged("BUSY", code=code, domain="other.test")
    empty = forged("BUSY", code=code, details=[])
    for error in (bare, foreign, empty):
        heard = broker_error(error, "census")
        if code in {Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.CANCELLED}:
            assert (heard.code, heard.details) == ("PEER_UNAVAILABLE", {"peer": "census"})
        else:
            assert heard.code == "PEER_MISBEHAVED"
            assert heard.details == {"peer": "census", "problem": f"status {code.name}"}


def test_an_error_that_contradicts_itself_is_the_peers_fault() -> None:
    """Status and details must be about the same failure, and the details readable."""
    other = any_pb2.Any(type_url="type.googleapis.com/google.rpc.ErrorInfo", value=b"\xff\xff")
    for error in (
        forged("BUSY", code=Code.INTERNAL, message="another text"),
        AioRpcError(Code.NOT_FOUND, Metadata(), forged("BUSY").trailing_metadata(), details="text"),
        AioRpcError(Code.INTERNAL, Metadata(), Metadata((DETAILS_KEY, b"\xff\xff")), details="text"),
        forged("BUSY", details=[other]),
    ):
        heard = broker_error(error, "census")
        assert (heard.code, heard.details["problem"]) == ("PEER_MISBEHAVED", "an error that contradicts itself")


def test_the_first_of_our_own_details_counts() -> None:
    """Others beside it, of other kinds or domains, are passed over."""
    details = []
    for message in (
        error_details_pb2.BadRequest(),
        error_details_pb2.ErrorInfo(reason="INTEGRITY", domain="other.test"),
        error_details_pb2.ErrorInfo(reason="BUSY", domain="tripartite", metadata={"retry_seconds": "7"}),
        error_details_pb2.ErrorInfo(reason="INTEGRITY", domain="tripartite"),
    ):
        packed = any_pb2.Any()
        packed.Pack(message)
        details.append(packed)
    heard = broker_error(forged("", details=details), "census")
    assert (heard.code, heard.details) == ("BUSY", {"retry_seconds": "7"})


def test_every_reason_has_a_status() -> None:
    """The status, number and message agree, so that the other side does not take it for a contradiction."""
    for code in CODES:
        error = made(code)
        status_code, text, ((key, packed),) = trailing_metadata(error)
        status = status_pb2.Status.FromString(packed)
        assert (status_code, key) == (STATUS_OF_REASON[code], DETAILS_KEY), code
        assert status_code is not Code.OK, code
        assert (status.code, status.message) == (status_code.value[0], text), code
        assert text == error.text


@pytest.mark.parametrize(
    ("error", "fields"),
    [
        (InvalidRequestError("UNKNOWN_COLUMN", column="agee", nearest="age"), ["agee"]),
        (InvalidRequestError("UNKNOWN_VALUE", variable="mother_tongue", value="x"), ["mother_tongue"]),
        (InvalidRequestError("BAD_SIGNATURE", subject="ticket"), ["ticket"]),
        (InvalidRequestError("TICKET_EXPIRED"), [""]),
        (PeerUnavailableError("PEER_FAILED", peer="census", reason="INTEGRITY"), []),
        (InternalError("INTERNAL"), []),
    ],
    ids=lambda value: getattr(value, "code", None),
)
def test_a_callers_fault_names_its_field(error: BrokerError, fields: list[str]) -> None:
    """For tools that read google.rpc.BadRequest; nobody else's fault carries one."""
    _, _, ((_, packed),) = trailing_metadata(error)
    found = []
    for detail in status_pb2.Status.FromString(packed).details:
        bad = error_details_pb2.BadRequest()
        if detail.Unpack(bad):
            found += [violation.field for violation in bad.field_violations]
            assert all(violation.reason == error.code for violation in bad.field_violations)
    assert found == fields


async def test_a_call_gives_its_answer_or_our_own_error() -> None:
    """The call decides what a peer's failure means; other exceptions are not touched."""

    async def answer() -> int:
        return 7

    async def fail(error: Exception) -> int:
        raise error

    assert await calling("census", answer()) == 7
    with pytest.raises(PeerUnavailableError) as caught:
        await calling("census", fail(forged("STATE_UNKNOWN")))
    assert caught.value.code == "PEER_FAILED"
    assert isinstance(caught.value.__cause__, AioRpcError)
    with pytest.raises(KeyError):
        await calling("census", fail(KeyError("bug")))
