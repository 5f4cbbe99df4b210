"""`tripartite lab`."""

from __future__ import annotations

import click

from policy_lab.assessment.commands import assessment, checkpoint
from policy_lab.evaluate.commands import evaluate
from policy_lab.explain.commands import explain
from policy_lab.sensitivity.commands import sensitivity
from policy_lab.site.commands import serve
from policy_lab.tables.commands import table


@click.group()
def lab() -> None:
    """Weigh a policy before an agency says yes: pages, evaluations of mechanisms, an assessment to print."""


lab.add_command(assessment)
lab.add_command(checkpoint)
lab.add_command(evaluate)
lab.add_command(explain)
lab.add_command(sensitivity)
lab.add_command(serve)
lab.add_command(table)
