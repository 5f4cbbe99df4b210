"""English and French from one catalogue: every text is written in English in the code, and found in French by that text.

`catalogue/fr.po` is read as it stands: there is no compiled copy that could fall behind. A text without a French version is
an error in the tests and English on the page. Numbers, shares and times follow the language (Babel).

Pages and reports hold a `Language` and call it. Commands call `said`, which speaks the language of the environment. A text that
goes to programs as well (JSON, an error's details) is a `phrase`: English for them, and said in French where it is printed.
"""

from __future__ import annotations

import os
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_CEILING, Decimal
from functools import cache
from importlib import resources
from typing import Any

from babel import Locale
from babel.dates import format_date, format_datetime
from babel.messages.pofile import read_po
from babel.numbers import format_decimal, format_percent, get_decimal_symbol, get_group_symbol

from broker_common.errors import BrokerError

LANGUAGES = ("en", "fr")
# Canadian forms of both: the space between groups of digits, the comma before decimals, the order of a date.
_LOCALES = {"en": Locale("en", "CA"), "fr": Locale("fr", "CA")}

_CLOCKS = {"en": "HH:mm", "fr": "HH\u00a0'h'\u00a0mm"}


class _Phrase(str):  # noqa: SLOT000 - it holds a function
    """A text in English that knows how another language says it."""

    # Set by the functions below.
    in_language: Callable[[Language], str]

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        # Another process is told in English.
        return str, (str(self),)


def phrase(text: str, /, **values: Any) -> str:
    """The text in English, with its `{names}` filled in; a `Language` that is called with it says it in that language."""
    if not values:
        return text
    filled = _Phrase(text.format(**values))
    filled.in_language = lambda t: t(
        text, **{n: t(each) if isinstance(each, str) else each for n, each in values.items()}
    )
    return filled


def joined(separator: str, parts: Sequence[str]) -> str:
    """Several phrases as one."""
    filled = _Phrase(separator.join(parts))
    filled.in_language = lambda t: separator.join(map(t, parts))
    return filled


def translated(text: str, versions: Mapping[str, str]) -> str:
    """A text whose versions in other languages are known, by the language's code."""
    filled = _Phrase(text)
    filled.in_language = lambda t: versions.get(t.code, text)
    return filled


def phrase_of(error: BrokerError, *, with_hint: bool = False) -> str:
    """An error's sentence as a phrase."""
    parts = 2 if with_hint else 1
    filled = _Phrase(" ".join((error.text, error.hint)[:parts]))
    filled.in_language = lambda t: " ".join(error.said(t)[:parts])
    return filled


def hint_of(error: BrokerError) -> str:
    """An error's hint as a phrase."""
    filled = _Phrase(error.hint)
    filled.in_language = lambda t: error.said(t)[1]
    return filled


class _Figures(string.Formatter):
    """Fills in `{names}`; numbers have the marks of the language between their digits."""

    def __init__(self, code: str) -> None:
        locale = _LOCALES[code]
        self.marks = str.maketrans({".": get_decimal_symbol(locale), ",": get_group_symbol(locale)})

    def format_field(self, value: Any, format_spec: str) -> str:
        filled = format(value, format_spec)
        return filled.translate(self.marks) if isinstance(value, int | float) else filled


@dataclass(frozen=True)
class Language:
    """One language: call it with an English text."""

    code: str
    catalogue: Mapping[str, str]

    def __call__(self, text: str, /, **values: Any) -> str:
        """The text in this language, with its `{names}` filled in."""
        if isinstance(text, _Phrase):
            return text.in_language(self)
        found = self.catalogue.get(text, text)
        return _figures(self.code).vformat(found, (), values) if values else found

    def exact(self, decimal: str) -> str:
        """An exact decimal, digit for digit, with this language's marks."""
        return decimal.translate(_figures(self.code).marks)

    def count(self, number: int, one: str, many: str, /, **values: Any) -> str:
        """`one` or `many`, whose `{n}` is the number. French counts zero with one."""
        is_one = _LOCALES[self.code].plural_form(number) == "one"
        return self(one if is_one else many, n=self.number(number), **values)

    def number(self, value: float | Decimal, digits: int = 0) -> str:
        """A number with groups of digits, and so many decimals."""
        pattern = "#,##0" + ("." + "0" * digits if digits else "")
        return str(format_decimal(value, format=pattern, locale=_LOCALES[self.code]))

    def percent(self, share: float, digits: int = 1) -> str:
        """A share between 0 and 1 as a percentage."""
        pattern = "#,##0" + ("." + "0" * digits if digits else "")
        suffix = "\u00a0%" if self.code == "fr" else "%"
        return str(format_percent(share, format=pattern + suffix, locale=_LOCALES[self.code]))

    def at_most(self, share: Decimal | float, digits: int = 1) -> str:
        """A share as a percentage, rounded up, so that it never understates."""
        step = Decimal(1).scaleb(-digits - 2)
        return self.percent(float(Decimal(share).quantize(step, ROUND_CEILING)), digits)

    def exact_percent(self, share: str) -> str:
        """An exact decimal between 0 and 1 as a percentage, with as many digits as it has."""
        digits = share.partition(".")[2].rstrip("0")
        return self.percent(float(share), max(0, len(digits) - 2))

    def instant(self, time_ms: int) -> str:
        """A time to the minute, in UTC."""
        return f"{self.minute(time_ms)} UTC"

    def minute(self, time_ms: int) -> str:
        """The same where a heading says that it is UTC."""
        moment = datetime.fromtimestamp(time_ms / 1000, UTC)
        clock = format_datetime(moment, _CLOCKS[self.code], locale=_LOCALES[self.code])
        return f"{self.day(time_ms)}, {clock}"

    def day(self, time_ms: int) -> str:
        """A date, in UTC. French writes the first of a month as an ordinal."""
        date = datetime.fromtimestamp(time_ms / 1000, UTC).date()
        pattern = "d'er' MMM y" if self.code == "fr" and date.day == 1 else "d MMM y"
        return str(format_date(date, pattern, locale=_LOCALES[self.code]))

    def span(self, milliseconds: int) -> str:
        """A length of time in days, hours, minutes or seconds: the largest of which it has one."""
        seconds = max(0, milliseconds) // 1000
        for size, one, many in (
            (86_400, "1 day", "{n} days"),
            (3600, "1 hour", "{n} hours"),
            (60, "1 minute", "{n} minutes"),
        ):
            if seconds >= size:
                number = seconds // size
                return self(one) if number == 1 else self(many, n=self.number(number))
        return self("1 second") if seconds == 1 else self("{n} seconds", n=self.number(seconds))


@cache
def _figures(code: str) -> _Figures:
    return _Figures(code)


@cache
def language(code: str) -> Language:
    """The language with this code; English for a code that there is no catalogue of."""
    if code not in LANGUAGES or code == "en":
        return Language("en", {})
    with resources.files("broker_common").joinpath("catalogue", f"{code}.po").open("rb") as file:
        catalogue = read_po(file, locale=code, abort_invalid=True)
    return Language(
        code, {str(message.id): str(message.string) for message in catalogue if message.id and message.string}
    )


def language_of_environment() -> Language:
    """The language that the user's environment asks for: TRIPARTITE_LANG, or else the locale's."""
    for name in ("TRIPARTITE_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        value = os.environ.get(name)
        if value:
            return language(value.partition("_")[0].partition(".")[0].lower())
    return language("en")


def said(text: str, /, **values: Any) -> str:
    """A text of a command, in the language of the user's environment."""
    return language_of_environment()(text, **values)
