"""A dashboard's work beside its pages: it says problems, and goes on when something fails."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest
import structlog

from broker_common.dashboard.running import repeat, say_changes
from broker_common.errors import BrokerError, InternalError

DISK = "The disk of the home is nearly full: a node that cannot write stops."


class Looks:
    """Lets so many looks pass, and then says stop."""

    def __init__(self, times: int) -> None:
        self.left = times

    def wait(self, seconds: float) -> bool:
        """True when it is time to stop."""
        del seconds
        self.left -= 1
        return self.left < 0


def looked(do: Callable[[], object], times: int) -> list[Any]:
    """The lines of the log after so many looks."""
    stopping: Any = Looks(times)
    with structlog.testing.capture_logs() as lines:
        repeat(do, stopping)
    return list(lines)


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left on device"), InternalError("STORE_FAILED")])
def test_figures_that_cannot_be_kept_silence_nothing(failure: OSError | BrokerError) -> None:
    """On a full disk the work fails each time and is logged each time: the thread that tells of the disk goes on."""

    def work() -> None:
        raise failure

    lines = looked(work, 3)
    assert [(line["event"], line["code"]) for line in lines] == [("the dashboard could not look", "STORE_FAILED")] * 3


def test_a_mistake_of_ours_is_logged_and_the_next_look_comes() -> None:
    """Or problems, and ranks that were taken away, would go unseen from then on."""
    looks = []

    def look() -> None:
        looks.append(1)
        raise KeyError("unforeseen")

    lines = looked(look, 2)
    assert len(looks) == 2
    assert [line["kind"] for line in lines] == ["KeyError", "KeyError"]


def test_a_problem_is_said_once_when_it_comes_and_once_when_it_goes() -> None:
    """However often somebody looks meanwhile."""
    found, known = iter([[], [DISK], [DISK], []]), [set[str]()]

    def look() -> None:
        known[0] = say_changes(known[0], set(next(found)))

    assert [(line["event"], line["problem"]) for line in looked(look, 4)] == [("problem", DISK), ("problem over", DISK)]
