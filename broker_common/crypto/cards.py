"""Cards: a party's public keys, each with the time it serves, signed by the party's identity key.

    {"format":1,"keys":[{"from_ms":0,"key":"ed25519-public identity ...","purpose":"identity","until_ms":0}, ...],
     "name":"node","organisation":"census-agency","origin":"census.example/tripartite","role":"census","serial":1}

Parties know each other by cards. The first card of a party is compared by people (its fingerprint); each later one is
signed by the newest identity key of the one before and has a higher serial, so that it can be taken from anywhere. A key is
put to use at `from_ms` and honoured until `until_ms` (0: until a later card says otherwise); the keys of a card are all that its
party is known by. A card is signed by every identity key that it lists.

Canonical JSON, as in the log: a card has one spelling, and its SHA-256 is its fingerprint.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta, Struct

from broker_common.crypto.certificates import Identity, PeerCertificate, Role
from broker_common.crypto.sealing import SealingKey
from broker_common.crypto.signing import Purpose, SigningKey, VerifyKey
from broker_common.errors import InvalidRequestError

TLS: Final = "tls"
SAMPLE: Final = "sample"
SAMPLING: Final = "sampling"

_IDENTITY: Final = Purpose.IDENTITY.value
PURPOSES: Final[Mapping[Role, tuple[str, ...]]] = {
    "census": (_IDENTITY, TLS, "log", "witness", "answer", "refusal", SAMPLE, "policy", "operator"),
    "health": (_IDENTITY, TLS, "log", "witness", "manifest", SAMPLING),
    "researcher": (_IDENTITY, TLS, "ticket"),
}
"""What each role's card lists: at least one key for each of these purposes, and for no other."""

# A card stands whole in a log entry, which has 64 KiB.
MAX_CARD_BYTES = 48 * 1024
# The one in use, the next, and those before that are still honoured.
MOST_KEYS_PER_PURPOSE = 8
_MOST_SAID_CHARACTERS = 200
# Verified cards that are remembered: a node's own and those of its peers.
_MOST_REMEMBERED = 256
_MOST_KEYS = 64
# The longest key as text: a certificate in PEM, and room.
_MAX_KEY_CHARACTERS = 8192
_MAX_PURPOSE_CHARACTERS = 32
# The longest name of a log.
MAX_ORIGIN_CHARACTERS = 200
_SECRET_NAME = re.compile(r"secret [0-9a-f]{16}")
# Before the year 10000: a time on a card can be written as a date.
_Time = Annotated[int, Meta(ge=0, lt=253_402_300_800_000)]
# As in the URI SAN of a certificate.
IDENTIFIER = re.compile(r"\A[a-z0-9][a-z0-9-]{0,62}\Z")
Identifier = Annotated[str, Meta(pattern=IDENTIFIER.pattern)]
# As in a C2SP note.
ORIGIN = re.compile(r"\A[^\s+]+\Z")
LogName = Annotated[str, Meta(min_length=1, max_length=MAX_ORIGIN_CHARACTERS, pattern=ORIGIN.pattern)]

PublicKey: TypeAlias = VerifyKey | SealingKey | PeerCertificate | str
"""What a key's text means; of a secret that nobody else needs, only its public name."""


class CardKey(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One public key and when it serves."""

    purpose: Annotated[str, Meta(max_length=_MAX_PURPOSE_CHARACTERS)]
    key: Annotated[str, Meta(min_length=1, max_length=_MAX_KEY_CHARACTERS)]
    from_ms: _Time
    until_ms: _Time


class Card(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A party's statement about itself."""

    format: Annotated[int, Meta(ge=1, le=1)] = 1
    role: Role
    organisation: Identifier
    name: Identifier
    serial: Annotated[int, Meta(ge=1, lt=2**53)]
    # Name of its log; empty for a researcher, who keeps none.
    origin: Annotated[str, Meta(max_length=MAX_ORIGIN_CHARACTERS)]
    keys: Annotated[tuple[CardKey, ...], Meta(min_length=1, max_length=_MOST_KEYS)]

    @property
    def document(self) -> bytes:
        return msgspec.json.encode(self, order="sorted")

    @property
    def identity(self) -> Identity:
        return Identity(self.organisation, self.role, self.name)


class CardSignature(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One identity key's signature of a card."""

    key_id: Annotated[str, Meta(pattern=r"\A[0-9a-f]{16}\Z")]
    signature: Annotated[str, Meta(pattern=r"\A[A-Za-z0-9+/]{86}==\Z")]


class SignedCard(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A card as it is handed over, sent and logged. Nothing about it has been checked."""

    document: Annotated[str, Meta(min_length=2, max_length=MAX_CARD_BYTES)]
    signatures: Annotated[tuple[CardSignature, ...], Meta(min_length=1, max_length=MOST_KEYS_PER_PURPOSE)]

    def to_bytes(self) -> bytes:
        """The canonical bytes, which `parse_signed_card` reads back."""
        return msgspec.json.encode(self, order="sorted")


@dataclass(frozen=True, slots=True, eq=False)
class VerifiedCard:
    """A card whose form and signatures hold."""

    card: Card
    signed: SignedCard
    # In the order of `card.keys`.
    public: tuple[PublicKey, ...]

    @property
    def fingerprint(self) -> str:
        """Hex SHA-256 of the card: what two people compare."""
        return hashlib.sha256(self.signed.document.encode()).hexdigest()

    def listed(self, purpose: str) -> list[tuple[CardKey, PublicKey]]:
        """Every key for a purpose, oldest first."""
        return [pair for pair in zip(self.card.keys, self.public, strict=True) if pair[0].purpose == purpose]

    def in_use(self, purpose: str, now_ms: int) -> PublicKey:
        """The key that the party uses at this instant: the newest that has begun, or the first one."""
        listed = self.listed(purpose)
        begun = [public for key, public in listed if key.from_ms <= now_ms]
        return begun[-1] if begun else listed[0][1]

    def honoured(self, purpose: str, now_ms: int) -> list[PublicKey]:
        """The keys that are good at this instant. One that has not begun is: clocks differ."""
        return [public for key, public in self.listed(purpose) if key.until_ms == 0 or now_ms < key.until_ms]

    def verify_keys(self, purpose: Purpose, now_ms: int) -> list[VerifyKey]:
        """The honoured keys for a kind of signature."""
        return [public for public in self.honoured(purpose.value, now_ms) if isinstance(public, VerifyKey)]

    def certificates(self, now_ms: int) -> list[PeerCertificate]:
        return [public for public in self.honoured(TLS, now_ms) if isinstance(public, PeerCertificate)]

    def sealing_key(self, now_ms: int) -> SealingKey:
        """The key to which samples are sealed. `TypeError` for a card of another role."""
        key = self.in_use(SAMPLE, now_ms)
        if not isinstance(key, SealingKey):
            raise TypeError("the card lists no sample key")
        return key


def sign_card(card: Card, identities: Sequence[SigningKey]) -> SignedCard:
    """The card, signed by the keys given: every identity key that it lists, in its order."""
    document = card.document
    signatures = tuple(CardSignature(key_id=key.key_id, signature=key.sign_text(document)) for key in identities)
    return SignedCard(document=document.decode(), signatures=signatures)


def with_new_key(card: Card, purpose: str, key: str, *, now_ms: int, from_ms: int, until_ms: int) -> Card:
    """The next card: a new key for a purpose, put to use at `from_ms`; the ones before are honoured until `until_ms`.

    Keys whose time is over leave the card, and so do those for this purpose that would have begun later. An identity key
    stays until it has ended, and begins no later than the new one: who knows the card so far wants its newest signature.
    """
    kept = [
        old
        for old in card.keys
        if (old.until_ms == 0 or now_ms < old.until_ms)
        and not (old.purpose == purpose != _IDENTITY and old.from_ms > from_ms)
    ]
    ending = [
        msgspec.structs.replace(
            old, from_ms=min(from_ms, old.from_ms), until_ms=min(until_ms, old.until_ms or until_ms)
        )
        if old.purpose == purpose
        else old
        for old in kept
    ]
    ending.append(CardKey(purpose=purpose, key=key, from_ms=from_ms, until_ms=0))
    order = PURPOSES[card.role]
    return msgspec.structs.replace(
        card, serial=card.serial + 1, keys=tuple(sorted(ending, key=lambda each: order.index(each.purpose)))
    )


def parse_signed_card(data: bytes) -> SignedCard:
    """Read what `to_bytes` writes.

    Raises:
        InvalidRequestError: MALFORMED_MESSAGE.
    """
    if len(data) > 2 * MAX_CARD_BYTES:
        raise _malformed("it is too long")
    try:
        signed = msgspec.json.decode(data, type=SignedCard)
    except ValueError as error:  # msgspec's own errors, and broken UTF-8 inside a string
        raise _malformed("it is no signed card") from error
    if signed.to_bytes() != data:
        raise _malformed("it is not in canonical form")
    return signed


@functools.lru_cache(_MOST_REMEMBERED)
def verify_card(signed: SignedCard) -> VerifiedCard:
    """A card that agrees with itself: canonical, every key of the kind it is listed for, signed by its identity keys.

    People still have to compare whose card it is: anyone can make one. A card that agrees with itself always will, and is
    checked once.

    Raises:
        InvalidRequestError: MALFORMED_MESSAGE or BAD_SIGNATURE.
    """
    document = signed.document.encode()
    try:
        card = msgspec.json.decode(document, type=Card)
    except ValueError as error:
        raise _malformed("its document is no card") from error
    if card.document != document:
        raise _malformed("its document is not in canonical form")
    try:
        _verify_list(card)
        public = tuple(_parse_key(card, key) for key in card.keys)
    except ValueError as error:
        # The sentence may be the library's; it has to fit into an answer.
        raise _malformed(str(error)[:_MOST_SAID_CHARACTERS]) from error
    verified = VerifiedCard(card, signed, public)
    identities = [key for _, key in verified.listed(_IDENTITY) if isinstance(key, VerifyKey)]
    if [key.key_id for key in identities] != [signature.key_id for signature in signed.signatures]:
        raise InvalidRequestError("BAD_SIGNATURE", subject="card")
    for key, signature in zip(identities, signed.signatures, strict=True):
        _verify_signature(key, document, signature)
    return verified


def verify_successor(before: VerifiedCard, signed: SignedCard) -> VerifiedCard:
    """A later card of the same party, signed by the newest identity key of the card before.

    Raises:
        InvalidRequestError: MALFORMED_MESSAGE, WRONG_ORGANISATION, BAD_SIGNATURE, CARD_UNRELATED or CARD_OUTDATED.
    """
    after = verify_card(signed)
    if (after.card.identity, after.card.origin) != (before.card.identity, before.card.origin):
        raise InvalidRequestError("WRONG_ORGANISATION", subject="card")
    # SECURITY: whole keys are compared, not their short names; each key that is listed has signed. Only the newest counts:
    # a key that was replaced because it was stolen must not be able to replace its successor.
    newest = before.listed(_IDENTITY)[-1][1]
    if newest not in [key for _, key in after.listed(_IDENTITY)]:
        raise InvalidRequestError("CARD_UNRELATED", party=before.card.identity.uri)
    if after.card.serial <= before.card.serial:
        raise InvalidRequestError("CARD_OUTDATED", party=before.card.identity.uri)
    return after


def is_successor(before: VerifiedCard, signed: SignedCard) -> bool:
    """Whether `verify_successor` takes it."""
    try:
        verify_successor(before, signed)
    except InvalidRequestError:
        return False
    return True


def _verify_list(card: Card) -> None:
    purposes = [key.purpose for key in card.keys]
    ordered = [purpose for purpose in PURPOSES[card.role] for _ in range(purposes.count(purpose))]
    if purposes != ordered or set(purposes) != set(PURPOSES[card.role]):
        raise ValueError("it does not list the keys of its role, in their order")
    if bool(card.origin) != (card.role != "researcher"):
        raise ValueError("it names a log where there is none, or none where there is one")
    for purpose in PURPOSES[card.role]:
        keys = [key for key in card.keys if key.purpose == purpose]
        if len(keys) > MOST_KEYS_PER_PURPOSE or len({key.key for key in keys}) < len(keys):
            raise ValueError(f"it lists too many keys for {purpose}, or one twice")
        if any(later.from_ms < earlier.from_ms for earlier, later in pairwise(keys)):
            raise ValueError(f"its keys for {purpose} are not in the order of their times")


def _parse_key(card: Card, key: CardKey) -> PublicKey:
    if key.until_ms and key.until_ms < key.from_ms:
        raise ValueError(f"a key for {key.purpose} ends before it begins")
    public: PublicKey
    if key.purpose == TLS:
        public = PeerCertificate.parse_pem(key.key.encode())
        if public.identity != card.identity:
            # SECURITY: the party that hands in a certificate chooses its contents.
            raise ValueError("its certificate names somebody else")
        spelled = public.pem.decode("ascii")
    elif key.purpose == SAMPLE:
        public = SealingKey.parse_text(key.key)
        spelled = public.to_text()
    elif key.purpose == SAMPLING:
        if not _SECRET_NAME.fullmatch(key.key):
            raise ValueError(f"a key for {key.purpose} is not the public name of a secret")
        public = spelled = key.key
    else:
        public = VerifyKey.parse_text(key.key, Purpose(key.purpose))
        spelled = public.to_text()
    if spelled != key.key:
        raise ValueError(f"a key for {key.purpose} is not in canonical form")
    return public


def _verify_signature(key: VerifyKey, document: bytes, signature: CardSignature) -> None:
    try:
        key.verify_text(document, signature.signature)
    except InvalidRequestError as error:
        raise InvalidRequestError("BAD_SIGNATURE", subject="card") from error


def _malformed(problem: str) -> InvalidRequestError:
    return InvalidRequestError("MALFORMED_MESSAGE", problem=f"the card: {problem}")
