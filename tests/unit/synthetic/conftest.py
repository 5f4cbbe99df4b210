"""Written sources for the tests of the synthetic population, made once per test run."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

from deploy.synthetic.population import write_sources

Row = dict[str, str]

PROVINCE = 100_000
SEED = 20110510


@dataclass(frozen=True)
class Sources:
    """Both files of one (population, seed)."""

    health_csv: Path
    census_csv: Path

    @cached_property
    def health(self) -> list[Row]:
        return _read(self.health_csv)

    @cached_property
    def census(self) -> list[Row]:
        return _read(self.census_csv)

    @cached_property
    def linked(self) -> list[tuple[Row, Row]]:
        """Health and census row of everyone whose card stands in both files."""
        by_card = {row["health_card"]: row for row in self.census if row["health_card"]}
        return [(row, by_card[row["health_card"]]) for row in self.health if row["health_card"] in by_card]


def _read(path: Path) -> list[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, strict=True))


@pytest.fixture(scope="session")
def province(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    """A population large enough for marginals."""
    folder = tmp_path_factory.mktemp("province")
    sources = Sources(folder / "health.csv", folder / "census.csv")
    write_sources(sources.health_csv, sources.census_csv, population=PROVINCE, seed=SEED)
    return sources
