"""Reading the run file, as a methodologist types it: every error names its line, and what to type instead."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from broker_common.language import phrase
from broker_common.storage.lined_text import line_of
from policy_lab.evaluate.lined import MOST_BYTES, LinedFile, Word, quoted
from policy_lab.evaluate.run import (
    ALONG,
    CATEGORY_NOISE,
    NEIGHBOURS,
    NUMBER_NOISE,
    PLACES,
    QUERIES,
    Column,
    Mechanism,
    Place,
    Query,
    RunFile,
    Strata,
    Weights,
)
from policy_lab.mechanisms.limits import LEAST_EPSILON, MOST_EPSILON
from policy_lab.mechanisms.neighbours import Neighbours
from policy_lab.standing import DECLARABLE, Standing

_MOST_EPSILONS = 20
_DELTAS = (1e-30, 0.1)
_MOST_REPETITIONS = 1000
_MOST_CELLS = 100_000
_MOST_SEED = 2**63 - 1
_MOST = 1e15
_LEAST = 1e-9

EXAMPLES = Path(__file__).parents[1] / "examples"
"""Files that come with the lab."""
EXAMPLE_RUN = EXAMPLES / "evaluate" / "run.yaml"
_EXAMPLE = "example:"

_NOISED = ("dynamic", "all")
PROFILE = "as-published"
_KEYS = (
    *("profile", "title", "data", "standing", "seed", "repetitions", "epsilons", "delta", "neighbours", "weights"),
    *("strata", "static", "dynamic", "queries", "mechanisms"),
)
_MECHANISM_KEYS = ("categories", "numbers", "along", "noise")


def read_run_file(path: Path) -> RunFile:
    """The run file.

    Raises:
        InvalidRequestError: RUN_INVALID, with the line; FILE_UNUSABLE.
    """
    with path.open("rb") as file:
        # A truncated text is longer than a run file may be.
        content = file.read(MOST_BYTES)
    lined = LinedFile(path.name)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise lined.problem(line, phrase("This is not UTF-8 text."), phrase("Save the file as UTF-8.")) from None
    return _Reader(lined, path, hashlib.sha256(content).hexdigest()).run(text)


class _Reader:
    """Reads one run file."""

    def __init__(self, lined: LinedFile, path: Path, digest: str) -> None:
        self._file = lined
        self._path = path
        self._digest = digest

    def run(self, text: str) -> RunFile:
        file = self._file
        items = file.keys(file.parse(text), phrase("The file"), _KEYS)
        last = text.count("\n") + 1
        profile = file.choice(items["profile"], phrase("profile"), [PROFILE]) if "profile" in items else ""

        def needed(key: str, example: str) -> yaml.Node:
            return file.needed(items, key, last, example)

        data = file.word(needed("data", "data: people.csv"))
        columns = () if profile and "dynamic" not in items else self._columns(items, needed("dynamic", "dynamic: ..."))
        delta = file.number(items["delta"], "delta", _DELTAS) if "delta" in items else None
        return RunFile(
            path=self._path,
            digest=self._digest,
            title=file.word(items["title"]).text if "title" in items else self._path.stem,
            data=self._data(data),
            data_line=data.line,
            standing=self._standing(items),
            seed=file.whole(needed("seed", "seed: 1"), "seed", 0, _MOST_SEED),
            repetitions=file.whole(needed("repetitions", "repetitions: 5"), "repetitions", 1, _MOST_REPETITIONS),
            epsilons=self._epsilons(needed("epsilons", "epsilons: [0.5, 1, 3]")),
            delta=delta,
            neighbours=self._neighbours(items),
            weights=self._weights(items["weights"]) if "weights" in items else None,
            strata=self._strata(items["strata"]) if "strata" in items else None,
            columns=columns,
            queries=self._queries(items),
            mechanisms=()
            if profile and "mechanisms" not in items
            else self._mechanisms(needed("mechanisms", "mechanisms: [global]"), columns, items),
            profile=profile,
        )

    def _data(self, name: Word) -> Path:
        """The data file; one that is missing is said when it is read."""
        path = _data_path(self._path, name.text)
        if path.exists() and not path.is_file():
            # A device or a pipe may never end, and is read twice.
            raise self._file.problem(
                name.line,
                phrase("{file} is no regular file.", file=quoted(name.text)),
                phrase("Name a file that lies on a disk; what comes out of a pipe is saved first."),
            )
        return path

    def _standing(self, items: Mapping[str, yaml.Node]) -> Standing:
        known = [each.value for each in DECLARABLE]
        if "standing" not in items:
            return Standing.INTERNAL
        return Standing(self._file.choice(items["standing"], phrase("standing"), known))

    def _neighbours(self, items: Mapping[str, yaml.Node]) -> Neighbours:
        if "neighbours" not in items:
            return Neighbours.ADDED
        return NEIGHBOURS[self._file.choice(items["neighbours"], phrase("neighbour relation"), NEIGHBOURS)]

    def _queries(self, items: Mapping[str, yaml.Node]) -> tuple[Query, ...]:
        if "queries" not in items:
            return QUERIES
        words = self._file.words(items["queries"], "queries")
        for word in words:
            if word.text not in QUERIES:
                raise self._file.unknown(phrase("query"), word, QUERIES)
        return tuple(query for query in QUERIES if query in {word.text for word in words})

    def _epsilons(self, node: yaml.Node) -> tuple[float, ...]:
        nodes = self._file.items(node, "epsilons") if isinstance(node, yaml.SequenceNode) else (node,)
        values = [self._file.number(each, "epsilon", (LEAST_EPSILON, MOST_EPSILON)) for each in nodes]
        if len(values) > _MOST_EPSILONS:
            problem = phrase("There are more than {most} epsilons.", most=_MOST_EPSILONS)
            raise self._file.problem(line_of(node), problem, phrase("Leave some of them out."))
        for place, value in enumerate(values):
            if value in values[:place]:
                problem = phrase("The epsilon {epsilon} is listed twice.", epsilon=f"{value:.12g}")
                raise self._file.problem(line_of(nodes[place]), problem, phrase("Write each epsilon once."))
        return tuple(sorted(values))

    def _weights(self, node: yaml.Node) -> Weights:
        items = self._file.keys(node, "weights", ("column", "cap", "multiplier"))
        line = line_of(node)
        column = self._file.word(self._file.needed(items, "column", line, "column: weight"))
        cap = self._file.number(self._file.needed(items, "cap", line, "cap: 2500"), "cap", (_LEAST, _MOST))
        one = self._file.number(items["multiplier"], "multiplier", (_LEAST, _MOST)) if "multiplier" in items else 1.0
        return Weights(column, cap, one)

    def _strata(self, node: yaml.Node) -> Strata:
        items = self._file.keys(node, "strata", ("column", "values"))
        line = line_of(node)
        return Strata(
            self._file.word(self._file.needed(items, "column", line, "column: province")),
            self._file.words(self._file.needed(items, "values", line, "values: [east, west]"), "values"),
        )

    # --- columns ----------------------------------------------------------------------------------------------------

    def _columns(self, items: Mapping[str, yaml.Node], dynamic: yaml.Node) -> tuple[Column, ...]:
        found: dict[str, Column] = {}
        parts = [(items["static"], True)] if "static" in items else []
        for node, is_static in [*parts, (dynamic, False)]:
            for name, value in self._file.named(node, phrase("A list of columns")):
                self._file.verify_new(name, found)
                found[name.text] = self._column(name, value, is_static=is_static)
        return tuple(found.values())

    def _column(self, name: Word, node: yaml.Node, *, is_static: bool) -> Column:
        items = self._file.keys(node, quoted_column(name), ("categories", "low", "high", "not_stated"))
        if "categories" in items:
            return self._category_column(name, items, is_static=is_static)
        line = line_of(node)
        for key in ("low", "high"):
            self._file.needed(items, key, line, "categories: [yes, no]; low: 0, high: 250")
        low = self._file.number(items["low"], "low", (-_MOST, _MOST))
        high = self._file.number(items["high"], "high", (-_MOST, _MOST))
        if not low < high:
            raise self._file.problem(
                line_of(items["high"]),
                phrase("The bounds of {column} do not ascend.", column=quoted_column(name)),
                phrase("Write the smallest possible number as low and the largest as high."),
            )
        codes = self._file.words(items["not_stated"], "not_stated") if "not_stated" in items else ()
        for code in codes:
            self._verify_code(code)
        return Column(name, is_static, (), low, high, frozenset(code.text for code in codes))

    def _verify_code(self, code: Word) -> None:
        try:
            float(code.text)
        except ValueError:
            raise self._file.problem(
                code.line,
                phrase("{word} is no number.", word=f"'{code.text[:40]}'"),
                phrase("Write the codes that stand for no number; an empty cell is one without being named."),
            ) from None

    def _category_column(self, name: Word, items: Mapping[str, yaml.Node], *, is_static: bool) -> Column:
        for key in ("low", "high", "not_stated"):
            if key in items:
                raise self._file.problem(
                    line_of(items[key]),
                    phrase("{column} has categories and so no '{key}'.", column=quoted_column(name), key=key),
                    phrase("Keep the categories, or the bounds. A code for 'not stated' is a category of its own."),
                )
        categories = self._file.words(items["categories"], "categories")
        if len(categories) == 1:
            raise self._file.problem(
                line_of(items["categories"]),
                phrase("{column} has one category: there is nothing to ask.", column=quoted_column(name)),
                phrase("Name every category that somebody may have."),
            )
        return Column(name, is_static, categories)

    # --- mechanisms -------------------------------------------------------------------------------------------------

    def _mechanisms(
        self, node: yaml.Node, columns: Sequence[Column], items: Mapping[str, yaml.Node]
    ) -> tuple[Mechanism, ...]:
        found: dict[str, Mechanism] = {}
        for each in self._file.items(node, "mechanisms"):
            mechanism = self._mechanism(each, columns)
            self._file.verify_new(Word(mechanism.key, mechanism.line), found)
            found[mechanism.key] = mechanism
            self._verify_cells(mechanism, columns, items)
            if mechanism.place == "shuffled" and "delta" not in items:
                raise self._file.problem(
                    mechanism.line,
                    phrase("Shuffling promises nothing without a delta."),
                    phrase("Write, such as: delta: 1e-6"),
                )
            if mechanism.along == "weight" and "weights" not in items:
                raise self._file.problem(
                    mechanism.line,
                    phrase("There are no weights that could travel along."),
                    phrase("Write 'weights', or another 'along'."),
                )
        return tuple(found.values())

    def _verify_cells(self, mechanism: Mechanism, columns: Sequence[Column], items: Mapping[str, yaml.Node]) -> None:
        """Return only if something is asked, and not more than anybody reads."""
        queries = self._queries(items)
        strata = len(self._strata(items["strata"]).values) if "strata" in items else 1
        cells = strata * sum(
            len(column.categories) or 1
            for column in columns
            for query in queries
            if (query == "count") == column.is_category and (mechanism.also_static or not column.is_static)
        )
        if not cells:
            raise self._file.problem(
                line_of(items.get("queries", items["dynamic"])),
                phrase("No query fits a column: categories are counted, numbers are added up or averaged."),
                phrase("Add a query or a column."),
            )
        if cells > _MOST_CELLS:
            raise self._file.problem(
                mechanism.line,
                phrase("This mechanism would answer {cells} cells, more than {most}.", cells=cells, most=_MOST_CELLS),
                phrase("Name fewer strata or categories, or make several run files."),
            )

    def _mechanism(self, node: yaml.Node, columns: Sequence[Column]) -> Mechanism:
        options: dict[str, yaml.Node] = {}
        name: Word
        if isinstance(node, yaml.MappingNode) and len(node.value) == 1:
            ((name, value),) = self._file.named(node, phrase("A mechanism"))
            self._verify_place(name)
            options = self._file.keys(value, quoted_column(name), _MECHANISM_KEYS)
        else:
            name = self._file.word(node)
            self._verify_place(name)
        place = next(each for each in PLACES if each == name.text)
        chosen = {
            key: self._file.choice(
                options[key], phrase("mechanism") if key in {"categories", "numbers"} else key, known
            )
            for key, known in zip(_MECHANISM_KEYS, (CATEGORY_NOISE, NUMBER_NOISE, ALONG, _NOISED), strict=True)
            if key in options
        }
        also_static = chosen.get("noise") == "all"
        self._verify_options(name, place, options, chosen)
        has_numbers = any(not column.is_category and (also_static or not column.is_static) for column in columns)
        if place != "global" and has_numbers and "numbers" not in chosen:
            raise self._file.problem(
                name.line,
                phrase("{name} says no mechanism for numbers.", name=quoted_column(name)),
                phrase("Write, such as: - {name}: {{numbers: truncated}}", name=name.text),
            )
        return Mechanism(
            place,
            name.line,
            numbers=chosen.get("numbers", "") if has_numbers else "",
            along=next(each for each in ALONG if each == chosen.get("along", "nothing")),
            also_static=also_static,
        )

    def _verify_place(self, name: Word) -> None:
        if name.text not in PLACES:
            raise self._file.unknown(phrase("mechanism"), name, (*PLACES, *CATEGORY_NOISE, *NUMBER_NOISE))

    def _verify_options(
        self, name: Word, place: Place, options: Mapping[str, yaml.Node], chosen: Mapping[str, str]
    ) -> None:
        refused = {"global": ("categories", "numbers", "along"), "local": ("along",), "shuffled": ()}[place]
        for key in refused:
            if key in options:
                raise self._file.problem(
                    line_of(options[key]),
                    phrase("{name} takes no '{key}'.", name=quoted_column(name), key=key),
                    phrase(
                        "Remove it: noise on the result is Laplace's, and only shuffled messages travel with something."
                    ),
                )
        if chosen.get("along") == "static" and chosen.get("noise") == "all":
            raise self._file.problem(
                line_of(options["along"]),
                phrase("Static columns cannot be noised and travel along as they are."),
                phrase("Write 'noise: dynamic', or 'along: nothing'."),
            )


def _data_path(run_file: Path, name: str) -> Path:
    """A file reached from the run file's folder, or one that comes with the lab."""
    shipped = EXAMPLES / name.removeprefix(_EXAMPLE)
    if name.startswith(_EXAMPLE) and shipped.resolve().is_relative_to(EXAMPLES.resolve()):
        return shipped
    return run_file.parent / name


def quoted_column(name: Word) -> str:
    """A name of the author's in a sentence."""
    return f"'{name.text[:80]}'"
