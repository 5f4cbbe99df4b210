"""Who may see and do what on a dashboard: readers see the public face, staff the figures, operators also act.

There are four ways in, and the first that applies decides:

    a key in the address     on this machine: anyone who can read the home, or saw the line that the command printed
    an operator certificate  over TLS: its fingerprint stands in config.toml
    an authenticating proxy  on this machine: it names the user in a header and proves itself with a secret
    nothing                  a reader

A session is a random id in a cookie that no script can read and no other site sends. SECURITY: every request names a host
that is ours, and every action carries its session's own token and comes from our own page.

An operator sets it under `[dashboard]` in a node's config.toml: `agency.config.DashboardConfig`.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

import structlog

from broker_common.agency.config import RankName
from broker_common.language import phrase
from broker_common.values import Clock, Randomness

_log = structlog.get_logger()
COOKIE = "tripartite-session"
_ID_BYTES = 32
# A day's work; then the key is needed again.
_SESSION_MS = 12 * 3_600_000
# Sessions at the same time; the oldest ends.
_MOST_SESSIONS = 256


class Rank(IntEnum):
    """The rights of a visitor; each rank includes those before it."""

    READER = 0
    STAFF = 1
    OPERATOR = 2


@dataclass(frozen=True, slots=True)
class Visitor:
    """The sender of a request."""

    rank: Rank
    # For the operator log; empty for a reader.
    name: str = ""
    # Token that an action has to carry.
    token: str = ""


@dataclass(frozen=True, slots=True)
class Session:
    """One visitor who came with a key."""

    rank: Rank
    name: str
    token: str
    ends_ms: int


READER = Visitor(Rank.READER)


@dataclass(slots=True)
class Access:
    """The rules of one dashboard. Used from one event loop."""

    clock: Clock
    randomness: Randomness
    # Key that opens the dashboard to an operator on this machine.
    key: str
    # Rank by the SHA-256 fingerprint of a certificate.
    certificates: Mapping[str, Rank] = field(default_factory=dict)
    # Rank by the name that a proxy gives; the header that it gives it in; the secret that proves the proxy.
    users: Mapping[str, Rank] = field(default_factory=dict)
    user_header: str = ""
    proxy_secret: str = ""
    # Browsers keep cookies by host, not by port: two dashboards on one machine need two names.
    cookie: str = COOKIE
    _sessions: dict[str, Session] = field(default_factory=dict)

    def enter(self, key: str) -> str | None:
        """A session id for a visitor with the key; None for everybody else."""
        if not hmac.compare_digest(key.encode(), self.key.encode()):
            return None
        now_ms = self.clock()
        self._sessions = {name: each for name, each in self._sessions.items() if each.ends_ms > now_ms}
        while len(self._sessions) >= _MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        session_id = self.randomness(_ID_BYTES).hex()
        self._sessions[session_id] = Session(
            Rank.OPERATOR, phrase("local operator"), self.randomness(_ID_BYTES).hex(), now_ms + _SESSION_MS
        )
        return session_id

    def leave(self, session_id: str) -> None:
        self._sessions.pop(session_id, None)

    def visitor(self, *, session_id: str, fingerprint: str, headers: Mapping[str, str]) -> Visitor:
        """Who makes a request with this cookie, certificate and headers."""
        session = self._sessions.get(session_id)
        if session is not None and session.ends_ms > self.clock():
            return Visitor(session.rank, session.name, session.token)
        rank = self.certificates.get(fingerprint)
        if rank is not None:
            return Visitor(rank, f"certificate {fingerprint[:16]}", self._token(fingerprint))
        if self.user_header and self.proxy_secret and self._is_proxy(headers):
            name = headers.get(self.user_header.lower(), "")
            rank = self.users.get(name)
            if rank is not None:
                return Visitor(rank, name, self._token(f"user {name}"))
        return READER

    def _is_proxy(self, headers: Mapping[str, str]) -> bool:
        given = headers.get("x-tripartite-proxy", "")
        is_proxy = hmac.compare_digest(given.encode(), self.proxy_secret.encode())
        if given and not is_proxy:
            _log.warning("a wrong proxy secret was tried at the dashboard")
        return is_proxy

    def _token(self, subject: str) -> str:
        # Without a session of our own: a function of who it is, which no other site can know.
        return hmac.digest(self.key.encode(), subject.encode(), "sha256").hex()


def ranks(named: dict[str, RankName]) -> dict[str, Rank]:
    """Ranks by what they were named with."""
    return {name: Rank[rank.upper()] for name, rank in named.items()}
