"""The commands about keys and cards: what is refused before a log is touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from broker_common.card_commands import revoke_command
from broker_common.errors import InvalidRequestError


class Untouched:
    """A home that nothing may be written to."""

    def revoke(self, *_: object) -> None:
        pytest.fail("it was logged")


@pytest.mark.parametrize("reason", ["", " \t", "x" * 4097, "\udcff"], ids=["empty", "blank", "long", "no text"])
def test_a_reason_that_no_log_can_hold_revokes_nobody(tmp_path: Path, reason: str) -> None:
    """It is refused as the operator's mistake, not as a bug."""
    opened: Any = Untouched()
    command = revoke_command(lambda _: opened, ["health"])
    words = ["--home", str(tmp_path), "health", "health-on", "--reason", reason]
    error = CliRunner().invoke(command, words).exception
    assert isinstance(error, InvalidRequestError)
    assert error.code == "INVALID_VALUE"
