"""Who may see and do what on a dashboard."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fakes.clock import FakeClock
from fakes.randomness import SeededRandomness

from broker_common.dashboard.access import Access, Rank

KEY = "the key that the command printed"
FINGERPRINT = "ab" * 32
SECRET = "the proxy's secret"  # noqa: S105 - of a test
HOURS = 3_600_000


@pytest.fixture
def clock() -> FakeClock:
    """A clock that stands still."""
    return FakeClock(1_000_000)


@pytest.fixture
def access(clock: FakeClock) -> Access:
    """A dashboard with every way in."""
    return Access(
        clock=clock,
        randomness=SeededRandomness(),
        key=KEY,
        certificates={FINGERPRINT: Rank.STAFF},
        users={"ada": Rank.OPERATOR, "ben": Rank.STAFF},
        user_header="X-Remote-User",
        proxy_secret=SECRET,
    )


def rank(access: Access, *, session: str = "", fingerprint: str = "", headers: dict[str, str] | None = None) -> Rank:
    """The rank of a visitor with these."""
    return access.visitor(session_id=session, fingerprint=fingerprint, headers=headers or {}).rank


def test_whoever_brings_nothing_is_a_reader(access: Access) -> None:
    """The public face is all that a stranger sees, and no action has a token for them."""
    visitor = access.visitor(session_id="", fingerprint="", headers={})
    assert (visitor.rank, visitor.token) == (Rank.READER, "")


def test_the_key_makes_an_operator_and_nothing_else_does(access: Access) -> None:
    """A session is given for the exact key alone."""
    assert [access.enter(key) for key in ("", KEY[:-1], KEY + "x", KEY.upper())] == [None] * 4
    session = access.enter(KEY)
    assert session is not None
    assert rank(access, session=session) is Rank.OPERATOR
    assert rank(access, session=session[:-1]) is Rank.READER


def test_a_session_ends(access: Access, clock: FakeClock) -> None:
    """After twelve hours, or when its owner signs out."""
    session = access.enter(KEY)
    other = access.enter(KEY)
    assert session is not None
    assert other is not None
    access.leave(other)
    assert rank(access, session=other) is Rank.READER
    clock.advance(12 * HOURS - 1)
    assert rank(access, session=session) is Rank.OPERATOR
    clock.advance(1)
    assert rank(access, session=session) is Rank.READER


def test_sessions_are_bounded(access: Access) -> None:
    """A visitor who signs in without end pushes out their own oldest sessions and takes no memory."""
    sessions = [access.enter(KEY) for _ in range(300)]
    assert rank(access, session=str(sessions[0])) is Rank.READER
    assert rank(access, session=str(sessions[-1])) is Rank.OPERATOR


def test_a_certificate_has_the_rank_that_the_operator_gave_it(access: Access) -> None:
    """Ranks go by fingerprint; a forged or unknown one is a reader's."""
    assert rank(access, fingerprint=FINGERPRINT) is Rank.STAFF
    assert rank(access, fingerprint="cd" * 32) is Rank.READER


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"x-remote-user": "ada", "x-tripartite-proxy": "the proxy's secret"}, Rank.OPERATOR),
        ({"x-remote-user": "ben", "x-tripartite-proxy": "the proxy's secret"}, Rank.STAFF),
        ({"x-remote-user": "eve", "x-tripartite-proxy": "the proxy's secret"}, Rank.READER),
        ({"x-remote-user": "ada"}, Rank.READER),
        ({"x-remote-user": "ada", "x-tripartite-proxy": ""}, Rank.READER),
        ({"x-remote-user": "ada", "x-tripartite-proxy": "a guess"}, Rank.READER),
    ],
)
def test_a_user_header_counts_from_the_proxy_alone(access: Access, headers: dict[str, str], expected: Rank) -> None:
    """Anybody can send a user's name; only the proxy knows the secret beside it."""
    assert rank(access, headers=headers) is expected


def test_without_a_configured_secret_no_header_counts(clock: FakeClock) -> None:
    """A dashboard without a proxy ignores the headers of one."""
    access = Access(
        clock=clock, randomness=SeededRandomness(), key=KEY, users={"ada": Rank.OPERATOR}, user_header="X-Remote-User"
    )
    headers = {"x-remote-user": "ada", "x-tripartite-proxy": ""}
    assert rank(access, headers=headers) is Rank.READER


def test_tokens_differ_between_visitors(access: Access) -> None:
    """The token of one's own form proves nothing for somebody else."""
    first, second = access.enter(KEY), access.enter(KEY)
    visitor: Callable[[str], str] = lambda session: access.visitor(session_id=session, fingerprint="", headers={}).token  # noqa: E731
    tokens = {
        visitor(str(first)),
        visitor(str(second)),
        access.visitor(session_id="", fingerprint=FINGERPRINT, headers={}).token,
    }
    assert len(tokens) == 3
    assert all(len(token) == 64 for token in tokens)
