"""What the researcher knows the census agency's log by: who signs its checkpoints, and who cosigns them.

A checkpoint counts as seen by others only with both signatures: the census agency's own says which log it is, the health
agency's that the log went on from everything that the health agency had seen of it. Nothing is said here of what stands in
the log.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker_common.errors import InvalidRequestError, PeerUnavailableError
from broker_common.tlog.cosignature import CosignatureVerifier
from broker_common.tlog.note import Checkpoint, NoteVerifier


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
            raise _lie(
                "a checkpoint that is none" if is_none else "a checkpoint that its log has not signed"
            ) from error
        try:
            self.witness.verify(note)
        except InvalidRequestError as error:
            raise _lie("a checkpoint that the health agency has not cosigned") from error
        return checkpoint


def _lie(problem: str) -> PeerUnavailableError:
    return PeerUnavailableError("PEER_MISBEHAVED", peer="census", problem=problem)
