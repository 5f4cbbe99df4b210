"""Dashboards in a real browser: every page in both languages, both themes and several sizes, by keyboard, live, and attacked."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from browser.chromium import broken_rules
from fakes.dashboards import Dashboard, dashboard
from fakes.deployment import FRENCH, Deployment, make, run_here

pytest.importorskip("playwright.sync_api", reason="no browser here: 'make test-browser' installs one")
from playwright.sync_api import Browser, BrowserContext, Page, expect

CENSUS_PAGES = ("/", "/people", "/activity", "/orders")
HEALTH_PAGES = ("/", "/activity")
# A hang guard; no test waits for it to pass.
PATIENCE_MS = 120_000


def open_context(browser: Browser, **options: Any) -> BrowserContext:
    """A visitor of their own, who is patient."""
    context = browser.new_context(**options)
    context.set_default_timeout(PATIENCE_MS)
    return context


@pytest.fixture
def signed_in(browser: Browser, census: Dashboard) -> Iterator[Page]:
    """The census dashboard with the operator's session; fails on any error in the console or request to somebody else."""
    context = open_context(browser)
    page = context.new_page()
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on(
        "request", lambda request: problems.append(request.url) if not request.url.startswith(census.address) else None
    )
    page.goto(census.with_key)
    yield page
    context.close()
    assert problems == []


def visit(page: Page, shown: Dashboard, path: str) -> None:
    """Open a page and wait for its content."""
    page.goto(shown.address + path)
    page.wait_for_selector("main section")


# Every two of a language, colours and a size meet; axe looks at the first width of each.
LOOKS: dict[str, tuple[tuple[Any, tuple[int, ...]], ...]] = {
    "en-CA": (("light", (360, 768)), ("dark", (1280, 3840))),
    "fr-CA": (("dark", (360, 768)), ("light", (1280, 3840))),
}


@pytest.mark.parametrize("language", LOOKS)
@pytest.mark.parametrize("role", ["census", "health"])
def test_a_page_suits_every_reader_window_and_colour(
    browser: Browser, census: Dashboard, health: Dashboard, role: str, language: str
) -> None:
    """Axe finds nothing, with details open; from a small telephone to a wall display, hashes and tables scroll in their own boxes."""
    shown, paths = (census, CENSUS_PAGES) if role == "census" else (health, HEALTH_PAGES)
    context = open_context(browser, locale=language)
    page = context.new_page()
    page.goto(shown.with_key)
    found = []
    for path in paths:
        visit(page, shown, path)
        for colours, widths in LOOKS[language]:
            page.emulate_media(color_scheme=colours)
            for width in widths:
                page.set_viewport_size({"width": width, "height": 900})
                assert (path, page.evaluate("document.documentElement.scrollWidth")) == (path, width)
            page.set_viewport_size({"width": widths[0], "height": 900})
            # A refresh of the page may have closed some.
            page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
            found += [(path, colours, each) for each in broken_rules(page)]
    context.close()
    assert found == []


def test_french_pages_are_french(browser: Browser, census: Dashboard) -> None:
    """Title, headings and figures; the page says which language it is in, and the choice stays."""
    context = open_context(browser, locale="en-CA")
    page = context.new_page()
    page.goto(census.with_key)
    page.get_by_role("link", name="Français").click()
    expect(page.locator("html")).to_have_attribute("lang", "fr")
    expect(page.get_by_role("heading", level=1)).to_have_text("La promesse tient")
    visit(page, census, "/people")
    expect(page).to_have_title("Budgets des personnes | census-agency | Tripartite")
    context.close()


@pytest.mark.parametrize("language", ["en", "fr"])
def test_the_audit_report_is_accessible_and_prints_well(
    browser: Browser, deployment: Deployment, tmp_path: Path, language: str
) -> None:
    """Axe finds nothing; on paper no row, chart or heading is torn from what belongs to it, and nothing leaves the sheet."""
    for role in ("researcher", "health", "census"):
        assert run_here("audit", "export", "--home", deployment.home(role), "--to", tmp_path / "parts" / role).code == 0
    written = tmp_path / "report.html"
    words = ("audit", "report", tmp_path / "parts", "--home", deployment.home("auditor"), "--to", written)
    assert run_here(*words, "--language", language).code == 0
    context = open_context(browser, locale="en-CA", viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(written.as_uri())
    expect(page.locator("html")).to_have_attribute("lang", language)
    assert broken_rules(page) == []
    page.emulate_media(media="print")
    # A sheet of A4 less its margins, at 96 dots an inch.
    page.set_viewport_size({"width": 680, "height": 1000})
    assert page.evaluate("document.documentElement.scrollWidth") <= 680
    style = "(all, name) => [...new Set(all.map(each => getComputedStyle(each)[name]))]"
    for selector, name, value in (
        ("tr", "breakInside", "avoid"),
        ("svg", "breakInside", "avoid"),
        ("h2", "breakAfter", "avoid"),
        (".panel:not(.verdict)", "breakInside", "auto"),
    ):
        assert page.eval_on_selector_all(selector, style, name) == [value]
    context.close()


def test_a_screen_reader_hears_the_page_in_order(signed_in: Page, census: Dashboard) -> None:
    """Landmarks, one first heading, named regions, charts as images with a description, tables with captions and headers."""
    visit(signed_in, census, "/")
    assert signed_in.locator("h1").count() == 1
    levels = signed_in.eval_on_selector_all("h1, h2, h3", "all => all.map(each => Number(each.tagName[1]))")
    assert all(after - before <= 1 for before, after in pairwise(levels))
    for landmark in ("banner", "navigation", "main", "contentinfo"):
        assert signed_in.get_by_role(landmark).count() == 1
    chart = signed_in.get_by_role("img", name="The most that anybody can believe about one person, and the limit")
    assert chart.count() == 1
    assert signed_in.locator("table:not(:has(caption))").count() == 0
    assert signed_in.locator("table thead th:not([scope=col])").count() == 0
    expect(signed_in.get_by_role("status")).to_have_text("Live")


def test_everything_can_be_done_with_the_keyboard(signed_in: Page, census: Dashboard) -> None:
    """The first key leads to the content; every control is reached in the order in which it stands, and is seen to be."""
    visit(signed_in, census, "/orders")
    signed_in.keyboard.press("Tab")
    expect(signed_in.locator(":focus")).to_have_text("Skip to the content")
    signed_in.keyboard.press("Enter")
    expect(signed_in.locator(":focus")).to_have_id("content")
    reached = []
    for _ in range(3):
        signed_in.keyboard.press("Tab")
        outline = signed_in.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none"
        reached.append(signed_in.evaluate("document.activeElement.id || document.activeElement.textContent.trim()"))
    assert reached == ["reason", "sure", "Shut down"]


def test_the_page_follows_what_happens(signed_in: Page, census: Dashboard, deployment: Deployment) -> None:
    """A new answer stands on the page without a reload, and not while it is paused."""
    visit(signed_in, census, "/")
    figure = signed_in.locator("#answers dd").first
    before = int(figure.inner_text())
    signed_in.evaluate("window.notReloaded = true")
    assert deployment.ask("age >= 40").code == 0
    expect(figure).to_have_text(str(before + 1), timeout=PATIENCE_MS)
    signed_in.get_by_role("button", name="Pause").click()
    expect(signed_in.get_by_role("status")).to_have_text("Paused")
    assert deployment.ask("age >= 41").code == 0
    # A change of the page has come: the server says so on every new stream.
    signed_in.evaluate("new Promise(done => new EventSource('/events').addEventListener('state', done))")
    expect(figure).to_have_text(str(before + 1))
    signed_in.get_by_role("button", name="Go on").click()
    expect(figure).to_have_text(str(before + 2), timeout=PATIENCE_MS)
    assert signed_in.evaluate("window.notReloaded")


def test_a_page_is_right_again_after_its_server_was_away(browser: Browser, deployment: Deployment) -> None:
    """The connection is lost, the dashboard starts again elsewhere in time, and the page shows the newest state."""
    context = open_context(browser)
    page = context.new_page()
    with dashboard(deployment.home("census"), "census") as shown:
        page.goto(shown.address)
        page.wait_for_selector("#answers")
        shown.process.send_signal(signal.SIGSTOP)
        page.evaluate("fetch('/healthz', {signal: AbortSignal.timeout(500)}).catch(() => null)")
        shown.process.send_signal(signal.SIGCONT)
        before = int(page.locator("#answers dd").first.inner_text())
        assert deployment.ask("age >= 42").code == 0
        expect(page.locator("#answers dd").first).to_have_text(str(before + 1), timeout=PATIENCE_MS)
    expect(page.locator("#live-state")).to_have_class("lost", timeout=PATIENCE_MS)
    context.close()


def test_a_browser_whose_clock_is_wrong_shows_the_server_s_times(browser: Browser, census: Dashboard) -> None:
    """A year ahead, a year behind, or in another zone: the same page."""
    shown = []
    for shift, zone in ((0, "UTC"), (366, "Asia/Tokyo"), (-366, "America/Toronto")):
        context = open_context(browser, timezone_id=zone)
        page = context.new_page()
        page.clock.install(time=1_700_000_000 + shift * 86_400)
        visit(page, census, "/")
        expect(page.locator("#live-state")).to_have_text("Live", timeout=PATIENCE_MS)
        # Ages move on between the three; times and everything else do not.
        shown.append(re.sub(r"\d+ (second|minute)s? ago", "", page.inner_text("main")))
        context.close()
    assert shown[0] == shown[1] == shown[2]


def test_a_reader_sees_the_public_face_alone(browser: Browser, census: Dashboard) -> None:
    """Without the key: one page, no order, no figure of people. A first visit moves less than 150 kB."""
    context = open_context(browser)
    page = context.new_page()
    page.goto(census.address)
    page.wait_for_selector("#belief")
    sizes = page.evaluate(
        "[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]"
        ".reduce((sum, each) => sum + each.transferSize, 0)"
    )
    assert 0 < sizes < 150_000
    assert page.locator("nav a").all_inner_texts() == ["Public face"]
    for path in CENSUS_PAGES[1:]:
        answer = page.goto(census.address + path)
        assert answer is not None
        assert answer.status == 403
        expect(page.get_by_role("heading", level=1)).to_have_text("This page is for the agency's own staff")
    context.close()


def test_two_dashboards_of_one_machine_keep_their_sessions(
    browser: Browser, census: Dashboard, health: Dashboard
) -> None:
    """A browser sends the cookies of 127.0.0.1 to every port; each dashboard has its own, which no script and no other site gets."""
    context = open_context(browser)
    page = context.new_page()
    for shown in (census, health):
        page.goto(shown.with_key)
        assert page.url == f"{shown.address}/"
    for shown in (census, health):
        answer = page.goto(f"{shown.address}/activity")
        assert answer is not None
        assert answer.status == 200
    cookies = [(each["name"], each["httpOnly"], each["secure"], each["sameSite"]) for each in context.cookies()]
    assert sorted(cookies) == [(f"tripartite-session-{role}", True, True, "Strict") for role in ("census", "health")]
    assert page.evaluate("document.cookie") == ""
    context.close()


def test_the_checkpoint_can_be_copied(browser: Browser, census: Dashboard) -> None:
    """A button copies it, to compare it with another party's."""
    context = open_context(browser)
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=census.address)
    page = context.new_page()
    page.goto(census.address)
    page.get_by_role("button", name="Copy the checkpoint").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == page.locator("#checkpoint").inner_text()
    context.close()


def test_what_is_printed_is_readable(signed_in: Page, census: Dashboard, tmp_path: Path) -> None:
    """On paper there are neither buttons nor navigation, and the main picture is there."""
    visit(signed_in, census, "/")
    signed_in.emulate_media(media="print")
    assert not signed_in.locator("nav.pages").is_visible()
    assert not signed_in.get_by_role("button").first.is_visible()
    assert signed_in.locator("#belief svg").is_visible()
    signed_in.pdf(path=tmp_path / "face.pdf")
    assert (tmp_path / "face.pdf").read_bytes().startswith(b"%PDF")


def test_an_order_is_given_on_the_page_and_seen_in_a_second_tab(browser: Browser, tmp_path: Path) -> None:
    """Shut down in one tab, while the node is down, with reason and confirmation; the other tab sees it; again changes nothing.

    A node that starts after it does not answer until the page reopens it; with the key elsewhere it shows the command instead.
    """
    deployment = make(tmp_path / "deployment", population=10)
    with dashboard(deployment.home("census"), "census") as shown:
        context = open_context(browser)
        first, second = context.new_page(), context.new_page()
        first.goto(shown.with_key)
        expect(first.locator("#verdict")).to_contain_text("The node's process is not running.")
        second.goto(shown.address + "/orders")
        first.goto(shown.address + "/orders")
        first.get_by_label("Reason").fill('<script>alert("x")</script> a drill')
        first.get_by_role("button", name="Shut down").click()
        # The box that says that it is meant was not ticked: the browser does not send the form.
        expect(first).to_have_url(shown.address + "/orders")
        # A text that somebody is writing stays, even when the order below it has come from elsewhere.
        second.get_by_label("Reason").fill("again")
        first.get_by_label("I mean it").check()
        first.get_by_role("button", name="Shut down").click()
        expect(first.locator("#outcome")).to_contain_text("The service is shut down.")
        second.get_by_label("I mean it").check()
        second.get_by_role("button", name="Shut down").click()
        expect(second.locator("#outcome")).to_contain_text("was shut down already")
        first.goto(shown.address)
        expect(first.locator("#verdict")).to_contain_text('by the operator: <script>alert("x")</script> a drill')
        assert run_here("census", "status", "--home", deployment.home("census"), "--json").result["state"] == "shutdown"
        with deployment.nodes():
            assert deployment.ask("age >= 0", FRENCH).error["code"] == "SERVICE_SHUT_DOWN"
            first.goto(shown.address + "/orders")
            first.get_by_label("Reason").fill("the drill is over")
            first.get_by_label("I mean it").check()
            first.get_by_role("button", name="Reopen").click()
            expect(first.locator("#outcome")).to_contain_text("open again")
            assert deployment.ask("age >= 0", FRENCH).code == 0
        (deployment.home("census") / "keys" / "operator.key").unlink()
        first.goto(shown.address + "/orders")
        expect(first.locator("main pre")).to_contain_text("tripartite census shutdown --home")
        assert first.get_by_role("button", name="Shut down").count() == 0
        context.close()
