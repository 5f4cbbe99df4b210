"""Between charge and answer a sample and its noise secret lie in a file each: nowhere else, no longer, never without use."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from fakes.connections import at, break_statements, watch
from fakes.samples import whom
from fakes.world import (
    HEALTH,
    RELEASE,
    RESEARCHER,
    OrderedSample,
    Pseudonyms,
    World,
    charge_and_answer,
    make_policy,
    rows,
)

from broker_common.crypto.commitments import SlotSecret, answer_salt, commit_active, commit_answer
from broker_common.crypto.linkage import LinkageKey
from broker_common.crypto.sample_bits import SampleBits
from broker_common.errors import BrokerError, InternalError, RefusedError, StateUnknownError
from broker_common.parties.registration import register, registered, revoke
from broker_common.storage.loads import LoadFolder
from broker_common.tlog.entries import Released
from broker_common.values import NoisyCounts
from census_node.ledger.samples import SampleFolder
from census_node.ledger.steps import LedgerSteps
from census_node.query.admission import Recovered
from census_node.query.answering import Answers
from census_node.query.budget import quotable_answers
from census_node.release.outbox import Outbox
from census_node.release.slot_secrets import SlotSecrets


def tickets(recovered: Sequence[Recovered]) -> list[str]:
    """The tickets of charges that go on after a start."""
    return [attempt.verify_claim().ticket_hash for attempt in recovered]


def folder(world: World) -> SampleFolder:
    """Where the census node keeps its samples."""
    return SampleFolder(world.census_folder / "samples")


def kept_files(world: World) -> list[str]:
    """Every file in it."""
    return sorted(path.name for path in folder(world).path.glob("*"))


def some_people(world: World, seed: int = 7) -> Pseudonyms:
    """Half of everybody, so that the bits of their sample are found nowhere by chance."""
    chosen: Pseudonyms = world.people[np.random.default_rng(seed).random(len(world.people)) < 0.5]
    return chosen


def signs_of(sample: OrderedSample, people: int = 400) -> list[bytes]:
    """Signs that bytes hold something of a sample: its salt, and its bits, the padding left out."""
    bits = sample.sample.bits
    return [bits.salt, bits.bits.tobytes()[: people // 8]]


def files_holding(world: World, *secrets: bytes) -> list[str]:
    """Names of all files of the census home, write-ahead log and all, that hold any of it."""
    files = [path for path in world.census_folder.rglob("*") if path.is_file()]
    assert {"journal.db", "journal.db-wal"} <= {path.name for path in files}
    return sorted(path.name for path in files if any(secret in path.read_bytes() for secret in secrets))


def references(world: World) -> dict[str, str]:
    """Sample references of every ticket that waits for its answer."""
    with world.census.journal.reading():
        return {ticket: sample for ticket, sample, _ in Outbox(world.census.journal.db).all_pending()}


def key_of(reference: str) -> str:
    """Key of a sample's file."""
    return reference.partition(":")[2]


def slot_secret(world: World, sample: OrderedSample) -> bytes:
    """The secret that the noise of its answer is to be made from."""
    slot = sample.order.body.noise_slot
    return SlotSecrets(world.census_folder / "slots").read(slot.number, slot.commitment).expose()


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Every noise secret that was read for an answer."""
    seen: list[bytes] = []
    read_secret = SlotSecrets.read

    def secret(secrets: SlotSecrets, slot: int, commitment: bytes) -> SlotSecret:
        read = read_secret(secrets, slot, commitment)
        seen.append(read.expose())
        return read

    monkeypatch.setattr(SlotSecrets, "read", secret)
    return seen


class PowerCutError(Exception):
    """Raised where the power goes."""


def cut(*_: object, **__: object) -> None:
    """The end of everything in memory."""
    raise PowerCutError


def charge_only(world: World, monkeypatch: pytest.MonkeyPatch, sample: OrderedSample) -> None:
    """Up to the durable charge, and no further."""
    admitted = world.admit(world.messages(sample))
    with monkeypatch.context() as patch:
        patch.setattr(world.census.answers, "make", cut)
        with pytest.raises(PowerCutError):
            charge_and_answer(world.census, admitted)


# --- nowhere else, and no longer -------------------------------------------------------------------------------------


def test_sample_is_in_its_file_alone_while_its_answer_is_made(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the charge on: in no file are its bits or its salt to be read, and its noise secret stands in one."""
    sample = world.sample(world.order(), some_people(world))
    charge_only(world, monkeypatch, sample)
    (name,) = kept_files(world)
    (reference,) = references(world).values()
    kept = folder(world).read(reference)
    assert (kept.salt, kept.bits.tobytes()) == (sample.sample.bits.salt, sample.sample.bits.bits.tobytes())
    assert name == f"{reference.partition(':')[0]}.sample"
    secret = slot_secret(world, sample)
    batch = next(path.name for path in (world.census_folder / "slots").iterdir() if secret in path.read_bytes())
    assert files_holding(world, secret) == [batch]
    assert files_holding(world, *signs_of(sample)) == []


@pytest.mark.parametrize("people", [0, 1, 400])
def test_nothing_of_a_sample_is_left_once_its_answer_is_stored(
    world: World, monkeypatch: pytest.MonkeyPatch, secrets: list[bytes], people: int
) -> None:
    """No file, no noise secret, and no key in any file of the home, the write-ahead log included."""
    sample = world.sample(world.order(), world.people[:people])
    charge_only(world, monkeypatch, sample)
    (reference,) = references(world).values()
    assert files_holding(world, key_of(reference).encode()) != []
    world.charge(sample.order, sample)
    (secret,) = secrets
    assert len(secret) == 32
    assert kept_files(world) == []
    assert rows(world.census_folder / "journal.db", "pending") == []
    assert files_holding(world, secret) == []
    # The node's work beside queries, all the time.
    world.census.forget_expired()
    assert files_holding(world, key_of(reference).encode(), bytes.fromhex(key_of(reference))) == []
    world.verify_honest_query()


def test_answers_of_recovery_leave_nothing_either(
    world: World, monkeypatch: pytest.MonkeyPatch, secrets: list[bytes]
) -> None:
    """An answer that is made after a crash wipes what it was made of."""
    sample = world.sample(world.order(), some_people(world))
    charge_only(world, monkeypatch, sample)
    world.crash_census()
    assert tickets(world.census.recover()) == [sample.order.hash.hex()]
    (secret,) = secrets
    assert files_holding(world, secret) == kept_files(world) == []
    world.verify_honest_query()


def test_death_between_answer_and_wiping_is_made_good_at_the_next_start(
    world: World, monkeypatch: pytest.MonkeyPatch, secrets: list[bytes]
) -> None:
    """The answer stands and the sample too: the start sweeps it away, and the answer is the stored one."""
    sample = world.sample(world.order(), some_people(world))
    admitted = world.admit(world.messages(sample))
    with monkeypatch.context() as patch:
        patch.setattr(SampleFolder, "wipe", cut)
        with pytest.raises(PowerCutError):
            charge_and_answer(world.census, admitted)
    stored = world.census.released.waiting_answer(sample.order.body.query_id.hex())
    assert stored is not None
    (secret,) = secrets
    assert len(kept_files(world)) == len(files_holding(world, secret)) == 1
    world.crash_census()
    assert tickets(world.census.recover()) == [sample.order.hash.hex()]
    assert files_holding(world, secret) == kept_files(world) == []
    world.release(sample.order)
    assert world.sealed(sample.order) == stored.sealed


def test_every_sample_has_a_key_of_its_own(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forgetting one key forgets one sample, and no other."""
    for _ in range(10):
        charge_only(world, monkeypatch, world.sample(world.order()))
    assert len({key_of(reference) for reference in references(world).values()}) == 10


def test_every_charge_has_a_noise_secret_of_its_own(world: World, secrets: list[bytes]) -> None:
    """The same people ten times: ten secrets."""
    for _ in range(10):
        world.charge(world.order())
    assert len(set(secrets)) == 10


def test_receipt_hides_its_answer_behind_the_secret_of_its_slot(world: World, secrets: list[bytes]) -> None:
    """Auditors see every receipt: without a secret that nobody has kept, no count can be tried against one."""
    orders = [world.order() for _ in range(2)]
    answers = [world.open(order, world.answer(order)) for order in orders]
    for order, answer, secret in zip(orders, answers, secrets, strict=True):
        assert answer.salt == answer_salt(SlotSecret(secret), order.hash)
        assert answer.receipt.answer_hash == commit_answer(answer.salt, order.hash, NoisyCounts((answer.noisy_count,)))


# --- what the charge decides -----------------------------------------------------------------------------------------


def shut(world: World) -> None:
    """The operator ends the service."""
    world.shut_down()


def other_policy(world: World) -> None:
    """The operator adopts another policy."""
    world.adopt(make_policy(scales=(30, 50)))


def other_registry(world: World, load: str = "f" * 16, release: str = "2016") -> None:
    """The operator loads another census."""
    loads = LoadFolder(world.census_folder / "registries", ".npz")
    world.put_in_force(world.census.journal, loads, world.make_registry(load), release)
    world.census.rosters.join_due()


def other_linkage_key(world: World) -> None:
    """The operator changes the linkage key: nobody of the sample would be found."""
    world.relink_census(LinkageKey(bytes(32)))


def other_roster(world: World) -> None:
    """The next roster of the agency comes into force: the places are of the one before."""
    world.renew_rosters()


def no_researcher(world: World) -> None:
    """The operator revokes the researcher."""
    revoke(world.census.journal, "researcher", RESEARCHER, "the study is over")


def no_project(world: World) -> None:
    """The operator takes the project away from the researcher."""
    with world.census.journal.reading() as state:
        known = registered(state.parties, "researcher", RESEARCHER)
    register(world.census.journal, known.card, projects=["another"])


def no_agency(world: World) -> None:
    """The operator revokes the health agency."""
    revoke(world.census.journal, "health", HEALTH.organisation, "the agreement has ended")


BETWEEN_ADMISSION_AND_CHARGE: dict[str, tuple[Callable[[World], None], str]] = {
    "shut": (shut, "SERVICE_SHUT_DOWN"),
    "another policy": (other_policy, "POLICY_MISMATCH"),
    # Its agency tries again, and hears at admission what has become of release and roster.
    "another registry": (other_registry, "BUSY"),
    "another linkage key": (other_linkage_key, "BUSY"),
    "another roster": (other_roster, "ROSTER_NOT_IN_FORCE"),
}


@pytest.mark.parametrize("what", BETWEEN_ADMISSION_AND_CHARGE)
def test_refused_charge_leaves_no_sample(world: World, what: str) -> None:
    """Whatever changed since admission: what was kept for the charge goes when the charge is refused."""
    change, code = BETWEEN_ADMISSION_AND_CHARGE[what]
    admitted = world.admit(world.messages(world.sample(world.order())))
    change(world)
    with world.unchanged(), pytest.raises(BrokerError) as caught:
        charge_and_answer(world.census, admitted)
    assert caught.value.code == code
    assert kept_files(world) == []


@pytest.mark.parametrize(
    ("change", "code"),
    [(no_researcher, "UNKNOWN_RESEARCHER"), (no_project, "UNKNOWN_PROJECT"), (no_agency, "WRONG_ORGANISATION")],
)
def test_who_is_unknown_at_the_charge_is_not_charged(world: World, change: Callable[[World], None], code: str) -> None:
    """The claim was verified before the sample got its place in line, and is not verified again at the desk."""
    admitted = world.admit(world.messages(world.sample(world.order())))
    change(world)
    kept = world.census.keeping.keep(admitted)
    with world.unchanged(), pytest.raises(BrokerError) as caught:
        world.census.charging.charge(admitted, kept, at_ms=world.clock())
    assert caught.value.code == code


def test_charge_beyond_the_budget_leaves_no_sample(tmp_path: Path) -> None:
    """The same where another question was faster."""
    world = World(tmp_path, make_policy(max_belief="0.75", scales=(1, 50)))
    admitted = world.admit(world.messages(world.sample(world.order(scale=1))))
    world.charge(world.order(scale=1))
    with world.unchanged(), pytest.raises(BrokerError, match="BUDGET_EXHAUSTED"):
        charge_and_answer(world.census, admitted)
    assert kept_files(world) == []
    world.close()


def reusing(world: World) -> Iterator[OrderedSample]:
    """Samples for a ticket and a query id that are charged afterwards."""
    first = world.order()
    yield world.sample(first, world.people[1:])
    yield world.sample(world.order(change=lambda body: setattr(body, "query_id", first.body.query_id)))
    world.charge(first)


def test_reused_tickets_leave_no_sample(world: World) -> None:
    """Another set, a used query id: refused under the lock, and nothing stays of them."""
    admitted = [world.admit(world.messages(sample)) for sample in reusing(world)]
    for sample in admitted:
        with world.unchanged(), pytest.raises(BrokerError, match="TICKET_REUSED"):
            charge_and_answer(world.census, sample)
        assert kept_files(world) == []


@pytest.mark.parametrize("answered", [False, True])
def test_retry_leaves_no_second_sample(world: World, monkeypatch: pytest.MonkeyPatch, answered: bool) -> None:
    """A ticket that was charged keeps the sample of its charge until it is answered, and no other."""
    sample = world.sample(world.order())
    if answered:
        world.charge(sample.order, sample)
    else:
        charge_only(world, monkeypatch, sample)
    before = kept_files(world)
    assert len(before) == (not answered)
    charge_only(world, monkeypatch, sample)
    assert kept_files(world) == before
    world.charge(sample.order, sample)
    assert kept_files(world) == []


@pytest.mark.parametrize("happened", [False, True])
def test_uncertain_commit_keeps_the_sample(world: World, happened: bool) -> None:
    """Nobody knows whether the charge stands: its sample stays, for the log to tell after the start."""
    sample = world.sample(world.order())
    admitted = world.admit(world.messages(sample))
    journal = world.census.journal
    break_statements(journal.db, happens=happened)
    with pytest.raises(StateUnknownError):
        charge_and_answer(world.census, admitted)
    assert len(kept_files(world)) == 1
    world.crash_census()
    assert tickets(world.census.recover()) == [sample.order.hash.hex()] * happened
    assert kept_files(world) == []
    assert len(world.charges()) == happened
    if happened:
        world.release(sample.order)
        assert world.open(sample.order, world.sealed(sample.order)).scale == 30
    world.verify_honest_query()


def test_sample_is_on_disk_before_its_charge(world: World) -> None:
    """When the charge is written, the file that it names is whole: a crash right after it can be made good."""
    sample = world.sample(world.order())
    admitted = world.admit(world.messages(sample))
    seen: list[list[str]] = []
    watch(
        world.census.journal.db,
        before=at("BEGIN IMMEDIATE", lambda: seen.append(kept_files(world))),
    )
    charge_and_answer(world.census, admitted)
    (name,) = seen[0]
    assert name.endswith(".sample")


def opened(world: World, reference: str, sample: OrderedSample) -> bool:
    """Whether the file opens both commitments of the one charge there is, everybody who is known being active."""
    (charge,) = world.charges()
    kept = folder(world).read(reference)
    submitted = SampleBits(kept.bits, kept.salt).commitment(world.bound(sample.order)).hex()
    active = commit_active(kept.active_salt, sample.order.hash, kept.active.data).hex()
    here = np.isin(world.in_census.view("V16"), np.ascontiguousarray(sample_people(world, sample)).view("V16"))
    assert np.array_equal(np.packbits(here.reshape(-1)), kept.active)
    return (submitted, active) == (charge.submitted, charge.active) and submitted != active


def sample_people(world: World, sample: OrderedSample) -> Pseudonyms:
    """Who is in a sample."""
    return whom(sample.sample.bits.bits, world.people)


def test_charges_own_commitments_can_be_opened_until_it_is_answered(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is made of the committed sample; then no salt is left that a set could be tried with."""
    sample = world.sample(world.order(), some_people(world))
    charge_only(world, monkeypatch, sample)
    world.crash_census()
    (reference,) = references(world).values()
    assert opened(world, reference, sample)
    world.census.recover()
    assert kept_files(world) == []
    world.release(sample.order)
    world.verify_honest_query()
    assert files_holding(world, *signs_of(sample)) == []


def test_charges_own_commitments_can_be_opened_as_long_as_its_sample_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under per-person accounting an auditor on site can check both commitments, also after the answer is out."""
    world = World(tmp_path, make_policy(accounting="per_person"))
    sample = world.sample(world.order(), some_people(world))
    charge_only(world, monkeypatch, sample)
    world.crash_census()
    for act in (lambda: None, world.census.recover, lambda: world.release(sample.order)):
        act()
        step = LedgerSteps(world.census.journal.db).of_ticket(sample.order.hash.hex())
        assert step is not None
        assert opened(world, step.file, sample)
        assert kept_files(world) == [f"{step.file.partition(':')[0]}.sample"]
    world.close()


def test_sample_that_was_put_in_anothers_place_counts_nobody(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer of the store does not choose who is counted: the log commits to that."""
    first, second = (world.sample(world.order(), some_people(world, seed)) for seed in (1, 2))
    for sample in (first, second):
        charge_only(world, monkeypatch, sample)
    one, other = references(world).values()
    with world.census.journal.transaction() as transaction:
        transaction.db.execute("update pending set sample = ? where sample = ?", [other, one])
    world.crash_census()
    assert tickets(world.census.recover()) == [second.order.hash.hex()]
    assert world.census.answers.lost == {first.order.hash.hex()}


def test_charge_has_one_size_for_every_sample(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that the charge writes is longer for more people: pending row and file."""
    sizes = set()
    # Slot 0 takes no room in a ticket; the ones after it take one byte.
    world.reserve()
    # All under one checkpoint: how long that is follows from the size of the log.
    for people, order in [(people, world.order()) for people in (0, 1, 400)]:
        charge_only(world, monkeypatch, world.sample(order, world.people[:people]))
        pending = rows(world.census_folder / "journal.db", "pending")[-1]
        files = [(folder(world).path / name).stat().st_size for name in kept_files(world)]
        sizes.add((sum(len(value) for value in pending if isinstance(value, bytes | str)), max(files), min(files)))
    assert len(sizes) == 1


# --- what is lost ----------------------------------------------------------------------------------------------------


def lose_sample(world: World, name: str) -> None:
    """A disk loses it."""
    (folder(world).path / name).unlink()


def damage_sample(world: World, name: str) -> None:
    """A disk loses part of it."""
    path = folder(world).path / name
    path.write_bytes(path.read_bytes()[:-16])


def verify_lost(world: World, sample: OrderedSample) -> None:
    """The health node goes on bringing the ticket: it hears why there is no answer, and that stops nobody."""
    for _ in range(2):
        with world.unchanged(), pytest.raises(InternalError) as caught:
            charge_and_answer(world.census, world.admit(world.messages(sample)))
        assert caught.value.code == "SAMPLE_LOST"
        assert not caught.value.stops_node
    world.verify_honest_query()


@pytest.mark.parametrize("lose", [lose_sample, damage_sample])
def test_lost_sample_keeps_no_other_answer_waiting(
    world: World, monkeypatch: pytest.MonkeyPatch, lose: Callable[[World, str], None]
) -> None:
    """One charge can never be answered, and is there for the operator to see; those before and after it go out."""
    samples = [world.sample(world.order()) for _ in range(3)]
    names: list[str] = []
    for sample in samples:
        charge_only(world, monkeypatch, sample)
        names.extend(set(kept_files(world)) - set(names))
    world.crash_census()
    lose(world, names[1])
    others = [sample.order for sample in (samples[0], samples[2])]
    assert tickets(world.census.recover()) == [order.hash.hex() for order in others]
    for order in others:
        world.release(order)
        assert world.open(order, world.sealed(order)).scale == 30
    assert [row[0] for row in rows(world.census_folder / "journal.db", "pending")] == [samples[1].order.hash.hex()]
    assert len(world.charges()) == 3
    assert len(world.events(Released)) == 2
    verify_lost(world, samples[1])


def test_lost_registry_keeps_no_other_answer_waiting(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A charge is counted on the registry it was charged on or not at all; charges on another one are answered."""
    old, new = world.sample(world.order()), world.sample(world.order())
    charge_only(world, monkeypatch, old)
    other_registry(world, release=RELEASE)
    charge_only(world, monkeypatch, new)
    world.crash_census()
    (world.census_folder / "registries" / f"{world.charges()[0].load}.npz").unlink()
    assert tickets(world.census.recover()) == [new.order.hash.hex()]
    world.release(new.order)
    assert world.open(new.order, world.sealed(new.order)).scale == 30
    verify_lost(world, old)


def test_lost_answer_does_not_hide_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that can never come out is spent all the same: quotes do not promise its price, nor does the end wait for it."""
    world = World(tmp_path, make_policy(max_belief="0.75", scales=(1,)))
    charge_only(world, monkeypatch, world.sample(world.order(scale=1)))
    world.crash_census()
    (name,) = kept_files(world)
    lose_sample(world, name)
    assert world.census.recover() == []
    with world.census.journal.reading() as state, pytest.raises(RefusedError, match="SERVICE_SHUT_DOWN"):
        quotable_answers(state, world.policy, 1, unfinished=world.census.unfinished)
    with world.unchanged(), pytest.raises(RefusedError, match="SERVICE_SHUT_DOWN"):
        world.charge(world.order(scale=1))
    world.close()


def test_sample_of_a_charge_that_never_happened_is_swept_away(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash between keeping and charging leaves a file that nothing names; the start removes it, and no other."""
    pending = world.sample(world.order())
    charge_only(world, monkeypatch, pending)
    kept = kept_files(world)
    admitted = world.admit(world.messages(world.sample(world.order())))
    with monkeypatch.context() as patch:
        patch.setattr(world.census.charging, "charge", cut)
        patch.setattr(SampleFolder, "wipe", cut)
        with pytest.raises(PowerCutError):
            charge_and_answer(world.census, admitted)
    assert len(kept_files(world)) == 2
    with monkeypatch.context() as patch:
        patch.setattr(Answers, "recover", lambda *_: True)
        world.crash_census().recover()
    assert kept_files(world) == kept


def test_store_that_refuses_the_charge_keeps_the_sample_until_the_next_start(world: World) -> None:
    """A node whose store failed stops as it stands; the start finds a file without a charge and sweeps it away."""
    world.census.journal.db.execute(
        "create trigger full before insert on pending begin select raise(abort, 'disk full'); end"
    )
    with world.unchanged(), pytest.raises(InternalError, match="STORE_FAILED"):
        world.charge(world.order())
    world.crash_census()
    with sqlite3.connect(world.census_folder / "journal.db") as connection:
        connection.execute("drop trigger full")
    connection.close()
    assert world.census.recover() == []
    assert kept_files(world) == []
    world.verify_honest_query()
