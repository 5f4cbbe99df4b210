"""Other nodes as a home knows them: whether they answer where they should, and whether both sides' cards are current."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from broker_common.crypto.cards import VerifiedCard
from broker_common.crypto.certificates import TlsCredentials
from broker_common.doctor import texts
from broker_common.doctor.agency import party_of
from broker_common.doctor.findings import Finding, of_error, ok, warning
from broker_common.errors import BrokerError, PeerUnavailableError
from broker_common.language import phrase
from broker_common.parties.exchange import fetch_card
from broker_common.rpc.channel import Peer, open_channel
from broker_common.values import Clock


def peer_findings(
    address: str, known: VerifiedCard, own: VerifiedCard, tls: Callable[[], TlsCredentials], clock: Clock
) -> Iterator[Finding]:
    """Whether the peer answers at this address as the one that is known. Its newer card is not taken here."""
    party = party_of(known)
    try:
        newer = asyncio.run(_met(address, known, own, tls, clock))
    except PeerUnavailableError as error:
        shown = phrase(texts.NO_ANSWER, party=party, address=address, code=error.code)
        yield warning("peers", shown, texts.NO_ANSWER_REMEDY)
    except BrokerError as error:
        yield of_error("peers", error)
    else:
        if newer is None:
            yield ok("peers", phrase(texts.ANSWERS, party=party, address=address))
        else:
            yield warning("peers", phrase(texts.NEWER_CARD, party=party), texts.NEWER_CARD_REMEDY)


async def _met(
    address: str, known: VerifiedCard, own: VerifiedCard, tls: Callable[[], TlsCredentials], clock: Clock
) -> VerifiedCard | None:
    peer = Peer(known.card.role, address, tuple(known.certificates(clock())))
    async with open_channel(peer, tls(), clock) as channel:
        return await fetch_card(channel, own.signed, known)
