"""Files that an agency writes for its dictionary: text of a bounded size, and code lists as CSV.

A code list has a header line with `value` and `label`, and perhaps `label_fr` and `under`; then a line for each code.
The parent of a code is one code, or several joined by `;`. Nothing of it is about a person, so errors quote it.
"""

from __future__ import annotations

import csv
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from broker_common.query.dictionary import MAX_CODES, MULTI_VALUE_SEPARATOR, Code, listed, nearest, shown

CODE_LIST_COLUMNS = ("value", "label", "label_fr", "under")
_NEEDED = ("value", "label")
MAX_CODE_LIST_BYTES = 64 * 1024 * 1024
"""Of a list of as many codes as there may be, with long labels in two languages."""

Wrong = Callable[[int, str, str], NoReturn]
"""Raises the error for a line, with what is wrong there and what to do about it."""


def wrong_at(file: Path) -> Wrong:
    """Raises DICTIONARY_INVALID for a line of `file`; line 0 stands for the whole file."""

    def wrong(line: int, problem: str, remedy: str) -> NoReturn:
        place = f"{file}:{line}" if line else str(file)
        raise InvalidRequestError("DICTIONARY_INVALID", file=place, problem=problem, remedy=remedy) from None

    return wrong


def read_text(path: Path, most_bytes: int) -> str:
    """The text of a file; a byte-order mark is left out.

    Raises:
        InvalidRequestError: DICTIONARY_INVALID.
    """
    wrong = wrong_at(path)
    try:
        # A pipe would otherwise be waited for, perhaps for ever.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                wrong(0, phrase("This is not a regular file."), phrase("Write it to a file."))
            data = file.read(most_bytes + 1)
    except OSError as error:
        wrong(
            0,
            phrase("The file cannot be read ({problem}).", problem=str(error.strerror)),
            phrase("Check the path and the permissions."),
        )
    if len(data) > most_bytes:
        wrong(
            0,
            phrase("The file is larger than {most} MiB.", most=most_bytes // 1024**2),
            phrase("Put long code lists into CSV files beside it; no code list is as large as that."),
        )
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        wrong(
            data.count(b"\n", 0, error.start) + 1,
            phrase("This is not UTF-8 text."),
            phrase("Save the file as UTF-8; spreadsheets offer 'CSV UTF-8'."),
        )


def read_code_list(path: Path) -> tuple[Code, ...]:
    """The codes of a CSV file, in its order.

    Raises:
        InvalidRequestError: DICTIONARY_INVALID, with the line.
    """
    text = read_text(path, MAX_CODE_LIST_BYTES)
    wrong = wrong_at(path)
    rows = csv.reader(text.splitlines(keepends=True), strict=True)
    lines: list[int] = []
    codes: list[Code] = []
    try:
        places = _places(next(rows, []), wrong)
        for row in rows:
            if row:
                codes.append(_code(row, places, rows.line_num, wrong))
                lines.append(rows.line_num)
            if len(codes) > MAX_CODES:
                wrong(
                    rows.line_num,
                    phrase("There are more than {most:,} codes.", most=MAX_CODES),
                    phrase("Publish fewer codes: categories, for instance, instead of their subdivisions."),
                )
    except csv.Error as error:
        wrong(
            rows.line_num,
            phrase("This line is not CSV ({problem}).", problem=str(error)),
            phrase("Put a field that holds a comma between double quotes, and double a quote inside it."),
        )
    verify_codes(codes, lines, wrong)
    return tuple(codes)


def verify_codes(codes: Sequence[Code], lines: Sequence[int], wrong: Wrong) -> None:
    """See to it that codes are distinct, and that what they stand under is a code; `lines` says where each was read."""
    if not codes:
        wrong(0, phrase("There are no codes."), phrase("Write at least one."))
    seen: set[str] = set()
    for code, line in zip(codes, lines, strict=True):
        if code.value in seen:
            wrong(
                line,
                phrase("The code '{code}' is there twice.", code=shown(code.value)),
                phrase("Remove one of the two."),
            )
        seen.add(code.value)
    for code, line in zip(codes, lines, strict=True):
        for parent in code.under:
            if parent not in seen:
                near = nearest(parent, seen - {code.value}, quote=True)
                wrong(
                    line,
                    phrase(
                        "'{code}' is placed under '{parent}', which is not a code.",
                        code=shown(code.value),
                        parent=shown(parent),
                    ),
                    phrase("Did you mean: {nearest}?", nearest=near)
                    if near
                    else phrase("Write it as a code as well, or remove it."),
                )


def _places(header: Sequence[str], wrong: Wrong) -> Mapping[str, int]:
    """Where each column of a code list stands in its rows."""
    names = [name.strip() for name in header]
    for name in names:
        if name not in CODE_LIST_COLUMNS or names.count(name) > 1:
            wrong(
                1,
                phrase(
                    "The header names '{name}', which is no column of a code list, or is there twice.", name=shown(name)
                ),
                phrase("A code list has: {columns}.", columns=listed(CODE_LIST_COLUMNS)),
            )
    for name in _NEEDED:
        if name not in names:
            wrong(
                1,
                phrase("The header does not name '{name}'.", name=name),
                phrase("A code list has: {columns}.", columns=listed(CODE_LIST_COLUMNS)),
            )
    return {name: names.index(name) for name in names}


def _code(row: Sequence[str], places: Mapping[str, int], line: int, wrong: Wrong) -> Code:
    if len(row) != len(places):
        wrong(
            line,
            phrase("This line has {found} fields instead of {wanted}.", found=len(row), wanted=len(places)),
            phrase("Put a field that holds a comma between double quotes, and double a quote inside it."),
        )
    under = row[places["under"]] if "under" in places else ""
    label_fr = row[places["label_fr"]] if "label_fr" in places else ""
    return made_code(
        row[places["value"]],
        row[places["label"]],
        label_fr,
        under.split(MULTI_VALUE_SEPARATOR) if under else (),
        line,
        wrong,
    )


def made_code(value: str, label: str, label_fr: str, under: Sequence[str], line: int, wrong: Wrong) -> Code:
    """A code of these parts; what it stands under may be in any order."""
    try:
        return Code(value, label, label_fr, tuple(sorted(under)))
    except ValueError as error:
        wrong(line, phrase("{problem}.", problem=error.args[0]), phrase("Mend it; see docs/dictionaries.md."))
