"""The published dictionary of the census node: the language variables, each with its list of values.

It is the questionnaire's list, written by people and never derived from the data. Every person has at most one value
per variable; a person without one is counted in no set of values, only in the denominator. Several answers of one person
are one combined value, so that "French, and not English" is a set of values.

The short form asks everybody for the mother tongue. One household in five answers the long form, with all other questions;
everybody else has the value 'not asked'. The agency derives two variables before it loads them, `first_official_language` and
`francophone`. Both need answers of the long form, so they are about the same households. The node derives nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from broker_common.query.dictionary import AskedOf, Code, Column, ColumnType, Dictionary

# Design effects are declared, as 1 + (3.3 - 1) * correlation: 3.3 people live with an average person, themselves included, and members
# of a household speak alike with a correlation of 0.78, and work alike with 0.13. In a group with few members of one household
# the effect is smaller.
_AT_HOME: Final = AskedOf(not_asked="not asked", one_in=5, design_effect_hundredths=280)
_AT_WORK: Final = replace(_AT_HOME, design_effect_hundredths=130)

_NOT_ASKED: Final = Code(_AT_HOME.not_asked, "The household did not get the long form")


# Which of English, French and other languages a person answered, as one value.
_LANGUAGES: Final = (
    Code("English", "English alone"),
    Code("French", "French alone"),
    Code("Other", "One or more non-official languages, and no official one"),
    Code("English and French", "English and French, and no other"),
    Code("English and other", "English and a non-official language, not French"),
    Code("French and other", "French and a non-official language, not English"),
    Code("English, French and other", "English, French and a non-official language"),
)

_NO_WORK: Final = Code("No work", "Under 15 years old, or did not work since 1 January 2010")


def _long_form(name: str, description: str, *codes: Code, asked_of: AskedOf = _AT_HOME) -> Column:
    return Column(
        name=name, type=ColumnType.CODE, description=description, codes=(*codes, _NOT_ASKED), asked_of=asked_of
    )


CENSUS_DICTIONARY: Final = Dictionary(
    (
        Column(
            name="mother_tongue",
            type=ColumnType.CODE,
            description="Languages first learned at home in childhood and still understood.",
            codes=_LANGUAGES,
        ),
        _long_form(
            "first_official_language",
            "First official language spoken, derived in this order from knowledge of official languages, mother tongue and "
            "home language.",
            Code("English", "English"),
            Code("French", "French"),
            Code("English and French", "English and French equally"),
            Code("Neither", "Neither English nor French"),
        ),
        _long_form(
            "knowledge_of_official_languages",
            "Official languages in which the person can conduct a conversation.",
            Code("English only", "Can converse in English, not in French"),
            Code("French only", "Can converse in French, not in English"),
            Code("English and French", "Can converse in English and in French"),
            Code("Neither", "Can converse in neither official language"),
        ),
        _long_form("home_language", "Languages spoken most often at home.", *_LANGUAGES),
        _long_form(
            "other_home_languages",
            "Languages spoken regularly at home besides those spoken most often.",
            Code("None", "No other language"),
            *_LANGUAGES,
        ),
        _long_form(
            "knowledge_of_non_official_languages",
            "Groups of non-official languages in which the person can conduct a conversation.",
            Code("None", "No non-official language"),
            Code("Chinese", "Chinese languages"),
            Code("Germanic", "German, Dutch and other Germanic languages"),
            Code("Indigenous", "Cree, Ojibway and other Indigenous languages"),
            Code("Romance", "Italian, Spanish, Portuguese and other Romance languages"),
            Code("Semitic", "Arabic and other Semitic languages"),
            Code("Slavic", "Polish, Russian, Ukrainian and other Slavic languages"),
            Code("South Asian", "Punjabi, Urdu, Tamil and other languages of South Asia"),
            Code("Another", "Languages of one other group"),
            Code("Several", "Languages of two or more of these groups"),
        ),
        _long_form("work_language", "Languages used most often at work.", *_LANGUAGES, _NO_WORK, asked_of=_AT_WORK),
        _long_form(
            "other_work_languages",
            "Languages used regularly at work besides those used most often.",
            Code("None", "No other language"),
            *_LANGUAGES,
            _NO_WORK,
            asked_of=_AT_WORK,
        ),
        _long_form(
            "francophone",
            "By the inclusive definition: the mother tongue is French, alone or with others; or it is neither English nor French, "
            "and the person can converse in French and speaks it at home most often or regularly.",
            Code("Yes", "Francophone by that definition"),
            Code("No", "Not francophone by that definition"),
        ),
    )
)
