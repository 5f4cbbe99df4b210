"""Rosters made by hand, as an agency that lies would send them, and rosters read slowly, from the description."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from fakes.world import HEALTH, OTHER_HEALTH, World
from tripartite.v1 import census_service_pb2, roster_pb2

from broker_common.crypto.certificates import Identity
from broker_common.crypto.commitments import commit_roster, hash_bytes
from broker_common.crypto.frames import FRAME_BYTES, FrameSealer
from broker_common.crypto.rosters import RosterPayload, roster_hash
from broker_common.crypto.sealing import roster_info
from broker_common.crypto.signing import SigningKey
from broker_common.privacy.delays import DECLARED_STEP
from health_node.roster.sending import sign_roster

Rows = npt.NDArray[np.uint8]
Request = census_service_pb2.SendRosterRequest


@dataclass(kw_only=True)
class MadeRoster:
    """A sound roster of these people; a liar changes what it likes before `requests`."""

    world: World
    rows: Rows
    number: int = 1
    sender: Identity = HEALTH
    places: int = DECLARED_STEP
    salt: bytes = field(default_factory=lambda: os.urandom(32))
    # As the manifest, the payload and the commitment say, unless they say the truth.
    linkage: str = ""
    people: int | None = None
    committed_places: int | None = None
    key: SigningKey | None = None
    # Messages after the pseudonyms.
    padding: bytes | None = None

    @property
    def manifest(self) -> roster_pb2.RosterManifest:
        """Statement that the agency signs."""
        places = self.places if self.committed_places is None else self.committed_places
        return roster_pb2.RosterManifest(
            number=self.number,
            linkage=self.linkage or self.world.linkage,
            commitment=commit_roster(self.salt, places, roster_hash(self.rows)),
        )

    def signed(self) -> roster_pb2.SignedRosterManifest:
        """With its signature."""
        secrets = self.world.secrets
        usual = secrets.other_manifest if self.sender == OTHER_HEALTH else secrets.manifest
        return sign_roster(self.manifest.SerializeToString(deterministic=True), self.key or usual)

    def parts(self, *, info: bytes | None = None) -> list[Request]:
        """Header and frames of one attempt."""
        sealer, signed = FrameSealer(os.urandom), self.signed()
        people = len(self.rows) if self.people is None else self.people
        payload = RosterPayload(sealer.frame_key, self.salt, places=self.places, people=people)
        info = roster_info(hash_bytes(signed.manifest)) if info is None else info
        sealed = self.world.secrets.sample.sealing_key.seal(payload.to_bytes(), info)
        text = self.rows.tobytes() + (
            bytes(16 * (self.places - len(self.rows))) if self.padding is None else self.padding
        )
        requests = [Request(header=roster_pb2.RosterHeader(manifest=signed, sealed_key=sealed))]
        count = len(text) // FRAME_BYTES
        for index in range(count):
            last = index == count - 1
            ciphertext = sealer.seal_frame(index, last, text[index * FRAME_BYTES : (index + 1) * FRAME_BYTES])
            requests.append(Request(frame=roster_pb2.RosterFrame(index=index, last=last, ciphertext=ciphertext)))
        return requests


async def requests_of(parts: Iterable[Request]) -> AsyncIterator[Request]:
    """Parts as a stream."""
    for part in parts:
        yield part


def halves_of_rows(rows: Rows) -> list[Any]:
    """The high and the low halves of some pseudonyms."""
    halves = np.ascontiguousarray(rows).view(">u8").reshape(-1, 2).astype(np.uint64)
    return [halves[:, 0].copy(), halves[:, 1].copy()]
