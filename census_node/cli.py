"""The census operator's commands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from broker_common.card_commands import register_command, revoke_command
from broker_common.cli import (
    Progress,
    emit,
    home_option,
    json_option,
    lifeline_option,
    linkage_key_options,
    max_rejected_option,
    ready_line,
    rejections_text,
)
from broker_common.errors import InvalidRequestError, RefusedError
from broker_common.privacy.belief import belief_of_units
from broker_common.privacy.policy import Policy
from broker_common.storage.linkage_keys import NextKey
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import MAX_NOTE_CHARACTERS, Shutdown
from census_node import texts
from census_node.admission import scales_text
from census_node.opening import CensusHome

__all__ = ["commands"]

_FIRST_RELEASE = "first"
ResultT = TypeVar("ResultT")


@click.group()
def commands() -> None:
    """Run the census agency's node: it counts, adds noise, and shuts down before the cap."""


@commands.command()
@home_option
@json_option
@max_rejected_option
@click.option("--release", help=texts.RELEASE_HELP)
@click.argument("source", required=False, type=click.Path(path_type=Path))
def load(home: Path, as_json: bool, max_rejected: int | None, release: str | None, source: Path | None) -> None:
    """Load the registry from a CSV or Parquet file.

    SOURCE has one row per person; it is people.csv in the home if left out. Its content tells CSV from Parquet, not its
    name. Every row is checked, wrong ones are left out and named (by line in CSV, by row in Parquet, each counted from 1),
    and what was loaded before stays in force until the end.
    """
    opened = CensusHome(home)
    release = release or _read(home, lambda state: state.release) or _FIRST_RELEASE
    report = opened.load(
        source or home / "people.csv", release, progress=Progress(texts.LOADING), max_rejected=max_rejected
    )
    rejected = report.rejected
    result = {
        "release": release,
        "rows": report.rows,
        "linked": report.linked,
        "without_card": report.without_card,
        "rejected": rejected.count,
        "rejections": [{"line": line, "reason": reason} for line, reason in rejected.first],
    }
    text = texts.LOADED.format_map(result)
    left_out = rejections_text(rejected.first, rejected.count, rejected.counted_by)
    emit(as_json, result, "\n".join(filter(None, [text, left_out])))


commands.add_command(register_command(CensusHome, inboxes=True))
commands.add_command(revoke_command(CensusHome, ("researcher", "health")))


@commands.command()
@home_option
@json_option
@linkage_key_options
def relink(home: Path, as_json: bool, source: NextKey) -> None:
    """Change the key that links records across the agencies.

    One agency makes the new key, the other takes its key file. Both do this, in any order and with the nodes up or down;
    until both have, questions are refused and nothing is charged. What was charged before is still answered.
    """
    opened = CensusHome(home)
    report = opened.relink(source, progress=Progress(texts.RELINKING))
    result = {"linkage": report.linkage, "previous": report.previous, "load": report.load, "people": report.people}
    emit(as_json, result, texts.RELINKED.format_map({**result, "file": opened.linkage_keys.place}))


@commands.command()
@home_option
@lifeline_option
def serve(home: Path, lifeline: bool) -> None:
    """Serve until Ctrl-C or SIGTERM. A service that is shut down still hands out what was charged before."""
    opened = CensusHome(home)
    with opened.home.serving():
        asyncio.run(opened.serve(ready_line(texts.READY, lifeline=lifeline)))


@commands.command()
@home_option
@json_option
def status(home: Path, as_json: bool) -> None:
    """What was charged, and how sure anybody can have become. Replays the log; works with the node up or down."""
    result = _read(home, _status)
    emit(as_json, result, texts.STATUS.format_map(result))


def _status(state: CensusState) -> dict[str, Any]:
    policy = _policy_in_force(state)
    return {
        "state": "shutdown" if state.shut_down else "serving",
        "accounting": policy.accounting,
        "max_belief": policy.max_belief,
        "param": _number(policy.param),
        "answers": state.answers,
        "worst_charged": state.charged_units,
        # Rounded up, and the cap where rounding would pass it: charges never do.
        "worst_belief": float(min(belief_of_units(state.charged_units), Decimal(policy.max_belief))),
        # Strict accounting charges everyone alike: there are no persons to count.
        "people_charged": None,
        "people_exhausted": None,
        "log_size": state.size,
        "policy_hash": state.policy_hash,
    }


@commands.group(invoke_without_command=True)
@click.option("--home", type=click.Path(path_type=Path, file_okay=False), help="The census node's folder.")
@json_option
@click.pass_context
def policy(context: click.Context, home: Path | None, as_json: bool) -> None:
    """The rules in force (the same as 'policy show')."""
    if context.invoked_subcommand is None:
        if home is None:
            raise click.UsageError("Missing option '--home'.", context)
        _show_policy(home, as_json)


@policy.command()
@home_option
@json_option
def show(home: Path, as_json: bool) -> None:
    """The policy in force, as it was signed and logged."""
    _show_policy(home, as_json)


def _show_policy(home: Path, as_json: bool) -> None:
    result = _read(home, _policy)
    shown = {
        "scales": scales_text(result["scales"]),
        "quote_lifetime": _duration(result["quote_lifetime_ms"]),
        "answer_retention": _duration(result["answer_retention_ms"]),
    }
    emit(as_json, result, texts.POLICY.format_map(result | shown))


def _policy(state: CensusState) -> dict[str, Any]:
    in_force = _policy_in_force(state)
    assert state.adopted is not None  # noqa: S101 - a policy in force was adopted
    return {
        **msgspec.to_builtins(in_force),
        "policy_hash": state.policy_hash,
        "key_id": state.adopted.key_id,
        "param": _number(in_force.param),
        "cap": in_force.cap,
    }


@commands.command()
@home_option
@json_option
@click.option("--reason", default="", help=texts.REASON_HELP)
def shutdown(home: Path, as_json: bool, reason: str) -> None:
    """Stop answering, durably. Answers charged before still go out; the node keeps running to hand them out."""
    if len(reason) > MAX_NOTE_CHARACTERS:
        raise InvalidRequestError("INVALID_VALUE", name="--reason", problem="is too long", remedy=texts.REASON_LIMIT)
    opened = CensusHome(home)
    journal = opened.open_journal()
    try:
        with journal.transaction() as transaction:
            if not transaction.state.shut_down:
                transaction.append(Shutdown(reason="operator", note=reason))
            result = {"state": "shutdown", "log_size": transaction.state.size}
    finally:
        journal.close()
    emit(as_json, result, texts.SHUT_DOWN)


def _read(home: Path, view: Callable[[CensusState], ResultT]) -> ResultT:
    journal = CensusHome(home).open_journal()
    try:
        with journal.reading() as state:
            return view(state)
    finally:
        journal.close()


def _policy_in_force(state: CensusState) -> Policy:
    if state.policy is None:
        raise RefusedError("NOTHING_LOADED", what="policy", role="census")
    return state.policy


def _duration(milliseconds: int) -> str:
    """For display: in the largest unit that comes out whole."""
    for unit, size in (("days", 86_400_000), ("hours", 3_600_000), ("minutes", 60_000), ("seconds", 1000)):
        if milliseconds % size == 0:
            return f"{milliseconds // size} {unit}"
    return f"{milliseconds} ms"


def _number(value: Fraction) -> int | float:
    """For display: whole where it is whole."""
    return value.numerator if value.denominator == 1 else float(value)
