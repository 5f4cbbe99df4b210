"""`tripartite keys` for every home: its own keys and card, and how a key is replaced.

A role makes its homes known through the entry points `tripartite.homes`; which role a home is, its config.toml says.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

import click

from broker_common.cli import emit, instant, load_installed, say
from broker_common.commands import texts
from broker_common.commands.options import home_option, json_option
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
from broker_common.crypto.certificates import PeerCertificate
from broker_common.crypto.commitments import hash_bytes
from broker_common.crypto.sealing import SealingKey
from broker_common.crypto.signing import Purpose, VerifyKey
from broker_common.errors import BrokerError, InvalidRequestError
from broker_common.language import phrase, said
from broker_common.parties.keyring import Keyring
from broker_common.storage.clock import system_clock
from broker_common.storage.durable import SHARED_FILE, replace_file
from broker_common.storage.home import Home, stated_role
from broker_common.tlog.parties import Registration, peer_name

_HOMES = "tripartite.homes"
_DAY_MS = 86_400_000  # of time, not a limit
_DURATION = re.compile(r"([0-9]{1,6})([dhms])")
_SUFFIX_MS = {"d": _DAY_MS, "h": 3_600_000, "m": 60_000, "s": 1000}


class KeyHome(Protocol):
    """The parts of a home that `tripartite keys` needs, for every role."""

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


# Peers hear of a new key at their next contact, so a key that they check is announced before it is used. Keys that may be needed much later (answers wait for a year at most) are honoured for longer.
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
        return int(match[1]) * _SUFFIX_MS[match[2]]


@click.group()
def keys() -> None:
    """Keys and cards of any home: what there is, and how one is replaced."""


@keys.command("list")
@home_option
@json_option
def list_keys(home: Path, as_json: bool) -> None:
    """The home's own keys with the times they serve, and the cards of the peers it knows."""
    key_home = _key_home(home)
    now_ms = system_clock()
    own = key_home.own_card()
    result = (
        card_json(own, now_ms)
        | {"linkage": key_home.linkage or None}
        | {"peers": [peer_json(peer, now_ms) for peer in key_home.known()]}
    )
    emit(as_json, result, _list_text(result))


@keys.command()
@home_option
@json_option
@click.option("--to", "to", type=click.Path(path_type=Path, dir_okay=False), help=texts.CARD_TO_HELP)
def card(home: Path, as_json: bool, to: Path | None) -> None:
    """Print the home's own card, to be handed to its peers, and the fingerprint to compare with them."""
    own = _key_home(home).own_card()
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
    honoured for --honour after that. Peers hear of it at their next contact; hand the card to peers that may not be in
    contact by then. 'keys list' shows the purposes.
    """
    key_home = _key_home(home)
    with key_home.keyring.changing():
        after, now_ms = _replace_key(key_home, purpose, wait_ms, honour_ms)
    rows = [row for row in _key_rows(after, now_ms) if row["purpose"] == purpose]
    result = {"purpose": purpose, "serial": after.card.serial, "fingerprint": after.fingerprint, "keys": rows}
    emit(as_json, result, said(texts.ROTATED, table=_key_table(rows), home=home, **result))


def _replace_key(
    key_home: KeyHome, purpose: str, wait_ms: int | None, honour_ms: int | None
) -> tuple[VerifiedCard, int]:
    before, now_ms = key_home.own_card(), system_clock()
    usual = _USUAL.get(purpose)
    if usual is None or purpose not in PURPOSES[before.card.role]:
        raise InvalidRequestError(
            "INVALID_VALUE",
            name="PURPOSE",
            problem=f"'{purpose[:32]}' is no kind of key that this home has",
            remedy=phrase(texts.PURPOSES, purposes=", ".join(PURPOSES[before.card.role])),
        )
    if wait_ms is None and usual.wait_ms and not key_home.keyring.has(before, purpose, now_ms):
        say(said(texts.KEY_GONE, purpose=purpose))
        wait_ms = 0
    if purpose == TLS:
        wait_ms = _certificate_wait_ms(before, now_ms, wait_ms)
    from_ms = now_ms + (usual.wait_ms if wait_ms is None else wait_ms)
    until_ms = from_ms + (usual.honour_ms if honour_ms is None else honour_ms)
    return _rotate(key_home, before, purpose, now_ms=now_ms, from_ms=from_ms, until_ms=until_ms), now_ms


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
    key_home: KeyHome, before: VerifiedCard, purpose: str, *, now_ms: int, from_ms: int, until_ms: int
) -> VerifiedCard:
    _verify_room(with_new_key(before.card, purpose, "", now_ms=now_ms, from_ms=from_ms, until_ms=until_ms), purpose)
    ring = key_home.keyring
    ring.forget_unlisted(before, purpose)
    key = ring.make(purpose, before.card.identity, now_ms)
    # CRASH: a key that no card names is not used; the next change removes it.
    unsigned = with_new_key(before.card, purpose, key, now_ms=now_ms, from_ms=from_ms, until_ms=until_ms)
    after = verify_card(sign_card(unsigned, ring.listed_signing(unsigned, Purpose.IDENTITY)))
    key_home.publish(after.signed)
    # CRASH: keys that have left the card are still in their files, unused, until a node starts or the next change. And the
    # policy in force is signed by the policy key before alone: the same proposed and adopted again is signed by the new one.
    try:
        key_home.after_rotation(purpose)
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


# --- what is shown -------------------------------------------------------------------------------------------------

_Row: TypeAlias = dict[str, Any]


def _key_home(path: Path) -> KeyHome:
    role = stated_role(path)
    if role == "auditor":
        raise InvalidRequestError(
            "HOME_INVALID", home=str(path), role="key holder's", problem=texts.NO_KEYS, remedy=texts.NO_KEYS_REMEDY
        )
    (point,) = entry_points(group=_HOMES, name=role)
    home: KeyHome = load_installed(point)(path)
    return home


def card_json(verified: VerifiedCard, now_ms: int) -> _Row:
    """A card with its keys, as programs read it."""
    card = verified.card
    return {
        "role": card.role,
        "organisation": card.organisation,
        "name": peer_name(card.identity),
        "serial": card.serial,
        "fingerprint": verified.fingerprint,
        "keys": _key_rows(verified, now_ms),
    }


def peer_json(peer: Registration, now_ms: int) -> _Row:
    """A known peer, as programs read it."""
    row = card_json(peer.card, now_ms)
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
    parts = [said(texts.OWN, **(result | {"who": who(result)})), _key_table(result["keys"])]
    if result["linkage"]:
        parts.append(said(texts.LINKAGE, **result))
    for peer in result["peers"]:
        shown = said(texts.PEER, **(peer | {"who": who(peer)})) + terms_text(peer)
        parts += ["", shown, _key_table(peer["keys"])]
    return "\n".join(parts)


def who(row: _Row) -> str:
    """The party of a card, in the reader's words."""
    return said(texts.WHO[row["role"]], **row)


def terms_text(row: _Row) -> str:
    """The projects that a researcher may ask for, and where their answers go."""
    projects = said(texts.PROJECTS, projects=", ".join(row["projects"])) if row.get("projects") else ""
    return projects + (said(texts.INBOX, inbox=row["inbox"]) if row.get("inbox") else "")


def _key_table(rows: Sequence[_Row]) -> str:
    return "\n".join(
        said(texts.KEY, **(row | {"until": row["until"] or said(texts.NO_END), "state": said(row["state"])})).rstrip()
        + (said(texts.EXPIRES, **row) if row["expires"] else "")
        for row in rows
    )
