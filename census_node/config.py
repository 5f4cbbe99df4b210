"""What the census operator sets: `config.toml`, typed. Unknown settings are errors; see deploy/README.md."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, field

from broker_common.storage import registration
from broker_common.storage.home import TlsConfig
from broker_common.storage.registration import Identifier, LogName

__all__ = ["CensusConfig", "HealthPeer", "KeyConfig", "LimitConfig", "ResearcherPeer"]


class KeyConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """References (`file:` or `env:`) to the census agency's keys."""

    # Signs the log's checkpoints.
    log: str = "file:keys/log.key"
    # Signs answers before they are sealed.
    answer: str = "file:keys/answer.key"
    # Opens the frame keys of samples (HPKE).
    sample: str = "file:keys/sample.key"
    # Checks the policy's signature; the private half need not be on this machine.
    policy: str = "file:keys/policy.pub"
    # Shared with the health agency, out of band; one line a key, oldest first. Needed to load and to relink, never to serve.
    linkage: str = "file:keys/linkage.key"


class LimitConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Bounds on what the outside may make the node do at once."""

    # Samples in hand at the same time; the next one is told to come back (BUSY).
    max_queries: Annotated[int, Meta(ge=1, le=1024)] = 16
    # A stream that says nothing for this long after it was opened is ended.
    header_deadline_ms: Annotated[int, Meta(ge=100, le=600_000)] = 10_000
    # A sample that takes longer than this to arrive is given up; the health node sends it again.
    sample_deadline_ms: Annotated[int, Meta(ge=1000, le=3_600_000)] = 120_000
    # How long Collect may hold a call open for an answer that is not out yet.
    collect_wait_ms: Annotated[int, Meta(ge=0, le=60_000)] = 20_000


class HealthPeer(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A health agency that may send samples."""

    # Its TLS certificate.
    certificate: str
    # The public key of its manifests.
    manifest_key: str


class ResearcherPeer(registration.ResearcherPeer, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A registered researcher whom the census node may also deliver to."""

    # Where their inbox listens; empty when they only collect.
    inbox: str = ""


class CensusConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """config.toml of a census home."""

    # Name of the agency, as in its certificate's URI SAN.
    organisation: Identifier
    # Name of the log; stands in every checkpoint.
    origin: LogName
    # Host and port to listen on.
    address: str = "127.0.0.1:0"
    # [tls], see below.
    tls: TlsConfig = field(default_factory=TlsConfig)
    # [keys], see below.
    keys: KeyConfig = field(default_factory=KeyConfig)
    # [limits], see below.
    limits: LimitConfig = field(default_factory=LimitConfig)
    # [health.ORGANISATION], see below. By organisation, as in the certificate's URI SAN.
    health: dict[Identifier, HealthPeer] = field(default_factory=dict)
    # [researchers.ID], see below. By researcher id, as in the certificate's URI SAN.
    researchers: dict[Identifier, ResearcherPeer] = field(default_factory=dict)
