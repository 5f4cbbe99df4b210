"""Certificates in a node's own log, and the dashboard's view of one that ends while its connection stays."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import structlog
from fakes.clock import FakeClock
from fakes.randomness import SeededRandomness
from starlette.types import Message, Receive, Scope, Send

from broker_common.agency.config import DashboardConfig
from broker_common.dashboard.access import Access, Rank
from broker_common.dashboard.beside import say_certificate_ends
from broker_common.dashboard.log_picture import Certificate
from broker_common.dashboard.running import take_ranks
from broker_common.dashboard.serving import certificate_told
from broker_common.dashboard.site import CERTIFICATE
from broker_common.logs import log_as

DAY_MS = 86_400_000
NOW_MS = 20_000 * DAY_MS
FINGERPRINT = "ab" * 32


@pytest.fixture(autouse=True)
def _as_json() -> Iterator[None]:
    log_as("json")
    yield
    structlog.reset_defaults()


def logged(capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str, str, int]]:
    """Level, event, party and days of every line since the last look."""
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    return [(line["level"], line["event"], line["party"], line["days"]) for line in lines]


def test_a_certificate_s_end_is_logged_from_sixty_days_before(capsys: pytest.CaptureFixture[str]) -> None:
    """Once a day for each certificate, own and of peers; as an error when it has come."""
    own = Certificate("census", "census-agency", True, NOW_MS + 60 * DAY_MS)
    peer = Certificate("researcher", "ada", False, NOW_MS + 400 * DAY_MS)
    said = say_certificate_ends(frozenset(), [own, peer], NOW_MS)
    assert logged(capsys) == []
    said = say_certificate_ends(said, [own, peer], NOW_MS + 1)
    said = say_certificate_ends(said, [own, peer], NOW_MS + DAY_MS - 1)
    assert logged(capsys) == [("warning", "a certificate ends soon", "this node", 59)]
    said = say_certificate_ends(said, [own, peer], NOW_MS + DAY_MS)
    assert logged(capsys) == [("warning", "a certificate ends soon", "this node", 59)]
    said = say_certificate_ends(said, [own], own.end_ms - 1)
    said = say_certificate_ends(said, [own], own.end_ms)
    assert logged(capsys) == [
        ("warning", "a certificate ends soon", "this node", 0),
        ("error", "a certificate has ended", "this node", 0),
    ]
    said = say_certificate_ends(said, [peer], peer.end_ms - DAY_MS)
    assert logged(capsys) == [("warning", "a certificate ends soon", "researcher ada", 1)]


def test_a_renewed_certificate_is_not_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    """The line ends with the renewal, and comes again for another certificate on the same day."""
    old = Certificate("census", "census-agency", True, NOW_MS + DAY_MS)
    new = Certificate("census", "census-agency", True, NOW_MS + 365 * DAY_MS)
    short = Certificate("census", "census-agency", True, NOW_MS + 2 * DAY_MS)
    said = say_certificate_ends(frozenset(), [old], NOW_MS)
    said = say_certificate_ends(said, [new], NOW_MS)
    said = say_certificate_ends(said, [short], NOW_MS)
    assert [days for *_, days in logged(capsys)] == [1, 2]


async def test_a_certificate_that_ends_while_its_connection_stays_loses_its_rank() -> None:
    """TLS looks at the end in the handshake alone; the rank goes with the end."""
    clock, told = FakeClock(NOW_MS), []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del receive, send
        told.append(scope.get(CERTIFICATE, ""))

    async def receive() -> Message:
        return {}

    async def send(message: Message) -> None:
        del message

    connection = certificate_told(app, FINGERPRINT, NOW_MS + 1, clock)
    await connection({"type": "http"}, receive, send)
    clock.advance(1)
    await connection({"type": "http"}, receive, send)
    assert told == [FINGERPRINT, ""]


def test_ranks_are_those_of_the_newest_configuration() -> None:
    """A person who was removed is a reader at the next request, one who was added has the rank."""
    access = Access(
        clock=FakeClock(NOW_MS),
        randomness=SeededRandomness(),
        key="key",
        certificates={FINGERPRINT: Rank.OPERATOR},
        users={"ada": Rank.OPERATOR},
        user_header="X-Remote-User",
        proxy_secret="secret",  # noqa: S106 - of a test
    )
    take_ranks(DashboardConfig(certificates={"cd" * 32: "staff"}, users={"ben": "staff"}), access)

    def rank(fingerprint: str = "", user: str = "") -> Rank:
        headers = {"x-remote-user": user, "x-tripartite-proxy": "secret"} if user else {}
        return access.visitor(session_id="", fingerprint=fingerprint, headers=headers).rank

    assert [rank(FINGERPRINT), rank("cd" * 32), rank(user="ada"), rank(user="ben")] == [
        Rank.READER,
        Rank.STAFF,
        Rank.READER,
        Rank.STAFF,
    ]
