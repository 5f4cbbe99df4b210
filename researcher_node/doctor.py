"""Checks of a researcher's home: keys, cards, and the addresses of both agencies."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from broker_common.crypto.cards import VerifiedCard
from broker_common.crypto.certificates import Role
from broker_common.doctor import texts
from broker_common.doctor.agency import certificate_findings, key_findings
from broker_common.doctor.findings import Finding, ok, tried
from broker_common.doctor.peers import peer_findings
from broker_common.storage.clock import system_clock
from researcher_node.assembly import ResearcherHome
from researcher_node.trust.cards import AGENCIES


def look(path: Path) -> Iterator[Finding]:
    """Everything but the files themselves."""
    opened = ResearcherHome(path)
    yield ok("config", texts.CONFIG)
    own, now_ms = opened.own_card(), system_clock()
    yield from tried("keys", lambda: key_findings(opened.keyring, own, now_ms))
    cards = [own, *(peer.card for peer in opened.known())]
    yield from tried("certificates", lambda: certificate_findings(cards, now_ms, own=own))
    for role in AGENCIES:
        yield from tried("peers", partial(_agency, opened, role, own))


def _agency(opened: ResearcherHome, role: Role, own: VerifiedCard) -> Iterator[Finding]:
    peer = opened.config.health if role == "health" else opened.config.census
    known = opened.trust.card(role)
    yield from peer_findings(peer.address, known, own, lambda: opened.keyring.tls(own, system_clock()), system_clock)
