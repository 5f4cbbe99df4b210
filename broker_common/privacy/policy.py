"""The census agency's rules: one canonical JSON document, named by its hash, signed by the agency.

A policy says how much may be learned (`max_belief`), how that is accounted, which scales may be asked for, and the
fixed times that make timing say nothing. The hash says exactly which rules an answer was given under.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Literal, NamedTuple, TypeAlias, get_args

import msgspec
from msgspec import Meta, Struct

from broker_common.crypto.signing import VerifyKey
from broker_common.errors import InvalidRequestError
from broker_common.language import joined, phrase
from broker_common.privacy.accounting import (
    MAX_BELIEF_CHARS,
    USUAL_SCALE,
    cap_units,
    param_of,
    parse_max_belief,
    price,
)
from broker_common.values import Linkage

# As a document, with every scale that it may have.
MAX_POLICY_BYTES = 32_768
MAX_SCALES = 1000
MAX_SCALE = 1_000_000
# A day: of everything that is waited for.
_MAX_DELAY_MS = 86_400_000
# A sealed answer is kept a leap year at most, a sample ten.
_MAX_RETENTION_MS = 366 * 86_400_000
_MAX_SAMPLE_RETENTION_MS = 10 * _MAX_RETENTION_MS
_Milliseconds = Annotated[int, Meta(ge=0, le=_MAX_DELAY_MS)]
_Scale = Annotated[int, Meta(ge=1, le=MAX_SCALE)]
# Ways of accounting, from the one that charges everybody for an answer to those that charge fewer people.
Accounting: TypeAlias = Literal["strict", "per_person"]
_ACCOUNTINGS: tuple[Accounting, ...] = get_args(Accounting)
# The subjects that a budget can protect, dearest first.
Subject: TypeAlias = Literal["household", "person"]
_SUBJECTS: tuple[Subject, ...] = get_args(Subject)
NEWEST_FORMAT = 6
# Since then a policy says how records are linked.
_LINKAGE_FORMAT = 6
_LINKAGE_FIELDS = frozenset({"linkage", "declared_linked_percent"})
# These keep timing from telling; longer is safer. Tick 0 voids both.
_DELAYS = ("forward_delay_ms", "release_tick_ms")
# As long as a health node waits for one attempt, unless its operator sets another time: longer delays answer nobody.
_LONGEST_DELAY_MS = 300_000
# A quote that leaves a researcher less time than this to submit is of little use.
_LEAST_ASKING_MS = 30_000


class Weakness(NamedTuple):
    """One way in which a policy protects, proves or serves less than another: its code in a replay, and a sentence."""

    code: str
    text: str


class Policy(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One policy. Field by field in docs/policy.md."""

    # Version of this list of fields; before 6 there was neither `linkage` nor `declared_linked_percent`.
    format: Annotated[int, Meta(ge=5, le=6)] = 6
    # Who is charged for an answer: everyone (`strict`), or the people in its sample (`per_person`).
    accounting: Accounting
    # The holder of a budget under `per_person`: one person, or all people of a household together. Fixed at the first charge.
    subject: Subject = "person"
    # How the two agencies' records are linked: `complementary` (a card at both), `household` (an address; `subject` is
    # `household` then) or `nominative` (names in a register of the census agency's own).
    linkage: Linkage = "complementary"
    # The percentage of people in the census who are linked, as the agency declares it. 0: not declared.
    declared_linked_percent: Annotated[int, Meta(ge=0, le=100)] = 0
    # No belief about one person that began at 1/2 may pass this. Exact decimal.
    max_belief: Annotated[str, Meta(max_length=MAX_BELIEF_CHARS)]
    # The service shuts down after so many answers in all; 0: no such end.
    max_answers: Annotated[int, Meta(ge=0, le=2**32 - 1)] = 0
    # Noise scales that may be asked for, ascending.
    scales: Annotated[tuple[_Scale, ...], Meta(min_length=1, max_length=MAX_SCALES)]
    # A sample leaves the health node at the first tick at least this long after Submit, whatever the cohort.
    forward_delay_ms: _Milliseconds
    # Samples are taken, and outcomes and answers leave, at multiples of this. 0: at once, for tests and benchmarks only.
    release_tick_ms: _Milliseconds
    # How long a quote and its noise slot stand.
    quote_lifetime_ms: Annotated[int, Meta(ge=1_000, le=_MAX_DELAY_MS)]
    # Open quotes per researcher; the oldest gives way.
    open_quotes: Annotated[int, Meta(ge=1, le=10_000)]
    # How long a sealed answer waits for its researcher.
    answer_retention_ms: Annotated[int, Meta(ge=60_000, le=_MAX_RETENTION_MS)]
    # How long the census agency keeps who was in a sample, for an audit on site, under `per_person`. Usually 90 days.
    sample_retention_ms: Annotated[int, Meta(ge=0, le=_MAX_SAMPLE_RETENTION_MS)] = 7_776_000_000
    # Answers of one researcher whose samples may be kept at the same time, under `per_person`; 0: any number.
    researcher_answers: Annotated[int, Meta(ge=0, le=2**32 - 1)] = 1000

    @property
    def param(self) -> Fraction:
        """The factor by which the odds about one person may move, either way."""
        return _limits(self.max_belief)[0]

    @property
    def cap(self) -> int:
        """ln(param) in units, rounded down."""
        return _limits(self.max_belief)[1]

    @property
    def usual_scale(self) -> int:
        """The scale to ask for where nobody says otherwise."""
        return USUAL_SCALE if USUAL_SCALE in self.scales else self.scales[-1]

    @property
    def quota(self) -> int:
        """How many answers of one researcher may count at the same time; 0 where there is no such limit.

        Strict accounting keeps no samples, so that there is nothing to limit.
        """
        return self.researcher_answers if self.accounting == "per_person" else 0

    def weakens(self, before: Policy) -> tuple[Weakness, ...]:
        """In what this policy protects, proves or serves less than the one before it; empty when in nothing.

        SECURITY: whatever stands here takes the operator's signed confirmation; whatever does not, the policy key alone
        puts in force. It has to hold every way in which more may be learned about a person than before, in which proof on
        site ends sooner, and in which questions are refused though nobody learns less.
        """
        return (*self._tells_more(before), *self._keeps_otherwise(before), *self._serves_less(before))

    def _tells_more(self, before: Policy) -> list[Weakness]:
        """Ways in which more may be learned about a person."""
        found = []
        if self.raises_cap(before):
            text = phrase(
                "it raises the cap from {before} to {after} units (max_belief from {old} to {new})",
                before=before.cap,
                after=self.cap,
                old=before.max_belief,
                new=self.max_belief,
            )
            found.append(Weakness("CAP_RAISED", text))
        if _ACCOUNTINGS.index(self.accounting) > _ACCOUNTINGS.index(before.accounting):
            text = phrase(
                "it lowers the charge of an answer: accounting '{new}' charges fewer people than '{old}'",
                new=self.accounting,
                old=before.accounting,
            )
            found.append(Weakness("CHARGE_LOWERED", text))
        elif _SUBJECTS.index(self.subject) > _SUBJECTS.index(before.subject):
            text = phrase(
                "it lowers the charge of an answer: a budget per {new} instead of one per {old}",
                new=self.subject,
                old=before.subject,
            )
            found.append(Weakness("CHARGE_LOWERED", text))
        if (self.max_answers or math.inf) > (before.max_answers or math.inf):
            text = phrase(
                "it allows {new} answers instead of {old}",
                new=self.max_answers or phrase("any number of"),
                old=before.max_answers,
            )
            found.append(Weakness("ANSWERS_RAISED", text))
        for name in _DELAYS:
            old, new = getattr(before, name), getattr(self, name)
            if new < old:
                text = phrase(
                    "it shortens {setting} from {old} to {new}: work that does not keep up shows in when answers leave",
                    setting=name,
                    old=old,
                    new=new,
                )
                found.append(Weakness("DELAY_SHORTENED", text))
        return found

    def _keeps_otherwise(self, before: Policy) -> list[Weakness]:
        """Ways in which what was to be kept is kept for another time, or more of it."""
        found = []
        old, new = before.sample_retention_ms, self.sample_retention_ms
        if new < old:
            text = phrase(
                "it shortens sample_retention_ms from {old} to {new}: what is erased sooner cannot be checked on site",
                old=old,
                new=new,
            )
            found.append(Weakness("RETENTION_SHORTENED", text))
        if new > old:
            text = phrase(
                "it lengthens sample_retention_ms from {old} to {new}: who was in a sample is kept longer",
                old=old,
                new=new,
            )
            found.append(Weakness("RETENTION_LENGTHENED", text))
        if self.answer_retention_ms < before.answer_retention_ms:
            text = phrase(
                "it shortens answer_retention_ms from {old} to {new}: answers that were paid for are removed sooner",
                old=before.answer_retention_ms,
                new=self.answer_retention_ms,
            )
            found.append(Weakness("RETENTION_SHORTENED", text))
        if (self.researcher_answers or math.inf) > (before.researcher_answers or math.inf):
            text = phrase(
                "it keeps the samples of {new} answers for one researcher instead of {old}: they may fill the disk",
                new=self.researcher_answers or phrase("any number of"),
                old=before.researcher_answers,
            )
            found.append(Weakness("QUOTA_RAISED", text))
        return found

    def _serves_less(self, before: Policy) -> list[Weakness]:
        """Ways in which questions are refused, or never answered, though nobody learns less by it."""
        found = []
        if (self.researcher_answers or math.inf) < (before.researcher_answers or math.inf):
            text = phrase(
                "it keeps the samples of {new} answers for one researcher instead of {old}: further questions are refused",
                new=self.researcher_answers,
                old=before.researcher_answers or phrase("any number"),
            )
            found.append(Weakness("QUOTA_LOWERED", text))
        for name in _DELAYS:
            old, new = getattr(before, name), getattr(self, name)
            if new > max(old, _LONGEST_DELAY_MS):
                text = phrase(
                    "it lengthens {setting} from {old} to {new}: nodes give up waiting before there is an answer",
                    setting=name,
                    old=old,
                    new=new,
                )
                found.append(Weakness("DELAY_LENGTHENED", text))
        if self._asking_ms < min(before._asking_ms, _LEAST_ASKING_MS):
            text = phrase(
                "it leaves {left} ms from a quote until its question must be submitted: quote_lifetime_ms less forward_delay_ms "
                "and release_tick_ms",
                left=max(self._asking_ms, 0),
            )
            found.append(Weakness("QUOTE_SHORTENED", text))
        return found

    @property
    def _asking_ms(self) -> int:
        """How long after its quote a question may be submitted so that its ticket is still good when it is forwarded."""
        return self.quote_lifetime_ms - self.forward_delay_ms - self.release_tick_ms

    def raises_cap(self, before: Policy) -> bool:
        """Whether more may be charged under this policy than under the one before it."""
        return self.cap > before.cap

    @property
    def document(self) -> bytes:
        """The canonical bytes: sorted keys, no white space, the fields of its own format."""
        fields = msgspec.to_builtins(self)
        if self.format < _LINKAGE_FORMAT:
            fields = {name: value for name, value in fields.items() if name not in _LINKAGE_FIELDS}
        return msgspec.json.encode(fields, order="sorted")

    @property
    def hash(self) -> bytes:
        """SHA-256 of the canonical bytes: the policy's name."""
        return hashlib.sha256(self.document).digest()


def parse_policy(document: bytes) -> Policy:
    """The policy that `document` spells canonically.

    Raises:
        InvalidRequestError: INVALID_VALUE, naming what is wrong.
    """
    if len(document) > MAX_POLICY_BYTES:
        raise _invalid("is too long")
    try:
        policy = msgspec.json.decode(document, type=Policy)
    except ValueError as error:  # msgspec's own errors, and broken UTF-8 inside a string
        raise _invalid(f"cannot be read ({error})") from error
    verify_policy(policy)
    if policy.document != document:
        raise _invalid("is not in canonical form")
    return policy


def parse_signed_policy(document: bytes, signature: str, key: VerifyKey) -> Policy:
    """The policy that `document` spells canonically and that `key` signed.

    Raises:
        InvalidRequestError: BAD_SIGNATURE or INVALID_VALUE.
    """
    key.verify_text(document, signature)
    return parse_policy(document)


def verify_policy(policy: Policy) -> None:
    """Return only if the policy makes sense as a whole.

    Raises:
        InvalidRequestError: INVALID_VALUE.
    """
    cap = policy.cap
    if policy.format < _LINKAGE_FORMAT and (policy.linkage != "complementary" or policy.declared_linked_percent):
        raise _invalid(f"says how records are linked, for which it needs format {_LINKAGE_FORMAT}")
    if policy.linkage == "household" and policy.subject != "household":
        raise _invalid("links households, so that its subject must be the household", _SUBJECT_REMEDY)
    if list(policy.scales) != sorted(set(policy.scales)):
        raise _invalid("lists scales that are not ascending and distinct")
    if price(policy.scales[-1]) > cap:
        raise _invalid("admits no scale that its own cap pays for")
    if policy.accounting == "strict" and policy.subject != "person":
        raise _invalid("names a subject, but strict accounting charges everyone alike", _STRICT_REMEDY)


def verify_linkage(policy: Policy, linkage: Linkage) -> None:
    """Return only if a load whose dictionary has this linkage may serve under the policy.

    Raises:
        InvalidRequestError: LOAD_REFUSED.
    """
    if policy.linkage != linkage:
        raise InvalidRequestError(
            "LOAD_REFUSED",
            problem=f"its dictionary has linkage {linkage}, and the policy in force has linkage {policy.linkage}",
            remedy="Load data whose dictionary has the policy's linkage, or, while nothing was ever loaded, adopt a policy with "
            "the dictionary's.",
        )


@lru_cache(maxsize=16)
def _limits(max_belief: str) -> tuple[Fraction, int]:
    """Param and cap: exact, and dear enough to compute once."""
    param = param_of(parse_max_belief(max_belief))
    return param, cap_units(param)


_SUBJECT_REMEDY = phrase(
    "Give --subject household, or leave --subject out. To protect single people, link by something else: --linkage, or the "
    "dictionary's linkage."
)
_STRICT_REMEDY = phrase(
    "Give --accounting per_person. With --accounting strict the subject is the person, and households cannot be linked (--linkage, or "
    "the dictionary's linkage)."
)


def _invalid(problem: str, remedy: str = "Write it with 'census policy propose'") -> InvalidRequestError:
    return InvalidRequestError("INVALID_VALUE", name="the policy", problem=problem, remedy=remedy)


def scales_text(scales: Sequence[int]) -> str:
    """Ascending scales for a sentence: a range for each run of three or more, the others one by one."""
    runs: list[list[int]] = []
    for scale in scales:
        if runs and scale == runs[-1][-1] + 1:
            runs[-1].append(scale)
        else:
            runs.append([scale])
    parts = [
        phrase("{low} to {high}", low=run[0], high=run[-1]) if len(run) > 2 else ", ".join(map(str, run))  # noqa: PLR2004 - two stand side by side
        for run in runs
    ]
    return joined(", ", parts)
