"""The contract of every kind of source, at both agencies: the same people make the same store, the same faults the same report."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from fakes.dictionaries import CENSUS_DICTIONARY, HEALTH_DICTIONARY
from fakes.parquet import HEALTH_TYPES, parquet_from_csv
from fakes.registries import made_names

from broker_common.crypto.linkage import LinkageChain, LinkageKey
from broker_common.errors import InvalidRequestError
from broker_common.privacy.delays import DECLARED_STEP
from broker_common.storage.source.plan import PlainPlan
from broker_common.storage.source.rows import Progress, RejectedRows
from census_node.ledger.subjects import Cards
from census_node.registry.loading import id_columns, read_registry
from deploy.synthetic.population import write_sources
from health_node.people.loading import load_people
from health_node.people.tables import Declared

LINKAGE = LinkageChain([LinkageKey(bytes(range(32)))])
POPULATION = 3000
# The store, the numbers of the report, and the rows left out.
Loaded: TypeAlias = tuple[Any, tuple[int, int, int], RejectedRows]
Saved: TypeAlias = Callable[[Path, Path], Path]


def load_health(
    source: Path, directory: Path, max_rejected: int | None = None, progress: Progress | None = None
) -> Loaded:
    """The health store's file, byte by byte, and the report."""
    store = directory / f"{source.name}.people"
    report = load_people(
        PlainPlan(source),
        store,
        LINKAGE,
        dictionary=HEALTH_DICTIONARY,
        declared=Declared(DECLARED_STEP),
        max_rejected=max_rejected,
        progress=progress,
    )
    return store.read_bytes(), (report.rows, report.loaded, report.without_card), report.rejected


def load_census(
    source: Path, directory: Path, max_rejected: int | None = None, progress: Progress | None = None
) -> Loaded:
    """The registry's file, byte by byte, and the report."""
    registry, names, report = read_registry(
        PlainPlan(source, id_columns(CENSUS_DICTIONARY)),
        "load",
        LINKAGE,
        made_names(0, 0),
        dictionary=CENSUS_DICTIONARY,
        max_rejected=max_rejected,
        progress=progress,
    )
    path = directory / f"{source.name}.npz"
    registry.write(path, names, Cards.none())
    return path.read_bytes(), (report.rows, report.linked, report.without_card), report.rejected


def as_it_is(csv: Path, _: Path) -> Path:
    """The CSV source itself."""
    return csv


def all_text(csv: Path, path: Path) -> Path:
    """Parquet in which every column is text."""
    return parquet_from_csv(csv, path)


def typed(csv: Path, path: Path) -> Path:
    """Parquet with numbers, dates and lists, compressed harder and in several row groups."""
    types = HEALTH_TYPES if "birth_year" in csv.read_text("utf-8").partition("\n")[0] else None
    return parquet_from_csv(csv, path, types, ", compression zstd, parquet_version v2, row_group_size 2048")


AGENCIES = pytest.mark.parametrize(("role", "load"), [("health", load_health), ("census", load_census)])
KINDS = pytest.mark.parametrize("saved", [as_it_is, all_text, typed])


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with health.csv and census.csv."""
    folder = tmp_path_factory.mktemp("sources")
    write_sources(folder / "health.csv", folder / "census.csv", population=POPULATION, seed=11)
    return folder


def by_row(rejected: RejectedRows) -> list[tuple[int, str]]:
    """Rejections, numbered by row and in the words of a table, whatever they were counted by."""
    if rejected.counted_by == "row":
        return list(rejected.first)
    return [
        (line - 1, re.sub(r"line (\d+)", lambda found: f"row {int(found[1]) - 1}", reason))
        for line, reason in rejected.first
    ]


@AGENCIES
@pytest.mark.parametrize("saved", [all_text, typed])
def test_same_people_make_the_same_store(
    sources: Path, tmp_path: Path, role: str, load: Callable[..., Loaded], saved: Saved
) -> None:
    """Nothing in a store tells which kind of file it came from."""
    csv = sources / f"{role}.csv"
    expected, report, _ = load(csv, tmp_path)
    content, same_report, rejected = load(saved(csv, tmp_path / "people"), tmp_path)
    assert content == expected
    assert same_report == report
    assert report[0] >= POPULATION
    assert rejected.count == 0


FAULTS = {
    "health": {
        5: {0: "1234567890"},
        6: {0: ""},
        7: {3: "martian"},
        8: {2: "131"},
        9: {5: "asthma;asthma"},
        10: {5: "asthma;"},
        11: {6: "sorcery"},
        12: {9: "100001"},
    },
    "census": {
        5: {0: "1234567890"},
        6: {0: ""},
        7: {3: "Klingon"},
        8: {1: ""},
        9: {1: "P00000001"},
        10: {2: "x" * 65},
    },
}


def with_faults(csv: Path, role: str, path: Path) -> Path:
    """The source with one fault in each of some rows, and two rows that repeat another's card."""
    lines = csv.read_text("utf-8").splitlines()
    rows = [line.split(",") for line in lines[:20]]
    for at, changes in FAULTS[role].items():
        for place, text in changes.items():
            rows[at][place] = text
    linked = [at for at, row in enumerate(rows) if at > 12 and row[0]]
    for at in linked[1:3]:
        rows[at][0] = rows[linked[0]][0]
    path.write_text("\n".join([*(",".join(row) for row in rows), *lines[20:], ""]), "utf-8")
    return path


@AGENCIES
@pytest.mark.parametrize("saved", [all_text, typed])
def test_same_faults_make_the_same_report(
    sources: Path, tmp_path: Path, role: str, load: Callable[..., Loaded], saved: Saved
) -> None:
    """Row by row the same reasons; only what rows are counted by differs, and the store is again the same."""
    csv = with_faults(sources / f"{role}.csv", role, tmp_path / "faulty.csv")
    expected, report, rejected = load(csv, tmp_path)
    content, same_report, same_rejected = load(saved(csv, tmp_path / "people"), tmp_path)
    assert content == expected
    assert same_report == report
    assert (rejected.counted_by, same_rejected.counted_by) == ("line", "row")
    assert by_row(same_rejected) == by_row(rejected)
    assert rejected.count == len(FAULTS[role]) + 1


@AGENCIES
@KINDS
def test_too_many_wrong_rows_refuse_the_file(
    sources: Path, tmp_path: Path, role: str, load: Callable[..., Loaded], saved: Saved
) -> None:
    """The limit that the operator sets holds for every kind, and the sentence says by what rows are counted."""
    csv = with_faults(sources / f"{role}.csv", role, tmp_path / "faulty.csv")
    source = saved(csv, tmp_path / "people")
    with pytest.raises(InvalidRequestError) as caught:
        load(source, tmp_path, 3)
    assert caught.value.code == "LOAD_REFUSED"
    assert ("line 6:" if saved is as_it_is else "row 5:") in caught.value.text
    assert "1234567890" not in caught.value.text


@AGENCIES
@KINDS
def test_source_that_grows_while_it_is_read_is_refused(
    sources: Path, tmp_path: Path, role: str, load: Callable[..., Loaded], saved: Saved
) -> None:
    """Somebody still writes to it: what was read so far is worth nothing, whatever kind it is."""
    csv = tmp_path / "people.csv"
    csv.write_bytes((sources / f"{role}.csv").read_bytes())
    source = saved(csv, tmp_path / "people")

    def write(*_: int) -> None:
        with source.open("ab") as file:
            file.write(b"\n")

    with pytest.raises(InvalidRequestError, match="changed while it was read"):
        load(source, tmp_path, None, write)
