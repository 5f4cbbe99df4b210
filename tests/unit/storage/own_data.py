"""An agency's own data for tests: a small dictionary, people and stays in hospital in published words, and in its own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from broker_common.query.dictionary import Code, Column, ColumnType, Dictionary, EventTable
from broker_common.storage.source.plan import SourcePlan, plan_for
from broker_common.storage.source.rows import RejectedRows, Source

IDS = ("health_card",)
DICTIONARY = Dictionary(
    (
        Column(
            name="sex",
            type=ColumnType.CODE,
            description="Sex.",
            codes=(Code("female", "Female"), Code("male", "Male")),
        ),
        Column(name="age", type=ColumnType.INTEGER, description="Age.", minimum=0, maximum=130),
        Column(name="born", type=ColumnType.DATE, description="Day of birth."),
        Column(
            name="diagnosis",
            type=ColumnType.CODE,
            description="Diagnoses.",
            multi_valued=True,
            codes=(Code("I21", "Infarction"), Code("J45", "Asthma"), Code("E11", "Diabetes")),
        ),
    ),
    (
        EventTable(
            "stay",
            "Stays in hospital.",
            (
                Column(name="admitted", type=ColumnType.DATE, description="Day of admission."),
                Column(
                    name="cause",
                    type=ColumnType.CODE,
                    description="Cause.",
                    codes=(Code("I21", "Infarction"), Code("J45", "Asthma")),
                ),
            ),
        ),
    ),
)
Row = tuple[str, ...]
PUBLISHED = ("health_card", "sex", "age", "born", "diagnosis")
PEOPLE: Sequence[Row] = (
    ("1000000001", "female", "61", "1950-03-02", "I21;J45"),
    ("1000000002", "male", "", "", ""),
    ("1000000003", "", "30", "1981-12-31", "E11"),
    ("", "male", "44", "1967-01-01", "J45"),
    ("1000000005", "female", "0", "2011-06-15", "E11;I21;J45"),
)
STAYS: Sequence[Row] = (
    ("1000000001", "2005-04-30", "I21"),
    ("1000000005", "2006-01-01", ""),
    ("1000000001", "", "J45"),
)


def own_home(folder: Path, text: str, files: Mapping[str, str | bytes] | None = None) -> Path:
    """A home with this source.toml, private as it must be, and these files."""
    folder.mkdir(exist_ok=True)
    for name, content in (files or {}).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        path.chmod(0o644)
    path = folder / "source.toml"
    path.write_text(text, "utf-8")
    os.chmod(path, 0o600)  # noqa: PTH101
    return folder


def plan_of(home: Path, dictionary: Dictionary = DICTIONARY, ids: Sequence[str] = IDS) -> SourcePlan:
    """The plan that the home's source.toml makes."""
    return plan_for(home, None, ids, dictionary)


def rows_of(source: Source, names: Sequence[str], rejected: RejectedRows | None = None) -> list[Row]:
    """Every row of a source; codes of several values in one order."""
    rows: list[Row] = []
    for chunk in source.chunks(rejected or RejectedRows()):
        rows += zip(*(chunk.columns[name] for name in names), strict=True)
    return [tuple(";".join(sorted(text.split(";"))) for text in row) for row in rows]
