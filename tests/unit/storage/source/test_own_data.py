"""An agency's own files: names, codes, dates, signs and parts of its own give the rows that published files give."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fakes.parquet import write_parquet
from unit.storage.own_data import DICTIONARY, PEOPLE, PUBLISHED, STAYS, own_home, plan_of, rows_of

from broker_common.commands.agency import load_text, values_json
from broker_common.crypto.id_forms import parse_ids
from broker_common.errors import InvalidRequestError
from broker_common.storage.load_figures import watching
from broker_common.storage.source.mapping import WordReader
from broker_common.storage.source.plan import plan_for
from broker_common.storage.source.rows import RejectedRows
from broker_common.storage.source.toml import DATE_FORMS, OwnColumn
from broker_common.storage.source.values import ColumnReader

OWN = """\
[people]
files = ["p-*.csv"]
delimiter = ";"
encoding = "latin-1"
id = "Carte"
id_form = "ontario_health_card"
missing = ["9", "NA"]
dates = "dd/mm/yyyy"
separator = "|"

[people.columns]
sex = "Sexe"
age = "Âge"
born = "Né le"
diagnosis = "Diagnostics"

[people.codes.sex]
F = "female"
H = "male"
U = ""

[people.codes.diagnosis]
infarctus = "I21"
"infarctus ancien" = "I21"
asthme = "J45"
E11 = "E11"

[events.stay]
files = ["s.csv"]
id = "card"
dates = "yyyymmdd"
[events.stay.columns]
admitted = { name = "day", missing = ["00000000"] }
"""
FIRST = "Carte;Nom;Sexe;Âge;Né le;Diagnostics\n1000000001;x;F;61;2/3/1950;infarctus|asthme\n1000000002;x;H;NA;9;NA\n"
SECOND = (
    "Sexe;Carte;Né le;Diagnostics;Âge\nU;1000000003;31/12/1981;E11; 30\nH;NA;01/01/1967;asthme;44\n"
    "F; 1000000005 ;15/06/2011;E11|infarctus|infarctus ancien| asthme;0\n"
)
OWN_STAYS = "card,day,cause\n1000000001,20050430,I21\n1000000005,20060101,\n1000000001,00000000,J45\n"
FILES: dict[str, str | bytes] = {
    "p-1.csv": FIRST.encode("latin-1"),
    "p-2.csv": SECOND.encode("latin-1"),
    "s.csv": OWN_STAYS,
}


def people_of(home: Path, rejected: RejectedRows | None = None) -> list[tuple[str, ...]]:
    """The people that a home's source.toml gives."""
    return rows_of(plan_of(home).people(DICTIONARY.columns), PUBLISHED, rejected)


def refusal(home: Path) -> InvalidRequestError:
    """The error that reading people ends in."""
    with pytest.raises(InvalidRequestError) as caught:
        people_of(home)
    assert caught.value.code == "LOAD_REFUSED"
    return caught.value


def by_codes(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Rows as the expected ones are written."""
    return [tuple(";".join(sorted(text.split(";"))) for text in row) for row in rows]


def test_own_words_give_published_rows(tmp_path: Path) -> None:
    """Names, codes, dates, signs of missing values, separators, encoding, other columns and two files of other order."""
    home = own_home(tmp_path / "home", OWN, FILES)
    assert people_of(home) == by_codes(list(PEOPLE))
    (table,) = DICTIONARY.events
    assert rows_of(plan_of(home).events(table), ("health_card", "admitted", "cause")) == list(STAYS)


def test_files_under_published_names_need_no_source_toml(tmp_path: Path) -> None:
    """people.csv, and a file of each event table beside it; a file that is named comes before all else."""
    (table,) = DICTIONARY.events
    lines = [",".join(PUBLISHED), *(",".join(row) for row in PEOPLE), ""]
    (tmp_path / "people.csv").write_text("\n".join(lines), "utf-8")
    (tmp_path / "stay.csv").write_text("cause,health_card,admitted\n,1000000005,2006-01-01\n", "utf-8")
    plan = plan_for(tmp_path, None, ("health_card",), DICTIONARY)
    assert rows_of(plan.people(DICTIONARY.columns), PUBLISHED) == by_codes(list(PEOPLE))
    assert rows_of(plan.events(table), ("health_card", "admitted")) == [("1000000005", "2006-01-01")]
    own_home(tmp_path, "this is no TOML")
    assert rows_of(plan_for(tmp_path, tmp_path / "people.csv", ("health_card",), DICTIONARY).events(table), ("cause",))
    write_parquet(tmp_path / "stay.parquet", "select 1")
    with pytest.raises(InvalidRequestError, match="both stay"):
        plan.events(table)
    (tmp_path / "stay.csv").unlink()
    (tmp_path / "stay.parquet").unlink()
    with pytest.raises(InvalidRequestError, match="neither stay"):
        plan.events(table)


def test_wrong_word_is_told_with_file_row_and_own_name(tmp_path: Path) -> None:
    """Row numbers are those of the file; what stood there is told nobody."""
    second = (
        "Carte;Sexe;Âge;Né le;Diagnostics\n1000000003;martian;1;1/1/1999;\n1000000004;F;1;1999-01-01;\n"
        "1000000005;F;1;31/2/1999;\n1000000006;F;1;;martian\n1000000007;F;1;;asthme||E11\n1000000008;F;1\n"
        "1000000009;female;1;;\n"
    )
    home = own_home(tmp_path / "home", OWN, {**FILES, "p-2.csv": second.encode("latin-1")})
    rejected = RejectedRows()
    assert len(people_of(home, rejected)) == 2
    assert [(place.file, place.number, reason) for place, reason in rejected.placed] == [
        ("p-2.csv", 2, "sex (Sexe) holds a code that source.toml gives no published code"),
        ("p-2.csv", 3, "born (Né le) is not a date written dd/mm/yyyy"),
        ("p-2.csv", 4, "born (Né le) is not a date written dd/mm/yyyy"),
        ("p-2.csv", 5, "diagnosis (Diagnostics) holds a code that source.toml gives no published code"),
        ("p-2.csv", 6, "diagnosis (Diagnostics) holds an empty value among others"),
        ("p-2.csv", 7, "has 3 fields instead of 5"),
        ("p-2.csv", 8, "sex (Sexe) holds a code that source.toml gives no published code"),
    ]
    with pytest.raises(InvalidRequestError, match=r"line 2 of p-2.csv: sex"):
        rejected.verify_few(9, 3)


@pytest.mark.parametrize(
    ("change", "files", "said"),
    [
        (("p-*.csv", "q-*.csv"), {}, "no file matches q-*.csv"),
        (('"p-*.csv"', '"p-1.csv", "p-3.csv"'), {}, "the file p-3.csv is missing"),
        (('"p-*.csv"', '"p-*.csv", "./p-1.csv"'), {}, "the file p-1.csv is named twice"),
        ((";", ";"), {"p-3.csv": "Carte;Sexe\n"}, "p-3.csv: it lacks columns: Diagnostics, Né le, Âge"),
        ((";", ";"), {"p-3.csv": "1000000009;F;x\n"}, "p-3.csv: it lacks columns: Carte, Diagnostics, Né le, Sexe"),
        ((";", ";"), {"p-3.csv": "Carte,Sexe\n"}, "p-3.csv: its first line names one column only"),
        ((";", ";"), {"p-3.csv": ""}, "p-3.csv: it is empty"),
        ((";", ";"), {"p-3.csv": b"\x1f\x8b"}, "p-3.csv: it is compressed (gzip)"),
        (
            (";", ";"),
            {"p-3.csv": b"Carte;Sexe;\xc2ge;N\xe9 le;Diagnostics\n10"},
            "in the middle of a row; line 2 of p-3.csv",
        ),
    ],
)
def test_wrong_file_among_several_is_named(
    tmp_path: Path, change: tuple[str, str], files: dict[str, str | bytes], said: str
) -> None:
    """One that is missing, is there twice, has another header, or is cut."""
    home = own_home(tmp_path / "home", OWN.replace(*change), {**FILES, **files})
    error = refusal(home)
    assert said in error.text
    assert "1000000009" not in error.text + error.hint


def test_misspelt_own_column_is_told_the_nearest(tmp_path: Path) -> None:
    """Where the first line names some column that is wanted; otherwise it may be a person."""
    home = own_home(tmp_path / "home", OWN.replace('"Sexe"', '"Sex"'), FILES)
    assert "Nearest to Sex: Sexe" in refusal(home).hint


def test_part_without_rows_is_admitted_and_nothing_but_headers_is_not(tmp_path: Path) -> None:
    """A month may have no events; a whole table without any is more likely the wrong table."""
    header = SECOND.partition("\n")[0] + "\n"
    home = own_home(tmp_path / "home", OWN, {**FILES, "p-2.csv": header.encode("latin-1")})
    assert len(people_of(home)) == 2
    (home / "p-1.csv").write_bytes(header.encode("latin-1"))
    assert "has no rows" in refusal(home).text


def test_same_id_in_two_files_is_told_with_both_places(tmp_path: Path) -> None:
    """The first stays; loaders reject by numbers that count through."""
    home = own_home(tmp_path / "home", OWN, FILES)
    rejected = RejectedRows()
    people_of(home, rejected)
    # Two rows of the first file and three of the second, behind a header each.
    rejected.add_repeats(np.array([5], np.uint32), np.array([2], np.uint32))
    ((place, reason),) = rejected.placed
    assert (str(place), reason) == ("line 2 of p-2.csv", "repeats the health_card of line 2 of p-1.csv")


def test_progress_goes_through_all_files(tmp_path: Path) -> None:
    """It never goes back, and ends at the end."""
    home = own_home(tmp_path / "home", OWN, FILES)
    seen: list[tuple[int, int]] = []
    source = plan_of(home).people(DICTIONARY.columns)
    list(source.chunks(RejectedRows(), progress=lambda done, total: seen.append((done, total))))
    total = sum(len(FILES[name]) for name in ("p-1.csv", "p-2.csv"))
    assert seen == [(len(FILES["p-1.csv"]), total), (total, total)]


def test_csv_and_parquet_may_be_parts_of_one_table(tmp_path: Path) -> None:
    """Numbers stand for codes and dates where source.toml says what they mean."""
    query = """select '1000000003' as "Carte", null as "Sexe", 30 as "Âge", '31/12/1981' as "Né le", ['E11'] as "Diagnostics"
        union all select '1000000005', 'F', 0, '15/06/2011', ['E11', 'asthme', 'infarctus']"""
    text = OWN.replace("p-*.csv", "p-*")
    home = own_home(tmp_path / "home", text, {name: FILES[name] for name in ("p-1.csv", "s.csv")})
    write_parquet(home / "p-2.parquet", query)
    assert people_of(home) == by_codes([row for row in PEOPLE if row[0]])
    write_parquet(home / "p-2.parquet", query.replace("'F'", "2.5").replace("null", "1.5"))
    assert "p-2.parquet: its column Sexe holds DECIMAL" in refusal(home).text


# The fake ids have no right check digit.
IN_DIGITS = replace(DICTIONARY, id_form="digits")


def in_digits(text: str) -> str:
    """This source.toml with ids of that form."""
    return text.replace("ontario_health_card", "digits")


BESIDE = OWN.replace('diagnosis = "Diagnostics"', 'diagnosis = { name = "dx", files = ["dx.csv"], id = "who" }')


def test_values_may_stand_in_a_table_of_their_own(tmp_path: Path) -> None:
    """In any order, twice, and of nobody: only the last is wrong."""
    values = [("1000000005", "infarctus"), ("1000000001", "asthme"), ("1000000003", "E11"), ("1000000005", "asthme")]
    values += [("1000000001", "infarctus"), ("1000000005", "E11"), ("1000000005", "infarctus ancien"), ("NA", "asthme")]
    lines = [
        "who;note;dx",
        *(f"{who};x;{code}" for who, code in values),
        "1000000099;x;asthme",
        "1000000001;x;martian",
        "",
    ]
    text = BESIDE.replace('files = ["dx.csv"]', 'files = ["dx.csv"], delimiter = ";"')
    home = own_home(tmp_path / "home", in_digits(text), {**FILES, "dx.csv": "\n".join(lines)})
    rejected = RejectedRows()
    rows = rows_of(plan_of(home, IN_DIGITS).people(DICTIONARY.columns), PUBLISHED, rejected)
    values_of = rejected.values["diagnosis"].rejected
    assert rows == by_codes([row if row[0] else (*row[:4], "") for row in PEOPLE])
    assert [(str(place), reason) for place, reason in values_of.placed] == [
        ("line 10 of dx.csv", "is of an id that no row of people has"),
        ("line 11 of dx.csv", "diagnosis (dx) holds a code that source.toml gives no published code"),
    ]


def test_a_code_twice_in_one_field_counts_once_where_source_toml_says_what_is_read(tmp_path: Path) -> None:
    """Two own codes may stand for one published code; files under published names have no such excuse."""
    text = OWN.replace("p-*.csv", "p-1.csv")
    twice = FIRST.replace("infarctus|asthme", "infarctus|infarctus")
    home = own_home(tmp_path / "home", text, {**FILES, "p-1.csv": twice.encode("latin-1")})
    assert people_of(home)[0][-1] == "I21"
    _, problems = ColumnReader(DICTIONARY.column("diagnosis")).read(["I21;I21"])
    assert problems == {0: "diagnosis holds a code twice"}


def test_values_and_people_are_counted_apart(tmp_path: Path) -> None:
    """Each table has its own rows, and its own limit; every row of the table of values is in one of its figures."""
    values = ["1000000001,asthme", ",asthme", "NA,martian", "1000000001,", "1000000001,NA", "1000000099,E11"]
    values += ["1000000001,martian", "1000000005", *["1000000001,x"] * 150]
    home = own_home(tmp_path / "home", in_digits(BESIDE), {**FILES, "dx.csv": "\n".join(["who,dx", *values, ""])})
    rejected = RejectedRows()
    with watching(tmp_path) as watch:
        plan = watch.over(plan_of(home, IN_DIGITS))
        rows_of(plan.people(DICTIONARY.columns), PUBLISHED, rejected)
    assert rejected.count == 0
    assert values_json(rejected)["diagnosis"] | {"rejections": []} == {
        "rows": len(values),
        "of_people": 1,
        "without_card": 2,
        "without_value": 2,
        "rejected": 153,
        "rejections": [],
    }
    said = load_text("Loaded.", rejected, watch.path, None, is_check=False)
    assert "diagnosis: 1 values of people in 158 rows; 2 have no id, 2 have no value, 153 were left out" in said
    assert "line 7 of dx.csv: is of an id that no row of people has" in said
    assert "Every row that was left out is listed in" in said
    assert watch.path.read_text("utf-8").count("\ndiagnosis,dx.csv,line,") == 153
    rejected.verify_few(5, 153)
    with pytest.raises(InvalidRequestError, match="153 of the 158 rows of diagnosis are wrong and 100 would be"):
        rejected.verify_few(1_000_000)


@pytest.mark.parametrize(
    ("form", "card", "who"),
    [
        ("text", " hn-004959 ", "HN-004959"),
        ("ontario_health_card", "1000000016", "1000-000-016"),
        ("digits", "12-34", " 1234"),
        ("quebec_health_card", "ABCD 5001 0112", "abcd50010112"),
    ],
)
def test_two_tables_may_spell_an_id_in_two_ways(tmp_path: Path, form: str, card: str, who: str) -> None:
    """One id in the form is one id; an inadmissible one is nobody's, and is reported."""
    people = f"Carte;Sexe;Âge;Né le\n{card};F;61;\n!\x7f;F;61;\n".encode("latin-1")
    values = f"who,dx\n{who},asthme\n{card},E11\n!\x7f,E11\n"
    text = BESIDE.replace("p-*.csv", "p-1.csv").replace("ontario_health_card", form)
    home = own_home(tmp_path / "home", text, {"p-1.csv": people, "dx.csv": values})
    rejected = RejectedRows()
    plan = plan_of(home, replace(DICTIONARY, id_form=form))
    rows = rows_of(plan.people(DICTIONARY.columns), ("health_card", "diagnosis"), rejected)
    assert rows == [(card.strip(), "E11;J45"), ("!\x7f", "")]
    ((place, reason),) = rejected.values["diagnosis"].rejected.placed
    assert str(place) == "line 4 of dx.csv"
    assert reason in parse_ids(["!\x7f"], form)[1].values()


@pytest.mark.parametrize("form", DATE_FORMS)
def test_dates_are_read_in_their_form_alone(form: str) -> None:
    """A day that there is not, or another form, is wrong; one way to read each."""
    reader = WordReader(DICTIONARY.column("born"), OwnColumn("born", dates=form))
    written = {
        "iso": "2011-03-04",
        "yyyymmdd": "20110304",
        "dd/mm/yyyy": "04/03/2011",
        "mm/dd/yyyy": "03/04/2011",
        "dd-mm-yyyy": "04-03-2011",
        "dd.mm.yyyy": "04.03.2011",
    }
    assert reader.read([written[form], ""]) == (["2011-03-04", ""], {})
    wrong = [text for other, text in written.items() if other != form and {other, form} != {"dd/mm/yyyy", "mm/dd/yyyy"}]
    wrong += ["20110230", "2011-02-30", "30/02/2011", "2011-3", "x", written[form] + " 00:00", "٢٠١١٠٣٠٤"]
    texts, problems = reader.read(wrong)
    assert set(problems) == set(range(len(wrong)))
    assert set(texts) == {" "}
