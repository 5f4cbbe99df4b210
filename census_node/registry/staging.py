"""Rosters from their reception to their end: kept, joined, in force, replaced, erased. Blocking, without gRPC.

    received -> kept (file, then row: staged) -> joined with the load in force -> in force (logged) -> replaced -> erased

Each arrow but the second is one durable step; what was joined is in memory, and is joined again after a start. Each agency has one
roster in force, and perhaps a newer one staged. Only the switch is made at the desk, in its agency's own line: behind that agency's
earlier samples. Receiving (`admit` to `abandon`) is called from one thread, joining and erasing from one; the rest from any.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import structlog
from tripartite.v1 import roster_pb2

from broker_common.crypto.certificates import Identity
from broker_common.crypto.sealing import UnsealingKey
from broker_common.crypto.signing import VerifyKey
from broker_common.errors import InternalError, InvalidRequestError, RefusedError
from broker_common.logs import log_unforeseen
from broker_common.privacy.policy import Policy
from broker_common.storage.journal import Journal
from broker_common.storage.open_loads import OpenLoads
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import Rostered
from broker_common.values import Randomness
from census_node.registry.joining import JoinedRoster, join
from census_node.registry.reception import AdmittedRoster, RosterGate, RosterReception, admit
from census_node.registry.registry import Registry
from census_node.registry.rosters import KeptRoster, RosterBook, RosterFolder, RosterLostError

_log = structlog.get_logger()
RosterName: TypeAlias = tuple[str, int]
"""An agency and a number."""
# BUSY asks to wait this long for a roster that is not ready; the health node tries again by itself.
_RETRY_SECONDS = 1


@dataclass(frozen=True, slots=True)
class _Now:
    """The log and the rows at one instant."""

    load: str
    linkage: str
    commitments: Mapping[str, str]
    in_force: Mapping[str, Rostered]
    registered: Collection[str]
    kept: Sequence[KeptRoster]


class Rosters:
    """Every agency's."""

    def __init__(
        self,
        journal: Journal[CensusState],
        folder: RosterFolder,
        registries: OpenLoads[CensusState, Registry],
        *,
        manifest_keys: Callable[[], Mapping[str, Sequence[VerifyKey]]],
        sample_keys: Callable[[], Sequence[UnsealingKey]],
        randomness: Randomness,
        named: Callable[[], Collection[RosterName]] = frozenset,
    ) -> None:
        """`named` gives the replaced rosters that a kept sample still needs."""
        self._journal = journal
        self._folder = folder
        self._registries = registries
        self._manifest_keys = manifest_keys
        self._sample_keys = sample_keys
        self._randomness = randomness
        self._named = named
        # Keyed by agency, number and load. Replaced whole, never changed.
        self._joined: Mapping[tuple[str, int, str], JoinedRoster] = {}

    # --- received --------------------------------------------------------------------------------------------------

    def sweep(self) -> None:
        """At a start: erase files that no row names."""
        with self._journal.reading():
            kept = RosterBook(self._journal.db).all()
        self._folder.sweep({roster.file for roster in kept})

    def admit(
        self,
        header: roster_pb2.RosterHeader,
        sender: Identity,
        policy: Policy,
        *,
        attempts: int,
        most_per_hour: int,
        most_places: int,
    ) -> AdmittedRoster:
        """Check a header; see `reception`."""
        now = self._now()
        gate = RosterGate(
            manifest_keys=self._manifest_keys(),
            sample_keys=self._sample_keys(),
            linkage=now.linkage,
            kept=now.kept,
            attempts=attempts,
            most_per_hour=most_per_hour,
            most_places=most_places,
            now_ms=self._journal.now(),
            policy=policy,
        )
        return admit(header, sender, gate)

    def begin(self, admitted: AdmittedRoster) -> RosterReception:
        """Make ready for the frames of an admitted roster, which is not here yet."""
        return RosterReception(admitted, self._folder, self._randomness)

    def keep(self, reception: RosterReception) -> None:
        """Stage a roster that has come whole.

        Raises:
            InvalidRequestError: BAD_FRAMES, COMMITMENT_MISMATCH.
            RefusedError: BUSY, it could not be written.
            InternalError: its row could not be.
        """
        roster = reception.finish(self._journal.now())
        with self._journal.transaction() as transaction:
            RosterBook(transaction.db).put(roster)
        # CRASH: kept and not acknowledged; its agency sends it again and is told at once that it is here.

    def abandon(self, reception: RosterReception) -> None:
        """Erase what has come of a roster, unless a row names it after all."""
        if self._journal.is_broken:
            # After an uncertain commit the next start sweeps, or not.
            return
        with self._journal.reading():
            is_named = any(roster.file == reception.file for roster in RosterBook(self._journal.db).all())
        if not is_named:
            try:
                reception.abandon()
            except InternalError:
                _log.warning("what came of a roster is erased at the next start")

    # --- joined ----------------------------------------------------------------------------------------------------

    def usable(self, health: str, number: int) -> JoinedRoster:
        """An agency's roster in force on the load in force, if it has this number.

        SECURITY: what is said follows from numbers and from what the operators load, from no sample.

        Raises:
            InvalidRequestError: ROSTER_NOT_IN_FORCE.
            RefusedError: BUSY, it is staged, or is being joined.
        """
        with self._journal.reading() as state:
            roster, load, linkage = state.rosters.get(health), state.load, state.linkage
            newest = RosterBook(self._journal.db).of(health)[-1:]
        in_force = 0 if roster is None else roster.number
        found = self._joined.get((health, number, load))
        if number == in_force and found is not None:
            return found
        is_staged = any(each.number == number > in_force and each.file for each in newest)
        # One of another chain is never joined again: a change of the key needs a new roster.
        is_joining = roster is not None and number == in_force and roster.linkage == linkage
        if is_staged or is_joining:
            raise RefusedError("BUSY", retry_seconds=_RETRY_SECONDS)
        raise InvalidRequestError("ROSTER_NOT_IN_FORCE")

    def declared(self, health: str, number: int) -> int:
        """For how many places a roster was declared that was ever received.

        Raises:
            InvalidRequestError: ROSTER_NOT_IN_FORCE.
        """
        with self._journal.reading():
            kept = [roster for roster in RosterBook(self._journal.db).of(health) if roster.number == number]
        if not kept:
            raise InvalidRequestError("ROSTER_NOT_IN_FORCE")
        return kept[0].places

    def is_in_force(self, health: str, number: int) -> bool:
        """Whether an agency's roster of this number, or a later one, came into force."""
        with self._journal.reading() as state:
            return was_in_force(state.rosters, health, number)

    def join_due(self) -> list[RosterName]:
        """Join what has to be with the load in force; gives the staged rosters that may come into force."""
        now = self._now()
        joined: dict[tuple[str, int, str], JoinedRoster] = {}
        used = in_use(now.kept, now.in_force, now.registered)
        for roster in used:
            name = (roster.health, roster.number, now.load)
            found = self._joined.get(name) or self._join(roster, now)
            if found is not None:
                joined[name] = found
        self._joined = joined
        return [(health, number) for health, number, _ in joined if not was_in_force(now.in_force, health, number)]

    def _join(self, roster: KeptRoster, now: _Now) -> JoinedRoster | None:
        if roster.linkage != now.linkage:
            # Until the other agency has done its part.
            return None
        try:
            registry = self._registries.store(now.load, dict(now.commitments))
            return join(roster, self._folder.pieces(roster), registry, self._randomness)
        except RosterLostError:
            _log.error("a roster is damaged or missing; its agency sends it again", agency=roster.health)
            self._forget(roster)
        except (InternalError, RefusedError, MemoryError, OSError) as error:
            # The load may have been replaced meanwhile; otherwise questions say what is wrong with it.
            _log.warning("a roster was not joined", agency=roster.health, kind=type(error).__name__)
        except Exception as error:  # noqa: BLE001 - one agency's roster keeps no other from being joined
            log_unforeseen(error)
        return None

    # --- in force --------------------------------------------------------------------------------------------------

    def switch(self, health: str, number: int, *, at_ms: int) -> int | None:
        """Put an agency's staged roster in force; gives its entry, None if it is not to be after all, or a newer one is.

        Done at the desk: nobody charges meanwhile.
        """
        with self._journal.transaction() as transaction:
            state = transaction.state
            theirs = RosterBook(transaction.db).of(health)
            is_ready = (
                bool(theirs)
                and theirs[-1].number == number
                and not was_in_force(state.rosters, health, theirs[-1].number)
                and (health, theirs[-1].number, state.load) in self._joined
                and theirs[-1].linkage == state.linkage
                and state.parties.peer("health", health) is not None
            )
            if not is_ready:
                return None
            newest = theirs[-1]
            # CRASH: before the commit it is staged and joined again after a start; after it, in force.
            entry = transaction.append(
                Rostered(
                    health=health,
                    number=newest.number,
                    linkage=newest.linkage,
                    commitment=newest.commitment,
                    manifest=newest.manifest,
                ),
                at_ms=at_ms,
            )
        return entry.sequence

    # --- erased ----------------------------------------------------------------------------------------------------

    def erase_replaced(self) -> None:
        """Erase the rosters that are neither in force nor staged, and that nothing names."""
        now = self._now()
        used = {(roster.health, roster.number) for roster in in_use(now.kept, now.in_force, now.registered)}
        replaced = [roster for roster in now.kept if roster.file and (roster.health, roster.number) not in used]
        named = self._named() if replaced else ()
        for roster in replaced:
            if (roster.health, roster.number) not in named:
                self._forget(roster)

    def _forget(self, roster: KeptRoster) -> None:
        self._folder.wipe(roster.file)
        # CRASH: a row that names a file which is gone; it is erased again after a start.
        with self._journal.transaction() as transaction:
            RosterBook(transaction.db).erase(roster)

    def _now(self) -> _Now:
        with self._journal.reading() as state:
            return _Now(
                load=state.load,
                linkage=state.linkage,
                commitments=dict(state.commitments),
                in_force=dict(state.rosters),
                registered=frozenset(state.parties.peers("health")),
                kept=RosterBook(self._journal.db).all(),
            )


def in_use(
    kept: Sequence[KeptRoster], in_force: Mapping[str, Rostered], registered: Collection[str]
) -> list[KeptRoster]:
    """Each registered agency's roster in force and staged roster, if they are here."""
    named = newest_and_in_force(kept, in_force, registered)
    return [roster for roster in named if roster.file]


def newest_and_in_force(
    kept: Sequence[KeptRoster], in_force: Mapping[str, Rostered], registered: Collection[str]
) -> list[KeptRoster]:
    """The same, with those that are lost."""
    wanted = {(roster.health, roster.number) for roster in in_force.values()}
    # The last of each agency is its newest.
    wanted |= set({roster.health: (roster.health, roster.number) for roster in kept}.values())
    return [roster for roster in kept if roster.health in registered and (roster.health, roster.number) in wanted]


def rosters_of(journal: Journal[CensusState]) -> list[tuple[KeptRoster, bool]]:
    """The rosters in force and staged, by agency, lost ones included; True for one in force."""
    with journal.reading() as state:
        kept, in_force = RosterBook(journal.db).all(), dict(state.rosters)
        named = newest_and_in_force(kept, in_force, state.parties.peers("health"))
    return [(roster, was_in_force(in_force, roster.health, roster.number)) for roster in named]


def was_in_force(in_force: Mapping[str, Rostered], health: str, number: int) -> bool:
    """Whether an agency's roster of this number, or a later one, came into force."""
    return health in in_force and number <= in_force[health].number
