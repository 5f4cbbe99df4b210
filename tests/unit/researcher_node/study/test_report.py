"""A report in each of its formats, read back from them."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import duckdb
import pytest
from fakes.dictionaries import CENSUS_DICTIONARY, HEALTH_DICTIONARY
from fakes.world import FRENCH

from broker_common.values import NoisyCounts
from researcher_node.answers.store import AskedQuestion
from researcher_node.estimates.tables import Estimate, Interval
from researcher_node.study.design import Study, design
from researcher_node.study.file import parse_study_file
from researcher_node.study.formats import rendered, rows_of
from researcher_node.study.page import report_page
from researcher_node.study.record import Attempt
from researcher_node.study.report import report_json, report_text
from researcher_node.study.results import Counted, Finding, Results
from researcher_node.study.running import Standing

TEXT = f"""\
study: Francophones <and> others
where: age >= 45
by:
  sex: all
count: {FRENCH}
of: all
estimate:
  - share: French
  - ratio: French
    reference: male
"""


def interval(low: float, high: float, *, told: bool = True, method: str = "by hand") -> Interval:
    """An interval."""
    return Interval(low, high, told, method)


SHARE = Estimate("share", 0.051, interval(0.02, 0.08), interval(0.01, 0.09, method="by hand, wider"))
UNTOLD = Estimate("share", None, interval(0, 1, told=False), interval(0, 1, told=False))
OPEN = Estimate("ratio", 0.5, interval(0.1, math.inf), interval(0.0, math.inf, told=False))


def answered(query: str, *counts: int) -> AskedQuestion:
    """A question with its answer; a report reads no ticket."""
    return AskedQuestion(
        query=query,
        asked_ms=1_763_458_236_000,
        where=f"where {query}",
        question=FRENCH,
        scale=30,
        fraction_millionths=1_000_000,
        policy_hash="ab",
        signed_quote=b"",
        signed_ticket=b"",
        criteria=b"",
        criteria_nonce=b"",
        noisy=NoisyCounts(counts),
        charged=559_241,
    )


@pytest.fixture
def found() -> Results:
    """Two questions with answers, a share that can be told and one that cannot, and a ratio without an upper end."""
    study = design(parse_study_file(TEXT, "s.yaml"), HEALTH_DICTIONARY, CENSUS_DICTIONARY, "usual")
    return made(study, [answered("q1", 102, 1900), answered("q2", -7, 1)], [SHARE, UNTOLD, OPEN])


def made(study: Study, asked: Sequence[AskedQuestion | None], estimates: Sequence[Estimate | None]) -> Results:
    """The results of these answers and estimates."""
    standings = tuple(
        Standing(ask, None if each is None else Attempt(1, each.query, reused=False), each)
        for ask, each in zip(study.asks, asked, strict=True)
    )
    counted = tuple(
        Counted(standing, cell, float(number), 90.0)
        for standing in standings
        if standing.asked is not None and standing.asked.noisy is not None
        for cell, number in zip(study.cells, standing.asked.noisy.values, strict=True)
    )
    queries = tuple(each.query for each in asked if each is not None)
    findings = tuple(Finding(row, each, queries) for row, each in zip(study.rows, estimates, strict=True))
    return Results(study, 30, standings, counted, findings)


EXPECTED = [
    # kind, cell, sex, reference, value, noise, sampling
    ("count", "French", "female", None, 102, (12, 192), (None, None)),
    ("count", "rest", "female", None, 1900, (1810, 1990), (None, None)),
    ("count", "French", "male", None, -7, (-97, 83), (None, None)),
    ("count", "rest", "male", None, 1, (-89, 91), (None, None)),
    ("share", "French", "female", None, 0.051, (0.02, 0.08), (0.01, 0.09)),
    ("share", "French", "male", None, None, (None, None), (None, None)),
    ("ratio", "French", "female", "male", 0.5, (0.1, None), (None, None)),
]


def summary(rows: Sequence[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """The rows of a table as they are expected; a number that is missing is None in every format."""

    def number(value: Any) -> float | None:
        return None if value in {None, ""} else float(value)

    return [
        (
            *(row[name] for name in ("kind", "cell", "sex")),
            row["reference"] or None,
            number(row["value"]),
            (number(row["noise_low"]), number(row["noise_high"])),
            (number(row["sampling_low"]), number(row["sampling_high"])),
        )
        for row in rows
    ]


def test_csv_is_read_back(found: Results) -> None:
    """A row for each number; ends that are not told are empty, and so are ends that are not there."""
    rows = list(csv.DictReader(io.StringIO(rendered(found, "csv").decode())))
    assert summary(rows) == EXPECTED
    assert [row["queries"] for row in rows[:3]] == ["q1", "q1", "q2"]


def test_parquet_is_read_back(found: Results, tmp_path: Path) -> None:
    """The same rows, numbers as numbers."""
    file = tmp_path / "report.parquet"
    file.write_bytes(rendered(found, "parquet"))
    with duckdb.connect() as engine:
        engine.execute("select * from read_parquet($file)", {"file": str(file)})
        names = [each[0] for each in engine.description]
        rows = [dict(zip(names, row, strict=True)) for row in engine.fetchall()]
    assert summary(rows) == EXPECTED
    assert all(isinstance(row["value"], float | None) for row in rows)


def test_markdown_is_read_back(found: Results) -> None:
    """A table with as many cells in every line."""
    lines = [
        [cell.strip() for cell in line.strip("| ").split("|")] for line in rendered(found, "md").decode().splitlines()
    ]
    assert set(map(len, lines)) == {len(lines[0])}
    rows = [dict(zip(lines[0], line, strict=True)) for line in lines[2:]]
    assert summary(rows) == EXPECTED


def test_json_says_what_is_told(found: Results) -> None:
    """No infinity, which JSON does not have; `told` beside every interval, with its method."""
    report = json.loads(json.dumps(report_json(found), allow_nan=False))
    assert [estimate["value"] for estimate in report["estimates"]] == [0.051, None, 0.5]
    assert report["estimates"][0]["with_sampling"] == {
        "told": True,
        "low": 0.01,
        "high": 0.09,
        "method": "by hand, wider",
    }
    assert report["estimates"][1]["noise_only"] == {"told": False, "low": None, "high": None, "method": "by hand"}
    assert report["estimates"][2]["noise_only"] == {"told": True, "low": 0.1, "high": None, "method": "by hand"}
    assert report["estimates"][2]["reference"] == {"sex": "male"}
    assert (report["answered"], report["missing"], report["charged"]) == (2, 0, 2 * 559_241)
    assert [question["where"] for question in report["questions"]] == ["where q1", "where q2"]
    assert report["counts"][0] == {
        "group": {"sex": "female"},
        "event": None,
        "cell": "French",
        "count": 102,
        "margin_95": 90,
        "query_id": "q1",
    }


def test_text_says_both_intervals_and_what_cannot_be_told(found: Results) -> None:
    """In words and percent, with each method once and what is left out."""
    text = report_text(found)
    assert re.search(r"female +5\.1% +2\.0% to 8\.0% +1\.0% to 9\.0%", text)
    assert re.search(r"male +- +cannot be told +cannot be told", text)
    assert re.search(r"female +male +0\.50 +0\.10 to any number +cannot be told", text)
    assert text.count("Method: by hand, wider") == text.count("Method: by hand\n") == 1
    assert "left out" in text
    assert max(map(len, text.splitlines()[:-5])) < 100


def test_what_has_no_answer_yet_is_said(found: Results) -> None:
    """Nothing is made up for it, in any format."""
    part = made(found.study, [answered("q1", 102, 1900), None], [SHARE, None, None])
    assert len(rows_of(part)) == 2 + 3
    assert "no answer yet" in report_text(part)
    assert "1 questions have no answer yet" in report_text(part)
    report = report_json(part)
    assert [question["state"] for question in report["questions"]] == ["answered", "not asked"]
    assert report["estimates"][1]["noise_only"] is None


class _Page(HTMLParser):
    """The rows of every table, what is drawn, and what else is in the page."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._in_cell = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self._in_cell = True
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self._in_cell = self._in_cell and tag not in {"td", "th"}

    def handle_data(self, data: str) -> None:
        if self._in_cell:
            self.rows[-1][-1] += data


def read_page(found: Results) -> _Page:
    """The page, parsed."""
    page = _Page()
    page.feed(report_page(found))
    return page


def test_page_holds_the_same_figures_and_needs_nothing_else(found: Results) -> None:
    """Every figure in a table; no script and nothing that is fetched."""
    page = read_page(found)
    assert ["female", "102", "1,900"] in page.rows
    assert ["female", "5.1%", "2.0% to 8.0%", "1.0% to 9.0%", ""] in page.rows
    assert ["female", "male", "0.50", "0.10 to any number", "cannot be told", ""] in page.rows
    assert ["where q1", "q1", "559,241"] in page.rows
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in page.tags}
    assert not any(name in {"href", "src"} for _, attributes in page.tags for name in attributes)
    assert "Francophones &lt;and&gt; others" in report_page(found)
    assert "prefers-color-scheme: dark" in report_page(found)


def strokes(page: _Page) -> list[tuple[str, float, float]]:
    """Drawn lines: thin and thick ones from left to right."""
    return [
        (str(attributes["class"]), float(str(attributes["x1"])), float(str(attributes["x2"])))
        for tag, attributes in page.tags
        if tag == "line" and attributes.get("class") in {"thin", "thick"}
    ]


def test_drawing_is_in_proportion(found: Results) -> None:
    """The thick stroke lies within the thin one; what is not told is not drawn; an open end has an arrow."""
    page = read_page(found)
    thin, thick, ratio = strokes(page)
    assert (thin[0], thick[0], ratio[0]) == ("thin", "thick", "thick")
    assert thin[1] < thick[1] < thick[2] < thin[2]
    assert (thick[2] - thick[1]) / (thin[2] - thin[1]) == pytest.approx(0.06 / 0.08, rel=0.02)
    arrows = [attributes for tag, attributes in page.tags if tag == "path" and attributes.get("class") == "arrow"]
    assert len(arrows) == 1
    (dot,) = [float(str(each["cx"])) for tag, each in page.tags if tag == "circle"][:1]
    assert (dot - thin[1]) / (thin[2] - thin[1]) == pytest.approx((0.051 - 0.01) / 0.08, rel=0.02)


@pytest.mark.parametrize("name", ["kind", "value", "by"])
def test_entries_may_be_called_like_columns(name: str) -> None:
    """Such a group stands in a column of another name, and nothing is lost."""
    study = design(
        parse_study_file(f"by:\n  {name}:\n    old: age >= 65\n    young: age < 65\ncount: all\n", "s.yaml"),
        HEALTH_DICTIONARY,
        CENSUS_DICTIONARY,
        "usual",
    )
    rows = rows_of(made(study, [answered("q1", 5), answered("q2", 6)], []))
    assert [row["kind"] for row in rows] == ["count", "count"]
    assert [row[f"by_{name}" if name != "by" else "by"] for row in rows] == ["old", "young"]


@pytest.mark.parametrize("estimate", [replace(SHARE, kind="difference"), replace(UNTOLD, kind="difference")])
def test_page_of_a_study_whose_estimates_are_all_alike(estimate: Estimate) -> None:
    """Also where there is nothing to make a scale of."""
    text = TEXT.partition("estimate:")[0] + "estimate:\n  - difference: French\n    reference: male\n"
    study = design(parse_study_file(text, "s.yaml"), HEALTH_DICTIONARY, CENSUS_DICTIONARY, "usual")
    page = read_page(made(study, [answered("q1", 5, 6), answered("q2", 6, 7)], [estimate]))
    assert len(strokes(page)) == (2 if estimate.noise_only.told else 0)
