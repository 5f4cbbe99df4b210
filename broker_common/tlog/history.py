"""Events of a log, for people who read it: policies, orders, peers, loads and keys in order, and who used how much.

Beside the fold of the state, entry by entry: `take` is called with the state after each entry. Nothing in it depends on
anybody's records; everything is in the log for those who hold it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from broker_common.crypto.cards import Card, SignedCard
from broker_common.privacy.policy import Policy
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import (
    Adopted,
    Announced,
    Charged,
    Entry,
    Forwarded,
    Loaded,
    Refused,
    Registered,
    Relinked,
    Reopened,
    ReportedCharge,
    Revoked,
    Rostered,
    Settled,
    Shutdown,
    Slots,
    Submitted,
)
from broker_common.tlog.parties import peer_name
from broker_common.tlog.replay import LogState

Kind: TypeAlias = Literal[
    "adopted",
    "confirmed",
    "shutdown",
    "budget",
    "reopened",
    "registered",
    "replaced",
    "revoked",
    "loaded",
    "relinked",
    "rostered",
    "roster_numbered",
    "key",
]
# Points of the line of charges that are kept; beyond them every other one goes.
_MOST_POINTS = 512


@dataclass(frozen=True, slots=True)
class Happening:
    """One entry that people want to know of; `details` are what its sentence names."""

    entry: int
    time_ms: int
    kind: Kind
    details: Mapping[str, str]
    # The operator's reason, or why a card was replaced.
    note: str = ""


@dataclass(frozen=True, slots=True)
class Use:
    """One researcher's questions for one project, and in which entries."""

    answers: int
    units: int
    last_ms: int
    first_entry: int
    last_entry: int


@dataclass(frozen=True, slots=True)
class Point:
    """How much was charged in all at a time."""

    time_ms: int
    answers: int
    units: int


class Ceiling:
    """The most that one person, or one household, can have been charged; told of every charge in the order of the log."""

    def __init__(self) -> None:
        self.units = 0

    def take(self, charge: Charged, policy: Policy) -> None:
        """Take in a charge that was made under `policy`: to everybody, which always fits, or to the people in a sample.

        SECURITY: by the cap in force at the charge, not by the one in force now. A lowered cap takes nothing back of what
        was charged under a higher one, and a raised cap has let nobody be charged more before it.
        """
        # A household is charged for each of its people in the sample, and how many there are is not said.
        reached = self.units + charge.units if policy.subject == "person" else policy.cap
        self.units = max(self.units, min(reached, policy.cap))


@dataclass(slots=True)
class History:
    """The story of one log."""

    happenings: list[Happening] = field(default_factory=list)
    # First and last entry of each type, and the times of the log's first and last entry.
    entries: dict[str, tuple[int, int]] = field(default_factory=dict)
    # The agency whose log it is.
    organisation: str = ""
    first_ms: int = 0
    last_ms: int = 0
    # Use by researcher and project; a health log counts submitted questions, without units.
    use: dict[tuple[str, str], Use] = field(default_factory=dict)
    points: list[Point] = field(default_factory=list)
    # Census: the most that anybody can have been charged, which says nothing of who was in which sample.
    ceiling: Ceiling = field(default_factory=Ceiling)
    # Census: answers that were charged to the people in their samples.
    sampled: int = 0
    # Health: refusals by code, and how many samples were handed over, charged and answered.
    refusals: dict[str, int] = field(default_factory=dict)
    # Census: as far as the other agency is shown the log and has to cosign it, and when the newest entry of that was written.
    due_size: int = 0
    due_ms: int = 0
    forwarded: int = 0
    charged: int = 0
    settled: int = 0
    _known: dict[tuple[str, str], Card] = field(default_factory=dict)
    _own: Card | None = None
    _policy: Policy | None = None
    _answers: int = 0
    # One charge in so many makes a point.
    _every: int = 1

    def take(self, state: LogState, entry: Entry) -> None:
        """Note the entry that `state` has just taken in."""
        kind, number = str(entry.event.__struct_config__.tag), entry.sequence
        self.entries[kind] = (self.entries.get(kind, (number, number))[0], number)
        self.first_ms, self.last_ms = self.first_ms or entry.time_ms, entry.time_ms
        match entry.event:
            case Charged() as event:
                self.due_size, self.due_ms = entry.sequence + 1, entry.time_ms
                self._charge(state, event, entry)
            case Slots():
                self.due_size, self.due_ms = entry.sequence + 1, entry.time_ms
            case Submitted() as event:
                self._use(event.researcher, event.project, 0, entry)
            case Forwarded():
                self.forwarded += 1
            case ReportedCharge():
                self.charged += 1
            case Settled():
                self.settled += 1
            case Refused(code=code):
                self.refusals[code] = self.refusals.get(code, 0) + 1
            case _:
                self._take_rare(state, entry)

    def _take_rare(self, state: LogState, entry: Entry) -> None:
        """Entries that people decided on; there are few."""
        match entry.event:
            case Adopted() as event if isinstance(state, CensusState) and state.policy is not None:
                policy = state.policy
                details = {
                    "max_belief": policy.max_belief,
                    "accounting": policy.accounting,
                    "hash": state.policy_hash,
                    "changed": ",".join(_changed(self._policy, policy)),
                }
                self._policy = policy
                self._note(entry, "confirmed" if event.confirmation else "adopted", details, event.note)
            case Shutdown(reason=reason, note=note):
                self._note(entry, "shutdown" if reason == "operator" else "budget", {}, note)
            case Reopened(note=note):
                self._note(entry, "reopened", {}, note)
            case Loaded(load=load, release=release):
                self._note(entry, "loaded", {"load": load, "release": release})
            case Relinked(load=load, linkage=linkage):
                self._note(entry, "relinked", {"load": load, "linkage": linkage})
            case Rostered(health=health, number=roster):
                # In a health log it is about to be sent.
                is_in_force = isinstance(state, CensusState)
                self._note(
                    entry, "rostered" if is_in_force else "roster_numbered", {"health": health, "number": str(roster)}
                )
            case Registered() | Revoked() | Announced() as event:
                self._take_membership(state, entry, event)
            case _:
                pass

    def _take_membership(self, state: LogState, entry: Entry, event: Registered | Revoked | Announced) -> None:
        match event:
            case Registered(card=card, note=note):
                self._take_peer(state, entry, card, note)
            case Revoked(role=role, name=name, note=note):
                self._known.pop((role, name), None)
                self._note(entry, "revoked", {"role": role, "name": name}, note)
            case Announced():
                self._take_own(state, entry)

    def _charge(self, state: LogState, event: Charged, entry: Entry) -> None:
        self._use(event.researcher, event.project, event.units, entry)
        self._answers += 1
        self.sampled += bool(event.ledger)
        if self._answers % self._every == 0:
            self.points.append(Point(entry.time_ms, self._answers, event.total))
        if len(self.points) > _MOST_POINTS:
            self.points, self._every = self.points[1::2], 2 * self._every
        if isinstance(state, CensusState) and state.policy is not None:
            self.ceiling.take(event, state.policy)

    def _note(self, entry: Entry, kind: Kind, details: Mapping[str, str], note: str = "") -> None:
        self.happenings.append(Happening(entry.sequence, entry.time_ms, kind, details, note))

    def _take_peer(self, state: LogState, entry: Entry, signed: SignedCard, note: str) -> None:
        registration = next(peer for peer in state.parties.everybody() if peer.card.signed == signed)
        card = registration.card.card
        key = (card.role, peer_name(card.identity))
        before = self._known.get(key)
        self._known[key] = card
        details = {"role": card.role, "name": key[1], "serial": str(card.serial)}
        if before is None or (before == card and not note):
            # The same card again: other projects, or another inbox.
            self._note(entry, "registered", {**details, "projects": ", ".join(registration.projects)}, note)
        elif note:
            self._note(entry, "replaced", details, note)
        elif before.serial != card.serial:
            self._note(entry, "key", {**details, "purposes": _new_keys(before, card)})

    def _take_own(self, state: LogState, entry: Entry) -> None:
        assert state.parties.own is not None  # noqa: S101 - the entry was taken in
        card, before = state.parties.own.card, self._own
        self._own, self.organisation = card, card.organisation
        if before is not None:
            details = {"role": card.role, "name": card.organisation, "serial": str(card.serial)}
            self._note(entry, "key", {**details, "purposes": _new_keys(before, card)})

    def _use(self, researcher: str, project: str, units: int, entry: Entry) -> None:
        before = self.use.get((researcher, project), Use(0, 0, 0, entry.sequence, 0))
        self.use[researcher, project] = Use(
            before.answers + 1, before.units + units, entry.time_ms, before.first_entry, entry.sequence
        )


def _changed(before: Policy | None, policy: Policy) -> list[str]:
    """The fields in which a policy differs from the one before; none of the first."""
    if before is None:
        return []
    return [name for name in policy.__struct_fields__ if getattr(policy, name) != getattr(before, name)]


def _new_keys(before: Card, card: Card) -> str:
    """The purposes for which a card lists a key that the one before did not."""
    old = {(key.purpose, key.key) for key in before.keys}
    return ", ".join(dict.fromkeys(key.purpose for key in card.keys if (key.purpose, key.key) not in old))
