"""`up` and a node that was killed: what is tried again, and what is not; and what is said of what nodes log."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_common.errors import ExitCode, InternalError, InvalidRequestError
from deploy import supervise
from deploy.supervise import ChildFailedError, Nodes, node_log


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


def test_what_nodes_log_is_said_only_where_something_failed(tmp_path: Path) -> None:
    """Its end, that is; a refusal is what an attacker is after, a wish that cannot be granted no node's doing."""
    said: list[str] = []
    file = tmp_path / "nodes.log"
    with node_log(file, said.append) as log:
        log.write(b"refused BUSY\n" * 100)
    with pytest.raises(InvalidRequestError), node_log(file, said.append):
        raise InvalidRequestError("INVALID_VALUE", name="x", problem="y", remedy="z")
    assert not said
    with file.open("ab") as log:
        log.write(b"stopped INTEGRITY\n")
    with pytest.raises(InternalError), node_log(file, said.append):
        raise InternalError("INTERNAL")
    (text,) = said
    assert text.endswith("refused BUSY\nstopped INTEGRITY")
    assert text.count("BUSY") == 39
