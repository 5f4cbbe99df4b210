"""Postal addresses as ids: many spellings of one Canadian address become one text.

The rule, step by step, stands in docs/ids.md; its tables are these. A rule of words cannot know an address: what it does not
bring to one spelling is a link that is missed, and it never guesses.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping

# Five lines of 40 characters, as an envelope has them.
MAX_ADDRESS_CHARACTERS = 200

STREET_TYPES: Mapping[str, tuple[str, ...]] = {
    "AUT": ("AUTOROUTE",),
    "AVE": ("AV", "AVENUE"),
    "BLVD": ("BD", "BOUL", "BOULEVARD"),
    "CAR": ("CARRE",),
    "CERCLE": ("CER",),
    "CH": ("CHEMIN",),
    "CIR": ("CIRCLE",),
    "CONC": ("CONCESSION",),
    "COTE": ("CTE",),
    "CRES": ("CR", "CRESCENT", "CROIS", "CROISSANT"),
    "CROSS": ("CROSSING",),
    "CRT": ("COUR", "COURT", "CT"),
    "DR": ("DRIVE",),
    "GDNS": ("GARDENS", "JARDIN", "JARDINS"),
    "GRV": ("GROVE",),
    "HTS": ("HEIGHTS",),
    "HWY": ("HIGHWAY",),
    "IMP": ("IMPASSE",),
    "LANE": ("LN",),
    "MONTEE": ("MTE",),
    "PASS": ("PASSAGE",),
    "PK": ("PARC", "PARK"),
    "PKY": ("PARKWAY", "PKWY"),
    "PL": ("PLACE",),
    "PROM": ("PROMENADE",),
    "PT": ("POINT", "POINTE"),
    "RANG": ("RG",),
    "RD": ("ROAD",),
    "RTE": ("ROUTE",),
    "SENT": ("SENTIER",),
    "SQ": ("SQUARE",),
    "ST": ("RUE", "SAINT", "STREET"),
    "STE": ("SAINTE",),
    "TERR": ("TERRACE", "TERRASSE", "TSSE"),
    "TRAIL": ("TRL",),
}
DIRECTIONS: Mapping[str, tuple[str, ...]] = {
    "N": ("NORD", "NORTH"),
    "S": ("SOUTH", "SUD"),
    "E": ("EAST", "EST"),
    "W": ("O", "OUEST", "WEST"),
    "NE": ("NORDEST", "NORTHEAST"),
    "NW": ("NO", "NORDOUEST", "NORTHWEST"),
    "SE": ("SOUTHEAST", "SUDEST"),
    "SW": ("SO", "SOUTHWEST", "SUDOUEST"),
}
UNIT_WORDS = ("APARTMENT", "APP", "APPARTEMENT", "APT", "BUREAU", "SUITE", "UNIT", "UNITE")
PHRASES: Mapping[str, tuple[str, ...]] = {
    "PO BOX": ("C P", "CASE POSTALE", "CP", "P O BOX", "POST OFFICE BOX"),
    "RR": ("R R", "ROUTE RURALE", "RURAL ROUTE"),
}
PROVINCES = (
    *(
        "AB",
        "ALBERTA",
        "BC",
        "BRITISH COLUMBIA",
        "COLOMBIE BRITANNIQUE",
        "ILE DU PRINCE EDOUARD",
        "MANITOBA",
        "MB",
        "NB",
    ),
    *(
        "NEW BRUNSWICK",
        "NEWFOUNDLAND AND LABRADOR",
        "NL",
        "NORTHWEST TERRITORIES",
        "NOUVEAU BRUNSWICK",
        "NOUVELLE ECOSSE",
    ),
    *(
        "NOVA SCOTIA",
        "NS",
        "NT",
        "NU",
        "NUNAVUT",
        "ON",
        "ONT",
        "ONTARIO",
        "PE",
        "PRINCE EDWARD ISLAND",
        "QC",
        "QUE",
        "QUEBEC",
    ),
    *("SASKATCHEWAN", "SK", "TERRE NEUVE ET LABRADOR", "TERRITOIRES DU NORD OUEST", "YT", "YUKON"),
)

_SIGNS = {"Œ": "OE", "Æ": "AE", "ª": " ", "º": " ", "¼": " 1 4", "½": " 1 2", "¾": " 3 4"}
_HYPHENS = "\u2010\u2011\u2012\u2013\u2014\u2015"
_REPLACED = str.maketrans(_SIGNS | dict.fromkeys(_HYPHENS, "-"))
# Canada Post uses neither D, F, I, O, Q, U anywhere nor W, Z in the first place.
_POSTAL_CODE = re.compile(
    r"(.*?) ?([ABCEGHJ-NPRSTVXY][0-9][ABCEGHJ-NPRSTV-Z]) ?([0-9][ABCEGHJ-NPRSTV-Z][0-9])", re.ASCII
)
_UNIT_NUMBER = "[A-Z]?[0-9]{1,5}[A-Z]?|[A-Z]"
_UNIT_BEFORE = re.compile(rf"\s*({_UNIT_NUMBER})\s*-\s*(?=[0-9])", re.ASCII)
_UNIT = re.compile(rf"(?: (?:{'|'.join(UNIT_WORDS)}))+ ({_UNIT_NUMBER})(?= |$)")
_NUMBER_SIGN = re.compile(r"#\s*(?=[A-Z0-9])")
_OTHER = re.compile(r"[^A-Z0-9]+")


def _one_spelling(table: Mapping[str, Iterable[str]]) -> dict[str, str]:
    return {spelling: form for form, spellings in table.items() for spelling in spellings}


_WORDS = _one_spelling(STREET_TYPES) | _one_spelling(DIRECTIONS)
_PHRASES = tuple((re.compile(rf" {spelling}(?= |$)"), f" {form}") for spelling, form in _one_spelling(PHRASES).items())
_PROVINCE = re.compile(rf" (?:{'|'.join(sorted(PROVINCES, key=len, reverse=True))})$")
# The number sign of a box or a route.
_NO_UNIT = re.compile(r" (PO BOX|RR) UNIT(?= )")
_TWO_DIRECTIONS = re.compile(r" ([NS]) ([EW])(?= |$)")


def parse_postal_address(text: str) -> str:
    """The one spelling of an address: postal code, then everything else in the order written, then the unit.

    Raises:
        ValueError: it is no Canadian address; the message names the reason, never the address.
    """
    if len(text) > MAX_ADDRESS_CHARACTERS:
        raise ValueError(f"the address has more than {MAX_ADDRESS_CHARACTERS} characters")
    folded = _folded(text)
    before = _UNIT_BEFORE.match(folded)
    unit = before[1] if before else ""
    plain = _OTHER.sub(" ", _NUMBER_SIGN.sub(" UNIT ", folded[before.end() if before else 0 :])).strip()
    found = _POSTAL_CODE.fullmatch(plain.removesuffix(" CANADA"))
    if found is None:
        raise ValueError("the address does not end with a postal code of the form A1A 1A1")
    rest = _PROVINCE.sub("", f" {found[1]}")
    for spelling, form in _PHRASES:
        rest = spelling.sub(form, rest)
    rest = _NO_UNIT.sub(r" \1", rest)
    units = {*_UNIT.findall(rest), *filter(None, [unit])}
    words = [_WORDS.get(word, word) for word in _UNIT.sub("", rest).split()]
    if not words:
        raise ValueError("the address has nothing before its postal code")
    if len(units) > 1:
        raise ValueError("the address has more than one unit number")
    line = _TWO_DIRECTIONS.sub(r" \1\2", f" {' '.join(words)}")
    return f"{found[2]}{found[3]}{line}{''.join(f' UNIT {unit}' for unit in units)}"


def _folded(text: str) -> str:
    """In upper case, accents folded; what is neither letter nor number of ours is a space or a sign still."""
    if text.isascii():
        return text.upper()
    parts = unicodedata.normalize("NFKD", text.upper().translate(_REPLACED))
    folded = "".join(part for part in parts if not unicodedata.combining(part))
    if any(part.isalnum() and not part.isascii() for part in folded):
        raise ValueError("the address has letters or numbers other than A to Z, accents aside, and 0 to 9")
    return folded.upper()
