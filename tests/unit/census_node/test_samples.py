"""Samples between charge and answer: read as written or not at all, shown to nobody, and overwritten before they go."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from fakes.randomness import SeededRandomness
from hypothesis import given
from hypothesis import strategies as st

from broker_common.crypto.commitments import hash_set
from broker_common.errors import InternalError
from census_node.linked import NOBODY, Linked
from census_node.samples import SampleFolder

People: TypeAlias = npt.NDArray[np.uint8]
# What a file holds of each person: pseudonym, person, household.
BYTES_EACH = 16 + 4 + 4


def people_of(number: int) -> Linked:
    """So many pseudonyms, ascending, every third of nobody in the census."""
    content = b"".join(place.to_bytes(16, "big") for place in range(1, number + 1))
    people: People = np.frombuffer(content, np.uint8).reshape(-1, 16)
    persons = np.arange(7, 7 + number, dtype=np.uint32)
    households = np.arange(3, 3 + number, dtype=np.uint32) // 2
    persons[2::3] = households[2::3] = NOBODY
    return Linked(people, persons, households)


def some(people: Linked, chosen: slice) -> Linked:
    """Some of them."""
    return Linked(people.pseudonyms[chosen], people.persons[chosen], people.households[chosen])


def are_the_same(one: Linked, other: Linked) -> bool:
    """Whether these are the same people with the same units."""
    return (
        np.array_equal(one.pseudonyms, other.pseudonyms)
        and np.array_equal(one.persons, other.persons)
        and np.array_equal(one.households, other.households)
    )


def hash_of(people: Linked) -> bytes:
    """What the charge says of the set."""
    return hash_set(people.pseudonyms.tobytes())


SAMPLE = people_of(1000)


@pytest.fixture
def folder(tmp_path: Path) -> SampleFolder:
    """A folder of samples, not yet made."""
    return SampleFolder(tmp_path / "samples")


def refused(folder: SampleFolder, name: str, set_hash: bytes) -> bool:
    """Whether the sample is refused as not the one that was charged."""
    with pytest.raises(InternalError) as caught:
        folder.read(name, set_hash)
    return caught.value.code == "SAMPLE_LOST" and not caught.value.stops_node


@given(number=st.integers(0, 300), seed=st.text(max_size=5))
def test_a_sample_survives_its_file(number: int, seed: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """It is read back, by another process too; an empty sample is one."""
    path = tmp_path_factory.mktemp("census") / "samples"
    people = people_of(number)
    name = SampleFolder(path).write(people, SeededRandomness(seed))
    kept = SampleFolder(path).read(name, hash_of(people))
    assert are_the_same(kept, people)
    assert kept.pseudonyms.shape == (number, 16)
    assert [str(part.dtype) for part in (kept.pseudonyms, kept.persons, kept.households)] == [
        "uint8",
        "uint32",
        "uint32",
    ]
    assert (kept.set_hash, kept.units_hash) == (people.set_hash, people.units_hash)
    assert are_the_same(SampleFolder(path).read_unverified(name), people)


def test_a_strided_sample_is_written_like_a_packed_one(folder: SampleFolder) -> None:
    """Rows that are not contiguous in memory are the same people."""
    third = some(SAMPLE, slice(None, None, 3))
    name = folder.write(third, SeededRandomness())
    assert are_the_same(folder.read(name, hash_of(third)), third)


def test_every_sample_has_a_name_of_its_own(folder: SampleFolder) -> None:
    """Not even two of the same people share a file: one may be wiped while the other waits."""
    randomness = SeededRandomness()
    names = [folder.write(SAMPLE, randomness) for _ in range(20)]
    assert len(set(names)) == 20
    assert {path.name for path in folder.path.iterdir()} == set(names)


def test_a_sample_is_never_written_over_another(folder: SampleFolder) -> None:
    """Randomness that repeats is refused, and the sample that is there stays."""
    name = folder.write(SAMPLE, SeededRandomness("stuck"))
    with pytest.raises(InternalError) as caught:
        folder.write(people_of(3), SeededRandomness("stuck"))
    assert caught.value.code == "STORE_FAILED"
    assert are_the_same(folder.read(name, hash_of(SAMPLE)), SAMPLE)


def test_a_sample_is_its_owners_alone(folder: SampleFolder) -> None:
    """Whatever the umask: nobody else on the machine reads who is in it."""
    before = os.umask(0)
    try:
        name = folder.write(SAMPLE, SeededRandomness())
    finally:
        os.umask(before)
    assert (folder.path / name).stat().st_mode & 0o777 == 0o600
    assert folder.path.stat().st_mode & 0o777 == 0o700


def test_a_sample_is_flushed_before_its_name_is_told(folder: SampleFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The charge that names it must find it after a crash: data first, then the folder."""
    steps: list[str] = []
    fsync: Callable[[int], None] = os.fsync

    def seen(descriptor: int) -> None:
        target = Path(f"/proc/self/fd/{descriptor}").resolve()
        steps.append("folder" if target.is_dir() else f"{target.stat().st_size} bytes")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", seen)
    folder.write(SAMPLE, SeededRandomness())
    flushed = [f"{BYTES_EACH * len(SAMPLE.pseudonyms)} bytes", "folder"]
    # The first sample also makes the folder, which must outlive a power cut like what is in it.
    assert steps == ["folder", *flushed]
    steps.clear()
    folder.write(SAMPLE, os.urandom)
    assert steps == flushed


def altered(content: bytes, at: int) -> bytes:
    """One bit of it."""
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "one person less": lambda content: content[:-BYTES_EACH],
    "one person more": lambda content: content + bytes(BYTES_EACH),
    "one pseudonym less": lambda content: content[16:],
    "cut inside a person": lambda content: content[:-1],
    "a byte more": lambda content: content + b"\0",
    "first person altered": lambda content: b"\1" + content[1:],
    "last person altered": lambda content: altered(content, 16 * 1000 - 1),
    "two people swapped": lambda content: content[16:32] + content[:16] + content[32:],
    "zeros": lambda content: bytes(len(content)),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=list(DAMAGES))
def test_a_damaged_sample_is_refused(folder: SampleFolder, damage: Callable[[bytes], bytes]) -> None:
    """No answer is made from anything but the set that was charged; the node stops."""
    name = folder.write(SAMPLE, SeededRandomness())
    file = folder.path / name
    content = file.read_bytes()
    file.write_bytes(damage(content))
    assert file.read_bytes() != content
    assert refused(folder, name, hash_of(SAMPLE))


@pytest.mark.parametrize("at", [16 * 1000, 20 * 1000 - 1, 20 * 1000, 24 * 1000 - 1])
def test_altered_units_show_in_their_hash(folder: SampleFolder, at: int) -> None:
    """The set is the one that was charged; that its units are is for whoever knows the charge's commitment to them."""
    name = folder.write(SAMPLE, SeededRandomness())
    file = folder.path / name
    file.write_bytes(altered(file.read_bytes(), at))
    assert folder.read(name, hash_of(SAMPLE)).units_hash != SAMPLE.units_hash


def test_a_missing_sample_is_refused(folder: SampleFolder) -> None:
    """Lost, wiped, or in a folder that was never made."""
    assert refused(folder, "00.sample", hash_of(SAMPLE))
    name = folder.write(SAMPLE, SeededRandomness())
    folder.wipe(name)
    assert refused(folder, name, hash_of(SAMPLE))


def test_the_sample_of_another_charge_is_refused(folder: SampleFolder) -> None:
    """The set hash of the charge decides, not the name of the file."""
    randomness = SeededRandomness()
    shorter = some(SAMPLE, slice(-1))
    one, other = folder.write(SAMPLE, randomness), folder.write(shorter, randomness)
    assert refused(folder, one, hash_of(shorter))
    (folder.path / one).write_bytes((folder.path / other).read_bytes())
    assert refused(folder, one, hash_of(SAMPLE))


# Around the size of the blocks that are overwritten, a mebibyte each.
@pytest.mark.parametrize("number", [1, 1000, 2**16 - 1, 2**16, 2**16 + 1, 3 * 2**16 + 5])
def test_a_wiped_sample_is_overwritten_before_it_goes(folder: SampleFolder, tmp_path: Path, number: int) -> None:
    """Seen through a second name of the same file: nothing but zeros is left where people were."""
    people = people_of(number)
    name = folder.write(people, SeededRandomness())
    witness = tmp_path / "witness"
    witness.hardlink_to(folder.path / name)
    assert any(witness.read_bytes())
    folder.wipe(name)
    assert not (folder.path / name).exists()
    assert witness.read_bytes() == bytes(BYTES_EACH * number)


def test_zeros_are_flushed_before_the_name_goes(folder: SampleFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the file system may drop the overwriting of a file that is gone anyhow."""
    name = folder.write(SAMPLE, SeededRandomness())
    steps: list[str] = []
    fsync: Callable[[int], None] = os.fsync
    unlink = Path.unlink

    def seen_fsync(descriptor: int) -> None:
        content = Path(f"/proc/self/fd/{descriptor}").resolve().read_bytes()
        steps.append("people" if any(content) else "zeros")
        fsync(descriptor)

    def seen_unlink(self: Path, *arguments: Any, **options: Any) -> None:
        steps.append("unlink")
        unlink(self, *arguments, **options)

    monkeypatch.setattr(os, "fsync", seen_fsync)
    monkeypatch.setattr(Path, "unlink", seen_unlink)
    folder.wipe(name)
    assert steps == ["zeros", "unlink"]


def test_wiping_what_is_gone_does_nothing(folder: SampleFolder) -> None:
    """A crash between wiping and the next step is repeated without harm."""
    folder.wipe("00.sample")
    name = folder.write(SAMPLE, SeededRandomness())
    folder.wipe(name)
    folder.wipe(name)
    assert not list(folder.path.iterdir())


@pytest.mark.parametrize("action", ["write", "wipe"])
def test_a_failing_disk_is_a_failure_of_the_store(
    folder: SampleFolder, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    """No name is given of what may not be there, and what could not be overwritten stays until it can be."""
    name = folder.write(SAMPLE, SeededRandomness())

    def fail(_descriptor: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(InternalError) as caught:
        folder.write(SAMPLE, SeededRandomness("other")) if action == "write" else folder.wipe(name)
    assert (caught.value.code, caught.value.stops_node) == ("STORE_FAILED", True)
    monkeypatch.undo()
    assert (folder.path / name).exists()
    folder.sweep([])
    assert not list(folder.path.iterdir())


def test_sweeping_wipes_all_but_what_charges_name(folder: SampleFolder, tmp_path: Path) -> None:
    """A sample whose charge never happened goes, overwritten; the others stay as they were, and so does what is none."""
    randomness = SeededRandomness()
    names = [folder.write(SAMPLE, randomness) for _ in range(4)]
    (folder.path / "README").write_text("not a sample")
    witnesses = [tmp_path / f"witness{number}" for number in range(4)]
    for witness, name in zip(witnesses, names, strict=True):
        witness.hardlink_to(folder.path / name)
    folder.sweep([names[1], names[3], "00.sample"])
    assert {path.name for path in folder.path.iterdir()} == {"README", names[1], names[3]}
    assert [any(witness.read_bytes()) for witness in witnesses] == [False, True, False, True]
    assert are_the_same(folder.read(names[3], hash_of(SAMPLE)), SAMPLE)
    folder.sweep([])
    assert [path.name for path in folder.path.iterdir()] == ["README"]
    assert not any(any(witness.read_bytes()) for witness in witnesses)


def test_there_is_nothing_to_sweep_in_a_folder_that_was_never_made(folder: SampleFolder) -> None:
    """The first start of a node."""
    folder.sweep([])
    assert not folder.path.exists()
