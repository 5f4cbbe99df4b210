"""The alternatives: exact counts, the other accounting, noise before data leave, and the agency's own evaluations."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from policy_lab.assessment import cited
from policy_lab.assessment.facts import Facts
from policy_lab.document import stored
from policy_lab.document.model import Bars, Block, Caution, Claim, Document, Heat, Lines, Section, Table
from policy_lab.figures.figure import FIGURES
from policy_lab.figures.policy import CAP

# True of every document of a kind, whatever its data were.
_WHY_NOT: Mapping[str, str] = {
    "evaluation": phrase(
        "Noise on each record before it leaves an agency needs no trust in the party that counts; the tables show what that costs. Here the agency that counts "
        "holds the languages anyway, so that noise on the count is enough."
    ),
    "as-published": phrase(
        "No finite epsilon holds for this pipeline as it was published; it is shown to explain why it is no alternative."
    ),
    "table": phrase(
        "A table that is published once answers the questions that it foresees. It was not chosen because each study asks about a group of its own."
    ),
    "sensitivity": phrase(
        "A sensitivity that is estimated, be it from synthetic data, comes with no proof: this method is not differentially private, and it was not chosen for that reason."
    ),
}


def read_included(folders: Sequence[Path]) -> list[Document]:
    """The documents of these folders.

    Raises:
        InvalidRequestError: RESULTS_INTERNAL, one may not be handed on; DOCUMENT_UNREADABLE.
    """
    found = []
    for folder in folders:
        document = stored.read(folder)
        if not document.standing.may_be_assessed:
            raise InvalidRequestError("RESULTS_INTERNAL", file=str(folder))
        if not all(map(_is_of_the_lab, _commands(document))):
            raise InvalidRequestError("DOCUMENT_UNREADABLE", file=str(folder / stored.DOCUMENT_FILE))
        found.append(document)
    return found


def _commands(document: Document) -> Iterator[str]:
    """Everything that the document says to run."""
    yield document.command
    for section in document.sections:
        for block in (*section.citizen, *section.specialist, *section.blocks):
            if isinstance(block, Claim):
                yield block.command


def _is_of_the_lab(command: str) -> bool:
    """Whether it is one command of the lab, as the lab quotes its words: a shell runs nothing beside it."""
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    return words[:2] == ["tripartite", "lab"] and shlex.join(words) == command


def alternatives(facts: Facts, included: Sequence[Document]) -> Section:
    """Each alternative, what it would mean, and why it was not chosen."""
    blocks: list[Block] = [
        Claim(
            phrase(
                "Exact counts have no limit at all: anyone who may ask about two groups that differ in one person learns that person's language."
            ),
            cited.tested("privacy/test_small_worlds.py", "test_naive_mechanisms_are_bounded_by_nothing"),
        ),
        _other_accounting(facts),
        *_local(facts),
    ]
    for number, document in enumerate(included, start=1):
        blocks += _included(number, document)
    if included:
        blocks.append(
            Claim(
                phrase(
                    "That data are public or synthetic is what their holder declares: the program has not checked it, and cannot."
                ),
                cited.security("is a declaration that nothing checks"),
            )
        )
    else:
        blocks.append(
            Caution(
                phrase(
                    "No evaluation on data was included. 'tripartite lab evaluate', 'table' and 'sensitivity' make them, and --include DIR puts them here."
                )
            )
        )
    return Section("alternatives", phrase("Alternatives, and why not"), blocks)


def _other_accounting(facts: Facts) -> Claim:
    command = cited.explain("accounting", cap=_cap(facts))
    if facts.policy.accounting == "strict":
        return Claim(
            phrase(
                "With a budget for each person instead of one for everybody, the service would go on after these answers with questions about other people, under the same limit "
                "for each. It was not chosen: who is left out of a count would follow from what was asked before, and nobody outside would be told."
            ),
            command,
            ("Strict: the service",),
        )
    return Claim(
        phrase(
            "With one budget for everybody the same limit would hold, and the service would shut down after as many "
            "answers as one person's budget pays for, no matter who they were about. It was not chosen, because it "
            "ends the service for all after a few studies."
        ),
        command,
        ("Strict: the service",),
    )


def _local(facts: Facts) -> list[Block]:
    """Flipped languages beside noise on the count, at the same limit."""
    figure, cap = FIGURES["local"], _cap(facts)
    section = figure.draw(figure.values({CAP.key: str(cap)}))
    table = next(block for block in section.blocks if isinstance(block, Table))
    return [
        Claim(
            phrase(
                "Each language could be flipped at random before it leaves the census agency. At the same limit of {cap}% the error of a count then grows with the group, as "
                "the table shows; it was not chosen, because counts of large groups are what studies ask for.",
                cap=cap,
            ),
            cited.explain("local", cap=cap),
            ("Flipped once",),
        ),
        table,
    ]


def _cap(facts: Facts) -> int:
    """The limit as the lab's figures take it: in whole percent, rounded down, within their bounds."""
    return min(max(math.floor(100 * Fraction(facts.policy.max_belief)), int(CAP.low)), int(CAP.high))


def _included(number: int, document: Document) -> Iterator[Block]:
    """The evaluation, and why its method was not chosen."""
    if document.is_release:
        # No claim: nobody is asked to repeat a command that spends epsilon.
        yield Caution(
            phrase(
                "Annex {number} shows a table that was released: {title}. {mark} Its command does not reproduce it: it draws new noise and spends epsilon a second time.",
                number=number,
                title=document.title,
                mark=document.standing.mark,
            )
        )
        return
    yield Claim(
        phrase(
            "Annex {number} shows an evaluation: {title}. {mark}",
            number=number,
            title=document.title,
            mark=document.standing.mark,
        ),
        document.command,
    )
    if document.key in _WHY_NOT:
        yield Claim(_WHY_NOT[document.key], document.command)


def annexes(included: Sequence[Document]) -> Iterator[Section]:
    """The findings of each evaluation, section by section."""
    for number, document in enumerate(included, start=1):
        for section in document.sections:
            yield Section(
                f"annex-{number}-{section.key}",
                phrase("Annex {number}: {title}", number=number, title=section.title),
                _named(number, section.blocks),
                _named(number, section.citizen),
                _named(number, section.specialist),
            )


def _named(number: int, blocks: Sequence[Block]) -> list[Block]:
    """The blocks of an annex, told from those of another one."""
    return [
        replace(block, key=f"annex-{number}-{block.key}") if isinstance(block, Table | Lines | Bars | Heat) else block
        for block in blocks
    ]
