"""Verdicts: what an attack achieved, beside what it may not achieve, and whether the promise held.

A finding that chance has a part in fails only where the promise, if it held, would do so less than once in a million times
(`FALSE_ALARM`). The others fail at the first difference.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import median
from typing import Any, Protocol

from deploy.attacks import texts
from deploy.attacks.chances import Interval, Law, at_least, fails_above, interval, lower_tail, same_law, shifted

FALSE_ALARM = 1e-6
"""How often a finding may accuse a deployment that keeps its promise."""

_SHOWN_DIFFERENCES = 5


class Finding(Protocol):
    """One comparison of an attack with its curve."""

    @property
    def name(self) -> str: ...

    @property
    def held(self) -> bool: ...

    def as_json(self) -> dict[str, Any]: ...

    def line(self) -> str: ...


class ByChance(ABC):
    """A finding that chance has a part in."""

    __slots__ = ()

    @property
    @abstractmethod
    def p_value(self) -> float:
        """The chance of this or worse, if the promise holds."""

    @property
    def held(self) -> bool:
        return self.p_value >= FALSE_ALARM


@dataclass(frozen=True, slots=True)
class Guesses(ByChance):
    """How often an attacker guessed right, and how often one may at most."""

    name: str
    right: int
    trials: int
    # The rate that each guess, whatever the others were, may have at most.
    curve: float

    @property
    def rate(self) -> float:
        return self.right / self.trials if self.trials else 0.0

    @property
    def interval(self) -> Interval:
        return interval(self.right, self.trials)

    @property
    def p_value(self) -> float:
        """The chance of guessing so well with the rate that is allowed."""
        return at_least(self.right, self.trials, self.curve)

    @property
    def fails_above(self) -> float | None:
        """The largest rate that still holds; None where even all of them right would."""
        return fails_above(self.trials, self.curve, FALSE_ALARM)

    def as_json(self) -> dict[str, Any]:
        low, high = self.interval
        return {
            "name": self.name,
            "kind": "guesses",
            "right": self.right,
            "trials": self.trials,
            "rate": round(self.rate, 5),
            "interval_95": [round(low, 5), round(high, 5)],
            "curve": round(self.curve, 5),
            "fails_above": None if self.fails_above is None else round(self.fails_above, 5),
            "p_value": _rounded(self.p_value),
            "held": self.held,
        }

    def line(self) -> str:
        low, high = self.interval
        above = self.fails_above
        return texts.GUESSES.format(
            what=texts.FINDINGS[self.name],
            right=self.right,
            trials=self.trials,
            rate=100 * self.rate,
            low=100 * low,
            high=100 * high,
            curve=100 * self.curve,
            fails=texts.FAILS_NEVER if above is None else texts.FAILS_ABOVE.format(share=100 * above),
        )


@dataclass(frozen=True, slots=True)
class Noise(ByChance):
    """How large the noise was altogether, and how small it may be by luck."""

    name: str
    # The law of each independent magnitude; `total` is their sum.
    laws: tuple[Law, ...] = field(repr=False)
    total: int
    # The scales that each was drawn at.
    scales: tuple[int, ...]

    @property
    def expected(self) -> float:
        return float(sum(sum(size * chance for size, chance in enumerate(law)) for law in self.laws))

    @property
    def p_value(self) -> float:
        """The chance of so little noise under the law that was charged for."""
        return lower_tail(self.laws, self.total)

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": "noise",
            "scales": list(self.scales),
            "draws": len(self.laws),
            "total": self.total,
            "expected": round(self.expected, 1),
            "p_value": _rounded(self.p_value),
            "held": self.held,
        }

    def line(self) -> str:
        draws = max(1, len(self.laws))
        return texts.NOISE.format(
            what=texts.FINDINGS[self.name],
            scales=" + ".join(map(str, self.scales)),
            draws=len(self.laws),
            mean=self.total / draws,
            expected=self.expected / draws,
        )


@dataclass(frozen=True, slots=True)
class Late(ByChance):
    """Number of ticks by which questions of two kinds were late, in a random order."""

    name: str
    one: tuple[int, ...]
    other: tuple[int, ...]

    @property
    def p_value(self) -> float:
        """The chance of a difference as large, if the kinds are alike."""
        return same_law(self.one, self.other)

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": "late",
            "trials": [len(self.one), len(self.other)],
            "late": [self._late(self.one), self._late(self.other)],
            "most": [max(self.one, default=0), max(self.other, default=0)],
            "p_value": _rounded(self.p_value),
            "held": self.held,
        }

    def line(self) -> str:
        return texts.LATE.format(
            what=texts.FINDINGS[self.name],
            one=self._late(self.one),
            of_one=len(self.one),
            other=self._late(self.other),
            of_other=len(self.other),
        )

    def _late(self, ticks: Sequence[int]) -> int:
        """How many came after the earliest tick that any of all came at."""
        earliest = min((*self.one, *self.other), default=0)
        return sum(each > earliest for each in ticks)


@dataclass(frozen=True, slots=True)
class Instants(ByChance):
    """When one event came, in milliseconds after it was due, for several kinds of questions in an order that was drawn by lot."""

    name: str
    by_kind: Mapping[str, tuple[int, ...]]
    # Kinds that are held together against other kinds.
    contrasts: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]

    @property
    def p_value(self) -> float:
        """The chance that some contrast is as large as the largest one, by either test, if all kinds are alike: at most this."""
        return _chance(tuple((self._of(one), self._of(other)) for one, other in self.contrasts))

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": "instants",
            "trials": {kind: len(late) for kind, late in self.by_kind.items()},
            "median_ms": self._medians,
            "p_value": _rounded(self.p_value),
            "held": self.held,
        }

    def line(self) -> str:
        medians = ", ".join(f"{kind} {late:g}" for kind, late in self._medians.items())
        return texts.INSTANTS.format(what=texts.FINDINGS[self.name], medians=medians, chance=self.p_value)

    def _of(self, kinds: Sequence[str]) -> tuple[int, ...]:
        return tuple(late for kind in kinds for late in self.by_kind.get(kind, ()))

    @property
    def _medians(self) -> dict[str, float]:
        return {kind: median(late) for kind, late in self.by_kind.items() if late}


@dataclass(frozen=True, slots=True)
class Same:
    """Things that have to be the same, and where they were not."""

    name: str
    compared: int
    differences: tuple[str, ...]

    @property
    def held(self) -> bool:
        return not self.differences

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": "same",
            "compared": self.compared,
            "different": len(self.differences),
            "differences": list(self.differences[:_SHOWN_DIFFERENCES]),
            "held": self.held,
        }

    def line(self) -> str:
        text = texts.SAME.format(
            what=texts.FINDINGS[self.name], compared=self.compared, different=len(self.differences)
        )
        shown = "".join(f"\n      {difference}" for difference in self.differences[:_SHOWN_DIFFERENCES])
        return text + shown


@dataclass(frozen=True, slots=True)
class Within:
    """A figure that may not pass a limit."""

    name: str
    value: float
    limit: float

    @property
    def held(self) -> bool:
        return self.value <= self.limit

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "kind": "within", "value": self.value, "limit": self.limit, "held": self.held}

    def line(self) -> str:
        return texts.WITHIN.format(what=texts.FINDINGS[self.name], value=_plain(self.value), limit=_plain(self.limit))


@dataclass(frozen=True, slots=True)
class Curve:
    """A line of the plot; `limit` is one that may not be passed."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    limit: bool = False
    # Each y is a share of so many guesses, made in another way at each x: points with intervals, joined by nothing.
    trials: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """Result of one attack."""

    attack: str
    findings: tuple[Finding, ...]
    # Asked and answered, refused ones not among them.
    answers: int
    curves: tuple[Curve, ...] = ()
    # Titles of the plot's axes.
    axes: tuple[str, str] = ("", "")

    @property
    def held(self) -> bool:
        """Whether every promise held that the attack was made against."""
        return all(finding.held for finding in self.findings)

    def as_json(self) -> dict[str, Any]:
        return {
            "attack": self.attack,
            "held": self.held,
            "answers": self.answers,
            "findings": [finding.as_json() for finding in self.findings],
        }

    def text(self) -> str:
        """The findings, a line each."""
        lines = [texts.REPORT[self.held].format(attack=self.attack, answers=self.answers)]
        return "\n".join([*lines, *(f"  {texts.MARK[finding.held]} {finding.line()}" for finding in self.findings)])


@lru_cache(maxsize=64)
def _chance(pairs: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]) -> float:
    chances = [test(one, other) for one, other in pairs if one and other for test in (same_law, shifted)]
    return min(1.0, len(chances) * min(chances, default=1.0))


def _plain(figure: float) -> str:
    """Units as they are, beliefs to the fifth digit."""
    return str(figure) if isinstance(figure, int) else f"{figure:.5g}"


def _rounded(p_value: float) -> float:
    return float(f"{p_value:.3g}")
