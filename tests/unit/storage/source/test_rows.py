"""CSV sources: no file crashes the reader, and every fault is one of the file or one of a row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker_common.errors import InvalidRequestError
from broker_common.query.dictionary import Code, Column, ColumnType
from broker_common.storage.source.csv_file import MAX_LINE_BYTES, CsvSource
from broker_common.storage.source.rows import (
    MAX_KEPT_REJECTIONS,
    Manner,
    RejectedRows,
    RowKind,
    ascending_order,
    ascending_without_repeats,
)
from broker_common.storage.source.values import MISSING, ColumnReader

COLUMNS = ("health_card", "sex", "town")
HEADER = b"health_card,sex,town\n"


def rows_of(
    path: Path, content: bytes, *, rows_per_chunk: int = 50_000
) -> tuple[list[tuple[int, str, str, str]], tuple[tuple[int, str], ...]]:
    """Line and values of each row that is read, and the rows that are not."""
    path.write_bytes(content)
    rejected = RejectedRows()
    rows: list[tuple[int, str, str, str]] = []
    for chunk in CsvSource(path, COLUMNS).chunks(rejected, rows_per_chunk=rows_per_chunk):
        assert 0 < len(chunk.lines) <= rows_per_chunk
        rows += zip(chunk.lines, *(chunk.columns[name] for name in COLUMNS), strict=True)
    return rows, rejected.first


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the source lies."""
    return tmp_path / "source.csv"


@pytest.mark.parametrize(
    "content",
    [
        HEADER + b"1,f,a\n2,m,b\n",
        HEADER + b"1,f,a\n2,m,b",
        HEADER + b"\n1,f,a\n\n\n2,m,b\n\n",
        b"\xef\xbb\xbf" + HEADER + b"1,f,a\n2,m,b\n",
        HEADER.replace(b"\n", b"\r\n") + b"1,f,a\r\n2,m,b\r\n",
        b"town,sex,health_card\na,f,1\nb,m,2\n",
        b'"health_card","sex","town"\n"1","f","a"\n2,"m",b\n',
    ],
)
def test_same_rows_are_read_however_the_file_was_saved(path: Path, content: bytes) -> None:
    """Line ends, byte-order mark, order of columns, needless quotes and empty lines make no difference."""
    rows, rejected = rows_of(path, content)
    assert [row[1:] for row in rows] == [("1", "f", "a"), ("2", "m", "b")]
    assert rejected == ()


def test_quoted_fields_hold_commas_and_quotes(path: Path) -> None:
    """A value may hold a comma, and a quote written twice."""
    rows, _ = rows_of(path, HEADER + b'1,f,"Stormont, Dundas"\n2,m,"the ""town"""\n')
    assert [row[3] for row in rows] == ["Stormont, Dundas", 'the "town"']


def test_rows_come_in_chunks_with_their_line_numbers(path: Path) -> None:
    """Chunks are bounded, and lines are counted from the header, empty and rejected ones included."""
    content = HEADER + b"1,f,a\n\n2,f\n" + b"3,m,b\n" * 5
    rows, rejected = rows_of(path, content, rows_per_chunk=2)
    assert [row[0] for row in rows] == [2, 5, 6, 7, 8, 9]
    assert rejected == ((4, "has 2 fields instead of 3"),)


def test_progress_is_told_in_bytes(path: Path) -> None:
    """The operator sees how much of the file is done, after each chunk and at the end."""
    path.write_bytes(HEADER + b"1,f,a\n" * 3)
    seen: list[tuple[int, int]] = []
    chunks = CsvSource(path, COLUMNS).chunks(
        RejectedRows(), rows_per_chunk=2, progress=lambda done, total: seen.append((done, total))
    )
    assert sum(len(chunk.lines) for chunk in chunks) == 3
    size = len(HEADER) + 18
    assert seen == [(size - 6, size), (size, size)]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it is empty"),
        (HEADER, "has no rows"),
        (b"\n1,f,a\n", "lacks columns: health_card, sex, town"),
        (b"health_card,sex\n1,f\n", "lacks columns: town"),
        (HEADER.strip() + b",language\n", "not published: language"),
        (HEADER.strip() + b",\x1b[2J\n", "not published: ?[2J"),
        (HEADER.strip() + b",sex\n", "twice: sex"),
        (HEADER.replace(b",", b";"), "names one column only"),
        (HEADER.replace(b",", b"\t"), "names one column only"),
        (HEADER.replace(b"\n", b"\r") + b"1,f,a\r", "lacks columns"),
        (HEADER.decode().encode("utf-16"), "line 1 holds NUL bytes"),
        (b"\x00" * 1000, "line 1 holds NUL bytes"),
        (HEADER + b"1,f,a\n" + b"\x00" * 4096 + b"f,a\n", "line 3 holds NUL bytes"),
        (HEADER + b"1,f,\x00\n2,m,b\n", "line 2 holds NUL bytes"),
        (b'"health_card,sex,town\n1,f,a\n', "does not name columns in UTF-8"),
        (b"x" * (MAX_LINE_BYTES + 1), "does not name columns in UTF-8"),
    ],
)
def test_wrong_file_is_refused_as_a_whole(path: Path, content: bytes, said: str) -> None:
    """A fault of the first line is a fault of the file."""
    with pytest.raises(InvalidRequestError) as caught:
        rows_of(path, content)
    assert caught.value.code == "LOAD_REFUSED"
    assert said in caught.value.text


def test_unreadable_file_is_refused(tmp_path: Path) -> None:
    """A path that leads nowhere, or to a directory, ends in a typed error."""
    for path in (tmp_path / "nowhere.csv", tmp_path):
        with pytest.raises(InvalidRequestError) as caught:
            list(CsvSource(path, COLUMNS).chunks(RejectedRows()))
        assert "cannot be read" in caught.value.text


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"1,f", "has 2 fields instead of 3"),
        (b"1,f,a,b", "has 4 fields instead of 3"),
        (b" ", "has 1 fields instead of 3"),
        (b'1,f,"a', "has a quote in the wrong place or one that is not closed"),
        (b'1,f,"a"b', "has a quote in the wrong place or one that is not closed"),
        (b"1,f,\xff", "is not UTF-8 text"),
        (b"1,f,\xed\xa0\x80", "is not UTF-8 text"),
        (b"1,f," + b"x" * MAX_LINE_BYTES, f"is longer than {MAX_LINE_BYTES} bytes"),
        (b"1,f," + b"x" * (3 * MAX_LINE_BYTES), f"is longer than {MAX_LINE_BYTES} bytes"),
        (b'1,f,"' + b"x" * (3 * MAX_LINE_BYTES), f"is longer than {MAX_LINE_BYTES} bytes"),
    ],
)
def test_wrong_row_costs_that_row_only(path: Path, line: bytes, reason: str) -> None:
    """Ragged rows, open quotes, other encodings and giant fields are rejected one by one; the next row is read."""
    rows, rejected = rows_of(path, HEADER + b"1,f,a\n" + line + b"\n2,m,b\n")
    assert [row[0] for row in rows] == [2, 4]
    assert rejected == ((3, reason),)
    # The same without an end is no fault of one row: nobody knows what else is missing.
    with pytest.raises(InvalidRequestError) as caught:
        rows_of(path, HEADER + b"1,f,a\n" + line)
    assert caught.value.code == "LOAD_REFUSED"
    assert f"it ends in the middle of a row; line 3: {reason}" in caught.value.text


def test_last_line_that_does_not_end_may_not_be_rejected_for_anything(path: Path) -> None:
    """A loader that finds it wrong, or finds its card repeated, ends the load; any other row it may leave out."""
    path.write_bytes(HEADER + b"1,f,a\n1,m,b")

    def wrong(rejected: RejectedRows) -> None:
        rejected.add(3, "sex holds a code that is not published")

    def repeated(rejected: RejectedRows) -> None:
        rejected.add_repeats(np.array([3], np.uint32), np.array([2], np.uint32))

    def not_among_those_kept(rejected: RejectedRows) -> None:
        repeats = np.ones(2 * MAX_KEPT_REJECTIONS, np.uint32)
        repeats[-1] = 3
        rejected.add_repeats(repeats, np.ones_like(repeats))

    for reject in (wrong, repeated, not_among_those_kept):
        rejected = RejectedRows()
        assert [list(chunk.lines) for chunk in CsvSource(path, COLUMNS).chunks(rejected)] == [[2, 3]]
        rejected.add(2, "is wrong")
        with pytest.raises(InvalidRequestError, match="in the middle of a row; line 3"):
            reject(rejected)


def test_more_rows_than_a_line_number_can_count_are_refused(path: Path) -> None:
    """The limit is checked while reading, before the next row is kept."""
    few = Manner(RowKind("person", 3))
    path.write_bytes(HEADER + b"1,f,a\n2,m,b\n")
    assert len(list(CsvSource(path, COLUMNS, few).chunks(RejectedRows()))) == 1
    path.write_bytes(HEADER + b"1,f,a\n2,m,b\n3,m,b\n")
    with pytest.raises(InvalidRequestError, match="more than 3 rows"):
        list(CsvSource(path, COLUMNS, few).chunks(RejectedRows()))


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(st.binary(min_size=1, max_size=200) | st.text(alphabet='1f,"\n\r\0;', min_size=1, max_size=200).map(str.encode))
def test_no_content_crashes_the_reader(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    """Whatever stands below the header, each non-empty line is read or rejected, or the file is refused."""
    path = tmp_path_factory.getbasetemp() / "any.csv"
    lines = content.split(b"\n")
    try:
        rows, rejected = rows_of(path, HEADER + content)
    except InvalidRequestError:
        assert b"\0" in content or lines[-1]
    else:
        assert b"\0" not in content
        assert len(rows) + len(rejected) == sum(line.removesuffix(b"\r") != b"" for line in lines)


def test_number_of_kept_reasons_is_bounded() -> None:
    """A wrong file of millions of rows fills no memory with reasons."""
    rejected = RejectedRows()
    for line in range(MAX_KEPT_REJECTIONS + 5, 0, -1):
        rejected.add(line, "is wrong")
    assert rejected.count == MAX_KEPT_REJECTIONS + 5
    assert len(rejected.first) == MAX_KEPT_REJECTIONS
    assert rejected.first[0][0] < rejected.first[-1][0]


@pytest.mark.parametrize(
    ("count", "rows", "max_rejected", "refused"),
    [
        (0, 0, None, False),
        (100, 100, None, False),
        (101, 101, None, True),
        (150, 15_000, None, False),
        (151, 15_000, None, True),
        (0, 10, 0, False),
        (1, 1_000_000, 0, True),
        (500, 501, 500, False),
        (501, 1_000_000, 500, True),
    ],
)
def test_many_rejected_rows_mean_the_wrong_file(
    count: int, rows: int, max_rejected: int | None, *, refused: bool
) -> None:
    """A hundred or one in a hundred is tolerated; an explicit limit replaces both."""
    rejected = RejectedRows()
    for line in range(count):
        rejected.add(line, "sex holds a code that is not published")
    if not refused:
        rejected.verify_few(rows, max_rejected)
        return
    with pytest.raises(InvalidRequestError) as caught:
        rejected.verify_few(rows, max_rejected)
    assert f"{count} of its {rows} rows" in caught.value.text
    assert "line 0: sex holds" in caught.value.text
    assert "--max-rejected" in caught.value.hint


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=30))
def test_pseudonyms_are_sorted_and_the_first_of_each_stays(pseudonyms: list[tuple[int, int]]) -> None:
    """Sorting by both halves agrees with a plain dictionary of what was seen first."""
    halves = np.array(pseudonyms, dtype=np.uint64).reshape(-1, 2) * np.uint64(2**62)
    lines = np.arange(2, len(pseudonyms) + 2, dtype=np.uint32)
    rejected = RejectedRows()
    order = ascending_without_repeats(halves[:, 0], halves[:, 1], lines, rejected)
    first_seen: dict[tuple[int, int], int] = {}
    expected = []
    for line, pseudonym in enumerate(pseudonyms, start=2):
        if pseudonym in first_seen:
            expected.append((line, f"repeats the health_card of line {first_seen[pseudonym]}"))
        first_seen.setdefault(pseudonym, line)
    assert [int(lines[place]) for place in order] == [first_seen[pseudonym] for pseudonym in sorted(first_seen)]
    assert list(rejected.first) == expected
    assert rejected.count == len(expected)


def test_a_file_repeated_whole_keeps_few_reasons() -> None:
    """Every row of the second half repeats one of the first, and memory stays bounded."""
    half = np.arange(5_000, dtype=np.uint64)
    both = np.concatenate([half, half])
    rejected = RejectedRows()
    order = ascending_without_repeats(both, both, np.arange(2, 10_002, dtype=np.uint32), rejected)
    assert len(order) == 5_000
    assert rejected.count == 5_000
    assert rejected.first[0] == (5_002, "repeats the health_card of line 2")
    assert len(rejected.first) == MAX_KEPT_REJECTIONS


def reader(column_type: ColumnType, **settings: object) -> ColumnReader:
    """A reader of a column named x."""
    column = Column(name="x", type=column_type, description="X.", **settings)  # type: ignore[arg-type]
    return ColumnReader(column)


def letters(size: int) -> tuple[Code, ...]:
    """Codes c0, c1, ..."""
    return tuple(Code(f"c{number}", "Code") for number in range(size))


@pytest.mark.parametrize(
    ("made", "texts", "numbers"),
    [
        (reader(ColumnType.INTEGER, minimum=-5, maximum=9), ["", "-5", "9", "09", ""], [MISSING, -5, 9, 9, MISSING]),
        (reader(ColumnType.DATE), ["1970-01-02", "", "0001-01-01"], [1, MISSING, -719162]),
        (reader(ColumnType.CODE, codes=letters(300)), ["c0", "", "c299"], [0, MISSING, 299]),
        (
            reader(ColumnType.CODE, codes=letters(64), multi_valued=True),
            ["", "c0", "c63;c1", "c0"],
            [0, 1, 2**63 + 2, 1],
        ),
    ],
)
def test_texts_become_numbers(made: ColumnReader, texts: Sequence[str], numbers: list[int]) -> None:
    """Each type has its number, and no value has the number of its type that means none."""
    values, wrong = made.read(texts)
    assert values.tolist() == numbers
    assert wrong == {}


def test_wrong_texts_are_named_by_place() -> None:
    """The same wrong text is reported wherever it stands, and does not disturb its neighbours."""
    values, wrong = reader(ColumnType.INTEGER, maximum=9).read(["1", "ten", "2", "10", "ten"])
    assert values[[0, 2]].tolist() == [1, 2]
    assert wrong == {1: "x is not a whole number", 3: "x is not between 0 and 9", 4: "x is not a whole number"}


def test_column_that_does_not_fit_its_numbers_has_no_reader() -> None:
    """A number has 32 bits, and one of them means none. More codes than a mask has bits are a list, which has another reader."""
    for limits in ({"maximum": 2**31}, {"minimum": MISSING}):
        with pytest.raises(InvalidRequestError, match="32 bits") as caught:
            reader(ColumnType.INTEGER, **limits)
        assert caught.value.code == "DICTIONARY_UNUSABLE"


@given(st.lists(st.tuples(st.sampled_from([0, 1, 2**64 - 1]), st.sampled_from([0, 1, 2**63, 2**64 - 1])), max_size=30))
def test_order_of_hashes_is_that_of_both_halves(hashes: list[tuple[int, int]]) -> None:
    """Also where many share a first half; equal ones keep the order of the file."""
    high, low = (np.array([each[half] for each in hashes], np.uint64) for half in (0, 1))
    assert ascending_order(high, low).tolist() == sorted(range(len(hashes)), key=hashes.__getitem__)
