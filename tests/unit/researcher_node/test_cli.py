"""The researcher's commands, as far as no node is needed."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from fakes.invoking import invoke

from broker_common.errors import BrokerError, InvalidRequestError, PeerUnavailableError
from researcher_node import cli, texts
from researcher_node.cli import _ask, _collect, commands


@pytest.mark.parametrize(
    "option", [("--scale", "30"), ("--margin", "90"), ("--fraction", "1"), ("--project", "another")], ids=lambda o: o[0]
)
def test_ticket_that_is_submitted_again_cannot_be_changed(tmp_path: Path, option: tuple[str, str]) -> None:
    """A user who gives another scale must not believe that it was used."""
    words = ["ask", "--home", str(tmp_path), "--again", "00" * 16, *option]
    error = invoke(commands, words, standalone_mode=False).exception
    assert isinstance(error, click.UsageError)
    assert option[0] in error.message


class Asking:
    """A session in which so many quotes are refused before one is taken."""

    def __init__(self, refused: int, code: str = "SLOT_UNUSABLE") -> None:
        self._refused = refused
        self._code = code
        self.prepared: list[int] = []

    async def prepare(self, _wanted: object, *, quoted_again: int, **_: object) -> int:
        self.prepared.append(quoted_again)
        return quoted_again

    async def ask(self, asked: int, **_: object) -> int:
        if len(self.prepared) <= self._refused:
            raise InvalidRequestError(self._code)
        return asked


async def ask(said: Asking) -> object:
    """`ask`, with a new question."""
    session: Any = said
    return await _ask(session, session, 1.0)


@pytest.mark.parametrize("refused", [0, 1])
async def test_quote_that_is_not_held_any_more_is_made_again_and_said(
    refused: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing was charged; the question that is answered says how many quotes went before it."""
    said = Asking(refused)
    assert await ask(said) == refused
    assert said.prepared == list(range(refused + 1))
    assert capsys.readouterr().err.count(texts.QUOTING_AGAIN) == refused


async def test_a_census_node_that_goes_on_refusing_gets_no_further_draws(capsys: pytest.CaptureFixture[str]) -> None:
    """Each quote is another draw of the noise for it: after the limit the refusal is told, and every quote before was said."""
    said = Asking(refused=100)
    with pytest.raises(InvalidRequestError, match="SLOT_UNUSABLE"):
        await ask(said)
    assert len(said.prepared) == 1 + cli._MOST_QUOTES_AGAIN
    assert capsys.readouterr().err.count(texts.QUOTING_AGAIN) == cli._MOST_QUOTES_AGAIN


async def test_other_refusals_are_not_quoted_again() -> None:
    """A fault of the question itself stays."""
    said = Asking(1, "UNKNOWN_PROJECT")
    with pytest.raises(InvalidRequestError, match="UNKNOWN_PROJECT"):
        await ask(said)
    assert said.prepared == [0]


class Collecting:
    """A home, its store and its session in one, with three open questions."""

    def __init__(self, **said: BrokerError) -> None:
        self.said = said
        self.looked: list[str] = []

    def all(self) -> list[Any]:
        return [SimpleNamespace(query=query, state="pending", accepted=True) for query in ("a", "b", "c")]

    @contextlib.asynccontextmanager
    async def session(self, _store: object) -> AsyncIterator[Collecting]:
        yield self

    async def collect_now(self, query: str) -> None:
        self.looked.append(query)
        if query in self.said:
            raise self.said[query]


async def collect(said: Collecting) -> BrokerError | None:
    """`answers --collect`; how it fails, if it does."""
    home: Any = said
    try:
        await _collect(home, home, ())
    except BrokerError as error:
        return error
    return None


async def test_answer_that_does_not_hold_keeps_nobody_from_the_others() -> None:
    """All the others are fetched, and the first that does not hold is the failure in the end."""
    lies = [PeerUnavailableError("PEER_MISBEHAVED", peer="census", problem=f"lie {number}") for number in range(2)]
    home = Collecting(a=lies[0], b=lies[1])
    assert await collect(home) is lies[0]
    assert home.looked == ["a", "b", "c"]


async def test_what_is_not_out_yet_is_no_failure() -> None:
    """It is said, and the next one is looked for."""
    home = Collecting(a=PeerUnavailableError("ANSWER_PENDING", query="a"))
    assert await collect(home) is None
    assert home.looked == ["a", "b", "c"]


async def test_census_node_that_is_away_is_asked_once() -> None:
    """Each further question would wait as long again."""
    away = PeerUnavailableError("PEER_UNAVAILABLE", peer="census")
    home = Collecting(a=away)
    assert await collect(home) is away
    assert home.looked == ["a"]
