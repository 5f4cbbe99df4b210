"""Which rows may link, how they are compared, and which files are refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb
import pytest
from unit.census_node.linking.registers import CENSUS_COLUMNS, REGISTER_COLUMNS, write_rows

from broker_common.errors import InvalidRequestError
from census_node.linking.reading import FEMALE_WORDS, MALE_WORDS, PARTS, Database, Sources, placeholders, read_sources
from census_node.linking.settings import LinkingSettings, Mode, read_settings

CARD = "9876543217"
PERSON = {
    "person_id": "P1",
    "household_id": "H1",
    "given_name": "Zoé Anne-Marie",
    "surname": "Côté-O'Brien",
    "birth_date": "1980-02-29",
    "sex": "Femme",
    "postal_code": "k1a 0b1",
    "mother_tongue": "French",
}
CLIENT = {"health_card": CARD, "client_id": "C1"} | {name: PERSON[name] for name in REGISTER_COLUMNS[2:]}


def read(
    tmp_path: Path,
    *,
    person: dict[str, str] | None = None,
    client: dict[str, str] | None = None,
    people: Sequence[dict[str, str]] = (),
    more: Sequence[dict[str, str]] = (),
    settings: LinkingSettings | None = None,
    mode: Mode = "complementary",
) -> tuple[Database, Sources]:
    """A census file and a register of somebody ordinary, and of those given beside them."""
    other = PERSON | {"person_id": "P2", "given_name": "Ann"}
    held = CLIENT | {"health_card": "0000000018", "client_id": "C2", "given_name": "Ann"}
    census = write_rows(tmp_path / "census.csv", CENSUS_COLUMNS, [other, *(people or [person or PERSON])])
    register = write_rows(tmp_path / "register.csv", REGISTER_COLUMNS, [held, client or CLIENT, *more])
    database = duckdb.connect()
    settings = settings or read_settings(None, mode)
    return database, read_sources(database, census, register, settings, None)


def reasons(database: Database, side: str) -> list[str]:
    """Why rows of a file may not link."""
    rows = database.execute("select reason from excluded where side = ?", [side]).fetchall()
    return [reason for (reason,) in rows]


def test_names_dates_and_codes_are_compared_in_one_spelling(tmp_path: Path) -> None:
    """Without accents, signs and case; the first given name apart; sex as F and M; postal codes without blanks."""
    database, _ = read(tmp_path)
    (row,) = database.execute("select * exclude (unique_id) from census_side where given_name = 'ZOE'").fetchall()
    assert row == (
        *("ZOE", "ANNE MARIE", "COTEOBRIEN", ["COTE", "OBRIEN"], "1980-02-29", "1980", "F", "K1A0B1", "K1A"),
    )


@pytest.mark.parametrize(
    ("words", "sex"),
    [(FEMALE_WORDS, "F"), (MALE_WORDS, "M"), (("x", " X "), "X"), (("2",), "2"), (("", "U", "N/A", "9"), None)],
)
def test_sex_is_compared_however_it_is_written(tmp_path: Path, words: Sequence[str], sex: str | None) -> None:
    """A word of either language or a code; an unknown one speaks neither for nor against a pair."""
    people = [PERSON | {"person_id": f"W{number}", "sex": word.lower()} for number, word in enumerate(words)]
    database, _ = read(tmp_path, people=people)
    found = database.execute("select sex from census_side where given_name = 'ZOE'").fetchall()
    assert found == [(sex,)] * len(words)


def test_other_columns_of_the_census_go_through(tmp_path: Path) -> None:
    """As they are, in the order of the file."""
    database, sources = read(tmp_path)
    assert sources.carried == ("mother_tongue",)
    assert database.execute("select distinct mother_tongue from census").fetchall() == [("French",)]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"given_name": ""}, "no_name"),
        ({"surname": " - "}, "no_name"),
        ({"given_name": "12"}, "no_name"),
        ({"given_name": "J."}, "initials"),
        ({"given_name": "j r"}, "initials"),
        ({"surname": "S"}, "initials"),
        ({"given_name": "Mickey", "surname": "Mouse"}, "placeholder_name"),
        ({"given_name": "BABY BOY"}, "placeholder_name"),
        ({"given_name": "bébé"}, "placeholder_name"),
        ({"given_name": "Baby Girl Tremblay"}, "placeholder_name"),
        ({"given_name": "UNKNOWN"}, "placeholder_name"),
        ({"surname": "Inconnu"}, "placeholder_name"),
        ({"surname": "N/A"}, "placeholder_name"),
        ({"given_name": "Test"}, "placeholder_name"),
        ({"birth_date": "1900-01-01"}, "placeholder_date"),
        ({"birth_date": "9999-12-31"}, "placeholder_date"),
        ({"birth_date": "1980-02-30"}, "unreadable_date"),
    ],
)
def test_a_row_that_is_nobody_may_not_link(tmp_path: Path, changed: dict[str, str], reason: str) -> None:
    """Whatever else it has in common with somebody, in either file."""
    database, _ = read(tmp_path, person=PERSON | changed, client=CLIENT | changed)
    assert reasons(database, "census") == reasons(database, "register") == [reason]
    for query in ("select given_name from census_side", "select given_name from register_side"):
        assert database.execute(query).fetchall() == [("ANN",)]


@pytest.mark.parametrize(
    "name",
    [("伟", "王"), ("Ᏸ", "ᏣᎳᎩ"), ("Babette", "Test-Martin"), ("Boyd", "Baby"), ("Unity", "Unknowne"), ("Xi", "Ng")],
)
def test_a_name_that_only_looks_like_a_placeholder_may_link(tmp_path: Path, name: tuple[str, str]) -> None:
    """One letter of a script that has no initials is a whole name; a placeholder in a longer name is none."""
    changed = dict(zip(("given_name", "surname"), name, strict=True))
    database, _ = read(tmp_path, person=PERSON | changed, client=CLIENT | changed)
    assert reasons(database, "census") == reasons(database, "register") == []


def test_the_list_of_placeholders_is_as_names_are_compared() -> None:
    """An accent or a small letter in it would never match anything; every entry is of a part that is looked at."""
    found = [text for part in PARTS for text in placeholders()[part]]
    assert len(found) > 40
    assert all(text == text.upper() and text.isascii() and text.strip() == text for text in found)
    lines = Path("census_node/linking/placeholders.csv").read_text().splitlines()
    assert len(found) == len(lines) - 1
    assert all(line.count(",") >= 2 and line.split(",", 2)[2] for line in lines)


@pytest.mark.parametrize("card", ["", "123", "9876543218", "98765432I7"])
def test_a_row_without_a_valid_card_may_not_link(tmp_path: Path, card: str) -> None:
    """The check digit is verified, as 'census load' does."""
    database, _ = read(tmp_path, client=CLIENT | {"health_card": card})
    assert reasons(database, "register") == ["invalid_card"]


def test_cards_have_the_form_that_is_set(tmp_path: Path) -> None:
    """Another agency's cards are checked by their own rule, and written in its one spelling."""
    settings = tmp_path / "linking.toml"
    settings.write_text('id_form = "quebec_health_card"')
    database, _ = read(
        tmp_path, client=CLIENT | {"health_card": "cotz 8052 2914"}, settings=read_settings(settings, None)
    )
    assert reasons(database, "register") == ["invalid_card"]
    assert database.execute("select health_card from register where client_id = 'C1'").fetchall() == [("COTZ80522914",)]


def test_a_card_of_several_clients_is_nobodys(tmp_path: Path) -> None:
    """Nobody can know whose it is."""
    database, _ = read(tmp_path, client=CLIENT, more=(CLIENT | {"client_id": "C3"},))
    assert reasons(database, "register") == ["card_of_several_clients"] * 2
    database, _ = read(tmp_path, client=CLIENT, more=(CLIENT | {"given_name": "Anne"},))
    assert reasons(database, "register") == []


def test_by_names_alone_other_columns_are_not_needed(tmp_path: Path) -> None:
    """A register of cards and names will do; what stands for a birth date excludes nobody."""
    census = write_rows(tmp_path / "c.csv", CENSUS_COLUMNS[:4], [{name: PERSON[name] for name in CENSUS_COLUMNS[:4]}])
    columns = ("health_card", "given_name", "surname", "birth_date")
    held = {name: CLIENT[name] for name in columns} | {"birth_date": "1900-01-01"}
    register = write_rows(tmp_path / "r.csv", columns, [held])
    database = duckdb.connect()
    sources = read_sources(database, census, register, read_settings(None, "nominative"), None)
    assert sources.census_rows == 1
    assert database.execute("select count(*) from excluded").fetchall() == [(0,)]


def test_parquet_reads_as_csv_does(tmp_path: Path) -> None:
    """Dates as dates, everything else as text."""
    database, _ = read(tmp_path)
    expected = database.execute("select * from register_side order by unique_id").fetchall()
    parquet = tmp_path / "register.parquet"
    with duckdb.connect() as writer:
        csv = writer.read_csv(str(tmp_path / "register.csv"), all_varchar=True)
        csv.project("* replace (birth_date::date as birth_date)").write_parquet(str(parquet))
    other = duckdb.connect()
    read_sources(other, tmp_path / "census.csv", parquet, read_settings(None, None), None)
    rows = other.execute("select * from register_side order by unique_id").fetchall()
    assert [row[1:] for row in rows] == [row[1:] for row in expected]


# --- whole files -------------------------------------------------------------------------------------------------------


def refusal(tmp_path: Path, census: str, register: str, settings: LinkingSettings | None = None) -> str:
    """Error about two files that cannot be linked."""
    first, second = tmp_path / "census.csv", tmp_path / "register.csv"
    first.write_text(census)
    second.write_text(register)
    with pytest.raises(InvalidRequestError) as caught:
        read_sources(duckdb.connect(), first, second, settings or read_settings(None, None), None)
    assert caught.value.code == "LINKING_REFUSED"
    return f"{caught.value.text} {caught.value.hint}"


HEAD = ",".join(CENSUS_COLUMNS) + "\n"
ROW = ",".join(PERSON[name] for name in CENSUS_COLUMNS) + "\n"
HELD = ",".join(REGISTER_COLUMNS) + "\n" + ",".join(CLIENT[name] for name in REGISTER_COLUMNS) + "\n"


@pytest.mark.parametrize(
    ("census", "register", "told"),
    [
        ("", HELD, "census.csv was not linked: it is empty"),
        (HEAD, HELD, "census.csv was not linked: it names columns and has no rows"),
        (HEAD + ROW, "", "register.csv was not linked: it is empty"),
        (HEAD + ROW, HELD.replace("surname,", ""), "register.csv was not linked: it lacks columns: surname"),
        (HEAD.replace("birth_date", "born") + ROW, HELD, "it lacks columns: birth_date"),
        (HEAD + ROW, HELD.replace("client_id", "shoe_size"), "it has columns that nothing is done with: shoe_size"),
        (HEAD.replace("mother_tongue", "mother tongue") + ROW, HELD, "the name of its column 8 cannot be kept"),
        (HEAD.replace("mother_tongue", "health_card") + ROW, HELD, "the name of its column 8 cannot be kept"),
        (HEAD.replace("mother_tongue", "sex") + ROW, HELD, "it names columns twice: sex"),
        (HEAD + ROW + ROW, HELD, "1 rows repeat a person_id, the first of them in line 3"),
        (HEAD + ROW.replace("P1", ""), HELD, "a row has no person_id"),
        (HEAD + ROW.replace("Zoé", "Baby"), HELD, "census.csv was not linked: none of its rows can be linked"),
        (HEAD + ROW, HELD.replace(CARD, "1"), "register.csv was not linked: none of its rows can be linked"),
        ("PK\x03\x04", HELD, "it is a ZIP archive or a spreadsheet"),
        ("PAR1", HELD, "Parquet file without its end"),
    ],
)
def test_a_file_that_cannot_be_linked_is_refused_with_its_fault(
    tmp_path: Path, census: str, register: str, told: str
) -> None:
    """It is named, and no value of a person is."""
    said = refusal(tmp_path, census, register)
    assert told in said
    assert not any(value in said for value in ("Zoé", "Brien", "1980", CARD))


def test_dates_of_another_form_are_a_fault_of_the_file(tmp_path: Path) -> None:
    """Not of twelve people, who would silently not be linked; the setting that mends it is named."""
    rows = "".join(ROW.replace("P1", f"P{number}").replace("1980-02-29", "29/02/1980") for number in range(12))
    said = refusal(tmp_path, HEAD + rows, HELD)
    assert "12 of 12 birth dates are not of the form %Y-%m-%d, the first of them in line 2" in said
    assert "date_format" in said


def test_dates_are_read_in_the_form_that_is_set(tmp_path: Path) -> None:
    """Day first."""
    settings = tmp_path / "linking.toml"
    settings.write_text('date_format = "%d/%m/%Y"')
    changed = {"birth_date": "29/02/1980"}
    database, _ = read(
        tmp_path, person=PERSON | changed, client=CLIENT | changed, settings=read_settings(settings, None)
    )
    assert database.execute("select birth_date from census_side where given_name = 'ZOE'").fetchall() == [
        ("1980-02-29",)
    ]


def test_a_row_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    """And counted; the others are linked."""
    (tmp_path / "census.csv").write_text(HEAD + ROW + "P3,H3\n")
    (tmp_path / "register.csv").write_text(HELD)
    sources = read_sources(
        duckdb.connect(), tmp_path / "census.csv", tmp_path / "register.csv", read_settings(None, None), None
    )
    assert sources.census_rows == 1
    assert sources.rejected["census"].first == ((3, "has 2 fields instead of 8"),)
