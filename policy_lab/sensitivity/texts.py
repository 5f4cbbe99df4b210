"""Every sentence of `tripartite lab sensitivity`, in one place, so that another language can stand beside it."""

from __future__ import annotations

# --- what is wrong with files and choices --------------------------------------------------------------------------------
NO_COLUMN = "there is no column {column}."
NO_HEADING = "the first line names none of the columns that are asked for."
HEADING_REMEDY = "Compare their names with that line. If it is somebody's row, put names above it; it is not shown here for that reason."
NEAREST = "The nearest names are: {nearest}."
FEW_ROWS = "it has {rows} rows, and AVG divides by the rows less one."
FEW_ROWS_REMEDY = "Give a file of at least two rows below its line of names."
NOT_UTF8 = "this line is not UTF-8."
NOT_UTF8_REMEDY = "Save the file as UTF-8."
NO_CSV = "this line is not CSV."
NO_CSV_REMEDY = "Look for a quotation mark that is never closed, and for a byte that is no text."
NO_NAMES = "the first line does not name every column in printable characters."
NO_NAMES_REMEDY = "Write a name of its own for each column into the first line."
NAMES_TWICE = "two columns have the same name: those at places {places} of the first line."
OTHER_WIDTH = "the row has {found} cells, and the first line names {expected} columns."
OTHER_WIDTH_REMEDY = "Give each row a cell for each column; a missing value is ?."
NO_NUMBER = "the column {column} has cells that are not numbers, in lines {lines}."
NO_NUMBER_REMEDY = "Write ? where a value is missing. If {column} holds no numbers, name the columns that do (--column), or leave it out (--without)."
NO_VALUES = "the column {column} has no value in any row."
NO_VALUES_REMEDY = "Leave it out."
NO_NUMBERS = "it has no column of numbers."
NO_NUMBERS_REMEDY = "SUM and AVG need one; missing values are ?, and a point stands before decimals."
MANY_CATEGORIES = "the column {column} has {found} different words, and a model takes at most {most} of a column."
MANY_CATEGORIES_REMEDY = "Leave the column out with --without."
OTHER_MODEL = "the folder holds a model of another table, training or version."
OTHER_MODEL_REMEDY = "Give another --out, or delete that folder to train anew."
MODEL_OF_OTHER_TABLE = "the model was trained on another table, on other columns of it, or with other versions."
MODEL_OF_OTHER_TABLE_REMEDY = "Train one on this table, or give generated rows with --generated."
NO_MODEL = "there is no model that this command wrote."
NOT_WHOLE = "the training was not finished."
NOT_WHOLE_REMEDY = "Run the command that began it again: it goes on from its last checkpoint."
MODEL_DAMAGED = "the file is damaged."
MODEL_DAMAGED_REMEDY = "Delete the folder and train anew."

# --- progress -------------------------------------------------------------------------------------------------------------
MODEL_LOADED = "The model in {folder} is loaded; nothing is trained."
RESUMED = "Training goes on after epoch {done} of {epochs}."

# --- the licence ----------------------------------------------------------------------------------------------------------
LICENCE = """\
{name} {version} is not free software: its licence allows some uses and not others. It begins:
{lines}
  The whole text: {file}
  Its source: {address}"""
LICENCE_OF = "the licence text of {package}"
ASK_LICENCE = "Do you accept these licences for what you do here?"

# --- help ----------------------------------------------------------------------------------------------------------------
COLUMN_HELP = "A column of numbers to ask about; may be given more than once. Otherwise all of them."
WITHOUT_HELP = "Leave this column out of everything, e.g. one of names; may be given more than once."
ROWS_HELP = "A number of rows to try, drawn from the file; may be given more than once. Otherwise an eighth, a quarter, a half and all."
EPSILON_HELP = "What the listing divides the estimated sensitivity by. It is no promise."
BOUNDS_HELP = (
    "Public bounds of a column, as COLUMN=LOW:HIGH: between what its values lie by law or definition, never its extremes in the file. "
    "May be given once for each column."
)
GENERATED_HELP = "Synthetic rows of any generator, as CSV with the same columns, instead of CTGAN: nothing is trained."
MODEL_HELP = "The folder of a model that this command trained on the same file (OUT/model), instead of training one."
EPOCHS_HELP = "How often the training goes through the table."
SAMPLES_HELP = "How many generated tables of each size."
REPETITIONS_HELP = "How many estimates and answers from each generated table."
SEED_HELP = "The same seed gives the same training, rows and noise. The noise is for evaluation, never for release."
LICENCE_HELP = "Accept the licences of CTGAN and RDT, which are shown; remembered in OUT."
STANDING_HELP = "What the data are, as their holder declares. Output from internal data is never part of an assessment."
OUT_HELP = "The folder for the model and the report, which only you may open. The same command goes on there after it was stopped."

# --- what is wrong with options ------------------------------------------------------------------------------------------
NOT_NUMBER = "is not a number"
EPSILON_REMEDY = "Write it in digits, such as 1 or 0.5."
NOT_BOUNDS = "is not COLUMN=LOW:HIGH"
BOUNDS_REMEDY = "Write for example --bounds age=0:120, once for each column."
NO_SUCH_COLUMN = "names no column that is asked about"
MANY_ROWS = "is more than the {rows} rows of the file"
FEWER_ROWS_REMEDY = "Give fewer."
FEW_GENERATED = "it has {found} rows, and {wanted} are needed for each generated table."
FEW_GENERATED_REMEDY = "Give as many generated rows as the largest --rows."
BOTH_SOURCES = "--generated and --model cannot be combined."
NO_VALUE_AMONG = "among {rows} rows the column {column} has no value at all."
NO_VALUE_AMONG_REMEDY = "Give larger --rows, or leave the column out."
GENERATED = "The generated rows"

# --- what is said while it works -----------------------------------------------------------------------------------------
EPOCH = "Training: epoch {done} of {epochs}"
TRYING = "Trying"
INTERRUPTED = "Run the same command again: training goes on from its last checkpoint."
DONE = """\
{text}

Written for you alone, mode 0600, into {folder}: {n} files, and the model if one was trained."""

# --- the report: what comes first ------------------------------------------------------------------------------------------
TITLE = "Sensitivities estimated from synthetic data: not differentially private"
WARNING = "This is not differentially private"
NOT_PRIVATE = (
    "What is evaluated here is not differentially private, whatever epsilon is chosen. Three times out of four it uses the real "
    "sensitivity, which is computed from the data themselves; and its own argument allows too small a sensitivity in 0.575 % of cases."
)
NOT_PRIVATE_SHORT = "Not differentially private."
CITIZEN = (
    "A noisy answer protects a person if the same answer could just as well have come without them. That needs noise for the largest value "
    "that anybody could have. Here the noise follows the largest value that somebody does have: if the richest person leaves, the noise "
    "becomes smaller, and anyone who sees the answer can tell. Synthetic data do not change that, because the real value still goes into the estimate."
)
SPECIALIST = (
    "The real sensitivity is a function of the table at hand, not of all neighbouring tables, and neither is it smoothed. The scale of the noise is "
    "computed from the data: three times out of four it is the real sensitivity but for an added part whose law everybody knows. "
    "Even an estimate that is never below the real sensitivity would not be differentially private."
)
LAW_WORDS = (
    "The estimate is taken so one time out of four; z is a standard normal number. The difference is read as real less generated, as far as the listing tells. "
    "An estimate of zero or less is refused: nothing is answered."
)
REAL_WORDS = "Three times out of four the estimate e is the real sensitivity r and a part of the generated one, g; u is uniform between 0.015 and 0.06."
WHY = "Why, and where the 0.575 % come from"
ARITHMETIC = "Where 0.575 % comes from"
ARITHMETIC_HEADS = ("Step", "Percent")
ARITHMETIC_STEPS = {
    "drawn": "How often the estimate is drawn, and the real sensitivity not taken as it is",
    "rounded": "How often z lies below \N{MINUS SIGN}2, so that z + 3 is below 1: (100 \N{MINUS SIGN} 95.4) / 2, rounded",
    "argued": "What the argument allows: a quarter of 2.3 %",
    "tail": "How often z lies below \N{MINUS SIGN}2, exactly",
    "exactly": "A quarter of that",
    "worst": "Too small an estimate, or a refused one, where the generated sensitivity is far above the real one, at most",
}
ARITHMETIC_NOTE = (
    "The argument looks at z alone: u makes too small an estimate a little rarer. And it holds only where the generated sensitivity is below the real one. "
    "Where it is above, the difference is negative, and the estimate is too small unless z is far below zero. The exact probability "
    "for these data stands with the sensitivities."
)

# --- the report: neighbours ------------------------------------------------------------------------------------------------
APART = "Two tables that differ in one row, told apart by one answer"
APART_CITIZEN = (
    "Take the table, and a second one in which only one person's value is larger. If a method protects that person, one answer must not show which of the two "
    "tables it came from. Here it does."
)
APART_SPECIALIST = (
    "In the neighbour the row with the largest value has a multiple of it; the listing is idealised: the same generated rows for both tables, as if training told nothing. "
    "The event is an answer within the real sensitivity over the nominal epsilon of the exact result of the first table. Its two probabilities "
    "are integrals over the listing's law; the logarithm of their ratio is a lower bound of the epsilon of this idealised listing, and grows without limit with "
    "the larger value. The neighbour relation is: {neighbours}"
)
APART_TABLE = "Not differentially private: what one answer tells"
APART_HEADS = (
    "Column",
    "Query",
    "Largest value, times",
    "Epsilon is at least",
    "Delta is at least",
    "Answer near, percent",
    "From the neighbour, percent",
    "Real sensitivity",
    "Of the neighbour",
)
APART_NOTE = (
    "The nominal epsilon is {epsilon:g}, and delta is what would be needed beside it. Both bounds are those of an idealised listing, which generates the same rows from both tables; for a "
    "trained generator they are not proven. With public bounds no event of any two neighbouring tables gives more than the nominal "
    "epsilon, with a delta of 0."
)
APART_NONE = "No column has a value above zero, and there is nothing to show: all estimates may be refused."

# --- the report: what was tried --------------------------------------------------------------------------------------------
TRIED = "What was tried"
SETTING_HEADS = ("Setting", "Value")
SETTINGS = {
    "file": "File",
    "rows": "Rows in the file",
    "epsilon": "Nominal epsilon",
    "generator": "Generated rows from",
    "samples": "Generated tables of each size",
    "repetitions": "Answers from each generated table",
    "seed": "Seed",
}
FROM_CTGAN = "CTGAN {ctgan}, {epochs} epochs, seed {seed}"
FROM_FILE = "the file {file}"
SETTINGS_CAPTION = "Settings"
RULES = (
    "Sensitivities follow the source's rules. SUM: the column's maximum. AVG: the maximum over the rows less one, rows with ? counted. A mean is over the rows "
    "that have a value. These rules bound nothing: a person may join, or change, with a larger value or a negative one."
)
NOISE = "All noise comes from a seeded generator of floating-point numbers. It is for evaluation, never for release."
NEGATIVE = "The column {column} has values below zero. The source's rule looks at the maximum alone, so that its sensitivity does not cover them."
MODEL_IS_INTERNAL = "The model is as internal as the table that it was trained on: what it generates shows the table's largest values, and its training had no privacy protection."

# --- the report: sensitivities and errors ------------------------------------------------------------------------------------
SENSITIVITIES = "Sensitivities: real, generated, estimated"
SENSITIVITIES_TABLE = "Not differentially private: sensitivities by number of rows"
SENSITIVITIES_HEADS = (
    "Column",
    "Query",
    "Rows",
    "Real",
    "Generated",
    "Estimated",
    "Too small, percent",
    "Refused, percent",
    "Refused here",
)
SENSITIVITIES_NOTE = (
    "Means over all generated tables. 'Too small' and 'refused' are exact probabilities of the listing's law, averaged over them: an answer is given with less noise than "
    "the real sensitivity asks for, or the estimate is zero or less and nothing is answered. 'Refused here' counts estimates out of {count:,}."
)
ERRORS = "Errors by number of rows"
ERRORS_TABLE = "Not differentially private: mean absolute errors"
ERRORS_HEADS = (
    "Column",
    "Query",
    "Rows",
    "Exact result",
    "Answer",
    "Standard error",
    "Public bounds",
    "Generated rows",
    "Estimated sensitivity",
    "Generated sensitivity",
)
ERRORS_NOTE = (
    "How far the answer is off, the answer from public bounds, and the query on generated rows; then how far the two sensitivities are from the real one. "
    "Refused estimates give no answer and are in no mean. The standard error is that over generated tables."
)
PLOT = "{column}, {query}: mean absolute errors (not differentially private)"
PLOT_DESCRIPTION = (
    "How far the answer, the estimated sensitivity and the query on generated rows are off, by number of rows. With all {rows:,} rows the answer is off by "
    "{answer:,.10g} on average, the estimated sensitivity by {estimate:,.10g}, the query on generated rows by {generated:,.10g}."
)
PLOT_UNANSWERED = "How far the answer, the estimated sensitivity and the query on generated rows are off, by number of rows. With all {rows:,} rows every estimate was refused."
X_ROWS = "Rows"
Y_ERROR = "Mean absolute error"
LINE_ANSWER = "Answer of the listing"
LINE_ESTIMATE = "Estimated sensitivity"
LINE_GENERATED = "Query on generated rows"
LINE_BOUNDED = "Answer from public bounds"

# --- the report: public bounds -----------------------------------------------------------------------------------------------
BOUNDED = "What public bounds would give"
BOUNDED_WORDS = (
    "With bounds that hold for everybody who could be in the data, Laplace noise keeps its promise at the same epsilon, and needs neither the data's maximum nor "
    "a model. Values beyond the bounds are set to them. The neighbour relation is: {neighbours}"
)
BOUNDED_AVERAGE = "For AVG the number of rows with a value is not public. {noisy_mean}"
BOUNDED_TABLE = "Public bounds, and the noise that they need"
BOUNDED_HEADS = ("Column", "Lower bound", "Upper bound", "Sensitivity of SUM", "Mean absolute noise of SUM")
NO_BOUNDS = (
    "No public bounds were given, so that nothing stands here that keeps a promise. Give --bounds COLUMN=LOW:HIGH "
    "for the columns that are asked about: between what values lie by law or definition, no matter who is in the "
    "data; never the extremes of the file."
)

SOURCES = "Where this comes from"
SOURCE_LISTING = "A published proposal to estimate sensitivities from rows that CTGAN generates, with a listing of its program; the law above is read from that listing."
SOURCE_CTGAN = "Xu, Skoularidou, Cuesta-Infante, Veeramachaneni: Modeling Tabular Data using Conditional GAN (2019)"
SOURCE_SENSITIVITY = "Nissim, Raskhodnikova, Smith: Smooth Sensitivity and Sampling in Private Data Analysis (2007), on why noise may not follow the sensitivity of the table at hand"
