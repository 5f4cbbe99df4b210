"""How errors cross the wire: the gRPC status of each reason, which its family gives unless a table says more, and the way back.

A status carries google.rpc.ErrorInfo (reason = our code, metadata = the public details) and, for a caller's fault,
google.rpc.BadRequest. The sentence is rebuilt by the reader from code and details, so its language is the reader's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import TypeVar

import grpc
from google.protobuf import any_pb2
from google.protobuf.message import DecodeError, Message
from google.rpc import error_details_pb2, status_pb2
from grpc.aio import AioRpcError
from grpc_status import rpc_status
from tripartite.v1 import sample_pb2

from broker_common.errors import (
    REASONS,
    BrokerError,
    InternalError,
    InvalidRequestError,
    PeerUnavailableError,
    RefusedError,
    StateUnknownError,
    error_for,
)

_DOMAIN = "tripartite"
_DETAILS_KEY = "grpc-status-details-bin"
ResultT = TypeVar("ResultT")

_Code = grpc.StatusCode
_OF_FAMILY: Mapping[type[BrokerError], grpc.StatusCode] = {
    InvalidRequestError: _Code.INVALID_ARGUMENT,
    RefusedError: _Code.FAILED_PRECONDITION,
    PeerUnavailableError: _Code.UNAVAILABLE,
    InternalError: _Code.INTERNAL,
    StateUnknownError: _Code.INTERNAL,
}
# Reasons whose status says more than their family's.
_EXCEPTIONS: Mapping[str, grpc.StatusCode] = {
    "BAD_SIGNATURE": _Code.UNAUTHENTICATED,
    "UNKNOWN_KEY": _Code.UNAUTHENTICATED,
    "INSECURE_TRANSPORT": _Code.UNAUTHENTICATED,
    "CERTIFICATE_EXPIRED": _Code.UNAUTHENTICATED,
    "CARD_UNRELATED": _Code.UNAUTHENTICATED,
    "UNKNOWN_RESEARCHER": _Code.PERMISSION_DENIED,
    "UNKNOWN_PROJECT": _Code.PERMISSION_DENIED,
    "WRONG_ROLE": _Code.PERMISSION_DENIED,
    "WRONG_ORGANISATION": _Code.PERMISSION_DENIED,
    "NOT_REGISTERED": _Code.PERMISSION_DENIED,
    "COSIGNED_AHEAD": _Code.FAILED_PRECONDITION,
    "LOG_NAME_TAKEN": _Code.FAILED_PRECONDITION,
    "CARD_OUTDATED": _Code.FAILED_PRECONDITION,
    "CARD_MISSING": _Code.FAILED_PRECONDITION,
    "ROSTER_OLD": _Code.FAILED_PRECONDITION,
    "TICKET_EXPIRED": _Code.FAILED_PRECONDITION,
    "POLICY_MISMATCH": _Code.FAILED_PRECONDITION,
    "RELEASE_MISMATCH": _Code.FAILED_PRECONDITION,
    "ROSTER_NOT_IN_FORCE": _Code.FAILED_PRECONDITION,
    "SLOT_UNUSABLE": _Code.FAILED_PRECONDITION,
    "EXPORT_DIFFERS": _Code.FAILED_PRECONDITION,
    "ROSTER_REUSED": _Code.ALREADY_EXISTS,
    "TICKET_REUSED": _Code.ALREADY_EXISTS,
    "UNKNOWN_QUERY": _Code.NOT_FOUND,
    "ANSWER_EXPIRED": _Code.NOT_FOUND,
    "QUOTA_REACHED": _Code.RESOURCE_EXHAUSTED,
    "TOO_MANY_QUOTES": _Code.RESOURCE_EXHAUSTED,
    "BUSY": _Code.RESOURCE_EXHAUSTED,
    "NOT_INSTALLED": _Code.UNIMPLEMENTED,
    "PEER_MISBEHAVED": _Code.INTERNAL,
    "PROMISE_BROKEN": _Code.INTERNAL,
}
STATUS_OF_REASON: Mapping[str, grpc.StatusCode] = {
    code: _EXCEPTIONS.get(code, _OF_FAMILY[reason.family]) for code, reason in REASONS.items()
}
# The transport itself says these when nobody is there to answer.
_NOBODY_THERE = frozenset({_Code.UNAVAILABLE, _Code.DEADLINE_EXCEEDED, _Code.CANCELLED})


def trailing_metadata(error: BrokerError) -> tuple[grpc.StatusCode, str, tuple[tuple[str, bytes], ...]]:
    """Status code, message and trailing metadata that carry `error` to the caller."""
    code = STATUS_OF_REASON[error.code]
    details = [_pack(error_details_pb2.ErrorInfo(reason=error.code, domain=_DOMAIN, metadata=error.details))]
    if isinstance(error, InvalidRequestError):
        field = error.details.get("column") or error.details.get("variable") or error.details.get("subject") or ""
        violation = error_details_pb2.BadRequest.FieldViolation(field=field, description=error.text, reason=error.code)
        details.append(_pack(error_details_pb2.BadRequest(field_violations=[violation])))
    if error.signed_refusal:
        details.append(_pack(sample_pb2.SignedRefusal.FromString(error.signed_refusal)))
    number: int = code.value[0]
    status = status_pb2.Status(code=number, message=error.text, details=details)
    return code, error.text, ((_DETAILS_KEY, status.SerializeToString()),)


def broker_error(error: AioRpcError, peer: str) -> BrokerError:
    """The domain error that a failed call to `peer` stands for."""
    try:
        info, signed_refusal = _error_info(error)
    except (ValueError, DecodeError):
        return PeerUnavailableError("PEER_MISBEHAVED", peer=peer, problem="an error that contradicts itself")
    if info is not None:
        found = _from_peer(error_for(info.reason, dict(info.metadata)), peer)
        found.signed_refusal = signed_refusal
        return found
    if error.code() in _NOBODY_THERE:
        return PeerUnavailableError("PEER_UNAVAILABLE", peer=peer)
    return PeerUnavailableError("PEER_MISBEHAVED", peer=peer, problem=f"status {error.code().name}")


def _error_info(error: AioRpcError) -> tuple[error_details_pb2.ErrorInfo | None, bytes]:
    """Code and details, and what the peer has signed of them."""
    status = rpc_status.from_call(error)  # type: ignore[arg-type]  # it calls three methods, which aio errors have
    found, signed_refusal = None, b""
    for detail in status.details if status is not None else ():
        info = error_details_pb2.ErrorInfo()
        if found is None and detail.Unpack(info) and info.domain == _DOMAIN:
            found = info
        elif detail.Is(sample_pb2.SignedRefusal.DESCRIPTOR):
            signed_refusal = detail.value
    return found, signed_refusal


def _from_peer(error: BrokerError, peer: str) -> BrokerError:
    """SECURITY: what is wrong inside a peer is the peer's; taken for our own, it would stop us."""
    if isinstance(error, InternalError | StateUnknownError):
        return PeerUnavailableError("PEER_FAILED", peer=peer, reason=error.code)
    return error


async def calling(peer: str, call: Awaitable[ResultT]) -> ResultT:
    """Await a call to `peer`; foreign errors become ours.

    Raises:
        BrokerError: what the peer said, or PEER_UNAVAILABLE, or PEER_MISBEHAVED.
    """
    try:
        return await call
    except AioRpcError as error:
        raise broker_error(error, peer) from error


def _pack(message: Message) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(message)
    return packed
