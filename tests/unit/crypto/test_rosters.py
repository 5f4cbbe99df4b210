"""Rosters on their way: a payload and frames come through whole, ascending and untouched, or are refused."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pytest
from fakes.randomness import SeededRandomness

from broker_common.crypto.commitments import commit_active, commit_roster
from broker_common.crypto.frames import FrameSealer
from broker_common.crypto.rosters import (
    MOST_PLACES,
    PLACES_PER_FRAME,
    ROSTER_DOMAIN,
    RosterFrames,
    RosterOpener,
    RosterPayload,
    roster_hash,
)
from broker_common.errors import InvalidRequestError

SALT = bytes(range(100, 132))
KEY = bytes(range(32))
PLACES = 3 * PLACES_PER_FRAME
Rows = npt.NDArray[np.uint8]


def people(count: int) -> Rows:
    """Ascending pseudonyms."""
    rows = np.zeros((count, 16), np.uint8)
    rows[:, 12:] = np.arange(1, count + 1, dtype=">u4").view(np.uint8).reshape(-1, 4)
    return rows


def opened(payload: RosterPayload, plaintexts: Iterable[tuple[int, bool, bytes]], sealer: FrameSealer) -> bytes:
    """Commitment to frames of these plaintexts."""
    opener = RosterOpener(payload)
    for index, last, text in plaintexts:
        opener.unseal_frame(index, last, sealer.seal_frame(index, last, text))
    return opener.finish()


def laid_out(rows: Rows) -> list[tuple[int, bool, bytes]]:
    """All frames; each is copied before the next takes its place."""
    return [(index, last, bytes(text)) for index, last, text in RosterFrames(rows, PLACES)]


SIZES = [0, 1, PLACES_PER_FRAME - 1, PLACES_PER_FRAME, PLACES_PER_FRAME + 1, PLACES - 1, PLACES]


@pytest.mark.parametrize("count", SIZES)
def test_roster_survives_its_frames(count: int) -> None:
    """Whatever its size: as many frames as the places say, and the commitment of exactly these people."""
    rows, sealer = people(count), FrameSealer(SeededRandomness())
    payload = RosterPayload(sealer.frame_key, SALT, places=PLACES, people=count)
    texts = laid_out(rows)
    assert len(texts) == 3
    assert b"".join(text for *_, text in texts) == rows.tobytes() + bytes(16 * (PLACES - count))
    assert roster_hash(rows) == hashlib.sha256(b"tripartite/set/v1\0" + rows.tobytes()).digest()
    assert opened(payload, texts, sealer) == commit_roster(SALT, PLACES, roster_hash(rows))


def test_payload_survives_its_bytes_and_shows_no_secret() -> None:
    """88 bytes, read back as they were written; key and salt are in no text of it."""
    payload = RosterPayload(KEY, SALT, places=PLACES, people=7)
    assert len(payload.to_bytes()) == 88
    assert RosterPayload.parse(payload.to_bytes()) == payload
    assert repr(KEY)[2:-1] not in repr(payload)
    assert "salt" not in repr(payload)


@pytest.mark.parametrize(
    "data",
    {
        "nothing": b"",
        "cut short": RosterPayload(KEY, SALT, places=PLACES, people=7).to_bytes()[:-1],
        "too long": RosterPayload(KEY, SALT, places=PLACES, people=7).to_bytes() + b"\0",
        "another kind": b"tripSMP1" + RosterPayload(KEY, SALT, places=PLACES, people=7).to_bytes()[8:],
        "no places": RosterPayload(KEY, SALT, places=0, people=0).to_bytes(),
        "half a frame": RosterPayload(KEY, SALT, places=PLACES + 1, people=7).to_bytes(),
        "too many places": RosterPayload(KEY, SALT, places=MOST_PLACES + PLACES_PER_FRAME, people=7).to_bytes(),
        "more people than places": RosterPayload(KEY, SALT, places=PLACES, people=PLACES + 1).to_bytes(),
    }.values(),
)
def test_payload_that_is_none_is_refused(data: bytes) -> None:
    """Its places are bounded before anything is read or written for them."""
    with pytest.raises(InvalidRequestError, match="BAD_FRAMES"):
        RosterPayload.parse(data)


def test_order_is_checked_across_frames() -> None:
    """The first of a frame above the last of the one before."""
    rows, sealer = people(PLACES_PER_FRAME + 1), FrameSealer(SeededRandomness())
    rows[PLACES_PER_FRAME] = rows[PLACES_PER_FRAME - 1]
    payload = RosterPayload(sealer.frame_key, SALT, places=PLACES, people=len(rows))
    with pytest.raises(InvalidRequestError, match="not strictly ascending"):
        opened(payload, laid_out(rows), sealer)


def test_commitment_is_bound_to_salt_places_and_people() -> None:
    """Another salt, other places or other people are another roster; and no sample's commitment is a roster's."""
    set_hash = roster_hash(people(3))
    commitments = {
        commit_roster(SALT, PLACES, set_hash),
        commit_roster(bytes(32), PLACES, set_hash),
        commit_roster(SALT, 2 * PLACES, set_hash),
        commit_roster(SALT, PLACES, roster_hash(people(4))),
        commit_active(SALT, PLACES.to_bytes(8, "big"), set_hash),
    }
    assert len(commitments) == 5


def test_no_manifest_of_a_sample_begins_like_a_rosters() -> None:
    """The first byte would be field 14 with the end of a group, which a message of ours never holds."""
    assert ROSTER_DOMAIN[0] >> 3 == 14
    assert ROSTER_DOMAIN[0] & 7 == 4


def test_more_people_than_places_are_not_laid_out() -> None:
    """A load that does not fit was refused to its operator; nothing of it is cut off here."""
    with pytest.raises(ValueError, match="do not fit"):
        RosterFrames(people(PLACES + 1), PLACES)
