"""Agencies that cheat with their own keys: what their code would not do is done beside it, on the same journal.

A dishonest census agency holds every key and file of the census node, its noise secrets and yesterday's copies included. A
dishonest health agency cosigns what it likes. Nothing here forges what only the other side could have signed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fakes.links import NO_CONTEXT
from fakes.world import CENSUS_ORIGIN, HEALTH, Order, World
from tripartite.v1 import log_service_pb2

from broker_common.crypto.commitments import hash_bytes
from broker_common.errors import BrokerError
from broker_common.tlog.entries import Charged, Released
from broker_common.tlog.note import NoteVerifier
from census_node.log_service import LogService
from census_node.node import CensusNode
from researcher_node.asking import Session
from researcher_node.census_log import CensusLog

__all__ = ["LogSession", "charged_otherwise", "known_census_log", "release_anyway"]


def known_census_log(world: World) -> CensusLog:
    """The census log as a researcher knows it from the cards."""
    signers = NoteVerifier(CENSUS_ORIGIN, (world.secrets.log.verify_key,))
    return CensusLog(signers, world.cosigner(HEALTH).verifier)


class LogSession(Session):
    """A researcher's session with one log service in the same process; it can do nothing but look at the log."""

    def __init__(self, world: World, service: LogService) -> None:
        # No channel is ever opened, so that nothing of a session is needed.
        self._known = known_census_log(world)
        self._service = service

    def census_log(self) -> CensusLog:
        return self._known

    async def cosigned_checkpoint(self) -> str:
        return (await self._service.GetCheckpoint(log_service_pb2.GetCheckpointRequest(), NO_CONTEXT)).checkpoint

    async def consistency_proof(self, old_size: int, size: int) -> Sequence[bytes]:
        request = log_service_pb2.GetConsistencyProofRequest(old_size=old_size, size=size)
        return (await self._service.GetConsistencyProof(request, NO_CONTEXT)).proof


def charged_otherwise(**changes: object) -> Any:
    """What makes charges in the ledger's place: right but for `changes`, where a function is given what is right."""

    def make(**fields: Any) -> Charged:
        other = {name: value(fields[name]) if callable(value) else value for name, value in changes.items()}
        return Charged(**{**fields, **other})

    return make


def release_anyway(node: CensusNode, order: Order, checkpoint: str) -> BrokerError | None:
    """Log the release of a stored answer under any checkpoint; gives how the journal refused it."""
    answer = node.waiting_answer(order.body.query_id.hex())
    assert answer is not None
    event = Released(ticket=order.hash.hex(), answer=hash_bytes(answer.sealed).hex(), checkpoint=checkpoint)
    try:
        with node.journal.transaction() as transaction:
            transaction.append(event)
    except BrokerError as error:
        return error
    return None
