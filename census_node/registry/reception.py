"""One roster on its way: is it what its agency vouches for? Every check, before anything of it may be joined.

    1 the sender's organisation, manifest: signature, form     4 HPKE: the payload opens; its places may be declared
    2 number: the same roster again is good for ever           5 frames: ascending, one last, padding zero, none missing
    3 linkage chain, how often rosters come                    6 the commitment in the manifest

A refusal leaves the roster in force unchanged. The rounds know no socket: a caller feeds header and frames as they come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tripartite.v1 import roster_pb2

from broker_common.crypto.certificates import Identity
from broker_common.crypto.commitments import hash_bytes, verify_commitment
from broker_common.crypto.rosters import ROSTER_DOMAIN, RosterOpener, RosterPayload
from broker_common.crypto.sealing import UnsealingKey, roster_info, unseal_with_any
from broker_common.crypto.signing import VerifyKey, key_named
from broker_common.errors import InvalidRequestError, RefusedError
from broker_common.privacy.delays import DECLARED_STEP, too_short
from broker_common.privacy.policy import Policy
from broker_common.query.messages import parse_message
from broker_common.values import HASH_BYTES, Randomness
from census_node.registry.rosters import KeptRoster, RosterFolder

# The hour of `rosters_per_hour`.
HOUR_MS: Final = 3_600_000
# When to come again, for an agency that has sent many.
_RETRY_SECONDS = 60
# The largest number that a manifest may have: a log holds no larger one.
_MOST_NUMBER = 2**53 - 1


@dataclass(frozen=True, slots=True)
class RosterGate:
    """The view that a roster is checked against: consistent keys and log."""

    manifest_keys: Mapping[str, Sequence[VerifyKey]]
    sample_keys: Sequence[UnsealingKey]
    # Name of the linkage chain in force.
    linkage: str
    # Every roster that was ever received whole, by agency and number.
    kept: Sequence[KeptRoster]
    # How many rosters of this agency began within the hour, as this process knows, and how many may.
    attempts: int
    most_per_hour: int
    most_places: int
    now_ms: int
    policy: Policy


@dataclass(frozen=True, slots=True)
class AdmittedRoster:
    """A header that passed every check."""

    health: str
    number: int
    linkage: str
    commitment: bytes
    manifest_hash: bytes
    places: int
    # None for a roster that is here already.
    payload: RosterPayload | None


def admit(header: roster_pb2.RosterHeader, sender: Identity, gate: RosterGate) -> AdmittedRoster:
    """1 to 4.

    Raises:
        InvalidRequestError, RefusedError: the first check that fails.
    """
    # 1
    keys = gate.manifest_keys.get(sender.organisation)
    if keys is None:
        raise InvalidRequestError("WRONG_ORGANISATION", subject="roster")
    signed = header.manifest
    key = key_named(keys, signed.key_id, subject="manifest")
    key.verify_signature(ROSTER_DOMAIN + signed.manifest, signed.signature)
    manifest = parse_message(roster_pb2.RosterManifest, signed.manifest)
    if not 0 < manifest.number <= _MOST_NUMBER or len(manifest.commitment) != HASH_BYTES:
        raise InvalidRequestError("MALFORMED_MESSAGE", problem="the manifest is not one of a roster")
    # 2
    theirs = [roster for roster in gate.kept if roster.health == sender.organisation]
    manifest_hash = hash_bytes(signed.manifest)
    places = _places_of_repeat(manifest.number, manifest_hash, theirs)
    payload = None
    if places is None:
        # 3
        if manifest.linkage != gate.linkage:
            raise RefusedError("LINKAGE_MISMATCH")
        kept = sum(roster.received_ms > gate.now_ms - HOUR_MS for roster in theirs)
        if max(kept, gate.attempts) >= gate.most_per_hour:
            raise RefusedError("BUSY", retry_seconds=_RETRY_SECONDS)
        # 4
        payload = _opened(header, manifest_hash, gate)
        places = payload.places
    return AdmittedRoster(
        health=sender.organisation,
        number=manifest.number,
        linkage=manifest.linkage,
        commitment=manifest.commitment,
        manifest_hash=manifest_hash,
        places=places,
        payload=payload,
    )


def _places_of_repeat(number: int, manifest_hash: bytes, theirs: Sequence[KeptRoster]) -> int | None:
    """The declared places of a roster that was received before; None for one that is to be received now."""
    newest = max((roster.number for roster in theirs), default=0)
    for roster in theirs:
        if roster.number == number:
            if roster.manifest != manifest_hash.hex():
                raise InvalidRequestError("ROSTER_REUSED", number=number)
            # The newest one whose file was lost is needed again.
            return roster.places if roster.file or roster.number < newest else None
    if number < newest:
        raise InvalidRequestError("ROSTER_OLD", number=number)
    return None


def _opened(header: roster_pb2.RosterHeader, manifest_hash: bytes, gate: RosterGate) -> RosterPayload:
    sealed = unseal_with_any(gate.sample_keys, header.sealed_key, roster_info(manifest_hash), subject="roster")
    payload = RosterPayload.parse(sealed)
    # The health node refuses to serve with more than its delay covers; here they would fill the disk and overrun every tick.
    is_too_large = payload.places > gate.most_places or too_short(gate.policy, payload.places)
    if payload.places % DECLARED_STEP or is_too_large:
        raise InvalidRequestError("BAD_FRAMES", problem="so many places cannot be declared")
    return payload


class RosterReception:
    """The frames of an admitted roster: `add` each in its order, then `finish`; `abandon` if anything fails."""

    def __init__(self, admitted: AdmittedRoster, folder: RosterFolder, randomness: Randomness) -> None:
        """Raises RefusedError: BUSY."""
        if admitted.payload is None:
            raise ValueError("this roster is here already")
        self._admitted = admitted
        self._payload = admitted.payload
        self._opener = RosterOpener(admitted.payload)
        self._writer = folder.begin(admitted.places, randomness)

    @property
    def file(self) -> str:
        return self._writer.name

    def add(self, frame: roster_pb2.RosterFrame) -> None:
        """5: the next frame.

        Raises:
            InvalidRequestError: BAD_FRAMES, SEALED_WRONGLY.
            RefusedError: BUSY.
        """
        self._writer.add(self._opener.unseal_frame(frame.index, frame.last, frame.ciphertext))

    def finish(self, received_ms: int) -> KeptRoster:
        """6: the whole roster, durably in its file, for a row.

        Raises:
            InvalidRequestError: BAD_FRAMES, COMMITMENT_MISMATCH.
            RefusedError: BUSY.
        """
        verify_commitment(self._admitted.commitment, self._opener.finish(), subject="roster")
        return KeptRoster(
            health=self._admitted.health,
            number=self._admitted.number,
            linkage=self._admitted.linkage,
            commitment=self._admitted.commitment.hex(),
            salt=self._payload.salt.hex(),
            manifest=self._admitted.manifest_hash.hex(),
            places=self._admitted.places,
            people=self._payload.people,
            file=self._writer.finish(),
            received_ms=received_ms,
        )

    def abandon(self) -> None:
        """Erase what has come."""
        self._writer.abandon()
