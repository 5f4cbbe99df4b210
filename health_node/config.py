"""The health operator's settings: `config.toml`, typed. Unknown settings are errors; see docs/settings.md."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from broker_common.agency.config import AgencyConfig, AgencyKeyConfig
from broker_common.crypto.cards import Identifier
from broker_common.privacy.delays import DECLARED_STEP
from broker_common.query.dictionary import Dictionary
from health_node.people.tables import Declared, declared_of


class KeyConfig(AgencyKeyConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """References (`file:` or `env:`) to the health agency's keys. Which of several in a file serves is said by its card."""

    # Signs the manifests of samples.
    manifest: str = "file:keys/manifest.key"
    # Decides who is taken when a fraction is asked for; a new key takes other people.
    sampling: str = "file:keys/sampling.key"

    @property
    def private(self) -> dict[str, str]:
        """The references to private keys, by what a card calls their purpose."""
        return super().private | {"manifest": self.manifest, "sampling": self.sampling}


class LimitConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Bounds on what the outside may make the node do at once."""

    # Questions in work at once; others wait in the queue. At most the census node's `max_queries`. Each holds one bit for each
    # declared place, twice while it is sent.
    max_queries: Annotated[int, Meta(ge=1, le=1024)] = 16
    # Questions that may wait in the queue; beyond them a researcher with one in it is refused for now (BUSY).
    max_waiting: Annotated[int, Meta(ge=1, le=1_000_000)] = 1024
    # The same for one researcher. Keep its sum with `max_queries` below the policy's `open_quotes`, or waiting costs quotes.
    max_waiting_each: Annotated[int, Meta(ge=1, le=1_000_000)] = 32
    # When to try again, as BUSY says it: always the same for everybody.
    retry_seconds: Annotated[int, Meta(ge=1, le=3600)] = 1
    # How long to try again when the census node does not answer.
    forward_deadline_ms: Annotated[int, Meta(ge=0, le=3_600_000)] = 30_000
    # How long one attempt may take, from first byte to release.
    attempt_deadline_ms: Annotated[int, Meta(ge=1000, le=3_600_000)] = 300_000
    # How long one attempt to send the roster may take; another follows.
    roster_deadline_ms: Annotated[int, Meta(ge=1000, le=86_400_000)] = 1_800_000
    # Threads that may work on one cohort.
    engine_threads: Annotated[int, Meta(ge=1, le=64)] = 2
    # Passes over one person or row that all threads do in a second; two idle cores do five times the default. Lower it for a
    # slower machine: it decides which criteria are refused.
    work_per_second: Annotated[int, Meta(ge=1_000_000, le=10**15)] = 4_000_000_000


class CensusPeer(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The census node that samples go to. Its keys are on the card under which it is registered."""

    # Host and port where this node listens.
    address: str
    # Name of the census agency, as on its card.
    organisation: Identifier


class HealthConfig(AgencyConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """config.toml of a health home."""

    # Kind of this home.
    role: Literal["health"]
    # The most people that a load may ever hold: a multiple of 524,288. The price of criteria and the policy's delays follow from
    # it. Takes effect with the next load.
    places: Annotated[int, Meta(ge=DECLARED_STEP, le=2**31, multiple_of=DECLARED_STEP)] = 524_288
    # The same for the rows of each event table, and of each column of several values with more than 64 codes, by name; of
    # "people" where households are linked. A table that is not named has 524,288.
    rows: dict[str, Annotated[int, Meta(ge=DECLARED_STEP, le=2**31, multiple_of=DECLARED_STEP)]] = field(
        default_factory=dict
    )
    # [census], see below.
    census: CensusPeer
    # [keys], see below.
    keys: KeyConfig = field(default_factory=KeyConfig)
    # [limits], see below.
    limits: LimitConfig = field(default_factory=LimitConfig)

    def declared(self, dictionary: Dictionary) -> Declared:
        """The declared size of a load under this dictionary.

        Raises:
            InvalidRequestError: CONFIG_INVALID, DICTIONARY_UNUSABLE.
        """
        return declared_of(dictionary, self.places, self.rows)
