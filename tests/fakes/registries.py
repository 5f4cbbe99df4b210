"""Registries without a source: everybody their own person and household unless said otherwise, under made-up names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from fakes.dictionaries import CENSUS_DICTIONARY

from broker_common.crypto.commitments import SALT_BYTES
from broker_common.query.dictionary import Dictionary
from census_node.ledger.subjects import NAME, Cards, Names
from census_node.registry import Registry

SALT = bytes(range(SALT_BYTES))


def made_registry(
    load: str,
    high: npt.NDArray[np.uint64],
    low: npt.NDArray[np.uint64],
    values: Mapping[str, npt.NDArray[np.uint8]],
    *,
    persons: Sequence[int] | None = None,
    households: Sequence[int] | None = None,
    dictionary: Dictionary = CENSUS_DICTIONARY,
) -> Registry:
    """A registry of these cards and of values by person; persons and households are numbered as given, or by card."""
    numbers = [
        np.arange(len(high), dtype=np.uint32) if given is None else np.array(given, np.uint32)
        for given in (persons, households)
    ]
    counts = [1 + max(each.tolist(), default=-1) for each in numbers]
    return Registry.of(load, Cards(high, low, numbers[0], numbers[1]), values, counts[0], counts[1], dictionary)


def made_names(persons: int, households: int, homes: npt.NDArray[np.uint32] | None = None) -> Names:
    """Names of so many persons and households: their ids are their numbers. Everybody lives in the first household unless said otherwise."""
    empty = Names.none(SALT)
    return Names(
        SALT,
        np.frombuffer(empty.of_persons(map(str, range(persons))), NAME),
        np.frombuffer(empty.of_households([*map(str, range(households))]), NAME),
        np.zeros(persons, np.uint32) if homes is None else homes,
    )


def write_registry(registry: Registry, path: Path, former: Cards | None = None) -> None:
    """Store it as a load's file."""
    homes = np.zeros(registry.person_count, np.uint32)
    homes[registry.cards.persons] = registry.cards.households
    names = made_names(registry.person_count, registry.household_count, homes)
    registry.write(path, names, Cards.none() if former is None else former)
