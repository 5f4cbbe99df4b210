"""One question for a table: what is asked of which columns, under which rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from policy_lab.standing import Standing
from policy_lab.tables.cells import Cells
from policy_lab.tables.plan import METHODS, Bounds, Method, Plan, Rule, Statistic, plan


@dataclass(frozen=True, slots=True)
class Question:
    """The options of one command line."""

    command: str
    standing: Standing
    statistic: Statistic
    rule: Rule
    method: Method
    epsilon: Fraction
    bounds: Bounds | None
    rows: str
    columns: str
    value: str
    where: Sequence[tuple[str, str]]
    seed: int
    repetitions: int
    samples: int
    uniform: float | None
    as_published: bool

    @property
    def methods(self) -> Sequence[Method]:
        """The methods that differ here: a single figure has one, and counts are not both public and protected."""
        if not self.rows and not self.columns:
            return (self.method,)
        return METHODS[:2] if self.statistic == "count" else METHODS

    @property
    def rules(self) -> Sequence[Rule]:
        """The rules that can be compared: without public bounds there are none to compare with."""
        has_bounds = self.bounds is not None or self.statistic == "count"
        return ("laplace", "bootstrap") if has_bounds else ("bootstrap",)

    def plan(self, cells: Cells, method: Method | None = None, rule: Rule | None = None) -> Plan:
        """The corrected plan of this question, or of another method or rule."""
        return plan(cells, self.statistic, rule or self.rule, method or self.method, self.epsilon, self.bounds)

    def published(self, cells: Cells, method: Method | None = None) -> Plan:
        """The plan as published."""
        return plan(
            cells, self.statistic, self.rule, method or self.method, self.epsilon, self.bounds, as_published=True
        )
