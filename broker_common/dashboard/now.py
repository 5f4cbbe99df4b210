"""What one page is drawn from: the newest picture of a log, and what the home and the node's process show besides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from broker_common.dashboard.config import DashboardConfig
from broker_common.dashboard.log_picture import (
    Certificate,
    Problem,
    Witnessed,
    disk_problems,
    key_problems,
    process_problems,
    time_problems,
)
from broker_common.dashboard.own_certificates import OwnCertificates, certificate_problems, own_certificates
from broker_common.language import phrase
from broker_common.monitoring import Figures, read_figures
from broker_common.storage.follower import Followed
from broker_common.storage.home import Home
from broker_common.tlog.history import Happening

__all__ = ["Now", "log_problems", "node_problems", "now_of"]


class LogPicture(Protocol):
    """What pictures of every agency's log have in common."""

    @property
    def happenings(self) -> tuple[Happening, ...]: ...
    @property
    def log_ms(self) -> int: ...
    @property
    def due_size(self) -> int: ...
    @property
    def due_ms(self) -> int: ...
    @property
    def witnessed(self) -> Witnessed | None: ...
    @property
    def certificates(self) -> Sequence[Certificate]: ...


PictureT = TypeVar("PictureT", bound=LogPicture)


@dataclass(frozen=True, slots=True)
class Now(Generic[PictureT]):
    """Everything that one page is drawn from."""

    followed: Followed[PictureT]
    node: Figures
    is_running: bool
    # Of the disk that the home is on.
    free_share: float
    is_load_refused: bool
    # Of the dashboard itself and its operators.
    own: OwnCertificates
    now_ms: int

    @property
    def picture(self) -> PictureT | None:
        return self.followed.view


def now_of(home: Home, followed: Followed[PictureT], config: DashboardConfig, now_ms: int) -> Now[PictureT]:
    """The state of a home and its node at this instant."""
    own = own_certificates(home, config)
    return Now(followed, read_figures(home.path), home.is_served, home.free_share, home.is_load_refused, own, now_ms)


def log_problems(now: Now[PictureT]) -> list[Problem]:
    """A log that cannot be followed any further."""
    if not now.followed.problem:
        return []
    return [
        Problem(
            phrase(
                "The log cannot be read, or breaks its own rules: follow 'When a node refuses to start' in the handbook."
            )
        )
    ]


def node_problems(now: Now[PictureT]) -> list[Problem]:
    """What somebody should see to at any agency, most urgent first. Depends on nobody's records."""
    found = disk_problems(now.free_share, is_load_refused=now.is_load_refused)
    found += process_problems(now.node, is_running=now.is_running, now_ms=now.now_ms)
    found += certificate_problems(now.own, now.now_ms)
    picture = now.picture
    if picture is None:
        return found
    found += key_problems(picture.happenings, now.now_ms)
    return found + time_problems(
        log_ms=picture.log_ms,
        due_size=picture.due_size,
        due_ms=picture.due_ms,
        witnessed=picture.witnessed,
        certificates=picture.certificates,
        now_ms=now.now_ms,
    )
