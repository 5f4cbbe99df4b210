"""`up` and a node that was killed: what is tried again, and what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_common.errors import ExitCode
from deploy import supervise
from deploy.supervise import ChildFailedError, Nodes


class Starting(Nodes):
    """Nodes whose starts end as they are told to; after that they are ready."""

    def __init__(self, *codes: int) -> None:
        self.said: list[str] = []
        super().__init__(Path(), say=self.said.append)
        self.codes = list(codes)

    async def _start(self, role: str) -> str:
        if self.codes:
            raise ChildFailedError(role, self.codes.pop(0))
        return "ready"


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "_RESTART_SECONDS", 0)


async def test_home_that_is_still_held_is_tried_again() -> None:
    """Or a port; or the node is killed once more."""
    nodes = Starting(ExitCode.REFUSED, -9, ExitCode.REFUSED)
    assert await nodes._restart("census")
    assert nodes.said == ["census node is back"]


@pytest.mark.parametrize("code", [ExitCode.INTERNAL, ExitCode.INVALID_REQUEST, ExitCode.USAGE, ExitCode.OK])
async def test_node_that_refuses_to_serve_is_left_alone(code: int) -> None:
    """A damaged store or a missing key must not be talked out of by trying again, twice a second, for ever."""
    nodes = Starting(code)
    assert not await nodes._restart("census")
    assert not nodes.codes
    assert "stopped by itself" in nodes.said[0]
