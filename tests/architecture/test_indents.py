"""Docstrings are indented as help texts need it: what stands further in is printed further in."""

from __future__ import annotations

import ast
import inspect

from architecture.sources import ROOT, modules, nodes_of

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def begins_further_in(docstring: str) -> bool:
    """True when some paragraph begins further in than it goes on."""
    lines = inspect.cleandoc(docstring).splitlines()
    starts = zip(lines, lines[1:], lines[2:], strict=False)
    return any(not before and first[:1] == " " and goes_on[:1].strip() for before, first, goes_on in starts)


def test_no_paragraph_begins_further_in_than_it_goes_on() -> None:
    """`--help` would show it so."""
    found = [
        f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"
        for path in modules()
        for node in nodes_of(path)
        if isinstance(node, DOCUMENTED) and begins_further_in(ast.get_docstring(node, clean=False) or "")
    ]
    assert found == []
