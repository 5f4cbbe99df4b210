"""The researcher's commands."""

from __future__ import annotations

import asyncio
import math
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import click
from tripartite.v1 import health_service_pb2

from broker_common import card_texts
from broker_common.cli import emit, home_option, json_option, lifeline_option, ready_line, say
from broker_common.crypto.sampling import WHOLE_MILLIONTHS
from broker_common.errors import BrokerError, InternalError, InvalidRequestError
from broker_common.privacy.accounting import epsilon_text
from broker_common.privacy.discrete_laplace import margin
from broker_common.query.dictionary_text import dictionary_json, dictionary_text
from broker_common.storage.registration import IDENTIFIER, read_card
from researcher_node import texts
from researcher_node.answers import AskedQuestion
from researcher_node.asking import Dictionaries, Precision, Quoted, Wanted, parse_fraction
from researcher_node.config import AgencyPeer, ResearcherConfig
from researcher_node.opening import ResearcherHome

__all__ = ["commands"]


class _Seconds(click.FloatRange):
    """A range that does not admit "nan", which compares as neither above nor below."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        seconds = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"{value!r} is not a number of seconds.", param, ctx)
        return seconds


_WAIT = _Seconds(0, 86_400)


@click.group()
def commands() -> None:
    """Ask questions and read the answers that only you can open."""


@commands.command()
@home_option
@json_option
def dictionary(home: Path, as_json: bool) -> None:
    """What may be asked: health columns, language variables, and their published codes."""

    async def fetch(opened: ResearcherHome) -> Dictionaries:
        answers = opened.open_answers()
        async with opened.session(answers) as session:
            return await session.dictionaries()

    found = asyncio.run(fetch(ResearcherHome(home)))
    result = {
        "health": dictionary_json(found.health),
        "census": dictionary_json(found.census),
        "census_release": found.census_release,
    }
    text = (
        f"--where: health columns\n\n{dictionary_text(found.health)}\n\n"
        f"--count: language variables of census release {found.census_release}, or all\n\n"
        f"{dictionary_text(found.census)}"
    )
    emit(as_json, result, text)


@commands.command()
@home_option
@json_option
@click.option("--count", "count", default="all", show_default=True, help=texts.COUNT_HELP)
@click.option("--scale", type=click.IntRange(1), help=texts.SCALE_HELP)
@click.option("--margin", "wanted_margin", type=click.IntRange(0), help=texts.MARGIN_HELP)
def quote(home: Path, as_json: bool, count: str, scale: int | None, wanted_margin: int | None) -> None:
    """Price, margin of error, and how many such answers are left. Charges nothing."""
    precision = _precision(scale, wanted_margin)

    async def fetch(opened: ResearcherHome) -> Quoted:
        answers = opened.open_answers()
        async with opened.session(answers) as session:
            return await session.quote(count, precision)

    response = asyncio.run(fetch(ResearcherHome(home))).response
    remaining = response.remaining if response.HasField("remaining") else None
    expires = datetime.fromtimestamp(response.expires_ms / 1000, UTC).isoformat(timespec="seconds")
    result = {
        "scale": response.scale,
        "epsilon": epsilon_text(response.scale),
        "margin_95": response.margin_95,
        "charged": response.charged,
        "remaining": remaining,
        "policy_hash": response.policy_hash.hex(),
        "expires": expires,
    }
    text = texts.QUOTE.format(
        scale=response.scale,
        epsilon=result["epsilon"],
        margin=response.margin_95,
        charged=response.charged,
        remaining=texts.REMAINING_UNTOLD if remaining is None else texts.REMAINING_COUNT.format(count=remaining),
        policy=result["policy_hash"],
        expires=expires,
    )
    emit(as_json, result, text)


@commands.command()
@home_option
@json_option
@click.option("--where", help=texts.WHERE_HELP)
@click.option("--count", "count", help=texts.COUNT_HELP)
@click.option("--scale", type=click.IntRange(1), help=texts.SCALE_HELP)
@click.option("--margin", "wanted_margin", type=click.IntRange(0), help=texts.MARGIN_HELP)
@click.option("--fraction", default="1", show_default=True, help=texts.FRACTION_HELP)
@click.option("--wait", type=_WAIT, default=60.0, show_default=True, help=texts.WAIT_HELP)
@click.option("--project", help=texts.PROJECT_HELP)
@click.option("--again", metavar="QUERY_ID", help=texts.AGAIN_HELP)
def ask(
    home: Path,
    as_json: bool,
    where: str | None,
    count: str | None,
    scale: int | None,
    wanted_margin: int | None,
    fraction: str,
    wait: float,
    project: str | None,
    again: str | None,
) -> None:
    """Ask one question and wait for its answer. Charges the budget once."""
    precision = _precision(scale, wanted_margin)
    if (again is None) == (where is None) or (where is None) != (count is None):
        raise click.UsageError(texts.WHERE_OR_AGAIN)
    opened = ResearcherHome(home)
    wanted = None
    if where is not None and count is not None:
        study = project or opened.config.project
        wanted = Wanted(where, count, precision, parse_fraction(fraction), study)
    asked = asyncio.run(_ask(opened, wanted, again, wait))
    emit(as_json, _answer_json(asked), _answer_text(asked))


async def _ask(opened: ResearcherHome, wanted: Wanted | None, again: str | None, wait: float) -> AskedQuestion:
    answers = opened.open_answers()
    async with opened.session(answers) as session:
        if wanted is None:
            return await session.ask(answers.get(again or ""), wait_seconds=wait, on_stage=_say_stage)
        try:
            return await session.ask(await session.prepare(wanted), wait_seconds=wait, on_stage=_say_stage)
        except InvalidRequestError as error:
            if error.code != "SLOT_UNUSABLE":
                raise
            # The census node was restarted between quote and sample. Nothing was charged: quote again, once.
            say(texts.QUOTING_AGAIN)
            return await session.ask(await session.prepare(wanted), wait_seconds=wait, on_stage=_say_stage)


@commands.command()
@home_option
@json_option
@click.argument("query_id", required=False)
@click.option("--collect", is_flag=True, help="Fetch answers that are still pending from the census node.")
def answers(home: Path, as_json: bool, query_id: str | None, collect: bool) -> None:
    """What you have asked and what came back. Reading again costs nothing."""
    opened = ResearcherHome(home)
    store = opened.open_answers()
    if collect:
        asyncio.run(_collect_pending(opened, query_id))
    questions = [store.get(query_id)] if query_id is not None else store.all()
    rows = [_asked_json(asked) for asked in questions]
    emit(as_json, {"answers": rows}, "\n\n".join(map(_asked_text, questions)) or texts.NO_ANSWERS)


async def _collect_pending(opened: ResearcherHome, query_id: str | None) -> None:
    store = opened.open_answers()
    async with opened.session(store) as session:
        for asked in store.all():
            # Also what was refused: a ticket that was charged may have been refused when it came again.
            if asked.state != "answered" and query_id in {None, asked.query}:
                try:
                    await session.collect_now(asked.query)
                except BrokerError as error:
                    if error.code != "ANSWER_PENDING":
                        raise
                    if asked.state == "pending":
                        say(f"{asked.query}: {error.text}")


@commands.command()
@home_option
@json_option
@click.option("--id", "researcher_id", required=True, help=texts.ID_HELP)
@click.option("--organisation", required=True, help=texts.ORGANISATION_HELP)
@click.option("--project", required=True, help=texts.USUAL_PROJECT_HELP)
@click.option("--health", "health_address", required=True, metavar="HOST:PORT", help=texts.HEALTH_HELP)
@click.option("--census", "census_address", required=True, metavar="HOST:PORT", help=texts.CENSUS_HELP)
@click.option("--address", default="127.0.0.1:0", show_default=True, metavar="HOST:PORT", help=texts.ADDRESS_HELP)
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
        if not IDENTIFIER.fullmatch(value):
            raise InvalidRequestError("INVALID_VALUE", name=name, problem=f"is {value!r}", remedy=texts.NAME_RULE)
    own = ResearcherHome.create(home, config).own_card()
    result = {"home": str(home), "researcher_id": researcher_id, "fingerprint": own.fingerprint}
    emit(as_json, result, texts.CREATED.format_map(result))


@commands.command()
@home_option
@json_option
@click.argument("card", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--fingerprint", help=card_texts.FINGERPRINT_HELP)
@click.option("--replace", is_flag=True, help=card_texts.REPLACE_HELP)
def register(home: Path, as_json: bool, card: Path, fingerprint: str | None, replace: bool) -> None:
    """Know an agency by the card that it printed with 'keys card'.

    Newer cards of an agency are taken by themselves at every contact; this is for the first one, and after a loss of keys.
    """
    opened = ResearcherHome(home)
    verified = read_card(card, fingerprint=fingerprint)
    opened.trust.put(verified, replace=replace)
    result = {
        "role": verified.card.role,
        "organisation": verified.card.organisation,
        "serial": verified.card.serial,
        "fingerprint": verified.fingerprint,
    }
    emit(as_json, result, texts.REGISTERED.format_map(result))


@commands.command()
@home_option
@lifeline_option
def serve(home: Path, lifeline: bool) -> None:
    """Run the inbox: sealed answers arrive by themselves. Without it, 'ask' collects them."""
    opened = ResearcherHome(home)
    with opened.home.serving():
        asyncio.run(opened.serve(ready_line(texts.READY, lifeline=lifeline)))


def _precision(scale: int | None, wanted_margin: int | None) -> Precision:
    if scale is not None and wanted_margin is not None:
        raise click.UsageError(texts.SCALE_OR_MARGIN)
    return Precision(scale, wanted_margin)


def _say_stage(stage: health_service_pb2.Stage.ValueType) -> None:
    say(texts.STAGES.get(stage, str(stage)))


def _answer_json(asked: AskedQuestion) -> dict[str, Any]:
    if asked.noisy_count is None:
        raise InternalError("INTERNAL")
    return {
        "query_id": asked.query,
        "noisy_count": asked.noisy_count,
        "scale": asked.scale,
        "epsilon": epsilon_text(asked.scale),
        "margin_95": margin(asked.scale),
        "question": asked.question,
        "policy_hash": asked.policy_hash,
        "charged": asked.charged,
        "checkpoint": asked.checkpoint,
    }


def _answer_text(asked: AskedQuestion) -> str:
    result = _answer_json(asked)
    text = texts.ANSWER.format(
        count=result["noisy_count"],
        question=texts.EVERYONE if asked.question == "all" else asked.question,
        where=asked.where,
        margin=result["margin_95"],
        scale=asked.scale,
        epsilon=result["epsilon"],
        charged=asked.charged,
        query=asked.query,
    )
    return f"{text}\n{texts.NEGATIVE}" if result["noisy_count"] < 0 else text


def _asked_json(asked: AskedQuestion) -> dict[str, Any]:
    return {
        "query_id": asked.query,
        "asked": _instant(asked.asked_ms),
        "state": asked.state,
        "where": asked.where,
        "question": asked.question,
        "fraction": f"{Decimal(asked.fraction_millionths) / WHOLE_MILLIONTHS:f}",
        "scale": asked.scale,
        "epsilon": epsilon_text(asked.scale),
        "margin_95": margin(asked.scale),
        "policy_hash": asked.policy_hash,
        "noisy_count": asked.noisy_count,
        "charged": asked.charged,
        "checkpoint": asked.checkpoint or None,
        "refused": asked.refused or None,
    }


def _asked_text(asked: AskedQuestion) -> str:
    if asked.state == "answered":
        return f"{_instant(asked.asked_ms)}\n{_answer_text(asked)}"
    what = asked.refused or asked.state
    return f"{_instant(asked.asked_ms)}\n{what}: {asked.question}\n  among those with: {asked.where}\n  query    {asked.query}"


def _instant(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds")
