"""Warnings before a question is asked: what its researcher would regret having paid for.

    ASKED_BEFORE        the same criteria, question, scale and fraction: another draw of the noise, charged once more
    MATCHES_NOBODY      by their text the criteria match nobody, whatever the data is: the answer would be noise
    MATCHES_EVERYBODY   by their text they match everybody
    DEAR                the answer takes more than a quarter of a budget
    MAY_LEAVE_OUT       own questions can have used up somebody's budget by then: that person would be missing from the count

Everything here follows from what the researcher typed, the published dictionaries and policy, and the researcher's own records. At a
command, warnings are said, and confirmed by somebody at the terminal or beforehand with --yes.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar

import click

from broker_common.cli import instant, say
from broker_common.errors import InvalidRequestError
from broker_common.language import joined, phrase, said
from broker_common.privacy.accounting import answers_left
from broker_common.query.certainty import Certainty
from researcher_node import texts
from researcher_node.answers.own_use import OwnUse, percent, use_with
from researcher_node.answers.store import Answers, AskedQuestion, Charge
from researcher_node.asking.proposal import Proposal, Wish
from researcher_node.asking.session import Session

# An answer that takes more than this share of a budget leaves room for three others at most.
_DEAR = Fraction(1, 4)


class Warned(NamedTuple):
    """A warning: its code, and a sentence."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Considered:
    """A question before it is asked: what there is to warn about, and what own questions will have used with it."""

    proposal: Proposal
    warnings: Sequence[Warned]
    use: OwnUse


async def consider(session: Session, store: Answers, wish: Wish) -> Considered:
    """Remarks on a question before it is quoted and asked.

    Raises:
        InvalidRequestError: what is wrong with the question.
    """
    proposal = await session.propose(wish)
    charges = store.charges()
    same = store.newest_like(proposal.criteria, proposal.question.text, proposal.scale, wish.fraction_millionths)
    warnings = warnings_of(proposal, same, charges)
    return Considered(proposal, warnings, use_with(charges, proposal.price, proposal.policy))


def warnings_of(proposal: Proposal, same: AskedQuestion | None, charges: Sequence[Charge]) -> list[Warned]:
    """Everything that there is to warn about; `same` was asked before, `charges` is what all questions can have charged."""
    return [*_asked_before(same), *_certain(proposal), *_dear(proposal), *_may_leave_out(proposal, charges)]


def _asked_before(same: AskedQuestion | None) -> Iterable[Warned]:
    if same is not None:
        yield Warned("ASKED_BEFORE", phrase(texts.ASKED_BEFORE, asked=instant(same.asked_ms), query=same.query))


def _certain(proposal: Proposal) -> Iterable[Warned]:
    if proposal.certainty is Certainty.NOBODY:
        yield Warned("MATCHES_NOBODY", texts.MATCHES_NOBODY)
    if proposal.certainty is Certainty.EVERYBODY:
        yield Warned("MATCHES_EVERYBODY", texts.MATCHES_EVERYBODY)


def _dear(proposal: Proposal) -> Iterable[Warned]:
    share = Fraction(proposal.price, proposal.policy.cap)
    if share > _DEAR:
        answers = answers_left(proposal.policy.cap, 0, proposal.scale)
        yield Warned("DEAR", phrase(texts.DEAR, scale=proposal.scale, share=percent(share), answers=answers))


def _may_leave_out(proposal: Proposal, charges: Sequence[Charge]) -> Iterable[Warned]:
    use = use_with(charges, proposal.price, proposal.policy)
    if use.share is not None and use.can_leave_out:
        yield Warned("MAY_LEAVE_OUT", phrase(texts.MAY_LEAVE_OUT, share=percent(use.share)))


ResultT = TypeVar("ResultT")


@contextmanager
def running(session: Session) -> Iterator[Callable[[Coroutine[Any, Any, ResultT]], ResultT]]:
    """Runner of one session's coroutines, which ends with the block.

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
