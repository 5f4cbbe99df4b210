"""The researcher's commands."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from broker_common.cli import CommandInterrupted, emit, emit_failing, ready_line, say
from broker_common.commands import texts as common_texts
from broker_common.commands.options import (
    HostPort,
    PrintableLine,
    Whole,
    home_option,
    json_option,
    lifeline_option,
    new_home_option,
)
from broker_common.errors import BrokerError, InvalidRequestError, PeerUnavailableError, RefusedError
from broker_common.language import phrase, said
from broker_common.storage.clock import system_clock
from broker_common.terminal import fitted
from researcher_node import texts
from researcher_node.answers.selection import FORMATS, STATES, Selection, parse_since, parse_until
from researcher_node.estimates.commands import estimate

if TYPE_CHECKING:
    # A command imports what it needs when it runs (see PLC0415 in pyproject.toml): --help waits for none of it.
    from tripartite.v1 import health_service_pb2

    from broker_common.privacy.policy import Policy
    from researcher_node.answers.own_use import OwnUses
    from researcher_node.answers.store import Answers, AskedQuestion
    from researcher_node.asking.contact import Dictionaries
    from researcher_node.asking.proposal import Precision, Wanted
    from researcher_node.asking.session import Quoted, Session
    from researcher_node.asking.warnings import Warned
    from researcher_node.assembly import ResearcherHome
    from researcher_node.trust.census_log import RememberedCheckpoint
    from researcher_node.trust.checking import Report


class _Seconds(click.FloatRange):
    """A number in plain digits, within bounds: no "nan", which compares as neither above nor below, and no exponent."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not _DECIMAL.fullmatch(str(value)):
            self.fail(f"{str(value)[:40]!r} is not a number of seconds like 60 or 2.5.", param, ctx)
        return super().convert(value, param, ctx)


_DECIMAL = re.compile(r"-?[0-9]{1,9}(\.[0-9]{1,9})?")
_WAIT = _Seconds(0, 86_400)
_SCALE = Whole(1, 1_000_000)
_MARGIN = Whole(0, 1_000_000_000)
_LAST = Whole(1, 1_000_000_000)
_OF = click.Choice(["all"])
# SECURITY: each further quote is another draw of the noise for a census node that refuses what it does not like.
_MOST_QUOTES_AGAIN = 1


@click.group()
def commands() -> None:
    """Ask questions and read the answers that only you can open."""


commands.add_command(estimate)


def _say_dictionary(role: str, version: int) -> None:
    say(said(texts.NEW_DICTIONARY, role=said(role), version=version))


@commands.command()
@home_option
@json_option
@click.argument("variable", required=False)
@click.option("--search", "word", metavar="WORD", help=common_texts.SEARCH_HELP)
@click.option("--under", "under", metavar="CODE", help=common_texts.UNDER_HELP)
def dictionary(home: Path, as_json: bool, variable: str | None, word: str | None, under: str | None) -> None:
    """Show what may be asked: health columns, language variables, and their published codes.

    With VARIABLE one of them, or an event table, with all its codes.
    """
    from researcher_node.asking.lookup import looked_up
    from researcher_node.assembly import ResearcherHome

    async def fetch(opened: ResearcherHome) -> Dictionaries:
        with closing(opened.open_answers()) as store:
            async with opened.session(store, on_dictionary=_say_dictionary) as session:
                return await session.dictionaries()

    result, text = looked_up(asyncio.run(fetch(ResearcherHome(home))), variable, word, under)
    emit(as_json, result, fitted(text))


@commands.command()
@home_option
@json_option
@click.option("--count", "counts", multiple=True, default=("all",), show_default=True, help=texts.COUNT_HELP)
@click.option("--of", "of", type=_OF, help=texts.OF_HELP)
@click.option("--scale", type=_SCALE, help=texts.SCALE_HELP)
@click.option("--margin", "wanted_margin", type=_MARGIN, help=texts.MARGIN_HELP)
def quote(
    home: Path, as_json: bool, counts: tuple[str, ...], of: str | None, scale: int | None, wanted_margin: int | None
) -> None:
    """Price, margin of error, and how many such answers are left where that may be told. Charges nothing."""
    from researcher_node.asking.quoting import quote_json, quote_text
    from researcher_node.assembly import ResearcherHome

    precision = _precision(scale, wanted_margin)

    async def fetch(opened: ResearcherHome) -> tuple[Quoted, Policy]:
        with closing(opened.open_answers()) as store:
            async with opened.session(store, on_dictionary=_say_dictionary) as session:
                question = await session.question(counts, of_all=of is not None)
                quoted = await session.quote(question.text, precision)
                return quoted, await session.policy_named(quoted.offer.body.policy_hash)

    quoted, policy = asyncio.run(fetch(ResearcherHome(home)))
    emit(as_json, quote_json(quoted, policy), quote_text(quoted, policy))


@commands.command()
@home_option
@json_option
@click.option("--where", help=texts.WHERE_HELP)
@click.option("--count", "counts", multiple=True, help=texts.COUNT_HELP)
@click.option("--of", "of", type=_OF, help=texts.OF_HELP)
@click.option("--scale", type=_SCALE, help=texts.SCALE_HELP)
@click.option("--margin", "wanted_margin", type=_MARGIN, help=texts.MARGIN_HELP)
@click.option("--fraction", default="1", show_default=True, help=texts.FRACTION_HELP)
@click.option("--wait", type=_WAIT, default=60.0, show_default=True, help=texts.WAIT_HELP)
@click.option("--project", help=texts.PROJECT_HELP)
@click.option("--label", type=PrintableLine(), help=texts.LABEL_HELP)
@click.option("--again", metavar="QUERY_ID", help=texts.AGAIN_HELP)
@click.option("--dry-run", is_flag=True, help=texts.DRY_RUN_HELP)
@click.option("--yes", is_flag=True, help=texts.YES_HELP)
def ask(
    home: Path,
    as_json: bool,
    where: str | None,
    counts: tuple[str, ...],
    of: str | None,
    scale: int | None,
    wanted_margin: int | None,
    fraction: str,
    wait: float,
    project: str | None,
    label: str | None,
    again: str | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Ask one question and wait for its answer. Charges the budget once."""
    from broker_common.storage.creation import verify_identifier
    from researcher_node.answers.listing import answer_json, answer_text
    from researcher_node.answers.own_use import own_uses
    from researcher_node.asking.proposal import Precision, Wish, parse_fraction
    from researcher_node.asking.quoting import dry_run_json, dry_run_text, warnings_json
    from researcher_node.asking.warnings import confirm, consider, is_at_terminal, running, say_warnings
    from researcher_node.assembly import ResearcherHome

    precision = _precision(scale, wanted_margin)
    is_counted = bool(counts) or of is not None
    if (again is None) == (where is None) or (where is not None) != is_counted:
        raise click.UsageError(texts.WHERE_OR_AGAIN)
    fraction_given = click.get_current_context().get_parameter_source("fraction") is ParameterSource.COMMANDLINE
    if again is not None and (precision != Precision() or project is not None or fraction_given):
        raise click.UsageError(texts.AGAIN_AS_IT_WAS)
    if again is not None and dry_run:
        raise click.UsageError(texts.AGAIN_IS_NO_DRY_RUN)
    opened = ResearcherHome(home)
    wish = None
    if where is not None:
        study = opened.config.project if project is None else project
        verify_identifier("--project", study)
        wish = Wish(where, counts, of is not None, precision, parse_fraction(fraction), study, label or "")
    with (
        closing(opened.open_answers()) as store,
        running(session := opened.session(store, on_dictionary=_say_dictionary)) as run,
    ):
        warnings: Sequence[Warned] = ()
        if wish is None:
            before = store.get(again or "")
            if label is not None:
                store.label(before.query, label)
                before = store.get(before.query)
            asked = run(_ask_again(session, before, wait))
        else:
            considered = run(consider(session, store, wish))
            wanted, warnings = considered.proposal.wanted, considered.warnings
            if dry_run:
                say_warnings(warnings)
                quoted = run(session.quote(wanted.count, wanted.precision))
                emit(as_json, dry_run_json(considered, quoted), fitted(dry_run_text(considered, quoted)))
                return
            if yes or (as_json and not is_at_terminal()):
                say_warnings(warnings)
            elif warnings:
                # A question that would be refused is refused before anybody is asked to confirm it.
                run(session.quote(wanted.count, wanted.precision))
                confirm(warnings)
            asked = run(_ask(session, wanted, wait))
        uses = own_uses([asked], store.charges(), opened.policies.get)
    result = {**answer_json(asked, uses), "warnings": warnings_json(warnings)}
    emit(as_json, result, fitted(answer_text(asked, uses)))


async def _ask(session: Session, wanted: Wanted, wait: float) -> AskedQuestion:
    for quoted_again in range(_MOST_QUOTES_AGAIN):
        try:
            return await _ask_once(session, wanted, wait, quoted_again)
        except InvalidRequestError as error:
            if error.code != "SLOT_UNUSABLE":
                raise
        # Usually the census node was restarted between quote and sample. Nothing was charged.
        say(said(texts.QUOTING_AGAIN))
    return await _ask_once(session, wanted, wait, _MOST_QUOTES_AGAIN)


async def _ask_once(session: Session, wanted: Wanted, wait: float, quoted_again: int) -> AskedQuestion:
    clock = asyncio.get_running_loop().time
    deadline = clock() + wait
    asked = await session.prepare(wanted, quoted_again=quoted_again, wait_seconds=wait, on_busy=_say_too_many_quotes)
    return await _wait_for(session, asked, max(0.0, deadline - clock()))


async def _ask_again(session: Session, asked: AskedQuestion, wait: float) -> AskedQuestion:
    try:
        return await _wait_for(session, asked, wait)
    except (InvalidRequestError, RefusedError) as error:
        # The refusal of a ticket may be an old one that advises to ask anew.
        if error.ends_ticket and await session.is_shut_down(asked):
            raise RefusedError("SERVICE_SHUT_DOWN") from error
        raise


async def _wait_for(session: Session, asked: AskedQuestion, wait: float) -> AskedQuestion:
    try:
        return await session.ask(
            asked, wait_seconds=wait, on_stage=_say_stage, on_busy=_say_busy, on_away=lambda: say(said(texts.AWAY))
        )
    except PeerUnavailableError:
        if not session.has_taken(asked.query):
            say(said(texts.NOT_TAKEN, query=asked.query))
        raise
    except asyncio.CancelledError:
        # Ctrl-C or SIGTERM. Questions that the health node has taken go on without us.
        raise CommandInterrupted(phrase(texts.INTERRUPTED, query=asked.query)) from None


@commands.command()
@home_option
@json_option
@click.argument("queries", metavar="[QUERY_ID]...", nargs=-1)
@click.option("--state", "states", multiple=True, type=click.Choice(STATES), help=texts.STATE_HELP)
@click.option("--project", help=texts.ONLY_PROJECT_HELP)
@click.option("--label", type=PrintableLine(), help=texts.ONLY_LABEL_HELP)
@click.option("--since", metavar="TIME", help=texts.SINCE_HELP)
@click.option("--until", metavar="TIME", help=texts.UNTIL_HELP)
@click.option("--last", type=_LAST, help=texts.LAST_HELP)
@click.option("--collect", is_flag=True, help=texts.COLLECT_HELP)
@click.option("--check", is_flag=True, help=texts.CHECK_HELP)
@click.option("--format", "form", type=click.Choice(FORMATS), help=texts.FORMAT_HELP)
@click.option("--to", type=click.Path(path_type=Path, dir_okay=False), help=texts.TO_HELP)
def answers(
    home: Path,
    as_json: bool,
    queries: tuple[str, ...],
    states: tuple[str, ...],
    project: str | None,
    label: str | None,
    since: str | None,
    until: str | None,
    last: int | None,
    collect: bool,
    check: bool,
    form: str | None,
    to: Path | None,
) -> int | None:
    """List what you have asked and what came back, oldest first. Reading again costs nothing."""
    from researcher_node.answers.listing import question_json, questions_text
    from researcher_node.answers.own_use import own_uses
    from researcher_node.assembly import ResearcherHome

    selection = Selection(
        states=states,
        project=project,
        label=label,
        since_ms=None if since is None else parse_since(since),
        until_ms=None if until is None else parse_until(until),
        last=last,
    )
    if queries and selection != Selection():
        raise click.UsageError(texts.QUERY_OR_FILTER)
    if (form is not None and (as_json or check)) or (form is None and to is not None):
        raise click.UsageError(texts.FORMAT_ALONE)
    if form == "parquet" and to is None and sys.stdout.isatty():
        raise click.UsageError(texts.PARQUET_TO_FILE)
    opened = ResearcherHome(home)
    with closing(opened.open_answers()) as store:
        if collect:
            asyncio.run(_collect(opened, store, queries))
        asked_before = store.all()
        # In the order given; a query that is named twice is shown once.
        questions = (
            [store.get(query) for query in dict.fromkeys(queries)] if queries else selection.choose(asked_before)
        )
        report = asyncio.run(_check(opened, store, {asked.query for asked in questions})) if check else None
        uses = own_uses(questions, store.charges(), opened.policies.get)
    if report is not None:
        return _emit_report(as_json, questions, uses, report, opened.seen)
    if questions:
        text = questions_text(questions, system_clock(), uses)
        text = fitted(text) if len(questions) == 1 else text
    else:
        text = said(texts.NONE_SUCH) if asked_before else said(texts.NONE_ASKED)
    if form is not None:
        _write([question_json(asked, uses) for asked in questions], form, to)
    else:
        emit(as_json, {"answers": [question_json(asked, uses) for asked in questions]}, text)
    return None


def _write(questions: Sequence[Mapping[str, Any]], form: str, to: Path | None) -> None:
    """The questions in a format for other programs, into a file or to standard output."""
    from broker_common.storage.durable import replace_file
    from researcher_node.answers.formats import tabulated

    data = tabulated(questions, form)
    if to is not None:
        replace_file(to, data, mode=0o600)
        say(said(texts.WRITTEN, count=len(questions), file=to))
    elif form == "parquet":
        sys.stdout.buffer.write(data)
    else:
        click.echo(data.decode(), nl=False)


async def _collect(opened: ResearcherHome, store: Answers, queries: Collection[str]) -> None:
    """Fetch what is not answered, and submit again what nobody has taken; what is not out, or never will be, is no failure.

    An answer that does not hold keeps nobody from the others; it is the failure at the end.
    """
    failure: BrokerError | None = None
    async with opened.session(store) as session:
        for asked in store.all():
            # Also what was refused: a ticket that was charged may have been refused when it came again.
            if asked.state in {"pending", "refused"} and (not queries or asked.query in queries):
                try:
                    await session.collect_now(asked.query)
                except BrokerError as error:
                    if error.code not in {"ANSWER_PENDING", "ANSWER_EXPIRED", "PEER_MISBEHAVED"}:
                        raise
                    if error.code != "ANSWER_PENDING":
                        say(f"{asked.query}: {error.said(said)[0]}")
                    elif asked.state == "pending":
                        await _submit_again(session, asked)
                    if error.code == "PEER_MISBEHAVED":
                        failure = failure or error
    if failure is not None:
        raise failure


async def _submit_again(session: Session, asked: AskedQuestion) -> None:
    """Submit a question whose answer is not out once more, if the health node may never have heard of it."""
    if asked.accepted or asked.ticket_expires_ms <= system_clock():
        say(said(texts.NOT_OUT, query=asked.query))
        return
    try:
        await session.submit_again(asked)
    except (InvalidRequestError, RefusedError, PeerUnavailableError) as error:
        say(said(texts.NOT_SUBMITTED, query=asked.query, problem=error.said(said)[0]))
    else:
        say(said(texts.SUBMITTED, query=asked.query))


async def _check(opened: ResearcherHome, store: Answers, queries: Collection[str]) -> Report:
    """Compare the receipts of these queries with the census log as it is now."""
    from researcher_node.trust.checking import check_receipts

    async with opened.session(store) as session:
        try:
            # A witness key that is new is heard of before its first cosignature is met.
            await session.meet("health")
        except PeerUnavailableError as error:
            say(said(texts.CARD_OF_WITNESS, problem=error.said(said)[0]))
        receipts = [receipt for receipt in store.receipts() if receipt.query in queries]
        return await check_receipts(session, opened.seen, receipts)


def _emit_report(
    as_json: bool, questions: Sequence[AskedQuestion], uses: OwnUses, report: Report, seen: RememberedCheckpoint
) -> int | None:
    from researcher_node.trust.checking import checked_json, log_json, report_text

    result = {"answers": [checked_json(asked, report, uses) for asked in questions], "log": log_json(report)}
    text = report_text(questions, report, seen.path)
    if report.error is not None:
        return emit_failing(as_json, result, text, report.error)
    emit(as_json, result, text)
    return None


@commands.command()
@new_home_option
@json_option
@click.option("--id", "researcher_id", required=True, help=texts.ID_HELP)
@click.option("--organisation", required=True, help=texts.ORGANISATION_HELP)
@click.option("--project", required=True, help=texts.USUAL_PROJECT_HELP)
@click.option("--health", "health_address", required=True, type=HostPort(), help=texts.HEALTH_HELP)
@click.option("--census", "census_address", required=True, type=HostPort(), help=texts.CENSUS_HELP)
@click.option("--address", default="127.0.0.1:0", show_default=True, type=HostPort(), help=texts.ADDRESS_HELP)
def create(
    home: Path,
    as_json: bool,
    researcher_id: str,
    organisation: str,
    project: str,
    health_address: str,
    census_address: str,
    address: str,
) -> None:
    """Make a new researcher home, with keys of its own.

    Next: hand its card ('keys card') to both agencies, whose operators register it, and 'register' the cards of both here.
    """
    from broker_common.storage.creation import verify_identifier
    from researcher_node.assembly import ResearcherHome
    from researcher_node.config import AgencyPeer, ResearcherConfig

    config = ResearcherConfig(
        role="researcher",
        researcher_id=researcher_id,
        organisation=organisation,
        project=project,
        health=AgencyPeer(address=health_address),
        census=AgencyPeer(address=census_address),
        address=address,
    )
    for name, value in (("--id", researcher_id), ("--organisation", organisation), ("--project", project)):
        verify_identifier(name, value)
    own = ResearcherHome.create(home, config).own_card()
    result = {"home": str(home), "researcher_id": researcher_id, "fingerprint": own.fingerprint}
    emit(as_json, result, said(texts.CREATED, **result))


@commands.command()
@home_option
@json_option
@click.argument("card", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--fingerprint", help=common_texts.FINGERPRINT_HELP)
@click.option("--replace", is_flag=True, help=common_texts.REPLACE_HELP)
def register(home: Path, as_json: bool, card: Path, fingerprint: str | None, replace: bool) -> None:
    """Know an agency by the card that it printed with 'keys card'.

    Newer cards of an agency are taken by themselves at every contact; this is for the first one, and after a loss of keys.
    """
    from broker_common.commands.register import verify_card_role
    from broker_common.parties.registration import read_card
    from researcher_node.assembly import ResearcherHome
    from researcher_node.trust.cards import AGENCIES

    opened = ResearcherHome(home)
    verified = read_card(card, fingerprint=fingerprint)
    verify_card_role(verified, AGENCIES)
    opened.trust.put(verified, replace=replace)
    result = {
        "role": verified.card.role,
        "organisation": verified.card.organisation,
        "serial": verified.card.serial,
        "fingerprint": verified.fingerprint,
    }
    compare = "" if fingerprint is not None else said(texts.COMPARE)
    emit(as_json, result, said(texts.REGISTERED, **(result | {"role": said(verified.card.role)})) + compare)


@commands.command()
@home_option
@lifeline_option
def serve(home: Path, lifeline: bool) -> None:
    """Run the inbox: sealed answers arrive by themselves. Without it, 'ask' collects them."""
    from broker_common.rpc.handshake_log import noting_refused_connections
    from researcher_node.assembly import ResearcherHome

    opened = ResearcherHome(home)
    with opened.home.serving(), noting_refused_connections("text"):
        asyncio.run(opened.serve(ready_line(texts.READY, lifeline=lifeline)))


def _precision(scale: int | None, wanted_margin: int | None) -> Precision:
    from researcher_node.asking.proposal import Precision

    if scale is not None and wanted_margin is not None:
        raise click.UsageError(texts.SCALE_OR_MARGIN)
    return Precision(scale, wanted_margin)


def _say_busy(seconds: float) -> None:
    say(said(texts.BUSY, seconds=round(seconds)))


def _say_too_many_quotes(seconds: float) -> None:
    say(said(texts.TOO_MANY_QUOTES, seconds=round(seconds)))


def _say_stage(stage: health_service_pb2.Stage.ValueType) -> None:
    say(said(texts.STAGES.get(stage, str(stage))))
