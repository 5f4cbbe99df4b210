"""The published dictionary of the census node: four language variables, each with its list of values.

It is the questionnaire's list, written by people and never derived from the data. Every person has at most one value
per variable; a person without one is counted in no set of values, only in the denominator.
"""

from __future__ import annotations

from typing import Final

from broker_common.query.dictionary import Code, Column, ColumnType, Dictionary

_MOTHER_TONGUES: Final = (
    Code("English", "English"),
    Code("French", "French"),
    Code("English and French", "English and French equally"),
    Code("Other", "A non-official language"),
)

_FIRST_OFFICIAL_LANGUAGES: Final = (
    Code("English", "English"),
    Code("French", "French"),
    Code("English and French", "English and French equally"),
    Code("Neither", "Neither English nor French"),
)

_KNOWLEDGE_OF_OFFICIAL_LANGUAGES: Final = (
    Code("English only", "Can converse in English, not in French"),
    Code("French only", "Can converse in French, not in English"),
    Code("English and French", "Can converse in English and in French"),
    Code("Neither", "Can converse in neither official language"),
)

_HOME_LANGUAGES: Final = (
    Code("English", "English spoken most often at home"),
    Code("French", "French spoken most often at home"),
    Code("Other", "A non-official language spoken most often at home"),
)

CENSUS_DICTIONARY: Final = Dictionary(
    (
        Column(
            name="mother_tongue",
            type=ColumnType.CODE,
            description="Language first learned at home in childhood and still understood.",
            codes=_MOTHER_TONGUES,
        ),
        Column(
            name="first_official_language",
            type=ColumnType.CODE,
            description="First official language spoken, derived from knowledge, mother tongue and home language.",
            codes=_FIRST_OFFICIAL_LANGUAGES,
        ),
        Column(
            name="knowledge_of_official_languages",
            type=ColumnType.CODE,
            description="Official languages in which the person can conduct a conversation.",
            codes=_KNOWLEDGE_OF_OFFICIAL_LANGUAGES,
        ),
        Column(
            name="home_language",
            type=ColumnType.CODE,
            description="Language spoken most often at home.",
            codes=_HOME_LANGUAGES,
        ),
    )
)
