"""The document of `profile: as-published`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from broker_common.language import phrase
from policy_lab.document.model import Block, Caution, Claim, Document, Paragraph, Section
from policy_lab.standing import Standing
from policy_lab.survey import comparison, faults, pipeline, respondents, sections, simulated, texts
from policy_lab.survey.comparison import Figure
from policy_lab.survey.promises import METHODS, promises
from policy_lab.survey.respondents import Refuse, Respondents


@dataclass(frozen=True, slots=True)
class PublishedRun:
    """A run file with this profile; the rest of a run file is the report's own."""

    data: Path
    standing: Standing
    epsilons: Sequence[float]
    repetitions: int
    seed: int
    # Makes the document again.
    command: str
    # Names the run file's line in the errors about the data file.
    refuse: Refuse


def evaluate_as_published(run: PublishedRun, progress: Callable[[int, int], None]) -> Document:
    """The report's figures, computed twice (in closed form and by runs), beside those that it published.

    Raises:
        InvalidRequestError: as `run.refuse` makes it, if the file is not the survey's or an epsilon has no published formula.
    """
    for epsilon in run.epsilons:
        if epsilon >= pipeline.END_OF_FORMULA:
            raise run.refuse(phrase(texts.NO_FORMULA, epsilon=epsilon), texts.NO_FORMULA_REMEDY)
    people = respondents.read(run.data, run.refuse)
    runs = run.repetitions * len(run.epsilons)
    steps = runs + len(METHODS) * len(run.epsilons)
    errors = simulated.errors(people, run.epsilons, run.repetitions, run.seed, lambda done: progress(done, steps))
    figures = comparison.figures(people, run.epsilons, run.repetitions, errors)
    measured = promises(people, run.epsilons, run.seed, lambda done: progress(runs + done, steps))
    return Document(
        "as-published",
        texts.TITLE,
        run.standing,
        run.command,
        (
            _summary(run, people, figures),
            sections.figures_section(people, figures, run.repetitions),
            faults.promises_section(people, measured),
            faults.steps_section(people),
            faults.codes_section(people),
            faults.labels_section(),
            faults.composition_section(run.epsilons),
            sections.rightly_section(people, figures),
            sections.provinces_section(people, figures),
            faults.sources_section(),
        ),
    )


def _summary(run: PublishedRun, people: Respondents, figures: Sequence[Figure]) -> Section:
    blocks: list[Block] = [Caution(texts.NO_EPSILON), Paragraph(phrase(texts.SUMMARY, rows=people.rows))]
    known, near = comparison.compared(figures)
    if known:
        blocks.append(Claim(phrase(texts.REPRODUCED, compared=known, near=near), run.command))
    return Section(
        "summary",
        texts.SUMMARY_TITLE,
        blocks,
        citizen=[Paragraph(texts.CITIZEN_SUMMARY)],
        specialist=[Paragraph(texts.SPECIALIST_SUMMARY)],
    )
