"""Snapshots: the same ledger is the same bytes, read back whole or not at all, and shown to nobody."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fakes.randomness import SeededRandomness
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_common.errors import InternalError
from broker_common.privacy.accounting import price
from census_node.ledger.accounts import Ledger
from census_node.ledger.passes import Passes
from census_node.ledger.snapshots import SnapshotFolder
from census_node.ledger.subjects import Carry

CARRY = Carry(
    np.array([2], np.uint32), np.array([0], np.uint32), np.array([1, 1], np.uint32), np.array([0, 2], np.uint32), 3, 3
)


@pytest.fixture
def folder(tmp_path: Path) -> SnapshotFolder:
    """A folder that is not yet made."""
    return SnapshotFolder(tmp_path / "ledgers")


SOME = Ledger(3, 2, np.array([7, 2**32 - 1, 9], np.uint32), bytes(range(32)))


def contents(ledger: Ledger) -> tuple[object, ...]:
    """Everything that a snapshot holds."""
    return ledger.persons, ledger.households, ledger.charged.tolist()


def refusal(folder: SnapshotFolder, name: str, content: bytes) -> InternalError:
    """How reading ends."""
    with pytest.raises(InternalError) as caught:
        folder.read(name, content)
    return caught.value


amounts = st.integers(0, 2**32 - 1)


@settings(max_examples=60)
@given(persons=amounts, households=amounts, charged=st.lists(amounts, max_size=6))
def test_a_ledger_survives_its_file(
    persons: int, households: int, charged: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """An empty one too; the hash is of the file's bytes, and another one for the same ledger written again."""
    folder = SnapshotFolder(tmp_path_factory.mktemp("census") / "ledgers")
    ledger = Ledger(persons, households, np.array(charged, np.uint32))
    name, content = folder.write(ledger, SeededRandomness())
    assert content == hashlib.sha256((folder.path / name).read_bytes()).digest()
    read = folder.read(name, content)
    assert contents(read) == contents(ledger)
    other, same = folder.write(read, SeededRandomness("other"))
    assert other != name
    assert same != content
    assert contents(folder.read(other, same)) == contents(ledger)


def test_a_ledger_that_is_read_is_charged_like_the_one_that_was_written(folder: SnapshotFolder) -> None:
    """Its charges are in memory and can grow; also when the file is removed."""
    name, content = folder.write(SOME, SeededRandomness())
    read = folder.read(name, content)
    folder.remove(name)
    one = np.array([0b10000000], np.uint8)
    with Passes(people_in_block=32) as passes:
        for ledger in (read, SOME.frozen()):
            # Nobody is asked where persons live.
            ledger.charges("person", passes, "load", lambda: pytest.fail("homes")).charge(one, price(30))
            assert ledger.charged.tolist() == [7 + price(30), 2**32 - 1, 9]
    assert SOME.charged.tolist() == [7, 2**32 - 1, 9]


def test_a_snapshot_is_its_owners_alone_and_on_disk_before_its_name_is_told(
    folder: SnapshotFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step will name it: file and folder are flushed."""
    flushed: list[str] = []
    fsync: Callable[[int], None] = os.fsync

    def seen(descriptor: int) -> None:
        flushed.append(Path(f"/proc/self/fd/{descriptor}").resolve().name)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", seen)
    name, _ = folder.write(SOME, SeededRandomness())
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert any(name in each for each in flushed)
    assert folder.path.name in flushed


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut off": lambda content: content[:-1],
    "longer": lambda content: content + b"\0",
    "first byte": lambda content: b"\0" + content[1:],
    "a charge lowered": lambda content: content.replace(b"\x07\0\0\0\xff\xff\xff\xff", b"\x06\0\0\0\xff\xff\xff\xff"),
    "last byte": lambda content: content[:-1] + b"x",
    "another array": lambda content: content.replace(b"<u4", b"<i4", 1),
    "pickled": lambda content: content.replace(b"|u1", b"|O8", 1),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=list(DAMAGES))
def test_a_damaged_snapshot_is_refused(folder: SnapshotFolder, damage: Callable[[bytes], bytes]) -> None:
    """Nothing of it is taken over: the node stops."""
    name, content = folder.write(SOME, SeededRandomness())
    path = folder.path / name
    before = path.read_bytes()
    path.write_bytes(damage(before))
    assert path.read_bytes() != before
    error = refusal(folder, name, content)
    assert (error.code, error.stops_node) == ("INTEGRITY", True)
    assert name in error.text


def test_a_missing_snapshot_is_refused(folder: SnapshotFolder) -> None:
    """Lost, or in a folder that was never made."""
    assert refusal(folder, "00.ledgers", bytes(32)).code == "INTEGRITY"
    name, content = folder.write(SOME, SeededRandomness())
    folder.remove(name)
    folder.remove(name)
    assert refusal(folder, name, content).code == "INTEGRITY"


def test_another_snapshot_is_refused(folder: SnapshotFolder) -> None:
    """The hash decides, not the name."""
    name, content = folder.write(SOME, SeededRandomness())
    other, _ = folder.write(Ledger(), SeededRandomness("other"))
    (folder.path / name).write_bytes((folder.path / other).read_bytes())
    assert refusal(folder, name, content).code == "INTEGRITY"


def test_a_carry_is_known_by_its_content(folder: SnapshotFolder) -> None:
    """Read back as it was written; another one, a damaged one or none is refused."""
    name, content = folder.write_carry(CARRY, SeededRandomness())
    assert folder.read_carry(name, content).content_hash == CARRY.content_hash == content
    none = np.empty(0, np.uint32)
    nothing = Carry(none, none, none, none, 3, 3)
    other, _ = folder.write_carry(nothing, SeededRandomness("other"))
    for wrong in (other, "00.carry"):
        with pytest.raises(InternalError, match="INTEGRITY"):
            folder.read_carry(wrong, content)
    (folder.path / name).write_bytes((folder.path / name).read_bytes()[:-30])
    with pytest.raises(InternalError, match="INTEGRITY"):
        folder.read_carry(name, content)


@pytest.mark.parametrize("action", ["write", "write_carry", "remove"])
def test_a_failing_disk_is_a_failure_of_the_store(
    folder: SnapshotFolder, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    """No name is given of what may not be there; what was there is."""
    name, content = folder.write(SOME, SeededRandomness())

    def fail(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        patch.setattr(Path, "unlink", fail)
        acts: dict[str, Callable[[], object]] = {
            "write": lambda: folder.write(SOME, SeededRandomness("other")),
            "write_carry": lambda: folder.write_carry(CARRY, SeededRandomness("other")),
            "remove": lambda: folder.remove(name),
        }
        with pytest.raises(InternalError) as caught:
            acts[action]()
    assert (caught.value.code, caught.value.stops_node) == ("STORE_FAILED", True)
    assert contents(folder.read(name, content)) == contents(SOME)


def test_sweeping_leaves_what_steps_name(folder: SnapshotFolder) -> None:
    """Unfinished files go too; a folder that was never made is none."""
    folder.sweep({"x"})
    assert not folder.path.exists()
    kept, _ = folder.write(SOME, SeededRandomness())
    folder.write(SOME, SeededRandomness("other"))
    folder.write_carry(CARRY, SeededRandomness("third"))
    (folder.path / ".half.part").write_bytes(b"half")
    folder.sweep({kept, "gone.ledgers"})
    assert [path.name for path in folder.path.iterdir()] == [kept]


def test_a_hash_confirms_no_guess_of_what_was_charged(folder: SnapshotFolder) -> None:
    """A holder of the ledger itself, but no longer the file, cannot tell whose hash it is: files are salted."""
    name, content = folder.write(SOME, os.urandom)
    assert folder.write(SOME, os.urandom)[1] != content
    salt = np.load(folder.path / name)
    assert (salt.dtype, len(salt)) == (np.uint8, 32)
