"""An agency's commands `register` and `revoke`: who is known from now on, and who no longer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import click

from broker_common.agency.home import AgencyHome
from broker_common.cli import emit
from broker_common.commands import texts
from broker_common.commands.keys import card_json, peer_json, terms_text, who
from broker_common.commands.options import home_option, is_address, json_option
from broker_common.crypto.cards import VerifiedCard
from broker_common.crypto.certificates import Role
from broker_common.errors import InvalidRequestError
from broker_common.language import phrase, said
from broker_common.parties.registration import read_card
from broker_common.storage.clock import system_clock
from broker_common.storage.creation import verify_identifier
from broker_common.tlog.entries import MAX_INBOX_CHARACTERS, MAX_PROJECTS
from broker_common.tlog.orders import verify_reason
from broker_common.tlog.parties import Registration, peer_name


def register_command(
    open_home: Callable[[Path], AgencyHome[Any]], roles: Sequence[Role], *, inboxes: bool
) -> click.Command:
    """`register` of one agency; only the census agency delivers to inboxes."""

    def command(
        home: Path,
        as_json: bool,
        card: Path | None,
        researcher: str | None,
        project: tuple[str, ...],
        fingerprint: str | None,
        replace: bool,
        reason: str | None,
        inbox: str | None = None,
    ) -> None:
        agency = open_home(home)
        if (card is None) == (researcher is None):
            raise click.UsageError(texts.CARD_OR_RESEARCHER)
        if replace != (reason is not None):
            raise click.UsageError(texts.REPLACE_AND_REASON)
        if reason is not None:
            verify_reason(reason)
        known = {(peer.card.card.role, peer_name(peer.card.card.identity)): peer for peer in agency.known()}
        verified = read_card(card, fingerprint=fingerprint) if card is not None else _known_card(known, str(researcher))
        verify_card_role(verified, roles)
        _verify_expected(agency, verified)
        identity = verified.card.identity
        before = known.get((identity.role, peer_name(identity)))
        _verify_terms(identity.role, project, inbox, is_new=before is None)
        registration = agency.register(verified, projects=project or None, inbox=inbox, replace_because=reason or "")
        result = peer_json(registration, system_clock())
        if identity.role == "researcher":
            result["dropped"] = [
                each for each in (before.projects if before else ()) if each not in registration.projects
            ]
        emit(as_json, result, _registered_text(result, is_compared=fingerprint is not None))

    command.__doc__ = texts.REGISTER_HELP
    options = [
        home_option,
        json_option,
        click.argument("card", required=False, type=click.Path(path_type=Path, dir_okay=False)),
        click.option("--researcher", metavar="ID", help=texts.RESEARCHER_HELP),
        click.option("--project", multiple=True, help=texts.PROJECT_HELP),
        click.option("--fingerprint", help=texts.FINGERPRINT_HELP),
        click.option("--replace", is_flag=True, help=texts.REPLACE_HELP),
        click.option("--reason", help=texts.REASON_HELP),
    ]
    if inboxes:
        options.append(click.option("--inbox", metavar="HOST:PORT", help=texts.INBOX_HELP))
    return _command("register", command, options)


def revoke_command(open_home: Callable[[Path], AgencyHome[Any]], roles: Sequence[Role]) -> click.Command:
    """`revoke` of one agency."""

    def command(home: Path, as_json: bool, role: str, name: str, reason: str) -> None:
        open_home(home).revoke(cast("Role", role), name, verify_reason(reason))
        result = {"role": role, "name": name, "state": "revoked"}
        emit(as_json, result, said(texts.REVOKED, **(result | {"role": said(role)})))

    command.__doc__ = texts.REVOKE_HELP
    return _command(
        "revoke",
        command,
        [
            home_option,
            json_option,
            click.argument("role", type=click.Choice(roles)),
            click.argument("name"),
            click.option("--reason", required=True, help=texts.REASON_HELP),
        ],
    )


def _command(name: str, function: Callable[..., None], options: Sequence[Callable[..., Any]]) -> click.Command:
    for option in reversed(options):
        function = option(function)
    return click.command(name)(function)


def verify_card_role(card: VerifiedCard, roles: Sequence[Role]) -> None:
    """Return only if a party that may be registered here has such a card.

    Raises:
        InvalidRequestError: INVALID_VALUE.
    """
    role = card.card.role
    if role not in roles:
        raise InvalidRequestError(
            "INVALID_VALUE",
            name="The card",
            problem=phrase(texts.CARD_OF, owner=texts.OWNERS[role]),
            remedy=phrase(
                texts.CARDS_HERE,
                owners=phrase(texts.EITHER, one=texts.OWNERS[roles[0]], other=texts.OWNERS[roles[1]]),
            ),
        )


def _verify_expected(agency: AgencyHome[Any], card: VerifiedCard) -> None:
    """Return only if the home's configuration names no other organisation in this role."""
    expected, found = agency.expected(card.card.role), card.card.organisation
    if expected not in {"", found}:
        raise InvalidRequestError(
            "INVALID_VALUE",
            name="The card",
            problem=phrase(texts.OTHER_ORGANISATION, found=found, expected=expected),
            remedy=texts.OTHER_ORGANISATION_REMEDY,
        )


def _known_card(known: dict[tuple[Role, str], Registration], researcher: str) -> VerifiedCard:
    registration = known.get(("researcher", researcher))
    if registration is None:
        raise InvalidRequestError("NOT_REGISTERED", party=f"researcher {researcher[:64]}")
    return registration.card


def _verify_terms(role: Role, projects: Sequence[str], inbox: str | None, *, is_new: bool) -> None:
    if role != "researcher" and (projects or inbox is not None):
        raise click.UsageError(texts.RESEARCHERS_ONLY)
    if role == "researcher" and is_new and not projects:
        raise click.UsageError(texts.PROJECT_NEEDED)
    for project in projects:
        verify_identifier("--project", project)
    if len(projects) > MAX_PROJECTS:
        raise InvalidRequestError(
            "INVALID_VALUE",
            name="--project",
            problem=f"is given more than {MAX_PROJECTS} times",
            remedy=texts.MANY_PROJECTS,
        )
    # Port 0 is one to listen at, whichever is free, and none to call.
    if inbox and (not is_address(inbox, least_port=1) or len(inbox) > MAX_INBOX_CHARACTERS):
        raise InvalidRequestError(
            "INVALID_VALUE",
            name="--inbox",
            problem="is not HOST:PORT with a port from 1 to 65535",
            remedy="Leave it empty for a researcher without.",
        )


def _registered_text(result: dict[str, Any], *, is_compared: bool) -> str:
    dropped = said(texts.DROPPED, dropped=", ".join(result["dropped"])) if result.get("dropped") else ""
    compare = "" if is_compared else said(texts.COMPARE)
    return said(texts.REGISTERED, **(result | {"who": who(result)})) + terms_text(result) + dropped + compare


def card_text(verified: VerifiedCard, *, is_compared: bool) -> tuple[dict[str, Any], str]:
    """Output about a card that has just become known, for programs and for people."""
    result = card_json(verified, system_clock())
    return result, _registered_text(result, is_compared=is_compared)
