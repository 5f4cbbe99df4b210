"""The options that commands have in common, and the kinds of value that they take."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import click

from broker_common.language import phrase

# A release stands in tickets, logs and tables; a label in tables.
_MAX_LINE_CHARACTERS = 64
# Digits as they stand on a keyboard: `int` also reads those of other scripts, underscores and blanks.
_WHOLE = re.compile(r"-?[0-9]{1,18}")
_SHOWN_CHARACTERS = 40
_MOST_ROWS = 2**32 - 1
_ADDRESS = re.compile(r"[^\s:]+:[0-9]{1,5}|\[[0-9a-fA-F:]+\]:[0-9]{1,5}")
_MAX_PORT = 65_535


class Whole(click.IntRange):
    """A whole number in plain digits, within bounds."""

    def __init__(self, least: int, most: int) -> None:
        super().__init__(least, most)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not _WHOLE.fullmatch(str(value)):
            self.fail(
                f"{str(value)[:_SHOWN_CHARACTERS]!r} is not a whole number from {self.min} to {self.max}.", param, ctx
            )
        return super().convert(value, param, ctx)


_FOLDER = click.Path(path_type=Path, file_okay=False)


def home_option_of(role: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`--home` of a command that works in homes of this role.

    Without a role: of the role that the command's group is named after, or of any role where it is named after none.
    """

    def found(context: click.Context, parameter: click.Parameter, given: Path | None) -> Path | None:
        del parameter
        if given is not None or context.resilient_parsing:
            return given
        return usual_home_of(context, role)

    return click.option("--home", "home", type=_FOLDER, callback=found, help=_HOME_HELP)


def usual_home_of(context: click.Context, role: str = "") -> Path:
    """The home that a command works in when it is given none.

    Raises:
        UsageError: neither TRIPARTITE_HOME nor the current folder is one.
    """
    # Imported here, as all that only a running command needs: nobody waits for it who asks for help.
    from broker_common.storage.home import ROLES, usual_home  # noqa: PLC0415

    groups = context.command_path.split()[1:]
    wanted = role or next((name for name in groups if name in ROLES), "")
    found = usual_home(wanted)
    if found is None:
        problem = phrase("Give --home: neither TRIPARTITE_HOME nor the current folder is a home.")
        if wanted:
            problem = phrase(
                "Give --home: neither TRIPARTITE_HOME nor the current folder is a home of role {role}.", role=wanted
            )
        raise click.UsageError(problem, context)
    return found


_HOME_HELP = "The role's folder: config.toml, keys and data. If left out: TRIPARTITE_HOME, or the current folder."
home_option = home_option_of()
new_home_option = click.option(
    "--home", "home", type=_FOLDER, required=True, help="The role's folder, which is made: new or empty."
)
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, progress on stderr.")

max_rejected_option = click.option(
    "--max-rejected",
    type=Whole(0, _MOST_ROWS),
    help="Refuse the file if more rows than this are wrong. Otherwise: more than 100 and more than 1 percent.",
)
port_option = click.option(
    "--port",
    type=Whole(0, _MAX_PORT),
    default=0,
    show_default=True,
    help="Where to listen on this machine; 0 picks a free port.",
)
lifeline_option = click.option(
    "--while-stdin-open", "lifeline", is_flag=True, help="Stop when standard input ends: for a parent process."
)


class PrintableLine(click.ParamType[str]):
    """A name or a label: one short printable line, since it stands in logs, tickets and tables."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        if not text.strip() or len(text) > _MAX_LINE_CHARACTERS or not text.isprintable():
            self.fail(f"{text[:_MAX_LINE_CHARACTERS]!r} is not 1 to {_MAX_LINE_CHARACTERS} characters.", param, ctx)
        return text


def is_address(text: str, *, least_port: int = 0) -> bool:
    """Whether this is HOST:PORT."""
    return _ADDRESS.fullmatch(text) is not None and least_port <= int(text.rpartition(":")[2]) <= _MAX_PORT


class HostPort(click.ParamType[str]):
    """Where a node listens."""

    name = "HOST:PORT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not is_address(str(value)):
            self.fail(f"{value!r} is not HOST:PORT.", param, ctx)
        return str(value)


def linkage_key_options(command: Callable[..., None]) -> Callable[..., None]:
    """`--new-key` and `--key-file`, given to the command as one `source`: a `NextKey`."""

    @functools.wraps(command)
    def with_source(*, new_key: bool, key_file: Path | None, **others: Any) -> None:
        if new_key and key_file is not None:
            raise click.UsageError(phrase("--new-key and --key-file cannot be combined."), click.get_current_context())
        # Imported here: it brings the array library along.
        from broker_common.agency.linkage import NextKey  # noqa: PLC0415

        command(source=NextKey(new=new_key, file=key_file), **others)

    new = click.option("--new-key", is_flag=True, help="Make the new key here, at one of the two agencies only.")
    file = click.option(
        "--key-file",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Take the new key that the other agency made: its whole key file.",
    )
    return new(file(with_source))


class Again(NamedTuple):
    """That a source is read again: this file, or what lies in the home."""

    file: Path | None


def reload_option(command: Callable[..., None]) -> Callable[..., None]:
    """`--reload [FILE]`, given to the command as one `again`; None without it."""

    @functools.wraps(command)
    def with_reload(*, reload: str | None, source: Any, **others: Any) -> None:
        if reload is not None and source.new:
            problem = phrase(
                "--new-key and --reload cannot be combined: with --reload the keys are the other agency's."
            )
            raise click.UsageError(problem, click.get_current_context())
        again = None if reload is None else Again(Path(reload) if reload else None)
        command(source=source, again=again, **others)

    help_text = (
        "Where the two chains differ: take the other agency's whole key file (--key-file, or the one that is in its place already), "
        "and read the source in the home, or FILE, again under it. At the census agency only before anything was charged."
    )
    return click.option("--reload", is_flag=False, flag_value="", metavar="[FILE]", help=help_text)(with_reload)
