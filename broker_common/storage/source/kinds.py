"""Which kind of source a file is: its content decides, never its name.

A name is what somebody typed; a file of another kind under it would be read as nonsense, row by row. What no source can
be is refused here, by what it begins with, so that the operator reads what it is instead of what it is not.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from broker_common.storage.source.parquet import PARQUET_MAGIC, ParquetSource
from broker_common.storage.source.rows import PLAIN, CsvSource, Manner, Wanted, reading, refuse

_UNPACK = "Unpack it first; the file inside must be CSV in UTF-8, or Parquet."
_SAVE_AGAIN = "Save it as CSV in UTF-8, or as Parquet."
_NO_SOURCE = (
    (b"\x1f\x8b", "it is compressed (gzip)", _UNPACK),
    (b"\x28\xb5\x2f\xfd", "it is compressed (Zstandard)", _UNPACK),
    (b"\xfd7zXZ\x00", "it is compressed (xz)", _UNPACK),
    (b"BZh", "it is compressed (bzip2)", _UNPACK),
    (b"PK\x03\x04", "it is a ZIP archive or a spreadsheet", "Unpack the archive, or save the spreadsheet as CSV."),
    (b"\xff\xfe", "it is text in UTF-16", _SAVE_AGAIN),
    (b"\xfe\xff", "it is text in UTF-16", _SAVE_AGAIN),
    (b"PARE", "it is an encrypted Parquet file", "Write it without encryption, on a disk that is encrypted."),
)
_LONGEST_BEGINNING = 8


def open_source(path: Path, columns: Collection[Wanted], manner: Manner = PLAIN) -> CsvSource | ParquetSource:
    """The source at `path`, which has these columns.

    Raises:
        InvalidRequestError: LOAD_REFUSED.
    """
    with reading(path) as file:
        beginning = file.read(_LONGEST_BEGINNING)
    if beginning.startswith(PARQUET_MAGIC):
        return ParquetSource(path, columns, manner)
    for known, problem, remedy in _NO_SOURCE:
        if beginning.startswith(known):
            refuse(problem, remedy)
    return CsvSource(path, [wanted.name for wanted in columns], manner)
