"""One attack on a deployment, or all of them one after the other."""

from __future__ import annotations

import asyncio

from broker_common.errors import InvalidRequestError
from deploy.attacks import texts
from deploy.attacks.arena import Say, Wish, opened
from deploy.attacks.catalogue import ATTACKS
from deploy.attacks.findings import Report


class _NoObjectError(InvalidRequestError):
    """The policy leaves an attack without an object."""

    def __init__(self, problem: str) -> None:
        super().__init__("INVALID_VALUE", name=texts.THE_DEPLOYMENT, problem=problem, remedy=texts.OWN_ONLY)
        self.problem = problem


def run_all(rounds: int | None, wish: Wish, say: Say) -> list[Report]:
    """Every attack that has an object, each said as soon as it is through."""
    reports = []
    for name, attack in ATTACKS.items():
        problem = texts.PEOPLE_AS_THEY_ARE if wish.directory and attack.terrain.edit else ""
        if not problem:
            try:
                reports.append(asyncio.run(run(name, rounds, wish, say)))
            except _NoObjectError as error:
                problem = error.problem
        say(texts.SKIPPED.format(attack=name, problem=problem) if problem else reports[-1].text())
    return reports


async def run(name: str, rounds: int | None, wish: Wish, say: Say) -> Report:
    """The attack with this name."""
    attack = ATTACKS[name]
    async with opened(wish, name, attack.terrain, say) as arena:
        if problem := attack.problem_with(arena.policy):
            raise _NoObjectError(problem)
        return await attack.run(arena, rounds or attack.rounds)
