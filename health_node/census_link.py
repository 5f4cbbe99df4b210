"""The way to the census node: a channel under the certificates of its present card, and the keys that the card lists.

Asked anew for every attempt. When a card changes, ours or the census node's, a new channel is opened; streams that are under
way on the old one go on until they end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from grpc import aio
from tripartite.v1 import census_service_pb2_grpc

from broker_common.crypto.cards import SignedCard, VerifiedCard
from broker_common.crypto.certificates import TlsCredentials
from broker_common.crypto.sealing import SealingKey
from broker_common.crypto.signing import Purpose, VerifyKey
from broker_common.errors import BrokerError
from broker_common.rpc.cards import fetch_card
from broker_common.rpc.channel import Peer, open_channel
from broker_common.rpc.server import log_unforeseen
from broker_common.tlog.note import NoteVerifier
from broker_common.values import Clock

__all__ = ["CensusLink", "CensusNow"]

_log = structlog.get_logger()
# Between exchanges of cards.
_EXCHANGE_SECONDS = 300.0
# After a failed exchange: the census node may be starting.
_SOON_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class CensusNow:
    """One consistent view of the census node: its RPCs, and the keys that it is known by."""

    stub: census_service_pb2_grpc.CensusServiceAsyncStub
    # What samples are sealed to.
    sealing_key: SealingKey
    policy_keys: list[VerifyKey]
    # What checks the checkpoints of its log.
    log: NoteVerifier


class CensusLink:
    """One census node. Made inside a running event loop; `close` it."""

    def __init__(
        self,
        address: str,
        *,
        card: Callable[[], VerifiedCard],
        own_card: Callable[[], SignedCard],
        tls: Callable[[], TlsCredentials],
        clock: Clock,
    ) -> None:
        self._address = address
        self._card = card
        self._own_card = own_card
        self._tls = tls
        self._clock = clock
        self._channels: list[aio.Channel] = []
        self._shown: tuple[Peer, bytes] | None = None

    async def now(self) -> CensusNow:
        """The census node as it is known at this instant."""
        card = await asyncio.to_thread(self._card)
        now_ms = self._clock()
        channel = await self._channel(card)
        return CensusNow(
            stub=census_service_pb2_grpc.CensusServiceStub(channel),
            sealing_key=card.sealing_key(now_ms),
            policy_keys=card.verify_keys(Purpose.POLICY, now_ms),
            log=NoteVerifier(card.card.origin, tuple(card.verify_keys(Purpose.LOG, now_ms))),
        )

    async def _channel(self, card: VerifiedCard) -> aio.Channel:
        peer = Peer("census", self._address, tuple(card.certificates(self._clock())))
        own = await asyncio.to_thread(self._tls)
        if self._shown != (peer, own.certificate):
            # The old channel is kept open for what is under way on it.
            self._channels.append(open_channel(peer, own, self._clock))
            self._shown = (peer, own.certificate)
        return self._channels[-1]

    async def keep_cards_current(self, take: Callable[[VerifiedCard], object]) -> None:
        """Exchange cards now and every few minutes; `take` keeps a newer one. Ends when cancelled."""
        while True:
            pause = _EXCHANGE_SECONDS if await self.exchange_cards(take) else _SOON_SECONDS
            await asyncio.sleep(pause)

    async def exchange_cards(self, take: Callable[[VerifiedCard], object]) -> bool:
        """Exchange cards once; False if the census node is to be asked again soon. Takes no longer than one call may."""
        try:
            known = await asyncio.to_thread(self._card)
            own = await asyncio.to_thread(self._own_card)
            newer = await fetch_card(await self._channel(known), own, known)
            if newer is not None:
                await asyncio.to_thread(take, newer)
                _log.info("the census agency has a new card", serial=newer.card.serial)
        except BrokerError as error:
            if error.stops_node:
                raise
            _log.info("cards were not exchanged", code=error.code)
            return False
        except Exception as error:  # noqa: BLE001 - SECURITY: nothing that a peer sends may stop the node
            log_unforeseen(error)
        return True

    async def close(self) -> None:
        """Close every channel."""
        for channel in self._channels:
            await channel.close()
