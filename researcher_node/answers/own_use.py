"""How much of anybody's budget one researcher's own questions can have used, from the researcher's own records.

An upper bound: it adds up every question, as if somebody matched all of them. Under `strict` accounting everybody is charged for
every answer, so that it is exact. Nobody here knows what other researchers' questions have used, or who matched which question.

Under `per_person` accounting people whose budget is used up are left out of an answer, and nothing in the answer says so. Own
questions alone can leave somebody out as soon as this bound is above one budget.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any, TypeAlias

from broker_common.language import phrase, said
from broker_common.privacy.accounting import answers_left, price
from broker_common.privacy.policy import Policy
from researcher_node import texts
from researcher_node.answers.store import AskedQuestion, Charge


@dataclass(frozen=True, slots=True)
class OwnUse:
    """The most that own questions can have charged one person, of each person's budget under `policy`; None: it is not known here."""

    units: int
    policy: Policy | None

    @property
    def share(self) -> Fraction | None:
        """Share of one budget; above 1, a person may have been left out."""
        return None if self.policy is None else Fraction(self.units, self.policy.cap)

    @property
    def leaves_out(self) -> bool | None:
        """Whether people whose budget is used up are left out of an answer at all."""
        return None if self.policy is None else self.policy.accounting == "per_person"

    @property
    def can_leave_out(self) -> bool | None:
        """Whether these questions alone can have used up somebody's budget."""
        return None if self.policy is None else bool(self.leaves_out) and self.units > self.policy.cap

    @property
    def household(self) -> int | None:
        """With a budget for each household: the fewest members of one, in all these groups, who can have used up theirs."""
        if self.policy is None or self.policy.subject != "household" or not self.units:
            return None
        return self.policy.cap // self.units + 1

    def as_json(self) -> dict[str, Any]:
        return {
            "units": self.units,
            "share_of_budget": None if self.share is None else rounded_up(self.share),
            "can_leave_out": self.can_leave_out,
        }

    def as_text(self) -> str:
        """Who is left out of the answer, and how much of it can be owed to own questions."""
        if self.share is None:
            return said(texts.LEFT_OUT_UNKNOWN)
        share = said(percent(self.share))
        if not self.leaves_out:
            return said(texts.NOBODY_LEFT_OUT, share=share)
        text = said(texts.ANYBODY_LEFT_OUT if self.can_leave_out else texts.USED_UP_LEFT_OUT, share=share)
        if self.household is not None and not self.can_leave_out:
            text += said(texts.HOUSEHOLD_LEFT_OUT, members=self.household)
        return text


OwnUses: TypeAlias = Mapping[str, OwnUse]
"""By the query of each answered question: what had been used when its answer came, this answer included."""


def own_uses(
    questions: Iterable[AskedQuestion], charges: Iterable[Charge], policy_of: Callable[[str], Policy | None]
) -> OwnUses:
    """The own use of every answered question among these; `charges` are of all that were ever asked."""
    ordered = sorted(charges)
    times = [charge.asked_ms for charge in ordered]
    used = [0, *accumulate(charge.units for charge in ordered)]
    return {
        # A question asked before this answer came can have been charged before it.
        asked.query: OwnUse(used[bisect_right(times, asked.answered_ms)], policy_of(asked.policy_hash))
        for asked in questions
        if asked.answered_ms is not None
    }


def use_with(charges: Sequence[Charge], price: int, policy: Policy) -> OwnUse:
    """Use after one more question at this price."""
    return OwnUse(sum(charge.units for charge in charges) + price, policy)


def price_json(scale: int, policy: Policy | None) -> dict[str, Any]:
    """The price of one answer beside its units: as a share of a budget, and how many such answers one pays for."""
    return {
        "share_of_budget": None if policy is None else rounded_up(Fraction(price(scale), policy.cap)),
        "answers_per_budget": None if policy is None else answers_left(policy.cap, 0, scale),
    }


def price_text(scale: int, policy: Policy | None) -> str:
    """The same for people, after the units; nothing where the policy is not known."""
    if policy is None:
        return ""
    share = said(percent(Fraction(price(scale), policy.cap)))
    text = texts.SHARE_STRICT if policy.accounting == "strict" else texts.SHARE_PER_PERSON
    return said(text, share=share, answers=answers_left(policy.cap, 0, scale))


def percent(share: Fraction) -> str:
    """A share of a budget as a phrase, rounded up: it is a bound."""
    return phrase("{share:.1f} %", share=rounded_up(share, digits=3) * 100)


def rounded_up(share: Fraction, digits: int = 4) -> float:
    """A bound for people and programs: so many decimals, never below what it is."""
    steps: int = 10**digits
    return math.ceil(share * steps) / steps
