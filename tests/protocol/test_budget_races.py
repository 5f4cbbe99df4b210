"""The cap holds whoever races for it, and once the service is shut it stays shut; what was charged still goes out."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fakes.links import InMemoryCensus
from fakes.patience import linger, until
from fakes.world import HEALTH, Order, Pseudonyms, World, charge_and_answer, make_policy, make_pseudonyms
from grpc.aio import AioRpcError
from msgspec import structs
from tripartite.v1 import census_service_pb2, sample_pb2

from broker_common.crypto.certificates import Identity
from broker_common.crypto.commitments import hash_bytes
from broker_common.errors import BrokerError, InternalError, InvalidRequestError, RefusedError
from broker_common.privacy.accounting import price_units
from broker_common.privacy.policy import Policy
from broker_common.rpc.server import StopSignal
from broker_common.rpc.status import broker_error
from broker_common.storage.journal import Journal, Transaction
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import Adopted, Entry, Event, Released, Shutdown
from census_node import operating
from census_node.admission import Admission, Gate
from census_node.charging import quotable_answers, verify_affordable
from census_node.config import LimitConfig
from census_node.node import CensusNode
from census_node.operating import Confirmation
from census_node.proposals import make_proposal
from census_node.service import CensusService

# ln 3 pays for exactly one answer at scale 1. Afterwards nothing fits, or only scale 50 does.
ONE_ANSWER = make_policy(max_belief="0.75", scales=(1,))
ONE_ANSWER_THEN_CHEAP_ONES = make_policy(max_belief="0.75", scales=(1, 50))


@pytest.fixture
def worlds(tmp_path: Path) -> Iterator[dict[str, World]]:
    """One world for each of the two policies."""
    made = {
        "SERVICE_SHUT_DOWN": World(tmp_path / "shut", ONE_ANSWER),
        "BUDGET_EXHAUSTED": World(tmp_path / "exhausted", ONE_ANSWER_THEN_CHEAP_ONES),
    }
    yield made
    for world in made.values():
        world.close()


def race(world: World, orders: Sequence[Order], nodes: Sequence[CensusNode]) -> list[str]:
    """Hand everything in at the same moment; gives each one's refusal, or nothing for the one that was answered."""
    admitted = []
    for order, node in zip(orders, nodes, strict=True):
        world.census = node
        admitted.append(world.admit(world.messages(world.sample(order))))
    together = threading.Barrier(len(orders))

    def charge(place: int) -> str:
        together.wait()
        try:
            charge_and_answer(nodes[place], admitted[place])
        except BrokerError as error:
            return error.code
        return ""

    with ThreadPoolExecutor(len(orders)) as threads:
        return list(threads.map(charge, range(len(orders))))


@pytest.mark.parametrize("racers", [2, 16])
@pytest.mark.parametrize("code", ["SERVICE_SHUT_DOWN", "BUDGET_EXHAUSTED"])
def test_last_unit_of_the_budget_is_spent_once(worlds: dict[str, World], code: str, racers: int) -> None:
    """However many questions race for the last answer, exactly one is charged and the others are told why not."""
    world = worlds[code]
    orders = [world.order(scale=1) for _ in range(racers)]
    outcomes = race(world, orders, [world.census] * racers)
    assert Counter(outcomes) == {"": 1, code: racers - 1}
    state = world.verify_log()
    assert state.charged_units == price_units(1) <= world.policy.cap
    winner = orders[outcomes.index("")]
    world.census.release(winner.hash.hex())
    assert world.open(winner, world.sealed(winner)).scale == 1


def test_two_nodes_on_one_journal_share_one_budget(worlds: dict[str, World]) -> None:
    """Two processes on one ledger cannot each spend the last answer."""
    world = worlds["SERVICE_SHUT_DOWN"]
    first = world.census
    orders = [world.order(scale=1)]
    second = world.open_census()
    orders.append(world.order(scale=1))
    outcomes = race(world, orders, [first, second])
    assert Counter(outcomes) == {"": 1, "SERVICE_SHUT_DOWN": 1}
    assert world.verify_log().charged_units <= world.policy.cap


def test_cheaper_questions_still_fit_after_an_exhausted_one(worlds: dict[str, World]) -> None:
    """BUDGET_EXHAUSTED refuses one scale, not the service: four more answers at scale 50 fit into ln 3 - 1."""
    world = worlds["BUDGET_EXHAUSTED"]
    world.answer(world.order(scale=1))
    with world.unchanged(), pytest.raises(RefusedError, match="BUDGET_EXHAUSTED"):
        world.charge(world.order(scale=1))
    for _ in range(4):
        assert not world.verify_log().shut_down
        world.answer(world.order(scale=50))
    assert world.verify_log().shut_down


def test_cap_of_80_percent_pays_for_41_answers_at_scale_30(world: World) -> None:
    """floor(30 ln 4) = 41 answers, then the shutdown in the same transaction as the last charge, for ever."""
    orders = []
    for number in range(41):
        assert not world.verify_log().shut_down, number
        orders.append(world.order())
        world.answer(orders[-1])
    *_, shut, released = (entry.event for entry in world.entries())
    assert isinstance(shut, Shutdown)
    assert isinstance(released, Released)
    (shutdown,) = world.events(Shutdown)
    assert shutdown == Shutdown(reason="budget", note="")
    state = world.verify_log()
    assert state.shut_down
    assert state.answers == 41
    assert state.charged_units == 41 * price_units(30) <= world.policy.cap
    assert state.charged_units + price_units(50) > world.policy.cap
    for scale in (30, 50, 1):
        with world.unchanged(), pytest.raises(RefusedError, match="SERVICE_SHUT_DOWN"):
            world.charge(world.order(scale=scale))
    assert all(world.open(order, world.sealed(order)).scale == 30 for order in orders)


def test_service_stays_shut_after_a_restart(worlds: dict[str, World]) -> None:
    """The shutdown is in the log: a node that starts again, or on a copy of the files, is shut."""
    world = worlds["SERVICE_SHUT_DOWN"]
    world.answer(world.order(scale=1))
    for restart in (world.crash_census, world.open_census):
        restart().recover()
        with world.unchanged(), pytest.raises(RefusedError, match="SERVICE_SHUT_DOWN"):
            world.charge(world.order(scale=1))
        with world.census.journal.reading() as state, pytest.raises(RefusedError, match="SERVICE_SHUT_DOWN"):
            verify_affordable(state, 1)


def test_answer_charged_before_the_shutdown_still_goes_out(worlds: dict[str, World]) -> None:
    """Shut is shut for new charges only: what was charged is made, released and collected, also after a crash."""
    world = worlds["SERVICE_SHUT_DOWN"]
    order = world.order(scale=1)
    world.charge(order)
    assert world.verify_log().shut_down
    world.crash_census()
    (ticket_hash,) = world.census.recover()
    world.census.release(ticket_hash)
    sealed = world.sealed(order)
    assert world.open(order, sealed).charged == price_units(1)
    assert [event.answer for event in world.events(Released)] == [hash_bytes(sealed).hex()]
    world.verify_log()


def test_retry_of_a_charged_ticket_is_served_after_the_shutdown(worlds: dict[str, World]) -> None:
    """The ticket that spent the last unit may be handed in again: same charge, same answer."""
    world = worlds["SERVICE_SHUT_DOWN"]
    order = world.order(scale=1)
    sample = world.sample(order)
    sealed = world.answer(order, sample)
    assert world.answer(order, sample) == sealed
    assert len(world.charges()) == 1


@pytest.mark.parametrize("max_belief", ["0.75", "0.6", "0.9"])
def test_no_policy_reopens_a_shut_service(worlds: dict[str, World], max_belief: str) -> None:
    """A policy under which something would fit is adopted, and the service stays shut until its operator reopens it."""
    world = worlds["SERVICE_SHUT_DOWN"]
    world.answer(world.order(scale=1))
    rules = make_policy(max_belief=max_belief, scales=(50,))
    adopt(world, rules, confirmed=rules.raises_cap(world.policy))
    world.policy = rules
    for node in (world.census, world.open_census(), world.crash_census()):
        with node.journal.reading() as state, pytest.raises(RefusedError, match="SERVICE_SHUT_DOWN"):
            quotable_answers(state, rules, 50)
    world.census.recover()
    with world.unchanged(), pytest.raises(RefusedError, match="SERVICE_SHUT_DOWN"):
        world.charge(world.order(scale=50))


def test_reopened_service_charges_on_top_of_what_was_charged(worlds: dict[str, World]) -> None:
    """A reopening gives nothing back: ln 3 minus one answer at scale 1 pays for four at scale 50, and not for a fifth."""
    world = worlds["SERVICE_SHUT_DOWN"]
    world.answer(world.order(scale=1))
    adopt(world, ONE_ANSWER_THEN_CHEAP_ONES)
    world.policy = ONE_ANSWER_THEN_CHEAP_ONES
    world.reopen()
    for _ in range(4):
        world.answer(world.order(scale=50))
    for node in (world.census, world.open_census()):
        world.census = node
        node.recover()
        with world.unchanged(), pytest.raises(RefusedError, match="SERVICE_SHUT_DOWN"):
            world.charge(world.order(scale=50))
    assert world.verify_log().charged_units == price_units(1) + 4 * price_units(50)


@pytest.mark.parametrize("released", [False, True])
def test_nothing_is_reopened_while_nothing_fits(worlds: dict[str, World], released: bool) -> None:
    """The command is refused, and so is the entry of whoever leaves the command out."""
    world = worlds["SERVICE_SHUT_DOWN"]
    order = world.order(scale=1)
    world.charge(order)
    if released:
        world.census.release(order.hash.hex())
    with world.unchanged(), pytest.raises(RefusedError, match="NOTHING_FITS"):
        operating.reopen(world.census.journal, "a drill", world.secrets.operator)
    with world.unchanged(), pytest.raises(InternalError, match="NOTHING_FITS"):
        world.reopen()


def test_until_a_shutdown_is_told_a_raised_cap_lets_no_sample_in(worlds: dict[str, World]) -> None:
    """Accepted before the shutdown is told, a header would cost nobody anything and draw a sample that is refused."""
    world = worlds["SERVICE_SHUT_DOWN"]
    order = world.order(scale=1)
    world.charge(order)
    world.policy = make_policy(max_belief="0.9", scales=(1,))
    adopt(world, world.policy, confirmed=True)
    recovered = world.open_census().recover()
    # By what is out: nothing yet, so that ln 9 pays for two.
    assert quotable(world, 1) == 2
    with world.unchanged(), pytest.raises(RefusedError, match="BUDGET_EXHAUSTED"):
        world.admit(world.messages(world.sample(world.order(scale=1))))
    for ticket_hash in recovered:
        world.census.release(ticket_hash)
    with world.unchanged(), pytest.raises(RefusedError, match="SERVICE_SHUT_DOWN"):
        world.admit(world.messages(world.sample(world.order(scale=1))))
    world.reopen()
    world.answer(world.order(scale=1))
    assert world.verify_log().charged_units == 2 * price_units(1)


SPOILED: dict[str, Callable[[World], Order]] = {
    "its slot was lost": lambda world: world.order(scale=1, slot=4711),
    "it has expired": lambda world: world.order(scale=1, change=lambda body: setattr(body, "expires_ms", 1)),
    "its policy is another one": lambda world: world.order(
        scale=1, change=lambda body: setattr(body, "policy_hash", bytes(32))
    ),
    "its scale is not admitted": lambda world: world.order(scale=2),
}


@pytest.mark.parametrize("why", SPOILED)
def test_after_a_shutdown_a_spoiled_ticket_is_refused_with_the_shutdown(worlds: dict[str, World], why: str) -> None:
    """Whatever else is wrong with it: its own fault would advise to ask anew."""
    world = worlds["SERVICE_SHUT_DOWN"]
    world.answer(world.order(scale=1))
    with world.unchanged(), pytest.raises(RefusedError, match="SERVICE_SHUT_DOWN"):
        world.admit(world.messages(world.sample(SPOILED[why](world))))


@pytest.mark.parametrize("why", SPOILED)
def test_a_spoiled_ticket_does_not_hear_of_a_shutdown_before_it_is_told(worlds: dict[str, World], why: str) -> None:
    """Else whoever keeps sending worthless tickets would see when the last answer was charged."""
    world = worlds["SERVICE_SHUT_DOWN"]
    last, spoiled = world.order(scale=1), SPOILED[why](world)

    def refusal() -> str:
        with pytest.raises(BrokerError) as caught:
            world.admit(world.messages(world.sample(spoiled)))
        return caught.value.code

    before = refusal()
    world.charge(last)
    assert world.verify_log().shut_down
    assert refusal() == before != "SERVICE_SHUT_DOWN"
    world.census.release(last.hash.hex())
    assert refusal() == "SERVICE_SHUT_DOWN"


def quotable(world: World, scale: int) -> int | None:
    """How many more answers at this scale a researcher is told of; None where that is not told."""
    with world.census.journal.reading() as state:
        return quotable_answers(state, world.policy, scale)


# --- the price of an accepted header ---------------------------------------------------------------------------------


class Sender:
    """One Count in the test's hands: said part by part."""

    def __init__(self, service: CensusService, world: World, order: Order, people: Pseudonyms | None = None) -> None:
        self._link = InMemoryCensus(service, HEALTH)
        self._call = self._link.Count()
        self._messages = world.messages(world.sample(order, people))

    async def header(self) -> str:
        """Send the header; `proceed`, or the code of its refusal."""
        await self._call.write(self._messages[0])
        return await self._said()

    async def rest(self) -> str:
        """Send frames and manifest; `charged`, or the code of the refusal."""
        for message in self._messages[1:]:
            await self._call.write(message)
        return await self._said()

    async def released(self) -> str:
        """Wait for the release."""
        return await self._said()

    async def abort(self) -> str:
        """Break the sample off; the code of the refusal."""
        await self._call.done_writing()
        return await self._said()

    async def _said(self) -> str:
        try:
            response = await self._call.read()
        except AioRpcError as error:
            return broker_error(error, "census").code
        assert isinstance(response, census_service_pb2.CountResponse)
        return str(response.WhichOneof("event"))


@pytest.fixture
async def last(worlds: dict[str, World]) -> CensusService:
    """The service of a census node that has one answer to give."""
    return CensusService(worlds["SERVICE_SHUT_DOWN"].census, LimitConfig(), StopSignal())


async def test_last_answer_goes_to_the_first_header_not_to_the_smaller_sample(
    worlds: dict[str, World], last: CensusService
) -> None:
    """Who gets the last of the budget is decided before anybody's record counts: two cohorts cannot be raced."""
    world = worlds["SERVICE_SHUT_DOWN"]
    large = Sender(last, world, world.order(scale=1), make_pseudonyms(40_000))
    small = Sender(last, world, world.order(scale=1), make_pseudonyms(0))
    assert await large.header() == "proceed"
    assert await small.header() == "BUDGET_EXHAUSTED"
    assert await large.rest() == "charged"
    assert await large.released() == "released"
    assert len(world.charges()) == 1


async def test_price_of_a_failed_sample_is_free_again(worlds: dict[str, World], last: CensusService) -> None:
    """An attempt that ends without a charge gives its price back, however it ended."""
    world = worlds["SERVICE_SHUT_DOWN"]
    for _ in range(3):
        aborted = Sender(last, world, world.order(scale=1))
        assert await aborted.header() == "proceed"
        assert await aborted.abort() == "MALFORMED_MESSAGE"
        damaged = Sender(last, world, world.order(scale=1))
        damaged._messages[-1].manifest.signature = bytes(64)
        assert await damaged.header() == "proceed"
        assert await damaged.rest() == "BAD_SIGNATURE"
    honest = Sender(last, world, world.order(scale=1))
    assert await honest.header() == "proceed"
    assert await honest.rest() == "charged"


async def test_price_of_a_header_that_took_longer_than_the_deadline_is_free_again(
    worlds: dict[str, World], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow node, or a locked journal, leaves no price held by an attempt that is over."""
    world = worlds["SERVICE_SHUT_DOWN"]
    service = CensusService(world.census, LimitConfig(sample_deadline_ms=20), StopSignal())
    admit = Admission.__init__

    def slowly(admission: Admission, header: sample_pb2.SampleHeader, sender: Identity, gate: Gate) -> None:
        admit(admission, header, sender, gate)
        time.sleep(0.1)

    with monkeypatch.context() as patch:
        patch.setattr(Admission, "__init__", slowly)
        late = Sender(service, world, world.order(scale=1))
        assert await late.header() == "proceed"
        assert await late._said() == "PEER_UNAVAILABLE"
    await until(lambda: not service._walks)
    service = CensusService(world.census, LimitConfig(), StopSignal())
    assert await Sender(service, world, world.order(scale=1)).header() == "proceed"


async def test_last_answer_stays_with_a_header_whose_ticket_ends_meanwhile(
    worlds: dict[str, World], last: CensusService
) -> None:
    """A researcher who gives a ticket an early end, or a clock set forward, starts no race between two samples."""
    world = worlds["SERVICE_SHUT_DOWN"]
    ends_ms = world.clock() + 1000
    large = Sender(
        last, world, world.order(scale=1, change=lambda body: setattr(body, "expires_ms", ends_ms)), make_pseudonyms(9)
    )
    assert await large.header() == "proceed"
    world.clock.now_ms = ends_ms
    small = Sender(last, world, world.order(scale=1), make_pseudonyms(0))
    assert await small.header() == "BUDGET_EXHAUSTED"
    assert await large.rest() == "charged"
    assert await large.released() == "released"
    assert len(world.charges()) == 1


async def test_header_that_is_refused_holds_nothing(worlds: dict[str, World], last: CensusService) -> None:
    """Nobody keeps others from the budget with tickets that do not hold."""
    world = worlds["SERVICE_SHUT_DOWN"]
    for order in (world.order(scale=1, slot=4711), world.order(scale=2)):
        assert await Sender(last, world, order).header() in {"SLOT_UNUSABLE", "SCALE_REFUSED"}
    unsealed = Sender(last, world, world.order(scale=1))
    unsealed._messages[0].header.sealed_frame_key = b""
    assert await unsealed.header() == "SEALED_WRONGLY"
    assert await Sender(last, world, world.order(scale=1)).header() == "proceed"


async def test_several_attempts_of_one_ticket_hold_its_price_once(
    worlds: dict[str, World], last: CensusService
) -> None:
    """A retry finds its own price held for it, and holds it on when the first attempt ends."""
    world = worlds["SERVICE_SHUT_DOWN"]
    order = world.order(scale=1)
    first, retry = (Sender(last, world, order) for _ in range(2))
    assert (await first.header(), await retry.header()) == ("proceed", "proceed")
    assert await first.abort() == "MALFORMED_MESSAGE"
    await linger()
    assert await Sender(last, world, world.order(scale=1)).header() == "BUDGET_EXHAUSTED"
    assert await retry.rest() == "charged"


def test_end_of_the_service_is_told_when_the_last_answer_is_out(worlds: dict[str, World]) -> None:
    """At the header, between charge and release, a shut service sounds like one whose last answer is spoken for."""
    world = worlds["SERVICE_SHUT_DOWN"]
    order = world.order(scale=1)
    spoken_for = Admission(world.messages(world.sample(order))[0].header, HEALTH, world.census.gate())
    steps: list[Callable[[], object]] = [
        lambda: None,
        lambda: world.charge(order),
        lambda: world.census.let_go(spoken_for.ticket_hash),
    ]
    for step in steps:
        step()
        with world.unchanged(), pytest.raises(RefusedError, match="BUDGET_EXHAUSTED"):
            world.charge(world.order(scale=1))
    world.census.release(order.hash.hex())
    with world.unchanged(), pytest.raises(RefusedError, match="SERVICE_SHUT_DOWN"):
        world.charge(world.order(scale=1))


# --- policies --------------------------------------------------------------------------------------------------------


def adopt(world: World, policy: Policy, *, confirmed: bool = False) -> None:
    """The operator's command, from a process of its own."""
    keys = world.secrets
    confirmation = Confirmation("a drill", keys.operator) if confirmed else None
    operating.adopt(world._census_journal(), make_proposal(policy, keys.policy), [keys.policy.verify_key], confirmation)


@pytest.fixture
def nearly_spent(worlds: dict[str, World]) -> World:
    """A service with 1/10 nat left: at scale 50 something fits, at smaller scales nothing does."""
    world = worlds["BUDGET_EXHAUSTED"]
    world.charge(world.order(scale=1))
    return world


NOTHING_FITS = make_policy(max_belief="0.75", scales=(1, 2, 3))


def test_policy_under_which_nothing_fits_shuts_down_with_its_adoption(
    nearly_spent: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One transaction holds both, so that there is no instant at which a shut service looks open."""
    world = nearly_spent
    commits: list[int] = []
    commit = Journal._commit

    def counted(journal: Journal[CensusState]) -> None:
        commit(journal)
        commits.append(len(world.entries()))

    monkeypatch.setattr(Journal, "_commit", counted)
    before = len(world.entries())
    adopt(world, NOTHING_FITS)
    assert commits == [before + 2]
    adopted, shutdown = (entry.event for entry in world.entries()[-2:])
    assert isinstance(adopted, Adopted)
    assert isinstance(shutdown, Shutdown)
    assert shutdown.reason == "budget"
    for node in (world.census, world.open_census(), world.crash_census()):
        with node.journal.reading() as state:
            assert state.shut_down
    # What was paid for before goes out, and until then the end is not told.
    world.policy = NOTHING_FITS
    recovered = world.census.recover()
    for code in ("BUDGET_EXHAUSTED", "SERVICE_SHUT_DOWN"):
        with world.unchanged(), pytest.raises(RefusedError, match=code):
            world.charge(world.order(scale=1))
        for ticket_hash in recovered:
            world.census.release(ticket_hash)
    assert len(world.events(Released)) == 1


def test_adoption_whose_shutdown_cannot_be_written_did_not_happen(
    nearly_spent: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that dies between the two entries leaves neither."""
    world = nearly_spent
    append = Transaction.append

    def dying(transaction: Transaction[CensusState], event: Event) -> Entry:
        if isinstance(event, Shutdown):
            raise KeyboardInterrupt
        return append(transaction, event)

    with monkeypatch.context() as patch, world.unchanged():
        patch.setattr(Transaction, "append", dying)
        with pytest.raises(KeyboardInterrupt):
            adopt(world, NOTHING_FITS)
    assert not world.verify_log().shut_down
    world.charge(world.order(scale=50))


def test_adoption_alone_is_no_log(nearly_spent: World) -> None:
    """Whoever leaves the shutdown out can append nothing more: the rules of the log demand it next."""
    world = nearly_spent
    world.adopt(NOTHING_FITS)
    with pytest.raises(InternalError, match="a shutdown must follow"):
        world.census.release(world.charges()[0].ticket)


def test_policy_under_which_something_fits_shuts_nothing_down(nearly_spent: World) -> None:
    """The cheapest scale of the new policy decides."""
    world = nearly_spent
    adopt(world, make_policy(max_belief="0.75", scales=(40, 60)))
    assert not world.verify_log().shut_down


@pytest.mark.parametrize("max_belief", ["0.81", "0.99"])
def test_command_that_would_raise_the_cap_takes_the_operators_confirmation(
    nearly_spent: World, max_belief: str
) -> None:
    """Refused before anything is written, the running node is not disturbed; confirmed, it is what new questions see."""
    world = nearly_spent
    rules = make_policy(max_belief=max_belief)
    with world.unchanged(), pytest.raises(RefusedError, match="POLICY_WEAKER"):
        adopt(world, rules)
    adopt(world, rules, confirmed=True)
    world.policy = rules
    world.charge(world.order(scale=50))
    assert [event.note for event in world.events(Adopted)] == ["", "a drill"]


def test_command_that_confirms_what_needs_no_confirmation_is_refused(nearly_spent: World) -> None:
    """A signature of the operator in the log always means that something was weakened."""
    world = nearly_spent
    with world.unchanged(), pytest.raises(InvalidRequestError, match="is not needed"):
        adopt(world, make_policy(max_belief="0.75", scales=(40, 60)), confirmed=True)


def test_no_policy_key_alone_raises_the_cap(world: World) -> None:
    """Budget that was promised to the public is not topped up by whoever can sign policies."""
    world.answer(world.order())
    with world.unchanged(), pytest.raises(InternalError, match="CAP_RAISED"):
        world.adopt(make_policy(max_belief="0.81"))


def test_charge_that_breaks_a_rule_is_never_written(worlds: dict[str, World]) -> None:
    """Were the ledger's own check ever wrong, the rules of the log would still refuse the entry."""
    world = worlds["BUDGET_EXHAUSTED"]
    world.answer(world.order(scale=1))
    (charge,) = world.charges()
    second = structs.replace(charge, query="1" * 32, ticket="1" * 64, slot=charge.slot + 1, total=2 * price_units(1))
    with (
        world.unchanged(),
        pytest.raises(InternalError, match="what everybody was charged passes the cap"),
        world.census.journal.transaction() as transaction,
    ):
        transaction.append(second)
    world.open_census()
    assert world.charges() == [charge]
