"""Homes: settings are typed and none is ignored, secrets are references, and one process serves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import pytest
from msgspec import Meta

from broker_common.crypto.signing import Purpose, SigningKey
from broker_common.errors import InvalidRequestError, RefusedError
from broker_common.storage.home import Home

KEY = SigningKey(Purpose.LOG, bytes(range(32)))
OTHER = SigningKey(Purpose.LOG, bytes(range(1, 33)))


def parse(text: str) -> SigningKey:
    """A log key from its line."""
    return SigningKey.parse_text(text, Purpose.LOG)


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A section."""

    open_queries: Annotated[int, Meta(ge=1)] = 8


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A configuration."""

    origin: str
    limits: Limits = Limits()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """An empty home."""
    return Home(tmp_path, "census")


def write(home: Home, text: str | bytes) -> None:
    """Write config.toml."""
    (home.path / "config.toml").write_bytes(text.encode() if isinstance(text, str) else text)


def problem(home: Home) -> str:
    """Error about a configuration."""
    with pytest.raises(InvalidRequestError) as caught:
        home.load_config(Config)
    assert caught.value.code == "CONFIG_INVALID"
    assert caught.value.details["file"] == str(home.path / "config.toml")
    return caught.value.details["problem"]


@pytest.mark.parametrize("error", [RefusedError("LOADING"), OSError("no space"), ZeroDivisionError()])
def test_load_that_fails_is_remembered_whatever_ended_it(home: Home, error: Exception) -> None:
    """Watchers of the node hear of a bug as of a wrong file, until a load succeeds."""
    with pytest.raises(type(error)), home.noting_refused_load():
        raise error
    assert home.is_load_refused
    with home.noting_refused_load():
        pass
    assert not home.is_load_refused


def test_settings_are_read_with_their_types(home: Home) -> None:
    """Written settings are used, missing ones have their defaults."""
    write(home, 'origin = "x.test/log"\n[limits]\nopen_queries = 3\n')
    assert home.load_config(Config) == Config(origin="x.test/log", limits=Limits(open_queries=3))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('origin = "x"\norigine = "y"', "origine"),
        ('origin = "x"\n[limits]\nopen_querys = 3', "open_querys"),
        ('origin = "x"\n[limts]', "limts"),
        ('origin = "x"\n[limits]\nkey = "y"', "key"),
        ("", "origin"),
        ("origin = 3", "origin"),
        ('origin = "x"\n[limits]\nopen_queries = "3"', "limits.open_queries"),
        ('origin = "x"\n[limits]\nopen_queries = 0', "limits.open_queries"),
        ('origin = "x"\n[limits]\nopen_queries = 2.5', "limits.open_queries"),
        ('origin = "x"\nlimits = 3', "limits"),
    ],
)
def test_a_wrong_setting_is_named(home: Home, text: str, named: str) -> None:
    """Misspelt, missing or mistyped: refused, and the operator reads which setting it is."""
    write(home, text)
    assert named in problem(home)


@pytest.mark.parametrize("text", [b"origin =", b"origin = 'x'\norigin = 'y'", b"\xff\xfe", b"origin = '\xff'"])
def test_what_is_no_toml_is_refused(home: Home, text: bytes) -> None:
    """A file cut short, with a key twice or in another encoding."""
    write(home, text)
    assert problem(home)


def test_a_folder_without_configuration_is_no_home(home: Home) -> None:
    """A mistyped path is told from a broken configuration."""
    with pytest.raises(InvalidRequestError) as caught:
        home.load_config(Config)
    assert caught.value.code == "HOME_INVALID"
    assert caught.value.details["role"] == "census"


def test_the_home_of_another_role_is_named(home: Home) -> None:
    """Somebody gave the other agency's folder: that is said, not which of its settings do not fit."""
    write(home, 'role = "health"\norigin = 3\n')
    with pytest.raises(InvalidRequestError) as caught:
        home.load_config(Config)
    assert caught.value.code == "HOME_INVALID"
    assert caught.value.text.endswith('its config.toml says role = "health".')
    # A role that there is none of is a wrong setting.
    write(home, 'role = "bank"\norigin = "x"\n')
    assert "role" in problem(home)


def test_the_folder_of_several_homes_names_them(home: Home) -> None:
    """Somebody gave the whole deployment's folder."""
    (home.path / "census").mkdir()
    (home.path / "census" / "config.toml").touch()
    with pytest.raises(InvalidRequestError) as caught:
        home.load_config(Config)
    assert str(home.path / "census") in caught.value.hint


def test_references_lead_to_files_and_to_the_environment(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """`file:` is relative to the home unless absolute, `env:` is a variable."""
    (home.path / "keys").mkdir()
    (home.path / "keys" / "log.key").write_text("content")
    monkeypatch.setenv("TRIPARTITE_TEST_KEY", "from the environment")
    assert home.read("file:keys/log.key") == b"content"
    assert home.read(f"file:{home.path / 'keys' / 'log.key'}") == b"content"
    assert home.read("env:TRIPARTITE_TEST_KEY") == b"from the environment"
    monkeypatch.setenv("TRIPARTITE_TEST_KEY", "")
    assert home.read("env:TRIPARTITE_TEST_KEY") == b""


@pytest.mark.parametrize(
    "reference",
    [
        "",
        "file:",
        "env:",
        "keys/log.key",
        "FILE:x",
        "http://x",
        "file:missing",
        "file:keys",
        "env:TRIPARTITE_TEST_UNSET",
    ],
)
def test_a_reference_that_leads_nowhere_is_named(home: Home, reference: str) -> None:
    """The reference stands in the message, because it is no secret."""
    (home.path / "keys").mkdir()
    with pytest.raises(InvalidRequestError) as caught:
        home.read(reference)
    assert caught.value.code == "SECRET_MISSING"
    assert caught.value.details["reference"] == reference
    assert caught.value.details["problem"]


def test_a_key_is_read_by_its_own_reader(home: Home) -> None:
    """The key comes back as a key object."""
    (home.path / "log.key").write_text(KEY.to_text() + "\n")
    assert home.read_key("file:log.key", lambda text: SigningKey.parse_text(text, Purpose.LOG)) == KEY


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", KEY.to_text().encode()[:-9], KEY.verify_key.to_text().encode()])
def test_a_file_that_holds_no_such_key_is_refused_without_quoting_it(home: Home, content: bytes) -> None:
    """Neither the error nor its text shows what was found instead."""
    (home.path / "log.key").write_bytes(content)
    with pytest.raises(InvalidRequestError) as caught:
        home.read_key("file:log.key", lambda text: SigningKey.parse_text(text, Purpose.LOG))
    assert caught.value.code == "SECRET_MISSING"
    shown = f"{caught.value} {caught.value.details} {caught.value.__cause__}"
    assert KEY.to_text().split(" ")[2][:10] not in shown
    assert KEY.verify_key.to_text().split(" ")[2][:10] not in shown


def test_a_giant_file_is_not_read_whole(home: Home) -> None:
    """A reference to the wrong file does not fill the memory."""
    (home.path / "big").write_bytes(bytes(1024 * 1024 + 5))
    assert len(home.read("file:big")) == 1024 * 1024


def test_keys_are_read_a_line_each(home: Home) -> None:
    """In the order of the file; where one key is meant, two are none: nobody could say which."""
    (home.path / "log.key").write_text(f"{KEY.to_text()}\n{OTHER.to_text()}\n")
    assert home.parse_keys("file:log.key", home.read("file:log.key"), parse) == [KEY, OTHER]
    assert [key.key_id for key in home.parse_keys("file:log.key", home.read("file:log.key"), parse)] == [
        KEY.key_id,
        OTHER.key_id,
    ]
    with pytest.raises(InvalidRequestError) as caught:
        home.read_key("file:log.key", parse)
    assert caught.value.code == "SECRET_MISSING"


def test_one_bad_line_spoils_the_file(home: Home) -> None:
    """A key that cannot be read is not passed over: it may be the one that serves."""
    for line in ("", "rubbish", KEY.verify_key.to_text(), SigningKey(Purpose.TICKET, bytes(32)).to_text()):
        (home.path / "log.key").write_text(f"{KEY.to_text()}\n{line}\n{OTHER.to_text()}\n")
        with pytest.raises(InvalidRequestError) as caught:
            home.parse_keys("file:log.key", home.read("file:log.key"), parse)
        assert caught.value.code == "SECRET_MISSING"
        assert not line or line not in f"{caught.value} {caught.value.details} {caught.value.__cause__}"


def test_only_one_process_serves_a_home(home: Home) -> None:
    """A second one is refused while the first holds it, and the hold ends with the block."""
    assert not home.is_served
    with home.serving():
        assert home.is_served
        with pytest.raises(RefusedError) as caught, Home(home.path, "census").serving():
            pytest.fail("served twice")
        assert caught.value.code == "ALREADY_RUNNING"
    assert not home.is_served
    with home.serving():
        pass


HOLD = """
import sys
from pathlib import Path
from broker_common.storage.home import Home
with Home(Path(sys.argv[1]), "census").serving():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_another_process_holds_the_home_until_it_is_killed(home: Home) -> None:
    """The lock counts between processes, and a killed process leaves none behind."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(home.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert home.is_served
        with pytest.raises(RefusedError), home.serving():
            pytest.fail("served twice")
        holder.kill()
        holder.wait()
    assert not home.is_served
