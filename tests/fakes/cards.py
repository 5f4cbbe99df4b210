"""Parties with their private keys and their cards: honest ones, and any card that a liar could make and sign.

Signed documents are made with the product's own code; tests find out what a party may not sign.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from broker_common.crypto.cards import (
    PURPOSES,
    SAMPLE,
    SAMPLING,
    TLS,
    Card,
    CardKey,
    SignedCard,
    VerifiedCard,
    sign_card,
    verify_card,
    with_new_key,
)
from broker_common.crypto.certificates import Identity, PeerCertificate, TlsCredentials, _unsigned, make_certificate
from broker_common.crypto.sampling import SamplingKey
from broker_common.crypto.sealing import UnsealingKey
from broker_common.crypto.signing import Purpose, SigningKey
from broker_common.storage.clock import system_clock
from broker_common.values import Randomness

PrivateKey: TypeAlias = SigningKey | UnsealingKey | SamplingKey | TlsCredentials
KeyT = TypeVar("KeyT", SigningKey, UnsealingKey, SamplingKey, TlsCredentials)
IDENTITY: Final = Purpose.IDENTITY.value
_DAYS = 2


def make_key(purpose: str, identity: Identity, randomness: Randomness = os.urandom) -> PrivateKey:
    """A fresh private key of the kind that a card lists for this purpose."""
    if purpose == TLS:
        return make_certificate(identity, now_ms=system_clock(), days=_DAYS)
    if purpose == SAMPLE:
        return UnsealingKey.generate(randomness)
    if purpose == SAMPLING:
        return SamplingKey(randomness(32))
    return SigningKey.generate(Purpose(purpose), randomness)


def lasting_certificate(identity: Identity, randomness: Randomness) -> TlsCredentials:
    """A certificate of the product's form that is the same every time, for what is kept as files."""
    key = ec.derive_private_key(1 + int.from_bytes(randomness(24), "big"), ec.SECP256R1())
    begins, ends = datetime(2020, 1, 1, tzinfo=UTC), datetime(2120, 1, 1, tzinfo=UTC)
    unsigned = _unsigned(identity, key.public_key(), 1 + int.from_bytes(randomness(8), "big"), begins, ends)
    return TlsCredentials(
        unsigned.sign(key, hashes.SHA256(), ecdsa_deterministic=True).public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def public_text(key: PrivateKey) -> str:
    """A card's entry for a private key."""
    if isinstance(key, TlsCredentials):
        return PeerCertificate.parse_pem(key.certificate).pem.decode("ascii")
    if isinstance(key, UnsealingKey):
        return key.sealing_key.to_text()
    if isinstance(key, SamplingKey):
        return f"secret {key.key_id}"
    return key.verify_key.to_text()


class Party:
    """One party: every private key that it ever had, and its present card."""

    def __init__(
        self,
        identity: Identity,
        origin: str = "",
        *,
        given: Mapping[str, PrivateKey] | None = None,
        randomness: Randomness = os.urandom,
    ) -> None:
        self.identity = identity
        # Keys by the text that a card has for them.
        self._private: dict[str, PrivateKey] = {}
        keys = {
            purpose: (given or {}).get(purpose) or make_key(purpose, identity, randomness)
            for purpose in PURPOSES[identity.role]
        }
        card = Card(
            role=identity.role,
            organisation=identity.organisation,
            name=identity.name,
            serial=1,
            origin=origin,
            keys=tuple(
                CardKey(purpose=purpose, key=self.hold(key), from_ms=0, until_ms=0) for purpose, key in keys.items()
            ),
        )
        self.card: VerifiedCard = verify_card(self.sign(card))

    def copy(self) -> Party:
        """The same party, which may go on to other cards."""
        again = copy.copy(self)
        again._private = dict(self._private)
        return again

    def hold(self, key: PrivateKey) -> str:
        """Keep a private key; gives its public text."""
        text = public_text(key)
        self._private[text] = key
        return text

    def private(self, text: str, kind: type[KeyT]) -> KeyT:
        """The private key behind a card's text."""
        key = self._private[text]
        assert isinstance(key, kind)
        return key

    def listed(self, purpose: str, kind: type[KeyT]) -> list[KeyT]:
        """The private keys of a purpose on the present card, oldest first."""
        return [self.private(key.key, kind) for key, _ in self.card.listed(purpose)]

    def signing(self, purpose: Purpose) -> SigningKey:
        """The newest key for a kind of signature."""
        return self.listed(purpose.value, SigningKey)[-1]

    @property
    def tls(self) -> TlsCredentials:
        """The newest certificate with its key."""
        return self.listed(TLS, TlsCredentials)[-1]

    def sign(self, card: Card, identities: Iterable[SigningKey] | None = None) -> SignedCard:
        """Any card, signed by the keys given, or else by every identity key that it lists and that we hold."""
        if identities is None:
            texts = [key.key for key in card.keys if key.purpose == IDENTITY]
            identities = [self.private(text, SigningKey) for text in texts if text in self._private]
        return sign_card(card, list(identities))

    def changed(self, **changes: Any) -> SignedCard:
        """The present card with other fields, signed as it should be. Not kept."""
        return self.sign(msgspec.structs.replace(self.card.card, **changes))

    def showing(self, *certificates: TlsCredentials) -> SignedCard:
        """The next card with these certificates and no others, signed as it should be, whatever they are. Not kept."""
        keys = [key for key in self.card.card.keys if key.purpose != TLS]
        place = next(place for place, key in enumerate(self.card.card.keys) if key.purpose == TLS)
        keys[place:place] = [
            CardKey(purpose=TLS, key=own.certificate.decode("ascii"), from_ms=0, until_ms=0) for own in certificates
        ]
        return self.changed(serial=self.card.card.serial + 1, keys=tuple(keys))

    def successor(
        self, purpose: str, *, now_ms: int = 0, from_ms: int = 0, until_ms: int = 0, key: PrivateKey | None = None
    ) -> VerifiedCard:
        """The next card, with a new key for a purpose. Not kept."""
        text = self.hold(make_key(purpose, self.identity) if key is None else key)
        card = with_new_key(self.card.card, purpose, text, now_ms=now_ms, from_ms=from_ms, until_ms=until_ms)
        return verify_card(self.sign(card))

    def renew(
        self, purpose: str, *, now_ms: int = 0, from_ms: int = 0, until_ms: int = 0, key: PrivateKey | None = None
    ) -> VerifiedCard:
        """The next card, with a new key for a purpose; it is the present one from now on."""
        self.card = self.successor(purpose, now_ms=now_ms, from_ms=from_ms, until_ms=until_ms, key=key)
        return self.card
