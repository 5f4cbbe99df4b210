"""Agencies that cheat with their own keys: what their code would not do is done beside it, on the same journal.

A dishonest census agency holds every key and file of the census node, its noise secrets and yesterday's copies included. A
dishonest health agency cosigns what it likes. Nothing here forges what only the other side could have signed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import pytest
from fakes.links import NO_CONTEXT, CountScript, on_the_wire
from fakes.world import CENSUS_ORIGIN, HEALTH, Order, World
from tripartite.v1 import census_service_pb2, log_service_pb2, sample_pb2, ticket_pb2

from broker_common.crypto.commitments import commit_sample, hash_bytes, noise_seed
from broker_common.crypto.noise_stream import NoiseStream
from broker_common.crypto.signing import SigningKey
from broker_common.errors import BrokerError, error_for
from broker_common.privacy.table_laplace import add_noise
from broker_common.query.refusal import refusal_of
from broker_common.tlog.entries import Charged, Released
from broker_common.tlog.note import NoteVerifier
from broker_common.values import ExactCounts
from census_node.log_service import LogService
from census_node.node import CensusNode
from census_node.query import answering
from census_node.query.admission import SampleAttempt
from census_node.release.slot_secrets import SlotSecrets
from researcher_node.asking.session import Session
from researcher_node.trust.census_log import CensusLog


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
    """A census node that computes the noise of an answer when its head comes, before it says whether it takes the sample.

    It has every slot's secret, and remembers everything that every sample before has left with it. `foreseen` is what follows
    without the commitment that this sample's manifest brings; with it, the noise is known, and the question was handed over.
    """

    def __init__(self, world: World, patch: pytest.MonkeyPatch) -> None:
        self._world = world
        # Salt, manifest hash of the roster and bits of every sample that was handed over.
        self._seen: list[tuple[bytes, bytes, bytes]] = []
        # Every seed that can be computed of the newest head.
        self.foreseen: list[bytes] = []
        # The seeds that noise was drawn with.
        self.drawn: list[bytes] = []
        self.refused: list[int] = []
        verify, seed = SampleAttempt.verify_sample, noise_seed

        def remembering(attempt: SampleAttempt) -> None:
            verify(attempt)
            sample = attempt.sample
            self._seen.append((sample.bits.salt, sample.roster.manifest, sample.bits.bits.tobytes()))

        def noting(*arguments: Any, **named: Any) -> bytes:
            self.drawn.append(seed(*arguments, **named))
            return self.drawn[-1]

        patch.setattr(SampleAttempt, "verify_sample", remembering)
        patch.setattr(answering, "noise_seed", noting)

    def foreseeing(self, script: CountScript, *, refusals: int = 0, code: str = "SLOT_UNUSABLE") -> CountScript:
        """The script, with a look at the head first; so many samples are refused, for whatever reason."""

        async def follow(
            requests: AsyncIterator[census_service_pb2.CountRequest],
        ) -> AsyncIterator[census_service_pb2.CountResponse]:
            first = await anext(requests)
            noise = self._foresee(first.head)
            if len(self.refused) < refusals:
                self.refused.append(noise)
                raise on_the_wire(signed_refusal(self._world, first.head, code))

            async def whole() -> AsyncIterator[census_service_pb2.CountRequest]:
                yield first
                async for request in requests:
                    yield request

            async for response in script(whole()):
                yield response

        return follow

    @property
    def cohorts(self) -> set[bytes]:
        """The bits of every sample that was handed over."""
        return {bits for _, _, bits in self._seen}

    def _foresee(self, head: sample_pb2.SampleHead) -> int:
        """The noise of the answer, if it is given; keeps what could be known of it before its manifest."""
        body, ticket_hash = ticket_pb2.Ticket.FromString(head.ticket.ticket), hash_bytes(head.ticket.ticket)
        secret = SlotSecrets(self._world.census_folder / "slots").read(
            body.noise_slot.number, body.noise_slot.commitment
        )

        def seed(set_commitment: bytes) -> bytes:
            return noise_seed(secret, ticket_hash=ticket_hash, set_commitment=set_commitment, scale=body.scale, cells=1)

        guesses = [bytes(32), ticket_hash, body.criteria_commitment]
        for salt, roster, bits in self._seen:
            guesses += [
                hash_bytes(bits),
                salt,
                *(commit_sample(each, ticket_hash, roster, bits) for each in (bytes(32), salt)),
            ]
        self.foreseen = [seed(guess) for guess in guesses]
        committed = sample_pb2.Manifest.FromString(head.manifest.manifest).set_commitment
        return add_noise(ExactCounts([0]), body.scale, NoiseStream(seed(committed))).values[0]


def signed_refusal(
    world: World, head: sample_pb2.SampleHead, refused: str, *, key: SigningKey | None = None, **said: object
) -> BrokerError:
    """The refusal of a sample as the census node would sign it, for whatever reason; `said` is what it says otherwise."""
    refusal = refusal_of(
        head.ticket.ticket,
        head.manifest.manifest,
        code=refused,
        health=HEALTH.organisation,
        log=CENSUS_ORIGIN,
        roster=sample_pb2.Manifest.FromString(head.manifest.manifest).roster,
        size=world.census.publication.size,
        time_ms=world.census.journal.now(),
    )
    document = msgspec.structs.replace(refusal, **said).document
    key = world.secrets.refusal if key is None else key
    error = error_for(refused, {"scale": "30"} if refused in {"BUDGET_EXHAUSTED", "SCALE_REFUSED"} else {})
    error.signed_refusal = sample_pb2.SignedRefusal(
        document=document, signature=key.sign(document), key_id=key.key_id
    ).SerializeToString(deterministic=True)
    return error


def refusing(
    world: World, refused: str, *, when_whole: bool = True, key: SigningKey | None = None, **said: object
) -> CountScript:
    """A script: refuses every sample, when it is whole or when its head has come."""

    async def refuse(
        requests: AsyncIterator[census_service_pb2.CountRequest],
    ) -> AsyncIterator[census_service_pb2.CountResponse]:
        head = (await anext(requests)).head
        if when_whole:
            async for _ in requests:
                pass
        raise on_the_wire(signed_refusal(world, head, refused, key=key, **said))
        yield census_service_pb2.CountResponse()

    return refuse


def charged_otherwise(**changes: object) -> Any:
    """A maker of charges in the ledger's place: right but for `changes`, where a function is given what is right."""

    def make(**fields: Any) -> Charged:
        other = {name: value(fields[name]) if callable(value) else value for name, value in changes.items()}
        return Charged(**{**fields, **other})

    return make


def release_anyway(node: CensusNode, order: Order, checkpoint: str) -> BrokerError | None:
    """Log the release of a stored answer under any checkpoint; gives how the journal refused it."""
    answer = node.released.waiting_answer(order.body.query_id.hex())
    assert answer is not None
    event = Released(ticket=order.hash.hex(), answer=hash_bytes(answer.sealed).hex(), checkpoint=checkpoint)
    try:
        with node.journal.transaction() as transaction:
            transaction.append(event)
    except BrokerError as error:
        return error
    return None
