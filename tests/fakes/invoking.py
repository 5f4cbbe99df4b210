"""Commands called without their program around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click
from click.testing import CliRunner, Result

from broker_common.cli import program


def invoke(
    command: click.Command,
    words: Sequence[str],
    *,
    env: Mapping[str, str | None] | None = None,
    catch_exceptions: bool = True,
    standalone_mode: bool = True,
) -> Result:
    """Result of a command of the program with these words."""
    # With the program's settings: a command keeps the help option of its first call, and would show it in later tests.
    return CliRunner().invoke(
        command,
        list(words),
        env=env,
        catch_exceptions=catch_exceptions,
        standalone_mode=standalone_mode,
        **program.context_settings,
    )
