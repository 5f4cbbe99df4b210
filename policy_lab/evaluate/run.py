"""A run: which data, which questions and which mechanisms. Everything that a promise rests on is declared, never taken from data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from policy_lab.evaluate.lined import Word
from policy_lab.mechanisms.neighbours import Neighbours
from policy_lab.standing import Standing

Place = Literal["global", "local", "shuffled"]
Along = Literal["nothing", "static", "weight"]
Query = Literal["count", "sum", "mean"]

NEIGHBOURS = {
    "add-or-remove": Neighbours.ADDED,
    "replace": Neighbours.REPLACED,
    "replace-within-stratum": Neighbours.REPLACED_WITHIN,
}
PLACES: tuple[Place, ...] = ("global", "local", "shuffled")
ALONG: tuple[Along, ...] = ("nothing", "static", "weight")
QUERIES: tuple[Query, ...] = ("count", "sum", "mean")
CATEGORY_NOISE = ("randomised_response",)
NUMBER_NOISE = ("truncated", "clamped", "wrapped", "wrapped_as_proposed")


@dataclass(frozen=True, slots=True)
class Column:
    """One column. It has categories, or public bounds of a number."""

    name: Word
    is_static: bool
    categories: tuple[Word, ...] = ()
    low: float = 0.0
    high: float = 0.0
    # Codes, as they are written, that say that there is no number.
    not_stated: frozenset[str] = frozenset()

    @property
    def is_category(self) -> bool:
        return bool(self.categories)


@dataclass(frozen=True, slots=True)
class Weights:
    """The column of survey weights: larger ones than the cap are clipped, and each is then multiplied."""

    column: Word
    cap: float
    multiplier: float


@dataclass(frozen=True, slots=True)
class Strata:
    """The column of strata, and all that there are."""

    column: Word
    values: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class Mechanism:
    """One way to make the answers: noise on the result, on every respondent's columns, or on those and then shuffled."""

    place: Place
    line: int
    # The law on bounded numbers, where respondents' own columns are noised.
    numbers: str = ""
    along: Along = "nothing"
    # Whether static columns are noised, or asked about, as well.
    also_static: bool = False

    @property
    def key(self) -> str:
        """Key that distinguishes it from the other mechanisms of the run."""
        parts = [self.place, self.numbers, *([f"with-{self.along}"] if self.place == "shuffled" else [])]
        return ".".join([*filter(None, parts), *(["all-columns"] if self.also_static else [])])


@dataclass(frozen=True, slots=True)
class RunFile:
    """The run file, checked by itself; the data are not read yet."""

    path: Path
    # Hash of its text: kept parts belong to this file.
    digest: str
    title: str
    data: Path
    data_line: int
    standing: Standing
    seed: int
    repetitions: int
    epsilons: tuple[float, ...]
    delta: float | None
    neighbours: Neighbours
    weights: Weights | None
    strata: Strata | None
    columns: tuple[Column, ...]
    queries: tuple[Query, ...]
    mechanisms: tuple[Mechanism, ...]
    profile: str = ""

    @property
    def strata_names(self) -> tuple[str, ...]:
        """The strata; one without a name where there are none."""
        return tuple(word.text for word in self.strata.values) if self.strata else ("",)

    def noised(self, mechanism: Mechanism) -> tuple[Column, ...]:
        """The columns that a mechanism noises, or answers about."""
        return tuple(column for column in self.columns if mechanism.also_static or not column.is_static)

    def unchanged(self, mechanism: Mechanism) -> tuple[Column, ...]:
        """The columns that a respondent sends, or is known by, as they are."""
        return tuple(column for column in self.columns if column.is_static and not mechanism.also_static)
