"""A health agency that cheats as a witness: it can hold answers up, and can neither forge one nor stop the census node.

The attacker has every key of the health agency and says what it likes in `Witness`; the census node is the real one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

import pytest
from fakes.links import NO_CONTEXT
from fakes.patience import NEVER_SECONDS, PATIENCE_SECONDS, until
from fakes.world import CENSUS_ORIGIN, HEALTH, HEALTH_ORIGIN, OTHER_HEALTH, RESEARCHER, Order, World
from protocol.log_link import log_service
from protocol.pair import STAGES
from protocol.witnessed import WitnessedPair
from structlog.testing import capture_logs
from tripartite.v1 import log_service_pb2

from broker_common.crypto.certificates import Identity
from broker_common.crypto.signing import Purpose, SigningKey
from broker_common.errors import InternalError, InvalidRequestError, PeerUnavailableError
from broker_common.parties.registration import revoke
from broker_common.rpc.callers import set_caller
from broker_common.storage.witnessing import CosignedNotes
from broker_common.tlog.cosignature import MOST_SKEW_MS, Cosigner
from broker_common.tlog.entries import Released
from broker_common.tlog.note import MAX_NOTE_BYTES, NoteSigner, parse_note
from census_node.config import LimitConfig
from census_node.log_service import LogService

Request = log_service_pb2.WitnessRequest
Response = log_service_pb2.WitnessResponse


@pytest.fixture
async def service(world: World) -> LogService:
    """The census node's log service; nobody cosigns on their own."""
    world.cosigning = False
    return log_service(world, world.census, LimitConfig())


async def say(
    service: LogService, sender: Identity = HEALTH, *, cosigned: str = "", checkpoint: str = "", wait_ms: int = 0
) -> Response:
    """One call of Witness."""
    set_caller(sender)
    return await service.Witness(Request(cosigned=cosigned, checkpoint=checkpoint, wait_ms=wait_ms), NO_CONTEXT)


def waiting(world: World) -> Order:
    """An order that is charged and published and waits for its cosignature."""
    order = world.order()
    world.charge(order)
    with pytest.raises(PeerUnavailableError, match="NOT_WITNESSED"):
        world.release(order)
    return order


def shown(world: World) -> str:
    """The log that the census node shows."""
    newest = world.census.publication.newer_than(0)
    assert newest is not None
    return newest[1]


def verify_waits(world: World, order: Order) -> None:
    """The answer has not left, and leaves when the health agency cosigns honestly."""
    with world.unchanged(), pytest.raises(PeerUnavailableError, match="NOT_WITNESSED"):
        world.release(order)
    assert world.census.released.released_answer(order.body.query_id.hex(), RESEARCHER) is None
    world.cosign()
    world.release(order)
    assert world.open(order, world.sealed(order)).scale == 30
    world.cosigning = True
    world.verify_honest_query()


# --- withholding -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("restart", [False, True], ids=["same process", "after a restart"])
async def test_withheld_cosignature(world: World, restart: bool) -> None:
    """Caught by nobody, since nobody is harmed: the answer waits, its place does not, and it goes out when cosigned.

    Each of two places is taken by an answer that is not cosigned; after `cosignature_wait_ms` others find them free.
    """
    pair = WitnessedPair(world, max_queries=2, cosignature_wait_ms=100)
    orders = [world.order() for _ in range(4)]
    for two in (orders[:2], orders[2:]):
        assert await asyncio.gather(*map(pair.submit, two)) == ["NOT_WITNESSED"] * 2
    pair.verify_nothing_held()
    assert len(world.charges()) == 4
    for order in orders:
        assert await pair.collect(order) == b""
    if restart:
        pair.restart_census()
        assert await pair.collect(orders[0]) == b""
    pair.be_patient()
    async with pair.witnessing():
        for order in orders:
            await until(lambda order=order: _is_out(world, order))  # type: ignore[misc]
            pair_answer = await pair.collect(order)
            assert isinstance(pair_answer, bytes)
            assert world.open(order, pair_answer).scale == 30
        # The health node hears of its own tickets' end when they are asked again.
        for order in orders:
            assert await pair.submit(order) == STAGES
    assert len(world.charges()) == 4
    world.verify_log()
    world.verify_health_log()


def _is_out(world: World, order: Order) -> bool:
    return world.census.released.released_answer(order.body.query_id.hex(), RESEARCHER) is not None


async def test_withheld_cosignature_of_quotes(world: World, service: LogService) -> None:
    """Caught by the quote: no slot is offered that is not cosigned, and it is as soon as it is."""
    del service
    restarted = world.crash_census()
    restarted.recover()
    assert restarted.quotes.offer_slot(RESEARCHER, world.policy) is None
    world.cosign()
    assert restarted.quotes.offer_slot(RESEARCHER, world.policy) is not None


async def test_cosignature_of_another_health_agency(world: World, service: LogService) -> None:
    """Caught by the release: only the agency whose sample it was can let an answer out."""
    order = waiting(world)
    note = world.cosigner(OTHER_HEALTH).cosign(shown(world), 1)
    await say(service, OTHER_HEALTH, cosigned=note)
    assert world.census.publication.cosigned(world.verify_log().tickets[order.hash.hex()].index) is not None
    verify_waits(world, order)


# --- false cosignatures ----------------------------------------------------------------------------------------------


def _by_stranger(world: World) -> str:
    key = SigningKey.generate(Purpose.WITNESS, os.urandom)
    return Cosigner(HEALTH_ORIGIN, key).cosign(shown(world), 1)


def _by_the_other_agency(world: World) -> str:
    return world.cosigner(OTHER_HEALTH).cosign(shown(world), 1)


def _under_the_other_name(world: World) -> str:
    return Cosigner("other-health.example/test", world.cosigner(HEALTH).key).cosign(shown(world), 1)


def _invented(world: World) -> str:
    key = SigningKey.generate(Purpose.LOG, os.urandom)
    note = NoteSigner(CENSUS_ORIGIN, (key,)).sign_checkpoint(10**6, bytes(32))
    return world.cosigner(HEALTH).cosign(note, 1)


def _of_its_own_log(world: World) -> str:
    return world.cosigner(HEALTH).cosign(world.health_log.sign_checkpoint(10**6, bytes(32)), 1)


def _with_another_size(world: World) -> str:
    note = world.cosigner(HEALTH).cosign(shown(world), 1)
    size = parse_note(note)[0].size
    return note.replace(f"\n{size}\n", f"\n{size + 1}\n", 1)


def _ahead_of_time(world: World) -> str:
    return world.cosigner(HEALTH).cosign(shown(world), (world.clock() + MOST_SKEW_MS) // 1000 + 1)


FALSE_COSIGNATURES: dict[str, tuple[Callable[[World], str], str]] = {
    # About a log that was once like that, which is a place for the next proof to start from and nothing else.
    "a key of its own making": (_by_stranger, ""),
    "the cosignature of another agency": (_by_the_other_agency, ""),
    "its own key under another name": (_under_the_other_name, ""),
    "no cosignature at all": (shown, ""),
    "a time in the future": (_ahead_of_time, ""),
    "a census note of its own making": (_invented, "BAD_SIGNATURE"),
    "a note of its own log": (_of_its_own_log, "BAD_SIGNATURE"),
    "a note with another size": (_with_another_size, "BAD_SIGNATURE"),
    "garbage": (lambda _: "garbage", "MALFORMED_MESSAGE"),
    "controls": (lambda _: "\x01" * 100, "MALFORMED_MESSAGE"),
    "a giant note": (lambda _: "x" * (MAX_NOTE_BYTES + 1), "MALFORMED_MESSAGE"),
}


@pytest.mark.parametrize("what", FALSE_COSIGNATURES)
async def test_false_cosignature(world: World, service: LogService, what: str) -> None:
    """Caught by Witnessing.take: the log's own signature first, then the agency's; nothing is kept, and the node goes on."""
    order = waiting(world)
    make, code = FALSE_COSIGNATURES[what]
    before = kept_notes(world)
    said = ""
    try:
        assert await say(service, cosigned=make(world)) == Response()
    except InvalidRequestError as error:
        said = error.code
    assert said == code
    assert kept_notes(world) == before
    verify_waits(world, order)


async def test_what_a_health_agency_adds_to_a_note_goes_nowhere(world: World, service: LogService) -> None:
    """Not into the release, which the census log would have to explain, nor into the notes that all researchers are shown.

    A note padded to the last byte would leave no room for another agency's line, and its researchers without quotes.
    """
    order = waiting(world)
    honest = world.cosigner(HEALTH).cosign(shown(world), 7)
    line = f"\u2014 x.example/{'x' * 400} AAAAAA==\n"
    padded = honest + line * ((MAX_NOTE_BYTES - len(honest.encode())) // len(line.encode()))
    await say(service, cosigned=padded)
    await say(service, OTHER_HEALTH, cosigned=world.cosigner(OTHER_HEALTH).cosign(shown(world), 8))
    whole = world.census.publication.cosigned_by_most(0)
    assert whole is not None
    assert world.cosigner(OTHER_HEALTH).verifier.verify(whole).time_s == 8
    assert line not in whole
    world.release(order)
    assert [event.checkpoint for event in world.events(Released)] == [honest]


def kept_notes(world: World) -> list[object]:
    """The census node's cosigned notes, of its own log and of the health agency's."""
    journal = world.census.journal
    with journal.reading():
        notes = CosignedNotes(journal.db)
        return [*notes.of(CENSUS_ORIGIN), *notes.of(HEALTH_ORIGIN)]


async def test_larger_note_that_we_really_signed(world: World, service: LogService) -> None:
    """Caught by Witnessing.take, as a rollback of our own: nobody else can have signed it, so the node must stop.

    A health agency cannot bring this about unless there has been such a log.
    """
    ahead = world.fork_census()
    for _ in range(3):
        world.grow_census(ahead)
    note = world.cosigner(HEALTH).cosign(ahead.journal.checkpoint(), 1)
    with pytest.raises(InternalError, match="ROLLED_BACK") as caught:
        await say(service, cosigned=note)
    assert caught.value.stops_node


async def test_replayed_cosigned_notes(world: World, service: LogService) -> None:
    """Caught by the table of cosigned notes: an older one never takes the place of a newer one, and releases nothing."""
    notes = []
    for _ in range(4):
        world.grow_census()
        notes.append(world.cosigner(HEALTH).cosign(shown(world), 1))
        await say(service, cosigned=notes[-1])
    order = waiting(world)
    for old in (*notes, notes[0]):
        response = await say(service, cosigned=old)
        newest = world.census.publication.cosigned(witness=HEALTH_ORIGIN)
        assert newest is not None
        assert newest.note == notes[-1]
        # The shown log continues the one that it says it has seen.
        assert response.checkpoint == shown(world)
        expected = world.census.journal.consistency_proof(
            parse_note(old)[0].size, parse_note(response.checkpoint)[0].size
        )
        assert list(response.consistency_proof) == expected
    verify_waits(world, order)


async def test_witness_call_of_an_agency_that_is_no_longer_registered(world: World, service: LogService) -> None:
    """Caught by the register: whose card is revoked cosigns nothing any more."""
    order = waiting(world)
    note = world.cosigner(HEALTH).cosign(shown(world), 1)
    revoke(world.census.journal, "health", HEALTH.organisation, "node")
    with pytest.raises(InvalidRequestError):
        await say(service, cosigned=note)
    assert world.census.released.released_answer(order.body.query_id.hex(), RESEARCHER) is None


# --- its own log -----------------------------------------------------------------------------------------------------


async def test_two_histories_of_the_health_log(world: World, service: LogService) -> None:
    """Caught by Witnessing.cosign: the second history is not cosigned, the operator hears of it, and nothing waits for it."""
    journal = world.open_health().journal
    first = journal.checkpoint()
    cosigned = (await say(service, checkpoint=first)).cosigned
    assert parse_note(cosigned)[0] == parse_note(first)[0]
    before = kept_notes(world)
    size = parse_note(first)[0].size
    beside = world.health_log.sign_checkpoint(size, bytes(32))
    with capture_logs() as logged:
        assert (await say(service, checkpoint=beside)).cosigned == cosigned
    assert [entry["event"] for entry in logged] == ["the health agency shows another history of its log than before"]
    set_caller(HEALTH)
    with capture_logs() as logged:
        forged = Request(
            checkpoint=world.health_log.sign_checkpoint(size + 1, bytes(32)), consistency_proof=[bytes(32)]
        )
        assert (await service.Witness(forged, NO_CONTEXT)).cosigned == cosigned
    assert len(logged) == 1
    assert kept_notes(world) == before
    # Neither node's cosigning waits for the other's.
    verify_waits(world, waiting(world))


@pytest.mark.parametrize("smaller", [0, 1])
async def test_smaller_log_than_the_health_agency_showed_before(
    world: World, service: LogService, smaller: int
) -> None:
    """Caught by Witnessing.cosign: it is answered with what was seen, which its own honest witness would stop on."""
    journal = world.open_health().journal
    cosigned = (await say(service, checkpoint=journal.checkpoint())).cosigned
    assert (await say(service, checkpoint=journal.checkpoint(smaller))).cosigned == cosigned


# --- floods ----------------------------------------------------------------------------------------------------------


async def test_flood_of_witness_calls(world: World) -> None:
    """Caught by the calls' own nature: one that is held open holds nothing but itself, and all end with the next news."""
    pair = WitnessedPair(world, max_queries=1, witness_wait_ms=int(1000 * NEVER_SECONDS))
    async with pair.witnessing():
        assert await pair.submit(world.order()) == STAGES
        note = pair.cosigned_by_health
        assert note is not None
        held = [
            asyncio.create_task(pair.logs.honestly(Request(cosigned=note.note, wait_ms=2**32 - 1))) for _ in range(500)
        ]
        hasty = [asyncio.create_task(pair.logs.honestly(Request(wait_ms=0))) for _ in range(500)]
        order = world.order()
        assert await pair.submit(order) == STAGES
        responses = await asyncio.wait_for(asyncio.gather(*held, *hasty), PATIENCE_SECONDS)
    assert all(response.checkpoint for response in responses)
    pair.verify(order, answered=True)


async def test_witness_call_that_asks_to_be_held_for_ever(world: World, service: LogService) -> None:
    """Caught by `witness_wait_ms`: the census node's limit ends the call, not the caller's wish."""
    del service
    world.cosign()
    note = world.census.publication.cosigned(witness=HEALTH_ORIGIN)
    assert note is not None
    service = log_service(world, world.census, LimitConfig(witness_wait_ms=50))
    response = await asyncio.wait_for(say(service, cosigned=note.note, wait_ms=2**32 - 1), PATIENCE_SECONDS)
    assert response == Response()
