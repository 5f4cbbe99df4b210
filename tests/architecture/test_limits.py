"""Limits on every size, count and deadline have a name, and beside the name stands what they are for."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from architecture.sources import ROOT, modules, nodes_of, tree_of

PACKAGES = ("broker_common", "census_node", "health_node", "researcher_node")
LIMIT = re.compile(r"_?(MAX|MOST|LEAST|FEWEST|LARGEST|SMALLEST|TOLERATED)_\w+|\w+_(SECONDS|MS)")
# Arguments that bound something must be given by name.
MODULES = modules(*PACKAGES)
BOUNDS = {"timeout", "max_length", "max_workers", "maxlen", "maximum_concurrent_rpcs"}


def is_number(node: ast.expr | None) -> bool:
    """A literal, or a product or power of literals."""
    if isinstance(node, ast.BinOp):
        return is_number(node.left) and is_number(node.right)
    return isinstance(node, ast.Constant) and type(node.value) in {int, float}


def unexplained(path: Path) -> Iterator[str]:
    """Limits of a module that have neither a comment above them, or above their block, nor a sentence below."""
    lines = path.read_text(encoding="utf-8").splitlines()
    body = tree_of(path).body
    for node, below in zip(body, [*body[1:], None], strict=True):
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if not (isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(target, ast.Name)):
            continue
        if not LIMIT.fullmatch(target.id) or not is_number(node.value):
            continue
        has_sentence = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        at = node.lineno - 2
        while lines[at] and not lines[at].startswith("#") and re.match(r"_?[A-Z]\w+(:.*)? = ", lines[at]):
            at -= 1
        if not (lines[at].startswith("#") or "  # " in lines[node.lineno - 1] or has_sentence):
            yield f"{path.relative_to(ROOT)}:{node.lineno} {target.id}"


def test_every_limit_says_what_it_is_for() -> None:
    """A number that stops somebody can be understood, and changed, by the person it stops."""
    assert [each for path in MODULES for each in unexplained(path)] == []


def test_no_bound_is_a_bare_number() -> None:
    """Deadlines and lengths are given by name: the same one is never written twice."""
    bare = [
        f"{path.relative_to(ROOT)}:{node.lineno} {keyword.arg}"
        for path in MODULES
        for node in nodes_of(path)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg in BOUNDS and is_number(keyword.value)
    ]
    assert bare == []
