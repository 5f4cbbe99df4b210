"""A researcher's proposed question, from the typed text to its reading under both dictionaries and the policy in force."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from broker_common.crypto.sampling import WHOLE_MILLIONTHS
from broker_common.errors import InvalidRequestError
from broker_common.privacy.accounting import price
from broker_common.privacy.policy import Policy
from broker_common.privacy.table_laplace import largest_scale_within, margin
from broker_common.query.certainty import Certainty
from broker_common.query.condition import Condition
from broker_common.query.question import Question

_PLAIN_NUMBER = re.compile(r"[0-9]{0,9}\.?[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Precision:
    """A noise scale, or the largest margin of error that is wanted; neither means the usual scale."""

    scale: int | None = None
    margin: int | None = None

    def choose(self, policy: Policy, cells: int) -> int:
        """The scale to ask for where none is given, of a question with so many cells.

        Raises:
            InvalidRequestError: INVALID_VALUE, no admissible scale is as precise as wanted.
        """
        if self.margin is None:
            return policy.usual_scale
        scale = largest_scale_within(self.margin, policy.scales, cells)
        if scale is None:
            smallest = margin(policy.scales[0], cells)
            raise InvalidRequestError(
                "INVALID_VALUE",
                name="--margin",
                problem="is smaller than any that the policy admits",
                remedy=f"The smallest margin is {smallest}.",
            )
        return scale


@dataclass(frozen=True, slots=True)
class Wanted:
    """The researcher's input."""

    where: str
    count: str
    precision: Precision
    fraction_millionths: int
    project: str
    # For the researcher's own store; never sent.
    label: str = ""


@dataclass(frozen=True, slots=True)
class Wish:
    """A question as it is typed at a command: the counts of one or several cells, and whether the rest is one more."""

    where: str
    counts: tuple[str, ...]
    of_all: bool
    precision: Precision
    fraction_millionths: int
    project: str
    # For the researcher's own store; never sent.
    label: str = ""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A wish that both dictionaries and the policy in force make sense of. Nothing is quoted, signed or charged yet."""

    wish: Wish
    condition: Condition
    # Who matches by the text of the criteria alone, if it tells.
    certainty: Certainty | None
    question: Question
    scale: int
    policy: Policy

    @property
    def wanted(self) -> Wanted:
        wish = self.wish
        precision = Precision(self.scale)
        return Wanted(
            wish.where, self.question.text, precision, wish.fraction_millionths, wish.project, label=wish.label
        )

    @property
    def criteria(self) -> bytes:
        """The message of the criteria, as it is kept with a question."""
        return self.condition.to_wire().SerializeToString(deterministic=True)

    @property
    def price(self) -> int:
        """The price of the answer, in units."""
        return price(self.scale, cells=len(self.question.cells))


def parse_fraction(text: str) -> int:
    """A sampling fraction as millionths.

    Raises:
        InvalidRequestError: INVALID_VALUE.
    """
    millionths = Fraction(text) * WHOLE_MILLIONTHS if _PLAIN_NUMBER.fullmatch(text) else Fraction(0)
    if not 1 <= millionths <= WHOLE_MILLIONTHS or millionths.denominator != 1:
        raise InvalidRequestError(
            "INVALID_VALUE",
            name="--fraction",
            problem="is not a number between 0.000001 and 1 with at most six decimals",
            remedy="Use 1 for everyone who matches, or for example 0.25.",
        )
    return int(millionths)
