"""Cards and policies as peers hand them over: what a node answers, and how a client takes the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from grpc import aio
from grpc.aio import ServicerContext
from tripartite.v1 import card_service_pb2, card_service_pb2_grpc, policy_pb2

from broker_common.crypto.cards import SignedCard, VerifiedCard, parse_signed_card, verify_successor
from broker_common.crypto.certificates import Identity
from broker_common.crypto.signing import VerifyKey, key_named
from broker_common.errors import BrokerError, PeerUnavailableError
from broker_common.privacy.policy import Policy, parse_policy
from broker_common.rpc.callers import caller
from broker_common.rpc.status import calling

Context = ServicerContext[object, object]
# For one exchange; both sides write it to their logs.
_TIMEOUT_SECONDS = 15.0


class CardService(card_service_pb2_grpc.CardServiceServicer):
    """tripartite.v1.CardService."""

    def __init__(self, exchange: Callable[[Identity, SignedCard], SignedCard]) -> None:
        self._exchange = exchange

    async def Exchange(  # noqa: N802 - the name that the proto gives it
        self, request: card_service_pb2.ExchangeRequest, context: Context
    ) -> card_service_pb2.ExchangeResponse:
        del context
        own = await asyncio.to_thread(self._exchange, caller(), parse_signed_card(request.card))
        return card_service_pb2.ExchangeResponse(card=own.to_bytes())


async def fetch_card(channel: aio.Channel, own: SignedCard, known: VerifiedCard) -> VerifiedCard | None:
    """Tell a peer our card and hear its own; gives a newer one than is known, or None.

    Raises:
        PeerUnavailableError: PEER_MISBEHAVED, what it sent is no card of the peer that is known.
    """
    request = card_service_pb2.ExchangeRequest(card=own.to_bytes())
    stub = card_service_pb2_grpc.CardServiceStub(channel)
    response = await calling(known.card.role, stub.Exchange(request, timeout=_TIMEOUT_SECONDS))
    return parse_newer_card(response.card, known)


def parse_newer_card(answered: bytes, known: VerifiedCard) -> VerifiedCard | None:
    """The card that a peer answered with, if it is newer than the one that is known.

    Raises:
        PeerUnavailableError: PEER_MISBEHAVED, it is no card of the peer that is known.
    """
    try:
        signed = parse_signed_card(answered)
        return None if signed == known.signed else verify_successor(known, signed)
    except BrokerError as error:
        if error.code == "CARD_OUTDATED":
            return None
        raise PeerUnavailableError(
            "PEER_MISBEHAVED", peer=known.card.role, problem="a card that does not follow its last"
        ) from error


def policy_from_wire(signed: policy_pb2.SignedPolicy, keys: Sequence[VerifyKey]) -> Policy:
    """The policy, if one of these keys of its agency signed it.

    Raises:
        InvalidRequestError: UNKNOWN_KEY, BAD_SIGNATURE or INVALID_VALUE.
    """
    key_named(keys, signed.key_id, subject="policy").verify_signature(signed.document, signed.signature)
    return parse_policy(signed.document)
