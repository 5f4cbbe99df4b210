"""A sample is forgotten with its key: a serving node has it nowhere once nobody needs it any more, not even in its journal's log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.world import World, make_policy

from census_node.ledger.steps import LedgerSteps
from census_node.release.outbox import Outbox

RETENTION_MS = 60_000


@pytest.fixture(params=["strict", "per_person"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """Either accounting: the one forgets a sample with its answer, the other keeps it for a while."""
    world = World(tmp_path, make_policy(accounting=request.param, sample_retention_ms=RETENTION_MS))
    yield world
    world.close()


def keys_kept(world: World) -> set[bytes]:
    """Keys of every sample that a row names, as the row has it."""
    journal = world.census.journal
    with journal.reading():
        references = LedgerSteps(journal.db).files() | {sample for _, sample, _ in Outbox(journal.db).all_pending()}
    return {key.encode() for _, _, key in (reference.partition(":") for reference in references) if key}


def holding(world: World, key: bytes) -> set[str]:
    """Files of the census agency's in which a key stands, as text or as it is."""
    forms = (key, bytes.fromhex(key.decode()))
    files = [file for file in world.census_folder.rglob("*") if file.is_file()]
    return {file.name for file in files if any(form in file.read_bytes() for form in forms)}


def test_no_byte_of_the_key_is_left_while_the_node_serves(world: World) -> None:
    """Charged, it stands in the journal; answered and kept long enough, it stands in no file, however SQLite keeps its pages."""
    # Work left by the start is done.
    world.census.forget_expired()
    order = world.order()
    attempt = world.admit(world.messages(world.sample(order)))
    kept = world.census.keeping.keep(attempt)
    charge = world.census.charging.charge(attempt, kept, at_ms=world.clock())
    (key,) = keys_kept(world)
    assert {name.partition("-")[0] for name in holding(world, key)} == {"journal.db"}
    world.census.answers.make(charge, world.census.journal.prove(charge.index))
    assert keys_kept(world) == ({key} if world.policy.accounting == "per_person" else set())
    world.clock.advance(RETENTION_MS)
    world.census.forget_expired()
    assert holding(world, key) == set()
    assert list((world.census_folder / "samples").iterdir()) == []
    world.verify_honest_query()
