"""docs/lab.md quotes the figures: what it says is what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from policy_lab.document.model import Paragraph
from policy_lab.figures.figure import FIGURES

TEXT = " ".join((Path(__file__).parents[4] / "docs" / "lab.md").read_text(encoding="utf-8").split())
# A stream of questions is described on its page.
NOT_QUOTED = {"accounting": 1, "local": 1}


@pytest.mark.parametrize("key", FIGURES)
def test_sentences_of_a_figure_stand_in_the_overview(key: str) -> None:
    """At the usual settings, digit for digit."""
    figure = FIGURES[key]
    section = figure.draw(figure.values({}))
    words = [block.words for block in section.blocks if isinstance(block, Paragraph)]
    assert words[NOT_QUOTED.get(key, 0) :]
    assert f"`{key}`" in TEXT
    assert " ".join(words[NOT_QUOTED.get(key, 0) :]) in TEXT


def test_pages_that_the_overview_names_are_there() -> None:
    """A link leads somewhere."""
    docs = Path(__file__).parents[4] / "docs"
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", TEXT)
    assert len(links) >= 5
    assert [link for link in links if not (docs / link).exists()] == []
