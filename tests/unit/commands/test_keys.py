"""The commands about keys and cards: what is refused before a log is touched."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from fakes.invoking import invoke

from broker_common import cli
from broker_common.commands import keys as key_commands
from broker_common.commands.keys import keys
from broker_common.commands.register import revoke_command
from broker_common.errors import InvalidRequestError


def code_of_list(home: Path) -> str:
    """With which code `keys list` fails."""
    error = invoke(keys, ["list", "--home", str(home)]).exception
    assert isinstance(error, InvalidRequestError), error
    return error.code


@pytest.mark.parametrize(
    ("config", "code"),
    [
        (b"x = " + b"[" * 20_000, "CONFIG_INVALID"),
        (b"x = " + b"9" * 5000, "CONFIG_INVALID"),
        (b"\xff", "CONFIG_INVALID"),
        (b"role = 'nobody'", "CONFIG_INVALID"),
        (b"role = ['census']", "CONFIG_INVALID"),
        (None, "HOME_INVALID"),
    ],
    ids=["nested", "endless", "no text", "no role", "no text for a role", "no file"],
)
def test_configuration_that_is_none_is_the_operators_mistake(tmp_path: Path, config: bytes | None, code: str) -> None:
    """Whatever the file holds, it is named, and no bug is blamed."""
    if config is not None:
        (tmp_path / "config.toml").write_bytes(config)
    assert code_of_list(tmp_path) == code


def test_home_whose_package_is_absent_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each node runs with the others absent; their homes may lie there all the same."""
    (tmp_path / "config.toml").write_text('role = "census"\n')
    absent = EntryPoint("census", "census_node.absent:CensusHome", "tripartite.homes")
    monkeypatch.setattr(key_commands, "entry_points", lambda **_: (absent,))
    # The package, not this module of it, is what somebody has to install.
    point = EntryPoint("census", "census_node.cli:commands", "tripartite.commands")
    monkeypatch.setattr(cli, "entry_points", lambda **_: (point,))
    cli._points.cache_clear()
    try:
        assert code_of_list(tmp_path) == "NOT_INSTALLED"
    finally:
        cli._points.cache_clear()


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
    error = invoke(command, words).exception
    assert isinstance(error, InvalidRequestError)
    assert error.code == "INVALID_VALUE"
