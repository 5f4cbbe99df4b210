"""A household's charge follows its people: by their cards, and by who they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fakes.dictionaries import CENSUS_DICTIONARY
from fakes.registries import SALT

from broker_common.agency.linkage import rekey
from broker_common.crypto.linkage import LinkageChain, LinkageKey
from broker_common.storage.source.plan import PlainPlan
from census_node.ledger.subjects import Carry, Known, Names
from census_node.registry import Registry
from census_node.registry.loading import id_columns, read_registry
from deploy.synthetic.cards import card_digits

CARDS = ["".join(map(str, digits)) for digits in card_digits(np.arange(4)).tolist()]
KEYS = [LinkageKey(bytes([number]) * 32) for number in range(2)]
Row = tuple[str, str, str]


class Agency:
    """Loads one after the other, each from the file of the one before, as a census home does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "load.npz"
        self.linkage = LinkageChain(KEYS[:1])

    def load(self, *rows: Row) -> list[tuple[int, int]]:
        """Put rows of card, person and household in force; gives the pairs of households, as numbers."""
        source = self.folder / "people.csv"
        header = ",".join(["health_card", "person_id", "household_id", *CENSUS_DICTIONARY.names])
        unsaid = "," * len(CENSUS_DICTIONARY.names)
        source.write_text("\n".join([header, *(f"{','.join(row)}{unsaid}" for row in rows), ""]), "utf-8")
        is_first = not self.file.exists()
        names = Names.none(SALT) if is_first else Names.read(self.file, "load")
        known = Known.none() if is_first else Known.read(self.file, "load")
        registry, names, report = read_registry(
            PlainPlan(source, id_columns(CENSUS_DICTIONARY)), "load", self.linkage, names, dictionary=CENSUS_DICTIONARY
        )
        assert report.rejected.count == 0
        registry.write(self.file, names, known.former_after(registry.cards))
        carry = Carry.between(known, registry.cards, registry.person_count, registry.household_count)
        assert carry.person_to.tolist() == []
        return list(zip(carry.household_to.tolist(), carry.household_from.tolist(), strict=True))

    def relink(self) -> None:
        """Change the linkage key."""
        registry, names = Registry.read(self.file, "load"), Names.read(self.file, "load")
        former = Known.read(self.file, "load").former.relinked(KEYS[1:])
        registry.relinked("load", rekey(registry.cards.high, registry.cards.low, KEYS[1:])).write(
            self.file, names, former
        )
        self.linkage = LinkageChain(KEYS)


@pytest.mark.parametrize("relinked", [False, True])
def test_whoever_moves_and_has_a_new_card_does_not_leave_the_household_s_charge_behind(
    tmp_path: Path, relinked: bool
) -> None:
    """Another card and another home in one load: the id is the same, and the new household takes over, once."""
    agency = Agency(tmp_path)
    assert agency.load((CARDS[0], "p", "h"), (CARDS[1], "q", "h")) == []
    if relinked:
        agency.relink()
    moved = (CARDS[2], "p", "i")
    assert agency.load(moved, (CARDS[1], "q", "h")) == [(1, 0)]
    assert agency.load(moved, (CARDS[1], "q", "h")) == []


def test_whoever_comes_back_from_nowhere_with_a_new_card_does_not_either(tmp_path: Path) -> None:
    """Being in no load for a while makes nobody forgotten."""
    agency = Agency(tmp_path)
    agency.load((CARDS[0], "p", "h"), (CARDS[1], "q", "h"))
    agency.load((CARDS[1], "q", "h"))
    assert agency.load((CARDS[1], "q", "h"), (CARDS[2], "p", "i")) == [(1, 0)]
