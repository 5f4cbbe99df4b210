"""`tripartite lab sensitivity`."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from broker_common.cli import CommandInterrupted, Progress, emit, say
from broker_common.commands.options import Whole, json_option
from broker_common.errors import InvalidRequestError
from broker_common.language import language_of_environment, phrase, said
from policy_lab.sensitivity import texts
from policy_lab.standing import DECLARABLE, Standing

if TYPE_CHECKING:
    from policy_lab.sensitivity.model import Model, Training
    from policy_lab.sensitivity.queries import Bounds
    from policy_lab.sensitivity.report import Asked
    from policy_lab.sensitivity.table import Table
    from policy_lab.sensitivity.trials import Generator, Plan

_FILE = click.Path(path_type=Path, dir_okay=False)
_FOLDER = click.Path(path_type=Path, file_okay=False)
_STANDINGS = tuple(each.value for each in DECLARABLE)
_MOST_ROWS = 20_000_000
_MOST_SAMPLES = 1000
_MOST_REPETITIONS = 1_000_000
_MOST_EPOCHS = 100_000
_MOST_SEED = 2**31 - 1
_MODEL = "model"
# A terminal sees every epoch, a file each twentieth part of them.
_TOLD_EPOCHS = 20


@click.command()
@json_option
@click.option("--column", "columns", multiple=True, metavar="COLUMN", help=texts.COLUMN_HELP)
@click.option("--without", multiple=True, metavar="COLUMN", help=texts.WITHOUT_HELP)
@click.option("--rows", "sizes", multiple=True, type=Whole(2, _MOST_ROWS), help=texts.ROWS_HELP)
@click.option("--epsilon", metavar="NUMBER", default="1", show_default=True, help=texts.EPSILON_HELP)
@click.option("--bounds", multiple=True, metavar="COLUMN=LOW:HIGH", help=texts.BOUNDS_HELP)
@click.option("--generated", type=_FILE, help=texts.GENERATED_HELP)
@click.option("--model", "saved", type=_FOLDER, help=texts.MODEL_HELP)
@click.option("--epochs", type=Whole(1, _MOST_EPOCHS), default=300, show_default=True, help=texts.EPOCHS_HELP)
@click.option("--samples", type=Whole(1, _MOST_SAMPLES), default=10, show_default=True, help=texts.SAMPLES_HELP)
@click.option(
    "--repetitions", type=Whole(1, _MOST_REPETITIONS), default=200, show_default=True, help=texts.REPETITIONS_HELP
)
@click.option("--seed", type=Whole(0, _MOST_SEED), default=1, show_default=True, help=texts.SEED_HELP)
@click.option("--accept-licence", is_flag=True, help=texts.LICENCE_HELP)
@click.option(
    "--standing", type=click.Choice(_STANDINGS), default="internal", show_default=True, help=texts.STANDING_HELP
)
@click.option("--out", type=_FOLDER, required=True, help=texts.OUT_HELP)
@click.argument("file", type=_FILE)
@click.pass_context
def sensitivity(
    context: click.Context,
    as_json: bool,
    columns: tuple[str, ...],
    without: tuple[str, ...],
    sizes: tuple[int, ...],
    epsilon: str,
    bounds: tuple[str, ...],
    generated: Path | None,
    saved: Path | None,
    epochs: int,
    samples: int,
    repetitions: int,
    seed: int,
    accept_licence: bool,
    standing: str,
    out: Path,
    file: Path,
) -> None:
    """Estimate the sensitivity of SUM and AVG from synthetic rows of FILE, as was published. NOT differentially private.

    FILE is CSV with names in its first line and ? for what is missing. A CTGAN is trained on it (an install and a licence of their own),
    or synthetic rows are given with --generated. The report says first why this keeps no promise, shows it with two neighbouring
    tables, and what public bounds would give instead. See docs/lab/sensitivity.md.
    """
    if generated is not None and saved is not None:
        raise click.UsageError(phrase(texts.BOTH_SOURCES), context)
    # Imported here: they bring the array library along.
    from policy_lab.mechanisms.limits import checked_epsilon
    from policy_lab.sensitivity.report import Asked
    from policy_lab.sensitivity.table import read_table, wrong
    from policy_lab.sensitivity.trials import Plan, default_rows
    from policy_lab.standing import make_private_folder

    nominal = checked_epsilon(_number("--epsilon", epsilon, texts.EPSILON_REMEDY))
    table = read_table(file, columns, without)
    chosen = list(dict.fromkeys(columns)) or list(table.numbers)
    if not chosen:
        raise wrong(file.name, texts.NO_NUMBERS, texts.NO_NUMBERS_REMEDY)
    plan = Plan(
        columns=chosen,
        rows=_sizes(sizes, table) or default_rows(table.rows),
        epsilon=nominal,
        samples=samples,
        repetitions=repetitions,
        seed=seed,
        bounds=_bounds(bounds, chosen, is_quotable=bool(columns or without)),
    )
    # A folder that is no good is found before the work of minutes.
    make_private_folder(out)
    if generated is not None:
        generate, origin = _from_file(generated, plan), phrase(texts.FROM_FILE, file=generated.name)
    else:
        generate, origin = _from_ctgan(table, epochs, seed, saved, out, accept_licence)
    asked = Asked(table, plan, origin, generated is None, Standing(standing), _command(context))
    _report(as_json, asked, generate, out)


def _report(as_json: bool, asked: Asked, generate: Generator, out: Path) -> None:
    from policy_lab.document import stored, terminal
    from policy_lab.sensitivity.report import apart, arithmetic, document
    from policy_lab.sensitivity.trials import trials

    say(said(texts.NOT_PRIVATE))
    found = trials(asked.data, asked.plan, generate, Progress(texts.TRYING))
    pairs = apart(asked, found)
    made = document(asked, found, pairs)
    t = language_of_environment()
    files = stored.write(made, out, t)
    result = {
        "differentially_private": False,
        "warning": texts.NOT_PRIVATE,
        "mark": str(asked.standing.mark),
        "arithmetic": arithmetic(),
        "neighbours": [
            {**asdict(each), "epsilon_at_least": each.epsilon, "delta_at_least": each.delta(asked.plan.epsilon)}
            for each in pairs
        ],
        "trials": [_plain(asdict(each)) for each in found],
        "command": asked.command,
        "files": list(map(str, files)),
    }
    emit(as_json, result, said(texts.DONE, text=terminal.text(made, t), folder=str(out), n=len(files)))


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """JSON has no word for what was never answered but null."""
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in values.items()}


def _from_ctgan(
    table: Table, epochs: int, seed: int, saved: Path | None, out: Path, accept_licence: bool
) -> tuple[Generator, str]:
    from policy_lab.sensitivity.licence import accept, licences

    accept(out, is_accepted=accept_licence, show=say)
    module = _with_ctgan()
    model, training = _trained(module, table, module.Training(epochs, seed), saved, out)
    origin = phrase(texts.FROM_CTGAN, ctgan=licences()[0].version, epochs=training.epochs, seed=str(training.seed))
    return _sampled(model, seed), origin


def _trained(module: Any, table: Table, training: Training, saved: Path | None, out: Path) -> tuple[Model, Training]:
    if saved is not None:
        return module.load(table, saved), module.training_of(saved)
    try:
        return module.trained(table, training, out / _MODEL, _epochs(), say), training
    except KeyboardInterrupt:
        raise CommandInterrupted(phrase(texts.INTERRUPTED)) from None


def _with_ctgan() -> Any:
    """The module that trains; importing it takes seconds.

    Raises:
        InvalidRequestError: CTGAN_NOT_INSTALLED, also where the PyTorch that is here wants a graphics card's libraries.
    """
    try:
        from policy_lab.sensitivity import model
    except ModuleNotFoundError as error:
        raise InvalidRequestError("CTGAN_NOT_INSTALLED", package=error.name or "ctgan") from error
    except (ImportError, OSError) as error:
        raise InvalidRequestError("CTGAN_NOT_INSTALLED", package="torch (CPU)") from error
    return model


def _sampled(model: Model, seed: int) -> Generator:
    import numpy as np

    def generate(rows: int, sample: int) -> Mapping[str, Any]:
        return model.sample(rows, int(np.random.SeedSequence([seed, rows, sample]).generate_state(1)[0]))

    return generate


def _from_file(path: Path, plan: Plan) -> Generator:
    import numpy as np

    from policy_lab.sensitivity.table import read_table, wrong

    generated = read_table(path, plan.columns)
    if generated.rows < max(plan.rows):
        problem = phrase(texts.FEW_GENERATED, found=generated.rows, wanted=max(plan.rows))
        raise wrong(path.name, problem, texts.FEW_GENERATED_REMEDY)

    def generate(rows: int, sample: int) -> Mapping[str, Any]:
        chosen = np.random.default_rng([plan.seed, rows, sample]).choice(generated.rows, rows, replace=False)
        return {column: generated.numbers[column][chosen] for column in plan.columns}

    return generate


def _epochs() -> Callable[[int, int], None]:
    """Progress of each epoch, on stderr."""
    is_terminal = sys.stderr.isatty()

    def tell(done: int, epochs: int) -> None:
        if is_terminal:
            end = "\n" if done == epochs else ""
            click.echo("\r" + said(texts.EPOCH, done=done, epochs=epochs) + end, err=True, nl=False)
        elif done % max(1, epochs // _TOLD_EPOCHS) == 0 or done == epochs:
            say(said(texts.EPOCH, done=done, epochs=epochs))

    return tell


def _sizes(sizes: Sequence[int], table: Table) -> list[int]:
    for size in sizes:
        if size > table.rows:
            problem = phrase(texts.MANY_ROWS, rows=table.rows)
            raise InvalidRequestError(
                "INVALID_VALUE", name=f"--rows {size}", problem=problem, remedy=texts.FEWER_ROWS_REMEDY
            )
    return sorted(set(sizes))


def _bounds(given: Sequence[str], columns: Sequence[str], *, is_quotable: bool) -> dict[str, Bounds]:
    from policy_lab.mechanisms.limits import checked_bounds
    from policy_lab.sensitivity.table import nearest_column

    found: dict[str, Bounds] = {}
    for text in given:
        column, equals, interval = text.rpartition("=")
        low, colon, high = interval.partition(":")
        if not (equals and colon) or column in found:
            raise _wrong_bounds(text, texts.NOT_BOUNDS, texts.BOUNDS_REMEDY)
        if column not in columns:
            # Without any column that was asked for and found, the first line may be somebody's row.
            is_known = is_quotable or bool(found)
            remedy = nearest_column(column, columns) if is_known else phrase(texts.HEADING_REMEDY)
            raise _wrong_bounds(text, texts.NO_SUCH_COLUMN, remedy)
        name = f"--bounds {column}"
        found[column] = checked_bounds(
            _number(name, low, texts.BOUNDS_REMEDY), _number(name, high, texts.BOUNDS_REMEDY)
        )
    return found


def _wrong_bounds(text: str, problem: str, remedy: str) -> InvalidRequestError:
    from broker_common.query.dictionary import shown

    return InvalidRequestError("INVALID_VALUE", name=f"--bounds {shown(text)}", problem=problem, remedy=remedy)


def _number(name: str, text: str, remedy: str) -> Decimal:
    try:
        found = Decimal(text.strip())
    except InvalidOperation:
        found = Decimal("NaN")
    if not found.is_finite():
        raise InvalidRequestError("INVALID_VALUE", name=name, problem=texts.NOT_NUMBER, remedy=remedy)
    return found


def _command(context: click.Context) -> str:
    """The command line that makes the document again, in any folder."""
    words = ["tripartite", "lab", "sensitivity"]
    for parameter in context.command.params:
        name = str(parameter.name)
        if name in {"file", "as_json", "out"} or context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        value = context.params[name]
        for each in value if isinstance(value, tuple) else (value,):
            words += [parameter.opts[-1]] if each is True else [parameter.opts[-1], str(each)]
    return shlex.join([*words, "--out", "DIR", str(context.params["file"])])
