"""The attacks by name: against whom, on what terrain, how many rounds usually, and the code that makes them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from deploy.attacks.arena import Arena, Terrain
from deploy.attacks.average import attack_average
from deploy.attacks.findings import Report
from deploy.attacks.neighbour import attack_neighbour

__all__ = ["ATTACKS", "Attack"]


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack."""

    run: Callable[[Arena, int], Awaitable[Report]]
    rounds: int
    terrain: Terrain = field(default_factory=Terrain)


ATTACKS: Final[Mapping[str, Attack]] = {
    "neighbour": Attack(attack_neighbour, rounds=60),
    "average": Attack(attack_average, rounds=15),
}
