"""Every command that a sentence of ours names exists, with the options that it is named with: a hint must not lead nowhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import click
import pytest
from architecture.sources import ROOT, modules, nodes_of

from broker_common.cli import program
from broker_common.errors import REASONS

DOCUMENTS = sorted(path for path in ROOT.glob("**/*.md") if not {".venv", "build"} & set(path.parts))
# Placeholder for a role in a sentence that is made for several of them.
ANY_ROLE = frozenset({"{role}", "{}"})
# In a sentence: 'tripartite census load', or from the start of a line of its own.
QUOTED = re.compile(r"'([^'\n]+)'")
LINE = re.compile(r"^\s*(?:\$ )?(tripartite .*?)(?:  .*)?$", re.MULTILINE)
CODE = re.compile(r"`([^`\n]+)`")


def children(command: click.Command) -> dict[str, click.Command]:
    """The commands under a group."""
    if not isinstance(command, click.Group):
        return {}
    context = click.Context(command)
    found = {name: command.get_command(context, name) for name in command.list_commands(context)}
    return {name: below for name, below in found.items() if below is not None}


def every_command(command: click.Command = program, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of every command and group."""
    for name, below in children(command).items():
        yield (*path, name)
        yield from every_command(below, (*path, name))


# A sentence may leave out 'tripartite', and the role where it is plain: 'census reopen', 'ask --again'.
BEGINNINGS = {
    name: [path[:-1] for path in every_command() if path[-1] == name] for path in every_command() for name in path
}


def named(text: str) -> Iterator[str]:
    """Every command line that a text names."""
    for found in (*QUOTED.findall(text), *CODE.findall(text)):
        words = found.split()
        if words and (words[0] == "tripartite" or (words[0] in BEGINNINGS and len(words) > 1)):
            yield found
    yield from (line for line in LINE.findall(text))


def problem_of(line: str) -> str:
    """The problem of a command line; empty if the program has such a command with such options."""
    words = line.removesuffix("\\").split()
    beginnings = [()] if words[0] == "tripartite" else BEGINNINGS[words[0]]
    problems = [_problem_from(beginning, words[words[0] == "tripartite" :]) for beginning in beginnings]
    return "" if "" in problems else problems[0]


def _problem_from(beginning: tuple[str, ...], words: list[str]) -> str:
    commands: list[click.Command] = [program]
    for word in beginning:
        commands = [children(commands[0])[word]]
    rest = list(words)
    while rest and all(children(command) for command in commands) and not rest[0].startswith("-"):
        known: dict[str, list[click.Command]] = {}
        for command in commands:
            for name, below in children(command).items():
                known.setdefault(name, []).append(below)
        word = rest.pop(0)
        # Several at once: load|serve.
        names = list(known) if word in ANY_ROLE else word.split("|")
        unknown = [name for name in names if name not in known]
        if unknown:
            return f"there is no command {unknown[0]!r}"
        commands = [below for name in names for below in known[name]]
    options = {option for command in commands for parameter in command.params for option in parameter.opts}
    for word in rest:
        option = word.strip("[]().,;:|").partition("=")[0]
        if option.startswith("-") and option.strip("-") and option not in options | {"--help", "-h", "--version"}:
            return f"{commands[0].name} has no option {option}"
    return ""


def sentences() -> Iterator[tuple[str, str]]:
    """Every text in our code that is no docstring, by where it stands."""
    for path in modules():
        docstrings = {
            id(node.body[0].value)
            for node in nodes_of(path)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and isinstance(node.body[0], ast.Expr)
        }
        for node in nodes_of(path):
            if isinstance(node, ast.JoinedStr):
                parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
                yield f"{path.relative_to(ROOT)}:{node.lineno}", "".join(map(str, parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node.value


def problems(texts: Iterator[tuple[str, str]]) -> list[tuple[str, str, str]]:
    """Where, which line, and what is wrong with it."""
    return [(where, line, problem) for where, text in texts for line in named(text) if (problem := problem_of(line))]


def test_commands_in_the_hint_of_an_error_exist() -> None:
    """Commands in the hint of an error can be run."""
    assert problems((code, said) for code, reason in REASONS.items() for said in (reason.text, reason.hint)) == []


def test_commands_in_every_sentence_of_the_program_exist() -> None:
    """Remedies and texts, wherever they stand in the code, and the help of every command."""
    found = list(sentences())
    assert sum(1 for _, text in found for _ in named(text)) > 20, "the commands in sentences are not found any more"
    assert problems(iter(found)) == []
    helps = []
    for path in every_command():
        command: click.Command = program
        for name in path:
            command = children(command)[name]
        helps.append((" ".join(path), command.help or ""))
    assert problems(iter(helps)) == []


def test_commands_in_documents_exist() -> None:
    """A copied command from a document exists."""
    texts = [(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")) for path in DOCUMENTS]
    assert problems(iter(texts)) == []


@pytest.mark.parametrize(
    "line",
    [
        "tripartite census reload",
        "tripartite cencus load",
        "tripartite census load --hone H",
        "census policy amend",
        "answers --colect",
        "keys rotate --home H --inn 7d",
    ],
)
def test_a_command_that_does_not_exist_is_noticed(line: str) -> None:
    """The test above can fail."""
    assert [problem_of(found) for found in named(f"Run '{line}'.")] != [""]
    assert list(named(f"Run '{line}'.")) == [line]
