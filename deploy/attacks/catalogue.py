"""The attacks by name: against whom, on what terrain, how many rounds usually, and the code that makes them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from broker_common.privacy.policy import Policy
from deploy.attacks import texts
from deploy.attacks.arena import Arena, Terrain
from deploy.attacks.average import attack_average
from deploy.attacks.dear import attack_dear
from deploy.attacks.equality import attack_equality
from deploy.attacks.findings import Report
from deploy.attacks.linkage import attack_linkage
from deploy.attacks.neighbour import attack_neighbour
from deploy.attacks.quote import attack_quote
from deploy.attacks.race import attack_race
from deploy.attacks.reconstruction import attack_reconstruction
from deploy.attacks.records import attack_cards, attack_household, give_second_cards, share_households
from deploy.attacks.refusal import attack_refusal
from deploy.attacks.times import attack_times
from deploy.attacks.tracker import attack_tracker


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack."""

    run: Callable[[Arena, int], Awaitable[Report]]
    rounds: int
    terrain: Terrain = field(default_factory=Terrain)
    # The attack is on one person's budget: there is none under strict accounting.
    per_person: bool = False

    def problem_with(self, policy: Policy) -> str:
        """Why this policy leaves the attack without an object; empty where it has one."""
        if self.per_person and policy.accounting == "strict":
            return texts.PER_PERSON_ONLY
        if self.terrain.subject == "household" and policy.subject != "household":
            return texts.HOUSEHOLD_ONLY
        return ""


ATTACKS: Final[Mapping[str, Attack]] = {
    "neighbour": Attack(attack_neighbour, rounds=50),
    "average": Attack(attack_average, rounds=15),
    "tracker": Attack(attack_tracker, rounds=50),
    "reconstruction": Attack(attack_reconstruction, rounds=6),
    "refusal": Attack(attack_refusal, rounds=3),
    "quote": Attack(attack_quote, rounds=5),
    "linkage": Attack(attack_linkage, rounds=60),
    "equality": Attack(attack_equality, rounds=60, terrain=Terrain(release_tick_ms=100)),
    "dear": Attack(attack_dear, rounds=20, terrain=Terrain(release_tick_ms=50, shortest_delays=True)),
    "times": Attack(
        attack_times, rounds=20, terrain=Terrain(release_tick_ms=50, shortest_delays=True, other_researcher=True)
    ),
    "cards": Attack(attack_cards, rounds=150, terrain=Terrain(edit=give_second_cards), per_person=True),
    "household": Attack(
        attack_household, rounds=150, terrain=Terrain(subject="household", edit=share_households), per_person=True
    ),
    "race": Attack(attack_race, rounds=60),
}
