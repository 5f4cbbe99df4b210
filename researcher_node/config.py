"""What a researcher's machine is told: `config.toml`, typed. Unknown settings are errors; see deploy/README.md."""

from __future__ import annotations

from msgspec import Struct, field

from broker_common.storage.home import TlsConfig
from broker_common.storage.registration import Identifier, LogName

__all__ = ["CensusPeer", "HealthPeer", "KeyConfig", "ResearcherConfig"]


class KeyConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """References (`file:` or `env:`) to the researcher's keys."""

    # Signs tickets.
    ticket: str = "file:keys/ticket.key"


class HealthPeer(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The health node."""

    # Host and port where it listens.
    address: str
    # Its TLS certificate.
    certificate: str


class CensusPeer(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The census node, and the public keys by which it is known."""

    # Host and port where it listens.
    address: str
    # Its TLS certificate.
    certificate: str
    # Checks answers.
    answer_key: str
    # Checks the policy.
    policy_key: str
    # Checks the checkpoints of its log.
    log_key: str
    # Name of its log.
    origin: LogName


class ResearcherConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """config.toml of a researcher home."""

    # As both agencies registered it.
    researcher_id: Identifier
    # The study that questions belong to when none is named.
    project: Identifier
    # [health], see below.
    health: HealthPeer
    # [census], see below.
    census: CensusPeer
    # Host and port of the inbox.
    address: str = "127.0.0.1:0"
    # [tls], see below.
    tls: TlsConfig = field(default_factory=TlsConfig)
    # [keys], see below.
    keys: KeyConfig = field(default_factory=KeyConfig)
