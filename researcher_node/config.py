"""What a researcher's machine is told: `config.toml`, typed. Unknown settings are errors; see deploy/README.md."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from broker_common.crypto.cards import Identifier


class KeyConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """References (`file:` or `env:`) to the researcher's keys. Which of several in a file serves is said by the card."""

    # Signs the researcher's cards. Needed to change a key, never to ask.
    identity: str = "file:keys/identity.key"
    # Private keys of the TLS certificates on the card.
    tls: str = "file:keys/tls.key"
    # Signs tickets.
    ticket: str = "file:keys/ticket.key"

    @property
    def private(self) -> dict[str, str]:
        """The references to private keys, by what a card calls their purpose."""
        return {"identity": self.identity, "tls": self.tls, "ticket": self.ticket}


class AgencyPeer(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An agency's node. Its keys are on the card in `trust/`."""

    # Host and port where it listens.
    address: str


class ResearcherConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """config.toml of a researcher home."""

    # Says what kind of home this is.
    role: Literal["researcher"]
    # As both agencies registered it.
    researcher_id: Identifier
    # As in the certificate's URI SAN.
    organisation: Identifier
    # The study that questions belong to when none is named.
    project: Identifier
    # [health], see below.
    health: AgencyPeer
    # [census], see below.
    census: AgencyPeer
    # Host and port of the inbox. Port 0 is another one at each start: the census agency could not call it.
    address: str = "127.0.0.1:0"
    # Whether peers may list services and messages (gRPC reflection). Shows nothing that is not in `protos/`.
    reflection: bool = False
    # [keys], see below.
    keys: KeyConfig = field(default_factory=KeyConfig)
