"""What a health log shows at one instant, as an immutable picture. It follows from the log alone, and from nobody's records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from broker_common.dashboard.log_picture import Certificate, Witnessed, certificates_of, witnessed_by
from broker_common.storage.follower import Head
from broker_common.tlog.health_state import HealthState
from broker_common.tlog.history import Happening, History, Use


@dataclass(frozen=True, slots=True)
class Picture:
    """One state of the log."""

    origin: str
    release: str
    load: str
    submitted: int
    open_questions: int
    forwarded: int
    charged: int
    settled: int
    # The number of refusals of each code, as the census node gave it.
    refusals: Mapping[str, int]
    log_size: int
    log_ms: int
    # As far as the other agency has to have cosigned the log, and when the newest entry of that was written.
    due_size: int
    due_ms: int
    checkpoint: str
    witnessed: Witnessed | None
    happenings: tuple[Happening, ...]
    use: Mapping[tuple[str, str], Use]
    certificates: tuple[Certificate, ...]


def picture_of(state: HealthState, history: History, head: Head) -> Picture:
    """The picture of a log that has been folded so far."""
    return Picture(
        origin=state.origin,
        release=state.release,
        load=state.load,
        submitted=len(state.tickets),
        open_questions=len(state.open_tickets),
        forwarded=history.forwarded,
        charged=history.charged,
        settled=history.settled,
        refusals=dict(history.refusals),
        log_size=state.size,
        log_ms=state.time_ms,
        due_size=state.size,
        due_ms=state.time_ms,
        checkpoint=head.checkpoint,
        witnessed=witnessed_by(state, head, state.membership.peers("census")),
        happenings=tuple(history.happenings),
        use=dict(history.use),
        certificates=certificates_of(state),
    )
