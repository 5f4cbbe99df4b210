"""`tripartite lab evaluate`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from broker_common.cli import CommandInterrupted, Progress, emit, say
from broker_common.commands.options import Whole, json_option
from broker_common.errors import InvalidRequestError
from broker_common.language import language_of_environment, phrase, said
from policy_lab.evaluate import texts

if TYPE_CHECKING:
    from policy_lab.document.model import Document
    from policy_lab.evaluate.data import Data
    from policy_lab.evaluate.run import RunFile

_MOST_PROCESSES = 256
_ERRORS_FILE = "errors.csv"
# Packages of the extra `lab`.
_LIBRARIES = frozenset({"pandas", "pyarrow", "scipy", "typst"})


@click.command()
@json_option
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help=texts.OUT_HELP)
@click.option("--processes", type=Whole(1, _MOST_PROCESSES), default=1, show_default=True, help=texts.PROCESSES_HELP)
@click.option("--pdf", "with_pdf", is_flag=True, help=texts.PDF_HELP)
@click.option("--check", is_flag=True, help=texts.CHECK_HELP)
@click.option("--example", is_flag=True, help=texts.EXAMPLE_HELP)
@click.argument("run_file", metavar="RUN.yaml", required=False, type=click.Path(path_type=Path, dir_okay=False))
def evaluate(
    run_file: Path | None, as_json: bool, out: Path | None, processes: int, with_pdf: bool, check: bool, example: bool
) -> None:
    """Compare mechanisms on a data file: noise on results, at each respondent, and shuffled.

    RUN.yaml says which data, columns, questions, epsilons and mechanisms; 'tripartite lab evaluate --example' prints one with remarks.
    The result is for the holder of the data: an error beside a noisy answer gives the exact value away. See docs/lab/evaluate.md.
    """
    if example:
        _print_example(as_json, run_file)
        return
    if run_file is None:
        raise click.UsageError(phrase(texts.NO_RUN), click.get_current_context())
    if check and out is not None:
        raise click.UsageError(phrase(texts.CHECK_AND_OUT), click.get_current_context())
    if with_pdf and out is None:
        raise click.UsageError(phrase(texts.PDF_NEEDS_OUT), click.get_current_context())
    try:
        _evaluate(run_file, as_json, out, processes, with_pdf=with_pdf, check=check)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _LIBRARIES:
            raise
        raise InvalidRequestError("LAB_NOT_INSTALLED", package=package) from error
    except KeyboardInterrupt:
        raise CommandInterrupted(phrase(texts.INTERRUPTED if out else texts.INTERRUPTED_UNKEPT)) from None


def _evaluate(run_file: Path, as_json: bool, out: Path | None, processes: int, *, with_pdf: bool, check: bool) -> None:
    from policy_lab.evaluate.run_file import read_run_file
    from policy_lab.standing import make_private_folder

    run = read_run_file(run_file)
    if out is not None:
        # A folder that is no good is found before the work of minutes.
        make_private_folder(out)
    command = shlex.join(["tripartite", "lab", "evaluate", *(["--check"] if check else []), str(run_file)])
    if run.profile:
        if check:
            raise click.UsageError(phrase(texts.CHECK_AND_PROFILE), click.get_current_context())
        _tell(as_json, _as_published(run, command), out, {}, with_pdf=with_pdf)
        return
    from policy_lab.evaluate.data import read_data
    from policy_lab.evaluate.report.report import plan

    data = read_data(run, Progress(texts.READING))
    _say_clipped(run, data)
    if check:
        _tell(as_json, plan(run, data, command), None, {}, with_pdf=False)
        return
    document, errors = _evaluated(run, data, out, processes, command)
    _tell(as_json, document, out, {_ERRORS_FILE: errors}, with_pdf=with_pdf)


def _evaluated(run: RunFile, data: Data, out: Path | None, processes: int, command: str) -> tuple[Document, bytes]:
    from policy_lab.evaluate.errors import errors, errors_csv
    from policy_lab.evaluate.parts import Parts, jobs
    from policy_lab.evaluate.report.report import report
    from policy_lab.evaluate.running import run_all

    wanted, parts = jobs(run), Parts(out, run, data)
    finished = sum(parts.get(job) is not None for job in wanted)
    if finished:
        say(said(texts.REUSED, n=finished, all=len(wanted)))
    run_all(run, data, wanted, parts, processes, Progress(texts.EVALUATING))
    found = list(errors(run, data, parts))
    return report(run, data, parts, found, command), errors_csv(run, found)


def _as_published(run: RunFile, command: str) -> Document:
    from policy_lab.evaluate.lined import LinedFile
    from policy_lab.survey.profile import PublishedRun, evaluate_as_published

    def refuse(problem: str, remedy: str) -> InvalidRequestError:
        return LinedFile(run.path.name).problem(run.data_line, problem, remedy)

    published = PublishedRun(
        data=run.data,
        standing=run.standing,
        epsilons=run.epsilons,
        repetitions=run.repetitions,
        seed=run.seed,
        command=command,
        refuse=refuse,
    )
    return evaluate_as_published(published, Progress(texts.EVALUATING))


def _say_clipped(run: RunFile, data: Data) -> None:
    if run.weights and data.clipped_weights:
        say(said(texts.CLIPPED, n=data.clipped_weights, rows=data.rows, cap=run.weights.cap))
    for column, clamped in data.clamped.items():
        if clamped:
            say(said(texts.CLAMPED, n=clamped, rows=data.rows, column=column))


def _tell(as_json: bool, document: Document, out: Path | None, files: dict[str, bytes], *, with_pdf: bool) -> None:
    """Write the document where that is asked for, and print it, or what was written."""
    from policy_lab.document import as_json as json_form
    from policy_lab.document import stored, terminal
    from policy_lab.standing import write_private

    t = language_of_environment()
    value = json_form.value(document)
    if out is None:
        emit(as_json, value, terminal.text(document, t))
        return
    written = stored.write(document, out, t, with_pdf=with_pdf)
    for name, content in files.items():
        write_private(out / name, content)
        written.append(out / name)
    names = [str(path.relative_to(out)) for path in written]
    shown = said(texts.WRITTEN, folder=str(out), files=len(written), first=names[0])
    emit(as_json, value | {"folder": str(out), "files": names}, shown)


def _print_example(as_json: bool, run_file: Path | None) -> None:
    from policy_lab.evaluate.run_file import EXAMPLE_RUN

    if run_file is not None:
        raise click.UsageError(phrase(texts.EXAMPLE_ALONE), click.get_current_context())
    text = EXAMPLE_RUN.read_text("utf-8")
    emit(as_json, {"run_file": text}, text.rstrip("\n"))
