"""A study file as its author wrote it: YAML in which everything knows its line.

Read without a dictionary and without a node: keys, kinds of values and numbers are checked here, columns, codes and
conditions in `design`. Every error names file and line, says what is wrong there, and what to type instead.

Values are taken as they are written. YAML's own readings of plain words are not used: `no` is a word, `1e3` no number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

import yaml

from broker_common.crypto.sampling import WHOLE_MILLIONTHS
from broker_common.errors import InvalidRequestError
from broker_common.language import hint_of, phrase, phrase_of
from broker_common.privacy.policy import MAX_SCALE
from broker_common.query.dictionary import listed, nearest, shown
from broker_common.storage.lined_text import Kind, compose, line_of
from broker_common.values import MOST_CELLS
from researcher_node.study import texts

MAX_FILE_CHARACTERS = 65_536
"""Of a study file: more is no file that somebody wrote."""
# The most questions of one study, and the most groups of one `by`.
MAX_GROUPS = 256
# Expected people: this is more than there are.
_MOST_PEOPLE = 1_000_000_000
_MOST_MARGIN = 1_000_000_000

_INTEGER = re.compile(r"-?[0-9]{1,9}")
_NUMBER = re.compile(r"-?[0-9]{1,9}(\.[0-9]{1,9})?")
# Names of groups and cells stand in tables and in other keys.
_MAX_NAME_CHARACTERS = 60
_MAX_TITLE_CHARACTERS = 200

ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True)
class Text:
    """A word or a sentence of the file."""

    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Bands:
    """Numeric bands over a column; each begins at its number and ends before the next one, the last one has no end."""

    starts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Codes:
    """One group for each of these codes of a column; None: for all that are published."""

    codes: tuple[Text, ...] | None


@dataclass(frozen=True, slots=True)
class Named:
    """Groups with names and conditions of their own."""

    conditions: tuple[tuple[Text, Text], ...]


@dataclass(frozen=True, slots=True)
class Split:
    """One entry of `by`."""

    name: Text
    groups: Bands | Codes | Named


Select = tuple[tuple[Text, Text], ...]
"""Names of groups by the name of their split, such as `{sex: male}`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateItem:
    """One entry of `estimate`: one kind, and what it takes."""

    kind: str
    line: int
    # The part to estimate: the name of a cell, or a list of names that are added up.
    part: tuple[Text, ...]
    # The cells that a share is a share of, if not all.
    of: tuple[Text, ...] = ()
    # `difference`, `ratio`: the group to compare with, such as `{sex: male}`.
    reference: Select = ()
    # `rate_ratio`: a condition; the rate is the share of people who meet it.
    event: Text | None = None
    # `rate_ratio`: the cells to compare with, if not all others.
    against: tuple[Text, ...] = ()
    # `standardised_rate`, `trend`: the entry of `by` whose groups are put together.
    over: Text | None = None
    # `standardised_rate`: a weight for each group.
    weights: tuple[Fraction, ...] = ()
    # `trend`: a number for each group; otherwise 1, 2, 3.
    scores: tuple[Fraction, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedGroups:
    """One entry of `expect: groups`: names of groups, and what is expected there."""

    select: Select
    line: int
    # People in each of these groups.
    people: int | None = None
    # The share of them in the cell, or in each cell: `{French: 0.05}`.
    share: Mapping[str, Fraction] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """`expect`: what the author expects before asking. Nobody is asked for it; the plan computes with it."""

    line: int
    # People in each group.
    people: int
    # The share of them in the cell that is estimated, or in each cell: `{French: 0.05, English: 0.6}`.
    share: Mapping[str, Fraction]
    # `rate_ratio`: the share of the people in each group whom the event has happened to.
    event: Fraction | None = None
    # Exceptions: `- {age: 65+, people: 3000, share: 0.03}`.
    groups: tuple[ExpectedGroups, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyFile:
    """The keys of a study file."""

    # Where errors say they are: the name of the file.
    file: str
    # The study's name in its report.
    study: str = ""
    # The population, as for `ask --where`. May be left out where there is a `by`.
    where: Text | None = None
    # Groups: a column with bands, with `all` or with a list of its codes; or any name with names of groups and their conditions.
    by: tuple[Split, ...] = ()
    # The cells: one `--count` of `ask`, a list of them, or names with one each.
    count: tuple[tuple[Text | None, Text], ...] = ()
    # `all` adds everybody else: the whole of a share.
    of: Text | None = None
    # Estimates to compute from the counts.
    estimate: tuple[EstimateItem, ...] = ()
    # The noise scale, if not the usual one.
    scale: int | None = None
    # Instead of `scale`: the margin of error that is wanted.
    margin: int | None = None
    # Take each matching person with this probability.
    fraction_millionths: int = WHOLE_MILLIONTHS
    # The registered project, if not the home's usual one.
    project: Text | None = None
    # The author's expectations, for `plan`.
    expect: Expectation | None = None


# Keys that each kind of estimate takes beside its own.
KINDS: Mapping[str, frozenset[str]] = {
    "share": frozenset({"of"}),
    "difference": frozenset({"of", "reference"}),
    "ratio": frozenset({"of", "reference"}),
    "rate_ratio": frozenset({"event", "against"}),
    "standardised_rate": frozenset({"of", "over", "weights"}),
    "trend": frozenset({"of", "over", "scores"}),
}
KINDS_EXPLAINED: Mapping[str, str] = {
    "share": "The share of a cell, by name, or of a list of cells, in each group.",
    "difference": "The share in each group less that in its reference group.",
    "ratio": "The share in each group divided by that in its reference group.",
    "rate_ratio": "How many times as often an event has happened to people of this cell as to people of other cells.",
    "standardised_rate": "The share over all groups of one entry of `by`, each with the weight of a standard population.",
    "trend": "The change of the share over the groups of one entry of `by`, for one unit of score.",
}
"""What each kind is, for docs/studies.md."""
_NEEDED: Mapping[str, tuple[str, ...]] = {
    "difference": ("reference",),
    "ratio": ("reference",),
    "rate_ratio": ("event",),
    "standardised_rate": ("over", "weights"),
    "trend": ("over",),
}
TOP_KEYS = ("study", "where", "by", "count", "of", "estimate", "scale", "margin", "fraction", "project", "expect")
EXPECT_KEYS = ("people", "share", "event", "groups")
_GROUP_EXPECT_KEYS = ("people", "share")


def problem_at(file: str, line: int, problem: str, remedy: str) -> InvalidRequestError:
    """The problem of a line of a study file, and what to type instead."""
    return InvalidRequestError("STUDY_INVALID", file=f"{file}:{line}", problem=problem, remedy=remedy)


def parse_study_file(text: str, file: str) -> StudyFile:
    """The study that a file writes; `file` is what errors call it.

    Raises:
        InvalidRequestError: STUDY_INVALID, with the line.
    """
    return _Reader(file).study(text)


_STUDY_FILE = Kind(
    most_characters=MAX_FILE_CHARACTERS,
    split=phrase("Split the study into several files."),
    strange=phrase("This is not YAML: a character or a nesting that no study file has."),
    save=phrase("Save the file as UTF-8 text; see docs/studies.md for a whole one."),
    example=phrase("See docs/studies.md for a whole one."),
)


class _Reader:
    """Reads one file; holds its name for errors."""

    def __init__(self, file: str) -> None:
        self._file = file

    def study(self, text: str) -> StudyFile:
        items = self._mapping(compose(text, _STUDY_FILE, self._problem), phrase("The file"), TOP_KEYS)
        if "count" not in items:
            raise self._problem(
                1,
                phrase("There is no 'count'."),
                phrase("Say what is counted, such as: count: mother_tongue = 'French'"),
            )
        if "where" not in items and "by" not in items:
            raise self._problem(
                1,
                phrase("There is neither 'where' nor 'by'."),
                phrase("Say who is asked about, such as: where: procedure = 'angioplasty'"),
            )
        if "scale" in items and "margin" in items:
            raise self._problem(
                line_of(items["margin"]),
                phrase("'scale' and 'margin' are both given."),
                phrase("Keep one of them: a margin chooses the scale."),
            )
        by = self._given(items, "by", self._by, ())
        return StudyFile(
            file=self._file,
            study=self._given(items, "study", self._title, ""),
            where=self._given(items, "where", self._condition, None),
            by=by,
            count=self._count(items["count"]),
            of=self._given(items, "of", self._of_all, None),
            estimate=self._given(items, "estimate", self._estimates, ()),
            scale=self._given(items, "scale", lambda node: self._whole(node, "scale", 1, MAX_SCALE), None),
            margin=self._given(items, "margin", lambda node: self._whole(node, "margin", 0, _MOST_MARGIN), None),
            fraction_millionths=self._given(items, "fraction", self._fraction, WHOLE_MILLIONTHS),
            project=self._given(items, "project", self._word, None),
            expect=self._given(items, "expect", lambda node: self._expect(node, by), None),
        )

    # --- the parts of a study --------------------------------------------------------------------------------------

    def _by(self, node: yaml.Node) -> tuple[Split, ...]:
        splits = tuple(Split(name, self._groups(name, value)) for name, value in self._named(node, "by", MAX_GROUPS))
        for split in splits:
            if split.name.text in EXPECT_KEYS:
                raise self._problem(
                    split.name.line,
                    phrase("An entry of 'by' cannot be called {name}.", name=quoted(split.name.text)),
                    phrase("Give it another name: that one is a key of 'expect'."),
                )
        return splits

    def _groups(self, name: Text, node: yaml.Node) -> Bands | Codes | Named:
        if isinstance(node, yaml.MappingNode):
            return Named(
                tuple((each, self._condition(value)) for each, value in self._named(node, name.text, MAX_GROUPS))
            )
        if isinstance(node, yaml.SequenceNode) and node.value:
            words = self._words(node, name.text, MAX_GROUPS)
            if all(_INTEGER.fullmatch(word.text) for word in words):
                return self._bands(name, words)
            return Codes(words)
        if isinstance(node, yaml.ScalarNode) and node.value == "all":
            return Codes(None)
        raise self._problem(
            line_of(node),
            phrase("{name} says no groups.", name=quoted(name.text)),
            phrase(
                "Write bands such as [0, 18, 40, 65], 'all' for every published code of the column, a list of codes, or names with "
                "a condition each."
            ),
        )

    def _bands(self, name: Text, words: Sequence[Text]) -> Bands:
        starts = tuple(int(word.text) for word in words)
        for word, low, high in zip(words[1:], starts, starts[1:], strict=False):
            if low >= high:
                raise self._problem(
                    word.line,
                    phrase(
                        "The bands of {name} do not ascend: {high} follows {low}.",
                        name=quoted(name.text),
                        high=high,
                        low=low,
                    ),
                    phrase("Write where each band begins, smallest first, such as [0, 18, 40, 65]."),
                )
        return Bands(starts)

    def _count(self, node: yaml.Node) -> tuple[tuple[Text | None, Text], ...]:
        if isinstance(node, yaml.MappingNode):
            return tuple((name, self._word(value)) for name, value in self._named(node, "count", MOST_CELLS))
        return tuple((None, word) for word in self._words(node, "count", MOST_CELLS))

    def _of_all(self, node: yaml.Node) -> Text:
        word = self._word(node)
        if word.text != "all":
            raise self._problem(
                word.line, phrase("'of' is {value}.", value=quoted(word.text)), phrase("Write: of: all")
            )
        return word

    def _estimates(self, node: yaml.Node) -> tuple[EstimateItem, ...]:
        if not isinstance(node, yaml.SequenceNode):
            raise self._problem(
                line_of(node),
                phrase("'estimate' is not a list."),
                phrase("Write each one on a line, such as: - share: French"),
            )
        return tuple(map(self._estimate, node.value))

    def _estimate(self, node: yaml.Node) -> EstimateItem:
        others = sorted(set().union(*KINDS.values()))
        items = self._mapping(node, phrase("An estimate"), (*KINDS, *others))
        kinds = [key for key in items if key in KINDS]
        if len(kinds) != 1:
            raise self._problem(
                line_of(node),
                phrase("An estimate has one kind, and this has {count}.", count=len(kinds)),
                phrase("Write each one on a line, such as: - share: French. Kinds: {kinds}", kinds=listed(KINDS)),
            )
        (kind,) = kinds
        self._verify_fits(kind, items, line_of(node))
        return EstimateItem(
            kind=kind,
            line=line_of(node),
            part=self._words(items[kind], kind, MOST_CELLS),
            of=self._given(items, "of", lambda each: self._words(each, "of", MOST_CELLS), ()),
            reference=self._given(items, "reference", lambda each: self._select(each, "reference"), ()),
            event=self._given(items, "event", self._condition, None),
            against=self._given(items, "against", lambda each: self._words(each, "against", MOST_CELLS), ()),
            over=self._given(items, "over", self._word, None),
            weights=self._given(items, "weights", lambda each: self._numbers(each, "weights", least=Fraction(0)), ()),
            scores=self._given(items, "scores", lambda each: self._numbers(each, "scores"), ()),
        )

    def _verify_fits(self, kind: str, items: Mapping[str, yaml.Node], line: int) -> None:
        for key in items:
            if key not in {kind, *KINDS[kind]}:
                raise self._problem(
                    line_of(items[key]),
                    phrase("{kind} takes no '{key}'.", kind=quoted(kind), key=key),
                    phrase("It takes: {keys}", keys=listed(sorted(KINDS[kind]))),
                )
        for key in _NEEDED.get(kind, ()):
            if key not in items:
                raise self._problem(
                    line, phrase("{kind} needs '{key}'.", kind=quoted(kind), key=key), texts.EXAMPLES[key]
                )

    def _expect(self, node: yaml.Node, by: Sequence[Split]) -> Expectation:
        items = self._mapping(node, "'expect'", EXPECT_KEYS)
        for key in ("people", "share"):
            if key not in items:
                raise self._problem(
                    line_of(node),
                    phrase("'expect' does not say '{key}'.", key=key),
                    phrase(
                        "Write how many people, and what share of them, you expect in each group: people: 3000, share: 0.05."
                    ),
                )
        return Expectation(
            line=line_of(node),
            people=self._whole(items["people"], "people", 0, _MOST_PEOPLE),
            share=self._shares(items["share"]),
            event=self._given(items, "event", lambda each: self._share(each, "event"), None),
            groups=self._given(items, "groups", lambda each: self._expected_groups(each, by), ()),
        )

    def _expected_groups(self, node: yaml.Node, by: Sequence[Split]) -> tuple[ExpectedGroups, ...]:
        if not isinstance(node, yaml.SequenceNode):
            raise self._problem(
                line_of(node),
                phrase("'groups' is not a list."),
                phrase("Write an entry for each exception: - age: 65+, below it people: 3000."),
            )
        names = [split.name.text for split in by]
        return tuple(self._expected_group(each, names) for each in node.value)

    def _expected_group(self, node: yaml.Node, names: Sequence[str]) -> ExpectedGroups:
        items = self._mapping(node, phrase("An entry of 'groups'"), (*names, *_GROUP_EXPECT_KEYS))
        return ExpectedGroups(
            select=tuple(
                (Text(name, line_of(items[name])), self._word(items[name])) for name in names if name in items
            ),
            line=line_of(node),
            people=self._given(items, "people", lambda each: self._whole(each, "people", 0, _MOST_PEOPLE), None),
            share=self._given(items, "share", self._shares, None),
        )

    def _shares(self, node: yaml.Node) -> Mapping[str, Fraction]:
        """A share by the name of its cell; under an empty name one for whatever is estimated."""
        if isinstance(node, yaml.MappingNode):
            return {name.text: self._share(value, name.text) for name, value in self._named(node, "share", MOST_CELLS)}
        return {"": self._share(node, "share")}

    def _select(self, node: yaml.Node, what: str) -> Select:
        if isinstance(node, yaml.ScalarNode):
            # Where there is one entry of `by`, its name need not be said.
            return ((Text("", line_of(node)), self._word(node)),)
        return tuple((name, self._word(value)) for name, value in self._named(node, what, MAX_GROUPS))

    # --- values ----------------------------------------------------------------------------------------------------

    def _mapping(self, node: yaml.Node, what: str, keys: Sequence[str]) -> dict[str, yaml.Node]:
        """The entries of a mapping whose keys are known."""
        if not isinstance(node, yaml.MappingNode):
            raise self._problem(
                line_of(node),
                phrase("{what} is not a list of keys with values.", what=what),
                phrase("Write KEY: VALUE lines. Keys: {keys}", keys=_all(keys)),
            )
        items: dict[str, yaml.Node] = {}
        for key, value in node.value:
            name = self._word(key)
            if name.text not in keys:
                raise self._problem(
                    name.line,
                    phrase("{what} has no key {key}.", what=what, key=quoted(name.text)),
                    phrase("Did you mean: {nearest}? Keys: {keys}", nearest=nearest(name.text, keys), keys=_all(keys)),
                )
            self._verify_new(name, items)
            items[name.text] = value
        return items

    def _named(self, node: yaml.Node, what: str, most: int) -> list[tuple[Text, yaml.Node]]:
        """The entries of a mapping whose keys are names of the author's."""
        if not isinstance(node, yaml.MappingNode) or not node.value:
            raise self._problem(
                line_of(node),
                phrase("{what} has no names with values.", what=quoted(what)),
                phrase("Write NAME: VALUE, each on a line of its own."),
            )
        self._verify_number(node, what, most)
        found: dict[str, tuple[Text, yaml.Node]] = {}
        for key, value in node.value:
            name = self._name(key)
            self._verify_new(name, found)
            found[name.text] = (name, value)
        return list(found.values())

    def _verify_new(self, name: Text, items: Iterable[str]) -> None:
        if name.text in items:
            raise self._problem(
                name.line,
                phrase("{name} is listed twice.", name=quoted(name.text)),
                phrase("Remove or rename one of them."),
            )

    def _verify_number(self, node: yaml.MappingNode | yaml.SequenceNode, what: str, most: int) -> None:
        if len(node.value) > most:
            raise self._problem(
                line_of(node),
                phrase(
                    "{what} has {count} entries, and may have {most}.",
                    what=quoted(what),
                    count=len(node.value),
                    most=most,
                ),
                phrase("Put some of them together."),
            )

    def _words(self, node: yaml.Node, what: str, most: int) -> tuple[Text, ...]:
        """One word, or a list of them."""
        if isinstance(node, yaml.SequenceNode) and node.value:
            self._verify_number(node, what, most)
            return tuple(map(self._word, node.value))
        return (self._word(node),)

    def _word(self, node: yaml.Node) -> Text:
        if not isinstance(node, yaml.ScalarNode) or not node.value.strip():
            raise self._problem(
                line_of(node),
                phrase("A word is missing here."),
                phrase("Write one value; put it into double quotes if it has a colon in it."),
            )
        return Text(node.value.strip(), line_of(node))

    def _condition(self, node: yaml.Node) -> Text:
        """A condition may stand on several lines."""
        return self._word(node)

    def _name(self, node: yaml.Node, most: int = _MAX_NAME_CHARACTERS) -> Text:
        word = self._word(node)
        if len(word.text) > most or not word.text.isprintable():
            raise self._problem(
                word.line,
                phrase("The name {name} is too long or not printable.", name=quoted(word.text)),
                phrase("Use up to {most} characters.", most=most),
            )
        return word

    def _title(self, node: yaml.Node) -> str:
        return self._name(node, _MAX_TITLE_CHARACTERS).text

    def _whole(self, node: yaml.Node, what: str, least: int, most: int) -> int:
        word = self._word(node)
        if not _INTEGER.fullmatch(word.text) or not least <= int(word.text) <= most:
            raise self._problem(
                word.line,
                phrase("{what} is {value}.", what=quoted(what), value=quoted(word.text)),
                phrase("Write a whole number from {least} to {most}, in digits alone.", least=least, most=most),
            )
        return int(word.text)

    def _number(self, node: yaml.Node, what: str, least: Fraction | None) -> Fraction:
        word = self._word(node)
        if not _NUMBER.fullmatch(word.text) or (least is not None and Fraction(word.text) < least):
            raise self._problem(
                word.line,
                phrase("{what} holds {value}.", what=quoted(what), value=quoted(word.text)),
                phrase("Write a number such as 0.25 or 3.")
                if least is None
                else phrase("Write a number such as 0.25 or 3, not below zero."),
            )
        return Fraction(word.text)

    def _numbers(self, node: yaml.Node, what: str, least: Fraction | None = None) -> tuple[Fraction, ...]:
        if not isinstance(node, yaml.SequenceNode) or not node.value:
            raise self._problem(
                line_of(node),
                phrase("{what} is not a list of numbers.", what=quoted(what)),
                phrase("Write [0.3, 0.4, 0.3], one for each group."),
            )
        self._verify_number(node, what, MAX_GROUPS)
        return tuple(self._number(each, what, least) for each in node.value)

    def _share(self, node: yaml.Node, what: str) -> Fraction:
        word = self._word(node)
        if not _NUMBER.fullmatch(word.text) or not 0 <= Fraction(word.text) <= 1:
            raise self._problem(
                word.line,
                phrase("{what} is {value}.", what=quoted(what), value=quoted(word.text)),
                phrase("Write a share between 0 and 1, such as 0.05."),
            )
        return Fraction(word.text)

    def _fraction(self, node: yaml.Node) -> int:
        word = self._word(node)
        millionths = Fraction(word.text) * WHOLE_MILLIONTHS if _NUMBER.fullmatch(word.text) else Fraction(0)
        if not 1 <= millionths <= WHOLE_MILLIONTHS or millionths.denominator != 1:
            raise self._problem(
                word.line,
                phrase("'fraction' is {value}.", value=quoted(word.text)),
                phrase("Write a number between 0.000001 and 1 with at most six decimals, such as 0.25."),
            )
        return int(millionths)

    def _given(
        self, items: Mapping[str, yaml.Node], key: str, read: Callable[[yaml.Node], ValueT], otherwise: Any
    ) -> Any:
        return read(items[key]) if key in items else otherwise

    def _problem(self, line: int, problem: str, remedy: str) -> InvalidRequestError:
        return problem_at(self._file, line, problem, remedy)


def error_within(file: str, what: Text, name: str, error: InvalidRequestError) -> InvalidRequestError:
    """An error of a condition or a question, as one of this line of the file."""
    problem = phrase("{name}: {problem}", name=quoted(name), problem=phrase_of(error))
    return problem_at(file, what.line, problem, hint_of(error))


def quoted(word: str) -> str:
    """The author's word in a sentence; with quotes no catalogue takes it for a word of ours."""
    return f"'{shown(word)}'"


def _all(keys: Sequence[str]) -> str:
    return ", ".join(keys)
