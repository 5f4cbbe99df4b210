"""Tickets: the researcher's signed order for one answer, and what each node checks of it.

Signatures cover the exact bytes carried, never a re-encoding. A ticket is known by the SHA-256 of those bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tripartite.v1 import ticket_pb2

from broker_common.crypto.commitments import hash_bytes
from broker_common.crypto.sampling import WHOLE_MILLIONTHS
from broker_common.crypto.sealing import SEALING_KEY_BYTES, SealingKey
from broker_common.crypto.signing import Purpose, SigningKey, VerifyKey, key_named
from broker_common.errors import InvalidRequestError, RefusedError
from broker_common.query.messages import parse_message
from broker_common.query.question import spelled_question
from broker_common.values import HASH_BYTES, QUERY_ID_BYTES

# A ticket with every value of every language variable has a few KiB. Checked before its signature.
MAX_TICKET_BYTES = 64 * 1024
# No ticket may outlive its quote by more than this.
MAX_LIFETIME_MS = 25 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class Researcher:
    """A registered researcher: the keys that sign tickets, and the studies they belong to."""

    researcher_id: str
    keys: tuple[VerifyKey, ...]
    projects: frozenset[str]


@dataclass(frozen=True, slots=True)
class VerifiedTicket:
    """A ticket whose signature, form and project hold. Whether it is still good is asked by the other methods.

    A ticket that was charged is good for ever: brought again, it gets the same answer, whatever has expired or
    changed meanwhile.
    """

    body: ticket_pb2.Ticket
    signed_bytes: bytes

    @property
    def hash(self) -> bytes:
        return hash_bytes(self.signed_bytes)

    @property
    def query_id(self) -> bytes:
        return self.body.query_id

    def verify_fresh(self, now_ms: int) -> None:
        """Raise TICKET_EXPIRED unless the ticket is within its lifetime, by the clock that gave the quote."""
        self.verify_unexpired(now_ms)
        if self.body.expires_ms > now_ms + MAX_LIFETIME_MS:
            raise InvalidRequestError("TICKET_EXPIRED")

    def verify_unexpired(self, now_ms: int) -> None:
        """Raise TICKET_EXPIRED if the ticket's last instant has come. That it ends too late is not said by this clock."""
        if self.body.expires_ms <= now_ms:
            raise InvalidRequestError("TICKET_EXPIRED")

    def verify_policy(self, policy_hash: bytes) -> None:
        """Raise POLICY_MISMATCH unless the ticket was made under this policy."""
        if self.body.policy_hash != policy_hash:
            raise InvalidRequestError("POLICY_MISMATCH")

    def verify_dictionary(self, role: str, dictionary: str, changed: Callable[[], str]) -> None:
        """Raise DICTIONARY_CHANGED unless the ticket was written with this dictionary of the agency, by its hash.

        `changed` says what is otherwise since the one that the ticket names.
        """
        named = {"health": self.body.health_dictionary, "census": self.body.census_dictionary}[role].hex()
        if named != dictionary:
            raise RefusedError("DICTIONARY_CHANGED", role=role, changes=changed())

    def verify_release(self, census_release: str) -> None:
        """Raise RELEASE_MISMATCH unless the ticket asks about this census release."""
        if self.body.census_release != census_release:
            raise InvalidRequestError("RELEASE_MISMATCH", asked=self.body.census_release[:64], served=census_release)


def sign_ticket(body: ticket_pb2.Ticket, key: SigningKey) -> ticket_pb2.SignedTicket:
    """The ticket as it travels."""
    signed_bytes = body.SerializeToString(deterministic=True)
    signature = key.sign(signed_bytes, purpose=_purpose_of(body))
    return ticket_pb2.SignedTicket(ticket=signed_bytes, signature=signature, key_id=key.key_id)


def _purpose_of(body: ticket_pb2.Ticket) -> Purpose:
    """A ticket that names no dictionaries is of the form before, and signed under its prefix."""
    return Purpose.TICKET if body.health_dictionary or body.census_dictionary else Purpose.TICKET_BEFORE


def ticket_verified_before(signed: ticket_pb2.SignedTicket) -> VerifiedTicket:
    """A ticket whose exact bytes were verified at an earlier time, when its key and its researcher were known.

    Raises:
        InvalidRequestError: MALFORMED_MESSAGE.
    """
    return VerifiedTicket(parse_message(ticket_pb2.Ticket, signed.ticket), signed.ticket)


def verify_ticket(
    signed: ticket_pb2.SignedTicket, *, researchers: Mapping[str, Researcher], caller: str | None
) -> VerifiedTicket:
    """The ticket, if everything about it holds that needs neither clock, policy nor log.

    1. size and form, 2. the researcher is registered (and is `caller`, where the researcher calls in person),
    3. key id and signature, 4. project.

    Raises:
        InvalidRequestError: the first step that fails.
    """
    # 1
    if len(signed.ticket) > MAX_TICKET_BYTES:
        raise InvalidRequestError("MALFORMED_MESSAGE", problem="the ticket is too long")
    body = parse_message(ticket_pb2.Ticket, signed.ticket)
    _verify_form(body)
    # 2
    researcher = researchers.get(body.researcher_id)
    if researcher is None or (caller is not None and caller != body.researcher_id):
        raise InvalidRequestError("UNKNOWN_RESEARCHER", researcher=body.researcher_id[:64])
    # 3
    key = key_named(researcher.keys, signed.key_id, subject="ticket")
    key.verify_signature(signed.ticket, signed.signature, purpose=_purpose_of(body))
    # 4
    if body.project_id not in researcher.projects:
        raise InvalidRequestError("UNKNOWN_PROJECT", project=body.project_id[:64], researcher=body.researcher_id)
    return VerifiedTicket(body, signed.ticket)


def _verify_form(body: ticket_pb2.Ticket) -> None:
    problem = ""
    if len(body.query_id) != QUERY_ID_BYTES:
        problem = "the query id is not 16 bytes"
    elif len(body.criteria_commitment) != HASH_BYTES or len(body.policy_hash) != HASH_BYTES:
        problem = "a hash is not 32 bytes"
    elif {len(body.health_dictionary), len(body.census_dictionary)} not in ({0}, {HASH_BYTES}):
        problem = "the hashes of the dictionaries are not 32 bytes"
    elif not 1 <= body.fraction_millionths <= WHOLE_MILLIONTHS:
        problem = "the sampling fraction is not between one millionth and one"
    elif body.scale < 1:
        problem = "the scale is not positive"
    elif not body.HasField("noise_slot") or not body.HasField("question"):
        problem = "the question or the noise slot is missing"
    elif not _is_sealing_key(body.answer_key):
        problem = "the answer key is not a public key"
    if problem:
        raise InvalidRequestError("MALFORMED_MESSAGE", problem=problem)
    spelled_question(body.question)


def _is_sealing_key(raw: bytes) -> bool:
    if len(raw) != SEALING_KEY_BYTES:
        return False
    try:
        SealingKey(raw)
    except ValueError:
        return False
    return True
