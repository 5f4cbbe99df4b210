"""A policy as it travels: the document with its agency's signature."""

from __future__ import annotations

from collections.abc import Sequence

from tripartite.v1 import policy_pb2

from broker_common.crypto.signing import VerifyKey, key_named
from broker_common.privacy.policy import Policy, parse_policy

__all__ = ["policy_from_wire"]


def policy_from_wire(signed: policy_pb2.SignedPolicy, keys: Sequence[VerifyKey]) -> Policy:
    """The policy, if one of these keys of its agency signed it.

    Raises:
        InvalidRequestError: UNKNOWN_KEY, BAD_SIGNATURE or INVALID_VALUE.
    """
    key_named(keys, signed.key_id, subject="policy").verify_signature(signed.document, signed.signature)
    return parse_policy(signed.document)
