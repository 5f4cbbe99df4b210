"""Answers, tables and dictionaries in a notebook: text, HTML, and data frames if pandas is there.

Fields are those of `--json`, under the same names; noisy counts stay as they came, even below zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from broker_common.query.dictionary import MULTI_VALUE_SEPARATOR, Column, Dictionary
from broker_common.query.dictionary_pages import dictionary_text
from researcher_node.answers.formats import rows_of
from researcher_node.answers.store import AskedQuestion
from researcher_node.estimates.from_answers import estimated
from researcher_node.estimates.tables import Estimate, Interval, Kind

if TYPE_CHECKING:
    # Optional: an answer is of use without data frames.
    import pandas as pd

_NO_PANDAS = "Data frames need pandas: pip install 'tripartite[notebook]', or use .rows()."
_UNTOLD = "cannot be told"
_NOISE = "95 % margin of noise of each count: {margin}."


@dataclass(frozen=True, slots=True)
class Cell:
    """One count: what is counted, the noisy number, and how far its noise reaches either way, 19 times out of 20."""

    label: str
    values: tuple[str, ...]
    noisy_count: int
    margin_95: int


@dataclass(frozen=True, slots=True)
class Answer:
    """One answered question.

    >>> answer = r.ask("age >= 65", "mother_tongue = 'French'")
    >>> answer.noisy_count, answer.margin_95
    """

    asked: AskedQuestion
    # The object that `--json` prints of it.
    told: Mapping[str, Any]

    @property
    def query_id(self) -> str:
        return self.asked.query

    @property
    def where(self) -> str:
        """Who was counted among, as the health node read it."""
        return self.asked.where

    @property
    def question(self) -> str:
        return self.asked.question

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings from before it was asked; empty if it was read from the home."""
        return tuple(warned["text"] for warned in self.told["warnings"])

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The counts, in the order in which they were asked for."""
        return tuple(
            Cell(cell["label"], tuple(cell["values"] or ()), cell["noisy_count"], cell["margin_95"])
            for cell in self.told["cells"]
        )

    @property
    def noisy_count(self) -> int:
        """The count of a question of one cell; ValueError if there are several."""
        return self._alone.noisy_count

    @property
    def margin_95(self) -> int:
        """How far the noise of the one cell reaches either way, 19 times out of 20."""
        return self._alone.margin_95

    @property
    def _alone(self) -> Cell:
        if len(self.cells) > 1:
            raise ValueError(f"the answer has {len(self.cells)} cells: see .cells")
        return self.cells[0]

    def share(self, part: str | Sequence[str], of: Sequence[str] | None = None) -> Estimate:
        """The share of the cells `part`, by their labels, among the cells `of`; among all cells if left out.

        >>> r.ask("age >= 65", "mother_tongue = 'French'", of="all").share("French").with_sampling
        """
        return estimated("share", [self.asked], _labels(part), among=_labels(of)).estimate

    def rate_ratio(
        self, outside: Answer, part: str | Sequence[str], against: str | Sequence[str] | None = None
    ) -> Estimate:
        """How many times as often people of `part` meet the criteria as those of `against`, or all others, do.

        `outside` is the answer to the same question about `not (criteria)`: asked, never subtracted.

        >>> r.ask("diagnosis = 'E11.9'", "mother_tongue").rate_ratio(r.ask("not diagnosis = 'E11.9'", "mother_tongue"), "French")
        """
        both = [self.asked, outside.asked]
        return estimated("rate_ratio", both, _labels(part), against=_labels(against)).estimate

    def rows(self) -> list[dict[str, Any]]:
        """A row for each cell, with everything that is known of the question."""
        return rows_of([self.told])

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a data frame.

        >>> r.ask("age >= 65", "mother_tongue").to_pandas()[["cell_label", "noisy_count"]]
        """
        return _frame(self.rows())

    def __repr__(self) -> str:
        head, rows = self._table()
        return f"{_text(head, rows)}\n{self._caption()}"

    def _repr_html_(self) -> str:
        return _html(*self._table(), self._caption())

    def _table(self) -> tuple[list[str], list[list[str]]]:
        rows = [[cell.label, str(cell.noisy_count), str(cell.margin_95)] for cell in self.cells]
        return ["", "noisy count", "± 95 % of noise"], rows

    def _caption(self) -> str:
        return _caption(self.told, self.where)


@dataclass(frozen=True, slots=True)
class Table:
    """Answers to one question about several groups, each asked and charged by itself.

    >>> t = r.table(where="age >= 65", by="sex", count="mother_tongue = 'French'")
    >>> t["F"].noisy_count
    """

    # The name of the column that makes the groups, or `group`.
    by: str
    answers: Mapping[str, Answer]

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(self.answers)

    def __getitem__(self, group: str) -> Answer:
        return self.answers[group]

    def __iter__(self) -> Iterator[str]:
        return iter(self.answers)

    def __len__(self) -> int:
        return len(self.answers)

    def share(self, part: str | Sequence[str], of: Sequence[str] | None = None) -> Estimates:
        """Each group's share of the cells `part`, by their labels, among the cells `of`; among all cells if left out.

        >>> t.share("French")["65 and over"].with_sampling
        """
        return Estimates(self.by, {group: answer.share(part, of) for group, answer in self.answers.items()})

    def difference(self, part: str | Sequence[str], a: str, b: str, of: Sequence[str] | None = None) -> Estimate:
        """The share of group `a` minus that of group `b`.

        >>> t.difference("French", "65 and over", "under 65").noise_only
        """
        return estimated("difference", self._asked([a, b]), _labels(part), among=_labels(of)).estimate

    def ratio(self, part: str | Sequence[str], a: str, b: str, of: Sequence[str] | None = None) -> Estimate:
        """The share of group `a` divided by that of group `b`.

        >>> t.ratio("French", "65 and over", "under 65").value
        """
        return estimated("ratio", self._asked([a, b]), _labels(part), among=_labels(of)).estimate

    def standardised(
        self, part: str | Sequence[str], weights: Mapping[str, float], of: Sequence[str] | None = None
    ) -> Estimate:
        """The mean of the groups' shares with the weights of a standard population.

        >>> t.standardised("French", {"under 65": 0.8, "65 and over": 0.2}).with_sampling
        """
        return self._over("standardised_rate", weights, part, of)

    def trend(
        self, part: str | Sequence[str], scores: Mapping[str, float], of: Sequence[str] | None = None
    ) -> Estimate:
        """Change of the share for one unit of score.

        >>> t.trend("French", {"under 65": 40, "65 and over": 75}).with_sampling
        """
        return self._over("trend", scores, part, of)

    def _over(
        self, kind: Kind, numbers: Mapping[str, float], part: str | Sequence[str], of: Sequence[str] | None
    ) -> Estimate:
        answers = self._asked(list(numbers))
        return estimated(
            kind, answers, _labels(part), among=_labels(of), numbers=list(map(float, numbers.values()))
        ).estimate

    def _asked(self, groups: Sequence[str]) -> list[AskedQuestion]:
        return [self.answers[group].asked for group in groups]

    def rows(self) -> list[dict[str, Any]]:
        """A row for each cell of each group, with everything that is known of its question."""
        return [{self.by: group, **row} for group, answer in self.answers.items() for row in answer.rows()]

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a data frame.

        >>> t.to_pandas().pivot(index="sex", columns="cell_label", values="noisy_count")
        """
        return _frame(self.rows())

    def __repr__(self) -> str:
        return f"{_text(*self._table())}\n{self._caption()}"

    def _repr_html_(self) -> str:
        return _html(*self._table(), self._caption())

    def _table(self) -> tuple[list[str], list[list[str]]]:
        labels = [cell.label for cell in self._first.cells]
        rows = [[group, *(str(cell.noisy_count) for cell in answer.cells)] for group, answer in self.answers.items()]
        return [self.by, *labels], rows

    def _caption(self) -> str:
        return f"{_NOISE.format(margin=self._first.cells[0].margin_95)} {_caption(self._first.told, None)}"

    @property
    def _first(self) -> Answer:
        return next(iter(self.answers.values()))


@dataclass(frozen=True, slots=True)
class Estimates:
    """An estimate for each group, each with two intervals.

    `noise_only` is about exactly the people who were counted, `with_sampling` about people like them. An interval that excludes
    nothing is told as that.

    >>> t.share("French").to_pandas()
    """

    by: str
    estimates: Mapping[str, Estimate]

    def __getitem__(self, group: str) -> Estimate:
        return self.estimates[group]

    def __iter__(self) -> Iterator[str]:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each group; ends of an interval that excludes nothing are None."""
        return [
            {self.by: group, "kind": estimate.kind, "value": estimate.value}
            | _ends("noise_only", estimate.noise_only)
            | _ends("with_sampling", estimate.with_sampling)
            for group, estimate in self.estimates.items()
        ]

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a data frame."""
        return _frame(self.rows())

    def __repr__(self) -> str:
        return _text(*self._table())

    def _repr_html_(self) -> str:
        return _html(*self._table(), "")

    def _table(self) -> tuple[list[str], list[list[str]]]:
        rows = [
            [
                group,
                _UNTOLD if each.value is None else f"{each.value:.4g}",
                _interval_text(each.noise_only),
                _interval_text(each.with_sampling),
            ]
            for group, each in self.estimates.items()
        ]
        kind = next(iter(self.estimates.values())).kind
        return [self.by, kind, "95 %, noise only", "95 %, with sampling"], rows


def _labels(labels: str | Sequence[str] | None) -> list[str]:
    return [labels] if isinstance(labels, str) else list(labels or ())


def _interval_text(interval: Interval) -> str:
    return f"{interval.low:.4g} to {interval.high:.4g}" if interval.told else _UNTOLD


def _ends(name: str, interval: Interval) -> dict[str, Any]:
    ends = (interval.low, interval.high) if interval.told else (None, None)
    return {f"{name}_low": ends[0], f"{name}_high": ends[1], f"{name}_method": interval.method}


class AnswerList(Sequence[AskedQuestion]):
    """Questions of one's own, oldest first, answered or not.

    >>> r.answers(state="answered", last=10).to_pandas()
    """

    def __init__(self, questions: Sequence[AskedQuestion], told: Sequence[Mapping[str, Any]]) -> None:
        self._questions = questions
        self._told = told

    def __getitem__(self, at: Any) -> Any:
        return self._questions[at]

    def __len__(self) -> int:
        return len(self._questions)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each cell of each question; figures that have not come are None."""
        return rows_of(self._told)

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a data frame."""
        return _frame(self.rows())

    def __repr__(self) -> str:
        return _text(*self._table()) if self._questions else "No question."

    def _repr_html_(self) -> str:
        return _html(*self._table(), "")

    def _table(self) -> tuple[list[str], list[list[str]]]:
        head = ["asked", "state", "label", "where", "question", "counts"]
        return head, [
            [
                told["asked"],
                asked.state,
                asked.label,
                asked.where,
                asked.question,
                ", ".join(map(str, asked.noisy.values)) if asked.noisy else "",
            ]
            for asked, told in zip(self._questions, self._told, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Quote:
    """Cost of one answer, and the reach of its noise. Nothing was charged."""

    told: Mapping[str, Any]

    @property
    def scale(self) -> int:
        return int(self.told["scale"])

    @property
    def margin_95(self) -> int:
        return int(self.told["margin_95"])

    @property
    def charged(self) -> int:
        """The price in units."""
        return int(self.told["charged"])

    @property
    def remaining(self) -> int | None:
        """Such answers before the service shuts down; None where that is not published."""
        return None if self.told["remaining"] is None else int(self.told["remaining"])

    def __repr__(self) -> str:
        return _text(["", ""], [[name, str(value)] for name, value in self.told.items()])

    def _repr_html_(self) -> str:
        return _html(["", ""], [[name, str(value)] for name, value in self.told.items()], "")


@dataclass(frozen=True, slots=True)
class Published:
    """Everything that may be asked: the health node's columns and the census node's language variables, with their codes.

    >>> r.dictionary().codes("mother_tongue")
    """

    health: Dictionary
    census: Dictionary
    census_release: str

    def codes(self, name: str) -> dict[str, str]:
        """The codes of a column or variable, each with its meaning; none of a column of numbers or dates.

        A column of an event table is `table.column`.
        """
        found = next((column for _, place, column in self._columns() if place == name), None)
        return {code.value: code.label for code in (found or self.health.column(name)).codes}

    def rows(self) -> list[dict[str, Any]]:
        """A row for each code, and one for each column without codes."""
        return [
            {
                "side": side,
                "column": place,
                "type": column.type.value,
                "description": column.description,
                "code": code,
                "meaning": meaning,
                "under": under,
            }
            for side, place, column in self._columns()
            for code, meaning, under in [
                (each.value, each.label, MULTI_VALUE_SEPARATOR.join(each.under)) for each in column.codes
            ]
            or [("", "", "")]
        ]

    def _columns(self) -> Iterator[tuple[str, str, Column]]:
        """Every column with its side and its name."""
        for side, dictionary in (("where", self.health), ("count", self.census)):
            for column in dictionary.columns:
                yield side, column.name, column
            for table in dictionary.events:
                for column in table.columns:
                    yield side, f"{table.name}.{column.name}", column

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a data frame."""
        return _frame(self.rows())

    def __repr__(self) -> str:
        return f"where\n\n{dictionary_text(self.health)}\n\ncount\n\n{dictionary_text(self.census)}"

    def _repr_html_(self) -> str:
        rows = [[str(value) for value in row.values()] for row in self.rows()]
        return _html(list(self.rows()[0]), rows, "")


def _caption(told: Mapping[str, Any], where: str | None) -> str:
    """Caption of a count: of whom, at which scale and fraction, for which study."""
    parts = [] if where is None else [f"Among those with: {where}."]
    parts.append(f"{told['question']}; scale {told['scale']}, fraction {told['fraction']}, project {told['project']}.")
    return " ".join(parts)


def _frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    try:
        # Optional, and imported when a frame is asked for: it takes longer than all else here.
        import pandas as pd  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(_NO_PANDAS, name=error.name) from error
    return pd.DataFrame(list(rows))


def _text(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [head, *rows] if any(head) else rows
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def _html(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(line(row, "td") for row in rows)
    below = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{below}<thead>{line(head, 'th')}</thead><tbody>{body}</tbody></table>"
