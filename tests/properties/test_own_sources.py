"""Whatever the same rows are read from, they make the same store and the same report: files, several files, own words, a query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import duckdb
from fakes.parquet import parquet_from_csv
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from unit.storage.own_data import DICTIONARY, IDS, PUBLISHED, Row, own_home

from broker_common.crypto.id_forms import parse_health_card
from broker_common.crypto.linkage import LinkageChain, LinkageKey
from broker_common.storage.source.plan import PlainPlan, SourcePlan, plan_for
from health_node.people.loading import load_people
from health_node.people.tables import Declared

LINKAGE = LinkageChain([LinkageKey(bytes(range(32)))])
DECLARED = Declared(100, {"stay": 100})
STAY_COLUMNS = ("health_card", "admitted", "cause")
SEXES = {"female": "F", "male": "H", "": "9", "wrong": "martian"}
CODES = {"I21": "infarctus", "J45": "asthme", "E11": "diabète"}
Kind: TypeAlias = Callable[[Path, Sequence[Row], Sequence[Row], int], SourcePlan]


def _card(number: int) -> str:
    for digit in range(10):
        try:
            return parse_health_card(f"{number:09d}{digit}")
        except ValueError:
            continue
    raise AssertionError("every number has a check digit")


CARDS = [_card(100_000_000 + number) for number in range(12)]
DAYS = st.dates().map(lambda day: day.isoformat())
PEOPLE = st.lists(
    st.tuples(
        st.sampled_from(["", *CARDS]),
        st.sampled_from(list(SEXES)),
        st.sampled_from(["", "0", "130", "131", "x", "61"]),
        DAYS | st.just(""),
        st.sets(st.sampled_from(list(CODES))).map(lambda codes: ";".join(sorted(codes))),
    ),
    unique_by=lambda row: row[0] or object(),
).map(lambda rows: [(CARDS[0], "female", "1", "2000-01-01", "I21"), *(row for row in rows if row[0] != CARDS[0])])
_STAY = st.tuples(st.sampled_from(["", *CARDS]), DAYS | st.just(""), st.sampled_from(["", "I21", "J45", "wrong"]))
# In one order: a store keeps the order that somebody's events have in a file.
STAYS = st.lists(_STAY, min_size=1).map(sorted)


def write(path: Path, header: Sequence[str], rows: Sequence[Row], separator: str = ",") -> Path:
    """A CSV file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([separator.join(row) for row in [header, *rows]] + [""]), "utf-8")
    return path


def as_csv(folder: Path, people: Sequence[Row], stays: Sequence[Row], _: int) -> SourcePlan:
    """Under published names."""
    write(folder / "stay.csv", STAY_COLUMNS, stays)
    return PlainPlan(write(folder / "people.csv", PUBLISHED, people))


def as_parquet(folder: Path, people: Sequence[Row], stays: Sequence[Row], _: int) -> SourcePlan:
    """The same as Parquet."""
    plain = as_csv(folder / "csv", people, stays, 0)
    assert isinstance(plain, PlainPlan)
    types = {"born": "born::date", "diagnosis": "string_split(diagnosis, ';')"}
    parquet_from_csv(plain.file, folder / "people.parquet", types)
    parquet_from_csv(plain.file.with_name("stay.csv"), folder / "stay.parquet")
    return PlainPlan(folder / "people.parquet")


HEAD = """\
[people]
id = "health_card"
id_form = "ontario_health_card"
{people}
[events.stay]
id = "health_card"
{stays}
"""


def _own(folder: Path, people: str, stays: str) -> SourcePlan:
    return plan_for(own_home(folder, HEAD.format(people=people, stays=stays)), None, IDS, DICTIONARY)


def as_several(folder: Path, people: Sequence[Row], stays: Sequence[Row], cut: int) -> SourcePlan:
    """Cut in two somewhere, one of them Parquet with its columns the other way round."""
    write(folder / "p1.csv", PUBLISHED, people[:cut])
    second = write(folder / "p2", PUBLISHED[::-1], [row[::-1] for row in people[cut:]])
    parquet_from_csv(second, folder / "p2.parquet")
    write(folder / "s1.csv", STAY_COLUMNS, stays[:cut])
    write(folder / "s2.csv", STAY_COLUMNS, stays[cut:])
    return _own(folder, 'files = ["p1.csv", "p2.parquet"]', 'files = ["s*.csv"]')


def as_own_words(folder: Path, people: Sequence[Row], stays: Sequence[Row], _: int) -> SourcePlan:
    """Other names of columns and codes, another form of dates, and codes in a table of their own."""
    rows = [(row[0], SEXES[row[1]], row[2], "/".join(row[3].split("-")[::-1])) for row in people]
    write(folder / "p.csv", ("health_card", "SEXE", "age", "NE"), rows, ";")
    owners = [(row[0], CODES[code]) for row in people if row[0] for code in row[4].split(";") if code]
    write(folder / "d.csv", ("CARTE", "DX"), owners[::-1] or [("", "asthme")])
    write(folder / "s.csv", STAY_COLUMNS, [(row[0], row[1].replace("-", ""), row[2]) for row in stays])
    people_toml = f"""
        files = ["p.csv"]
        delimiter = ";"
        missing = ["9"]
        dates = "dd/mm/yyyy"
        [people.columns]
        sex = "SEXE"
        born = "NE"
        diagnosis = {{ name = "DX", files = ["d.csv"], id = "CARTE", delimiter = "," }}
        [people.codes]
        sex = {{ F = "female", H = "male" }}
        diagnosis = {{ {", ".join(f'"{own}" = "{code}"' for code, own in CODES.items())} }}
    """
    return _own(folder, people_toml, 'files = ["s.csv"]\ndates = "yyyymmdd"')


def as_query(folder: Path, people: Sequence[Row], stays: Sequence[Row], cut: int) -> SourcePlan:
    """A DuckDB file whose rows lie in another order."""
    folder.mkdir()
    with duckdb.connect(str(folder / "own.db")) as engine:
        for name, header, rows in (("people", PUBLISHED, people), ("stays", STAY_COLUMNS, stays)):
            engine.execute(f"create table {name} ({', '.join(f'{column} varchar' for column in header)})")
            engine.executemany(
                f"insert into {name} values ({', '.join('?' * len(header))})",  # noqa: S608 - the tests' own names
                [*rows[cut:], *rows[:cut]],
            )
    queries = [f'database = "duckdb:own.db"\nquery = "select * from {name}"' for name in ("people", "stays")]  # noqa: S608
    return _own(folder, *queries)


KINDS: dict[str, Kind] = {
    "csv": as_csv,
    "parquet": as_parquet,
    "several": as_several,
    "own words": as_own_words,
    "query": as_query,
}


def loaded(folder: Path, plan: SourcePlan) -> tuple[bytes, dict[str, Any]]:
    """The store, byte by byte, and every count of the report."""
    store = folder / "store.people"
    report = load_people(plan, store, LINKAGE, dictionary=DICTIONARY, declared=DECLARED, max_rejected=1000)
    stays = report.events["stay"]
    return store.read_bytes(), {
        "people": (report.rows, report.loaded, report.without_card, report.rejected.count),
        "stays": (stays.rows, stays.loaded, stays.without_card, stays.of_nobody, stays.rejected.count),
    }


# To make a failure smaller would take minutes.
@settings(max_examples=12, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(PEOPLE, STAYS, st.integers(0, 12))
def test_the_same_rows_make_the_same_store(people: list[Row], stays: list[Row], cut: int) -> None:
    """Nothing in a store, and no count, tells what its rows were read from, nor in which order a database had them."""
    with TemporaryDirectory() as name:
        results = {}
        for kind, plan in KINDS.items():
            folder = Path(name) / kind.replace(" ", "-")
            results[kind] = loaded(Path(name), plan(folder, people, stays, cut))
        content, counts = results["csv"]
        assert {kind: found for kind, (_, found) in results.items()} == dict.fromkeys(KINDS, counts)
        assert [kind for kind, (found, _) in results.items() if found != content] == []


def test_same_id_in_two_files_is_rejected_where_it_stands_again(tmp_path: Path) -> None:
    """The first stays; the report names both places, each in its own file."""
    people = [(card, "female", "1", "2000-01-01", "I21") for card in (*CARDS[:3], CARDS[1])]
    plan = as_several(tmp_path / "home", people, [(CARDS[0], "", "I21")], 2)
    report = load_people(plan, tmp_path / "store", LINKAGE, dictionary=DICTIONARY, declared=DECLARED)
    ((place, reason),) = report.rejected.placed
    assert (str(place), reason) == ("row 2 of p2.parquet", "repeats the health_card of line 3 of p1.csv")
    assert report.loaded == 3
