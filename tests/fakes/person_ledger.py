"""The ledgers of persons once more, a person at a time in dictionaries: who is charged, who is counted, who never again.

Of the product's it uses how a sample's file and a load are read, and a step of the linkage chain; what is decided and summed
is its own. Charges are noted by pseudonym of the chain in force, and by the numbers of persons and households.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from fakes.ledger_rules import Json, cap, price

from broker_common.crypto.linkage import LinkageKey
from census_node.ledgers import Ledgers
from census_node.linked import NOBODY, Linked

__all__ = ["PersonLedger"]


class PersonLedger:
    """What every submitted pseudonym, every person and every household was charged."""

    def __init__(self) -> None:
        self.submitted: Counter[bytes] = Counter()
        self.persons: Counter[int] = Counter()
        self.households: Counter[int] = Counter()
        # The steps of the linkage chain that pseudonyms have gone.
        self.steps = 0

    def follow(self, keys: Sequence[LinkageKey]) -> None:
        """From here on everybody goes by their pseudonym under the last of these keys."""
        for key in keys[max(self.steps, 1) :]:
            before = list(self.submitted)
            after = key.step(np.frombuffer(b"".join(before), np.uint8).reshape(-1, 16))
            self.submitted = Counter(
                {row.tobytes(): self.submitted[name] for row, name in zip(after, before, strict=True)}
            )
        self.steps = len(keys)

    def charge(self, sample: Linked, scale: int, rules: Json | Mapping[str, object], everyone: int) -> bytes:
        """Charge one answer; gives the pseudonyms of those who may be counted, one after the other.

        `everyone` is what was charged to everybody before it.
        """
        room, cost = cap(str(rules["max_belief"])) - everyone, price(scale)
        names = [row.tobytes() for row in sample.pseudonyms]
        units = dict(zip(names, zip(sample.persons.tolist(), sample.households.tolist(), strict=True), strict=True))
        fits = [name for name in names if self.submitted[name] + cost <= room]
        homes: defaultdict[int, set[int]] = defaultdict(set)
        for name in fits:
            person, home = units[name]
            if person != NOBODY:
                homes[home].add(person)
        dropped: set[int] = set()
        for home, people in homes.items():
            if rules["unit"] == "household":
                dropped |= people if self.households[home] + cost * len(people) > room else set()
            else:
                dropped |= {person for person in people if self.persons[person] + cost > room}
        for name in fits:
            self.submitted[name] += cost
        for home, people in homes.items():
            for person in people - dropped:
                self.persons[person] += cost
                self.households[home] += cost
        return b"".join(name for name in fits if units[name][0] not in dropped)

    def verify(self, ledgers: Ledgers) -> None:
        """Return only if the product's ledgers are these."""
        column = ledgers.submitted.merged()
        names = np.stack([column.high, column.low], axis=1).astype(">u8").view(np.uint8).reshape(-1, 16)
        held = {name.tobytes(): units for name, units in zip(names, column.units.tolist(), strict=True)}
        assert held == {name: units for name, units in self.submitted.items() if units}, "the first ledger is another"
        for what, units, charged in (
            ("persons", ledgers.units.persons, self.persons),
            ("households", ledgers.units.households, self.households),
        ):
            assert {number: each for number, each in enumerate(units.tolist()) if each} == +charged, f"{what}: another"
