"""Forms of the id that people or households are linked on: what a valid one is, and its one spelling.

Both agencies read their ids by the same form, named in their dictionaries, or the same person has two pseudonyms. The rules for a
second implementation stand in docs/ids.md, with vectors in tests/vectors/id_forms.json. An error about an id does not quote the id.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from broker_common.crypto.postal_addresses import parse_postal_address

Ids: TypeAlias = npt.NDArray[np.bytes_]

ONTARIO = "ontario_health_card"
POSTAL_ADDRESS = "postal_address"
# Longer than any number or code that people are registered under.
MAX_ID_CHARACTERS = 64

_HEALTH_CARD_DIGITS = 10
_ONTARIO_CARD = re.compile(r"[0-9]{4}[ -]?[0-9]{3}[ -]?[0-9]{3}")
# Letters of the names; year, month (50 more for a woman), day of birth; two digits of the Régie's own.
_QUEBEC_CARD = re.compile(r"([A-Z]{4})[ -]?([0-9]{2})([0-9]{2})[ -]?([0-9]{2})([0-9]{2})", re.ASCII)
_WOMAN = 50
_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_FEBRUARY, _FOUR_YEARS = 2, 4
_DIGITS = re.compile(r"[0-9]+(?:[ -][0-9]+)*")
_PRINTABLE = re.compile(r"[!-~](?:[ -~]*[!-~])?")
_ZERO, _LARGEST_DIGIT = ord("0"), 9
# The digit sum of twice a digit.
_DOUBLED = np.array([0, 2, 4, 6, 8, 1, 3, 5, 7, 9], np.uint8)


def parse_ids(texts: Sequence[str], form: str) -> tuple[Ids, dict[int, str]]:
    """The one spelling of each text, or by its place what is wrong with it.

    Nothing stands where a text is wrong, nor, with nothing wrong, where it is empty.

    Raises:
        ValueError: there is no such form.
    """
    if form not in ID_FORMS:
        raise ValueError("there is no such form of ids")
    if form == ONTARIO:
        return _parse_ontario(texts)
    parse = ID_FORMS[form]
    ids, problems = [b""] * len(texts), dict[int, str]()
    for at, text in enumerate(texts):
        if text:
            try:
                ids[at] = parse(text).encode("ascii")
            except ValueError as error:
                problems[at] = str(error)
    return np.array(ids, np.bytes_), problems


def parse_health_card(text: str) -> str:
    """The ten digits of a health card, check digit verified (mod 10, as on Ontario cards).

    Raises:
        ValueError: it is not a valid card; the message names the reason, never the digits.
    """
    if not _ONTARIO_CARD.fullmatch(text):
        raise ValueError("health_card is not ten digits")
    digits = _without_separators(text)
    if not _has_check_digit(digits):
        raise ValueError("health_card has a wrong check digit")
    return digits


def _parse_quebec(text: str) -> str:
    found = _QUEBEC_CARD.fullmatch(text.upper()) if text.isascii() else None
    if found is None:
        raise ValueError("the id is not four letters and eight digits")
    year, month, day = (int(found[at]) for at in (2, 3, 4))
    month -= _WOMAN if month > _WOMAN else 0
    is_leap = year % _FOUR_YEARS == 0
    if not 1 <= month <= len(_DAYS) or not 1 <= day <= _DAYS[month - 1] - (month == _FEBRUARY and not is_leap):
        raise ValueError("the id has no date of birth in its first six digits")
    return "".join(found.groups())


def _parse_digits(text: str) -> str:
    digits = _without_separators(text)
    if not _DIGITS.fullmatch(text) or len(digits) > MAX_ID_CHARACTERS:
        raise ValueError(f"the id is not 1 to {MAX_ID_CHARACTERS} digits")
    return digits


def _parse_digits_luhn(text: str) -> str:
    digits = _parse_digits(text)
    if not _has_check_digit(digits):
        raise ValueError("the id has a wrong check digit")
    return digits


def _parse_text(text: str) -> str:
    trimmed = text.strip(" ")
    if not _PRINTABLE.fullmatch(trimmed) or len(trimmed) > MAX_ID_CHARACTERS:
        raise ValueError(f"the id is not 1 to {MAX_ID_CHARACTERS} printable ASCII characters")
    return trimmed.upper()


# The one spelling of an id in each form, or a `ValueError` without the id.
ID_FORMS: Mapping[str, Callable[[str], str]] = {
    ONTARIO: parse_health_card,
    "quebec_health_card": _parse_quebec,
    "digits_luhn": _parse_digits_luhn,
    "digits": _parse_digits,
    "text": _parse_text,
    POSTAL_ADDRESS: parse_postal_address,
}


def _without_separators(text: str) -> str:
    return text.replace("-", "").replace(" ", "")


def _has_check_digit(digits: str) -> bool:
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (sum(doubled) + sum(int(digit) for digit in digits[-1::-2])) % 10 == 0


def _parse_ontario(texts: Sequence[str]) -> tuple[Ids, dict[int, str]]:
    """`parse_health_card` of each text, of a whole file in seconds."""
    cards = np.zeros(len(texts), f"S{_HEALTH_CARD_DIGITS}")
    usual = _valid_as_written(texts, cards)
    problems: dict[int, str] = {}
    for at in np.flatnonzero(~usual).tolist():
        if texts[at]:
            try:
                cards[at] = parse_health_card(texts[at]).encode("ascii")
            except ValueError as error:
                problems[at] = str(error)
    return cards, problems


def _valid_as_written(texts: Sequence[str], cards: Ids) -> npt.NDArray[np.bool_]:
    """Which texts are valid cards without any separator; these are put into `cards`."""
    valid: npt.NDArray[np.bool_] = np.fromiter(map(len, texts), np.intp, len(texts)) == _HEALTH_CARD_DIGITS
    places = np.flatnonzero(valid)
    written = "".join([texts[at] for at in places.tolist()])
    if not written.isascii():
        # One such text among thousands is found where texts are read one by one.
        return np.zeros(len(texts), np.bool_)
    digits = np.frombuffer(written.encode("ascii"), np.uint8).reshape(-1, _HEALTH_CARD_DIGITS) - np.uint8(_ZERO)
    are_digits = (digits <= _LARGEST_DIGIT).all(axis=1)
    # Where they are none the sum means nothing.
    digits = np.minimum(digits, _LARGEST_DIGIT)
    total = _DOUBLED[digits[:, 0::2]].sum(axis=1, dtype=np.uint8) + digits[:, 1::2].sum(axis=1, dtype=np.uint8)
    valid[places] = are_digits & (total % 10 == 0)
    as_written = np.frombuffer(written.encode("ascii"), cards.dtype)
    cards[valid] = as_written[valid[places]]
    return valid
