"""Texts of `researcher estimate`."""

from __future__ import annotations

PART_HELP = "The cell to estimate, by its label in the answer, e.g. French; several for their sum."
AMONG_HELP = "The cells that a share is a share of, those of --part included; all cells of the answer by default."
AGAINST_HELP = "The cells to compare with; all but --part by default."
WEIGHTS_HELP = "One for each answer, e.g. 0.2,0.5,0.3: the groups' parts of a standard population. Scaled to sum to 1."
SCORES_HELP = "One for each answer, e.g. 40,50,60: where the groups stand. 1, 2, 3 ... by default."

# The estimates, and how their numbers are written.
TITLES = {
    "share": "Share of {part}: {value}",
    "difference": "Difference of the shares of {part}: {value}",
    "ratio": "Ratio of the shares of {part}: {value}",
    "rate_ratio": "Rate ratio, {part} against {against}: {value}",
    "standardised_rate": "Standardised rate of {part}: {value}",
    "trend": "Trend of the share of {part}: {value}",
}
PERCENT = "{value:.2f} %"
POINTS = "{value:+.2f} points"
POINTS_A_SCORE = "{value:+.3f} points for one unit of score"
TIMES = "{value:.2f}"
NO_VALUE = "no value, since a total is not above 0"
FROM_TO = "{low} to {high}"
AT_LEAST = "{low} or more"
UNTOLD = "cannot be told from so few people with so much noise"

ESTIMATE = """\
{title}
  noise only     {noise_only}
                 about exactly the people counted; {noise_method}
  with sampling  {with_sampling}
                 about a population that they are like a random draw from; {sampling_method}
  intervals      cover the truth 19 times out of 20, each by itself
  people         whose budget is not used up: everybody else is in no count"""
OF_ASKED = (
    "\n  asked          1 household in {one_in}; the variance of sampling is that of persons times {design_effect}"
)
OF_FRACTION = "\n  fraction       {fraction}: the people counted are those drawn; about everybody who matches, read 'with sampling'"
ANSWER = "\n  {role:<13}  {where}\n                 query {query}, scale {scale}"
GROUP = "group"
GROUPS = "group {number}"
GROUP_WEIGHED = "weight {weight}"
GROUP_AT = "score {score}"
INSIDE = "inside"
OUTSIDE = "outside"

QUERY = "query {query}"
UNANSWERED = "has no answer yet"
UNANSWERED_REMEDY = "Fetch it with 'tripartite researcher answers --collect {query}'."
ONE_CELL = "counts in one cell, {label}: there is nothing to divide by"
ONE_CELL_REMEDY = "Ask with --of all, which adds everybody else to the same answer for the same price."
NO_SUCH_CELL = "is no cell of query {query}: {label}"
NO_SUCH_CELL_REMEDY = "Its cells are: {cells}."
EVERY_CELL = "names every cell, so that its share is 1"
EVERY_CELL_REMEDY = "Leave some to compare with; the cells are: {cells}."
NOT_AMONG = "leaves out a cell of --part"
NOT_AMONG_REMEDY = "Name the cells of --part there as well."
IN_BOTH = "names a cell of --part"
IN_BOTH_REMEDY = "Compare with other cells."
OTHER_VARIABLE = "counts {variable}, and {other} was counted before it"
OTHER_VARIABLE_REMEDY = "Estimate from answers about one variable."
SAME_QUERY = "is named twice"
SAME_QUERY_REMEDY = "Give answers of different questions: the noise of one answer is compared with that of another."
OTHER_CELLS = "has other cells than query {query}"
OTHER_CELLS_REMEDY = "Ask for the same --count of the people with a condition and of those with not (...)."
OTHER_FRACTION = "was asked with fraction {fraction}, and the one before it with {other}"
OTHER_FRACTION_REMEDY = "Ask both with the same fraction: a rate adds their counts."
NUMBERS = "must be {count} numbers, one for each answer, with commas between them"
NUMBERS_REMEDY = "Write them like 1,2.5,4; weights are not below 0 and not all 0, scores are not all the same."
FEW_GROUPS = "are {count} answers"
FEW_GROUPS_REMEDY = "A trend needs two or more, each of another group of people."
