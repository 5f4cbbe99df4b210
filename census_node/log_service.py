"""The census log as outsiders may see it, and how the two agencies watch each other's logs grow.

Proofs are given about what a health agency has cosigned, and about nothing newer: how long the log is at any other instant
would tell what other questions were doing then.
"""

from __future__ import annotations

import asyncio

import structlog
from grpc.aio import ServicerContext
from tripartite.v1 import log_service_pb2, log_service_pb2_grpc

from broker_common.errors import InvalidRequestError
from broker_common.parties.peers import KnownPeers
from broker_common.rpc.callers import caller
from broker_common.rpc.news import News
from broker_common.rpc.server import StopSignal
from broker_common.storage.witnessing import Witnessing
from broker_common.tlog.note import parse_note
from census_node.config import LimitConfig
from census_node.node import CensusNode

Context = ServicerContext[object, object]
_log = structlog.get_logger()


class LogService(log_service_pb2_grpc.LogServiceServicer):
    """tripartite.v1.LogService."""

    def __init__(
        self, node: CensusNode, witnessing: Witnessing, known: KnownPeers, limits: LimitConfig, stop: StopSignal
    ) -> None:
        self._node = node
        self._publication = node.publication
        self._witnessing = witnessing
        self._known = known
        self._limits = limits
        # How much of our log each agency has cosigned, as far as we have been told.
        self._heard: dict[str, int] = {}
        self._stop = stop
        self._news = News()
        self._publication.on_news(self._news.tell)
        stop.on_stop(self._news.tell)

    # --- for everybody ---------------------------------------------------------------------------------------------

    async def GetCheckpoint(
        self, request: log_service_pb2.GetCheckpointRequest, context: Context
    ) -> log_service_pb2.GetCheckpointResponse:
        del request, context
        note = await asyncio.to_thread(self._publication.cosigned_by_most, 0)
        return log_service_pb2.GetCheckpointResponse(checkpoint=note or "")

    async def GetInclusionProof(
        self, request: log_service_pb2.GetInclusionProofRequest, context: Context
    ) -> log_service_pb2.GetInclusionProofResponse:
        del context
        await self._verify_shown(request.size, request.index < request.size)
        proof = await asyncio.to_thread(self._node.journal.inclusion_proof, request.index, request.size)
        return log_service_pb2.GetInclusionProofResponse(proof=proof)

    async def GetConsistencyProof(
        self, request: log_service_pb2.GetConsistencyProofRequest, context: Context
    ) -> log_service_pb2.GetConsistencyProofResponse:
        del context
        await self._verify_shown(request.size, request.old_size <= request.size)
        proof = await asyncio.to_thread(self._node.journal.consistency_proof, request.old_size, request.size)
        return log_service_pb2.GetConsistencyProofResponse(proof=proof)

    async def _verify_shown(self, size: int, is_sound: bool) -> None:
        """Return only if a proof about the log of `size` entries tells nothing that is not shown."""
        cosigned = await self._node.journal.glance(self._publication.cosigned)
        if not is_sound or cosigned is None or size > cosigned.size:
            raise InvalidRequestError("MALFORMED_MESSAGE", problem="there is no cosigned checkpoint of that size")

    # --- between the agencies --------------------------------------------------------------------------------------

    async def Witness(
        self, request: log_service_pb2.WitnessRequest, context: Context
    ) -> log_service_pb2.WitnessResponse:
        """1. what we cosign of the caller's log, 2. what it has cosigned of ours, 3. what there is for it to cosign next."""
        del context
        agency = caller().organisation
        seen, cosigned = await asyncio.to_thread(self._exchange, agency, request)  # 1, 2
        newer = await self._newer_than(seen, min(request.wait_ms, self._limits.witness_wait_ms))  # 3
        if newer is None:
            return log_service_pb2.WitnessResponse(cosigned=cosigned)
        size, note = newer
        proof = await self._node.journal.glance(self._node.journal.consistency_proof, seen, size)
        return log_service_pb2.WitnessResponse(checkpoint=note, consistency_proof=proof, cosigned=cosigned)

    def _exchange(self, agency: str, request: log_service_pb2.WitnessRequest) -> tuple[int, str]:
        # In this order: an auditor who is shown what the caller has cosigned asks for what we had cosigned by then.
        cosigned = self._cosign(agency, request)
        return self._take(agency, request.cosigned), cosigned

    def _take(self, agency: str, note: str) -> int:
        """Keep what the caller has cosigned; gives its size."""
        if not note:
            return 0
        try:
            seen = self._witnessing.take(note, self._known.own_log(), self._known.witness("health", agency))
        except InvalidRequestError as error:
            # Its keys may have ended, or a clock was wrong. It lets no answer out, but the next proof starts from it: if it
            # were refused, the caller could never cosign again.
            if error.code not in {"BAD_SIGNATURE", "COSIGNED_AHEAD"} or not self._witnessing.is_ours(note):
                raise
            _log.warning("the health agency's cosignature is not kept", agency=agency, code=error.code)
            return parse_note(note)[0].size
        if seen.size > self._heard.get(agency, 0):
            # A repeated message is no news: an agency that repeats itself wakes nobody.
            self._heard[agency] = seen.size
            self._publication.hear()
        return seen.size

    def _cosign(self, agency: str, request: log_service_pb2.WitnessRequest) -> str:
        """Cosign what the caller shows of its log; a history that contradicts itself is answered with what was seen."""
        if not request.checkpoint:
            return ""
        log = self._known.log("health", agency)
        try:
            return self._witnessing.cosign(request.checkpoint, request.consistency_proof, log)
        except InvalidRequestError as error:
            if error.code != "COMMITMENT_MISMATCH":
                raise
            # SECURITY: nothing of ours waits for the other log, and its operator must hear of it.
            _log.error("the health agency shows another history of its log than before", agency=agency)
            seen = self._witnessing.seen(log.name)
            return "" if seen is None else seen.note

    async def _newer_than(self, size: int, wait_ms: int) -> tuple[int, str] | None:
        """The published log, as soon as it has more than `size` entries; None when the wait is over, or the node stops."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_ms / 1000
        while True:
            news = self._news.next()
            newer = await self._node.journal.glance(self._publication.newer_than, size)
            left = deadline - loop.time()
            if newer is not None or left <= 0 or self._stop.is_set:
                return newer
            await asyncio.wait([news], timeout=left)
