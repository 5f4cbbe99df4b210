"""Criteria that match a wanted number of people, found by counting the health source once.

A cohort is everybody of at least some age, perhaps of one sex, perhaps of one census division. That gives hundreds of sizes
from nobody to everybody, whatever the population, and one of them lies near any size that is wanted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt

from deploy.synthetic.codes import CENSUS_DIVISIONS, SEXES, bare_codes

_AGES = 131
_SEX_NAMES = tuple(bare_codes(SEXES))
_DIVISION_NAMES = tuple(bare_codes(CENSUS_DIVISIONS))


@dataclass(frozen=True, slots=True)
class Cohort:
    """Criteria, and how many people of the source meet them. `sex` and `division` are places in the lists of codes."""

    age: int
    sex: int | None
    division: int | None
    people: int

    @property
    def where(self) -> str:
        """As a researcher writes it; SQL reads it as well."""
        terms = [f"age >= {self.age}"]
        if self.sex is not None:
            terms.append(f"sex = '{_SEX_NAMES[self.sex]}'")
        if self.division is not None:
            terms.append(f"census_division = '{_DIVISION_NAMES[self.division]}'")
        return " and ".join(terms)


class HealthSource:
    """The columns of the source that criteria are about, of everybody who can be sent: who has a card."""

    def __init__(self, path: Path) -> None:
        sexes, divisions = _cases("sex", _SEX_NAMES), _cases("census_division", _DIVISION_NAMES)
        with duckdb.connect(config={"threads": 2}) as connection:
            read = connection.execute(
                f"select age::utinyint as age, ({sexes})::utinyint as sex, ({divisions})::utinyint as division "  # noqa: S608 - our own
                "from read_csv(?, all_varchar = true) where health_card is not null and health_card <> ''",
                [str(path)],
            ).fetchnumpy()
        self.age, self.sex, self.division = (np.asarray(read[name], np.uint8) for name in ("age", "sex", "division"))
        shape = (_AGES, len(_SEX_NAMES), len(_DIVISION_NAMES))
        places = np.ravel_multi_index((self.age, self.sex, self.division), shape)
        counts = np.bincount(places, minlength=int(np.prod(shape))).reshape(shape)
        # Members of at least an age.
        self._counts: npt.NDArray[np.int64] = counts[::-1].cumsum(axis=0)[::-1]

    @property
    def people(self) -> int:
        return len(self.age)

    def near(self, people: int) -> Cohort:
        """The cohort whose size is nearest; of several, that of the fewest terms."""
        return min(self._all(), key=lambda cohort: abs(cohort.people - people))

    def near_by_age(self, people: int) -> Cohort:
        """The same of those whose criteria are one term."""
        return min(self._by_age(), key=lambda cohort: abs(cohort.people - people))

    def mask(self, cohort: Cohort) -> npt.NDArray[np.bool_]:
        """Who is in it, of the rows of this source."""
        found = self.age >= cohort.age
        if cohort.sex is not None:
            found &= self.sex == cohort.sex
        if cohort.division is not None:
            found &= self.division == cohort.division
        return found

    def _by_age(self) -> Iterator[Cohort]:
        for age in range(_AGES):
            yield Cohort(age, None, None, int(self._counts[age].sum()))

    def _all(self) -> Iterator[Cohort]:
        sexes, divisions = range(len(_SEX_NAMES)), range(len(_DIVISION_NAMES))
        yield from self._by_age()
        for age in range(_AGES):
            for sex in sexes:
                yield Cohort(age, sex, None, int(self._counts[age, sex].sum()))
        for age in range(_AGES):
            for sex in sexes:
                for division in divisions:
                    yield Cohort(age, sex, division, int(self._counts[age, sex, division]))


def _cases(column: str, names: tuple[str, ...]) -> str:
    cases = " ".join(f"when '{name}' then {place}" for place, name in enumerate(names))
    return f"case {column} {cases} end"
