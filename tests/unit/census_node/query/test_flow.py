"""One query from sample to answer: each step after the one that it needs, nothing lost or let out where the power goes."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from fakes.timed_loop import in_desk_time
from unit.census_node.query.flow_parts import Asked, Disk, Node, PowerCutError, Sent
from unit.census_node.query.timed_desk import PERIOD_MS, TimedDesk

from broker_common.errors import BrokerError, InternalError, InvalidRequestError, RefusedError, StateUnknownError
from census_node.query import flow
from census_node.query.flow import answer_query

STEPS = ["verify", "keep", "charge", "answer", "entrust", "show", "cosign", "release", "let out"]


@dataclass
class Walk:
    """Queries on their way at one desk."""

    node: Node
    desk: TimedDesk = field(default_factory=TimedDesk)
    # End of each failed query, by ticket.
    failed: dict[str, tuple[Exception, int]] = field(default_factory=dict)
    # Every attempt, in order.
    sent: list[Sent] = field(default_factory=list)

    def ask(
        self, ticket: str = "t", *, agency: str = "a", sample: bytes = b"sample"
    ) -> tuple[Asked, asyncio.Task[None]]:
        """A sample arrives."""
        asked = Asked(lambda: self.desk.now_ms)
        sent = Sent(self.node, ticket, agency, sample)
        self.sent.append(sent)
        return asked, asyncio.create_task(self._answer(sent, asked))

    async def _answer(self, sent: Sent, asked: Asked) -> None:
        try:
            await answer_query(self.node.parts, self.desk.desk, sent, asked)
        except Exception as error:  # noqa: BLE001 - looked at by the test
            self.failed[sent.ticket] = (error, self.desk.now_ms)


async def walk_to_the_end(walk: Walk) -> Asked:
    """One query, whose agency cosigns as soon as it is shown the charge."""
    await walk.desk.until(10)
    asked, answering = walk.ask()
    await cosign_when_shown(walk)
    await answering
    return asked


async def cosign_when_shown(walk: Walk, agency: str = "a") -> None:
    """The agency cosigns what it is shown next, unless the power goes before."""
    while not walk.node.shown and not walk.failed:
        await walk.desk.pause(10)
    if not walk.failed:
        walk.node.cosign(agency)


def test_the_whole_order_fits_on_a_few_pages() -> None:
    """A reader who wants to know how a query is answered reads one function in one module."""
    assert len(Path(inspect.getfile(flow)).read_text().splitlines()) <= 250


@pytest.mark.parametrize("has_ticks", [True, False], ids=["ticks", "at once"])
@in_desk_time
async def test_steps_come_in_one_order_under_both_schedules(has_ticks: bool) -> None:
    """Each part asserts, besides, that what it needs is durable."""
    walk = Walk(Node(Disk()), TimedDesk(has_ticks=has_ticks))
    asked = await walk_to_the_end(walk)
    assert walk.node.steps == STEPS
    assert [what for what, _ in asked.told] == ["charged", "released"]
    assert walk.node.held == []
    assert walk.failed == {}


@in_desk_time
async def test_everything_is_told_at_ticks_and_logged_with_theirs() -> None:
    """Taken at a tick, told at the next; cosigned, taken at a tick, out at the next: a full period after the cosignature."""
    walk = Walk(Node(Disk()))
    asked = await walk_to_the_end(walk)
    assert asked.told == [("charged", 2 * PERIOD_MS), ("released", 4 * PERIOD_MS)]
    began_ms = walk.desk.clock() - walk.desk.now_ms
    times = [(what, time_ms - began_ms) for what, _, time_ms in walk.node.disk.log]
    assert times == [("charged", PERIOD_MS), ("released", 3 * PERIOD_MS)]


REFUSALS = {
    "verify claim": InvalidRequestError("BAD_SIGNATURE", subject="ticket"),
    "verify sample": InvalidRequestError("TICKET_REUSED"),
    "keep": InternalError("SAMPLE_LOST"),
    "charge": RefusedError("BUDGET_EXHAUSTED", scale=30),
}


@pytest.mark.parametrize("step", REFUSALS)
@in_desk_time
async def test_refusals_are_told_at_the_instant_of_a_charge(step: str) -> None:
    """How far verifying came shows in no instant; nothing is charged, held or left on the disk."""
    walk = Walk(Node(Disk(), failing={step: REFUSALS[step]}))
    await walk.desk.until(10)
    asked, answering = walk.ask()
    await answering
    assert walk.failed == {"t": (REFUSALS[step], 2 * PERIOD_MS)}
    assert (walk.node.disk, walk.node.held, asked.told) == (Disk(), [], [])
    # A fault of ours is no refusal; the others are signed, with the instant at which they leave.
    left_ms = walk.desk.clock() - walk.desk.now_ms + 2 * PERIOD_MS
    assert walk.sent[0].signed_at == ([] if isinstance(REFUSALS[step], InternalError) else [left_ms])


@in_desk_time
async def test_mistake_of_ours_is_told_at_the_same_instant() -> None:
    """An unforeseen error may come from the sample, too."""
    walk = Walk(Node(Disk(), cut_after="verify"))
    await walk.desk.until(10)
    await walk.ask()[1]
    error, told_ms = walk.failed["t"]
    assert isinstance(error, PowerCutError)
    assert told_ms == 2 * PERIOD_MS


@in_desk_time
async def test_sample_stays_after_an_uncertain_charge() -> None:
    """The log will tell whether a charge names it; the node stops."""
    unknown = StateUnknownError("STATE_UNKNOWN")
    walk = Walk(Node(Disk(), failing={"charge": unknown}))
    await walk.desk.until(10)
    await walk.ask()[1]
    assert walk.desk.stopped_by is unknown
    assert list(walk.node.disk.files.values()) == ["t"]


# --- no answer without its cosignature -------------------------------------------------------------------------------


@in_desk_time
async def test_nothing_is_released_before_its_agency_has_cosigned_the_charge() -> None:
    """Not for another agency's cosignature, nor for one of an earlier checkpoint, nor for news of nothing."""
    walk = Walk(Node(Disk()))
    await walk.desk.until(10)
    asked, answering = walk.ask()
    await walk.desk.until(2500)
    walk.node.sizes = {"a": 0, "b": walk.node.shown}
    for _ in range(5):
        walk.node.tell()
        await walk.desk.pause(PERIOD_MS)
    assert asked.told == [("charged", 2000)]
    assert walk.node.disk.index_of("released", "t") is None
    walk.node.cosign("a")
    await answering
    assert walk.node.out == ["t"]


@in_desk_time
async def test_cosignature_that_counts_no_more_releases_nothing() -> None:
    """Its agency is replaced while the release is in line: the cosignature of the one that is registered is waited for."""
    walk = Walk(Node(Disk()))
    await walk.desk.until(10)
    asked, answering = walk.ask()
    await walk.desk.until(2500)
    walk.node.cosign("a")
    await walk.desk.until(2600)
    walk.node.sizes.clear()
    await walk.desk.until(6000)
    assert walk.node.disk.index_of("released", "t") is None
    assert walk.node.out == []
    assert asked.told == [("charged", 2000)]
    walk.node.cosign("a")
    await answering
    assert asked.told[1:] == [("released", 8000)]


@pytest.mark.parametrize(("earlier", "out_ms"), [(0, 4000), (2, 6000)])
@in_desk_time
async def test_answer_leaves_a_full_period_after_its_cosignature_whatever_is_in_line(earlier: int, out_ms: int) -> None:
    """Neither samples nor another agency's releases take its turn; only too many of its own agency's delay it."""
    walk = Walk(Node(Disk()), TimedDesk(batch=1, most_releases=2))
    await walk.desk.until(10)
    asked, answering = walk.ask()
    await walk.desk.until(2500)
    for number in range(10):
        walk.desk.put("a", f"sample {number}")
        walk.desk.put("b", f"release {number}", is_release=True)
    for number in range(earlier):
        walk.desk.put("a", f"earlier release {number}", is_release=True)
    walk.node.cosign("a")
    await answering
    assert asked.told[1:] == [("released", out_ms)]


# --- retries ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("instant_ms", [11, 1500, 2500, 3500, 9000])
@in_desk_time
async def test_retry_is_answered_with_what_there_is(instant_ms: int) -> None:
    """In line, at the desk, charged, cosigned or out: one charge, one answer, one release, and both are told."""
    walk = Walk(Node(Disk()))
    await walk.desk.until(10)
    first, answering = walk.ask()
    cosigning = asyncio.create_task(cosign_when_shown(walk))
    await walk.desk.until(instant_ms)
    second, again = walk.ask()
    await asyncio.gather(answering, again, cosigning)
    assert walk.node.steps == STEPS
    assert [what for what, _ in first.told] == [what for what, _ in second.told] == ["charged", "released"]
    assert all(told_ms % PERIOD_MS == 0 for _, told_ms in second.told)
    assert walk.failed == {}


@pytest.mark.parametrize("step", ["verify sample", "keep", "charge"])
@in_desk_time
async def test_retry_of_what_is_in_line_or_charged_is_never_refused(step: str) -> None:
    """Whatever was replaced since: it joins its place, and afterwards it is told its charge."""
    walk = Walk(Node(Disk()))
    await walk.desk.until(10)
    _, answering = walk.ask()
    await walk.desk.until(20)
    walk.node.failing = {step: RefusedError("SERVICE_SHUT_DOWN")} if step == "verify sample" else {}
    joined, joining = walk.ask()
    await walk.desk.until(2500)
    walk.node.failing = {step: RefusedError("SERVICE_SHUT_DOWN")}
    later, retrying = walk.ask()
    await walk.desk.until(5000)
    walk.node.cosign("a")
    await asyncio.gather(answering, joining, retrying)
    assert walk.failed == {}
    assert joined.told[0] == ("charged", 2000)
    assert later.told[0] == ("charged", 4000)


@in_desk_time
async def test_ticket_with_another_sample_is_refused_and_the_first_one_stands() -> None:
    """Also when both are in line at the same time."""
    walk = Walk(Node(Disk()))
    await walk.desk.until(10)
    first, answering = walk.ask()
    await walk.desk.until(20)
    second, reusing = walk.ask(sample=b"another sample")
    await reusing
    error, told_ms = walk.failed["t"]
    assert isinstance(error, BrokerError)
    assert (error.code, told_ms, second.told) == ("TICKET_REUSED", 2000, [])
    walk.node.cosign("a")
    await answering
    assert [what for what, _, _ in walk.node.disk.log] == ["charged", "released"]
    assert [what for what, _ in first.told] == ["charged", "released"]


# --- the power goes --------------------------------------------------------------------------------------------------

# State by the last step that was done: files, entries, answers, and how much the witness outside has seen.
LEFT = {
    "verify": (0, [], 0, 0),
    "keep": (1, [], 0, 0),
    "charge": (1, ["charged"], 0, 0),
    "answer": (1, ["charged"], 1, 0),
    "entrust": (1, ["charged"], 1, 1),
    "show": (1, ["charged"], 1, 1),
    "cosign": (1, ["charged"], 1, 1),
    "release": (1, ["charged", "released"], 1, 1),
    "let out": (1, ["charged", "released"], 1, 1),
}


@pytest.mark.parametrize("step", STEPS)
@in_desk_time
async def test_crash_after_each_step_leaves_what_the_comment_there_says(step: str) -> None:
    """Then the next process walks the same way, or takes the sample again: one charge, the same answer, one release."""
    disk = Disk()
    await cut_after(step, disk)
    assert (len(disk.files), [what for what, _, _ in disk.log], len(disk.answers), disk.witnessed) == LEFT[step]
    made = dict(disk.answers)

    restarted = Walk(Node(disk))
    await walk_to_the_end(restarted)
    assert [what for what, _, _ in disk.log] == ["charged", "released"]
    assert len(disk.answers) == 1
    assert made.items() <= disk.answers.items()
    assert restarted.node.out == ["t"]
    assert set(restarted.node.steps) == set(STEPS[STEPS.index(step) + 1 :]) | {"show", "cosign", "let out"} | (
        # Nothing durable is left of a sample that no charge names.
        {"verify", "keep"} if step in {"verify", "keep"} else set()
    )


@pytest.mark.parametrize("step", STEPS[: STEPS.index("release")])
@in_desk_time
async def test_nothing_is_out_that_is_not_released_wherever_the_power_goes(step: str) -> None:
    """A crash may waste budget; it never lets an answer out."""
    disk = Disk()
    node = await cut_after(step, disk)
    assert node.out == []
    assert disk.index_of("released", "t") is None


async def cut_after(step: str, disk: Disk) -> Node:
    """One query until the power goes."""
    walk = Walk(Node(disk, cut_after=step))
    await walk.desk.until(10)
    _, answering = walk.ask()
    try:
        await cosign_when_shown(walk)
    except PowerCutError:
        answering.cancel()
    await asyncio.gather(answering, return_exceptions=True)
    walk.desk.running.cancel()
    await asyncio.gather(walk.desk.running, return_exceptions=True)
    return walk.node
