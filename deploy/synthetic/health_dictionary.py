"""The published dictionary of the health node: the columns that criteria may name, and their codes.

Written by people, never derived from anyone's record; the loader refuses what does not stand here, so the dictionary
cannot tell what the data holds. The health card is no column: nobody is selected by name.
"""

from __future__ import annotations

from typing import Final

from broker_common.query.dictionary import Code, Column, ColumnType, Dictionary

# Of one person; a larger number in the source is a mistake.
_MOST_VISITS = 100_000

_SEXES: Final = (
    Code("female", "Female"),
    Code("male", "Male"),
)

_CENSUS_DIVISIONS: Final = (
    Code("Stormont, Dundas and Glengarry", "Census division 3501"),
    Code("Prescott and Russell", "Census division 3502"),
    Code("Ottawa", "Census division 3506"),
    Code("Leeds and Grenville", "Census division 3507"),
    Code("Lanark", "Census division 3509"),
    Code("Frontenac", "Census division 3510"),
    Code("Lennox and Addington", "Census division 3511"),
    Code("Hastings", "Census division 3512"),
    Code("Prince Edward", "Census division 3513"),
    Code("Northumberland", "Census division 3514"),
    Code("Peterborough", "Census division 3515"),
    Code("Kawartha Lakes", "Census division 3516"),
    Code("Durham", "Census division 3518"),
    Code("York", "Census division 3519"),
    Code("Toronto", "Census division 3520"),
    Code("Peel", "Census division 3521"),
    Code("Dufferin", "Census division 3522"),
    Code("Wellington", "Census division 3523"),
    Code("Halton", "Census division 3524"),
    Code("Hamilton", "Census division 3525"),
    Code("Niagara", "Census division 3526"),
    Code("Haldimand-Norfolk", "Census division 3528"),
    Code("Brant", "Census division 3529"),
    Code("Waterloo", "Census division 3530"),
    Code("Perth", "Census division 3531"),
    Code("Oxford", "Census division 3532"),
    Code("Elgin", "Census division 3534"),
    Code("Chatham-Kent", "Census division 3536"),
    Code("Essex", "Census division 3537"),
    Code("Lambton", "Census division 3538"),
    Code("Middlesex", "Census division 3539"),
    Code("Huron", "Census division 3540"),
    Code("Bruce", "Census division 3541"),
    Code("Grey", "Census division 3542"),
    Code("Simcoe", "Census division 3543"),
    Code("Muskoka", "Census division 3544"),
    Code("Haliburton", "Census division 3546"),
    Code("Renfrew", "Census division 3547"),
    Code("Nipissing", "Census division 3548"),
    Code("Parry Sound", "Census division 3549"),
    Code("Manitoulin", "Census division 3551"),
    Code("Sudbury District", "Census division 3552"),
    Code("Greater Sudbury", "Census division 3553"),
    Code("Timiskaming", "Census division 3554"),
    Code("Cochrane", "Census division 3556"),
    Code("Algoma", "Census division 3557"),
    Code("Thunder Bay", "Census division 3558"),
    Code("Rainy River", "Census division 3559"),
    Code("Kenora", "Census division 3560"),
)

_DIAGNOSES: Final = (
    Code("hypertension", "Hypertension (high blood pressure)"),
    Code("high_cholesterol", "High cholesterol"),
    Code("obesity", "Obesity"),
    Code("type_1_diabetes", "Type 1 diabetes"),
    Code("type_2_diabetes", "Type 2 diabetes"),
    Code("coronary_heart_disease", "Coronary heart disease"),
    Code("heart_failure", "Heart failure"),
    Code("atrial_fibrillation", "Atrial fibrillation"),
    Code("stroke", "Stroke"),
    Code("chronic_kidney_disease", "Chronic kidney disease"),
    Code("copd", "Chronic obstructive pulmonary disease"),
    Code("asthma", "Asthma"),
    Code("cancer", "Cancer, any site"),
    Code("arthritis", "Arthritis"),
    Code("osteoporosis", "Osteoporosis"),
    Code("thyroid_disorder", "Thyroid disorder"),
    Code("glaucoma", "Glaucoma"),
    Code("migraine", "Migraine"),
    Code("epilepsy", "Epilepsy"),
    Code("parkinson_disease", "Parkinson's disease"),
    Code("dementia", "Dementia"),
    Code("depression", "Depression"),
    Code("anxiety_disorder", "Anxiety disorder"),
    Code("schizophrenia", "Schizophrenia"),
)

_PROCEDURES: Final = (
    Code("angioplasty", "Coronary angioplasty"),
    Code("coronary_bypass", "Coronary artery bypass"),
    Code("heart_valve_surgery", "Heart valve surgery"),
    Code("pacemaker_insertion", "Pacemaker insertion"),
    Code("dialysis", "Kidney dialysis"),
    Code("kidney_transplant", "Kidney transplant"),
    Code("chemotherapy", "Chemotherapy"),
    Code("mastectomy", "Mastectomy"),
    Code("colonoscopy", "Colonoscopy"),
    Code("hip_replacement", "Hip replacement"),
    Code("knee_replacement", "Knee replacement"),
    Code("cataract_surgery", "Cataract surgery"),
    Code("caesarean_section", "Caesarean section"),
    Code("hysterectomy", "Hysterectomy"),
    Code("appendectomy", "Appendectomy"),
    Code("gallbladder_removal", "Gallbladder removal"),
    Code("hernia_repair", "Hernia repair"),
    Code("tonsillectomy", "Tonsillectomy"),
    Code("ct_scan", "Computed tomography scan"),
    Code("mri_scan", "Magnetic resonance imaging scan"),
)

HEALTH_DICTIONARY: Final = Dictionary(
    (
        Column(name="age", type=ColumnType.INTEGER, description="Age in whole years on census day.", maximum=130),
        Column(name="birth_year", type=ColumnType.INTEGER, description="Year of birth.", minimum=1880, maximum=2030),
        Column(name="sex", type=ColumnType.CODE, description="Sex.", codes=_SEXES),
        Column(
            name="census_division",
            type=ColumnType.CODE,
            description="Census division of residence.",
            codes=_CENSUS_DIVISIONS,
        ),
        Column(
            name="diagnosis",
            type=ColumnType.CODE,
            multi_valued=True,
            description="Diagnoses on record; a person may have several.",
            codes=_DIAGNOSES,
        ),
        Column(
            name="procedure",
            type=ColumnType.CODE,
            multi_valued=True,
            description="Procedures undergone; a person may have several.",
            codes=_PROCEDURES,
        ),
        Column(
            name="last_admission_date",
            type=ColumnType.DATE,
            description="Day of the latest admission to hospital in the year before census day; none if not admitted.",
        ),
        Column(
            name="hospital_visits",
            type=ColumnType.INTEGER,
            description="Admissions to hospital in the year before census day.",
            maximum=_MOST_VISITS,
        ),
        Column(
            name="emergency_visits",
            type=ColumnType.INTEGER,
            description="Visits to an emergency department in the year before census day.",
            maximum=_MOST_VISITS,
        ),
    )
)
