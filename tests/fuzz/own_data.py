"""An agency's own files: what it writes about its data, and files in its own words."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import Any

from fuzz.target import Target, fresh_path, require
from unit.storage.own_data import DICTIONARY, IDS, PUBLISHED

from broker_common.storage.source.mapping import WordReader
from broker_common.storage.source.plan import OwnPlan
from broker_common.storage.source.rows import RejectedRows
from broker_common.storage.source.toml import OwnColumn, OwnFiles, OwnTable, parse_source_toml, read_source_toml

_TEXT = b"""\
[people]
files = ["p.csv"]
delimiter = ";"
id = "card"
id_form = "ontario_health_card"
missing = ["", "9"]
dates = "yyyymmdd"
separator = "|"
[people.columns]
sex = "s"
born = { name = "b", dates = "dd/mm/yyyy", missing = ["0"] }
[people.codes.sex]
1 = "male"
"2 = 2" = "female"
[events.stay]
database = "postgresql"
connection = "env:NOWHERE"
query = \"\"\"
select *
from x\"\"\"
id = "card"
"""


def _parse(data: bytes) -> Mapping[str, OwnTable]:
    home = fresh_path("")
    home.mkdir()
    path = home / "source.toml"
    path.write_bytes(data)
    path.chmod(0o600)
    try:
        return read_source_toml(home, IDS, DICTIONARY)
    finally:
        shutil.rmtree(home)


def _check(tables: Mapping[str, OwnTable], data: bytes) -> None:
    del data
    require(set(tables) == {"people", "stay"}, "people and every table have a source")
    for column in DICTIONARY.columns:
        codes = tables["people"].columns[column.name].codes or {}
        require(set(codes.values()) <= {"", *column.values}, "own codes stand for published ones")


_HEAD = b"card;sex;age;born;diagnosis\n"
_OWN = {
    "sex": OwnColumn("sex", {"1": "male", "2": "female"}, frozenset({"9"})),
    "age": OwnColumn("age"),
    "born": OwnColumn("born", dates="dd/mm/yyyy"),
    "diagnosis": OwnColumn("diagnosis", separator="|"),
}


def _parse_rows(data: bytes) -> None:
    path = fresh_path(".csv")
    path.write_bytes(data)
    rejected = RejectedRows()
    try:
        plan = OwnPlan(path.parent, {"people": _table(path.name)}, DICTIONARY.id_form)
        for chunk in plan.people(DICTIONARY.columns).chunks(rejected):
            require(set(chunk.columns) == set(PUBLISHED), "the columns are the published ones")
            for column in DICTIONARY.columns:
                rows = zip(chunk.columns["health_card"], chunk.columns[column.name], strict=True)
                # A row without an id loads nothing.
                codes = {code for card, text in rows if card for code in text.split(";")}
                require(not column.codes or codes <= {"", *column.values}, "the codes are published ones")
    finally:
        path.unlink()


def _table(name: str) -> OwnTable:
    return OwnTable(OwnFiles((name,), ";", "latin-1"), {"health_card": "card"}, frozenset(), _OWN)


TARGETS: Mapping[str, Target[Any]] = {
    "source_toml": Target(
        parse=_parse,
        covers=(parse_source_toml, read_source_toml),
        seeds=lambda: {
            "whole": _TEXT,
            "beside": _TEXT.replace(
                b"[people.columns]\n", b'[people.columns]\ndiagnosis = { files = ["d.csv"], id = "w" }\n'
            ),
            "driver": _TEXT.replace(b'"postgresql"', b'"python:sqlite3"'),
            "bad": b"[people]\n",
        },
        codes=frozenset({"LOAD_REFUSED"}),
        check=_check,
        words=(
            b"\n[",
            b"]\n",
            b" = ",
            b'"',
            b"'''",
            b"{",
            b"}",
            b"[people.codes.sex]\n",
            b"[[",
            b"#",
            b".",
            b"\\u0000",
        ),
        mutations=400,
    ),
    "own_rows": Target(
        parse=_parse_rows,
        covers=(WordReader.read,),
        seeds=lambda: {
            "one": _HEAD + b"1;1;3;01/02/2000;I21|J45\n",
            "odd": _HEAD + b' 1 ;9;;31/02/2000;"I21|"\n2;3;x\n\n',
            "bad": b"card;sex\n",
        },
        codes=frozenset({"LOAD_REFUSED"}),
        words=(b";", b"|", b'"', b"\r\n", b"\xe9", b"\0", b"29/02/1900", b"I21"),
        mutations=250,
    ),
}
