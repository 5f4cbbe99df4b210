"""That a quoted noise slot was committed to before anybody asked for it.

A census node that could choose a slot's secret after it has seen the ticket could draw until it likes the noise. So the
researcher signs for a slot only if its commitment stands in the census log under a checkpoint that the health agency has
cosigned; the signed ticket then carries slot, commitment and checkpoint, byte for byte. Whether a later entry has declared
the slot void, or a charge used it, only the census node and a replay of the log can tell: such a ticket is refused and
charges nothing.
"""

from __future__ import annotations

from tripartite.v1 import census_service_pb2, ticket_pb2

from broker_common.errors import PeerUnavailableError
from broker_common.tlog.entries import Entry, Slots, parse_entry
from broker_common.tlog.merkle import root_from_inclusion
from broker_common.tlog.note import Checkpoint
from researcher_node.trust.census_log import CensusLog


def verify_slot(slot: ticket_pb2.NoiseSlot, shown: census_service_pb2.QuoteResponse, log: CensusLog) -> None:
    """Return only if what the census node shows beside its quote proves that the quoted slot is committed to.

    1. its checkpoint is signed by the census log, 2. and cosigned by the health agency, 3. the entry that is shown is in
    that checkpoint, 4. at its own place, 5. and commits to slots, 6. this one among them, 7. as open, 8. with this commitment.

    Raises:
        PeerUnavailableError: PEER_MISBEHAVED, naming what does not hold.
    """
    # SECURITY: without this the census node could choose the noise of an answer after it has seen the question.
    checkpoint = log.verify_cosigned(slot.checkpoint)  # 1, 2
    entry = _proved_entry(shown, checkpoint)  # 3, 4
    event = entry.event
    if not isinstance(event, Slots):  # 5
        raise _lie("a noise slot whose entry in the log commits to no slots")
    if not event.first <= slot.number < event.first + len(event.commitments):  # 6
        raise _lie("a noise slot that its entry in the log does not commit to")
    if slot.number < event.void_below:  # 7
        raise _lie("a noise slot that is void from the start")
    if bytes.fromhex(event.commitments[slot.number - event.first]) != slot.commitment:  # 8
        raise _lie("a noise slot with another commitment than the log has")


def _proved_entry(shown: census_service_pb2.QuoteResponse, checkpoint: Checkpoint) -> Entry:
    try:
        root = root_from_inclusion(shown.slot_entry, shown.slot_index, checkpoint.size, shown.slot_proof)
    except ValueError as error:
        raise _lie(f"a noise slot that is not in its log: {error}") from error
    if root != checkpoint.root:
        raise _lie("a noise slot that is not in its log: the proof leads to another root")
    try:
        entry = parse_entry(shown.slot_entry)
    except ValueError as error:
        raise _lie("a noise slot whose entry in the log is none") from error
    if entry.sequence != shown.slot_index:
        raise _lie("a noise slot whose entry stands at another place than it says")
    return entry


def _lie(problem: str) -> PeerUnavailableError:
    return PeerUnavailableError("PEER_MISBEHAVED", peer="census", problem=problem)
