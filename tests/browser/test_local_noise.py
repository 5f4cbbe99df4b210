"""Local noise in three steps, in a real browser: nothing leaves it, its numbers are the library's, and it needs no server."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from browser.chromium import broken_rules
from browser.lab_site import LabSite, lab_site
from fakes.patience import PATIENCE_SECONDS

from broker_common.language import LANGUAGES, language
from policy_lab.figures.form_law import FIELDS, Choice, Number, sent_form, uniform_of
from policy_lab.mechanisms.bounded import BoundedLaplace
from policy_lab.mechanisms.randomised_response import RandomisedResponse
from policy_lab.site.explainer import explainer_file, file_name

pytest.importorskip("playwright.sync_api", reason="no browser here: 'make test-browser' installs one")
from playwright.sync_api import Browser, Page, expect

PATIENCE_MS = 1000 * PATIENCE_SECONDS
# The places of the slider.
EPSILONS = (0.1, 0.2, 0.5, 1, 1.5, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20)
PEOPLE = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000)
USUAL_EPSILON, USUAL_PEOPLE = 5.0, 10_000
HEIGHT = next(field for field in FIELDS if field.key == "height")
FORM = {"age": "30", "height": "181", "weight": "77", "smoking": "every day", "language": "French"}
# Every way that a page has to tell somebody something, and the part of a policy that shuts it.
ATTEMPTS = {
    "fetch": ("connect-src", "await fetch(url).catch(() => null)"),
    "beacon": ("connect-src", "navigator.sendBeacon(url, 'x')"),
    "request": (
        "connect-src",
        "await new Promise(done => { const r = new XMLHttpRequest(); r.onloadend = done; r.open('POST', url); r.send('x') })",
    ),
    "picture": (
        "img-src",
        "await new Promise(done => { const i = new Image(); i.onload = i.onerror = done; i.src = url })",
    ),
    "events": (
        "connect-src",
        "await new Promise(done => { try { new EventSource(url).onerror = done } catch { done() } })",
    ),
    "frame": (
        "frame-src",
        "await new Promise(done => { const f = document.createElement('iframe'); f.onload = f.onerror = done; f.src = url; document.body.append(f) })",
    ),
    "script": (
        "script-src-elem",
        "await new Promise(done => { const s = document.createElement('script'); s.onload = s.onerror = done; s.src = url; document.head.append(s) })",
    ),
    "form": (
        "form-action",
        "(() => { const f = document.createElement('form'); f.action = url; document.body.append(f); f.submit() })()",
    ),
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


@pytest.mark.parametrize("where", ["served", "a file"])
def test_the_page_could_send_nothing_if_it_tried(browser: Browser, site: LabSite, folder: Path, where: str) -> None:
    """Each way out is shut by the page's own policy, for a file by itself; the server is there and would have heard."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{site.address}/local-noise" if where == "served" else (folder / file_name("en")).as_uri())
    heard = heard_by(page)
    for name, (directive, attempt) in ATTEMPTS.items():
        refused = page.evaluate(
            "async (url) => {"
            "const refused = new Promise(done => document.addEventListener('securitypolicyviolation', done, { once: true }));"
            f"{attempt};"
            # A hang guard; no test that passes waits for it.
            f"const never = new Promise(done => setTimeout(() => done({{}}), {PATIENCE_MS // 5}));"
            "return (await Promise.race([refused, never])).effectiveDirective }",
            secret(site),
        )
        assert (name, refused) == (name, directive)
    assert heard == []
    context.close()


def secret(site: LabSite) -> str:
    """An address whose server would hear what it must not."""
    return f"{site.address}/static/icon.svg?secret"


def test_what_would_hear_is_there(page: Page, site: LabSite) -> None:
    """The same attempt succeeds from a page that may: the tests above would see a request that is made."""
    page.goto(site.address)
    heard = heard_by(page)
    page.evaluate(f"async (url) => {{ {ATTEMPTS['fetch'][1]} }}", secret(site))
    assert heard[-1] == secret(site)


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


# Many steps: controls are set, the page hears of it as of a hand, and all of its texts are read before the next.
_READ = """
(steps) => steps.map((step) => {
  for (const [id, value] of Object.entries(step)) {
    const control = document.getElementById(id);
    control.value = value;
    control.dispatchEvent(new Event("input", { bubbles: true }));
  }
  const law = [...document.querySelectorAll("#law tbody tr")];
  const sent = [...document.querySelectorAll("#sent tbody tr td:nth-child(3) > span")];
  return {
    law: law.map((row) => [...row.cells].slice(0, 3).map((cell) => cell.textContent)),
    sent: sent.map((each) => each.firstChild.textContent),
    texts: Object.fromEntries([...document.querySelectorAll("main [id]")].map((each) => [each.id, each.textContent])),
  };
})
"""


@dataclass(frozen=True)
class Reading:
    """The page's texts at one moment."""

    law: list[list[str]]
    sent: list[str]
    texts: dict[str, str]

    def number(self, key: str) -> float:
        """The number in a text, as English writes it."""
        found = re.search(r"-?[\d,]+(\.\d+)?", self.texts[key])
        assert found is not None
        return float(found[0].replace(",", ""))

    @property
    def rows(self) -> list[tuple[str, float, int]]:
        """Label, share and number drawn of every row of the distribution."""
        return [
            (label, float(share.rstrip("%")) / 100, int(count.replace(",", ""))) for label, share, count in self.law
        ]


def read(page: Page, steps: Sequence[Mapping[str, str]]) -> list[Reading]:
    """Set these controls, step after step, and read after each."""
    return [Reading(**each) for each in page.evaluate(_READ, steps)]


def place_of(epsilon: float) -> str:
    """The place of the slider for an epsilon."""
    return str(EPSILONS.index(epsilon))


def ends_of(label: str) -> tuple[int, int]:
    """The first and the last number of a row."""
    numbers = [int(each) for each in re.findall(r"\d+", label)]
    return numbers[0], numbers[-1]


def test_numbers_of_numbers_are_the_library_s(page: Page, folder: Path) -> None:
    """Distribution, scale, sensitivity, mean, epsilon and belief, over a grid of epsilons and values."""
    page.goto((folder / file_name("en")).as_uri())
    fill(page)
    for key, values in VALUES.items():
        field = next(each for each in FIELDS if each.key == key)
        assert isinstance(field, Number)
        page.locator("#looked-at").select_option(key)
        grid = list(itertools.product(EPSILONS, values))
        steps = [{"epsilon": place_of(epsilon), key: value} for epsilon, value in grid]
        for (epsilon, value), reading in zip(grid, read(page, steps), strict=True):
            assert_number(reading, field, epsilon, int(value))


def assert_number(reading: Reading, field: Number, epsilon: float, value: int) -> None:
    """The page says about a number what the library computes."""
    each = epsilon / len(FIELDS)
    law = BoundedLaplace(field.low, field.high, each, "clamped")
    chances = field.chances(value, each)
    seen = 0
    for label, share, _ in reading.rows:
        first, last = ends_of(label)
        assert seen in {first, 0}
        seen = last + 1
        assert abs(share - sum(chances[first - field.low : last - field.low + 1])) < 0.6e-4
        # Values rounded to these numbers, by the law of the mechanism.
        below = float(law.cdf(value, first - 0.5)) if first > field.low else 0.0
        upto = float(law.cdf(value, last + 0.5)) if last < field.high else 1.0
        assert abs(share - (upto - below)) < 0.6e-4
    assert seen == field.high + 1
    assert reading.number("figure-sensitivity") == field.sensitivity == law.range
    assert abs(reading.number("figure-scale") - law.range / each) <= 0.0501
    mean = sum(chance * (field.low + place) for place, chance in enumerate(chances))
    assert abs(reading.number("figure-mean") - mean) <= 0.00501
    assert ("right on average" in reading.texts["crowd"]) == (abs(mean - value) < 0.005)
    # Rounding to whole numbers moves a mean by less than a half.
    assert abs(mean - float(law.mean(value))) < 0.5
    assert abs(reading.number("figure-keep") / 100 - chances[value - field.low]) < 0.6e-4
    assert_promises(reading, epsilon, law.real_epsilon)


def test_numbers_of_choices_are_the_library_s(page: Page, folder: Path) -> None:
    """Distribution, chance of the truth, epsilon, belief and what a survey finds, over a grid of epsilons, answers and people."""
    page.goto((folder / file_name("en")).as_uri())
    fill(page)
    for field in FIELDS:
        if isinstance(field, Choice):
            page.locator("#looked-at").select_option(field.key)
            values = page.locator(f"#{field.key} option").evaluate_all("all => all.map(each => each.value)")
            assert len(values) == len(field.choices)
            grid = list(itertools.product(EPSILONS, range(len(field.choices))))
            peoples = [PEOPLE[(EPSILONS.index(epsilon) + place) % len(PEOPLE)] for epsilon, place in grid]
            steps = [
                {"epsilon": place_of(epsilon), field.key: values[place], "people": str(PEOPLE.index(people))}
                for (epsilon, place), people in zip(grid, peoples, strict=True)
            ]
            for (epsilon, place), people, reading in zip(grid, peoples, read(page, steps), strict=True):
                assert_choice(reading, field, epsilon, place, people)


def assert_choice(reading: Reading, field: Choice, epsilon: float, place: int, people: int) -> None:
    """The page says about a choice what the library computes."""
    response = RandomisedResponse(len(field.choices), epsilon / len(FIELDS))
    shares = [share for _, share, _ in reading.rows]
    assert [abs(share - chance) < 0.6e-4 for share, chance in zip(shares, response.law(place), strict=True)] == [
        True for _ in field.choices
    ]
    assert abs(reading.number("figure-keep") / 100 - response.keep) < 0.6e-4
    others = 0.8 * people / (len(field.choices) - 1)
    error = response.standard_error([0.2 * people, *[others] * (len(field.choices) - 1)])[0] / people
    text = reading.texts["crowd"].replace(",", "")
    assert f"If {people} people answer" in text
    found = re.search(r"(?:within|off by) ([\d.]+)", text)
    assert found is not None
    assert abs(float(found[1]) - 100 * 1.959964 * error) <= 0.00501
    assert ("too few people" in text) == (1.959964 * error >= 0.2)
    assert_promises(reading, epsilon, response.real_epsilon)


def assert_promises(reading: Reading, epsilon: float, each: float) -> None:
    """Epsilon of the field and of the form, and the beliefs that they allow, rounded up."""
    assert abs(reading.number("figure-epsilon") - each) <= 0.00501
    assert reading.number("figure-total") == epsilon
    for key, spent in (("belief", each), ("all-belief", epsilon)):
        found = re.search(r"([\d.]+)%", reading.texts[key])
        assert found is not None
        exact = 100 / (1 + math.exp(-spent))
        assert exact - 1e-9 <= float(found[1]) <= exact + 0.01


def test_what_would_be_sent_is_what_the_library_sends(page: Page, folder: Path) -> None:
    """For the same random number; the ends of its range too."""
    page.add_init_script("crypto.getRandomValues = (words) => words.fill(Number(location.search.slice(1)))")
    values = [
        int(FORM[field.key])
        if isinstance(field, Number)
        else [label for _, label in field.choices].index(FORM[field.key])
        for field in FIELDS
    ]
    for step in (0, 1, 2**30, 2**31 - 1, 2**31, 3 * 2**30, 2**32 - 1):
        page.goto(f"{(folder / file_name('en')).as_uri()}?{step}")
        fill(page)
        for epsilon, reading in zip(
            EPSILONS, read(page, [{"epsilon": place_of(each)} for each in EPSILONS]), strict=True
        ):
            expected = sent_form(values, epsilon, [uniform_of(step)] * len(FIELDS))
            assert reading.sent == [
                f"{value} {field.unit}" if isinstance(field, Number) else field.choices[value][1]
                for field, value in zip(FIELDS, expected, strict=True)
            ]


def test_what_the_browser_draws_follows_the_law(page: Page, folder: Path) -> None:
    """1,000 draws with the browser's own random numbers: no row is six standard deviations off (chance below 1e-6)."""
    page.goto((folder / file_name("en")).as_uri())
    fill(page)
    for reading in read(page, [{"looked-at": field.key} for field in FIELDS]):
        assert sum(count for _, _, count in reading.rows) == 1000
        for label, share, count in reading.rows:
            assert abs(count - 1000 * share) <= 6 * math.sqrt(1000 * share * (1 - share)) + 3, label


def test_each_draw_is_new(page: Page, folder: Path) -> None:
    """'Draw again' draws again: ten forms with much noise, three numbers each, are not all alike (chance below 1e-30)."""
    page.goto((folder / file_name("en")).as_uri())
    fill(page)
    set_epsilon(page, 10)
    # The button is pressed by hand elsewhere; forty times by the page itself.
    drawn = page.evaluate(
        """() => Array.from({ length: 40 }, () => {
          document.getElementById("again").click();
          return document.querySelector("#sent tbody").textContent;
        })"""
    )
    assert len(set(drawn)) > 20


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


def test_a_number_that_cannot_be_is_said_in_words(page: Page, folder: Path) -> None:
    """Nothing is drawn from it, and nothing can be downloaded, until it is put right."""
    page.goto((folder / file_name("en")).as_uri())
    fill(page)
    for bad in ("", "119", "221", "1e308", "-5", "170.5"):
        page.locator("#height").fill(bad)
        expect(page.locator("#height-hint")).to_have_text("A whole number from 120 to 220 is needed here.")
        expect(page.locator("#height")).to_have_attribute("aria-invalid", "true")
        expect(page.get_by_role("button", name="Download what would be sent")).to_be_disabled()
        page.locator("#height").fill("170")
        expect(page.locator("#height-hint")).to_contain_text("public bounds")
        expect(page.get_by_role("button", name="Download what would be sent")).to_be_enabled()


# --- everybody can use it ----------------------------------------------------------------------------------------------


# Every two of a language, colours and a width meet.
LOOKS: dict[str, tuple[tuple[Any, int], ...]] = {
    "en": (("light", 320), ("dark", 1280)),
    "fr": (("dark", 320), ("light", 1280)),
}


@pytest.mark.parametrize("code", LOOKS)
def test_the_file_breaks_no_rule_of_accessibility(browser: Browser, folder: Path, code: str) -> None:
    """With a choice, with a number, and with a number that cannot be."""
    context = browser.new_context()
    page = context.new_page()
    page.goto((folder / file_name(code)).as_uri())
    found = []
    states: tuple[Callable[[], object], ...] = (
        lambda: None,
        lambda: page.locator("#looked-at").select_option("smoking"),
        lambda: page.locator("#height").fill("300"),
    )
    for act, (colours, width) in itertools.product(states, LOOKS[code]):
        page.emulate_media(color_scheme=colours)
        page.set_viewport_size({"width": width, "height": 900})
        act()
        found += [(colours, width, each) for each in broken_rules(page)]
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
