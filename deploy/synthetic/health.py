"""The health variables. **Every number in this module is invented**, chosen to be plausible in size, not to be right.

A person has a profile: age, sex, frail or robust, francophone or not. Each diagnosis has a chance by profile; each
procedure one by profile and by the diagnosis that leads to it; visits are Poisson with a mean by profile and by serious
diagnoses. Diagnoses come together because frail people (half of all) have three times the chances of robust ones.

Links with language (francophone: first official language French, or English and French), all invented so that
answers are worth asking for: see `francophone` in the tables below, and the constants for visits. They act through the
profile alone, so francophones of the same age and sex differ by those factors and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from deploy.synthetic.arrays import Booleans, Floats, Integers
from deploy.synthetic.codes import DIAGNOSES, PROCEDURES, bare_codes
from deploy.synthetic.households import OLDEST_AGE

DAYS_OF_ADMISSIONS: Final = 365
"""Admissions fall on one of the days before the reference date; the latest is counted from the first of them."""
MOST_VISITS: Final = 60

_FRAIL: Final = 0.5
_CHANCES_OF_ROBUST, _CHANCES_OF_FRAIL = 0.5, 1.5
_LARGEST_CHANCE: Final = 0.95
_BIRTHDAYS_BY_REFERENCE_DATE: Final = 130 / 365  # 1 January to 10 May

# Visits in the year before the reference date: means by age 0, 10, ..., 90, multiplied as a francophone, and for each
# serious diagnosis.
_HOSPITAL_VISITS: Final = (0.10, 0.04, 0.07, 0.10, 0.09, 0.12, 0.20, 0.32, 0.48, 0.60)
_EMERGENCY_VISITS: Final = (0.50, 0.32, 0.42, 0.36, 0.30, 0.28, 0.30, 0.38, 0.55, 0.75)
_HOSPITAL_FRANCOPHONE: Final = 1.05
_EMERGENCY_FRANCOPHONE: Final = 0.85
_MORE_VISITS_PER_SERIOUS_DIAGNOSIS: Final = 0.55
_SERIOUS: Final = (
    "type_1_diabetes",
    "type_2_diabetes",
    "coronary_heart_disease",
    "heart_failure",
    "atrial_fibrillation",
    "stroke",
    "chronic_kidney_disease",
    "copd",
    "cancer",
    "dementia",
    "schizophrenia",
)


@dataclass(frozen=True, slots=True)
class _Diagnosis:
    """Percentages of women at age 0, 10, ..., 90; men and francophones have theirs multiplied."""

    percent: tuple[float, ...]
    men: float = 1.0
    francophone: float = 1.0


@dataclass(frozen=True, slots=True)
class _Procedure:
    """As a diagnosis, for people without the cause; `given_cause` is the percentage for those with it, at any age."""

    percent: tuple[float, ...]
    men: float = 1.0
    francophone: float = 1.0
    cause: str | None = None
    given_cause: float = 0.0


_NEVER: Final = (0.0,) * 10

_DIAGNOSES: Final[dict[str, _Diagnosis]] = {
    "hypertension": _Diagnosis((0, 0.1, 1, 3, 8, 20, 37, 52, 58, 58)),
    "high_cholesterol": _Diagnosis((0, 0.2, 1, 4, 9, 20, 32, 38, 34, 24), men=1.1),
    "obesity": _Diagnosis((1, 7, 12, 16, 19, 22, 23, 20, 14, 8), men=1.05, francophone=1.1),
    "type_1_diabetes": _Diagnosis((0.05, 0.3, 0.5, 0.5, 0.5, 0.5, 0.4, 0.3, 0.2, 0.1), men=1.1),
    "type_2_diabetes": _Diagnosis((0, 0.1, 0.4, 1.4, 3.8, 8, 14, 19, 20, 16), men=1.15, francophone=1.15),
    "coronary_heart_disease": _Diagnosis((0, 0, 0.1, 0.3, 1, 2.8, 6, 11, 17, 20), men=1.6, francophone=1.1),
    "heart_failure": _Diagnosis((0, 0, 0, 0.1, 0.2, 0.6, 1.6, 4, 10, 18), men=1.2),
    "atrial_fibrillation": _Diagnosis((0, 0, 0.1, 0.1, 0.3, 0.8, 2.2, 5, 10, 15), men=1.25),
    "stroke": _Diagnosis((0, 0, 0.1, 0.2, 0.4, 1, 2.2, 4.5, 8, 11), men=1.15),
    "chronic_kidney_disease": _Diagnosis((0, 0.1, 0.2, 0.4, 0.9, 2, 4, 9, 16, 22)),
    "copd": _Diagnosis((0, 0, 0.1, 0.3, 1, 3, 6, 9, 11, 10), men=1.1, francophone=1.2),
    "asthma": _Diagnosis((6, 15, 12, 9, 8, 8, 8, 8, 7, 6), men=0.9),
    "cancer": _Diagnosis((0.1, 0.1, 0.3, 0.8, 2, 4, 7, 10, 12, 12), men=1.05),
    "arthritis": _Diagnosis((0, 0.3, 1.5, 4, 9, 20, 32, 42, 50, 52), men=0.75),
    "osteoporosis": _Diagnosis((0, 0, 0.1, 0.3, 1, 5, 12, 20, 28, 30), men=0.25),
    "thyroid_disorder": _Diagnosis((0.1, 0.5, 2, 4, 6, 9, 11, 13, 14, 14), men=0.3),
    "glaucoma": _Diagnosis((0, 0, 0.1, 0.2, 0.6, 1.5, 3.2, 6, 10, 13)),
    "migraine": _Diagnosis((0.3, 5, 14, 18, 17, 13, 8, 5, 3, 2), men=0.4),
    "epilepsy": _Diagnosis((0.4, 0.6, 0.7, 0.7, 0.7, 0.7, 0.8, 1, 1.2, 1.3)),
    "parkinson_disease": _Diagnosis((0, 0, 0, 0, 0.1, 0.1, 0.4, 1.1, 2.2, 2.8), men=1.4),
    "dementia": _Diagnosis((0, 0, 0, 0, 0.1, 0.2, 0.8, 3.5, 14, 32), men=0.85),
    "depression": _Diagnosis((0, 2, 9, 11, 11, 11, 9, 7, 7, 7), men=0.6, francophone=0.9),
    "anxiety_disorder": _Diagnosis((0.5, 5, 10, 11, 10, 9, 8, 6, 5, 5), men=0.6),
    "schizophrenia": _Diagnosis((0, 0.1, 0.9, 1, 1, 0.9, 0.8, 0.6, 0.4, 0.3), men=1.2),
}

_PROCEDURES: Final[dict[str, _Procedure]] = {
    "angioplasty": _Procedure(
        (0, 0, 0, 0, 0.02, 0.05, 0.1, 0.1, 0.1, 0.1), cause="coronary_heart_disease", given_cause=29, francophone=1.1
    ),
    "coronary_bypass": _Procedure(_NEVER, cause="coronary_heart_disease", given_cause=9),
    "heart_valve_surgery": _Procedure(
        (0.05, 0.05, 0.05, 0.05, 0.1, 0.2, 0.4, 0.8, 1.2, 1.2), cause="heart_failure", given_cause=5
    ),
    "pacemaker_insertion": _Procedure(
        (0, 0, 0, 0, 0.1, 0.1, 0.3, 0.8, 2.2, 4), cause="atrial_fibrillation", given_cause=16
    ),
    "dialysis": _Procedure(_NEVER, cause="chronic_kidney_disease", given_cause=3),
    "kidney_transplant": _Procedure(_NEVER, cause="chronic_kidney_disease", given_cause=1.2),
    "chemotherapy": _Procedure(_NEVER, cause="cancer", given_cause=28),
    "mastectomy": _Procedure((0, 0, 0, 0.1, 0.2, 0.4, 0.5, 0.6, 0.6, 0.6), men=0, cause="cancer", given_cause=9),
    "colonoscopy": _Procedure((0, 0.1, 1, 3, 8, 28, 40, 44, 36, 24), francophone=0.9),
    "hip_replacement": _Procedure((0, 0, 0, 0.1, 0.1, 0.2, 0.4, 0.8, 1.2, 1.5), cause="arthritis", given_cause=5),
    "knee_replacement": _Procedure(
        (0, 0, 0, 0, 0.1, 0.2, 0.5, 0.8, 1, 0.9), cause="arthritis", given_cause=7, francophone=1.1
    ),
    "cataract_surgery": _Procedure((0.05, 0.05, 0.1, 0.1, 0.4, 1.5, 6, 22, 44, 52)),
    "caesarean_section": _Procedure((0, 0, 2, 12, 17, 15, 12, 8, 5, 3), men=0),
    "hysterectomy": _Procedure((0, 0, 0.1, 1, 6, 15, 22, 26, 28, 28), men=0),
    "appendectomy": _Procedure((0.1, 1.5, 4, 5.5, 7, 8, 10, 12, 14, 14)),
    "gallbladder_removal": _Procedure((0, 0.1, 1.5, 4, 7, 9, 12, 14, 15, 15), men=0.45),
    "hernia_repair": _Procedure((0.4, 0.8, 0.8, 1, 1.5, 2, 3, 3.5, 4, 4), men=3.5),
    "tonsillectomy": _Procedure((0.3, 6, 8, 9, 14, 22, 28, 30, 28, 24)),
    "ct_scan": _Procedure((0.5, 1.5, 4, 6, 9, 14, 20, 28, 36, 38), cause="cancer", given_cause=70),
    "mri_scan": _Procedure((0.3, 2, 5, 8, 11, 14, 17, 18, 15, 8), cause="epilepsy", given_cause=55, francophone=0.95),
}

_SERIOUS_MASK: Final = sum(1 << bare_codes(DIAGNOSES).index(code) for code in _SERIOUS)

_Chances = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class HealthRecords:
    """Columns of equal length. Masks have bit k for code k; `admission_day` means nothing without a hospital visit."""

    birthday_to_come: Booleans
    diagnoses: Integers
    procedures: Integers
    hospital_visits: Integers
    emergency_visits: Integers
    admission_day: Integers


def health_records(
    age: Integers, sex: Integers, francophone: Booleans, generator: np.random.Generator
) -> HealthRecords:
    """One record per person, drawn from the generator."""
    rows = len(age)
    frail = generator.random(rows, dtype=np.float32) < _FRAIL
    profile = ((age * 2 + sex) * 2 + frail) * 2 + francophone
    diagnoses = _draw_diagnoses(profile, generator)
    hospital, emergency = _draw_visits(profile, diagnoses, generator)
    return HealthRecords(
        birthday_to_come=generator.random(rows, dtype=np.float32) >= _BIRTHDAYS_BY_REFERENCE_DATE,
        diagnoses=diagnoses,
        procedures=_draw_procedures(profile, diagnoses, generator),
        hospital_visits=hospital,
        emergency_visits=emergency,
        admission_day=_latest_days(hospital, generator),
    )


def _draw_diagnoses(profile: Integers, generator: np.random.Generator) -> Integers:
    masks = np.zeros_like(profile)
    for bit, chances in enumerate(_diagnosis_chances()):
        masks |= _hits(chances[profile], generator) << bit
    return masks


def _draw_procedures(profile: Integers, diagnoses: Integers, generator: np.random.Generator) -> Integers:
    masks = np.zeros_like(profile)
    for bit, (chances, cause, given_cause) in enumerate(_procedure_chances()):
        chance = chances[profile]
        if cause is not None:
            affected = np.flatnonzero(diagnoses >> cause & 1)
            chance[affected] = given_cause[profile[affected]]
        masks |= _hits(chance, generator) << bit
    return masks


def _draw_visits(profile: Integers, diagnoses: Integers, generator: np.random.Generator) -> tuple[Integers, Integers]:
    """Hospital and emergency visits."""
    serious = np.bitwise_count(diagnoses & _SERIOUS_MASK)
    burden = 1.0 + _MORE_VISITS_PER_SERIOUS_DIAGNOSIS * serious
    hospital_means, emergency_means = _visit_means()
    hospital = generator.poisson(hospital_means[profile] * burden)
    emergency = generator.poisson(emergency_means[profile] * burden)
    return np.minimum(hospital, MOST_VISITS), np.minimum(emergency, MOST_VISITS)


def _latest_days(visits: Integers, generator: np.random.Generator) -> Integers:
    """The latest of as many evenly drawn days as there are visits."""
    part = generator.random(len(visits)) ** (1.0 / np.maximum(visits, 1))
    # A root may round up to 1, and there is no day after the last.
    return np.minimum((part * DAYS_OF_ADMISSIONS).astype(np.int64), DAYS_OF_ADMISSIONS - 1)


def _hits(chances: _Chances, generator: np.random.Generator) -> Integers:
    return (generator.random(len(chances), dtype=np.float32) < chances).astype(np.int64)


@cache
def _diagnosis_chances() -> tuple[_Chances, ...]:
    """Chances by profile, in the order of the codes."""
    tables = (_DIAGNOSES[code] for code in bare_codes(DIAGNOSES))
    return tuple(_as_chances(_by_profile(table.percent, table.men, table.francophone)) for table in tables)


@cache
def _procedure_chances() -> tuple[tuple[_Chances, int | None, _Chances], ...]:
    """Chances by profile without the cause, the cause's number, and by profile with it; in the order of the codes."""
    found = []
    for code in bare_codes(PROCEDURES):
        table = _PROCEDURES[code]
        cause = None if table.cause is None else bare_codes(DIAGNOSES).index(table.cause)
        with_cause = _by_profile((table.given_cause,) * 10, min(table.men, 1.0), table.francophone, frailty=False)
        without = _by_profile(table.percent, table.men, table.francophone)
        found.append((_as_chances(without), cause, _as_chances(with_cause)))
    return tuple(found)


@cache
def _visit_means() -> tuple[Floats, Floats]:
    return (
        _by_profile(_HOSPITAL_VISITS, 1.0, _HOSPITAL_FRANCOPHONE),
        _by_profile(_EMERGENCY_VISITS, 1.0, _EMERGENCY_FRANCOPHONE),
    )


def _by_profile(by_age: tuple[float, ...], men: float, francophone: float, *, frailty: bool = True) -> Floats:
    """A value per profile from values at age 0, 10, ..., 90 and factors."""
    ages = np.interp(np.arange(OLDEST_AGE + 1), np.arange(len(by_age)) * 10, by_age)
    frail = (_CHANCES_OF_ROBUST, _CHANCES_OF_FRAIL) if frailty else (1.0, 1.0)
    factors = np.multiply.outer(np.multiply.outer((1.0, men), frail), (1.0, francophone)).ravel()
    return np.multiply.outer(ages, factors).ravel()


def _as_chances(percent: Floats) -> _Chances:
    return np.minimum(percent / 100.0, _LARGEST_CHANCE).astype(np.float32)
