"""The commands about dictionary files: what they print, what they refuse, and that a draft holds nothing of anybody."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from fakes.invoking import invoke
from fakes.parquet import write_parquet

from broker_common.commands.dictionary import dictionary, dictionary_command
from broker_common.errors import InvalidRequestError
from broker_common.query.dictionary import Code, Column, ColumnType, Dictionary
from broker_common.storage.dictionary.file import FILE_NAME, dictionary_toml, read_dictionary

OLD = Dictionary(
    (
        Column(name="age", type=ColumnType.INTEGER, description="Age.", description_fr="Âge.", maximum=130),
        Column(
            name="ill",
            type=ColumnType.CODE,
            description="Diagnoses.",
            multi_valued=True,
            codes=(Code("I", "Heart", "Cœur"), Code("I21", "Infarction", under=("I",))),
        ),
    ),
    agency="Agency",
    version=2,
)


def run(*words: object, environment: dict[str, str] | None = None) -> str:
    """Output of a command; raises its error."""
    command, *rest = map(str, words)
    done = invoke(dictionary, [command, *rest], env=environment)
    if done.exception is not None:
        raise done.exception
    return done.stdout


def refused(*words: object) -> InvalidRequestError:
    """The error of a command."""
    with pytest.raises(InvalidRequestError) as caught:
        run(*words)
    return caught.value


def written(path: Path, published: Dictionary = OLD) -> Path:
    """A dictionary file."""
    path.write_text(dictionary_toml(published), "utf-8")
    return path


def test_check_says_what_a_file_publishes(tmp_path: Path) -> None:
    """Columns, how many codes on how many levels, the hash that a log will name, and what French lacks."""
    path = written(tmp_path / FILE_NAME)
    assert run("check", path) == (
        f"{path} can be published: version 2 of Agency\n"
        "  ids        ontario_health_card, linkage complementary\n"
        f"  hash       {OLD.hash.hex()}\n"
        "  age  whole numbers from 0 to 130\n"
        "  ill  2 codes in 2 levels, one person may have several\n"
        "2 descriptions and labels have no French: the English ones stand in for them.\n"
    )
    assert json.loads(run("check", path, "--json")) == {
        "file": str(path),
        "agency": "Agency",
        "version": 2,
        "id_form": "ontario_health_card",
        "linkage": "complementary",
        "hash": OLD.hash.hex(),
        "columns": [
            {"name": "age", "type": "integer"},
            {"name": "ill", "type": "code", "codes": 2, "levels": 2},
        ],
        "events": [],
        "without_french": 2,
    }


def test_check_says_what_is_wrong(tmp_path: Path) -> None:
    """With its line, as reading says it."""
    path = written(tmp_path / FILE_NAME)
    path.write_text(path.read_text("utf-8").replace('under = ["I"]', 'under = ["J"]'), "utf-8")
    error = refused("check", path)
    assert error.code == "DICTIONARY_INVALID"
    assert "'I21' is placed under 'J', which is not a code." in error.text


def test_diff_says_what_changes_and_whether_to_load(tmp_path: Path) -> None:
    """A new code needs a load, a new label does not, and nothing is said of what stayed."""
    old = written(tmp_path / "old.toml")
    more = Dictionary((OLD.columns[0],), agency="Agency", version=2)
    new = written(tmp_path / "new.toml", more)
    assert run("diff", old, new) == (
        f"Data that was loaded under {old} must be loaded again before it is served under {new}:\n"
        "  Column 'ill' is gone.\n"
        "      Questions that name it are refused. The load leaves it out.\n"
    )
    assert json.loads(run("diff", old, new, "--json")) == {
        "needs_load": True,
        "changes": [
            {
                "kind": "column_removed",
                "place": "ill",
                "needs_load": True,
                "text": "Column 'ill' is gone.",
                "effect": "Questions that name it are refused. The load leaves it out.",
            }
        ],
    }
    relabelled = written(tmp_path / "labels.toml", Dictionary(OLD.columns, agency="Ministry", version=2))
    french = run("diff", old, relabelled, environment={"TRIPARTITE_LANG": "fr"})
    assert french.startswith(
        "Rien n\u2019est à charger de nouveau; les gens lisent d\u2019autres mots\u00a0:\n  L\u2019organisme s\u2019appelle "
    )
    assert run("diff", old, written(tmp_path / "same.toml")) == "The two say the same.\n"


# A person in whom everything is to be found again, should it ever leave the file.
MARKED = {"card": "5584486673", "AGE": "97", "Born": "1931-07-19", "DX Code": "MARKA;MARKB", "town": "Markville"}
NAMES = {"AGE": "age", "Born": "born", "DX Code": "dx_code", "town": "town"}


def people_csv(folder: Path) -> Path:
    """A file with the marked person, and one of whom little is known."""
    path = folder / "people.csv"
    path.write_text(f"{','.join(MARKED)}\n{','.join(MARKED.values())}\n1234567890,,,,\n")
    return path


def people_parquet(folder: Path) -> Path:
    """The same people with types of their own."""
    columns = {name: f"'{value}'" for name, value in MARKED.items()} | {
        "AGE": "97",
        "Born": "date '1931-07-19'",
        "DX Code": "['MARKA', 'MARKB']",
    }
    return write_parquet(folder / "people.parquet", "select " + ", ".join(f'{v} as "{n}"' for n, v in columns.items()))


def columns_of(draft: str) -> dict[str, list[str]]:
    """The lines of each column of a draft that say something already."""
    found: dict[str, list[str]] = {}
    for block in draft.split("\n\n")[1:]:
        head, *lines = block.splitlines()
        found[head.partition("]")[0].removeprefix("[")] = [line for line in lines if "TODO" not in line]
    return found


@pytest.mark.parametrize("make", [people_csv, people_parquet])
def test_draft_proposes_columns_and_types(tmp_path: Path, make: Any) -> None:
    """The shapes of values decide; the id is no column; a person's part is a TODO."""
    assert columns_of(run("draft", make(tmp_path), "--id", "card")) == {
        "columns.age": ['type = "integer"'],
        "columns.born": ['type = "date"'],
        "columns.dx_code": ['type = "code"', "multi_valued = true"],
        "columns.town": ['type = "code"'],
    }


@pytest.mark.parametrize("make", [people_csv, people_parquet])
def test_draft_holds_nothing_of_anybody(tmp_path: Path, make: Any) -> None:
    """No value, and no limit that would be somebody's: only names of columns, and what is the same for every file."""
    draft = run("draft", make(tmp_path), "--id", "card")
    for value in MARKED.values():
        assert not any(part in draft for part in re.split("[;-]", value) if part not in {"07", "19"})
    for name, published in NAMES.items():
        draft = draft.replace(f"  # {name}", "").replace(f"columns.{published}]", "columns.NAME]")
    other = tmp_path / "other.csv"
    other.write_text("card,AGE,Born,DX Code,town\n1,2,2000-01-01,x;y,z\n")
    with_others = run("draft", other, "--id", "card")
    for name, published in NAMES.items():
        with_others = with_others.replace(f"  # {name}", "").replace(f"columns.{published}]", "columns.NAME]")
    assert draft == with_others


def test_codes_come_from_a_list_alone(tmp_path: Path) -> None:
    """Which is read at once; numbers that a list names are codes."""
    people = people_csv(tmp_path)
    (tmp_path / "towns.csv").write_text("value,label\nOttawa,Ottawa\n")
    (tmp_path / "bad.csv").write_text("value,label\nOttawa,\n")
    draft = run("draft", people, "--id", "card", "--codes", f"town={tmp_path / 'towns.csv'}")
    assert columns_of(draft)["columns.town"] == ['type = "code"', 'codes = "towns.csv"']
    assert columns_of(run("draft", people, "--id", "card", "--codes", f"age={tmp_path / 'towns.csv'}"))[
        "columns.age"
    ] == [
        'type = "code"',
        'codes = "towns.csv"',
    ]
    assert (
        refused("draft", people, "--id", "card", "--codes", f"town={tmp_path / 'bad.csv'}").code == "DICTIONARY_INVALID"
    )
    error = refused("draft", people, "--id", "card", "--codes", f"twon={tmp_path / 'towns.csv'}")
    assert "Did you mean: town" in error.hint


def test_every_other_file_is_an_event_table(tmp_path: Path) -> None:
    """Named after the file; an event has one value a column."""
    stays = tmp_path / "Hospital stays.csv"
    stays.write_text("card,admitted,cause\n1,2010-01-01,a;b\n")
    draft = run("draft", people_csv(tmp_path), stays, "--id", "card")
    assert columns_of(draft)["events.hospital_stays.columns.admitted"] == ['type = "date"']
    assert columns_of(draft)["events.hospital_stays.columns.cause"] == ['type = "code"']
    assert "[events.hospital_stays]" in draft


def test_a_draft_becomes_a_dictionary_when_its_todos_are_done(tmp_path: Path) -> None:
    """Check says what is still to be written, down to nothing."""
    (tmp_path / "towns.csv").write_text("value,label\nOttawa,Ottawa\n")
    (tmp_path / "codes.csv").write_text("value,label\nMARKA,A\nMARKB,B\n")
    path = tmp_path / FILE_NAME
    lists = ("--codes", f"town={tmp_path / 'towns.csv'}", "--codes", f"dx_code={tmp_path / 'codes.csv'}")
    assert f"tripartite dictionary check {path}" in run(
        "draft", people_csv(tmp_path), "--id", "card", *lists, "--to", path
    )
    for problem, todo, done in (
        ("'id_form' is empty", 'id_form = ""', 'id_form = "text"'),
        ("There is no 'minimum'", "# TODO: minimum.*", "minimum = 0\nmaximum = 130"),
        ("the description '' is empty", 'description = ""', 'description = "Something."'),
    ):
        assert problem in refused("check", path).text
        path.write_text(re.sub(todo, done, path.read_text("utf-8")), "utf-8")
    assert read_dictionary(path).names == ("age", "born", "dx_code", "town")


@pytest.mark.parametrize(
    "content",
    [
        "5584486673,97,Markville\n1,2,3\n",
        "",
        "\n",
        "a,b\n",
        "card,town\n1,\xff\n",
        'card,town\n1,"Mark\n',
        "card,x,X\n1,2,3\n",
    ],
)
def test_a_file_without_names_is_refused_and_not_quoted(tmp_path: Path, content: str) -> None:
    """Its first line may be a person: nothing of it is shown."""
    path = tmp_path / "people.csv"
    path.write_bytes(content.encode("latin-1"))
    error = refused("draft", path, "--id", "card")
    assert error.code == "DICTIONARY_INVALID"
    assert "Mark" not in error.text + error.hint
    assert "5584486673" not in error.text + error.hint


@pytest.mark.parametrize("content", [b"card;town\n1;x\n", b"card,n\xe9\n1,x\n"])
def test_what_a_draft_reads_is_said(tmp_path: Path, content: bytes) -> None:
    """A load may read other separators and encodings, which source.toml names."""
    path = tmp_path / "people.csv"
    path.write_bytes(content)
    hint = refused("draft", path, "--id", "card").hint
    assert "UTF-8" in hint
    assert "with commas between" in hint


def test_a_line_that_is_no_row_ends_the_draft(tmp_path: Path) -> None:
    """A file without line ends would otherwise be read to its end at once."""
    path = tmp_path / "people.csv"
    path.write_text(f"card,town\n1,{'x' * 70_000}\n")
    assert refused("draft", path, "--id", "card").text == f"In {path}:2: This line is too long."


def test_a_nodes_own_dictionary_is_shown_in_the_language_of_its_operator(tmp_path: Path) -> None:
    """All of it, one column, a branch of codes or a word; a word that stands nowhere is said to."""
    command = dictionary_command(lambda _: OLD)

    def shown(*words: str, language: str = "en") -> str:
        done = invoke(command, ["--home", str(tmp_path), *words], env={"TRIPARTITE_LANG": language})
        assert done.exception is None
        return done.stdout

    assert shown("ill", "--under", "I21").splitlines()[2:] == ["      'I21'  Infarction"]
    assert "'I'  Cœur" in shown("--search", "coeur", language="fr") + shown("ill", language="fr")
    assert shown("--search", "nothing") == "'nothing' is in no name, description, code or label.\n"
    assert json.loads(shown("--json"))["hash"] == OLD.hash.hex()
