"""The settings that a reader of a figure may change: a number within bounds, or one of a few choices.

Invariants. A value that reaches a figure lies within its bounds and on a step, as an exact number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from broker_common.errors import InvalidRequestError
from broker_common.language import phrase

Values = Mapping[str, Decimal | str]

# Longer numbers are no setting's, and arithmetic on them would take long.
_NUMBER = re.compile(r"-?[0-9]{1,12}(\.[0-9]{1,12})?")
_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class Setting:
    """One thing to move: a number from `low` to `high` in steps, or, where there are `choices`, one of their keys."""

    key: str
    label: str
    low: Decimal
    high: Decimal
    step: Decimal
    default: Decimal | str
    # (key, label) of each.
    choices: tuple[tuple[str, str], ...] = ()
    unit: str = ""

    def value(self, text: str) -> Decimal | str:
        """The value that `text` names.

        Raises:
            InvalidRequestError: INVALID_VALUE, with the bounds or the choices.
        """
        if self.choices:
            if text in dict(self.choices):
                return text
            keys = ", ".join(key for key, _ in self.choices)
            raise self._refused(phrase("must be one of {keys}", keys=keys))
        if _NUMBER.fullmatch(text):
            number = Decimal(text)
            if self.low <= number <= self.high and not (number - self.low) % self.step:
                return number
        raise self._refused(
            phrase(
                "must be a number from {low} to {high}, in steps of {step}",
                low=str(self.low),
                high=str(self.high),
                step=str(self.step),
            )
        )

    def _refused(self, problem: str) -> InvalidRequestError:
        remedy = phrase("Leave it out for the usual value, {default}.", default=str(self.default))
        return InvalidRequestError("INVALID_VALUE", name=self.key, problem=problem, remedy=remedy)


def whole(key: str, label: str, low: int, high: int, default: int, *, step: int = 1) -> Setting:
    """A whole number."""
    return Setting(key, label, Decimal(low), Decimal(high), Decimal(step), Decimal(default))


def percent(key: str, label: str, low: str, high: str, default: str, *, step: str = "1") -> Setting:
    """A share, in percent."""
    return Setting(key, label, Decimal(low), Decimal(high), Decimal(step), Decimal(default), unit="%")


def choice(key: str, label: str, choices: tuple[tuple[str, str], ...]) -> Setting:
    """One of these; the first is usual."""
    return Setting(key, label, _ZERO, _ZERO, _ZERO, choices[0][0], choices)


def whole_of(values: Values, key: str) -> int:
    """A whole number's value."""
    return int(values[key])


def share_of(values: Values, key: str) -> Fraction:
    """A percentage's value, as a share."""
    return Fraction(values[key]) / 100
