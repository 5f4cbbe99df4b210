"""Making an auditor's home: an oversight key whose public half the census agency gets, and the cards of whom to trust."""

from __future__ import annotations

import os
from pathlib import Path

from broker_common.audit.home import TRUST, AuditorConfig, KeyConfig
from broker_common.crypto.cards import VerifiedCard, verify_successor
from broker_common.crypto.sealing import OpeningKey, SealingKey
from broker_common.storage.creation import new_home
from broker_common.storage.durable import make_folder, replace_file
from broker_common.storage.home import KEYS, Home
from broker_common.storage.registration import read_card
from broker_common.tlog.membership import peer_name

_OVERSIGHT = f"{KEYS}/oversight.key"


def create_home(path: Path, *, health: str = "") -> SealingKey:
    """A new home that trusts nobody yet; gives the public oversight key.

    Raises:
        InvalidRequestError: HOME_INVALID, the folder holds something.
    """
    config = AuditorConfig(role="auditor", health=health, keys=KeyConfig(oversight=f"file:{_OVERSIGHT}"))
    with new_home(path, config):
        make_folder(path / TRUST)
        oversight = OpeningKey.generate(os.urandom)
        replace_file(path / _OVERSIGHT, f"{oversight.to_text()}\n".encode("ascii"), mode=0o600)
    return oversight.sealing_key


def trust(path: Path, card: VerifiedCard, *, replace: bool = False) -> None:
    """Durably keep a card whose fingerprint people have compared.

    An older card of the party that it follows stays: whatever the party's log says since follows from that one.

    Raises:
        InvalidRequestError: HOME_INVALID, CONFIG_INVALID; CARD_UNRELATED, WRONG_ORGANISATION or CARD_OUTDATED.
    """
    Home(path, "auditor").load_config(AuditorConfig)
    make_folder(path / TRUST)
    identity = card.card.identity
    file = path / TRUST / f"{identity.role}-{peer_name(identity)}.card"
    if file.is_file() and not replace:
        before = read_card(file)
        if before.signed != card.signed:
            verify_successor(before, card.signed)
        return
    replace_file(file, card.signed.to_bytes() + b"\n")
