"""The product's modules, parsed once for all tests of this folder."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("broker_common", "census_node", "deploy", "health_node", "policy_lab", "researcher_node")


@cache
def modules(*packages: str) -> tuple[Path, ...]:
    """Source files of these packages, generated code excluded; without a name, of all packages."""
    return tuple(sorted(path for package in packages or PACKAGES for path in (ROOT / package).rglob("*.py")))


@contextmanager
def without_collector() -> Iterator[None]:
    """Many nodes are made here: the collector would walk through them again and again."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@cache
def _parsed() -> dict[Path, tuple[ast.AST, ...]]:
    with without_collector():
        return {path: tuple(ast.walk(ast.parse(path.read_text("utf-8")))) for path in modules()}


def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a module's tree, outer ones before those in them."""
    return _parsed()[path]


def tree_of(path: Path) -> ast.Module:
    """The tree of a module."""
    tree = _parsed()[path][0]
    assert isinstance(tree, ast.Module)
    return tree
