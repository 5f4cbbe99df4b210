"""The health operator's commands."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click

from broker_common.agency.linkage import NextKey
from broker_common.cli import Progress, emit, instant
from broker_common.commands.agency import (
    check_option,
    emit_load,
    emit_relinked,
    events_json,
    rejections_json,
    serve_home,
    values_json,
)
from broker_common.commands.create import create_options, created_json, verify_names
from broker_common.commands.dashboard import dashboard_command
from broker_common.commands.dictionary import dictionary_command
from broker_common.commands.options import (
    Again,
    HostPort,
    PrintableLine,
    Whole,
    home_option,
    json_option,
    lifeline_option,
    linkage_key_options,
    max_rejected_option,
    reload_option,
)
from broker_common.commands.register import register_command, revoke_command
from broker_common.commands.texts import NO_DICTIONARY_YET
from broker_common.crypto.certificates import Role
from broker_common.errors import BrokerError, RefusedError
from broker_common.language import phrase, phrase_of, said
from broker_common.privacy.delays import declared_at_least
from broker_common.privacy.policy import Policy
from broker_common.storage.clock import system_clock
from broker_common.storage.creation import verify_identifier
from broker_common.storage.journal import Journal
from broker_common.storage.load_figures import figures_before, watching
from broker_common.tlog.health_state import HealthState
from health_node import texts
from health_node.assembly import HealthHome
from health_node.config import CensusPeer, HealthConfig
from health_node.creating import create_home
from health_node.node import verify_fits
from health_node.people.store import Figures, read_figures
from health_node.people.tables import Declared
from health_node.roster.book import RosterBook, SentRoster

_FIRST_RELEASE = "first"
_PEERS: tuple[Role, ...] = ("researcher", "census")


class _TableRows(click.ParamType[tuple[str, int]]):
    """A table and how many rows a load may hold of it."""

    name = "TABLE=N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        table, separator, rows = str(value).partition("=")
        if not (table and separator):
            self.fail(f"{str(value)[:64]!r} is not TABLE=N.", param, ctx)
        return table, int(_ROWS.convert(rows, param, ctx))


_ROWS = Whole(1, 2**31)


@click.group()
def commands() -> None:
    """Run the health agency's node: it builds samples and never learns an answer."""


@commands.command()
@create_options
@click.option("--places", required=True, type=Whole(1, 2**31), help=texts.PLACES_HELP)
@click.option("--rows", "rows", multiple=True, type=_TableRows(), help=texts.ROWS_HELP)
@click.option("--census", "census_address", required=True, type=HostPort(), help=texts.CENSUS_HELP)
@click.option("--census-organisation", required=True, help=texts.CENSUS_ORGANISATION_HELP)
def create(
    home: Path,
    as_json: bool,
    organisation: str,
    origin: str,
    address: str,
    dictionary: Path | None,
    linkage_file: Path | None,
    places: int,
    rows: tuple[tuple[str, int], ...],
    census_address: str,
    census_organisation: str,
) -> None:
    """Make a new health home, with keys of its own.

    Nothing secret leaves the machine: the card goes to the census agency and to researchers, whose cards are registered here.
    """
    verify_names(organisation, origin, address)
    verify_identifier("--census-organisation", census_organisation)
    config = HealthConfig(
        role="health",
        organisation=organisation,
        origin=origin,
        address=address,
        places=declared_at_least(places),
        rows={name: declared_at_least(most) for name, most in rows},
        census=CensusPeer(address=census_address, organisation=census_organisation),
    )
    made = create_home(home, config, linkage_file=linkage_file, dictionary=dictionary)
    declared = Declared(config.places) if dictionary is None else config.declared(made.newest_dictionary())
    result = created_json(made, has_dictionary=dictionary is not None) | {
        "places": max(declared.places, declared.people),
        "events": declared.events,
    }
    step = said(texts.CREATED_LINKED if linkage_file else texts.CREATED_UNLINKED, home=home)
    missing = [said(NO_DICTIONARY_YET, home=home)] * (dictionary is None)
    emit(as_json, result, "\n".join([said(texts.CREATED, **(result | {"linkage": step})), *missing]))


@commands.command()
@home_option
@json_option
@max_rejected_option
@check_option
@click.option("--release", type=PrintableLine(), help=texts.RELEASE_HELP)
@click.argument("source", required=False, type=click.Path(path_type=Path))
def load(
    home: Path, as_json: bool, max_rejected: int | None, check: bool, release: str | None, source: Path | None
) -> None:
    """Load health data: what source.toml in the home names, or SOURCE, a CSV or Parquet file.

    SOURCE has one row per person, and a file of each event table beside it; without it and without source.toml it is
    people.csv in the home. Its content tells CSV from Parquet, not its name. Every row is checked, wrong ones are left out and
    named (by line in CSV, by row elsewhere, each counted from 1), and what was loaded before stays in force until the end.
    """
    opened = HealthHome(home)
    release = release or _release_in_force(opened) or _FIRST_RELEASE
    policy, problem = _asked_policy(opened)
    before = figures_before(home)
    with watching(home) as watch:
        report = opened.load(
            source,
            release,
            policy=policy,
            progress=Progress(texts.LOADING),
            max_rejected=max_rejected,
            watch=watch.over,
            check=check,
        )
    rejected = report.rejected
    events = {
        name: counts | {"declared": report.declared.tables[name]} for name, counts in events_json(report.events).items()
    }
    own = {
        "release": release,
        "rows": report.rows,
        "loaded": report.loaded,
        "without_card": report.without_card,
        "rejected": rejected.count,
        "rejections": rejections_json(rejected),
        "places": report.declared.places,
        "places_taken": report.places,
        "values": values_json(rejected),
        "events": events,
        "least_forward_delay_ms": report.declared.least_forward_delay_ms,
        "policy": problem,
    }
    emit_load(
        home,
        as_json,
        own,
        texts.CHECKED if check else texts.LOADED,
        before=before,
        watch=watch,
        report=report,
        people=report.loaded,
        check=check,
        events=report.events,
        policy=said(problem or texts.FITS),
    )


def _asked_policy(opened: HealthHome) -> tuple[Policy | None, str]:
    """The policy in force, if the census node can be asked, and otherwise why not."""
    try:
        return asyncio.run(opened.policy_in_force()), ""
    except BrokerError as error:
        return None, phrase(texts.NOT_ASKED, code=error.code, text=phrase_of(error))


def _release_in_force(opened: HealthHome) -> str:
    with opened.journal() as journal, journal.reading() as state:
        return state.release


commands.add_command(register_command(HealthHome, _PEERS, inboxes=False))
commands.add_command(revoke_command(HealthHome, _PEERS))


@commands.command()
@home_option
@json_option
@linkage_key_options
@reload_option
def relink(home: Path, as_json: bool, source: NextKey, again: Again | None) -> None:
    """Change the key that links records across the agencies.

    One agency makes the new key, the other takes its key file. Both do this, in any order and with the nodes up or down;
    until both have, questions wait, or are refused, and nothing is charged. Questions charged before are still answered.
    """
    opened = HealthHome(home)
    if again is None:
        report, left_out = opened.relink(source, progress=Progress(texts.RELINKING)), None
    else:
        report, loaded = opened.reload(again.file, source, progress=Progress(texts.LOADING))
        left_out = loaded.rejected
    emit_relinked(opened, as_json, report, left_out, texts.RELINKED)


@commands.command()
@home_option
@lifeline_option
def serve(home: Path, lifeline: bool) -> None:
    """Serve until Ctrl-C or SIGTERM."""
    opened = HealthHome(home)
    serve_home(opened, texts.READY, lifeline=lifeline)


@commands.command()
@home_option
@json_option
def status(home: Path, as_json: bool) -> None:
    """Show the load in force and the questions in progress. Works with the node up or down; for the health operator only."""
    opened = HealthHome(home)
    with opened.journal() as journal:
        figures = _figures_in_force(opened, journal)
        policy = _policy_fits(opened, figures.declared)
        tables = {name: {"rows": table.rows, "declared": table.declared} for name, table in figures.tables.items()}
        with journal.reading() as state:
            book = RosterBook(journal.db)
            roster, refusal = book.get(state.load), book.refusal(state.load)
            dictionary = state.dictionaries.get(state.load, "")
            adopted = "" if state.newest_dictionary is None else state.newest_dictionary.dictionary
            result = {
                "organisation": opened.config.organisation,
                "serving": opened.home.is_served,
                "release": state.release,
                "tickets": len(state.tickets),
                "open": len(state.open_tickets),
                "log_size": state.size,
                "people": figures.people,
                "places": figures.places,
                "tables": tables,
                "least_forward_delay_ms": figures.declared.least_forward_delay_ms,
                "policy": policy,
                "roster": _roster_json(roster, refusal),
                "linkage": state.linkage,
                "dictionary": dictionary,
                "dictionary_adopted": adopted,
                "dictionary_changed": dictionary not in {"", adopted},
            }
    shown = (
        result
        | {"roster": _roster_text(roster, refusal)}
        | {"serving": said("yes" if result["serving"] else "no"), "policy": said(policy or texts.FITS)}
    )
    warning = [said(texts.STATUS_WARNING)] if result["dictionary_changed"] else []
    tables_text = [said(texts.STATUS_TABLE, table=name, **table) for name, table in tables.items()]
    emit(as_json, result, "\n".join([said(texts.STATUS, **shown), *tables_text, *warning]))


def _roster_json(roster: SentRoster | None, refusal: str) -> dict[str, str | int] | None:
    """The roster of the load in force, as programs read it; None before there is one."""
    if roster is None:
        return None
    sent_ms = roster.acknowledged_ms
    return {"number": roster.number, "acknowledged": instant(sent_ms) if sent_ms else "", "refused": refusal}


def _roster_text(roster: SentRoster | None, refusal: str) -> str:
    if roster is None:
        return said(texts.ROSTER_NONE)
    if refusal == "LINKAGE_MISMATCH":
        return said(texts.ROSTER_MISMATCH, number=roster.number)
    if refusal:
        return said(texts.ROSTER_REFUSED, number=roster.number, code=refusal)
    if not roster.acknowledged_ms:
        return said(texts.ROSTER_UNDER_WAY, number=roster.number)
    return said(texts.ROSTER_SENT, number=roster.number, time=instant(roster.acknowledged_ms))


def _policy_fits(opened: HealthHome, declared: Declared) -> str:
    """Why the census policy does not fit what was declared, or could not be asked; empty where it fits."""
    policy, problem = _asked_policy(opened)
    if policy is None:
        return problem
    try:
        verify_fits(policy, declared)
    except RefusedError as error:
        return phrase_of(error, with_hint=True)
    return ""


def _figures_in_force(opened: HealthHome, journal: Journal[HealthState]) -> Figures:
    """How large the load in force is. A load that ends meanwhile takes the one before away: look again."""
    while True:
        with journal.reading() as state:
            load = state.load
            if not load:
                return Figures(0, 0)
            dictionary = opened.dictionaries.of_load(state, load)
        try:
            return read_figures(opened.loads.file(load), dictionary)
        except RefusedError:
            with journal.reading() as state:
                if state.load == load:
                    raise


commands.add_command(dictionary_command(lambda home: HealthHome(home).published_dictionary()))


def _dashboard(home: Path) -> Any:
    # Imported here: no other command has to wait for the libraries of pages.
    from health_node.operator.dashboard import HealthDashboard  # noqa: PLC0415

    return HealthDashboard(HealthHome(home), system_clock)


commands.add_command(dashboard_command(_dashboard))
