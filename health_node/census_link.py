"""The way to the census node: a channel under the certificates of its present card, and the keys that the card lists.

Asked anew for every attempt. When a card changes, ours or the census node's, a new channel is opened; streams that are under
way on the old one go on until they end. Cards are exchanged every few minutes, and at once when a call fails in a way that
a card which one side has not heard of would explain.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from grpc import aio
from tripartite.v1 import census_service_pb2, census_service_pb2_grpc, log_service_pb2_grpc

from broker_common.crypto.cards import SignedCard, VerifiedCard
from broker_common.crypto.certificates import TlsCredentials
from broker_common.crypto.sealing import SealingKey
from broker_common.crypto.signing import Purpose, VerifyKey
from broker_common.errors import BrokerError, PeerUnavailableError
from broker_common.logs import log_unforeseen
from broker_common.parties.exchange import fetch_card
from broker_common.privacy.policy import Policy
from broker_common.rpc.channel import Peer, open_channel
from broker_common.rpc.interceptor import Glance
from broker_common.rpc.signed_documents import policy_from_wire
from broker_common.rpc.status import calling
from broker_common.tlog.note import NoteVerifier
from broker_common.values import Clock

_log = structlog.get_logger()
# Long enough to reach a census node that was restarted a moment ago.
_POLICY_TIMEOUT_SECONDS = 5.0
# Between exchanges of cards.
_EXCHANGE_SECONDS = 30.0
# After a failed exchange: the census node may be starting.
_SOON_SECONDS = 5.0
# Between exchanges that failing calls ask for, however many fail.
_LEAST_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class CensusNow:
    """One consistent view of the census node: its RPCs, and the keys that it is known by."""

    stub: census_service_pb2_grpc.CensusServiceAsyncStub
    logs: log_service_pb2_grpc.LogServiceAsyncStub
    # Samples are sealed to this key.
    sealing_key: SealingKey
    policy_keys: list[VerifyKey]
    refusal_keys: list[VerifyKey]
    # Verifies the checkpoints of its log.
    log: NoteVerifier


class CensusLink:
    """One census node. Made inside a running event loop; `close` it."""

    def __init__(
        self,
        address: str,
        *,
        card: Callable[[], VerifiedCard],
        own_card: Callable[[], SignedCard],
        take: Callable[[VerifiedCard], object],
        tls: Callable[[], TlsCredentials],
        clock: Clock,
        glance: Glance = asyncio.to_thread,
    ) -> None:
        """`take` keeps a card of the census node that is newer than `card`.

        `glance` calls what tells of cards and keys, without holding up the loop.
        """
        self._address = address
        self._card = card
        self._own_card = own_card
        self._take = take
        self._tls = tls
        self._clock = clock
        self._glance = glance
        self._channels: list[aio.Channel] = []
        self._shown: tuple[Peer, bytes] | None = None
        # The last card of ours that the census node was told.
        self._told: SignedCard | None = None
        # How often either side has heard of a card that was new to it.
        self.news = 0
        self._exchanging = asyncio.Lock()
        self._next_exchange = 0.0

    async def now(self) -> CensusNow:
        """The census node as it is known at this instant."""
        card = await self._glance(self._card)
        now_ms = self._clock()
        channel = await self._channel(card)
        return CensusNow(
            stub=census_service_pb2_grpc.CensusServiceStub(channel),
            logs=log_service_pb2_grpc.LogServiceStub(channel),
            sealing_key=card.sealing_key(now_ms),
            policy_keys=card.verify_keys(Purpose.POLICY, now_ms),
            refusal_keys=card.verify_keys(Purpose.REFUSAL, now_ms),
            log=NoteVerifier(card.card.origin, tuple(card.verify_keys(Purpose.LOG, now_ms))),
        )

    async def _channel(self, card: VerifiedCard) -> aio.Channel:
        peer = Peer("census", self._address, tuple(card.certificates(self._clock())))
        own = await self._glance(self._tls)
        if self._shown != (peer, own.certificate):
            # The old channel is kept open for what is under way on it.
            self._channels.append(open_channel(peer, own, self._clock))
            self._shown = (peer, own.certificate)
        return self._channels[-1]

    async def keep_cards_current(self) -> None:
        """Exchange cards now and every few minutes. Ends when cancelled."""
        while True:
            exchanged = await self.exchange_cards()
            await asyncio.sleep(_EXCHANGE_SECONDS if exchanged else _SOON_SECONDS)

    async def exchange_cards(self) -> bool:
        """Exchange cards once; False if that was not possible. Takes no longer than one call may."""
        async with self._exchanging:
            return await self._try_exchange()

    async def tell_card(self) -> None:
        """Exchange cards if ours is not the one that the census node was told last."""
        if await self._glance(self._own_card) != self._told:
            await self.exchange_cards()

    async def has_news(self, since: int) -> bool:
        """Whether either side has heard of a new card since `news` was `since`, if need be by an exchange now."""
        async with self._exchanging:
            if self.news == since:
                await asyncio.sleep(self._next_exchange - asyncio.get_running_loop().time())
                await self._try_exchange()
        return self.news != since

    async def _try_exchange(self) -> bool:
        """Exchange cards; False when that was not possible."""
        try:
            await self._exchange()
        except BrokerError as error:
            if error.stops_node:
                raise
            _log.info("cards were not exchanged", code=error.code)
            return False
        except Exception as error:  # noqa: BLE001 - SECURITY: nothing that a peer sends may stop the node
            log_unforeseen(error)
        finally:
            self._next_exchange = asyncio.get_running_loop().time() + _LEAST_SECONDS
        return True

    async def _exchange(self) -> None:
        known = await asyncio.to_thread(self._card)
        own = await asyncio.to_thread(self._own_card)
        newer = await fetch_card(await self._channel(known), own, known)
        if newer is not None:
            await asyncio.to_thread(self._take, newer)
            _log.info("the census agency has a new card", serial=newer.card.serial)
        # A process before this one may have told another card: the first exchange may be news.
        if newer is not None or own != self._told:
            self.news += 1
        self._told = own

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close()


async def fetch_policy(census: CensusNow, *, wait_for_ready: bool) -> Policy:
    """The policy in force, signed by the census agency. `wait_for_ready`: also of a node that is starting.

    Raises:
        BrokerError: what the census node said, or PEER_UNAVAILABLE, or PEER_MISBEHAVED.
    """
    request = census_service_pb2.GetPolicyRequest()
    response = await calling(
        "census",
        census.stub.GetPolicy(request, timeout=_POLICY_TIMEOUT_SECONDS, wait_for_ready=wait_for_ready),
    )
    try:
        return policy_from_wire(response.policy, census.policy_keys)
    except BrokerError as error:
        raise PeerUnavailableError(
            "PEER_MISBEHAVED", peer="census", problem="a policy that its agency did not sign"
        ) from error
