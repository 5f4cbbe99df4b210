"""One log that was handed in: its files, the fold of its entries, and who signed and cosigned it.

1. the files lead to the checkpoint (`log_files`), 2. every entry is the one that the checkpoint covers, is canonical, and
keeps the rules of the log (`broker_common.tlog`); the first one that does not ends the fold, because nothing after it has a
meaning, 3. the log is the one on the card that the auditor trusts, 4. its checkpoint is signed by a key that it had
announced, 5. it goes on from what earlier audits have seen, 6. what others say that they saw of it is part of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from broker_common.audit import texts
from broker_common.audit.export.reading import Part
from broker_common.audit.findings import Findings, Report
from broker_common.audit.home import AuditorHome, Trust
from broker_common.audit.logs.disk_backed import DiskBackedTimes
from broker_common.audit.logs.log_files import LogFiles
from broker_common.audit.logs.signers import CheckedNote, NoteChecker, NoteError, PartyHistory
from broker_common.crypto.cards import VerifiedCard
from broker_common.crypto.certificates import Role
from broker_common.language import phrase
from broker_common.tlog.cosignature import MOST_SKEW_MS, CosignatureVerifier
from broker_common.tlog.entries import Entry, parse_entry
from broker_common.tlog.note import Checkpoint, parse_checkpoint
from broker_common.tlog.parties import peer_name
from broker_common.tlog.replay import LogState, ReplayError

# Instead of an agency's name: any that the auditor trusts.
ANYBODY: Final = ""

StateT = TypeVar("StateT", bound=LogState)
# Problems of a note whose own signature holds.
_SIGNED = frozenset({"NOT_COSIGNED", "UNKNOWN_SIGNATURE"})


class LogAudit(Generic[StateT]):
    """One log, and what was made of it."""

    def __init__(self, role: Role, part: Part, state: StateT, trust: Trust, findings: Findings) -> None:
        self.role = role
        self.state = state
        self.files = LogFiles(role, part, findings)
        self.parties = PartyHistory()
        self.notes = NoteChecker()
        # The time of every entry that was folded in.
        self.times = DiskBackedTimes()
        # Whether every entry was folded in; and whether one could not be.
        self.is_complete = False
        self._is_cut = False
        # Whether somebody has shown that the log is longer.
        self.is_behind = False
        # The size of the newest checkpoint that the other agency has cosigned; 0: none.
        self.cosigned_size = 0
        # The newest of them that the log's own node shows to have.
        self.shown: CheckedNote | None = None
        # The first entry at which the log's clock is known to have been ahead of a witness's; None if it never was.
        self.ahead_at: int | None = None
        # Agencies that this log has registered and that the auditor has a card of.
        self.trusted: set[str] = set()
        self._trust = trust
        self._findings = findings

    def close(self) -> None:
        self.files.close()
        self.times.close()

    # --- reading ---------------------------------------------------------------------------------------------------

    def read(
        self,
        report: Callable[[str], Report],
        *,
        others: Callable[[str], bool] = lambda _: False,
        take: Callable[[Entry], None] = lambda _: None,
    ) -> None:
        """Steps 1 and 2; `take` is called with every entry that was folded in."""
        # 1
        self.files.read(report(phrase(texts.HASHING, role=self.role)), others=others)
        # 2
        going = True
        for index, data, is_covered in self.files.entries(report(phrase(texts.REPLAYING, role=self.role))):
            if not is_covered:
                self._findings.problem("ENTRY_DAMAGED", self.role, index)
            going = going and is_covered and self._fold(index, data, take)
        size = self.files.checkpoint.size if self.files.checkpoint else 0
        self.is_complete = going and self.files.checkpoint is not None and self.state.size == size
        self._is_cut = not self.is_complete
        if not going:
            self._findings.skip(texts.LOG_NOT_REPLAYED, role=self.role, entry=self.state.size)

    def _fold(self, index: int, data: bytes, take: Callable[[Entry], None]) -> bool:
        try:
            entry = parse_entry(data)
        except ValueError as error:
            self._findings.problem("ENTRY_MALFORMED", self.role, index, str(error))
            return False
        try:
            self.state.apply(entry)
        except ReplayError as error:
            self._findings.problem(error.code, self.role, index, error.detail)
            return False
        self.times.append(entry.time_ms)
        card = self.parties.learn(entry, self.state.parties)
        if card is not None:
            self._judge(index, card)
        take(entry)
        return True

    def _judge(self, index: int, card: VerifiedCard) -> None:
        """SECURITY: an agency that registers a peer of its own making could cosign its own log, or ask itself."""
        role, name = card.card.role, peer_name(card.card.identity)
        if not self._trust.knows(role, name):
            self._findings.skip(texts.PARTY_UNKNOWN, role=role, name=name, agency=self.role)
            return
        if not self._trust.take(card):
            self._findings.problem("CARD_UNTRUSTED", self.role, index, f"{role} {name}")
        if role != "researcher":
            self.trusted.add(name)

    # --- who signed ------------------------------------------------------------------------------------------------

    def verify_signed(self, home: AuditorHome) -> None:
        """Steps 3 to 5; a checkpoint that holds is remembered for the next audit."""
        checkpoint = self.files.checkpoint
        if checkpoint is None:
            return
        # 3
        origin = home.card(self.role).card.origin
        if checkpoint.origin != origin or (self.state.size and self.state.origin != origin):
            self._findings.problem("LOG_NOT_TRUSTED", self.role, None, checkpoint.origin)
            return
        # 4
        if not self.is_complete:
            self._findings.skip(texts.LOG_KEYS_UNKNOWN, role=self.role)
            return
        try:
            self.notes.check(self.files.note, self.parties.log(self._since(checkpoint)))
        except NoteError as error:
            self._findings.problem(error.code, self.role, None, error.detail)
            return
        # 5
        if self.files.is_whole and self._goes_on_from(home.seen(self.role)):
            home.remember(self.role, self.files.note)

    def _goes_on_from(self, seen: str) -> bool:
        if not seen:
            return True
        try:
            before = parse_checkpoint(seen)
        except ValueError:
            self._findings.problem("CHECKPOINT_MALFORMED", self.role, None, f"seen/{self.role}")
            return False
        if before.origin != self.state.origin:
            self._findings.problem("LOG_NOT_TRUSTED", self.role, None, before.origin)
        elif before.size > self.files.tree.size:
            self._findings.problem(
                "ROLLED_BACK", self.role, None, f"{self.files.tree.size} entries, were {before.size}"
            )
        elif self.files.tree.root(before.size) != before.root:
            self._findings.problem("SPLIT_VIEW", self.role, None, "the checkpoint of an earlier audit")
        else:
            return True
        return False

    def note_cosigned(self, checked: CheckedNote) -> None:
        """Take in what a witness has cosigned of this log."""
        if checked.times:
            self.cosigned_size = max(self.cosigned_size, checked.checkpoint.size)

    # --- what others saw -------------------------------------------------------------------------------------------

    def verify_past(
        self, note: str, *, cosigned_by: str | None = None, witness: CosignatureVerifier | None = None
    ) -> CheckedNote:
        """A note on this log that stands somewhere else: signed by the log, cosigned by nobody but its witnesses, and of it.

        `cosigned_by` is the agency that has to have cosigned it, or `ANYBODY`. Where `witness` is given, it is the only one:
        who hands a note in says itself under which keys it cosigned it.

        Raises:
            NoteError: what does not hold.
        """
        try:
            since = self._since(parse_checkpoint(note))
        except ValueError as error:
            raise NoteError("CHECKPOINT_MALFORMED", str(error)) from error
        # SECURITY: by agency. A party that may register a peer can give it the name that another one cosigns under.
        witnesses = self.parties.witnesses(since) if witness is None else {cosigned_by or ANYBODY: witness}
        one_of: set[str] | None = None
        if cosigned_by is not None:
            one_of = self.trusted if cosigned_by == ANYBODY else {cosigned_by}
        try:
            checked = self.notes.check(note, self.parties.log(since), witnesses, cosigned_by=one_of)
        except NoteError as error:
            if self._is_cut:
                raise NoteError("UNTOLD") from error
            if error.code in _SIGNED and self.files.is_whole:
                # The log's own signature holds; the other keys may stand in the entries that are not there.
                self._verify_not_longer(parse_checkpoint(note))
            raise
        tree, checkpoint = self.files.tree, checked.checkpoint
        if not self.files.is_whole:
            raise NoteError("UNTOLD")
        self._verify_not_longer(checkpoint)
        if tree.root(checkpoint.size) != checkpoint.root:
            raise NoteError("SPLIT_VIEW", f"at {checkpoint.size} entries")
        self._compare_clocks(checked)
        return checked

    def _compare_clocks(self, checked: CheckedNote) -> None:
        """Nobody cosigns an entry before it is made: where a witness's time says so, one of the two clocks is wrong."""
        last = checked.checkpoint.size - 1
        cosigned_ms = [1000 * time_s for agency, time_s in checked.times.items() if agency in self.trusted]
        if (
            0 <= last < len(self.times)
            and cosigned_ms
            and self.times[last] > min(cosigned_ms) + MOST_SKEW_MS
            and (self.ahead_at is None or last < self.ahead_at)
        ):
            self.ahead_at = last

    def _verify_not_longer(self, checkpoint: Checkpoint) -> None:
        if checkpoint.size > self.files.tree.size:
            self.is_behind = True
            detail = f"of {checkpoint.size} entries, {self.files.tree.size} were handed in"
            raise NoteError("LOG_BEHIND", detail)

    def report(self, error: NoteError, log: str, entry: int | None, where: str = "") -> None:
        """Note that a note on this log does not hold, or that it cannot be told whether it does."""
        detail = ", ".join(part for part in (where, error.detail) if part)
        if error.code == "UNTOLD":
            self._findings.skip(texts.LOG_TOO_SHORT, role=self.role)
        elif error.code in {"LOG_BEHIND", "SPLIT_VIEW"} and log != self.role:
            # A statement under its own key convicts the log, not the party that shows it.
            at = "" if entry is None else f"{log} log, entry {entry}, "
            self._findings.problem(error.code, self.role, None, at + detail)
        else:
            self._findings.problem(error.code, log, entry, detail)

    def _since(self, checkpoint: Checkpoint) -> int:
        """When the last entry was made that a checkpoint covers."""
        last = min(checkpoint.size, len(self.times)) - 1
        return self.times[last] if last >= 0 else 0
