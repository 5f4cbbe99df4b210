"""What the census operator sets: `config.toml`, typed. Unknown settings are errors; see deploy/README.md."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from broker_common.crypto.cards import Identifier, LogName
from broker_common.dashboard.config import DashboardConfig
from broker_common.logs import LogFormat
from broker_common.privacy.delays import DECLARED_STEP


class KeyConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """References (`file:` or `env:`) to the census agency's keys. Which of several in a file serves is said by its card."""

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
    # Signs quotes, and answers before they are sealed.
    answer: str = "file:keys/answer.key"
    # Signs refusals of samples.
    refusal: str = "file:keys/refusal.key"
    # Opens the frame keys of samples (HPKE).
    sample: str = "file:keys/sample.key"
    # Signs policies. Needed to propose one, never to serve.
    policy: str = "file:keys/policy.key"
    # Signs the operator's orders. Needed to shut down, to reopen and to confirm a weaker policy, never to
    # serve.
    operator: str = "file:keys/operator.key"
    # The public key of an oversight body that openings of every answer are sealed to. Its holder can learn exact counts, so
    # that the noise can be checked. Empty: none is kept, and no auditor can check the noise.
    oversight: str = ""
    # Shared with the health agency, out of band; one line a key, oldest first. Needed to load and to relink, never to serve.
    linkage: str = "file:keys/linkage.key"

    @property
    def private(self) -> dict[str, str]:
        """The references to private keys, by what a card calls their purpose."""
        return {
            "identity": self.identity_private,
            "tls": self.tls,
            "log": self.log,
            "witness": self.witness,
            "answer": self.answer,
            "refusal": self.refusal,
            "sample": self.sample,
            "policy": self.policy,
            "operator": self.operator,
        }


class LimitConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Bounds on what the outside may make the node do at once."""

    # Samples of one health agency that may be on their way or in hand; its next one is told to come back (BUSY).
    max_queries: Annotated[int, Meta(ge=1, le=1024)] = 16
    # A stream that says nothing for this long after it was opened is ended.
    header_deadline_ms: Annotated[int, Meta(ge=100, le=600_000)] = 10_000
    # A sample that takes longer than this to arrive is given up; the health node sends it again.
    sample_deadline_ms: Annotated[int, Meta(ge=1000, le=3_600_000)] = 120_000
    # A roster that takes longer than this to arrive is given up; the health node sends it again.
    roster_deadline_ms: Annotated[int, Meta(ge=1000, le=86_400_000)] = 1_800_000
    # Rosters of one health agency that may begin to come in an hour. A further one is told to come back (BUSY).
    rosters_per_hour: Annotated[int, Meta(ge=1, le=10_000)] = 60
    # Places that a roster may be declared for: 16 bytes each on disk, a bit each in every sample. A larger one is refused.
    max_places: Annotated[int, Meta(ge=DECLARED_STEP, le=2**31, multiple_of=DECLARED_STEP)] = 67_108_864
    # How long Collect may hold a call open for an answer that is not out yet.
    collect_wait_ms: Annotated[int, Meta(ge=0, le=60_000)] = 20_000
    # How long Quote may hold a call open until the health agency has cosigned a noise slot.
    quote_wait_ms: Annotated[int, Meta(ge=0, le=60_000)] = 5_000
    # Quotes that one researcher may ask for, whatever others do; further ones are told to come back (TOO_MANY_QUOTES). At least
    # the questions of one researcher that are answered in a minute, or studies wait.
    quotes_per_minute: Annotated[int, Meta(ge=1, le=1_000_000)] = 60
    # So many more at once, after a pause: a study may ask for all of its quotes together.
    quote_burst: Annotated[int, Meta(ge=1, le=1_000_000)] = 200
    # A question that its health agency does not cosign for so long gives its place to others; its answer goes out later.
    cosignature_wait_ms: Annotated[int, Meta(ge=100, le=3_600_000)] = 60_000
    # How long Witness may hold a call open until there is something to cosign.
    witness_wait_ms: Annotated[int, Meta(ge=0, le=60_000)] = 20_000
    # Researchers whose inboxes are pushed to at the same time; the others wait for their turn.
    max_pushes: Annotated[int, Meta(ge=1, le=1024)] = 16


class CensusConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """config.toml of a census home."""

    # Says what kind of home this is.
    role: Literal["census"]
    # Name of the agency, as in its certificate's URI SAN.
    organisation: Identifier
    # Name of the log; stands in every checkpoint.
    origin: LogName
    # The most rows with a health card that a load of the registry may hold, now and later: a multiple of 524,288. The tick that
    # the policy needs follows from it, never from how many are loaded. `init` writes a tenth more than there are.
    people: Annotated[int, Meta(ge=DECLARED_STEP, le=2**32 - DECLARED_STEP, multiple_of=DECLARED_STEP)] = 524_288
    # Host and port to listen on.
    address: str = "127.0.0.1:0"
    # Whether peers may list services and messages (gRPC reflection). Shows nothing that is not in `protos/`.
    reflection: bool = False
    # How the operator log is written to standard error: "text", a line of names and values, or "json", an object a line.
    log_format: LogFormat = "text"
    # Whether the operator log says of each query how long its stages took. For tuning: it is finer than ticks, and follows the noise.
    log_stages: bool = False
    # Folder on another disk or host that remembers how long the log was; relative to the home. Empty: there is none, and
    # a restored backup is noticed only when the health node shows what it has seen.
    witness_store: str = ""
    # How long openings are kept, in days; they are removed within an hour after that.
    opening_retention_days: Annotated[int, Meta(ge=1, le=36_500)] = 365
    # Percent: `census status` raises an alert when more of the people charged so far have nothing left of their budgets.
    alert_exhausted_share: Annotated[int, Meta(ge=0, le=100)] = 5
    # [keys], see below.
    keys: KeyConfig = field(default_factory=KeyConfig)
    # [limits], see below.
    limits: LimitConfig = field(default_factory=LimitConfig)
    # [dashboard], see below.
    dashboard: DashboardConfig = field(default_factory=DashboardConfig)
