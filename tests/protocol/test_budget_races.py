"""The cap holds no matter who races for it, and once the service is shut it stays shut; charged answers still go out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import pytest
from fakes.connections import WatchedConnection, watch_journals
from fakes.links import arrived, count, stream
from fakes.patience import PATIENCE_SECONDS
from fakes.world import HEALTH, Order, Pseudonyms, World, charge_and_answer, make_policy, release
from msgspec import structs
from protocol.pair import at_work
from tripartite.v1 import census_service_pb2

from broker_common.crypto.commitments import hash_bytes
from broker_common.errors import BrokerError, InternalError, InvalidRequestError, RefusedError
from broker_common.privacy.accounting import price
from broker_common.privacy.delays import DECLARED_STEP
from broker_common.privacy.policy import Policy
from broker_common.rpc.server import StopSignal
from broker_common.storage.dictionary.adopted import Dictionaries
from broker_common.storage.journal import Transaction
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import Adopted, Entry, Event, Released, Shutdown
from census_node.config import LimitConfig
from census_node.operator import operating
from census_node.operator.operating import Confirmation
from census_node.operator.proposals import make_proposal
from census_node.query.admission import Recovered, SampleAttempt
from census_node.query.budget import quotable_answers, verify_affordable
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


def tickets(recovered: Sequence[Recovered]) -> list[str]:
    """The tickets of charges that go on after a start."""
    return [attempt.verify_claim().ticket_hash for attempt in recovered]


async def race(world: World, orders: Sequence[Order]) -> list[str]:
    """Hand everything in at the same moment; gives each one's refusal, or nothing for the one that was answered."""
    limits = LimitConfig(max_queries=len(orders), cosignature_wait_ms=int(1000 * PATIENCE_SECONDS))
    service = CensusService(world.census, limits, StopSignal(), people=DECLARED_STEP)

    async def ask(order: Order) -> str:
        try:
            async for _ in count(service, stream(world.messages(world.sample(order))), HEALTH):
                pass
        except BrokerError as error:
            return error.code
        return ""

    async with at_work(service):
        return list(await asyncio.gather(*map(ask, orders)))


@pytest.mark.parametrize("racers", [2, 16])
@pytest.mark.parametrize("what", ["SERVICE_SHUT_DOWN", "BUDGET_EXHAUSTED"])
async def test_last_unit_of_the_budget_is_spent_once(worlds: dict[str, World], what: str, racers: int) -> None:
    """However many questions race for the last answer, exactly one is charged and the others are told why not."""
    world = worlds[what]
    orders = [world.order(scale=1) for _ in range(racers)]
    outcomes = await race(world, orders)
    # Reserved budget is shown as spent; a shutdown is told when its answer is out.
    assert outcomes.count("") == 1
    assert set(outcomes) <= {"", what, "BUDGET_EXHAUSTED"}
    state = world.verify_log()
    assert state.charged_units == price(1) <= world.policy.cap
    winner = orders[outcomes.index("")]
    assert world.open(winner, world.sealed(winner)).scale == 1


@pytest.mark.parametrize("code", ["SERVICE_SHUT_DOWN", "BUDGET_EXHAUSTED"])
def test_last_unit_is_looked_for_again_under_the_lock_of_the_journal(worlds: dict[str, World], code: str) -> None:
    """Should two samples come to the desk for one last answer, the second is refused there, and its file is not kept."""
    world = worlds[code]
    first, second = (world.admit(world.messages(world.sample(world.order(scale=1)))) for _ in range(2))
    charge_and_answer(world.census, first)
    files = set((world.census_folder / "samples").glob("*"))
    with world.unchanged(), pytest.raises(RefusedError, match=code):
        charge_and_answer(world.census, second)
    assert set((world.census_folder / "samples").glob("*")) == files


def test_two_nodes_on_one_journal_share_one_budget(worlds: dict[str, World]) -> None:
    """Two processes on one ledger cannot each spend the last answer."""
    world = worlds["SERVICE_SHUT_DOWN"]
    first, waiting = world.census, world.admit(world.messages(world.sample(world.order(scale=1))))
    world.open_census()
    world.charge(world.order(scale=1))
    with world.unchanged(), pytest.raises(RefusedError, match="SERVICE_SHUT_DOWN"):
        charge_and_answer(first, waiting)
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
    assert state.charged_units == 41 * price(30) <= world.policy.cap
    assert state.charged_units + price(50) > world.policy.cap
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
    (ticket_hash,) = tickets(world.census.recover())
    release(world.census, ticket_hash)
    sealed = world.sealed(order)
    assert world.open(order, sealed).charged == price(1)
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
    assert world.verify_log().charged_units == price(1) + 4 * price(50)


@pytest.mark.parametrize("released", [False, True])
def test_nothing_is_reopened_while_nothing_fits(worlds: dict[str, World], released: bool) -> None:
    """The command is refused, and so is an entry written without the command."""
    world = worlds["SERVICE_SHUT_DOWN"]
    order = world.order(scale=1)
    world.charge(order)
    if released:
        world.release(order)
    with world.unchanged(), pytest.raises(RefusedError, match="NOTHING_FITS"):
        operating.reopen(world.census.journal, "a drill", world.secrets.operator)
    with world.unchanged(), pytest.raises(InternalError, match="NOTHING_FITS"):
        world.reopen()


def test_until_a_shutdown_is_told_a_raised_cap_lets_no_sample_in(worlds: dict[str, World]) -> None:
    """Admitted before the shutdown is told, a sample would wait in line to be refused there."""
    world = worlds["SERVICE_SHUT_DOWN"]
    order = world.order(scale=1)
    world.charge(order)
    world.policy = make_policy(max_belief="0.9", scales=(1,))
    adopt(world, world.policy, confirmed=True)
    recovered = world.open_census().recover()
    # Counted by what is out: nothing yet, so that ln 9 pays for two.
    assert quotable(world, 1) == 2
    with world.unchanged(), pytest.raises(RefusedError, match="BUDGET_EXHAUSTED"):
        world.admit(world.messages(world.sample(world.order(scale=1))))
    for ticket_hash in tickets(recovered):
        release(world.census, ticket_hash)
    with world.unchanged(), pytest.raises(RefusedError, match="SERVICE_SHUT_DOWN"):
        world.admit(world.messages(world.sample(world.order(scale=1))))
    world.reopen()
    world.answer(world.order(scale=1))
    assert world.verify_log().charged_units == 2 * price(1)


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
    """Otherwise a sender of worthless tickets would see when the last answer was charged."""
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
    world.release(last)
    assert refusal() == "SERVICE_SHUT_DOWN"


def quotable(world: World, scale: int) -> int | None:
    """How many more answers at this scale a researcher is told of; None where that is not told."""
    with world.census.journal.reading() as state:
        return quotable_answers(state, world.policy, scale)


# --- the price of a sample in line -----------------------------------------------------------------------------------


def in_line(world: World, order: Order, people: Pseudonyms | None = None) -> SampleAttempt:
    """The order's sample with a place in line: nothing of it has been done."""
    attempt = world.census.attempt(HEALTH.organisation, arrived(world.messages(world.sample(order, people))))
    attempt.verify_claim()
    attempt.verify_sample()
    return attempt


def is_spoken_for(world: World) -> bool:
    """Whether another question is told that nothing is left."""
    attempt = world.census.attempt(HEALTH.organisation, arrived(world.messages(world.sample(world.order(scale=1)))))
    attempt.verify_claim()
    try:
        attempt.verify_sample()
    except RefusedError as error:
        assert error.code == "BUDGET_EXHAUSTED"  # noqa: PT017 - either may happen
        return True
    attempt.let_go()
    return False


@pytest.fixture
def last(worlds: dict[str, World]) -> World:
    """A census agency that has one answer to give."""
    return worlds["SERVICE_SHUT_DOWN"]


@pytest.mark.parametrize("people", [0, 400])
def test_last_answer_goes_to_the_first_in_line(last: World, people: int) -> None:
    """Who gets the last of the budget is decided before anybody's record counts: two cohorts cannot be raced."""
    first = in_line(last, last.order(scale=1), last.people[:people])
    with last.unchanged(), pytest.raises(RefusedError, match="BUDGET_EXHAUSTED"):
        in_line(last, last.order(scale=1), last.people[: 400 - people])
    charge_and_answer(last.census, first)
    assert len(last.charges()) == 1


async def test_price_of_a_refused_sample_is_free_again(last: World) -> None:
    """An attempt that ends without a charge holds nothing any more, however it ended."""
    limits = LimitConfig(cosignature_wait_ms=int(1000 * PATIENCE_SECONDS))
    spoilers: list[Callable[[list[census_service_pb2.CountRequest]], object]] = [
        lambda sent: sent.pop(),
        lambda sent: setattr(sent[0].head.manifest, "signature", bytes(64)),
        lambda sent: setattr(sent[1], "bits", bytes(len(sent[1].bits))),
    ]
    async with at_work(CensusService(last.census, limits, StopSignal(), people=DECLARED_STEP)) as service:
        for spoil in spoilers:
            sent = last.messages(last.sample(last.order(scale=1)))
            spoil(sent)
            with last.unchanged(), pytest.raises(BrokerError):
                async for _ in count(service, stream(sent), HEALTH):
                    pass
            assert not is_spoken_for(last)
        said = count(service, stream(last.messages(last.sample(last.order(scale=1)))), HEALTH)
        assert [str(response.WhichOneof("event")) async for response in said] == ["charged", "released"]


def test_price_of_a_charge_that_failed_is_free_again(last: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Admitted, and refused at the desk: nothing was charged, and the next one finds the price."""
    waiting = in_line(last, last.order(scale=1))
    with monkeypatch.context() as patch, last.unchanged():
        patch.setattr(last.census.journal, "transaction", busy)
        with pytest.raises(RefusedError, match="BUSY"):
            charge_and_answer(last.census, waiting)
    assert is_spoken_for(last)
    waiting.let_go()
    assert not is_spoken_for(last)


def busy() -> NoReturn:
    """Another process holds the journal."""
    raise RefusedError("BUSY", retry_seconds=1)


def test_last_answer_stays_with_a_sample_whose_ticket_ends_meanwhile(last: World) -> None:
    """A researcher who gives a ticket an early end, or a clock set forward, starts no race between two samples."""
    ends_ms = last.clock() + 1000
    first = in_line(last, last.order(scale=1, change=lambda body: setattr(body, "expires_ms", ends_ms)))
    last.clock.now_ms = ends_ms
    with last.unchanged(), pytest.raises(RefusedError, match="BUDGET_EXHAUSTED"):
        in_line(last, last.order(scale=1), last.people[:0])
    charge_and_answer(last.census, first)
    assert len(last.charges()) == 1


def test_sample_that_is_refused_holds_nothing(last: World) -> None:
    """Nobody keeps others from the budget with tickets that do not hold."""
    for order in (last.order(scale=1, slot=4711), last.order(scale=2)):
        with last.unchanged(), pytest.raises(BrokerError, match=r"SLOT_UNUSABLE|SCALE_REFUSED"):
            in_line(last, order)
    messages = last.messages(last.sample(last.order(scale=1)))
    messages[1].bits = bytes(len(messages[1].bits))
    attempt = last.census.attempt(HEALTH.organisation, arrived(messages))
    attempt.verify_claim()
    with last.unchanged(), pytest.raises(BrokerError, match="SEALED_WRONGLY"):
        attempt.verify_sample()
    assert not is_spoken_for(last)


def test_several_attempts_of_one_ticket_hold_its_price_once(last: World) -> None:
    """A retry finds its own price held for it, and holds it on when the first attempt ends."""
    order = last.order(scale=1)
    first, retry = in_line(last, order), in_line(last, order)
    first.let_go()
    assert is_spoken_for(last)
    charge_and_answer(last.census, retry)
    assert len(last.charges()) == 1


def test_end_of_the_service_is_told_when_the_last_answer_is_out(last: World) -> None:
    """Between charge and release a shut service sounds like one whose last answer is spoken for."""
    order = last.order(scale=1)
    spoken_for = in_line(last, order)
    steps: list[Callable[[], object]] = [
        lambda: None,
        lambda: charge_and_answer(last.census, spoken_for),
        spoken_for.let_go,
    ]
    for step in steps:
        step()
        assert is_spoken_for(last)
    last.release(order)
    with last.unchanged(), pytest.raises(RefusedError, match="SERVICE_SHUT_DOWN"):
        last.charge(last.order(scale=1))


# --- policies --------------------------------------------------------------------------------------------------------


def adopt(world: World, policy: Policy, *, confirmed: bool = False) -> None:
    """The operator's command, from a process of its own."""
    keys = world.secrets
    confirmation = Confirmation("a drill", keys.operator) if confirmed else None
    proposal, dictionaries = make_proposal(policy, keys.policy), Dictionaries(world.census_folder)
    operating.adopt(world._census_journal(), proposal, [keys.policy.verify_key], dictionaries, confirmation)


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

    def counted(watched: WatchedConnection, statement: str) -> None:
        if statement == "COMMIT" and watched.stored:
            commits.append(len(world.entries()))

    watch_journals(monkeypatch, after=counted)
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
    # Earlier paid answers go out, and until then the end is not told.
    world.policy = NOTHING_FITS
    recovered = world.census.recover()
    for code in ("BUDGET_EXHAUSTED", "SERVICE_SHUT_DOWN"):
        with world.unchanged(), pytest.raises(RefusedError, match=code):
            world.charge(world.order(scale=1))
        for ticket_hash in tickets(recovered):
            release(world.census, ticket_hash)
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
    """Nothing more can be appended without the shutdown: the rules of the log demand it next."""
    world = nearly_spent
    world.adopt(NOTHING_FITS)
    with pytest.raises(InternalError, match="SHUTDOWN_MISSING"):
        release(world.census, world.charges()[0].ticket)


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
    """A signer of policies cannot top up a budget that was promised to the public."""
    world.answer(world.order())
    with world.unchanged(), pytest.raises(InternalError, match="CAP_RAISED"):
        world.adopt(make_policy(max_belief="0.81"))


def test_charge_that_breaks_a_rule_is_never_written(worlds: dict[str, World]) -> None:
    """Were the ledger's own check ever wrong, the rules of the log would still refuse the entry."""
    world = worlds["BUDGET_EXHAUSTED"]
    world.answer(world.order(scale=1))
    (charge,) = world.charges()
    second = structs.replace(charge, query="1" * 32, ticket="1" * 64, slot=charge.slot + 1, total=2 * price(1))
    with (
        world.unchanged(),
        pytest.raises(InternalError, match="what everybody was charged passes the cap"),
        world.census.journal.transaction() as transaction,
    ):
        transaction.append(second)
    world.open_census()
    assert world.charges() == [charge]
