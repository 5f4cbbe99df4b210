"""Sources of one page: the newest picture of a log, and the present state of the home and the node's process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from broker_common.agency.config import DashboardConfig
from broker_common.crypto.certificates import certificate_ends
from broker_common.dashboard.log_picture import (
    WARN_CERTIFICATE_MS,
    Certificate,
    LogPicture,
    Problem,
    disk_problems,
    key_problems,
    keys_changed_ms,
    process_problems,
    time_problems,
)
from broker_common.dashboard.metrics import LogFigures
from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from broker_common.monitoring import Figures, read_figures
from broker_common.storage.follower import Followed
from broker_common.storage.home import Home


@dataclass(frozen=True, slots=True)
class OwnCertificates:
    """The certificates that the files hold now, earliest end first; nothing if the dashboard speaks no TLS."""

    listed: tuple[Certificate, ...] = ()
    is_readable: bool = True


def own_certificates(home: Home, read_config: Callable[[], DashboardConfig]) -> OwnCertificates:
    """The newest certificate of each name: one that was renewed may stay in the operators' file until its end."""
    newest: dict[tuple[str, str], int] = {}
    try:
        config = read_config()
    except InvalidRequestError:
        # A slip in config.toml is logged; pages go on.
        return OwnCertificates(is_readable=False)
    for role, file in (("dashboard", config.certificate), ("operator", config.operator_certificates)):
        if not file:
            continue
        try:
            ends = certificate_ends((home.path / file).read_bytes())
        except (OSError, ValueError):
            return OwnCertificates(is_readable=False)
        for name, end_ms in ends:
            newest[role, name] = max(end_ms, newest.get((role, name), end_ms))
    found = [Certificate(role, name, is_own=False, end_ms=end_ms) for (role, name), end_ms in newest.items()]
    return OwnCertificates(tuple(sorted(found, key=lambda each: (each.end_ms, each.role, each.name))))


def certificate_problems(own: OwnCertificates, now_ms: int) -> list[Problem]:
    """Certificates that end within 60 days or have ended. The node can be asked all the same."""
    if not own.is_readable:
        return [
            Problem(
                phrase("A certificate file of the dashboard cannot be used: it goes on with what it had."), stops=False
            )
        ]
    ending = {each.role for each in own.listed if each.end_ms - now_ms < WARN_CERTIFICATE_MS}
    texts = {
        "dashboard": phrase(
            "The dashboard's certificate ends within 60 days or has ended: make it again as the handbook says."
        ),
        "operator": phrase("An operator's certificate ends within 60 days or has ended: see whose, under Activity."),
    }
    return [Problem(text, stops=False) for role, text in texts.items() if role in ending]


PictureT = TypeVar("PictureT", bound=LogPicture)


@dataclass(frozen=True, slots=True)
class Now(Generic[PictureT]):
    """Everything that one page is drawn from."""

    followed: Followed[PictureT]
    node: Figures
    is_running: bool
    # Figures of the disk that the home is on.
    free_share: float
    is_load_refused: bool
    # Texts about the dashboard itself and its operators.
    own: OwnCertificates
    now_ms: int

    @property
    def picture(self) -> PictureT | None:
        return self.followed.view


def now_of(
    home: Home, followed: Followed[PictureT], read_config: Callable[[], DashboardConfig], now_ms: int
) -> Now[PictureT]:
    """The state of a home and its node at this instant."""
    own = own_certificates(home, read_config)
    return Now(followed, read_figures(home.path), home.is_served, home.free_share, home.is_load_refused, own, now_ms)


def log_figures(
    now: Now[PictureT],
    picture: PictureT,
    *,
    open_questions: int,
    is_shut_down: bool | None = None,
    answers: int | None = None,
    worst_belief: float | None = None,
    max_belief: float | None = None,
) -> LogFigures:
    """A log's metrics; None where a log has no such figure."""
    return LogFigures(
        size=picture.log_size,
        newest_ms=picture.log_ms,
        due_size=picture.due_size,
        due_ms=picture.due_ms,
        is_shut_down=is_shut_down,
        answers=answers,
        open_questions=open_questions,
        worst_belief=worst_belief,
        max_belief=max_belief,
        witnessed_size=None if picture.witnessed is None else picture.witnessed.size,
        witnessed_ms=None if picture.witnessed is None else picture.witnessed.time_ms,
        keys_changed_ms=keys_changed_ms(picture.happenings),
        certificate_ends=[(each.role, each.is_own, each.end_ms) for each in (*picture.certificates, *now.own.listed)],
    )


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
    """Problems that an operator of any agency should attend to, most urgent first. Depends on nobody's records."""
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
