"""The document of `profile: as-published`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from policy_lab.document.model import Document
from policy_lab.standing import Standing
from policy_lab.survey import respondents, simulated, texts
from policy_lab.survey.respondents import Refuse


@dataclass(frozen=True, slots=True)
class PublishedRun:
    """What a run file with this profile says; the rest of a run file is the report's own."""

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
    people = respondents.read(run.data, run.refuse)
    simulated.errors(people, run.epsilons, run.repetitions, run.seed, progress)
    return Document("as-published", texts.TITLE, run.standing, run.command, ())
