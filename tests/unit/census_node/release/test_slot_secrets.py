"""Secrets of noise slots: durable before anybody hears of them, as committed or not at all, and overwritten when done."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from fakes.randomness import SeededRandomness

from broker_common.crypto.commitments import SlotSecret, commit_slot
from broker_common.errors import InternalError
from census_node.release.slot_secrets import SLOT_SECRET_BYTES, SlotSecrets

COUNT = 4
BYTES = COUNT * SLOT_SECRET_BYTES


def drawn(first: int = 0) -> list[SlotSecret]:
    """The secrets of a batch, the same for the same first slot."""
    randomness = SeededRandomness(f"slots {first}")
    return [SlotSecret(randomness(SLOT_SECRET_BYTES)) for _ in range(COUNT)]


def whole(first: int = 0) -> bytes:
    """A batch as its file holds it."""
    return b"".join(each.expose() for each in drawn(first))


@pytest.fixture
def secrets(tmp_path: Path) -> SlotSecrets:
    """A folder with two batches in it: slots 0 to 3, and 4 to 7."""
    made = SlotSecrets(tmp_path / "slots")
    for first in (0, COUNT):
        made.write(first, drawn(first))
    return made


def secret(slot: int) -> SlotSecret:
    """Secret drawn for a slot."""
    return drawn(slot // COUNT * COUNT)[slot % COUNT]


def read(secrets: SlotSecrets, slot: int) -> SlotSecret:
    """The secret as the log has committed to it."""
    return secrets.read(slot, commit_slot(secret(slot), slot))


def refused(secrets: SlotSecrets, slot: int, commitment: bytes | None = None) -> bool:
    """Whether the secret is refused as lost; the node goes on with other answers."""
    with pytest.raises(InternalError) as caught:
        secrets.read(slot, commit_slot(secret(slot), slot) if commitment is None else commitment)
    return caught.value.code == "SAMPLE_LOST" and not caught.value.stops_node


def files(secrets: SlotSecrets) -> dict[str, bytes]:
    """Files in the folder."""
    return {path.name: path.read_bytes() for path in secrets.path.iterdir()}


def test_every_secret_is_read_as_it_was_committed_to(secrets: SlotSecrets) -> None:
    """Another process reads it too, whichever batch it is of."""
    again = SlotSecrets(secrets.path)
    assert [read(again, slot) for slot in range(2 * COUNT)] == drawn(0) + drawn(COUNT)


def test_slots_of_sixteen_digits_are_found_in_order(tmp_path: Path) -> None:
    """Files are told apart by their number, not by how their names sort: 2^53 has as many digits as a name, 10 has not."""
    secrets = SlotSecrets(tmp_path / "slots")
    for first in (2**53 - COUNT, 8, 100):
        secrets.write(first, drawn(first))
    for first in (2**53 - COUNT, 8, 100):
        assert secrets.read(first, commit_slot(drawn(first)[0], first)) == drawn(first)[0]


def test_secrets_are_flushed_before_they_can_be_committed_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them and then their name: a commitment whose secret a power cut took away could never be answered."""
    steps: list[str] = []
    fsync: Callable[[int], None] = os.fsync

    def seen(descriptor: int) -> None:
        target = Path(f"/proc/self/fd/{descriptor}").resolve()
        steps.append("folder" if target.is_dir() else f"{target.stat().st_size} bytes")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", seen)
    secrets = SlotSecrets(tmp_path / "slots")
    secrets.write(0, drawn())
    # The first batch also makes the folder, which must outlive a power cut like what is in it.
    assert steps == ["folder", f"{BYTES} bytes", "folder"]
    steps.clear()
    secrets.write(COUNT, drawn(COUNT))
    assert steps == [f"{BYTES} bytes", "folder"]


def test_secrets_are_their_owners_alone(tmp_path: Path) -> None:
    """Whatever the umask: a reader of one before its answer is out can take the noise off."""
    before = os.umask(0)
    try:
        secrets = SlotSecrets(tmp_path / "slots")
        secrets.write(0, drawn())
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in secrets.path.iterdir()] == [0o600]
    assert secrets.path.stat().st_mode & 0o777 == 0o700


def test_an_attempt_that_nobody_committed_to_gives_way(secrets: SlotSecrets) -> None:
    """Secrets are drawn anew for the next attempt, and nothing is left of those of the first, half-written or longer."""
    for left_over in (drawn(COUNT), drawn(COUNT)[:1], [SlotSecret(bytes(32))] * 99):
        secrets.write(8, left_over)
        secrets.write(8, drawn(8))
        assert files(secrets)["0000000000000008.slots"] == whole(8)
        assert read(secrets, 8 + COUNT - 1) == drawn(8)[-1]


@pytest.mark.parametrize("slot", range(2 * COUNT))
def test_a_wiped_secret_is_gone_and_no_other_is(secrets: SlotSecrets, slot: int) -> None:
    """Overwritten in its place, for good: the answer is made, and nothing else needs it."""
    before = b"".join(content for _, content in sorted(files(secrets).items()))
    secrets.wipe(slot)
    secrets.wipe(slot)
    after = b"".join(content for _, content in sorted(files(secrets).items()))
    at = slot * SLOT_SECRET_BYTES
    assert after == before[:at] + bytes(SLOT_SECRET_BYTES) + before[at + SLOT_SECRET_BYTES :]
    assert refused(secrets, slot)
    assert [read(secrets, other) for other in range(2 * COUNT) if other != slot]


def test_wiping_is_flushed(secrets: SlotSecrets, monkeypatch: pytest.MonkeyPatch) -> None:
    """When it is said to be wiped, the disk has heard of it."""
    flushed: list[bytes] = []
    fsync: Callable[[int], None] = os.fsync

    def seen(descriptor: int) -> None:
        flushed.append(Path(f"/proc/self/fd/{descriptor}").resolve().read_bytes())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", seen)
    secrets.wipe(5)
    assert flushed == [files(secrets)["0000000000000004.slots"]]
    assert secret(5).expose() not in flushed[0]


@pytest.mark.parametrize("slot", [2 * COUNT, 99, 2**53 - 1])
def test_wiping_what_is_gone_does_nothing(secrets: SlotSecrets, tmp_path: Path, slot: int) -> None:
    """Neither to the folder nor to other files in it, also where none was ever written."""
    before = files(secrets)
    secrets.wipe(slot)
    assert files(secrets) == before
    SlotSecrets(tmp_path / "none").wipe(slot)
    assert not (tmp_path / "none").exists()


def test_a_batch_that_is_gone_leaves_the_others_alone(secrets: SlotSecrets) -> None:
    """Its slots are lost; they are not looked for, and not overwritten, in the batch before."""
    (secrets.path / "0000000000000004.slots").unlink()
    before = files(secrets)
    for slot in range(COUNT, 2 * COUNT):
        assert refused(secrets, slot)
        secrets.wipe(slot)
    assert files(secrets) == before
    assert [read(secrets, slot) for slot in range(COUNT)] == drawn()


def test_only_the_secret_that_was_committed_to_is_read(secrets: SlotSecrets) -> None:
    """Not that of another slot, not this one under another slot's number, and nothing that lies there by chance."""
    assert refused(secrets, 1, commit_slot(secret(1), 2))
    assert refused(secrets, 1, commit_slot(secret(2), 1))
    assert refused(secrets, 1, commit_slot(secret(2), 2))
    assert refused(secrets, 1, b"")
    assert refused(secrets, 1, bytes(32))
    assert read(secrets, 1) == secret(1)


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut before it": lambda content: content[: 2 * SLOT_SECRET_BYTES],
    "half of it": lambda content: content[: 2 * SLOT_SECRET_BYTES + 16],
    "all but a byte": lambda content: content[: 3 * SLOT_SECRET_BYTES - 1],
    "one bit": lambda content: content[:64] + bytes([content[64] ^ 1]) + content[65:],
    "moved by one": lambda content: b"\0" + content,
    "zeros": lambda content: bytes(len(content)),
    "those of another batch": lambda _: whole(COUNT),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=list(DAMAGES))
def test_a_damaged_secret_is_refused(secrets: SlotSecrets, damage: Callable[[bytes], bytes]) -> None:
    """No noise comes from anything but what the log says; a half-written file is one that lacks the secret."""
    path = secrets.path / "0000000000000000.slots"
    path.write_bytes(damage(path.read_bytes()))
    assert refused(secrets, 2)
    assert read(secrets, COUNT) == secret(COUNT)


def test_a_missing_secret_is_refused(secrets: SlotSecrets, tmp_path: Path) -> None:
    """Beyond the last batch, in a folder without files, and in one that was never made, as after a restored backup."""
    assert refused(secrets, 2 * COUNT)
    (tmp_path / "empty").mkdir()
    assert refused(SlotSecrets(tmp_path / "empty"), 0)
    assert refused(SlotSecrets(tmp_path / "none"), 0)


def test_a_sweep_leaves_the_secrets_of_charges_that_wait_for_their_answer(secrets: SlotSecrets, tmp_path: Path) -> None:
    """All others are overwritten, and files that hold no other are removed: no slot of before serves anybody any more."""
    secrets.write(8, drawn(8))
    witnesses = {first: tmp_path / f"witness{first}" for first in (0, 4, 8)}
    for first, witness in witnesses.items():
        witness.hardlink_to(secrets.path / f"{first:016d}.slots")
    (secrets.path / "README").write_text("no secrets")
    secrets.sweep({1, 9, 10, 99})
    assert sorted(files(secrets)) == ["0000000000000000.slots", "0000000000000008.slots", "README"]
    assert [witnesses[slot // COUNT * COUNT].read_bytes()[slot % COUNT * 32 :][:32] for slot in range(12)] == [
        secret(slot).expose() if slot in {1, 9, 10} else bytes(32) for slot in range(12)
    ]
    assert [read(secrets, slot) for slot in (1, 9, 10)] == [secret(slot) for slot in (1, 9, 10)]
    secrets.sweep(())
    assert sorted(files(secrets)) == ["README"]
    assert not any(any(witness.read_bytes()) for witness in witnesses.values())


def test_a_sweep_writes_to_no_file_in_which_nothing_changes(
    secrets: SlotSecrets, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch is committed to beside charges and answers: what is wiped already, or kept, costs no flush."""
    written: list[str] = []
    for first in (8, 12):
        secrets.write(first, drawn(first))
    monkeypatch.setattr(os, "fsync", lambda file: written.append(Path(f"/proc/self/fd/{file}").readlink().name))
    first_file, *others = sorted(files(secrets))
    secrets.sweep(range(1, 16))
    assert written == [first_file]
    for _ in range(3):
        secrets.sweep(range(1, 16))
    assert written == [first_file]
    # All that is left of it was wiped one by one, as after answers: it is removed without being written again.
    for slot in (1, 2, 3):
        secrets.wipe(slot)
    assert written == [first_file] * 4
    secrets.sweep(range(4, 16))
    assert written == [first_file] * 4
    assert sorted(files(secrets)) == others


def test_what_is_left_of_a_secret_is_overwritten(secrets: SlotSecrets) -> None:
    """A damaged file, whose last secret was cut short: half of a secret is as much of one as another half."""
    path = secrets.path / "0000000000000000.slots"
    path.write_bytes(whole()[:-16])
    secrets.sweep({0})
    assert path.read_bytes()[:SLOT_SECRET_BYTES] == secret(0).expose()
    assert not any(path.read_bytes()[SLOT_SECRET_BYTES:])
    path.write_bytes(whole()[:-16])
    secrets.wipe(3)
    assert path.read_bytes() == whole()[:-SLOT_SECRET_BYTES] + bytes(SLOT_SECRET_BYTES)


def test_a_sweep_removes_half_written_files(secrets: SlotSecrets) -> None:
    """An attempt that a crash cut short, whatever is left of it, down to the empty file."""
    for size in (0, 1, 31, 33):
        (secrets.path / f"{100 + size:016d}.slots").write_bytes(b"x" * size)
    secrets.sweep({0, 4})
    assert sorted(files(secrets)) == ["0000000000000000.slots", "0000000000000004.slots"]


def test_there_is_nothing_to_sweep_in_a_folder_that_was_never_made(tmp_path: Path) -> None:
    """The first start of a node."""
    SlotSecrets(tmp_path / "slots").sweep({1})
    assert not (tmp_path / "slots").exists()


@pytest.mark.parametrize("action", ["write", "wipe", "sweep"])
def test_a_failing_disk_is_a_failure_of_the_store(
    secrets: SlotSecrets, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    """The node stops: nothing is committed to that may not be there, and nothing counts as wiped that may be."""
    acts: dict[str, Callable[[], None]] = {
        "write": lambda: secrets.write(8, drawn(8)),
        "wipe": lambda: secrets.wipe(1),
        "sweep": lambda: secrets.sweep({1}),
    }

    def fail(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(InternalError) as caught:
        acts[action]()
    assert (caught.value.code, caught.value.stops_node) == ("STORE_FAILED", True)
    monkeypatch.undo()
    acts[action]()
    secrets.sweep(())
    assert not files(secrets)
