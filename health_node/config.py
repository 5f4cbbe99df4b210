"""What the health operator sets: `config.toml`, typed. Unknown settings are errors; see deploy/README.md."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from broker_common.crypto.cards import Identifier, LogName
from broker_common.dashboard.config import DashboardConfig
from broker_common.logs import LogFormat
from broker_common.privacy.delays import DECLARED_STEP
from broker_common.query.dictionary import Dictionary
from health_node.people.tables import Declared, declared_of


class KeyConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """References (`file:` or `env:`) to the health agency's keys. Which of several in a file serves is said by its card."""

    # The public key that the agency's first card is signed with: the root of everything its log says of its keys.
    identity: str = "file:keys/identity.pub"
    # Signs the agency's cards. Needed to change a key, never to serve.
    identity_private: str = "file:keys/identity.key"
    # Private keys of the TLS certificates on the card.
    tls: str = "file:keys/tls.key"
    # Signs the log's checkpoints.
    log: str = "file:keys/log.key"
    # Cosigns the other agency's checkpoints.
    witness: str = "file:keys/witness.key"
    # Signs the manifests of samples.
    manifest: str = "file:keys/manifest.key"
    # Decides who is taken when a fraction is asked for. Changing it redraws every sample.
    sampling: str = "file:keys/sampling.key"
    # Shared with the census agency, out of band; one line a key, oldest first. Needed to load and to relink, never to serve.
    linkage: str = "file:keys/linkage.key"

    @property
    def private(self) -> dict[str, str]:
        """The references to private keys, by what a card calls their purpose."""
        return {
            "identity": self.identity_private,
            "tls": self.tls,
            "log": self.log,
            "witness": self.witness,
            "manifest": self.manifest,
            "sampling": self.sampling,
        }


class LimitConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Bounds on what the outside may make the node do at once."""

    # Questions between their turn and their answer at the same time; the others wait in line. Not more than the census node's.
    # Each holds a sample of one bit for each declared place: 2 MB for 16 million, twice as much while it is sent. Cohorts are drawn
    # one after the other, within `forward_delay_ms` of the policy unless so many come at once that some leave at a later tick.
    max_queries: Annotated[int, Meta(ge=1, le=1024)] = 16
    # Questions that may wait in line; beyond them a researcher who has one in line is told to come back (BUSY).
    max_waiting: Annotated[int, Meta(ge=1, le=1_000_000)] = 1024
    # The same for the questions of one researcher. With `max_queries` below the policy's `open_quotes`, or waiting costs quotes.
    max_waiting_each: Annotated[int, Meta(ge=1, le=1_000_000)] = 32
    # When to come back, as BUSY says it. The same for everybody, whatever is in hand.
    retry_seconds: Annotated[int, Meta(ge=1, le=3600)] = 1
    # How long a question is tried again when the census node does not answer.
    forward_deadline_ms: Annotated[int, Meta(ge=0, le=3_600_000)] = 30_000
    # How long one attempt may take, from its first byte to the release.
    attempt_deadline_ms: Annotated[int, Meta(ge=1000, le=3_600_000)] = 300_000
    # How long one attempt to send the roster may take. Another one follows.
    roster_deadline_ms: Annotated[int, Meta(ge=1000, le=86_400_000)] = 1_800_000
    # Threads that may work on one cohort.
    engine_threads: Annotated[int, Meta(ge=1, le=64)] = 2
    # The work that all `engine_threads` together do in a second for criteria, in passes over one person or one row of a table.
    # Two threads on two idle cores do 20,000,000,000 and more. The default is a fifth of that: several cohorts wait for each other,
    # and a machine does something else as well. Lower it for a slower machine or fewer threads: criteria that take longer than
    # the policy's `forward_delay_ms` are refused by it.
    work_per_second: Annotated[int, Meta(ge=1_000_000, le=10**15)] = 4_000_000_000


class CensusPeer(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The census node that samples go to. Its keys are on the card under which it is registered."""

    # Host and port where it listens.
    address: str
    # Name of the agency, as on its card.
    organisation: Identifier


class HealthConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """config.toml of a health home."""

    # Says what kind of home this is.
    role: Literal["health"]
    # Name of the agency, as in its certificate's URI SAN.
    organisation: Identifier
    # Name of the log; stands in every checkpoint.
    origin: LogName
    # The most people that a load may hold, now and later: a multiple of 524,288. Takes effect with the next load. Everything
    # about size that anybody else sees follows from it (what criteria may cost, which delays the policy needs), never from how
    # many people are loaded. `init` writes a tenth more than there are.
    places: Annotated[int, Meta(ge=DECLARED_STEP, le=2**31, multiple_of=DECLARED_STEP)] = 524_288
    # The most rows that a load may hold of each table: of events by its name, of a column of several values with more than 64
    # codes by the column's, and where people are linked by household of "people". Multiples of 524,288, which is also what a
    # table has that is not named. Like `places`, all that anybody else sees follows from them, and they take effect with the
    # next load.
    rows: dict[str, Annotated[int, Meta(ge=DECLARED_STEP, le=2**31, multiple_of=DECLARED_STEP)]] = field(
        default_factory=dict
    )
    # [census], see below.
    census: CensusPeer
    # Host and port to listen on.
    address: str = "127.0.0.1:0"
    # Whether peers may list services and messages (gRPC reflection). Shows nothing that is not in `protos/`.
    reflection: bool = False
    # How the operator log is written to standard error: "text", a line of names and values, or "json", an object a line.
    log_format: LogFormat = "text"
    # Whether the operator log says of each query how long its stages took. For tuning: it is finer than ticks, and follows the noise.
    log_stages: bool = False
    # [keys], see below.
    keys: KeyConfig = field(default_factory=KeyConfig)
    # [limits], see below.
    limits: LimitConfig = field(default_factory=LimitConfig)
    # [dashboard], see below.
    dashboard: DashboardConfig = field(default_factory=DashboardConfig)

    def declared(self, dictionary: Dictionary) -> Declared:
        """What a load under this dictionary may hold.

        Raises:
            InvalidRequestError: CONFIG_INVALID, DICTIONARY_UNUSABLE.
        """
        return declared_of(dictionary, self.places, self.rows)
