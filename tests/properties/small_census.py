"""A world whose registry is told card by card, with the person and household of each card, load after load."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from fakes.dictionaries import CENSUS_DICTIONARY
from fakes.registries import made_names
from fakes.world import HEALTH, OTHER_HEALTH, World
from tripartite.v1 import roster_pb2

from broker_common.crypto.certificates import Identity
from broker_common.crypto.linkage import LinkageKey
from broker_common.privacy.policy import Policy
from broker_common.storage.loads import LoadFolder
from census_node.ledger.samples import SampleFolder
from census_node.ledger.steps import LedgerSteps
from census_node.ledger.subjects import Cards, Carry, Known
from census_node.registry import Registry

# Person and household of a card, or that it is in no load.
Row = tuple[int, int] | None


class SmallCensus(World):
    """The real thing, but for who the people are."""

    def __init__(self, folder: Path, policy: Policy, cards: Sequence[bytes], rows: Sequence[Row]) -> None:
        self.cards = list(cards)
        self.rows = list(rows)
        # Numbers are for ever, also of those who are in no load any more.
        self._counts = (0, 0)
        self._rosters = 1
        super().__init__(folder, policy, people=len(cards))

    @property
    def roster(self) -> roster_pb2.RosterManifest:
        """The newest one."""
        manifest = super().roster
        manifest.number = self._rosters
        return manifest

    def give_roster(self, agency: Identity) -> None:
        """A roster of all these cards."""
        self.people = np.frombuffer(b"".join(sorted(self.cards)), np.uint8).reshape(-1, 16)
        super().give_roster(agency)

    def make_registry(self, load: str) -> Registry:
        """These rows; who speaks what is not what this is about."""
        chosen = sorted((card, row) for card, row in zip(self.cards, self.rows, strict=True) if row is not None)
        halves = np.frombuffer(b"".join(card for card, _ in chosen), ">u8").reshape(-1, 2).astype(np.uint64)
        persons, households = (np.array([row[which] for _, row in chosen], np.uint32) for which in range(2))
        counted = persons.max(initial=0), households.max(initial=0)
        self._counts = (max(self._counts[0], 1 + int(counted[0])), max(self._counts[1], 1 + int(counted[1])))
        values = {name: np.zeros(self._counts[0], np.uint8) for name in CENSUS_DICTIONARY.names}
        cards = Cards(halves[:, 0].copy(), halves[:, 1].copy(), persons, households)
        return Registry.of(load, cards, values, *self._counts, CENSUS_DICTIONARY)

    def replace_load(self, rows: Sequence[Row]) -> None:
        """Put these rows in force, as a census home does."""
        self.rows = list(rows)
        loads, journal = LoadFolder(self.census_folder / "registries", ".npz"), self.census.journal
        before = journal.state.load
        with loads.loading(self.randomness) as load:
            known, registry = Known.read(loads.file(before), before), self.make_registry(load)
            lived = np.zeros(registry.person_count, np.uint32)
            lived[: len(known.homes)] = known.homes
            lived[registry.cards.persons] = registry.cards.households
            names = made_names(registry.person_count, registry.household_count, lived)
            registry.write(loads.file(load), names, known.former_after(registry.cards))
            carry = Carry.between(known, registry.cards, registry.person_count, registry.household_count)
            with_entry = self.census.book.put_load(carry)
            loads.put_in_force(
                journal,
                load,
                "2011",
                self.linkage,
                self.randomness,
                dictionary=CENSUS_DICTIONARY,
                with_entry=with_entry,
            )
        self.census.rosters.join_due()

    def follow(self, key: LinkageKey) -> None:
        """Change the linkage key here; cards stay in their places."""
        self.relink_census(key)
        self.secrets.linkage = self.secrets.linkage.with_key(key)
        stepped = key.step(np.frombuffer(b"".join(self.cards), np.uint8).reshape(-1, 16))
        self.cards = [row.tobytes() for row in stepped]
        self._rosters += 1
        for agency in (HEALTH, OTHER_HEALTH):
            self.give_roster(agency)

    def active(self, ticket_hash: bytes) -> npt.NDArray[np.bool_]:
        """Which persons a charge has counted if they are in its sample: everybody, under strict accounting."""
        with self.census.journal.reading():
            step = LedgerSteps(self.census.journal.db).of_ticket(ticket_hash.hex())
        if step is None:
            return np.ones(self._counts[0], np.bool_)
        sample = SampleFolder(self.census_folder / "samples").read(step.file)
        return np.unpackbits(sample.active, count=sample.persons).astype(np.bool_)
