"""What the table's document and its errors say, in English; the French is in the catalogue."""

from __future__ import annotations

# Help stays English.
ROWS_HELP = "The column whose labels are the table's rows."
COLUMNS_HELP = "The column whose labels are the table's columns."
VALUE_HELP = "The column of numbers that averages and totals are of."
STATISTIC_HELP = "What each cell says."
WHERE_HELP = "Only rows with this value in this column. May be given several times: all must hold."
RULE_HELP = "Where sensitivities come from: public bounds, or the rows of the file itself."
METHOD_HELP = "How the cells share epsilon: one sensitivity for all of them, each its own with epsilon split, or cell membership taken as public."
BOUNDS_HELP = "Public bounds of the values: what anybody could have, not what the file has. Values beyond them are cut."
EPSILON_HELP = "For the whole table, from 0.000001 to 30."
SEED_HELP = "The seed of the noise for evaluation."
REPLICATES_HELP = "How many noisy tables are drawn for evaluation."
SAMPLES_HELP = "How many answers of each of two neighbouring files the distinguisher gets."
PUBLISHED_HELP = "The bootstrap rule for totals as it was published, with what is wrong with it beside each figure."
UNIFORM_HELP = "Draw one answer by inversion of this number between 0 and 1, as a published example did."
RELEASE_HELP = "One table by the exact sampler, without exact figures. Cells of one or two members are refused."
GRID_HELP = "With --release: the step that values and answers are rounded to."
STANDING_HELP = "What the holder declares the data to be."
OUT_HELP = "Write the report there: HTML, JSON, tables, plots and replicates, for their owner only."

# --- errors --------------------------------------------------------------------------------------------------------
NO_NUMBER_IN_LINES = "has {n} rows without a number in column '{column}' (lines {lines})"
NO_NUMBER_IN_ROWS = "has {n} rows without a number in column '{column}' (rows {lines})"
NUMBER_REMEDY = "Write a plain number in each, or make a file without these rows and say how many they were."
NO_HEADER = "has no first line with the names of its columns"
HEADER_REMEDY = "Put the names there, separated by commas."
NOT_CSV = "is not CSV from line {line} on: a quote is in the wrong place or is not closed"
CSV_REMEDY = "Separate fields with commas, and quote those that hold a comma."
NOT_UTF_8 = "is not UTF-8 text at or after line {line}"
UTF_8_REMEDY = "Save the file as UTF-8."
OTHER_WIDTH = "has {found} fields in line {line}, and {expected} names in its first line"
NOT_PARQUET = "is not a Parquet file that can be read"
PARQUET_REMEDY = "Write it again, or give a CSV file."
NO_COLUMN = "has no column '{column}'"
COLUMN_REMEDY = "Did you mean: {nearest}?"
COLUMN_TWICE = "has two columns named '{column}'"
TWICE_REMEDY = "Rename one of them."
NO_ROWS = "has no row that the filter leaves"
NO_ROWS_REMEDY = "Compare --where with the file."
TOO_MANY_CELLS = "makes a table of {n} cells, more than {most}"
TOO_MANY_REMEDY = "Choose columns with fewer different labels."
NOT_BOUNDS = "are not two numbers LOW:HIGH"
BOUNDS_REMEDY = "Write for example --bounds 0:1000000."
FAR_TOO = "is far too large, or far too close to 0"
NOT_A_NUMBER = "is not a number"
EPSILON_REMEDY = "Write for example --epsilon 0.5."
GRID_REMEDY = "Write a number above 0, for example --grid 1."
GRID_NOT_POSITIVE = "is not above 0"
GRID_DIVIDES = "does not divide the bounds"
GRID_DIVIDES_REMEDY = "Choose bounds that are whole multiples of the grid."
GRID_TOO_FINE = "is too fine for these values: a cell's figures are no longer exact"
NOT_WHERE = "is not COLUMN=VALUE"
WHERE_REMEDY = "Write for example --where UrbanRural=2."
UNIFORM_RANGE = "must lie between 0 and 1, both excluded"
UNIFORM_REMEDY = "Write for example --uniform 0.25."
NEEDS_VALUE = "An average or a total needs --value."
NEEDS_NO_VALUE = "A count has no --value."
NEEDS_BOUNDS = "--rule laplace needs --bounds for averages and totals."
COUNTS_HAVE_NO_GRID = "A count has no --grid."
COUNTS_HAVE_NO_BOUNDS = "A count has no --bounds."
PUBLIC_COUNTS = "--method public-membership takes the counts as public: there is nothing to protect."
ONLY_TOTALS = "--as-published needs --rule bootstrap and --statistic total."
NOT_FOR_RELEASE = "--release cannot be combined with {option}: it is for evaluation only."
ONLY_FOR_RELEASE = "--grid needs --release."
SAME_COLUMN = "--rows and --columns must name different columns."
BOTH_NOISES = "--uniform and --as-published cannot be combined."

# --- the document --------------------------------------------------------------------------------------------------
TITLES = {
    "count": "A table of counts with noise",
    "average": "A table of averages with noise",
    "total": "A table of totals with noise",
}
ASKED = "What was asked"
PROMISE = "What is promised, and to whom it does not apply"
SENSITIVITIES = "Sensitivities, noise and gain in accuracy"
ANSWERS = "Answers"
PUBLISHED = "As published, and what is wrong with it"
SOURCES = "Sources"
SETTINGS = "The question"
SETTING = "Setting"
GIVEN = "Given"
WHOLE_TABLE = "all rows"
STATISTIC = "Statistic"
VALUES = "Values"
TABLE_ROWS = "Rows of the table"
TABLE_COLUMNS = "Columns of the table"
FILTER = "Filter"
RULE = "Rule"
METHOD = "Method"
EPSILON = "Epsilon of the whole table"
BOUNDS = "Public bounds"
FILE_ROWS = "Rows of the file"
OUTSIDE = "Rows outside the table"
CUT = "Values cut to the bounds"
GRID = "Grid"
SEED = "Seed"
NAMES = {
    "count": "count",
    "average": "average",
    "total": "total",
    "laplace": "Laplace, public bounds",
    "bootstrap": "bootstrap-Laplace, the file's own rows",
    "one-sensitivity": "(i) one sensitivity for all cells",
    "split": "(ii) epsilon split over cells",
    "public-membership": "(iii) cell membership is public",
}
SHORT = {
    "laplace": "Laplace",
    "bootstrap": "bootstrap",
    "one-sensitivity": "(i)",
    "split": "(ii)",
    "public-membership": "(iii)",
}
BETWEEN = "{low} to {high}"

NEIGHBOURS = {
    "laplace": "Neighbours: two files with equally many rows that differ in one row. The other row may have any value within the public bounds and be in any cell or in none. The number of rows is public.",
    "laplace-whole": "Neighbours: two files with equally many rows that differ in one row. The other row may have any value within the public bounds. The number of rows is public.",
    "laplace-count": "Neighbours: two files with equally many rows that differ in one row. The other row may be in any cell or in none. The number of rows is public.",
    "laplace-public": "Neighbours: two files that differ in the value of one row. The other value may be any within the public bounds. Which row is in which cell is public.",
    "bootstrap": "Neighbours: two files with as many rows as this one, all of them copies of rows of this one, that differ in one row. The other row may be a copy of any row of this file, of any cell.",
    "bootstrap-public": "Neighbours: two files with as many rows as this one, all of them copies of rows of this one, that differ in one row. The other row is a copy of a row of the same cell. Which row is in which cell is public.",
}
HOLDS = "The promise: whatever somebody knows about the other rows, no answer is more than {factor:,.4g} times as likely under one of two neighbours as under the other. That is e to the power of epsilon, and the epsilon of this noise is {epsilon:,.4g}."
HOLDS_WITHIN = "The promise: whatever somebody knows about the other rows, no answer is more than {factor:,.4g} times as likely under one of two neighbours as under the other. That is e to the power of epsilon, and the epsilon of this noise is at most {epsilon:,.4g}."
HOLDS_NOT = "The method is named with epsilon {nominal:,.4g}. Under these neighbours its epsilon is {epsilon:,.4g}."
HOLDS_NOWHERE = "No epsilon holds: a cell is published without noise although one row can change it."
NOTHING_TO_HIDE = "No row can change this answer: the number of rows is public. It is published without noise."
NOBODY_DIFFERS = "No row of this file can change this answer. The rule publishes it without noise, whatever it tells."
BARE = "Cells published without noise: {n}. All rows that the rule lets be there have one value, so it sees nothing to hide. Everybody reads that value."
HOLDS_IF_PUBLIC = "What is printed as published holds only if cell membership is public."
MEMBERSHIP = "It does not apply to cell membership: nobody is promised that others cannot tell which cell they are in, nor how many are in it."
NOT_PRIVATE = "This is not differential privacy. The bootstrap rule bounds what one row can change by the rows of this very file, so its noise is computed from the data."
OUTSIDERS = "It does not apply to people outside the data. Only files made of this file's rows are compared: a file with anybody else's row is not among them."
JOINERS = "It does not apply to outliers who join. Towards somebody who joins with the value {value:,.10g}, this noise has epsilon {epsilon:,.4g}."
JOINERS_NOWHERE = "It does not apply to outliers who join: a cell without noise shows at once that somebody joined."
JOINERS_RELEASED = (
    "It does not apply to outliers who join: the larger their value, the surer others can be that they are there."
)
MECHANISM = "It does not apply once the mechanism is published. Sensitivities are values of this file: without the row with the largest value the whole table has sensitivity {without:,.10g} instead of {now:,.10g}. Anybody who learns the scale of the noise learns whether that row is there."
MECHANISM_RELEASED = "It does not apply once the mechanism is published: the scale of the noise is a value of this file. It is not printed here. Do not hand it on, nor anything that it can be computed from."
SAME_MECHANISM = "It does not apply once the mechanism is published: its sensitivities are values of this file."
EVERYBODY = "It applies to people outside the data as well, whatever their values are. The scale of the noise follows from what is public, and may be published."
CLAMPED = "People whose value lies beyond the bounds are protected as everybody is, because their value is cut. The answer then has a bias."
PEOPLE = "It protects a row, not a person. A person or a farm with several rows has up to as many times the epsilon."
LABELS = "It does not cover which labels occur. Rows and columns of the table are the labels in the file."
AGAIN = "Each further answer about the same rows adds its own epsilon. This command keeps no account of that."
FOR_EVALUATION = "The noise comes from a seeded generator of floating-point numbers. It is for evaluation, never for release. This page shows exact figures beside noisy ones, so the page itself keeps no promise."
BY_HAND = "The noise was made from a uniform number that is given above. Anybody who knows that number takes the noise away. Two answers made with the same number at different epsilons give the exact value even to somebody who does not know it. This page shows exact figures as well, so the page itself keeps no promise."
FOR_RELEASE = "The noise comes from the product's exact sampler of whole numbers and the operating system's randomness. Nobody can draw it again. Values were rounded to the grid before they were counted."
HANDED_ON = "The mark on this page stays until the holder of the data decides to hand the table on, and writes down what epsilon that cost."
REFUSAL = "Refused cells: {n}. A cell of one or two members is refused, and the refusal itself tells something: the cell is not empty, and it is small. The promise does not cover that."
REFUSAL_BARE = "A cell whose members all have one value is refused as well: this rule would publish it without noise. An empty cell may be published as 0 without noise."
REFUSAL_NONE = "No cell was refused. Cells of one or two members would have been, and that none was refused tells something too: no cell has one or two members. The promise does not cover that."
CITIZEN_LAPLACE = "Each number was changed by a random amount. The amount is so large that the row of one person, whatever it says within the bounds, hardly shows."
CITIZEN_BOOTSTRAP = "Each number was changed by a random amount. The amount is chosen by looking at the people in the file: it hides each of them among the others there. It does not hide somebody who is unlike all of them."
CITIZEN_PUBLIC = "The numbers hide what somebody's value is. They do not hide that somebody is in a cell."
LIKELIHOOD_WORDS = "The probability of any set of answers under one file is at most e to the power of epsilon times that under a neighbour."

OF_COUNTS = "Counts: what one row can change, and the noise"
OF_TOTALS = "Totals: what one row can change, and the noise"
CENTRED = "The totals are sums of distances from the middle of the bounds, {centre:,.10g}. Half of epsilon goes to them and half to the counts that divide them. The quotient is cut to the bounds, and it has a bias."
HALVES = "Half of epsilon goes to the totals and half to the counts that divide them. The quotient has a bias."
DIVIDED = "An average is its total divided by the public number of members, so its sensitivity is that of the total divided by that number."
WHOLE = "The whole table has sensitivity {whole:,.10g}. One row that leaves a cell and enters another changes both; the two cells that count most are {first} and {second}."
NO_GAIN = "Gain compares with the largest value of the file, {largest:,.10g}. That is not a public bound: it is a value of somebody in the file."
GAIN_OF_BOUNDS = "Gain compares with the public bounds: it says how many times smaller the noise of one cell is."
CELL = "Cell"
MEMBERS = "Members"
EXACT = "Exact"
ALONE = "Sensitivity of the cell"
OF_AVERAGE = "Sensitivity of the average"
SCALE = "Scale of the noise"
RELATIVE = "Scale / exact (%)"
GAIN = "Gain"
METHODS = "The same table by each method"
METHODS_CORRECTED = "The same table by each method, corrected"
METHODS_NOTE = "Relative noise is the scale divided by the exact value, averaged over cells whose exact value is not zero. (iii) protects values only, so it is not comparable in what it promises."
LEAST_SCALE = "Smallest scale"
MOST_SCALE = "Largest scale"
MEAN_RELATIVE = "Mean relative noise (%)"
NO_EPSILON = "none holds"
REAL = "Epsilon under the neighbours"
RELATIVE_PLOT = "Relative noise of each cell, by method"
RELATIVE_PLOT_WORDS = "Bars on a logarithmic axis: the scale of each cell's noise as a share of its exact value, for each method and the first {n} cells."
RELATIVE_AXIS = "scale / exact value (%)"
HOW_SCALES = "(i) scale = (largest sum of what one row changes) / epsilon, the same for all cells. (ii) scale = 2 * (what a row changes by entering or leaving the cell) / epsilon: a row that moves changes two cells, so each has epsilon / 2, however many cells there are. (iii) scale = (largest value - smallest value of the cell) / epsilon."

NOISY_TABLE = "One noisy table"
UNIFORM_TABLE = "The answer for the uniform number {uniform:.15g}"
RELEASED_TABLE = "The table for release"
REFUSED_CELL = "refused"
REPLICATED = "Over {n} replicates"
REPLICATED_NOTE = "By law: the standard deviation of Laplace noise is its scale times the square root of 2, the mean absolute error is the scale."
MEAN = "Mean"
DEVIATION = "Standard deviation"
LAW = "By law"
ERROR = "Mean absolute error"
RELATIVE_ERROR = "Error / exact (%)"
REPLICATES_PLOT = "Replicates: size of the noise in percent of the exact value"
REPLICATES_WORDS = "Each dot is one replicate of one cell, on a logarithmic axis: how far the noisy value is from the exact one, in percent of the exact one. Cells stand in the order of the table above, and the dots of a cell in the order in which they were drawn, the first {n} of them."
CELL_NUMBER = "cell, in the order of the table"
NOISE_PERCENT = "size of the noise (% of the exact value)"
REPLICATE = "Replicates"

AS_PRINTED = "Sensitivities as published, and corrected"
AS_PRINTED_NOTE = "As published: a cell's largest value less its smallest. Corrected: what a row adds to a cell that it enters from another one, the cell's largest value. Epsilon is that of the cell alone with the published noise."
PRINTED_SENSITIVITY = "As published"
PRINTED_RATIO = "Published / total (%)"
PRINTED_GAIN = "{largest:,.10g} / published"
CORRECT_SENSITIVITY = "Corrected"
CORRECT_RATIO = "Corrected / total (%)"
REAL_ALONE = "Epsilon alone"
REAL_TABLE = "The epsilon that the published methods have"
REAL_NOTE = "Measured from below: a distinguisher saw {samples:,} answers of each of two neighbouring files; epsilon is at least that, but for an error rate of {rate:.0e}."
NOMINAL = "Epsilon, nominal"
REALLY = "Epsilon, real"
BELOW = "Measured from below"
ROW_MOVES = "The row moves between"
ONE_CELL = "one cell alone"
IF_PUBLIC = "(iii), if membership is public"
IF_NOT_PUBLIC = "(iii), if membership is not public"
CORRECTED_TABLE = "The corrected methods"
WHY_CELLS = "A row of one cell may be replaced by a row of another. The cell that it enters gains the row's whole value, not a difference of two values of that cell. So the sensitivity of a cell is its largest value."
WHY_WHOLE = "The whole table has sensitivity {whole:,.10g} = {first:,.10g} + {second:,.10g}: the row with the largest value of {from_cell} is replaced by the one of {to_cell}. The published one is {published:,.10g}."
WHY_HALF = "Method (ii) gives each of {cells} cells epsilon / {cells}. One row changes two cells at most, so epsilon / 2 a cell is enough."
NOT_A_BOUND = "{largest:,.10g} is the largest value in the data, not a public bound. The gain compares one number from the data with another."

RICE = "C. M. O'Keefe and A.-S. Charest, Bootstrap Differential Privacy, Transactions on Data Privacy 12 (2019), 1-28: the bootstrap rule, its three methods, and the table of rice farms."
LAPLACE_SOURCE = "C. Dwork, F. McSherry, K. Nissim and A. Smith, Calibrating Noise to Sensitivity in Private Data Analysis, 2006: the Laplace rule."
EXACT_SOURCE = (
    "C. L. Canonne, G. Kamath and T. Steinke, The Discrete Gaussian for Differential Privacy, 2020: the exact sampler."
)

READING = "Reading the file"
CUT_SAID = "{n} values lie beyond the bounds and were cut to them."
DONE = "{text}\n\n{n} files are in {folder}; only their owner may read them."
