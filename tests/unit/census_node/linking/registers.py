"""Synthetic registers linked for tests, and what is true of the result: read with the csv module, not with the product's code."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import structs

from census_node.linking.linking import Linking
from census_node.linking.settings import Mode, read_settings
from deploy.synthetic.registers import CENSUS_FILE, REGISTER_FILE, TRUTH_FILE, write_registers

CENSUS_COLUMNS = (
    "person_id",
    "household_id",
    "given_name",
    "surname",
    "birth_date",
    "sex",
    "postal_code",
    "mother_tongue",
)
REGISTER_COLUMNS = ("health_card", "client_id", "given_name", "surname", "birth_date", "sex", "postal_code")


def rows_of(path: Path) -> list[dict[str, str]]:
    """A CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write_rows(path: Path, columns: Sequence[str], rows: Sequence[Mapping[str, str]]) -> Path:
    """A CSV file with these rows."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path


@dataclass(frozen=True, slots=True)
class Registers:
    """A folder with a census file, a register and the truth about them."""

    folder: Path
    # A tenth of the usual ones, from which a few thousand people's links are learned as well.
    training_pairs: int = 200_000

    @classmethod
    def made(cls, folder: Path, population: int, seed: int, **settings: int) -> Registers:
        folder.mkdir()
        write_registers(folder, population=population, seed=seed)
        return cls(folder, **settings)

    @property
    def census(self) -> Path:
        return self.folder / CENSUS_FILE

    @property
    def register(self) -> Path:
        return self.folder / REGISTER_FILE

    def truth(self) -> set[tuple[str, str]]:
        """Every card with its person."""
        return {(row["health_card"], row["person_id"]) for row in rows_of(self.folder / TRUTH_FILE)}

    def link(
        self, to: Path, *, mode: Mode | None = None, settings: Path | None = None, decisions: Path | None = None
    ) -> dict[str, Any]:
        """Link them into a folder; gives the report."""
        to.mkdir(exist_ok=True)
        found = structs.replace(read_settings(settings, mode), training_pairs=self.training_pairs)
        linking = Linking(self.census, self.register, to, found, decisions)
        return linking.run(lambda *_: None)


def links_in(to: Path) -> set[tuple[str, str]]:
    """The pairs of the table that was made."""
    return {(row["health_card"], row["person_id"]) for row in rows_of(to / "people.csv") if row["health_card"]}
