"""`researcher estimate`: shares, comparisons and trends from answers that are already here. Nothing is asked, sent or charged."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from broker_common.cli import emit
from broker_common.commands.options import home_option, json_option
from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from broker_common.terminal import fitted
from researcher_node.estimates import texts

if TYPE_CHECKING:
    # A command imports what it needs when it runs (see PLC0415 in pyproject.toml): --help waits for none of it.
    from researcher_node.estimates.tables import Kind

# A trend needs a first and a last group, and two scores that differ.
_LEAST_GROUPS = 2


@click.group()
def estimate() -> None:
    """Shares, comparisons and trends with 95 % intervals, from stored answers. Costs nothing.

    docs/estimates.md explains the methods.
    """


def _of_cells(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of every estimate: where the answers are, and which of their cells it is about."""
    part = click.option("--part", multiple=True, required=True, metavar="LABEL", help=texts.PART_HELP)
    return home_option(json_option(part(command)))


_among_option = click.option("--among", multiple=True, metavar="LABEL", help=texts.AMONG_HELP)
_groups_argument = click.argument("queries", metavar="QUERY_ID...", nargs=-1, required=True)


@estimate.command()
@_of_cells
@_among_option
@click.argument("query", metavar="QUERY_ID")
def share(home: Path, as_json: bool, part: tuple[str, ...], among: tuple[str, ...], query: str) -> None:
    """The share of one or more cells in one answer."""
    _emit(home, as_json, "share", [query], part, among=among)


@estimate.command()
@_of_cells
@_among_option
@click.argument("first", metavar="QUERY_ID")
@click.argument("second", metavar="QUERY_ID")
def difference(
    home: Path, as_json: bool, part: tuple[str, ...], among: tuple[str, ...], first: str, second: str
) -> None:
    """The share in one answer minus the share in another."""
    _emit(home, as_json, "difference", [first, second], part, among=among)


@estimate.command()
@_of_cells
@_among_option
@click.argument("first", metavar="QUERY_ID")
@click.argument("second", metavar="QUERY_ID")
def ratio(home: Path, as_json: bool, part: tuple[str, ...], among: tuple[str, ...], first: str, second: str) -> None:
    """The share in one answer divided by the share in another."""
    _emit(home, as_json, "ratio", [first, second], part, among=among)


@estimate.command("rate-ratio")
@_of_cells
@click.option("--against", multiple=True, metavar="LABEL", help=texts.AGAINST_HELP)
@click.argument("inside", metavar="INSIDE")
@click.argument("outside", metavar="OUTSIDE")
def rate_ratio(
    home: Path, as_json: bool, part: tuple[str, ...], against: tuple[str, ...], inside: str, outside: str
) -> None:
    """How many times as often a condition is met by people of --part as by others.

    INSIDE is the answer about people who meet the condition, OUTSIDE the answer about not (condition), with the same cells.
    """
    _emit(home, as_json, "rate_ratio", [inside, outside], part, against=against)


@estimate.command()
@_of_cells
@_among_option
@click.option("--weights", required=True, help=texts.WEIGHTS_HELP)
@_groups_argument
def standardise(
    home: Path, as_json: bool, part: tuple[str, ...], among: tuple[str, ...], weights: str, queries: tuple[str, ...]
) -> None:
    """The directly standardised rate: the groups' shares, weighed like a standard population."""
    numbers = _numbers("--weights", weights, len(queries))
    if min(numbers) < 0 or not any(numbers):
        raise _not_numbers("--weights", len(queries))
    _emit(home, as_json, "standardised_rate", queries, part, among=among, numbers=numbers)


@estimate.command()
@_of_cells
@_among_option
@click.option("--scores", help=texts.SCORES_HELP)
@_groups_argument
def trend(
    home: Path,
    as_json: bool,
    part: tuple[str, ...],
    among: tuple[str, ...],
    scores: str | None,
    queries: tuple[str, ...],
) -> None:
    """The slope of the share over ordered groups: by how much it changes for one unit of score."""
    if len(queries) < _LEAST_GROUPS:
        raise InvalidRequestError(
            "INVALID_VALUE",
            name="QUERY_ID...",
            problem=phrase(texts.FEW_GROUPS, count=len(queries)),
            remedy=texts.FEW_GROUPS_REMEDY,
        )
    numbers = list(map(float, range(1, len(queries) + 1)))
    if scores is not None:
        numbers = _numbers("--scores", scores, len(queries))
        if len(set(numbers)) < _LEAST_GROUPS:
            raise _not_numbers("--scores", len(queries))
    _emit(home, as_json, "trend", queries, part, among=among, numbers=numbers)


def _emit(
    home: Path,
    as_json: bool,
    kind: Kind,
    queries: Sequence[str],
    part: Sequence[str],
    *,
    among: Sequence[str] = (),
    against: Sequence[str] = (),
    numbers: Sequence[float] = (),
) -> None:
    from researcher_node.assembly import ResearcherHome
    from researcher_node.estimates.from_answers import estimate_json, estimate_text, estimated

    opened = ResearcherHome(home)
    with closing(opened.open_answers()) as store:
        answers = [store.get(query) for query in queries]
    found = estimated(kind, answers, part, among=among, against=against, numbers=numbers)
    policies = [opened.policies.get(asked.policy_hash) for _, asked in found.answers]
    emit(as_json, estimate_json(found, policies), fitted(estimate_text(found, policies)))


def _numbers(option: str, text: str, count: int) -> list[float]:
    """So many numbers with commas between them."""
    try:
        numbers = [float(each) for each in text.split(",")]
    except ValueError:
        raise _not_numbers(option, count) from None
    if len(numbers) != count or not all(map(math.isfinite, numbers)):
        raise _not_numbers(option, count)
    return numbers


def _not_numbers(option: str, count: int) -> InvalidRequestError:
    return InvalidRequestError(
        "INVALID_VALUE", name=option, problem=phrase(texts.NUMBERS, count=count), remedy=texts.NUMBERS_REMEDY
    )
