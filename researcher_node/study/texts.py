"""Every sentence that studies say: the commands' help, and what plans and reports are made of."""

from __future__ import annotations

# Examples to type where an estimate lacks a key.
EXAMPLES = {
    "reference": "Name the group to compare with, such as: reference: male",
    "event": "Write the condition whose rate is meant, such as: event: procedure = 'angioplasty'",
    "over": "Name the entry of 'by' that is meant, such as: over: age",
    "weights": "Write a weight for each group, such as: weights: [0.3, 0.4, 0.3]",
}

WAIT_HELP = "Seconds to wait for all answers. What is missing then is asked for by the next run."
AGAIN_HELP = "Ask everything once more, on purpose, and be charged for it once more."
ASKING = "Answers"
BUSY = "A node has as many questions in hand as it accepts; trying again in {seconds} s."
INTERRUPTED = "Run it again: it goes on where it stopped, and nothing is charged twice."

# --- plan ---
PLAN = """\
{title}: {answers} answers of {cells} numbers each, {new} of them still to be asked for
  time       about {time}
  noise      each number within {margin} either way, 19 times out of 20 (scale {scale})
  cost       nobody is charged for more than {most} of the answers: {units} units, {share} of a person's budget
  room       {studies} such studies fit into one person's budget"""
PLAN_TOO_DEAR = (
    "  People with all of these properties have too little budget for the whole study: answers would leave them out."
)
PLAN_UNEXPECTED = (
    "Say under 'expect' how many people, and what share, you expect in each group: the plan then says what can be seen."
)
PLAN_WIDTH = "{part} {share} of {people} people; interval {noise} wide for noise alone, {sampling} with sampling"
PLAN_COMPARED = "{group} against {reference}"
PLAN_SEEN = "a ratio of {ratio} would be seen ({power} of the time)"
PLAN_UNSEEN = "a ratio of {ratio} would not be seen ({power} of the time); about {needed} people are needed in each"
PLAN_NEVER_SEEN = "a ratio of {ratio} would not be seen ({power} of the time), however many people there are"
AND_MORE = "{first}; and {more} more"
PLAN_EXPECTED = "{what}: {value} as expected; {noise} for noise alone, {sampling} with sampling"
PLAN_UNPLANNED = (
    "Nothing is said in advance of: {kinds}. Say under 'expect' how often the event happens, such as: event: 0.02"
)
POINTS = "{points} points"

# --- run ---
RUN_DONE = "{title}: {answered} of {asked} answers are here."
RUN_REUSED = "{count} of them were asked before, for an equal question, and were not charged again:"
RUN_NEXT = "Read them: tripartite study report {file}"
RUN_NEXT_MISSING = "Run it again for the others: tripartite study run {file}"

# --- report ---
REPORT_HEAD = """\
{title}
  {question}
  {answered} of {asked} questions answered, scale {scale}"""
COUNTS = "Noisy counts"
COUNTS_OF = "Noisy counts of people with: {event}"
REACH = "  Each within {margin} either way, 19 times out of 20."
KINDS = {
    "share": "Share of {part}",
    "difference": "Difference of the shares of {part}",
    "ratio": "Ratio of the shares of {part}",
    "rate_ratio": "Rate ratio of {part} for: {event}",
    "standardised_rate": "Standardised share of {part}",
    "trend": "Trend of the share of {part}: change for one unit of score",
}
ESTIMATE = "estimate"
AGAINST = "against"
NOISE_ONLY = "noise only"
WITH_SAMPLING = "with sampling"
ALL_GROUPS = "all"
NOT_ANSWERED = "no answer yet"
UNTOLD = "cannot be told"
NO_END = "any number"
FROM_TO = "{low} to {high}"
NOTE_LEFT_OUT = (
    "Counts are of linked people with budget left: under per-person accounting, people whose budget is used up are left out, "
    "and nobody is told how many they are."
)
NOTE_INTERVALS = (
    "Both intervals hold 19 times out of 20. 'Noise only' is about exactly the people who were counted, 'with sampling' about "
    "the population that they are like a random draw from."
)
NOTE_METHOD = "Method: {method}"
NOTE_ASKED = (
    "The count includes people of the households that were asked, one in {one_in}: counts are times {weight}, to stand for everybody, and "
    "intervals with sampling have a design effect of {design_effect}."
)
NOTE_POLICIES = "The answers were given under different policies of the census agency."
NOTE_MISSING = "{missing} questions have no answer yet: run the study again."
PAGE_HEAD = "{question} · {answered} of {asked} questions answered · scale {scale}"
EVENT = "people with"
QUESTIONS = "Questions"
ASKED_AMONG = "among those with"
QUERY = "query"
UNITS_CHARGED = "units charged"
OFFLINE_HELP = "Plan with what the nodes published when they were last asked, without asking them."
FORMAT_HELP = "How the report is written; csv, parquet and md are tables with a row for each number."
TO_HELP = "Write it to this file instead of the terminal."
NOT_TO_A_TERMINAL = "Parquet is not for a terminal: name a file with --to."

# --- rehearsal ---
REHEARSAL_HOME_HELP = (
    "Rehearse under the accounting and the cap that this home's census agency published when it was last asked."
)
POPULATION_HELP = "Made-up people in the health data."
SEED_HELP = "Which made-up people."
OTHER_COLUMNS = "A rehearsal is on made-up people, who have the columns, codes and events that 'tripartite init' makes, and no others."
TRUTH = "The truth about the made-up people, from the files that both nodes were loaded with"
CELL = "cell"
GROUP = "group"
TRUE = "truth"
HOLDS = "holds it"
MISSES = "misses it"
TRUTH_HELD = "{held} of {told} intervals for noise alone hold the truth; 19 of 20 would in the long run."
