"""The document, put together."""

from __future__ import annotations

from collections.abc import Sequence

from broker_common.language import phrase
from policy_lab.assessment import alternatives, chosen, promises, remaining, scope, trials
from policy_lab.assessment.cited import HOME, USUAL, Cited
from policy_lab.assessment.facts import Facts
from policy_lab.assessment.trials import Attacked
from policy_lab.document.model import Document
from policy_lab.standing import Standing


def make_assessment(facts: Facts, included: Sequence[Document], attacks: Attacked | None, command: str) -> Document:
    """The assessment; `included` are evaluations that may be handed on, `command` makes it again."""
    commands = Cited(f"{USUAL}/census" if facts.log is None else HOME)
    return Document(
        "assessment",
        phrase("Assessment of a count-query service across two agencies"),
        Standing.ASSESSMENT,
        command,
        [
            chosen.summary(facts, commands, trials.verdict(attacks)),
            scope.scope(facts, commands),
            scope.parties(facts, commands),
            scope.learns(),
            promises.promises(facts, commands),
            promises.limits(facts, commands),
            chosen.policy(facts, commands),
            alternatives.alternatives(facts, included),
            remaining.risks(facts),
            trials.attacks(attacks),
            remaining.checkpoint(facts, commands),
            remaining.signatures(),
            *alternatives.annexes(included),
        ],
    )
