"""The lab's pages in a real browser: every page in both languages, themes and many sizes, by keyboard, with and without script."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias
from urllib.parse import urlencode

import pytest
from browser.chromium import CUT_OFF, TORN_WORDS, broken_rules
from browser.lab_site import LabSite, lab_site
from fakes.patience import PATIENCE_SECONDS

from broker_common.privacy.accounting import answers_left, cap_units, param_of, price
from broker_common.privacy.belief import belief_of_units
from broker_common.privacy.table_laplace import margin
from policy_lab.document.model import Table
from policy_lab.document.said import name_of
from policy_lab.figures.figure import Figure
from policy_lab.site.pages import READERS as EXPLAINED
from policy_lab.site.pages import SHOWN

pytest.importorskip("playwright.sync_api", reason="no browser here: 'make test-browser' installs one")
from playwright.sync_api import Browser, BrowserContext, Dialog, Page, Route, expect

FIGURE_PATHS = tuple(f"/figures/{key}" for key in SHOWN)
PATHS = ("/", "/local-noise", *FIGURE_PATHS)
READERS = tuple(EXPLAINED)
PATIENCE_MS = 1000 * PATIENCE_SECONDS
SCRIPT = '<script>alert("x")</script>'
# Every two of a language, colours and a size meet: axe looks at the first width of each.
NARROW, WIDE = (320, 360, 375), (1280, 768, 1400, 1920)
LOOKS: dict[str, tuple[tuple[Any, tuple[int, ...]], ...]] = {
    "en-CA": (("light", NARROW), ("dark", WIDE)),
    "fr-CA": (("dark", NARROW), ("light", WIDE)),
}


@pytest.fixture(scope="module")
def site() -> Iterator[LabSite]:
    """The lab, served."""
    with lab_site() as served:
        yield served


def open_context(browser: Browser, **options: Any) -> BrowserContext:
    """A visitor of their own, who is patient."""
    context = browser.new_context(**options)
    context.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    return context


def refusing(problems: list[str]) -> Callable[[Dialog], None]:
    """Close every dialog, and record that there was one."""

    def refuse(dialog: Dialog) -> None:
        problems.append(dialog.message)
        dialog.dismiss()

    return refuse


@contextmanager
def visitor(
    browser: Browser, site: LabSite, language: str = "en-CA", colours: Any = "light", width: int = 1280
) -> Iterator[Page]:
    """Somebody before a page; fails on any error in the console, any dialog, and any request to somebody else."""
    window = {"width": width, "height": 900}
    context = open_context(browser, locale=language, color_scheme=colours, viewport=window)
    opened = context.new_page()
    problems: list[str] = []

    opened.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on("dialog", refusing(problems))
    opened.on(
        "request", lambda request: problems.append(request.url) if not request.url.startswith(site.address) else None
    )
    yield opened
    context.close()
    assert problems == []


@pytest.fixture
def page(browser: Browser, site: LabSite) -> Iterator[Page]:
    """A visitor who reads English."""
    with visitor(browser, site) as opened:
        yield opened


@pytest.mark.parametrize("language", LOOKS)
@pytest.mark.parametrize("path", PATHS)
def test_a_page_suits_every_reader_window_and_colour(browser: Browser, site: LabSite, path: str, language: str) -> None:
    """No rule of accessibility is broken, with either explanation; from a telephone to a screen nothing is cut off or torn."""
    readers = READERS if path in FIGURE_PATHS else ()
    colours, widths = LOOKS[language][0]
    with visitor(browser, site, language, colours, widths[0]) as page:
        page.goto(site.address + path)
        assert page.locator("html").get_attribute("lang") == language[:2]
        found = []
        for colours, widths in LOOKS[language]:
            page.emulate_media(color_scheme=colours)
            for width in widths:
                page.set_viewport_size({"width": width, "height": 900})
                found += [(colours, width, each) for each in sideways(page)]
                if width in {360, 1400}:
                    found += [(colours, width, each) for each in hidden_or_torn(page)]
            page.set_viewport_size({"width": widths[0], "height": 900})
            found += [(colours, widths[0], each) for each in broken_rules(page)]
            for reader in readers[1:]:
                page.locator(f"label[for=for-{reader}]").click()
                expect(page.locator(f".for-{reader}")).to_be_visible()
                for width in reversed(widths):
                    page.set_viewport_size({"width": width, "height": 900})
                    found += [(colours, width, each) for each in sideways(page)]
                # Nothing else has changed.
                found += [(colours, widths[0], each) for each in broken_rules(page, "#explanation")]
                page.locator(f"label[for=for-{readers[0]}]").click()
        assert found == []


@pytest.mark.parametrize("path", ["/nowhere", "/figures/tradeoff?cap=NaN"])
def test_an_error_breaks_no_rule_of_accessibility(browser: Browser, site: LabSite, path: str) -> None:
    """Axe finds nothing on what a reader sees who came to a wrong address."""
    for language, looks in LOOKS.items():
        context = open_context(browser, locale=language)
        page = context.new_page()
        page.goto(site.address + path)
        for colours, widths in looks:
            page.emulate_media(color_scheme=colours)
            page.set_viewport_size({"width": widths[0], "height": 900})
            assert broken_rules(page) == []
        context.close()


def sideways(page: Page) -> list[str]:
    """A page that is wider than its window, and scrolls sideways outside of its boxes."""
    wide, window = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    return [] if wide == window else [f"{wide} wide in a window of {window}"]


def hidden_or_torn(page: Page) -> list[str]:
    """Pictures that are not there or have no description, words on two lines, rows and captions that are cut off."""
    pictures: list[str] = page.evaluate(
        """async () => {
          const pictures = [...document.querySelectorAll("#drawn img")];
          await Promise.all(pictures.map((each) => each.decode()));
          return pictures.filter((each) => !each.naturalWidth || !each.alt).map((each) => each.currentSrc);
        }"""
    )
    return [*pictures, *page.evaluate(TORN_WORDS), *page.evaluate(CUT_OFF)]


def test_pages_are_in_the_language_of_their_reader(page: Page, site: LabSite) -> None:
    """The choice stays, on each kind of page; the sliders stay where they were."""
    page.goto(f"{site.address}/figures/tradeoff?cap=70")
    page.get_by_role("link", name="Français").click()
    expect(page.locator("html")).to_have_attribute("lang", "fr")
    expect(page.locator("#cap")).to_have_value("70")
    expect(page.locator("#cap-shown")).to_have_text("70\u00a0%")
    for path in PATHS[:3]:
        page.goto(site.address + path)
        expect(page.locator("html")).to_have_attribute("lang", "fr")
        expect(page.get_by_role("link", name="Aperçu")).to_be_visible()


def test_the_overview_leads_to_every_page(page: Page, site: LabSite) -> None:
    """Each figure with its picture and a sentence, and local noise first."""
    page.goto(site.address)
    links = page.locator(".card a")
    assert [link.get_attribute("href") for link in links.all()] == ["/local-noise", *FIGURE_PATHS]
    titles = links.all_inner_texts()
    leave_out_plots(page)
    for path, title in zip(FIGURE_PATHS, titles[1:], strict=True):
        page.goto(site.address)
        page.locator(f'.card a[href="{path}"]').click()
        expect(page.get_by_role("heading", level=1)).to_have_text(title)


def test_moving_a_slider_draws_the_figure_anew(page: Page, site: LabSite) -> None:
    """Number, sentences, table, plots and address follow; the page is not loaded again."""
    page.goto(f"{site.address}/figures/tradeoff")
    page.evaluate("window.notReloaded = true")
    before = page.locator("#drawn img").first.get_attribute("src")
    page.locator("#cap").fill("70")
    expect(page.locator("#cap-shown")).to_have_text("70%")
    expect(page.locator("#drawn")).to_contain_text("A limit of 70%")
    expect(page.locator("#explanation")).to_contain_text("With a limit of 70%")
    assert page.locator("#drawn img").first.get_attribute("src") != before
    expect(page).to_have_url(re.compile(r"[?&]cap=70(&|$)"))
    assert page.evaluate("window.notReloaded")
    drawn = page.locator("#drawn").inner_text()
    page.goto(page.url)
    assert page.locator("#drawn").inner_text() == drawn
    expect(page.locator("#cap")).to_have_value("70")


def test_the_last_movement_wins(page: Page, site: LabSite) -> None:
    """However late an earlier answer comes: what is shown in the end is where the slider stands."""
    held: list[Route] = []
    page.goto(f"{site.address}/figures/tradeoff")
    page.route("**/figures/tradeoff?*cap=70*", lambda route: held.append(route) if not held else route.continue_())
    with page.expect_request("**/figures/tradeoff?*cap=70*"):
        page.locator("#cap").fill("70")
    page.locator("#cap").fill("90")
    page.wait_for_function("new Promise(done => setTimeout(() => done(true), 0))")
    expect(page.locator("#cap-shown")).to_have_text("90%")
    page.evaluate(
        "window.seen = []; new MutationObserver(() => window.seen.push(document.querySelector('#drawn').innerText))"
        ".observe(document.body, {childList: true, subtree: true})"
    )
    held[0].continue_()
    expect(page.locator("#drawn")).to_contain_text("A limit of 90%")
    assert not any("A limit of 70%" in each for each in page.evaluate("window.seen"))
    expect(page).to_have_url(re.compile(r"[?&]cap=90(&|$)"))


def test_everything_works_without_script(browser: Browser, site: LabSite) -> None:
    """The sliders and a button are a form; the explanations change places by style alone."""
    context = open_context(browser, java_script_enabled=False, locale="en-CA")
    page = context.new_page()
    page.goto(f"{site.address}/figures/tradeoff")
    expect(page.locator(".for-citizen")).to_be_visible()
    expect(page.locator(".for-specialist")).to_be_hidden()
    page.get_by_text("For specialists").click()
    expect(page.locator(".for-specialist")).to_be_visible()
    expect(page.locator(".for-citizen")).to_be_hidden()
    page.locator("#cap").fill("70")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#drawn")).to_contain_text("A limit of 70%")
    expect(page.locator("#cap")).to_have_value("70")
    # Who it is explained for is part of the address, too.
    expect(page.locator(".for-specialist")).to_be_visible()
    page.goto(f"{site.address}/local-noise")
    # A browser whose scripts are switched off by its developer tools hides what stands there for those without.
    assert "your browser runs no scripts" in page.locator("noscript").inner_html()
    context.close()


@pytest.mark.parametrize("path", FIGURE_PATHS)
def test_everything_can_be_done_with_the_keyboard(page: Page, site: LabSite, path: str) -> None:
    """Each control is reached in the order in which it stands, is seen to be, and an arrow moves it."""
    leave_out_plots(page)
    page.goto(site.address + path)
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("Skip to the content")
    page.keyboard.press("Enter")
    reached = []
    settings = SHOWN[path.rpartition("/")[2]].settings
    for _ in range(1 + len(settings)):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id"))
        seen = "const at = document.activeElement; getComputedStyle(at.type === 'radio' ? at.nextElementSibling : at).outlineStyle"
        assert page.evaluate(f"(() => {{ {seen.replace('; get', '; return get')} }})()") != "none"
    assert reached == ["for-citizen", *(setting.key for setting in settings)]
    first = next(setting for setting in settings if not setting.choices)
    page.locator(f"#{first.key}").focus()
    page.keyboard.press("ArrowLeft")
    moved = Decimal(first.default) - first.step
    expect(page).to_have_url(re.compile(rf"[?&]{first.key}={moved}(&|$)"))
    page.locator("#for-citizen").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".for-specialist")).to_be_visible()
    expect(page).to_have_url(re.compile(r"[?&]reader=specialist(&|$)"))


def test_a_bad_address_is_an_error_in_words(browser: Browser, site: LabSite) -> None:
    """The page says what the setting may be; a slider that is moved puts it right."""
    context = open_context(browser, locale="en-CA")
    page = context.new_page()
    leave_out_plots(page)
    problems: list[str] = []
    page.on("dialog", refusing(problems))
    page.on("pageerror", lambda error: problems.append(str(error)))
    for query in ("cap=NaN", f"cap={SCRIPT}", "cap=1e308", f"cap={'9' * 3000}", f"{SCRIPT}=1"):
        answer = page.goto(f"{site.address}/figures/tradeoff?{query}")
        assert answer is not None
        assert (query, answer.status) == (query, 400)
        expect(page.get_by_role("alert")).to_contain_text(re.compile("from 51 to 99|is no setting of the figure"))
        page.locator("#cap").fill("70")
        expect(page.locator("#drawn")).to_contain_text("A limit of 70%")
        expect(page.get_by_role("alert")).to_have_count(0)
    context.close()
    assert problems == []


def test_two_servers_do_not_know_each_other(browser: Browser, page: Page, site: LabSite) -> None:
    """On two ports; each draws by itself, and one that ends is noticed, and goes on when it is there again."""
    page.goto(f"{site.address}/figures/tradeoff?cap=70")
    context = open_context(browser, locale="en-CA")
    second = context.new_page()
    with lab_site() as other:
        assert other.address != site.address
        second.goto(f"{other.address}/figures/tradeoff?cap=90")
        expect(second.locator("#drawn")).to_contain_text("A limit of 90%")
        page.reload()
        expect(page.locator("#drawn")).to_contain_text("A limit of 70%")
        other.process.kill()
        other.process.wait()
        second.locator("#cap").fill("71")
        # The drawing stays, and the page says why nothing moves.
        expect(second.locator("#state")).to_contain_text("The server does not answer")
        expect(second.locator("#drawn")).to_contain_text("A limit of 90%")
        page.reload()
        expect(page.locator("#drawn")).to_contain_text("A limit of 70%")
    with lab_site(other.port):
        second.locator("#cap").fill("72")
        expect(second.locator("#drawn")).to_contain_text("A limit of 72%")
        expect(second.locator("#state")).to_have_text("")
    context.close()


def test_what_is_printed_is_readable(page: Page, site: LabSite) -> None:
    """On paper there are both explanations and the plots, and neither sliders nor navigation."""
    page.goto(f"{site.address}/figures/tradeoff")
    page.emulate_media(media="print")
    for selector in (".for-citizen", ".for-specialist", "#drawn img >> nth=0"):
        assert page.locator(selector).is_visible()
    for selector in ("nav.pages", "#figure"):
        assert not page.locator(selector).is_visible()


# --- numbers -----------------------------------------------------------------------------------------------------------


def settings_of(figure: Figure) -> Iterator[dict[str, str]]:
    """The usual values, and each setting at both ends and at every choice."""
    yield {}
    for setting in figure.settings:
        values = [key for key, _ in setting.choices] or [str(setting.low), str(setting.high)]
        yield from ({setting.key: value} for value in values)


def leave_out_plots(page: Page) -> None:
    """Numbers stand in tables; drawing each plot for them would take longer than everything else."""
    empty = '<svg xmlns="http://www.w3.org/2000/svg"/>'
    page.route("**/plots/**", lambda route: route.fulfill(body=empty, content_type="image/svg+xml"))


# The cells of tables, by the keys of the tables, as the server writes them for each of several addresses.
_ROWS = """
(addresses) => Promise.all(addresses.map(async (address) => {
  const page = new DOMParser().parseFromString(await (await fetch(address)).text(), "text/html");
  const rows = (box) => [...box.querySelectorAll("tbody tr")];
  const texts = (row) => [...row.cells].map((cell) => cell.textContent.trim());
  return Object.fromEntries([...page.querySelectorAll("#drawn .scroll")].map((box) => [box.id, rows(box).map(texts)]));
}))
"""
Rows: TypeAlias = list[list[str]]


def shown_rows(page: Page, site: LabSite, key: str, settings: Sequence[Mapping[str, object]]) -> list[dict[str, Rows]]:
    """The texts of each table of a figure, for several settings; asked for by its page, as a slider does."""
    page.goto(f"{site.address}/figures/{key}")
    found: list[dict[str, Rows]] = page.evaluate(_ROWS, [f"/figures/{key}?{urlencode(each)}" for each in settings])
    return found


@pytest.mark.parametrize("key", SHOWN)
def test_tables_on_pages_are_those_of_the_figures(page: Page, site: LabSite, key: str) -> None:
    """Over a grid of settings: every number of every table, digit for digit as far as it is shown."""
    figure = SHOWN[key]
    leave_out_plots(page)
    grid = list(settings_of(figure))
    for given, shown in zip(grid, shown_rows(page, site, key, grid), strict=True):
        tables = [block for block in figure.draw(figure.values(given)).blocks if isinstance(block, Table)]
        assert shown.keys() == {name_of(table.key) for table in tables}
        for table in tables:
            assert_same(shown[name_of(table.key)], table)


def assert_same(shown: list[list[str]], table: Table) -> None:
    """Every cell, numbers to the digits that their column shows."""
    assert len(shown) == len(table.rows)
    for texts, row in zip(shown, table.rows, strict=True):
        for place, (text, cell) in enumerate(zip(texts, row, strict=True)):
            if isinstance(cell, int | float | Fraction):
                digits = table.digits[place] if place < len(table.digits) else None
                room = 0.5000001 * 10.0**-digits if digits is not None else abs(float(cell)) * 1e-6
                assert abs(float(text.replace(",", "")) - float(cell)) <= room
            elif cell is None:
                assert text == ""


@pytest.mark.parametrize("scale", [1, 30, 200])
def test_figure_7_on_the_page_is_the_product_s_own_accounting(page: Page, site: LabSite, scale: int) -> None:
    """Margin, price, answers and belief, computed here by the code that nodes charge with."""
    leave_out_plots(page)
    caps = (51, 60, 80, 99)
    grid = [{"cap": cap, "scale": scale, "answers": 17} for cap in caps]
    for cap, tables in zip(caps, shown_rows(page, site, "tradeoff", grid), strict=True):
        units = cap_units(param_of(Fraction(cap, 100)))
        (table,) = tables.values()
        rows = {row[0]: row for row in table}
        assert str(scale) in rows
        for shown_scale, row in rows.items():
            b = int(shown_scale)
            answers = answers_left(units, 0, b)
            shown = [Decimal(text.replace(",", "")) for text in row[1:]]
            assert [int(each) for each in shown[:3]] == [margin(b), price(b), answers]
            for text, count in zip(shown[3:], (answers, 17), strict=True):
                exact = 100 * Decimal(belief_of_units(count * price(b)))
                # Rounded up at five places of the share, and then to three of the percentage.
                assert exact - Decimal("0.0005") <= text <= exact + Decimal("0.0015")
