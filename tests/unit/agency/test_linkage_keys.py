"""The linkage key file: the log says which of its keys are used, a new key is there before it is, and none is lost."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from fakes.randomness import SeededRandomness

from broker_common.agency.linkage import LinkageKeys, NextKey
from broker_common.crypto.linkage import LinkageChain, LinkageKey
from broker_common.errors import InvalidRequestError
from broker_common.storage.home import Home

A, B, C, D = (LinkageKey(bytes([number]) * 32) for number in range(4))
NEW = NextKey(new=True)
HELD = NextKey()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with room for keys."""
    (tmp_path / "keys").mkdir()
    return tmp_path


def chain_id(*keys: LinkageKey) -> str:
    """The name of the chain of these keys."""
    return LinkageChain(keys).chain_id


def holding(home: Path, *keys: LinkageKey) -> LinkageKeys:
    """The home's keys, whose file holds these."""
    (home / "keys" / "linkage.key").write_text(LinkageChain(keys).to_text() + "\n")
    return LinkageKeys(Home(home, "health"), "file:keys/linkage.key")


def held(home: Path) -> tuple[LinkageKey, ...]:
    """Keys in the file now."""
    return LinkageChain.parse_text((home / "keys" / "linkage.key").read_text()).keys


def brought(home: Path, *keys: LinkageKey) -> NextKey:
    """The other agency's file, on a stick."""
    (home / "stick").write_text(LinkageChain(keys).to_text() + "\n")
    return NextKey(file=home / "stick")


def refusal(attempt: Callable[[], object]) -> InvalidRequestError:
    """How it is refused."""
    with pytest.raises(InvalidRequestError) as caught:
        attempt()
    return caught.value


# --- what is used ----------------------------------------------------------------------------------------------------


def test_the_chain_of_the_log_is_used_and_no_key_beyond_it(home: Path) -> None:
    """A file that was prepared for a change changes nothing before the log says so."""
    keys = holding(home, A, B, C)
    for used in ((A,), (A, B), (A, B, C)):
        assert keys.chain(chain_id(*used)).keys == used


def test_the_first_load_uses_the_whole_file(home: Path) -> None:
    """An agency that joins after changes of the key begins with all of them."""
    assert holding(home, A, B).chain("").keys == (A, B)


@pytest.mark.parametrize("file", [(B,), (B, A), (A, C), (A,), (C, A, B)])
def test_a_file_without_the_chain_of_the_log_is_refused(home: Path, file: tuple[LinkageKey, ...]) -> None:
    """A lost, replaced or reordered key would link nobody: the chain is asked for by its name."""
    error = refusal(lambda: holding(home, *file).chain(chain_id(A, B)))
    assert error.code == "LINKAGE_KEY_MISSING"
    assert chain_id(A, B) in error.text
    assert refusal(lambda: holding(home, *file).next_chain(chain_id(A, B), NEW, os.urandom)).code == error.code
    assert held(home) == file


def test_a_damaged_file_is_named_and_not_quoted(home: Path) -> None:
    """Half a key is no key, and is shown to nobody."""
    keys = holding(home, A, B)
    (home / "keys" / "linkage.key").write_text(LinkageChain([A, B]).to_text()[:-5])
    error = refusal(lambda: keys.chain(chain_id(A)))
    assert error.code == "SECRET_MISSING"
    assert "AQEB" not in error.text + error.hint


# --- the next key ----------------------------------------------------------------------------------------------------


def test_a_new_key_is_added_and_the_file_stays_its_owners(home: Path) -> None:
    """The old keys stay in front of it; nobody else can read the file, and nothing else is left beside it."""
    keys = holding(home, A)
    chain = keys.next_chain(chain_id(A), NEW, SeededRandomness())
    assert chain.keys[0] == A
    assert held(home) == chain.keys
    assert len(chain.keys) == 2
    file = home / "keys" / "linkage.key"
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(file.parent.iterdir()) == [file]


def test_two_new_keys_are_never_the_same(home: Path) -> None:
    """They come from the randomness that is given."""
    first = holding(home, A).next_chain(chain_id(A), NEW, os.urandom)
    assert holding(home, A).next_chain(chain_id(A), NEW, os.urandom) != first


def test_an_attempt_that_died_is_gone_on_with(home: Path) -> None:
    """The key that the first attempt made is taken by the second one, however it is asked for; no third key comes of it."""
    keys = holding(home, A)
    chain = keys.next_chain(chain_id(A), NEW, SeededRandomness())
    for source in (NEW, HELD, brought(home, *chain.keys)):
        assert keys.next_chain(chain_id(A), source, SeededRandomness("other")) == chain
        assert held(home) == chain.keys


@pytest.mark.parametrize("file", [(A, B), (A, B, C)])
def test_the_other_agencys_key_file_is_taken(home: Path, file: tuple[LinkageKey, ...]) -> None:
    """The whole file, also one that is two changes ahead."""
    chain = holding(home, A).next_chain(chain_id(A), brought(home, *file), os.urandom)
    assert held(home) == chain.keys == file


@pytest.mark.parametrize("file", [(B,), (C,), (B, A), (B, C), (C, A, B)])
def test_a_foreign_key_file_is_not_added_to_our_chain(home: Path, file: tuple[LinkageKey, ...]) -> None:
    """One line or several: no chain that begins with other keys is ever the other agency's, whatever is done later."""
    keys = holding(home, A)
    error = refusal(lambda: keys.next_chain(chain_id(A), brought(home, *file), os.urandom))
    assert error.code == "RELINK_REFUSED"
    assert chain_id(A) in error.text
    assert chain_id(*file) in error.text
    assert "'When the two chains differ' in docs/keys.md" in error.hint
    assert held(home) == (A,)


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        ((B,), "does not go on from"),
        ((A, B), "in force here already"),
        ((A,), "which goes on from it, is in force"),
        ((B, A), "does not go on from"),
        ((A, C, D), "does not go on from"),
        ((A, C), "does not go on from"),
        ((C, D), "does not go on from"),
    ],
)
def test_a_key_file_that_does_not_go_on_from_ours_is_refused(
    home: Path, file: tuple[LinkageKey, ...], problem: str
) -> None:
    """An old file, our own file, a line of it, or the file of somebody who changed to another key before: nothing is changed."""
    keys = holding(home, A, B)
    error = refusal(lambda: keys.next_chain(chain_id(A, B), brought(home, *file), os.urandom))
    assert error.code == "RELINK_REFUSED"
    assert problem in error.text
    assert held(home) == (A, B)


@pytest.mark.parametrize("file", [(C,), (A, C)])
def test_a_key_that_waits_is_not_dropped_for_another(home: Path, file: tuple[LinkageKey, ...]) -> None:
    """When both agencies made a key, somebody must decide; a key that is in force somewhere cannot be made again."""
    keys = holding(home, A, B)
    error = refusal(lambda: keys.next_chain(chain_id(A), brought(home, *file), os.urandom))
    assert error.code == "RELINK_REFUSED"
    assert held(home) == (A, B)


def test_without_a_new_key_there_is_nothing_to_do(home: Path) -> None:
    """The command does not make a key that nobody asked for."""
    error = refusal(lambda: holding(home, A).next_chain(chain_id(A), HELD, os.urandom))
    assert error.code == "RELINK_REFUSED"
    assert "--new-key" in error.hint
    assert held(home) == (A,)


@pytest.mark.parametrize(
    "content", [None, b"", b"secret linkage AAAA", b"\xff\xfe", b"secret sampling " + b"A" * 43 + b"="]
)
def test_a_file_of_something_else_is_refused_without_quoting_it(home: Path, content: bytes | None) -> None:
    """A wrong path, or a wrong key: named, not shown."""
    keys = holding(home, A)
    if content is not None:
        (home / "stick").write_bytes(content)
    error = refusal(lambda: keys.next_chain(chain_id(A), NextKey(file=home / "stick"), os.urandom))
    assert error.code == "RELINK_REFUSED"
    assert "AAAA" not in error.text + error.hint
    assert held(home) == (A,)


def test_keys_outside_the_home_are_the_operators_to_change(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable cannot be written from here; once it holds the new key, that one is taken."""
    keys = LinkageKeys(Home(home, "health"), "env:LINKAGE")
    monkeypatch.setenv("LINKAGE", LinkageChain([A]).to_text())
    assert keys.place == "env:LINKAGE"
    for source in (NEW, brought(home, A, B)):
        assert refusal(lambda: keys.next_chain(chain_id(A), source, os.urandom)).code == "INVALID_VALUE"  # noqa: B023 - called at once
    monkeypatch.setenv("LINKAGE", LinkageChain([A, B]).to_text())
    assert keys.next_chain(chain_id(A), HELD, os.urandom).keys == (A, B)


def test_a_link_to_the_key_file_stays_a_link(home: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keys that are kept on another volume stay there."""
    volume = tmp_path_factory.mktemp("volume") / "linkage"
    volume.write_text(LinkageChain([A]).to_text())
    (home / "keys" / "linkage.key").symlink_to(volume)
    keys = LinkageKeys(Home(home, "health"), "file:keys/linkage.key")
    keys.next_chain(chain_id(A), brought(home, A, B), os.urandom)
    assert (home / "keys" / "linkage.key").is_symlink()
    assert LinkageChain.parse_text(volume.read_text()).keys == (A, B)


def test_what_a_killed_attempt_left_of_a_key_is_swept_away(home: Path) -> None:
    """Half a key file, or a whole one that never came into its place, does not lie about for ever."""
    keys = holding(home, A)
    left = home / "keys" / ".linkage.key.4711.part"
    left.write_text(LinkageChain([A, D]).to_text())
    keys.next_chain(chain_id(A), brought(home, A, B), os.urandom)
    assert not left.exists()
    assert held(home) == (A, B)
