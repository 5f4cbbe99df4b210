"""Sending rosters: that of the load in force, sealed anew at every attempt, until the census node has it.

SECURITY: nothing of a roster leaves before the entry is durable that commits to it (`book`). It leaves only when no
question that is under way stands for an older load: a sample never meets a roster that replaced its own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice

import structlog
from grpc.aio import AioRpcError, StreamUnaryCall
from tripartite.v1 import census_service_pb2, roster_pb2

from broker_common.crypto.commitments import hash_bytes
from broker_common.crypto.frames import FrameSealer
from broker_common.crypto.rosters import ROSTER_DOMAIN, RosterFrames, RosterPayload
from broker_common.crypto.sealing import SealingKey, roster_info
from broker_common.crypto.signing import SigningKey
from broker_common.errors import BrokerError, InternalError, InvalidRequestError, PeerUnavailableError, RefusedError
from broker_common.logs import log_unforeseen
from broker_common.rpc.channel import PROCEED
from broker_common.rpc.status import broker_error, calling
from broker_common.values import Randomness
from health_node import texts
from health_node.census_link import CensusLink
from health_node.node import HealthNode
from health_node.people.store import PeopleStore
from health_node.roster.book import RosterBook, SentRoster, number_roster

_log = structlog.get_logger()
RosterCall = StreamUnaryCall[census_service_pb2.SendRosterRequest, census_service_pb2.SendRosterResponse]
# How often it is looked whether another load is in force.
_LOOK_SECONDS = 1.0
# Between attempts: doubled every time, up to the longest.
_FIRST_PAUSE_SECONDS = 0.2
_MAX_PAUSE_SECONDS = 5.0
# After an error that trying again does not mend by itself.
_LONG_PAUSE_SECONDS = 60.0
# How often the census node is asked whether it still has the roster: a header, and no frame if it has.
_OFFER_MS = 300_000
# Frames that are sealed in one go.
_FRAMES_AT_ONCE = 8
# Errors that name a key which one of the agencies has not heard of yet.
_OF_A_KEY = frozenset({"BAD_SIGNATURE", "PEER_MISBEHAVED", "SEALED_WRONGLY", "UNKNOWN_KEY"})


def sign_roster(manifest: bytes, key: SigningKey) -> roster_pb2.SignedRosterManifest:
    """A roster's serialised manifest with the agency's signature."""
    return roster_pb2.SignedRosterManifest(
        manifest=manifest, signature=key.sign(ROSTER_DOMAIN + manifest), key_id=key.key_id
    )


class RosterAttempt:
    """The messages of one attempt, under a frame key that exists in this object only."""

    def __init__(
        self, roster: SentRoster, store: PeopleStore, key: SigningKey, census_key: SealingKey, randomness: Randomness
    ) -> None:
        self._store = store
        self._sealer = FrameSealer(randomness)
        payload = RosterPayload(self._sealer.frame_key, roster.salt, places=store.places, people=store.size)
        self._header = roster_pb2.RosterHeader(
            manifest=sign_roster(roster.manifest, key),
            sealed_key=census_key.seal(payload.to_bytes(), roster_info(hash_bytes(roster.manifest))),
        )

    @property
    def header(self) -> census_service_pb2.SendRosterRequest:
        """The first message."""
        return census_service_pb2.SendRosterRequest(header=self._header)

    async def frames(self) -> AsyncIterator[census_service_pb2.SendRosterRequest]:
        """The others, sealed in a thread. Take all of them once."""
        frames = self._frames()
        while batch := await asyncio.to_thread(lambda: list(islice(frames, _FRAMES_AT_ONCE))):
            for frame in batch:
                yield census_service_pb2.SendRosterRequest(frame=frame)

    def _frames(self) -> Iterator[roster_pb2.RosterFrame]:
        for index, last, plaintext in RosterFrames(self._store.pseudonyms, self._store.places):
            ciphertext = self._sealer.seal_frame(index, last, plaintext)
            yield roster_pb2.RosterFrame(index=index, last=last, ciphertext=ciphertext)


async def _sent(call: RosterCall, attempt: RosterAttempt) -> None:
    """Send everything; nothing but the header for a roster that is refused or there already."""
    try:
        await call.write(attempt.header)
        if PROCEED in tuple(await call.initial_metadata() or ()):
            async for frame in attempt.frames():
                await call.write(frame)
            await call.done_writing()
    except asyncio.InvalidStateError:
        # The call is over. How, it says itself.
        pass
    except AioRpcError as error:
        failure = broker_error(error, "census")
        if failure.code == "PEER_MISBEHAVED":
            # When a call ends while we write, the library may put a status of its own in place of its peer's.
            failure = PeerUnavailableError("PEER_UNAVAILABLE", peer="census")
        call.cancel()
        raise failure from error
    try:
        await calling("census", call)
    finally:
        call.cancel()


def _is_lasting(error: Exception) -> bool:
    """Whether the census node found fault with the roster itself, which the next attempt sends again."""
    return isinstance(error, InvalidRequestError) and error.code not in _OF_A_KEY


class RosterSender:
    """Sends the roster of the load in force: after a start, after every load, and after a change of the linkage key."""

    def __init__(
        self,
        node: HealthNode,
        link: CensusLink,
        *,
        manifest_key: Callable[[], SigningKey],
        randomness: Randomness,
        deadline_ms: int,
    ) -> None:
        self._node = node
        self._link = link
        self._manifest_key = manifest_key
        self._randomness = randomness
        self._deadline_seconds = deadline_ms / 1000
        # The last load whose roster the census node said it has, and when it last said so.
        self._sent = ""
        self._sent_ms = 0
        # The operator's last news.
        self._told = ""
        self._asked = asyncio.Event()

    async def run(self) -> None:
        """Again and again. Ends when cancelled, or with an error that stops the node."""
        pause = _FIRST_PAUSE_SECONDS
        while True:
            error = await self._tried()
            if error is None:
                pause = _FIRST_PAUSE_SECONDS
                await self._pause(_LOOK_SECONDS)
            else:
                await self._pause(_LONG_PAUSE_SECONDS if _is_lasting(error) else pause)
                pause = min(2 * pause, _MAX_PAUSE_SECONDS)

    def offer_again(self) -> None:
        """Ask the census node at once whether it has the roster: of a sample it has just said that it does not."""
        self._sent = ""
        self._asked.set()

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._asked.wait(), seconds)
        self._asked.clear()

    async def _tried(self) -> Exception | None:
        """One attempt, if there is anything to send; what went wrong with it."""
        news = self._link.news
        try:
            await self.send_due()
        except BrokerError as error:
            if error.stops_node:
                raise
            self._tell(error)
            if error.code in _OF_A_KEY:
                await self._link.has_news(news)
            return error
        except Exception as error:  # noqa: BLE001 - SECURITY: nothing that a peer sends may stop the node
            log_unforeseen(error)
            return error
        self._told = ""
        return None

    async def send_due(self) -> None:
        """Send the roster of the load in force, unless the census node has it; every few minutes it is asked again.

        Nothing is sent as long as a question that is under way stands for an older load.

        Raises:
            BrokerError: it does not have it yet.
        """
        load = await self._node.journal.glance(self._node.load_in_force)
        now_ms = self._node.clock()
        if not load or (load == self._sent and now_ms < self._sent_ms + _OFFER_MS):
            return
        numbered = await asyncio.to_thread(self._numbered, load)
        # SECURITY: after the load was seen in force. Whatever is accepted from then on stands for it, or for a newer one.
        if numbered is None or await self._stands_for_older(load):
            return
        roster, store = numbered
        census = await self._link.now()
        key = await self._node.journal.glance(self._manifest_key)
        attempt = await asyncio.to_thread(RosterAttempt, roster, store, key, census.sealing_key, self._randomness)
        try:
            await _sent(census.stub.SendRoster(timeout=self._deadline_seconds), attempt)
        except (InvalidRequestError, RefusedError) as error:
            await asyncio.to_thread(self._note_refusal, load, error.code)
            raise
        # CRASH: there and not noted here; the next start sends it again and is told at once.
        await asyncio.to_thread(self._acknowledge, load)
        if load != self._sent:
            _log.info("the census node has the roster of the load in force")
        self._sent, self._sent_ms = load, now_ms

    async def _stands_for_older(self, load: str) -> bool:
        """Whether a question that is under way was accepted on another load than this one."""
        under_way = frozenset(self._node.under_way)
        return not await self._node.journal.glance(self._node.loads_of, under_way) <= {load}

    def _numbered(self, load: str) -> tuple[SentRoster, PeopleStore] | None:
        try:
            store = self._node.people(load)
        except (InternalError, RefusedError):
            # Another load took its place meanwhile, and nobody needs its file any more.
            if load != self._node.load_in_force():
                return None
            raise
        roster = number_roster(self._node.journal, load, store, self._randomness)
        return None if roster is None else (roster, store)

    def _acknowledge(self, load: str) -> None:
        with self._node.journal.transaction() as transaction:
            RosterBook(transaction.db).acknowledge(load, self._node.journal.now())

    def _note_refusal(self, load: str, code: str) -> None:
        """For 'status' and 'doctor'. Every attempt is refused alike, and only the first one writes."""
        with self._node.journal.reading():
            is_known = RosterBook(self._node.journal.db).refusal(load) == code
        if not is_known:
            with self._node.journal.transaction() as transaction:
                RosterBook(transaction.db).refused(load, code)

    def _tell(self, error: BrokerError) -> None:
        """Tell the operator, once of each reason."""
        if error.code != self._told:
            self._told = error.code
            _log.warning(texts.ROSTER_WAITS, code=error.code, remedy=error.hint)
