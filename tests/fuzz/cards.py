"""Targets on cards: handed over, in files, as a party's next card, and in a peer's answer.

A document is signed again, under every identity key of ours that it lists, so that any card can be given.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from fakes import logs
from fakes.cards import IDENTITY, Party
from fakes.randomness import SeededRandomness
from fuzz.target import Target, fresh_path, require

from broker_common.commands.keys import _key_rows, _key_table
from broker_common.crypto.cards import (
    PURPOSES,
    TLS,
    CardSignature,
    SignedCard,
    VerifiedCard,
    parse_signed_card,
    verify_card,
    verify_successor,
    with_new_key,
)
from broker_common.crypto.certificates import PeerCertificate, TlsCredentials
from broker_common.crypto.signing import Purpose, SigningKey, VerifyKey
from broker_common.errors import BrokerError
from broker_common.parties.exchange import parse_newer_card
from broker_common.parties.registration import read_card
from broker_common.tlog.entries import MAX_ENTRY_BYTES, Entry, Registered, encode_entry
from researcher_node.trust.cards import Trust

NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000

# --- parties whose cards are the same in every run ---------------------------------------------------------------------

_PEM = (Path(__file__).parent / "corpus" / "certificate" / "usual.pem").read_bytes()
_draw = SeededRandomness("cards")
RESEARCHER = Party(PeerCertificate.parse_pem(_PEM).identity, given={TLS: TlsCredentials(_PEM, b"")}, randomness=_draw)
# Keys that the researcher's next card may list.
_NEXT = SigningKey.generate(Purpose.IDENTITY, _draw)
_NEXT_TICKET = SigningKey.generate(Purpose.TICKET, _draw)


@cache
def _identity_keys() -> dict[str, SigningKey]:
    """Every identity key that we can sign with, by the text that a card has for it."""
    parties = (RESEARCHER, logs.ALICE, logs.CENSUS, logs.HEALTH)
    keys = [_NEXT, *(key for party in parties for key in party.listed(IDENTITY, SigningKey))]
    return {key.verify_key.to_text(): key for key in keys}


def signed_again(document: bytes) -> SignedCard:
    """These bytes as the document of a card, signed by the identity keys of ours that stand in it, in their order."""
    text = document.decode("utf-8", "replace")
    standing = sorted((text.index(public), key) for public, key in _identity_keys().items() if public in text)
    signatures = tuple(
        CardSignature(key_id=key.key_id, signature=b64encode(key.sign(text.encode())).decode("ascii"))
        for _, key in standing
    )
    return SignedCard(document=text, signatures=signatures)


def _card_bytes(data: bytes) -> bytes:
    """A signed card: `data` as it is, or `data` as the document of one."""
    return signed_again(data[1:]).to_bytes() if data[:1] == b"s" else data[1:]


def _key(purpose: str, key: SigningKey, card: VerifiedCard, *, until_ms: int = 0) -> bytes:
    """The document of a party's next card."""
    text = key.verify_key.to_text()
    return with_new_key(card.card, purpose, text, now_ms=NOW_MS, from_ms=NOW_MS, until_ms=until_ms).document


# --- one card ----------------------------------------------------------------------------------------------------------


def _verify_whole(card: VerifiedCard) -> None:
    """Properties of every card that is taken from anybody."""
    signed = card.signed
    require(parse_signed_card(signed.to_bytes()) == signed, "a card is read back")
    require(signed.document.encode() == card.card.document, "a card has one spelling")
    require(len(card.public) == len(card.card.keys), "every key of a card has been read")
    require({key.purpose for key in card.card.keys} == set(PURPOSES[card.card.role]), "a card lists its role's keys")
    for certificate in card.certificates(0):
        require(certificate.identity == card.card.identity, "a card shows its own certificates")
    for purpose in Purpose:
        if purpose.value in PURPOSES[card.card.role]:
            require(bool(card.verify_keys(purpose, 0)), "before any time, every key is honoured")
    require(_key_table(_key_rows(card, NOW_MS)).replace("\n", "").isprintable(), "a card can be shown")
    event = Registered(card=signed, note="", projects=("study",), inbox="")
    entry = Entry(sequence=0, time_ms=0, policy="", event=event)
    require(len(encode_entry(entry)) < MAX_ENTRY_BYTES, "a card can be logged")


def _check_card(card: VerifiedCard, data: bytes) -> None:
    require(data[1:] in {card.signed.to_bytes(), card.card.document}, "nothing stands beside a card")
    _verify_whole(card)


def _card_seeds() -> dict[str, bytes]:
    own, census = RESEARCHER.card, logs.CENSUS.card
    document = own.card.document
    return {
        "researcher": b"w" + own.signed.to_bytes(),
        "census": b"w" + census.signed.to_bytes(),
        "signed": b"s" + document,
        "two identities": b"s" + _key(IDENTITY, _NEXT, own, until_ms=NOW_MS + DAY_MS),
        # Milliseconds: the last before the year 10000, and the next.
        "last time": b"s" + document.replace(b'"until_ms":0', b'"until_ms":253402300799999'),
        "bad time": b"s" + document.replace(b'"until_ms":0', b'"until_ms":253402300800000'),
        "bad identity": b"s" + document.replace(b'"name":"researcher-1"', b'"name":"researcher-2"'),
        "bad signature": b"w" + own.signed.to_bytes().replace(b'serial\\":1', b'serial\\":2'),
        "bad order": b"s" + document.replace(b'"purpose":"tls"', b'"purpose":"ticket"'),
        "bad spelling": b"s" + document.replace(b'"serial":1', b'"serial": 1'),
        "bad end": b"w" + own.signed.to_bytes() + b"\n",
    }


def _parse_file(data: bytes) -> VerifiedCard:
    """A card's file as an operator names it; with `t`, as it lies among a researcher's."""
    folder = fresh_path()
    folder.mkdir()
    file = folder / "census.card"
    file.write_bytes(_card_bytes(data[1:]) + b"\n" * (data[1:2] == b"s"))
    try:
        return Trust(folder, lambda: NOW_MS).card("census") if data[:1] == b"t" else read_card(file)
    finally:
        file.unlink()
        folder.rmdir()


def _check_file(card: VerifiedCard, data: bytes) -> None:
    require(data[:1] != b"t" or card.card.role == "census", "the census agency's card is one of a census agency")
    require(
        data[2:].removesuffix(b"\n") in {card.signed.to_bytes(), card.card.document}, "nothing stands beside a card"
    )
    _verify_whole(card)


def _file_seeds() -> dict[str, bytes]:
    own, census = RESEARCHER.card.signed.to_bytes(), logs.CENSUS.card.signed.to_bytes()
    return {
        "plain": b"fw" + own,
        "line": b"fw" + own + b"\n",
        "document": b"fs" + RESEARCHER.card.card.document,
        "trusted": b"tw" + census + b"\n",
        "bad role": b"tw" + own,
        "bad lines": b"fw" + own + b"\n\n",
        "bad empty": b"fw",
    }


# --- one card after another --------------------------------------------------------------------------------------------


def _verify_after(card: VerifiedCard) -> None:
    """Properties of every card that replaces the researcher's."""
    before = RESEARCHER.card
    _verify_whole(card)
    require(card.card.identity == before.card.identity, "a party keeps its name")
    require(card.card.serial > before.card.serial, "a later card has a higher serial")
    known = {key for _, key in before.listed(IDENTITY)}
    require(not known.isdisjoint(key for _, key in card.listed(IDENTITY)), "a card before vouches for a later one")
    try:
        verify_successor(card, before.signed)
    except BrokerError:
        return
    require(False, "nothing goes back to a card before")


def _check_successor(card: VerifiedCard, data: bytes) -> None:
    del data
    _verify_after(card)


def _successor_seeds() -> dict[str, bytes]:
    own = RESEARCHER.card
    document = own.card.document
    alone = msgspec.structs.replace(
        own.card,
        serial=2,
        keys=tuple(
            msgspec.structs.replace(key, key=_NEXT.verify_key.to_text()) if key.purpose == IDENTITY else key
            for key in own.card.keys
        ),
    )
    return {
        "serial": b"s" + document.replace(b'"serial":1', b'"serial":2'),
        "identity": b"s" + _key(IDENTITY, _NEXT, own, until_ms=NOW_MS + DAY_MS),
        "ticket": b"s" + _key("ticket", _NEXT_TICKET, own, until_ms=2 * NOW_MS),
        "whole": b"w" + signed_again(_key("ticket", _NEXT_TICKET, own, until_ms=NOW_MS)).to_bytes(),
        "bad stranger": b"s" + alone.document,
        "bad other": b"s" + logs.ALICE.card.card.document,
    }


def _parse_newer(data: bytes) -> VerifiedCard | None:
    return parse_newer_card(_card_bytes(data), RESEARCHER.card)


def _check_newer(card: VerifiedCard | None, data: bytes) -> None:
    del data
    if card is not None:
        _verify_after(card)


_CARD_CODES = frozenset({"MALFORMED_MESSAGE", "BAD_SIGNATURE"})
_WORDS = (
    *(b'"purpose":"identity"', b'"from_ms":', b'"until_ms":0', b'"until_ms":9007199254740991', b'"serial":2'),
    *(b"secret 0123456789abcdef", b"-----BEGIN", b'"role":"health"', b'\\"', b"\\n", b"\\u0000"),
    *(key.verify_key.to_text().encode() for key in (_NEXT, _NEXT_TICKET)),
)

TARGETS: Mapping[str, Target[Any]] = {
    "card": Target(
        parse=lambda data: verify_card(parse_signed_card(_card_bytes(data))),
        check=_check_card,
        covers=(parse_signed_card, verify_card, VerifiedCard.verify_keys, VerifyKey.verify_text),
        seeds=_card_seeds,
        codes=_CARD_CODES,
        words=_WORDS,
        mutations=250,
        max_bytes=12_000,
        on_the_wire=True,
    ),
    "card_file": Target(
        parse=_parse_file,
        check=_check_file,
        covers=(read_card, Trust.card),
        seeds=_file_seeds,
        codes=_CARD_CODES | {"WRONG_ORGANISATION", "CARD_UNREADABLE"},
        words=(b"\n", b"\r\n", b"\xef\xbb\xbf", *_WORDS),
        mutations=150,
        max_bytes=12_000,
    ),
    "successor": Target(
        parse=lambda data: verify_successor(RESEARCHER.card, parse_signed_card(_card_bytes(data))),
        check=_check_successor,
        covers=(verify_successor, VerifiedCard.verify_keys),
        seeds=lambda: {**_successor_seeds(), "bad same": b"w" + RESEARCHER.card.signed.to_bytes()},
        codes=_CARD_CODES | {"WRONG_ORGANISATION", "CARD_OUTDATED", "CARD_UNRELATED"},
        words=_WORDS,
        mutations=250,
        max_bytes=12_000,
        on_the_wire=True,
    ),
    # A peer's answer to our card.
    "newer_card": Target(
        parse=_parse_newer,
        check=_check_newer,
        covers=(parse_newer_card,),
        seeds=lambda: {**_successor_seeds(), "same": b"w" + RESEARCHER.card.signed.to_bytes()},
        codes=frozenset({"PEER_MISBEHAVED"}),
        words=_WORDS,
        mutations=150,
        max_bytes=12_000,
    ),
}
