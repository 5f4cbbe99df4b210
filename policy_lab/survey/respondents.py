"""The survey's data file: province, smoking, height and weight of every respondent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from policy_lab.arrays import Codes, Reals
from policy_lab.data_file import verify_ends
from policy_lab.survey import published, texts

# Makes the error that names the run file's line, of a problem and its remedy.
Refuse = Callable[[str, str], InvalidRequestError]

PROVINCE, SMOKING, HEIGHT, WEIGHT = "GEO_PRV", "SMK_005", "HWTDGHTM", "WTS_M"
DAILY = "Daily"
# Codes of "not stated" and "not applicable" among heights in metres.
NOT_STATED = (9.996, 9.999)


@dataclass(frozen=True, slots=True)
class Respondents:
    """Every row of the file."""

    provinces: Sequence[str]
    province: Codes
    # In the alphabetical order of the labels, as the report numbered them.
    smoking: Codes
    heights: Reals
    weights: Reals

    @property
    def rows(self) -> int:
        return len(self.weights)

    @property
    def present(self) -> Codes:
        """The numbers of the smoking answers that somebody gave: among them the pipeline chose a replacement."""
        return np.unique(self.smoking)

    @property
    def width(self) -> float:
        """Between the smallest and the largest height, codes for "not stated" included."""
        return float(np.ptp(self.heights))

    @property
    def top(self) -> float:
        return float(self.heights.max())

    def totals(self, amounts: Reals) -> Reals:
        """Weighted totals by province."""
        return np.bincount(self.province, self.weights * amounts, len(self.provinces)).astype(np.float64)

    @property
    def people(self) -> Reals:
        """For how many people each province's respondents stand."""
        return self.totals(np.ones(self.rows))


def daily_number() -> int:
    """The number of daily smokers: the report read this label rightly."""
    return next(each.number for each in published.codes(SMOKING) if each.label == DAILY)


def read(path: Path, refuse: Refuse) -> Respondents:
    """The data file, CSV or Parquet, compressed or not."""
    table = _table(path, refuse)
    missing = [name for name in (PROVINCE, SMOKING, HEIGHT, WEIGHT) if name not in table]
    if missing:
        raise refuse(phrase(texts.NO_COLUMN, column=f"'{missing[0]}'"), phrase(texts.NO_COLUMN_REMEDY))
    if not len(table):
        raise refuse(texts.NO_ROWS, texts.NO_ROWS_REMEDY)
    numbers = {name: _numbers(table[name], name, refuse) for name in (PROVINCE, SMOKING, HEIGHT, WEIGHT)}
    for name in (HEIGHT, WEIGHT):
        _verify_rows(numbers[name] > 0, phrase(texts.NOT_POSITIVE, column=f"'{name}'"), refuse)
    province = _numbered(numbers[PROVINCE], PROVINCE, refuse)
    present, dense = np.unique(province, return_inverse=True)
    labels = [each.label for each in published.codes(PROVINCE)]
    found = Respondents(
        provinces=tuple(labels[number] for number in present),
        province=dense.astype(np.int64).reshape(-1),
        smoking=_numbered(numbers[SMOKING], SMOKING, refuse),
        heights=numbers[HEIGHT],
        weights=numbers[WEIGHT],
    )
    if len(found.present) == 1 or daily_number() not in found.present or found.width == 0:
        raise refuse(texts.NOTHING_VARIES, texts.NOTHING_VARIES_REMEDY)
    return found


def _table(path: Path, refuse: Refuse) -> Any:
    import pandas as pd  # noqa: PLC0415 - an extra

    wanted = {PROVINCE, SMOKING, HEIGHT, WEIGHT}
    try:
        verify_ends(path)
        if path.suffix.lower() == ".parquet":
            return pd.read_parquet(path)
        return pd.read_csv(path, usecols=lambda name: name in wanted, dtype=str, keep_default_na=False)
    except FileNotFoundError:
        raise refuse(phrase(texts.NO_FILE, file=f"'{path.name}'"), texts.NO_FILE_REMEDY) from None
    except (OSError, EOFError, ValueError):
        # The library's errors may quote a person's row.
        raise refuse(phrase(texts.UNREADABLE, file=f"'{path.name}'"), texts.UNREADABLE_REMEDY) from None


def _numbers(column: Any, name: str, refuse: Refuse) -> Reals:
    import pandas as pd  # noqa: PLC0415 - an extra

    numbers = np.asarray(pd.to_numeric(column, errors="coerce"), np.float64)
    _verify_rows(np.isfinite(numbers), phrase(texts.NO_NUMBER, column=f"'{name}'"), refuse)
    return numbers


def _numbered(values: Reals, name: str, refuse: Refuse) -> Codes:
    known = published.codes(name)
    matches = values[:, None] == np.array([each.code for each in known])
    listed = ", ".join(str(each.code) for each in sorted(known, key=lambda each: each.code))
    _verify_rows(matches.any(axis=1), phrase(texts.UNKNOWN_CODE, column=f"'{name}'", codes=listed), refuse)
    return np.asarray(np.array([each.number for each in known])[matches.argmax(axis=1)], np.int64)


def _verify_rows(good: NDArray[np.bool_], problem: str, refuse: Refuse) -> None:
    if not good.all():
        row = int(np.flatnonzero(~good)[0]) + 1
        raise refuse(problem, phrase(texts.ROW_REMEDY, row=row))
