"""Every sentence that the commands about audits say, in one place, so that another language can stand beside it."""

from __future__ import annotations

__all__ = [
    "CLOCK_AHEAD",
    "COUNTED_SETS_NOT_CHECKED",
    "COUNTS_NOT_CHECKED",
    "COUNTS_OF_SOME_NOT_CHECKED",
    "CRITERIA_HELP",
    "CRITERIA_NOT_CHECKED",
    "DIRECTORY_MISSING",
    "DIRECTORY_REMEDY",
    "ENTRIES",
    "ENTRY",
    "EXPORTED",
    "EXPORTING",
    "EXPORT_ELSEWHERE",
    "EXPORT_TO_HOME",
    "FIGURES",
    "HAND_OVER_CARD",
    "ITEM",
    "LEAKAGE",
    "LEAKAGE_CLAIMED",
    "LEDGERS_NOT_CHECKED",
    "LOG",
    "NOISE",
    "NOISE_NOT_CHECKED",
    "NOISE_OF_SOME_NOT_CHECKED",
    "NOT_CHECKED_HEAD",
    "NOT_COSIGNED",
    "NOT_REPLAYED",
    "NO_CARD",
    "NO_CRITERIA",
    "NO_CRITERIA_REMEDY",
    "NO_OVERSIGHT_KEY",
    "NO_OVERSIGHT_KEY_REMEDY",
    "NO_RECEIPTS",
    "NO_SITE",
    "NO_SITE_REMEDY",
    "OF_ALL",
    "OF_RESEARCHER",
    "ON_SITE",
    "ON_SITE_CLAIMED",
    "ON_SITE_HELP",
    "ON_SITE_UNKNOWN",
    "OPENINGS_HELP",
    "PENDING_HEAD",
    "PENDING_ITEM",
    "PERSONS_NOT_CHECKED",
    "PROBLEM",
    "PROBLEMS_HEAD",
    "PROBLEMS_WORD",
    "PROBLEM_WORD",
    "READING_RECEIPTS",
    "RECONCILING",
    "REFUSALS",
    "SAMPLES",
    "SEVERAL_CARDS",
    "TICKETS_NOT_CHECKED",
    "TO_HELP",
    "UNANSWERED",
    "UNKNOWN_ANSWER_KEYS",
    "UNKNOWN_RESEARCHERS",
    "VERDICT_FAILED",
    "VERDICT_HOLDS",
    "WHAT",
    "WITNESS_UNKNOWN",
]

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
    "On site: the census home. Its samples and ledgers are read, never written, and held person by person against the log "
    "that was handed in, whether its node serves or not."
)
NO_SITE = "is no home with samples and ledgers"
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
    "Put the card of the {role} agency that is audited there, as it handed it over, and compare fingerprints. Which of "
    "several health agencies it is, 'health' in config.toml says."
)
# --- progress ------------------------------------------------------------------------------------------------------
READING_RECEIPTS = "Verifying receipts"
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
COUNTED_SETS_NOT_CHECKED = (
    "Whether the set inside an opening is whom the ledgers of persons left to be counted: the count follows from it, and a replay on "
    "site compares it."
)
LEDGERS_NOT_CHECKED = (
    "What single persons were charged: that every charge fell on everybody in its sample, and on nobody whom it did not fit, is "
    "the census agency's claim; only a replay on site, with its samples and ledgers, proves it."
)
PERSONS_NOT_CHECKED = "Samples, linkage and counts: they are never handed in, and are looked at on site."
TICKETS_NOT_CHECKED = "Tickets and receipts of {count} of {all} charged questions: they were not handed in."
CRITERIA_NOT_CHECKED = "Criteria of {count} of {all} charged questions: their commitments were not opened."
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
REFUSALS = "             {count} of {researcher} refused with {code}"
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
