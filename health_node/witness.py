"""The health node as a witness of the census log: no answer leaves before it has cosigned the charge.

One round after the other: say what was cosigned last, hear of a newer checkpoint, verify that the log goes on from there,
note it durably, cosign. The same calls show the census node our own log, and tell us what it has seen of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog
from tripartite.v1 import log_service_pb2

from broker_common.errors import BrokerError, InvalidRequestError, PeerUnavailableError
from broker_common.logs import log_unforeseen
from broker_common.parties.peers import KnownPeers
from broker_common.rpc.status import calling
from broker_common.storage.journal import Journal
from broker_common.storage.witnessing import Witnessing
from broker_common.tlog.health_state import HealthState
from broker_common.tlog.note import NoteVerifier, parse_note
from health_node.census_link import CensusLink

_log = structlog.get_logger()
# How long the census node is asked to hold a call open until there is something to cosign.
_WAIT_MS = 10_000
# For the rest of a call.
_CALL_SECONDS = 10.0
# After a round that came to nothing: doubled every time, up to the longest.
_FIRST_PAUSE_SECONDS = 0.1
_MAX_PAUSE_SECONDS = 2.0
# A round fails with one of these when one side has a card that the other has not heard of.
_OF_A_KEY = frozenset({"BAD_SIGNATURE", "PEER_MISBEHAVED"})


class CensusWitness:
    """The rounds between this node and the census node."""

    def __init__(
        self,
        link: CensusLink,
        journal: Journal[HealthState],
        *,
        known: KnownPeers,
        witnessing: Witnessing,
        census: str,
        heard: Callable[[], object] = lambda: None,
    ) -> None:
        """`heard` is called whenever the census node has answered."""
        self._heard = heard
        self._link = link
        self._journal = journal
        self._known = known
        self._witnessing = witnessing
        self._census = census
        # How much of our own log the census node said in the last round that it has cosigned; None: that round failed, or
        # there was none. A proof from anything else would look to it like another history.
        self._shown: int | None = None

    async def run(self) -> None:
        """Round after round. Ends when cancelled, or with an error that stops the node."""
        loop, pause = asyncio.get_running_loop(), _FIRST_PAUSE_SECONDS
        while True:
            started = loop.time()
            if await self._tried() or loop.time() - started >= _MAX_PAUSE_SECONDS:
                pause = _FIRST_PAUSE_SECONDS
                continue
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE_SECONDS)

    async def _tried(self) -> bool:
        """One round; True if something was cosigned."""
        news = self._link.news
        try:
            return await self._round()
        except BrokerError as error:
            if error.stops_node:
                raise
            _log.info("the census log was not cosigned", code=error.code)
            if error.code in _OF_A_KEY:
                # A key of ours that they have not heard of, or one of theirs: every answer waits until they have.
                await self._link.has_news(news)
        except Exception as error:  # noqa: BLE001 - SECURITY: nothing that a peer sends may stop the node
            log_unforeseen(error)
        return False

    async def _round(self) -> bool:
        # A cosignature under a key that the census node has not heard of lets no answer out.
        await self._link.tell_card()
        census = await self._link.now()
        request = await self._journal.glance(self._request)
        self._shown = None
        timeout = _WAIT_MS / 1000 + _CALL_SECONDS
        response = await calling("census", census.logs.Witness(request, timeout=timeout, wait_for_ready=True))
        self._heard()
        return await asyncio.to_thread(self._take, response)

    def _request(self) -> log_service_pb2.WitnessRequest:
        census = self._known.card("census", self._census).card.origin
        seen = self._witnessing.seen(census)
        with self._journal.reading() as state:
            size = state.size
        proof = self._journal.consistency_proof(self._shown, size) if self._shown else []
        return log_service_pb2.WitnessRequest(
            # Said with a proof only: an auditor takes it that the census node, which hears this, has cosigned our log as it is.
            cosigned="" if seen is None or self._shown is None else seen.note,
            checkpoint=self._journal.checkpoint(size),
            consistency_proof=proof,
            # The first thing to hear is what the census node has seen of our log.
            wait_ms=0 if self._shown is None else _WAIT_MS,
        )

    def _take(self, response: log_service_pb2.WitnessResponse) -> bool:
        """Keep what the census node says of our log, and cosign what it shows of its own."""
        self._shown = self._heard_of_our_own(response.cosigned)
        if not response.checkpoint:
            return False
        log = self._known.log("census", self._census)
        before = self._seen_size(log)
        try:
            self._witnessing.cosign(response.checkpoint, response.consistency_proof, log)
        except InvalidRequestError as error:
            # SECURITY: two histories. Nothing is cosigned, so no answer leaves; the operators have to talk.
            _log.error("the census log is not the one that was seen before", code=error.code)
            raise PeerUnavailableError(
                "PEER_MISBEHAVED", peer="census", problem="another history of its log than before"
            ) from error
        # A repeated checkpoint is no progress: a census node that shows nothing new must not keep us busy.
        return self._seen_size(log) > before

    def _seen_size(self, log: NoteVerifier) -> int:
        seen = self._witnessing.seen(log.name)
        return 0 if seen is None else seen.size

    def _heard_of_our_own(self, note: str) -> int | None:
        """How much of our own log the census node has cosigned; None if that cannot be read."""
        if not note:
            return 0
        witness = self._known.witness("census", self._census)
        try:
            # Its time does not matter: an auditor asks for it, and the census node's clock must not make us lack it.
            return self._witnessing.take(note, self._known.own_log(), witness, of_any_time=True).size
        except InvalidRequestError as error:
            # No reason to cosign nothing: it may be under a key whose card has not come yet.
            _log.warning("the census node's cosignature of our log is not kept", code=error.code)
            if error.code != "BAD_SIGNATURE" or not self._witnessing.is_ours(note):
                return None
            # The next proof has to start from there: without one the census node could never cosign again.
            return parse_note(note)[0].size
