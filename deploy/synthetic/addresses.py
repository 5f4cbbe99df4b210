"""Made-up addresses, one for each household; each agency spells them in its own way, as agencies do."""

from __future__ import annotations

from typing import Final

from deploy.synthetic.arrays import Booleans, Integers
from deploy.synthetic.csv_rows import field

_STREETS: Final = ("Birch", "Cedar", "Elm", "King", "Lakeshore", "Maple", "Mill", "Queen", "Riverside", "Victoria")
# Letters of postal codes: the first ones of Ontario, and those of any place.
_FIRST: Final = "KLMNP"
_LETTERS: Final = "ABCEGHJKLMNPRSTVXY"
_HOUSES_PER_CODE: Final = 400


def address_pieces(households: Integers, role: str, blank: Booleans | None = None) -> list[bytes]:
    """The address of each household and a comma, as the agency of this role writes it; only the comma where `blank`."""
    is_blank = [False] * len(households) if blank is None else blank.tolist()
    pairs = zip(households.tolist(), is_blank, strict=True)
    return [b"," if nothing else f"{field(address(household, role))},".encode() for household, nothing in pairs]


def address(household: int, role: str) -> str:
    """Both spellings are one id (docs/ids.md)."""
    code, house = divmod(household, _HOUSES_PER_CODE)
    street = _STREETS[code % len(_STREETS)]
    rest, first = divmod(code, len(_FIRST))
    places = []
    for characters in ("0123456789", _LETTERS, "0123456789", _LETTERS, "0123456789"):
        rest, at = divmod(rest, len(characters))
        places.append(characters[at])
    postal_code = _FIRST[first] + "".join(places)
    if role == "health":
        return f"{house + 1} {street} Street West, Ottawa ON {postal_code[:3]} {postal_code[3:]}"
    return f"{house + 1} {street.upper()} ST W OTTAWA ONTARIO {postal_code}"
