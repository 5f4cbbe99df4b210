"""A session with nodes that offer something else than was asked for, or that others have met meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes.cards import Party as Identified
from fakes.dictionaries import CENSUS_DICTIONARY
from fakes.world import CENSUS, FRENCH, OWNER, make_policy
from tripartite.v1 import census_service_pb2, quote_pb2, ticket_pb2

from broker_common.crypto.certificates import Identity
from broker_common.crypto.signing import Purpose, SigningKey
from broker_common.errors import InvalidRequestError, PeerUnavailableError
from broker_common.privacy.accounting import price
from broker_common.privacy.policy import Policy
from broker_common.privacy.table_laplace import margin
from broker_common.query.dictionary import Dictionary
from broker_common.query.question import parse_question
from broker_common.query.quote import sign_quote
from broker_common.storage.clock import system_clock
from researcher_node.asking import contact
from researcher_node.asking.contact import Party
from researcher_node.asking.proposal import Precision
from researcher_node.asking.session import Quoted, Session
from researcher_node.trust.cards import Trust

UNUSED: Any = None


class Offering(Session):
    """A session with a census node that offers whatever it is told to."""

    spoil: Callable[[quote_pb2.SignedQuote], object] = id

    def __init__(self, folder: Path, offered: dict[str, Any]) -> None:
        self.own = Identified(OWNER)
        self.known = Trust(folder, system_clock)
        super().__init__(
            researcher_id=OWNER.name,
            ticket_key=UNUSED,
            health=Party("health", "127.0.0.1:1"),
            census=Party("census", "127.0.0.1:1"),
            own_card=lambda: self.own.card,
            trust=self.known,
            tls=lambda: self.own.tls,
            answers=UNUSED,
            policies=UNUSED,
            dictionaries=UNUSED,
            clock=system_clock,
            randomness=os.urandom,
        )
        self.census = CENSUS_PARTY
        self._offered = offered

    async def policy(self) -> Policy:
        return make_policy()

    async def _census_dictionary(self) -> tuple[Dictionary, str]:
        return CENSUS_DICTIONARY, "2011"

    async def _census(self) -> Any:
        return self

    async def Quote(  # noqa: N802 - the name that the proto gives it
        self,
        request: census_service_pb2.QuoteRequest,
        timeout: float,  # noqa: ASYNC109 - as stubs have it
    ) -> census_service_pb2.QuoteResponse:
        """The offer: what was asked for, but for what it is told to change."""
        del timeout
        fields: dict[str, Any] = {
            "researcher_id": OWNER.name,
            "question": request.question,
            "scale": request.scale,
            "charged": price(request.scale),
            "margin_95": margin(request.scale, len(request.question.cells)),
            "policy_hash": make_policy().hash,
            "noise_slot": ticket_pb2.NoiseSlot(number=1),
            "told_ms": system_clock(),
            "expires_ms": system_clock() + 1000,
        }
        signed = sign_quote(quote_pb2.Quote(**fields | self._offered), self.census.signing(Purpose.ANSWER))
        self.spoil(signed)
        return census_service_pb2.QuoteResponse(quote=signed)


async def quote(folder: Path, spoil: Callable[[quote_pb2.SignedQuote], object] = id, **offered: Any) -> Quoted:
    """Ask for a quote at scale 30."""
    session = Offering(folder, offered)
    session.known.put(session.census.card)
    session.spoil = spoil
    return await session.quote("all", Precision(scale=30))


async def test_offer_for_what_was_asked_is_taken(tmp_path: Path) -> None:
    """The refusals below differ from this in one place."""
    assert (await quote(tmp_path)).offer.body.scale == 30


@pytest.mark.parametrize(
    "offered",
    [
        {"scale": 1, "charged": price(1), "margin_95": margin(1)},
        {"scale": 0},
        {"charged": price(30) - 1},
        {"margin_95": 89},
        {"researcher_id": "somebody-else"},
        {"question": parse_question(FRENCH, CENSUS_DICTIONARY).to_wire()},
        {"expires_ms": 253_402_300_800_000},
        {"expires_ms": -1},
        {"told_ms": 253_402_300_799_999},
        {"policy_hash": b""},
        {"noise_slot": None},
    ],
    ids=str,
)
async def test_offer_for_something_else_is_the_census_nodes_fault(tmp_path: Path, offered: dict[str, Any]) -> None:
    """Signed, another scale would cost more than was meant; kept, a year of five digits could never be shown again."""
    with pytest.raises(PeerUnavailableError) as caught:
        await quote(tmp_path, **offered)
    assert caught.value.code == "PEER_MISBEHAVED"


def signed_by(key: SigningKey, *, as_key: str | None = None) -> Callable[[quote_pb2.SignedQuote], None]:
    """Signed again with another key, which may be said to be the one on the card."""

    def spoil(signed: quote_pb2.SignedQuote) -> None:
        signed.signature = key.sign(signed.quote, purpose=Purpose.QUOTE)
        signed.key_id = as_key or signed.key_id

    return spoil


def signed_as_a_receipt(signed: quote_pb2.SignedQuote) -> None:
    """The answer key's signature of the same bytes, for what it signs itself."""
    signed.signature = CENSUS_PARTY.signing(Purpose.ANSWER).sign(signed.quote)


THIEF = SigningKey(Purpose.ANSWER, bytes(32))
CENSUS_PARTY = Identified(CENSUS, "census.example/log")
UNSIGNED: dict[str, Callable[[quote_pb2.SignedQuote], object]] = {
    "no signature": lambda signed: signed.ClearField("signature"),
    "one bit less": lambda signed: setattr(signed, "quote", signed.quote[:-1] + bytes([signed.quote[-1] ^ 1])),
    "another price": lambda signed: setattr(
        signed, "quote", signed.quote + quote_pb2.Quote(charged=1).SerializeToString()
    ),
    "a stranger's key": signed_by(THIEF),
    "a stranger's key under its own name": signed_by(THIEF, as_key=THIEF.key_id),
    "the answer key's signature of an answer": signed_as_a_receipt,
    "no quote": lambda signed: signed.Clear(),
}


@pytest.mark.parametrize("what", UNSIGNED)
async def test_no_ticket_follows_a_quote_that_the_census_agency_did_not_sign(tmp_path: Path, what: str) -> None:
    """Nobody could be held to its price, its slot or what it says is left."""
    with pytest.raises(PeerUnavailableError, match="PEER_MISBEHAVED"):
        await quote(tmp_path, UNSIGNED[what])


@pytest.mark.parametrize("other", [CENSUS, Identity("another-agency", "census", "node")], ids=["newer", "another"])
async def test_card_that_somebody_else_has_heard_of_first_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: Identity
) -> None:
    """`ask` and the inbox meet the same node at once: the newer card stays, and the question goes on."""
    session, census = Offering(tmp_path / "trust", {}), Identified(CENSUS, "census.example/log")
    session.known.put(census.card)
    heard = census.renew("answer")
    newer = census.renew("answer") if other == CENSUS else Identified(other, "census.example/log").card

    async def fetch(*_: object) -> object:
        session.known.put(newer, replace=True)
        return heard

    monkeypatch.setattr(contact, "fetch_card", fetch)
    async with session:
        if other == CENSUS:
            await session.meet("census")
        else:
            with pytest.raises(InvalidRequestError, match="WRONG_ORGANISATION"):
                await session.meet("census")
    assert session.known.card("census").signed == newer.signed
