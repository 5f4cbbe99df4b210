"""The benchmarks, with few people: that every one of them still runs and measures what it says. Their figures are not judged."""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path

import pytest
from benchmarks import dashboard_speed, end_to_end, growth, report, rivals, timeline
from benchmarks.cohorts import HealthSource
from benchmarks.long_log import lengthen
from benchmarks.results import put, store
from fakes.deployment import Deployment, make
from fakes.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.process

PEOPLE = 20_000
SIZES = (0, 100, PEOPLE)
# Packages that `make check` does without; installed or not, the benchmarks are to say so.
EXTRAS = ("polars", "private_set_intersection.python")


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """One to ask."""
    return make(tmp_path_factory.mktemp("bench") / "deployment", population=PEOPLE, accounting="per_person")


@pytest.fixture(autouse=True)
def _without_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in EXTRAS:
        monkeypatch.setitem(sys.modules, name, None)


def test_questions_are_measured_beside_the_floor(deployment: Deployment, tmp_path: Path) -> None:
    """Every sample has rounds, a floor and a ratio to it, at tick 0 and at the tick; the page can be written from that."""
    wish = end_to_end.Wish(people=PEOPLE, directory=deployment.directory, sizes=SIZES, rounds=2, tick_rounds=1)
    result = end_to_end.measure(wish)
    assert result["filtered by"] == "numpy (polars is not installed)"
    assert list(result["samples"]) == list(result["tick"])
    asked = [int(people) for people in result["samples"]]
    assert asked[0] == 0 < asked[1] < 200 < PEOPLE / 2 < asked[2]
    for found in result["samples"].values():
        assert found["ratio"] == pytest.approx(found["answer"]["median"] / found["floor"]["median"])
        assert found["floor"]["median"] >= max(found["floor parts"].values()) / 2
        # Submit to the answer holds all that the health node did, which holds all that the census node did.
        assert found["answer"]["median"] > 0
        assert found["stages"]["health"]["total"] >= found["stages"]["census"]["total"] > 0
        assert found["answer"]["rounds"] == 2
    # The delay is waited for; then a sample is taken, told, cosigned and released at ticks of their own.
    least = result["delays"]["forward_delay_ms"] + 3 * result["delays"]["release_tick_ms"]
    assert all(found["answer"]["median"] >= least for found in result["tick"].values())
    assert deployment.json("census", "policy", "show")["release_tick_ms"] == 0
    store(tmp_path / "results", "end_to_end", result)
    report.written(tmp_path / "results", tmp_path)
    page = (tmp_path / "BENCHMARKS.md").read_text(encoding="utf-8")
    assert f"A question to {PEOPLE:,} people" in page
    # A bar for each sample's ratio, for how far they lie apart at tick 0 and at the tick, and for what everybody takes.
    bars = (
        "times the floor with a sample of",
        "separates it from the longest;",
        "separates it from the longest at the tick",
        "bytes a person at the census node",
    )
    assert [len(re.findall(rf"^- (?:pass|MISS): .*{bar}", page, re.MULTILINE)) for bar in bars] == [3, 1, 1, 1]
    assert "Not measured in this state: bits, events, load, rivals, growth, timeline." in page


def test_rivals_count_what_a_join_counts_and_missing_ones_are_said(deployment: Deployment) -> None:
    """Both joins agree, or the measurement ends itself; private set intersection is said to be missing."""
    result = rivals.measure(deployment.directory, PEOPLE, rounds=1)
    assert {"duckdb", "opendp"} <= result["sizes"]["10000"].keys()
    assert "openmined-psi was not measured." in "\n".join(rivals.table(result, None))


def test_timeline_shows_both_nodes_on_one_clock(deployment: Deployment, tmp_path: Path) -> None:
    """The nodes' reported work is between Submit and shortly after the answer, the census node's within the other's."""
    result = timeline.measure(deployment.directory, PEOPLE, 1_000)
    begun, ended = ({} for _ in range(2))
    for role, spans in result["spans"].items():
        ((begun[role], ended[role]),) = [(start, end) for name, start, end in spans if name == "total"]
        assert all(begun[role] <= start <= end <= ended[role] for _, start, end in spans)
    assert 0 < begun["health"] < begun["census"] < ended["census"] < ended["health"]
    # With another clock it would be hours after Submit.
    assert begun["health"] < 1000 * PATIENCE_SECONDS
    timeline.draw(result, tmp_path / "timeline.png")
    assert (tmp_path / "timeline.png").read_bytes().startswith(b"\x89PNG")


def test_growth_axis_is_measured_at_every_step(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every axis at its smallest; the log gets as long as is said, and the node serves on."""
    monkeypatch.setattr(growth, "_SMALL_PEOPLE", 2_000)
    wish = growth.Wish(people=PEOPLE, directory=deployment.directory, rounds=1)
    axes = {"population": (PEOPLE,), "terms": (1, 20), "log": (1_000,), "queries": (1, 30)}
    assert axes.keys() == growth.AXES.keys()
    for name, steps in axes.items():
        rows = list(growth.AXES[name].measure(wish, steps, tmp_path / name))
        assert len(rows) == len(steps)
        assert all(row["answer"]["median"] > 0 for row in rows)
        put(tmp_path / "results", growth.NAME, name, rows)
    assert len(Deployment(tmp_path / "log" / "deployment").events("census")) > 1_000
    # Warm-up included, nothing was asked that is not counted.
    assert len(Deployment(tmp_path / "queries" / "deployment").tickets("census", "charged")) >= 30
    report.written(tmp_path / "results", tmp_path)
    assert (tmp_path / "docs" / "benchmarks" / "growth.png").read_bytes().startswith(b"\x89PNG")


def test_cohorts_hold_whom_they_say(deployment: Deployment) -> None:
    """The size that a cohort claims is what plain Python counts in the source, and near what was wanted."""
    path = deployment.home("health") / "people.csv"
    source = HealthSource(path)
    with path.open(encoding="utf-8", newline="") as file:
        people = [row for row in csv.DictReader(file) if row["health_card"]]
    assert source.people == len(people)
    for wanted in (10, 100, 1_000, len(people)):
        cohort = source.near(wanted)
        assert abs(cohort.people - wanted) <= max(2, wanted / 20)
        assert int(source.mask(cohort).sum()) == cohort.people
        sexes, divisions = ("female", "male"), sorted({row["census_division"] for row in people})
        named = [row for row in people if int(row["age"]) >= cohort.age]
        named = [row for row in named if cohort.sex is None or row["sex"] == sexes[cohort.sex]]
        if cohort.division is not None:
            division = next(name for name in divisions if f"'{name}'" in cohort.where)
            named = [row for row in named if row["census_division"] == division]
        assert len(named) == cohort.people
        assert source.near_by_age(cohort.people).where.count(" and ") == 0


def test_log_that_is_made_long_is_held_against_its_rules(tmp_path: Path) -> None:
    """The entries are the product's own: a replay of them by the product, and by the rules of DESIGN 5, finds nothing."""
    deployment = make(tmp_path / "deployment", population=200)
    policy = deployment.json("census", "policy", "show")
    deployment.order_policy(scales=(*policy["scales"], 1_000_000))
    assert lengthen(deployment.home("census"), 500) >= 500
    assert deployment.json("census", "status")["answers"] >= 160


def test_a_dashboard_is_measured_before_a_long_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every page is asked for over a short and a long log; the folder can be used again."""
    for _ in range(2):
        dashboard_speed.main(["2000", "--rounds", "1", "--folder", str(tmp_path / "folder")])
        said = capsys.readouterr().out
        assert re.search(r"2,0\d\d entries: folded in", said)
        assert all(f"\n{path} " in said for path in ("/", "/people", "/activity", "/orders"))
