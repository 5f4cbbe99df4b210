"""Settings that the `config.toml` of both agencies have. The comment above a setting is its documentation; see docs/settings.md."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct, field

from broker_common.crypto.cards import Identifier, LogName
from broker_common.crypto.certificates import Role
from broker_common.logs import LogFormat

RankName: TypeAlias = Literal["reader", "staff", "operator"]
_Fingerprint: TypeAlias = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]


class DashboardConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where a dashboard is served, and to whom beside readers."""

    # Host and port of pages, probes and metrics; empty: none. Only a local address unless `certificate` is set.
    address: str = ""
    # Whether the serving node starts the dashboard. False: a service of its own does, and pages outlive the node.
    with_node: bool = True
    # Names by which browsers reach the dashboard through a proxy or over TLS, without port.
    hosts: tuple[str, ...] = ()
    # Hours between two computations of the figures about people.
    figures_every_hours: Annotated[int, Meta(ge=1, le=24 * 31)] = 24
    # TLS: path in the home of the dashboard's certificate, in PEM.
    certificate: str = ""
    # TLS: path in the home of its private key, in PEM.
    certificate_key: str = ""
    # TLS: path in the home of the operators' certificates, one after the other.
    operator_certificates: str = ""
    # Rank by the SHA-256 fingerprint of an operator's certificate, in lower-case hex.
    certificates: dict[_Fingerprint, RankName] = field(default_factory=dict)
    # Behind an authenticating proxy on this machine: the header in which it names the user.
    proxy_user_header: str = ""
    # The reference (`file:` or `env:`) of the secret, at least 32 characters, that the proxy sends as X-Tripartite-Proxy.
    proxy_secret: str = ""
    # Rank of each user that the proxy names.
    users: dict[str, RankName] = field(default_factory=dict)


class AgencyKeyConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """References (`file:` or `env:`) to an agency's keys. Which of several in a file serves is said by its card."""

    # The public key that signed the agency's first card.
    identity: str = "file:keys/identity.pub"
    # Signs cards. Needed to change a key, never to serve.
    identity_private: str = "file:keys/identity.key"
    # Private keys of the TLS certificates on the card.
    tls: str = "file:keys/tls.key"
    # Signs the log's checkpoints.
    log: str = "file:keys/log.key"
    # Cosigns the other agency's checkpoints.
    witness: str = "file:keys/witness.key"
    # Shared with the other agency by hand; one key a line, oldest first. Needed to load and to relink, never to serve.
    linkage: str = "file:keys/linkage.key"

    @property
    def private(self) -> dict[str, str]:
        """The references to private keys, by what a card calls their purpose."""
        return {"identity": self.identity_private, "tls": self.tls, "log": self.log, "witness": self.witness}


class AgencyConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """config.toml of an agency's home."""

    # Kind of this home.
    role: Role
    # Name of the organisation, as in its certificate's URI SAN.
    organisation: Identifier
    # Name of the log, in every checkpoint.
    origin: LogName
    # Host and port to listen on.
    address: str = "127.0.0.1:0"
    # Whether peers may list services and messages (gRPC reflection).
    reflection: bool = False
    # Lines on standard error: "text", names and values, or "json", an object a line.
    log_format: LogFormat = "text"
    # Log how long each step of a question took. For tuning only: these times are finer than ticks and follow the noise.
    log_stages: bool = False
    # [keys], see below.
    keys: AgencyKeyConfig = field(default_factory=AgencyKeyConfig)
    # [dashboard], see below.
    dashboard: DashboardConfig = field(default_factory=DashboardConfig)
