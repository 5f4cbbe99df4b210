"""Every sentence that the researcher's commands say, in one place, so that another language can stand beside it."""

from __future__ import annotations

# Keyed by the proto's numbers: help texts wait for no generated code.
STAGES = {
    1: "The health node has taken the question.",
    2: "The sample is on its way to the census node, sealed.",
    3: "The privacy budget has been charged.",
    4: "The sealed answer is out.",
}

# A sampling fraction of 1.
EVERY_MATCH = "1, everyone who matches"
EVERYONE = "all linked people"
ANSWER_ONE = "Noisy count {count}: {question}"
ANSWER_SCALED = "Estimated count {count}: {question}"
ANSWER_TABLE = "Noisy counts: {question}"
ANSWER_SCALED_TABLE = "Estimated counts: {question}"
ANSWER = """\
{headline}
  among those with: {where}{table}
  fraction  {fraction}
  noise     within {margin} either way, 19 times out of 20 (scale {scale}, epsilon {epsilon})
  charged   {charged} units for this answer{share}
  left out  {left_out}
  linked    {linked}
  project   {project}
  asked     {asked}
  query     {query}"""
# For an answer whose people were drawn at random.
PART = (
    "{fraction} of those who match, drawn by chance: counts and margins are scaled up to everybody who matches; a margin is of "
    "the noise alone, and chance adds to it"
)
SUM = "sum"
SUM_OF_ALL = "sum: all linked people"
OTHERS = "everybody else"
SHARE_PER_PERSON = ": {share} of a budget, {answers} such answers a person"
SHARE_STRICT = ": {share} of the budget, {answers} such answers in all"
NOBODY_LEFT_OUT = (
    "nobody: everybody is charged for every answer, and your own questions have used {share} of the budget"
)
USED_UP_LEFT_OUT = "people whose budget is used up; your own questions can have used at most {share} of anybody's"
ANYBODY_LEFT_OUT = (
    "perhaps everybody: your own questions can have used {share} of somebody's budget, and people whose budget is used up are not "
    "counted; the margin is of the noise alone"
)
HOUSEHOLD_LEFT_OUT = (
    "; a household shares one budget, which each member in a group uses: from {members} members on your own questions can have "
    "used it up"
)
LEFT_OUT_UNKNOWN = (
    "people whose budget is used up, if the budget is per person: the policy of this answer is not known here"
)
LINKED = {
    "complementary": "people linked by card",
    "household": "people linked by address, all of them where somebody matches",
    "nominative": "people linked by name",
}
LINKED_DECLARED = "only {whom}: {percent} % of the census, as its agency declares; missed links bias shares"
LINKED_UNDECLARED = "only {whom}; which share of the census that is, its agency does not say; missed links bias shares"
LINKED_UNKNOWN = "only people who are linked; the policy of this answer is not known here; missed links bias shares"
COUNTED_ARE = "The count includes only {linked}."
# Remarks on lines in a list of questions.
LEFT_OUT_BY_OWN = "your own questions can have used up anybody's budget by then: this count may miss everybody"
LEFT_OUT = "People whose budget is used up are left out of a count; its margin is of the noise alone."

ASKED_OF = (
    "  of whom   everybody who was asked, one household in {one_in}: times {weight} for everybody; "
    "households count in intervals (design effect {design_effect})"
)

UNANSWERED = """\
{what}: {question}
  among those with: {where}
  fraction  {fraction}
  project   {project}
  asked     {asked}
  query     {query}"""

# Columns of a table with a line for each question.
COLUMNS = ("asked", "state", "count", "question", "among those with", "query")
# In front of the last one: where some were asked of a part of those who match, and where not all are of one study.
FRACTION_COLUMN = "fraction"
PROJECT_COLUMN = "project"
# Also in front of the last one: where some have one.
LABEL_COLUMN = "label"
LABELLED = "  label     {label}"
OVERDUE_MARK = "*"
OVERDUE = "its ticket has expired; if it was charged the answer still comes: 'ask --again' finds out"
REFUSED = "{text}\n  {hint}"
EXPIRED = "the census node kept its answer until the retention ended and has removed it"

NEGATIVE = "A count below zero is noise around a small number: read it as 'few or none'."

NEW_DICTIONARY = "The {role} agency has another dictionary than when it was last asked: version {version}."
DICTIONARIES = """\
--where: health columns

{health}

--count: language variables of census release {release}, or all

{census}"""

# Headings of what is found at either node for a column, a variable or a word.
HEALTH_FOUND = "--where: health columns"
CENSUS_FOUND = "--count: language variables of census release {release}"
TYPED_WHERE = 'Type it like: --where "{example}"'
TYPED_COUNT = 'Type it like: --count "{example}"'
NOTHING_FOUND = "'{word}' is in no name, description, code or label of either node."

QUOTE = """\
One answer at scale {scale} (epsilon {epsilon}):
  noise      within {margin} either way, 19 times out of 20
  price      {charged} units{share}
  remaining  {remaining}
  quota      {quota}
  linked     {linked}
  policy     {policy}
  valid      until {expires}"""

REMAINING_COUNT = "{count} such answers before the service shuts down"
QUOTA = "{left} of {quota} answers left for you now; each is free again when its sample is no longer kept"
QUOTA_NONE = "none"
REMAINING_UNTOLD = "not published: it would show something about who was asked about before"

SCALE_HELP = "Noise scale b; a larger scale costs less and is less precise. Usually 30."
MARGIN_HELP = "Instead of --scale: the margin of error you can live with, 19 times out of 20."
COUNT_HELP = (
    "What to count: mother_tongue = 'French', or a list with in (...); mother_tongue for each of its values; or all (every "
    "linked person). Several are the cells of one answer, at the price of one."
)
OF_HELP = "Add a cell for everybody who is in no other cell, so that the cells are a whole."
WHERE_HELP = "Who to count among, e.g. age >= 65 and procedure = 'angioplasty'."
FRACTION_HELP = "Take each matching person with this probability; 1 takes everyone."
BUSY = "The health node is working on as many questions as it accepts; trying again in {seconds} s."
TOO_MANY_QUOTES = "The census node gives no more quotes at a time; trying again in {seconds} s."
WAIT_HELP = "Seconds to wait for the answer. It is not lost afterwards: see 'answers --collect'."
PROJECT_HELP = "The registered study this belongs to; the usual one is in config.toml."
LABEL_HELP = "A short name of your own for the answer. It stays in your home and is never sent."
AGAIN_HELP = "Submit the ticket of an earlier query again: one ticket, one charge, one answer."

STATE_HELP = "Only questions in this state; may be given more than once."
ONLY_PROJECT_HELP = "Only questions of this study."
ONLY_LABEL_HELP = "Only questions with this label."
FORMAT_HELP = "As a file for other programs: a row for each cell, or as JSON lines an object for each question."
TO_HELP = "With --format: the file to write. Otherwise standard output."
FORMAT_ALONE = "--format cannot be combined with --json or --check, and --to needs --format."
PARQUET_TO_FILE = "Parquet is not for a terminal: name a file with --to."
WRITTEN = "Questions written to {file}: {count}."
SINCE_HELP = (
    "Only questions asked on or after this day, or at or after this instant: 2026-03-31, 2026-03-31T09:30:00 (UTC)."
)
UNTIL_HELP = "Only questions asked up to the end of this day, or up to this instant."
LAST_HELP = "Only the newest so many of what the other filters leave."
COLLECT_HELP = (
    "First fetch answers that have not arrived yet from the census node, and submit again what the health node never confirmed, "
    "while its ticket is good: one ticket, one charge."
)
CHECK_HELP = "Check that what the receipts of these answers promise is still part of the census log."
BROKEN_RECEIPTS = "{broken} of {all} receipts are not part of the log that the census node shows"
NO_RECEIPT_YET = "there is no receipt yet"
LOG_SHORTER = "its checkpoint has {promised} entries, the newest cosigned one {size}"
LOG_OTHER = "the cosigned checkpoint of the same {size} entries has another root"
LOG_NOT_CONTINUED = "the log of {size} entries does not go on from that of {promised}: {problem}"
CHECKED = "{outcome:<9}  {query}  {problem}"
CHECKED_SUMMARY = "{held} held, {broken} broken, {unchecked} not checked."
LOG_HELD = (
    "The census log has {size} entries, cosigned by the health agency, and goes on from all that was seen of it here."
)
LOG_BROKEN = "The census log contradicts what was seen of it before ({file}): {problem}."
LOG_UNCHECKED = "The census log could not be checked: {problem}"
LOG_EMPTY = "No checkpoint of the census log has been cosigned yet."
CARD_OF_WITNESS = "{problem} Cosignatures are checked with the card that is known."

WHERE_OR_AGAIN = "Give --where and --count, or --again with an earlier query id."
AGAIN_AS_IT_WAS = (
    "--again submits the ticket as it was signed: --scale, --margin, --fraction and --project can no longer be changed."
)
QUOTING_AGAIN = (
    "The census node no longer holds the quote; quoting again. Nothing was charged. This happens after a restart of "
    "the census node; if it happens often, tell the auditor."
)
QUOTED_AGAIN = "  quotes   {count} before this one, which the census node no longer held"
INTERRUPTED = (
    "If the health node has taken the question it goes on; if not, 'tripartite researcher answers --collect {query}' submits "
    "it again while its ticket is good, and fetches its answer otherwise."
)
AWAY = "The health node does not answer; submitting again until the wait is over."
NOT_TAKEN = (
    "The health node has not confirmed query {query}. 'answers --collect', or 'ask --again {query}', submits the same ticket "
    "again, which is charged once; a new question would be charged as well."
)
SUBMITTED = "{query}: submitted again, and the health node has taken it. Collect its answer in a moment."
NOT_SUBMITTED = "{query}: its answer is not out, and it could not be submitted again. {problem}"
# The health node alone tells of a refusal, when the question is submitted again.
NOT_OUT = "{query}: its answer is not out. 'ask --again {query}' says what has become of the question."
NONE_ASKED = "Nothing has been asked yet."
NONE_SUCH = "No stored question matches."
QUERY_OR_FILTER = "Give a query id or say which questions to list, not both."
ID_HELP = "The id under which both agencies will register you; opaque, not your name."
ORGANISATION_HELP = "Your organisation, as it will stand in your certificate."
USUAL_PROJECT_HELP = "The study that questions belong to when none is named."
HEALTH_HELP = "Where the health node listens."
CENSUS_HELP = "Where the census node listens."
ADDRESS_HELP = (
    "Where your inbox will listen, if you run one. Port 0 is another one at each start, which nobody is told."
)
CREATED = """\
The researcher home for {researcher_id} is in {home}.
  fingerprint of its card  {fingerprint}
Next:
  tripartite keys card --home {home} --to my.card       hand it to both agencies, whose operators register it
  tripartite researcher register --home {home} CARD     once for each agency's card"""
REGISTERED = """\
The {role} agency is known by card {serial} of {organisation}, from now on.
  fingerprint  {fingerprint}"""
COMPARE = "\nIf the fingerprint was not compared with the agency yet, do it now."
READY = "researcher inbox ready on {address}"
SCALE_OR_MARGIN = "Give --scale or --margin, not both."

# --- from counts to one question (composing) ---
NOTHING_COUNTED = "names nothing to count"
NOTHING_COUNTED_REMEDY = (
    "Add --count \"mother_tongue = 'French'\", --count mother_tongue (a cell for each value), or --count all."
)
ALL_AMONG_OTHERS = "counts everybody, and cannot stand beside another --count"
ALL_AMONG_OTHERS_REMEDY = "Write --of all instead: it adds a cell for everybody who is in no other cell."
REST_OF_ALL = "adds the rest of everybody to other cells, and --count all counts everybody already"
REST_OF_ALL_REMEDY = "Leave --of all out, or name what to count: --count \"mother_tongue = 'French'\" --of all."
SEVERAL_VARIABLES = "names several variables ({variables}), and the cells of one question are values of one"
SEVERAL_VARIABLES_REMEDY = "Ask one question for each variable; each is charged separately."
VALUE_TWICE = "names {values} in two cells, so that one person would be counted twice"
REST_TWICE = "names the rest twice, so that one person would be counted twice"
TWICE_REMEDY = "Each value may be in one cell only."
TOO_MANY_VALUES = "names '{variable}', which has {values} values, and a question has {most} cells at most"
TOO_MANY_VALUES_REMEDY = 'Group the values, for example: --count "{groups}"'
QUESTION_TOO_LONG = "makes a question of more than {most} characters"
FEWER_VALUES = "Name fewer values; --of all counts everybody else in one cell."

# --- before a question is asked (asking/warnings) ---
WARNING = "Warning: {text}"
ASKED_BEFORE = (
    "You asked the same at {asked}: 'answers {query}' shows that and charges nothing. Asking again is charged again, and the "
    "noise is another."
)
MATCHES_NOBODY = "Nobody can match these criteria, whatever the data is: the answer would be noise around zero."
MATCHES_EVERYBODY = (
    "Everybody matches these criteria, whatever the data is: the answer would be of everybody in the health data."
)
DEAR = "One answer at scale {scale} takes {share} of a budget, and a budget pays for no more than {answers} of these."
MAY_LEAVE_OUT = (
    "With this question your own can have used {share} of somebody's budget. People whose budget is used up are left out of the "
    "count, which may then be too small, or nothing but noise."
)
ASK_ANYWAY = "Ask all the same?"
DRY_RUN = """\
Nothing was asked or charged: {question}
  among those with: {where}
  fraction   {fraction}
  project    {project}
  own use    {own_use}
{quote}"""
OWN_USE = "with this question your own can have used at most {share} of anybody's budget"
DRY_RUN_HELP = (
    "Show price, margin and warnings, and ask nothing: nothing is signed, sent to the health node or charged."
)
YES_HELP = "Ask in spite of warnings. Without it and without a terminal a question with a warning is not asked, except under --json."
AGAIN_IS_NO_DRY_RUN = "--again submits a ticket that was signed; --dry-run is for a question that was not asked yet."
