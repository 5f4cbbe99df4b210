"""The fold that `audit verify` needs: whose log it is, whom it knows, which policy is named. Everything else is for replay."""

from __future__ import annotations

from broker_common.crypto.certificates import Role
from broker_common.crypto.commitments import hash_bytes
from broker_common.crypto.signing import VerifyKey
from broker_common.tlog.entries import Adopted, Entry, Event
from broker_common.tlog.replay import LogState

__all__ = ["KeyState"]


class KeyState(LogState):
    """Places, times, policies by name, and membership of a log of either agency."""

    def __init__(self, role: Role, identity_key: VerifyKey) -> None:
        super().__init__(identity_key)
        self.role = role

    def _take(self, entry: Entry, event: Event) -> None:
        del entry
        if isinstance(event, Adopted):
            self.policy_hash = hash_bytes(event.document.encode()).hex()
