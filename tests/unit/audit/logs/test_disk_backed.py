"""An audit's memory on disk says the same as one in memory."""

from __future__ import annotations

import msgspec
import pytest
from fakes import logs

from broker_common.audit.logs import disk_backed
from broker_common.audit.logs.disk_backed import DiskBackedTimes, DiskBackedTree, DiskSpace
from broker_common.tlog.census_state import CensusState, ChargedTicket
from broker_common.tlog.entries import Entry, Event, Slots
from broker_common.tlog.merkle import MerkleTree, leaf_hash, verify_consistency

SIZES = (0, 1, 2, 3, 5, 8, 100, 255, 256, 257, 1000, 3000)


def test_a_tree_on_disk_knows_every_root_that_it_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """Roots, inclusion and consistency proofs at any earlier size are those of the tree in memory."""
    monkeypatch.setattr(disk_backed, "_TAIL_BYTES", 1000)
    memory, disk = MerkleTree(), DiskBackedTree()
    for number in range(SIZES[-1]):
        entry = b"%d" % number
        memory.append(entry)
        disk.append_leaf(leaf_hash(entry))
    assert disk.size == memory.size
    for size in SIZES:
        assert disk.root(size) == memory.root(size)
        verify_consistency(size, memory.root(size), disk.size, disk.root(), disk.consistency_proof(size))
    assert disk.inclusion_proof(77, 1000) == memory.inclusion_proof(77, 1000)
    disk.close()


def test_times_on_disk_are_those_of_the_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is still in memory and whatever is not."""
    monkeypatch.setattr(disk_backed, "_TAIL_BYTES", 100)
    times = DiskBackedTimes()
    for number in range(1000):
        times.append(number * number)
    assert [times[number] for number in range(1000)] == [number * number for number in range(1000)]
    assert len(times) == 1000
    times.close()


@pytest.mark.parametrize("kept", [1, 2, 7, 10_000])
def test_a_mapping_on_disk_is_a_mapping(monkeypatch: pytest.MonkeyPatch, kept: int) -> None:
    """Put, put again, look up, count and go through: as a dictionary, however little stays in memory."""
    monkeypatch.setattr(disk_backed, "_MOST_KEPT", kept)
    memory: dict[str, str] = {}
    with DiskSpace() as space:
        disk = space.mapping(str.encode, bytes.decode)
        other = space.mapping(str.encode, bytes.decode)
        for number in range(500):
            name, value = f"{number * 7 % 97}", f"{number}"
            assert (name in disk) == (name in memory)
            assert disk.get(name) == memory.get(name)
            memory[name] = disk[name] = value
            assert len(disk) == len(memory)
        assert dict(disk.pairs()) == dict(disk) == memory
        assert len(other) == 0
        assert not list(other)
        with pytest.raises(KeyError):
            disk["nobody"]
        with pytest.raises(TypeError, match="forgotten"):
            del disk["0"]


def test_the_fold_is_the_same_with_its_tickets_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """One set of rules, whatever keeps the tickets."""
    monkeypatch.setattr(disk_backed, "_MOST_KEPT", 2)
    with DiskSpace() as space:
        tickets = space.mapping(msgspec.msgpack.encode, msgspec.msgpack.Decoder(ChargedTicket).decode)
        disk = CensusState(
            logs.root(logs.CENSUS), tickets=tickets, ticket_of_query=space.mapping(str.encode, bytes.decode)
        )
        memory = logs.census_state()
        slots = Slots(first=0, void_below=0, commitments=tuple(logs.hash_of(number) for number in range(20)))
        events: list[Event] = [*logs.beginning(), logs.adopted(), logs.loaded(), logs.rostered(), slots]
        events += [logs.charged(number, before=(number - 1) * logs.charged(1).units) for number in range(1, 12)]
        for event in events:
            for state in (disk, memory):
                state.apply(
                    Entry(sequence=state.size, time_ms=1_800_000_000_000, policy=state.policy_hash, event=event)
                )
        assert dict(tickets.pairs()) == memory.tickets
        assert disk.summary() == memory.summary()
        assert all(disk.ticket_of_query(f"{number:032x}") == logs.hash_of(number) for number in range(1, 12))
