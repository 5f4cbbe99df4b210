"""Local noise in three steps, in a real browser: nothing leaves it, its numbers are the library's, and it needs no server."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser.chromium import RULES
from browser.lab_site import LabSite, lab_site
from fakes.patience import PATIENCE_SECONDS

from broker_common.language import LANGUAGES, language
from policy_lab.figures.form_law import FIELDS, Choice, Number, sent_form, uniform_of
from policy_lab.mechanisms.bounded import BoundedLaplace
from policy_lab.mechanisms.randomised_response import RandomisedResponse
from policy_lab.site.explainer import explainer_file, file_name

pytest.importorskip("playwright.sync_api", reason="no browser here: 'make test-browser' installs one")
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

PATIENCE_MS = 1000 * PATIENCE_SECONDS
# The places of the slider.
EPSILONS = (0.1, 0.2, 0.5, 1, 1.5, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20)
PEOPLE = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000)
USUAL_EPSILON, USUAL_PEOPLE = 5.0, 10_000
HEIGHT = next(field for field in FIELDS if field.key == "height")
FORM = {"age": "30", "height": "181", "weight": "77", "smoking": "every day", "language": "French"}
# Every way that a page has to tell somebody something.
ATTEMPTS = {
    "fetch": "await fetch('{url}').catch(() => null)",
    "beacon": "navigator.sendBeacon('{url}', 'x')",
    "request": "await new Promise(done => {{ const r = new XMLHttpRequest(); r.onloadend = done; r.open('POST', '{url}'); r.send('x') }})",
    "picture": "await new Promise(done => {{ const i = new Image(); i.onload = i.onerror = done; i.src = '{url}' }})",
    "events": "await new Promise(done => {{ try {{ new EventSource('{url}').onerror = done }} catch {{ done() }} }})",
    "frame": "await new Promise(done => {{ const f = document.createElement('iframe'); f.onload = f.onerror = done; f.src = '{url}'; document.body.append(f) }})",
    "script": "await new Promise(done => {{ const s = document.createElement('script'); s.onload = s.onerror = done; s.src = '{url}'; document.head.append(s) }})",
    "form": "(() => {{ const f = document.createElement('form'); f.action = '{url}'; document.body.append(f); f.submit() }})()",
}


@pytest.fixture(scope="module")
def site() -> Iterator[LabSite]:
    """The lab, served."""
    with lab_site() as served:
        yield served


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page as files, without any server."""
    made = tmp_path_factory.mktemp("explainer")
    for code in LANGUAGES:
        (made / file_name(code)).write_text(explainer_file(language(code)), "utf-8")
    return made


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A visitor; the test fails on any error in the console."""
    context = browser.new_context(locale="en-CA", viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    opened = context.new_page()
    problems: list[str] = []
    opened.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: problems.append(str(error)))
    yield opened
    context.close()
    assert problems == []


def fill(page: Page, form: dict[str, str] = FORM) -> None:
    """Fill in the form."""
    for field in FIELDS:
        if isinstance(field, Number):
            page.locator(f"#{field.key}").fill(form[field.key])
        else:
            page.locator(f"#{field.key}").select_option(form[field.key])


def set_epsilon(page: Page, epsilon: float) -> None:
    """Move the slider there."""
    page.locator("#epsilon").fill(str(EPSILONS.index(epsilon)))


def figure(page: Page, selector: str) -> float:
    """The number in a text, as English writes it."""
    found = re.search(r"-?[\d,]+(\.\d+)?", page.locator(selector).inner_text())
    assert found is not None
    return float(found[0].replace(",", ""))


def heard_by(page: Page) -> list[str]:
    """The addresses from which a page gets an answer from here on."""
    heard: list[str] = []
    page.on("response", lambda response: heard.append(response.url))
    return heard


def use_everything(page: Page, downloads: Path) -> None:
    """Fill in the form, move both sliders, look at each field, draw, download."""
    fill(page)
    for place in ("0", "7", "14"):
        page.locator("#epsilon").fill(place)
        page.locator("#people").fill(place[:1])
    for field in FIELDS:
        page.locator("#looked-at").select_option(field.key)
    page.get_by_role("button", name="Make up a person").click()
    page.get_by_role("button", name="Draw the noise again").click()
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download what would be sent").click()
    waiting.value.save_as(downloads / "sent.json")


@pytest.mark.parametrize("where", ["served", "a file"])
def test_nothing_leaves_the_browser(page: Page, site: LabSite, folder: Path, tmp_path: Path, where: str) -> None:
    """After the page itself no request is made, whatever is done on it; nothing is kept, and nothing stands in the address."""
    address = f"{site.address}/local-noise" if where == "served" else (folder / file_name("en")).as_uri()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(address)
    assert [each for each in requests if not each.startswith("data:")] == [address]
    requests.clear()
    use_everything(page, tmp_path)
    assert [each for each in requests if not each.startswith("blob:")] == []
    assert page.url == address
    kept = "[localStorage.length, sessionStorage.length, document.cookie.length]"
    assert page.evaluate(kept) == [0, 0, 0]
    assert page.context.cookies() == []


@pytest.mark.parametrize("name", ATTEMPTS)
def test_the_page_could_send_nothing_if_it_tried(browser: Browser, site: LabSite, folder: Path, name: str) -> None:
    """Each way out is shut by the page's own policy, for a file by itself; the server is there and would have heard."""
    for address in (f"{site.address}/local-noise", (folder / file_name("en")).as_uri()):
        context = browser.new_context()
        page = context.new_page()
        page.goto(address)
        heard = heard_by(page)
        refused = page.evaluate(
            "async () => {"
            "const refused = new Promise(done => document.addEventListener('securitypolicyviolation', done, { once: true }));"
            f"{ATTEMPTS[name].format(url=f'{site.address}/static/icon.svg?secret')};"
            # A hang guard; no test that passes waits for it.
            f"const never = new Promise(done => setTimeout(() => done({{}}), {PATIENCE_MS // 5}));"
            "return (await Promise.race([refused, never])).effectiveDirective }"
        )
        assert refused in {"connect-src", "img-src", "frame-src", "child-src", "script-src-elem", "form-action"}
        assert heard == []
        context.close()


def test_what_would_hear_is_there(page: Page, site: LabSite) -> None:
    """The same attempt succeeds from a page that may: the tests above would see a request that is made."""
    page.goto(site.address)
    heard = heard_by(page)
    page.evaluate(f"async () => {{ {ATTEMPTS['fetch'].format(url=f'{site.address}/static/icon.svg?secret')} }}")
    assert heard[-1] == f"{site.address}/static/icon.svg?secret"


def test_the_file_works_without_a_server_in_both_languages(page: Page, folder: Path) -> None:
    """It says so in words of its own; the other language is the file beside it."""
    page.goto((folder / file_name("en")).as_uri())
    expect(page.get_by_text("Nothing that you type leaves this page.")).to_be_visible()
    assert page.locator("nav.pages").count() == 0
    page.get_by_role("link", name="Français").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Le bruit local en trois étapes")
    expect(page.locator("#figure-keep")).to_have_text(re.compile(r"^\d+,\d\d\u00a0%$"))
    page.get_by_role("link", name="English").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Local noise in three steps")


# --- numbers -----------------------------------------------------------------------------------------------------------

VALUES = {"age": ("18", "59", "100"), "height": ("120", "171", "219"), "weight": ("35", "74", "184")}


def shown_law(page: Page) -> list[tuple[str, float, int]]:
    """Label, share and number drawn of every row of the distribution."""
    rows: list[list[str]] = page.locator("#law tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].slice(0, 3).map(cell => cell.textContent))"
    )
    return [(label, float(share.rstrip("%")) / 100, int(count.replace(",", ""))) for label, share, count in rows]


def ends_of(label: str) -> tuple[int, int]:
    """The first and the last number of a row."""
    numbers = [int(each) for each in re.findall(r"\d+", label)]
    return numbers[0], numbers[-1]


@pytest.mark.parametrize("key", VALUES)
def test_numbers_of_a_number_are_the_library_s(page: Page, folder: Path, key: str) -> None:
    """Distribution, scale, sensitivity, mean, epsilon and belief, over a grid of epsilons and values."""
    field = next(each for each in FIELDS if each.key == key)
    assert isinstance(field, Number)
    page.goto((folder / file_name("en")).as_uri())
    fill(page)
    page.locator("#looked-at").select_option(key)
    for epsilon, value in itertools.product(EPSILONS, VALUES[key]):
        set_epsilon(page, epsilon)
        page.locator(f"#{key}").fill(value)
        each = epsilon / len(FIELDS)
        law = BoundedLaplace(field.low, field.high, each, "clamped")
        chances = field.chances(int(value), each)
        seen = 0
        for label, share, _ in shown_law(page):
            first, last = ends_of(label)
            assert seen in {first, 0}
            seen = last + 1
            assert abs(share - sum(chances[first - field.low : last - field.low + 1])) < 0.6e-4
            # Values rounded to these numbers, by the law of the mechanism.
            below = float(law.cdf(int(value), first - 0.5)) if first > field.low else 0.0
            upto = float(law.cdf(int(value), last + 0.5)) if last < field.high else 1.0
            assert abs(share - (upto - below)) < 0.6e-4
        assert seen == field.high + 1
        assert figure(page, "#figure-sensitivity") == field.sensitivity == law.range
        assert abs(figure(page, "#figure-scale") - law.range / each) <= 0.0501
        mean = sum(chance * (field.low + place) for place, chance in enumerate(chances))
        assert abs(figure(page, "#figure-mean") - mean) <= 0.00501
        off = abs(mean - int(value))
        assert ("right on average" in page.locator("#crowd").inner_text()) == (off < 0.005)
        # Rounding to whole numbers moves a mean by less than a half.
        assert abs(mean - float(law.mean(int(value)))) < 0.5
        assert abs(figure(page, "#figure-keep") / 100 - chances[int(value) - field.low]) < 0.6e-4
        assert_promises(page, epsilon, law.real_epsilon)


@pytest.mark.parametrize("key", [field.key for field in FIELDS if isinstance(field, Choice)])
def test_numbers_of_a_choice_are_the_library_s(page: Page, folder: Path, key: str) -> None:
    """Distribution, chance of the truth, epsilon, belief and what a survey finds, over a grid of epsilons, answers and people."""
    field = next(each for each in FIELDS if each.key == key)
    assert isinstance(field, Choice)
    page.goto((folder / file_name("en")).as_uri())
    fill(page)
    page.locator("#looked-at").select_option(key)
    for epsilon, place in itertools.product(EPSILONS, range(len(field.choices))):
        set_epsilon(page, epsilon)
        page.locator(f"#{key}").select_option(index=place)
        people = PEOPLE[(EPSILONS.index(epsilon) + place) % len(PEOPLE)]
        page.locator("#people").fill(str(PEOPLE.index(people)))
        response = RandomisedResponse(len(field.choices), epsilon / len(FIELDS))
        law = response.law(place)
        assert [abs(share - chance) < 0.6e-4 for (_, share, _), chance in zip(shown_law(page), law, strict=True)] == [
            True for _ in field.choices
        ]
        assert abs(figure(page, "#figure-keep") / 100 - response.keep) < 0.6e-4
        others = 0.8 * people / (len(field.choices) - 1)
        error = response.standard_error([0.2 * people, *[others] * (len(field.choices) - 1)])[0] / people
        text = page.locator("#crowd").inner_text().replace(",", "")
        assert f"If {people} people answer" in text
        found = re.search(r"(?:within|off by) ([\d.]+)", text)
        assert found is not None
        assert abs(float(found[1]) - 100 * 1.959964 * error) <= 0.00501
        assert ("too few people" in text) == (1.959964 * error >= 0.2)
        assert_promises(page, epsilon, response.real_epsilon)


def assert_promises(page: Page, epsilon: float, each: float) -> None:
    """Epsilon of the field and of the form, and the beliefs that they allow, rounded up."""
    assert abs(figure(page, "#figure-epsilon") - each) <= 0.00501
    assert figure(page, "#figure-total") == epsilon
    for selector, spent in (("#belief", each), ("#all-belief", epsilon)):
        found = re.search(r"([\d.]+)%", page.locator(selector).inner_text())
        assert found is not None
        exact = 100 / (1 + math.exp(-spent))
        assert exact - 1e-9 <= float(found[1]) <= exact + 0.01


@pytest.mark.parametrize("step", [0, 1, 2**30, 2**31 - 1, 2**31, 3 * 2**30, 2**32 - 1])
def test_what_would_be_sent_is_what_the_library_sends(page: Page, folder: Path, step: int) -> None:
    """For the same random number; the ends of its range too."""
    page.add_init_script(f"crypto.getRandomValues = (words) => words.fill({step})")
    page.goto((folder / file_name("en")).as_uri())
    fill(page)
    for epsilon in EPSILONS:
        set_epsilon(page, epsilon)
        values = [
            int(FORM[field.key])
            if isinstance(field, Number)
            else [label for _, label in field.choices].index(FORM[field.key])
            for field in FIELDS
        ]
        expected = sent_form(values, epsilon, [uniform_of(step)] * len(FIELDS))
        shown = page.locator("#sent tbody tr td:nth-child(3) > span").evaluate_all(
            "all => all.map(each => each.firstChild.textContent)"
        )
        assert shown == [
            f"{value} {field.unit}" if isinstance(field, Number) else field.choices[value][1]
            for field, value in zip(FIELDS, expected, strict=True)
        ]


def test_what_the_browser_draws_follows_the_law(page: Page, folder: Path) -> None:
    """1,000 draws with the browser's own random numbers: no row is six standard deviations off (chance below 1e-6)."""
    page.goto((folder / file_name("en")).as_uri())
    fill(page)
    for field in FIELDS:
        page.locator("#looked-at").select_option(field.key)
        rows = shown_law(page)
        assert sum(count for _, _, count in rows) == 1000
        for label, share, count in rows:
            assert abs(count - 1000 * share) <= 6 * math.sqrt(1000 * share * (1 - share)) + 3, label


def test_each_draw_is_new(page: Page, folder: Path) -> None:
    """'Draw again' draws again: ten forms with much noise, three numbers each, are not all alike (chance below 1e-30)."""
    page.goto((folder / file_name("en")).as_uri())
    fill(page)
    set_epsilon(page, 10)
    drawn = set()
    for _ in range(40):
        page.get_by_role("button", name="Draw the noise again").click()
        drawn.add(page.locator("#sent tbody").inner_text())
    assert len(drawn) > 20


def test_the_download_is_what_is_shown_and_holds_no_answer(page: Page, folder: Path, tmp_path: Path) -> None:
    """The messages of the third step with their epsilons; what was filled in is not in it unless chance kept it."""
    page.add_init_script("crypto.getRandomValues = (words) => words.fill(2 ** 32 - 1)")
    page.goto((folder / file_name("en")).as_uri())
    fill(page)
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download what would be sent").click()
    waiting.value.save_as(tmp_path / "sent.json")
    text = (tmp_path / "sent.json").read_text()
    told: dict[str, Any] = json.loads(text)
    shown = page.locator("#sent tbody tr").evaluate_all(
        "rows => rows.map(row => [row.cells[0].textContent, row.cells[2].firstChild.firstChild.textContent])"
    )
    assert [[each["question"], each["sent"]] for each in told["answers"]] == shown
    assert told["epsilon"] == USUAL_EPSILON == pytest.approx(sum(each["epsilon"] for each in told["answers"]))
    assert set(told) == {"answers", "epsilon"}
    assert {name for each in told["answers"] for name in each} == {"question", "sent", "epsilon"}
    for answer in (f'"{FORM["height"]} cm"', f'"{FORM["weight"]} kg"', f'"{FORM["age"]} years"', FORM["smoking"]):
        assert answer not in text


@pytest.mark.parametrize("bad", ["", "119", "221", "1e308", "-5", "170.5"])
def test_a_number_that_cannot_be_is_said_in_words(page: Page, folder: Path, bad: str) -> None:
    """Nothing is drawn from it, and nothing can be downloaded, until it is put right."""
    page.goto((folder / file_name("en")).as_uri())
    fill(page)
    page.locator("#height").fill(bad)
    expect(page.locator("#height-hint")).to_have_text("A whole number from 120 to 220 is needed here.")
    expect(page.locator("#height")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_role("button", name="Download what would be sent")).to_be_disabled()
    page.locator("#height").fill("170")
    expect(page.locator("#height-hint")).to_contain_text("public bounds")
    expect(page.get_by_role("button", name="Download what would be sent")).to_be_enabled()


# --- everybody can use it ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("code", LANGUAGES)
def test_the_file_breaks_no_rule_of_accessibility(browser: Browser, folder: Path, code: str, colours: Any) -> None:
    """With a choice, with a number, and with a number that cannot be."""
    context = browser.new_context(color_scheme=colours)
    page = context.new_page()
    page.goto((folder / file_name(code)).as_uri())
    found = []
    states: tuple[Callable[[], object], ...] = (
        lambda: None,
        lambda: page.locator("#looked-at").select_option("smoking"),
        lambda: page.locator("#height").fill("300"),
    )
    for act, width in itertools.product(states, (320, 1280)):
        page.set_viewport_size({"width": width, "height": 900})
        act()
        found += [
            (width, each["id"], each["nodes"][0]["html"])
            for each in Axe().run(page, options=RULES).response["violations"]
        ]
        assert page.evaluate("document.documentElement.scrollWidth") == width
    context.close()
    assert found == []


def test_all_of_it_can_be_done_with_the_keyboard(page: Page, folder: Path, tmp_path: Path) -> None:
    """Every control in the order in which it stands, each seen to be in focus; keys fill in, move, draw and download."""
    page.goto((folder / file_name("en")).as_uri())
    page.locator("#content").focus()
    reached = []
    for _ in range(12):
        page.keyboard.press("Tab")
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.className"))
    asked = [field.key for field in FIELDS]
    assert reached == [*asked, "somebody", "epsilon", "people", "looked-at", "scroll", "again", "download"]
    with page.expect_download() as waiting:
        page.keyboard.press("Enter")
    waiting.value.save_as(tmp_path / "sent.json")
    page.locator("#epsilon").focus()
    page.keyboard.press("End")
    expect(page.locator("#epsilon-shown")).to_have_text("20.0")
    expect(page.locator("#epsilon")).to_have_attribute("aria-valuetext", "20.0")
    page.locator("#height").focus()
    page.keyboard.press("ArrowUp")
    expect(page.locator("#sent tbody tr").nth(1)).to_contain_text(page.locator("#height").input_value())
