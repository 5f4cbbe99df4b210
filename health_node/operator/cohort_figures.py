"""How large cohorts were, for the health agency's own staff: in bands, computed at fixed times.

The node notes the band of each cohort beside its log (0, 1 to 9, 10 to 99, and so on), never the size. SECURITY: figures are
computed at most once a period and for at least `LEAST_QUESTIONS` new questions, under a lock, and numbers of questions come in
cells (`cells`), as at the census node: a figure that moved with each question would tell the size of its cohort to
everybody who sees the page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
from sqlite_utils import Database

from broker_common.dashboard.cells import join_small
from broker_common.errors import InternalError
from broker_common.storage.durable import exclusive, replace_file
from broker_common.storage.journal import rows_of

# Between two computations, so that no question can be told from their difference.
LEAST_QUESTIONS = 10
_FILE = "cohort-figures.json"
_LOCK = f"{_FILE}.lock"


class CohortFigures(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One computation."""

    as_of_ms: int
    # Not computed again before this.
    next_ms: int
    questions: int
    # Smallest and largest size of each band, and how many questions had such a cohort, rounded.
    bands: tuple[tuple[int, int, int], ...]


class CohortBands:
    """Rows of the health journal's database: one band for each question whose cohort was drawn."""

    def __init__(self, db: Database) -> None:
        self._db = db

    @staticmethod
    def create_tables(db: Database) -> None:
        db.table("cohort_bands").create({"ticket": str, "band": int}, pk="ticket", if_not_exists=True, ignore=True)

    def put(self, ticket_hash: str, size: int) -> None:
        """Note the band of a question's cohort; once."""
        self._db.execute(
            "insert or ignore into cohort_bands (ticket, band) values (?, ?)", [ticket_hash, band_of(size)]
        )

    def counts(self) -> dict[int, int]:
        """How many questions had a cohort in each band."""
        rows = self._db.execute("select band, count(*) from cohort_bands group by band order by band")
        return {int(band): int(count) for band, count in rows}


def read_counts(journal: Path) -> dict[int, int]:
    """The counts of a journal that a node may be writing to, without its locks."""
    with rows_of(journal) as db:
        return CohortBands(db).counts()


def band_of(size: int) -> int:
    """The number of digits of a size; 0 for nobody."""
    return 0 if size == 0 else len(str(size))


def read_cohort_figures(home: Path) -> CohortFigures | None:
    """The figures that were computed last; None before the first ones.

    Raises:
        InternalError: INTEGRITY, the file is damaged.
    """
    try:
        return msgspec.json.decode((home / _FILE).read_bytes(), type=CohortFigures)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError, ValueError) as error:
        raise InternalError("INTEGRITY", problem=f"{_FILE} is damaged: remove it") from error


def compute_if_due(home: Path, read: Callable[[], Mapping[int, int]], *, now_ms: int, period_ms: int) -> bool:
    """Compute the figures from the counts if their time has come; gives whether they were computed.

    SECURITY: one dashboard at a time, or two would compute figures that lie one question apart.
    """
    with exclusive(home / _LOCK, wait=True):
        before = read_cohort_figures(home)
        if before is not None and now_ms < before.next_ms:
            # Counting reads a row for each question that there ever was.
            return False
        counts = read()
        questions = sum(counts.values())
        if questions < LEAST_QUESTIONS + (0 if before is None else before.questions):
            return False
        next_ms = -(-(now_ms + period_ms) // period_ms) * period_ms
        figures = CohortFigures(now_ms, next_ms, questions, _joined(counts))
        replace_file(home / _FILE, msgspec.json.encode(figures), mode=0o600)
    return True


def _joined(counts: Mapping[int, int]) -> tuple[tuple[int, int, int], ...]:
    bands = range(max(counts, default=0) + 1)
    cells = join_small([counts.get(band, 0) for band in bands])
    return tuple((_smallest(cell.first), 10**cell.last - 1, cell.number) for cell in cells)


def _smallest(band: int) -> int:
    return 0 if band == 0 else 10 ** (band - 1)
