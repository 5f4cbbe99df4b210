"""Warnings at a command: said, and confirmed by somebody at the terminal or beforehand with --yes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from broker_common.cli import say
from broker_common.errors import InvalidRequestError
from broker_common.language import joined, said
from researcher_node import texts
from researcher_node.asking.session import Session
from researcher_node.asking.warnings import Warned

ResultT = TypeVar("ResultT")


@contextmanager
def running(session: Session) -> Iterator[Callable[[Coroutine[Any, Any, ResultT]], ResultT]]:
    """What runs the coroutines of one session, which ends with the block.

    Between two of them nothing runs, so that somebody at the terminal can be asked, and can interrupt.
    """
    with asyncio.Runner() as runner:
        try:
            yield runner.run
        finally:
            runner.run(session.close())


def is_at_terminal() -> bool:
    """Whether there is somebody to ask."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def say_warnings(warnings: Sequence[Warned]) -> None:
    """Say each on stderr."""
    for warned in warnings:
        say(said(texts.WARNING, text=said(warned.text)))


def confirm(warnings: Sequence[Warned]) -> None:
    """Return only if somebody at the terminal wants to go on in spite of these warnings.

    Raises:
        InvalidRequestError: UNCONFIRMED.
    """
    if is_at_terminal():
        say_warnings(warnings)
        if click.confirm(said(texts.ASK_ANYWAY), err=True):
            return
    raise InvalidRequestError("UNCONFIRMED", problem=joined(" ", [warned.text for warned in warnings]))
