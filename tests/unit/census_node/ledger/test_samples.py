"""Samples between charge and answer: of one size, read as written or not at all, shown to nobody, and gone with their key."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from fakes.randomness import SeededRandomness
from hypothesis import given
from hypothesis import strategies as st

from broker_common.crypto.commitments import commit_active
from broker_common.errors import InternalError
from census_node.ledger.samples import KeptSample, SampleFolder, bytes_of_samples

FRAME, TAG = 262_144, 16
TICKET = bytes(range(32))


def sample_of(declared: int, persons: int, seed: int = 0, share: float = 0.5) -> KeptSample:
    """A sample in which everybody is by chance."""
    generator = np.random.default_rng(seed)
    bits, active = (np.packbits(generator.random(size) < share) for size in (declared, persons))
    return KeptSample(generator.bytes(32), generator.bytes(32), bits, active, persons)


def contents(sample: KeptSample) -> tuple[object, ...]:
    """Everything of it."""
    return sample.salt, sample.active_salt, sample.bits.tobytes(), sample.active.tobytes(), sample.persons


SAMPLE = sample_of(1024, 3001)


@pytest.fixture
def folder(tmp_path: Path) -> SampleFolder:
    """A folder of samples, not yet made."""
    return SampleFolder(tmp_path / "samples")


def file_of(folder: SampleFolder, reference: str) -> Path:
    """Its file."""
    return folder.path / f"{reference[:32]}.sample"


def is_lost(folder: SampleFolder, reference: str) -> bool:
    """Whether reading ends with a sample that is lost, which stops nothing."""
    with pytest.raises(InternalError) as caught:
        folder.read(reference)
    return caught.value.code == "SAMPLE_LOST" and not caught.value.stops_node


@given(
    declared=st.integers(0, 300).map(lambda octets: 8 * octets),
    persons=st.integers(0, 3000),
    seed=st.integers(0, 99),
    share=st.sampled_from([0.0, 0.01, 0.5, 1.0]),
)
def test_a_sample_survives_its_file(
    declared: int, persons: int, seed: int, share: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """It is read back, by another process too; an empty sample is one."""
    path = tmp_path_factory.mktemp("census") / "samples"
    sample = sample_of(declared, persons, seed, share)
    reference = SampleFolder(path).write(sample, SeededRandomness(str(seed)))
    assert contents(SampleFolder(path).read(reference)) == contents(sample)


def plaintext_of(folder: SampleFolder, reference: str) -> bytes:
    """Plaintext of a file, by the description alone."""
    content, text = file_of(folder, reference).read_bytes(), b""
    cipher, size = AESGCM(bytes.fromhex(reference[33:])), FRAME + TAG
    for index in range(len(content) // size):
        is_last = (index + 1) * size == len(content)
        nonce = bytes(7) + index.to_bytes(4, "big") + bytes([is_last])
        text += cipher.decrypt(nonce, content[index * size : (index + 1) * size], None)
    return text


@pytest.mark.parametrize("declared", [524_288, 4 * 524_288])
def test_file_is_what_its_description_says(folder: SampleFolder, declared: int) -> None:
    """Both salts, both counts, both sets, and zeros to the end of the last frame."""
    sample = sample_of(declared, 700_001)
    reference = folder.write(sample, SeededRandomness())
    text = sample.salt + sample.active_salt + declared.to_bytes(8, "big") + (700_001).to_bytes(8, "big")
    text += sample.bits.tobytes() + sample.active.tobytes()
    assert len(reference) == 32 + 1 + 64
    assert plaintext_of(folder, reference) == text + bytes(-len(text) % FRAME)


def test_every_file_has_the_size_of_the_declared_places_and_the_census(folder: SampleFolder) -> None:
    """It does not depend on the sample; and the operator is told to make room for this size."""
    for declared, persons in ((1024, 3001), (524_288, 2_000_000), (16 * 524_288, 9_000_001)):
        samples = [sample_of(declared, persons, share=share) for share in (0.0, 0.5, 1.0)]
        stats = [file_of(folder, folder.write(sample, os.urandom)).stat() for sample in samples]
        assert {stat.st_size for stat in stats} == {bytes_of_samples(declared, persons, 1)}
        # Nor has one a hole in it.
        assert len({stat.st_blocks for stat in stats}) == 1
    assert bytes_of_samples(1024, 3001, 7) == 7 * (FRAME + TAG)


def test_every_sample_has_a_name_and_a_key_of_its_own(folder: SampleFolder) -> None:
    """Not even two of the same people share a file: one may be wiped while the other waits."""
    randomness = SeededRandomness()
    references = [folder.write(SAMPLE, randomness) for _ in range(20)]
    assert len({reference[:32] for reference in references}) == len({reference[33:] for reference in references}) == 20
    assert {path.name for path in folder.path.iterdir()} == {f"{reference[:32]}.sample" for reference in references}


def test_a_sample_is_never_written_over_another(folder: SampleFolder) -> None:
    """Randomness that repeats is refused, and the sample that is there stays."""
    reference = folder.write(SAMPLE, SeededRandomness("stuck"))
    with pytest.raises(InternalError) as caught:
        folder.write(sample_of(8, 8), SeededRandomness("stuck"))
    assert caught.value.code == "STORE_FAILED"
    assert contents(folder.read(reference)) == contents(SAMPLE)


def test_a_sample_is_its_owners_alone(folder: SampleFolder) -> None:
    """Whatever the umask: nobody else on the machine reads who is in it."""
    before = os.umask(0)
    try:
        reference = folder.write(SAMPLE, SeededRandomness())
    finally:
        os.umask(before)
    assert file_of(folder, reference).stat().st_mode & 0o777 == 0o600
    assert folder.path.stat().st_mode & 0o777 == 0o700


def test_nothing_of_a_sample_stands_in_its_file(folder: SampleFolder) -> None:
    """A disk that is found has nobody's bits and no salt on it: the key is in the rows alone."""
    sample = sample_of(4096, 4096)
    content = file_of(folder, folder.write(sample, os.urandom)).read_bytes()
    for part in (sample.salt, sample.active_salt, sample.bits.tobytes()[:16], sample.active.tobytes()[:16]):
        assert part not in content


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
    flushed = [f"{FRAME + TAG} bytes", "folder"]
    # The first sample also makes the folder, which must outlive a power cut like what is in it.
    assert steps == ["folder", *flushed]
    steps.clear()
    folder.write(SAMPLE, os.urandom)
    assert steps == flushed


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut off": lambda content: content[:-1],
    "a frame less": lambda content: content[: -(FRAME + TAG)],
    "a frame more": lambda content: content + content[-(FRAME + TAG) :],
    "a byte more": lambda content: content + b"\0",
    "first bit altered": lambda content: bytes([content[0] ^ 0x80]) + content[1:],
    "last bit altered": lambda content: content[:-1] + bytes([content[-1] ^ 1]),
    "frames swapped": lambda content: content[FRAME + TAG : 2 * (FRAME + TAG)] + content[: FRAME + TAG],
    "zeros": lambda content: bytes(len(content)),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=list(DAMAGES))
def test_a_damaged_sample_is_lost(folder: SampleFolder, damage: Callable[[bytes], bytes]) -> None:
    """No answer is made from anything but what was charged."""
    reference = folder.write(sample_of(2 * 524_288, 2_000_000), SeededRandomness())
    path = file_of(folder, reference)
    content = path.read_bytes()
    path.write_bytes(damage(content))
    assert path.read_bytes() != content
    assert is_lost(folder, reference)


def test_a_missing_sample_is_lost(folder: SampleFolder) -> None:
    """Gone, wiped, in a folder that was never made, or erased from its row."""
    assert is_lost(folder, f"{'0' * 32}:{'0' * 64}")
    assert is_lost(folder, "")
    reference = folder.write(SAMPLE, SeededRandomness())
    for wrong in (reference[:32], reference[:-2], reference[:-1] + "x", reference[:33] + "0" * 64):
        assert is_lost(folder, wrong)
    folder.wipe(reference)
    assert is_lost(folder, reference)


def test_the_sample_of_another_charge_is_lost(folder: SampleFolder) -> None:
    """Its key opens it alone, whatever the name of the file."""
    randomness = SeededRandomness()
    one, other = folder.write(SAMPLE, randomness), folder.write(SAMPLE, randomness)
    file_of(folder, one).write_bytes(file_of(folder, other).read_bytes())
    assert is_lost(folder, one)


def test_who_is_counted_is_held_against_the_charge() -> None:
    """Another ticket, salt or person: the node stops rather than count others than those who were charged."""
    commitment = commit_active(SAMPLE.active_salt, TICKET, SAMPLE.active.tobytes())
    SAMPLE.verify_active(TICKET, commitment)
    flipped: npt.NDArray[np.uint8] = SAMPLE.active.copy()
    flipped[100] ^= 1
    for sample, ticket in (
        (SAMPLE, bytes(32)),
        (KeptSample(SAMPLE.salt, SAMPLE.active_salt, SAMPLE.bits, flipped, SAMPLE.persons), TICKET),
        (KeptSample(SAMPLE.salt, SAMPLE.salt, SAMPLE.bits, SAMPLE.active, SAMPLE.persons), TICKET),
    ):
        with pytest.raises(InternalError) as caught:
            sample.verify_active(ticket, commitment)
        assert (caught.value.code, caught.value.stops_node) == ("INTEGRITY", True)


def test_wiping_what_is_gone_does_nothing(folder: SampleFolder) -> None:
    """A crash between wiping and the next step is repeated without harm."""
    folder.wipe("00:00")
    reference = folder.write(SAMPLE, SeededRandomness())
    folder.wipe(reference)
    folder.wipe(reference)
    assert not list(folder.path.iterdir())


@pytest.mark.parametrize("action", ["write", "wipe"])
def test_a_failing_disk_is_a_failure_of_the_store(
    folder: SampleFolder, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    """No name is given of what may not be there, and what could not be removed stays until it can be."""
    reference = folder.write(SAMPLE, SeededRandomness())

    def fail(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        patch.setattr(Path, "unlink", fail)
        with pytest.raises(InternalError) as caught:
            folder.write(SAMPLE, SeededRandomness("other")) if action == "write" else folder.wipe(reference)
    assert (caught.value.code, caught.value.stops_node) == ("STORE_FAILED", True)
    assert file_of(folder, reference).exists()
    folder.sweep([])
    assert not list(folder.path.iterdir())


def test_sweeping_removes_all_but_what_charges_name(folder: SampleFolder) -> None:
    """A sample whose charge never happened goes; the others stay as they were, and so does what is none."""
    randomness = SeededRandomness()
    references = [folder.write(SAMPLE, randomness) for _ in range(4)]
    (folder.path / "README").write_text("not a sample")
    folder.sweep([references[1], references[3], "00:00", "", "1.carry"])
    kept = {f"{reference[:32]}.sample" for reference in (references[1], references[3])}
    assert {path.name for path in folder.path.iterdir()} == {"README", *kept}
    assert contents(folder.read(references[3])) == contents(SAMPLE)
    assert (folder.kept().count, folder.kept().size_bytes) == (2, 2 * (FRAME + TAG))
    folder.sweep([])
    assert [path.name for path in folder.path.iterdir()] == ["README"]


def test_there_is_nothing_to_sweep_in_a_folder_that_was_never_made(folder: SampleFolder) -> None:
    """The first start of a node."""
    folder.sweep([])
    assert (folder.kept().count, folder.path.exists()) == (0, False)
