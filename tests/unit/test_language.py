"""Two languages from one catalogue, each with its own numbers, shares and times."""

from __future__ import annotations

import json
import pickle
from decimal import Decimal

import pytest

from broker_common.audit.texts import NO_SITE, NO_SITE_REMEDY
from broker_common.errors import InvalidRequestError
from broker_common.language import language, language_of_environment, phrase

NOW_MS = 1_763_458_236_000


def test_english_is_the_text_itself() -> None:
    """With its names filled in."""
    assert language("en")("limit {share}", share="80%") == "limit 80%"


def test_french_comes_from_the_catalogue() -> None:
    """The English text is the key; a text without French is shown in English rather than not at all."""
    french = language("fr")
    assert french("Answers") == "Réponses"
    assert french("no such text") == "no such text"


@pytest.mark.parametrize(
    ("code", "number", "share", "instant", "day"),
    [
        ("en", "1,234,567", "79.7%", "18 Nov 2025, 09:30 UTC", "18 Nov 2025"),
        ("fr", "1\u00a0234\u00a0567", "79,7\u00a0%", "18 nov. 2025, 09\u00a0h\u00a030 UTC", "18 nov. 2025"),
    ],
)
def test_each_language_writes_numbers_its_own_way(code: str, number: str, share: str, instant: str, day: str) -> None:
    """Groups of digits, decimals, percent signs and months."""
    tongue = language(code)
    assert tongue.number(1_234_567).replace("\u202f", "\u00a0") == number
    assert tongue.percent(0.7969) == share
    assert tongue.instant(NOW_MS) == instant
    assert tongue.day(NOW_MS) == day


@pytest.mark.parametrize(
    ("code", "number", "expected"),
    [("en", 0, "{n} answers"), ("en", 1, "{n} answer"), ("fr", 0, "{n} answer"), ("fr", 2, "{n} answers")],
)
def test_french_counts_nothing_with_one(code: str, number: int, expected: str) -> None:
    """Zéro réponse, une réponse, deux réponses; no answers, one answer, two answers."""
    assert language(code).count(number, "{n} answer", "{n} answers") == expected.format(n=number)


@pytest.mark.parametrize(
    ("milliseconds", "expected"),
    [(0, "0 seconds"), (1_000, "1 second"), (119_000, "1 minute"), (7_200_000, "2 hours"), (86_400_000, "1 day")],
)
def test_spans_are_whole_units(milliseconds: int, expected: str) -> None:
    """The largest unit that fits, rounded down."""
    assert language("en").span(milliseconds) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [("fr_CA.UTF-8", "fr"), ("fr", "fr"), ("en_CA.UTF-8", "en"), ("C", "en"), ("xx", "en")]
)
def test_commands_speak_the_environment_s_language(monkeypatch: pytest.MonkeyPatch, value: str, expected: str) -> None:
    """As the locale says; English where there is no catalogue."""
    for name in ("TRIPARTITE_LANG", "LC_ALL", "LC_MESSAGES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LANG", value)
    assert language_of_environment().code == expected


@pytest.mark.parametrize(("code", "shown"), [("en", "79.7%"), ("fr", "79,7\u00a0%")])
def test_what_is_at_most_is_never_rounded_down(code: str, shown: str) -> None:
    """A share above 79.6 percent is not said to be at most 79.6 percent; one of exactly 80 percent stays 80."""
    assert language(code).at_most(Decimal("0.79601")) == shown
    assert language("en").at_most(Decimal("0.8")) == "80.0%"


def test_an_exact_limit_keeps_its_digits() -> None:
    """Neither rounded nor lengthened."""
    assert [language("fr").exact_percent(each) for each in ("0.8", "0.855", "0.85")] == [
        "80\u00a0%",
        "85,5\u00a0%",
        "85\u00a0%",
    ]


def test_french_writes_the_first_of_a_month_as_an_ordinal() -> None:
    """1er nov., 2 nov."""
    first_ms = 1_761_998_400_000
    assert language("fr").day(first_ms) == "1er nov. 2025"
    assert language("fr").day(first_ms + 86_400_000) == "2 nov. 2025"


def test_a_phrase_is_english_for_programs_and_said_in_french_where_it_is_printed() -> None:
    """With its names filled in, phrases within it too; another process hears English."""
    inner = phrase("{n} days", n=7)
    told = phrase("it allows {new} answers instead of {old}", new=phrase("any number of", n=0), old=inner)
    assert json.dumps(told) == json.dumps("it allows any number of answers instead of 7 days")
    assert (
        language("fr")(told) == "elle permet plus de réponses\u00a0: n\u2019importe quel nombre de, au lieu de 7 jours"
    )
    assert type(pickle.loads(pickle.dumps(told))) is str  # noqa: S301 - made by ourselves


def test_numbers_in_a_text_have_the_marks_of_the_language() -> None:
    """Decimals and groups, also where the text says how many digits; whole numbers stay as they can be typed."""
    text = "{share:.1f} of {people:,} in {units}"
    assert language("en")(text, share=0.25, people=12000, units=335545) == "0.2 of 12,000 in 335545"
    assert language("fr")(text, share=0.25, people=12000, units=335545) == "0,2 of 12\u00a0000 in 335545"


def test_an_error_is_french_whole_and_quotes_what_the_user_typed() -> None:
    """Its own words are translated, also those in its details; a value that is also one of our words is not."""
    french = language("fr")
    error = InvalidRequestError("INVALID_VALUE", name="--on-site", problem=NO_SITE, remedy=NO_SITE_REMEDY)
    text, hint = error.said(french)
    assert (text, hint) == (f"--on-site {french(NO_SITE)}.", french(NO_SITE_REMEDY))
    unknown = InvalidRequestError("UNKNOWN_CODE", column="limit", value="none", nearest="", codes="")
    assert unknown.said(french)[0] == "La colonne «\u00a0limit\u00a0» n\u2019a pas de code «\u00a0none\u00a0»."
    assert error.as_json()["error"]["hint"] == NO_SITE_REMEDY
