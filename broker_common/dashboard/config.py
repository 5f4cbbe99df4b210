"""What an operator sets of a dashboard: `[dashboard]` in a node's config.toml."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from broker_common.dashboard.access import Rank

_Rank = Literal["reader", "staff", "operator"]
_Fingerprint = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]


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
    certificates: dict[_Fingerprint, _Rank] = field(default_factory=dict)
    # Behind an authenticating proxy on this machine: the header in which it names the user.
    proxy_user_header: str = ""
    # The reference (`file:` or `env:`) of the secret, at least 32 characters, that the proxy sends as X-Tripartite-Proxy.
    proxy_secret: str = ""
    # Rank of each user that the proxy names.
    users: dict[str, _Rank] = field(default_factory=dict)


def ranks(named: dict[str, _Rank]) -> dict[str, Rank]:
    """Ranks by what they were named with."""
    return {name: Rank[rank.upper()] for name, rank in named.items()}
