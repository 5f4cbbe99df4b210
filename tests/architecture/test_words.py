"""Plain English and one word for one meaning, as far as a test can tell: the glossary, phrases that are out, comments in two lines."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("broker_common", "census_node", "deploy", "health_node", "policy_lab", "researcher_node", "tests")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
# A reader has to stop at these, and there is an everyday way to say each of them.
OUT = re.compile(
    r"\bwhoever\b|\bthe how manieth\b|has lost its object|\bon another way\b|\bnot any more\b|\ban own\b",
    re.IGNORECASE,
)
# A comment that begins so has seldom a verb; what it names can be its subject.
VERBLESS = re.compile(r"(?:SECURITY: |CRASH: )?(?:Of|What|By|Whose)\b")
VERBLESS_TEXT = re.compile(rf"""['"]\s*{VERBLESS.pattern}""")
# A literal may hold a #: one is passed over as a whole.
LITERAL_OR_COMMENT = re.compile(
    r"""(?s)\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|(?P<comment>#[^\n]*)"""
)
# They say what was, in the words of their day.
HISTORY = {"CHANGELOG.md", "docs/decisions-archive.md"}
FOLDERS = (*PACKAGES, "docs", "protos")
MOST_WORDS = 30
MOST_LINES = 2


def files(*endings: str) -> list[Path]:
    """Our own files, generated code excluded."""
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")] + list(ROOT.glob("*.md"))
    return sorted(
        path
        for path in found
        if path.name.endswith(endings) and "_pb2" not in path.name and str(path.relative_to(ROOT)) not in HISTORY
    )


def comments(source: str) -> Iterator[tuple[int, list[str]]]:
    """Every comment with its first line; lines that begin with # at one column are one comment."""
    block: list[str] = []
    first, column = 0, -1
    for found in LITERAL_OR_COMMENT.finditer(source):
        if not found["comment"]:
            continue
        line_start = source.rfind("\n", 0, found.start()) + 1
        number, at = source.count("\n", 0, line_start) + 1, found.start() - line_start
        text, stands_alone = found["comment"].lstrip("#").strip(), not source[line_start : found.start()].strip()
        if block and stands_alone and (number, at) == (first + len(block), column) and not block[-1].startswith("---"):
            block.append(text)
            continue
        if block:
            yield first, block
        first, column, block = number, at if stands_alone else -1, [text]
    if block:
        yield first, block


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Every docstring with the line that it begins at, of a source with a text that may be one to find."""
    if not VERBLESS_TEXT.search(source):
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield node.body[0].lineno, text


def glossary() -> list[tuple[str, str]]:
    """Each word of CONTRIBUTING with the place where it lives."""
    section = CONTRIBUTING.partition("## Words\n")[2].partition("\n## ")[0]
    return re.findall(r"(?m)^\| (\w+) \| .+ \| `([^`]+)` \|$", section)


def test_the_glossary_is_short_and_its_words_are_where_it_says() -> None:
    """A newcomer reads it in five minutes; each word stands in the module that it leads to."""
    words = glossary()
    assert 20 < len(words) <= MOST_WORDS
    assert [word for word, _ in words] == sorted({word for word, _ in words})
    for word, place in words:
        found = [ROOT / place] if (ROOT / place).is_file() else sorted((ROOT / place).glob("*.py"))
        assert any(word in path.read_text(encoding="utf-8").lower() for path in found), (word, place)


def test_no_file_has_a_phrase_that_is_out() -> None:
    """Neither code nor documents nor texts; the two pages of history keep theirs."""
    assert [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:120]}"
        for path in files(".py", ".md", ".html", ".js", ".proto", ".toml", ".po", ".txt")
        if path != Path(__file__)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if OUT.search(line)
    ] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_comments_and_docstrings_begin_with_their_subject(package: str) -> None:
    """No 'Of the first fifth.' and no 'What a page shows.': a reader would look for the rest of the sentence."""
    found = []
    for path in files(".py"):
        if path.relative_to(ROOT).parts[0] == package and path != Path(__file__):
            source = path.read_text(encoding="utf-8")
            said = [*((line, " ".join(text)) for line, text in comments(source)), *docstrings(source)]
            found += [f"{path.relative_to(ROOT)}:{line}: {text[:80]}" for line, text in said if VERBLESS.match(text)]
    assert found == []


def test_comments_have_at_most_two_lines() -> None:
    """A longer reason belongs into a docstring or a document. Comments in a config.py are the manual of its settings."""
    assert [
        f"{path.relative_to(ROOT)}:{line}"
        for path in files(".py")
        for line, text in comments(path.read_text(encoding="utf-8"))
        if len(text) > MOST_LINES and path.name != "config.py"
    ] == []
