"""Every outage of the operator's list shows on the page, in the metrics and in the log, and is gone when it is over.

The dashboards are real ones over a real deployment's homes; time is a clock that the test sets. deploy/monitoring tests what an
alert makes of a metric.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog
from fakes.clock import FakeClock
from fakes.deployment import Deployment, make, run_here
from fakes.patience import PATIENCE_SECONDS
from process.secured import configure
from process.secured import made as made_certificate

from broker_common.dashboard.log_picture import Problem, Witnessed, disk_problems, time_problems
from broker_common.language import language
from broker_common.monitoring import Monitor
from broker_common.parties import keyring
from broker_common.storage.clock import system_clock
from census_node.assembly import CensusHome
from census_node.operator.dashboard import CensusDashboard
from health_node.assembly import HealthHome
from health_node.operator.dashboard import HealthDashboard
from health_node.roster.book import RosterBook, SentRoster

DAY_MS = 86_400_000
YEAR_MS = 366 * DAY_MS
ENGLISH = language("en")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """Two loaded nodes that do not run."""
    return make(tmp_path_factory.mktemp("outages") / "deployment", population=10)


@pytest.fixture
def deployment(made: Deployment, tmp_path: Path) -> Deployment:
    """A copy for one test."""
    shutil.copytree(made.directory, tmp_path / "deployment")
    return Deployment(tmp_path / "deployment")


class Watched:
    """A dashboard, its clock, and a node that says of itself what a test makes it say."""

    def __init__(self, deployment: Deployment, role: str) -> None:
        self.clock = FakeClock(system_clock())
        self.path = deployment.home(role)
        self.monitor = Monitor(role, self.clock)
        self.dashboard: Any = (
            CensusDashboard(CensusHome(self.path), self.clock)
            if role == "census"
            else HealthDashboard(HealthHome(self.path), self.clock)
        )

    def wait(self) -> None:
        """Until the log has been read."""
        followed = self.dashboard.follower.followed
        while followed.view is None:
            followed = self.dashboard.follower.wait_beyond(followed.version, PATIENCE_SECONDS)

    def page(self) -> str:
        """The states and problems of the first page."""
        values = self.dashboard.pages[0].values(ENGLISH)
        states = [f"{name}: {value}" for name, value, _ in values["states"]]
        return " ".join([*states, *values["problems"]])

    def metric(self, name: str, label: str = "") -> float:
        text = self.dashboard.metrics().decode()
        found = re.search(rf"^tripartite_{name}\{{[^}}]*{label}[^}}]*\}} (\S+)$", text, re.MULTILINE)
        assert found is not None, name
        return float(found[1])


@contextmanager
def watching(deployment: Deployment, role: str = "census") -> Iterator[Watched]:
    """A dashboard that has read its log."""
    watched = Watched(deployment, role)
    watched.dashboard.start()
    try:
        watched.wait()
        yield watched
    finally:
        watched.dashboard.stop()


@contextmanager
def serving(watched: Watched) -> Iterator[None]:
    """A process that holds the home, has just spoken, and has just heard of the other agency."""
    with watched.dashboard.home.serving():
        watched.monitor.heard_of_peer()
        watched.monitor.write(watched.path)
        yield


def test_a_dead_process_shows(deployment: Deployment) -> None:
    """And its return shows as well."""
    with watching(deployment) as watched:
        assert "The node's process is not running." in watched.page()
        assert watched.metric("up") == 0
        assert watched.dashboard.health().problems[0] == "The node's process is not running."
        with serving(watched):
            assert "Process: running" in watched.page()
            assert watched.metric("up") == 1


def test_a_process_that_hangs_shows(deployment: Deployment) -> None:
    """It holds its home and says nothing."""
    with watching(deployment) as watched, serving(watched):
        written = watched.metric("written_timestamp_seconds")
        watched.clock.advance(11_000)
        assert "has said nothing of itself for ten seconds" in watched.page()
        assert watched.metric("written_timestamp_seconds") == written < watched.clock() / 1000 - 10


@pytest.mark.parametrize("role", ["census", "health"])
def test_a_peer_that_is_gone_shows(deployment: Deployment, role: str) -> None:
    """The other agency was last heard of longer ago than any call of its takes."""
    with watching(deployment, role) as watched, serving(watched):
        quiet = watched.page()
        watched.clock.advance(46_000)
        watched.monitor.write(watched.path)
        assert "was not heard of" in watched.page()
        assert "was not heard of" not in quiet
        assert watched.metric("peer_last_contact_timestamp_seconds") == watched.clock() / 1000 - 46


def test_a_roster_that_the_census_node_does_not_take_shows(deployment: Deployment) -> None:
    """With the reason, until it is taken: the operator of the health node is the one who can see to it."""

    def roster() -> str:
        values = next(page for page in watched.dashboard.pages if page.path == "/activity").values(ENGLISH)
        return next(str(note) for name, _, note in values["live_figures"] if name == "Roster of the load")

    with watching(deployment, "health") as watched, HealthHome(watched.path).journal() as journal:
        load = journal.state.load
        with journal.transaction() as transaction:
            book = RosterBook(transaction.db)
            if book.get(load) is None:
                book.put(SentRoster(load, 1, b"", b"", 0))
        assert roster() == "on its way to the census node; questions wait"
        with journal.transaction() as transaction:
            RosterBook(transaction.db).refused(load, "LINKAGE_MISMATCH")
        assert roster().startswith("refused by the census node (LINKAGE_MISMATCH); questions wait")
        with journal.transaction() as transaction:
            RosterBook(transaction.db).acknowledge(load, watched.clock())
        assert roster().startswith("at the census node since")


@pytest.mark.parametrize("role", ["census", "health"])
def test_a_certificate_s_end_shows_from_sixty_days_before(deployment: Deployment, role: str) -> None:
    """First as a warning with the command, then as the reason why nobody connects."""
    with watching(deployment, role) as watched:
        end_ms = 1000 * int(watched.metric("certificate_end_timestamp_seconds", 'party="own"'))
        watched.clock.now_ms = end_ms - 61 * DAY_MS
        assert "certificate" not in watched.page()
        watched.clock.now_ms = end_ms - 59 * DAY_MS
        assert "ends within 60 days: renew it with 'tripartite keys rotate tls'" in watched.page()
        watched.clock.now_ms = end_ms
        assert "has ended: nobody can connect" in watched.page()


@pytest.mark.parametrize("role", ["census", "health"])
def test_a_certificate_is_renewed_by_one_command(
    deployment: Deployment, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command that the page names; then page and metric say the new end, and the old certificate serves until the new one does."""
    with monkeypatch.context() as patched:
        patched.setattr(keyring, "CERTIFICATE_DAYS", 5)
        words = ("--home", deployment.home(role), "--json")
        assert run_here("keys", "rotate", "tls", *words, "--in", "0s", "--honour", "0s").code == 0
    with watching(deployment, role) as watched:
        now_s = watched.clock() / 1000
        assert 4 < (watched.metric("certificate_end_timestamp_seconds", 'party="own"') - now_s) / 86400 < 6
        assert "renew it with 'tripartite keys rotate tls'" in watched.page()
        version = watched.dashboard.follower.version
        assert run_here("keys", "rotate", "tls", *words).code == 0
        watched.dashboard.follower.wait_beyond(version, PATIENCE_SECONDS)
        assert "certificate" not in watched.page()
        assert (watched.metric("certificate_end_timestamp_seconds", 'party="own"') - now_s) / 86400 > 364


@pytest.mark.parametrize("role", ["census", "health"])
@pytest.mark.parametrize(("name", "whose"), [("dashboard", "The dashboard's"), ("ada", "An operator's")])
def test_the_end_of_a_certificate_for_the_dashboard_shows_from_sixty_days_before(
    deployment: Deployment, role: str, name: str, whose: str
) -> None:
    """On the page and in the metrics, until it is renewed: an operator's old one may stay in the file."""
    home, days = deployment.home(role), {"dashboard": 61, "ada": 61}
    write_certificates(home, days)
    settings = {"certificate": "keys/dashboard.crt", "operator_certificates": "keys/operators.pem"}
    configure(home, settings)
    party = "dashboard" if name == "dashboard" else "operator"
    text = f"{whose} certificate ends within 60 days or has ended"
    with watching(deployment, role) as watched:
        assert text not in watched.page()
        write_certificates(home, days | {name: 59})
        assert text in watched.page()
        days_left = watched.metric("certificate_end_timestamp_seconds", f'party="{party}"') - watched.clock() / 1000
        assert 58 < days_left / 86400 < 60
        activity = next(page for page in watched.dashboard.pages if page.path == "/activity").values(ENGLISH)
        [shown] = [row[2] for row in activity["certificate_rows"] if row[0] == f"{name} ({party})"]
        # A page is of the moment when it was last looked at, which may be just before the certificate was made.
        assert shown in {"58 days", "59 days"}
        renew(home, name)
        assert text not in watched.page()
        (home / "keys" / "operators.pem").write_text("no certificate\n", encoding="utf-8")
        assert "A certificate file of the dashboard cannot be used" in watched.page()


def write_certificates(home: Path, days: Mapping[str, int]) -> None:
    """The dashboard's certificate and an operator's, which end after so many days."""
    for name, left in days.items():
        made_certificate(home / "keys", name, days=(-1, left))
    shutil.copy(home / "keys" / "ada.crt", home / "keys" / "operators.pem")


def renew(home: Path, name: str) -> None:
    """As the handbook says: the dashboard's file is replaced, an operator's certificate comes after the old one."""
    renewed = made_certificate(home / "keys", name, days=(-1, 365)).certificate.read_text("utf-8")
    if name != "dashboard":
        with (home / "keys" / "operators.pem").open("a", encoding="utf-8") as file:
            file.write(renewed)


def test_a_full_disk_shows(deployment: Deployment) -> None:
    """Below a twentieth; the metrics say how much there is."""
    text = "The disk of the home is nearly full: a node that cannot write stops."
    assert disk_problems(0.049, is_load_refused=False) == [Problem(text, stops=False)]
    assert disk_problems(0.051, is_load_refused=False) == []
    with watching(deployment) as watched:
        assert 20 * watched.metric("home_free_share") in range(21)


@pytest.mark.parametrize("role", ["census", "health"])
def test_a_witness_that_lags_shows(deployment: Deployment, role: str) -> None:
    """Entries that the other agency has not cosigned for half a minute."""
    if role == "census":
        # A start commits to noise slots, which are of no use before they are cosigned.
        with deployment.node("census"):
            pass
    with watching(deployment, role) as watched:
        watched.clock.now_ms = 1000 * int(watched.metric("log_due_timestamp_seconds"))
        assert "has not cosigned" not in watched.page()
        watched.clock.advance(32_000)
        assert "has not cosigned the newest entries for half a minute" in watched.page()
        assert watched.metric("witnessed_entries") < watched.metric("log_due_entries")


def test_a_log_that_has_grown_by_what_nobody_has_to_cosign_is_well(deployment: Deployment) -> None:
    """An order, or the release of the last answer before a quiet night, is cosigned with the next charge: no alarm till then."""
    with watching(deployment) as watched:
        version = watched.dashboard.follower.version
        deployment.json("census", "shutdown", "--reason", "a quiet night")
        watched.dashboard.follower.wait_beyond(version, PATIENCE_SECONDS)
        watched.clock.now_ms = 1000 * int(watched.metric("log_newest_timestamp_seconds")) + 60_000
        assert watched.metric("log_entries") > watched.metric("witnessed_entries") == 0
        assert "has not cosigned" not in watched.page()


@pytest.mark.parametrize("role", ["census", "health"])
def test_a_wrong_clock_shows(deployment: Deployment, role: str) -> None:
    """The log knows a later time than the machine."""
    with watching(deployment, role) as watched:
        watched.clock.advance(-YEAR_MS)
        assert "one of the clocks was wrong" in watched.page()
        assert watched.metric("log_newest_timestamp_seconds") > watched.clock() / 1000


APART = "The clocks of the two agencies are more than a minute apart: compare this machine's with others."


@pytest.mark.parametrize(
    ("cosigned_ms", "size", "is_apart"),
    [(30_000, 8, False), (-59_000, 8, False), (-61_000, 8, True), (61_000, 8, True), (-61_000, 7, False)],
)
def test_clocks_that_are_apart_show(cosigned_ms: int, size: int, is_apart: bool) -> None:
    """Cosigned in our future, or before the entry was written; an older entry may be cosigned long before a newer one."""
    witnessed = Witnessed(size, YEAR_MS + cosigned_ms, "health")
    found = time_problems(
        log_ms=YEAR_MS, due_size=8, due_ms=YEAR_MS, witnessed=witnessed, certificates=[], now_ms=YEAR_MS
    )
    assert [each.text for each in found] == ([APART] if is_apart else [])


def test_what_somebody_should_see_to_does_not_make_a_node_unready(deployment: Deployment, tmp_path: Path) -> None:
    """A refused load and a changed key are said, and questions can be asked all the same."""
    bad, home = tmp_path / "bad.csv", deployment.home("health")
    bad.write_text("no,such,columns\n1,2,3\n", encoding="utf-8")
    assert run_here("keys", "rotate", "manifest", "--home", home, "--json").code == 0
    assert run_here("health", "load", "--home", home, bad, "--json").code == 3
    with watching(deployment, "health") as watched, serving(watched):
        # As far as the log has come, so that no cosignature is late.
        watched.clock.now_ms = 1000 * int(watched.metric("log_newest_timestamp_seconds")) + 1000
        watched.monitor.heard_of_peer()
        watched.monitor.write(watched.path)
        health = watched.dashboard.health()
        assert health.is_ready
        assert len(health.problems) == 2
        watched.clock.advance(15 * 60_000)
        assert not any("Keys" in problem for problem in watched.dashboard.problems())


def test_a_missed_tick_shows(deployment: Deployment) -> None:
    """As a count on the staff's page and in the metrics; the node logs each."""
    with watching(deployment) as watched, serving(watched):
        watched.monitor.missed_tick()
        watched.monitor.write(watched.path)
        assert watched.metric("ticks_missed_total") == 1
        shown = dict(each[:2] for each in watched.dashboard.pages[2].values(ENGLISH)["live_figures"])
        assert shown["Ticks missed"] == "1"


@pytest.mark.parametrize("role", ["census", "health"])
def test_a_refused_load_shows_until_one_is_taken(deployment: Deployment, role: str, tmp_path: Path) -> None:
    """The operator of a load timer hears of it."""
    bad = tmp_path / "bad.csv"
    bad.write_text("no,such,columns\n1,2,3\n", encoding="utf-8")
    home = deployment.home(role)
    with watching(deployment, role) as watched:
        assert run_here(role, "load", "--home", home, bad, "--json").code == 3
        assert "The last load was refused; the one before is in force." in watched.page()
        assert watched.metric("load_refused") == 1
        assert run_here(role, "load", "--home", home, "--json").code == 0
        assert "refused" not in watched.page()
        assert watched.metric("load_refused") == 0


def test_a_key_that_was_rotated_in_a_hurry_shows(deployment: Deployment) -> None:
    """The metrics say when, the timeline whose."""
    home = deployment.home("census")
    with watching(deployment) as watched:
        version = watched.dashboard.follower.version
        assert run_here("keys", "rotate", "log", "--home", home, "--json").code == 0
        watched.dashboard.follower.wait_beyond(version, PATIENCE_SECONDS)
        kinds = [each.kind for each in watched.dashboard.follower.followed.view.happenings]
        assert kinds[-1] == "key"
        assert watched.metric("keys_changed_timestamp_seconds") > 0


def test_what_the_page_says_is_logged(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> None:
    """Each problem once when it comes and once when it goes, for tools that read logs."""
    from broker_common.dashboard.running import say_changes  # noqa: PLC0415
    from broker_common.logs import log_as  # noqa: PLC0415

    log_as("json")
    request.addfinalizer(structlog.reset_defaults)
    known = say_changes(set(), {"The node's process is not running."})
    known = say_changes(known, {"The node's process is not running."})
    assert say_changes(known, set()) == set()
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["event"] for line in lines] == ["problem", "problem over"]
    assert all(line["problem"] == "The node's process is not running." for line in lines)


def test_no_problem_is_silent_about_what_to_do() -> None:
    """Every problem has an alert whose action says what helps."""
    alerts = (Path(__file__).parents[2] / "deploy" / "monitoring" / "alerts.yml").read_text("utf-8")
    rules = re.findall(r"- alert: (\w+)", alerts)
    actions = re.findall(r"^ +action: \"(.+)\"$", alerts, re.MULTILINE)
    assert len(rules) == len(actions) >= 12
    assert all(len(action) > 20 for action in actions)
