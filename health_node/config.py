"""What the health operator sets: `config.toml`, typed. Unknown settings are errors; see deploy/README.md."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, field

from broker_common.storage.home import TlsConfig
from broker_common.storage.registration import Identifier, LogName, ResearcherPeer

__all__ = ["CensusPeer", "HealthConfig", "KeyConfig", "LimitConfig"]


class KeyConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """References (`file:` or `env:`) to the health agency's keys."""

    # Signs the log's checkpoints.
    log: str = "file:keys/log.key"
    # Signs the manifests of samples.
    manifest: str = "file:keys/manifest.key"
    # Decides who is taken when a fraction is asked for. Changing it redraws every sample.
    sampling: str = "file:keys/sampling.key"
    # Shared with the census agency, out of band; one line a key, oldest first. Needed to load and to relink, never to serve.
    linkage: str = "file:keys/linkage.key"


class LimitConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Bounds on what the outside may make the node do at once."""

    # Questions in hand at the same time; the next one is told to come back (BUSY).
    max_queries: Annotated[int, Meta(ge=1, le=1024)] = 16
    # How long a question is tried again when the census node does not answer.
    forward_deadline_ms: Annotated[int, Meta(ge=0, le=3_600_000)] = 30_000
    # How long one attempt may take, from its header to the release.
    attempt_deadline_ms: Annotated[int, Meta(ge=1000, le=3_600_000)] = 300_000
    # Threads that the data engine may use for one cohort.
    engine_threads: Annotated[int, Meta(ge=1, le=64)] = 2


class CensusPeer(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The census node, and the public keys by which it is known."""

    # Host and port where it listens.
    address: str
    # Its TLS certificate.
    certificate: str
    # Frame keys are sealed to this key.
    sample_key: str
    # Checks the policy.
    policy_key: str
    # Checks the checkpoints of its log.
    log_key: str
    # Name of its log.
    origin: LogName


class HealthConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """config.toml of a health home."""

    # Name of the agency, as in its certificate's URI SAN.
    organisation: Identifier
    # Name of the log; stands in every checkpoint.
    origin: LogName
    # [census], see below.
    census: CensusPeer
    # Host and port to listen on.
    address: str = "127.0.0.1:0"
    # [tls], see below.
    tls: TlsConfig = field(default_factory=TlsConfig)
    # [keys], see below.
    keys: KeyConfig = field(default_factory=KeyConfig)
    # [limits], see below.
    limits: LimitConfig = field(default_factory=LimitConfig)
    # [researchers.ID], see "Every role". By researcher id, as in the certificate's URI SAN.
    researchers: dict[Identifier, ResearcherPeer] = field(default_factory=dict)
