"""`tripartite lab table`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click
from click.core import ParameterSource

from broker_common.cli import Progress, emit, say
from broker_common.commands.options import Whole, json_option
from broker_common.errors import InvalidRequestError
from broker_common.language import language_of_environment, phrase, said
from policy_lab.standing import DECLARABLE, Standing, write_private
from policy_lab.tables import texts

if TYPE_CHECKING:
    from policy_lab.document.model import Document
    from policy_lab.tables.cells import Cells
    from policy_lab.tables.plan import Method, Rule, Statistic
    from policy_lab.tables.question import Question

_FILE = click.Path(path_type=Path, dir_okay=False)
_FOLDER = click.Path(path_type=Path, file_okay=False)
_STATISTICS = ("count", "average", "total")
_RULES = ("laplace", "bootstrap")
_METHODS = ("one-sensitivity", "split", "public-membership")
_STANDINGS = tuple(each.value for each in DECLARABLE)
_MOST_REPLICATES = 100_000
_LEAST_SAMPLES, _MOST_SAMPLES = 1000, 10_000_000
_MOST_SEED = 2**31 - 1
# An exact fraction with a larger exponent would be slow, and no figure has one.
_LARGEST_EXPONENT = 100
_REPLICATES_FILE = "replicates.csv"
# Subject of an evaluation as published.
_PUBLISHED = {"rule": "bootstrap", "statistic": "total"}
# Options that mean something in an evaluation only.
_EVALUATING = ("seed", "repetitions", "samples", "uniform", "as_published")


@click.command()
@json_option
@click.option("--rows", metavar="COLUMN", default="", help=texts.ROWS_HELP)
@click.option("--columns", metavar="COLUMN", default="", help=texts.COLUMNS_HELP)
@click.option("--value", metavar="COLUMN", default="", help=texts.VALUE_HELP)
@click.option(
    "--statistic", type=click.Choice(_STATISTICS), default="count", show_default=True, help=texts.STATISTIC_HELP
)
@click.option("--where", multiple=True, metavar="COLUMN=VALUE", help=texts.WHERE_HELP)
@click.option("--rule", type=click.Choice(_RULES), default="laplace", show_default=True, help=texts.RULE_HELP)
@click.option(
    "--method", type=click.Choice(_METHODS), default="one-sensitivity", show_default=True, help=texts.METHOD_HELP
)
@click.option("--bounds", metavar="LOW:HIGH", help=texts.BOUNDS_HELP)
@click.option("--epsilon", metavar="NUMBER", help=texts.EPSILON_HELP)
@click.option("--seed", type=Whole(0, _MOST_SEED), default=1, show_default=True, help=texts.SEED_HELP)
@click.option(
    "--replicates",
    "repetitions",
    type=Whole(1, _MOST_REPLICATES),
    default=100,
    show_default=True,
    help=texts.REPLICATES_HELP,
)
@click.option(
    "--samples", type=Whole(_LEAST_SAMPLES, _MOST_SAMPLES), default=200_000, show_default=True, help=texts.SAMPLES_HELP
)
@click.option("--uniform", metavar="NUMBER", help=texts.UNIFORM_HELP)
@click.option("--as-published", is_flag=True, help=texts.PUBLISHED_HELP)
@click.option("--release", "is_release", is_flag=True, help=texts.RELEASE_HELP)
@click.option("--grid", metavar="STEP", help=texts.GRID_HELP)
@click.option(
    "--standing", type=click.Choice(_STANDINGS), default="internal", show_default=True, help=texts.STANDING_HELP
)
@click.option("--out", type=_FOLDER, help=texts.OUT_HELP)
@click.argument("file", type=_FILE)
@click.pass_context
def table(
    context: click.Context,
    as_json: bool,
    rows: str,
    columns: str,
    value: str,
    statistic: str,
    where: tuple[str, ...],
    rule: str,
    method: str,
    bounds: str | None,
    epsilon: str | None,
    seed: int,
    repetitions: int,
    samples: int,
    uniform: str | None,
    as_published: bool,
    is_release: bool,
    grid: str | None,
    standing: str,
    out: Path | None,
    file: Path,
) -> None:
    """Counts, averages or totals of FILE under a chosen rule of noise, and what its promise is worth.

    FILE is CSV with names in its first line, or Parquet. --rows and --columns make a table, one of them a list, none of them a single
    figure. Without --release this is an evaluation: exact figures stand beside noisy ones, and nothing of it may be handed on.
    """
    if as_published:
        rule, statistic = _implied(context)
    _verify_together(context)
    if epsilon is None:
        raise click.MissingParameter(ctx=context, param=_named(context, "epsilon"))
    # Imported here: they bring the array library along.
    from policy_lab.mechanisms.limits import checked_bounds, checked_epsilon
    from policy_lab.tables.loading import cells_of
    from policy_lab.tables.question import Question

    exact_epsilon = _number("--epsilon", epsilon, texts.EPSILON_REMEDY)
    checked_epsilon(exact_epsilon)
    question = Question(
        command=_command(context),
        standing=_standing(standing, is_release=is_release),
        statistic=cast("Statistic", statistic),
        rule=cast("Rule", rule),
        method=cast("Method", method),
        epsilon=exact_epsilon,
        bounds=None if bounds is None else checked_bounds(*_bounds(bounds)),
        rows=rows,
        columns=columns,
        value=value,
        where=[_where(each) for each in where],
        seed=seed,
        repetitions=repetitions,
        samples=samples,
        uniform=None if uniform is None else _uniform(uniform),
        as_published=as_published,
    )
    cells = cells_of(question, file, Progress(texts.READING), is_release=is_release)
    if is_release:
        _tell(as_json, _released(question, cells, grid), out, None)
        return
    if cells.clamped:
        # Exact, so of an evaluation only.
        say(said(texts.CUT_SAID, n=cells.clamped))
    from policy_lab.tables.report import evaluated, replicates_csv

    document, drawn = evaluated(question, cells)
    _tell(as_json, document, out, replicates_csv(question, cells, drawn))


def _implied(context: click.Context) -> tuple[str, str]:
    """The rule and the statistic that were published, where nothing else was typed.

    Raises:
        UsageError: something else was, or what nobody can guess is missing. The error has the whole command.
    """
    given, typed = context.params, {option.name for option in _options(context)}
    for name, published in _PUBLISHED.items():
        if name not in typed:
            given[name] = published
    if given["value"] == "" or given["epsilon"] is None or any(given[name] != _PUBLISHED[name] for name in _PUBLISHED):
        raise click.UsageError(phrase(texts.AS_PUBLISHED), context)
    return given["rule"], given["statistic"]


def _verify_together(context: click.Context) -> None:
    """Options that contradict each other are a wrong command line."""
    given = context.params
    is_count, is_release = given["statistic"] == "count", given["is_release"]
    has_bounds = given["bounds"] is not None
    unfit = {
        texts.NEEDS_VALUE: not is_count and not given["value"],
        texts.NEEDS_NO_VALUE: is_count and bool(given["value"]),
        texts.NEEDS_BOUNDS: given["rule"] == "laplace" and not is_count and not has_bounds,
        texts.COUNTS_HAVE_NO_BOUNDS: is_count and has_bounds,
        texts.COUNTS_HAVE_NO_GRID: is_count and given["grid"] is not None,
        texts.PUBLIC_COUNTS: is_count and given["method"] == "public-membership",
        texts.BOTH_NOISES: given["as_published"] and given["uniform"] is not None,
        texts.ONLY_FOR_RELEASE: not is_release and given["grid"] is not None,
        texts.SAME_COLUMN: bool(given["rows"]) and given["rows"] == given["columns"],
    }
    for problem, is_so in unfit.items():
        if is_so:
            raise click.UsageError(phrase(problem), context)
    for option in _options(context):
        if is_release and option.name in _EVALUATING:
            problem = phrase(texts.NOT_FOR_RELEASE, option=option.opts[-1])
            raise click.UsageError(problem, context)


def _options(context: click.Context) -> Iterator[click.Parameter]:
    """The options that were typed, in the order of the help."""
    for parameter in context.command.params:
        if parameter.name and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE:
            yield parameter


def _standing(declared: str, *, is_release: bool) -> Standing:
    """The holder's declaration; a release of data that are not public has no error beside an answer, and says so."""
    standing = Standing(declared)
    return Standing.RELEASE if is_release and standing is Standing.INTERNAL else standing


def _named(context: click.Context, name: str) -> click.Parameter:
    return next(each for each in context.command.params if each.name == name)


def _command(context: click.Context) -> str:
    """The command line that makes the document again; where it is written and shown does not matter."""
    words = ["tripartite", "lab", "table"]
    for parameter in _options(context):
        value = context.params[str(parameter.name)]
        if parameter.name in {"file", "out", "as_json"}:
            continue
        for each in value if isinstance(value, tuple) else (value,):
            words += [parameter.opts[-1]] if each is True else [parameter.opts[-1], str(each)]
    return shlex.join([*words, str(context.params["file"])])


def _number(name: str, text: str, remedy: str) -> Fraction:
    """A plain number, exactly.

    Raises:
        InvalidRequestError: INVALID_VALUE.
    """
    try:
        value = Decimal(text.strip())
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite() or "_" in text:
        raise InvalidRequestError("INVALID_VALUE", name=name, problem=phrase(texts.NOT_A_NUMBER), remedy=phrase(remedy))
    if value and abs(value.adjusted()) > _LARGEST_EXPONENT:
        problem = phrase(texts.FAR_TOO)
        raise InvalidRequestError("INVALID_VALUE", name=name, problem=problem, remedy=phrase(remedy))
    return Fraction(value)


def _bounds(text: str) -> tuple[Fraction, Fraction]:
    low, colon, high = text.partition(":")
    if not colon:
        problem, remedy = phrase(texts.NOT_BOUNDS), phrase(texts.BOUNDS_REMEDY)
        raise InvalidRequestError("INVALID_VALUE", name="--bounds", problem=problem, remedy=remedy)
    return _number("--bounds", low, texts.BOUNDS_REMEDY), _number("--bounds", high, texts.BOUNDS_REMEDY)


def _where(text: str) -> tuple[str, str]:
    column, sign, value = text.partition("=")
    if not sign or not column.strip():
        problem, remedy = phrase(texts.NOT_WHERE), phrase(texts.WHERE_REMEDY)
        raise InvalidRequestError("INVALID_VALUE", name="--where", problem=problem, remedy=remedy)
    return column.strip(), value.strip()


def _uniform(text: str) -> float:
    value = float(_number("--uniform", text, texts.UNIFORM_REMEDY))
    if not 0 < value < 1:
        problem, remedy = phrase(texts.UNIFORM_RANGE), phrase(texts.UNIFORM_REMEDY)
        raise InvalidRequestError("INVALID_VALUE", name="--uniform", problem=problem, remedy=remedy)
    return value


def _released(question: Question, cells: Cells, grid: str | None) -> Document:
    from policy_lab.tables.release import Grid, SystemBits, released
    from policy_lab.tables.report import released_report

    step = _number("--grid", grid or "1", texts.GRID_REMEDY)
    release = released(question, cells, Grid.checked(step, question, cells), SystemBits())
    return released_report(question, release, cells)


def _tell(as_json: bool, document: Document, out: Path | None, replicates: bytes | None) -> None:
    """Write the folder, if one is given, and show the document."""
    from policy_lab.document import as_json as json_form
    from policy_lab.document import stored, terminal

    t = language_of_environment()
    shown, result = terminal.text(document, t), json_form.value(document)
    if out is not None:
        files = stored.write(document, out, t)
        if replicates is not None:
            write_private(out / _REPLICATES_FILE, replicates)
            files.append(out / _REPLICATES_FILE)
        result |= {"files": list(map(str, files))}
        shown = said(texts.DONE, text=shown, folder=str(out), n=len(files))
    emit(as_json, result, shown)
