"""A load's report to its operator: every row left out, what changed, and nothing that a person may have written."""

from __future__ import annotations

import csv
import json
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest
from unit.storage.own_data import DICTIONARY, PEOPLE, PUBLISHED, STAYS, Row

from broker_common.errors import InvalidRequestError
from broker_common.storage.load_figures import (
    FIGURES_FILE,
    REJECTED_FILE,
    REPORT_FILE,
    Change,
    Changes,
    CodeChange,
    LoadFigures,
    changes_between,
    figures_before,
    keep_figures,
    watching,
)
from broker_common.storage.source.plan import PlainPlan
from broker_common.storage.source.rows import MAX_KEPT_REJECTIONS, RejectedRows

STAY_COLUMNS = ("health_card", "admitted", "cause")


def written(folder: Path, people: Sequence[Row] = PEOPLE, stays: Sequence[Row] = STAYS) -> PlainPlan:
    """A plan of files with these rows."""
    for name, header, rows in (("people", PUBLISHED, people), ("stay", STAY_COLUMNS, stays)):
        lines = [",".join(row) for row in [header, *rows]]
        (folder / f"{name}.csv").write_text("\n".join([*lines, ""]), "utf-8")
    return PlainPlan(folder / "people.csv")


def figures_of(folder: Path, people: Sequence[Row] = PEOPLE, stays: Sequence[Row] = STAYS) -> LoadFigures:
    """The figures of a load that admits every row."""
    (table,) = DICTIONARY.events
    with watching(folder) as watch:
        plan = watch.over(written(folder, people, stays))
        for source in (plan.people(DICTIONARY.columns), plan.events(table)):
            list(source.chunks(RejectedRows()))
    return watch.figures(rows=len(people), people=len(people), rejected=0)


def test_load_of_the_same_rows_says_so(tmp_path: Path) -> None:
    """One other value, in any column, is a change, even where no figure shows it."""
    before = figures_of(tmp_path)
    keep_figures(tmp_path, before, {"rows": 5})
    assert json.loads((tmp_path / REPORT_FILE).read_text("utf-8")) == {"rows": 5}
    assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in (FIGURES_FILE, REPORT_FILE)} == {0o600}
    assert figures_before(tmp_path) == before
    assert changes_between(before, figures_of(tmp_path)) == Changes((), (), is_same=True)
    other = [("1000000001", "female", "62", "1950-03-02", "I21;J45"), *PEOPLE[1:]]
    assert changes_between(before, figures_of(tmp_path, other)) == Changes((), (), is_same=False)


def test_figures_say_what_changed_and_whether_by_much(tmp_path: Path) -> None:
    """Rows, people, events, shares without a value, and codes that came or went."""
    people = [(f"{number:010}", "female", "1", "2000-01-01", "I21;J45") for number in range(100)]
    before = figures_of(tmp_path, people, [("1", "2000-01-01", "I21")] * 100)
    people[50:56] = [(f"{number:010}", "", "1", "2000-01-01", "E11") for number in range(6)]
    now = figures_of(tmp_path, people[:95], [("1", "2000-01-01", "J45")] * 111)
    assert changes_between(before, now) == Changes(
        (
            Change("rows", "", 100, 95, is_much=False),
            Change("people", "", 100, 95, is_much=False),
            Change("missing_percent", "sex", 0, 6.32, is_much=True),
            Change("events", "stay", 100, 111, is_much=True),
        ),
        (
            CodeChange("diagnosis", (), ("E11",), is_much=False),
            CodeChange("stay.cause", ("I21",), ("J45",), is_much=True),
        ),
        is_same=False,
    )


def test_only_published_codes_are_kept(tmp_path: Path) -> None:
    """A text that is no code may be a name."""
    figures = figures_of(tmp_path, [("1", "Ada Lovelace", "x", "y", "I21;Lovelace")])
    keep_figures(tmp_path, figures, {})
    assert b"Lovelace" not in (tmp_path / FIGURES_FILE).read_bytes()
    assert figures.tables["people"].columns["diagnosis"].codes == ("I21",)


def test_every_rejected_row_stands_in_the_file(tmp_path: Path) -> None:
    """Those too that are only counted in the output; also where the load is refused, which says where they stand."""
    plan = written(tmp_path, [(str(number), "female", "1", "") for number in range(MAX_KEPT_REJECTIONS + 500)])
    rejected = RejectedRows()

    def load() -> None:
        with watching(tmp_path) as watch:
            list(watch.over(plan).people(DICTIONARY.columns).chunks(rejected))
            rejected.verify_few(rejected.count)

    with pytest.raises(InvalidRequestError) as caught:
        load()
    path = tmp_path / REJECTED_FILE
    assert str(path) in caught.value.hint
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == rejected.count == MAX_KEPT_REJECTIONS + 500
    assert rows[-1] == {
        "table": "people",
        "file": "",
        "counted_by": "line",
        "number": str(MAX_KEPT_REJECTIONS + 501),
        "reason": "has 4 fields instead of 5",
    }


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b'{"rows": 1}', b"\xff"])
def test_figures_that_cannot_be_read_are_none(tmp_path: Path, content: bytes) -> None:
    """Another version wrote them: the next load has something to compare with again."""
    assert figures_before(tmp_path) is None
    (tmp_path / FIGURES_FILE).write_bytes(content)
    assert figures_before(tmp_path) is None
