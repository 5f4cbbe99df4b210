"""A session with nodes that offer something else than was asked for, or that others have met meanwhile."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from fakes.cards import Party as Identified
from fakes.world import CENSUS, OWNER, make_policy
from tripartite.v1 import census_service_pb2

from broker_common.crypto.certificates import Identity
from broker_common.errors import InvalidRequestError, PeerUnavailableError
from broker_common.privacy.policy import Policy
from broker_common.query.dictionary import Dictionary
from broker_common.storage.clock import system_clock
from census_node.registry.dictionary import CENSUS_DICTIONARY
from researcher_node import asking
from researcher_node.asking import Party, Precision, Quoted, Session
from researcher_node.trust import Trust

UNUSED: Any = None


class Offering(Session):
    """A session with a census node that offers whatever it is told to."""

    def __init__(self, folder: Path, offered: dict[str, int]) -> None:
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
            clock=system_clock,
            randomness=os.urandom,
        )
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
        offered = {"scale": request.scale, "expires_ms": system_clock() + 1000} | self._offered
        return census_service_pb2.QuoteResponse(scale=offered["scale"], expires_ms=offered["expires_ms"])


async def quote(folder: Path, **offered: int) -> Quoted:
    """Ask for a quote at scale 30."""
    return await Offering(folder, offered).quote("all", Precision(scale=30))


async def test_offer_for_what_was_asked_is_taken(tmp_path: Path) -> None:
    """The refusals below differ from this in one number."""
    assert (await quote(tmp_path)).response.scale == 30


@pytest.mark.parametrize(
    "offered", [{"scale": 1}, {"scale": 0}, {"expires_ms": 253_402_300_800_000}, {"expires_ms": -1}], ids=str
)
async def test_offer_for_something_else_is_the_census_nodes_fault(tmp_path: Path, offered: dict[str, int]) -> None:
    """Signed, another scale would cost more than was meant; kept, a year of five digits could never be shown again."""
    with pytest.raises(PeerUnavailableError) as caught:
        await quote(tmp_path, **offered)
    assert caught.value.code == "PEER_MISBEHAVED"


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

    monkeypatch.setattr(asking, "fetch_card", fetch)
    async with session:
        if other == CENSUS:
            await session.meet("census")
        else:
            with pytest.raises(InvalidRequestError, match="WRONG_ORGANISATION"):
                await session.meet("census")
    assert session.known.card("census").signed == newer.signed
