"""Parquet files for tests, written by DuckDB from SQL or from a CSV source."""

from __future__ import annotations

from pathlib import Path

import duckdb

HEALTH_TYPES = {
    "age": "age::smallint",
    "birth_year": "birth_year::bigint",
    "diagnosis": "string_split(diagnosis, ';')",
    "procedure": "coalesce(string_split(procedure, ';'), [])",
    "last_admission_date": "last_admission_date::date",
    "hospital_visits": "hospital_visits::decimal(9, 0)",
    "emergency_visits": "emergency_visits::uinteger",
}
"""The health columns as a warehouse would type them: SQL that makes them of CSV texts."""


def write_parquet(path: Path, query: str, options: str = "") -> Path:
    """The rows of a query as a Parquet file."""
    with duckdb.connect() as engine:
        engine.execute(f"copy ({query}) to '{path}' (format parquet {options})")
    return path


def parquet_from_csv(csv: Path, path: Path, types: dict[str, str] | None = None, options: str = "") -> Path:
    """The same people as Parquet: text, and NULL where a field is empty, except for columns made by `types`."""
    replaced = ", ".join(f"{expression} as {name}" for name, expression in (types or {}).items())
    columns = f"* replace ({replaced})" if types else "*"
    # S608: the tests' own names
    source = f"read_csv('{csv}', header = true, all_varchar = true, delim = ',', quote = '\"')"
    return write_parquet(path, f"select {columns} from {source}", options)  # noqa: S608
