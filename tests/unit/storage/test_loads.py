"""Loads: the file in force is the one that was loaded, byte for byte, and old ones go when nobody needs them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from fakes.clock import FakeClock
from fakes.dictionaries import STAYS
from fakes.logs import DICTIONARY, HEALTH, HEALTH_SIGNER, begin, chain_of, root
from fakes.randomness import SeededRandomness

from broker_common.crypto.commitments import commit_load, hash_bytes
from broker_common.errors import InternalError, InvalidRequestError, RefusedError
from broker_common.storage.journal import Journal, Transaction
from broker_common.storage.loads import LoadFolder, WithEntry
from broker_common.tlog.entries import Entry
from broker_common.tlog.health_state import HealthState

CONTENT = b"people" * 500_000
"""More than one chunk."""
LINKAGE = chain_of(1)


@pytest.fixture
def folder(tmp_path: Path) -> LoadFolder:
    """A folder of loads, not yet made."""
    return LoadFolder(tmp_path / "loads", ".db")


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal[HealthState]]:
    """A journal with a table for loads."""
    made = Journal.create(
        tmp_path / "journal.db",
        fresh_state=lambda: HealthState(root(HEALTH)),
        signer=lambda _: HEALTH_SIGNER,
        clock=FakeClock(),
        tables=LoadFolder.create_tables,
    )
    begin(made, "health")
    yield made
    made.close()


def put(folder: LoadFolder, journal: Journal[HealthState], seed: str = "load", content: bytes = CONTENT) -> str:
    """Write a load and put it in force."""
    randomness = SeededRandomness(seed)
    with folder.loading(randomness) as load:
        folder.file(load).write_bytes(content)
        folder.put_in_force(journal, load, "2021", LINKAGE, randomness, dictionary=DICTIONARY)
    return load


def commitments(journal: Journal[HealthState]) -> dict[str, str]:
    """The log's commitments to every load."""
    with journal.reading() as state:
        return dict(state.commitments)


def commitment(journal: Journal[HealthState]) -> str:
    """The log's commitment to the load in force."""
    with journal.reading() as state:
        return state.commitments[state.load]


def refused(folder: LoadFolder, journal: Journal[HealthState], load: str, claimed: Mapping[str, str]) -> bool:
    """Whether the load is refused as not the one that was loaded."""
    with pytest.raises(InternalError) as caught:
        folder.verify(journal, load, claimed)
    return caught.value.code == "INTEGRITY"


def test_a_load_in_force_verifies(folder: LoadFolder, journal: Journal[HealthState]) -> None:
    """The log names the load and commits to its bytes under a salt that only the node has."""
    load = put(folder, journal)
    with journal.reading() as state:
        assert (state.load, state.release) == (load, "2021")
    folder.verify(journal, load, commitments(journal))
    salt = next(iter(journal.db.query("select salt from loads")))["salt"]
    assert commitment(journal) == commit_load(salt, hash_bytes(CONTENT)).hex()


@pytest.mark.parametrize(
    "content", [b"", CONTENT[:-1], CONTENT + b"\0", b"P" + CONTENT[1:], CONTENT[:-1] + b"S"], ids=range(5)
)
def test_a_tampered_load_is_refused(folder: LoadFolder, journal: Journal[HealthState], content: bytes) -> None:
    """One changed byte anywhere in the file keeps the node from answering on it."""
    load = put(folder, journal)
    folder.file(load).write_bytes(content)
    assert refused(folder, journal, load, commitments(journal))


def test_a_load_under_another_dictionary_than_the_newest_is_refused(
    folder: LoadFolder, journal: Journal[HealthState]
) -> None:
    """One was adopted while the source was read: the operator is told to load again, and the log goes on."""
    with journal.reading() as state:
        size = state.size
    randomness = SeededRandomness("load")
    with folder.loading(randomness) as load:
        folder.file(load).write_bytes(CONTENT)
        with pytest.raises(InvalidRequestError, match="another dictionary was adopted") as caught:
            folder.put_in_force(journal, load, "2021", LINKAGE, randomness, dictionary=STAYS)
    assert caught.value.code == "LOAD_REFUSED"
    put(folder, journal)
    with journal.reading() as state:
        assert state.size == size + 1


def test_a_missing_load_is_refused(folder: LoadFolder, journal: Journal[HealthState]) -> None:
    """A node does not go on without its data."""
    load = put(folder, journal)
    folder.file(load).unlink()
    assert refused(folder, journal, load, commitments(journal))


def test_a_load_cannot_be_swapped_for_an_older_one(folder: LoadFolder, journal: Journal[HealthState]) -> None:
    """Copying yesterday's file over today's, or claiming yesterday's commitment, is noticed."""
    old = put(folder, journal, "old", b"old")
    before = commitments(journal)
    new = put(folder, journal, "new", b"new")
    claimed = commitments(journal)
    assert refused(folder, journal, new, before)
    assert refused(folder, journal, new, {new: before[old]})
    assert refused(folder, journal, new, {old: claimed[new]})
    assert refused(folder, journal, new, {})
    assert refused(folder, journal, "0000000000000000", claimed)
    assert refused(folder, journal, "0000000000000000", {"0000000000000000": claimed[new]})
    folder.file(new).write_bytes(folder.file(old).read_bytes())
    assert refused(folder, journal, new, claimed)


def test_a_load_that_was_replaced_still_verifies(folder: LoadFolder, journal: Journal[HealthState]) -> None:
    """Open tickets are counted on the load they were accepted on, and that one cannot be swapped either."""
    old, new = put(folder, journal, "old", b"old"), put(folder, journal, "new", b"new")
    for load in (old, new):
        folder.verify(journal, load, commitments(journal))
    folder.file(old).write_bytes(b"new")
    assert refused(folder, journal, old, commitments(journal))
    folder.verify(journal, new, commitments(journal))


def test_two_loads_of_the_same_content_look_different(folder: LoadFolder, journal: Journal[HealthState]) -> None:
    """The salted commitment does not show whether anything changed between two loads."""
    put(folder, journal, "one")
    first = commitment(journal)
    put(folder, journal, "two")
    assert commitment(journal) != first


def test_what_goes_with_a_load_stands_and_falls_with_its_entry(
    folder: LoadFolder, journal: Journal[HealthState]
) -> None:
    """It is called in the transaction, with the load's own entry; if it fails, nothing has happened."""
    first, randomness = put(folder, journal, "first"), SeededRandomness("second")
    seen: list[Entry] = []

    def put_second(with_entry: WithEntry[HealthState]) -> str:
        with folder.loading(randomness) as load:
            folder.file(load).write_bytes(CONTENT)
            folder.put_in_force(
                journal, load, "2021", LINKAGE, randomness, dictionary=DICTIONARY, with_entry=with_entry
            )
        return load

    def fail(transaction: Transaction[HealthState], entry: Entry) -> None:
        assert transaction.state.load != first
        transaction.db.make_table("beside", {"sequence": int}, key="sequence")
        transaction.db.execute("insert into beside (sequence) values (?)", [entry.sequence])
        raise KeyboardInterrupt

    def write(transaction: Transaction[HealthState], entry: Entry) -> None:
        transaction.db.make_table("beside", {"sequence": int}, key="sequence")
        transaction.db.execute("insert into beside (sequence) values (?)", [entry.sequence])
        seen.append(entry)

    with journal.reading() as state:
        size = state.size
    with pytest.raises(KeyboardInterrupt):
        put_second(fail)
    with journal.reading() as state:
        assert (state.load, state.size) == (first, size)
    assert not journal.db.has_table("beside")
    load = put_second(write)
    with journal.reading() as state:
        assert (state.load, state.size) == (load, size + 1)
    assert [getattr(entry.event, "load", "") for entry in seen] == [load]
    assert [row["sequence"] for row in journal.db.query("select * from beside")] == [seen[0].sequence]


def test_a_load_that_was_never_written_is_not_put_in_force(folder: LoadFolder, journal: Journal[HealthState]) -> None:
    """No entry is made for a file that is not there."""
    with folder.loading(SeededRandomness()) as load, pytest.raises(InternalError):
        folder.put_in_force(journal, load, "2021", LINKAGE, SeededRandomness(), dictionary=DICTIONARY)
    with journal.reading() as state:
        assert state.load == ""
    assert not list(journal.db.query("select * from loads"))


def test_loads_that_nobody_needs_are_removed(folder: LoadFolder, journal: Journal[HealthState]) -> None:
    """All but those kept, and nothing that is not a load."""
    loads = [put(folder, journal, seed, b"x") for seed in ("a", "b", "c")]
    (folder.path / "README").write_text("not a load")
    folder.forget_except([loads[1], "0000000000000000"])
    assert {path.name for path in folder.path.iterdir()} == {"README", f"{loads[1]}.db"}
    folder.forget_except([])
    assert [path.name for path in folder.path.iterdir()] == ["README"]


def test_the_folder_is_the_owners_alone(folder: LoadFolder) -> None:
    """Ids are random and distinct, and the folder is made once."""
    randomness = SeededRandomness()
    ids = set()
    for _ in range(20):
        with folder.loading(randomness) as load:
            ids.add(load)
    assert len(ids) == 20
    assert all(len(load) == 16 for load in ids)
    assert folder.path.stat().st_mode & 0o777 == 0o700


def test_one_load_at_a_time(folder: LoadFolder) -> None:
    """A second one is refused while the first is under way, touches nothing of it, and may follow when it has ended."""
    with folder.loading(SeededRandomness()) as load:
        unfinished = folder.path / f".{load}.db.1.part"
        unfinished.write_bytes(b"half")
        with pytest.raises(RefusedError) as caught, LoadFolder(folder.path, ".db").loading(SeededRandomness("other")):
            pytest.fail("loaded twice")
        assert caught.value.code == "LOADING"
        assert unfinished.read_bytes() == b"half"
    with folder.loading(SeededRandomness("other")):
        assert not unfinished.exists()


def test_a_load_that_failed_does_not_stand_in_the_way(folder: LoadFolder) -> None:
    """Whatever ended it, the next one may begin."""
    with pytest.raises(KeyboardInterrupt), folder.loading(SeededRandomness()):
        raise KeyboardInterrupt
    with folder.loading(SeededRandomness()):
        pass


def test_what_a_killed_load_left_is_swept_away(folder: LoadFolder, journal: Journal[HealthState]) -> None:
    """Half a store is removed before the next one is written; whole stores stay, whatever they are called."""
    load = put(folder, journal)
    left = [folder.path / name for name in (".0123456789abcdef.db.4711.part", ".0123456789abcdef.npz.1.part.npz")]
    for path in left:
        path.write_bytes(b"half")
    (folder.path / "part.db").write_bytes(b"whole")
    spilled = folder.path.with_name(".source-spill-x")
    spilled.mkdir()
    (spilled / "duckdb_temp_storage.tmp").write_bytes(b"1234567897 I21")
    with folder.loading(SeededRandomness("next")):
        assert {path.name for path in folder.path.iterdir()} == {f"{load}.db", "part.db"}
        assert not spilled.exists()
    folder.verify(journal, load, commitments(journal))


LOAD = """
import os, sys
from pathlib import Path
from broker_common.storage.durable import replacing
from broker_common.storage.loads import LoadFolder
folder = LoadFolder(Path(sys.argv[1]), ".db")
with folder.loading(os.urandom) as load, replacing(folder.file(load)) as temporary:
    temporary.write_bytes(b"half")
    print("loading", flush=True)
    sys.stdin.read()
"""


def test_a_load_of_another_process_stands_in_the_way_until_it_is_killed(folder: LoadFolder) -> None:
    """The lock counts between processes; a killed one leaves neither lock nor half a store behind."""
    with subprocess.Popen(
        [sys.executable, "-c", LOAD, str(folder.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as loader:
        assert loader.stdout is not None
        assert loader.stdout.readline() == b"loading\n"
        (unfinished,) = folder.path.glob(".*.part*")
        with pytest.raises(RefusedError) as caught, folder.loading(SeededRandomness()):
            pytest.fail("loaded twice")
        assert caught.value.code == "LOADING"
        assert unfinished.exists()
        loader.kill()
        loader.wait()
    assert unfinished.exists()
    with folder.loading(SeededRandomness()):
        assert not list(folder.path.iterdir())
