"""Loads sources whose roles and paths come on standard input: for a process that a damaged file may end.

Run as `python -m fuzz.stored_source`; says one line for each file.
"""

from __future__ import annotations

import sys
from pathlib import Path

from fakes.dictionaries import CENSUS_DICTIONARY, HEALTH_DICTIONARY
from fakes.parquet import HEALTH_TYPES, parquet_from_csv
from fakes.registries import made_names
from fuzz.target import require

from broker_common.crypto.linkage import LinkageChain, LinkageKey
from broker_common.errors import BrokerError
from broker_common.storage.source.plan import PlainPlan
from broker_common.storage.source.rows import RejectedRows
from census_node.registry.loading import id_columns, read_registry
from deploy.synthetic.population import write_sources
from health_node.people.loading import load_people
from health_node.people.tables import Declared

LOADED, REFUSED = "loaded", "LOAD_REFUSED"
_LINKAGE = LinkageChain([LinkageKey(bytes(range(32)))])
_PEOPLE = 40
# Role, types of its columns, and how DuckDB is to write them.
WRITINGS = (
    ("census", None, ""),
    ("census", None, ", compression uncompressed, row_group_size 16"),
    ("census", None, ", compression zstd, parquet_version v2"),
    ("health", HEALTH_TYPES, ""),
    ("health", HEALTH_TYPES, ", compression uncompressed, row_group_size 16"),
    ("health", HEALTH_TYPES, ", compression gzip, parquet_version v2, dictionary_size_limit 1"),
    ("health", None, ", compression uncompressed"),
)


def write_all(folder: Path) -> list[bytes]:
    """The same people in every writing."""
    sources = {role: folder / f"{role}.csv" for role in ("health", "census")}
    write_sources(sources["health"], sources["census"], population=_PEOPLE, seed=5)
    return [
        parquet_from_csv(sources[role], folder / f"{number}.parquet", types, options).read_bytes()
        for number, (role, types, options) in enumerate(WRITINGS)
    ]


def load(role: str, path: Path) -> str:
    """`loaded`, or the code of the error; whatever else is wrong by its type."""
    store = path.with_suffix(".store")
    try:
        if role == "census":
            registry, _, counted = read_registry(
                PlainPlan(path, id_columns(CENSUS_DICTIONARY)),
                "load",
                _LINKAGE,
                made_names(0, 0),
                dictionary=CENSUS_DICTIONARY,
                max_rejected=_PEOPLE,
            )
            require(registry.size == counted.linked, "the report counts the registry")
            _verify_report(counted.rows, counted.linked + counted.without_card, counted.rejected)
        else:
            report = load_people(
                PlainPlan(path),
                store,
                _LINKAGE,
                dictionary=HEALTH_DICTIONARY,
                declared=Declared(_PEOPLE),
                max_rejected=_PEOPLE,
            )
            _verify_report(report.rows, report.loaded + report.without_card, report.rejected)
    except BrokerError as error:
        return error.code
    except Exception as error:  # noqa: BLE001 - told to the parent process
        return f"{type(error).__name__}: {error}".replace("\n", " ")
    finally:
        store.unlink(missing_ok=True)
    return LOADED


def _verify_report(rows: int, taken: int, rejected: RejectedRows) -> None:
    require(rows == taken + rejected.count, "every row is counted once")


if __name__ == "__main__":
    for line in sys.stdin:
        words = line.rstrip("\n").partition(" ")
        print(load(words[0], Path(words[2])), flush=True)  # noqa: T201 - that is how it answers
