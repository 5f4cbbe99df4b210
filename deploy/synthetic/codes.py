"""The code lists of the synthetic health source, each code with a one-line label.

A generated column holds these codes and nothing else; a code's position in its tuple is the number it has in arrays. The health
node publishes lists of its own (it may not look at data, nor at this package); they must cover these. The census divisions come
from `figures/census_divisions.csv`, in that order. The generator knows the lists of languages that the census node publishes.
"""

from __future__ import annotations

from typing import Final

from deploy.synthetic.dictionaries import CENSUS_DICTIONARY

Codes = tuple[tuple[str, str], ...]

SEXES: Final[Codes] = (
    ("female", "Female"),
    ("male", "Male"),
)

DIAGNOSES: Final[Codes] = (
    ("hypertension", "Hypertension (high blood pressure)"),
    ("high_cholesterol", "High cholesterol"),
    ("obesity", "Obesity"),
    ("type_1_diabetes", "Type 1 diabetes"),
    ("type_2_diabetes", "Type 2 diabetes"),
    ("coronary_heart_disease", "Coronary heart disease"),
    ("heart_failure", "Heart failure"),
    ("atrial_fibrillation", "Atrial fibrillation"),
    ("stroke", "Stroke"),
    ("chronic_kidney_disease", "Chronic kidney disease"),
    ("copd", "Chronic obstructive pulmonary disease"),
    ("asthma", "Asthma"),
    ("cancer", "Cancer, any site"),
    ("arthritis", "Arthritis"),
    ("osteoporosis", "Osteoporosis"),
    ("thyroid_disorder", "Thyroid disorder"),
    ("glaucoma", "Glaucoma"),
    ("migraine", "Migraine"),
    ("epilepsy", "Epilepsy"),
    ("parkinson_disease", "Parkinson's disease"),
    ("dementia", "Dementia"),
    ("depression", "Depression"),
    ("anxiety_disorder", "Anxiety disorder"),
    ("schizophrenia", "Schizophrenia"),
)

PROCEDURES: Final[Codes] = (
    ("angioplasty", "Coronary angioplasty"),
    ("coronary_bypass", "Coronary artery bypass"),
    ("heart_valve_surgery", "Heart valve surgery"),
    ("pacemaker_insertion", "Pacemaker insertion"),
    ("dialysis", "Kidney dialysis"),
    ("kidney_transplant", "Kidney transplant"),
    ("chemotherapy", "Chemotherapy"),
    ("mastectomy", "Mastectomy"),
    ("colonoscopy", "Colonoscopy"),
    ("hip_replacement", "Hip replacement"),
    ("knee_replacement", "Knee replacement"),
    ("cataract_surgery", "Cataract surgery"),
    ("caesarean_section", "Caesarean section"),
    ("hysterectomy", "Hysterectomy"),
    ("appendectomy", "Appendectomy"),
    ("gallbladder_removal", "Gallbladder removal"),
    ("hernia_repair", "Hernia repair"),
    ("tonsillectomy", "Tonsillectomy"),
    ("ct_scan", "Computed tomography scan"),
    ("mri_scan", "Magnetic resonance imaging scan"),
)

CENSUS_DIVISIONS: Final[Codes] = (
    ("Stormont, Dundas and Glengarry", "Census division 3501"),
    ("Prescott and Russell", "Census division 3502"),
    ("Ottawa", "Census division 3506"),
    ("Leeds and Grenville", "Census division 3507"),
    ("Lanark", "Census division 3509"),
    ("Frontenac", "Census division 3510"),
    ("Lennox and Addington", "Census division 3511"),
    ("Hastings", "Census division 3512"),
    ("Prince Edward", "Census division 3513"),
    ("Northumberland", "Census division 3514"),
    ("Peterborough", "Census division 3515"),
    ("Kawartha Lakes", "Census division 3516"),
    ("Durham", "Census division 3518"),
    ("York", "Census division 3519"),
    ("Toronto", "Census division 3520"),
    ("Peel", "Census division 3521"),
    ("Dufferin", "Census division 3522"),
    ("Wellington", "Census division 3523"),
    ("Halton", "Census division 3524"),
    ("Hamilton", "Census division 3525"),
    ("Niagara", "Census division 3526"),
    ("Haldimand-Norfolk", "Census division 3528"),
    ("Brant", "Census division 3529"),
    ("Waterloo", "Census division 3530"),
    ("Perth", "Census division 3531"),
    ("Oxford", "Census division 3532"),
    ("Elgin", "Census division 3534"),
    ("Chatham-Kent", "Census division 3536"),
    ("Essex", "Census division 3537"),
    ("Lambton", "Census division 3538"),
    ("Middlesex", "Census division 3539"),
    ("Huron", "Census division 3540"),
    ("Bruce", "Census division 3541"),
    ("Grey", "Census division 3542"),
    ("Simcoe", "Census division 3543"),
    ("Muskoka", "Census division 3544"),
    ("Haliburton", "Census division 3546"),
    ("Renfrew", "Census division 3547"),
    ("Nipissing", "Census division 3548"),
    ("Parry Sound", "Census division 3549"),
    ("Manitoulin", "Census division 3551"),
    ("Sudbury District", "Census division 3552"),
    ("Greater Sudbury", "Census division 3553"),
    ("Timiskaming", "Census division 3554"),
    ("Cochrane", "Census division 3556"),
    ("Algoma", "Census division 3557"),
    ("Thunder Bay", "Census division 3558"),
    ("Rainy River", "Census division 3559"),
    ("Kenora", "Census division 3560"),
)


def values_of(variable: str) -> tuple[str, ...]:
    """The published values of a language variable, in order."""
    return CENSUS_DICTIONARY.column(variable).values


def asked_share(variable: str) -> float:
    """The published share of households that were asked."""
    part = CENSUS_DICTIONARY.column(variable).asked_of
    return 1.0 if part is None else float(part.share)


def bare_codes(codes: Codes) -> tuple[str, ...]:
    """The codes without their labels, in order."""
    return tuple(code for code, _label in codes)
