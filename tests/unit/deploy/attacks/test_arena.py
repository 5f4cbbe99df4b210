"""Where an attack runs: what its nodes log is kept from the terminal until it is needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_common.errors import InternalError, InvalidRequestError
from deploy.attacks.arena import node_log


def test_what_nodes_log_is_said_only_where_the_attack_could_not_be_made(tmp_path: Path) -> None:
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
