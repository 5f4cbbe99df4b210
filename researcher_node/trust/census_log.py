"""The census agency's log as the researcher knows it: its keys, its noise slots, and what it showed before.

A checkpoint counts as seen by others only with both signatures: the census agency's own says which log it is, the health
agency's that the log went on from everything that the health agency had seen of it.

A census node that could choose a slot's secret after it has seen the ticket could draw until it likes the noise. So the
researcher signs for a slot only if its commitment stands in the census log under a checkpoint that the health agency has
cosigned; the signed ticket then carries slot, commitment and checkpoint, byte for byte. Whether a later entry has declared
the slot void, or a charge used it, only the census node and a replay of the log can tell: such a ticket is refused and
charges nothing.

A log that shows one past today and another one next month is found out by a researcher who remembers: `census.checkpoint` in the
home is the newest checkpoint that was verified here, a signed note as it came. The file is replaced only by a checkpoint that was
proved to go on from it; one that contradicts it leaves it as it is. Removing it forgets what was seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tripartite.v1 import census_service_pb2, ticket_pb2

from broker_common.errors import InvalidRequestError, PeerUnavailableError
from broker_common.storage.durable import exclusive, replace_file
from broker_common.tlog.cosignature import CosignatureVerifier
from broker_common.tlog.entries import Entry, Slots, parse_entry
from broker_common.tlog.merkle import root_from_inclusion
from broker_common.tlog.note import MAX_NOTE_BYTES, Checkpoint, NoteVerifier, parse_note


@dataclass(frozen=True, slots=True)
class CensusLog:
    """The log's own keys and those of its witness, as the cards that are trusted now have them."""

    signers: NoteVerifier
    witness: CosignatureVerifier

    def verify_cosigned(self, note: str) -> Checkpoint:
        """The checkpoint of `note`, which the census node shows, if the log signed it and its witness cosigned it.

        Raises:
            PeerUnavailableError: PEER_MISBEHAVED, naming the signature that is missing or does not hold.
        """
        try:
            checkpoint = self.signers.verify_checkpoint(note)
        except InvalidRequestError as error:
            is_none = error.code == "MALFORMED_MESSAGE"
            raise lie("a checkpoint that is none" if is_none else "a checkpoint that its log has not signed") from error
        try:
            self.witness.verify(note)
        except InvalidRequestError as error:
            raise lie("a checkpoint that the health agency has not cosigned") from error
        return checkpoint


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
        raise lie("a noise slot whose entry in the log commits to no slots")
    if not event.first <= slot.number < event.first + len(event.commitments):  # 6
        raise lie("a noise slot that its entry in the log does not commit to")
    if slot.number < event.void_below:  # 7
        raise lie("a noise slot that is void from the start")
    if bytes.fromhex(event.commitments[slot.number - event.first]) != slot.commitment:  # 8
        raise lie("a noise slot with another commitment than the log has")


def _proved_entry(shown: census_service_pb2.QuoteResponse, checkpoint: Checkpoint) -> Entry:
    try:
        root = root_from_inclusion(shown.slot_entry, shown.slot_index, checkpoint.size, shown.slot_proof)
    except ValueError as error:
        raise lie(f"a noise slot that is not in its log: {error}") from error
    if root != checkpoint.root:
        raise lie("a noise slot that is not in its log: the proof leads to another root")
    try:
        entry = parse_entry(shown.slot_entry)
    except ValueError as error:
        raise lie("a noise slot whose entry in the log is none") from error
    if entry.sequence != shown.slot_index:
        raise lie("a noise slot whose entry stands at another place than it says")
    return entry


def lie(problem: str) -> PeerUnavailableError:
    """The census node's proof does not hold."""
    return PeerUnavailableError("PEER_MISBEHAVED", peer="census", problem=problem)


class RememberedCheckpoint:
    """The file of one home. Several processes may check at once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Checkpoint | None:
        """The checkpoint seen last, or None before the first time.

        Raises:
            InvalidRequestError: FILE_UNUSABLE.
        """
        note = self._note()
        return None if note is None else self._parse(note)

    def replace(self, before: Checkpoint | None, note: str) -> None:
        """Remember a newer checkpoint, which was proved to go on from `before`, unless another process has been here since."""
        with exclusive(self.path.with_name(f".{self.path.name}.lock"), wait=True):
            if self.read() == before:
                replace_file(self.path, note.encode())

    def _note(self) -> str | None:
        try:
            with self.path.open("rb") as file:
                return file.read(MAX_NOTE_BYTES + 1).decode()
        except FileNotFoundError:
            return None
        except UnicodeDecodeError as error:
            raise self._unusable() from error

    def _parse(self, note: str) -> Checkpoint:
        try:
            return parse_note(note)[0]
        except InvalidRequestError as error:
            raise self._unusable() from error

    def _unusable(self) -> InvalidRequestError:
        return InvalidRequestError("FILE_UNUSABLE", file=str(self.path), problem="it is not a signed checkpoint")
