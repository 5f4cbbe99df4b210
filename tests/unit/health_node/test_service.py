"""Questions on their way: what leaves, when, for which roster, and what becomes of it; in virtual time, with a small census node."""

from __future__ import annotations

import asyncio
import random  # noqa: TID251 - a seeded order of events, no secret
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fakes.logs import ALICE
from fakes.logs import policy as make_policy
from fakes.virtual_time import in_virtual_time
from msgspec import structs
from structlog.testing import capture_logs
from unit.health_node.small_health import BEGAN_MS, BEN, PEOPLE, Asked, SmallHealth

from broker_common.errors import BrokerError, InvalidRequestError, PeerUnavailableError, RefusedError
from broker_common.tlog.entries import Forwarded, Rostered, Settled
from health_node import texts
from health_node.operator.cohort_figures import CohortBands
from health_node.roster.book import RosterBook

TICK_MS, DELAY_MS = 250, 300
HOUR = 3600.0


@asynccontextmanager
async def serving(folder: Path, *, rosters: bool = True, **given: Any) -> AsyncIterator[SmallHealth]:
    """A node that serves its first load, whose roster the census node has."""
    health = SmallHealth(folder, **given)
    health.load()
    try:
        if rosters:
            health.send_rosters()
            await asyncio.sleep(10)
        yield health
    finally:
        await health.close()


async def ended(*questions: Asked) -> list[str]:
    """Wait for the questions; how each ended."""
    async with asyncio.timeout(HOUR):
        await asyncio.gather(*(each.task for each in questions))
    return [each.code or list(each.seen)[-1] for each in questions]


def tick_of(ms: int) -> int:
    """The tick at which something happened: what is done in threads takes a few milliseconds."""
    return ms // TICK_MS * TICK_MS


def first_tick(not_before_ms: int) -> int:
    """The tick at which something leaves that may not leave before."""
    return -(-not_before_ms // TICK_MS) * TICK_MS


# --- what leaves -----------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_sample_names_whoever_matches_by_their_places(tmp_path: Path) -> None:
    """As the census node opens it, with the roster that it was sent; everybody, nobody or some: all have one length."""
    async with serving(tmp_path) as health:
        for where, people in (("age = 7", [7, 107, 207]), ("age > 130", []), ("age >= 0", list(range(PEOPLE)))):
            assert await ended(health.ask(where)) == ["released"]
            assert health.census.whom(health.census.samples[-1]) == [health.pseudonym(number) for number in people]
        assert len({tuple(map(len, (each.sealed.head, *each.sealed.parts))) for each in health.census.samples}) == 1
        with health.journal.reading():
            assert CohortBands(health.journal.db).counts() == {0: 1, 1: 1, 3: 1}


@in_virtual_time
async def test_nothing_leaves_before_the_log_says_so(tmp_path: Path) -> None:
    """When the first byte of a sample arrives, our log names its manifest, and the roster that it is places of."""
    async with serving(tmp_path) as health:
        named: list[tuple[str, int]] = []
        health.census.arriving = lambda _: named.extend(
            (event.ticket, event.roster) for event in health.events() if isinstance(event, Forwarded)
        )
        asked = health.ask()
        assert await ended(asked) == ["released"]
        (number,) = [event.number for event in health.events() if isinstance(event, Rostered)]
        assert named == [(asked.ticket.hex(), number)]
        assert health.census.samples[0].manifest.roster == number


@pytest.mark.parametrize(
    ("errors", "attempts"),
    [
        ([RefusedError("BUSY", retry_seconds=1)], 2),
        ([None, PeerUnavailableError("PEER_UNAVAILABLE", peer="census")], 2),
        ([RefusedError("BUSY", retry_seconds=1), None, RefusedError("BUSY", retry_seconds=1)], 3),
    ],
    ids=["before the charge", "between charge and release", "both"],
)
@in_virtual_time
async def test_every_attempt_is_the_same_sample_sealed_anew(
    tmp_path: Path, errors: list[BrokerError | None], attempts: int
) -> None:
    """One manifest, one entry, the same bits; no two attempts share a byte that means anything."""
    async with serving(tmp_path) as health:
        health.census.refusals = list(errors)
        assert await ended(health.ask("age = 7", fraction=500_000)) == ["released"]
        first, *others = health.census.samples
        assert len(others) == attempts - 1
        for other in others:
            assert other.manifest == first.manifest
            assert other.bits.tobytes() == first.bits.tobytes()
            assert other.sealed.head != first.sealed.head
            assert other.sealed.parts[0] != first.sealed.parts[0]
        assert sum(isinstance(event, Forwarded) for event in health.events()) == 1


@in_virtual_time
async def test_the_same_question_after_a_restart_is_the_same_sample(tmp_path: Path) -> None:
    """Killed between the attempt and the charge: load, salt, key and roster are kept, so that its manifest is."""
    async with serving(tmp_path) as health:
        health.census.charging.clear()
        asked = health.ask("age < 50", fraction=300_000)
        await asyncio.sleep(10)
        await health.restart()
        health.census.charging.set()
        assert await ended(health.submit(asked.request)) == ["released"]
        first, second = health.census.samples
        assert first.manifest == second.manifest
        assert [event.ticket for event in health.events() if isinstance(event, Settled)] == [asked.ticket.hex()]


@in_virtual_time
async def test_charge_for_another_roster_is_not_believed(tmp_path: Path) -> None:
    """The places of one roster are other people in another: the charge must name ours."""
    async with serving(tmp_path) as health:
        health.census.lie = lambda charge: structs.replace(charge, roster=charge.roster + 1)
        assert await ended(health.ask()) == ["PEER_MISBEHAVED"]
        assert not [event for event in health.events() if isinstance(event, Settled)]


# --- when ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after_ms", [0, 1, 120, 199, 200, 249])
@in_virtual_time
async def test_sample_leaves_at_the_first_tick_after_its_delay(tmp_path: Path, after_ms: int) -> None:
    """From when it was submitted, whatever its criteria are and no matter who matches."""
    async with serving(tmp_path) as health:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(first_tick(round(1000 * loop.time())) / 1000 - loop.time() + after_ms / 1000)
        submitted_ms = BEGAN_MS + round(1000 * loop.time())
        assert await ended(health.ask()) == ["released"]
        (sample,) = health.census.samples
        assert tick_of(sample.ms) == first_tick(submitted_ms + DELAY_MS)


@in_virtual_time
async def test_question_that_waited_leaves_a_delay_after_its_place(tmp_path: Path) -> None:
    """Not at once when its place comes free: that would tell when somebody else was answered to the millisecond."""
    async with serving(tmp_path, max_queries=1) as health:
        first = health.ask()
        await asyncio.sleep(0.05)
        assert await ended(first, health.ask(researcher=BEN)) == ["released", "released"]
        _, late = health.census.samples
        assert tick_of(late.ms) == first_tick(first.seen["released"] + DELAY_MS)


@in_virtual_time
async def test_without_ticks_a_sample_leaves_at_once(tmp_path: Path) -> None:
    """For tests and benchmarks: a delay alone promises nothing."""
    policy = make_policy(forward_delay_ms=60_000, release_tick_ms=0)
    async with serving(tmp_path, policy=policy) as health:
        began_ms = BEGAN_MS + round(1000 * asyncio.get_running_loop().time())
        assert await ended(health.ask()) == ["released"]
        assert health.census.samples[0].ms < began_ms + 1000


@in_virtual_time
async def test_sample_that_is_not_ready_leaves_at_a_later_tick(tmp_path: Path, monkeypatch: Any) -> None:
    """Still at a tick, and the operator is told."""
    async with serving(tmp_path) as health:
        loop: Any = asyncio.get_running_loop()
        sample = health.node.sample

        def slowly(accepted: Any) -> Any:
            loop.seconds += 1.1
            return sample(accepted)

        monkeypatch.setattr(health.node, "sample", slowly)
        began_ms = BEGAN_MS + round(1000 * loop.time())
        with capture_logs() as logs:
            assert await ended(health.ask()) == ["released"]
        left_ms = health.census.samples[0].ms
        assert left_ms > began_ms + 1100
        assert left_ms - tick_of(left_ms) < TICK_MS // 2
        assert [line["event"] for line in logs if line["log_level"] == "warning"] == [texts.LATE]


# --- rosters ---------------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_question_waits_until_its_roster_is_there(tmp_path: Path) -> None:
    """Nothing of a sample leaves before, and nothing is refused; then it leaves a delay after."""
    async with serving(tmp_path, rosters=False) as health:
        asked = health.ask()
        await asyncio.sleep(60)
        assert list(asked.seen) == ["accepted"]
        assert not health.census.samples
        health.send_rosters()
        assert await ended(asked) == ["released"]
        with health.journal.reading():
            roster = RosterBook(health.journal.db).get(health.node.load_in_force())
        assert roster is not None
        (sample,) = health.census.samples
        assert first_tick(roster.acknowledged_ms + DELAY_MS) <= tick_of(sample.ms)


@in_virtual_time
async def test_new_roster_waits_for_questions_that_stand_for_the_old_one(tmp_path: Path) -> None:
    """It would replace the roster under their samples; those that came after the load wait for it."""
    async with serving(tmp_path) as health:
        health.census.charging.clear()
        old = health.ask("age = 7")
        await asyncio.sleep(5)
        health.load(200)
        new = health.ask("age = 7", researcher=BEN)
        await asyncio.sleep(600)
        assert set(health.census.offered) == {1}
        health.census.charging.set()
        assert await ended(old, new) == ["released", "released"]
        assert [sample.manifest.roster for sample in health.census.samples] == [1, 2]
        assert [len(health.census.whom(sample)) for sample in health.census.samples] == [3, 2]


@in_virtual_time
async def test_questions_of_two_loads_do_not_wait_for_each_other(tmp_path: Path) -> None:
    """One place, and questions of the old load in line: those of the new one do not hold it while they wait for their roster."""
    async with serving(tmp_path, max_queries=1) as health:
        old = [health.ask(), health.ask(), health.ask(researcher=BEN)]
        await asyncio.sleep(0.1)
        health.load()
        new = [health.ask(researcher=BEN), health.ask()]
        assert await ended(*old, *new) == ["released"] * 5
        assert [sample.manifest.roster for sample in health.census.samples] == [1, 1, 1, 2, 2]


@in_virtual_time
async def test_question_whose_roster_will_never_be_sent_is_ended(tmp_path: Path) -> None:
    """Its load was replaced before the census node had the roster: a repeated question is about the new load."""
    async with serving(tmp_path, rosters=False) as health:
        lost = health.ask()
        await asyncio.sleep(5)
        health.load()
        assert await ended(lost) == ["ROSTER_NOT_IN_FORCE"]
        assert health.refused(lost) == "ROSTER_NOT_IN_FORCE"
        health.send_rosters()
        assert await ended(health.ask(), health.submit(lost.request)) == ["released", "ROSTER_NOT_IN_FORCE"]


@in_virtual_time
async def test_roster_that_the_census_node_has_lost_is_offered_at_once(tmp_path: Path) -> None:
    """One question is ended, the next one waits until the roster is there; nobody waits for the next offer of every few minutes."""
    async with serving(tmp_path) as health:
        health.census.refusals = [InvalidRequestError("ROSTER_NOT_IN_FORCE")]
        ended_one = health.ask()
        assert await ended(ended_one) == ["ROSTER_NOT_IN_FORCE"]
        assert health.refused(ended_one) == "ROSTER_NOT_IN_FORCE"
        health.census.rosters.clear()
        # For some seconds, in which a sample would leave that waited for its delay alone.
        health.census.roster_refusals = [RefusedError("BUSY", retry_seconds=1)] * 4
        began = asyncio.get_running_loop().time()
        assert await ended(health.ask()) == ["released"]
        assert health.census.offered == [1] * 6
        assert asyncio.get_running_loop().time() < began + 10


@pytest.mark.parametrize("relinked", [False, True])
@in_virtual_time
async def test_sample_that_was_handed_over_goes_again_whatever_was_replaced(tmp_path: Path, relinked: bool) -> None:
    """It may be charged: after a crash and another load, its researcher still gets the answer."""
    async with serving(tmp_path) as health:
        health.census.releasing.clear()
        asked = health.ask()
        await asyncio.sleep(10)
        # The census node says that it does not know the roster any more, and goes on to say so.
        health.census.refusals = [InvalidRequestError("ROSTER_NOT_IN_FORCE")]
        health.census.roster_refusals = [RefusedError("BUSY", retry_seconds=1)] * 100
        assert await ended(health.ask(researcher=BEN)) == ["ROSTER_NOT_IN_FORCE"]
        health.load(relinked=relinked)
        await health.restart()
        health.census.releasing.set()
        health.census.roster_refusals.clear()
        health.send_rosters()
        assert await ended(health.submit(asked.request), health.ask()) == ["released", "released"]
        assert [sample.manifest.roster for sample in health.census.samples] == [1, 1, 1, 2]


@in_virtual_time
async def test_a_ticket_that_is_refused_is_refused_again(tmp_path: Path) -> None:
    """The end of a ticket is in the log; a fault between the agencies is not told as such, and ends nothing."""
    async with serving(tmp_path) as health:
        health.census.refusals = [
            RefusedError("BUDGET_EXHAUSTED", scale=30),
            InvalidRequestError("BAD_SAMPLE", problem="x"),
        ]
        exhausted = health.ask()
        assert await ended(exhausted) == ["BUDGET_EXHAUSTED"]
        bad = health.ask()
        assert await ended(bad) == ["PEER_FAILED"]
        assert (health.refused(exhausted), health.refused(bad)) == ("BUDGET_EXHAUSTED", "")
        assert await ended(health.submit(exhausted.request), health.submit(bad.request)) == [
            "BUDGET_EXHAUSTED",
            "released",
        ]


@pytest.mark.parametrize("seed", range(8))
def test_no_sample_meets_a_roster_that_was_replaced(tmp_path: Path, seed: int) -> None:
    """Questions, loads and restarts in any order: the roster that a new sample names is the newest that the census node has."""

    @in_virtual_time
    async def run() -> None:
        chance = random.Random(seed)
        async with serving(tmp_path, max_queries=2) as health:
            asked: list[Asked] = []
            for _ in range(40):
                what = chance.random()
                if what < 0.15:
                    health.load(chance.randrange(1, PEOPLE))
                elif what < 0.2:
                    health.census.charging.clear()
                elif what < 0.4:
                    health.census.charging.set()
                else:
                    asked.append(health.ask(researcher=chance.choice([ALICE, BEN])))
                await asyncio.sleep(chance.choice([0, 0.05, 0.3, 2]))
            health.census.charging.set()
            ends = await ended(*asked)
            assert set(ends) <= {"released", "ROSTER_NOT_IN_FORCE", "BUSY"}
            assert "released" in ends
            assert all(sample.manifest.roster == sample.newest for sample in health.census.samples)
            with health.journal.reading() as state:
                rosters = {
                    state.tickets[each.ticket.hex()].submission.load: each.manifest.roster
                    for each in health.census.samples
                }
            assert len(set(rosters.values())) == len(rosters)

    run()
