"""The keys of a home as they are in its files now."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_common.crypto.cards import SAMPLING
from broker_common.crypto.sampling import SamplingKey
from broker_common.crypto.secret import secret_text
from broker_common.parties.keyring import Keyring
from broker_common.storage.home import Home

REFERENCE = "file:sampling.key"
BEFORE, AFTER = SamplingKey(bytes(range(32))), SamplingKey(bytes(range(1, 33)))


def text_of(key: SamplingKey) -> str:
    """A key's line in its file."""
    return f"{secret_text(SAMPLING, key.expose())}\n"


def test_keys_are_those_of_the_bytes_they_are_remembered_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is replaced just after it was read is read once: new keys are not taken for those of the old bytes."""
    home, file = Home(tmp_path, "health"), tmp_path / "sampling.key"
    file.write_text(text_of(BEFORE), encoding="ascii")
    read = Home.read

    def replaced_meanwhile(self: Home, reference: str) -> bytes:
        data = read(self, reference)
        file.write_text(text_of(AFTER), encoding="ascii")
        return data

    keyring = Keyring(home, {SAMPLING: REFERENCE})
    with monkeypatch.context() as patched:
        patched.setattr(Home, "read", replaced_meanwhile)
        assert keyring.sampling(f"secret {BEFORE.key_id}").key_id == BEFORE.key_id
    assert keyring.sampling(f"secret {AFTER.key_id}").key_id == AFTER.key_id
    file.write_text(text_of(BEFORE), encoding="ascii")
    assert keyring.sampling(f"secret {BEFORE.key_id}").key_id == BEFORE.key_id
