"""`linkage`: is somebody in the census at all?

Adversary R-only and HR. Being counted in `all` is a bit like any other, and protected like one: attackers spend whole budgets on
people who are in the census or not by the toss of a fair coin. Beside the counts nothing may tell: what can be seen of
questions about somebody who is not in the census is the same, message for message, before and after their budget is spent.
"""

from __future__ import annotations

from deploy.attacks.arena import Arena, Ask
from deploy.attacks.findings import Finding, Guesses, Report
from deploy.attacks.neighbour import guessed_right, log_odds, noise_findings
from deploy.attacks.people import Person
from deploy.attacks.spending import best_guess, boldly
from deploy.attacks.worlds import told_apart, watched

_ALL = "all"
_WATCHED = 3


async def attack_linkage(arena: Arena, rounds: int) -> Report:
    """Ask whether people are counted at all."""
    bold = boldly(arena.policy.cap, arena.policy.scales)
    linked, unlinked = (arena.people.take(1 if arena.is_strict else _WATCHED, linked=each) for each in (True, False))
    # Under strict accounting both share the one budget; what is refused must be refused alike.
    asks = (arena.policy.usual_scale,) * 3 if arena.is_strict else (*bold, *bold)
    one = [await _watch(arena, person, asks) for person in linked]
    other = [await _watch(arena, person, asks) for person in unlinked]
    findings: list[Finding] = [told_apart("linked_seen", one, other)]
    if not arena.is_strict:
        people = arena.people.toss_linked(rounds)
        answers = await arena.answers_in_turn([[Ask(person.where, scale, _ALL) for scale in bold] for person in people])
        right = sum(
            guessed_right(log_odds(bold, of), person.is_linked) for person, of in zip(people, answers, strict=True)
        )
        errors = [
            (bold, [answer - person.is_linked for answer in of]) for person, of in zip(people, answers, strict=True)
        ]
        findings += [Guesses("linked", right, rounds, best_guess(bold)), *noise_findings(errors)]
    return Report("linkage", tuple(findings), len(arena.asked))


async def _watch(arena: Arena, person: Person, scales: tuple[int, ...]) -> list[str]:
    return await watched(arena, [Ask(person.where, scale, _ALL) for scale in scales])
