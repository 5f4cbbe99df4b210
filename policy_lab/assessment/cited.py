"""The commands that reproduce a sentence: of the deployment, of the lab, and of this version's own tests and arguments."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

_SECURITY = "SECURITY.md"
_ARGUMENT = "broker_common/privacy/ARGUMENT.md"
# The deployment whose policy is assessed where no census home is named.
USUAL = "TEST"
# Stands for the folder of the home that is assessed: a path of one machine has no place in what is handed on.
HOME = "CENSUS_HOME"


@dataclass(frozen=True, slots=True)
class Cited:
    """Commands about one census home."""

    home: str

    @property
    def policy(self) -> str:
        return f"tripartite census policy show --home {self._home} --json"

    @property
    def report(self) -> str:
        """Its figures of the limit follow from the policy alone; its figures of people stay inside the agency."""
        return f"tripartite census status --home {self._home} --report --json"

    @property
    def keys(self) -> str:
        return f"tripartite keys list --home {self._home}"

    def past(self, size: int, signature: str = "", key: str = "") -> str:
        """The log as an auditor gets it, and how it stood with so many entries, however far it has grown."""
        signed = f" --signature {shlex.quote(signature)} --key {shlex.quote(key)}" if signature else ""
        exported = f"tripartite audit export --home {self._home} --to EXPORTS/census"
        held = f"tripartite lab checkpoint EXPORTS/census --size {size}{signed} --json"
        return f"{exported} && {held}"

    @property
    def _home(self) -> str:
        return shlex.quote(self.home)


def tested(path: str, *names: str) -> str:
    """A test of this version, or all of a file."""
    return "::".join((f"pytest tests/{path}", *names))


def security(words: str) -> str:
    """A sentence of the threat model."""
    return f"grep -F {shlex.quote(words)} {_SECURITY}"


def argument(words: str) -> str:
    """A sentence of the argument for the limit."""
    return f"grep -F {shlex.quote(words)} {_ARGUMENT}"


def explain(figure: str, **settings: int) -> str:
    """A figure of the lab."""
    moved = "".join(f" --set {key}={value}" for key, value in settings.items())
    return f"tripartite lab explain {figure}{moved} --json"
