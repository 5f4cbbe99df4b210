"""A home's own private keys: which file holds them, which of them a card puts to use, and how a new one is made.

A key file holds one key a line, the newest last (PEM blocks for TLS). Which of them serves is said by the home's own card,
not by the file: a key that no card names yet is not used, one that no card names any more is removed at the next change.
References are `file:` or `env:`; only files can be added to.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import structlog

from broker_common.crypto.cards import (
    PURPOSES,
    SAMPLE,
    SAMPLING,
    TLS,
    Card,
    CardKey,
    PublicKey,
    VerifiedCard,
    sign_card,
    verify_card,
)
from broker_common.crypto.certificates import (
    Identity,
    PeerCertificate,
    TlsCredentials,
    credentials_of,
    make_certificate,
)
from broker_common.crypto.sampling import SamplingKey
from broker_common.crypto.sealing import SealingKey, UnsealingKey
from broker_common.crypto.secret import parse_secret, secret_text
from broker_common.crypto.signing import Purpose, SigningKey, VerifyKey
from broker_common.errors import InternalError, InvalidRequestError
from broker_common.storage.durable import exclusive
from broker_common.storage.home import Home
from broker_common.tlog.cosignature import Cosigner
from broker_common.tlog.note import NoteSigner
from broker_common.tlog.replay import LogState
from broker_common.values import Clock

CERTIFICATE_DAYS = 365
_log = structlog.get_logger()
KeyT = TypeVar("KeyT")
_NEEDED_LATER = frozenset({Purpose.LOG.value, Purpose.IDENTITY.value})


class Keyring:
    """The private keys of one home, by purpose: read when a card first puts them to use, so that a new card is obeyed at once.

    Files are looked at in every use, and read again once they have changed.
    """

    def __init__(self, home: Home, references: Mapping[str, str]) -> None:
        self._home = home
        self._references = references
        # For each purpose: the stamp of the last read, and its keys; for TLS those that belong to a certificate.
        self._read: dict[str, tuple[Hashable, Any]] = {}

    # --- using keys ------------------------------------------------------------------------------------------------

    def signing(self, card: VerifiedCard, purpose: Purpose, now_ms: int) -> SigningKey:
        """The key that the home signs with now.

        Raises:
            InvalidRequestError: SECRET_MISSING.
        """
        return self._private(card.in_use(purpose.value, now_ms), purpose)

    def every_signing(self, card: VerifiedCard, purpose: Purpose, now_ms: int) -> tuple[SigningKey, ...]:
        return tuple(self._private(key, purpose) for key in card.verify_keys(purpose, now_ms))

    def listed_signing(self, card: Card, purpose: Purpose) -> list[SigningKey]:
        """The private halves of every key that a card of our own lists for a purpose, whether it is signed yet or not."""
        listed = [VerifyKey.parse_text(key.key, purpose) for key in card.keys if key.purpose == purpose.value]
        return [self._private(public, purpose) for public in listed]

    def newest_signing(self, card: VerifiedCard, purpose: Purpose) -> SigningKey:
        """The key that a card of our own lists last, whether it has begun or not.

        Raises:
            InvalidRequestError: SECRET_MISSING.
        """
        return self._private(card.listed(purpose.value)[-1][1], purpose)

    def only_signing(self, purpose: Purpose) -> SigningKey:
        """The one key there is, before any card."""
        return self._home.read_key(self._references[purpose.value], lambda text: SigningKey.parse_text(text, purpose))

    def _private(self, public: object, purpose: Purpose) -> SigningKey:
        reference = self._references[purpose.value]
        for key in self._keys(purpose.value, lambda text: SigningKey.parse_text(text, purpose)):
            if key.verify_key == public:
                return key
        raise self._home.not_that_key(reference)

    def _keys(self, purpose: str, parse: Callable[[str], KeyT]) -> list[KeyT]:
        """Every key that is in the file for a purpose now."""
        reference = self._references[purpose]
        stamp = self._home.stamp(reference)
        before = self._read.get(purpose)
        if before is not None and before[0] == stamp:
            known: list[KeyT] = before[1]
            return known
        keys = self._home.parse_keys(reference, self._home.read(reference), parse)
        self._read[purpose] = stamp, keys
        return keys

    def cosigner(self, card: VerifiedCard, now_ms: int) -> Cosigner:
        """Cosigner of other logs, under the name of the home's own log."""
        return Cosigner(card.card.origin, self.signing(card, Purpose.WITNESS, now_ms))

    def unsealing(self, card: VerifiedCard, now_ms: int) -> list[UnsealingKey]:
        """The keys that unseal samples."""
        reference = self._references[SAMPLE]
        honoured = {key.raw for key in card.honoured(SAMPLE, now_ms) if isinstance(key, SealingKey)}
        keys = [key for key in self._keys(SAMPLE, UnsealingKey.parse_text) if key.sealing_key.raw in honoured]
        if not keys:
            raise self._home.not_that_key(reference)
        return keys

    def sampling(self, name: str) -> SamplingKey:
        """The key that samples are drawn with under this public name, which a card has or had for it."""
        reference = self._references[SAMPLING]
        for key in self._keys(SAMPLING, _parse_sampling):
            if _secret_name(key) == name:
                return key
        raise self._home.not_that_key(reference)

    def tls(self, card: VerifiedCard, now_ms: int) -> TlsCredentials:
        """Certificate and key that the home shows now."""
        certificate = card.in_use(TLS, now_ms)
        if not isinstance(certificate, PeerCertificate):
            raise self._home.no_key(self._references[TLS])
        stamp = (certificate.pem, self._home.stamp(self._references[TLS]))
        before = self._read.get(TLS)
        if before is not None and before[0] == stamp:
            known: TlsCredentials = before[1]
            return known
        blocks = self._home.read(self._references[TLS])
        try:
            credentials = credentials_of(certificate, blocks)
        except ValueError as error:
            raise self._home.not_that_key(self._references[TLS]) from error
        self._read[TLS] = stamp, credentials
        return credentials

    def has(self, card: VerifiedCard, purpose: str, now_ms: int) -> bool:
        """Whether the private half of the key that a card of our own puts to use now is here."""
        public = card.in_use(purpose, now_ms)
        try:
            if purpose == TLS:
                self.tls(card, now_ms)
            elif purpose == SAMPLING:
                self.sampling(str(public))
            elif isinstance(public, SealingKey):
                return public.raw in [key.sealing_key.raw for key in self.unsealing(card, now_ms)]
            else:
                self._private(public, Purpose(purpose))
        except InvalidRequestError:
            return False
        return True

    # --- making keys -----------------------------------------------------------------------------------------------

    def make(self, purpose: str, identity: Identity, now_ms: int) -> str:
        """Durably add a new key to its file; gives its public text, for a card.

        CRASH: a key that no card names is not used.

        Raises:
            InvalidRequestError: INVALID_VALUE, the reference leads to no file.
        """
        if purpose == TLS:
            made = make_certificate(identity, now_ms=now_ms, days=CERTIFICATE_DAYS)
            self._append(purpose, made.private_key.decode("ascii"))
            return PeerCertificate.parse_pem(made.certificate).pem.decode("ascii")
        if purpose == SAMPLE:
            unsealing = UnsealingKey.generate(os.urandom)
            self._append(purpose, f"{unsealing.to_text()}\n")
            return unsealing.sealing_key.to_text()
        if purpose == SAMPLING:
            sampling = SamplingKey(os.urandom(32))
            self._append(purpose, f"{secret_text(SAMPLING, sampling.expose())}\n")
            return _secret_name(sampling)
        signing = SigningKey.generate(Purpose(purpose), os.urandom)
        self._append(purpose, f"{signing.to_text()}\n")
        return signing.verify_key.to_text()

    def first_card(self, identity: Identity, origin: str, now_ms: int) -> VerifiedCard:
        """A fresh key for each purpose of the role, on a card."""
        keys = tuple(
            CardKey(purpose=purpose, key=self.make(purpose, identity, now_ms), from_ms=now_ms, until_ms=0)
            for purpose in PURPOSES[identity.role]
        )
        card = Card(
            role=identity.role,
            organisation=identity.organisation,
            name=identity.name,
            serial=1,
            origin=origin,
            keys=keys,
        )
        return verify_card(sign_card(card, [self.only_signing(Purpose.IDENTITY)]))

    def _append(self, purpose: str, text: str) -> None:
        reference = self._references[purpose]
        before = self._home.read_key(reference, str) if self._home.key_file(reference).is_file() else ""
        # An editor may have left the last line without its end.
        separator = "" if before.endswith("\n") or not before else "\n"
        self._home.replace_key(reference, f"{before}{separator}{text}")

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the home's keys for one change at a time; another one waits."""
        with exclusive(self._home.path / "keys.lock", wait=True):
            yield

    def forget_unlisted(self, card: VerifiedCard, purpose: str) -> None:
        """Remove what an attempt that came to nothing has left: keys for a purpose that the home's card does not list."""
        self._keep(purpose, [public for _, public in card.listed(purpose)])

    def forget_ended(self, card: VerifiedCard, now_ms: int, *, log_ms: int | None = None) -> None:
        """Remove the keys whose time is over: a stolen disk must not open what was sealed to them.

        `log_ms` is the time that the home's log has come to, 0 where there is none. A clock that is ahead once must not end
        the keys of log and card: they are needed to open the log, or to make the next card, when it is set right. Keys that
        are not on this machine are left alone, and so are those that it may not change.
        """
        for purpose in self._references:
            at_ms = now_ms if log_ms is None or purpose not in _NEEDED_LATER else min(now_ms, log_ms)
            try:
                self._keep(purpose, card.honoured(purpose, at_ms))
            except InvalidRequestError:
                continue
            except InternalError as error:
                _log.warning("a key that has ended cannot be removed", purpose=purpose, code=error.code)

    def _keep(self, purpose: str, wanted: Sequence[PublicKey]) -> None:
        reference = self._references[purpose]
        if purpose == SAMPLING or not self._home.key_file(reference).is_file():
            # Open questions may still be drawn with an earlier sampling key.
            return
        before = self._home.read(reference)
        if purpose == TLS:
            certificates = [key for key in wanted if isinstance(key, PeerCertificate)]
            kept = "".join(block for each in certificates for block in _private_block(each, before))
        elif purpose == SAMPLE:
            raws = {key.raw for key in wanted if isinstance(key, SealingKey)}
            unsealing = self._home.parse_keys(reference, before, UnsealingKey.parse_text)
            kept = "".join(f"{key.to_text()}\n" for key in unsealing if key.sealing_key.raw in raws)
        else:
            signing = self._home.parse_keys(
                reference, before, lambda text: SigningKey.parse_text(text, Purpose(purpose))
            )
            kept = "".join(f"{key.to_text()}\n" for key in signing if key.verify_key in wanted)
        # A file that holds none of the home's keys is somebody's mistake, and may be the only copy of something.
        if kept and kept.encode("ascii") != before:
            self._home.replace_key(reference, kept)


def log_signer(keyring: Keyring, origin: str, clock: Clock) -> Callable[[LogState], NoteSigner]:
    """Signer of a home's log: every honoured log key of its card, or the one there is before the first card."""

    def signer(state: LogState) -> NoteSigner:
        card = state.parties.own
        if card is None:
            return NoteSigner(origin, (keyring.only_signing(Purpose.LOG),))
        return NoteSigner(origin, keyring.every_signing(card, Purpose.LOG, max(clock(), state.time_ms)))

    return signer


def _private_block(certificate: PeerCertificate, blocks: bytes) -> list[str]:
    """The private key of a certificate as it stands among others; nothing if it does not."""
    try:
        return [credentials_of(certificate, blocks).private_key.decode("ascii")]
    except ValueError:
        return []


def _parse_sampling(text: str) -> SamplingKey:
    return SamplingKey(parse_secret(text, SAMPLING))


def _secret_name(key: SamplingKey) -> str:
    return f"secret {key.key_id}"
