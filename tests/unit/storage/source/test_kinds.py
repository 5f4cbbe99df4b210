"""Kinds of files: the content decides, and a file that cannot be a source is told by name."""

from __future__ import annotations

import bz2
import gzip
import lzma
import shutil
from pathlib import Path

import pytest
from fakes.parquet import write_parquet

from broker_common.errors import InvalidRequestError
from broker_common.storage.source.files import open_source
from broker_common.storage.source.rows import RejectedRows, published

CSV = b"card,town\n1,a\n"


def texts(path: Path) -> list[tuple[str, ...]]:
    """Every row of a source with two ids."""
    rows: list[tuple[str, ...]] = []
    for chunk in open_source(path, published(("card", "town"), ())).chunks(RejectedRows()):
        rows += zip(*(chunk.columns[name] for name in ("card", "town")), strict=True)
    return rows


@pytest.mark.parametrize("name", ["people.csv", "people.parquet", "people", "people*.csv", "[a].parquet", "'", "http:"])
def test_content_decides_and_never_the_name(tmp_path: Path, name: str) -> None:
    """The same content is the same source under any name; no name is a pattern, a column or an address."""
    folder = tmp_path / "region=west"
    folder.mkdir()
    (folder / name).write_bytes(CSV)
    assert texts(folder / name) == [("1", "a")]
    # Another file that the name, read as a pattern, would match as well.
    write_parquet(folder / "a.parquet", "select '3' as card, 'c' as town")
    write_parquet(folder / "people1.csv", "select '3' as card, 'c' as town")
    shutil.move(write_parquet(tmp_path / "made", "select '2' as card, 'b' as town"), folder / name)
    assert texts(folder / name) == [("2", "b")]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (gzip.compress(CSV, mtime=0), "compressed (gzip)"),
        (bz2.compress(CSV), "compressed (bzip2)"),
        (lzma.compress(CSV), "compressed (xz)"),
        (b"\x28\xb5\x2f\xfd" + CSV, "compressed (Zstandard)"),
        (b"PK\x03\x04" + CSV, "ZIP archive or a spreadsheet"),
        (CSV.decode().encode("utf-16"), "UTF-16"),
        (b"\xfe\xff" + CSV.decode().encode("utf-16-be"), "UTF-16"),
        (CSV.decode().encode("utf-16-le"), "NUL bytes"),
        (CSV.decode().encode("utf-32"), "UTF-16"),
        (b"PARE" + CSV + b"PARE", "encrypted Parquet"),
        (b"PAR1", "without its end"),
        (b"PAR", "one column only"),
        (b"PAR1" + CSV, "without its end"),
        (b"PAR1PAR1", "damaged Parquet"),
        (CSV + b"PAR1", "in the middle of a row"),
        (b"", "it is empty"),
        (b"\0", "NUL bytes"),
        (b"%PDF-1.4\n", "one column only"),
    ],
)
def test_what_is_no_source_is_told_by_name(tmp_path: Path, content: bytes, said: str) -> None:
    """The operator reads what the file is, and what to do."""
    (tmp_path / "people.csv").write_bytes(content)
    with pytest.raises(InvalidRequestError) as caught:
        texts(tmp_path / "people.csv")
    assert caught.value.code == "LOAD_REFUSED"
    assert said in caught.value.text
