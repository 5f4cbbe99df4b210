"""Both files as tables of one private database: as they are, and as they are compared.

`census` and `register` hold every row as text. `census_side` and `register_side` hold what is compared of each row that may link, and
`excluded` why the others may not. A fault of one row leaves that row out; a fault of a whole file ends the linkage, before anything
was written. Compared are: capitals without accents and signs; the first given name apart from the others; dates as YYYY-MM-DD; F and M
however they are written; postal codes without blanks. An empty or unknown value is NULL: it speaks neither for nor against a pair.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final, NoReturn

import duckdb
import pyarrow as pa

from broker_common.crypto.id_forms import parse_ids
from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from broker_common.query.dictionary import Column, ColumnType, shown
from broker_common.storage.source.csv_file import fields
from broker_common.storage.source.files import open_source
from broker_common.storage.source.rows import (
    PARQUET_MAGIC,
    ROWS_PER_CHUNK,
    Chunk,
    Progress,
    RejectedRows,
    Wanted,
    reading,
)
from census_node.linking import texts
from census_node.linking.settings import LinkingSettings

Database = duckdb.DuckDBPyConnection

PERSON, HOUSEHOLD, CARD, CLIENT = "person_id", "household_id", "health_card", "client_id"
NAMED: Final = ("given_name", "surname", "birth_date", "sex", "postal_code")
"""Columns that both files have in the complementary mode."""
_NAMES: Final = ("given_name", "surname")

# Names of further columns stand in SQL and in the header of what is loaded.
_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_BIRTH_DATE = Column(name="birth_date", type=ColumnType.DATE, description="Date of birth.")
# Unreadable dates up to the larger of the two leave their rows out; more are a wrong format.
_TOLERATED_DATES = 10
_TOLERATED_PERCENT = 1
# A header is one line.
_MAX_HEADER_BYTES = 64 * 1024

FEMALE_WORDS: Final = ("F", "FEMALE", "FEMME", "FEMININ", "W", "WOMAN")
MALE_WORDS: Final = ("M", "MALE", "MASCULIN", "MAN", "H", "HOMME")
_NO_SEX: Final = ("", "U", "UNKNOWN", "INCONNU", "N/A", "NOT STATED", "0", "9")
PARTS: Final = ("whole", "either", "given", "date")
"""Parts of the placeholders: the whole name; given name or surname; given name; birth date."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Facts about both files after reading: names of columns, and counts of rows."""

    carried: tuple[str, ...]
    """Columns of the census file that go through untouched."""
    census_rows: int
    rejected: Mapping[str, RejectedRows]


def refuse(file: Path, problem: str, remedy: str) -> NoReturn:
    """End the linkage. SECURITY: neither text may hold a value of a person.

    Raises:
        InvalidRequestError: LINKING_REFUSED.
    """
    raise InvalidRequestError("LINKING_REFUSED", file=file.name, problem=problem, remedy=remedy) from None


def read_sources(
    database: Database, census: Path, register: Path, settings: LinkingSettings, progress: Progress | None
) -> Sources:
    """Make the tables.

    Raises:
        InvalidRequestError: LINKING_REFUSED.
    """
    needed = NAMED if settings.mode == "complementary" else _NAMES
    carried, wrong = _read_census(database, census, needed, progress)
    rejected = {"census": wrong, "register": _read_register(database, register, needed, progress)}
    database.execute("create table excluded (side varchar, row bigint, reason varchar)")
    _verify_once(database, census)
    _exclude_cards(database, settings)
    for side, file in (("census", census), ("register", register)):
        if settings.mode == "complementary":
            _verify_dates(database, side, file, settings.date_format)
        _normalise(database, side, settings)
        _verify_some(database, side, file)
    return Sources(carried, _count(database, "census"), rejected)


# --- as they are -------------------------------------------------------------------------------------------------------


def _read_census(
    database: Database, file: Path, needed: Sequence[str], progress: Progress | None
) -> tuple[tuple[str, ...], RejectedRows]:
    names = _names_in(file)
    carried = tuple(name for name in names if name not in {PERSON, HOUSEHOLD, *NAMED})
    for name in carried:
        if PERSON in names and (not _COLUMN.fullmatch(name) or name == CARD):
            refuse(file, phrase(texts.COLUMN_UNUSABLE, number=names.index(name) + 1), texts.COLUMN_UNUSABLE_REMEDY)
    wanted = (PERSON, HOUSEHOLD, *(name for name in NAMED if name in needed or name in names), *carried)
    return carried, _read(database, "census", file, wanted, progress)


def _read_register(database: Database, file: Path, needed: Sequence[str], progress: Progress | None) -> RejectedRows:
    names = _names_in(file)
    if CARD in names and (others := set(names) - {CARD, CLIENT, *NAMED}):
        refuse(
            file, phrase(texts.OTHER_COLUMNS, columns=", ".join(map(shown, sorted(others)))), texts.OTHER_COLUMNS_REMEDY
        )
    wanted = (CARD, *(name for name in (CLIENT, *NAMED) if name in needed or name in names))
    rejected = _read(database, "register", file, wanted, progress)
    if CLIENT not in wanted:
        database.execute(f"alter table register add column {CLIENT} varchar default ''")
    return rejected


def _read(database: Database, side: str, file: Path, wanted: Sequence[str], progress: Progress | None) -> RejectedRows:
    """Every well-formed row of a file as a table of texts."""
    columns = list(dict.fromkeys((*wanted, *NAMED)))
    typed = ", ".join(f'"{name}" varchar' for name in columns)
    database.execute(f"create table {side} (row bigint, {typed})")
    rejected, rows = RejectedRows(), 0
    with _as_linking(file):
        for chunk in open_source(file, [_wanted(name) for name in wanted]).chunks(rejected, progress=progress):
            rows += len(chunk.lines)
            _insert(database, side, columns, chunk)
        rejected.verify_few(rows + rejected.count)
    return rejected


def _wanted(name: str) -> Wanted:
    """The Parquet types allowed in a column: dates in one, texts in names and ids, and anything that stands for a code in the others."""
    if name == _BIRTH_DATE.name:
        return Wanted(name, _BIRTH_DATE)
    return Wanted(name, is_own=name not in {PERSON, HOUSEHOLD, CARD, CLIENT, *_NAMES, "postal_code"})


def _insert(database: Database, side: str, columns: Sequence[str], chunk: Chunk) -> None:
    empty = [""] * len(chunk.lines)
    arrays = [pa.array(chunk.columns.get(name, empty), pa.string()) for name in columns]
    database.register("chunk", pa.table([pa.array(chunk.lines, pa.int64()), *arrays], names=["row", *columns]))
    database.execute(f"insert into {side} from chunk")
    database.unregister("chunk")


def _names_in(file: Path) -> list[str]:
    """The columns of a file, as far as they can be read: `open_source` says what is wrong with one that cannot."""
    with _as_linking(file), reading(file) as opened:
        first = opened.readline(_MAX_HEADER_BYTES)
    if not first.startswith(PARQUET_MAGIC):
        try:
            return fields(first.decode("utf-8-sig"))
        except ValueError:
            return []
    try:
        described = duckdb.execute("select name from parquet_schema(?) offset 1", [str(file)])
        return [str(name) for (name,) in described.fetchall()]
    except (duckdb.Error, RuntimeError):
        return []


@contextmanager
def _as_linking(file: Path) -> Iterator[None]:
    """An error of a file that cannot be loaded, as an error of one that is to be linked."""
    try:
        yield
    except InvalidRequestError as error:
        if error.code != "LOAD_REFUSED":
            raise
        refuse(file, error.details["problem"], error.details["remedy"])


# --- who may not link --------------------------------------------------------------------------------------------------


def _verify_once(database: Database, file: Path) -> None:
    """Return only if every person has one row."""
    ((count, line),) = database.execute(
        f"select count(*), min(row) from (select row, row_number() over (partition by {PERSON} order by row) as place"
        " from census) where place > 1"
    ).fetchall()
    if count:
        refuse(file, phrase(texts.PERSON_TWICE, count=count, line=line), texts.PERSON_TWICE_REMEDY)
    if database.execute(f"select 1 from census where {PERSON} = '' or {HOUSEHOLD} = '' limit 1").fetchall():
        refuse(file, texts.NO_ID, texts.NO_ID_REMEDY)


def _exclude_cards(database: Database, settings: LinkingSettings) -> None:
    """Cards as 'census load' reads them; rows without one, or whose card the register gives to several clients, are excluded."""
    database.execute("create table cards (row bigint, card varchar)")
    reader = database.cursor()
    reader.execute(f"select row, {CARD} from register order by row")
    while rows := reader.fetchmany(ROWS_PER_CHUNK):
        cards, _ = parse_ids([card for _, card in rows], settings.id_form)
        table = pa.table({"row": [row for row, _ in rows], "card": cards.astype(str)})
        database.register("chunk", table)
        database.execute("insert into cards from chunk")
        database.unregister("chunk")
    reader.close()
    database.execute("insert into excluded select 'register', row, 'invalid_card' from cards where card = ''")
    database.execute(
        f"update register set {CARD} = card from cards where cards.row = register.row and card <> ''; drop table cards"
    )
    database.execute(f"update register set {CLIENT} = {CARD} where {CLIENT} = ''")
    database.execute(
        f"insert into excluded select 'register', row, 'card_of_several_clients' from register where {CARD} in"
        f" (select {CARD} from register group by {CARD} having count(distinct {CLIENT}) > 1)"
        " and row not in (select row from excluded)"
    )


def _verify_dates(database: Database, side: str, file: Path, form: str) -> None:
    """Return only if dates are written as the settings say, but for a few."""
    ((wrong, dates, line),) = database.execute(
        "select count(*) filter (is_wrong), count(*), min(row) filter (is_wrong) from"
        f" (select row, try_strptime(trim(birth_date), ?) is null as is_wrong from {side} where trim(birth_date) <> '')",
        [form],
    ).fetchall()
    if wrong > max(_TOLERATED_DATES, dates * _TOLERATED_PERCENT // 100):
        refuse(file, phrase(texts.WRONG_DATES, count=wrong, rows=dates, form=form, line=line), texts.WRONG_DATES_REMEDY)


def _verify_some(database: Database, side: str, file: Path) -> None:
    if not _count(database, f"{side}_side"):
        refuse(file, texts.NOBODY_LINKABLE, texts.NOBODY_LINKABLE_REMEDY)


def _count(database: Database, table: str) -> int:
    ((count,),) = database.execute(f"select count(*) from {table}").fetchall()
    return int(count)


# --- as they are compared ----------------------------------------------------------------------------------------------

# Apostrophes join what they stand in; everything else that is no letter parts.
_APOSTROPHES = "[''\u2019`]"
_CLEAN = (
    f"trim(regexp_replace(regexp_replace(strip_accents(upper({{0}})), '{_APOSTROPHES}', '', 'g'),"
    r" '[^\p{{L}}]+', ' ', 'g'))"
)


def _normalise(database: Database, side: str, settings: LinkingSettings) -> None:
    """Make `census_side` or `register_side`, and say in `excluded` why the other rows are not in it."""
    given, surname = _CLEAN.format("given_name"), _CLEAN.format("surname")
    sex = "trim(strip_accents(upper(sex)))"
    database.execute(
        f"""
        create table cleaned as
        select row, {given} as given, {surname} as family,
            cast(try_strptime(trim(birth_date), $form) as date) as born, trim(birth_date) <> '' as has_date,
            case when {sex} in {FEMALE_WORDS} then 'F' when {sex} in {MALE_WORDS} then 'M'
                when {sex} in {_NO_SEX} then null else {sex} end as sex,
            nullif(regexp_replace(upper(postal_code), '[^A-Z0-9]', '', 'g'), '') as postal
        from {side} where row not in (select row from excluded where side = '{side}')
        """,
        {"form": settings.date_format},
    )
    known = placeholders()
    checks_dates = settings.mode == "complementary"
    database.execute(
        f"""
        insert into excluded
        select '{side}', row, reason from (select row, case
            when given = '' or family = '' then 'no_name'
            when given || ' ' || family in $whole or given in $either or family in $either
                or len(list_filter($given, lambda text: given = text or starts_with(given, text || ' '))) > 0
                then 'placeholder_name'
            when regexp_full_match(given, '[A-Z]( [A-Z])*') or regexp_full_match(family, '[A-Z]( [A-Z])*') then 'initials'
            when {checks_dates} and born::varchar in $date then 'placeholder_date'
            when {checks_dates} and has_date and born is null then 'unreadable_date'
            end as reason from cleaned) where reason is not null
        """,
        {
            "whole": list(known["whole"]),
            "either": list(known["either"]),
            "given": list(known["given"]),
            "date": list(known["date"]),
        },
    )
    database.execute(
        f"""
        create table {side}_side as
        select row as unique_id, split_part(given, ' ', 1) as given_name,
            nullif(array_to_string(string_split(given, ' ')[2:], ' '), '') as second_name,
            replace(family, ' ', '') as surname,
            list_filter(string_split(family, ' '), lambda part: len(part) > 3) as surname_parts,
            strftime(born, '%Y-%m-%d') as birth_date, strftime(born, '%Y') as birth_year, sex,
            postal as postal_code, left(postal, 3) as postal_area
        from cleaned where row not in (select row from excluded where side = '{side}') order by row
        """
    )
    database.execute("drop table cleaned")


@cache
def placeholders() -> Mapping[str, Sequence[str]]:
    """Names and dates that stand for no value, and so for nobody, by part; rows with one of them are never linked.

    The list is collected by hand from what registration desks are known to type; it is from memory, no agency's list, and each entry
    says why it stands there. Texts are normalised as here: capitals without accents, other signs as blanks. A placeholder of a given
    name also counts where more follows it: BABY BOY, BABY SMITH.
    """
    with files("census_node.linking").joinpath("placeholders.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {part: tuple(row["text"] for row in rows if row["part"] == part) for part in PARTS}
