"""The witness store: one checkpoint, durable before it is shown, and a store that is not there is not an empty one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from broker_common.errors import InternalError, InvalidRequestError
from broker_common.storage.witnessing import WitnessStore
from broker_common.tlog.note import MAX_NOTE_BYTES


@pytest.fixture
def store(tmp_path: Path) -> WitnessStore:
    """A store that nothing stands in."""
    return WitnessStore(tmp_path)


def test_the_newest_checkpoint_stands_in_the_store(store: WitnessStore) -> None:
    """In the place of the one before, and alone."""
    assert store.read() is None
    for note in ("one \u2014\n", "two"):
        store.put(note)
        assert WitnessStore(store.folder).read() == note
    assert [path.name for path in store.folder.iterdir()] == ["checkpoint"]


def test_a_checkpoint_is_durable_when_it_is_put(store: WitnessStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Content, then name: a reader who is shown it afterwards can rely on it."""
    steps: list[str] = []
    fsync: Callable[[int], None] = os.fsync

    def seen(descriptor: int) -> None:
        target = Path(f"/proc/self/fd/{descriptor}").resolve()
        steps.append(f"folder with {store.read()}" if target.is_dir() else target.read_text())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", seen)
    store.put("one")
    assert steps == ["one", "folder with one"]


def test_a_store_that_cannot_be_written_stops_the_node(store: WitnessStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """It could not say any more whether it was rolled back; what stood there stands."""
    store.put("one")

    def fail(_descriptor: int) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(InternalError) as caught:
            store.put("two")
    assert (caught.value.code, caught.value.stops_node) == ("STORE_FAILED", True)
    assert store.read() == "one"
    assert [path.name for path in store.folder.iterdir()] == ["checkpoint"]
    with pytest.raises(InternalError, match="STORE_FAILED"):
        WitnessStore(store.folder / "missing").put("two")


def test_a_store_that_is_not_there_is_said_to_be_missing(store: WitnessStore, tmp_path: Path) -> None:
    """A disk that is not mounted must not be taken for one that has seen nothing."""
    (tmp_path / "file").write_text("x")
    for folder in (tmp_path / "missing", tmp_path / "file"):
        with pytest.raises(InvalidRequestError) as caught:
            WitnessStore(folder).read()
        assert (caught.value.code, caught.value.details["file"]) == ("FILE_UNUSABLE", str(folder))
    (tmp_path / "checkpoint").mkdir()
    with pytest.raises(InvalidRequestError) as caught:
        store.read()
    assert (caught.value.code, caught.value.details["file"]) == ("FILE_UNUSABLE", str(tmp_path / "checkpoint"))


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"x" * (10 * MAX_NOTE_BYTES)])
def test_whatever_stands_there_is_handed_on_to_be_verified(store: WitnessStore, content: bytes) -> None:
    """An emptied or altered store is not an empty one; a huge one is not read whole."""
    (store.folder / "checkpoint").write_bytes(content)
    read = store.read()
    assert read is not None
    assert len(read) <= MAX_NOTE_BYTES + 1
