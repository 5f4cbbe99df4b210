"""Dashboards over a long log: what a page costs does not depend on how many entries there are, and a first fold is seen to go on."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, NoReturn

import httpx
import pytest
from benchmarks.long_log import LONG_LOG_SCALE, lengthen
from fakes.clock import FakeClock
from fakes.dashboards import dashboard
from fakes.deployment import make
from fakes.patience import PATIENCE_SECONDS

from broker_common.language import language
from broker_common.storage import follower as follower_module
from broker_common.storage.clock import system_clock
from census_node.assembly import CensusHome
from census_node.operator.dashboard import CensusDashboard
from health_node.assembly import HealthHome
from health_node.operator import dashboard as health_dashboard
from health_node.operator.cohort_figures import CohortFigures, compute_if_due, read_cohort_figures
from health_node.operator.dashboard import HealthDashboard

ENTRIES = 20_000
PAGES = ("/", "/people", "/activity", "/orders")
ENGLISH = language("en")


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A census home whose log is short, and the same with a long one."""
    made = make(tmp_path_factory.mktemp("long") / "deployment", population=10)
    policy = made.json("census", "policy", "show")
    made.order_policy(scales=(*policy["scales"], LONG_LOG_SCALE))
    short, long = made.home("census"), made.directory / "long"
    shutil.copytree(short, long)
    lengthen(long, ENTRIES)
    return short, long


def folded(shown: Any) -> Any:
    """A dashboard that has read its log."""
    shown.start()
    followed = shown.follower.followed
    while not followed.is_complete:
        followed = shown.follower.wait_beyond(followed.version, PATIENCE_SECONDS)
    return shown


def never(*_: object, **__: object) -> NoReturn:
    """Things that no page may do."""
    pytest.fail("a page reads the log")


def test_a_first_fold_is_seen_to_go_on(homes: tuple[Path, Path]) -> None:
    """A page that is asked for meanwhile is served, and says how far the log has been read; the next one says more."""
    shown = CensusDashboard(CensusHome(homes[1]), FakeClock(system_clock()))
    seen: list[tuple[int, bool]] = []

    def ask() -> None:
        values = shown.pages[0].values(ENGLISH)
        seen.append((values["followed"].done, values["picture"] is not None))

    shown.follower.on_news(ask)
    folded(shown)
    shown.stop()
    progress, whole = [done for done, _ in seen], [is_whole for _, is_whole in seen]
    assert len(progress) > 3
    assert progress == sorted(set(progress))
    assert progress[-1] >= ENTRIES
    assert whole == [False] * (len(whole) - 1) + [True]


def test_no_page_reads_the_log(homes: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages, probes and metrics are drawn from what was read already: neither is the journal opened nor an entry parsed."""
    shown = folded(CensusDashboard(CensusHome(homes[1]), FakeClock(system_clock())))
    try:
        monkeypatch.setattr(CensusHome, "journal", never)
        monkeypatch.setattr(follower_module, "parse_entry", never)
        for page in shown.pages:
            assert page.values(ENGLISH)["picture"] is not None
        assert shown.pages[3].values(ENGLISH)["has_key"]
        shown.health()
        assert b"tripartite_log_folded_entries" in shown.metrics()
    finally:
        shown.stop()


def test_pages_weigh_the_same_over_a_long_log(homes: tuple[Path, Path]) -> None:
    """The line of charges has at most so many points, tables so many rows; everything together stays under 100 kB."""
    weights = []
    for home in homes:
        # Figures of people are there from the start, not only where reading the log takes until they are due.
        once = folded(CensusDashboard(CensusHome(home), FakeClock(system_clock())))
        once.work()
        once.stop()
        with dashboard(home, "census") as shown, httpx.Client(base_url=shown.address) as client:
            session = client.get("/", params={"key": shown.key}).headers["set-cookie"].partition(";")[0]
            while "<progress" in client.get("/").text:
                pass
            weights.append([len(client.get(path, headers={"cookie": session}).content) for path in PAGES])
            static = sum(len(client.get(f"/static/{name}").content) for name in ("style.css", "live.js", "icon.svg"))
    short, long = weights
    # Two points of the line, or five hundred, and figures of people that only a log with answers has.
    assert all(after < before + 15_000 for before, after in zip(short, long, strict=True))
    assert sum(long) + static < 100_000


def test_cohorts_are_not_counted_before_their_time(homes: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting reads a row for each question that there ever was: once a period, and not at every look."""
    home = shutil.copytree(homes[0].parent / "health", homes[0].parent / "health-copy", dirs_exist_ok=True)
    clock = FakeClock(system_clock())
    assert compute_if_due(home, lambda: {1: 20}, now_ms=clock(), period_ms=1_000)
    before = read_cohort_figures(home)
    assert isinstance(before, CohortFigures)
    shown = HealthDashboard(HealthHome(home), clock)
    counted: list[Path] = []

    def count(path: Path) -> dict[int, int]:
        counted.append(path)
        return {}

    monkeypatch.setattr(health_dashboard, "read_counts", count)
    shown.work()
    assert not counted
    clock.advance(before.next_ms - clock())
    shown.work()
    assert len(counted) == 1
