"""Reads stores of people whose paths come on standard input: for a process that damaged files may end.

Run as `python -m fuzz.stored_people`; says one line for each path.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from fakes.dictionaries import HEALTH_DICTIONARY
from fakes.world import make_pseudonyms

from broker_common.errors import BrokerError
from broker_common.query.criteria import parse_condition
from broker_common.storage.source.values import MISSING, Values
from health_node.people.store import People, PeopleStore, build_people_store, read_figures

# Damage, a store of another dictionary among it.
REFUSED = ("INTEGRITY",)
_PEOPLE = 50


def build_store(path: Path) -> None:
    """A small whole store."""
    halves = make_pseudonyms(_PEOPLE).view(">u8").astype(np.uint64)
    columns: dict[str, Values] = {}
    for column in HEALTH_DICTIONARY.columns:
        empty = np.zeros(_PEOPLE, np.uint64) if column.multi_valued else np.full(_PEOPLE, MISSING, np.int32)
        columns[column.name] = empty
    columns["age"] = np.arange(_PEOPLE).astype(np.int32)
    build_people_store(
        path, People(halves[:, 0].copy(), halves[:, 1].copy(), columns), HEALTH_DICTIONARY, places=len(halves)
    )


def read_store(path: Path) -> str:
    """`read`, or the code of the error; whatever else is wrong by its type and place."""
    try:
        figures = read_figures(path, HEALTH_DICTIONARY)
        with PeopleStore(path, HEALTH_DICTIONARY, threads=1) as store:
            if (store.size, store.places) != (figures.people, figures.places):
                return "the figures are not those of the store"
            for where in ("age >= 3", "diagnosis = 'stroke' or not sex = 'male'"):
                store.mark(parse_condition(where, HEALTH_DICTIONARY), lambda _people, _marks: None)
    except BrokerError as error:
        return error.code
    except Exception as error:  # noqa: BLE001 - told to the parent process
        return f"{type(error).__name__}: {error}".replace("\n", " ")
    return "read"


if __name__ == "__main__":
    for line in sys.stdin:
        print(read_store(Path(line.rstrip("\n"))), flush=True)  # noqa: T201 - that is how it answers
