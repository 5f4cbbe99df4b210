"""The documents' notebook, their Python and their R lines, against real nodes.

R is not installed where tests run: of its lines the command lines are run that they make, in the words that a shell makes
of them as it does for R, and the figures that they read are looked for in what comes back.
"""

from __future__ import annotations

import ast
import asyncio
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes.deployment import Deployment, make, run_words
from fakes.nursery import PROGRAM

pytestmark = pytest.mark.process

DOCS = Path(__file__).parents[2] / "docs"
USING = (DOCS / "using.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """As `init` makes one: each answer is charged to those in its sample."""
    deployment = make(tmp_path_factory.mktemp("documents") / "deployment", accounting="per_person")
    with deployment.nodes():
        yield deployment


@pytest.fixture(autouse=True)
def _at_home(served: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings that the documents tell their reader to make."""
    monkeypatch.setenv("TRIPARTITE_HOME", str(served.home("researcher")))


def blocks(language: str) -> list[str]:
    """The code of docs/using.md in one language."""
    return re.findall(rf"```{language}\n(.*?)```", USING, re.DOTALL)


def run_cell(code: str, names: dict[str, Any]) -> object:
    """Run a cell as a notebook does, and show its last expression, as text and as HTML."""
    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)  # noqa: S102 - our own document
    if not isinstance(last, ast.Expr):
        return None
    shown: object = eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307 - as above
    assert repr(shown)
    if hasattr(shown, "_repr_html_"):
        assert "<table" in shown._repr_html_()
    return shown


async def test_every_cell_of_the_notebook_runs(served: Deployment) -> None:
    """In order, inside a running event loop as in a notebook; running all of them again charges nothing."""
    notebook = json.loads((DOCS / "notebook.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(cells) > 10
    assert all(cell["outputs"] == [] for cell in notebook["cells"] if cell["cell_type"] == "code")
    assert asyncio.get_running_loop().is_running()
    charged = []
    for _ in range(2):
        names: dict[str, Any] = {}
        shown = [run_cell(cell, names) for cell in cells]
        assert sum(each is not None for each in shown) > 8
        assert [len(names["frame"]), len(names["t"])] == [6, 3]
        charged.append(served.json("census", "status")["answers"])
        assert names["t"]["65 and over"] == names["answer"], "one question, asked once"
    assert charged[0] == charged[1]


def test_the_python_lines_of_the_documents_run(served: Deployment) -> None:
    """As they stand, but for the folder."""
    (code,) = blocks("python")
    names: dict[str, Any] = {}
    home = str(served.home("researcher"))
    for line in code.replace("DIR/researcher", home).split("\n"):
        if line:
            run_cell(line, names)
    assert [row["cell_label"] for row in names["t"].rows()] == ["French", "rest"] * 2


def called(code: str) -> list[list[str]]:
    """The words that a shell makes of the command lines that R's `system2` runs for the calls of `researcher(...)`."""
    lines = []
    for arguments in re.findall(r"researcher\((\".*)\)", code):
        words = re.findall(r'shQuote\("(.*?)"\)|"(.*?)"', arguments)
        # shQuote makes one word of it for a shell; what is not quoted goes to the shell as it stands.
        given = [shlex.quote(quoted) if quoted else bare for quoted, bare in words]
        lines.append(" ".join([shlex.quote(str(PROGRAM)), "researcher", *given, "--json"]))
    return [_words(line) for line in lines]


def _words(line: str) -> list[str]:
    shown = subprocess.run(rf"printf '%s\0' {line}", shell=True, capture_output=True, text=True, check=True)  # noqa: S602 - as R does
    return shown.stdout.split("\0")[:-1]


def test_the_r_lines_of_the_documents_make_command_lines_that_answer(served: Deployment) -> None:
    """Each prints one object, with the figures that the R lines take from it; a failure has the text and hint that they show."""
    (code,) = blocks("r")
    assert len([line for line in code.splitlines() if line.strip("} ")]) <= 12
    answer, table, listed = [run_words(*words).result for words in called(code)]
    assert {type(answer[name]) for name in re.findall(r"answer\$(\w+)", code)} == {int}
    assert table["where"] == "age >= 65"
    assert all(type(cell["noisy_count"]) is type(cell["margin_95"]) is int and cell["label"] for cell in table["cells"])
    assert len(table["cells"]) > 2
    assert {answer["query_id"], table["query_id"]} <= {each["query_id"] for each in listed["answers"]}
    missing = {"TRIPARTITE_HOME": str(served.directory / "nowhere")}
    failed = run_words(*called(code)[0], env=missing, cwd=Path("/"))
    assert failed.error["text"]
    assert failed.error["hint"]
