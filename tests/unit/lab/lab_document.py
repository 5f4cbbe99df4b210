"""A document of the policy lab with every kind of block, and with words that would do harm if they were read as markup."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from html.parser import HTMLParser
from typing import Any

import pypdfium2

from broker_common.language import phrase
from policy_lab.document.model import (
    Axis,
    Bars,
    Caution,
    Claim,
    Document,
    Formula,
    Heat,
    Line,
    Lines,
    Paragraph,
    Section,
    Source,
    Table,
)
from policy_lab.standing import Standing

# Text that each renderer would take for markup if it could.
HARMFUL = "#panic() $x$ *b* _i_ `r` <e> @f [h] {i} \\ & &amp; <script>alert(1)</script> // /* %s {0} ~ --- = a"
LONG_WORD = "tests/" + "x" * 150 + "_end"
_POINTS = [(answers, 0.5 + answers / 200) for answers in range(0, 60, 5)]


def document(standing: Standing = Standing.INTERNAL) -> Document:
    """The document."""
    first = Section(
        "first",
        phrase("Limit"),
        [
            Paragraph(HARMFUL),
            Caution("Nobody may overlook this."),
            Caution(HARMFUL),
            Claim(HARMFUL, HARMFUL),
            Source(HARMFUL, HARMFUL),
            Formula(HARMFUL, HARMFUL),
            Table("harmful", HARMFUL, (HARMFUL, "b"), [(HARMFUL, "b")], note=HARMFUL),
            Claim(
                phrase("{n} answers have been charged, {units} units in all.", n=1234, units="7"),
                f"cat {LONG_WORD}",
                ("1",),
            ),
            Source("The paper", "https://example.org/paper"),
            Table(
                "figures",
                "Figures of provinces",
                ("Province", "People", "Share", "Exact"),
                [
                    ("=SUM(A1)", 14_223_942, 0.388, Fraction(1, 3)),
                    ("Québec", 8_501_833, 0.25, None),
                    (LONG_WORD, 40_232, 1e-9, Fraction(5, 4)),
                ],
                (None, 0, 3, None),
                "A note below.",
            ),
        ],
        [Paragraph("A sentence for everybody.")],
        [Paragraph("A sentence for specialists."), Formula("x ∝ e^(-1/b)", "x falls with b.")],
    )
    plots = Section(
        "plots",
        f"Plots {HARMFUL}",
        [
            Lines(
                "lines",
                "Belief by answers",
                "A line that climbs.",
                Axis("Answers $a$", low=0),
                Axis("Belief", low=0.5, high=1, is_share=True),
                [
                    Line("line $a$ _b_", _POINTS),
                    Line("steps", _POINTS, "steps"),
                    Line("dashes", _POINTS, "dashes", [(x, y - 0.1, y + 0.1) for x, y in _POINTS]),
                    Line("dots", _POINTS, "dots"),
                ],
                [("Limit", 0.8)],
            ),
            Bars(
                "bars",
                "Errors",
                "Bars of three sizes.",
                Axis("Error", is_log=True),
                ("Ontario", "A rather long province"),
                ("a", "b", "c"),
                ((1, 2), (10, 20), (100, 200)),
                ((0.1, 0.2), (1, 2), (10, 20)),
            ),
            Heat("heat", HARMFUL, f"A map. {HARMFUL}", ("a", HARMFUL), (HARMFUL, "y"), ((0, 1), (-1, None)), -1, 1),
        ],
    )
    return Document("sample", "A sample document", standing, "tripartite lab sample", [first, plots])


def texts_of(said: Mapping[str, Any]) -> Iterator[str]:
    """Every text that stands on a page, in its order, of a document in one language."""
    yield said["title"]
    yield f"{said['command_head']} {said['command']}"
    for section in said["sections"]:
        yield section["title"]
        for part in section["explanations"]:
            yield part["title"]
            for block in part["blocks"]:
                yield from _of_block(block)
        for block in section["blocks"]:
            yield from _of_block(block)


def _of_block(block: Mapping[str, Any]) -> Iterator[str]:
    match block["kind"]:
        case "paragraph" | "caution":
            yield block["words"]
        case "formula":
            yield from (block["line"], block["words"])
        case "claim":
            yield from (block["words"], f"{block['head']} {block['command']}")
        case "source":
            yield f"{block['words']} {block['address']}".strip()
        case "table":
            yield block["caption"]
            yield from block["heads"]
            yield from (cell for row in block["rows"] for cell in row if cell)
            if block["note"]:
                yield block["note"]
        case "plot":
            yield block["title"]


class _Words(HTMLParser):
    """Words of a page's `main`, the list of contents excepted."""

    def __init__(self) -> None:
        super().__init__()
        self.inside: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        if tag not in {"meta", "img", "br", "link"}:
            self.inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.inside.pop() == tag

    def handle_data(self, data: str) -> None:
        if "main" in self.inside and "nav" not in self.inside:
            self.words.append(data)


def sentences_of_page(html: str) -> str:
    """The words of a page in their order, with single spaces."""
    parser = _Words()
    parser.feed(html)
    return re.sub(r"\s+", " ", " ".join(parser.words)).strip()


def beyond_margins(content: bytes, sides: float = 50, ends: float = 15) -> list[tuple[int, str]]:
    """Parts of a PDF nearer to the edge of its page than so many points: text that is cut off, or nearly."""
    found = []
    for number, page in enumerate(pypdfium2.PdfDocument(content), start=1):
        width, height = page.get_size()
        text = page.get_textpage()
        for place in range(text.count_rects()):
            left, bottom, right, top = text.get_rect(place)
            if left < sides or bottom < ends or right > width - sides or top > height - ends:
                found.append((number, text.get_text_bounded(left, bottom, right, top)))
    return found
