"""Every sentence of the linkage tool, in one place, so that another language can stand beside it."""

from __future__ import annotations

MODE_HELP = "complementary: with names, birth date, sex and postal code; nominative: by names alone, where there is no such register."
SETTINGS_HELP = "The settings; linking.toml in the home if left out, or else what is usual."
DECISIONS_HELP = "A review file of an earlier run in which clerks wrote 'link' or 'no'."
TO_HELP = "The folder for what is made, which is made if it is not there; the home if left out."
LINK_HOME_HELP = "The census home, for its linking.toml and as the usual --to. If left out: TRIPARTITE_HOME, or the current folder; none is needed with --to."
NOWHERE = "Give --to, or --home."

LINKING = "Linking"
DONE = """\
{text}
Written for you alone, mode 0600:
  {people}   the card-to-person table, for 'tripartite census load'
  {review}   for clerical review: it holds names, and never leaves this agency
  {report}   this report"""

# --- what is wrong with files ------------------------------------------------------------------------------------------
COLUMN_UNUSABLE = "the name of its column {number} cannot be kept"
COLUMN_UNUSABLE_REMEDY = "Names of columns are letters, digits and underscores; the census file has no health_card."
OTHER_COLUMNS = "it has columns that nothing is done with: {columns}"
OTHER_COLUMNS_REMEDY = "Leave them out of the file: a register for linkage holds no more than it needs."
PERSON_TWICE = "{count} rows repeat a person_id, the first of them in line {line}"
PERSON_TWICE_REMEDY = "It must have one row for each person."
NO_ID = "a row has no person_id or no household_id"
NO_ID_REMEDY = "Every row needs both."
WRONG_DATES = "{count} of {rows} birth dates are not of the form {form}, the first of them in line {line}"
WRONG_DATES_REMEDY = "Set date_format in linking.toml, in the signs of strptime."
NOBODY_LINKABLE = "none of its rows can be linked"
NOBODY_LINKABLE_REMEDY = "Rows need names that are no placeholders, and those of the register a valid card."
TOO_LITTLE_MEMORY = "it takes more memory than memory_mib, or more of the disk than there is"
TOO_LITTLE_MEMORY_REMEDY = "Raise memory_mib in linking.toml, free space on the disk, or give blocking more columns."
DECISIONS_LACK = "it lacks columns: {columns}"
DECISIONS_UNREADABLE = "it is no CSV in UTF-8"
DECISION_UNKNOWN = "the decision in line {line} is neither 'link' nor 'no' nor empty"
DECIDED_TWICE = "lines {line} and {other} contradict each other"
DECISIONS_REMEDY = "Give a review file that this tool wrote, with decisions in its first column."
NOT_CONVERGED = "what was learned from pairs that agree in {rule} still changed after {count} rounds"
NO_PAIRS = "no pairs agree in {rule}, so nothing can be learned from them"
NOTHING_LEARNED = "no pair tells anything of the column {column}"
LEARNED_NONSENSE = "in the column {column} strangers seem to agree as often as the rows of one person"

# --- the report --------------------------------------------------------------------------------------------------------
REPORT = """\
INTERNAL: for the linkage staff of this agency alone. Tell nobody outside any figure of this report.

Linkage {mode}, threshold {threshold}
  linked          {linked} of {persons} people ({share}); of {clients} clients of the register {clients_share}
  cards           {cards} in the table; {by_clerk} people were linked by clerks"""
MODES = {"complementary": "complementary, by card", "nominative": "nominative, by names alone"}
REPORT_LEFT_OUT = "Rows that may not link"
REPORT_LEFT_OUT_ROW = "  {side:<16}{reasons}"
SIDES = {"census": "census file", "register": "register"}
NOTHING = "none"
REASONS = {
    "card_of_several_clients": "card of several clients",
    "initials": "initials alone",
    "invalid_card": "no valid card",
    "no_name": "no name",
    "placeholder_date": "placeholder for a date",
    "placeholder_name": "placeholder for a name",
    "unreadable_date": "date that cannot be read",
    "wrong_row": "row that cannot be read",
}
REPORT_MODEL = """\
What the model expects of itself, before clerks
  right           {precision} of the links; {wrong} would be wrong
  found           {recall} of the true pairs that were compared; {missed} would be missed"""
REPORT_NO_CLERKS = """\
What clerks found
  nothing yet: decide pairs of the review file, then give it with --decisions"""
REPORT_CLERKS = """\
What clerks found
  right           {precision} of the links: {confirmed} of {links} that were drawn
  found           {recall} of the true pairs that were compared; {found} of {pairs} unlinked pairs were links"""
INTERVAL = "{estimate} ({low} to {high})"
REPORT_REVIEW = """\
For review
  pairs           {pairs}
  written         {written}, drawn at random, linked ones among them; {decided} are decided"""
WHY = {
    "tie": "a rival is as likely:",
    "differs": "given name or birth date are others':",
    "band": "below the threshold:",
}
REPORT_UNUSED = "  not used        {count} decisions: their card and person are no pair in these files"
REPORT_GROUPS = "Linked share by group: where it differs, missed links bias shares"
REPORT_GROUP = "    {value:<34}{share:>8}   {linked} of {persons}"
NO_VALUE = "no value, or may not link"
