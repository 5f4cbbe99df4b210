"""The whole linkage: read, compare, assign, write. Until everything is made nothing of what was there before is replaced.

Temporary files are in `.linking` in the folder of the results, for its owner alone, and are removed at the end. CRASH: a process that is
killed leaves that folder, with names in it; the next run erases it.
"""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import duckdb
from splink.internals.exceptions import SplinkException

from broker_common.errors import InvalidRequestError, RefusedError
from broker_common.language import language
from broker_common.storage.durable import create_for_owner, exclusive, make_folder, replacing
from census_node.linking import texts
from census_node.linking.assignment import assign
from census_node.linking.decisions import DECISION, read_decisions
from census_node.linking.model import score_pairs
from census_node.linking.reading import CARD, HOUSEHOLD, NAMED, PERSON, Database, Sources, read_sources, refuse
from census_node.linking.report import make_report, report_text
from census_node.linking.settings import LinkingSettings

PEOPLE_FILE: Final = "people.csv"
REVIEW_FILE: Final = "review.csv"
REPORT_FILE: Final = "linkage-report"

Progress = Callable[[int, int], None]

_FOLDER: Final = ".linking"
_LOCK: Final = ".linking.lock"
_ROWS: Final = 50_000
_STEPS: Final = 1000
# The step at which each part of the work is done.
_CENSUS_READ, _REGISTER_READ, _SCORED = 80, 160, 900


_INTERRUPTED: Final = "Query interrupted"
# SECURITY: people typed these texts. A spreadsheet would run what begins so, and could send away what stands beside it.
_HARMLESS: Final = r"case when regexp_matches({0}, '^\s*[-=+@]') then '''' || {0} else {0} end"


@dataclass(frozen=True, slots=True)
class Linking:
    """Inputs of one run, and where its results go."""

    census: Path
    register: Path
    to: Path
    settings: LinkingSettings
    decisions: Path | None = None

    def run(self, progress: Progress) -> dict[str, Any]:
        """Link; gives the report.

        Raises:
            InvalidRequestError: LINKING_REFUSED, LINKING_NOT_LEARNED, FILE_UNUSABLE.
            RefusedError: LOADING, another run works in this folder.
        """
        decisions = [] if self.decisions is None else read_decisions(self.decisions)
        try:
            make_folder(self.to)
            with self._private() as database:
                sources = read_sources(
                    database, self.census, self.register, self.settings, _part(progress, 0, _REGISTER_READ)
                )
                ((persons,),) = database.execute("select count(*) from census_side").fetchall()
                scored = _part(progress, _REGISTER_READ, _SCORED)
                model = score_pairs(
                    database, self.settings, int(persons), lambda share: scored(round(share * _STEPS), _STEPS)
                )
                unused = assign(database, self.settings, decisions, self.decisions)
                report = make_report(database, self.settings, sources, model, unused)
                self._write(database, sources, report)
                progress(_STEPS, _STEPS)
                return report
        except (duckdb.Error, SplinkException, RuntimeError) as error:
            self._explain(error)
            raise
        except OSError as error:
            file = str(error.filename or self.to)
            raise InvalidRequestError("FILE_UNUSABLE", file=file, problem=error.strerror or "unusable") from error

    def _explain(self, error: BaseException | None) -> None:
        """Raise what a failure of the database is for a person, if it is no fault of ours.

        SECURITY: what the libraries say of it may hold a query, and is not shown.

        Raises:
            KeyboardInterrupt: somebody ended the command.
            InvalidRequestError: LINKING_REFUSED.
        """
        while error is not None:
            # The binding's own error for an interrupt has no class of its own.
            if isinstance(error, duckdb.InterruptException | KeyboardInterrupt) or _INTERRUPTED in str(error):
                raise KeyboardInterrupt from None
            if isinstance(error, duckdb.OutOfMemoryException | duckdb.IOException):
                refuse(self.census, texts.TOO_LITTLE_MEMORY, texts.TOO_LITTLE_MEMORY_REMEDY)
            error = error.__cause__ or error.__context__

    @contextmanager
    def _private(self) -> Iterator[Database]:
        """A database in a folder of its own that nobody else enters, and that is gone afterwards."""
        folder = self.to / _FOLDER
        with exclusive(self.to / _LOCK) as is_ours:
            if not is_ours:
                raise RefusedError("LOADING")
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(mode=0o700)
            try:
                with duckdb.connect(str(folder / "pairs.duckdb"), config=self._config(folder)) as database:
                    yield database
            finally:
                shutil.rmtree(folder)

    def _config(self, folder: Path) -> dict[str, str | bool | int | float | list[str]]:
        threads = {"threads": self.settings.threads} if self.settings.threads else {}
        return {
            "memory_limit": f"{self.settings.memory_mib}MiB",
            "temp_directory": str(folder / "spilled"),
            "autoinstall_known_extensions": "false",
            "allow_community_extensions": "false",
            **threads,
        }

    def _write(self, database: Database, sources: Sources, report: dict[str, Any]) -> None:
        self._write_review(database)
        for name, content in (
            (f"{REPORT_FILE}.json", json.dumps(report, ensure_ascii=False, indent=1)),
            (f"{REPORT_FILE}.txt", report_text(report, language("en"))),
        ):
            with replacing(self.to / name) as temporary, create_for_owner(temporary) as file:
                file.write(content.encode())
        # The table comes last: where it is new, its report is there.
        self._write_people(database, sources)

    def _write_people(self, database: Database, sources: Sources) -> None:
        columns = (PERSON, HOUSEHOLD, *sources.carried)
        quoted = ", ".join(f'census."{name}"' for name in columns)
        _write_csv(
            self.to / PEOPLE_FILE,
            (CARD, *columns),
            database,
            f"select coalesce(links.card, ''), {quoted} from census left join links on links.person = census.row"
            " order by census.row, links.card",
        )

    def _write_review(self, database: Database) -> None:
        """SECURITY: the only file with names."""
        sides = [(side, name) for side in ("register", "census") for name in NAMED]
        shown = ", ".join(_HARMLESS.format(f"{side}.{name}") for side, name in sides)
        _write_csv(
            self.to / REVIEW_FILE,
            (DECISION, "why", "probability", CARD, PERSON, *(f"{side}_{name}" for side, name in sides)),
            database,
            f"""
            select coalesce(decided.answer, ''), coalesce(review.why, 'decided'), printf('%.6f', candidates.probability),
                register.health_card, census.person_id, {shown}
            from candidates left join review using (person, client) left join decided using (person, client)
                join census on census.row = candidates.person join register on register.row = candidates.client_row
            where review.person is not null or decided.person is not null
            order by review.drawn, candidates.person, candidates.client
            """,
        )


def _part(progress: Progress, begin: int, end: int) -> Progress:
    """The progress of one part of the work. It never goes back: a second file begins where the first one ended."""
    reached = begin

    def told(done: int, total: int) -> None:
        nonlocal reached
        reached = max(reached, begin + (end - begin) * min(done, total) // max(total, 1))
        progress(reached, _STEPS)

    return told


def _write_csv(path: Path, columns: Sequence[str], database: Database, query: str) -> None:
    with replacing(path) as temporary, create_for_owner(temporary) as file:
        file.write(_csv_text([columns]))
        rows = database.execute(query)
        while chunk := rows.fetchmany(_ROWS):
            file.write(_csv_text(chunk))


class _Lines(list[str]):
    """The output of a CSV writer."""

    def write(self, text: str) -> int:
        self.append(text)
        return len(text)


def _csv_text(rows: Sequence[Sequence[Any]]) -> bytes:
    lines = _Lines()
    csv.writer(lines, lineterminator="\n").writerows(rows)
    return "".join(lines).encode()
