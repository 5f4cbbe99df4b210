"""Every refusal of a sample, held against the census log: did its reason hold when the census node refused?

A refusal says how much of the log was shown when the sample began to arrive, and when the refusal left. In between the reason has to
hold at some state of the log; the log is folded once more, and every refusal is looked at from its first state to its last. The
health log narrows this further, without clocks: a census node had shown the health agency so much before the sample was sent, and
had not yet charged the samples that were sent after the refusal was logged.

Not everything that a node decides by stands in a log. Refusals that cannot be recomputed are counted apart from those that do not
follow.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum

from broker_common.audit.findings import Findings
from broker_common.crypto.commitments import hash_bytes
from broker_common.errors import REASONS
from broker_common.privacy.accounting import fits, price
from broker_common.query.refusal import Refusal
from broker_common.query.ticket import MAX_LIFETIME_MS
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import Entry

# In the place of a code that no node says: the table of refusals stays small whatever a log holds.
UNKNOWN_CODE = "UNKNOWN"


class Verdict(Enum):
    """Verdict of the logs on a refusal."""

    FOLLOWS = "follows"
    # The reason is nothing that a log holds.
    UNTOLD = "untold"
    WITHOUT_REASON = "without reason"
    # The census log that was handed in may end before it.
    PENDING = "pending"


@dataclass(slots=True)
class Told:
    """One refusal in the health log, which the census agency signed."""

    refusal: Refusal
    # Where it stands in the health log.
    entry: int
    # The first state of the census log that it can have been decided by, and the last.
    first: int
    last: int | None = None
    # The time of the entry after that.
    last_ms: int | None = None
    # Other samples that may have been in hand, and those of the same researcher.
    in_hand: int = 0
    own_in_hand: int = 0
    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """Refusals that were held against the census log, by researcher and code."""

    follows: Counter[tuple[str, str]] = field(default_factory=Counter)
    without_reason: Counter[tuple[str, str]] = field(default_factory=Counter)
    # The number of untold refusals of each code.
    untold: Counter[str] = field(default_factory=Counter)


class Refusals:
    """The refusals of one health log. Told of them, and of what was sent, in the log's order."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._told: list[Told] = []
        # For every charged sample: the entry of the health log before its sending, and the charge.
        self._sent = array("Q")
        self._charged = array("Q")

    @property
    def is_empty(self) -> bool:
        return not self._told

    def sent(self, entry: int, charged_at: int) -> None:
        """A sample that was charged is sent."""
        self._sent.append(entry)
        self._charged.append(charged_at)

    def take(self, told: Told) -> None:
        """A sample is refused."""
        self._told.append(told)

    def judge(
        self, entries: Iterable[Entry], time_of: Callable[[int], int], state: CensusState, witnessed_size: int
    ) -> Judged:
        """Hold them against the census log: its entries, the time of each, and a state to fold them into.

        `witnessed_size` is how much of the health log the census agency had seen when its part was exported.
        """
        self._narrow(time_of)
        waiting = sorted(self._told, key=lambda told: told.first, reverse=True)
        fold = _Fold(state)
        looked_at: list[Told] = []
        for entry in entries:
            looked_at += _begun(waiting, state.size)
            looked_at = [told for told in looked_at if fold.look(told, entry.time_ms)]
            if not waiting and not looked_at:
                break
            fold.apply(entry)
        looked_at += _begun(waiting, state.size)
        for told in [told for told in looked_at if fold.look(told, None)] + waiting:
            # Whatever it was decided by may stand in entries that were written after the export.
            if told.verdict in {None, Verdict.WITHOUT_REASON} and told.entry >= witnessed_size:
                told.verdict = Verdict.PENDING
        return self._counted()

    def _narrow(self, time_of: Callable[[int], int]) -> None:
        """Samples sent after a refusal was logged were charged after the refusal was decided."""
        earliest = array("Q", self._charged)
        for place in range(len(earliest) - 2, -1, -1):
            earliest[place] = min(earliest[place], earliest[place + 1])
        for told in self._told:
            place = bisect_right(self._sent, told.entry)
            if place < len(earliest):
                told.last, told.last_ms = earliest[place], time_of(earliest[place])

    def _counted(self) -> Judged:
        judged = Judged()
        for told in self._told:
            refusal = told.refusal
            if told.verdict is Verdict.FOLLOWS:
                judged.follows[refusal.researcher, refusal.code] += 1
            elif told.verdict is Verdict.UNTOLD:
                judged.untold[refusal.code if refusal.code in REASONS else UNKNOWN_CODE] += 1
            elif told.verdict is Verdict.PENDING:
                self._findings.wait("REFUSAL_UNSEEN", "census")
            else:
                judged.without_reason[refusal.researcher, refusal.code] += 1
                detail = f"{refusal.code}, {refusal.researcher}, entry {told.entry} of the health log"
                self._findings.problem("REFUSED_WITHOUT_REASON", "census", None, detail)
        return judged


def _begun(waiting: list[Told], size: int) -> Iterator[Told]:
    """Those that may have been decided by a log of this size, the first of them last."""
    while waiting and waiting[-1].first <= size:
        yield waiting.pop()


class _Fold:
    """The census log at one state after the other."""

    def __init__(self, state: CensusState) -> None:
        self._state = state
        # The dearest scale that any policy has admitted so far.
        self._dearest = 0

    def apply(self, entry: Entry) -> None:
        self._state.apply(entry)
        if self._state.policy is not None:
            least = self._state.policy.scales[0]
            self._dearest = min(self._dearest or least, least)

    def look(self, told: Told, next_ms: int | None) -> bool:
        """Hold a refusal against this state; False once it is decided. `next_ms` is the time of the next entry, if there is one."""
        now = self._verdict(told)
        # The kindest of all states counts.
        if told.verdict is None or _KINDNESS.index(now) < _KINDNESS.index(told.verdict):
            told.verdict = now
        is_over = next_ms is not None and next_ms > told.refusal.time_ms
        is_last = told.last is not None and told.last <= self._state.size
        return not (told.verdict is Verdict.FOLLOWS or is_over or is_last)

    def _verdict(self, told: Told) -> Verdict:
        refusal, state = told.refusal, self._state
        if refusal.code == "TICKET_EXPIRED":
            return self._expired(told)
        rule = _RULES.get(refusal.code)
        if rule is None:
            return Verdict.UNTOLD
        if rule(refusal, state, _NONE_HELD):
            return Verdict.FOLLOWS
        if refusal.code == "SLOT_UNUSABLE":
            # No log says to whom a slot was quoted.
            return Verdict.UNTOLD
        held = {"BUDGET_EXHAUSTED": told.in_hand, "QUOTA_REACHED": told.own_in_hand}.get(refusal.code, 0)
        # Samples of other agencies hold their price as well, and stand in logs that are not here.
        is_alone = len(state.parties.peers("health")) <= 1
        if held and (not is_alone or rule(refusal, state, _Held(held, price(self._dearest or 1)))):
            return Verdict.UNTOLD
        is_held_by_others = not is_alone and refusal.code in {"BUDGET_EXHAUSTED", "QUOTA_REACHED"}
        return Verdict.UNTOLD if is_held_by_others else Verdict.WITHOUT_REASON

    def _expired(self, told: Told) -> Verdict:
        refusal = told.refusal
        if refusal.expires_ms > self._state.time_ms + MAX_LIFETIME_MS:
            return Verdict.FOLLOWS
        if refusal.expires_ms > refusal.time_ms:
            return Verdict.WITHOUT_REASON
        # An entry that was made later and has an earlier time: a clock was set back, or the refusal's time is untrue.
        is_doubtful = told.last_ms is not None and told.last_ms < refusal.expires_ms
        return Verdict.UNTOLD if is_doubtful else Verdict.FOLLOWS


@dataclass(frozen=True, slots=True)
class _Held:
    """The most that other samples in progress may reserve."""

    answers: int
    # The price of each answer.
    units: int


_NONE_HELD = _Held(0, 0)
_KINDNESS = (Verdict.FOLLOWS, Verdict.UNTOLD, Verdict.WITHOUT_REASON)


# --- by code: whether a refusal follows from a state, beside what other samples in hand may hold -------------------------


def _is_shut_down(_refusal: Refusal, state: CensusState, _held: _Held) -> bool:
    return state.shut_down


def _is_other_policy(refusal: Refusal, state: CensusState, _held: _Held) -> bool:
    return state.policy_hash != refusal.policy


def _is_other_release(refusal: Refusal, state: CensusState, _held: _Held) -> bool:
    return hash_bytes(state.release.encode()).hex() != refusal.release


def _is_other_dictionary(refusal: Refusal, state: CensusState, _held: _Held) -> bool:
    return state.dictionaries.get(state.load) != refusal.dictionary


def _is_other_scale(refusal: Refusal, state: CensusState, _held: _Held) -> bool:
    return state.policy is not None and refusal.scale not in state.policy.scales


def _is_unknown(refusal: Refusal, state: CensusState, _held: _Held) -> bool:
    return state.parties.peer("researcher", refusal.researcher) is None


def _is_unknown_project(refusal: Refusal, state: CensusState, _held: _Held) -> bool:
    researcher = state.parties.peer("researcher", refusal.researcher)
    return researcher is not None and refusal.project not in researcher.projects


def _is_other_roster(refusal: Refusal, state: CensusState, _held: _Held) -> bool:
    roster = state.rosters.get(refusal.health)
    return roster is None or (roster.number, roster.linkage) != (refusal.roster, state.linkage)


def _is_slot_gone(refusal: Refusal, state: CensusState, _held: _Held) -> bool:
    return state.open_slots.get(refusal.slot) != refusal.commitment


def _is_spent(refusal: Refusal, state: CensusState, held: _Held) -> bool:
    policy = state.policy
    if policy is None or state.shut_down or 0 < policy.max_answers <= state.answers + held.answers:
        return True
    # Reservations of others fall on everybody under strict accounting alone; at most the dearest price each.
    others = held.answers * held.units if policy.accounting == "strict" else 0
    return not fits(policy.cap, state.everyones_units + others, refusal.scale)


def _is_quota_reached(refusal: Refusal, state: CensusState, held: _Held) -> bool:
    policy = state.policy
    if policy is None or not policy.quota:
        return False
    return state.quota.counted(refusal.researcher, state.time_ms) + held.answers >= policy.quota


_RULES: dict[str, Callable[[Refusal, CensusState, _Held], bool]] = {
    "BUDGET_EXHAUSTED": _is_spent,
    "DICTIONARY_CHANGED": _is_other_dictionary,
    "POLICY_MISMATCH": _is_other_policy,
    "QUOTA_REACHED": _is_quota_reached,
    "RELEASE_MISMATCH": _is_other_release,
    "ROSTER_NOT_IN_FORCE": _is_other_roster,
    "SCALE_REFUSED": _is_other_scale,
    "SERVICE_SHUT_DOWN": _is_shut_down,
    "SLOT_UNUSABLE": _is_slot_gone,
    "UNKNOWN_PROJECT": _is_unknown_project,
    "UNKNOWN_RESEARCHER": _is_unknown,
}
