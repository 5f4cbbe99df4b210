"""Witnessing between two nodes: each cosigns what it has seen of the other's log, and hears what was seen of its own.

    ours    a peer shows a checkpoint of our log, with our own signature and its cosignature. It is kept, with these lines
            and no other. If it is larger than our log, or beside it, our log has been rolled back: nobody but us can have
            signed it.
    theirs  a peer shows a checkpoint of its log and a proof that it goes on from the last one that we cosigned. It is
            cosigned, durably, before anybody hears of it. A smaller one, or one beside the last, never is.

Neither side waits for the other: what cannot be cosigned is answered with what was cosigned last. Cosigned checkpoints are
rows beside a node's log, never entries of it: two logs that noted each other's growth as entries would grow for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from sqlite_utils import Database

from broker_common.errors import InternalError, InvalidRequestError
from broker_common.storage.durable import replace_file
from broker_common.storage.journal import Journal
from broker_common.storage.loads import StoreStateT
from broker_common.tlog.cosignature import (
    MOST_SKEW_MS,
    CosignatureVerifier,
    Cosigned,
    Cosigner,
    note_lines,
    only_lines_of,
)
from broker_common.tlog.merkle import verify_consistency
from broker_common.tlog.note import MAX_NOTE_BYTES, Checkpoint, NoteVerifier, parse_note
from broker_common.values import Clock

_CHECKPOINT = "checkpoint"


@dataclass(frozen=True, slots=True)
class WitnessStore:
    """One log's newest checkpoint in a folder on another disk or host.

    A log that is restored from a backup looks whole by itself: no checkpoint is shown to anybody before it stands here, and a log
    that is older than, or beside, what stands here is not served. Somebody who can write to the home and to this store can undo both.
    """

    folder: Path

    def put(self, note: str) -> None:
        """Durably remember a checkpoint in the place of the one before.

        Raises:
            InternalError: STORE_FAILED.
        """
        try:
            replace_file(self.folder / _CHECKPOINT, note.encode())
        except OSError as error:
            raise InternalError("STORE_FAILED") from error

    def read(self) -> str | None:
        """The checkpoint that stands here; None while there is none.

        Raises:
            InvalidRequestError: FILE_UNUSABLE, the store is not there: a disk that is not mounted forgets everything.
        """
        if not self.folder.is_dir():
            raise InvalidRequestError("FILE_UNUSABLE", file=str(self.folder), problem="the witness store is not there")
        path = self.folder / _CHECKPOINT
        try:
            with path.open("rb") as file:
                return file.read(MAX_NOTE_BYTES + 1).decode("utf-8", "replace")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InvalidRequestError("FILE_UNUSABLE", file=str(path), problem=str(error.strerror)) from error


_COLUMNS = "log, witness, size, note"


@dataclass(frozen=True, slots=True)
class CosignedNote:
    """A checkpoint with the log's own signature and the witness's cosignature."""

    # Origin of the log; origin of the witness's own log, which is the name that it cosigns under.
    log: str
    witness: str
    size: int
    note: str


class CosignedNotes:
    """Rows of one journal's database. Every method runs inside one of its transactions or readings."""

    def __init__(self, db: Database) -> None:
        self._db = db

    @staticmethod
    def create_tables(db: Database) -> None:
        db.table("cosigned").create(
            {"log": str, "witness": str, "size": int, "note": str},
            pk=("log", "witness"),
            if_not_exists=True,
            ignore=True,
        )

    def newest(self, log: str, witness: str) -> CosignedNote | None:
        rows = self._db.execute(f"select {_COLUMNS} from cosigned where log = ? and witness = ?", [log, witness])  # noqa: S608 - names of our own
        return next((CosignedNote(*row) for row in rows), None)

    def of(self, log: str) -> list[CosignedNote]:
        """The checkpoints of a log that every witness has cosigned, the largest first."""
        rows = self._db.execute(f"select {_COLUMNS} from cosigned where log = ? order by size desc, witness", [log])  # noqa: S608 - names of our own
        return [CosignedNote(*row) for row in rows]

    def put(self, cosigned: CosignedNote) -> None:
        """Keep a cosigned checkpoint unless a larger one is there."""
        known = self.newest(cosigned.log, cosigned.witness)
        if known is None or known.size <= cosigned.size:
            self._db.execute(
                "insert or replace into cosigned (log, witness, size, note) values (?, ?, ?, ?)",
                [cosigned.log, cosigned.witness, cosigned.size, cosigned.note],
            )


class Witnessing:
    """One node's dealings with the logs of its peers. Thread-safe; blocking."""

    def __init__(self, journal: Journal[StoreStateT], *, cosigner: Callable[[], Cosigner], clock: Clock) -> None:
        self._journal = journal
        self._cosigner = cosigner
        self._clock = clock

    # --- our log, as a peer has seen it ----------------------------------------------------------------------------

    def take(
        self, note: str, log: NoteVerifier, witness: CosignatureVerifier, *, of_any_time: bool = False
    ) -> Checkpoint:
        """Keep what a peer has cosigned of our log; `of_any_time` where no entry ever names it.

        Raises:
            InvalidRequestError: MALFORMED_MESSAGE or BAD_SIGNATURE: it is not ours, or not cosigned by this peer.
            InvalidRequestError: COSIGNED_AHEAD, by the peer's clock, which is an hour ahead of ours or more.
            InternalError: ROLLED_BACK, it is ours, and our log is not the one that it was.
        """
        # The log's own signature first: what we did not sign proves nothing about us.
        checkpoint = log.verify_checkpoint(note)
        verify_own_log(self._journal, checkpoint, witness.name)
        with self._journal.reading():
            known = CosignedNotes(self._journal.db).newest(checkpoint.origin, witness.name)
        if known is not None and known.note == note:
            # A peer says its last one until there is another, and its key may have ended meanwhile.
            return checkpoint
        cosigned = witness.verify(note)
        if not of_any_time:
            self._verify_time(witness.name, cosigned)
        # SECURITY: we answer for every line that we keep and pass on. Nobody can explain other lines that a peer puts there.
        note = only_lines_of(note, log, witness)
        # Also the same one again under a key that has not signed it before: the one before may be honoured no longer.
        if known is None or known.size < checkpoint.size or set(note_lines(note)) - set(note_lines(known.note)):
            with self._journal.transaction() as transaction:
                CosignedNotes(transaction.db).put(CosignedNote(checkpoint.origin, witness.name, checkpoint.size, note))
        return checkpoint

    def _verify_time(self, witness: str, cosigned: Cosigned) -> None:
        # The log's time is the one that auditors compare with. It goes on where our clock was set back.
        with self._journal.reading() as state:
            now_ms = max(self._clock(), state.time_ms)
        if 1000 * cosigned.time_s > now_ms + MOST_SKEW_MS:
            # SECURITY: kept, it would stand in our log under an earlier entry, and we would seem to have made it up.
            raise InvalidRequestError("COSIGNED_AHEAD", witness=witness)

    def is_ours(self, note: str) -> bool:
        """True when our log was once as the note says; its signatures do not matter.

        Raises:
            InvalidRequestError: MALFORMED_MESSAGE.
        """
        checkpoint, _ = parse_note(note)
        with self._journal.reading() as state:
            fits = checkpoint.origin == state.origin and checkpoint.size <= state.size
        return fits and self._journal.root(checkpoint.size) == checkpoint.root

    # --- a peer's log ----------------------------------------------------------------------------------------------

    def cosign(self, note: str, proof: Sequence[bytes], log: NoteVerifier) -> str:
        """Cosign a peer's checkpoint if its log goes on from the last one; gives the newest note that we have cosigned.

        Empty as long as there is none.

        Raises:
            InvalidRequestError: MALFORMED_MESSAGE or BAD_SIGNATURE: it is not the peer's.
            InvalidRequestError: COMMITMENT_MISMATCH: the peer shows another history than before.
        """
        checkpoint = log.verify_checkpoint(note)
        cosigner = self._cosigner()
        with self._journal.transaction() as transaction:
            notes = CosignedNotes(transaction.db)
            known = notes.newest(checkpoint.origin, cosigner.name)
            if known is not None and (checkpoint.size <= known.size or not proof):
                _verify_not_beside(checkpoint, known)
                return self._in_present_hand(known, cosigner).note
            if known is not None:
                _verify_grown(parse_note(known.note)[0], checkpoint, proof)
            cosigned = cosigner.cosign(only_lines_of(note, log), self._clock() // 1000)
            notes.put(CosignedNote(checkpoint.origin, cosigner.name, checkpoint.size, cosigned))
            # SECURITY: said only after the commit; a witness that forgets may cosign two histories.
        return cosigned

    def seen(self, log: str) -> CosignedNote | None:
        """The newest checkpoint of a peer's log that we have cosigned, under the key that we cosign with now."""
        cosigner = self._cosigner()
        with self._journal.reading():
            known = CosignedNotes(self._journal.db).newest(log, cosigner.name)
        return None if known is None else self._in_present_hand(known, cosigner)

    def _in_present_hand(self, known: CosignedNote, cosigner: Cosigner) -> CosignedNote:
        """Our cosignature under a replaced key, made again: nobody need honour that key any longer."""
        if _holds(known.note, cosigner.verifier):
            return known
        return replace(known, note=cosigner.cosign(known.note, self._clock() // 1000))


def verify_own_log(journal: Journal[StoreStateT], seen: Checkpoint, witness: str) -> None:
    """Return only if our log is, or goes on from, what somebody has seen of it.

    Raises:
        InternalError: ROLLED_BACK.
    """
    with journal.reading() as state:
        size = state.size
    if seen.size > size:
        problem = f"it has {size} entries and had {seen.size}"
        raise InternalError("ROLLED_BACK", witness=witness, problem=problem)
    if journal.root(seen.size) != seen.root:
        problem = f"its first {seen.size} entries are not those that were seen"
        raise InternalError("ROLLED_BACK", witness=witness, problem=problem)


@lru_cache(maxsize=16)
def _holds(note: str, witness: CosignatureVerifier) -> bool:
    try:
        witness.verify(note)
    except InvalidRequestError:
        return False
    return True


def _verify_not_beside(checkpoint: Checkpoint, known: CosignedNote) -> None:
    if checkpoint.size == known.size and checkpoint != parse_note(known.note)[0]:
        raise InvalidRequestError("COMMITMENT_MISMATCH", subject="log")


def _verify_grown(seen: Checkpoint, checkpoint: Checkpoint, proof: Sequence[bytes]) -> None:
    try:
        verify_consistency(seen.size, seen.root, checkpoint.size, checkpoint.root, proof)
    except ValueError as error:
        raise InvalidRequestError("COMMITMENT_MISMATCH", subject="log") from error
