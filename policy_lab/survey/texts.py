"""Sentences of the published evaluation."""

TITLE = "The health-survey report of 2024, repeated"
NO_COLUMN = "The data file has no column {column}."
NO_COLUMN_REMEDY = "This profile reads GEO_PRV, SMK_005, HWTDGHTM and WTS_M, by the survey's own codes."
NO_ROWS = "The data file has no row."
NO_ROWS_REMEDY = "Name a file with a heading and rows."
NOT_POSITIVE = "A row of the data has no value above 0 in {column}."
NOTHING_VARIES = "The answers cannot be noised as published: all heights are the same, all answers about smoking are, or nobody smokes daily."
NOTHING_VARIES_REMEDY = "Name the survey's file, or a file like it."
NO_FILE = "There is no data file {file}."
NO_FILE_REMEDY = "Name it as it is reached from the folder of the run file."
UNREADABLE = "{file} cannot be read as a table."
UNREADABLE_REMEDY = "Give a CSV file in UTF-8 with commas and a heading, or Parquet."
NO_NUMBER = "A row of the data has no number in {column}."
UNKNOWN_CODE = "A row of the data has a code in {column} that the survey does not have. It has {codes}."
ROW_REMEDY = "Look at row {row}, counted from 1 without the heading."
NO_FORMULA = "The report has no formula for shuffled answers at epsilon {epsilon:g}: it ends below 6. The largest that it tried is 5.99."
NO_FORMULA_REMEDY = "Name epsilons below 6, such as 0.6, 1 and 5.99."

SUMMARY_TITLE = "What this is"
SUMMARY = (
    "In 2024 a report of two Canadian agencies compared three ways to protect the people in a health survey with noise: on each "
    "respondent's answers (local), on the answers, which then change places (shuffled), and on the results (global). This page runs its "
    "methods as they were run, on {rows:,} rows, and prints beside each figure what is wrong with it."
)
NO_EPSILON = (
    "No finite epsilon is justified for this pipeline. The noise is as wide as the range that the data happen to have, the list of "
    "answers is taken from the data, and the respondents' numbers and weights stay beside the answers. Do not read an epsilon below as a promise."
)
REPRODUCED = (
    "Of {compared} published errors, {near} lie within two standard deviations of what the methods as described here are expected "
    "to give. About 95 in 100 do if the description is right."
)
CITIZEN_SUMMARY = (
    "The report asked how far off the answers are when noise protects the people in a survey. Its program was built with mistakes: the "
    "people were not protected as it says, some of the errors that it prints are far too large and others far too small. Neither tells what protection costs."
)
SPECIALIST_SUMMARY = (
    "The expected shift is exact, given the weights; the published errors are means of absolute errors over 5 runs. The shuffled runs all had one seed: in every published weighted sum the mean of five has two "
    "decimals, as one run has, so that they count as one run here."
)

FIGURES_TITLE = "The largest province: {province}"
FIGURES_INTRO = (
    "Daily smokers are a weighted count; the truth is {smokers:,.0f} people. Mean height is in metres; the file's mean is {height:.3f}, "
    "with the codes for 'not stated' averaged in."
)
FIGURES_COLUMNS = (
    "Shift: how far off the answers are on average. Deviation: the standard deviation of the mean over {runs} runs. Expected: the mean "
    "absolute error. These three are in closed form; the next two columns are mean absolute errors from runs, ours and the published ones."
)
PROVINCES_TITLE = "All provinces"
PROVINCES_INTRO = "Expected and published mean absolute errors. The expected ones need no run."
SMOKERS_LOCAL = "Daily smokers, local noise: error in people"
SMOKERS_SHUFFLED = "Daily smokers, shuffled: error in people"
SMOKERS_GLOBAL = "Daily smokers, global noise: error in people"
HEIGHT_LOCAL = "Mean height, local noise: error in metres"
HEIGHT_SHUFFLED = "Mean height, shuffled: error in metres"
HEIGHT_GLOBAL = "Mean height, global noise: error in metres"
EPSILON = "Epsilon"
SHIFT = "Shift"
DEVIATION = "Deviation"
ABSOLUTE = "Expected"
SIMULATED = "Our runs"
PUBLISHED = "Published"
WRONG = "What is wrong"
PROVINCE = "Province"
EXPECTED_AT = "Expected at {epsilon:g}"
PUBLISHED_AT = "Published at {epsilon:g}"
LOCAL_COUNT_WRONG = "Epsilon is {real:.2f} even if the list of answers were public, not {claimed:g}. {replaced:.1f}% of the answers are replaced, and the count is not corrected for that."
LOCAL_HEIGHT_WRONG = "No finite epsilon: the noise is for the observed range of {width:.3f} m. Absolute values make people {shift:.2f} m taller."
SHUFFLED_WRONG = (
    "No finite epsilon: {kept:.2f}% of the answers are sent as they are. The others are made up, at any epsilon."
)
GLOBAL_COUNT_WRONG = "Epsilon is {real:,.0f} even if the largest weight were public, not {claimed:g}: one respondent counts for up to {weight:,.0f} people, the noise hides one."
GLOBAL_HEIGHT_WRONG = (
    "No finite epsilon: the noise is as wide as the observed range. Even if the range were public, epsilon would be up to {real:,.0f}, not {claimed:g}: "
    "the noise is for a mean over {rows:,} rows, a province has fewer."
)
SCALED = "The global error of mean height, times epsilon, times {rows:,} rows, is {expected:.2f} m on average: the observed range, from {low:.2f} m to the code {high:.3f}."
SCALED_PUBLISHED = "Over provinces and epsilons, the published errors give {published:.2f} m."
PLOT_SMOKERS = "Error of the count of daily smokers, local noise"
PLOT_SMOKERS_DESCRIPTION = "Expected, in our runs and as published, for each epsilon. The three agree."
PLOT_HEIGHT = "Error of mean height: local and shuffled"
PLOT_HEIGHT_DESCRIPTION = (
    "The local error falls as epsilon grows; the shuffled one stays, because nearly every value is made up."
)
PLOT_PEOPLE = "Error in people"
PLOT_METRES = "Error in metres"
GROUP = "epsilon {epsilon:g}"
LOCAL_EXPECTED = "local, expected"
LOCAL_PUBLISHED = "local, published"
SHUFFLED_EXPECTED = "shuffled, expected"
SHUFFLED_PUBLISHED = "shuffled, published"
LOCAL_SIMULATED = "local, in our runs"
SHUFFLED_SIMULATED = "shuffled, in our runs"

PROMISES_TITLE = "What was claimed, and what is true"
PROMISES_CAUTION = "An epsilon measured from below is at least so large: the two samples can be told apart so well."
PROMISES_REAL = (
    "A number under 'Real' would hold if the list of answers and the largest weight had been public. Both come from the data here, so that none is finite without that. "
    "A province's mean has no number there: its noise is as wide as the observed range. Even if the range had been public, epsilon would be at least {times:,.0f} times the claim in one province."
)
PROMISES_EXCEEDED = "Each is larger than the claim."
PROMISES_SOME_EXCEEDED = (
    "{exceeded} of {measured} are larger than the claim; for the others the samples are too small to show it."
)
PROMISES_ERROR = "The bounds are those of Clopper and Pearson; each is wrong with a probability of one in a thousand million at most."
PROMISES_CAPTION = "Epsilon of one answer, or of one column of one respondent"
WORLDS_CAPTION = "The two neighbouring worlds of each measurement"
METHOD = "Method"
CLAIMED = "Claimed"
REAL = "Real"
MEASURED = "At least, measured"
NEIGHBOURS = "What differs between the two worlds"
UNBOUNDED = "none is finite"
LOCAL_CATEGORY = "Local, a category"
LOCAL_CATEGORY_WORLDS = "One respondent's answer is another one."
LOCAL_NUMBER = "Local, a number"
LOCAL_NUMBER_WORLDS = (
    "Another respondent states a height, or has the code for 'not stated': the noise of everybody changes its width."
)
SHUFFLED = "Shuffled"
SHUFFLED_WORLDS = "One respondent's answer is the last category, which nobody is ever given, or the first."
GLOBAL_COUNT = "Global, a weighted count"
GLOBAL_COUNT_WORLDS = "The respondent with the largest weight is in the survey, or is not."
GLOBAL_MEAN = "Global, a province's mean"
GLOBAL_MEAN_WORLDS = (
    "The height of the respondent with the largest part in a province's mean is the largest, or the smallest."
)
CATEGORY_LINE = "ln( keep / ((1 - keep) / (k - 1)) ) = epsilon + ln(k - 1), with keep = e^epsilon / (1 + e^epsilon)"
CATEGORY_WORDS = (
    "The chance of being replaced is shared by the {others} other categories, so that each of them is {others} times rarer than it "
    "would be with two. The right chance of keeping is e^epsilon / (e^epsilon + k - 1), which is the published one for two categories only."
)

STEPS_TITLE = "Step by step"
STEP_CATEGORY = (
    "Categories. Each answer is kept with probability e^epsilon / (1 + e^epsilon), however many categories there are, and replaced by one "
    "of the others otherwise. With k categories the real epsilon is larger by ln(k - 1). The counts are published as they come, "
    "although an unbiased estimate from them takes one line."
)
STEP_LIST = (
    "Lists and ranges. The categories are those that occur in the file, and the noise on a number is as wide as the range that occurs "
    "there. Both tell who is in the file: a category that one person has appears or does not, and one tall person widens everybody's noise."
)
STEP_FOLDED = (
    "Folding. A noisy height or weight below 0 loses its sign. Nothing is gained for privacy, and the mean grows by the noise that was "
    "folded up: at epsilon 0.6 people are on average more than 14 metres tall."
)
STEP_SHUFFLED = (
    "The shuffled method. Its authors replace an answer with the small probability gamma and keep it otherwise; the pipeline keeps it with gamma and "
    "replaces it otherwise. Gamma is about 0.4% at epsilon 0.6, 3.8% at 1 and 0.6% at 5.99, so that the output is noise at each, and epsilon has no effect."
)
STEP_REPLACED = (
    "What replaces an answer. A number is drawn between 1 and the largest observed value, because one end was left to the library. A category is "
    "drawn from all but the last: a respondent who is reported with the last one really has it."
)
STEP_ORDER = (
    "The order. The respondents' numbers travel with the answers, and the file is put back in its old order by them. Nothing is shuffled: "
    "every respondent is alone with a number, and the theorems about shuffling give nothing."
)
STEP_ALONE = (
    "What stays unchanged. Province, health region, sex, marital status, age group, weight and the respondent's number stand beside the noisy answers as they are. "
    "In this file {alone:.0f}% of the respondents are alone with their province and weight: an attacker who knows the two finds the row, whatever the noise."
)
STEP_DELTA = "Delta is 1.0. An epsilon with delta 1 forbids nothing: publishing the whole file would keep it."
STEP_COUNT = "Weighted counts. The noise is for one person more or less. One respondent stands for up to {weight:,.0f} people, so that the real epsilon is as many times larger."
STEP_SHARE = (
    "Weighted shares get the noise of a count: at epsilon 0.6 a share between 0 and 1 is off by 1.7 on average."
)
STEP_MEAN = (
    "Means of a province. The range is divided by all {rows:,} rows of the file, where it should be multiplied by the largest part that "
    "one respondent has in that province's weighted mean, which is up to {times:,.0f} times larger. The error looks small because the noise is."
)
STEP_SPENT = (
    "Spending. Each answer gets epsilon anew. A run has {answers} answers about each respondent (eight columns of categories, each as count, "
    "frequency and share, and two numbers, each as total and mean), and five runs were published as means: {answers} epsilon for a run, {all} for five, even if each "
    "answer kept its own."
)

CODES_TITLE = "Codes averaged as if they were heights"
CODES_INTRO = (
    "Height in metres has the codes 9.996 and 9.999 where no height applies or none was stated; weight in kilograms has codes such as 999.99. "
    "The report averaged them in, and its ranges end with them: noise for a range of {width:.3f} m hides people between {low:.2f} m and {high:.3f} m."
)
CODES_CAPTION = "Mean height in metres"
CODES_SHARE = "Share of people with a code"
CODES_WITH = "With the codes, as published"
CODES_WITHOUT = "Of those who stated one"
WHOLE = "All"

LABELS_TITLE = "Labels that were misread"
LABELS_INTRO = (
    "The answers were numbered in the alphabetical order of their labels, from 0, and the numbers were then read as the survey's own "
    "codes. Three of the six columns that the report follows bear a wrong label for this reason. Daily smokers are number 0 of SMK_005 either way, and are right."
)
LABELS_CAPTION = "What a number means, and what it is taken for if it is read as the survey's code"
LABELS_NOTE = (
    "Labels are shown as the survey has them. Numbers without a code of the same value are left out. SMK_020 was numbered by the labels "
    "'Daily' and 'Occasionally' of SMK_005; its own are 'Yes' and 'No'."
)
COLUMN = "Column"
NUMBER = "Number"
MEANS = "It means"
TAKEN_FOR = "It is taken for"

COMPOSITION_TITLE = "What one respondent spends"
COMPOSITION_CAPTION = "Epsilon of one respondent, as the report counts and as it adds up"
COMPOSITION_CLAIMED = "Claimed"
COMPOSITION_LOCAL = "Local: ten columns"
COMPOSITION_GLOBAL = "Global: 28 answers"
COMPOSITION_FIVE = "Global: five runs"
COMPOSITION_NOTE = (
    "Lower limits of what the report should have said: they take the observed ranges and lists as public, and each global answer at "
    "the epsilon that it claims."
)
RIGHTLY_TITLE = "The same count, built rightly"
RIGHTLY_INTRO = (
    "Local: each answer is kept with the right chance, and the count is estimated without bias. Global: the noise is for the weight of one "
    "respondent. Both keep the epsilon of their row for one answer; the published ones do not."
)
RIGHTLY_CAPTION = "Daily smokers in {province}: expected absolute error in people"
RIGHTLY_NOTE = "The largest weight, {weight:,.2f}, is taken as a public cap. At large epsilons the published local error is smaller because its real epsilon is larger."
LOCAL_AS_PUBLISHED = "Local, as published"
LOCAL_RIGHTLY = "Local, built rightly"
GLOBAL_AS_PUBLISHED = "Global, as published"
GLOBAL_RIGHTLY = "Global, built rightly"
SOURCES_TITLE = "Sources"
SOURCE_REPORT = (
    "The report's program, settings and results: PHACDataHub/statscan-phac-diffpriv-collab, results of March 2024"
)
SOURCE_DATA = (
    "Exact sums and means by province: Canadian Community Health Survey 2017-2018, public-use file, Statistics Canada Open Licence; the rows that "
    "come with this product are synthetic and fit those sums"
)
SOURCE_SHUFFLE = "The shuffled method as its authors have it: Scott, Cormode and Maple, Applying the Shuffle Model of Differential Privacy to Vector Aggregation"
