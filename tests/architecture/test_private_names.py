"""Tests put nothing in the place of a private name: a fault comes through a seam that the product has.

A seam is a parameter, a clock, the connection of a store (`fakes/connections.py`), a call of the operating system, or a
public function. A private name may be renamed or inlined by anybody, and a test that replaces it would then test nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
# Constants in capitals may be made smaller: they are sizes and durations, not behaviour.
PRIVATE = re.compile(r"(?:\A|\.)_[a-z]\w*\Z")
REPLACING = {"setattr", "delattr", "object", "patch"}
# Reasons by file: why it may do what no other may.
# A file without a text like these has nothing to find, and need not be parsed.
POSSIBLE = re.compile(r"(?<!\bself)(?<!\bcls)\._[a-z]|['\"]_[a-z]")
EXCEPTIONS = {
    "fakes/cards.py": "a copy of an object of its own class",
    "protocol/pair.py": "the limits of a node change while it serves",
    "fuzz/test_rpcs.py": "the limits of a node change while it serves",
}


def replacing_calls(tree: ast.AST) -> Iterator[ast.AST]:
    """Calls that replace an attribute that they name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            names = [each.value for each in node.args[:2] if isinstance(each, ast.Constant)]
            if called in REPLACING and any(isinstance(name, str) and PRIVATE.search(name) for name in names):
                yield node


def assignments(tree: ast.AST) -> Iterator[ast.AST]:
    """Assignments to private attributes of something else than `self` or `cls`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            if PRIVATE.search(node.attr) and owner not in {"self", "cls"}:
                yield node


def replaced(source: str) -> list[str]:
    """The places at which something takes the place of a private name."""
    if not POSSIBLE.search(source):
        return []
    tree = ast.parse(source)
    return [ast.unparse(node) for rule in (replacing_calls, assignments) for node in rule(tree)]


def test_nothing_takes_the_place_of_a_private_name() -> None:
    """Not by `setattr`, not by an assignment; exceptions that nobody needs any more are removed."""
    found = {str(path.relative_to(TESTS)): replaced(path.read_text("utf-8")) for path in sorted(TESTS.rglob("*.py"))}
    assert {name: calls for name, calls in found.items() if calls and name not in EXCEPTIONS} == {}
    assert [name for name in EXCEPTIONS if not found.get(name)] == []


@pytest.mark.parametrize(
    "source",
    [
        "monkeypatch.setattr(Journal, '_commit', commit)",
        "patch.setattr('health_node.witness._round', never)",
        "mock.patch.object(journal, '_begin', busy)",
        "delattr(node, '_store')",
        "journal._begin = busy",
        "world.node._clock: Clock = FakeClock()",
        "del node._store",
        "node._count += 1",
    ],
)
def test_what_is_forbidden_is_found(source: str) -> None:
    """The rule above does not pass because it sees nothing."""
    assert len(replaced(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "patch.setattr(journal, '_MOST_NOTES', 2)",
        "patch.setattr(os, 'fsync', failing)",
        "self._seen = 1",
        "Node._state",
    ],
)
def test_what_is_allowed_is_not_found(source: str) -> None:
    """Constants, public names, an object's own attributes, and reading."""
    assert replaced(source) == []
