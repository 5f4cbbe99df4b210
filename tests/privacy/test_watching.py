"""Worlds that differ in one person x look the same, but for the noise, to everyone who is not to know x.

Both worlds begin from the same files and keys, at the same instant of a clock that the test holds, with the same random
numbers; the same questions are asked at the same instants. Then every public answer of both dashboards is compared. The
hash and the signatures of checkpoints are left out: they are commitments to samples, and random to everybody else.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from fakes import world as worlds
from fakes.randomness import SeededRandomness
from fakes.world import HEALTH, RESEARCHER, OrderedSample, World, make_policy
from privacy.shown_pages import PUBLIC, everything_shown
from tripartite.v1 import roster_pb2

from broker_common.agency.config import DashboardConfig
from broker_common.dashboard.running import say_changes
from broker_common.language import LANGUAGES
from broker_common.monitoring import Monitor
from broker_common.privacy.report import exhaustion
from broker_common.storage.home import Home
from broker_common.tlog.entries import encode_entry
from broker_common.tlog.health_state import HealthState
from census_node.assembly import CensusHome
from census_node.operator.dashboard import CensusDashboard
from health_node.assembly import HealthHome
from health_node.node import HealthNode
from health_node.operator.dashboard import HealthDashboard
from health_node.query.forwarding import VerifiedCharge, make_manifest
from health_node.roster.book import RosterBook, number_roster

# No number of people is at the edge of a ten, where rounding shows one more or less; `docs/dashboard.md` says so.
PEOPLE = 395
X = PEOPLE - 1
MINUTE_MS = 60_000
# x with three others again and again; everybody, until those four are exhausted; nobody.
QUESTIONS = [*[("age = 94", 1)] * 3, *[("age >= 0", 30)] * 6, *[("age > 129", 30)] * 3]
# How the worlds differ, and who is not to know: researchers, who face an honest health agency, and both together.
NEIGHBOURS = ("x is absent", "x is not in the census")
FACES = ("reader en /", "reader fr /", *(f"en {path}" for path in PUBLIC))


@dataclass
class Seen:
    """Observations of one world."""

    # Every answer of each agency's dashboard, and the lengths of its log's entries.
    shown: dict[str, dict[str, bytes]] = field(default_factory=dict)
    entries: dict[str, list[int]] = field(default_factory=dict)
    logged: dict[str, list[Any]] = field(default_factory=dict)
    samples: list[int] = field(default_factory=list)
    # How many people each ledger has charged, and how many of them have nothing left.
    ledger: tuple[int, int] | None = None


class _Watched(World):
    """A world whose health agency has a roster for each of its loads."""

    rosters = 1

    @property
    def roster(self) -> roster_pb2.RosterManifest:
        """The newest one."""
        manifest = super().roster
        manifest.number = self.rosters
        return manifest

    def number_roster(self, health: HealthNode, load: str, people: int) -> None:
        """The roster of a load of so many is numbered, sent, put in force and acknowledged."""
        roster = number_roster(health.journal, load, health.people(load), self.randomness)
        assert roster is not None
        self.people, self.roster_salt, self.rosters = self.people[:people], roster.salt, roster.number
        assert self.roster_manifest == roster.manifest
        self.give_roster(HEALTH)
        with health.journal.transaction() as transaction:
            RosterBook(transaction.db).acknowledge(load, self.clock())


def live(base: _Watched, name: str, monkeypatch: pytest.MonkeyPatch) -> Seen:
    """The same life in one of the worlds, on copies of the same files."""
    seen, start_ms = Seen(), base.clock.now_ms
    with monkeypatch.context() as patch:
        patch.setattr(os, "urandom", SeededRandomness(base.directory.name))
        # When a process has made its counters, and what else lies on this machine's disk.
        patch.setattr(time, "time", lambda: base.clock() / 1000)
        patch.setattr(Home, "free_share", 0.5)
        base.randomness = SeededRandomness("node")
        in_census, roster = base.in_census, (base.people, base.roster_salt, base.rosters)
        folders, census = (base.census_folder, base.health_folder), base.census
        try:
            monitors = {role: Monitor(role, base.clock) for role in ("census", "health")}
            base.crash_census().recover()
            health = base.crash_health()
            base.offered = {}
            people = PEOPLE - (name == "x is absent")
            load = base.load_health(people)
            if name == "x is not in the census":
                # Somebody whom the health agency does not know is, in x's place.
                others = in_census[np.any(in_census != base.people[X], axis=1)]
                base.in_census = worlds._ascending(np.vstack([others, worlds.make_pseudonyms(1, seed=2)]))
            base.load_census()
            base.number_roster(health, load, people)
            for where, scale in QUESTIONS:
                base.clock.advance(MINUTE_MS)
                order = base.order(where=where, scale=scale)
                accepted = health.accept(order.submission, health.verify(order.submission, RESEARCHER, base.policy))
                sample = health.sample(accepted)
                ticket = order.hash.hex()
                health.log_forwarded(make_manifest(sample), base.secrets.manifest, people=sample.size)
                seen.samples.append(sample.size)
                base.charge(order, OrderedSample(order, sample))
                health.log_charge(ticket, VerifiedCharge(1, base.census.journal.checkpoint()))
                base.release(order)
                health.log_settled(ticket)
                for monitor in monitors.values():
                    monitor.heard_of_peer()
                    monitor.answered(2.0)
            base.cosign()
            charges = base.book(base.census.journal).charges()
            if charges is not None:
                found = exhaustion(charges, base.policy)
                seen.ledger = (found.charged, found.exhausted)
            for role, monitor in monitors.items():
                folder = base.census_folder if role == "census" else base.health_folder
                monitor.write(folder)
                _look(base, role, folder, seen)
            seen.entries = {
                "census": [len(encode_entry(each)) for each in base.entries()],
                "health": [len(encode_entry(each)) for each in base.health_entries()],
            }
        finally:
            base.in_census, base.clock.now_ms = in_census, start_ms
            base.people, base.roster_salt, base.rosters = roster
            (base.census_folder, base.health_folder), base.census = folders, census
    return seen


class _Home(Home):
    """A home without a file of settings: what an operator may set is as it usually is."""

    def load_config(self, config_type: Any) -> Any:
        del config_type
        return SimpleNamespace(dashboard=DashboardConfig())


def _look(world: World, role: str, folder: Path, seen: Seen) -> None:
    config = SimpleNamespace(
        organisation=f"{role} agency", dashboard=DashboardConfig(), alert_exhausted_share=0, log_format="text"
    )
    home = SimpleNamespace(
        home=_Home(folder, role),
        config=config,
        journal_path=folder / "journal.db",
        beginning=lambda: world.census_state if role == "census" else lambda: HealthState(world.roots[worlds.HEALTH]),
        charges=lambda: world.book(world.census.journal).charges(),
        read=_reading(world),
        operator_key_of=lambda *_: world.secrets.operator,
    )
    shown: Any = (
        CensusDashboard(cast("CensusHome", home), world.clock)
        if role == "census"
        else HealthDashboard(cast("HealthHome", home), world.clock)
    )
    shown.start()
    try:
        everything_shown(shown, world.clock)
        shown.work()
        seen.logged[role] = sorted(say_changes(set(), set(shown.problems())))
        answers = everything_shown(shown, world.clock)
    finally:
        shown.stop()
    checkpoint = shown.follower.followed.view.checkpoint
    seen.shown[role] = {name: _without(checkpoint, folder, answer) for name, answer in answers.items()}


def _reading(world: World) -> Any:
    def read(view: Any) -> Any:
        with world.census.journal.reading() as state:
            return view(state)

    return read


def _without(checkpoint: str, folder: Path, answer: bytes) -> bytes:
    """Without the root hash and the signatures, and without the name of the copy."""
    for line in checkpoint.split("\n")[2:]:
        if line:
            for form in (line, line.replace("+", "&#43;"), line.replace("\N{EM DASH}", "&#8212;")):
                answer = answer.replace(form.encode(), b"(commitment)")
    return answer.replace(str(folder).encode(), b"(home)")


@pytest.fixture(scope="module", params=["strict", "per_person"])
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Seen]:
    """Every world, under either accounting."""
    limit = {"strict": "0.99", "per_person": "0.9"}[request.param]
    policy = make_policy(accounting=request.param, max_belief=limit, scales=(1, 30))
    base = _Watched(tmp_path_factory.mktemp("world"), policy, people=PEOPLE)
    base.open_health()
    with pytest.MonkeyPatch.context() as monkeypatch:
        lived = {name: live(base, name, monkeypatch) for name in ("x is there", *NEIGHBOURS)}
    base.close()
    return lived


@pytest.mark.parametrize("name", NEIGHBOURS)
@pytest.mark.parametrize("role", ["census", "health"])
def test_neighbouring_worlds_show_the_public_the_same_bytes(seen: dict[str, Seen], role: str, name: str) -> None:
    """The public face in either language, /metrics, /events, /readyz and /healthz of both agencies."""
    here, there = seen["x is there"].shown[role], seen[name].shown[role]
    for path in FACES:
        assert here[path] == there[path], path
    assert b"(commitment)" in here["reader en /"]


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_neighbouring_worlds_have_logs_of_the_same_lengths(seen: dict[str, Seen], name: str) -> None:
    """Entry by entry, with researcher and project in them: log sizes say nothing of who was asked about."""
    assert seen["x is there"].entries == seen[name].entries


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_neighbouring_worlds_show_the_staff_the_same_figures(seen: dict[str, Seen], name: str) -> None:
    """Every page of every rank: no band of people, drop, forecast or cohort shows one person who is there or not."""
    for role in ("census", "health"):
        assert seen["x is there"].shown[role] == seen[name].shown[role]
        assert seen["x is there"].logged[role] == seen[name].logged[role]


def test_the_worlds_differ_and_everything_was_looked_at(seen: dict[str, Seen]) -> None:
    """X was in the samples, the staff's figures were computed, and every page of either language was there."""
    there, absent = seen["x is there"], seen["x is absent"]
    assert (there.samples[:4], absent.samples[:4]) == ([4, 4, 4, PEOPLE], [3, 3, 3, PEOPLE - 1])
    assert there.samples[-1] == 0
    if there.ledger:
        assert (there.ledger, absent.ledger) == ((297, 4), (296, 3))
        assert seen["x is not in the census"].ledger == absent.ledger
    shown = there.shown["census"]
    assert {name.split()[-1] for name in shown} == {"/", "/people", "/activity", "/orders", "/nowhere", *PUBLIC}
    assert all(shown[f"staff {tongue} /people"].startswith(b"200") for tongue in LANGUAGES)
    assert b"As of" in shown["staff en /people"]
    assert b"As of" in there.shown["health"]["staff en /activity"]
    assert shown["reader en /people"].startswith(b"403")
    assert shown["staff en /orders"].startswith(b"403")
    assert b"tripartite_log_answers" in shown["en /metrics"]
