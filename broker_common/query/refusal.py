"""Refusals of samples, as the census agency signs them.

A refusal is one canonical JSON document: sorted keys, no white space, strings and integers only. It says what was refused, with
which code, and between which instants that was decided; and what the census agency read in the ticket, so that an auditor who has
the two logs and no ticket can see whether the code follows.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from tripartite.v1 import ticket_pb2

from broker_common.crypto.commitments import hash_bytes
from broker_common.query.messages import parse_message
from broker_common.values import HASH_BYTES

# The largest document: names of their full length, and room.
MAX_REFUSAL_BYTES = 2048
# JSON numbers are exact everywhere only up to here.
_MOST = 2**53 - 1
# The longest name of a party, a project or a log.
_MAX_NAME_CHARACTERS = 200
_Count = Annotated[int, Meta(ge=0, le=_MOST)]
_Hash = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
_HashOrNone = Annotated[str, Meta(pattern=r"\A([0-9a-f]{64})?\Z")]
_Name = Annotated[str, Meta(min_length=1, max_length=_MAX_NAME_CHARACTERS)]


class Refusal(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """One refusal. Signed under `Purpose.REFUSAL`."""

    code: Annotated[str, Meta(pattern=r"\A[A-Z_]{1,64}\Z")]
    # The commitment of the noise slot that the ticket names; empty where that is no commitment.
    commitment: _HashOrNone
    # Hash of the census dictionary that the ticket names; not there if it names none.
    dictionary: _HashOrNone = ""
    expires_ms: _Count
    # The agency that sent the sample.
    health: _Name
    # Origin of the census log.
    log: _Name
    # Hash of the manifest.
    manifest: _Hash
    policy: _Hash
    project: _Name
    # Hash of the census release's name.
    release: _Hash
    researcher: _Name
    roster: _Count
    scale: _Count
    # How much of the census log was shown when the sample began to arrive: it was refused as of this entry or a later one.
    size: _Count
    slot: _Count
    ticket: _Hash
    # When the refusal left, and no earlier than the log's newest entry then.
    time_ms: _Count

    @property
    def document(self) -> bytes:
        """The bytes that are signed."""
        return msgspec.json.encode(self, order="sorted")


_DECODER = msgspec.json.Decoder(Refusal)


def parse_refusal(document: bytes) -> Refusal:
    """The refusal that `document` spells canonically.

    Raises:
        ValueError: it is none, or not the canonical spelling of one.
    """
    if len(document) > MAX_REFUSAL_BYTES:
        raise ValueError("the refusal is too long")
    try:
        refusal = _DECODER.decode(document)
    except RecursionError:
        raise ValueError("the refusal is nested too deep") from None
    if refusal.document != document:
        raise ValueError("the refusal is not canonical JSON")
    return refusal


def refusal_of(
    ticket: bytes, manifest: bytes, *, code: str, health: str, log: str, roster: int, size: int, time_ms: int
) -> Refusal:
    """The refusal of a ticket and a manifest, both as they were signed.

    Raises:
        InvalidRequestError: MALFORMED_MESSAGE.
        ValueError: no refusal can say what the ticket says.
    """
    body = parse_message(ticket_pb2.Ticket, ticket)
    commitment = body.noise_slot.commitment
    refusal = Refusal(
        code=code,
        commitment=commitment.hex() if len(commitment) == HASH_BYTES else "",
        dictionary=body.census_dictionary.hex() if len(body.census_dictionary) == HASH_BYTES else "",
        expires_ms=_bounded(body.expires_ms),
        health=health,
        log=log,
        manifest=hash_bytes(manifest).hex(),
        policy=body.policy_hash.hex(),
        project=body.project_id,
        release=hash_bytes(body.census_release.encode()).hex(),
        researcher=body.researcher_id,
        roster=_bounded(roster),
        scale=body.scale,
        size=size,
        slot=_bounded(body.noise_slot.number),
        ticket=hash_bytes(ticket).hex(),
        time_ms=time_ms,
    )
    return parse_refusal(refusal.document)


def _bounded(number: int) -> int:
    """A number of a ticket as JSON can say it; nothing that is in force is beyond it."""
    return min(max(number, 0), _MOST)
