"""source.toml: it is private, what it says is checked before anything is read, and an error names line and column."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest
from unit.storage.own_data import DICTIONARY, IDS, own_home, plan_of

from broker_common.errors import InvalidRequestError
from broker_common.storage.lined_text import Places
from broker_common.storage.source.toml import parse_source_toml

HEAD = '[people]\nfiles = ["p.csv"]\nid = "card"\nid_form = "ontario_health_card"\n'
STAYS = '[events.stay]\nfiles = ["s.csv"]\nid = "card"\n'


def refusal(text: str, home: Path = Path("nowhere"), ids: tuple[str, ...] = IDS) -> InvalidRequestError:
    """Error about a text."""
    with pytest.raises(InvalidRequestError) as caught:
        parse_source_toml(text.encode("utf-8"), home, ids, DICTIONARY)
    assert caught.value.code == "LOAD_REFUSED"
    assert caught.value.hint
    return caught.value


WRONG = [
    ("", "line 1, column 1: there is no table [people]"),
    ("people = 3", "line 1, column 1: there is no table [people]"),
    (HEAD, "there is no table [events]"),
    (HEAD + "[events]", "line 5, column 1: there is no table [events.stay]"),
    (HEAD + STAYS + "[events.stays]", "line 8, column 1: nothing here is called stays"),
    (HEAD + "[person]\n" + STAYS, "line 5, column 1: nothing here is called person"),
    (HEAD.replace("id =", "ids ="), "line 3, column 1: nothing here is called ids"),
    (HEAD.replace('id = "card"\n', ""), "line 1, column 1: id is missing"),
    (HEAD.replace('"card"', "3"), "line 3, column 1: id is no text"),
    (
        HEAD.replace("ontario_health_card", "postal_address"),
        "line 4, column 1: it says that ids are of the form postal",
    ),
    (HEAD.replace('id_form = "ontario_health_card"', ""), "id_form is missing"),
    (HEAD.replace("files", "  files").replace('["p.csv"]', '"p.csv"'), "line 2, column 3: files is no list of texts"),
    (HEAD.replace('["p.csv"]', "[]"), "files names no file"),
    (HEAD.replace('files = ["p.csv"]', ""), "it says either files or database"),
    (HEAD + 'database = "postgresql"', "it says either files or database"),
    (HEAD + 'query = "select 1"', "line 5, column 1: query belongs to a database"),
    (HEAD + 'delimiter = ";;"', "line 5, column 1: delimiter is not one sign"),
    (HEAD + 'encoding = "ebcdic"', "line 5, column 1: encoding is none that is known"),
    (HEAD + 'dates = "mdy"', "dates is none that is known"),
    (HEAD + 'separator = "ab"', "separator is not one sign"),
    (HEAD + "missing = [9]", "missing is no list of texts"),
    (HEAD + 'person = "p"', "line 5, column 1: nothing here is called person"),
    (HEAD + '[people.columns]\nsexx = "s"', "line 6, column 1: nothing here is called sexx"),
    (HEAD + "[people.columns]\nsex = 3", "line 6, column 1: sex is no text"),
    (HEAD + '[people.columns]\nsex = { nam = "s" }', "line 6, column 1: nothing here is called nam"),
    (HEAD + '[people.columns]\nsex = { name = "s", files = ["x.csv"], id = "c" }', "has one value a person"),
    (HEAD + '[people.columns]\ndiagnosis = { name = "d", id = "c" }', "id belongs to a table of its own"),
    (HEAD + '[people.columns]\ndiagnosis = { files = ["x.csv"] }', "id is missing"),
    (HEAD + '[people.columns]\nsex = { codes_file = "x.csv" }', "the file that codes_file names is missing"),
    (HEAD + '[people.columns]\nage = { codes_file = "x.csv" }', "age holds whole numbers, not codes"),
    (HEAD + '[people.codes.sex]\n1 = "femal"', "line 6, column 1: femal is no published code of sex"),
    (HEAD + '[people.codes.sex]\n1 = "male"\n" 1" = "female"', "line 7, column 1: this code stands there twice"),
    (HEAD + "[people.codes.sex]\n1 = 2", "line 6, column 1: 1 is no text"),
    (HEAD + "[people.codes]\nsex = 2", "line 6, column 1: there is no table [people.codes.sex]"),
    (HEAD + '[people.codes.age]\n1 = "2"', "line 5, column 1: nothing here is called age"),
    ("[people]\nfiles = [", "is no TOML"),
    ("x = 1" + "0" * 5000, "is no TOML"),
]


@pytest.mark.parametrize(("text", "said"), WRONG)
def test_what_is_wrong_is_said_with_its_place(text: str, said: str) -> None:
    """Line and column are those of the key; where one is missing, of the table that lacks it."""
    assert said in refusal(text).text


def test_misspelt_key_is_told_the_nearest() -> None:
    """Nearest of keys, of published columns and of published codes."""
    assert "Nearest: delimiter" in refusal(HEAD + 'delimeter = ";"').hint
    assert "Nearest: sex" in refusal(HEAD + '[people.columns]\nsexx = "s"').hint
    assert "Nearest: 'female'" in refusal(HEAD + '[people.codes.sex]\n1 = "femal"').hint


DATABASE = HEAD.replace('files = ["p.csv"]', 'database = "postgresql"\nquery = "select 1"')


@pytest.mark.parametrize(
    ("connection", "said"),
    [
        ("", "connection is missing"),
        ('connection = "postgresql://me:secret@host/db"', "does not say where the connection stands"),
        ('connection = "host=db password=secret"', "does not say where the connection stands"),
        ('connection = "file:"', "does not say where the connection stands"),
    ],
)
def test_password_never_stands_in_the_file(connection: str, said: str) -> None:
    """A connection is a reference; what was written in its place is not said again."""
    error = refusal(DATABASE + connection)
    assert said in error.text
    assert "secret" not in error.text + error.hint


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('"postgresql"', '"oracle"'), "database is none that is known"),
        (('"postgresql"', '"duckdb:"'), "database is none that is known"),
        (('query = "select 1"', ""), "needs either query or query_file"),
        (('query = "select 1"', 'query = "select 1"\nquery_file = "q.sql"'), "needs either query or query_file"),
        (('query = "select 1"', 'query_file = "q.sql"'), "the file that query_file names is missing"),
        (('query = "select 1"', 'query = ""'), "query is no text"),
        (('query = "select 1"', 'query = "select 1"\ndelimiter = ";"'), "a database has no delimiter"),
        (('"postgresql"', '"duckdb:x"'), "a DuckDB file needs no connection"),
    ],
)
def test_database_is_named_in_full(change: tuple[str, str], said: str) -> None:
    """The query and its driver are known before anybody connects."""
    assert said in refusal(DATABASE.replace(*change) + 'connection = "env:X"\n').text


def test_codes_of_a_file_are_checked_line_by_line(tmp_path: Path) -> None:
    """A code of a dictionary may be named; of a code of the agency only the line."""
    text = HEAD + '[people.columns]\nsex = { name = "s", codes_file = "sex.csv" }\n' + STAYS
    for content, said, remedy in [
        ("own,published\n1,male\n2,femal\n", "line 3: femal is no published code of sex", "Nearest: 'female', 'male'."),
        ("own,published\nsecret,male\nsecret,female\n", "line 3: its own code stands there twice", "Leave one of them"),
        ("own,published\n1\n", "line 2: has 1 fields instead of 2", "Each line has two fields, own and published"),
        ("a,b\n1,male\n", "it lacks columns: own, published", "It must have: own, published."),
        ("own,published\n", "it names columns and has no rows", "one row per"),
    ]:
        home = own_home(tmp_path / "home", text, {"sex.csv": content})
        error = refusal(text, home)
        assert said in error.text
        assert "sex.csv" in error.text
        assert "line 6, column 1" in error.text
        assert remedy in error.hint
        assert "secret" not in error.text + error.hint
    home = own_home(tmp_path / "home", text, {"sex.csv": "own,published\n1,male\n2,female\n9,\n"})
    table = parse_source_toml(text.encode(), home, IDS, DICTIONARY)["people"]
    assert table.columns["sex"].codes == {"1": "male", "2": "female", "9": ""}


def test_a_file_of_codes_belongs_to_its_column() -> None:
    """Among the codes themselves it is taken for one: what is said shows where it goes."""
    error = refusal(HEAD + '[people.codes.sex]\ncodes_file = "sex.csv"\n' + STAYS)
    assert "line 6, column 1: each line of [people.codes.sex] is a code" in error.text
    assert 'sex = { name = "…", codes_file = "…" } below [people.columns]' in error.hint
    error = refusal(HEAD + STAYS + '[events.stay.codes.cause]\ncodes_file = "sex.csv"\n')
    assert "below [events.stay.columns], and leave [events.stay.codes.cause] out" in error.hint


def test_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    """It may tell how an agency's records look; the remedy is one command."""
    home = own_home(tmp_path / "home", HEAD + STAYS, {"p.csv": "", "s.csv": ""})
    for mode in (0o640, 0o604, 0o660, 0o700):
        (home / "source.toml").chmod(mode)
        with pytest.raises(InvalidRequestError, match="can be read or written by others") as caught:
            plan_of(home)
        assert "chmod 600" in caught.value.hint
    (home / "source.toml").chmod(0o400)
    plan_of(home)


@pytest.mark.parametrize("mode", [0o664, 0o646])
def test_file_that_others_can_write_decides_nothing(tmp_path: Path, mode: int) -> None:
    """Neither what is asked of a database nor what codes mean; what it says may be read."""
    codes, query = tmp_path / "sex.csv", tmp_path / "people.sql"
    codes.write_text("own,published\n1,male\n", "utf-8")
    query.write_text("select 1", "utf-8")
    coded = HEAD + f'[people.columns]\nsex = {{ name = "s", codes_file = "{codes}" }}\n' + STAYS
    asked = DATABASE.replace('query = "select 1"', f'query_file = "{query}"') + 'connection = "env:X"\n' + STAYS
    home = own_home(tmp_path / "home", asked)
    for path, text, key in ((codes, coded, "codes_file"), (query, asked, "query_file")):
        path.chmod(mode)
        error = refusal(text, home)
        assert f"others can write the file that {key} names" in error.text
        assert "chmod go-w" in error.hint
        path.chmod(0o644)
        parse_source_toml(text.encode(), home, IDS, DICTIONARY)


def test_file_of_another_account_decides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner may write it at any time; root may anyway."""
    query = tmp_path / "people.sql"
    query.write_text("select 1", "utf-8")
    text = DATABASE.replace('query = "select 1"', f'query_file = "{query}"') + 'connection = "env:X"\n' + STAYS
    home = own_home(tmp_path / "home", text)
    parse_source_toml(text.encode(), home, IDS, DICTIONARY)
    owners = {query: 4711}
    stat = Path.stat
    monkeypatch.setattr(Path, "stat", lambda path, **words: _owned(stat(path, **words), owners.get(path)))
    assert "others can write the file that query_file names" in refusal(text, home).text
    owners[home] = 4711
    parse_source_toml(text.encode(), home, IDS, DICTIONARY)


def _owned(found: os.stat_result, owner: int | None) -> os.stat_result:
    return found if owner is None else os.stat_result((*found[:4], owner, *found[5:]))


def test_census_names_person_and_household() -> None:
    """The other ids have keys of their own."""
    ids = ("health_card", "person_id", "household_id")
    assert "person is missing" in refusal(HEAD + STAYS, ids=ids).text
    text = HEAD + 'person = "p"\nhousehold = "h"\n' + STAYS
    table = parse_source_toml(text.encode(), Path("nowhere"), ids, DICTIONARY)["people"]
    assert table.ids == {"health_card": "card", "person_id": "p", "household_id": "h"}


def test_places_of_keys_are_found_whatever_their_values() -> None:
    """Values of several lines, quoted names, dotted names, and signs of TOML within texts."""
    text = """\
# a = 1
a = 1
"b = c" = '''
d = 2
[e]
'''
f.g = [
  "h = 3", # i = 4
  ]
[ j . "k.l" ] # m
  n = { o = 1 }
"""
    places = Places(text)
    assert [tuple(places.of(path)) for path in [("a",), ("b = c",), ("f", "g"), ("j", "k.l"), ("j", "k.l", "n")]] == [
        *((2, 1), (3, 1), (7, 1)),
        *((10, 1), (11, 3)),
    ]
    assert tuple(places.of(("j", "k.l", "n", "o"))) == (11, 3)
    for path in [("d",), ("e",), ("h",), ("i",), ("m",)]:
        assert tuple(places.of(path)) == (1, 1)


@pytest.mark.parametrize("lines", [1, 20_000])
def test_places_are_found_behind_a_value_of_many_lines(lines: int) -> None:
    """A list that fills the file is walked once, as a spreadsheet ends its lines, with signs of TOML in texts and remarks."""
    value = "".join(f'  {{ a = \'[{number}\', b = "\\"" }}, # ]\r\n' for number in range(lines))
    text = f'codes = [\r\n{value}]\r\n\r\nlast = """a\r\nb = 1""""\r\n[table]\r\nkey = 1'
    assert tomllib.loads(text)["last"] == 'a\nb = 1"'
    places = Places(text)
    assert [tuple(places.of(path)) for path in [("codes",), ("last",), ("b",), ("table",), ("table", "key")]] == [
        *((1, 1), (lines + 4, 1), (1, 1), (lines + 6, 1), (lines + 7, 1)),
    ]
