"""A document of the policy lab in a real browser: on a screen of any width, in both colours, and on paper."""

from __future__ import annotations

import io
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pypdf
import pytest
from browser.chromium import CUT_OFF, TORN_WORDS, broken_rules
from unit.lab.lab_document import document

from broker_common.language import LANGUAGES, language
from policy_lab.assessment.assessment import make_assessment
from policy_lab.assessment.facts import Facts, usual_policy
from policy_lab.document import page as html
from policy_lab.document.model import Caution, Document, Paragraph, Section, Table
from policy_lab.standing import Standing

pytest.importorskip("playwright.sync_api", reason="no browser here: 'make test-browser' installs one")
from playwright.sync_api import Browser, Page

NAMES = ("sample", "wide", "assessment")


def documents() -> dict[str, Document]:
    """One with every kind of block, one with wide tables and long words, and an assessment."""
    facts = Facts(usual_policy(), 1_750_000_000_000)
    assessment = make_assessment(facts, [], None, "tripartite lab assessment --out DIR")
    return dict(zip(NAMES, (document(), wide(), assessment), strict=True))


def wide() -> Document:
    """As many columns as an evaluation has, texts beside figures, and a hash in a sentence."""
    heads = ("epsilon as given", "stratum", *(f"respondents of the largest group {n}" for n in range(8)), "why")
    why = "The local epsilon is too large for so few messages: shuffling promises nothing more than the messages did."
    rows = [(0.5, "Newfoundland and Labrador", *range(110_000, 110_008), why) for _ in range(40)]
    table = Table("wide", f"A caption that is longer than a telephone is wide. {why}", heads, rows)
    return Document(
        "wide",
        "Wide tables",
        Standing.SYNTHETIC,
        "tripartite lab sample",
        [
            Section(
                "first", "First", [Paragraph(f"Its hash is {'0f' * 32}."), Caution("ed25519:" + "Ab1" * 40), table]
            ),
            Section("second", "Second", [Paragraph("A sentence.")], [Paragraph("0f" * 32)], [Caution("Ab1" * 40)]),
        ],
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each document as a file, in each language."""
    folder = tmp_path_factory.mktemp("documents")
    made = {}
    for name, shown in documents().items():
        for code in LANGUAGES:
            file = folder / f"{name}-{code}.html"
            file.write_text(html.page(shown, language(code)), "utf-8")
            made[f"{name}-{code}"] = file
    return made


@pytest.fixture
def shown(browser: Browser) -> Iterator[Page]:
    """A reader; the page asks for nothing but itself, and complains of nothing."""
    context = browser.new_context()
    opened = context.new_page()
    problems: list[str] = []
    opened.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    opened.on(
        "request",
        lambda asked: (
            problems.append(asked.url[:80]) if not asked.url.startswith(("file:", "data:image/svg")) else None
        ),
    )
    yield opened
    context.close()
    assert problems == []


# Every two of a language, colours and a size meet; axe looks at the last width.
LOOKS: dict[str, tuple[tuple[Any, tuple[int, ...]], ...]] = {
    "en": (("light", (360, 320)), ("dark", (1200, 1280))),
    "fr": (("dark", (360, 320)), ("light", (1200, 1280))),
}


@pytest.mark.parametrize("code", LOOKS)
def test_no_document_breaks_a_rule_of_accessibility(shown: Page, files: dict[str, Path], code: str) -> None:
    """Axe finds nothing, on a telephone and on a desk; no word is torn, nothing is cut off, only boxes of their own scroll."""
    found: list[Any] = []
    for name in NAMES:
        shown.goto(files[f"{name}-{code}"].as_uri())
        for colours, widths in LOOKS[code]:
            shown.emulate_media(color_scheme=colours)
            for width in widths:
                shown.set_viewport_size({"width": width, "height": 900})
                assert (name, shown.evaluate("document.documentElement.scrollWidth")) == (name, width)
                torn = [*shown.evaluate(TORN_WORDS), *shown.evaluate(CUT_OFF)] if width in {360, 1200} else []
                found += [(name, width, each) for each in torn]
            found += [(name, colours, each) for each in broken_rules(shown)]
    assert found == []


@pytest.mark.parametrize("width", [360, 1200])
def test_tables_are_readable_at_any_width(shown: Page, files: dict[str, Path], width: int) -> None:
    """No text is a column of words, and a caption stays when its table is scrolled."""
    shown.set_viewport_size({"width": width, "height": 900})
    shown.goto(files["wide-en"].as_uri())
    assert shown.locator("#wide td.text").first.evaluate("each => each.clientWidth") >= 200
    before = shown.locator("#wide-caption").bounding_box()
    shown.locator("#wide").evaluate("each => each.scrollBy(10000, 0)")
    assert shown.locator("#wide").evaluate("each => each.scrollLeft") > 0
    assert shown.locator("#wide-caption").bounding_box() == before


@pytest.mark.parametrize(("code", "colours"), [("en", "dark"), ("fr", "light")])
def test_every_sheet_of_paper_has_the_mark(shown: Page, files: dict[str, Path], code: str, colours: Any) -> None:
    """Printed from the browser, from whichever colours: the mark at the head of each sheet, both explanations open."""
    shown.emulate_media(color_scheme=colours)
    for name in NAMES:
        shown.goto(files[f"{name}-{code}"].as_uri())
        reader = pypdf.PdfReader(io.BytesIO(shown.pdf(format="Letter")))
        mark = squeezed(shown.locator(".mark").inner_text())
        texts = [squeezed(sheet.extract_text()) for sheet in reader.pages]
        assert len(texts) > 1
        assert [number for number, text in enumerate(texts) if mark not in text] == [], name
        if name == "sample":
            assert squeezed(language(code)("A sentence for specialists.")) in "".join(texts)


def test_a_plot_is_shown_in_the_colours_of_its_page(shown: Page, files: dict[str, Path]) -> None:
    """One of the two images is seen, and read, at a time; on paper it is the light one."""
    shown.goto(files["sample-en"].as_uri())
    images = shown.locator("#lines img")
    for colours, seen in (("light", [True, False]), ("dark", [False, True])):
        shown.emulate_media(color_scheme=colours, media="screen")  # type: ignore[arg-type]  # it is one of the names
        assert [each.is_visible() for each in images.all()] == seen
        shown.emulate_media(media="print")
        assert [each.is_visible() for each in images.all()] == [True, False]


def squeezed(text: str) -> str:
    """A text without white space, and with two letters where a font has one sign for them."""
    return re.sub(r"\s", "", unicodedata.normalize("NFKC", text))
