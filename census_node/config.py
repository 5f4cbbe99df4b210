"""The census operator's settings: `config.toml`, typed. Unknown settings are errors; see docs/settings.md."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from broker_common.agency.config import AgencyConfig, AgencyKeyConfig
from broker_common.privacy.delays import DECLARED_STEP


class KeyConfig(AgencyKeyConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """References (`file:` or `env:`) to the census agency's keys. Which of several in a file serves is said by its card."""

    # Signs quotes, and answers before they are sealed.
    answer: str = "file:keys/answer.key"
    # Signs refusals of samples.
    refusal: str = "file:keys/refusal.key"
    # Opens the frame keys of samples (HPKE).
    sample: str = "file:keys/sample.key"
    # Signs policies. Needed to propose one, never to serve.
    policy: str = "file:keys/policy.key"
    # Signs the operator's orders: shut down, reopen, confirm a weaker policy. Never needed to serve.
    operator: str = "file:keys/operator.key"
    # The public key of an oversight body. The evidence of each answer's noise is sealed to it; its holder can learn exact
    # counts. Empty: no auditor can check the noise.
    oversight: str = ""

    @property
    def private(self) -> dict[str, str]:
        """The references to private keys, by what a card calls their purpose."""
        return super().private | {
            "answer": self.answer,
            "refusal": self.refusal,
            "sample": self.sample,
            "policy": self.policy,
            "operator": self.operator,
        }


class LimitConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Bounds on what the outside may make the node do at once."""

    # Samples of one health agency that may be under way at once; further ones are refused for now (BUSY).
    max_queries: Annotated[int, Meta(ge=1, le=1024)] = 16
    # A stream that is silent for so long after it was opened is ended.
    header_deadline_ms: Annotated[int, Meta(ge=100, le=600_000)] = 10_000
    # A sample that takes longer to arrive is given up; the health node sends it again.
    sample_deadline_ms: Annotated[int, Meta(ge=1000, le=3_600_000)] = 120_000
    # A roster that takes longer to arrive is given up; the health node sends it again.
    roster_deadline_ms: Annotated[int, Meta(ge=1000, le=86_400_000)] = 1_800_000
    # Rosters that one health agency may begin to send in an hour; further ones are refused for now (BUSY).
    rosters_per_hour: Annotated[int, Meta(ge=1, le=10_000)] = 60
    # Most places a roster may declare: 16 bytes each on disk, a bit each in every sample.
    max_places: Annotated[int, Meta(ge=DECLARED_STEP, le=2**31, multiple_of=DECLARED_STEP)] = 67_108_864
    # How long Collect may wait for an answer.
    collect_wait_ms: Annotated[int, Meta(ge=0, le=60_000)] = 20_000
    # How long Quote may wait for a cosigned noise slot.
    quote_wait_ms: Annotated[int, Meta(ge=0, le=60_000)] = 5_000
    # Quotes of one researcher in a minute; further ones are refused for now (TOO_MANY_QUOTES). With fewer than the questions
    # answered in a minute, studies wait.
    quotes_per_minute: Annotated[int, Meta(ge=1, le=1_000_000)] = 60
    # So many more at once after a pause, so that a study can ask for all of its quotes together.
    quote_burst: Annotated[int, Meta(ge=1, le=1_000_000)] = 200
    # A question that is not cosigned for so long gives its place to others; its answer goes out later.
    cosignature_wait_ms: Annotated[int, Meta(ge=100, le=3_600_000)] = 60_000
    # How long Witness may wait for something to cosign.
    witness_wait_ms: Annotated[int, Meta(ge=0, le=60_000)] = 20_000
    # Researchers whose inboxes receive answers at the same time.
    max_pushes: Annotated[int, Meta(ge=1, le=1024)] = 16


class CensusConfig(AgencyConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """config.toml of a census home."""

    # Kind of this home.
    role: Literal["census"]
    # The most people with a health card that a load may ever hold: a multiple of 524,288. The policy's tick follows from it.
    people: Annotated[int, Meta(ge=DECLARED_STEP, le=2**32 - DECLARED_STEP, multiple_of=DECLARED_STEP)] = 524_288
    # Folder, on another disk or host, that remembers how long the log was. Empty: there is none.
    witness_store: str = ""
    # Days for which the evidence of noise is kept.
    opening_retention_days: Annotated[int, Meta(ge=1, le=36_500)] = 365
    # `census status` raises an alert when more than this percentage of the people charged have nothing left.
    alert_exhausted_share: Annotated[int, Meta(ge=0, le=100)] = 5
    # [keys], see below.
    keys: KeyConfig = field(default_factory=KeyConfig)
    # [limits], see below.
    limits: LimitConfig = field(default_factory=LimitConfig)
