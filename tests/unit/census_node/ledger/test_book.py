"""The ledger's durable form: whatever happens in whichever order, what is rebuilt is what was charged, or the node refuses."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fakes.connections import WatchedConnection, watch
from fakes.desk_arrays import bits_of, members
from fakes.patience import PATIENCE_SECONDS
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs
from unit.census_node.ledger.ledger_world import (
    CARDS,
    DECLARED,
    PERSONS,
    SAMPLE_RETENTION_MS,
    LedgerProcess,
    LedgerWorld,
    Links,
    persons_policy,
)

from broker_common.crypto.commitments import commit_active
from broker_common.errors import BrokerError, InternalError, RefusedError
from broker_common.privacy.accounting import price
from broker_common.privacy.policy import Policy
from broker_common.storage.journal import Journal
from census_node.ledger import book as book_module
from census_node.ledger.accounts import Ledger
from census_node.ledger.book import LedgerBook, Room, loads_to_fold
from census_node.ledger.passes import HouseholdCharges, PersonCharges
from census_node.ledger.samples import KeptSample
from census_node.ledger.snapshots import SnapshotFolder
from census_node.ledger.steps import LedgerSteps

# Card 0 moves out to a household and a person of their own, card 5 into household 0, card 7 comes, card 6 goes.
MOVED: Links = {0: (5, 2), 1: (0, 0), 2: (1, 0), 3: (1, 0), 4: (2, 0), 5: (3, 0), 7: (6, 1)}
# Cards 0 and 1 are found to be two people's, cards 1 and 2 one person's.
SPLIT: Links = {0: (0, 0), 1: (1, 0), 2: (1, 0), 3: (1, 0), 4: (2, 0), 5: (3, 1), 6: (4, 1)}
LOADS = (PERSONS, MOVED, SPLIT)


@contextmanager
def fresh_world(rules: Policy | None = None) -> Iterator[LedgerWorld]:
    """A world in memory, where nothing depends on what a disk does after a power cut."""
    shared = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - a fresh folder inside it
    with tempfile.TemporaryDirectory(prefix="ledgers-", dir=shared) as folder:
        world = LedgerWorld(Path(folder) / "census", rules)
        try:
            yield world
        finally:
            world.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LedgerWorld]:
    """Cards, persons and households that nothing was charged to yet."""
    made = LedgerWorld(tmp_path / "census")
    yield made
    made.close()


def refusal(world: LedgerWorld) -> InternalError:
    """How the node's next start ends."""
    world.node.close()
    with pytest.raises(InternalError) as caught:
        world.restart()
    return caught.value


# --- rebuilt as it was -----------------------------------------------------------------------------------------------

POLICIES = (
    persons_policy(),
    persons_policy(subject="household"),
    persons_policy(max_belief="0.74"),
    persons_policy(accounting="strict"),
)
cards = st.sets(st.integers(0, CARDS - 1))
steps = st.one_of(
    st.tuples(st.just("charge"), cards, st.sampled_from([1, 2, 2, 30])),
    st.tuples(st.just("charge"), cards, st.sampled_from([1, 2, 2, 30])),
    st.tuples(st.just("charge elsewhere"), cards, st.sampled_from([1, 2])),
    st.tuples(st.just("load"), st.sampled_from(LOADS)),
    st.tuples(st.just("load elsewhere"), st.sampled_from(LOADS)),
    st.tuples(st.just("adopt"), st.sampled_from(POLICIES)),
    st.tuples(st.sampled_from(["relink", "relink elsewhere", "compact", "retire", "restart", "crash"])),
)


def do(world: LedgerWorld, elsewhere: list[LedgerProcess], name: str, arguments: tuple[Any, ...]) -> None:
    """One step; what is refused changes nothing."""
    name, _, other = name.partition(" ")
    if other:
        # A process that opened the journal before and has not looked since.
        if not elsewhere:
            elsewhere.append(LedgerProcess(world))
        arguments = (*arguments, elsewhere[0])
    elif name in {"restart", "crash"}:
        while elsewhere:
            elsewhere.pop().close()
    if name == "charge" and other:
        sample, scale, process = arguments
        world.charge(sample, scale, process=process)
    else:
        getattr(world, name)(*arguments)


@settings(max_examples=30)
@given(done=st.lists(steps, min_size=3, max_size=14))
def test_whatever_happens_in_whichever_order_the_ledger_is_the_oracles(done: list[tuple[Any, ...]]) -> None:
    """Charges, loads with carries, changed keys and policies, compactions, erasures, restarts, another process between them."""
    with fresh_world() as world:
        elsewhere: list[LedgerProcess] = []
        try:
            for name, *arguments in done:
                try:
                    do(world, elsewhere, name, tuple(arguments))
                except BrokerError as error:
                    # The log refuses another subject of budgets after the first charge, and the writer stops.
                    if error.code not in {"BUDGET_EXHAUSTED", "SERVICE_SHUT_DOWN"} and "subject" not in str(error):
                        raise
                    if error.stops_node:
                        world.restart()
                world.verify()
            for process in elsewhere:
                world.verify(process)
        finally:
            for process in elsewhere:
                process.close()
        world.crash()
        world.verify()
        world.verify_files()


def test_everything_is_erased_and_the_ledger_stays(world: LedgerWorld) -> None:
    """Charges outlive the subjects they fell on; a start from the snapshot alone goes on like one that did not."""
    for number in range(12):
        world.charge({number % CARDS, (number + 3) % CARDS}, 2 if number % 2 else 30)
        if number == 5:
            world.load(MOVED)
    world.retire()
    assert not list((world.folder / "samples").iterdir())
    world.restart()
    world.verify()
    world.verify_files()
    before = dict(world.oracle.ledger.charged)
    for _ in range(8):
        world.charge(set(range(CARDS)), 2)
    world.verify()
    assert all(world.oracle.ledger.charged[person] >= charged for person, charged in before.items())


@pytest.mark.parametrize("subject", ["person", "household"])
def test_a_limit_once_reached_stays_reached(subject: str, tmp_path: Path) -> None:
    """Restart, reload, another key, another policy and back, an erased history: exhausted people are counted no more."""
    world = LedgerWorld(tmp_path / "census", persons_policy(subject=subject))
    world.charge({0, 8}, 1)
    exhausted = dict(world.oracle.ledger.charged)
    for event in (
        lambda: None,
        world.restart,
        lambda: world.load(MOVED),
        world.relink,
        lambda: world.adopt(persons_policy(subject=subject, max_belief="0.75")),
        lambda: world.adopt(persons_policy(subject=subject)),
        world.retire,
        lambda: world.load(PERSONS),
        world.crash,
    ):
        event()
        world.charge({0, 8}, 1)
        world.verify()
        # Person 5 of MOVED is card 0's, and takes over what person 0 was charged.
        assert all(price == 0 or not people for price, people in world.oracle.counted[1:])
    assert all(world.oracle.ledger.charged[number] >= before for number, before in exhausted.items())
    world.close()


def test_what_everybody_was_charged_is_the_floor_under_every_person(tmp_path: Path) -> None:
    """From strict to per-person accounting and back: nothing is given back to anybody."""
    strict, persons = persons_policy(accounting="strict"), persons_policy()
    world = LedgerWorld(tmp_path / "census", strict)
    world.charge({0, 5, 8}, 2)
    world.adopt(persons)
    for scale, counts in ((2, True), (2, False), (30, True)):
        world.charge({0, 5, 8}, scale)
        assert bool(world.oracle.counted[-1][1]) == counts
        world.verify()
    world.restart()
    world.adopt(strict)
    # 1/2 + 1/2 + 1/2 + 1/30 of ln 4 = 1.386: strict accounting counts them all, and is shut.
    with pytest.raises(RefusedError, match="SERVICE_SHUT_DOWN"):
        world.charge({4}, 30)
    world.adopt(persons)
    world.reopen()
    world.charge({4}, 30)
    assert world.oracle.counted[-1][1] == {2}
    world.verify()
    world.close()


# --- what does not agree with itself ---------------------------------------------------------------------------------


def test_strict_accounting_after_per_person_accounting_shows_the_ledger_as_it_is(tmp_path: Path) -> None:
    """Strict accounting does not count single persons' charges; they are everybody's only as far as they were."""
    world = LedgerWorld(tmp_path / "census", persons_policy())
    world.charge([0, 4], scale=1)
    world.charge([4, 9])
    world.adopt(persons_policy(accounting="strict"))
    world.charge([0])
    charges = world.node.book.charges()
    assert charges is not None
    assert charges.floor == price(30)
    assert charges.subjects.tolist() == [price(1), 0, price(1) + price(30), 0, 0]
    world.close()


def test_strict_accounting_alone_has_no_ledger_to_show(tmp_path: Path) -> None:
    """Everybody was charged alike."""
    world = LedgerWorld(tmp_path / "census", persons_policy(accounting="strict"))
    world.charge([0])
    assert world.node.book.charges() is None
    world.close()


def lived(folder: Path) -> LedgerWorld:
    """Erased charges under a snapshot, kept ones after it, a carry on either side, a changed key."""
    world = LedgerWorld(folder)
    world.charge({0, 5, 8}, 30)
    world.load(MOVED)
    world.charge({0, 1, 9}, 30)
    world.retire()
    world.relink()
    world.charge({0, 2, 3}, 30)
    world.load(SPLIT)
    world.charge({1, 6}, 30)
    return world


def of_kind(kind: str) -> str:
    """The newest step of a kind."""
    return f"(select max(place) from ledger_steps where kind = '{kind}')"  # noqa: S608 - our own text


CHARGE, ERASED, LOAD, SNAPSHOT = (
    of_kind("charge"),
    "(select min(place) from ledger_steps where kind = 'charge')",
    of_kind("load"),
    of_kind("snapshot"),
)
SET = "update ledger_steps set"


def leave_out(place: str) -> str:
    """One step less."""
    return f"delete from ledger_steps where place = {place}"  # noqa: S608 - our own text


def again(place: str) -> str:
    """The same step once more, at the end."""
    columns = "kind, digest, file, content, covers, ticket, price, kept_until_ms"
    return (
        f"insert into ledger_steps (place, {columns}) "  # noqa: S608 - our own text
        f"select (select max(place) + 1 from ledger_steps), {columns} from ledger_steps where place = {place}"
    )


ROWS = {
    "digest": f"{SET} digest = zeroblob(32) where place = {CHARGE}",
    "digest of what was erased": f"{SET} digest = zeroblob(32) where place = {ERASED}",
    "price": f"{SET} price = 1 where place = {CHARGE}",
    "price of what was erased": f"{SET} price = 1 where place = {ERASED}",
    "price below nothing": f"{SET} price = -5 where place = {CHARGE}",
    "price that is none": f"{SET} price = 'x' where place = {CHARGE}",
    "key of its sample": f"{SET} file = substr(file, 1, 33) || '{'0' * 64}' where place = {CHARGE}",
    "no key of its sample": f"{SET} file = substr(file, 1, 32) where place = {CHARGE}",
    "a key that is none": f"{SET} file = substr(file, 1, 33) || 'x' where place = {CHARGE}",
    "content": f"{SET} content = zeroblob(32) where place = {CHARGE}",
    "content of a carry": f"{SET} content = zeroblob(32) where place = {LOAD}",
    "content of the snapshot": f"{SET} content = zeroblob(32) where place = {SNAPSHOT}",
    "ticket": f"{SET} ticket = '{'0' * 64}' where place = {CHARGE}",
    "ticket that is none": f"{SET} ticket = 'é' where place = {CHARGE}",
    "kind": f"{SET} kind = 'load' where place = {CHARGE}",
    "kind that is none": f"{SET} kind = 'gift' where place = {CHARGE}",
    "a carry that was a snapshot": f"{SET} kind = 'snapshot' where place = {LOAD}",
    "covers less": f"{SET} covers = 1 where place = {SNAPSHOT}",
    "covers nothing": f"{SET} covers = 0 where place = {SNAPSHOT}",
    "covers what is not there": f"{SET} covers = -3 where place = {SNAPSHOT}",
    "covers what is to come": f"{SET} covers = 1000 where place = {SNAPSHOT}",
    "file of another charge": f"{SET} file = (select file from ledger_steps where ticket != '' and file != '' "  # noqa: S608 - our own text
    f"order by place limit 1) where place = {CHARGE}",
    "no file": f"{SET} file = '' where place = {CHARGE}",
    "no carry": f"{SET} file = '' where place = {LOAD}",
    "no snapshot": f"{SET} file = '' where place = {SNAPSHOT}",
    "a charge left out at the end": leave_out(CHARGE),
    "a load left out": leave_out(LOAD),
    "an erased charge left out": leave_out(ERASED),
    "the snapshot left out": leave_out(SNAPSHOT),
    "everything left out": "delete from ledger_steps",
    "two swapped": f"{SET} place = -1 where place = {CHARGE}; {SET} place = place + 1 where place = {LOAD}; "
    f"{SET} place = {LOAD} - 1 where place = -1",
    "moved on": f"{SET} place = place + 1 where place = {CHARGE}",
    "one put in twice": again(CHARGE),
    "a carry put in twice": again(LOAD),
    "the snapshot put in twice": again(SNAPSHOT),
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> LedgerWorld:
    """A life that every damage is done to a copy of."""
    world = lived(tmp_path_factory.mktemp("lived") / "census")
    world.restart()
    world.node.close()
    return world


@pytest.fixture
def damaged(template: LedgerWorld, tmp_path: Path) -> Iterator[LedgerWorld]:
    """A copy of that life, down."""
    home = template.folder
    template.folder = Path(shutil.copytree(home, tmp_path / "census"))
    yield template
    template.folder = home


def names(world: LedgerWorld, folder: str, suffix: str) -> list[Path]:
    """The ledgers' files of a kind."""
    return sorted((world.folder / folder).glob(f"*{suffix}"))


def start(world: LedgerWorld) -> LedgerProcess:
    """Start a node on what is there."""
    process = LedgerProcess(world)
    try:
        return process.open()
    except BaseException:
        process.close()
        raise


def test_the_undamaged_copy_starts(damaged: LedgerWorld) -> None:
    """The file that the tests below damage is whole, and has every kind of step and file in it."""
    process = start(damaged)
    damaged.verify(process)
    kinds = {row["kind"] for row in process.rows("select kind from ledger_steps")}
    process.close()
    assert kinds == {"charge", "load", "snapshot"}
    assert all(names(damaged, "ledgers", suffix) for suffix in (".carry", ".ledgers"))
    assert len(names(damaged, "samples", ".sample")) == 2


@pytest.mark.parametrize("statement", ROWS.values(), ids=list(ROWS))
def test_a_row_that_was_changed_left_out_or_put_in_is_noticed(damaged: LedgerWorld, statement: str) -> None:
    """The node refuses to start: it never serves with less than was charged, nor with anything else than that."""
    connection = sqlite3.connect(damaged.folder / "journal.db")
    connection.executescript(statement)
    connection.close()
    with pytest.raises(InternalError) as caught:
        start(damaged)
    assert caught.value.code == "INTEGRITY"
    assert caught.value.stops_node


def make_folder_of(path: Path) -> None:
    """A folder where there was a file."""
    path.unlink()
    path.mkdir()


def test_a_load_left_out_at_the_end_is_noticed(world: LedgerWorld) -> None:
    """No digest tells of what is missing at the end, and nobody was charged since: the log tells how many loads there were."""
    world.charge({0, 5}, 30)
    world.relink()
    world.load(MOVED)
    world.node.close()
    connection = sqlite3.connect(world.folder / "journal.db")
    connection.execute(leave_out("(select max(place) from ledger_steps)"))
    connection.commit()
    connection.close()
    with pytest.raises(InternalError, match="INTEGRITY"):
        start(world)


def test_a_process_that_lags_behind_a_snapshot_begins_from_it(world: LedgerWorld) -> None:
    """The steps in between are erased: nothing is missing, and nothing is counted twice."""
    world.charge({0, 5, 8}, 30)
    other = LedgerProcess(world).open()
    world.charge({0, 1, 9}, 30)
    world.load(MOVED)
    world.retire()
    world.charge({0, 2}, 30)
    world.verify(other)
    world.charge({0, 2}, 30, process=other)
    world.verify(other)
    world.verify()
    other.close()


FILES: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:-7]),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "begins with something else": lambda path: path.write_bytes(b"\xff" + path.read_bytes()[1:]),
    "ends with something else": lambda path: path.write_bytes(path.read_bytes()[:-1] + b"\xfe"),
    "a folder": make_folder_of,
}


# An archive's reader does not look at what stands behind its end; what it holds is compared with its hash.
HARMLESS = {(".carry", "longer"), (".carry", "ends with something else")}


@pytest.mark.parametrize(
    ("suffix", "damage"),
    [
        (suffix, each)
        for suffix in (".sample", ".ledgers", ".carry")
        for each in FILES
        if (suffix, each) not in HARMLESS
    ],
)
def test_a_damaged_file_is_noticed_and_put_back(damaged: LedgerWorld, tmp_path: Path, suffix: str, damage: str) -> None:
    """The node refuses to start, removes nothing, and starts when the file is there again: from any copy, it never changes."""
    copy = Path(shutil.copytree(damaged.folder, tmp_path / "copy"))
    # The newest carry is folded; the one before it is there for audits on site.
    connection = sqlite3.connect(damaged.folder / "journal.db")
    ((name,),) = connection.execute(
        "select file from ledger_steps where file like ? order by place desc limit 1",
        ["%:%" if suffix == ".sample" else f"%{suffix}"],
    ).fetchall()
    connection.close()
    if suffix == ".sample":
        name = name.partition(":")[0] + suffix
    folder = "samples" if suffix == ".sample" else "ledgers"
    FILES[damage](damaged.folder / folder / name)
    before = {path for path in damaged.folder.rglob("*") if path.is_file()}
    with pytest.raises(InternalError) as caught:
        start(damaged)
    assert caught.value.code == "INTEGRITY"
    assert before <= {path for path in damaged.folder.rglob("*") if path.is_file()}
    broken = damaged.folder / folder / name
    if broken.is_dir():
        broken.rmdir()
    shutil.copy(copy / folder / name, broken)
    process = start(damaged)
    damaged.verify(process)
    process.close()


def test_files_of_others_in_their_place_are_noticed(damaged: LedgerWorld) -> None:
    """Two samples, or two snapshots, swapped: each is known by what was committed to."""
    one, other = names(damaged, "samples", ".sample")
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)
    with pytest.raises(InternalError, match="INTEGRITY"):
        start(damaged)


def test_older_files_beside_a_newer_database_are_noticed(world: LedgerWorld) -> None:
    """Later charges are in no file of theirs: the node refuses rather than forget them."""
    world.charge({0, 5}, 30)
    older = world.copy()
    world.charge({1, 6}, 30)
    world.compact()
    for folder in ("samples", "ledgers"):
        shutil.rmtree(world.folder / folder)
        shutil.copytree(older / folder, world.folder / folder)
    assert refusal(world).code == "INTEGRITY"


def test_an_older_database_beside_newer_files_knows_less_and_its_files_are_gone(world: LedgerWorld) -> None:
    """Where memberships were erased since, the older rows name what is not there. Where not, the log is short: see the witness store."""
    world.charge({0, 5}, 30)
    older = world.copy()
    world.retire()
    world.node.close()
    for path in world.folder.glob("journal.db*"):
        path.unlink()
    for path in older.glob("journal.db*"):
        shutil.copy(path, world.folder / path.name)
    with pytest.raises(InternalError, match="INTEGRITY"):
        start(world)


def test_a_started_node_notices_what_another_process_does_wrong(world: LedgerWorld) -> None:
    """Also between two charges every row is checked before it is folded, and the node stops."""
    world.charge({0, 5}, 30)
    other = LedgerProcess(world).open()
    world.charge({1, 6}, 30, process=other)
    other.close()
    connection = sqlite3.connect(world.folder / "journal.db")
    connection.execute(ROWS["key of its sample"])
    connection.commit()
    connection.close()
    with pytest.raises(InternalError, match="INTEGRITY"):
        world.charge({2}, 30)
    assert world.node.journal.is_broken


# --- half done -------------------------------------------------------------------------------------------------------


def fail_after(charge: Callable[..., None]) -> Callable[..., None]:
    """Memory runs out when everybody is charged and before it says so."""

    def charged(*arguments: Any) -> None:
        charge(*arguments)
        raise MemoryError

    return charged


@pytest.mark.parametrize("charges", [PersonCharges, HouseholdCharges])
def test_half_a_charge_in_memory_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, charges: type[PersonCharges | HouseholdCharges]
) -> None:
    """Memory runs out while it is applied: the charge is durable, and the next process begins from the rows, unharmed."""
    world = LedgerWorld(
        tmp_path / "census", persons_policy(subject="person" if charges is PersonCharges else "household")
    )
    world.charge({0, 5, 8}, 30)
    with monkeypatch.context() as patch, capture_logs() as said:
        patch.setattr(charges, "charge", fail_after(charges.charge))
        world.charge({0, 5, 9}, 2)
    assert [(line["log_level"], line["error"]) for line in said] == [("error", "MemoryError")]
    world.verify()
    world.charge({0, 5, 9}, 2)
    world.verify()
    world.close()


@pytest.mark.parametrize("step", ["charge", "load"])
def test_half_a_step_of_another_process_is_none(world: LedgerWorld, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """Memory runs out in the middle of what another process did: it is begun from the rows, and nothing is added twice."""
    world.charge({0, 5, 8}, 30)
    other = LedgerProcess(world).open()
    if step == "charge":
        world.charge({0, 5, 9}, 2, process=other)
    else:
        world.load(MOVED, other)
    other.close()

    def fail(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(PersonCharges, "charge", fail_after(PersonCharges.charge))
        patch.setattr(Ledger, "after_load", fail)
        for _ in range(2):
            with pytest.raises(MemoryError):
                world.verify()
    world.verify()
    world.restart()
    world.verify()


OVERTAKEN: dict[str, Callable[[LedgerWorld, LedgerProcess], object]] = {
    "a charge": lambda world, other: world.charge({1, 6}, 2, process=other),
    "a load": lambda world, other: world.load(MOVED, other),
    "a key": lambda world, other: world.relink(other),
    "a policy": lambda world, _: world.adopt(persons_policy(max_belief="0.74")),
    "strict accounting": lambda world, _: world.adopt(persons_policy(accounting="strict")),
}


@pytest.mark.parametrize("event", OVERTAKEN)
def test_decision_that_was_overtaken_charges_nothing(world: LedgerWorld, event: str) -> None:
    """Another process does something between a decision and its charge: the sample comes again, and nothing was charged."""
    world.charge({0, 5, 8}, 2)
    other = LedgerProcess(world).open()
    asked = world.ask({1, 2}, 2)
    OVERTAKEN[event](world, other)
    other.close()
    with pytest.raises(RefusedError, match="BUSY"):
        world.commit(asked)
    world.verify()
    world.charge({1, 2}, 2)
    world.verify()
    world.crash()
    world.verify()


def test_decision_on_another_load_than_the_one_in_force_is_none(world: LedgerWorld) -> None:
    """The persons of a joined roster are of a load that has been replaced."""
    people, cards = world.people(world.in_force), world.card_places()
    bits = bits_of({0, 5}, DECLARED)
    world.load(MOVED)
    for room in (None, Room(price(30), 10**9, "person")):
        with pytest.raises(RefusedError, match="BUSY"):
            world.node.book.decide(bits, cards, people, room)
    world.verify()


def test_of_two_decisions_the_last_alone_can_be_charged(world: LedgerWorld) -> None:
    """They share their memory: the first would charge the people of the second."""
    first, last = world.ask({1, 2}, 2), world.ask({0, 5, 8}, 2)
    with pytest.raises(RefusedError, match="BUSY"):
        world.commit(first)
    world.commit(last)
    world.verify()
    world.restart()
    world.verify()


def test_a_snapshot_between_decision_and_charge_overtakes_nothing(world: LedgerWorld) -> None:
    """It is made beside the desk at any time; it changes the digest, and nobody's charge."""
    world.charge({0, 5, 8}, 2)
    asked = world.ask({1, 2}, 2)
    world.compact()
    world.commit(asked)
    world.verify()
    world.restart()
    world.verify()


def test_charge_that_was_folded_from_its_row_is_not_applied_twice(
    world: LedgerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ledger that has caught up with a charge before it is told of it."""
    charged = LedgerBook.charged

    def late(*arguments: Any) -> None:
        world.decide((), 30)
        charged(*arguments)

    monkeypatch.setattr(LedgerBook, "charged", late)
    world.charge({0, 5, 8}, 2)
    world.charge({1, 5}, 2)
    world.verify()
    world.crash()
    world.verify()


def test_charges_of_households_are_folded_on_the_people_of_their_load(tmp_path: Path) -> None:
    """Several loads since the last snapshot: who lived with whom at the charge decides, and these loads are still needed."""
    world = LedgerWorld(tmp_path / "census", persons_policy(subject="household"))

    def needed() -> set[str]:
        with world.node.journal.reading() as state:
            return loads_to_fold(world.node.journal.db, state)

    assert needed() == set()
    for links in (PERSONS, MOVED, SPLIT):
        world.load(links)
        world.charge({0, 1, 5}, 30)
    assert needed() == {"load2", "load3", "load4"}
    world.crash()
    world.verify()
    world.compact()
    assert needed() == set()
    del world._people["load2"], world._people["load3"]
    world.crash()
    world.verify()
    world.close()


def test_no_load_is_needed_to_fold_charges_of_persons(world: LedgerWorld) -> None:
    """The files of their samples say all."""
    world.charge({0, 1, 5}, 30)
    with world.node.journal.reading() as state:
        assert loads_to_fold(world.node.journal.db, state) == set()


# --- a changed key ---------------------------------------------------------------------------------------------------


def test_a_changed_key_changes_no_charge(world: LedgerWorld) -> None:
    """People exhausted under the previous pseudonym are exhausted under the next one; no file or row tells of it."""
    world.charge({0, 2}, 1)
    steps = world.node.rows("select * from ledger_steps")
    other = LedgerProcess(world)
    world.relink(other)
    other.close()
    assert world.node.rows("select * from ledger_steps") == steps
    world.verify()
    world.charge({0, 2, 5}, 1)
    assert world.oracle.counted[-1][1] == {3}
    world.verify()
    world.restart()
    world.verify()
    world.verify_files()


# --- compaction ------------------------------------------------------------------------------------------------------


def test_charges_go_on_while_a_snapshot_is_written(world: LedgerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compaction is off the path of queries; what is charged meanwhile is in the tail, not lost."""
    world.charge({0, 5}, 30)
    writing, written = threading.Event(), threading.Event()
    write = SnapshotFolder.write

    def slow(*arguments: Any) -> tuple[str, bytes]:
        writing.set()
        assert written.wait(PATIENCE_SECONDS)
        return write(*arguments)

    monkeypatch.setattr(SnapshotFolder, "write", slow)
    with ThreadPoolExecutor(1) as other:
        compacting = other.submit(world.compact)
        assert writing.wait(PATIENCE_SECONDS)
        world.charge({0, 6, 9}, 2)
        world.verify()
        written.set()
        compacting.result()
    assert [row["covers"] for row in world.node.rows("select covers from ledger_steps where kind = 'snapshot'")] == [2]
    world.verify()
    world.crash()
    world.verify()


@pytest.mark.parametrize("often", [1, 3, 100])
def test_charges_go_on_while_the_ledger_is_copied(
    world: LedgerWorld, monkeypatch: pytest.MonkeyPatch, often: int
) -> None:
    """A copy of before and after a charge is none; where they come all the time, one charge waits for it in the end."""
    world.charge({0, 5}, 30)
    frozen = Ledger.frozen
    waited: list[bool] = []

    def copied(ledger: Ledger) -> Ledger:
        copy = frozen(ledger)
        with ThreadPoolExecutor(1) as somebody:
            held = somebody.submit(world.node.book._lock.acquire, blocking=False).result()
            waited.append(not held)
            if held:
                somebody.submit(world.node.book._lock.release).result()
        if held and len(waited) <= often:
            world.charge({len(waited), 6, 8}, 30)
            # Half of it from before the charge, half from after.
            copy.charged[3:] = frozen(ledger).charged[3:]
        return copy

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "frozen", copied)
        world.compact()
    assert waited == [False] * min(often + 1, 4) + [True] * (often == 100)
    world.verify()
    world.restart()
    world.verify()
    world.verify_files()


@pytest.mark.parametrize("event", ["relink", "load", "charge"])
def test_a_compaction_that_was_overtaken_undoes_nothing(
    world: LedgerWorld, monkeypatch: pytest.MonkeyPatch, event: str
) -> None:
    """Another process changes the key, loads or charges while a snapshot is written: what it did stands."""
    world.charge({0, 5, 8}, 2)
    other = LedgerProcess(world).open()
    overtake: dict[str, Callable[[], object]] = {
        "relink": lambda: world.relink(other),
        "load": lambda: world.load(MOVED, other),
        "charge": lambda: world.charge({0, 6}, 2, process=other),
    }
    write = SnapshotFolder.write

    def overtaken(*arguments: Any) -> tuple[str, bytes]:
        monkeypatch.setattr(SnapshotFolder, "write", write)
        overtake[event]()
        return write(*arguments)

    monkeypatch.setattr(SnapshotFolder, "write", overtaken)
    world.compact()
    other.close()
    world.verify()
    # Under the pseudonyms of the chain in force, for known and unknown people.
    world.charge({0, 5, 8}, 2)
    world.verify()
    world.verify_files()
    world.restart()
    world.verify()


@pytest.mark.parametrize("event", ["relink", "load", "charge"])
def test_whatever_comes_right_after_a_snapshot_was_named_counts(world: LedgerWorld, event: str) -> None:
    """No lock is held any more when the snapshot's step is durable: another process may do anything."""
    world.charge({0, 5, 8}, 2)
    other = LedgerProcess(world).open()
    come: dict[str, Callable[[], object]] = {
        "relink": lambda: world.relink(other),
        "load": lambda: world.load(MOVED, other),
        "charge": lambda: world.charge({0, 6}, 2, process=other),
    }
    overtaken: list[str] = []

    def after_the_first(_: WatchedConnection, statement: str) -> None:
        if statement == "COMMIT" and not overtaken:
            overtaken.append(event)
            come[event]()

    watch(world.node.journal.db, after=after_the_first)
    world.compact()
    assert overtaken
    other.close()
    world.verify()
    world.charge({0, 5, 8}, 2)
    world.verify()
    world.restart()
    world.verify()
    world.verify_files()


def test_a_snapshot_has_also_what_this_process_has_not_folded(world: LedgerWorld) -> None:
    """Another process has charged, and this one has decided nothing since: the snapshot is folded from the rows."""
    world.charge({0, 5, 8}, 2)
    other = LedgerProcess(world).open()
    world.charge({0, 6}, 30, process=other)
    other.close()
    world.retire()
    assert not names(world, "samples", ".sample")
    world.verify()
    world.restart()
    world.verify()


def test_a_snapshot_that_is_not_what_was_written_is_not_named(
    world: LedgerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that lies: nothing is erased for a file that cannot be read back."""
    world.charge({0, 5, 8}, 2)
    write = SnapshotFolder.write

    def torn(folder: SnapshotFolder, *arguments: Any) -> tuple[str, bytes]:
        name, content = write(folder, *arguments)
        path = folder.path / name
        path.write_bytes(path.read_bytes()[:-1])
        return name, content

    with monkeypatch.context() as patch:
        patch.setattr(SnapshotFolder, "write", torn)
        with pytest.raises(InternalError, match="INTEGRITY"):
            world.retire()
    assert len(names(world, "samples", ".sample")) == 1
    assert not names(world, "ledgers", ".ledgers")
    world.verify()


def test_a_charge_that_waits_for_its_answer_in_vain_is_forgotten_too(world: LedgerWorld) -> None:
    """Its membership goes when its time is over, and does not keep anybody else's from going; it stays in vain."""
    lost = world.charge({3, 8}, 30, answered=False)
    world.charge({0, 5}, 30)
    world.retire()
    assert len(names(world, "samples", ".sample")) == 1
    for _ in range(2):
        world.charge({6}, 30)
        world.clock.advance(SAMPLE_RETENTION_MS)
        world.node.book.maintain(world.node.journal.now(), {lost})
    assert not names(world, "samples", ".sample")
    assert len(names(world, "ledgers", ".ledgers")) == 1
    (row,) = world.node.rows("select * from pending")
    assert row["sample"] == ""
    world.verify()
    world.restart()
    world.verify()


def test_a_compaction_that_finds_the_journal_held_leaves_nothing(
    world: LedgerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backup that holds the journal for hours does not fill the disk with snapshots that nobody names."""
    monkeypatch.setattr("broker_common.storage.journal._BUSY_TIMEOUT_SECONDS", 0)
    world.restart()
    world.charge({0, 5}, 30)
    holding = sqlite3.connect(world.folder / "journal.db", isolation_level=None)
    holding.execute("BEGIN IMMEDIATE")
    for _ in range(3):
        with pytest.raises(RefusedError, match="BUSY"):
            world.compact()
    holding.execute("ROLLBACK")
    holding.close()
    world.verify_files()
    world.compact()
    world.verify()
    world.verify_files()


def test_whoever_looks_on_while_the_node_erases_sees_a_whole_ledger(
    world: LedgerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator's status, a process of its own: no file that it is about to read goes under its hands."""
    world.charge({0, 5}, 30)
    world.retire()
    world.charge({1, 6}, 30)
    read, looking = SnapshotFolder.read, LedgerProcess(world)
    erasing: list[Future[None]] = []

    def overtaken(*arguments: Any) -> Ledger:
        if not erasing:
            erasing.append(other.submit(world.retire))
            # Long enough for an erasure that does not wait.
            wait(erasing, timeout=0.5)
        return read(*arguments)

    with ThreadPoolExecutor(1) as other:
        monkeypatch.setattr(SnapshotFolder, "read", overtaken)
        seen = looking.book.charges()
        erasing[0].result()
    looking.close()
    assert seen is not None
    assert +Counter(dict(enumerate(seen.subjects.tolist()))) == world.oracle.ledger.charged
    world.verify()
    world.verify_files()


def test_a_snapshot_is_made_when_one_is_due(world: LedgerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """After so many charges; what it makes superfluous goes."""
    monkeypatch.setattr(book_module, "_MOST_CHARGES", 3)
    for card in range(3):
        assert not names(world, "ledgers", ".ledgers")
        world.node.maintain()
        world.charge({card}, 30)
    world.node.maintain()
    assert len(names(world, "ledgers", ".ledgers")) == 1
    world.node.maintain()
    assert len(names(world, "ledgers", ".ledgers")) == 1
    world.verify()
    world.crash()
    world.verify()
    world.verify_files()


# --- retention -------------------------------------------------------------------------------------------------------


def kept_of(world: LedgerWorld, ticket: str) -> tuple[str, KeptSample]:
    """The kept data of a charge, with its reference."""
    with world.node.journal.reading():
        step = LedgerSteps(world.node.journal.db).of_ticket(ticket)
    assert step is not None
    return step.file, world.node.samples.read(step.file)


def private_parts(world: LedgerWorld, ticket: str) -> dict[str, bytes]:
    """Everything of a charge's membership that could be looked for on a disk."""
    reference, sample = kept_of(world, ticket)
    key = reference.partition(":")[2]
    return {
        "key": key.encode(),
        "key as bytes": bytes.fromhex(key),
        "name": reference.encode()[:32],
        "salt": sample.salt,
        "active salt": sample.active_salt,
        "bits": sample.bits.tobytes().rstrip(b"\0"),
        "active": sample.active.tobytes(),
    }


def left_of(world: LedgerWorld, parts: dict[str, bytes]) -> dict[str, list[str]]:
    """Which of the parts lie in which files of the home: database, write-ahead log and all others."""
    paths = [path for path in world.folder.rglob("*") if path.is_file()]
    contents = {path.name: path.read_bytes() for path in paths}
    found = {name: [file for file, content in contents.items() if part in content] for name, part in parts.items()}
    return {name: files for name, files in found.items() if files}


def long_sample(folder: Path) -> tuple[LedgerWorld, str, dict[str, bytes]]:
    """A charge of so many people that their bits are long enough to be looked for, and its parts."""
    world = LedgerWorld(folder)
    world.add_cards(150)
    world.load({**PERSONS, **{card: (card, card) for card in range(CARDS, CARDS + 150)}})
    # Some are exhausted already, so that the bits are not all ones.
    world.charge(set(range(CARDS, CARDS + 150, 3)), 1)
    ticket = world.charge(set(world._cards), 2)
    return world, ticket, private_parts(world, ticket)


def test_the_search_finds_what_it_looks_for(tmp_path: Path) -> None:
    """The tests below prove absence: before the erasure the key is there; what it opens is in no file as it is."""
    world, _, parts = long_sample(tmp_path / "census")
    assert set(left_of(world, parts)) == {"key", "name"}
    assert len(parts["active"]) == 20
    world.close()


@pytest.mark.parametrize("then", ["at once", "after a restart", "after a crash before the log was started over"])
def test_nothing_of_a_membership_is_left_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str) -> None:
    """Not in rows, files, free pages or the write-ahead log; what stays is what was charged, and a digest."""
    world, ticket, parts = long_sample(tmp_path / "census")
    if then == "after a restart":
        world.restart()
    if then.startswith("after a crash"):
        with monkeypatch.context() as patch:
            patch.setattr(Journal, "start_log_over", lambda _: False)
            world.retire()
        assert left_of(world, parts)
        world.crash()
        world.node.maintain()
    else:
        world.retire()
    assert left_of(world, parts) == {}
    with world.node.journal.reading() as state:
        step = LedgerSteps(world.node.journal.db).of_ticket(ticket)
        logged = state.tickets[ticket].charge.ledger
    assert step is not None
    assert step.file == ""
    assert step.digest.hex() == logged
    world.restart()
    world.verify()
    world.close()


def test_a_reader_that_holds_the_log_only_delays_its_end(tmp_path: Path) -> None:
    """While another process reads, the write-ahead log cannot be started over: the next turn does it."""
    world, _, parts = long_sample(tmp_path / "census")
    reading = sqlite3.connect(world.folder / "journal.db", isolation_level=None)
    reading.execute("BEGIN")
    reading.execute("select count(*) from entries").fetchall()
    world.retire()
    assert left_of(world, parts)
    reading.execute("ROLLBACK")
    reading.close()
    world.node.maintain()
    assert left_of(world, parts) == {}
    world.close()


def test_membership_is_kept_to_the_end_of_its_retention(world: LedgerWorld) -> None:
    """To the millisecond, by the log's time; and each by the policy of its charge."""
    kept = world.charge({0}, 30)
    world.adopt(persons_policy(sample_retention_ms=3 * SAMPLE_RETENTION_MS))
    longer = world.charge({1}, 30)

    def files(*tickets: str) -> list[bool]:
        with world.node.journal.reading():
            found = [LedgerSteps(world.node.journal.db).of_ticket(ticket) for ticket in tickets]
        return [bool(step and step.file) for step in found]

    world.clock.advance(SAMPLE_RETENTION_MS - 1)
    world.node.maintain()
    assert files(kept, longer) == [True, True]
    world.clock.advance(1)
    world.node.maintain()
    assert files(kept, longer) == [False, True]
    # A clock that is set back brings nothing back, and one that jumps ahead ends what it finds.
    world.clock.advance(-10 * SAMPLE_RETENTION_MS)
    world.restart()
    world.node.maintain()
    assert files(kept, longer) == [False, True]
    world.clock.advance(20 * SAMPLE_RETENTION_MS)
    world.node.maintain()
    assert files(kept, longer) == [False, False]
    world.verify()
    world.verify_files()


def test_membership_is_not_erased_before_its_answer_is_made(world: LedgerWorld) -> None:
    """An outage longer than the retention: the answer can still be counted, on exactly whom it was charged for."""
    ticket = world.charge({0, 5}, 30, answered=False)
    world.retire()
    world.crash()
    world.node.maintain()
    _, sample = kept_of(world, ticket)
    assert members(sample.bits, DECLARED) == {0, 5}
    assert members(sample.active, sample.persons) == {0, 3}
    world.answer(ticket)
    world.node.maintain()
    assert not names(world, "samples", ".sample")
    world.verify()
    world.restart()
    world.verify()


def test_membership_is_not_erased_before_a_snapshot_covers_it(
    world: LedgerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While no snapshot can be written nothing is forgotten: what was charged would be."""
    world.charge({0, 5}, 30)

    def full(*_: object) -> None:
        raise InternalError("STORE_FAILED")

    with monkeypatch.context() as patch:
        patch.setattr(SnapshotFolder, "write", full)
        with pytest.raises(InternalError, match="STORE_FAILED"):
            world.retire()
    assert len(names(world, "samples", ".sample")) == 1
    world.restart()
    world.verify()
    world.node.maintain()
    assert not names(world, "samples", ".sample")
    world.restart()
    world.verify()


def test_what_stays_of_a_one_person_sample_cannot_be_guessed(world: LedgerWorld) -> None:
    """An attacker who knows everybody's number tries them all: without the salt, which is gone, nothing fits."""
    tickets = [world.charge({5}, 30) for _ in range(2)]
    candidates = {
        commit_active(salt, bytes.fromhex(ticket), bytes([bits]))
        for ticket in tickets
        for bits in range(256)
        for salt in (bytes(32), bytes.fromhex(ticket))
    }

    def contents() -> list[bytes]:
        with world.node.journal.reading():
            return [step.content for step in LedgerSteps(world.node.journal.db).after(0) if step.kind == "charge"]

    kept = [kept_of(world, ticket)[1] for ticket in tickets]
    known = [
        commit_active(sample.active_salt, bytes.fromhex(ticket), bytes([0b00010000]))
        for ticket, sample in zip(tickets, kept, strict=True)
    ]
    assert known == contents()
    assert known[0] != known[1]
    world.retire()
    assert contents() == known
    assert not set(known) & candidates
    assert not left_of(world, {str(place): sample.active_salt for place, sample in enumerate(kept)})
