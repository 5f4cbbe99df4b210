"""The ledger once more, in sets and dictionaries: who is active, who is charged, who takes over from whom. Nothing of the product's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeAlias

Link: TypeAlias = tuple[int, int]
"""Of a card, its person and its household."""


class ObviousLedger:
    """Charge of every subject, by number."""

    def __init__(self, subject: str = "person") -> None:
        self.subject = subject
        self.charged: Counter[int] = Counter()
        # Owner of every card in the last load that had it, and the last household of every person.
        self.last: dict[int, Link] = {}
        self.homes: dict[int, int] = {}

    def decide(self, links: Iterable[Link], *, price: int, room: int) -> set[int]:
        """The active persons of a sample with these linked cards; `room` is what anybody may be charged in all."""
        homes = dict(links)
        if self.subject == "person":
            return {person for person in homes if self.charged[person] + price <= room}
        people = Counter(homes.values())
        return {person for person, home in homes.items() if self.charged[home] + people[home] * price <= room}

    def charge(self, links: Iterable[Link], active: set[int], *, price: int) -> None:
        """Charge one answer to everyone active."""
        for person, home in dict(links).items():
            if person in active:
                self.charged[person if self.subject == "person" else home] += price

    def load(self, links: Mapping[int, Link]) -> None:
        """A load is in force: a person with a card, or a household with a person, that was another's takes over the other's charge."""
        which = 0 if self.subject == "person" else 1
        pairs = {(link[which], self.last[card][which]) for card, link in links.items() if card in self.last}
        if self.subject == "household":
            pairs |= {(home, self.homes[person]) for person, home in links.values() if person in self.homes}
        before = Counter(self.charged)
        for heir, other in pairs:
            self.charged[heir] = min(self.charged[heir] + (before[other] if other != heir else 0), 2**32 - 1)
        self.last.update(links)
        self.homes.update(links.values())
