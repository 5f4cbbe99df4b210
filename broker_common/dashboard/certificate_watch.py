"""A serving node's own log names every certificate that ends within 60 days, whether or not a dashboard runs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TypeAlias

import structlog

from broker_common.dashboard.log_picture import WARN_CERTIFICATE_MS, Certificate, certificates_of
from broker_common.storage.journal import Journal, StateT
from broker_common.values import Clock

__all__ = ["say_certificate_ends", "watch_certificates"]

_log = structlog.get_logger()
# Between two lines about the same certificate.
_DAY_MS = 86_400_000
# Between looks: an end is said within a minute. A look reads what the node has in memory.
_LOOK_SECONDS = 30.0
# A certificate, whether it has ended, and the day on which that was said.
_Said: TypeAlias = tuple[Certificate, bool, int]


async def watch_certificates(journal: Journal[StateT], clock: Clock) -> None:
    """Log certificates that end soon or have ended, once a day each, until cancelled."""

    def look() -> tuple[Certificate, ...]:
        with journal.reading() as state:
            return certificates_of(state)

    said: frozenset[_Said] = frozenset()
    while True:
        said = say_certificate_ends(said, await journal.glance(look), clock())
        await asyncio.sleep(_LOOK_SECONDS)


def say_certificate_ends(said: frozenset[_Said], certificates: Iterable[Certificate], now_ms: int) -> frozenset[_Said]:
    """Log what was not said today; gives what is said now."""
    ending = [each for each in certificates if each.end_ms - now_ms < WARN_CERTIFICATE_MS]
    found = {(each, each.end_ms <= now_ms): now_ms // _DAY_MS for each in ending}
    for (each, has_ended), day in found.items():
        if (each, has_ended, day) in said:
            continue
        tell, event = (
            (_log.error, "a certificate has ended") if has_ended else (_log.warning, "a certificate ends soon")
        )
        tell(
            event,
            party="this node" if each.is_own else f"{each.role} {each.name}",
            ends=datetime.fromtimestamp(each.end_ms / 1000, UTC).isoformat(timespec="seconds"),
            days=max(0, each.end_ms - now_ms) // _DAY_MS,
            remedy="tripartite keys rotate tls" if each.is_own else "that party renews it and hands over its card",
        )
    return frozenset((each, has_ended, day) for (each, has_ended), day in found.items())
