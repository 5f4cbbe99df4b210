"""Snapshots: the same ledgers are the same bytes, read back whole or not at all, and shown to nobody."""

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
from broker_common.privacy.accounting import price_units
from census_node.ledgers import Ledgers, Room
from census_node.linked import NOBODY, Linked
from census_node.snapshots import SnapshotFolder
from census_node.submitted_ledger import Column, SubmittedLedger
from census_node.unit_ledger import UnitLedger
from census_node.units import Carry

CARRY = Carry(
    np.array([2], np.uint32), np.array([0], np.uint32), np.array([1, 1], np.uint32), np.array([0, 2], np.uint32), 3, 3
)


@pytest.fixture
def folder(tmp_path: Path) -> SnapshotFolder:
    """A folder that is not yet made."""
    return SnapshotFolder(tmp_path / "ledgers")


def ledgers_of(
    charges: dict[int, int], persons: list[int], households: list[int], introduced: dict[str, int] | None = None
) -> Ledgers:
    """Ledgers in which a pseudonym, person or household was charged as told."""
    high = np.array(sorted(charges), np.uint64)
    column = Column(high, high + np.uint64(1), np.array([charges[int(each)] for each in high], np.uint32))
    units = UnitLedger(np.array(persons, np.uint32), np.array(households, np.uint32))
    return Ledgers(SubmittedLedger(column), units, dict(introduced or {}), bytes(range(32)))


SOME = ledgers_of({3: 7, 2**63: 9, 5: 2**32 - 1}, [4, 0, 5], [2**32 - 1, 0], {"health-on": 2, "é": 1})


def contents(ledgers: Ledgers) -> tuple[object, ...]:
    """Everything that a snapshot holds."""
    column = ledgers.submitted.merged()
    arrays = (column.high, column.low, column.units, ledgers.units.persons, ledgers.units.households)
    return (*(array.tolist() for array in arrays), ledgers.introduced)


def refusal(folder: SnapshotFolder, name: str, content: bytes) -> InternalError:
    """How reading ends."""
    with pytest.raises(InternalError) as caught:
        folder.read(name, content)
    return caught.value


amounts = st.integers(0, 2**32 - 1)


@settings(max_examples=60)
@given(
    charges=st.dictionaries(st.integers(0, 2**64 - 2), amounts, max_size=6),
    persons=st.lists(amounts, max_size=5),
    households=st.lists(amounts, max_size=5),
    introduced=st.dictionaries(st.text(max_size=8), st.integers(0, 2**53), max_size=3),
)
def test_ledgers_survive_their_file(
    charges: dict[int, int],
    persons: list[int],
    households: list[int],
    introduced: dict[str, int],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Empty ones too; the hash is of the file's bytes, and another one for the same ledgers written again."""
    folder = SnapshotFolder(tmp_path_factory.mktemp("census") / "ledgers")
    ledgers = ledgers_of(charges, persons, households, introduced)
    name, content = folder.write(ledgers, SeededRandomness())
    assert content == hashlib.sha256((folder.path / name).read_bytes()).digest()
    read = folder.read(name, content)
    assert contents(read) == contents(ledgers)
    other, same = folder.write(read, SeededRandomness("other"))
    assert other != name
    assert same != content
    assert contents(folder.read(other, same)) == contents(ledgers)


def test_ledgers_that_are_read_are_charged_like_those_that_were_written(folder: SnapshotFolder) -> None:
    """Their charges are in memory and can grow, though the pseudonyms stay in the file; also when it is removed."""
    name, content = folder.write(SOME, SeededRandomness())
    read = folder.read(name, content)
    folder.remove(name)
    pseudonyms = np.array([[3, 4], [4, 4]], ">u8").view(np.uint8).reshape(-1, 16)
    units = np.array([1, NOBODY], np.uint32)
    sample = Linked(pseudonyms, units, units)
    for ledgers in (read, SOME.frozen()):
        decision = ledgers.decide(sample, Room(price_units(30), price_units(1), "person"))
        ledgers.apply(sample, decision, price=price_units(30), organisation="health-on", digest=b"")
        assert ledgers.submitted.units_of(pseudonyms).tolist() == [7 + price_units(30), price_units(30)]
        assert ledgers.introduced["health-on"] == 3
    assert contents(SOME)[2] == [7, 2**32 - 1, 9]


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
    other, _ = folder.write(Ledgers(), SeededRandomness("other"))
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
    """What was left unfinished goes too; a folder that was never made is none."""
    folder.sweep({"x"})
    assert not folder.path.exists()
    kept, _ = folder.write(SOME, SeededRandomness())
    folder.write(SOME, SeededRandomness("other"))
    folder.write_carry(CARRY, SeededRandomness("third"))
    (folder.path / ".half.part").write_bytes(b"half")
    folder.sweep({kept, "gone.ledgers"})
    assert [path.name for path in folder.path.iterdir()] == [kept]


def test_a_hash_confirms_no_guess_of_what_was_charged(folder: SnapshotFolder) -> None:
    """Whoever has the ledgers themselves, but no longer the file, cannot tell whose hash it is: files are salted."""
    name, content = folder.write(SOME, os.urandom)
    assert folder.write(SOME, os.urandom)[1] != content
    salt = np.load(folder.path / name)
    assert (salt.dtype, len(salt)) == (np.uint8, 32)
