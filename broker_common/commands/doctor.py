"""`tripartite doctor`: looks at a home of any role, and says what its operator should see to.

A role makes its own looks known through the entry points `tripartite.doctors`; which role a home is, its config.toml says.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final, TypeAlias

import click

from broker_common.cli import emit, load_installed
from broker_common.commands.options import home_option, json_option
from broker_common.doctor import texts
from broker_common.doctor.files import file_findings
from broker_common.doctor.findings import Finding, tried
from broker_common.errors import ExitCode
from broker_common.language import said
from broker_common.storage.home import stated_role
from broker_common.terminal import coloured

_DOCTORS: Final = "tripartite.doctors"
_COLOURS: Final = {"warning": "yellow", "problem": "red"}
_Look: TypeAlias = Callable[[Path], Iterable[Finding]]


@click.command()
@home_option
@json_option
def doctor(home: Path, as_json: bool) -> int:
    """Look at a home, and say what its operator should see to. Changes nothing.

    Works with the node up or down. Ends with exit code 3 if something is a problem; warnings are no problem.
    """
    role = stated_role(home)
    (point,) = entry_points(group=_DOCTORS, name=role)
    look: _Look = load_installed(point)
    found = tried("files", lambda: file_findings(home)) + tried("config", lambda: look(home))
    counts = {level: sum(each.level == level for each in found) for level in ("problem", "warning")}
    result = {
        "home": str(home),
        "role": role,
        "problems": counts["problem"],
        "warnings": counts["warning"],
        "findings": [
            {"check": each.check, "level": each.level, "text": each.text, "remedy": each.remedy} for each in found
        ],
    }
    last = (
        said(texts.SUMMARY, problems=counts["problem"], warnings=counts["warning"])
        if any(counts.values())
        else said(texts.ALL_WELL)
    )
    emit(as_json, result, "\n".join([*map(_line, found), last]))
    return ExitCode.INVALID_REQUEST if counts["problem"] else ExitCode.OK


def _line(finding: Finding) -> str:
    level = f"{said(texts.LEVELS[finding.level]):<9}"
    shown = coloured(level, _COLOURS[finding.level], sys.stdout) if finding.level in _COLOURS else level
    text = f"{shown} {said(finding.text)}"
    return f"{text}\n          {said(finding.remedy)}" if finding.remedy else text
