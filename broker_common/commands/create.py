"""Shared code of `health create`, `census create` and `auditor create`, and the auditor's own commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from broker_common.agency.home import AgencyHome
from broker_common.audit.home import create_home, trust
from broker_common.cli import emit
from broker_common.commands import texts
from broker_common.commands.options import HostPort, home_option_of, is_address, json_option, new_home_option
from broker_common.commands.register import card_text
from broker_common.commands.texts import FINGERPRINT_HELP, REPLACE_HELP
from broker_common.crypto.id_forms import ONTARIO
from broker_common.errors import InvalidRequestError
from broker_common.language import said
from broker_common.parties.registration import read_card
from broker_common.storage.creation import verify_identifier, verify_origin
from broker_common.storage.durable import SHARED_FILE, replace_file

_FILE = click.Path(path_type=Path, dir_okay=False)


def create_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that `create` has at both agencies."""
    for option in reversed(
        [
            new_home_option,
            json_option,
            click.option("--organisation", required=True, help=texts.ORGANISATION_HELP),
            click.option("--origin", required=True, metavar="NAME", help=texts.ORIGIN_HELP),
            click.option("--address", required=True, type=HostPort(), help=texts.ADDRESS_HELP),
            click.option("--dictionary", type=_FILE, help=texts.FIRST_DICTIONARY_HELP),
            click.option("--linkage-file", type=_FILE, help=texts.LINKAGE_FILE_HELP),
        ]
    ):
        command = option(command)
    return command


def verify_names(organisation: str, origin: str, address: str) -> None:
    """Return only if an agency can be called, and called upon, by these.

    Raises:
        InvalidRequestError: INVALID_VALUE.
    """
    verify_identifier("--organisation", organisation)
    verify_origin("--origin", origin)
    # Port 0 is one to listen at, whichever is free, and none for peers to call.
    if not is_address(address, least_port=1):
        raise InvalidRequestError("INVALID_VALUE", name="--address", problem=texts.NO_PORT, remedy=texts.NO_PORT_REMEDY)


def created_json(made: AgencyHome[Any], *, has_dictionary: bool) -> dict[str, Any]:
    """Output of `create` about an agency's new home."""
    card = made.own_card()
    form = made.newest_dictionary().id_form if has_dictionary else ONTARIO
    return {
        "home": str(made.home.path),
        "role": card.card.role,
        "organisation": card.card.organisation,
        "origin": card.card.origin,
        "fingerprint": card.fingerprint,
        "dictionary": made.newest_dictionary().hash.hex() if has_dictionary else "",
        # The name of the chain that it holds.
        "linkage": made.linkage_keys.chain("", form).chain_id if made.linkage_keys.is_there else "",
    }


@click.group()
def auditor() -> None:
    """Make an auditor's home, and say whose logs it trusts. The audit itself: 'tripartite audit'."""


@auditor.command()
@new_home_option
@json_option
@click.option("--health", default="", help=texts.HEALTH_HELP)
@click.option("--oversight-to", type=_FILE, help=texts.OVERSIGHT_TO_HELP)
def create(home: Path, as_json: bool, health: str, oversight_to: Path | None) -> None:
    """Make a new auditor's home, with an oversight key of its own.

    Its public half goes to the census agency before that makes its home ('census create --oversight FILE'): with the private
    one, on site, the noise of every answer is checked.
    """
    if health:
        verify_identifier("--health", health)
    public = create_home(home, health=health)
    file = home / "keys" / "oversight.pub" if oversight_to is None else oversight_to
    # Public, and made to be handed on.
    replace_file(file, f"{public.to_text()}\n".encode("ascii"), mode=SHARED_FILE)
    result = {"home": str(home), "role": "auditor", "oversight": str(file)}
    emit(as_json, result, said(texts.AUDITOR_CREATED, **result))


@auditor.command()
@home_option_of("auditor")
@json_option
@click.argument("card", type=_FILE)
@click.option("--fingerprint", help=FINGERPRINT_HELP)
@click.option("--replace", is_flag=True, help=REPLACE_HELP)
def register(home: Path, as_json: bool, card: Path, fingerprint: str | None, replace: bool) -> None:
    """Trust a party's card, which it printed with 'keys card'. Newer cards that follow it are trusted as well."""
    verified = read_card(card, fingerprint=fingerprint)
    trust(home, verified, replace=replace)
    result, text = card_text(verified, is_compared=fingerprint is not None)
    emit(as_json, result, text)
