"""A researcher's settings: `config.toml`, typed. Unknown settings are errors; see docs/settings.md."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from broker_common.crypto.cards import Identifier


class KeyConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """References (`file:` or `env:`) to the researcher's keys. Which of several in a file serves is said by the card."""

    # Signs cards. Needed to change a key, never to ask.
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

    # Host and port where this node listens.
    address: str


class ResearcherConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """config.toml of a researcher home."""

    # Kind of this home.
    role: Literal["researcher"]
    # The researcher's id, as both agencies registered it.
    researcher_id: Identifier
    # Name of the organisation, as in its certificate's URI SAN.
    organisation: Identifier
    # The study of a question that names none.
    project: Identifier
    # [health], see below.
    health: AgencyPeer
    # [census], see below.
    census: AgencyPeer
    # Host and port of the inbox. With port 0 it changes at each start, and the census node cannot call it.
    address: str = "127.0.0.1:0"
    # Whether peers may list services and messages (gRPC reflection).
    reflection: bool = False
    # [keys], see below.
    keys: KeyConfig = field(default_factory=KeyConfig)
