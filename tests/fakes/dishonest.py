"""Agencies that cheat with their own keys: what their code would not do is done beside it, on the same journal.

A dishonest census agency holds every key and file of the census node, its noise secrets and yesterday's copies included. A
dishonest health agency cosigns what it likes. Nothing here forges what only the other side could have signed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from fakes.links import NO_CONTEXT, CountScript, on_the_wire
from fakes.world import CENSUS_ORIGIN, HEALTH, Order, World
from tripartite.v1 import census_service_pb2, log_service_pb2, sample_pb2, ticket_pb2

from broker_common.crypto.commitments import commit_set, hash_bytes, noise_seed
from broker_common.crypto.noise_stream import NoiseStream
from broker_common.errors import BrokerError, InvalidRequestError
from broker_common.privacy.discrete_laplace import add_noise
from broker_common.tlog.entries import Charged, Released
from broker_common.tlog.note import NoteVerifier
from broker_common.values import ExactCount
from census_node import answering
from census_node.admission import Admission, AdmittedSample
from census_node.log_service import LogService
from census_node.node import CensusNode
from census_node.slot_secrets import SlotSecrets
from researcher_node.asking import Session
from researcher_node.census_log import CensusLog

__all__ = ["ForeseeingCensus", "LogSession", "charged_otherwise", "known_census_log", "release_anyway"]


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


class ForeseeingCensus:
    """A census node that computes the noise of an answer when its header comes, before it says whether it takes the sample.

    It has every slot's secret, and remembers everything that every sample before has left with it.
    """

    def __init__(self, world: World, patch: pytest.MonkeyPatch) -> None:
        self._world = world
        # Salt and hash of every set that was handed over.
        self._seen: list[tuple[bytes, bytes]] = []
        # Of the newest header: every seed that can be computed.
        self.foreseen: list[bytes] = []
        # The seeds that noise was drawn with.
        self.drawn: list[bytes] = []
        self.refused: list[int] = []
        finish, seed = Admission.finish, noise_seed

        def remembering(admission: Admission, signed: sample_pb2.SignedManifest) -> AdmittedSample:
            sample = finish(admission, signed)
            self._seen.append((sample.set_salt, sample.set_hash))
            return sample

        def noting(*arguments: Any, **named: Any) -> bytes:
            self.drawn.append(seed(*arguments, **named))
            return self.drawn[-1]

        patch.setattr(Admission, "finish", remembering)
        patch.setattr(answering, "noise_seed", noting)

    def foreseeing(self, script: CountScript, *, refusals: int = 0) -> CountScript:
        """The script, with a look at the header first; so many headers are refused, for a slot that was said to serve."""

        async def follow(
            requests: AsyncIterator[census_service_pb2.CountRequest],
        ) -> AsyncIterator[census_service_pb2.CountResponse]:
            first = await anext(requests)
            noise = self._foresee(first.header)
            if len(self.refused) < refusals:
                self.refused.append(noise)
                raise on_the_wire(InvalidRequestError("SLOT_UNUSABLE"))

            async def whole() -> AsyncIterator[census_service_pb2.CountRequest]:
                yield first
                async for request in requests:
                    yield request

            async for response in script(whole()):
                yield response

        return follow

    def _foresee(self, header: sample_pb2.SampleHeader) -> int:
        """The noise, if the sample is the one that it was last time."""
        body, ticket_hash = ticket_pb2.Ticket.FromString(header.ticket.ticket), hash_bytes(header.ticket.ticket)
        secret = SlotSecrets(self._world.census_folder / "slots").read(
            body.noise_slot.number, body.noise_slot.commitment
        )
        guesses = [bytes(32), ticket_hash, body.criteria_commitment]
        for salt, set_hash in self._seen:
            guesses += [
                set_hash,
                salt,
                commit_set(bytes(32), ticket_hash, set_hash),
                commit_set(salt, ticket_hash, set_hash),
            ]
        self.foreseen = [
            noise_seed(secret, ticket_hash=ticket_hash, set_commitment=guess, scale=body.scale) for guess in guesses
        ]
        return add_noise(ExactCount(0), body.scale, NoiseStream(self.foreseen[-1])).value


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
