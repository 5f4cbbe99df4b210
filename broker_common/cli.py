"""The one program: finds the role groups through entry points and gives every command the same manners.

With `--json`, stdout holds exactly one JSON object, progress goes to stderr, and a failure prints the error object of
DESIGN 10. Exit codes are `ExitCode`. A role whose package is absent has no commands, and says so when it is asked for.
"""

from __future__ import annotations

import errno
import functools
import gc
import importlib.util
import io
import json
import os
import re
import runpy
import shlex
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.abc import InspectLoader
from importlib.metadata import EntryPoint, entry_points, version
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import click
from click.shell_completion import CompletionItem

from broker_common import interrupts
from broker_common.errors import BrokerError, ExitCode, InternalError, InvalidRequestError
from broker_common.interrupts import watch_lifeline
from broker_common.language import phrase, said
from broker_common.logs import log_as
from broker_common.storage.durable import close_to_others
from broker_common.terminal import coloured

_GROUP = "tripartite.commands"
_SUMMARY_CHARACTERS = 90
# The command library's own sentences about a wrong command line.
LIBRARY_SENTENCES = (
    "Invalid value for {name}: {problem}",
    "Missing option {name}.",
    "Missing argument {name}.",
    "Missing command.",
    "No such option {name}. Did you mean {other}?",
    "No such option {name}. (Did you mean one of: {others}?)",
    "No such option {name}.",
    "No such command {name}. Did you mean {other}?",
    "No such command {name}. (Did you mean one of: {others}?)",
    "No such command {name}.",
    "Got unexpected extra argument ({words})",
    "Got unexpected extra arguments ({words})",
    "Option {name} requires an argument.",
    "Option {name} does not take a value.",
    "{value} is not in the range {range}.",
    "{value} is not a whole number from {low} to {high}.",
    "{value} is not one of {choices}.",
    "Directory {path} does not exist.",
    "Directory {path} is a file.",
    "File {path} does not exist.",
    "File {path} is a directory.",
    "Path {path} does not exist.",
)
_WHOSE_DISK = "The home is {home}."
_OF_A_DISK = frozenset({"STATE_UNKNOWN", "STORE_FAILED"})
# A disk that is full, or broken, or mounted so that nobody may write.
_DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS})


def ready_line(text: str, *, lifeline: bool) -> Callable[[str], None]:
    """Print the ready line with this address, then hold to the lifeline of a serving command."""

    def ready(address: str) -> None:
        click.echo(said(text, address=address))
        if lifeline:
            watch_lifeline()

    return ready


def emit(as_json: bool, result: Mapping[str, Any], text: str) -> None:
    """Print a command's result: the object under --json, otherwise the text for people."""
    click.echo(json.dumps(result, ensure_ascii=False) if as_json else text)


def emit_failing(as_json: bool, result: Mapping[str, Any], text: str, error: BrokerError) -> int:
    """Print a result that is whole, and beside it the error that it ends with; gives the exit code for the command to return.

    Under --json both are one object, the error under its usual name.
    """
    if as_json:
        click.echo(json.dumps({**result, **error.as_json()}, ensure_ascii=False))
        return error.exit_code
    click.echo(text)
    return _fail(error, ())


def instant(time_ms: int) -> str:
    """A time as commands write it: ISO 8601, UTC, to the second."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds")


def say(text: str) -> None:
    """Progress and remarks: always on stderr, so that stdout stays clean."""
    click.echo(text, err=True)


class Progress:
    """One line on stderr that counts up; redrawn on a terminal, said at every tenth otherwise."""

    def __init__(self, what: str) -> None:
        self._what = said(what)
        self._said = -1

    def __call__(self, done: int, total: int) -> None:
        percent = 100 if total <= 0 else min(100, 100 * done // total)
        step = percent if sys.stderr.isatty() else percent // 10 * 10
        if step == self._said:
            return
        self._said = step
        terminal = sys.stderr.isatty()
        end = "\n" if step == 100 or not terminal else ""  # noqa: PLR2004 - percent
        shown = said("{what}: {step} %", what=self._what, step=step)
        sys.stderr.write(f"{chr(13) if terminal else ''}{shown}{end}")
        sys.stderr.flush()


class CommandInterrupted(click.Abort):
    """Ctrl-C or SIGTERM ended a command that can say what to do about it."""

    def __init__(self, hint: str) -> None:
        super().__init__()
        self.hint = hint


class _Roles(click.Group):
    """Commands that are loaded when they are called, each from its own package; their list loads none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return sorted(point.name for point in _points())

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        found = super().resolve_command(ctx, args)
        # Its modules are imported: it may handle an interrupt itself now, and leave garbage.
        interrupts.leave_to_command()
        gc.enable()
        return found

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            # A command imports what it needs when it runs.
            _refuse_absent(error, ctx.invoked_subcommand or "")
            raise

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        for point in _points():
            if point.name == cmd_name:
                return _load(point)
        return None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        rows = [row for row in self._rows(ctx) if row[0].startswith(incomplete)]
        return [CompletionItem(name, help=summary) for name, summary in rows] + click.Command.shell_complete(
            self, ctx, incomplete
        )

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help_text(ctx, formatter)
        if any(name == "demo" for name, _ in self._rows(ctx)):
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text("Start with 'tripartite demo'.")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(self._rows(ctx))

    def _rows(self, ctx: click.Context) -> list[tuple[str, str]]:
        """Every command whose package is here, with its summary."""
        del ctx
        return [(point.name, summary) for point in sorted(_points()) if (summary := _summary(point))]


@functools.cache
def _points() -> Sequence[EntryPoint]:
    return tuple(entry_points(group=_GROUP))


def _summary(point: EntryPoint) -> str:
    """A command's line in a list: the docstring of the function that it is made of, read without importing it.

    Empty if its package is not here.
    """
    try:
        spec = importlib.util.find_spec(point.module)
    except ModuleNotFoundError:
        return ""
    module = spec.loader.get_code(point.module) if spec and isinstance(spec.loader, InspectLoader) else None
    for function in module.co_consts if module else ():
        if isinstance(function, CodeType) and function.co_name == point.attr:
            return click.Command(point.name, help=str(function.co_consts[0])).get_short_help_str(_SUMMARY_CHARACTERS)
    return ""


def load_installed(point: EntryPoint) -> Any:
    """Load the object of an entry point of one of our packages.

    Raises:
        InvalidRequestError: NOT_INSTALLED.
    """
    try:
        return point.load()
    except ModuleNotFoundError as error:
        _refuse_absent(error, point.name)
        raise


def _refuse_absent(error: ModuleNotFoundError, command: str) -> None:
    """Say what to install, if it is one of our packages that is not here: `init` needs all three nodes."""
    extra_of = {point.module.partition(".")[0]: point.extras for point in _points()}
    package = (error.name or "").partition(".")[0]
    if package in extra_of:
        package = "".join(f"tripartite[{extra}]" for extra in extra_of[package]) or package
        raise InvalidRequestError("NOT_INSTALLED", role=command, package=package) from error


def _load(point: EntryPoint) -> click.Command:
    command = load_installed(point)
    if not isinstance(command, click.Command):
        raise TypeError(f"the entry point {point.name} is not a command")
    return command


@click.command(cls=_Roles, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(version("tripartite"), prog_name="tripartite")
def program() -> None:
    """Count people across two agencies that may never merge their data.

    A health agency knows who had an angioplasty, a census agency knows who speaks French, and neither may see the
    other's records. Ask how many people are both, and get one noisy count that only you can read.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and leave with its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    # SECURITY: before anything is written. `durable` opens the permissions of files that are meant for others.
    close_to_others()
    # A command that is told to end may say so, and leaves nothing behind; serving nodes put handlers of their own here.
    signal.signal(signal.SIGTERM, _interrupt)
    log_as("text")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that has no sign for a letter shows its number: an answer that was charged is never lost for that.
            stream.reconfigure(errors="backslashreplace")
    sys.exit(_run(words))


def _run(words: list[str]) -> int:
    as_json = "--json" in words
    try:
        _verify_text(words)
        result = program.main(words, prog_name="tripartite", standalone_mode=False)
    except click.UsageError as error:
        return _fail_usage(error, as_json)
    except click.exceptions.Exit as error:
        return error.exit_code
    except (click.Abort, KeyboardInterrupt) as interrupt:
        return _fail_interrupted(interrupt, as_json)
    except BrokerError as error:
        return _fail(error, words)
    except Exception as error:  # noqa: BLE001 - the last resort: a bug ends as INTERNAL, with its place for the operator
        interrupt_behind = _interrupt_behind(error)
        return _fail_interrupted(interrupt_behind, as_json) if interrupt_behind else _fail(_unexpected(error), words)
    return int(result) if isinstance(result, int) else ExitCode.OK


def _interrupt_behind(error: BaseException | None) -> KeyboardInterrupt | None:
    """The interrupt that a library made another error of: commands import what they need when they run."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error


def _verify_text(words: Sequence[str]) -> None:
    """Return only if every word is text: bytes that are none could be neither stored, sent nor shown."""
    try:
        "".join(words).encode()
    except UnicodeEncodeError as error:
        raise click.UsageError(phrase("An argument is not text in UTF-8.")) from error


def _interrupt(number: int, frame: FrameType | None) -> None:
    """SIGTERM is Ctrl-C, also where the event loop makes something else of that than an exception."""
    del number
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler):
        # Ignored, as in a shell's background.
        handler = signal.default_int_handler
    handler(signal.SIGINT, frame)


def _unexpected(error: Exception) -> BrokerError:
    if isinstance(error, OSError) and error.errno in _DISK_ERRORS:
        return InternalError("STORE_FAILED")
    if isinstance(error, OSError) and error.filename is not None:
        # A file that the command was told to use: no bug, and nothing that a traceback would explain.
        file, problem = Path(os.fsdecode(error.filename)), error.strerror or type(error).__name__
        # A file has another name until it is whole.
        return InvalidRequestError(
            "FILE_UNUSABLE", file=str(file.parent if file.suffix == ".part" else file), problem=problem
        )
    _say_place(error)
    return InternalError("INTERNAL")


def _say_place(error: Exception) -> None:
    """Where a bug is: never its message, which may quote what somebody asked or who they are."""
    for frame in traceback.extract_tb(error.__traceback__):
        say(f"  {frame.filename}:{frame.lineno} {frame.name}")
    say(said("unforeseen {kind}", kind=type(error).__name__))


def _fail(error: BrokerError, words: Sequence[str]) -> int:
    homes = _homes(words) if error.code in _OF_A_DISK else []
    if "--json" in words:
        said = error.as_json()
        said["error"]["hint"] += "".join(f" {_WHOSE_DISK.format(home=home)}" for home in homes[:1])
        click.echo(json.dumps(said, ensure_ascii=False))
    else:
        _say_failure(error, homes)
    return error.exit_code


def _say_failure(error: BrokerError, homes: Sequence[str]) -> None:
    """Sentence and hint in the language of the user's environment."""
    text, hint = error.said(said)
    # Whatever raised it does not know whose disk it is.
    hint += "".join(f" {said(_WHOSE_DISK, home=home)}" for home in homes[:1])
    _say_error(said("Error: {text}\n{hint}  [{code}]", text=text, hint=hint, code=error.code))


def _say_error(text: str) -> None:
    """Sentence and hint on standard error, the sentence in red where that is a terminal."""
    sentence, newline, hint = text.partition("\n")
    say(coloured(sentence, "red", sys.stderr) + newline + hint)


def _homes(words: Sequence[str]) -> list[str]:
    """Homes that a command line names with --home."""
    homes = [word for option, word in pairwise(words) if option == "--home"]
    return homes + [word.partition("=")[2] for word in words if word.startswith("--home=")]


def _fail_interrupted(interrupt: BaseException, as_json: bool) -> int:
    hint = interrupt.hint if isinstance(interrupt, CommandInterrupted) else interrupts.HINT
    if as_json:
        click.echo(json.dumps({"error": {"code": "INTERRUPTED", "text": interrupts.TEXT, "hint": hint}}))
    else:
        click.echo(said("Interrupted. {hint}", hint=said(hint)), err=True)
    return interrupts.INTERRUPTED


def usage_problem(message: str) -> str:
    """A sentence of the command library as a phrase, if the catalogue has it; else as it stands."""
    for template in LIBRARY_SENTENCES:
        pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>.+)", re.escape(template))
        found = re.fullmatch(pattern, message, re.DOTALL)
        if found is not None:
            # The problem with a value is a sentence of the library again.
            return phrase(template, **{name: usage_problem(text) for name, text in found.groupdict().items()})
    return message


def called() -> str:
    """The program as it is found from where the user stands: by its name, or else by its path."""
    installed = Path(sys.executable).with_name("tripartite")
    if not installed.is_file() or shutil.which("tripartite") == str(installed):
        return "tripartite"
    here = Path.cwd()
    return shlex.quote(str(installed.relative_to(here) if installed.is_relative_to(here) else installed))


def _fail_usage(error: click.UsageError, as_json: bool) -> int:
    path = error.ctx.command_path if error.ctx is not None else "tripartite"
    hint = phrase("Run '{path} --help'.", path=path)
    problem = usage_problem(error.format_message())
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        # Nothing was asked for: the message is the whole help, and no error to somebody who looks around.
        click.echo(error.format_message(), err=True)
    elif as_json:
        click.echo(json.dumps({"error": {"code": "USAGE", "text": problem, "hint": hint}}))
    else:
        _say_error(said("Error: {problem}\n{hint}", problem=said(problem), hint=said(hint)))
    return ExitCode.USAGE


if __name__ == "__main__":
    # Under its own name, so that the commands and this module mean the same classes.
    runpy.run_module("broker_common", run_name="__main__")
