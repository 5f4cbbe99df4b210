"""Loads in a node's memory: read ahead of questions, and never handed out unless the log committed to them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fakes.clock import FakeClock
from fakes.logs import DICTIONARY, HEALTH, HEALTH_SIGNER, begin, chain_of, root
from fakes.patience import PATIENCE_SECONDS
from fakes.randomness import SeededRandomness
from structlog.testing import capture_logs

from broker_common.errors import InternalError, RefusedError
from broker_common.storage.journal import Journal
from broker_common.storage.loads import LoadFolder
from broker_common.storage.open_loads import OpenLoads
from broker_common.tlog.health_state import HealthState

LINKAGE = chain_of(1)


class Node:
    """A folder of loads, its journal, and what is read of them."""

    def __init__(self, directory: Path) -> None:
        self.loads = LoadFolder(directory / "loads", ".db")
        self.journal = Journal.create(
            directory / "journal.db",
            fresh_state=lambda: HealthState(root(HEALTH)),
            signer=lambda _: HEALTH_SIGNER,
            clock=FakeClock(),
            tables=LoadFolder.create_tables,
        )
        begin(self.journal, "health")
        self.read: list[str] = []
        # Outcomes of reading a load.
        self.failing: dict[str, Exception] = {}
        self.open = OpenLoads(self.journal, self.loads, read=self.read_file, needed=lambda: {self.journal.state.load})

    def read_file(self, path: Path, load: str) -> bytes:
        """Notes that it did."""
        self.read.append(load)
        if load in self.failing:
            raise self.failing[load]
        return path.read_bytes()

    @contextmanager
    def writing(self, seed: str) -> Iterator[str]:
        """A load that is written, and whose writer is about to put it in force."""
        with self.loads.loading(SeededRandomness(seed)) as load:
            self.loads.file(load).write_bytes(seed.encode())
            yield load

    def write(self, seed: str) -> str:
        """A load that the log does not name, and whose writer is gone."""
        with self.writing(seed) as load:
            pass
        return load

    def put(self, load: str) -> None:
        """Put it in force."""
        self.loads.put_in_force(self.journal, load, "2021", LINKAGE, SeededRandomness(load), dictionary=DICTIONARY)

    def store(self, load: str) -> bytes:
        """As a question asks for it."""
        return self.open.store(load, dict(self.journal.state.commitments))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """With a load in force."""
    made = Node(tmp_path)
    made.put(made.write("first"))
    yield made
    made.journal.close()


def test_next_load_is_read_before_it_is_in_force(node: Node) -> None:
    """The first question under it finds it in memory; the one before it is let go."""
    node.open.look_ahead()
    first = node.journal.state.load
    with node.writing("second") as following:
        node.open.look_ahead()
        assert node.read == [first, following]
        node.put(following)
    assert node.store(following) == b"second"
    node.open.look_ahead()
    assert node.read == [first, following]
    assert node.store(first) == b"first"
    assert node.read == [first, following, first], "it was let go"


def test_load_that_was_read_ahead_and_is_not_the_committed_one_is_refused(node: Node) -> None:
    """A question is answered from the load that the log committed to, however early it was read; put right it is read again."""
    with node.writing("second") as following:
        node.loads.file(following).write_bytes(b"forged")
        node.open.look_ahead()
        node.loads.file(following).write_bytes(b"second")
        node.put(following)
    with pytest.raises(InternalError) as caught:
        node.store(following)
    assert caught.value.code == "INTEGRITY"
    assert node.store(following) == b"second"


def test_load_that_the_log_does_not_name_is_handed_to_nobody(node: Node) -> None:
    """It may never be put in force."""
    with node.writing("second") as following:
        node.open.look_ahead()
        with pytest.raises(InternalError):
            node.store(following)


def test_memory_of_a_load_whose_writer_was_killed_is_let_go(node: Node) -> None:
    """It will never be put in force, and is not read again; its file goes with the next load, which is read as ever."""
    first = node.journal.state.load
    with node.writing("killed") as killed:
        node.open.look_ahead()
        assert set(node.open._places) == {first, killed}
    for _ in range(2):
        node.open.look_ahead()
        assert set(node.open._places) == {first}
    with node.writing("second") as following:
        node.open.look_ahead()
        node.put(following)
    node.open.look_ahead()
    assert node.read == [first, killed, following]


def test_load_that_was_put_in_force_as_its_writer_went_is_not_taken_for_abandoned(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log is looked at once more after the lock was found free."""
    node.open.look_ahead()
    following = node.write("second")
    is_loading = LoadFolder.is_loading

    def gone(loads: LoadFolder) -> bool:
        node.put(following)
        return is_loading(loads)

    monkeypatch.setattr(LoadFolder, "is_loading", gone)
    node.open.look_ahead()
    assert node.read[-1] == following


def test_asking_whether_somebody_loads_keeps_nobody_from_it(node: Node) -> None:
    """The lock is let go at once, and asking makes no file."""
    loads = LoadFolder(node.loads.path.parent / "others", ".db")
    assert not loads.is_loading()
    assert not loads.path.with_suffix(".lock").exists()
    with loads.loading(SeededRandomness("one")):
        assert loads.is_loading()
        assert loads.is_loading()
    assert not loads.is_loading()
    with loads.loading(SeededRandomness("two")):
        pass


def test_damage_found_ahead_of_questions_is_told_to_those_who_ask(node: Node) -> None:
    """Looking ahead stops nobody."""
    node.loads.file(node.journal.state.load).write_bytes(b"damaged")
    node.open.look_ahead()
    with pytest.raises(InternalError):
        node.store(node.journal.state.load)


def test_reading_one_load_keeps_nobody_from_another(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions of the load in force are answered while the next one is read, however long that takes."""
    first = node.journal.state.load
    node.open.prepare()
    reading, go_on = threading.Event(), threading.Event()

    def slowly(load: str) -> bytes:
        reading.set()
        assert go_on.wait(PATIENCE_SECONDS)
        return load.encode()

    monkeypatch.setattr(LoadFolder, "content_hash", lambda _, load: slowly(load))
    ahead = threading.Thread(target=node.open.look_ahead)
    with node.writing("second"):
        ahead.start()
        try:
            assert reading.wait(PATIENCE_SECONDS)
            asked: list[bytes] = []
            question = threading.Thread(target=lambda: asked.append(node.store(first)))
            question.start()
            question.join(PATIENCE_SECONDS)
            assert asked == [b"first"]
        finally:
            go_on.set()
            ahead.join()


def test_damaged_load_is_named_before_anything_of_it_is_read(node: Node) -> None:
    """Whatever a reader makes of damage: the operator is told which load is not the one that was loaded."""
    load = node.journal.state.load
    node.loads.file(load).write_bytes(b"damaged")
    with pytest.raises(InternalError, match=load):
        node.store(load)
    assert node.read == []


def test_start_reads_the_load_in_force_and_no_other(node: Node) -> None:
    """A stray file in the folder keeps no node from starting, and a load in progress does not either."""
    first, left = node.journal.state.load, node.write("left")
    with node.writing("second") as following:
        node.failing = dict.fromkeys((left, following), InternalError("INTEGRITY", problem="damaged"))
        node.open.prepare()
    assert node.read == [first]
    assert set(node.open._places) == {first}


def test_start_fails_if_the_load_in_force_cannot_be_read(node: Node) -> None:
    """The operator is told then, and not by the first question."""
    node.failing[node.journal.state.load] = InternalError("INTEGRITY", problem="damaged")
    with pytest.raises(InternalError, match="damaged"):
        node.open.prepare()


def test_leftover_without_a_writer_is_never_read(node: Node) -> None:
    """It would be in memory for nothing."""
    node.write("left")
    node.open.look_ahead()
    assert node.read == [node.journal.state.load]


FAILURES = [
    InternalError("INTEGRITY", problem="damaged"),
    RefusedError("NOTHING_LOADED", what="it", role="census"),
    MemoryError(),
]


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: type(failure).__name__)
def test_load_that_cannot_be_read_ahead_is_said_once_and_stops_nobody(node: Node, failure: Exception) -> None:
    """Nor is it tried every second; a caller that asks for it once it is in force has it read again."""
    first = node.journal.state.load
    with node.writing("second") as following, capture_logs() as said:
        node.failing[following] = failure
        for _ in range(3):
            node.open.look_ahead()
        assert node.read == [first, following]
        assert [(line["log_level"], line["load"]) for line in said] == [("warning", following)]
        assert node.store(first) == b"first"
        node.put(following)
    node.failing.clear()
    assert node.store(following) == b"second"


def test_file_that_is_changed_between_hash_and_reading_is_refused(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """In place, with the same length and its old time set back, or by another file: what was hashed is what is read."""
    load = node.journal.state.load
    file = node.loads.file(load)
    content_hash = LoadFolder.content_hash

    def change_in_place() -> None:
        before = file.stat()
        file.write_bytes(b"fOrst")
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))

    def replace() -> None:
        other = file.with_name("other")
        other.write_bytes(b"fOrst")
        other.replace(file)

    for change in (change_in_place, replace):
        file.write_bytes(b"first")

        def hashed(loads: LoadFolder, load: str, change: Callable[[], None] = change) -> bytes:
            found = content_hash(loads, load)
            change()
            return found

        with monkeypatch.context() as patched:
            patched.setattr(LoadFolder, "content_hash", hashed)
            with pytest.raises(InternalError, match="changed while it was read") as caught:
                node.store(load)
            assert caught.value.code == "INTEGRITY"
    file.write_bytes(b"first")
    assert node.store(load) == b"first"


def test_file_that_is_changed_while_it_is_read_ahead_is_read_again(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The data read ahead is not kept for the question, which hashes and reads what is there by then."""
    content_hash = LoadFolder.content_hash
    with node.writing("second") as following:
        file = node.loads.file(following)

        def hashed(loads: LoadFolder, load: str) -> bytes:
            found = content_hash(loads, load)
            if load == following:
                file.write_bytes(b"sEcond")
            return found

        with monkeypatch.context() as patched:
            patched.setattr(LoadFolder, "content_hash", hashed)
            node.open.look_ahead()
        file.write_bytes(b"second")
        node.put(following)
    assert node.store(following) == b"second"
