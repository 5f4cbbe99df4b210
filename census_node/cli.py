"""The census operator's commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import click

from broker_common.agency.linkage import NextKey
from broker_common.cli import Progress, emit, instant, say
from broker_common.commands.agency import (
    check_option,
    emit_load,
    emit_relinked,
    rejections_json,
    serve_home,
)
from broker_common.commands.create import create_options, created_json, verify_names
from broker_common.commands.dashboard import dashboard_command
from broker_common.commands.dictionary import dictionary_command
from broker_common.commands.options import (
    Again,
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
from broker_common.crypto.signing import SigningKey
from broker_common.errors import RefusedError
from broker_common.language import language, language_of_environment, said
from broker_common.privacy.delays import DECLARED_STEP, declared_at_least
from broker_common.privacy.policy import Accounting, Subject
from broker_common.privacy.report import make_report
from broker_common.storage.clock import system_clock
from broker_common.storage.dictionary.file import read_dictionary
from broker_common.storage.durable import replace_file
from broker_common.storage.journal import Journal
from broker_common.storage.load_figures import figures_before, watching
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.orders import verify_reason
from census_node import texts
from census_node.assembly import CensusHome
from census_node.config import CensusConfig, KeyConfig
from census_node.creating import OVERSIGHT_REFERENCE, FirstPolicy, create_home, oversight_key_in
from census_node.linking.commands import link
from census_node.operator.belief_report import facts_of, plot_text, report_of, report_text, status_of, status_text
from census_node.operator.operating import Done, shut_down
from census_node.operator.operating import reopen as reopen_service
from census_node.operator.policy_commands import policy as policy_commands
from census_node.operator.proposals import draft
from census_node.registry.rosters import KeptRoster

_FIRST_RELEASE = "first"
_FOLDER = click.Path(path_type=Path, file_okay=False)
_PEERS: tuple[Role, ...] = ("researcher", "health")


@click.group()
def commands() -> None:
    """Run the census agency's node: it counts, adds noise, and shuts down before the cap."""


@commands.command()
@create_options
@click.option("--people", required=True, type=Whole(1, 2**32 - DECLARED_STEP), help=texts.PEOPLE_HELP)
@click.option("--places", type=Whole(1, 2**31), help=texts.PLACES_HELP)
@click.option("--events", default=0, show_default=True, type=Whole(0, 2**40), help=texts.EVENTS_HELP)
@click.option("--witness", type=_FOLDER, help=texts.WITNESS_HELP)
@click.option("--oversight", type=click.Path(path_type=Path, dir_okay=False), help=texts.OVERSIGHT_HELP)
@click.option(
    "--accounting",
    type=click.Choice(get_args(Accounting)),
    default="per_person",
    show_default=True,
    help=texts.ACCOUNTING_HELP,
)
@click.option("--subject", type=click.Choice(get_args(Subject)), help=texts.FIRST_SUBJECT_HELP)
@click.option("--max-belief", metavar="DECIMAL", default="0.8", show_default=True, help=texts.FIRST_MAX_BELIEF_HELP)
@click.option("--release-tick-ms", type=Whole(0, 60_000), help=texts.FIRST_TICK_HELP)
def create(
    home: Path,
    as_json: bool,
    organisation: str,
    origin: str,
    address: str,
    dictionary: Path | None,
    linkage_file: Path | None,
    people: int,
    places: int | None,
    events: int,
    witness: Path | None,
    oversight: Path | None,
    accounting: Accounting,
    subject: Subject | None,
    max_belief: str,
    release_tick_ms: int | None,
) -> None:
    """Make a new census home, with keys of its own and its first policy in force.

    Nothing secret leaves the machine but the linkage key, which the health agency is given by hand. The policy can be changed
    later: 'census policy propose'.
    """
    verify_names(organisation, origin, address)
    config = CensusConfig(
        role="census",
        organisation=organisation,
        origin=origin,
        address=address,
        people=declared_at_least(people),
        witness_store="" if witness is None else str(witness.resolve()),
        keys=KeyConfig(oversight=OVERSIGHT_REFERENCE if oversight else ""),
    )
    linkage = "complementary" if dictionary is None else read_dictionary(dictionary).linkage
    policy = draft(
        FirstPolicy(
            accounting=accounting,
            max_belief=max_belief,
            people=config.people,
            places=declared_at_least(people if places is None else places),
            events=events,
            subject=subject or ("household" if linkage == "household" else "person"),
            linkage=linkage,
            release_tick_ms=release_tick_ms,
        ).policy(),
        {},
    )
    made = create_home(
        home,
        config,
        policy,
        oversight=None if oversight is None else oversight_key_in(oversight),
        linkage_file=linkage_file,
        dictionary=dictionary,
    )
    result = created_json(made, has_dictionary=dictionary is not None) | {
        "people": config.people,
        "policy_hash": policy.hash.hex(),
    }
    step = said(texts.CREATED_LINKED if linkage_file else texts.CREATED_KEY, file=made.linkage_keys.place)
    missing = [said(NO_DICTIONARY_YET, home=home)] * (dictionary is None)
    missing += [said(texts.CREATED_NO_WITNESS)] * (witness is None)
    missing += [said(texts.CREATED_NO_OVERSIGHT)] * (oversight is None)
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
    """Load the registry: what source.toml in the home names, or SOURCE, a CSV or Parquet file.

    SOURCE has one row per person; without it and without source.toml it is people.csv in the home. Its content tells CSV from
    Parquet, not its name. Every row is checked, wrong ones are left out and named (by line in CSV, by row elsewhere, each
    counted from 1), and what was loaded before stays in force until the end.
    """
    opened = CensusHome(home)
    release = release or opened.read(lambda state: state.release) or _FIRST_RELEASE
    before = figures_before(home)
    with watching(home) as watch:
        report = opened.load(
            source,
            release,
            progress=Progress(texts.LOADING),
            max_rejected=max_rejected,
            watch=watch.over,
            check=check,
        )
    own = {
        "release": release,
        "rows": report.rows,
        "linked": report.linked,
        "without_card": report.without_card,
        "rejected": report.rejected.count,
        "rejections": rejections_json(report.rejected),
    }
    text = texts.CHECKED if check else texts.LOADED
    emit_load(home, as_json, own, text, before=before, watch=watch, report=report, people=report.linked, check=check)


commands.add_command(register_command(CensusHome, _PEERS, inboxes=True))
commands.add_command(revoke_command(CensusHome, _PEERS))


@commands.command()
@home_option
@json_option
@linkage_key_options
@reload_option
@click.option("--audited", is_flag=True, help=texts.AUDITED_HELP)
def relink(home: Path, as_json: bool, source: NextKey, again: Again | None, audited: bool) -> None:
    """Change the key that links records across the agencies.

    One agency makes the new key, the other takes its key file. Both do this, in any order and with the nodes up or down; until
    both have, questions wait, or are refused, and nothing is charged. Questions charged before are still answered. Let the
    auditor come on site before: samples that are kept cannot be compared with their registry afterwards.
    """
    opened = CensusHome(home)
    kept = opened.samples_kept()
    # Where something was charged, the source is not read again.
    if kept and not audited and again is None:
        say(said(texts.SAMPLES_KEPT, count=kept))
        raise RefusedError("AUDIT_FIRST")
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
    """Serve until Ctrl-C or SIGTERM. A service that is shut down still hands out what was charged before."""
    opened = CensusHome(home)
    serve_home(opened, texts.READY, lifeline=lifeline)


@commands.command()
@home_option
@json_option
@click.option("--report", is_flag=True, help=texts.REPORT_HELP)
@click.option("--plot", type=click.Path(path_type=Path, dir_okay=False), help=texts.PLOT_HELP)
def status(home: Path, as_json: bool, report: bool, plot: Path | None) -> None:
    """Show the charges so far, and how sure anybody can have become. Replays the log; works with the node up or down."""
    if plot is not None and not report:
        raise click.UsageError(texts.PLOT_ALONE)
    opened = CensusHome(home)
    # In this order: the log then knows every answer that the ledger holds, even while a node charges.
    charges = opened.charges()
    facts = opened.read(facts_of)
    kept = opened.kept_samples()
    is_running = opened.home.is_served
    rosters = opened.rosters()
    result = status_of(facts, charges) | {"rosters": [_roster_json(*each) for each in rosters]}
    if as_json and facts.dictionary_changed:
        say(said(texts.WARN_DICTIONARY))
    share = opened.config.alert_exhausted_share
    parts = [status_text(facts, charges, kept, share, is_running=is_running)]
    parts += [_roster_text(*each) for each in rosters]
    if report:
        found = make_report(
            facts.policy, common=facts.common, sampled=facts.sampled, units=facts.units, charges=charges
        )
        result["report"] = report_of(found, facts.policy) | {"kept_samples": kept.count, "kept_bytes": kept.size_bytes}
        parts.append(report_text(found, facts.policy))
        if plot is not None:
            # Imported here: the plotting library takes a second that no other command has to spend.
            from census_node.operator.belief_plot import draw  # noqa: PLC0415

            # SECURITY: what it shows stays inside the agency, as the ledger does.
            replace_file(plot, draw(found, facts.policy), mode=0o600)
            result["report"]["plot"] = {"file": str(plot), "text": plot_text(found, facts.policy, language("en"))}
            shown = plot_text(found, facts.policy, language_of_environment())
            parts.append(said(texts.PLOTTED, file=plot, text=shown))
    emit(as_json, result, "\n".join(parts))


def _roster_json(roster: KeptRoster, is_in_force: bool) -> dict[str, str | int]:
    """A roster as programs read it. Sizes are for the census agency's own staff, who have the roster itself."""
    return {
        "health": roster.health,
        "number": roster.number,
        "state": "lost" if not roster.file else "in force" if is_in_force else "staged",
        "received": instant(roster.received_ms),
        "people": roster.people,
        "places": roster.places,
    }


def _roster_text(roster: KeptRoster, is_in_force: bool) -> str:
    state = said(texts.STATUS_ROSTER_IN_FORCE if is_in_force else texts.STATUS_ROSTER_STAGED)
    if not roster.file:
        state = said(texts.STATUS_ROSTER_LOST)
    return said(
        texts.STATUS_ROSTER,
        **(_roster_json(roster, is_in_force) | {"state": state, "time": instant(roster.received_ms)}),
    )


@commands.command()
@home_option
@json_option
# An operator who must stop it at once is asked for no reason.
@click.option("--reason", default=texts.NO_REASON, show_default=True, help=texts.REASON_HELP)
def shutdown(home: Path, as_json: bool, reason: str) -> None:
    """Stop answering, durably, until it is reopened.

    Signed with the operator's key and logged with its reason; a running node follows at once. Answers charged before still
    go out, and the node keeps running to hand them out. A service that is shut down already is left as it is.
    """
    done = _give(CensusHome(home), shut_down, reason)
    _emit_state(as_json, done, said(texts.SHUT_DOWN) if done.changed else said(texts.SHUT_DOWN_BEFORE))


@commands.command()
@home_option
@json_option
@click.option("--reason", required=True, help=texts.REASON_HELP)
def reopen(home: Path, as_json: bool, reason: str) -> None:
    """Answer again after a shutdown, while something still fits.

    Signed with the operator's key and logged with its reason; a running node follows at once. Earlier charges keep
    counting. Refused while no scale that the policy admits fits: adopt another policy first.
    """
    _emit_state(as_json, _give(CensusHome(home), reopen_service, reason), said(texts.REOPENED))


def _give(opened: CensusHome, act: Callable[[Journal[CensusState], str, SigningKey], Done], reason: str) -> Done:
    """Do what the operator orders, signed."""
    verify_reason(reason)
    key = opened.private_operator_key()
    with opened.journal() as journal:
        return act(journal, reason, key)


def _emit_state(as_json: bool, done: Done, text: str) -> None:
    emit(as_json, {"state": done.state, "log_size": done.log_size}, text)


commands.add_command(policy_commands)
commands.add_command(link)


def _dashboard(home: Path) -> Any:
    # Imported here: no other command has to wait for the libraries of pages.
    from census_node.operator.dashboard import CensusDashboard  # noqa: PLC0415

    return CensusDashboard(CensusHome(home), system_clock)


commands.add_command(dashboard_command(_dashboard))
commands.add_command(dictionary_command(lambda home: CensusHome(home).published_dictionary()))
