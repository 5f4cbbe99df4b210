"""The health node's witness against a census node that lies about its log: nothing false is cosigned, nobody is kept busy.

Every lie is told at every call until the test ends it. The health node then holds what it held before, its pauses grow to
the longest, and as soon as the census node is honest again questions are answered.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from fakes.patience import until
from fakes.world import CENSUS, CENSUS_ORIGIN, HEALTH_ORIGIN, RESEARCHER, World
from grpc import StatusCode
from grpc.aio import AioRpcError, Metadata
from protocol.log_link import WitnessScript
from protocol.pair import STAGES
from protocol.witnessed import WitnessedPair
from tripartite.v1 import log_service_pb2

from broker_common.crypto.signing import Purpose, SigningKey
from broker_common.errors import InternalError, StateUnknownError
from broker_common.storage.witnessing import CosignedNote, CosignedNotes
from broker_common.tlog.cosignature import MOST_SKEW_MS, Cosigner
from broker_common.tlog.note import MAX_NOTE_BYTES, NoteSigner
from census_node.node import CensusNode

Response = log_service_pb2.WitnessResponse
# Doubled every time, up to the longest.
PAUSES = [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]


@dataclass
class Stage:
    """A census log that has gone on since the health node cosigned it, and another history of it."""

    pair: WitnessedPair
    world: World
    # Checkpoint that the health node has cosigned; the honest log is larger by now.
    seen: CosignedNote
    # A log of the same keys that went another way before that checkpoint, and is larger too.
    fork: CensusNode

    @property
    def size(self) -> int:
        return self.world.census.journal.state.size

    def honest(self, **changes: object) -> Response:
        """An honest census node's log now, but for `changes`."""
        journal = self.world.census.journal
        fields = {
            "checkpoint": journal.checkpoint(),
            "consistency_proof": journal.consistency_proof(self.seen.size, self.size),
        }
        return Response(**{**fields, **changes})  # type: ignore[arg-type]  # fields of the message, by name


@pytest.fixture
async def stage(world: World) -> Stage:
    """The health node has cosigned once; the census log has grown since."""
    pair, fork = WitnessedPair(world, witness_wait_ms=50), world.fork_census()
    for node in (world.census, fork):
        world.grow_census(node)
    async with pair.witnessing():
        await until(lambda: pair.cosigned_by_health is not None)
    seen = pair.cosigned_by_health
    assert seen is not None
    for node in (world.census, fork):
        world.grow_census(node)
    assert seen.size < world.census.journal.state.size == fork.journal.state.size
    return Stage(pair, world, seen, fork)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Every pause of the witness, which takes no time here."""
    made: list[float] = []

    async def sleep(seconds: float) -> None:
        made.append(seconds)
        await asyncio.sleep(0)

    here = SimpleNamespace(sleep=sleep, to_thread=asyncio.to_thread, get_running_loop=asyncio.get_running_loop)
    monkeypatch.setattr("health_node.witness.asyncio", here)
    return made


def _stranger(purpose: Purpose) -> SigningKey:
    return SigningKey.generate(purpose, os.urandom)


def _signed(stage: Stage, size: int, root: bytes = bytes(32), name: str = CENSUS_ORIGIN) -> str:
    return NoteSigner(name, (stage.world.secrets.log,)).sign_checkpoint(size, root)


def _by_stranger(stage: Stage) -> Response:
    root = stage.world.census.journal.root(stage.size)
    note = NoteSigner(CENSUS_ORIGIN, (_stranger(Purpose.LOG),)).sign_checkpoint(stage.size, root)
    return stage.honest(checkpoint=note)


def _other_past(stage: Stage) -> Response:
    fork = stage.fork.journal
    return Response(
        checkpoint=fork.checkpoint(), consistency_proof=fork.consistency_proof(stage.seen.size, fork.state.size)
    )


def _cosigned_by_stranger(stage: Stage) -> Response:
    note = stage.pair.node.journal.checkpoint()
    return Response(cosigned=Cosigner(CENSUS_ORIGIN, _stranger(Purpose.WITNESS)).cosign(note, 1))


def _cosigned_what_we_never_signed(stage: Stage) -> Response:
    note = NoteSigner(HEALTH_ORIGIN, (_stranger(Purpose.LOG),)).sign_checkpoint(10**6, bytes(32))
    return Response(cosigned=stage.world.cosigner(CENSUS).cosign(note, 1))


LIES: dict[str, Callable[[Stage], Response]] = {
    "nothing new, at once": lambda _: Response(),
    "the same again": lambda stage: Response(checkpoint=stage.world.census.journal.checkpoint(stage.seen.size)),
    "a smaller log": lambda stage: Response(checkpoint=stage.world.census.journal.checkpoint(stage.seen.size - 1)),
    "an empty log": lambda stage: Response(checkpoint=_signed(stage, 0)),
    "another root of the same size": lambda stage: Response(checkpoint=_signed(stage, stage.seen.size)),
    "the other history, of the same size": lambda stage: Response(
        checkpoint=stage.fork.journal.checkpoint(stage.seen.size)
    ),
    "a larger log with another past": _other_past,
    "another root of a larger size": lambda stage: stage.honest(checkpoint=_signed(stage, stage.size)),
    "a size that no log has": lambda stage: stage.honest(checkpoint=_signed(stage, 2**62)),
    "no proof": lambda stage: stage.honest(consistency_proof=[]),
    "a proof that is too long": lambda stage: stage.honest(
        consistency_proof=[*stage.honest().consistency_proof, bytes(32)]
    ),
    "one hash of the proof": lambda stage: stage.honest(
        consistency_proof=[bytes(32), *stage.honest().consistency_proof[1:]]
    ),
    "a proof of short hashes": lambda stage: stage.honest(consistency_proof=[b"short"] * 3),
    "ten thousand hashes": lambda stage: stage.honest(consistency_proof=[bytes(32)] * 10_000),
    "another key": _by_stranger,
    "another log's name": lambda stage: stage.honest(
        checkpoint=_signed(stage, stage.size, stage.world.census.journal.root(stage.size), "another.example/log")
    ),
    "no signature": lambda stage: stage.honest(checkpoint=stage.honest().checkpoint.partition("\n\n")[0] + "\n"),
    "garbage": lambda stage: stage.honest(checkpoint="garbage"),
    "controls": lambda stage: stage.honest(checkpoint="\x01" * 500),
    "a giant note": lambda stage: stage.honest(checkpoint="x" * (MAX_NOTE_BYTES + 1)),
    "a cosignature that is garbage": lambda _: Response(cosigned="garbage"),
    "a cosignature by another key": _cosigned_by_stranger,
    "a cosignature on what we never signed": _cosigned_what_we_never_signed,
    "our own checkpoint without a cosignature": lambda stage: Response(cosigned=stage.pair.node.journal.checkpoint()),
}


@pytest.mark.parametrize("what", LIES)
async def test_lie_about_the_census_log_is_never_cosigned(stage: Stage, pauses: list[float], what: str) -> None:
    """Caught by the health node's Witnessing: what does not go on from what was cosigned last never is."""

    async def lying(_: log_service_pb2.WitnessRequest) -> Response:
        return LIES[what](stage)

    await verify_backs_off(stage, pauses, lying)


ERRORS: dict[str, Callable[[], Exception]] = {
    "broken": lambda: InternalError("INTEGRITY", problem="ours"),
    "rolled back": lambda: InternalError("ROLLED_BACK", witness="somebody", problem="ours"),
    "does not know": lambda: StateUnknownError("STATE_UNKNOWN"),
    "gone": lambda: AioRpcError(StatusCode.UNAVAILABLE, Metadata(), Metadata()),
    "an unknown status": lambda: AioRpcError(StatusCode.UNKNOWN, Metadata(), Metadata(), details="?"),
    "a bug": lambda: RuntimeError("nobody has foreseen this"),
}


@pytest.mark.parametrize("what", ERRORS)
async def test_error_of_the_census_node_is_not_the_health_nodes_own(
    stage: Stage, pauses: list[float], what: str
) -> None:
    """Caught by the table of statuses: an error that would stop the node if it were ours is the census node's."""

    async def failing(_: log_service_pb2.WitnessRequest) -> Response:
        error = ERRORS[what]()
        raise error

    await verify_backs_off(stage, pauses, failing)


async def test_cosignature_of_a_time_to_come_is_a_place_to_prove_from(stage: Stage, pauses: list[float]) -> None:
    """It is kept: no entry names it, an auditor asks for it, and the next proof starts from there."""
    del pauses
    world, pair, journal = stage.world, stage.pair, stage.pair.node.journal
    order = world.order()
    pair.node.accept(order.submission, pair.node.verify(order.submission, RESEARCHER, world.policy))
    shown_size = journal.state.size
    late_s = (world.health_clock() + MOST_SKEW_MS) // 1000 + 1
    note = world.cosigner(CENSUS).cosign(journal.checkpoint(), late_s)

    async def ahead(_: log_service_pb2.WitnessRequest) -> Response:
        return Response(cosigned=note)

    pair.logs.script = ahead
    async with pair.witnessing():
        await pair.rounds(2)
        order = world.order()
        pair.node.accept(order.submission, pair.node.verify(order.submission, RESEARCHER, world.policy))
        await pair.rounds(2)
    size = journal.state.size
    assert size > shown_size
    assert list(pair.logs.requests[-1].consistency_proof) == journal.consistency_proof(shown_size, size)
    with journal.reading():
        assert note in [each.note for each in CosignedNotes(journal.db).of(HEALTH_ORIGIN)]


async def test_census_node_that_never_answers_is_given_up(
    stage: Stage, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Caught by the call's deadline: a witness that hangs would never cosign again."""
    monkeypatch.setattr("health_node.witness._WAIT_MS", 0)

    async def hanging(_: log_service_pb2.WitnessRequest) -> Response:
        await asyncio.Event().wait()
        return Response()

    # With calls that are never answered, and with no others; a call without a deadline keeps none.
    stage.pair.logs.deadline = lambda timeout: 0.02 if timeout and stage.pair.logs.script is hanging else timeout
    await verify_backs_off(stage, pauses, hanging)


async def verify_backs_off(stage: Stage, pauses: list[float], script: WitnessScript) -> None:
    """Told this again and again, the witness cosigns nothing, waits longer and longer, and the node goes on."""
    pair = stage.pair
    pair.logs.script = script
    async with pair.witnessing() as running:
        await pair.rounds(len(PAUSES) + 1)
        assert not running.done()
        assert pauses[: len(PAUSES)] == PAUSES
        assert pair.cosigned_by_health == stage.seen
        pair.logs.script = pair.logs.honestly
        order = stage.world.order()
        assert await pair.submit(order) == STAGES
        assert not running.done()
    cosigned = pair.cosigned_by_health
    assert cosigned is not None
    assert cosigned.size > stage.seen.size
    assert pair.health_stop.error is None
    pair.verify(order, answered=True)


async def test_lie_delays_no_longer_than_the_longest_pause(stage: Stage, pauses: list[float]) -> None:
    """After a round that cosigned something the pauses start over: what was said once is not held against anybody."""
    pair = stage.pair

    async def lying(_: log_service_pb2.WitnessRequest) -> Response:
        return Response()

    async with pair.witnessing():
        for _ in range(2):
            pair.logs.script = lying
            pauses.clear()
            await until(lambda: len(pauses) > 4)
            assert 2.0 >= max(pauses) > PAUSES[0]
            pair.logs.script = pair.logs.honestly
            size = stage.world.grow_census()
            await until(lambda size=size: (pair.cosigned_by_health or stage.seen).size == size)  # type: ignore[misc]
    assert pauses.count(PAUSES[0]) >= 1
