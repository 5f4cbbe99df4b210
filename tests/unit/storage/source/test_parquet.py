"""Parquet sources: every type that can be meant becomes the text of the CSV, every other one is refused by column."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import TypeAlias

import duckdb
import pytest
from fakes.parquet import write_parquet

from broker_common.errors import InvalidRequestError
from broker_common.query.dictionary import Code, Column, ColumnType
from broker_common.storage.source import parquet
from broker_common.storage.source.csv_file import MAX_LINE_BYTES
from broker_common.storage.source.parquet import ParquetSource
from broker_common.storage.source.rows import Manner, RejectedRows, RowKind, published

AGE = Column(name="age", type=ColumnType.INTEGER, description="Age.", maximum=130)
BORN = Column(name="born", type=ColumnType.DATE, description="Born.")
SEX = Column(name="sex", type=ColumnType.CODE, description="Sex.", codes=(Code("f", "F"), Code("m", "M")))
ILL = Column(name="ill", type=ColumnType.CODE, multi_valued=True, description="Ill.", codes=(Code("a", "A"),))
COLUMNS = (AGE, BORN, SEX, ILL)
Row: TypeAlias = tuple[int, tuple[str, ...]]
NAMES = ("card", *(column.name for column in COLUMNS))
PERSON = {"card": "'1'", "age": "61", "born": "date '1950-02-03'", "sex": "'f'", "ill": "['a', 'b']"}


def source(path: Path, **changed: str) -> Path:
    """One person, with other SQL for some columns."""
    columns = ", ".join(f"{expression} as {name}" for name, expression in (PERSON | changed).items())
    return write_parquet(path / "people", f"select {columns}")


def rows_of(path: Path, *, rows_per_chunk: int = 50_000) -> tuple[list[Row], RejectedRows]:
    """Number and texts of each row that is read, and the rows that are not."""
    rejected = RejectedRows()
    rows: list[Row] = []
    for chunk in ParquetSource(path, published(("card",), COLUMNS)).chunks(rejected, rows_per_chunk=rows_per_chunk):
        assert 0 < len(chunk.lines) <= rows_per_chunk
        texts = zip(*(chunk.columns[name] for name in NAMES), strict=True)
        rows += zip(chunk.lines, texts, strict=True)
    return rows, rejected


def refusal(path: Path) -> InvalidRequestError:
    """The error that reading ends in."""
    with pytest.raises(InvalidRequestError) as caught:
        rows_of(path)
    assert caught.value.code == "LOAD_REFUSED"
    return caught.value


@pytest.mark.parametrize(
    ("name", "expression", "text"),
    [
        ("card", "'0123456789'", "0123456789"),
        ("card", "null::varchar", ""),
        ("card", "'f'::enum('f', 'm')", "f"),
        *(("age", f"7::{kind}", "7") for kind in ("tinyint", "smallint", "integer", "bigint", "ubigint", "usmallint")),
        ("age", "7::decimal(18, 0)", "7"),
        ("age", "-7", "-7"),
        ("age", "9223372036854775807", "9223372036854775807"),
        ("age", "'007'", "007"),
        ("age", "null::integer", ""),
        ("born", "date '2010-12-31'", "2010-12-31"),
        ("born", "date '0001-01-01'", "0001-01-01"),
        ("born", "date '10000-01-01'", "10000-01-01"),
        ("born", "'31/12/2010'", "31/12/2010"),
        ("born", "null::date", ""),
        ("ill", "'a;b'", "a;b"),
        ("ill", "['a']", "a"),
        ("ill", "['a', 'b', 'a']", "a;b;a"),
        ("ill", "[]::varchar[]", ""),
        ("ill", "null::varchar[]", ""),
        # A column without any value has no type: some writers say so.
        ("ill", "[]", ""),
        ("sex", "'a\0b'", "a\0b"),
        ("sex", "'\u00e9'", "\u00e9"),
    ],
)
def test_value_becomes_the_text_that_csv_has(tmp_path: Path, name: str, expression: str, text: str) -> None:
    """Whole numbers, dates, texts, enumerations and lists of texts; NULL is the empty text."""
    ((line, texts),), rejected = rows_of(source(tmp_path, **{name: expression}))
    assert line == 1
    assert dict(zip(NAMES, texts, strict=True))[name] == text
    assert rejected.count == 0


@pytest.mark.parametrize("expression", ["['a;b']", "['a', null]", "[null]", "['']", "['a', '']", "[';']"])
def test_list_that_cannot_be_joined_is_no_code(tmp_path: Path, expression: str) -> None:
    """An element with the separator is not two codes, and a missing or empty one is not none: the column refuses both."""
    ((_, texts),), _ = rows_of(source(tmp_path, ill=expression))
    assert texts[-1] == ";"


@pytest.mark.parametrize(
    ("name", "expression", "kind", "remedy"),
    [
        ("card", "1234567890", "INTEGER", "as text: a number has lost the zeros"),
        ("card", "1234567890::decimal(10, 0)", "DECIMAL(10,0)", "a number has lost the zeros"),
        ("card", "1234567890.0::double", "DOUBLE", "Write card as text."),
        ("card", "['1']", "VARCHAR[]", "Write card as text."),
        ("card", "'1'::blob", "BLOB", "Write card as text."),
        ("sex", "1", "INTEGER", "a number has lost the zeros"),
        ("sex", "true", "BOOLEAN", "Write sex as text."),
        ("age", "61.0::double", "DOUBLE", "as text or as whole numbers"),
        ("age", "61::float", "FLOAT", "as text or as whole numbers"),
        ("age", "61::decimal(9, 2)", "DECIMAL(9,2)", "as text or as whole numbers"),
        ("age", "[61]", "INTEGER[]", "as text or as whole numbers"),
        ("age", "date '2010-12-31'", "DATE", "as text or as whole numbers"),
        ("born", "timestamp '2010-12-31 00:00:00'", "TIMESTAMP", "as text or as dates without a time"),
        ("born", "timestamptz '2010-12-31 00:00:00+00'", "TIMESTAMP WITH TIME ZONE", "without a time"),
        ("born", "20101231", "INTEGER", "without a time"),
        ("ill", "[1]", "INTEGER[]", "as text or as lists of texts"),
        ("ill", "[['a']]", "VARCHAR[][]", "as text or as lists of texts"),
        ("ill", "{'a': 'b'}", "STRUCT(a VARCHAR)", "as text or as lists of texts"),
        ("ill", "map {'a': 'b'}", "MAP(VARCHAR, VARCHAR)", "as text or as lists of texts"),
        ("ill", "{'\x1b[2J': 1}", 'STRUCT("?[2J" INTEGER)', "as text or as lists of texts"),
    ],
)
def test_type_that_cannot_be_meant_is_refused_by_column(
    tmp_path: Path, name: str, expression: str, kind: str, remedy: str
) -> None:
    """The sentence names column and type, and the hint what to write instead."""
    error = refusal(source(tmp_path, **{name: expression}))
    assert f"its column {name} holds {kind}." in error.text
    assert remedy in error.hint


def test_columns_are_the_published_ones_in_any_order(tmp_path: Path) -> None:
    """A column too many, too few, or in another spelling refuses the file, as in CSV."""
    (row,), _ = rows_of(write_parquet(tmp_path / "p", "select 'a' ill, 'f' sex, null::date born, 7 age, '1' card"))
    assert row == (1, ("1", "7", "", "f", "a"))
    for query, said in (
        ("select '1' card, 7 age", "lacks columns: born, ill, sex"),
        ("select 'a' ill, 'f' sex, '' born, 7 age, '1' card, 'x' name", "not published: name"),
        ("select 'a' ill, 'f' sex, '' born, 7 \"AGE\", '1' card", "lacks columns: age"),
        ("select 'a' ill, 'f' sex, '' born, 7 age, '1' card, 1 file_row_number", "not published: file_row_number"),
        ("select 'a' ill, 'f' sex, '' born, 7 age, '1' card, 1 as \"\x1b[2J\"", "not published: ?[2J"),
    ):
        assert said in refusal(write_parquet(tmp_path / "p", query)).text


def test_rows_come_in_chunks_in_the_order_of_the_file(tmp_path: Path) -> None:
    """Rows are numbered from 1 across chunks and row groups."""
    query = "select i::varchar card, 7 age, '' born, 'f' sex, 'a' ill from range(5000) t(i)"
    path = write_parquet(tmp_path / "p", query, ", row_group_size 2048")
    for rows_per_chunk in (1000, 4999, 50_000):
        rows, _ = rows_of(path, rows_per_chunk=rows_per_chunk)
        assert [(row, card) for row, (card, *_) in rows] == [(number + 1, str(number)) for number in range(5000)]


def test_progress_is_told_in_rows(tmp_path: Path) -> None:
    """The operator sees how much of the file is done, after each chunk."""
    query = "select i::varchar card, 7 age, '' born, 'f' sex, 'a' ill from range(5) t(i)"
    seen: list[tuple[int, int]] = []
    for _ in ParquetSource(write_parquet(tmp_path / "p", query), published(("card",), COLUMNS)).chunks(
        RejectedRows(), rows_per_chunk=2, progress=lambda done, total: seen.append((done, total))
    ):
        pass
    assert seen == [(2, 5), (4, 5), (5, 5)]


def test_row_that_is_too_long_costs_that_row_only(tmp_path: Path) -> None:
    """The limit of a CSV line holds for a row; its texts are not even made, and a chunk may be left with none."""
    long = f"case when i % 3 > 0 then repeat('x', {MAX_LINE_BYTES}) end"
    people = f"from range(6) t(i) select i::varchar card, 7 age, '' born, 'f' sex, {long} ill"
    path = write_parquet(tmp_path / "p", people)
    for rows_per_chunk in (1, 2, 100):
        rows, rejected = rows_of(path, rows_per_chunk=rows_per_chunk)
        assert [row[0] for row in rows] == [1, 4]
        assert rejected.counted_by == "row"
        assert rejected.first == tuple((row, f"is longer than {MAX_LINE_BYTES} bytes") for row in (2, 3, 5, 6))


def test_file_without_rows_is_refused(tmp_path: Path) -> None:
    """As in CSV: columns alone are not what the operator meant."""
    columns = ", ".join(f"{expression} as {name}" for name, expression in PERSON.items())
    assert "has no rows" in refusal(write_parquet(tmp_path / "p", f"select {columns} limit 0")).text


def test_half_a_file_is_refused_wherever_it_is_cut(tmp_path: Path) -> None:
    """Without its end, with the end put back on, and with a page blotted out."""
    whole = source(tmp_path).read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little") + 8
    path = tmp_path / "half"
    for cut in range(4, len(whole), 29):
        path.write_bytes(whole[:cut])
        assert "without its end" in refusal(path).text
    for cut in range(4, len(whole) - footer, 17):
        path.write_bytes(whole[:cut] + whole[-footer:])
        assert "damaged" in refusal(path).text
    path.write_bytes(whole[:4] + bytes(len(whole) - footer - 4) + whole[-footer:])
    assert "damaged" in refusal(path).text


def test_what_the_engine_says_of_a_damaged_file_is_not_repeated(tmp_path: Path) -> None:
    """DuckDB quotes the value that is not UTF-8; neither our text nor the exceptions behind it do."""
    path = source(tmp_path, sex="'SECRETVALUE'")
    path.write_bytes(path.read_bytes().replace(b"SECRETVALUE", b"SECRET\xff\xffLUE"))
    with duckdb.connect() as engine, pytest.raises(duckdb.Error, match="SECRET"):
        engine.execute("select sex from read_parquet(?)", [str(path)]).fetchall()
    error = refusal(path)
    assert "SECRET" not in error.text + error.hint
    assert error.__suppress_context__


def test_length_that_asks_for_all_memory_is_refused(tmp_path: Path) -> None:
    """A list in the footer that claims 2^23 elements makes DuckDB ask for 3.5 GB; the limit is lifted afterwards."""
    whole = source(tmp_path).read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_DATA)
    # Thrift compact: field 1 (version), then field 2, a list of 2^23 - 1 structs and the first of them empty.
    footer = b"\x15\x02\x19\xfc\xff\xff\xff\x03\x00"
    path = tmp_path / "bomb"
    path.write_bytes(whole[:4] + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    assert "more than 2 GiB of memory" in refusal(path).text
    assert resource.getrlimit(resource.RLIMIT_DATA) == limits


def test_more_rows_than_a_row_number_can_count_are_refused(tmp_path: Path) -> None:
    """A few bytes of Parquet may claim any number of equal rows; the claim is checked before the first is read."""
    path = source(tmp_path)
    with pytest.raises(InvalidRequestError, match="more than 0 rows"):
        list(ParquetSource(path, published(("card",), COLUMNS), Manner(RowKind("person", 0))).chunks(RejectedRows()))


def test_values_are_believed_and_not_what_the_file_says_of_them(tmp_path: Path) -> None:
    """A count of NULLs that is wrong, as some writers write it, makes no row too long and no value another."""
    people = "from range(3) t(i) select '1' card, 7 age, '' born, 'f' sex, case when i > 0 then 'a' end ill"
    path = write_parquet(tmp_path / "p", people)
    # Thrift compact, the statistics of `ill`: its smallest value, then field 3 (null_count), 1 as zigzag.
    content = path.read_bytes()
    assert content.count(b"\x18\x01a\x16\x02") == 1
    path.write_bytes(content.replace(b"\x18\x01a\x16\x02", b"\x18\x01a\x16\x00"))
    rows, rejected = rows_of(path)
    assert [texts[-1] for _, texts in rows] == ["", "a", "a"]
    assert rejected.count == 0


@pytest.mark.parametrize("claimed", [0, 2, 3, 60])
def test_other_number_of_rows_than_claimed_is_damage(tmp_path: Path, claimed: int) -> None:
    """Rows that are missing, or too many, never pass for a smaller or larger population."""
    path = write_parquet(tmp_path / "p", "select '1' card, 7 age, '' born, 'f' sex, 'a' ill from range(6)")
    content = path.read_bytes()
    # Thrift compact, field 3 of the footer: the number of rows as zigzag; a list of row groups follows.
    assert content.count(b"\x16\x0c\x19") == 1
    path.write_bytes(content.replace(b"\x16\x0c\x19", bytes([0x16, 2 * claimed, 0x19])))
    assert "damaged" in refusal(path).text


def test_engine_reaches_this_file_and_nothing_else(tmp_path: Path) -> None:
    """No other file, no network, no extension and no change of settings, whatever SQL a fault might let through."""
    path = source(tmp_path)
    other = write_parquet(tmp_path / "other", "select 1 as x")
    with path.open("rb") as file, other.open("rb") as second, parquet._confined(file) as (engine, name):
        assert len(engine.execute("select * from read_parquet(?)", [name]).fetchall()) == 1
        for attack in (
            f"from read_parquet('{other}')",
            f"from read_parquet('/dev/fd/{second.fileno()}')",
            "select * from read_text('/etc/hostname')",
            "select * from read_parquet('http://127.0.0.1:1/x.parquet')",
            "select * from glob('/etc/*')",
            f"copy (select 1) to '{tmp_path}/out.csv'",
            f"copy (select 1 as x) to '{path}' (format parquet)",
            f"attach '{tmp_path}/x.duckdb'",
            "install httpfs",
            "load httpfs",
            "set enable_external_access = true",
            "set allowed_paths = ['/etc/hostname']",
            "set memory_limit = '1TB'",
            "set threads = 8",
        ):
            with pytest.raises(duckdb.Error):
                engine.execute(attack).fetchall()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["other", "people"]


def test_file_that_names_another_file_for_its_columns_is_refused(tmp_path: Path) -> None:
    """Parquet lets a column lie in another file; that other file is never opened."""
    other = source(tmp_path)
    whole = other.read_bytes()
    footer_size = int.from_bytes(whole[-8:-4], "little")
    body, footer = whole[: -8 - footer_size], whole[-8 - footer_size : -8]
    # Thrift compact: a column chunk begins with field 2 (file_offset); field 1 (file_path) is put before it.
    named = footer.replace(b"\x26\x00\x1c", b"\x18" + bytes([len(str(other))]) + str(other).encode() + b"\x16\x00\x1c")
    assert named != footer
    path = tmp_path / "referring"
    path.write_bytes(body + named + len(named).to_bytes(4, "little") + b"PAR1")
    assert "damaged" in refusal(path).text
