"""New homes: whole or not at all, for their owner alone, with a configuration that says what each setting is."""

from __future__ import annotations

import stat
import tomllib
from pathlib import Path

import msgspec
import pytest

from broker_common.errors import InvalidRequestError
from broker_common.storage.creation import config_text, new_home, verify_identifier, verify_origin
from census_node.config import CensusConfig, KeyConfig
from health_node.config import CensusPeer, HealthConfig, LimitConfig

CONFIG = HealthConfig(
    role="health",
    organisation="ministry",
    origin="health.ministry.example/log",
    places=1_048_576,
    rows={"stays": 2_097_152, "visits": 524_288},
    census=CensusPeer(address="census.example:7003", organisation="statistics"),
    address="0.0.0.0:7002",
    limits=LimitConfig(max_queries=4),
)


def test_a_configuration_is_read_back_as_it_was() -> None:
    """Whatever was chosen, in sections as well; what is left out is the default."""
    assert msgspec.toml.decode(config_text(CONFIG), type=HealthConfig) == CONFIG
    census = CensusConfig(role="census", organisation="s", origin="o", keys=KeyConfig(oversight="env:KEY"))
    assert msgspec.toml.decode(config_text(census), type=CensusConfig) == census


def test_a_configuration_says_what_each_setting_is() -> None:
    """Every setting stands below its comment; declared figures stand there even where they are the default."""
    text = config_text(msgspec.structs.replace(CONFIG, places=524_288, rows={}, limits=LimitConfig()))
    lines = text.splitlines()
    for at, line in enumerate(lines):
        if " = " in line and not line.startswith("#"):
            assert lines[at - 1].startswith("# "), line
    assert "Name of the log, in every checkpoint." in text
    assert tomllib.loads(text).keys() == {"role", "organisation", "origin", "places", "census", "address"}


def test_a_home_is_for_its_owner_alone(tmp_path: Path) -> None:
    """Also in a folder that others could enter before."""
    (tmp_path / "home").mkdir(mode=0o755)
    with new_home(tmp_path / "home", CONFIG):
        pass
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "home").iterdir()}
    assert modes == {"config.toml": 0o600, "keys": 0o700}
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700


@pytest.mark.parametrize("is_there", [True, False])
def test_what_fails_leaves_nothing(tmp_path: Path, is_there: bool) -> None:
    """An empty folder stays an empty folder; one that was not there is not there."""
    home = tmp_path / "home"
    if is_there:
        home.mkdir()

    def fail() -> None:
        (home / "keys" / "tls.key").write_text("half a key")
        (home / "link").symlink_to(tmp_path)
        raise RuntimeError

    with pytest.raises(RuntimeError), new_home(home, CONFIG):
        fail()
    assert (list(home.iterdir()) if is_there else home.exists()) == ([] if is_there else False)
    assert tmp_path.is_dir()


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    """Nobody's files become part of a home, or go with it."""
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(InvalidRequestError) as refused, new_home(tmp_path, CONFIG):
        pass
    assert refused.value.code == "HOME_INVALID"
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("name", ["", "Ministry", "ministry of health", "-a", "a" * 64, "é"])
def test_a_name_that_no_certificate_may_hold_is_refused(name: str) -> None:
    """Before anything is made."""
    with pytest.raises(InvalidRequestError) as refused:
        verify_identifier("--organisation", name)
    assert refused.value.code == "INVALID_VALUE"


@pytest.mark.parametrize("origin", ["", "two words", "a+b", "o" * 201])
def test_a_name_that_no_checkpoint_may_hold_is_refused(origin: str) -> None:
    """As above."""
    with pytest.raises(InvalidRequestError) as refused:
        verify_origin("--origin", origin)
    assert refused.value.code == "INVALID_VALUE"
