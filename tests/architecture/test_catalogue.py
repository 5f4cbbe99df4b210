"""The catalogue is whole: every text that is shown in the reader's language has its French, with the same names in it."""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import get_args

import jinja2
import pytest
from architecture.sources import PACKAGES, modules, nodes_of
from jinja2 import nodes

from broker_common.audit import texts as audit_texts
from broker_common.audit.codes import CODES, PENDING
from broker_common.cli import LIBRARY_SENTENCES
from broker_common.commands import texts as command_texts
from broker_common.crypto.cards import PURPOSES
from broker_common.doctor import texts as doctor_texts
from broker_common.errors import REASONS
from broker_common.interrupts import HINT
from broker_common.language import language
from broker_common.privacy.policy import Accounting, Subject
from broker_common.query.dictionary import ColumnType
from broker_common.query.dictionary_changes import EFFECTS
from broker_common.storage.dictionary.file import KINDS
from census_node import texts as census_texts
from census_node.linking import texts as linking_texts
from deploy import texts as deploy_texts
from health_node import texts as health_texts
from policy_lab.assessment import texts as assessment_texts
from policy_lab.document import texts as document_texts
from policy_lab.evaluate import texts as evaluate_texts
from policy_lab.sensitivity import texts as sensitivity_texts
from policy_lab.site import texts as site_texts
from policy_lab.survey import texts as survey_texts
from policy_lab.tables import texts as table_texts
from researcher_node import texts as researcher_texts
from researcher_node.answers.selection import STATES
from researcher_node.estimates import texts as estimate_texts
from researcher_node.estimates.tables import METHODS
from researcher_node.study import texts as study_texts
from researcher_node.trust.checking import Outcome

ROOT = Path(__file__).parents[2]
TEXTS = (
    *(
        assessment_texts,
        audit_texts,
        command_texts,
        census_texts,
        deploy_texts,
        doctor_texts,
        document_texts,
        evaluate_texts,
        health_texts,
        linking_texts,
        researcher_texts,
        sensitivity_texts,
        site_texts,
        estimate_texts,
        study_texts,
        survey_texts,
        table_texts,
    ),
)
# Help of commands is English, as the library's own words in it are; lines of a log and what a log holds are English, too.
ENGLISH = {
    audit_texts: {"ROW"},
    census_texts: {"NO_REASON"},
    health_texts: {"DISAGREE", "DISAGREED", "DISAGREE_REMEDY", "LATE", "LATE_REMEDY", "ROSTER_WAITS"},
}
# Names of a language where texts are made: `t(...)`; `said(...)` in commands; `phrase(...)` where they are shown later.
SPEAKERS = {"t", "tongue", "phrase", "said", "self"}
COUNTERS = {"t", "tongue"}
PRINTERS = {"say", "_say", "emit", "emit_failing", "echo"}
# Said through a variable: roles, accountings, states, kinds of keys, lengths of time.
WORDS = {
    *(
        "auditor",
        "census",
        "health",
        "researcher",
        "dashboard",
        "operator",
        "serving",
        "shutdown",
        "line",
        "row",
        "French",
        HINT,
        "The home is {home}.",
    ),
    # Texts of a dictionary.
    *("agency", "code", "description", "label"),
    *EFFECTS.values(),
    *KINDS.values(),
    *("in use", "next", "honoured", "ended", "yes", "no"),
    *("Making up people", "Loading health data and the census registry"),
    *get_args(Accounting),
    *get_args(Subject),
    *STATES,
    *METHODS,
    *LIBRARY_SENTENCES,
    *(outcome.value for outcome in Outcome),
    *(kind.value for kind in ColumnType),
    *(purpose for purposes in PURPOSES.values() for purpose in purposes),
    *("1 day", "{n} days", "1 hour", "{n} hours", "1 minute", "{n} minutes", "1 second", "{n} seconds"),
}


def in_code(path: Path) -> Iterator[str]:
    """Every literal text that a module speaks."""
    for node in nodes_of(path):
        if not isinstance(node, ast.Call):
            continue
        function, texts = node.func, []
        if isinstance(function, ast.Name) and function.id in SPEAKERS:
            texts = node.args[:1]
        elif (
            isinstance(function, ast.Attribute)
            and function.attr == "count"
            and isinstance(function.value, ast.Name)
            and function.value.id in COUNTERS
        ):
            texts = node.args[1:3]
        yield from (each.value for each in texts if isinstance(each, ast.Constant) and isinstance(each.value, str))


def in_template(path: Path) -> Iterator[str]:
    """Every literal text that a template speaks, in both branches of a choice and in both numbers."""
    for call in jinja2.Environment(autoescape=True).parse(path.read_text("utf-8")).find_all(nodes.Call):
        said: list[nodes.Expr] = []
        if isinstance(call.node, nodes.Name) and call.node.name == "t":
            said = call.args[:1]
        elif isinstance(call.node, nodes.Getattr) and call.node.attr == "count":
            said = call.args[1:3]
        for argument in said:
            yield from (
                str(each.value) for each in [argument, *argument.find_all(nodes.Const)] if isinstance(each, nodes.Const)
            )


def in_texts(texts: ModuleType) -> Iterator[str]:
    """Every text of a module of texts but help and what stays English."""
    for name, value in vars(texts).items():
        if name.isupper() and "HELP" not in name and name not in ENGLISH.get(texts, ()):
            yield from strings_in(value)


def strings_in(value: object) -> Iterator[str]:
    """A text, or the texts of a table."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | tuple):
        for each in value.values() if isinstance(value, dict) else value:
            yield from strings_in(each)


def has_words(text: str) -> bool:
    """Whether there is anything to translate between the names in braces."""
    return any(re.search(r"[^\W\d_]", words) for words, *_ in string.Formatter().parse(text))


def sources() -> Iterator[Path]:
    """Every module that speaks to somebody. `attack` is a tool for testers of a deployment, and speaks English alone."""
    yield from (path for path in modules() if "attack" not in str(path.relative_to(ROOT)))


@cache
def spoken() -> frozenset[str]:
    """Every text that has to be in the catalogue."""
    found = WORDS | set(CODES.values()) | set(PENDING.values())
    found.update(text for reason in REASONS.values() for text in (reason.text, reason.hint))
    for texts in TEXTS:
        found.update(in_texts(texts))
    for path in sources():
        found.update(in_code(path))
    for package in PACKAGES:
        for path in (ROOT / package).rglob("templates/*.html"):
            found.update(in_template(path))
    return frozenset(found)


FRENCH = language("fr").catalogue


def names_in(text: str) -> set[str]:
    """The names that a text has in braces."""
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def test_texts_are_found() -> None:
    """The search itself works: it knows texts of code, of templates, of commands, of both branches and of both numbers."""
    assert {
        "The node's process is not running.",
        "Skip to the content",
        "The promise holds",
        "Look at this at once",
        "{n} answers have been charged, {units} units in all.",
        "NOT VERIFIED: {n} problem",
        "Shut down by the operator",
        "Nothing has been asked yet.",
        "census node ready on {address}",
        "{role} node is back",
    } <= spoken()


def test_every_text_has_its_french() -> None:
    """None is shown in English on a French page or terminal."""
    assert [text for text in sorted(spoken()) if text not in FRENCH and has_words(text)] == []


def test_the_catalogue_holds_nothing_else() -> None:
    """A text that is spoken no more leaves the catalogue as well."""
    assert sorted(set(FRENCH) - spoken()) == []


@pytest.mark.parametrize("texts", [census_texts, health_texts, researcher_texts])
def test_a_node_says_ready_and_where_in_every_language(texts: ModuleType) -> None:
    """Scripts wait for the word, and take the address from the end of the line."""
    assert "ready" in texts.READY
    assert "ready" in FRENCH[texts.READY]
    assert FRENCH[texts.READY].endswith(" {address}")


def spoken_directly(path: Path) -> Iterator[str]:
    """Where a command fills in or prints a text itself, so that nobody reads it in French."""
    for node in nodes_of(path):
        if (
            isinstance(node, ast.FormattedValue)
            and is_text(node.value)
            and ast.unparse(node.value) != "texts.OVERDUE_MARK"
        ):
            yield f"{path.relative_to(ROOT)}:{node.lineno}"
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
        is_filled = isinstance(function, ast.Attribute) and name in {"format", "format_map"} and is_text(function.value)
        is_printed = name in PRINTERS and any(
            is_text(each) or any(map(has_words, literals(each))) for each in node.args
        )
        if is_printed or (is_filled and "texts.ROW" not in ast.unparse(function)):
            yield f"{path.relative_to(ROOT)}:{node.lineno}"


def literals(node: ast.AST) -> Iterator[str]:
    """Literal parts of a string, or of a string with values in it."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    yield from (part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str))


def is_text(node: ast.AST) -> bool:
    """Whether this is a text of a module of texts, or of a table in it."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id.endswith("texts")


def test_no_command_prints_a_text_that_bypasses_the_catalogue() -> None:
    """Printed and filled-in texts go through `said`, `phrase` or a `Language`."""
    assert [place for path in sources() for place in spoken_directly(path)] == []


def test_names_in_a_text_are_those_of_its_french() -> None:
    """A name that is missing would lose a figure, one that is new would be an error on the page."""
    assert [text for text, french in FRENCH.items() if names_in(french) != names_in(text)] == []


def is_set_as_french(text: str) -> bool:
    """No straight apostrophe inside a word, and no space that may break before a colon, a percent sign or a quotation's end."""
    return not re.search(r"\w'\w|« ", text) and not any(f" {mark}" in text.strip() for mark in ":;%»?!")


def test_french_is_set_as_french() -> None:
    """Every text is typeset as French is."""
    assert [text for text in FRENCH.values() if not is_set_as_french(text)] == []


@pytest.mark.parametrize("text", ["l'autre", "« mot »", "« mot\u202f»", "mot : autre", "5 %", "Qui ?"])
def test_what_is_not_set_as_french_is_found(text: str) -> None:
    """The search itself works."""
    assert not is_set_as_french(text)
