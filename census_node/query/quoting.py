"""Quotes: what one answer would cost, what is left, and a noise slot for it; read at one instant and signed.

How often one researcher may ask for them: a token bucket for each, which nobody else's calls touch.

A quote carries that instant, so that an auditor can hold it against the log. A quote that is refused is not signed: nothing has
been asked, sent or charged, and the researcher can ask again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tripartite.v1 import census_service_pb2, quote_pb2, ticket_pb2

from broker_common.crypto.signing import SigningKey
from broker_common.errors import RefusedError
from broker_common.privacy.accounting import price
from broker_common.privacy.policy import Policy, scales_text
from broker_common.privacy.table_laplace import margin
from broker_common.query.question import question_from_wire
from broker_common.query.quote import sign_quote
from broker_common.storage.dictionary.adopted import Dictionaries
from broker_common.storage.journal import Journal
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.note import parse_note
from census_node.query.budget import Unfinished, in_force, quota_left, quotable_answers
from census_node.query.reservations import Reservations
from census_node.release.publication import Publication
from census_node.release.slots import OfferedSlot, SlotBook

# Rates are set by the minute.
_MINUTE_SECONDS = 60.0


class Quotes:
    """The quotes of one journal. Blocking methods."""

    def __init__(
        self,
        journal: Journal[CensusState],
        *,
        dictionaries: Dictionaries,
        publication: Publication,
        slots: SlotBook,
        reservations: Reservations,
        unfinished: Callable[[], Unfinished],
        key: Callable[[], SigningKey],
    ) -> None:
        """`key` signs answers, and quotes under a prefix of their own."""
        self._journal = journal
        self._dictionaries = dictionaries
        self._publication = publication
        self._slots = slots
        self._reservations = reservations
        self._unfinished = unfinished
        self._key = key

    def quote(self, asked: ticket_pb2.Question, scale: int, researcher: str) -> census_service_pb2.QuoteResponse | None:
        """A signed quote, whose slot is reserved until it expires; None while no slot is cosigned.

        Raises:
            RefusedError: NOTHING_LOADED, SERVICE_SHUT_DOWN, BUDGET_EXHAUSTED, SCALE_REFUSED or QUOTA_REACHED.
            InvalidRequestError: what is wrong with the question.
        """
        # One reading: an auditor can compare the figures only if all of them are of one instant.
        with self._journal.at_one_instant() as state:
            now, unfinished, key = in_force(state), self._unfinished(), self._key()
            # Said before anything is said of the question: nothing will be answered any more.
            quotable_answers(state, now.policy, now.policy.scales[-1], unfinished=unfinished)
            question = question_from_wire(asked, self._dictionaries.of_load(state, state.load))
            if scale not in now.policy.scales:
                raise RefusedError("SCALE_REFUSED", scale=scale, scales=scales_text(now.policy.scales))
            remaining = quotable_answers(state, now.policy, scale, unfinished=unfinished)
            own_left = self._quota_left(state, researcher)
            told_ms = self._journal.now()
            # Last, so that nothing that is refused reserves a slot.
            offered = self._offer(researcher, now.policy, told_ms)
            if offered is None:
                return None
            slot, batch = offered.slot, offered.batch
            proof = self._journal.inclusion_proof(batch.index, parse_note(slot.checkpoint)[0].size)
        body = quote_pb2.Quote(
            researcher_id=researcher,
            question=question.to_wire(),
            census_release=now.census_release,
            scale=scale,
            charged=price(scale, cells=len(question.cells)),
            margin_95=margin(scale, len(question.cells)),
            remaining=remaining,
            quota=now.policy.quota or None,
            quota_left=own_left,
            policy_hash=now.policy.hash,
            noise_slot=ticket_pb2.NoiseSlot(number=slot.number, commitment=slot.commitment, checkpoint=slot.checkpoint),
            told_ms=told_ms,
            expires_ms=told_ms + now.policy.quote_lifetime_ms,
        )
        return census_service_pb2.QuoteResponse(
            quote=sign_quote(body, key), slot_entry=batch.entry, slot_index=batch.index, slot_proof=proof
        )

    def offer_slot(self, researcher: str, policy: Policy) -> OfferedSlot | None:
        """Reserve a slot for a quote; None while none is cosigned.

        Commits to no further slots: that is done beside quotes, when `slots.is_low`.
        """
        with self._journal.reading():
            return self._offer(researcher, policy, self._journal.now())

    def quota_left(self, researcher: str) -> int | None:
        """How many further answers of a researcher may count now; None without a quota.

        Raises:
            RefusedError: QUOTA_REACHED.
        """
        with self._journal.reading() as state:
            return self._quota_left(state, researcher)

    def _offer(self, researcher: str, policy: Policy, now_ms: int) -> OfferedSlot | None:
        index = self._slots.next_index
        note = None if index is None else self._publication.cosigned_by_most(index)
        size = 0 if note is None else parse_note(note)[0].size
        return self._slots.reserve(
            researcher,
            now_ms=now_ms,
            expires_ms=now_ms + policy.quote_lifetime_ms,
            limit=policy.open_quotes,
            in_hand=self._reservations.tickets,
            # The next slot may be another one by now, of a later batch.
            covering=lambda index: note if size > index else None,
        )

    def _quota_left(self, state: CensusState, researcher: str) -> int | None:
        reserved = self._reservations.reserved(researcher, charged=state.tickets)
        return quota_left(state, researcher, self._journal.now(), reserved=reserved)


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_at: float


class QuoteRate:
    """The buckets of every researcher who has asked since the start. For one event loop."""

    def __init__(self, per_minute: int, burst: int, seconds: Callable[[], float]) -> None:
        """`seconds` is a clock that nobody can set."""
        self._per_second = per_minute / _MINUTE_SECONDS
        self._burst = burst
        self._seconds = seconds
        # As many as there are registered researchers, at most.
        self._buckets: dict[str, _Bucket] = {}

    def take(self, researcher: str) -> None:
        """Count one quote of a researcher.

        Raises:
            RefusedError: TOO_MANY_QUOTES, with the seconds until there is another one; this call is not counted.
        """
        now = self._seconds()
        bucket = self._buckets.setdefault(researcher, _Bucket(self._burst, now))
        bucket.tokens = min(self._burst, bucket.tokens + (now - bucket.filled_at) * self._per_second)
        bucket.filled_at = now
        if bucket.tokens < 1:
            raise RefusedError("TOO_MANY_QUOTES", retry_seconds=math.ceil((1 - bucket.tokens) / self._per_second))
        bucket.tokens -= 1
