"""Peers exchange their newest cards at every contact: what a node answers, and how a client takes the answer."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable

import structlog
from grpc import aio
from grpc.aio import ServicerContext
from tripartite.v1 import card_service_pb2, card_service_pb2_grpc

from broker_common.crypto.cards import (
    SignedCard,
    VerifiedCard,
    parse_signed_card,
    verify_successor,
)
from broker_common.crypto.certificates import Identity, Role
from broker_common.errors import BrokerError, InvalidRequestError, PeerUnavailableError
from broker_common.parties.registration import own_card, registered, renew
from broker_common.rpc.callers import caller
from broker_common.rpc.status import calling
from broker_common.storage.journal import Journal, StateT
from broker_common.tlog.parties import peer_name
from broker_common.values import Clock

Context = ServicerContext[object, object]
# For one exchange; both sides write it to their logs.
_TIMEOUT_SECONDS = 15.0
# In-band, per peer and process. A party that replaces every key at once needs ten.
_MOST_CARDS = 20
# Within so long.
_CARDS_WITHIN_MS = 86_400_000
_log = structlog.get_logger()


class CardExchange:
    """A node's exchange of cards with its peers."""

    def __init__(self, journal: Journal[StateT], clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        # When each peer's cards were taken, lately.
        self._taken: dict[tuple[Role, str], deque[int]] = {}
        self._lock = threading.Lock()

    def __call__(self, caller: Identity, signed: SignedCard) -> SignedCard:
        """Take a registered peer's newer card, if it is one; gives the node's own.

        Raises:
            InvalidRequestError: NOT_REGISTERED, MALFORMED_MESSAGE, WRONG_ORGANISATION, BAD_SIGNATURE or
                CARD_UNRELATED.
        """
        key = (caller.role, peer_name(caller))
        with self._journal.reading() as state:
            known = registered(state.parties, *key)
            own = own_card(state.parties)
        if known.card.signed != signed:
            try:
                card = verify_successor(known.card, signed)
                if self._may_take(key):
                    renew(self._journal, card)
            except InvalidRequestError as error:
                # A peer that has not heard of its own newest card yet changes nothing, and learns ours.
                if error.code != "CARD_OUTDATED":
                    raise
        return own.signed

    def _may_take(self, key: tuple[Role, str]) -> bool:
        """SECURITY: every card is an entry in our log, which only operators and questions should make grow."""
        now_ms = self._clock()
        with self._lock:
            taken = self._taken.setdefault(key, deque(maxlen=_MOST_CARDS))
            if len(taken) == _MOST_CARDS and now_ms < taken[0] + _CARDS_WITHIN_MS:
                _log.warning("a peer sends too many cards", role=key[0], name=key[1])
                return False
            taken.append(now_ms)
            return True


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
