"""Every code that a problem can have, with what it means. Readers of a report, and authors of another verifier, read this.

A code never changes its meaning. `RULES` are those of the logs themselves, which nodes keep as well. `ON_SITE` takes the private stores.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from broker_common.tlog.rules import RULES

ON_SITE: Final[Mapping[str, str]] = {
    "LEDGER_STEP_MISSING": "a charge to persons or a load has no row in the ledger's history",
    "LEDGER_STEP_WRONG": "a row of the ledger's history stands for no log entry, or says something else than the entry",
    "LEDGER_DIGEST": "a row of the ledger's history is not the one that the digests, and with them the log, commit to",
    "SAMPLE_WRONG": "a sample that should be kept is missing, or is not the one that the log commits to",
    "ERASED_EARLY": "membership of a sample was erased before its time, or before any existing snapshot held the charge",
    "CHARGE_SKIPPED": "somebody in a sample, whom the charge fits, was not charged",
    "PERSON_CAP_PASSED": "a subject was charged or counted although the charge does not fit its budget",
    "ACTIVE_WRONG": "the people counted are not those who should have been, or not those to whom the log commits",
    "CARRY_WRONG": "what a load takes over from earlier subjects is missing, was changed, or leaves somebody out; or a new linkage key changed subjects",
    "SNAPSHOT_WRONG": "a snapshot of the ledger is missing, was changed, or does not hold what was charged",
    "REGISTRY_WRONG": "the file of a load is not the one that the log commits to",
    "ROSTER_WRONG": "the file of a roster is not the one that the log commits to",
    "COUNT_WRONG": "the exact count in an opening is not what the sample and the registry give",
}
"""What only private stores can show; raised by the checks that roles bring."""

CODES: Final[Mapping[str, str]] = {
    # --- files -----------------------------------------------------------------------------------------------------
    "EXPORT_MISSING": "a required part of the hand-in is missing",
    "UNKNOWN_FILE": "the export has a file that does not belong to it",
    "FILE_MISSING": "a file of the export is not there",
    "FILE_UNUSABLE": "something other than a readable file is in a file's place",
    "FILE_TOO_LARGE": "a file is longer than it can be",
    "DOCUMENT_MALFORMED": "a receipt or opened criteria are not in canonical form",
    # --- one log ---------------------------------------------------------------------------------------------------
    "CHECKPOINT_MALFORMED": "a checkpoint is not in canonical form",
    "BUNDLE_MALFORMED": "a bundle does not hold the entries that it should",
    "ENTRY_MALFORMED": "an entry is not canonical, or of a type or form that is not known",
    "ENTRY_DAMAGED": "an entry is not the one that the signed checkpoint covers",
    "TILE_WRONG": "a tile does not hold the hashes of the entries",
    "ROOT_WRONG": "the entries do not lead to the signed checkpoint",
    "BAD_SIGNATURE": "a signature is not valid, or none is by a key that the log had announced by then",
    "UNKNOWN_SIGNATURE": "a signature line is by nobody who may sign here",
    "NOT_COSIGNED": "a cosignature is not valid, or none is by a witness key that was registered by then; if it should be by an agency whose card the auditor lacks, 'auditor register' takes that card",
    "LOG_NOT_TRUSTED": "the log is not the one named on the card that the auditor trusts",
    "CARD_UNTRUSTED": "a party is registered with a card that does not follow the one that the auditor trusts",
    "SPLIT_VIEW": "a checkpoint that the log's own key signed contradicts this log: two histories were shown",
    "LOG_BEHIND": "a checkpoint that the log's own key signed covers a longer log: entries are withheld, or a newer export is needed",
    "NOTE_WITHHELD": "`cosigned` or `witnessed` is missing, or covers a shorter log than other parts of the hand-in prove",
    "ROLLED_BACK": "the log is shorter than an earlier audit has verified",
    **RULES,
    # --- one question in all that was handed in --------------------------------------------------------------------
    "AGENCY_UNTRUSTED": "a charge names a health agency whose card the auditor does not have",
    "COSIGNED_LATER": "an answer is released before the time of the cosignature that releases it",
    "CHARGE_NOT_SUBMITTED": "the census agency charged a ticket that the health agency never accepted",
    "CHARGE_DIFFERS": "the two agencies' logs name different questions, or different health agencies, for one ticket",
    "MANIFEST_DIFFERS": "a charge is for a sample, or places of a roster, that the health agency says it did not send",
    "LINKAGE_DIFFERS": "the two agencies' records were not linked by the same chain at a charge",
    "LINKAGE_MIXED": "a load's dictionary links records by another rule than the policy in force",
    "ROSTER_NOT_SENT": "a roster came into force that the health agency says that it never sent",
    "ROSTER_DIFFERS": "a roster came into force that is not the one that the health agency says that it sent under this number",
    "REPORT_WRONG": "the charge that the health agency was shown is not in the census log",
    "REFUSAL_FORGED": "the census agency has not signed the refusal that the health agency shows",
    "REFUSED_WITHOUT_REASON": "the census agency refused a sample for a reason that its log contradicts",
    "REFUSED_BUT_CHARGED": "the census agency charged a ticket that it had refused",
    "SETTLED_NOT_RELEASED": "the health agency says that an answer is out, and the census log does not release it",
    "ANSWER_SUPPRESSED": "an answer was charged and cosigned long ago and never released",
    "TICKET_UNSIGNED": "a ticket is not signed by a researcher who was registered for its project at the charge",
    "TICKET_DIFFERS": "a charge is not what its ticket orders",
    "SLOT_WRONG": "a ticket names another commitment for its noise slot than the log",
    "SLOT_LATE": "a noise slot was not committed to when its ticket was made",
    "QUOTE_UNSIGNED": "a quote is not signed by an answer key of the census agency",
    "QUOTE_DIFFERS": "a ticket is not what its quote offers",
    "QUOTE_WRONG": "a quote says something else than what follows from question, scale, and the census log at the instant at which it was told",
    "QUOTE_BUDGET": "a quote says that more or fewer answers are left than the census log allows at the instant at which it was told",
    "RECEIPT_UNSIGNED": "a receipt is not signed by an answer key of the census agency",
    "RECEIPT_DIFFERS": "a receipt does not match its ticket and its charge",
    "RECEIPT_NOT_INCLUDED": "a receipt does not prove that its charge is in the log",
    "RECEIPT_STATE": "a question is said to be answered without a receipt, or the other way round",
    "ANSWER_NOT_CHARGED": "there is an answer to a ticket that was never charged",
    "ANSWER_NOT_RELEASED": "there is an answer that the log has not released",
    "DELIVERY_UNCONFIRMED": "the log says delivered, and the researcher, who had later answers, does not show it",
    "DICTIONARY_DIFFERS": "the document of a dictionary is not what the log says was adopted",
    "CRITERIA_DIFFER": "opened criteria are not those that the ticket commits to",
    "CRITERIA_UNASKED": "criteria are opened for a ticket that was never accepted",
    "OPENING_UNREADABLE": "an opening cannot be opened for this ticket with the oversight key",
    "OPENING_DIFFERS": "an opening does not match the slot, the load or the cells that its charge names",
    "NOISE_WRONG": "an answer is not the one that follows from its opening",
    # --- on site ---------------------------------------------------------------------------------------------------
    **ON_SITE,
    # --- the report ------------------------------------------------------------------------------------------------
    "TOO_MANY_PROBLEMS": "there are more problems than are listed",
}
"""Every code of a problem, with its sentence."""

PENDING: Final[Mapping[str, str]] = {
    "ENTRIES": "entries after the last cosigned checkpoint",
    "CHARGED": "answers that are charged and not released yet",
    "WITNESSED": "charged answers that the health agency says that it has cosigned, and the census agency shows no cosignature of",
    "RELEASED": "answers that are released and not delivered yet",
    "OPEN": "tickets that the health agency has accepted and that are neither settled nor refused",
    "UNSEEN": "charges that are newer than what the health agency has handed in",
    "ROSTER_UNSEEN": "rosters in force that are newer than what the health agency has handed in",
    "REFUSAL_UNSEEN": "refusals that are newer than what the census agency has handed in",
    "UNSETTLED": "answers that the health agency calls out and that are newer than what the census agency has handed in",
    "OPENING": "openings of no charge that was handed in",
    "QUOTED": "quotes of uncharged tickets that are newer than what the census agency has handed in",
    "UNCONFIRMED": "deliveries that are newer than what the researcher has handed in",
}
"""What is under way and no problem: code and sentence."""
