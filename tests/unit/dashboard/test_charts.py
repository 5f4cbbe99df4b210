"""Charts: said to screen readers, safe whatever their labels say, and honest about what they draw."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest
from markupsafe import Markup

from broker_common.dashboard.charts import Bar, Mark, Range, Series, bars, gauge, ranges, steps

EVIL = '<script>x</script>&"'


def _gauge(value: float, limit: float) -> Markup:
    return gauge("g", EVIL, EVIL, value=Mark(value, EVIL), limit=Mark(limit, EVIL), scale=[Mark(0, EVIL)])


CHARTS = {
    "gauge": _gauge(0.2, 0.6),
    "steps": steps(
        "s", EVIL, EVIL, [Series([(0, 0), (0.5, 1), (1, 1)])], x_marks=[Mark(0, EVIL)], y_marks=[Mark(1, EVIL)]
    ),
    "no points": steps("s", "title", "text", [Series([])], x_marks=[], y_marks=[]),
}

TABLES = {
    "bars": bars("b", EVIL, (EVIL, EVIL, EVIL), [Bar(EVIL, 3, EVIL, (EVIL,)), Bar("none", 0, "0", ("0",))]),
    "no bars": bars("b", EVIL, (EVIL, EVIL), []),
    "bars by two": bars("b", EVIL, (EVIL, EVIL, EVIL), [Bar(EVIL, 3, EVIL, by=EVIL)]),
    "ranges": ranges("r", EVIL, (EVIL, EVIL), [Range(1, 2, 3, (EVIL, EVIL)), Range(2, None, None, (EVIL, EVIL))]),
    "no range": ranges("r", EVIL, (EVIL, EVIL), [Range(None, None, None, (EVIL, EVIL))]),
}


@pytest.mark.parametrize("chart", CHARTS.values(), ids=CHARTS)
def test_a_chart_is_well_formed_and_named(chart: Markup) -> None:
    """It parses, is an image to screen readers, and its name and description are the ones it refers to."""
    root = ET.fromstring(chart)  # noqa: S314 - made by ourselves
    assert root.attrib["role"] == "img"
    ids = {element.attrib["id"] for element in root.iter() if "id" in element.attrib}
    assert set(root.attrib["aria-labelledby"].split()) <= ids
    assert "<script" not in chart
    assert not re.search(r"\sstyle=|\son[a-z]+=", chart)


def _fill_width(chart: Markup) -> float:
    found = re.search(r'class="fill(?: alert)?"[^>]* width="([0-9.]+)%"', chart)
    assert found is not None
    return float(found[1])


def test_a_gauge_grows_with_its_value() -> None:
    """Twice as far is drawn twice as long, and beyond the limit it is marked."""
    assert _fill_width(_gauge(0.4, 0.6)) == pytest.approx(2 * _fill_width(_gauge(0.2, 0.6)), abs=0.1)
    assert "alert" not in _gauge(0.6, 0.6)
    assert "alert" in _gauge(0.61, 0.6)


def test_places_outside_the_scale_stay_on_the_paper() -> None:
    """A figure that is out of range is drawn at the edge, never outside."""
    numbers = [float(number) for number in re.findall(r'\b(?:x[12]?|width)="([0-9.-]+)%"', _gauge(7.0, -3.0))]
    assert len(numbers) > 6
    assert all(0 <= number <= 100 for number in numbers)


def test_bars_are_in_proportion() -> None:
    """The longest belongs to the largest value, the others are to scale."""
    chart = bars("b", "t", ("of", "number"), [Bar("a", 10, "10"), Bar("b", 5, "5"), Bar("c", 0, "0")])
    assert [float(each) for each in re.findall(r'class="fill"[^>]* width="([0-9.]+)%"', chart)] == [100, 50]


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_drawn_figures_are_a_table(table: Markup) -> None:
    """It parses, its figures have heads and a caption, and screen readers hear each of them once: not its drawing."""
    root = ET.fromstring(table)  # noqa: S314 - made by ourselves
    assert root.tag == "table"
    assert root.find("caption") is not None
    rows = [[cell for cell in row if "aria-hidden" not in cell.attrib] for row in root.iter("tr")]
    assert {len(row) for row in rows} == {len(rows[0])}
    assert all(cell.find("svg") is None for row in rows for cell in row)
    assert all(cell.attrib["scope"] == "col" for cell in rows[0])
    assert "<script" not in table
    assert not re.search(r"\sstyle=|\son[a-z]+=", table)


def test_a_range_lies_between_its_ends() -> None:
    """To scale; what lies further off than anybody looks goes to the edge, and has no dot."""
    chart = ranges("r", "t", ("of", "number"), [Range(25, 50, 100, ("a", "1")), Range(50, None, None, ("b", "2"))])
    strokes = re.findall(r'class="reach" x1="([0-9.]+)%" x2="([0-9.]+)%"', chart)
    assert [tuple(map(float, each)) for each in strokes] == [(25, 100), (50, 100)]
    assert re.findall(r'cx="([0-9.]+)%"', chart) == ["50.00"]
