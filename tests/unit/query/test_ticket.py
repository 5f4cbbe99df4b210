"""Tickets: each step of verification refuses alone, in its order, and binds the exact bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from fakes.clock import FakeClock
from fakes.randomness import SeededRandomness
from hypothesis import given
from hypothesis import strategies as st
from tripartite.v1 import ticket_pb2

from broker_common.crypto.commitments import hash_bytes
from broker_common.crypto.sealing import UnsealingKey
from broker_common.crypto.signing import Purpose, SigningKey
from broker_common.errors import InvalidRequestError
from broker_common.query.ticket import (
    MAX_LIFETIME_MS,
    MAX_TICKET_BYTES,
    Researcher,
    VerifiedTicket,
    sign_ticket,
    verify_ticket,
)

NOW_MS = FakeClock()()
KEY = SigningKey(Purpose.TICKET, bytes(32))
MALLORY = SigningKey(Purpose.TICKET, b"m" * 32)
ANSWER_KEY = UnsealingKey.generate(SeededRandomness()).sealing_key.raw
RESEARCHERS = {
    "alice": Researcher("alice", (KEY.verify_key,), frozenset({"study"})),
    "mallory": Researcher("mallory", (MALLORY.verify_key,), frozenset({"other"})),
}
Change: TypeAlias = Callable[[ticket_pb2.Ticket], Any]


def body(**changes: Any) -> ticket_pb2.Ticket:
    """A sound ticket of alice's."""
    fields: dict[str, Any] = {
        "query_id": b"q" * 16,
        "researcher_id": "alice",
        "project_id": "study",
        "question": ticket_pb2.Question(cells=[ticket_pb2.Cell()]),
        "census_release": "2021",
        "scale": 30,
        "fraction_millionths": 1_000_000,
        "criteria_commitment": b"c" * 32,
        "answer_key": ANSWER_KEY,
        "policy_hash": b"p" * 32,
        "noise_slot": ticket_pb2.NoiseSlot(number=0),
        "expires_ms": NOW_MS + 60_000,
        "health_dictionary": b"h" * 32,
        "census_dictionary": b"d" * 32,
    }
    return ticket_pb2.Ticket(**fields | changes)


def verify(signed: ticket_pb2.SignedTicket, caller: str | None = None) -> VerifiedTicket:
    """Verify as a node does."""
    return verify_ticket(signed, researchers=RESEARCHERS, caller=caller)


def refusal(signed: ticket_pb2.SignedTicket, caller: str | None = None) -> InvalidRequestError:
    """The error with which a ticket is refused."""
    with pytest.raises(InvalidRequestError) as caught:
        verify(signed, caller)
    return caught.value


def is_fresh(ticket: VerifiedTicket, now_ms: int) -> bool:
    """Whether the ticket is within its lifetime."""
    try:
        ticket.verify_fresh(now_ms)
    except InvalidRequestError as error:
        if (error.code, error.details) != ("TICKET_EXPIRED", {}):
            raise
        return False
    return True


@pytest.mark.parametrize("caller", [None, "alice"])
def test_a_sound_ticket_is_verified(caller: str | None) -> None:
    """Through the health node or from the researcher herself, it is the same ticket, known by its bytes' hash."""
    signed = sign_ticket(body(), KEY)
    ticket = verify(signed, caller)
    assert ticket.body == body()
    assert ticket.signed_bytes == signed.ticket
    assert ticket.hash == hash_bytes(signed.ticket)
    assert ticket.query_id == b"q" * 16
    ticket.verify_fresh(NOW_MS)
    ticket.verify_policy(b"p" * 32)
    ticket.verify_release("2021")


MALFORMED: dict[str, tuple[dict[str, Any], str]] = {
    "query id too short": ({"query_id": b"q" * 15}, "query id"),
    "query id too long": ({"query_id": b"q" * 17}, "query id"),
    "no query id": ({"query_id": b""}, "query id"),
    "commitment too short": ({"criteria_commitment": b"c" * 31}, "hash is not 32"),
    "policy hash too long": ({"policy_hash": b"p" * 33}, "hash is not 32"),
    "a dictionary of one agency alone": ({"census_dictionary": b""}, "hashes of the dictionaries"),
    "dictionary too short": ({"health_dictionary": b"d" * 31}, "hashes of the dictionaries"),
    "fraction 0": ({"fraction_millionths": 0}, "fraction"),
    "fraction above 1": ({"fraction_millionths": 1_000_001}, "fraction"),
    "scale 0": ({"scale": 0}, "scale"),
    "no slot": ({"noise_slot": None}, "slot is missing"),
    "no question": ({"question": None}, "question or the noise slot is missing"),
    "no answer key": ({"answer_key": b""}, "answer key"),
    "answer key too short": ({"answer_key": ANSWER_KEY[:-1]}, "answer key"),
    "answer key with coefficients beyond the modulus": ({"answer_key": b"\xff" * 1216}, "answer key"),
    "answer key that nothing can be sealed to": ({"answer_key": ANSWER_KEY[:1184] + bytes(32)}, "answer key"),
}


@pytest.mark.parametrize(("changes", "problem"), MALFORMED.values(), ids=list(MALFORMED))
def test_a_malformed_ticket_is_refused_although_it_is_signed(changes: dict[str, Any], problem: str) -> None:
    """A registered researcher cannot make a node work on nonsense."""
    error = refusal(sign_ticket(body(**changes), KEY))
    assert error.code == "MALFORMED_MESSAGE"
    assert problem in error.details["problem"]


def test_bytes_that_are_no_ticket_are_refused() -> None:
    """Rubbish and unknown fields, signed or not."""
    for data in (b"\xff\xff", sign_ticket(body(), KEY).ticket + b"\xf8\x7f\x01"):
        signed = ticket_pb2.SignedTicket(ticket=data, signature=KEY.sign(data), key_id=KEY.key_id)
        assert refusal(signed).code == "MALFORMED_MESSAGE"


def test_an_endless_ticket_is_refused_unread() -> None:
    """The limit counts before parsing."""
    signed = ticket_pb2.SignedTicket(ticket=bytes(MAX_TICKET_BYTES + 1))
    assert refusal(signed).details["problem"] == "the ticket is too long"
    assert (
        refusal(ticket_pb2.SignedTicket(ticket=bytes(MAX_TICKET_BYTES))).details["problem"] != "the ticket is too long"
    )


@pytest.mark.parametrize("researcher", ["", "nobody", "Alice", "alice "])
def test_an_unregistered_researcher_is_refused(researcher: str) -> None:
    """A valid key does not help somebody who is not registered."""
    assert refusal(sign_ticket(body(researcher_id=researcher), KEY)).code == "UNKNOWN_RESEARCHER"


def test_a_stolen_ticket_cannot_be_submitted_by_another_researcher() -> None:
    """Where researchers call in person, the ticket must be the caller's own."""
    assert refusal(sign_ticket(body(), KEY), caller="mallory").code == "UNKNOWN_RESEARCHER"


def test_a_ticket_in_anothers_name_is_refused() -> None:
    """Mallory's key signs for mallory alone, whatever key id she claims."""
    forged = sign_ticket(body(), MALLORY)
    assert refusal(forged).code == "UNKNOWN_KEY"
    forged.key_id = KEY.key_id
    error = refusal(forged)
    assert (error.code, error.details) == ("BAD_SIGNATURE", {"subject": "ticket"})


def test_an_unknown_key_is_named_but_not_at_length() -> None:
    """A stranger's words are cut before they are shown."""
    signed = sign_ticket(body(), KEY)
    signed.key_id = "k" * 5000
    assert refusal(signed).details["key"] == "k" * 64
    assert refusal(sign_ticket(body(researcher_id="r" * 5000), KEY)).details["researcher"] == "r" * 64
    assert refusal(sign_ticket(body(project_id="p" * 5000), KEY)).details["project"] == "p" * 64


@pytest.mark.parametrize(
    "changes",
    [
        {"question": ticket_pb2.Question(variable="mother_tongue", cells=[ticket_pb2.Cell(values=["x"])])},
        {"answer_key": UnsealingKey.generate(SeededRandomness("thief")).sealing_key.raw},
        {"scale": 1},
        {"fraction_millionths": 1},
        {"query_id": b"r" * 16},
        {"noise_slot": ticket_pb2.NoiseSlot(number=1)},
        {"expires_ms": NOW_MS + 60_001},
        {"policy_hash": b"P" * 32},
        {"criteria_commitment": b"C" * 32},
        {"census_release": "2016"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_nobody_on_the_way_can_change_a_ticket(changes: dict[str, Any]) -> None:
    """The health node can neither change the question nor redirect the answer."""
    signed = sign_ticket(body(), KEY)
    signed.ticket = body(**changes).SerializeToString(deterministic=True)
    assert refusal(signed).code == "BAD_SIGNATURE"


def test_a_signature_made_for_another_purpose_is_no_ticket() -> None:
    """The same raw key, used for manifests, signs no tickets."""
    data = body().SerializeToString(deterministic=True)
    signature = SigningKey(Purpose.MANIFEST, bytes(32)).sign(data)
    assert refusal(ticket_pb2.SignedTicket(ticket=data, signature=signature, key_id=KEY.key_id)).code == "BAD_SIGNATURE"


@pytest.mark.parametrize("project", ["", "other", "Study"])
def test_a_project_that_is_not_the_researchers_is_refused(project: str) -> None:
    """Another researcher's study does not count."""
    error = refusal(sign_ticket(body(project_id=project), KEY))
    assert (error.code, error.details["researcher"]) == ("UNKNOWN_PROJECT", "alice")


@pytest.mark.parametrize(
    ("expires_ms", "accepted"),
    [
        (NOW_MS - 1, False),
        (NOW_MS, False),
        (NOW_MS + 1, True),
        (NOW_MS + MAX_LIFETIME_MS, True),
        (NOW_MS + MAX_LIFETIME_MS + 1, False),
        (-1, False),
        (2**63 - 1, False),
    ],
)
def test_a_ticket_lives_until_it_expires_and_no_longer_than_tickets_may(expires_ms: int, accepted: bool) -> None:
    """To the millisecond; a ticket for ever is none."""
    assert is_fresh(verify(sign_ticket(body(expires_ms=expires_ms), KEY)), NOW_MS) == accepted


@given(expires_ms=st.integers(-(2**63), 2**63 - 1), now_ms=st.integers(0, 2**53))
def test_a_ticket_is_fresh_within_its_lifetime_alone(expires_ms: int, now_ms: int) -> None:
    """At any instant, for any expiry that a message can carry, below zero and beyond any clock too."""
    ticket = VerifiedTicket(body(expires_ms=expires_ms), b"")
    assert is_fresh(ticket, now_ms) == (0 < expires_ms - now_ms <= MAX_LIFETIME_MS)


@pytest.mark.parametrize("expires_ms", [0, 1, NOW_MS - 365 * 86_400_000, 2**63 - 1])
def test_an_expired_ticket_is_still_the_ticket_it_was(expires_ms: int) -> None:
    """The bearer of a charged ticket is recognised by signature, form and project, whatever the clock says."""
    signed = sign_ticket(body(expires_ms=expires_ms), KEY)
    ticket = verify(signed, "alice")
    assert ticket.hash == hash_bytes(signed.ticket)
    assert not is_fresh(ticket, NOW_MS)
    # Age is no way around the other steps.
    assert refusal(sign_ticket(body(expires_ms=expires_ms), MALLORY)).code == "UNKNOWN_KEY"
    assert refusal(signed, caller="mallory").code == "UNKNOWN_RESEARCHER"


def test_the_steps_are_taken_in_order() -> None:
    """With everything wrong, repairing one step at a time meets each next one: nothing leaks about later steps."""
    wrong: dict[str, Any] = {
        "query_id": b"",
        "researcher_id": "nobody",
        "project_id": "nothing",
        "expires_ms": 0,
    }
    codes = []
    for repaired in ({"query_id": b"q" * 16}, {"researcher_id": "alice"}):
        codes.append(refusal(sign_ticket(body(**wrong), MALLORY)).code)
        wrong |= repaired
    signed = sign_ticket(body(**wrong), MALLORY)
    codes.append(refusal(signed).code)
    signed.key_id = KEY.key_id
    codes.append(refusal(signed).code)
    codes.append(refusal(sign_ticket(body(**wrong), KEY)).code)
    wrong |= {"project_id": "study"}
    # Expiry is asked last, of a ticket that is sound, because a charged one is not asked.
    with pytest.raises(InvalidRequestError) as caught:
        verify(sign_ticket(body(**wrong), KEY)).verify_fresh(NOW_MS)
    codes.append(caught.value.code)
    assert codes == [
        "MALFORMED_MESSAGE",
        "UNKNOWN_RESEARCHER",
        "UNKNOWN_KEY",
        "BAD_SIGNATURE",
        "UNKNOWN_PROJECT",
        "TICKET_EXPIRED",
    ]


@pytest.mark.parametrize(
    ("check", "code"),
    [
        (lambda ticket: ticket.verify_policy(b"o" * 32), "POLICY_MISMATCH"),
        (lambda ticket: ticket.verify_policy(b""), "POLICY_MISMATCH"),
        (lambda ticket: ticket.verify_release("2016"), "RELEASE_MISMATCH"),
    ],
)
def test_a_ticket_for_another_policy_or_release_is_refused(check: Callable[[VerifiedTicket], None], code: str) -> None:
    """The quote's values count."""
    ticket = verify(sign_ticket(body(), KEY))
    with pytest.raises(InvalidRequestError) as caught:
        check(ticket)
    assert caught.value.code == code


def test_a_signature_covers_the_bytes_carried_not_a_re_encoding() -> None:
    """The same fields in another order are other bytes: as signed they hold, re-encoded they do not."""
    canonical = body().SerializeToString(deterministic=True)
    # Field 1 (query id, 18 bytes with its tag) moved to the end.
    moved = canonical[18:] + canonical[:18]
    assert ticket_pb2.Ticket.FromString(moved) == body()
    signed = ticket_pb2.SignedTicket(ticket=moved, signature=KEY.sign(moved), key_id=KEY.key_id)
    assert verify(signed).hash == hash_bytes(moved) != hash_bytes(canonical)
    signed.ticket = canonical
    assert refusal(signed).code == "BAD_SIGNATURE"
