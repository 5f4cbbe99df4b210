"""One document in every form: the same sentences in the same order, nobody's words as markup, the mark of its standing on each."""

from __future__ import annotations

import ast
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pypdf
import pytest
from markupsafe import escape
from matplotlib.image import imread
from unit.lab.lab_document import HARMFUL, LONG_WORD, beyond_margins, document, sentences_of_page, texts_of

from broker_common.errors import InvalidRequestError
from broker_common.language import LANGUAGES, language
from policy_lab.document import as_json, numbers, page, pdf, plots, said, stored, terminal
from policy_lab.document.model import Axis, Bars, Document, Heat, Line, Lines, Paragraph, Section, Table
from policy_lab.standing import Standing

ENGLISH, FRENCH = map(language, ("en", "fr"))


def without_plots() -> Document:
    """The document's first section, which is quickly drawn."""
    return replace(document(), sections=document().sections[:1])


def squeezed(text: str) -> str:
    """A text without white space: lines of a PDF are broken anywhere."""
    return re.sub(r"\s", "", text)


def texts_in(code: str, shown: Document) -> list[str]:
    """Texts that a reader of the document reads, in order."""
    return list(texts_of(said.document(shown, language(code), lambda _plot: {})))


def assert_in_order(found: str, texts: list[str]) -> None:
    """Each text stands behind the one before it."""
    at = 0
    for text in texts:
        place = found.find(squeezed(text), at)
        assert place >= 0, f"missing, or in another order: {text!r}"
        at = place + len(squeezed(text))


@pytest.fixture(scope="module", params=LANGUAGES)
def printed(request: pytest.FixtureRequest) -> tuple[str, bytes]:
    """The document as PDF, in each language."""
    return request.param, pdf.pdf(document(), language(request.param))


def words_of(content: bytes) -> str:
    """All text of a PDF, its pages one after the other, without their heads and feet, and without white space."""
    reader = pypdf.PdfReader(io.BytesIO(content))
    return squeezed("".join(each.extract_text() for each in reader.pages))


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("code", LANGUAGES)
def test_page_says_everything_in_order(code: str) -> None:
    """A page in either language has every sentence, caption and cell of the document."""
    assert_in_order(squeezed(sentences_of_page(page.page(document(), language(code)))), texts_in(code, document()))


def test_pdf_says_everything_in_order(printed: tuple[str, bytes]) -> None:
    """The PDF has the page's sentences, and nothing of a long word is cut off."""
    code, content = printed
    assert_in_order(words_of(content), texts_in(code, document()))
    assert words_of(content).count(LONG_WORD) == 2


def test_nothing_of_a_pdf_is_cut_off(printed: tuple[str, bytes]) -> None:
    """No text comes near the edge of its page, neither a long word nor a table with more columns than fit."""
    _, content = printed
    assert beyond_margins(content) == []
    heads = [f"{'head ' * 3}{number}" for number in range(14)]
    rows = [
        [f"row {number}", *("words and words" if place % 5 else number * 1_000_003 for place in range(13))]
        for number in range(40)
    ]
    wide = Document("wide", "Wide", Standing.NO_DATA, "x", [Section("s", "S", [Table("t", "Wide", heads, rows)])])
    assert beyond_margins(pdf.pdf(wide, ENGLISH, paper="a4")) == []


def test_pdf_is_tagged_and_says_its_language_and_title(printed: tuple[str, bytes]) -> None:
    """A screen reader knows language, title, headings, tables, and what a plot shows."""
    code, content = printed
    root: Any = pypdf.PdfReader(io.BytesIO(content)).trailer["/Root"]
    assert root["/MarkInfo"]["/Marked"]
    assert root["/Lang"].startswith(code)
    assert root["/ViewerPreferences"]["/DisplayDocTitle"]
    assert b"pdfuaid:part" in root["/Metadata"].get_data()
    kinds, alternatives = structure(root["/StructTreeRoot"])
    headings = [kind for kind in kinds if re.fullmatch("H[1-6]", kind)]
    assert headings == ["H1", "H2", "H3", "H3", "H2"]
    assert kinds.count("TH") == 6
    assert {"A line that climbs.", "Bars of three sizes.", f"A map. {HARMFUL}"} <= set(alternatives)


def structure(root: Any) -> tuple[list[str], list[str]]:
    """The kinds of elements of a tagged PDF in their order, and the alternative texts."""
    kinds: list[str] = []
    alternatives: list[str] = []
    waiting: list[Any] = [root]
    while waiting:
        element = waiting.pop()
        if not isinstance(element, pypdf.generic.DictionaryObject):
            continue
        if "/S" in element:
            kinds.append(str(element["/S"]).removeprefix("/"))
        if "/Alt" in element:
            alternatives.append(str(element["/Alt"]))
        inside: Any = element.get("/K", [])
        inside = inside.get_object() if isinstance(inside, pypdf.generic.IndirectObject) else inside
        children = inside if isinstance(inside, list) else [inside]
        waiting += [
            child.get_object() if isinstance(child, pypdf.generic.IndirectObject) else child
            for child in reversed(children)
        ]
    return kinds, alternatives


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("standing", Standing)
def test_the_mark_stands_on_every_page_plot_table_and_object(standing: Standing, tmp_path: Path) -> None:
    """The holder of any part of it knows who may see it."""
    shown = document(standing)
    reader = pypdf.PdfReader(io.BytesIO(pdf.pdf(shown, ENGLISH)))
    assert len(reader.pages) > 1
    assert all(squeezed(standing.mark) in squeezed(each.extract_text()) for each in reader.pages)
    assert str(escape(standing.mark)) in page.page(shown, ENGLISH)
    assert as_json.value(shown)["mark"] == standing.mark
    text = terminal.text(shown, ENGLISH)
    assert text.startswith(standing.mark)
    assert text.endswith(standing.mark)
    files = stored.write(shown, tmp_path / "out", ENGLISH)
    tables = [file for file in files if file.suffix == ".csv"]
    assert tables
    assert all(file.read_text("utf-8").startswith(f"# {standing.mark}\n") for file in tables)


def test_a_plot_that_stands_alone_has_its_mark() -> None:
    """The mark is drawn into the image file, whose text nobody can search: with another mark it is another image."""
    (lines, *_) = document().sections[1].blocks
    assert isinstance(lines, Lines)
    one, other = (plots.draw(lines, ENGLISH, form="png", mark=mark) for mark in ("INTERNAL", "PUBLIC"))
    assert one != other
    assert one == plots.draw(lines, ENGLISH, form="png", mark="INTERNAL")


@pytest.mark.usefixtures("undrawn")
def test_nobodys_words_are_markup(tmp_path: Path) -> None:
    """A tag, a command or mathematics somewhere is shown as it was written."""
    html = page.page(document(), ENGLISH)
    assert "<script" not in html
    # Paragraph, caution, claim, source, formula, table, section and plot, which is described in both colours.
    assert html.count(str(escape(HARMFUL))) == 16
    assert words_of(pdf.pdf(document(), ENGLISH)).count(squeezed(HARMFUL)) >= 13
    stored.write(without_plots(), tmp_path / "out", ENGLISH)
    rows = (tmp_path / "out/tables/figures.csv").read_text("utf-8").splitlines()
    # A spreadsheet computes nothing of it.
    assert rows[2].startswith("'=SUM(A1),")


def test_words_with_dollar_signs_are_drawn_as_they_are() -> None:
    """No mathematics is read into a label: an odd sign of it would end in an error."""
    heat = Heat("x", "$ $", "d", ("$\\frac{$", "$"), ("$^$",), ((0.5,), (1,)), 0, 1)
    assert plots.draw(heat, ENGLISH, form="svg").startswith(b"<?xml")


@pytest.mark.parametrize("dark", [False, True])
def test_plots_are_drawn_by_one_code_in_both_forms(dark: bool) -> None:
    """SVG without script, PNG of the same shape, the same bytes at each call."""
    for plot in document().sections[1].blocks:
        assert isinstance(plot, Lines | Bars | Heat)
        svg = plots.draw(plot, FRENCH, form="svg", dark=dark)
        assert svg == plots.draw(plot, FRENCH, form="svg", dark=dark)
        root = ET.fromstring(svg)  # noqa: S314 - made just now
        assert not [each for each in root.iter() if each.tag.endswith("script")]
        png = imread(io.BytesIO(plots.draw(plot, FRENCH, form="png", dark=dark)))
        width, height = (float(value.removesuffix("pt")) for value in (root.attrib["width"], root.attrib["height"]))
        assert png.shape[1] / png.shape[0] == pytest.approx(width / height, rel=0.01)


def test_bars_over_few_powers_of_ten_have_numbers_to_read_them_by() -> None:
    """Between two powers of ten as well; over many of them the powers are enough."""

    def ticks(*values: float) -> set[str]:
        bars = Bars("b", "b", "b", Axis("error", is_log=True), [str(each) for each in values], ["s"], [values])
        # An SVG says in a remark what each of its shapes of letters says.
        return set(re.findall(r"<!-- ([\d,.]+) -->", plots.draw(bars, ENGLISH, form="svg").decode()))

    assert ticks(2_500, 70_000) >= {"5,000", "10,000", "20,000", "50,000"}
    assert ticks(1, 10**8).isdisjoint({"20", "50", "200", "500"})


def test_a_table_goes_on_on_the_next_page_between_rows() -> None:
    """It fills the page that it begins on, and a few rows that belong together stay together."""

    def pages(rows: int) -> list[str]:
        filler = [Paragraph("A line.") for _ in range(30)]
        table = Table("t", "Caption", ("Name", "Value"), [(f"row{n}", "a value") for n in range(rows)])
        made = Document("d", "D", Standing.SYNTHETIC, "c", [Section("s", "S", [*filler, table])])
        return [each.extract_text() for each in pypdf.PdfReader(io.BytesIO(pdf.pdf(made, ENGLISH))).pages]

    first, second = pages(12)
    assert "row0" in first
    assert "row11" in second
    first, second = pages(6)
    assert "row0" not in first
    assert "Caption" in second
    assert "row5" in second


def test_bars_and_lines_differ_without_colour() -> None:
    """Printed in grey, or seen by an eye that does not tell red from green, series are told apart."""
    (lines, bars, _) = document().sections[1].blocks
    assert isinstance(lines, Lines)
    assert isinstance(bars, Bars)
    grey = replace_colours(plots.draw(bars, ENGLISH, form="svg"))
    alike = replace(bars, series=("a", "a", "a"), values=((1, 2),) * 3, errors=())
    assert len(set(re.findall(r'id="(h[0-9a-f]+)"', grey))) >= 2
    assert replace_colours(plots.draw(alike, ENGLISH, form="svg")).count("<pattern") >= 2
    dashes = set(re.findall(r"stroke-dasharray: ([\d., ]+)", replace_colours(plots.draw(lines, ENGLISH, form="svg"))))
    assert len(dashes) >= 2


def replace_colours(svg: bytes) -> str:
    """The drawing in one colour."""
    return re.sub(r"#[0-9a-f]{6}", "#000000", svg.decode())


@pytest.mark.parametrize(
    ("cell", "digits", "english", "french"),
    [
        (14_223_942, 0, "14,223,942", "14\u00a0223\u00a0942"),
        (0.1 + 0.2, None, "0.3", "0,3"),
        (Fraction(1, 3), 2, "0.33", "0,33"),
        (Fraction(1, 3), None, "0.333333333333", "0,333333333333"),
        (-0.001, 2, "0.00", "0,00"),
        (1e-9, 3, "1.000 × 10⁻⁹", "1,000 × 10⁻⁹"),  # noqa: RUF001 - the sign that is shown
        (float("inf"), 2, "inf", "inf"),
        (None, 2, "", ""),
        (0, None, "0", "0"),
    ],
)
def test_numbers_are_written_as_the_language_writes_them(
    cell: float | Fraction | None, digits: int | None, english: str, french: str
) -> None:
    """Groups, decimals, exact fractions, and powers of ten where a number would be a row of zeros."""
    assert (numbers.shown(cell, digits, ENGLISH), numbers.shown(cell, digits, FRENCH)) == (english, french)


@pytest.mark.usefixtures("undrawn")
def test_a_document_is_read_again_as_it_was_written(tmp_path: Path) -> None:
    """Its JSON holds all of it, exact fractions and both languages included."""
    stored.write(document(), tmp_path / "out", ENGLISH)
    again = stored.read(tmp_path / "out")
    assert as_json.value(again) == as_json.value(document())
    for code in LANGUAGES:
        assert texts_in(code, again) == texts_in(code, document())
    assert json.loads((tmp_path / "out/document.json").read_text("utf-8"))["standing"] == "internal"


@pytest.mark.usefixtures("undrawn")
def test_files_are_their_owners_alone(tmp_path: Path) -> None:
    """Mode 0600 in folders of 0700."""
    files = stored.write(document(), tmp_path / "out", ENGLISH, with_pdf=True)
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    folders = [tmp_path / "out", *(each for each in (tmp_path / "out").rglob("*") if each.is_dir())]
    assert {folder.stat().st_mode & 0o777 for folder in folders} == {0o700}


def test_a_key_is_no_way_out_of_the_folder(tmp_path: Path) -> None:
    """A column's name may become a key; it names a file in the folder all the same."""
    shown = Document("x", "x", Standing.NO_DATA, "x", [Section("s", "s", [Table("../../a b", "c", ("h",), [("x",)])])])
    files = stored.write(shown, tmp_path / "out", ENGLISH)
    assert all(file.resolve().is_relative_to(tmp_path / "out") for file in files)
    assert 'id="-a-b"' in page.page(shown, ENGLISH)


def signed(text: str) -> str:
    """The same with the digest that fits it, where there is one: it has no key."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    if isinstance(value, dict):
        value.pop("digest", None)
        value["digest"] = hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
    return json.dumps(value)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace('"internal"', '"public"'),
        lambda text: text.replace("Nobody may", "Anybody may"),
        lambda text: text.replace('"translations": {', '"translations": {"de": {},'),
        lambda text: re.sub('"digest": "[0-9a-f]+"', '"digest": 7', text),
        lambda text: re.sub(',\\s*"digest": "[0-9a-f]+"', "", text),
    ],
)
def test_a_document_that_was_changed_by_hand_is_refused(tmp_path: Path, damage: Callable[[str], str]) -> None:
    """Its standing, its words and its digest stand or fall together; anybody may sign it anew, as SECURITY says."""
    stored.write(without_plots(), tmp_path / "out", ENGLISH)
    file = tmp_path / "out/document.json"
    before = file.read_text("utf-8")
    assert damage(before) != before
    file.write_text(damage(before), "utf-8")
    with pytest.raises(InvalidRequestError) as refused:
        stored.read(tmp_path / "out")
    assert refused.value.code == "DOCUMENT_UNREADABLE"
    file.write_text(signed(before), "utf-8")
    assert stored.read(tmp_path / "out").key == "sample"


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-40],
        lambda _: "[]",
        lambda text: text.replace('"standing": "internal"', '"standing": "secret"'),
        lambda text: text.replace('"type": "caution"', '"type": "opened"'),
        lambda text: text.replace('"heads"', '"hats"'),
        lambda text: text.replace('"words": "Nobody may overlook this."', '"words": 7'),
        lambda text: text.replace('"exact": "1/3"', '"exact": "1/0"'),
        lambda text: text.replace('"exact": "1/3"', '"exact": "1e9999999999"'),
        lambda text: text.replace('"exact": "1/3"', f'"exact": "1/{"3" * 401}"'),
        lambda text: text.replace('"exact": "1/3"', '"exact": 1'),
        lambda text: text.replace('"command": "tripartite lab sample"', '"command": 7'),
        lambda text: text.replace('"translations"', '"others"'),
    ],
)
def test_what_is_no_document_is_refused(tmp_path: Path, damage: object) -> None:
    """A folder that was cut short, edited or never written by the lab ends in a sentence, not in a traceback."""
    assert callable(damage)
    stored.write(without_plots(), tmp_path / "out", ENGLISH)
    file = tmp_path / "out/document.json"
    before = file.read_text("utf-8")
    after = damage(before)
    assert after != before
    file.write_text(signed(after), "utf-8")
    with pytest.raises(InvalidRequestError) as refused:
        stored.read(tmp_path / "out")
    assert refused.value.code == "DOCUMENT_UNREADABLE"
    with pytest.raises(InvalidRequestError):
        stored.read(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["日本語", "a\tb", "a\x1b[31mb"])
def test_a_name_that_the_font_cannot_draw_is_drawn_as_boxes_without_a_word(name: str) -> None:
    """The library's warning is an error in tests; to users it would show a path, and the raw character."""
    plot = Bars(name, name, name, Axis(name), [name], [name], [[1.0]])
    assert plots.draw(plot, ENGLISH, form="png", mark=name).startswith(b"\x89PNG")


def test_the_library_of_plots_says_nothing_of_its_own_folders() -> None:
    """It has none to keep fonts in where a home cannot be written to, and would print paths."""
    done = subprocess.run(
        [sys.executable, "-c", "import policy_lab.document.plots, policy_lab.document.pdf"],
        env=os.environ | {"MPLCONFIGDIR": "/proc/none"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""


@pytest.mark.parametrize("narrow", [False, True])
def test_many_long_names_leave_room_for_the_axes(narrow: bool) -> None:
    """The figure grows with its legend; the library would give up with a warning."""
    lines = [
        Line(f"shuffled, truncated, with the weight, all columns, number {n}", [(0, 0), (1, 1)]) for n in range(30)
    ]
    few, many = (
        plots.draw(Lines("k", "t", "d", Axis("x"), Axis("y"), some), ENGLISH, form="svg", narrow=narrow)
        for some in (lines[:2], lines)
    )
    assert height_of(many) > height_of(few) + 100


def height_of(svg: bytes) -> float:
    """In points, as the drawing says."""
    found = re.search(rb'height="([0-9.]+)pt"', svg)
    assert found
    return float(found[1])


def test_every_kind_of_block_is_in_the_sample() -> None:
    """The tests above leave none out."""
    tree = ast.parse(Path("policy_lab/document/model.py").read_text("utf-8"))
    union = next(
        ast.unparse(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "Block"
    )
    shown = {
        type(block).__name__
        for section in document().sections
        for block in (*section.citizen, *section.specialist, *section.blocks)
    }
    assert shown == set(union.split(" | "))


@pytest.mark.usefixtures("undrawn")
def test_fragments_are_those_of_the_page() -> None:
    """The site's own pages contain the same fragments as a file."""
    html = page.page(document(), ENGLISH)
    (first, _) = document().sections
    assert page.section(first, ENGLISH).strip() in html
    assert page.blocks([Paragraph("A <b>.")], ENGLISH).strip() == "<p>A &lt;b&gt;.</p>"
