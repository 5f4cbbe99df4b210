"""Documents and the reader of conditions agree on hierarchies and events."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fakes.dictionaries import STAYS

from broker_common.errors import InvalidRequestError
from broker_common.query.criteria import parse_condition

DOCS = Path(__file__).parents[3] / "docs"


def section(page: str, title: str) -> str:
    """The text below a title, up to the next one."""
    _, _, rest = (DOCS / page).read_text(encoding="utf-8").partition(f"\n## {title}\n")
    return rest.partition("\n## ")[0]


EXAMPLES = re.findall(r"(?m)^\| `(.+?)` \|", section("asking.md", "Conditions on hierarchies and events"))
MISTAKES = section("mistakes.md", "With hierarchies and events").split("```\n")[1].split("\n\n")


def test_there_are_examples() -> None:
    """Those that are not found are not tested."""
    assert len(EXAMPLES) >= 10
    assert len(MISTAKES) >= 15


@pytest.mark.parametrize("text", EXAMPLES)
def test_example_can_be_asked(text: str) -> None:
    """As it stands there."""
    parse_condition(text, STAYS)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake_is_answered_as_the_page_says(mistake: str) -> None:
    """Word for word."""
    text, *said = mistake.rstrip("\n").split("\n")
    with pytest.raises(InvalidRequestError) as caught:
        parse_condition(text, STAYS)
    error = caught.value
    assert said == [f"Error: {error.text}", f"{error.hint}  [{error.code}]"]
