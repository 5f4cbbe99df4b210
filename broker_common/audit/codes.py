"""Every code that a problem can have, with what it means. Whoever reads a report, or writes another verifier, reads this.

A code never changes its meaning. `REPLAY` are the rules of the logs themselves, which nodes keep as well: they are
raised by `broker_common.tlog`, and a test compares. `ON_SITE` takes the private stores.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["CODES", "ON_SITE", "PENDING", "REPLAY"]

REPLAY: Final[Mapping[str, str]] = {
    "SEQUENCE": "an entry has another number than its place",
    "TIME_BACKWARDS": "an entry is earlier than the one before it",
    "POLICY": "an entry names another policy than the one in force",
    "OPENING": "a log is opened once, by its first entry",
    "OTHER_LOG": "an entry, or the whole log, is of another kind of node",
    "FORMAT": "the log's format is not known",
    "CARD_INVALID": "a card does not agree with itself or does not follow the one before it",
    "NOT_REGISTERED": "a party is named that is not registered",
    "LOAD_REPEATED": "a load is put in force twice",
    "LINKAGE": "a load comes from another linkage chain than the one in force",
    "LINKAGE_PREVIOUS": "a change of the linkage key names another chain before it than the one in force",
    "LINKAGE_REPEATED": "a linkage chain comes back",
    "SHUTDOWN_MISSING": "nothing fits any more, or there are as many answers as the policy allows, and the shutdown does not follow at once",
    "POLICY_INVALID": "a policy is not one of this agency",
    "ORDER_UNASKED": "an operator's order stands where none is needed",
    "ORDER_INVALID": "the operator did not give this order in this place",
    "ORDER_WITHOUT_REASON": "an order gives no reason",
    "CAP_RAISED": "a policy raises the cap and the operator did not confirm it",
    "CHARGE_LOWERED": "a policy charges fewer people, or one person instead of a household, and the operator did not confirm it",
    "ANSWERS_RAISED": "a policy allows more answers and the operator did not confirm it",
    "DELAY_SHORTENED": "a policy shortens a delay and the operator did not confirm it",
    "RETENTION_SHORTENED": "a policy keeps samples or answers for a shorter time and the operator did not confirm it",
    "RETENTION_LENGTHENED": "a policy keeps samples for a longer time and the operator did not confirm it",
    "QUOTA_RAISED": "a policy keeps the samples of more answers for one researcher and the operator did not confirm it",
    "QUOTA_LOWERED": "a policy allows one researcher fewer answers at a time and the operator did not confirm it",
    "SAMPLE_LIMIT_LOWERED": "a policy allows fewer people in a sample and the operator did not confirm it",
    "DELAY_LENGTHENED": "a policy lengthens a delay beyond five minutes and the operator did not confirm it",
    "QUOTE_SHORTENED": "a policy leaves less time, under 30 seconds, to submit a question after its quote, and the operator did not confirm it",
    "SHUTDOWN_REPEATED": "a service is shut down twice",
    "SHUTDOWN_REASON": "the budget shuts a service down that something fits in, or the operator one that nothing does",
    "REOPENED_WHILE_OPEN": "a service is reopened that is not shut down",
    "UNIT_LATE": "a budget per household begins after answers under strict accounting",
    "NOTHING_FITS": "a service is reopened that nothing fits in",
    "CHARGE_WITHOUT_POLICY": "something is charged before there is a policy",
    "CHARGE_AFTER_SHUTDOWN": "something is charged while the service is shut down",
    "CHARGE_LOAD": "a charge names another load than the one in force",
    "SCALE": "a charge has a scale that the policy does not admit",
    "CHARGE_WRONG": "a charge is not the price of its scale",
    "CAP_PASSED": "what everybody was charged passes the cap: under strict accounting, the sum of all charges",
    "LEDGER_UNNAMED": "a charge to the people of a sample does not name their ledgers, or a charge to everyone names some",
    "QUOTA_PASSED": "a researcher is charged for an answer although as many count as the policy allows",
    "TOTAL_WRONG": "a charge states another total than the sum of charges",
    "TICKET_CHARGED_TWICE": "one ticket is charged twice",
    "QUERY_REUSED": "one query id stands for two tickets",
    "SLOT_NOT_OPEN": "a noise slot is used that was never committed to, was used before, or is void",
    "SLOT_SKIPPED": "commitments to noise slots leave some out or repeat some",
    "SLOT_VOID": "noise slots are committed to that serve nobody from the start",
    "RELEASE_WITHOUT_CHARGE": "an answer is released that was never charged",
    "RELEASED_TWICE": "an answer is released twice",
    "RELEASE_NOT_COSIGNED": "an answer is released without the health agency's cosignature on a checkpoint that covers its charge",
    "DELIVERY_WITHOUT_RELEASE": "an answer is delivered that was never released",
    "DELIVERED_TWICE": "a delivery is logged twice",
    "DELIVERY_AFTER_EXPIRY": "an answer is delivered that was removed",
    "EXPIRY_WITHOUT_RELEASE": "an answer is removed that was never released",
    "EXPIRED_TWICE": "the removal of an answer is logged twice",
    "EXPIRY_AFTER_DELIVERY": "the removal of a delivered answer is logged",
    "EXPIRED_EARLY": "an answer is removed before its time",
    "TICKET_REPEATED": "a ticket is accepted twice",
    "LOAD": "a ticket is accepted on another load than the one in force",
    "CHARGE_WITHOUT_SAMPLE": "a charge is reported for a ticket without a sample",
    "SETTLED_WITHOUT_CHARGE": "a ticket is settled before it is charged",
    "REFUSED_AFTER_CHARGE": "a charged ticket is refused",
    "UNKNOWN_TICKET": "something happens to a ticket that was never accepted",
    "TICKET_CLOSED": "something happens to a ticket that is settled or refused",
}
"""Rules of the logs, each broken by one entry; nothing after it is replayed."""

ON_SITE: Final[Mapping[str, str]] = {
    "LEDGER_STEP_MISSING": "a charge to persons, a load or a change of the linkage key has no row in the ledgers' history",
    "LEDGER_STEP_WRONG": "a row of the ledgers' history stands for no log entry, or says something else than the entry",
    "LEDGER_DIGEST": "a row of the ledgers' history is not the one that the digests, and with them the log, commit to",
    "SAMPLE_WRONG": "a sample that should be kept is missing, or is not the one that the log commits to",
    "ERASED_EARLY": "who was in a sample was erased before its time, or before any snapshot that is there holds the charge",
    "UNITS_WRONG": "the census units in a kept sample are not those of the registry that it was charged on",
    "CHARGE_SKIPPED": "somebody in a sample, whom the charge fits, was not charged",
    "PERSON_CAP_PASSED": "somebody was charged or counted whose budget the charge does not fit",
    "ACTIVE_WRONG": "who was counted is not who should have been, or not whom the log commits to",
    "CARRY_WRONG": "what a load takes over from earlier units is missing, was changed, or leaves somebody out; or a new linkage key changed units",
    "SNAPSHOT_WRONG": "a snapshot of the ledgers is missing, was changed, or does not hold what was charged",
    "REGISTRY_WRONG": "the file of a load is not the one that the log commits to",
    "COUNT_WRONG": "the exact count in an opening is not what the sample and the registry give",
}
"""What only private stores can show; raised by the checks that roles bring."""

CODES: Final[Mapping[str, str]] = {
    # --- files -----------------------------------------------------------------------------------------------------
    "EXPORT_MISSING": "a part of what has to be handed in is not there",
    "UNKNOWN_FILE": "a file stands in the export that is no part of one",
    "FILE_MISSING": "a file of the export is not there",
    "FILE_UNUSABLE": "what stands where a file should be cannot be read",
    "FILE_TOO_LARGE": "a file is longer than it can be",
    "DOCUMENT_MALFORMED": "a receipt or opened criteria are not in canonical form",
    # --- one log ---------------------------------------------------------------------------------------------------
    "CHECKPOINT_MALFORMED": "a checkpoint is not in canonical form",
    "BUNDLE_MALFORMED": "a bundle does not hold the entries that it should",
    "ENTRY_MALFORMED": "an entry is not canonical, or of a type or form that is not known",
    "ENTRY_DAMAGED": "an entry is not the one that the signed checkpoint covers",
    "TILE_WRONG": "a tile does not hold the hashes of the entries",
    "ROOT_WRONG": "the entries do not lead to the signed checkpoint",
    "BAD_SIGNATURE": "a signature does not hold, or none is by a key that the log had announced by then",
    "UNKNOWN_SIGNATURE": "a signature line is by nobody who may sign here",
    "NOT_COSIGNED": "a cosignature does not hold, or none is by a witness key that was registered by then",
    "LOG_NOT_TRUSTED": "this is another log than the one on the card that the auditor trusts",
    "CARD_UNTRUSTED": "a party is registered with a card that does not follow the one that the auditor trusts",
    "SPLIT_VIEW": "a checkpoint that the log's own key signed is not of this log: two histories were shown",
    "LOG_BEHIND": "a checkpoint that the log's own key signed is of a longer log: entries are withheld, or a newer export is needed",
    "ROLLED_BACK": "the log is shorter than an earlier audit has verified",
    **REPLAY,
    # --- one question in all that was handed in --------------------------------------------------------------------
    "AGENCY_UNTRUSTED": "a charge names a health agency of which the auditor has no card",
    "COSIGNED_LATER": "an answer is released before the time of the cosignature that releases it",
    "CHARGE_NOT_SUBMITTED": "a ticket is charged that the health agency never accepted",
    "CHARGE_DIFFERS": "the two agencies' logs name different questions, or different health agencies, for one ticket",
    "MANIFEST_DIFFERS": "a charge is for a sample that the health agency says that it did not send",
    "LINKAGE_DIFFERS": "the two agencies' records were not linked by the same chain at a charge",
    "REPORT_WRONG": "the charge that the health agency was shown is not in the census log",
    "REFUSED_BUT_CHARGED": "a ticket is charged that the census agency had refused",
    "SETTLED_NOT_RELEASED": "the health agency says that an answer is out, and the census log does not release it",
    "ANSWER_SUPPRESSED": "an answer was charged and cosigned long ago and never released",
    "TICKET_UNSIGNED": "a ticket is not signed by a researcher who was registered for its project at the charge",
    "TICKET_DIFFERS": "a charge is not what its ticket orders",
    "SLOT_WRONG": "a ticket names another commitment for its noise slot than the log",
    "SLOT_LATE": "a noise slot was not committed to when its ticket was made",
    "RECEIPT_UNSIGNED": "a receipt is not signed by an answer key of the census agency",
    "RECEIPT_DIFFERS": "a receipt is not of its ticket and its charge",
    "RECEIPT_NOT_INCLUDED": "a receipt does not prove that its charge is in the log",
    "RECEIPT_STATE": "a question is said to be answered without a receipt, or the other way round",
    "ANSWER_NOT_CHARGED": "there is an answer to a ticket that was never charged",
    "ANSWER_NOT_RELEASED": "there is an answer that the log has not released",
    "DELIVERY_UNCONFIRMED": "the log says delivered, and the researcher, who had later answers, does not show it",
    "CRITERIA_DIFFER": "opened criteria are not those that the ticket commits to",
    "CRITERIA_UNASKED": "criteria are opened for a ticket that was never accepted",
    "OPENING_UNREADABLE": "what is kept as an opening is none that the oversight key opens for this ticket",
    "OPENING_DIFFERS": "an opening is not of the slot, the sets or the load that its charge names, or its sets differ",
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
    "UNSETTLED": "answers that the health agency calls out and that are newer than what the census agency has handed in",
    "OPENING": "openings of no charge that was handed in",
    "UNCONFIRMED": "deliveries that are newer than what the researcher has handed in",
}
"""What is under way and no problem: code and sentence."""
