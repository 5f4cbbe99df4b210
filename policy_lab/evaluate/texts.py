"""Texts of `tripartite lab evaluate`: help, progress, and the words of its document."""

from __future__ import annotations

# --- the command ---------------------------------------------------------------------------------------------------
OUT_HELP = "Write report, tables, plots and errors.csv there. Finished parts are kept there: a killed run goes on."
PROCESSES_HELP = "Processes that work at once. The result is the same for any number."
CHECK_HELP = "Read run file and data, print what each mechanism promises, and draw no noise."
EXAMPLE_HELP = "Print a run file with remarks that works as it is, on made-up people."
PDF_HELP = "Write report.pdf as well (with --out)."
READING = "Reading the data"
EVALUATING = "Evaluating"
CLIPPED = "{n:,} of {rows:,} weights are above the cap of {cap:,.12g} and were clipped to it."
CLAMPED = "{n:,} of {rows:,} numbers in '{column}' lie outside of the public bounds and were moved to them."
REUSED = "{n:,} of {all:,} parts were finished before and are reused."
WRITTEN = "Written to {folder}: {files} files, first of all {first}."
INTERRUPTED = "Finished parts are kept: the same command goes on where it stopped."
INTERRUPTED_UNKEPT = "Nothing was kept: with --out DIR a run goes on where it stopped."
NO_RUN = "Name a run file. 'tripartite lab evaluate --example' prints one."
EXAMPLE_ALONE = "--example is given alone."
PDF_NEEDS_OUT = "--pdf needs --out."
FOREIGN_PARTS = "is not a folder of finished parts that this command made"
FOREIGN_PARTS_REMEDY = "Nothing was changed there. Move it away, or give --out a folder that is not there yet."
CHECK_AND_PROFILE = (
    "--check is for mechanisms of your own: a profile has its methods, and its report says what they promise."
)
CHECK_AND_OUT = "--check cannot be combined with --out: it writes nothing."

# --- names ---------------------------------------------------------------------------------------------------------
NUMBERS = {
    "truncated": "truncated",
    "clamped": "clamped",
    "wrapped": "wrapped",
    "wrapped_as_proposed": "wrapped as proposed",
}
GLOBAL = "global"
LOCAL = "local"
LOCAL_NUMBERS = "local, {numbers}"
SHUFFLED = "shuffled"
SHUFFLED_NUMBERS = "shuffled, {numbers}"
WITH = {"static": "{name}, with static columns", "weight": "{name}, with the weight"}
ALL_COLUMNS = "{name}, all columns"
QUERIES = {"count": "count of {column}", "sum": "sum of {column}", "mean": "mean of {column}"}
ALL_ROWS = "all rows"
BASELINE = "columns permuted one by one"

# --- what was evaluated --------------------------------------------------------------------------------------------
EVALUATED = "What was evaluated"
EVALUATED_ROWS = "{rows:,} respondents in {strata:,} strata; each answer was given {repetitions:,} times with new noise, from the seed {seed}."
FOR_EVALUATION = (
    "The noise comes from a seeded generator and from floating-point numbers. It is for evaluation, never for release: who "
    "knows the seed takes the noise away. Never show results of two versions of a data file that were made with the same seed: the noise is the "
    "same in both, and global counts and sums differ by exactly what the changed respondent adds."
)
ONE_ROW = "Stratum {stratum} has one respondent: its exact figures are that person's answers."
FEW_ROWS = "{n} strata have one respondent each: their exact figures are those persons' answers."
COLUMNS_CAPTION = "Columns, and what is public about them"
COLUMNS_HEADS = ("column", "kind", "static", "public categories or bounds", "moved to the bounds", "not stated")
CATEGORY = "category"
NUMBER = "number"
STATIC = "yes"
DYNAMIC = "no"
SETTINGS_CAPTION = "Settings"
SETTINGS_HEADS = ("setting", "value")
SETTING_DATA = "data file"
SETTING_CAP = "cap on weights"
SETTING_MULTIPLIER = "multiplier of weights"
SETTING_CLIPPED = "weights clipped to the cap"
SETTING_SHARE = "share of all weight that is left after clipping"
SETTING_NEIGHBOURS = "neighbours, for noise on results"
SETTING_DELTA = "delta"
STRATA_CAPTION = "Strata"
STRATA_HEADS = ("stratum", "respondents", "people they stand for")

# --- promises ------------------------------------------------------------------------------------------------------
PROMISES = "What each mechanism promises"
PROMISES_CITIZEN = (
    "Epsilon says how much what is published can change anybody's odds about one respondent. At 1 the odds change by a factor of "
    "2.7 at most, at 3 by 20, at 9 by 8,100: at 9 a promise is one in name only. Answers add up: who answers more gives more away."
)
PROMISE_FORMULA_WORDS = (
    "For all sets of answers and all two neighbouring tables D and D': the chance under the one is at most e to the epsilon times "
    "the chance under the other, plus delta."
)
PROMISE_TITLES = "{name}: {words}"
PROMISE_GLOBAL = (
    "Promise: with epsilon {given} for each answer, all answers of one release together have epsilon {total} and delta 0 for "
    "one respondent. {neighbours}"
)
PROMISE_LOCAL = (
    "Promise: with epsilon {given} for each column, what one respondent sends has epsilon {total} and delta 0, also against the "
    "agency. {neighbours}"
)
PROMISE_SHUFFLED = (
    "Promise: with epsilon {given} for each column, what leaves the shuffler has epsilon {total} and delta {delta} for every "
    "respondent, against those who do not see what enters it. {neighbours}"
)
PROMISE_HIDDEN = (
    "With epsilon {given}, shuffling promises more than the messages did for {hidden} of the {rows:,} respondents: the others' groups "
    "are too small."
)
BIAS_GLOBAL = (
    "Bias: counts and sums have none but what clipping takes away. A mean is a quotient of two noisy numbers: its bias is not "
    "known exactly, and its size is part of the errors below."
)
BIAS_CATEGORIES = "Bias: counts are unbiased estimates but for what clipping takes away."
BIAS_NUMBERS = {
    "truncated": "Sums and means of numbers are biased: noise that is drawn again until it fits pulls each number to the middle.",
    "clamped": "Sums and means of numbers are biased: what is moved back to the bounds pulls each number to the middle.",
    "wrapped": "Sums and means of numbers are biased: noise that leaves at one bound comes back at the other one.",
    "wrapped_as_proposed": (
        "Sums and means of numbers are biased: the whole range is turned by the lower bound, so that even without noise no number "
        "would come back as it was unless the lower bound is a multiple of the range."
    ),
}
BIAS_SHUFFLED = (
    "Bias: a message without its weight counts for the mean weight of its group, which is used as it is and not protected. Answers are "
    "biased where weight and answer go together, and by what clipping takes away."
)
NOT_FOR_GLOBAL = (
    "It does not apply to the agency, which has the data; nor to what is true of everybody, which is to be learned; several respondents "
    "who belong together, such as a household, spend their epsilons together; and every further release spends anew."
)
NOT_FOR_LOCAL = "It does not apply to what is not noised, nor does it hide that somebody took part; and every further survey spends anew."
NOT_FOR_SHUFFLED = (
    "It does not apply to what is not noised, nor does it hide that somebody took part; if the shuffler keeps or shows the order of "
    "messages, the local epsilon {local} is all that holds; and every further survey spends anew."
)
NOT_FOR_ALONG = {
    "static": "Static columns travel along as they are, and are not protected.",
    "weight": "The weight travels along as it is: most often it tells messages apart, and then shuffling adds nothing.",
}
COMPOSITION_CAPTION = "What one respondent spends"
COMPOSITION_HEADS = ("mechanism", "of what", "how it adds up", "epsilon for {epsilon}")
COMPOSITION_TOTAL = "together"
COMPOSITION_NOTE = "One release, that is one repetition. The repetitions of this evaluation are not answers to anybody."
HOW_CELLS_ONE = "parallel: one cell of one stratum"
HOW_CELLS_TWO = "parallel: two cells, the one left and the one entered"
HOW_STRATUM = "parallel: one stratum"
HOW_MESSAGE = "one message"
HOW_SEQUENTIAL = "sequential: the sum"
HOW_SHUFFLED = "after shuffling: the weakest that holds for all"
GLANCE_CAPTION = "What holds for one respondent, all answers or messages together"
GLANCE_HEADS = ("mechanism", "epsilon as given", "epsilon that holds", "delta")
SHUFFLING_CAPTION = "Shuffling in each stratum: {mechanism}"
SHUFFLING_HEADS = (
    *(
        "epsilon as given",
        "stratum",
        "respondents",
        "shuffling promises more to",
        "smallest group",
        "epsilon in the smallest",
    ),
    *("largest group", "epsilon in the largest"),
)
SHUFFLING_NOTE = (
    "A group is of respondents whose messages nothing but the noised columns tells apart. Where shuffling promises more, delta is {delta}; "
    "elsewhere the local epsilon holds, with delta 0. Sizes of groups are of these data: a promise made in advance needs sizes that are "
    "public."
)
SOURCE_SHUFFLING = "V. Feldman, A. McMillan, K. Talwar, Hiding Among the Clones, Theorem 3.1"

# --- errors --------------------------------------------------------------------------------------------------------
ERRORS = "How far off the answers are"
ERRORS_CITIZEN = (
    "The bars show how far an answer is from the exact figure on average, over all strata and categories. Every stratum, column and "
    "category by itself stands in errors.csv."
)
ERRORS_SPECIALIST = (
    "An error is the distance between the noisy answer and the exact figure of the file, with neither weights clipped nor numbers "
    "moved: it holds noise and bias together. Standard errors are over the repetitions."
)
DRAWN_TO_MIDDLE = (
    "Under local or shuffled noise of a small epsilon a mean is little more than the middle of the public bounds, whatever the data say: a "
    "small error may only mean that the true mean lies near the middle."
)
BARS_TITLE = "Mean absolute error: {what}"
BARS_DESCRIPTION = (
    "For each epsilon one bar for each mechanism: the mean absolute error over {cells:,} cells. Lower is better."
)
ERROR_AXIS = "mean absolute error"
EPSILON_IS = "epsilon {epsilon}"
ERRORS_CAPTION = "Mean absolute errors over all strata and categories"
ERRORS_HEADS = ("asked", "mechanism", "epsilon", "mean absolute error", "standard error", "largest bias of a cell")
HEAT_TITLE = "Relative error by stratum: {mechanism}"
HEAT_DESCRIPTION = (
    "Rows are strata, columns what is asked at which epsilon. Each cell is the mean absolute error divided by the mean exact figure; 1 "
    "and more are shown as 1."
)
HEAT_COLUMN = "{what}, {epsilon}"

# --- likeness ------------------------------------------------------------------------------------------------------
LIKENESS = "What the sent data still look like"
LIKENESS_CITIZEN = (
    "Local and shuffled noise make a file that looks like the true one. Here is how much: 1 is the same, and the last row shows what "
    "is left when each column is permuted by itself, so that nothing in it goes together."
)
LIKENESS_SPECIALIST = (
    "Shapes: for categories 1 less the total variation between the two distributions, for numbers 1 less the largest distance between "
    "the two cumulative ones (Kolmogorov and Smirnov), without weights and before any estimate. Pairs: Cramer's V, Spearman's rank "
    "correlation or the correlation ratio of ranks; kept is 1 less half the difference."
)
SAMPLED = "Measured on {rows:,} of the {all:,} rows, drawn by the seed."
SHAPES_CAPTION = "Shapes: 1 is the same distribution"
SHAPES_HEADS = ("data", "epsilon", "static columns", "dynamic columns")
SHAPES_TITLE = "Shapes that are kept: {mechanism}"
SHAPES_DESCRIPTION = "For each epsilon one bar for each noised column: 1 is the same distribution."
SHAPE_AXIS = "shape that is kept"
PAIRS_CAPTION = "Pairs of columns that still go together: 1 is as before"
PAIRS_HEADS = ("data", "epsilon", "static with static", "static with dynamic", "dynamic with dynamic")
TRUE_PAIRS_TITLE = "How columns go together in the file"
AFTER_PAIRS_TITLE = "How columns go together: {mechanism}, epsilon {epsilon}"
PAIRS_DESCRIPTION = (
    "Each cell is the strength of one pair of columns, without its sign: 0 is none, 1 is that one says the other."
)

# --- linkage -------------------------------------------------------------------------------------------------------
LINKAGE = "Who is found again"
LINKAGE_CITIZEN = (
    "An attacker knows what stands unchanged beside the answers, such as region, sex and age, and also the weight where it is sent along, as it "
    "is under local noise; and looks for one respondent. Who is alone with that is found with certainty, and no noise on the answers changes it."
)
LINKAGE_SPECIALIST = (
    "Attacked are {people:,} respondents, drawn by the seed. Guesses are uniform among the rows that agree; an attacker who knows the "
    "true answers as well takes the row whose messages are likeliest under the public law. A better attack may find more: these are "
    "figures from below."
)
LINKAGE_CAPTION = "Share of the respondents attacked"
LINKAGE_HEADS = (
    *("mechanism", "epsilon", "alone with what is unchanged", "found by what is unchanged"),
    "found by true answers as well",
)
LINKAGE_TITLE = "Found again by an attacker who knows the true answers"
LINKAGE_DESCRIPTION = (
    "For each epsilon one bar for each mechanism: the share of the respondents attacked who are found."
)
LINKAGE_AXIS = "share found"

# --- mixtures ------------------------------------------------------------------------------------------------------
MIXTURE = "When some answer plainly"
MIXTURE_CITIZEN = (
    "If some respondents do not mind and answer without noise, errors shrink. They are not protected at all, and who refuses to be plain "
    "stands out."
)
MIXTURE_SPECIALIST = (
    "Plain and noisy messages are added up, the noisy ones by their estimate. The error is over the whole file: for categories half the "
    "weight in the wrong place as a share of all weight, for numbers the error of the mean as a share of the range."
)
MIXTURE_TITLE = "Error by share of plain answers: {mechanism}"
MIXTURE_DESCRIPTION = "One line for each epsilon: the mean over noised columns. It falls to 0 where all answer plainly."
MIXTURE_X = "share of respondents who answer plainly"
MIXTURE_Y = "relative error"

# --- the check -----------------------------------------------------------------------------------------------------
CHECKED = "Nothing was drawn: this is what the run would do."
CHECK_PARTS = "{parts:,} parts: {mechanisms} mechanisms, {epsilons} epsilons, {repetitions:,} repetitions; {cells:,} cells in errors.csv."
