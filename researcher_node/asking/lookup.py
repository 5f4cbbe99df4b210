"""Looking something up in both nodes' dictionaries: one column, variable or event table, one branch of codes, or a word.

Results have the shape of the whole, so that they are shown in the same way: the columns of each node that match, and of a column
that matches by its codes alone only those.
"""

from __future__ import annotations

from typing import Any

from broker_common.errors import InvalidRequestError
from broker_common.language import language_of_environment, phrase, said
from broker_common.query.canonical import literal_text
from broker_common.query.dictionary import nearest, shown
from broker_common.query.dictionary_pages import (
    Excerpt,
    Part,
    excerpt,
    excerpt_json,
    excerpt_text,
    names_in,
    unknown_code,
)
from broker_common.query.remedies import example
from researcher_node import texts
from researcher_node.asking.contact import Dictionaries


def looked_up(
    found: Dictionaries, name: str | None, word: str | None, under: str | None = None
) -> tuple[dict[str, Any], str]:
    """The published entries for this column, variable or event table, with this word, and under this code.

    Raises:
        InvalidRequestError: UNKNOWN_COLUMN, neither node publishes anything of this name; INVALID_VALUE, nor such a code.
    """
    dictionaries = (found.health, found.census)
    if name is not None and not any(excerpt(each, name).parts for each in dictionaries):
        raise _unknown(name, found)
    health, census = (excerpt(each, name, None, under) for each in dictionaries)
    if under is not None and not health.parts and not census.parts:
        raise unknown_code([excerpt(each, name) for each in dictionaries], under)
    if word is not None:
        health, census = (excerpt(each, name, word, under) for each in dictionaries)
    result = {
        "health": excerpt_json(health),
        "census": excerpt_json(census),
        "census_release": found.census_release,
    }
    is_whole = name is None and word is None and under is None
    return result, _text(health, census, found.census_release) if is_whole else _found_text(
        health, census, found, name, word
    )


def _unknown(name: str, found: Dictionaries) -> InvalidRequestError:
    near = nearest(name, [*names_in(found.health), *names_in(found.census)])
    instead = phrase(
        "Did you mean: {nearest}? 'tripartite researcher dictionary --search WORD' looks through names, codes and labels of both "
        "nodes.",
        nearest=near,
    )
    return InvalidRequestError("UNKNOWN_COLUMN", column=shown(name), nearest=near, instead=instead)


def _text(health: Excerpt, census: Excerpt, release: str) -> str:
    t = language_of_environment()
    return said(texts.DICTIONARIES, health=excerpt_text(health, t), release=release, census=excerpt_text(census, t))


def _found_text(health: Excerpt, census: Excerpt, found: Dictionaries, name: str | None, word: str | None) -> str:
    t = language_of_environment()
    blocks = []
    if health.parts:
        blocks += [said(texts.HEALTH_FOUND), excerpt_text(health, t), *_typed_like(texts.TYPED_WHERE, health, name)]
    if census.parts:
        head = said(texts.CENSUS_FOUND, release=found.census_release)
        blocks += [head, excerpt_text(census, t), *_typed_like(texts.TYPED_COUNT, census, name)]
    return "\n\n".join(blocks) or said(texts.NOTHING_FOUND, word=shown(word or ""))


def _typed_like(text: str, found: Excerpt, name: str | None) -> list[str]:
    """How the one thing that was asked for is typed."""
    if name is None:
        return []
    if found.columns:
        return [said(text, example=_example(found.columns[0]))]
    table, parts = found.events[0]
    return [said(text, example=f"any({table.name} where {_example(parts[0])})")]


def _example(part: Part) -> str:
    """A comparison with what is shown of a column."""
    return f"{part.column.name} = {literal_text(part.codes[0].value)}" if part.codes else example(part.column)
