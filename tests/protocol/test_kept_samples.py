"""Between charge and answer a sample and its noise secret lie in a file each: nowhere else, no longer, never without use."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from fakes.world import RELEASE, OrderedSample, Pseudonyms, World, charge_and_answer, make_policy, make_pseudonyms, rows

from broker_common.crypto.commitments import SlotSecret, answer_salt, commit_answer, commit_set, hash_active, hash_set
from broker_common.crypto.linkage import LinkageKey
from broker_common.errors import BrokerError, InternalError, RefusedError, StateUnknownError
from broker_common.storage.loads import LoadFolder
from broker_common.tlog.entries import Released
from census_node.charging import quotable_answers
from census_node.ledger_steps import LedgerSteps
from census_node.linked import Linked
from census_node.node import CensusNode
from census_node.outbox import Outbox
from census_node.samples import SampleFolder
from census_node.slot_secrets import SlotSecrets


def folder(world: World) -> SampleFolder:
    """Where the census node keeps its samples."""
    return SampleFolder(world.census_folder / "samples")


def kept_files(world: World) -> list[str]:
    """Every file in it."""
    return sorted(path.name for path in folder(world).path.glob("*"))


def holds(content: bytes, secret: bytes, people: Pseudonyms) -> bool:
    """Whether the bytes hold the secret, or at any place either half of anybody's pseudonym."""
    halves = np.ascontiguousarray(people).view(">u8").reshape(-1)
    whole = len(content) // 8 * 8
    shifted = (np.frombuffer(content[shift : whole - 8 + shift], ">u8") for shift in range(8 if whole else 0))
    return secret in content or any(bool(np.isin(words, halves).any()) for words in shifted)


def files_holding(world: World, secret: bytes, people: Pseudonyms) -> list[str]:
    """Names of all files of the census home, write-ahead log and all, that hold any of it."""
    files = [path for path in world.census_folder.rglob("*") if path.is_file()]
    assert {"journal.db", "journal.db-wal"} <= {path.name for path in files}
    return sorted(path.name for path in files if holds(path.read_bytes(), secret, people))


def slot_secret(world: World, sample: OrderedSample) -> bytes:
    """The secret that the noise of its answer is to be made from."""
    slot = sample.order.body.noise_slot
    return SlotSecrets(world.census_folder / "slots").read(slot.number, slot.commitment).expose()


@dataclass
class Read:
    """What was read to make answers of."""

    samples: list[Pseudonyms] = field(default_factory=list)
    secrets: list[bytes] = field(default_factory=list)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Read:
    """Every sample and every secret that was read for an answer."""
    seen = Read()
    read_sample, read_secret = SampleFolder.read, SlotSecrets.read

    def sample(samples: SampleFolder, name: str, set_hash: bytes) -> Linked:
        read = read_sample(samples, name, set_hash)
        seen.samples.append(read.pseudonyms)
        return read

    def secret(secrets: SlotSecrets, slot: int, commitment: bytes) -> SlotSecret:
        read = read_secret(secrets, slot, commitment)
        seen.secrets.append(read.expose())
        return read

    monkeypatch.setattr(SampleFolder, "read", sample)
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
        patch.setattr(CensusNode, "answer", cut)
        with pytest.raises(PowerCutError):
            charge_and_answer(world.census, admitted)


# --- nowhere else, and no longer -------------------------------------------------------------------------------------


def test_search_finds_what_it_looks_for(world: World) -> None:
    """The tests below prove absence: this is the search finding one half, at any place."""
    people = world.people
    for half in (people[17, :8], people[399, 8:]):
        for offset in range(9):
            assert holds(bytes(offset) + half.tobytes() + bytes(16), b"secret", people)
    assert holds(b"a secret", b"secret", people)
    assert not holds(bytes(64) + people[:1, :7].tobytes(), b"secret", people)


@pytest.mark.parametrize("people", [1, 400, 20_000])
def test_sample_is_in_its_file_alone_while_its_answer_is_made(
    world: World, monkeypatch: pytest.MonkeyPatch, people: int
) -> None:
    """From the charge on: no pseudonym and no noise secret in the journal or its write-ahead log."""
    sample = world.sample(world.order(), make_pseudonyms(people, seed=7))
    charge_only(world, monkeypatch, sample)
    (name,) = kept_files(world)
    kept = folder(world).read(name, hash_set(sample.people.tobytes()))
    assert np.array_equal(kept.pseudonyms, sample.people)
    secret = slot_secret(world, sample)
    batch = next(path.name for path in (world.census_folder / "slots").iterdir() if secret in path.read_bytes())
    assert files_holding(world, secret, sample.people) == sorted([name, batch])


@pytest.mark.parametrize("people", [0, 1, 400, 20_000])
def test_nothing_of_a_sample_is_left_once_its_answer_is_stored(world: World, kept: Read, people: int) -> None:
    """At once, not at some later checkpoint: no byte of secret or pseudonyms in any file of the home."""
    sample = world.sample(world.order(), make_pseudonyms(people, seed=7))
    world.charge(sample.order, sample)
    (secret,) = kept.secrets
    # The answer is made of what is in memory; a start that finds it missing reads the file.
    assert kept.samples == []
    assert len(secret) == 32
    assert files_holding(world, secret, sample.people) == []
    assert kept_files(world) == []
    assert rows(world.census_folder / "journal.db", "pending") == []
    world.verify_honest_query()


def test_answers_of_recovery_leave_nothing_either(world: World, monkeypatch: pytest.MonkeyPatch, kept: Read) -> None:
    """An answer that is made after a crash wipes what it was made of."""
    sample = world.sample(world.order(), make_pseudonyms(400, seed=7))
    charge_only(world, monkeypatch, sample)
    world.crash_census()
    assert world.census.recover() == [sample.order.hash.hex()]
    (secret,) = kept.secrets
    assert files_holding(world, secret, sample.people) == []
    world.verify_honest_query()


def test_death_between_answer_and_wiping_is_made_good_at_the_next_start(
    world: World, monkeypatch: pytest.MonkeyPatch, kept: Read
) -> None:
    """The answer stands and the sample too: the start sweeps it away, and the answer is the stored one."""
    sample = world.sample(world.order(), make_pseudonyms(400, seed=7))
    admitted = world.admit(world.messages(sample))
    with monkeypatch.context() as patch:
        patch.setattr(SampleFolder, "wipe", cut)
        with pytest.raises(PowerCutError):
            charge_and_answer(world.census, admitted)
    stored = world.census.waiting_answer(sample.order.body.query_id.hex())
    assert stored is not None
    (secret,) = kept.secrets
    slots = sorted(path.name for path in (world.census_folder / "slots").iterdir() if secret in path.read_bytes())
    assert files_holding(world, secret, sample.people) == sorted(kept_files(world) + slots)
    assert len(kept_files(world)) == len(slots) == 1
    world.crash_census()
    assert world.census.recover() == [sample.order.hash.hex()]
    assert files_holding(world, secret, sample.people) == []
    world.census.release(sample.order.hash.hex())
    assert world.sealed(sample.order) == stored.sealed


def test_every_charge_has_a_noise_secret_of_its_own(world: World, kept: Read) -> None:
    """The same people ten times: ten secrets."""
    for _ in range(10):
        world.charge(world.order())
    assert len(set(kept.secrets)) == 10


def test_receipt_hides_its_answer_behind_the_secret_of_its_slot(world: World, kept: Read) -> None:
    """Auditors see every receipt: without a secret that nobody has kept, no count can be tried against one."""
    orders = [world.order() for _ in range(2)]
    answers = [world.open(order, world.answer(order)) for order in orders]
    for order, answer, secret in zip(orders, answers, kept.secrets, strict=True):
        assert answer.salt == answer_salt(SlotSecret(secret), order.hash)
        assert answer.receipt.answer_hash == commit_answer(answer.salt, order.hash, answer.noisy_count)


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


def other_linkage_key(world: World) -> None:
    """The operator changes the linkage key: nobody of the sample would be found."""
    world.relink_census(LinkageKey(bytes(32)))


BETWEEN_ADMISSION_AND_CHARGE: dict[str, Callable[[World], None]] = {
    "SERVICE_SHUT_DOWN": shut,
    "POLICY_MISMATCH": other_policy,
    "RELEASE_MISMATCH": other_registry,
    "LINKAGE_MISMATCH": other_linkage_key,
}


@pytest.mark.parametrize("code", BETWEEN_ADMISSION_AND_CHARGE)
def test_refused_charge_leaves_no_sample(world: World, code: str) -> None:
    """Whatever changed since admission: what was kept for the charge goes when the charge is refused."""
    admitted = world.admit(world.messages(world.sample(world.order())))
    BETWEEN_ADMISSION_AND_CHARGE[code](world)
    with world.unchanged(), pytest.raises(BrokerError, match=code):
        charge_and_answer(world.census, admitted)
    assert kept_files(world) == []


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
def test_uncertain_commit_keeps_the_sample(world: World, monkeypatch: pytest.MonkeyPatch, happened: bool) -> None:
    """Nobody knows whether the charge stands: its sample stays, for the log to tell after the start."""
    sample = world.sample(world.order())
    admitted = world.admit(world.messages(sample))
    journal = world.census.journal
    commit = journal._commit

    def lost_reply() -> None:
        if happened:
            commit()
        journal._broken = StateUnknownError("STATE_UNKNOWN")
        raise journal._broken

    monkeypatch.setattr(journal, "_commit", lost_reply)
    with pytest.raises(StateUnknownError):
        charge_and_answer(world.census, admitted)
    assert len(kept_files(world)) == 1
    world.crash_census()
    assert world.census.recover() == [sample.order.hash.hex()] * happened
    assert kept_files(world) == []
    assert len(world.charges()) == happened
    if happened:
        world.census.release(sample.order.hash.hex())
        assert world.open(sample.order, world.sealed(sample.order)).scale == 30
    world.verify_honest_query()


def test_sample_is_on_disk_before_its_charge(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the charge is written, the file that it names is whole: a crash right after it can be made good."""
    sample = world.sample(world.order())
    admitted = world.admit(world.messages(sample))
    begin, seen = world.census.journal._begin, []

    def witnessed() -> None:
        seen.append(kept_files(world))
        begin()

    monkeypatch.setattr(world.census.journal, "_begin", witnessed)
    charge_and_answer(world.census, admitted)
    (name,) = seen[0]
    assert name.endswith(".sample")


def opened(world: World, salts: tuple[bytes, bytes], people: Pseudonyms) -> bool:
    """Whether the salts open both commitments of the one charge there is, everybody active."""
    (charge,) = world.charges()
    submitted = active = hash_set(people.tobytes())
    if charge.ledger:
        active = hash_active(submitted, np.packbits(np.ones(len(people), np.bool_)).tobytes())
    hashes = zip(salts, (submitted, active), strict=True)
    commitments = [commit_set(salt, bytes.fromhex(charge.ticket), set_hash).hex() for salt, set_hash in hashes]
    return commitments == [charge.submitted, charge.active] and charge.submitted != charge.active


def test_charges_own_commitments_can_be_opened_until_it_is_answered(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the answer is made of is what was committed to; then the rows keep no salt that a set could be tried with."""
    people = make_pseudonyms(300, seed=7)
    sample = world.sample(world.order(), people)
    charge_only(world, monkeypatch, sample)
    world.crash_census()
    pending = Outbox(world.census.journal.db).pending(sample.order.hash.hex())
    assert pending is not None
    salts = (pending.submitted_salt, pending.active_salt)
    assert opened(world, salts, people)
    assert salts[0] == sample.sample.set_salt
    world.census.recover()
    world.census.release(sample.order.hash.hex())
    world.verify_honest_query()
    world.census.journal.close()
    for path in world.census_folder.rglob("*"):
        assert not path.is_file() or not any(salt in path.read_bytes() for salt in salts), path.name


def test_charges_own_commitments_can_be_opened_as_long_as_its_sample_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under per-person accounting an auditor on site can check both commitments, also after the answer is out."""
    world = World(tmp_path, make_policy(accounting="per_person"))
    people = make_pseudonyms(300, seed=7)
    sample = world.sample(world.order(), people)
    charge_only(world, monkeypatch, sample)
    world.crash_census()
    for act in (lambda: None, world.census.recover, lambda: world.census.release(sample.order.hash.hex())):
        act()
        step = LedgerSteps(world.census.journal.db).of_ticket(sample.order.hash.hex())
        assert step is not None
        assert opened(world, (step.submitted_salt, step.active_salt), people)
        assert step.submitted_salt == sample.sample.set_salt
        assert kept_files(world) == [step.file]
    world.close()


def test_charge_has_one_size_for_every_sample(world: World) -> None:
    """Nothing that the charge writes is longer for more people: entry and pending row."""
    sizes = set()
    # Slot 0 takes no room in a ticket; the ones after it take one byte.
    world.reserve()
    # All under one checkpoint: how long that is follows from the size of the log.
    for people, order in [(people, world.order()) for people in (0, 1, 400, 20_000)]:
        seen: list[int] = []

        def measure(node: CensusNode, ticket: str, _: object, seen: list[int] = seen) -> None:
            del node, ticket
            pending = rows(world.census_folder / "journal.db", "pending")[-1]
            seen.append(sum(len(value) for value in pending if isinstance(value, bytes | str)))

        admitted = world.admit(world.messages(world.sample(order, make_pseudonyms(people))))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(CensusNode, "answer", measure)
            charge_and_answer(world.census, admitted)
        sizes.add(seen[0])
    assert len(sizes) == 1


# --- two attempts at once --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["before the noise secret is read", "while it is counted"])
def test_retry_that_answers_first_disturbs_nobody(world: World, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """The sample may be wiped under an attempt that is about to read it: one answer stands, and nothing is damaged."""
    sample = world.sample(world.order())
    first, retry = (world.admit(world.messages(sample)) for _ in range(2))
    node = world.census
    owner, name = (SlotSecrets, "read") if step == "before the noise secret is read" else (CensusNode, "_registry_of")
    original = getattr(owner, name)
    waiting = [lambda: charge_and_answer(node, retry)]

    def overtaken(*arguments: object) -> object:
        if waiting:
            overtake = waiting.pop()
            with ThreadPoolExecutor(1) as other:
                other.submit(overtake).result()
        return original(*arguments)

    monkeypatch.setattr(owner, name, overtaken)
    charge_and_answer(node, first)
    assert not waiting
    assert len(world.charges()) == 1
    assert kept_files(world) == []
    node.release(sample.order.hash.hex())
    assert world.open(sample.order, world.sealed(sample.order)).scale == 30
    world.verify_honest_query()


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
    assert world.census.recover() == [order.hash.hex() for order in others]
    for order in others:
        world.census.release(order.hash.hex())
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
    assert world.census.recover() == [new.order.hash.hex()]
    world.census.release(new.order.hash.hex())
    assert world.open(new.order, world.sealed(new.order)).scale == 30
    verify_lost(world, old)


def test_lost_answer_does_not_hide_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What can never come out is spent all the same: quotes do not promise its price, nor does the end wait for it."""
    world = World(tmp_path, make_policy(max_belief="0.75", scales=(1,)))
    charge_only(world, monkeypatch, world.sample(world.order(scale=1)))
    world.crash_census()
    (name,) = kept_files(world)
    lose_sample(world, name)
    assert world.census.recover() == []
    with world.census.journal.reading() as state, pytest.raises(RefusedError, match="SERVICE_SHUT_DOWN"):
        quotable_answers(state, world.policy, 1, lost=world.census.lost)
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
        patch.setattr("census_node.node.charge", cut)
        patch.setattr(SampleFolder, "wipe", cut)
        with pytest.raises(PowerCutError):
            charge_and_answer(world.census, admitted)
    assert len(kept_files(world)) == 2
    with monkeypatch.context() as patch:
        patch.setattr(CensusNode, "answer", lambda *_: None)
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
