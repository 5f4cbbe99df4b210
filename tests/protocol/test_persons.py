"""Per-person accounting at the node: who is charged, who is counted, and that nobody outside the agency sees which."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from fakes.dictionaries import CENSUS_DICTIONARY
from fakes.world import Order, OrderedSample, Pseudonyms, World, charge_and_answer, make_policy, rows

from broker_common.crypto.linkage import LinkageKey
from broker_common.errors import BrokerError, RefusedError
from broker_common.privacy.accounting import price
from broker_common.storage.loads import LoadFolder
from broker_common.tlog.entries import Charged, encode_entry
from census_node.ledger.passes import Bits, Counted, Passes
from census_node.ledger.steps import LedgerSteps
from census_node.ledger.subjects import Cards
from census_node.query.admission import SampleAttempt
from census_node.query.charging import Kept
from census_node.registry import Registry

DAY_MS = 86_400_000
SAMPLE_RETENTION_MS = 7 * DAY_MS
PERSONS = make_policy(accounting="per_person", sample_retention_ms=SAMPLE_RETENTION_MS)
HOUSEHOLDS = make_policy(accounting="per_person", subject="household", sample_retention_ms=SAMPLE_RETENTION_MS)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many people each answer was counted on, in order: what nobody outside ever sees."""
    seen: list[int] = []
    count = Passes.count

    def watched(passes: Passes, active: Bits, question: Counted) -> list[int]:
        seen.append(int(np.unpackbits(active).sum()))
        return count(passes, active, question)

    monkeypatch.setattr(Passes, "count", watched)
    return seen


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A census agency that charges persons; 400 people, three of four of whom it knows."""
    made = World(tmp_path, PERSONS)
    yield made
    made.close()


def charged(world: World) -> list[int]:
    """Charges of each subject, by number, with all that is durable."""
    charges = world.census.book.charges()
    assert charges is not None
    return [int(units) for units in charges.subjects]


def ask(world: World, people: Pseudonyms, *, scale: int = 30) -> Order:
    """An answer about these people; it opens, and says nothing of drops."""
    order = world.order(scale=scale)
    answer = world.open(order, world.answer(order, world.sample(order, people)))
    assert (answer.scale, answer.charged) == (scale, price(scale))
    return order


def strangers(world: World) -> Pseudonyms:
    """Everybody on the roster whom the census does not know."""
    unknown: Pseudonyms = world.people[np.arange(len(world.people)) % 4 == 3]
    return unknown


def kept_files(world: World) -> set[str]:
    """Every sample."""
    return {path.name for path in (world.census_folder / "samples").glob("*")}


def named_files(world: World) -> set[str]:
    """Files that rows name."""
    with world.census.journal.reading():
        named = LedgerSteps(world.census.journal.db).files()
    return {f"{name.partition(':')[0]}.sample" for name in named if ":" in name}


# --- samples of every kind -------------------------------------------------------------------------------------------


def test_exhausted_people_are_dropped_and_the_others_counted(world: World, counted: list[int]) -> None:
    """After one answer at scale 1 a second does not fit: people in the first are not counted again, nobody is told."""
    half = world.people[:200]
    ask(world, half, scale=1)
    ask(world, world.people, scale=1)
    ask(world, half, scale=1)
    ask(world, world.people, scale=1)
    assert counted == [150, 150, 0, 0]
    assert set(charged(world)) == {price(1)}
    assert price(1) <= PERSONS.cap
    world.verify_log()


def test_entries_and_answers_are_of_one_form_whoever_is_dropped(world: World) -> None:
    """Everybody, only exhausted people, nobody, strangers: entries of one length, sealed answers of one length."""
    half = world.people[:200]
    ask(world, half, scale=1)
    # All under checkpoints of one length, from slots of one length.
    lengths = []
    samples = (world.people, half, world.people[:0], strangers(world))
    orders = [world.order(scale=1) for _ in samples]
    for order, people in zip(orders, samples, strict=True):
        sealed = world.answer(order, world.sample(order, people))
        entry = next(
            each
            for each in world.entries()
            if isinstance(each.event, Charged) and each.event.ticket == order.hash.hex()
        )
        fields = {
            name: len(value) if isinstance(value, str) else 0
            for name, value in json.loads(encode_entry(entry))["event"].items()
        }
        lengths.append((len(sealed), tuple(sorted(fields.items()))))
    assert len(set(lengths)) == 1


@pytest.mark.parametrize("people", [0, 1])
def test_an_empty_sample_is_charged_and_answered_like_any_other(world: World, counted: list[int], people: int) -> None:
    """It charges nobody, and its membership, which is nobody, is kept and erased like any other."""
    ask(world, world.people[:people])
    assert counted == [people]
    assert sum(charged(world)) == people * price(30)
    assert kept_files(world) == named_files(world)
    assert len(kept_files(world)) == 1
    world.crash_census().recover()
    world.clock.advance(SAMPLE_RETENTION_MS)
    world.census.forget_expired()
    assert not kept_files(world)
    world.crash_census().recover()
    world.verify_honest_query()


def test_a_question_whose_noise_secret_is_lost_is_forgotten_in_its_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can never be answered: its membership goes when its time is over, what it was charged stays, others go on."""
    order, known = world.order(), world.people[:5][np.arange(5) % 4 != 3]
    admitted = world.admit(world.messages(world.sample(order, world.people[:5])))

    def power_cut(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(world.census.answers, "make", power_cut)
        with pytest.raises(KeyboardInterrupt):
            charge_and_answer(world.census, admitted)
    # Its secret goes with the node's folder, which is in no backup.
    for path in (world.census_folder / "slots").iterdir():
        path.unlink()
    for _ in range(2):
        world.crash_census().recover()
        assert world.census.answers.lost == {order.hash.hex()}
        world.clock.advance(SAMPLE_RETENTION_MS)
        world.census.forget_expired()
        assert not kept_files(world)
        assert sum(charged(world)) == len(known) * price(30)
    ask(world, world.people[:3])
    assert max(charged(world)) == 2 * price(30)


def test_strangers_are_charged_nothing_and_take_no_room(world: World, counted: list[int]) -> None:
    """People unknown to the census are nobody's business: no answer depends on them, so that there is nothing to keep."""
    ask(world, strangers(world), scale=1)
    assert counted == [0]
    assert not any(charged(world))
    ask(world, world.people, scale=1)
    assert counted == [0, 300]


def families(world: World, load: str, *, cards_each: int = 2) -> Registry:
    """A registry in which each two rows are one person's, and each four one household's; nobody's number is gone."""
    size = len(world.in_census)
    numbers = np.arange(size, dtype=np.uint32)
    halves = world.in_census.copy().view(">u8").astype(np.uint64)
    persons = numbers // np.uint32(cards_each)
    cards = Cards(halves[:, 0].copy(), halves[:, 1].copy(), persons, persons // np.uint32(2))
    values = {
        column.name: (numbers * cards_each % len(column.codes)).astype(np.uint8) for column in CENSUS_DICTIONARY.columns
    }
    return Registry.of(load, cards, values, size, size, CENSUS_DICTIONARY)


def put_in_force(world: World, registry: Registry) -> None:
    """Put a registry in force beside the serving node."""
    loads = LoadFolder(world.census_folder / "registries", ".npz")
    world.put_in_force(world.census.journal, loads, registry)
    world.census.rosters.join_due()


def test_two_cards_of_one_person_are_one_person(world: World, counted: list[int]) -> None:
    """Counted once and charged once; an asker with one card and then with the other meets one budget."""
    put_in_force(world, families(world, "f" * 16))
    one, other = world.in_census[0:10:2], world.in_census[1:11:2]
    ask(world, world.in_census[:10], scale=2)
    assert counted == [5]
    assert charged(world)[:6] == [price(2)] * 5 + [0]
    ask(world, one, scale=2)
    ask(world, other, scale=2)
    ask(world, one, scale=1)
    assert counted == [5, 5, 0, 0]
    assert max(charged(world)) <= PERSONS.cap


def test_a_household_that_does_not_fit_drops_whole(tmp_path: Path, counted: list[int]) -> None:
    """Charged for each of its people; asked about one member after the other it is the household's budget that ends."""
    world = World(tmp_path, HOUSEHOLDS)
    put_in_force(world, families(world, "f" * 16, cards_each=1))
    two, one = world.in_census[:2], world.in_census[:1]
    ask(world, world.in_census[2:4], scale=1)
    assert counted == [0]
    ask(world, two, scale=2)
    assert counted == [0, 2]
    ask(world, one, scale=2)
    ask(world, one, scale=30)
    assert counted == [0, 2, 0, 1]
    assert max(charged(world)) <= HOUSEHOLDS.cap
    world.close()


# --- what ends nothing -----------------------------------------------------------------------------------------------


def reload(world: World) -> None:
    """Another load of the same people."""
    put_in_force(world, world.make_registry("e" * 16))


def relink(world: World) -> None:
    """Another linkage key at both agencies."""
    key = LinkageKey(bytes(range(32)))
    world.relink_census(key)
    world.follow(key)
    world.renew_rosters()


def stop_and_reopen(world: World) -> None:
    """The operator ends the service and opens it again."""
    world.shut_down()
    world.reopen()


def restart(world: World) -> None:
    """The node is killed and starts again."""
    world.crash_census().recover()


def erase(world: World) -> None:
    """All memberships are erased, and the node starts from what is left."""
    world.clock.advance(SAMPLE_RETENTION_MS)
    world.census.forget_expired()
    assert not kept_files(world)
    world.crash_census().recover()


def lower(world: World) -> None:
    """The cap is lowered."""
    world.order_policy(make_policy(accounting="per_person", max_belief="0.75", sample_retention_ms=SAMPLE_RETENTION_MS))


def to_strict_and_back(world: World) -> None:
    """Strict accounting counts everything there was; the operator comes back from it."""
    world.order_policy(make_policy())
    with world.unchanged(), pytest.raises(RefusedError, match=r"SERVICE_SHUT_DOWN|BUDGET_EXHAUSTED"):
        world.charge(world.order(scale=1))
    world.order_policy(PERSONS)
    with world.census.journal.reading() as state:
        is_shut = state.shut_down
    if is_shut:
        world.reopen()


def clock_back_and_forth(world: World) -> None:
    """The clock is a month behind, then a month ahead."""
    for days in (-30, 60):
        world.clock.advance(days * DAY_MS)
        world.census.forget_expired()
        world.crash_census().recover()


AFTER_EXHAUSTION: tuple[Callable[[World], None], ...] = (
    reload,
    relink,
    stop_and_reopen,
    restart,
    erase,
    lower,
    to_strict_and_back,
    clock_back_and_forth,
)


@pytest.mark.parametrize("event", AFTER_EXHAUSTION)
def test_exhausted_people_stay_exhausted(world: World, counted: list[int], event: Callable[[World], None]) -> None:
    """Nothing that an operator, a clock or a crash does gives anybody anything back; the others are still counted."""
    ask(world, world.people[:200], scale=1)
    names = {row.tobytes() for row in world.people[:200]}
    before = world.people.copy()
    event(world)
    if not np.array_equal(before, world.people):
        key = LinkageKey(bytes(range(32)))
        names = {row.tobytes() for row in key.step(before[:200])}
    exhausted = world.people[[row.tobytes() in names for row in world.people]]
    assert len(exhausted) == 200
    ask(world, exhausted, scale=1)
    ask(world, world.people, scale=1)
    assert counted == [150, 0, 150]
    assert max(charged(world)) == price(1)
    assert kept_files(world) == named_files(world)
    world.verify_log()


def test_a_policy_may_end_what_persons_could_still_have_had(world: World, counted: list[int]) -> None:
    """Under a lower cap nobody is charged beyond it, and what was charged stays charged."""
    ask(world, world.people, scale=2)
    lower(world)
    ask(world, world.people, scale=1)
    ask(world, world.people, scale=2)
    assert counted == [300, 0, 300]
    assert set(charged(world)) == {2 * price(2)}


# --- on the way ------------------------------------------------------------------------------------------------------


def admitted(world: World, people: Pseudonyms) -> tuple[OrderedSample, SampleAttempt]:
    """A sample that is about to be kept."""
    sample = world.sample(world.order(), people)
    return sample, world.admit(world.messages(sample))


def charge(world: World, attempt: SampleAttempt, decided: Kept | None) -> None:
    """Charge a sample that was decided on, or that is decided on now."""
    if decided is None:
        charge_and_answer(world.census, attempt)
    else:
        world.census.charging.charge(attempt, decided, at_ms=world.clock())


@pytest.mark.parametrize("kept", [False, True], ids=["before it is decided", "before it is charged"])
def test_a_load_between_admission_and_charge_makes_its_agency_send_again(
    world: World, counted: list[int], kept: bool
) -> None:
    """Decided on a load that is not in force, nothing is charged: BUSY, and the next attempt is decided on the new one."""
    sample, arrived = admitted(world, world.in_census[:10])
    decided = world.census.keeping.keep(arrived) if kept else None
    put_in_force(world, families(world, "f" * 16))
    with world.unchanged(), pytest.raises(RefusedError, match="BUSY"):
        charge(world, arrived, decided)
    if decided is not None:
        world.census.keeping.forget(decided)
    assert not kept_files(world)
    world.answer(sample.order, sample)
    assert [charge.load for charge in world.charges()] == ["f" * 16]
    assert counted == [5]
    assert charged(world)[:6] == [price(30)] * 5 + [0]
    assert kept_files(world) == named_files(world)


@pytest.mark.parametrize("fault", ["charged", "count"])
def test_a_fault_after_the_charge_keeps_its_sample(
    world: World, monkeypatch: pytest.MonkeyPatch, counted: list[int], fault: str
) -> None:
    """The charge is durable: the file that it names stays, the retry is not charged again, and the answer is made."""
    sample, arrived = admitted(world, world.people)

    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        if fault == "charged":
            patch.setattr(world.census.book, "charged", fail)
        else:
            patch.setattr(Passes, "count", fail)
        with pytest.raises(MemoryError):
            charge_and_answer(world.census, arrived)
    assert len(world.charges()) == 1
    assert kept_files(world) == named_files(world)
    assert len(kept_files(world)) == 1
    charge_and_answer(world.census, world.admit(world.messages(sample)))
    assert (len(world.charges()), counted[-1:]) == (1, [300])
    assert set(charged(world)) == {price(30)}
    assert kept_files(world) == named_files(world)
    world.crash_census().recover()
    assert set(charged(world)) == {price(30)}
    world.verify_honest_query()


def test_the_last_answer_that_the_policy_allows_shuts_the_service_down(tmp_path: Path) -> None:
    """A public number: the same for samples of exhausted people and of everybody; nothing is charged after it."""
    world = World(tmp_path, make_policy(accounting="per_person", max_answers=3))
    for _ in range(3):
        ask(world, world.people, scale=1)
    for people in (world.people, world.people[:0]):
        with world.unchanged(), pytest.raises(BrokerError, match="SERVICE_SHUT_DOWN"):
            world.charge(world.order(), world.sample(world.order(), people))
    restart(world)
    with world.census.journal.reading() as state:
        assert (state.shut_down, state.shutdown_reason, state.answers) == (True, "budget", 3)
    assert rows(world.census_folder / "journal.db", "pending") == []
    world.close()
