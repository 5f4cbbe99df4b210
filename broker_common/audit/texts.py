"""Every sentence that the commands about audits say, in one place, so that another language can stand beside it."""

from __future__ import annotations

# --- export --------------------------------------------------------------------------------------------------------
EXPORTING = "Exporting"
EXPORTED = "{size} {what} of the {role} home are in {to}; {written} files are new or changed."
WHAT = {"census": "log entries", "health": "log entries", "researcher": "questions"}
EXPORT_TO_HOME = "is a home, not a folder for an export"
EXPORT_ELSEWHERE = "Give a folder of its own; it is made if it is not there."
OPENINGS_HELP = (
    "On site: the folder of openings in the census home. Its noise is computed again with the oversight key that the auditor's "
    "config.toml names."
)
ON_SITE_HELP = (
    "On site: the census home. Its samples and its ledger are read, never written, and held person by person against the log "
    "that was handed in, whether its node serves or not."
)
NO_SITE = "is no home with samples and a ledger"
NO_SITE_REMEDY = "Give the census home."
NO_OVERSIGHT_KEY = "needs the oversight key, and the auditor's config.toml names none"
NO_OVERSIGHT_KEY_REMEDY = "Say where it is: oversight under [keys], 'file:PATH' or 'env:NAME'."
CRITERIA_HELP = "Health homes, on site: also what opens the commitment of every ticket to its criteria."
NO_CRITERIA = "is for health homes"
NO_CRITERIA_REMEDY = "Nobody else can open a commitment to criteria."
TO_HELP = "Where to: DIR/census, DIR/health or DIR/researcher, made with the folders above it, or continued."
DIRECTORY_MISSING = "holds neither a census nor a health export"
DIRECTORY_REMEDY = "Export to DIR/census, DIR/health and DIR/researcher with 'tripartite audit export', and give DIR."
# --- the auditor's home --------------------------------------------------------------------------------------------
NO_CARD = "there is no card of a {role} agency in trust/"
SEVERAL_CARDS = (
    "there are cards of several {role} agencies in trust/, and config.toml does not say whose log is audited"
)
HAND_OVER_CARD = (
    "Register the card of the {role} agency that is audited with 'tripartite auditor register', and compare fingerprints. Which of "
    "several health agencies it is, 'health' in config.toml says."
)
# --- progress ------------------------------------------------------------------------------------------------------
READING_RECEIPTS = "Verifying receipts"
HASHING = "Hashing the {role} log"
REPLAYING = "Replaying the {role} log"
RECONCILING = "Comparing both logs"
# --- what could not be checked -------------------------------------------------------------------------------------
NOT_REPLAYED = "Whether the entries keep the rules, and agree with each other: that is for 'audit replay'."
NO_RECEIPTS = "Receipts: no researcher handed any in."
NOT_COSIGNED = "The {role} log: no checkpoint of it that the other agency has cosigned was handed in with it."
WITNESS_UNKNOWN = "What the other agency has seen of the {role} log: its witness keys are not all known."
UNKNOWN_RESEARCHERS = (
    "Tickets of researchers, keys or projects that the census log, as far as it could be replayed, has not registered."
)
UNKNOWN_ANSWER_KEYS = (
    "Receipts under answer keys that the census log, as far as it could be replayed, has not announced."
)
NOISE_NOT_CHECKED = "The noise of each answer: without the oversight key, replay proves its scale, its charge and the single use of its slot."
NOISE_OF_SOME_NOT_CHECKED = (
    "The noise of {count} of {all} charged answers: there is no opening of them, or no receipt to compare it with."
)
CLOCK_AHEAD = (
    "Expiries and ages from entry {entry} of the census log on: its clock was more than an hour ahead of its witness's."
)
COUNTS_NOT_CHECKED = "The exact count inside each opening: it is the census agency's word until samples and registry are looked at on site."
COUNTS_OF_SOME_NOT_CHECKED = "The exact count of {count} of {all} charged answers: there is no opening, no sample or no registry to count it again with."
LEDGERS_NOT_CHECKED = (
    "What single persons were charged: that every charge fell on everybody in its sample, and on nobody whom it did not fit, is "
    "the census agency's claim; only a replay on site, with its samples and its ledger, proves it."
)
PERSONS_NOT_CHECKED = "Samples, linkage and counts: they are never handed in, and are looked at on site."
TICKETS_NOT_CHECKED = "Tickets and receipts of {count} of {all} charged questions: they were not handed in."
REFUSAL_NOT_RECOMPUTED = "why {count} samples were refused with {code}: nothing in the two logs says whether the census agency had this reason"
CRITERIA_NOT_CHECKED = "Criteria of {count} of {all} charged questions: their commitments were not opened."
# --- on site -------------------------------------------------------------------------------------------------------
CHECKING_ON_SITE = "Checking the ledger of persons"
OTHER_HOME = "is not the home of the census log that was handed in"
OTHER_HOME_REMEDY = "Give the home of the census agency whose export is in DIR/census."
ROW = "row {place} of the history"
MEMBERSHIP_ERASED = (
    "Who was in the samples of {count} charges, and that nobody was skipped in them: their membership is erased, as the policy "
    "says. What they come to is taken from a snapshot."
)
MEMBERSHIP_GONE = "The node erased {count} of these while they were being checked."
CHARGES_NOT_DECIDED = (
    "Whether {count} charges fell on everybody in their samples: what had been charged before could not be worked out."
)
SUBJECTS_NOT_CHECKED = (
    "That {count} charges fell on everybody in their samples, and on nobody else: the load or the roster on which "
    "they were made is no longer kept, or was changed."
)
CARRIES_NOT_CHECKED = (
    "Whether {count} loads took over all charges of the ones before, or not of everybody: such a load is no longer "
    "kept, or nothing shows which subject was which before."
)
STEPS_NEWER = "{count} charges, loads or changes of the linkage key: they are newer than what was handed in."
SNAPSHOT_NOT_CHECKED = "The newest snapshot of the ledger: it holds something that is newer than what was handed in."
SNAPSHOT_NOT_COMMITTED = (
    "Charges before the first sample that is kept: no charge in the log commits to that snapshot yet."
)
LINKAGE_KEYS_NOT_THERE = (
    "Whether everybody kept their number with the change of the linkage key in entry {entry} of the census log: the keys are not in "
    "this home."
)
REGISTRY_NOT_CHECKED = "Whether the registry's cards, persons, households and languages are true: no audit can say."
# --- the report ----------------------------------------------------------------------------------------------------
VERDICT_HOLDS = "Everything that was handed in holds."
VERDICT_FAILED = "NOT VERIFIED: {count} {problems}; the first is {code} in {where}."
ENTRIES = "  entries    {census} of the census log, {health} of the health log"
FIGURES = """\
  answers    {answers} charged, {released} released, {tickets} shown by researchers
  leakage    {leakage}
  service    {state}, accounting {accounting}"""
LEAKAGE = "{worst_units} of {cap} units of 2^-24 nat; no belief about anybody can have passed {worst_belief} ({max_belief} allowed)"
LEAKAGE_CLAIMED = (
    "at most {worst_units} of {cap} units of 2^-24 nat on anybody; no belief about anybody can have passed {worst_belief} "
    "({max_belief} allowed), as the census agency claims"
)
SAMPLES = "  samples    {count} handed over and never charged: {refused} refused, {unanswered} without a word of the census node"
REFUSALS = "             {count} of {researcher} refused with {code}: {follows} for a reason in the census log, {without_reason} without one"
UNANSWERED = "             {count} of {researcher} without a word"
NOISE = "  noise      of {noise} answers computed again from what the log had committed to, and the same"
ON_SITE = (
    "  on site    {charges_checked} charges decided again person by person, {charges_erased} erased; nobody was charged more than "
    "{worst_charged} units, so that no belief about anybody can have passed {worst_belief}"
)
ON_SITE_CLAIMED = (
    "  on site    {charges_checked} charges decided again person by person, {charges_erased} erased; with what could not be "
    "checked taken on the census agency's word, nobody was charged more than {worst_charged} units: a belief of {worst_belief}"
)
ON_SITE_UNKNOWN = (
    "  on site    {charges_checked} charges decided again person by person, {charges_erased} erased; what everybody was charged "
    "in all could not be worked out"
)
PENDING_HEAD = "Under way, and no problem:"
NOT_CHECKED_HEAD = "Could not be checked:"
PROBLEMS_HEAD = "Problems:"
ITEM = "  - {text}"
PENDING_ITEM = "{count} {text} ({log})"
PROBLEM = "  {where}: {code}\n      {text}"
ENTRY = "{log} log, entry {entry}"
LOG = "{log} log"
OF_RESEARCHER = "researcher's receipts"
OF_ALL = "what was handed in"
PROBLEM_WORD = "problem"
PROBLEMS_WORD = "problems"
REPORT_TO_HELP = "The HTML file to write."
LANGUAGE_HELP = "Language of the report; by default that of the environment (TRIPARTITE_LANG, LANG)."
REPORTED = """\
{verdict}
Report: {file}"""

# Remarks about things that could not be checked.
OTHER_AGENCY = "{count} charges for {agency}: its log was not handed in."
LOG_NOT_REPLAYED = "The {role} log from entry {entry} on: it was not replayed."
LOG_KEYS_UNKNOWN = "The signature of the {role} log's checkpoint: its keys are not all known."
LOG_TOO_SHORT = "Checkpoints of the {role} log that others have seen: too little of it is known."
NO_CHECKPOINT = "The {role} log: there is no checkpoint that says how long it is."
LOG_NOT_READ = "The {role} log from entry {entry} on: it could not be read."
PARTY_UNKNOWN = "Whether the {role} {name} is who the {agency} agency says: there is no card of it in trust/."
