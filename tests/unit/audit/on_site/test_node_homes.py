"""On site at a census home that the product's own node wrote: what the text says lies there is what lies there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.world import CENSUS_ORIGIN, World, make_policy
from unit.audit.on_site.site import DAY_MS, Site, looked_at

from broker_common.audit import texts
from broker_common.audit.checks.openings import OpenedOnSite
from broker_common.audit.export.reading import FolderPart
from broker_common.audit.findings import Findings
from broker_common.audit.on_site.visit import OnSite
from broker_common.crypto.linkage import LinkageKey
from broker_common.crypto.sealing import UnsealingKey
from census_node.release.oversight import Oversight


@pytest.fixture(params=["person", "household"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """A node that charges persons, or households."""
    policy = make_policy(accounting="per_person", subject=request.param, sample_retention_ms=DAY_MS)
    made = World(tmp_path, policy, people=200)
    config = f'role = "census"\norganisation = "census-agency"\norigin = "{CENSUS_ORIGIN}"\n'
    (made.census_folder / "config.toml").write_text(config)
    yield made
    made.close()


def ask(world: World, part: slice, scale: int) -> None:
    """A question about these people, answered."""
    order = world.order(scale=scale)
    world.answer(order, world.sample(order, world.people[part]))


def ask_three(world: World) -> None:
    """Three questions; what is left of many budgets does not fit the last one."""
    ask(world, slice(0, 120), 3)
    ask(world, slice(60, 200), 1)
    ask(world, slice(0, 200, 3), 2)


def audited(world: World, opened: OpenedOnSite | None = None) -> tuple[OnSite, Findings]:
    """Findings there, with the node up."""
    site = Site(world.census_folder, tuple(world.entries()), world.clock())
    return looked_at(site) if opened is None else looked_at(site, states=opened.states)


def test_every_charge_of_a_node_is_decided_again(world: World) -> None:
    """And proved, from the first one on."""
    ask_three(world)
    seen, findings = audited(world)
    assert (findings.problems, seen.charges_checked, seen.is_proved) == ([], 3, True)


def test_every_count_of_a_node_is_counted_again(world: World) -> None:
    """As the openings state them that the node seals to the oversight key."""
    key = UnsealingKey.generate(os.urandom)
    folder = world.census_folder / "openings"
    world.oversight = Oversight(folder, key.sealing_key, DAY_MS)
    world.census.journal.close()
    world.open_census().recover()
    ask_three(world)
    seen, findings = audited(world, OpenedOnSite(FolderPart(folder), key))
    assert (findings.problems, seen.counts_checked) == ([], 3)


def test_a_node_that_erased_is_followed_from_its_snapshot(world: World) -> None:
    """Erased charges are named, those behind them are decided again."""
    ask_three(world)
    world.clock.advance(2 * DAY_MS)
    world.census.book.maintain(world.census.journal.now())
    ask(world, slice(0, 200), 30)
    seen, findings = audited(world)
    assert (findings.problems, seen.charges_checked, seen.charges_erased) == ([], 1, 3)
    assert texts.MEMBERSHIP_ERASED.format(count=3) in findings.not_checked


def test_loads_and_keys_of_a_node_are_followed(world: World) -> None:
    """Evidence gone with a replaced load is reported, of how many charges, and nothing of it is a problem."""
    ask_three(world)
    world.load_census()
    ask(world, slice(0, 200), 30)
    world.relink_census(LinkageKey(bytes(range(32))))
    seen, findings = audited(world)
    gone = 4 - seen.charges_checked
    assert (findings.problems, seen.is_proved) == ([], not gone)
    assert (texts.SUBJECTS_NOT_CHECKED.format(count=gone) in findings.not_checked) == bool(gone)
