"""Pages that meet what they should not: scripts as names, ended sessions, too many pages, a day in one tab."""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.long_log import LONG_LOG_SCALE, lengthen
from fakes.dashboards import Dashboard, dashboard
from fakes.deployment import Deployment, make, run_here, wait_until
from fakes.logs import hash_of, submitted
from fakes.patience import PATIENCE_SECONDS

from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import Loaded, Refused, Registered
from broker_common.tlog.health_state import HealthState
from census_node.assembly import CensusHome
from census_node.operator.operating import Confirmation, reopen, shut_down
from census_node.operator.proposals import draft, make_proposal
from health_node.assembly import HealthHome

pytest.importorskip("playwright.sync_api", reason="no browser here: 'make test-browser' installs one")
from playwright.sync_api import Browser, BrowserContext, CDPSession, Dialog, Page, Request, Route, expect

CENSUS_PAGES = ("/", "/people", "/activity", "/orders")
HEALTH_PAGES = ("/", "/activity")
PATIENCE_MS = 1000 * PATIENCE_SECONDS
SCRIPT = '<script>alert("x")</script>'
IMAGE = '"><img src=x onerror=alert(1)>'
# No longer than the name of a project may be.
TEXT = SCRIPT + IMAGE
# In so many places at least: reasons of a shutdown, a reopening and a policy, a project, a load; a project, a code, a load.
WHERE = {"census": 5, "health": 3}
# As many pages as the dashboard tells of news at one time.
MOST_STREAMS = 64


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A visitor of their own, who is patient."""
    made = browser.new_context()
    made.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    yield made
    made.close()


def plant_at_the_census(home: CensusHome) -> None:
    """In every text of the log that somebody outside can choose, in the form that the log's own rules take."""
    with home.journal() as journal:
        shut_down(journal, TEXT, home.private_operator_key())
        reopen(journal, TEXT, home.private_operator_key())
        with journal.transaction() as transaction:
            (peer,) = transaction.state.parties.peers("researcher").values()
            transaction.append(Registered(card=peer.card.signed, note="", projects=(TEXT,), inbox=""))
            transaction.append(renamed(transaction.state))
    before = home.read(lambda state: state.policy)
    assert before is not None
    policy = draft(before, {"max_belief": "0.81", "scales": (*before.scales, LONG_LOG_SCALE)})
    confirmation = Confirmation(TEXT, home.private_operator_key())
    home.adopt(make_proposal(policy, home.private_policy_key()), confirmation)
    lengthen(home.home.path, 100)


def plant_at_the_health_agency(home: HealthHome) -> None:
    """The same there, with a refusal whose code is a script."""
    with home.journal() as journal, journal.transaction() as transaction:
        transaction.append(renamed(transaction.state))
        (researcher,) = transaction.state.parties.peers("researcher")
        load = transaction.state.load
        transaction.append(submitted(1, researcher=researcher, project=TEXT, load=load))
        transaction.append(Refused(ticket=hash_of(1), code=TEXT))


def renamed(state: CensusState | HealthState) -> Loaded:
    """The load in force again, under names that are scripts."""
    dictionary = state.dictionaries[state.load]
    return Loaded(load=SCRIPT, release=IMAGE, linkage=state.linkage, dictionary=dictionary, commitment=hash_of(9))


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """Two agencies with a script in every text that their logs take."""
    made = make(tmp_path_factory.mktemp("planted") / "deployment", population=10)
    plant_at_the_census(CensusHome(made.home("census")))
    plant_at_the_health_agency(HealthHome(made.home("health")))
    return made


@pytest.fixture(scope="module")
def census(planted: Deployment) -> Iterator[Dashboard]:
    """The dashboard of the census agency, whose node does not run: these pages follow the log and the session alone."""
    with dashboard(planted.home("census"), "census") as shown:
        yield shown


@pytest.fixture(scope="module")
def health(planted: Deployment) -> Iterator[Dashboard]:
    """The same of the health agency."""
    with dashboard(planted.home("health"), "health") as shown:
        yield shown


def watched(page: Page) -> list[str]:
    """Traces of a script that ran, or wanted to: dialogs, violations of the policy, requests for its image."""
    seen: list[str] = []

    def dismiss(dialog: Dialog) -> None:
        seen.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", dismiss)
    page.on("console", lambda message: seen.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: seen.append(request.url) if request.url.endswith("/x") else None)
    return seen


def visit(page: Page, shown: Dashboard, path: str) -> None:
    """Open a page and wait until it is live."""
    page.goto(shown.address + path)
    page.wait_for_selector("main section")
    expect(page.locator("#live-state")).to_have_text("Live")


def test_a_script_in_a_name_or_a_reason_is_shown_as_text(
    context: BrowserContext, census: Dashboard, health: Dashboard
) -> None:
    """On every page, and again when a part is put in anew: no dialog, no element, no violation; metrics hold no such text."""
    page = context.new_page()
    page.clock.install()
    seen = watched(page)
    for role, shown, paths in (("census", census, CENSUS_PAGES), ("health", health, HEALTH_PAGES)):
        page.goto(shown.with_key)
        texts = ""
        for path in paths:
            visit(page, shown, path)
            with page.expect_response(shown.address + path):
                page.clock.fast_forward(31_000)
            texts += page.inner_text("main")
            assert page.locator("main img, main script, body > script").count() == 0
        assert TEXT in texts
        assert texts.count("<script>") >= WHERE[role]
        answer = context.request.get(f"{shown.address}/metrics")
        assert answer.ok
        assert "alert" not in answer.text()
    assert seen == []


def test_a_script_in_an_audit_report_is_shown_as_text(
    context: BrowserContext, planted: Deployment, tmp_path: Path
) -> None:
    """The report is opened as a file, where no server's policy protects it."""
    for role in ("census", "health"):
        run_here("audit", "export", "--home", planted.home(role), "--to", tmp_path / "exports" / role)
    page = context.new_page()
    seen = watched(page)
    for language in ("en", "fr"):
        report = tmp_path / f"report-{language}.html"
        words = ("audit", "report", tmp_path / "exports", "--home", planted.home("auditor"), "--to", report)
        done = run_here(*words, "--language", language)
        assert report.is_file(), done.stdout + done.stderr
        page.goto(report.as_uri())
        assert page.inner_text("main").count(TEXT) >= WHERE["census"]
        assert page.locator("script, img").count() == 0
    assert seen == []


# --- sessions ----------------------------------------------------------------------------------------------------------


def test_a_session_that_ends_takes_the_staff_s_figures_with_it(context: BrowserContext, census: Dashboard) -> None:
    """Signed out in another tab: this one shows neither old figures nor the reader's face without a word."""
    context.clock.install()
    staff, face, other = context.new_page(), context.new_page(), context.new_page()
    other.goto(census.with_key)
    visit(staff, census, "/activity")
    visit(face, census, "/")
    other.get_by_role("button", name="Sign out").click()
    expect(other.locator("#visitor")).to_have_text("")
    for page in (staff, face):
        page.clock.fast_forward(31_000)
        expect(page.locator("#live-state")).to_contain_text("Your session has ended: sign in again")
        assert page.get_by_role("button", name="Sign out").count() == 0
        assert page.locator("nav a").all_inner_texts() == ["Public face"]
    expect(staff.get_by_role("heading", level=1)).to_have_text("This page is for the agency's own staff")
    assert staff.locator("#use").count() == 0
    expect(face.locator("#belief")).to_be_visible()
    # A person who signs in again elsewhere finds this page as it was.
    other.goto(census.with_key)
    face.clock.fast_forward(31_000)
    expect(face.locator("#visitor")).to_contain_text("Signed in as")
    expect(face.locator("#live-state")).to_have_text("Live")


def test_a_page_says_what_to_do_after_its_server_was_started_again(
    context: BrowserContext, planted: Deployment
) -> None:
    """The key has changed: the page reconnects by itself, and says that the session is over; readers see nothing of it."""
    staff, reader = context.new_page(), context.browser.new_page()  # type: ignore[union-attr]  # it has one
    with dashboard(planted.home("census"), "census") as shown:
        staff.goto(shown.with_key)
        visit(staff, shown, "/people")
        visit(reader, shown, "/")
    expect(staff.locator("#live-state")).to_contain_text("Connection lost")
    with dashboard(planted.home("census"), "census", port=int(shown.address.rpartition(":")[2])):
        expect(staff.locator("#live-state")).to_contain_text("Your session has ended: sign in again")
        expect(staff.get_by_role("heading", level=1)).to_have_text("This page is for the agency's own staff")
        expect(reader.locator("#live-state")).to_have_text("Live")
    reader.close()


# --- what happens in mid-view ------------------------------------------------------------------------------------------


def test_a_page_becomes_whole_when_the_first_fold_is_done(context: BrowserContext, census: Dashboard) -> None:
    """Opened while the log was being read, it does not stay at the progress bar."""
    page = context.new_page()

    def while_folding(route: Route) -> None:
        text = route.fetch().text()
        folding = '<section class="panel" id="folding" data-live><h1>Reading the log</h1></section>'
        text = re.sub(r"(<main[^>]*>).*(</main>)", rf"\1{folding}\2", text, flags=re.DOTALL)
        route.fulfill(body=re.sub(r'data-version="\d+"', 'data-version="0"', text), content_type="text/html")

    page.route(census.address + "/", while_folding, times=1)
    page.goto(census.address + "/")
    expect(page.locator("#belief")).to_be_visible()
    assert page.locator("#folding").count() == 0


def test_an_order_from_elsewhere_reaches_pages_in_mid_view(context: BrowserContext, tmp_path: Path) -> None:
    """A policy and then a shutdown stand on pages that are open, without a reload, and take nothing out of a reader's hands."""
    deployment = make(tmp_path / "deployment", population=10)
    with dashboard(deployment.home("census"), "census") as shown:
        follow_a_policy(context.new_page(), shown, deployment)
        follow_a_shutdown(context, shown)


def follow_a_policy(page: Page, shown: Dashboard, deployment: Deployment) -> None:
    """Limit, hash and history; an opened table stays open and the keyboard where it was."""
    visit(page, shown, "/")
    summary = page.locator("#belief summary")
    summary.click()
    before = page.locator("#policy tbody td").first.inner_text()
    deployment.order_policy(max_belief="0.7")
    expect(page.locator("#belief")).to_contain_text("limit 70%")
    expect(page.locator("#policy tbody td").first).not_to_have_text(before)
    expect(page.locator("#policy")).to_contain_text("no belief above 70%")
    assert page.locator("#belief details").get_attribute("open") is not None
    expect(summary).to_be_focused()


def follow_a_shutdown(context: BrowserContext, shown: Dashboard) -> None:
    """A form offers what can now be done, unless somebody is writing in it; the order stands below in any case."""
    idle, busy, acting = context.new_page(), context.new_page(), context.new_page()
    acting.goto(shown.with_key)
    for page in (idle, busy, acting):
        visit(page, shown, "/orders")
    busy.get_by_label("Reason").fill("half a sentence")
    acting.get_by_label("Reason").fill("a drill")
    acting.get_by_label("I mean it").check()
    acting.get_by_role("button", name="Shut down").click()
    expect(acting.locator("#outcome")).to_contain_text("The service is shut down.")
    expect(idle.get_by_role("button", name="Reopen")).to_be_visible()
    expect(busy.locator("#orders")).to_contain_text("a drill")
    expect(busy.get_by_label("Reason")).to_have_value("half a sentence")
    busy.get_by_label("I mean it").check()
    busy.get_by_role("button", name="Shut down").click()
    expect(busy.locator("#outcome")).to_contain_text("was shut down already")


# --- long and many -----------------------------------------------------------------------------------------------------


def counters(session: CDPSession) -> tuple[float, float]:
    """Nodes and listeners that live, after what is garbage was collected."""
    session.send("HeapProfiler.collectGarbage")
    metrics = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    return metrics["Nodes"], metrics["JSEventListeners"]


def test_a_page_that_is_open_for_a_day_does_not_grow(context: BrowserContext, census: Dashboard) -> None:
    """Every refresh changes a part: neither elements nor listeners pile up, and there is one stream."""
    page, streams, drawn = context.new_page(), [], 0

    def changed(route: Route) -> None:
        nonlocal drawn
        drawn += 1
        text = route.fetch().text().replace("<dt>Given so far</dt>", f'<dt id="drawn">{drawn}</dt>')
        route.fulfill(body=text, content_type="text/html")

    def count(request: Request) -> None:
        if request.url.endswith("/events"):
            streams.append(request)

    page.on("request", count)
    page.route(census.address + "/", changed)
    page.clock.install()
    page.goto(census.address + "/")
    expect(page.locator("#drawn")).to_have_text("1")
    expect(page.locator("#live-state")).to_have_text("Live")
    session = context.new_cdp_session(page)
    session.send("Performance.enable")

    def refreshed(times: int) -> tuple[float, float]:
        for _ in range(times):
            before = drawn
            page.clock.fast_forward(31_000)
            expect(page.locator("#drawn")).not_to_have_text(str(before))
        return counters(session)

    early = refreshed(10)
    late = refreshed(50)
    assert drawn > 60
    # A parsed page that the collector has not yet let go is a few hundred nodes; fifty of them would be thousands.
    page_nodes = page.evaluate("document.querySelectorAll('*').length")
    assert late[0] < early[0] + 6 * page_nodes
    assert late[1] <= early[1] + 2
    assert len(streams) == 1


@contextlib.contextmanager
def streams(shown: Dashboard, count: int) -> Iterator[list[bytes]]:
    """So many pages that listen; gives the first line of each answer."""
    host, port = shown.address.removeprefix("http://").split(":")
    with contextlib.ExitStack() as stack:
        lines = []
        for _ in range(count):
            connection = stack.enter_context(socket.create_connection((host, int(port)), PATIENCE_SECONDS))
            connection.sendall(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            lines.append(connection.recv(4096).partition(b"\r\n")[0])
        yield lines


def has_room(shown: Dashboard) -> bool:
    """Whether one more page would be told of news."""
    with streams(shown, 1) as (line,):
        return b"200" in line


def test_a_page_without_a_stream_says_so_and_refreshes(context: BrowserContext, planted: Deployment) -> None:
    """So many pages are open that this one gets none; it refreshes all the same, and listens again when others have gone."""
    page = context.new_page()
    with dashboard(planted.home("census"), "census") as shown:
        with streams(shown, MOST_STREAMS) as lines:
            assert all(b"200" in line for line in lines)
            page.clock.install()
            page.goto(shown.address)
            expect(page.locator("#live-state")).to_have_text("Refreshed every half minute: many pages are open")
            with page.expect_response(shown.address + "/"):
                page.clock.fast_forward(31_000)
            expect(page.locator("#live-state")).to_have_text("Refreshed every half minute: many pages are open")
        wait_until(lambda: has_room(shown), "the server has noticed that they are gone")
        page.clock.fast_forward(31_000)
        expect(page.locator("#live-state")).to_have_text("Live")
