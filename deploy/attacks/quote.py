"""`quote`: does a price, or what is left, show whose budget is spent?

Adversary R-only. Quotes at every scale and for every kind of question are written down, then the budgets of people in the
census are spent, then those of people who are not, with quotes in between. Under per-person accounting nothing of a quote may
ever change; under strict accounting what is left is public, and is the cap less the public total.
"""

from __future__ import annotations

import re

from broker_common.privacy.accounting import answers_left
from deploy.attacks.arena import Arena, Ask
from deploy.attacks.findings import Report
from deploy.attacks.people import FRENCH
from deploy.attacks.spending import boldly
from deploy.attacks.worlds import quotes, told_apart

_COUNTS = (FRENCH, "all", "home_language in ('English', 'Other')")
_REMAINING = re.compile(r"scale=(\d+) (.*)remaining=(\w+)")


async def attack_quote(arena: Arena, rounds: int) -> Report:
    """Quote, spend, quote again."""
    policy = arena.policy
    usual = (policy.usual_scale,)
    spent = usual if arena.is_strict else boldly(policy.cap, policy.scales)
    before = await _public(arena)
    seen = []
    for linked in (True, False):
        people = arena.people.take(1 if arena.is_strict else rounds, linked=linked)
        await arena.answers_in_turn([[Ask(person.where, scale) for scale in spent] for person in people])
        seen.append(await _public(arena))
    return Report("quote", (told_apart("quotes", [before, before], seen),), len(arena.asked))


async def _public(arena: Arena) -> list[str]:
    """Quotes; what is left is replaced by whether it is what everybody can work out."""
    lines = await quotes(arena, arena.policy.scales, _COUNTS)
    if not arena.is_strict:
        return lines
    charged = sum(charge.units for charge in arena.charges())

    def judged(found: re.Match[str]) -> str:
        public = answers_left(arena.policy.cap, charged, int(found[1]))
        return f"scale={found[1]} {found[2]}remaining={'public' if found[3] == str(public) else found[3]}"

    return [_REMAINING.sub(judged, line) for line in lines]
