"""Files as a source. Several are read one after another, and a row is named by its file and its number there.

Which kind a file is, its content decides, never its name. A name is what somebody typed; a file of another kind under it would be
read as nonsense, row by row. A file that cannot be a source is refused here by its first bytes, so that the operator reads what
it is instead of what it is not.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from broker_common.errors import InvalidRequestError
from broker_common.storage.source.csv_file import CsvSource
from broker_common.storage.source.rows import (
    PARQUET_MAGIC,
    PLAIN,
    Chunk,
    Manner,
    Progress,
    RejectedRows,
    RowsOfFile,
    Source,
    Wanted,
    reading,
    refuse,
)

# A name in `files` that holds one of these is a pattern.
_PATTERN = "*?["
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


def open_source(path: Path, columns: Collection[Wanted], manner: Manner = PLAIN) -> Source:
    """The source at `path`, which has these columns.

    Raises:
        InvalidRequestError: LOAD_REFUSED.
    """
    with reading(path) as file:
        beginning = file.read(_LONGEST_BEGINNING)
    if beginning.startswith(PARQUET_MAGIC):
        # The library that reads it takes long to import, and most loads are of CSV.
        from broker_common.storage.source.parquet import ParquetSource

        return ParquetSource(path, columns, manner)
    for known, problem, remedy in _NO_SOURCE:
        if beginning.startswith(known):
            refuse(problem, remedy)
    return CsvSource(path, [wanted.name for wanted in columns], manner)


def files_named(folder: Path, names: Sequence[str]) -> list[Path]:
    """The files that names and patterns, relative to a folder, stand for: in the order of the list, those of a pattern by name.

    Raises:
        InvalidRequestError: LOAD_REFUSED.
    """
    found: list[Path] = []
    for name in names:
        if any(sign in name for sign in _PATTERN):
            matching = sorted(glob.glob(name, root_dir=folder))  # noqa: PTH207 - the name may be absolute
            if not matching:
                refuse(f"no file matches {name}", "Mend the pattern in source.toml, or put the files there.")
            found += [folder / match for match in matching]
        elif not (folder / name).exists():
            refuse(f"the file {name} is missing", "Put it there, or mend its name in source.toml.")
        else:
            found.append(folder / name)
    seen: set[Path] = set()
    for path in found:
        if path.resolve() in seen:
            refuse(f"the file {path.name} is named twice", "Name each file once in source.toml.")
        seen.add(path.resolve())
    return found


class FilesSource:
    """Files of the same columns, each of which may be CSV or Parquet."""

    def __init__(self, folder: Path, paths: Sequence[Path], columns: Collection[Wanted], manner: Manner) -> None:
        self._folder = folder
        self._paths = paths
        self._columns = columns
        self._manner = manner if len(paths) == 1 else replace(manner, may_be_empty=True)

    def chunks(self, rejected: RejectedRows, *, progress: Progress | None = None) -> Iterator[Chunk]:
        """The rows of all files, in order, counted through. Those that cannot be read are added to `rejected`.

        Raises:
            InvalidRequestError: LOAD_REFUSED, naming the file.
        """
        sizes = [_size(path) for path in self._paths]
        done = 0
        is_empty = True
        for path, size in zip(self._paths, sizes, strict=True):
            file = rejected.file(self._name(path))
            for chunk in self._of_file(path, file, _part(progress, done, size, sum(sizes))):
                file.saw(chunk.lines[-1])
                yield Chunk(_counted_on(chunk.lines, file.begin), chunk.columns, chunk.raw)
            done += size
            is_empty &= file.end == file.begin
        if is_empty:
            self._manner.kind.refuse_none()

    def _of_file(self, path: Path, rejected: RowsOfFile, progress: Progress | None) -> Iterator[Chunk]:
        chunks = self._opened(path, rejected, progress)
        while True:
            try:
                chunk = next(chunks, None)
            except InvalidRequestError as error:
                problem, remedy = error.details["problem"], error.details["remedy"]
                refuse(f"{self._name(path)}: {problem}", remedy)
            if chunk is None:
                return
            yield chunk

    def _opened(self, path: Path, rejected: RowsOfFile, progress: Progress | None) -> Iterator[Chunk]:
        yield from open_source(path, self._columns, self._manner).chunks(rejected, progress=progress)

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self._folder)) if path.is_relative_to(self._folder) else str(path)


def _counted_on(lines: Sequence[int], begin: int) -> Sequence[int]:
    """Numbers of rows that follow so many others."""
    if isinstance(lines, range):
        return range(begin + lines.start, begin + lines.stop)
    return [begin + line for line in lines]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        refuse(f"{path} cannot be read ({error.strerror})", "Check the path and the permissions.")


def _part(progress: Progress | None, before: int, size: int, total: int) -> Callable[[int, int], None] | None:
    """Progress of one file as progress of all."""
    if progress is None:
        return None

    def of_file(done: int, whole: int) -> None:
        progress(before + (size * done // whole if whole else size), total)

    return of_file
