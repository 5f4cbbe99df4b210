"""Questions and computations of a study: a file read with the dictionaries of both nodes.

A study has groups (every combination of the entries of `by`), one question that is asked about each of them, and rows: numbers
that are computed from answers. Each row names the questions that it takes, so that plan, report and rehearsal agree about them.

Invariants. No question stands in `asks` twice. Groups keep the order of the file, the last entry of `by` changing fastest.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from broker_common.query.canonical import canonical_bytes, describe
from broker_common.query.condition import Condition, Order
from broker_common.query.criteria import parse_condition
from broker_common.query.dictionary import AskedOf, Column, ColumnType, Dictionary, listed, nearest
from broker_common.query.normal_form import all_of, between, compare, equal, negate
from broker_common.query.question import REST, Question
from researcher_node.answers.counted import part_of
from researcher_node.asking.composing import compose_question
from researcher_node.study.file import (
    MAX_GROUPS,
    Bands,
    Codes,
    EstimateItem,
    Select,
    Split,
    StudyFile,
    Text,
    error_within,
    problem_at,
    quoted,
)


@dataclass(frozen=True, slots=True)
class Ask:
    """One question of the study: who is asked about. All of them have the same cells."""

    where: Condition
    # The group by its names, one for each entry of `by`.
    group: tuple[str, ...]
    # The event that these people have, or do not have; empty for the group itself.
    event: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One number to be computed. `asks` are places in the study's list of questions."""

    kind: str
    # The cells that are estimated, by name, and the group; None for an entry of `by` that is added up.
    part: str
    group: tuple[str | None, ...]
    asks: tuple[int, ...]
    part_cells: tuple[int, ...]
    # None: all cells of the question.
    whole_cells: tuple[int, ...] | None = None
    against_cells: tuple[int, ...] | None = None
    # The group that this one is compared with, as its names.
    reference: tuple[str, ...] | None = None
    event: str = ""
    # Weights or scores, one for each question.
    numbers: tuple[Fraction, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A file that both dictionaries admit."""

    file: StudyFile
    # The names of the entries of `by`, and of the groups of each.
    splits: tuple[tuple[str, tuple[str, ...]], ...]
    question: Question
    # The name of each cell.
    cells: tuple[str, ...]
    asks: tuple[Ask, ...]
    rows: tuple[Row, ...]
    project: str
    # The part of the people who were asked; None if everybody was.
    part: AskedOf | None

    @property
    def title(self) -> str:
        return self.file.study or self.file.file

    @property
    def key(self) -> str:
        """The study's name in the record: a hash of what it asks, at which precision and for which project.

        Titles, estimates, expectations, and how conditions are written do not enter it.
        """
        meaning = [
            sorted(canonical_bytes(ask.where).hex() for ask in self.asks),
            self.question.text,
            [self.file.scale, self.file.margin, self.file.fraction_millionths, self.project],
        ]
        return hashlib.sha256(b"tripartite/study/v1\0" + json.dumps(meaning).encode()).hexdigest()

    def question_key(self, ask: Ask, scale: int) -> str:
        """A question's name in the record: equal questions of two studies have the same."""
        meaning = [
            canonical_bytes(ask.where).hex(),
            self.question.text,
            scale,
            self.file.fraction_millionths,
            self.project,
        ]
        return hashlib.sha256(b"tripartite/study-question/v1\0" + json.dumps(meaning).encode()).hexdigest()


def design(file: StudyFile, health: Dictionary, census: Dictionary, usual_project: str) -> Study:
    """The study that a file describes.

    Raises:
        InvalidRequestError: STUDY_INVALID, with the line.
    """
    return _Designer(file, health, census).study(usual_project)


class _Designer:
    def __init__(self, file: StudyFile, health: Dictionary, census: Dictionary) -> None:
        self._file = file
        self._health = health
        self._census = census
        self._splits: list[tuple[Split, list[tuple[str, Condition]]]] = []
        self._asks: list[Ask] = []
        self._places: dict[bytes, int] = {}
        self._cells: tuple[str, ...] = ()

    def study(self, usual_project: str) -> Study:
        question = self._question()
        where = None if self._file.where is None else self._condition(self._file.where, "where")
        self._splits = [(split, self._groups(split)) for split in self._file.by]
        number = 1
        for _, groups in self._splits:
            number *= len(groups)
        if number > MAX_GROUPS:
            raise self._problem(
                self._file.by[0].name.line,
                phrase("'by' makes {count} groups, and a study has at most {most}.", count=number, most=MAX_GROUPS),
                phrase("Use wider bands or fewer entries, or split the study into several files."),
            )
        self._groups_of_study = {
            tuple(name for name, _ in each): all_of(
                [*([] if where is None else [where]), *(condition for _, condition in each)]
            )
            for each in itertools.product(*(groups for _, groups in self._splits))
        }
        rows = [row for item in self._file.estimate for row in self._rows(item)]
        self._verify_expected()
        if not self._asks:
            for names in self._groups_of_study:
                self._ask(names)
        return Study(
            file=self._file,
            splits=tuple((split.name.text, tuple(name for name, _ in groups)) for split, groups in self._splits),
            question=question,
            cells=self._cells,
            asks=tuple(self._asks),
            rows=tuple(rows),
            part=part_of(question, self._census),
            project=usual_project if self._file.project is None else self._file.project.text,
        )

    # --- who is asked about ----------------------------------------------------------------------------------------

    def _condition(self, text: Text, name: str) -> Condition:
        try:
            return parse_condition(text.text, self._health)
        except InvalidRequestError as error:
            raise error_within(self._file.file, text, name, error) from error

    def _groups(self, split: Split) -> list[tuple[str, Condition]]:
        match split.groups:
            case Bands(starts):
                return self._bands(self._column(split.name, ColumnType.INTEGER), starts)
            case Codes(codes):
                column = self._column(split.name, ColumnType.CODE)
                wanted = tuple(Text(value, split.name.line) for value in column.values) if codes is None else codes
                return [(code.text, self._code(column, code)) for code in wanted]
            case _:
                return [(name.text, self._condition(text, name.text)) for name, text in split.groups.conditions]

    def _column(self, name: Text, wanted: ColumnType) -> Column:
        try:
            column = self._health.column(name.text)
        except InvalidRequestError as error:
            raise error_within(self._file.file, name, "by", error) from error
        if column.type is not wanted:
            raise self._problem(
                name.line,
                phrase("Column {column} holds {kind}.", column=quoted(column.name), kind=column.type.value),
                phrase(
                    "Bands need a column of whole numbers, 'all' and codes a column of codes. Or write names with a condition each."
                ),
            )
        return column

    def _code(self, column: Column, code: Text) -> Condition:
        try:
            return equal(column, [code.text])
        except InvalidRequestError as error:
            raise error_within(self._file.file, code, column.name, error) from error

    @staticmethod
    def _bands(column: Column, starts: Sequence[int]) -> list[tuple[str, Condition]]:
        bands = [
            (f"{low}-{high - 1}" if high - 1 > low else str(low), between(column, low, high - 1))
            for low, high in itertools.pairwise(starts)
        ]
        return [*bands, (f"{starts[-1]}+", compare(column, Order.GREATER_OR_EQUAL, starts[-1]))]

    def _ask(self, names: tuple[str, ...], event: Condition | None = None, name: str = "") -> int:
        """The place of the question about a group, or about the part of it that an event has happened to."""
        group = self._groups_of_study[names]
        where = group if event is None else all_of([group, event])
        key = canonical_bytes(where)
        if key not in self._places:
            self._require_writable(where)
            self._places[key] = len(self._asks)
            self._asks.append(Ask(where, names, name))
        return self._places[key]

    def _require_writable(self, where: Condition) -> None:
        """Return only if the question can be asked by its text, whose length and depth have limits."""
        try:
            parse_condition(describe(where), self._health)
        except InvalidRequestError as error:
            line = self._file.where.line if self._file.where is not None else self._file.by[0].name.line
            raise error_within(self._file.file, Text("", line), "where", error) from error

    # --- what is counted -------------------------------------------------------------------------------------------

    def _question(self) -> Question:
        names: list[str] = []
        for name, text in self._file.count:
            cells = self._composed(text, [text.text], of_all=False).cells
            if name is not None and len(cells) > 1:
                raise self._problem(
                    name.line,
                    phrase("{name} names {count} cells.", name=quoted(name.text), count=len(cells)),
                    phrase("Write one value, or a list with in (...), for each name."),
                )
            names += [cell.label if name is None else name.text for cell in cells]
        first = self._file.count[0][1]
        texts = [text.text for _, text in self._file.count]
        question = self._composed(first, texts, of_all=self._file.of is not None)
        # `of: all` adds everybody else, or everybody else who was asked.
        names += [REST.label] * (len(question.cells) - len(names))
        if len(set(names)) < len(names):
            raise self._problem(
                first.line, phrase("Two cells have the same name."), phrase("Give each cell a name of its own.")
            )
        self._cells = tuple(names)
        return question

    def _composed(self, text: Text, counts: Sequence[str], *, of_all: bool) -> Question:
        try:
            return compose_question(counts, of_all, self._census)
        except InvalidRequestError as error:
            raise error_within(self._file.file, text, "count", error) from error

    # --- what is computed ------------------------------------------------------------------------------------------

    def _rows(self, item: EstimateItem) -> list[Row]:
        part = self._cells_named(item.part)
        whole = self._cells_named(item.of) if item.of else None
        name = " + ".join(word.text for word in item.part)
        match item.kind:
            case "share":
                self._verify_share(item, part, whole)
                return [
                    Row(
                        kind="share",
                        part=name,
                        group=names,
                        asks=(self._ask(names),),
                        part_cells=part,
                        whole_cells=whole,
                    )
                    for names in self._groups_of_study
                ]
            case "difference" | "ratio":
                self._verify_share(item, part, whole)
                return self._compared(item, name, part, whole)
            case "rate_ratio":
                return self._rate_ratios(item, name, part)
            case _:
                self._verify_share(item, part, whole)
                return self._along(item, name, part, whole)

    def _compared(
        self, item: EstimateItem, name: str, part: tuple[int, ...], whole: tuple[int, ...] | None
    ) -> list[Row]:
        chosen = self._selected(item.reference)
        rows = []
        for names in self._groups_of_study:
            reference = tuple(chosen.get(place, each) for place, each in enumerate(names))
            if reference != names:
                rows.append(
                    Row(
                        kind=item.kind,
                        part=name,
                        group=names,
                        reference=reference,
                        asks=(self._ask(names), self._ask(reference)),
                        part_cells=part,
                        whole_cells=whole,
                    )
                )
        return rows

    def _rate_ratios(self, item: EstimateItem, name: str, part: tuple[int, ...]) -> list[Row]:
        assert item.event is not None  # noqa: S101 - the file was checked
        event = self._condition(item.event, "event")
        against = self._cells_named(item.against) if item.against else None
        others = set(range(len(self._cells))) - set(part)
        if set(part) & set(against or ()) or not others:
            raise self._problem(
                item.line,
                phrase("The rate among {cells} is compared with itself.", cells=quoted(name)),
                phrase("Name other cells under 'against', or add the line 'of: all' to the study."),
            )
        return [
            Row(
                kind="rate_ratio",
                part=name,
                group=names,
                event=describe(event),
                asks=(
                    self._ask(names, event, describe(event)),
                    self._ask(names, negate(event), describe(negate(event))),
                ),
                part_cells=part,
                against_cells=against,
            )
            for names in self._groups_of_study
        ]

    def _along(self, item: EstimateItem, name: str, part: tuple[int, ...], whole: tuple[int, ...] | None) -> list[Row]:
        """Rows over all groups of one entry of `by`: a row for each combination of the others."""
        assert item.over is not None  # noqa: S101 - the file was checked
        at = self._split_place(item.over)
        groups = [name for name, _ in self._splits[at][1]]
        numbers = item.weights or item.scores or tuple(Fraction(place + 1) for place in range(len(groups)))
        if len(numbers) != len(groups):
            raise self._problem(
                item.line,
                phrase(
                    "There are {given} numbers for the {count} groups of {over}.",
                    given=len(numbers),
                    count=len(groups),
                    over=quoted(item.over.text),
                ),
                phrase("Write one for each of: {groups}", groups=listed(groups)),
            )
        self._verify_numbers(item, numbers)
        others = [[name for name, _ in each] for place, (_, each) in enumerate(self._splits) if place != at]
        rows = []
        for chosen in itertools.product(*others):
            groups_here = [(*chosen[:at], each, *chosen[at:]) for each in groups]
            rows.append(
                Row(
                    kind=item.kind,
                    part=name,
                    group=(*chosen[:at], None, *chosen[at:]),
                    asks=tuple(map(self._ask, groups_here)),
                    part_cells=part,
                    whole_cells=whole,
                    numbers=numbers,
                )
            )
        return rows

    def _verify_numbers(self, item: EstimateItem, numbers: Sequence[Fraction]) -> None:
        if item.kind == "standardised_rate" and not sum(numbers):
            raise self._problem(
                item.line,
                phrase("All weights are zero."),
                phrase("Write the sizes of the groups in a standard population."),
            )
        if item.kind == "trend" and len(set(numbers)) < len(numbers):
            raise self._problem(
                item.line,
                phrase("A trend needs two groups or more, with different scores."),
                phrase("Write one score for each group, such as [1, 2, 3]."),
            )

    def _verify_share(self, item: EstimateItem, part: tuple[int, ...], whole: tuple[int, ...] | None) -> None:
        among = set(range(len(self._cells))) if whole is None else set(whole)
        if not set(part) < among:
            raise self._problem(
                item.line,
                phrase("A share of all that is counted is always 1, and a share of something else is none."),
                phrase("Add the line 'of: all' to the study, or name more cells under this estimate's own 'of'."),
            )

    def _cells_named(self, words: Sequence[Text]) -> tuple[int, ...]:
        for word in words:
            if word.text not in self._cells:
                raise self._problem(
                    word.line,
                    phrase("No cell is called {name}.", name=quoted(word.text)),
                    phrase(
                        "Did you mean: {nearest}? Cells: {cells}",
                        nearest=nearest(word.text, self._cells),
                        cells=listed(self._cells),
                    ),
                )
        return tuple(sorted({self._cells.index(word.text) for word in words}))

    def _split_place(self, name: Text) -> int:
        """Which entry of `by` is meant; where there is one, it need not be named."""
        names = [split.name.text for split, _ in self._splits]
        if not name.text and len(names) == 1:
            return 0
        if name.text not in names:
            raise self._problem(
                name.line,
                phrase("No entry of 'by' is called {name}.", name=quoted(name.text)),
                phrase("Write one of them, such as NAME: GROUP. Entries: {names}", names=listed(names) or "-"),
            )
        return names.index(name.text)

    def _verify_expected(self) -> None:
        """Return only if what is expected is expected of groups and cells of the study."""
        expect = self._file.expect
        if expect is None:
            return
        for line, share in ((expect.line, expect.share), *((each.line, each.share or {}) for each in expect.groups)):
            self._cells_named([Text(name, line) for name in share if name])
        for each in expect.groups:
            self._selected(each.select)

    def _selected(self, select: Select) -> dict[int, str]:
        """Names of groups by the place of their entry of `by`."""
        chosen = {}
        for name, group in select:
            place = self._split_place(name)
            groups = [each for each, _ in self._splits[place][1]]
            if group.text not in groups:
                raise self._problem(
                    group.line,
                    phrase(
                        "No group of {split} is called {name}.",
                        split=quoted(self._splits[place][0].name.text),
                        name=quoted(group.text),
                    ),
                    phrase(
                        "Did you mean: {nearest}? Groups: {groups}",
                        nearest=nearest(group.text, groups),
                        groups=listed(groups),
                    ),
                )
            chosen[place] = group.text
        return chosen

    def _problem(self, line: int, problem: str, remedy: str) -> InvalidRequestError:
        return problem_at(self._file.file, line, problem, remedy)
