"""Dictionary files: what an agency writes is read back exactly, and a mistake is named with its line and what to type."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker_common.errors import InvalidRequestError
from broker_common.language import language
from broker_common.query.dictionary import MAX_CODES, AskedOf, Code, Column, ColumnType, Dictionary, EventTable
from broker_common.storage.dictionary import code_lists
from broker_common.storage.dictionary.file import MAX_FILE_BYTES, dictionary_toml, read_dictionary

WHOLE = """\
agency = "Ministry of Health"  # who publishes it
version = 3
id_form = "text"
linkage = "household"

[columns.age]
type = "integer"
description = "Age."
description_fr = "Âge\u00a0: en années."
minimum = -1
maximum = 130

[columns.diagnosis]
type = "code"
multi_valued = true
description = "Diagnoses."
codes = "icd10.csv"

[columns.work]
type = "code"
description = "Works."
asked_of = { not_asked = "not asked", one_in = 5, design_effect = 1.3 }
codes = [
  { value = "yes", label = "Yes", label_fr = "Oui" },
  { value = "not asked", label = "Not asked" },
]

[events.stay]
description = "Stays."
description_fr = "Séjours."

[events.stay.columns.admitted]
type = "date"
description = "Day of admission."

[events.stay.columns.cause]
type = "code"
description = "Cause."
codes = [{ value = "I", label = "Heart" }, { value = "I21", label = "Infarction", under = ["I"] }]
"""
ICD10 = """\
value,label,label_fr,under
I,Heart,Cœur,
I20-I25,"Heart, ischaemic",,I
I21,Infarction,Infarctus,I20-I25;I
"""


def written(folder: Path, text: str = WHOLE, codes: str | bytes = ICD10) -> Path:
    """A dictionary file with its code list beside it."""
    (folder / "icd10.csv").write_bytes(codes if isinstance(codes, bytes) else codes.encode())
    path = folder / "dictionary.toml"
    path.write_text(text, "utf-8")
    return path


def refused(path: Path) -> InvalidRequestError:
    """The error of a file that is no dictionary."""
    with pytest.raises(InvalidRequestError) as caught:
        read_dictionary(path)
    assert caught.value.code == "DICTIONARY_INVALID"
    assert caught.value.text.isprintable()
    return caught.value


def test_everything_that_a_file_says_is_in_the_dictionary(tmp_path: Path) -> None:
    """Columns, events, codes of both places, what they stand under, French, and who publishes it."""
    assert read_dictionary(written(tmp_path)) == Dictionary(
        (
            Column(
                name="age",
                type=ColumnType.INTEGER,
                description="Age.",
                description_fr="Âge\u00a0: en années.",
                minimum=-1,
                maximum=130,
            ),
            Column(
                name="diagnosis",
                type=ColumnType.CODE,
                multi_valued=True,
                description="Diagnoses.",
                codes=(
                    Code("I", "Heart", "Cœur"),
                    Code("I20-I25", "Heart, ischaemic", "", ("I",)),
                    Code("I21", "Infarction", "Infarctus", ("I", "I20-I25")),
                ),
            ),
            Column(
                name="work",
                type=ColumnType.CODE,
                description="Works.",
                codes=(Code("yes", "Yes", "Oui"), Code("not asked", "Not asked")),
                asked_of=AskedOf(not_asked="not asked", one_in=5, design_effect_hundredths=130),
            ),
        ),
        (
            EventTable(
                "stay",
                "Stays.",
                (
                    Column(name="admitted", type=ColumnType.DATE, description="Day of admission."),
                    Column(
                        name="cause",
                        type=ColumnType.CODE,
                        description="Cause.",
                        codes=(Code("I", "Heart"), Code("I21", "Infarction", under=("I",))),
                    ),
                ),
                "Séjours.",
            ),
        ),
        "Ministry of Health",
        3,
        "text",
        "household",
    )


def test_a_dictionary_that_is_written_is_read_back(tmp_path: Path) -> None:
    """Code lists stand in the file itself then."""
    dictionary = read_dictionary(written(tmp_path))
    other = tmp_path / "other.toml"
    other.write_text(dictionary_toml(dictionary), "utf-8")
    assert read_dictionary(other) == dictionary


EVENTS = WHOLE[WHOLE.index("[events.stay]") :]
# The change in the file, the line of the error, what it says, and what it suggests.
MISTAKES = {
    "unknown key": ("version = 3\n", "vresion = 3\n", 2, "no key 'vresion'", "Did you mean: version"),
    "unknown key of a column": ("multi_valued", "multi_value", 15, "no key 'multi_value'", "multi_valued"),
    "unknown key of a code": ('label_fr = "Oui"', 'french = "Oui"', 23, "no key 'french'", "label_fr"),
    "unknown type": ('"integer"', '"int"', 7, "'type' cannot be 'int'", "integer"),
    "unknown form of ids": ('"text"', '"txt"', 3, "'id_form' cannot be 'txt'", "text"),
    "unknown linkage": ('"household"', '"houshold"', 4, "'linkage' cannot be 'houshold'", "household"),
    "no type": ('type = "date"\n', "", 32, "There is no 'type'", ""),
    "no columns": (WHOLE[WHOLE.index("[columns.age]") :], "", 1, "There is no 'columns'", ""),
    "no bounds": ("maximum = 130\n", "", 6, "There is no 'maximum'", ""),
    "bounds that no load can store": ("maximum = 130", "maximum = 3000000000", 11, "'maximum' is not a number from", ""),
    "bounds the wrong way round": ("minimum = -1", "minimum = 131", 6, "'age' has a minimum above", ""),
    "bounds of a date": ('type = "date"', 'type = "date"\nminimum = 3', 34, "type 'date' has no 'minimum'", "integer"),
    "codes of a number": ("minimum = -1", 'codes = "icd10.csv"', 10, "type 'integer' has no 'codes'", "'code'"),
    "no codes": ('codes = "icd10.csv"\n', "", 13, "A column of type 'code' has 'codes'", "codes = [{"),
    "codes that are no tables": ('[{ value = "I", label = "Heart" },', '["I", {value="J", label="J"},', 39, "a list of tables", ""),
    "a list in a folder": ('"icd10.csv"', '"../icd10.csv"', 17, "'../icd10.csv' is not the name", "icd10.csv"),
    "text for a number": ("version = 3", 'version = "3"', 2, "'version' is not a whole number", ""),
    "number for a flag": ("multi_valued = true", "multi_valued = 1", 15, "'multi_valued' is not true or false", ""),
    "duplicate code": ('value = "not asked"', 'value = "yes"', 23, "The code 'yes' is there twice", "Remove"),
    "a parent that is no code": ('under = ["I"]', 'under = ["J"]', 39, "'I21' is placed under 'J', which is not a code", "'I'"),
    "a parent of the only code": ('[{ value = "I", label = "Heart" }, { value = "I21"', '[{ value = "I21"', 39, "'I21' is placed under 'I', which is not a code", "Write it as a code as well"),
    "an empty list of codes": ('[{ value = "I", label = "Heart" }, { value = "I21", label = "Infarction", under = ["I"] }]', "[]", 39, "The column 'cause' has no codes", "at least one"),
    "one name of a column and an event table": (EVENTS, EVENTS.replace("stay", "work"), 28, "'work' is the name of a column and of an event table", "rename one"),
    "a parent that is no list": ('under = ["I"]', 'under = "I"', 39, "'under' is not a list of texts", 'under = ["I20-I25"]'),
    "a circle": ('{ value = "I", label = "Heart" }', '{ value = "I", label = "Heart", under = ["I21"] }', 36, "'cause' codes are placed under themselves", ""),
    "a column name": ("[columns.age]", "[columns.Age]", 6, "'Age' cannot be the name of a column", ""),
    "a word of criteria": ("[columns.age]", "[columns.under]", 6, "'under' cannot be the name of a column", ""),
    "the people's own table": (EVENTS, EVENTS.replace("stay", "people"), 28, "'people' cannot be the name of an event", ""),
    "the same table twice": ("[columns.work]", "[columns.age]", 19, "This is not TOML", ""),
    "an event with several values": ('type = "date"', 'type = "date"\nmulti_valued = true', 32, "holds no codes", ""),
    "an event with several codes": ('description = "Cause."', 'description = "Cause."\nmulti_valued = true', 39, "A column of an event table has no 'multi_valued'", "several values are several rows"),
    "an event of a part": ('description = "Cause."', 'asked_of = { not_asked = "I", one_in = 5, design_effect = 1 }\ndescription = "Cause."', 38, "A column of an event table has no 'asked_of'", "of everybody"),
    "design effect": ("design_effect = 1.3", "design_effect = 1.333", 22, "'design_effect' is not a number", ""),
    "no design effect": ("design_effect = 1.3", "design_effect = nan", 22, "'design_effect' is not a number", ""),
    "no TOML": ('linkage = "household"', "linkage = household", 4, "This is not TOML", "double quotes"),
    "control character": ("Day of admission", "Day of \\u001b[2J", 32, "is empty, too long or not printable", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_with_its_line_and_what_to_type(tmp_path: Path, name: str) -> None:
    """The line of the key where one is wrong, of the table where something in it is missing."""
    old, new, line, problem, remedy = MISTAKES[name]
    assert WHOLE.count(old) == 1 or name in {"unknown type", "no type"}
    error = refused(written(tmp_path, WHOLE.replace(old, new, 1)))
    place = tmp_path / "dictionary.toml"
    assert error.text.startswith(f"In {place}:{line}: " if line else f"In {place}: ")
    assert problem in error.text
    assert remedy in error.hint


CODE_LISTS = {
    "unknown column": ("label_fr", "label_de", 1, "names 'label_de'", "label_fr"),
    "column twice": ("label_fr", "label", 1, "is there twice", ""),
    "no label": ("value,label,label_fr,under", "value,under,label_fr", 1, "does not name 'label'", ""),
    "too few fields": ("Infarctus,I20-I25;I", "I20-I25;I", 4, "has 3 fields instead of 4", "double quotes"),
    "a comma too many": ('"Heart, ischaemic"', "Heart, ischaemic", 3, "has 5 fields instead of 4", "double quotes"),
    "an open quote": ("Infarctus", '"Infarctus', 4, "is not CSV", "quote"),
    "a code twice": ("I21,", "I,", 4, "The code 'I' is there twice", "Remove"),
    "a parent that is no code": ("I20-I25;I", "I20-I26;I", 4, "'I21' is placed under 'I20-I26', which is not a code", "'I20-I25'"),
    "a parent twice": ("I20-I25;I", "I;I", 4, "is not in order, each once", ""),
    "an empty code": ("I21,", ",", 4, "is empty", ""),
    "an empty label": ("Infarction", "", 4, "is empty", ""),
    "spaces around a code": ("I21,", "I21 ,", 4, "outer spaces", ""),
    "a circle": ("I,Heart,Cœur,", "I,Heart,Cœur,I21", 0, "codes are placed under themselves, in a circle: 'I', 'I2", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", CODE_LISTS)
def test_a_mistake_in_a_code_list_is_named_with_its_line(tmp_path: Path, name: str) -> None:
    """A circle is one of the whole list, and is said of the column."""
    old, new, line, problem, remedy = CODE_LISTS[name]
    assert ICD10.count(old) == 1
    error = refused(written(tmp_path, codes=ICD10.replace(old, new, 1)))
    place = f"{tmp_path / 'icd10.csv'}:{line}" if line else f"{tmp_path / 'dictionary.toml'}:13"
    assert error.text.startswith(f"In {place}: ")
    assert problem in error.text
    assert remedy in error.hint


def test_a_code_list_of_a_spreadsheet_is_read(tmp_path: Path) -> None:
    """A byte-order mark, lines that end as on Windows, columns in another order and empty lines."""
    codes = "\ufefflabel,value\r\nHeart,I\r\n\r\nLung,J\r\n"
    column = read_dictionary(written(tmp_path, codes=codes)).column("diagnosis")
    assert column.codes == (Code("I", "Heart"), Code("J", "Lung"))


def test_text_in_another_encoding_is_refused_with_its_line(tmp_path: Path) -> None:
    """As a spreadsheet saves it that was not told otherwise."""
    error = refused(written(tmp_path, codes=ICD10.encode("latin-1", "replace").replace(b"Infarctus", b"\xe9chec")))
    assert error.text == f"In {tmp_path / 'icd10.csv'}:4: This is not UTF-8 text."


def test_a_code_too_many_is_refused(tmp_path: Path) -> None:
    """Exactly as many as there may be are read."""
    rows = [f"c{number},Code" for number in range(MAX_CODES)]
    path = written(tmp_path, codes="\n".join(["value,label", *rows]))
    assert len(read_dictionary(path).column("diagnosis").codes) == MAX_CODES
    error = refused(written(tmp_path, codes="\n".join(["value,label", *rows, "more,Code"])))
    assert error.text == f"In {tmp_path / 'icd10.csv'}:{MAX_CODES + 2}: There are more than 100,000 codes."


def test_files_that_nobody_wrote_by_hand_are_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk image, a pipe, a folder, and nothing."""
    path = written(tmp_path)
    os.truncate(path, MAX_FILE_BYTES + 1)
    assert "larger than 16 MiB" in refused(path).text
    monkeypatch.setattr(code_lists, "MAX_CODE_LIST_BYTES", len(ICD10.encode()) - 1)
    assert "larger than" in refused(written(tmp_path)).text
    path.unlink()
    assert "cannot be read (No such file or directory)" in refused(path).text
    path.mkdir()
    assert "cannot be read (Is a directory)" in refused(path).text
    path.rmdir()
    os.mkfifo(path)
    assert "not a regular file" in refused(path).text


@pytest.mark.parametrize("text", ["version = " + "9" * 5000, "a = " + "[" * 100_000, "\0", ""])
def test_strange_toml_is_refused(tmp_path: Path, text: str) -> None:
    """Numbers of thousands of digits, brackets in brackets, and nothing at all."""
    refused(written(tmp_path, text))


def test_mistakes_are_told_in_french(tmp_path: Path) -> None:
    """The sentence of the file, the one of the model in it, and the remedy."""
    french = language("fr")
    text, hint = refused(written(tmp_path, WHOLE.replace("minimum = -1", "minimum = 131"))).said(french)
    assert text.endswith(
        ":6\u00a0: Le dictionnaire ne peut pas être publié\u00a0: la colonne «\u00a0age\u00a0» a un minimum au-dessus de son maximum."
    )
    assert hint == "Corrigez-le; voir docs/dictionaries.md."
