"""The commands about keys and cards: `tripartite keys` for every home, and an agency's `register` and `revoke`.

A role makes its homes known through the entry points `tripartite.homes`; which role a home is, its config.toml says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, cast

import click

from broker_common.agency.home import AgencyHome
from broker_common.cli import emit, instant, load_installed, say
from broker_common.commands import texts
from broker_common.commands.options import home_option, is_address, json_option
from broker_common.crypto.cards import (
    MOST_KEYS_PER_PURPOSE,
    PURPOSES,
    SAMPLE,
    TLS,
    Card,
    CardKey,
    PublicKey,
    SignedCard,
    VerifiedCard,
    sign_card,
    verify_card,
    with_new_key,
)
from broker_common.crypto.certificates import PeerCertificate, Role
from broker_common.crypto.commitments import hash_bytes
from broker_common.crypto.sealing import SealingKey
from broker_common.crypto.signing import Purpose, VerifyKey
from broker_common.errors import BrokerError, InvalidRequestError
from broker_common.language import phrase, said
from broker_common.membership.keyring import Keyring
from broker_common.membership.registration import read_card
from broker_common.storage.clock import system_clock
from broker_common.storage.creation import verify_identifier
from broker_common.storage.durable import SHARED_FILE, replace_file
from broker_common.storage.home import Home, stated_role
from broker_common.tlog.entries import MAX_INBOX_CHARACTERS, MAX_PROJECTS
from broker_common.tlog.membership import Registration, peer_name
from broker_common.tlog.orders import verify_reason

_HOMES = "tripartite.homes"
_DAY_MS = 86_400_000  # a unit
_DURATION = re.compile(r"([0-9]{1,6})([dhms])")
_UNIT_MS = {"d": _DAY_MS, "h": 3_600_000, "m": 60_000, "s": 1000}


class KeyHome(Protocol):
    """What `tripartite keys` needs of a home, whatever its role."""

    @property
    def home(self) -> Home: ...
    @property
    def keyring(self) -> Keyring: ...
    def own_card(self) -> VerifiedCard: ...
    def publish(self, signed: SignedCard) -> None: ...
    def known(self) -> list[Registration]: ...
    @property
    def linkage(self) -> str: ...
    def after_rotation(self, purpose: str) -> None: ...


@dataclass(frozen=True, slots=True)
class _Times:
    """When a new key is put to use, and how long after that the ones before are honoured."""

    wait_ms: int
    honour_ms: int


# Peers hear of a new key at their next contact, so a key that they check is announced before it is used. What may be checked
# much later (answers wait for a year at most) is honoured for longer.
_USUAL: Final = {
    "identity": _Times(0, 400 * _DAY_MS),
    TLS: _Times(7 * _DAY_MS, 30 * _DAY_MS),
    "log": _Times(0, 400 * _DAY_MS),
    "witness": _Times(7 * _DAY_MS, 400 * _DAY_MS),
    "answer": _Times(7 * _DAY_MS, 400 * _DAY_MS),
    "refusal": _Times(7 * _DAY_MS, 30 * _DAY_MS),
    SAMPLE: _Times(7 * _DAY_MS, 30 * _DAY_MS),
    "policy": _Times(0, 30 * _DAY_MS),
    "operator": _Times(0, 0),
    "manifest": _Times(7 * _DAY_MS, 30 * _DAY_MS),
    "sampling": _Times(0, 0),
    "ticket": _Times(7 * _DAY_MS, 30 * _DAY_MS),
}


class _Duration(click.ParamType[int]):
    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        match = _DURATION.fullmatch(str(value))
        if match is None:
            self.fail(f"{value!r} is not a duration like 7d, 12h, 30m or 0s.", param, ctx)
        return int(match[1]) * _UNIT_MS[match[2]]


@click.group()
def keys() -> None:
    """Keys and cards of any home: what there is, and how one is replaced."""


@keys.command("list")
@home_option
@json_option
def list_keys(home: Path, as_json: bool) -> None:
    """The home's own keys with the times they serve, and the cards of the peers it knows."""
    opened = _open(home)
    now_ms = system_clock()
    own = opened.own_card()
    result = (
        _card_json(own, now_ms)
        | {"linkage": opened.linkage or None}
        | {"peers": [_peer_json(peer, now_ms) for peer in opened.known()]}
    )
    emit(as_json, result, _list_text(result))


@keys.command()
@home_option
@json_option
@click.option("--to", "to", type=click.Path(path_type=Path, dir_okay=False), help=texts.CARD_TO_HELP)
def card(home: Path, as_json: bool, to: Path | None) -> None:
    """Print the home's own card, to be handed to its peers, and the fingerprint to compare with them."""
    own = _open(home).own_card()
    content = own.signed.to_bytes()
    if to is not None:
        # Public, and made to be handed on.
        replace_file(to, content + b"\n", mode=SHARED_FILE)
    result = {"fingerprint": own.fingerprint, "serial": own.card.serial, "card": content.decode()}
    text = said(texts.CARD_WRITTEN, file=to, **result) if to is not None else str(result["card"])
    emit(as_json, result, text)


@keys.command()
@home_option
@json_option
@click.option("--in", "wait_ms", type=_Duration(), help=texts.IN_HELP)
@click.option("--honour", "honour_ms", type=_Duration(), help=texts.HONOUR_HELP)
@click.argument("purpose")
def rotate(home: Path, as_json: bool, wait_ms: int | None, honour_ms: int | None, purpose: str) -> None:
    """Replace the key for PURPOSE by a new one.

    The new key is announced at once on the home's card (and in its log), put to use after --in, and the one before is
    honoured for --honour after that. Peers hear of it at their next contact; whoever may not be in contact by then is handed
    the card. 'keys list' shows the purposes.
    """
    opened = _open(home)
    with opened.keyring.changing():
        after, now_ms = _replace_key(opened, purpose, wait_ms, honour_ms)
    rows = [row for row in _key_rows(after, now_ms) if row["purpose"] == purpose]
    result = {"purpose": purpose, "serial": after.card.serial, "fingerprint": after.fingerprint, "keys": rows}
    emit(as_json, result, said(texts.ROTATED, table=_key_table(rows), home=home, **result))


def _replace_key(opened: KeyHome, purpose: str, wait_ms: int | None, honour_ms: int | None) -> tuple[VerifiedCard, int]:
    before, now_ms = opened.own_card(), system_clock()
    usual = _USUAL.get(purpose)
    if usual is None or purpose not in PURPOSES[before.card.role]:
        raise InvalidRequestError(
            "INVALID_VALUE",
            name="PURPOSE",
            problem=f"'{purpose[:32]}' is no kind of key that this home has",
            remedy=phrase(texts.PURPOSES, purposes=", ".join(PURPOSES[before.card.role])),
        )
    if wait_ms is None and usual.wait_ms and not opened.keyring.has(before, purpose, now_ms):
        say(said(texts.KEY_GONE, purpose=purpose))
        wait_ms = 0
    if purpose == TLS:
        wait_ms = _certificate_wait_ms(before, now_ms, wait_ms)
    from_ms = now_ms + (usual.wait_ms if wait_ms is None else wait_ms)
    until_ms = from_ms + (usual.honour_ms if honour_ms is None else honour_ms)
    return _rotate(opened, before, purpose, now_ms=now_ms, from_ms=from_ms, until_ms=until_ms), now_ms


def _certificate_wait_ms(card: VerifiedCard, now_ms: int, wait_ms: int | None) -> int:
    """How long until a new certificate is used: never beyond the end of the one in use, or nobody could connect meanwhile."""
    in_use = card.in_use(TLS, now_ms)
    end_ms = in_use.expiry_ms if isinstance(in_use, PeerCertificate) else 0
    left_ms = max(0, end_ms - now_ms)
    if wait_ms is None:
        wait_ms = min(_USUAL[TLS].wait_ms, left_ms // 2)
    if wait_ms > left_ms:
        raise InvalidRequestError(
            "INVALID_VALUE",
            name="--in",
            problem=f"is later than the end of the certificate in use, {instant(end_ms)}",
            remedy=texts.SHORTER_WAIT,
        )
    if not left_ms:
        say(said(texts.CERTIFICATE_ENDED))
    return wait_ms


def _rotate(
    opened: KeyHome, before: VerifiedCard, purpose: str, *, now_ms: int, from_ms: int, until_ms: int
) -> VerifiedCard:
    _verify_room(with_new_key(before.card, purpose, "", now_ms=now_ms, from_ms=from_ms, until_ms=until_ms), purpose)
    ring = opened.keyring
    ring.forget_unlisted(before, purpose)
    key = ring.make(purpose, before.card.identity, now_ms)
    # CRASH: a key that no card names is not used; the next change removes it.
    unsigned = with_new_key(before.card, purpose, key, now_ms=now_ms, from_ms=from_ms, until_ms=until_ms)
    after = verify_card(sign_card(unsigned, ring.listed_signing(unsigned, Purpose.IDENTITY)))
    opened.publish(after.signed)
    # CRASH: keys that have left the card are still in their files, unused, until a node starts or the next change. And the
    # policy in force is signed by the policy key before alone: the same proposed and adopted again is signed by the new one.
    try:
        opened.after_rotation(purpose)
    except BrokerError:
        say(said(texts.UNFINISHED))
        raise
    ring.forget_ended(after, now_ms)
    return after


def _verify_room(unsigned: Card, purpose: str) -> None:
    """Return only if a card can list so many keys for this purpose; said before a key is made."""
    ends = [key.until_ms for key in unsigned.keys if key.purpose == purpose]
    if len(ends) > MOST_KEYS_PER_PURPOSE:
        raise InvalidRequestError(
            "INVALID_VALUE",
            name=f"The key for {purpose}",
            problem=f"was replaced too often: {MOST_KEYS_PER_PURPOSE} are still good, as many as a card lists",
            remedy=phrase(texts.NO_ROOM, when=instant(min(filter(None, ends)))),
        )


# --- an agency's commands ------------------------------------------------------------------------------------------


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
        opened = open_home(home)
        if (card is None) == (researcher is None):
            raise click.UsageError(texts.CARD_OR_RESEARCHER)
        if replace != (reason is not None):
            raise click.UsageError(texts.REPLACE_AND_REASON)
        if reason is not None:
            verify_reason(reason)
        known = {(peer.card.card.role, peer_name(peer.card.card.identity)): peer for peer in opened.known()}
        verified = read_card(card, fingerprint=fingerprint) if card is not None else _known_card(known, str(researcher))
        verify_card_role(verified, roles)
        _verify_expected(opened, verified)
        identity = verified.card.identity
        before = known.get((identity.role, peer_name(identity)))
        _verify_terms(identity.role, project, inbox, is_new=before is None)
        registration = opened.register(verified, projects=project or None, inbox=inbox, replace_because=reason or "")
        result = _peer_json(registration, system_clock())
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
    """Return only if whoever may be registered here has such a card.

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


def _verify_expected(opened: AgencyHome[Any], card: VerifiedCard) -> None:
    """Return only if the home's configuration names no other organisation in this role."""
    expected, found = opened.expected(card.card.role), card.card.organisation
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


# --- what is shown -------------------------------------------------------------------------------------------------

_Row: TypeAlias = dict[str, Any]


def _open(path: Path) -> KeyHome:
    role = stated_role(path)
    if role == "auditor":
        raise InvalidRequestError(
            "HOME_INVALID", home=str(path), role="key holder's", problem=texts.NO_KEYS, remedy=texts.NO_KEYS_REMEDY
        )
    (point,) = entry_points(group=_HOMES, name=role)
    home: KeyHome = load_installed(point)(path)
    return home


def _card_json(verified: VerifiedCard, now_ms: int) -> _Row:
    card = verified.card
    return {
        "role": card.role,
        "organisation": card.organisation,
        "name": peer_name(card.identity),
        "serial": card.serial,
        "fingerprint": verified.fingerprint,
        "keys": _key_rows(verified, now_ms),
    }


def _peer_json(peer: Registration, now_ms: int) -> _Row:
    row = _card_json(peer.card, now_ms)
    if row["role"] == "researcher":
        row |= {"projects": list(peer.projects), "inbox": peer.inbox or None}
    return row


def _key_rows(verified: VerifiedCard, now_ms: int) -> list[_Row]:
    return [
        {
            "purpose": key.purpose,
            "key_id": _key_id(public),
            "state": _state(verified, key, public, now_ms),
            "from": instant(key.from_ms),
            "until": instant(key.until_ms) if key.until_ms else None,
            "expires": instant(public.expiry_ms) if isinstance(public, PeerCertificate) else None,
        }
        for key, public in zip(verified.card.keys, verified.public, strict=True)
    ]


def _state(verified: VerifiedCard, key: CardKey, public: PublicKey, now_ms: int) -> str:
    if verified.in_use(key.purpose, now_ms) is public:
        return "in use"
    if key.from_ms > now_ms:
        return "next"
    return "honoured" if key.until_ms == 0 or now_ms < key.until_ms else "ended"


def _key_id(public: PublicKey) -> str:
    match public:
        case VerifyKey():
            return public.key_id
        case SealingKey():
            return hash_bytes(public.raw).hex()[:16]
        case PeerCertificate():
            return public.fingerprint.hex()[:16]
        case _:
            return public.rpartition(" ")[2]


def _list_text(result: _Row) -> str:
    parts = [said(texts.OWN, **(result | {"who": _who(result)})), _key_table(result["keys"])]
    if result["linkage"]:
        parts.append(said(texts.LINKAGE, **result))
    for peer in result["peers"]:
        shown = said(texts.PEER, **(peer | {"who": _who(peer)})) + _terms_text(peer)
        parts += ["", shown, _key_table(peer["keys"])]
    return "\n".join(parts)


def _registered_text(result: _Row, *, is_compared: bool) -> str:
    dropped = said(texts.DROPPED, dropped=", ".join(result["dropped"])) if result.get("dropped") else ""
    compare = "" if is_compared else said(texts.COMPARE)
    return said(texts.REGISTERED, **(result | {"who": _who(result)})) + _terms_text(result) + dropped + compare


def card_text(verified: VerifiedCard, *, is_compared: bool) -> tuple[_Row, str]:
    """What is shown of a card that has just become known, for programs and for people."""
    result = _card_json(verified, system_clock())
    return result, _registered_text(result, is_compared=is_compared)


def _who(row: _Row) -> str:
    return said(texts.WHO[row["role"]], **row)


def _terms_text(row: _Row) -> str:
    """Of a researcher: what they may ask for, and where their answers go."""
    projects = said(texts.PROJECTS, projects=", ".join(row["projects"])) if row.get("projects") else ""
    return projects + (said(texts.INBOX, inbox=row["inbox"]) if row.get("inbox") else "")


def _key_table(rows: Sequence[_Row]) -> str:
    return "\n".join(
        said(texts.KEY, **(row | {"until": row["until"] or said(texts.NO_END), "state": said(row["state"])})).rstrip()
        + (said(texts.EXPIRES, **row) if row["expires"] else "")
        for row in rows
    )
