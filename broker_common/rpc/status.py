"""How errors cross the wire: one table from reason codes to gRPC statuses, and the way back.

A status carries google.rpc.ErrorInfo (reason = our code, metadata = the public details) and, for a caller's fault,
google.rpc.BadRequest. The sentence is rebuilt by the reader from code and details, so its language is the reader's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import TypeVar

import grpc
from google.protobuf import any_pb2
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2
from grpc.aio import AioRpcError
from grpc_status import rpc_status

from broker_common.errors import (
    BrokerError,
    InternalError,
    InvalidRequestError,
    PeerUnavailableError,
    StateUnknownError,
    error_for,
)

_DOMAIN = "tripartite"
_DETAILS_KEY = "grpc-status-details-bin"
ResultT = TypeVar("ResultT")

_Code = grpc.StatusCode
STATUS_OF_REASON: Mapping[str, grpc.StatusCode] = {
    "CRITERIA_SYNTAX": _Code.INVALID_ARGUMENT,
    "CRITERIA_TOO_LARGE": _Code.INVALID_ARGUMENT,
    "CRITERIA_TOO_DEAR": _Code.INVALID_ARGUMENT,
    "UNKNOWN_COLUMN": _Code.INVALID_ARGUMENT,
    "UNKNOWN_CODE": _Code.INVALID_ARGUMENT,
    "WRONG_TYPE": _Code.INVALID_ARGUMENT,
    "WRONG_OPERATOR": _Code.INVALID_ARGUMENT,
    "UNKNOWN_VARIABLE": _Code.INVALID_ARGUMENT,
    "UNKNOWN_VALUE": _Code.INVALID_ARGUMENT,
    "QUESTION_SYNTAX": _Code.INVALID_ARGUMENT,
    "TOO_MANY_CELLS": _Code.INVALID_ARGUMENT,
    "INVALID_VALUE": _Code.INVALID_ARGUMENT,
    "MALFORMED_MESSAGE": _Code.INVALID_ARGUMENT,
    "BAD_SIGNATURE": _Code.UNAUTHENTICATED,
    "UNKNOWN_KEY": _Code.UNAUTHENTICATED,
    "UNKNOWN_RESEARCHER": _Code.PERMISSION_DENIED,
    "UNKNOWN_PROJECT": _Code.PERMISSION_DENIED,
    "WRONG_ROLE": _Code.PERMISSION_DENIED,
    "WRONG_ORGANISATION": _Code.PERMISSION_DENIED,
    "INSECURE_TRANSPORT": _Code.UNAUTHENTICATED,
    "CERTIFICATE_EXPIRED": _Code.UNAUTHENTICATED,
    "COSIGNED_AHEAD": _Code.FAILED_PRECONDITION,
    "LOG_NAME_TAKEN": _Code.FAILED_PRECONDITION,
    "CARD_OUTDATED": _Code.FAILED_PRECONDITION,
    "CARD_UNRELATED": _Code.UNAUTHENTICATED,
    "CARD_MISSING": _Code.FAILED_PRECONDITION,
    "CARD_UNREADABLE": _Code.INVALID_ARGUMENT,
    "NOT_REGISTERED": _Code.PERMISSION_DENIED,
    "FINGERPRINT_MISMATCH": _Code.INVALID_ARGUMENT,
    "SEALED_WRONGLY": _Code.INVALID_ARGUMENT,
    "COMMITMENT_MISMATCH": _Code.INVALID_ARGUMENT,
    "BAD_FRAMES": _Code.INVALID_ARGUMENT,
    "BAD_SAMPLE": _Code.INVALID_ARGUMENT,
    "ROSTER_REUSED": _Code.ALREADY_EXISTS,
    "ROSTER_OLD": _Code.FAILED_PRECONDITION,
    "UNKNOWN_QUERY": _Code.NOT_FOUND,
    "ANSWER_EXPIRED": _Code.NOT_FOUND,
    "TICKET_EXPIRED": _Code.FAILED_PRECONDITION,
    "TICKET_REUSED": _Code.ALREADY_EXISTS,
    "POLICY_MISMATCH": _Code.FAILED_PRECONDITION,
    "RELEASE_MISMATCH": _Code.FAILED_PRECONDITION,
    "LINKAGE_MISMATCH": _Code.FAILED_PRECONDITION,
    "ROSTER_NOT_IN_FORCE": _Code.FAILED_PRECONDITION,
    "SLOT_UNUSABLE": _Code.FAILED_PRECONDITION,
    "SCALE_REFUSED": _Code.FAILED_PRECONDITION,
    "BUDGET_EXHAUSTED": _Code.FAILED_PRECONDITION,
    "QUOTA_REACHED": _Code.RESOURCE_EXHAUSTED,
    "TOO_MANY_QUOTES": _Code.RESOURCE_EXHAUSTED,
    "SERVICE_SHUT_DOWN": _Code.FAILED_PRECONDITION,
    "POLICY_IN_FORCE": _Code.FAILED_PRECONDITION,
    "POLICY_WEAKER": _Code.FAILED_PRECONDITION,
    "SUBJECT_FIXED": _Code.FAILED_PRECONDITION,
    "NOTHING_FITS": _Code.FAILED_PRECONDITION,
    "NOT_SHUT_DOWN": _Code.FAILED_PRECONDITION,
    "DICTIONARY_CHANGED": _Code.FAILED_PRECONDITION,
    "LOADING": _Code.FAILED_PRECONDITION,
    "POLICY_TOO_NARROW": _Code.FAILED_PRECONDITION,
    "BUSY": _Code.RESOURCE_EXHAUSTED,
    "NOTHING_LOADED": _Code.FAILED_PRECONDITION,
    "LOAD_REFUSED": _Code.INVALID_ARGUMENT,
    "RELINK_REFUSED": _Code.INVALID_ARGUMENT,
    "AUDIT_FIRST": _Code.FAILED_PRECONDITION,
    "ALREADY_RUNNING": _Code.FAILED_PRECONDITION,
    "PORT_TAKEN": _Code.FAILED_PRECONDITION,
    "CONFIG_INVALID": _Code.INVALID_ARGUMENT,
    "DICTIONARY_UNUSABLE": _Code.INVALID_ARGUMENT,
    "HOME_INVALID": _Code.INVALID_ARGUMENT,
    "EXPORT_DIFFERS": _Code.FAILED_PRECONDITION,
    "FILE_UNUSABLE": _Code.INVALID_ARGUMENT,
    "SECRET_MISSING": _Code.INVALID_ARGUMENT,
    "LINKAGE_KEY_MISSING": _Code.INVALID_ARGUMENT,
    "KEY_MISSING": _Code.INVALID_ARGUMENT,
    "NOT_INSTALLED": _Code.UNIMPLEMENTED,
    "PEER_UNAVAILABLE": _Code.UNAVAILABLE,
    "PEER_FAILED": _Code.UNAVAILABLE,
    "PEER_MISBEHAVED": _Code.INTERNAL,
    "NOT_WITNESSED": _Code.UNAVAILABLE,
    "PROMISE_BROKEN": _Code.INTERNAL,
    "ANSWER_PENDING": _Code.UNAVAILABLE,
    "INTEGRITY": _Code.INTERNAL,
    "FORMAT_UNKNOWN": _Code.INTERNAL,
    "ROLLED_BACK": _Code.INTERNAL,
    "SAMPLE_LOST": _Code.INTERNAL,
    "STORE_FAILED": _Code.INTERNAL,
    "INTERNAL": _Code.INTERNAL,
    "STATE_UNKNOWN": _Code.INTERNAL,
}
# What the transport says on its own when nobody is there to answer.
_NOBODY_THERE = frozenset({_Code.UNAVAILABLE, _Code.DEADLINE_EXCEEDED, _Code.CANCELLED})


def trailing_metadata(error: BrokerError) -> tuple[grpc.StatusCode, str, tuple[tuple[str, bytes], ...]]:
    """Status code, message and trailing metadata that carry `error` to the caller."""
    code = STATUS_OF_REASON[error.code]
    details = [_pack(error_details_pb2.ErrorInfo(reason=error.code, domain=_DOMAIN, metadata=error.details))]
    if isinstance(error, InvalidRequestError):
        field = error.details.get("column") or error.details.get("variable") or error.details.get("subject") or ""
        violation = error_details_pb2.BadRequest.FieldViolation(field=field, description=error.text, reason=error.code)
        details.append(_pack(error_details_pb2.BadRequest(field_violations=[violation])))
    number: int = code.value[0]
    status = status_pb2.Status(code=number, message=error.text, details=details)
    return code, error.text, ((_DETAILS_KEY, status.SerializeToString()),)


def broker_error(error: AioRpcError, peer: str) -> BrokerError:
    """The domain error that a failed call to `peer` stands for."""
    try:
        info = _error_info(error)
    except (ValueError, DecodeError):
        return PeerUnavailableError("PEER_MISBEHAVED", peer=peer, problem="an error that contradicts itself")
    if info is not None:
        return _from_peer(error_for(info.reason, dict(info.metadata)), peer)
    if error.code() in _NOBODY_THERE:
        return PeerUnavailableError("PEER_UNAVAILABLE", peer=peer)
    return PeerUnavailableError("PEER_MISBEHAVED", peer=peer, problem=f"status {error.code().name}")


def _error_info(error: AioRpcError) -> error_details_pb2.ErrorInfo | None:
    status = rpc_status.from_call(error)  # type: ignore[arg-type]  # it calls three methods, which aio errors have
    for detail in status.details if status is not None else ():
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info) and info.domain == _DOMAIN:
            return info
    return None


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


def _pack(message: error_details_pb2.ErrorInfo | error_details_pb2.BadRequest) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(message)
    return packed
